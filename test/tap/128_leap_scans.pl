# leap.scans = all: statements that name no keys read the rows of all nodes, as one table of all
# rows would be read; nothing of it is left behind after errors and early ends, nothing is written.
use strict;
use warnings FATAL => 'all';

use LeapCluster;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $cluster = LeapCluster->new(3);
my ($one, $two, $three) = $cluster->nodes;
my $all = "SET leap.scans = 'all'; ";

sub sql { my ($node, $sql) = @_; return $node->safe_psql('postgres', $sql) }

sub fails
{
	my ($node, $sql, $pattern, $name) = @_;
	my ($status, $out, $error) = $node->psql('postgres', $sql, on_error_stop => 1);

	return ok($status != 0 && $error =~ $pattern, $name) || diag("status $status: $out$error");
}

# Keys of an interval come to a node.
sub own
{
	my ($node, $table, $from, $to) = @_;

	sql($node, "SELECT leap.own('$table',
		ARRAY(SELECT i::text FROM generate_series($from, $to) i))");
	return;
}

# What the nodes have, each for itself.
sub together
{
	my ($table) = @_;
	my @rows = sort { ($a =~ /^(\d+)/)[0] <=> ($b =~ /^(\d+)/)[0] }
	  map { split /\n/, LeapCluster::here($_, $table) } $one, $two, $three;

	return join "\n", @rows;
}

# No statement of a scan is left on a node.
sub none_left
{
	my ($node, $name) = @_;

	return ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity
		WHERE state = 'active' AND query ~ 'peer_scan' AND pid <> pg_backend_pid()}), $name);
}

# --- Rows of all nodes.

$cluster->create('account', 'id int PRIMARY KEY, v int NOT NULL, t text, u int UNIQUE, d date,
	f float8, n numeric(10, 2)[]');
$cluster->create('other', 'a int, b text, w bigint, PRIMARY KEY (a, b)');
foreach my $node ($one, $two, $three)
{
	# A dropped column on one of them: columns go by their names.
	sql($node, 'ALTER TABLE account ADD x int; ALTER TABLE account DROP x') if $node == $two;
	sql($node, 'ALTER TABLE account ADD y text');
}
sql($one, q{INSERT INTO account SELECT i, i % 10, CASE WHEN i % 7 > 0 THEN 't,"\\( ' || i END,
	CASE WHEN i > 3 THEN i END, '2026-01-01'::date + i, i / 7.0, ARRAY[i, NULL, -i / 3.0], 'y' || i
	FROM generate_series(1, 300) i;
	INSERT INTO other SELECT i, 'b' || i % 3, i * 10000000000 FROM generate_series(1, 90) i});
own($two, 'account', 101, 200);
own($three, 'account', 201, 300);
sql($two, q{SELECT leap.own('other', ARRAY(SELECT i || ',b' || i % 3
	FROM generate_series(20, 50) i))});
is(sql($_, $all . 'SELECT * FROM account ORDER BY id'), together('account'), $_->name . ' sees all')
  foreach $one, $two, $three;
is(sql($three, $all . 'SELECT a, b, w FROM other ORDER BY a'), together('other'),
	'of a key of two columns, too');
is(sql($one, $all . 'SELECT count(*), sum(v), min(id), max(id), count(t) FROM account'),
	sql($one, q{SELECT count(*), sum(i % 10), min(i), max(i), count(*) FILTER (WHERE i % 7 > 0)
		FROM generate_series(1, 300) i}), 'and as was inserted');
is(sql($one, 'SET leap.scans = local; SELECT count(*) FROM account'), '100', 'local is as ever');
fails($one, 'SELECT count(*) FROM account', qr/does not name the keys/, 'so is refuse');

# --- Statements: each gives on leap tables what it gives on plain copies, however it is planned.

sql($one, $all . q{CREATE TABLE c_account AS SELECT * FROM account;
	CREATE TABLE c_other AS SELECT * FROM other;
	CREATE TABLE plain AS SELECT i, i % 5 AS k FROM generate_series(1, 20000) i;
	ANALYZE c_account, c_other, plain});
my @statements = (
	'SELECT count(*) FROM account',
	'SELECT v, count(*), sum(id), max(t) FROM account GROUP BY v ORDER BY v',
	'SELECT * FROM account WHERE id > 95 AND id < 205 ORDER BY id DESC LIMIT 120',
	q{SELECT id, n FROM account WHERE t = 't,"\\( 150' OR t IS NULL AND v IN (1, 2, 3) ORDER BY 1},
	q{SELECT id FROM account WHERE t > 't,"\\( 2' AND d < '2026-03-03' AND y LIKE '%5' ORDER BY 1},
	q{SELECT sum(f), sum(n[1] - n[3]) FROM account WHERE NOT (v = 3 OR f > 20.5)},
	'SELECT a FROM account a WHERE id % 50 = 0 ORDER BY id',
	'SELECT count(*), sum(w), min(b) FROM account JOIN other ON id = a',
	'SELECT count(*), sum(x.id), sum(z.id) FROM account x JOIN account z ON x.v = z.v + 1
		WHERE x.id > 50',
	'SELECT x.id, z.v FROM account x JOIN account z USING (id) WHERE x.f < z.f + 1 ORDER BY 1',
	'SELECT k, count(*), count(a.id), sum(v) FROM plain LEFT JOIN account a ON i = a.id
		GROUP BY k ORDER BY k',
	'SELECT count(*) FROM plain WHERE i IN (SELECT id + v FROM account)',
	'SELECT i, (SELECT max(v) FROM account WHERE id < i) FROM plain WHERE i < 9 ORDER BY 1',
	'SELECT i, (SELECT count(*) FROM account WHERE id + 0 = i * 40) FROM plain WHERE i < 9
		ORDER BY 1',
	'SELECT count(*) FROM plain p WHERE NOT EXISTS (SELECT FROM account
		WHERE account.id > p.i * 2)',
	'SELECT count(*) FROM plain, LATERAL (SELECT id FROM account WHERE id > i ORDER BY id LIMIT 2) l
		WHERE i BETWEEN 90 AND 120',
	'SELECT id FROM account EXCEPT SELECT a FROM other ORDER BY 1 LIMIT 20',
	'SELECT count(*) FROM (SELECT id FROM account UNION ALL SELECT a FROM other) s',
	'SELECT id, v FROM account WHERE id IN (5, 105, 205) ORDER BY 1',
	'SELECT x.id, z.id FROM account x JOIN account z ON x.id = z.v WHERE z.id = 106',
	'WITH m AS MATERIALIZED (SELECT v FROM account) SELECT a.v, b.v FROM m a, m b
		WHERE a.v = b.v ORDER BY 1 LIMIT 3',
	'SELECT count(*) FROM account x, account z, account w WHERE x.id = z.v AND z.id = w.v',
	'SELECT id FROM account WHERE false',
	'SELECT k, c, count(*) FROM (SELECT k, count(*) AS c FROM plain GROUP BY k) p, account
		WHERE v = k GROUP BY k, c ORDER BY k');
my %planned = (
	'as it is' => '',
	'by nested loops' => 'SET enable_hashjoin = off; SET enable_mergejoin = off;
		SET enable_material = off; SET enable_memoize = off;',
	'by merging' => 'SET enable_hashjoin = off; SET enable_nestloop = off;',
	'with workers' => 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
		SET min_parallel_table_scan_size = 0;');
foreach my $how (sort keys %planned)
{
	foreach my $statement (@statements)
	{
		my $copy = $statement =~ s/\b(?=(account|other)\b)/c_/gr;

		is(sql($one, "$all$planned{$how} $statement"), sql($one, "$planned{$how} $copy"),
			"$how: " . $statement =~ s/\s+/ /gr);
	}
}
is(sql($one, "SELECT leap.own('account', '{5,105,205}')"), '3', 'what names keys has fetched them');
is(LeapCluster::here($two, 'account') =~ /^105\|/m ? 1 : 0, 0, 'and they are owned');
# Columns of a key bound by OR: by each for itself, in pairs, and beside another condition.
foreach my $condition (q{(a, b) IN ((25, 'b1'), (26, 'b2'))}, q{(a, b) IN ((25, 'b1'), (28, 'b1'))},
	q{(a = 25 OR a IN (28, 29)) AND (b = 'b1' OR b = 'b2')})
{
	my $statement = "SELECT a, b FROM other WHERE $condition ORDER BY a";

	unlike(sql($one, "${all}SET enable_indexscan = off; SET enable_bitmapscan = off;
		SET enable_indexonlyscan = off; EXPLAIN $statement"), qr/Leap Scan/, "named: $condition");
	is(sql($one, "SET enable_indexscan = off; SET enable_bitmapscan = off;
		SET enable_indexonlyscan = off; $statement"),
		sql($one, $statement =~ s/other/c_other/r), 'by a sequential scan');
}
foreach my $condition (q{a = 26 AND (b = 'b1' AND w > 3 OR b = 'b2' AND w > 4)},
	q{a IN (5, 25, 26) AND b <> 'b3'}, q{(a = 30 OR b = 'b1') AND a IN (30, 31)})
{
	my $statement = "SELECT a, b, w FROM other WHERE $condition ORDER BY a";

	is(sql($one, $all . $statement), sql($one, $statement =~ s/other/c_other/r), $condition);
}
like(sql($one, "$all$planned{'with workers'} EXPLAIN (COSTS OFF) $statements[-1]"),
	qr/Workers Planned.*Leap Scan|Leap Scan.*Workers Planned/s, 'workers read beside it');
is(sql($one, $all . 'SELECT count(*) FROM leap.everywhere(NULL::account)'), '300', 'everywhere()');
own($two, 'account', 101, 200);
own($three, 'account', 201, 300);

# --- A unique constraint that holds on each node alone does not mislead the planner.

sql($one, 'UPDATE account SET u = 7777 WHERE id = 9');
sql($two, 'UPDATE account SET u = 7777 WHERE id = 109');
sql($one, 'CREATE TABLE seven AS SELECT 7777 AS u');
is(sql($one, $all . 'SELECT count(*) FROM seven LEFT JOIN account USING (u)'), '2',
	'values that are unique on each node are not unique');
is(sql($one, $all . 'SELECT count(*) FROM (SELECT u, v FROM account WHERE u = 7777
	GROUP BY u, v) s'), '1', 'and equal rows are one group');

# --- Early ends.

sql($two, q{CREATE TABLE big (id int PRIMARY KEY, t text) USING leanstore;
	INSERT INTO big SELECT i, repeat('x', 1000) || i FROM generate_series(1, 20000) i;
	SELECT leap.create('big')});
is(sql($one, $all . 'SELECT count(*) FROM (SELECT id FROM big LIMIT 10) s;
	SELECT count(*) FROM big WHERE length(t) > 1000;
	SELECT count(*) FROM (SELECT t FROM big LIMIT 1) s; SELECT sum(id) FROM big'),
	"10\n20000\n1\n200010000", 'LIMIT, and all again');
is(sql($one, $all . q{BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 3 IN c; CLOSE c;
	DECLARE c CURSOR FOR SELECT id FROM big; MOVE 3 IN c;
	SAVEPOINT s; DECLARE e CURSOR FOR SELECT id FROM big; MOVE 500 IN e; ROLLBACK TO s;
	SELECT count(*) FROM big; MOVE ALL IN c; DECLARE d CURSOR FOR SELECT id FROM big; MOVE 1 IN d;
	ROLLBACK; SELECT count(*) FROM big}), "20000\n20000", 'cursors that are closed');
is(sql($one, $all . q{BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT id FROM big ORDER BY id;
	FETCH 1 FROM c; COMMIT; FETCH ABSOLUTE 20000 FROM c}), "1\n20000", 'one that outlives COMMIT');
is(sql($one, $all . q{BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM account;
	MOVE 250 IN c; MOVE BACKWARD ALL IN c; CREATE TEMP TABLE f (n int);
	DO $$ DECLARE c refcursor := 'c'; r record; n int := 0; BEGIN
		LOOP FETCH c INTO r; EXIT WHEN NOT FOUND; n := n + 1; END LOOP; INSERT INTO f VALUES (n);
	END $$; SELECT n FROM f; COMMIT}), '300', 'one that goes back');
is(sql($one, $all . q{CREATE FUNCTION early() RETURNS int LANGUAGE plpgsql AS $$
	DECLARE n int := 0; r record; BEGIN
		FOR i IN 1 .. 20 LOOP
			BEGIN
				FOR r IN SELECT id FROM big LOOP
					n := n + 1;
					IF i % 2 = 0 THEN RAISE division_by_zero; END IF;
					EXIT WHEN i % 2 = 1;
				END LOOP;
			EXCEPTION WHEN division_by_zero THEN NULL;
			END;
		END LOOP;
		RETURN n;
	END $$; SELECT early(); SELECT count(*) FROM big}), "20\n20000", 'loops that are left');
fails($one, $all . 'SELECT 1 / (id - 15000) FROM big', qr/division by zero/, 'an error here');
fails($one, $all . "SELECT count(*) FROM big WHERE 1 / (id - 15000) > 2",
	qr/leap node "b": division by zero/, 'an error there');
none_left($two, 'nothing is left on the other node');
is(sql($one, $all . q{SET work_mem = '64kB'; SELECT count(*), count(DISTINCT b.t) FROM plain
	JOIN big b ON b.id = i % 2 WHERE i < 4}), '2|1', 'rows that are kept for a second time');

# --- Prepared statements meet another setting.

is(sql($one, q{SET plan_cache_mode = force_generic_plan; PREPARE q AS SELECT count(*) FROM account;
	PREPARE p(int) AS SELECT count(*) FROM account WHERE id > $1;
	SET leap.scans = local; EXECUTE q; EXECUTE p(150); SET leap.scans = 'all'; EXECUTE q;
	EXECUTE p(150); EXECUTE p(250); SET leap.scans = local; EXECUTE q; EXECUTE p(0);
	BEGIN; SET LOCAL leap.scans = 'all'; EXECUTE q; ROLLBACK; EXECUTE q;
	BEGIN; SET leap.scans = 'all'; EXECUTE q; ROLLBACK; EXECUTE q;}),
	join("\n", 100, 0, 300, 150, 50, 100, 100, 300, 100, 300, 100),
	'a prepared statement follows leap.scans');
fails($one, q{SET plan_cache_mode = force_generic_plan; PREPARE q AS SELECT count(*) FROM account;
	SET leap.scans = 'all'; EXECUTE q; SET leap.scans = refuse; EXECUTE q},
	qr/does not name the keys/, 'and is refused');
is(sql($one, q{CREATE FUNCTION of_all() RETURNS bigint LANGUAGE plpgsql SET leap.scans = 'all' AS
	'BEGIN RETURN (SELECT count(*) FROM account); END';
	CREATE FUNCTION of_here() RETURNS bigint LANGUAGE plpgsql SET leap.scans = local AS
	'BEGIN RETURN (SELECT count(*) FROM account); END';
	CREATE FUNCTION by_sql() RETURNS bigint LANGUAGE sql SET leap.scans = 'all' AS
	'SELECT count(*) FROM account';
	SELECT of_all(), of_here(), by_sql() FROM generate_series(1, 3)}),
	join("\n", ('300|100|300') x 3), 'functions have their own');
is(sql($one, $all . q{SET plan_cache_mode = force_generic_plan;
	CREATE FUNCTION passed(x int, until date) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE n bigint; BEGIN
		SELECT count(*) INTO n FROM account WHERE id > x AND d <= until;
		x := x + 100;
		RETURN n || ' ' || (SELECT count(*) FROM account WHERE id > x AND d <= until);
	END $$; SELECT passed(50, '2026-08-09'), passed(NULL, '2026-08-09');
	SET leap.scans = local; SELECT passed(50, '2026-08-09')}), "170 70|0 0\n50 0",
	'values of variables are sent');
is(sql($one, q{SET plan_cache_mode = force_generic_plan; SET leap.scans = 'all';
	PREPARE p(int) AS SELECT v FROM account WHERE id = $1; EXECUTE p(105); EXECUTE p(205);
	SET leap.scans = refuse; EXECUTE p(206)}), "5\n5\n6", 'a statement that names keys owns them');
own($two, 'account', 101, 200);
own($three, 'account', 201, 300);

# --- EXPLAIN.

my $plan = sql($one, $all . q{EXPLAIN (COSTS OFF) SELECT v FROM account
	WHERE id > 10 AND d < '2026-05-05' AND t > 'a' AND v < random() * 10});
is($plan, q{Custom Scan (Leap Scan) on account
  Filter: ((id > 10) AND (d < '2026-05-05'::date) AND (t > 'a'::text) AND }
	. q{((v)::double precision < (random() * '10'::double precision)))
  Nodes Asked: b, c
  Columns Asked For: id, v, t, d
  Condition Sent: ((id > 10) AND (d < '2026-05-05'::date))}, 'what is asked for');
like(sql($one, $all . 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, BUFFERS OFF)
	SELECT id FROM account WHERE id > 150'),
	qr/rows=150.*Removed by Filter: 100.*Asked: b \(rows=50\), c \(rows=100\).*Read: 100/s,
	'and what came');
like(sql($one, $all . 'EXPLAIN (GENERIC_PLAN) SELECT v FROM account WHERE id > $1'),
	qr/Condition Sent: \(id > \$1\)/, 'before there are values');
like(sql($one, q{SET datestyle = german; SET plan_cache_mode = force_generic_plan;
	SET leap.scans = 'all';
	PREPARE p(date, text) AS SELECT id FROM account WHERE d > $1 AND t <> $2;
	EXPLAIN (COSTS OFF) EXECUTE p('02.01.2026', 'o''x')}),
	qr/Condition Sent: .*\(d > '2026-01-02'::date\) AND \(t <> 'o''x'::text\)/, 'with its values');
unlike(sql($one, $all . "EXPLAIN SELECT v FROM account WHERE id = 7"), qr/Leap Scan/,
	'what names keys is read as ever');
sql($_, 'ANALYZE account') foreach $one, $two, $three;
like(sql($one, $all . 'EXPLAIN SELECT * FROM account'), qr/Leap Scan.*rows=300 /,
	'as many rows are expected as there are');

# --- Other rights on other nodes.

sql($_, q{CREATE ROLE reader; CREATE ROLE viewer; GRANT SELECT (id, v, t, f) ON account TO reader;
	CREATE VIEW shown AS SELECT id, t FROM account WHERE id % 2 = 0;
	GRANT SELECT ON shown TO viewer}) foreach $one, $two, $three;
my $reader = "$all SET ROLE reader; ";
is(sql($one, $reader . 'SELECT count(*), count(t) FROM account'), '300|258', 'a role with rights');
is(sql($one, $reader . 'SELECT count(*) FROM account'), '300', 'to some columns');
fails($one, $reader . 'SELECT y FROM account', qr/permission denied for table account/, 'only');
is(sql($one, "$all SET ROLE viewer; SELECT count(*) FROM shown"), '150', 'a view has its owner\'s');
sql($two, 'REVOKE SELECT (v) ON account FROM reader');
is(sql($one, $reader . 'SELECT count(id) FROM account'), '300', 'rights of another node count');
fails($one, $reader . 'SELECT v FROM account',
	qr/leap node "b": permission denied for table account/, 'for what is asked there');
sql($two, 'REVOKE SELECT (id, t, f) ON account FROM reader');
fails($one, $reader . 'SELECT count(*) FROM account',
	qr/leap node "b": permission denied for table account/, 'even if no column is');
sql($two, 'GRANT SELECT ON account TO reader');
sql($_, q{ALTER TABLE account ENABLE ROW LEVEL SECURITY;
	CREATE POLICY p ON account USING (current_user = 'reader' AND v < 5)})
  foreach $one, $two, $three;
is(sql($one, $reader . 'SELECT count(*), max(v) FROM account'), '150|4', 'row security');
sql($two, q{ALTER POLICY p ON account USING (id < 150)});
is(sql($one, $reader . 'SELECT count(*) FROM account WHERE id BETWEEN 101 AND 200'), '24',
	'that of both nodes');
sql($two, q{ALTER POLICY p ON account USING (id IN (150, 250))});
is(sql($one, $reader . 'SELECT count(*) FROM account WHERE id BETWEEN 101 AND 200'), '1',
	'one that names keys fetches none');
sql($two, q{CREATE FUNCTION escape(int) RETURNS boolean LANGUAGE plpgsql AS
	$$BEGIN PERFORM set_config('role', 'none', false); RETURN true; END$$;
	ALTER POLICY p ON account USING (public.escape(id))});
fails($one, $reader . 'SELECT count(*) FROM account', qr/cannot set parameter "role"/,
	'a policy does not leave the role');
# A function of the query that would tell of rows that a policy here hides is not sent.
sql($two, 'ALTER POLICY p ON account USING (true)');
unlike(sql($one, $reader . 'EXPLAIN SELECT id FROM account WHERE 1 / (v - 9) < 3'),
	qr/Condition Sent.*\//, 'conditions do not go past a policy');
is(sql($one, $reader . 'SELECT count(*) FROM account WHERE 1 / (v - 9) < 3'), '150', 'nor fail');
sql($one, 'CREATE ROLE only_here; GRANT SELECT ON account TO only_here');
fails($one, $all . 'SET ROLE only_here; SELECT count(*) FROM account',
	qr/leap node "[bc]": role "only_here" does not exist/, 'a role that is not there');
is(sql($one, $all . q{CREATE TABLE f AS SELECT 1 AS x; CREATE FUNCTION opened(c refcursor)
	RETURNS refcursor LANGUAGE plpgsql SECURITY DEFINER AS
	$$BEGIN OPEN c FOR SELECT y FROM account, f WHERE id > 299; RETURN c; END$$;
	BEGIN; SET ROLE only_here; SELECT opened('c'); FETCH ALL FROM c;
	COMMIT}), "c\ny300", 'a cursor reads as the role that opened it');
fails($one, "SET ROLE reader; SELECT leap.peer_scan('account', 'postgres', '{id}', '')",
	qr/permission denied for function peer_scan/, 'and nothing but the nodes calls nodes');
sql($_, 'DROP POLICY p ON account; ALTER TABLE account DISABLE ROW LEVEL SECURITY')
  foreach $one, $two, $three;

# --- What would write, or lock.

fails($one, $all . 'UPDATE account SET v = 0 WHERE v = 1', qr/that it changes.*read only/s,
	'UPDATE');
fails($one, $all . 'DELETE FROM account', qr/that it changes/, 'DELETE');
fails($one, $all . 'MERGE INTO account USING plain ON i = id WHEN MATCHED THEN DELETE',
	qr/that it changes/, 'MERGE');
fails($one, $all . 'SELECT * FROM account FOR UPDATE', qr/that it locks/, 'FOR UPDATE');
fails($one, $all . 'SELECT * FROM account WHERE v = 1 FOR KEY SHARE', qr/that it locks/,
	'FOR KEY SHARE');
fails($one, $all . 'UPDATE plain SET k = v FROM account WHERE id = i',
	qr/cannot be read on all nodes here.*AS MATERIALIZED/s, 'beside a table that is changed');
is(sql($one, $all . 'BEGIN; WITH a AS MATERIALIZED (SELECT id, v FROM account) UPDATE plain
	SET k = v FROM a WHERE id = i; SELECT count(*) FROM plain WHERE k > 4; ROLLBACK') , '150',
	'but as the hint says');
fails($one, $all . 'SELECT * FROM account TABLESAMPLE SYSTEM (50)', qr/TABLESAMPLE/, 'a sample');
fails($one, $all . 'SELECT ctid FROM account', qr/no system columns/, 'places of rows');
is(sql($one, $all . 'SELECT DISTINCT tableoid::regclass FROM account'), 'account', 'but the table');
fails($one, $all . 'COPY account TO stdout', qr/COPY \(SELECT/, 'COPY TO');
is(sql($one, $all . 'COPY (SELECT id FROM account ORDER BY id) TO stdout'), join("\n", 1 .. 300),
	'but COPY of a statement');
is(sql($one, $all . "COPY account (id, v) FROM stdin;\n1001\t1\n\\.\n"
	. 'INSERT INTO account (id, v) SELECT id + 1000, v FROM account WHERE v = 2 AND id < 300;
	UPDATE account SET v = 5 WHERE id = 1202; SELECT count(*) FROM account WHERE id > 1000'), '31',
	'what owns its keys is written');
sql($one, 'DELETE FROM account WHERE id IN (1001' . join('', map { ',' . ($_ * 10 + 2) } 100 .. 129)
	. ')');
is(sql($two, $all . 'SELECT count(*) FROM account'), '300', 'and deleted');
is(sql($one, $all . 'BEGIN READ ONLY; SELECT count(*) FROM account; COMMIT;
	BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM account; COMMIT;
	BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM account; COMMIT'), "300\n300\n300",
	'any transaction may read');

{
	# Rows are checked anew after another transaction has changed the row that is updated.
	my $first = $one->background_psql('postgres');
	my $second = $one->background_psql('postgres', on_error_stop => 0);

	$first->query_safe('BEGIN; UPDATE plain SET k = 100 WHERE i IN (150, 151, 152)');
	$second->query_until(qr/asked/, "\\echo asked\nSET leap.scans = 'all';
		WITH a AS MATERIALIZED (SELECT id, v FROM account WHERE id > 140) UPDATE plain
		SET k = k + v + (SELECT count(*) FROM account) FROM a WHERE id = i AND i IN (151, 152)
		AND k <= (SELECT max(id) + i FROM account WHERE id < i);
		UPDATE plain SET k = -1 WHERE i = 150 AND k < (SELECT count(*) - 250 FROM account);\n");
	ok($one->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE wait_event_type = 'Lock'}), 'an update waits');
	$first->query_safe('COMMIT');
	$second->query('SELECT 1');
	is($second->{stderr}, '', 'and is done');
	is(sql($one, 'SELECT i, k FROM plain WHERE i BETWEEN 150 AND 152 ORDER BY i'),
		"150|100\n151|401\n152|402", 'with what the row has then');
	$_->quit foreach $first, $second;
}

# --- Beside writers that move keys: what does not move is there once.

{
	my $taken = q{SELECT value FROM leap.handovers WHERE name = 'taken'};
	my $before = sql($one, $taken) + sql($three, $taken);
	my $loop = q{DO $$ BEGIN FOR i IN 1 .. 400 LOOP
		UPDATE account SET v = v + 10 WHERE id = 1 + i % 40; COMMIT; END LOOP; END $$};
	my @writers = map { $_->background_psql('postgres', on_error_stop => 0) } $one, $three;
	my ($scans, $wrong) = (0, '');

	$_->query_until(qr/begun/, "\\echo begun\n$loop;\n\\echo done\n") foreach @writers;
	while (grep { ($_->{run}->pump_nb, $_->{stdout} !~ /done/)[1] } @writers)
	{
		my $seen = sql($two, $all . 'SELECT count(*), count(DISTINCT id), sum(id) FROM account
			WHERE id > 40; SELECT count(*) < 100 FROM account WHERE id <= 40');

		$wrong .= "$seen " if $seen ne "260|260|44330\nt";
		$scans++;
	}
	is($wrong, '', "rows that do not move are there once ($scans scans)");
	cmp_ok($scans, '>', 3, 'while others move');
	cmp_ok(sql($one, $taken) + sql($three, $taken) - $before, '>', 40, 'often');
	is($_->{stderr} =~ s/^.*NOTICE.*$//mgr, '', 'a writer is not disturbed') foreach @writers;
	$_->quit foreach @writers;
}
sql($one, 'UPDATE account SET v = id % 10 WHERE id IN (' . join(',', 1 .. 40) . ')');

# --- A node that is gone when it is asked, for the first time in the session.

fails($one, q{SET leap.scans = 'all'; SET session_replication_role = replica; BEGIN;
	EXPLAIN SELECT count(*) FROM account;
	DELETE FROM leap.node WHERE name = 'c'; SELECT count(*) FROM account},
	qr/there is no leap node 3/, 'a node that is gone is named');

# --- A node that does not answer yet, and one that is away.

{
	my $locker = $two->background_psql('postgres');
	my $session = $one->background_psql('postgres', on_error_stop => 0);

	$locker->query_safe('BEGIN; LOCK TABLE account');
	fails($one, $all . "SET statement_timeout = '500ms'; SELECT count(*) FROM account",
		qr/canceling statement due to statement timeout/, 'a timeout while another node waits');
	none_left($two, 'ends its statement, too');
	$session->query_safe("SET leap.scans = 'all'; BEGIN; SAVEPOINT s");
	$session->query_until(qr/asked/, "\\echo asked\nSELECT count(*) FROM account;\n");
	ok($one->poll_query_until('postgres', q{SELECT count(pg_cancel_backend(pid)) = 1
		FROM pg_stat_activity WHERE wait_event = 'LeapAnswer'}), 'a session that waits for rows');
	$session->query('SELECT 1');
	like($session->{stderr}, qr/canceling statement due to user request/, 'is cancelled');
	$session->{stderr} = '';
	none_left($two, 'with its statement');
	$locker->query_safe('COMMIT');
	is($session->query_safe('ROLLBACK TO s; SELECT count(*) FROM account; COMMIT'), '300',
		'and goes on');
	$locker->quit;
	$session->quit;
}
{
	my $session = $one->background_psql('postgres', on_error_stop => 0);

	$session->query_safe('\\set VERBOSITY verbose');
	$session->query_safe("SET leap.scans = 'all'; SELECT count(*) FROM account;
		SELECT count(*) FROM big; BEGIN; DECLARE c CURSOR FOR SELECT t FROM big; MOVE 3 IN c");
	$two->stop('immediate');
	$session->query('MOVE ALL IN c; ROLLBACK');
	like($session->{stderr}, qr/08006: leap node "b" does not answer/, 'a node goes meanwhile');
	$session->{stderr} = '';
	$session->query('SELECT count(*) FROM account');
	like($session->{stderr}, qr/08006: leap node "b" does not answer/, 'and is away');
	$session->{stderr} = '';
	$two->start;
	is($session->query_safe('SELECT count(*) FROM account'), '300', 'and is back');
	$session->quit;
}

is(together('account'), sql($three, $all . 'SELECT * FROM account ORDER BY id'),
	'all is as it was');
$_->leanstore_check_ok($_->name) foreach $cluster->nodes;
$_->stop foreach $cluster->nodes;

# --- A standby.

{
	my $pair = LeapCluster->new(2, names => [ 'd', 'e' ], 'leanstore.log' => 'wal',
		init => { allows_streaming => 1 });
	my ($first, $second) = $pair->nodes;

	$pair->create('account', 'id int PRIMARY KEY, v int');
	sql($first, 'INSERT INTO account SELECT i, i FROM generate_series(1, 40) i');
	own($second, 'account', 11, 40);
	$first->backup('base');
	my $standby = LeanstoreTest->new_standby('standby', $first, 'base');
	$first->wait_for_catchup($standby);
	is(sql($standby, $all . 'SELECT count(*), sum(v) FROM account'), '40|820',
		'a standby reads all nodes');
	fails($standby, 'SELECT v FROM account WHERE id = 11', qr/read-only|recovery/,
		'but fetches nothing');
	$standby->stop;
	$_->stop foreach $pair->nodes;
}
done_testing();
