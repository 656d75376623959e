# leanstore_move(): a heap table becomes a leanstore table while clients change it.  What the
# catalogs say of it stays, no change is lost (MOVE-1), and a cancel or a crash at any time leaves
# the heap table.
#
# Environment: MOVES (4: with cancels and kills between; more in a long run), MOVE_SEED (random).
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $moves = $ENV{MOVES} // 4;
my $seed = $ENV{MOVE_SEED} // int(rand 2**31);
note "MOVES=$moves MOVE_SEED=$seed";
srand $seed;

my $node = LeanstoreTest->new_node('moves', wal_level => 'logical', max_prepared_transactions => 5,
	autovacuum_naptime => '1s', 'leanstore.replace_btree' => 'on', work_mem => '64kB');

# --- What the catalogs say ----------------------------------------------------------------------

$node->safe_psql('postgres', q{
	CREATE ROLE reader; CREATE ROLE owner;
	CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
	CREATE TABLE parent (id int PRIMARY KEY);
	INSERT INTO parent SELECT generate_series(0, 9);
	CREATE TABLE big_one (gone_1 int, id bigint GENERATED ALWAYS AS IDENTITY, code text NOT NULL,
		parent int REFERENCES parent, n int DEFAULT 7 CHECK (n > 0), gone_2 text,
		twice int GENERATED ALWAYS AS (n * 2) STORED, body text, mood mood, at timestamptz,
		tags text[], spot point, CONSTRAINT big_key PRIMARY KEY (id), UNIQUE (code) INCLUDE (n));
	ALTER TABLE big_one ALTER body SET STORAGE EXTERNAL, ALTER n SET STATISTICS 500;
	CREATE INDEX part_n ON big_one (n) WHERE n > 5;
	CREATE INDEX on_lower ON big_one (lower(code) text_pattern_ops, mood DESC NULLS LAST);
	ALTER INDEX on_lower ALTER COLUMN 1 SET STATISTICS 200;
	CREATE INDEX on_tags ON big_one USING gin (tags);
	CREATE INDEX on_spot ON big_one USING gist (spot);
	CREATE INDEX on_at ON big_one USING brin (at);
	CREATE INDEX on_hash ON big_one USING hash (code);
	COMMENT ON INDEX part_n IS 'a comment'; COMMENT ON TABLE big_one IS 'another';
	ALTER TABLE big_one CLUSTER ON big_key;
	INSERT INTO big_one (gone_1, code, parent, n, gone_2, body, mood, at, tags, spot)
		SELECT 1, 'code ' || g, g % 10, 1 + g % 9, repeat('gone', 900),
			repeat(md5(g::text), g % 200), 'happy',
			'2026-01-01'::timestamptz + g * interval '1 min', ARRAY['t' || g % 5], point(g, g)
		FROM generate_series(1, 1500) g;
	ALTER TABLE big_one DROP gone_1, DROP gone_2;
	ALTER TABLE big_one ADD late text DEFAULT 'as if it had been there';
	CREATE TABLE child (id bigint REFERENCES big_one ON DELETE CASCADE);
	INSERT INTO child VALUES (1), (2);
	CREATE VIEW over AS SELECT id, code FROM big_one WHERE n = 3;
	CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$;
	CREATE TRIGGER note BEFORE UPDATE ON big_one FOR EACH ROW EXECUTE FUNCTION note();
	CREATE POLICY all_rows ON big_one USING (true); ALTER TABLE big_one ENABLE ROW LEVEL SECURITY;
	CREATE STATISTICS together ON n, mood FROM big_one;
	CREATE PUBLICATION pub FOR TABLE big_one;
	ALTER TABLE big_one OWNER TO owner; GRANT SELECT ON big_one TO reader;
	GRANT UPDATE (n) ON big_one TO reader;
	ANALYZE big_one});

sub dump_of
{
	my $dump = '';
	local %ENV = $node->_get_env();
	IPC::Run::run([ $node->installed_command('pg_dump'), '--schema-only', 'postgres' ], '>', \$dump)
	  or die 'pg_dump failed';
	# the access method, and pg_dump's key of the day
	return join "\n", grep { !/default_table_access_method|restrict/ } split /\n/,
		$dump =~ s/leanstore_index/btree/gr =~ s/public\.text_pattern/text_pattern/gr;
}

my $contents = q{SELECT count(*), md5(string_agg(b::text, ';' ORDER BY id)) FROM big_one b};
my $statistics = q{SELECT attname, n_distinct FROM pg_stats
	WHERE tablename IN ('big_one', 'on_lower') ORDER BY tablename, attname};
my ($before, $rows, $stats) = (dump_of(), map { $node->safe_psql('postgres', $_) }
	$contents, $statistics);
$node->safe_psql('postgres', q{CALL leanstore_move('big_one')});
my %there = map { $_ => 1 } split /\n/, $before;
is(join("\n", grep { !$there{$_} } split /\n/, dump_of()), '', 'the same definitions');
is($node->safe_psql('postgres', $contents), $rows, 'the same rows');
is($node->safe_psql('postgres', $statistics), $stats, 'the same statistics');
is($node->safe_psql('postgres', q{SELECT string_agg(c.relname || ' ' || a.amname, ', '
	ORDER BY c.relname) FROM pg_class c JOIN pg_am a ON a.oid = relam
	WHERE c.oid = 'big_one'::regclass OR
		c.oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'big_one'::regclass)}),
	'big_key leanstore_index, big_one leanstore, big_one_code_n_key leanstore_index, on_at brin, '
	. 'on_hash hash, on_lower leanstore_index, on_spot gist, on_tags gin, part_n leanstore_index',
	'its indexes come along');
is($node->safe_psql('postgres', q{SELECT reltuples FROM pg_class WHERE relname = 'big_one'}),
	'1500', 'its size is known');
foreach my $query ("code = 'code 77'", "tags \@> '{t2}'", "spot <@ box '(0,0),(9,9)'",
	"at < '2026-01-01 02:00+0'", 'n > 5', "lower(code) LIKE 'code 1%'")
{
	my ($by_index, $by_scan) = map {
		$node->safe_psql('postgres', "SET enable_seqscan = $_; SET enable_indexscan = on;
			SELECT count(*), sum(id) FROM big_one WHERE $query")
	} qw(off on);
	is($by_index, $by_scan, "an index answers as a scan: $query");
}
$node->safe_psql('postgres', q{
	INSERT INTO big_one (code, parent) VALUES ('new', 1); DELETE FROM big_one WHERE id = 1;
	ALTER TABLE big_one ADD more int; VACUUM big_one; REINDEX TABLE big_one});
is($node->safe_psql('postgres', q{SELECT (SELECT count(*) FROM child), max(id) FROM big_one}),
	'1|1501', 'foreign keys and the sequence go on');
like(($node->psql('postgres', q{INSERT INTO big_one (code) VALUES ('new')}))[2],
	qr/duplicate key value violates unique constraint "big_one_code_n_key"/, 'so do constraints');

# --- A partition, with the key of its parent -----------------------------------------------------

$node->safe_psql('postgres', q{
	SET leanstore.default_index = btree;
	CREATE TABLE root (id int, v int, t text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
	CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (10000);
	INSERT INTO root SELECT g, g, 'a' FROM generate_series(0, 2000) g});
my $changes = PostgreSQL::Test::Utils::tempdir() . '/changes.sql';
append_to_file($changes, q{
\set id random(0, 2000)
UPDATE root SET v = v + 1, t = t || 'b' WHERE id = :id;
DELETE FROM root WHERE id = 3000 + :id;
INSERT INTO root VALUES (3000 + :id, 0, 'new') ON CONFLICT (id) DO UPDATE SET t = 'again';
});
my $writers = $node->start_pgbench('postgres', qw(-c 2 -T 60 -f), $changes);
$node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM root WHERE t <> 'a')});
$node->safe_psql('postgres', q{CALL leanstore_move('leaf')});
usleep(200_000);
unlike($node->stop_pgbench($writers), qr/ERROR/, 'clients of a partition had no error');
is($node->safe_psql('postgres', q{SELECT count(*) FROM root
	WHERE id <= 2000 AND (v <> id + length(t) - 1 OR t !~ '^ab*$')}), '0', 'a partition is moved');
is($node->safe_psql('postgres', q{SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam
	WHERE relname IN ('leaf', 'leaf_pkey') ORDER BY 1}), "btree\nleanstore", 'its key stays');
like(($node->psql('postgres', 'INSERT INTO root VALUES (7, 7)'))[2], qr/duplicate key/,
	'and goes on');

# --- Refused before anything begins --------------------------------------------------------------

$node->safe_psql('postgres', q{
	CREATE TABLE no_key (id int); CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
	CREATE TABLE late (id int PRIMARY KEY DEFERRABLE); CREATE TABLE full_row (id int PRIMARY KEY);
	ALTER TABLE full_row REPLICA IDENTITY FULL;
	CREATE TABLE excluded (id int PRIMARY KEY, c circle, EXCLUDE USING gist (c WITH &&));
	CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id);
	CREATE TABLE fine (id int PRIMARY KEY); ALTER TABLE fine OWNER TO owner;
	GRANT EXECUTE ON PROCEDURE leanstore_move TO reader});
foreach my $case (
	[ 'no_key', qr/cannot move table "no_key" while it is used.*no key by which/s ],
	[ 'unlogged', qr/are not decoded/ ],
	[ 'late', qr/no key by which changed rows are found|a deferrable constraint/ ],
	[ 'full_row', qr/no key by which/ ],
	[ 'excluded', qr/an exclusion constraint/ ],
	[ 'parts', qr/moved partition by partition/ ],
	[ 'pg_class', qr/Only heap tables of users/ ],
	[ 'over', qr/Only heap tables of users|is not a table|cannot open/ ],
	[ 'big_one', qr/is a leanstore table already/ ])
{
	my ($status, undef, $error) = $node->psql('postgres', "CALL leanstore_move('$case->[0]')");
	ok($status != 0 && $error =~ $case->[1], "refused: $case->[0]") or diag($error);
}
like(($node->psql('postgres', q{BEGIN; CALL leanstore_move('fine')}))[2],
	qr/cannot run inside a transaction block/, 'not in a transaction');
like(($node->psql('postgres', q{SET ROLE reader; CALL leanstore_move('fine')}))[2],
	qr/must be owner of table fine/, 'for owners');
like(($node->psql('postgres', q{SET ROLE owner; CALL leanstore_move('fine')}))[2],
	qr/permission denied for procedure leanstore_move/, 'and those who are allowed to');
like(($node->psql('postgres',
	q{SELECT pg_create_logical_replication_slot('mine', 'leanstore_am')}))[2],
	qr/may not be used as an output plugin|not an output plugin for users/, 'not a plugin for all');

# --- While clients change it ----------------------------------------------------------------------

# Each transaction does the same to a table that stays as it is.
$node->safe_psql('postgres', q{
	CREATE FUNCTION big(seed text, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
		$$SELECT string_agg(md5(seed || g), '') FROM generate_series(1, n) g$$;
	CREATE TABLE moved (id int PRIMARY KEY, n bigint, t text, big text);
	ALTER TABLE moved ALTER big SET STORAGE EXTERNAL;
	CREATE INDEX moved_n ON moved (n); CREATE INDEX moved_t ON moved USING hash (t);
	INSERT INTO moved SELECT g, g, 't' || g, big(g::text, g % 120) FROM generate_series(1, 4000) g;
	CREATE TABLE mirror (LIKE moved INCLUDING ALL);
	INSERT INTO mirror TABLE moved});
my $work = PostgreSQL::Test::Utils::tempdir() . '/work.sql';
my @statements = (
	q{UPDATE TABLE SET n = n + :some WHERE id = :a},
	q{UPDATE TABLE SET t = 'u' || :some, big = big(:b::text, :some) WHERE id = :a},
	q{INSERT INTO TABLE VALUES (:c, :some, 'new', big(:c::text, :some))
		ON CONFLICT (id) DO UPDATE SET n = TABLE.n + 1},
	q{DELETE FROM TABLE WHERE id = :c + 1},
	q{UPDATE TABLE SET id = :c + 2 WHERE id = :c AND NOT EXISTS
		(SELECT FROM TABLE WHERE id = :c + 2)});
append_to_file($work, q{
\set a random(1, 4000)
\set b random(1, 4000)
\set c random(1, 500) * 10 + 10000
\set some random(1, 90)
BEGIN;
SELECT pg_advisory_xact_lock(:c);
SELECT FROM mirror WHERE id = :a FOR UPDATE;
} . join('', map { my $s = $_; map { ($s =~ s/TABLE/$_/gr) . ";\n" } qw(moved mirror) } @statements)
	. q{
SAVEPOINT s;
DELETE FROM moved WHERE id = :a;
ROLLBACK TO s;
COMMIT;
});
my $same = q{SELECT (SELECT md5(string_agg(m::text, ';' ORDER BY id)) FROM moved m) =
	(SELECT md5(string_agg(m::text, ';' ORDER BY id)) FROM mirror m)};
my $left = q{SELECT
	(SELECT count(*) FROM pg_class WHERE relrewrite <> 0 OR relname ~ 'moved.*moved'),
	(SELECT count(*) FROM pg_replication_slots)};

foreach my $round (1 .. $moves)
{
	my $how = $round == $moves ? 'no' : (qw(cancel kill no))[ $round % 3 ];
	my $load = $node->start_pgbench('postgres', qw(-c 4 -T 600 -f), $work);
	my $mover = IPC::Run::start(
		[ $node->installed_command('psql'), '-X', '-d', $node->connstr('postgres'), '-c',
			q{CALL leanstore_move('moved')} ], '>&', \my $said);

	if ($how ne 'no')
	{
		usleep(50_000 + rand 900_000);
		$how eq 'kill' ? CrashDriver::kill_server($node, 'all')
		  : $node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity
			WHERE query LIKE 'CALL leanstore_move%'});
	}
	$mover->finish;
	usleep(300_000);
	my $output = $node->stop_pgbench($load);
	$node->start if $how eq 'kill';
	unlike($output, qr/ERROR/, "$how, round $round: no client had an error") if $how ne 'kill';
	is($node->safe_psql('postgres', $same), 't',
		"$how, round $round: no change is lost or doubled");
	is($node->safe_psql('postgres', $left), '0|0', "$how, round $round: nothing is left behind");
	my $method = $node->safe_psql('postgres', q{SELECT amname FROM pg_class c
		JOIN pg_am a ON a.oid = relam WHERE relname = 'moved'});
	is($method, 'leanstore', "$how, round $round: moved") or diag($said) if $how eq 'no';
	$node->leanstore_check_ok("$how, round $round") if $method eq 'leanstore';
	$node->safe_psql('postgres', 'ALTER TABLE moved SET ACCESS METHOD heap')
	  if $method eq 'leanstore' && $round < $moves;
}

# A session that is cancelled again and again keeps no file open.
$node->safe_psql('postgres', 'ALTER TABLE moved SET ACCESS METHOD heap');
my $patient = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $patient->query('SELECT pg_backend_pid()');
my $open_wal = sub {
	return scalar grep { (readlink($_) // '') =~ /pg_wal/ } glob "/proc/$pid/fd/*";
};
$patient->query("SET statement_timeout = '60ms'");
my @open = map { $patient->query(q{CALL leanstore_move('moved')}); $open_wal->() } 1 .. 8;
# one that it writes to itself, perhaps another that it has read
cmp_ok($open[-1], '<=', 2, "files of WAL that are open behind moves that were cancelled: @open");
is($node->safe_psql('postgres', $left), '0|0', 'and no slot');
$patient->quit;
like(($node->psql('postgres', 'CALL leanstore_move(NULL)'))[2], qr/is to be told of a table/,
	'no table');

# Prepared changes are waited for, and are there.
$node->safe_psql('postgres', q{
	BEGIN; UPDATE moved SET n = -1 WHERE id = 1; PREPARE TRANSACTION 'p'});
my $waiting = $node->background_psql('postgres');
$waiting->query_until(qr/begun/, "\\echo begun\nCALL leanstore_move('moved');\n");
# It catches up again and again, also while WAL ends where a page does.
cmp_ok($node->safe_psql('postgres', q{
	CREATE FUNCTION pg_temp.left_of_page() RETURNS int LANGUAGE sql AS
		$$SELECT 8192 - mod(pg_current_wal_insert_lsn() - '0/0', 8192)::int$$;
	CREATE FUNCTION pg_temp.end_pages() RETURNS int LANGUAGE plpgsql AS $$
	DECLARE
		bytes int;
		ended int := 0;
	BEGIN
		FOR i IN 1 .. 20 LOOP
			bytes := pg_temp.left_of_page();
			-- a message of 1 byte takes 56, one of more than 230 three more than a short one
			PERFORM pg_logical_emit_message(false, '',
				repeat('-', bytes - CASE WHEN bytes > 281 THEN 54 ELSE 51 END)) WHERE bytes >= 56;
			ended := ended + (pg_temp.left_of_page() >= 8192 - 40)::int;
			PERFORM pg_sleep(0.04);
		END LOOP;
		RETURN ended;
	END$$;
	SELECT pg_temp.end_pages()}), '>', 5, 'WAL ends with a page');
ok($node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity
	WHERE query LIKE 'CALL leanstore_move%' AND wait_event_type = 'Lock')}), 'it waits');
$node->safe_psql('postgres', q{COMMIT PREPARED 'p'});
$waiting->query_safe('SELECT 1');
$waiting->quit;
is($node->safe_psql('postgres', q{SELECT n, amname
	FROM moved, pg_class c JOIN pg_am a ON a.oid = relam WHERE id = 1 AND relname = 'moved'}),
	'-1|leanstore', 'a transaction that was prepared');

$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();
