# Rows that get another key and stay where they are: a reader finds each row once, by whatever plan,
# with the key that it has for the reader's snapshot, while others give rows keys, take that back,
# and remove the entries left behind.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('stale',
	'leanstore.buffer_pool_size' => '16MB',
	max_connections => 30,
	autovacuum => 'off',
	deadlock_timeout => '100ms');

my ($rows, $keys) = (300, 40);
$node->safe_psql('postgres', qq{
	CREATE TABLE t (id int PRIMARY KEY, k int, s text COLLATE "C", n int DEFAULT 0) USING leanstore;
	CREATE INDEX t_k ON t (k);
	CREATE INDEX t_sk ON t (s, k DESC);
	INSERT INTO t SELECT i, i % $keys, 'v' || i % 7 FROM generate_series(1, $rows) i;

	-- what a snapshot sees, key by key through an index, and by a sequential scan: the same
	CREATE FUNCTION look(plan text) RETURNS void LANGUAGE plpgsql AS \$\$
	DECLARE
		by_table text; by_k text; by_range text; by_sk text;
	BEGIN
		PERFORM set_config('enable_seqscan', 'on', true),
			set_config('enable_indexscan', 'off', true),
			set_config('enable_bitmapscan', 'off', true);
		SELECT string_agg(id || ':' || k || s, ',' ORDER BY id) INTO by_table FROM t;
		PERFORM set_config('enable_seqscan', 'off', true),
			set_config('enable_' || plan, 'on', true);
		SELECT string_agg(t.id || ':' || t.k || t.s, ',' ORDER BY t.id) INTO by_k
			FROM generate_series(0, $keys - 1) key,
			LATERAL (SELECT * FROM t WHERE t.k = key OFFSET 0) t;
		SELECT string_agg(id || ':' || k || s, ',' ORDER BY id) INTO by_range
			FROM (SELECT * FROM t WHERE k >= 0 OFFSET 0) t;
		SELECT string_agg(id || ':' || k || s, ',' ORDER BY id) INTO by_sk
			FROM (SELECT * FROM t WHERE s >= 'v' AND k < $keys OFFSET 0) t;
		IF by_table IS DISTINCT FROM by_k OR by_table IS DISTINCT FROM by_range
			OR by_table IS DISTINCT FROM by_sk THEN
			RAISE 'different, by %: table %, keys %, range %, (s, k) %',
				plan, by_table, by_k, by_range, by_sk;
		END IF;
	END \$\$;});

# The row stays where it is.
is($node->safe_psql('postgres', q{UPDATE t SET k = 39 WHERE id = 1 RETURNING old.ctid = new.ctid}),
	't', 'the row keeps its TID');
is($node->safe_psql('postgres', q{EXPLAIN (COSTS OFF) SELECT * FROM t WHERE k = 5 AND id > 0})
	=~ /Scan/, 1, 'there is a plan');

my %script = (
	# gives keys, some of it taken back
	update => qq{
\\set id random(1, $rows)
\\set k random(0, $keys - 1)
\\set v random(0, 6)
UPDATE t SET k = :k, n = n + 1 WHERE id = :id;
UPDATE t SET s = 'v' || :v WHERE k = :k AND id % 3 = 0;
},
	back => qq{
\\set id random(1, $rows)
\\set k random(0, $keys - 1)
BEGIN;
UPDATE t SET k = :k WHERE id = :id;
SAVEPOINT a;
UPDATE t SET k = (:k + 1) % $keys WHERE id = :id;
SELECT pg_sleep(0.001);
ROLLBACK TO a;
UPDATE t SET k = (:k + 2) % $keys, s = 'v3' WHERE id = :id;
SELECT pg_sleep(0.001);
ROLLBACK;
},
	part => qq{
\\set id random(1, $rows)
\\set k random(0, $keys - 1)
BEGIN;
UPDATE t SET k = :k WHERE id = :id;
SAVEPOINT a;
UPDATE t SET k = (:k + 1) % $keys WHERE id = :id;
ROLLBACK TO a;
SELECT count(*) FROM t WHERE k = (:k + 1) % $keys AND id = :id;
COMMIT;
},
	replace => qq{
\\set id random(1, $rows)
BEGIN;
DELETE FROM t WHERE id = :id;
INSERT INTO t SELECT :id, :id % $keys, 'v' || :id % 7
	WHERE NOT EXISTS (SELECT FROM t WHERE id = :id) ON CONFLICT DO NOTHING;
COMMIT;
},
	index => q{
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT look('indexscan');
SELECT pg_sleep(0.003);
SELECT look('indexscan');
COMMIT;
},
	bitmap => q{
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT look('bitmapscan');
COMMIT;
},
	vacuum => 'VACUUM t; SELECT pg_sleep(0.01);');
my %clients = (update => 3, back => 1, part => 2, replace => 1, index => 2, bitmap => 1,
	vacuum => 1);

my $seconds = $ENV{STALE_SECONDS} // 8;
my $directory = PostgreSQL::Test::Utils::tempdir();
my %pgbench;
for my $name (sort keys %script)
{
	PostgreSQL::Test::Utils::append_to_file("$directory/$name", $script{$name});
	$pgbench{$name} = $node->start_pgbench('postgres', '-c', $clients{$name}, '-T', $seconds,
		'--max-tries=1000', '-f', "$directory/$name");
}
for my $name (sort keys %pgbench)
{
	my $output = $node->finish_pgbench($pgbench{$name});

	ok($pgbench{$name}{run}->result == 0, "$name: nothing fails") or diag $output;
	unlike($output, qr/different/, "$name: the same by all plans");
}
$node->leanstore_check_ok('after all that');
is($node->safe_psql('postgres', "SELECT count(*) > $rows - 10 FROM t"), 't', 'the rows are there');

# A crash in the middle: the mark that there may be stale entries is as old as the first of them.
$node->safe_psql('postgres', q{
	CREATE TABLE c (id int PRIMARY KEY, k int) USING leanstore;
	CREATE INDEX c_k ON c (k);
	INSERT INTO c SELECT i, i FROM generate_series(1, 1000) i;
	SELECT leanstore_checkpoint();
	UPDATE c SET k = k + 10000 WHERE id <= 500});
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; UPDATE c SET k = k + 20000 WHERE id > 400');
CrashDriver::kill_server($node, 'postmaster');
eval { $session->quit };
$node->start;
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off;
	SELECT count(*), sum(k) FROM c WHERE k > 0';
is($node->safe_psql('postgres', $by_index), '1000|' . (500500 + 500 * 10000),
	'after a crash: each row once, with its key');
is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM c WHERE k <= 500'),
	'0', 'nothing by the old keys');
$node->leanstore_check_ok('after a crash');
$node->restart;
is($node->safe_psql('postgres', $by_index), '1000|' . (500500 + 500 * 10000), 'after a restart');

# What is left behind goes: by the next updates, by scans, by VACUUM.
my $entries = q{SELECT pg_relation_size('c_k')};
my $before = $node->safe_psql('postgres', $entries);
$node->safe_psql('postgres', 'UPDATE c SET k = k + 1 WHERE id = 7') for 1 .. 20;
PostgreSQL::Test::Utils::append_to_file("$directory/many",
	"\\set id random(1, 1000)\nUPDATE c SET k = k + 1000 WHERE id = :id;\n");
like($node->run_pgbench('postgres', '-c', 1, '-t', 20000, '-M', 'prepared',
	'-f', "$directory/many"), qr{actually processed: 20000/20000},
	'20,000 updates of an indexed column');
cmp_ok($node->safe_psql('postgres', $entries), '<', 4 * $before,
	'the index of 1,000 rows does not grow');
my ($ret, $stdout, $stderr) = $node->psql('postgres', 'SELECT pg_sleep(0.2); VACUUM VERBOSE c');
like($stderr, qr/1000 rows, 0 deleted rows still needed/, 'VACUUM');
($ret, $stdout, $stderr) = $node->psql('postgres', 'VACUUM VERBOSE c');
like($stderr, qr/ 0 index entries removed/, 'nothing is left behind after VACUUM');
$node->leanstore_check_ok('after VACUUM');

$node->stop;
done_testing();
