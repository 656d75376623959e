# After a crash a transaction over heap and leanstore is there as a whole or not
# at all, and so is DDL: what was acknowledged just before the crash is there,
# what was not committed is not.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = LeanstoreTest->new_node('crash', 'leanstore.buffer_pool_size' => '16MB');

$node->safe_psql('postgres', q{
	CREATE TABLE on_heap (id bigint PRIMARY KEY, client int, v int) USING heap;
	CREATE TABLE on_leanstore (id bigint PRIMARY KEY, client int, v int) USING leanstore;
	CREATE SEQUENCE s;
	CREATE TABLE sum_heap (client int PRIMARY KEY, n bigint) USING heap;
	CREATE TABLE sum_leanstore (client int PRIMARY KEY, n bigint) USING leanstore;
	INSERT INTO sum_heap SELECT i, 0 FROM generate_series(0, 9) i;
	INSERT INTO sum_leanstore SELECT i, 0 FROM generate_series(0, 9) i;
});
my $script = PostgreSQL::Test::Utils::tempdir() . '/mixed.sql';
append_to_file($script, q{
\set v random(1, 100)
\set order random(0, 2)
BEGIN;
SELECT nextval('s') AS id \gset
\if :order
INSERT INTO on_heap VALUES (:id, :client_id, :v);
UPDATE sum_leanstore SET n = n + :v WHERE client = :client_id;
INSERT INTO on_leanstore VALUES (:id, :client_id, :v);
UPDATE sum_heap SET n = n + :v WHERE client = :client_id;
\else
SAVEPOINT a;
INSERT INTO on_leanstore VALUES (-:id, :client_id, 0);
ROLLBACK TO a;
INSERT INTO on_leanstore VALUES (:id, :client_id, :v);
SAVEPOINT b;
INSERT INTO on_heap VALUES (:id, :client_id, :v);
RELEASE b;
UPDATE sum_heap SET n = n + :v WHERE client = :client_id;
UPDATE sum_leanstore SET n = n + :v WHERE client = :client_id;
\endif
COMMIT;
});
foreach my $round (1 .. 4)
{
	my $how = $round % 2 ? 'all' : 'postmaster';
	my $run = $node->start_pgbench('postgres', qw(-c 4 -T 60 -f), $script);
	CrashDriver::wait_for_rows($node, 'on_leanstore', 50);
	usleep(rand 500_000);
	CrashDriver::kill_server($node, $how);
	$node->finish_pgbench($run);
	$node->start;
	is($node->safe_psql('postgres', q{SELECT count(*) FROM on_heap h FULL JOIN on_leanstore l
		USING (id) WHERE (h.client, h.v) IS DISTINCT FROM (l.client, l.v)}),
		'0', "round $round ($how): heap and leanstore hold the same rows");
	is($node->safe_psql('postgres',
		q{SELECT count(*) FROM sum_heap h JOIN sum_leanstore l USING (client)
		LEFT JOIN (SELECT client, sum(v) AS n FROM on_leanstore GROUP BY client) r USING (client)
		WHERE h.n <> l.n OR l.n <> coalesce(r.n, 0)}), '0', "round $round: so do the sums");
	$node->leanstore_check_ok("round $round");
}

# DDL, acknowledged immediately before everything is killed.
my %crashed_after = (
	'CREATE TABLE' => [ 'CREATE TABLE x (id int PRIMARY KEY, t text)',
		q{SELECT count(*) FROM x}, '0' ],
	'CREATE TABLE AS' => [ q{CREATE TABLE x AS SELECT i AS id, repeat('x', 3000) AS t
		FROM generate_series(1, 300) i}, q{SELECT count(*), sum(length(t)) FROM x}, '300|900000' ],
	'CREATE and fill' => [ q{BEGIN; CREATE TABLE x (id int PRIMARY KEY, t text);
		INSERT INTO x SELECT i, 'x' FROM generate_series(1, 5000) i; DELETE FROM x WHERE id % 2 = 0;
		COMMIT}, q{SELECT count(*) FROM x}, '2500' ],
	'TRUNCATE' => [ 'TRUNCATE base', q{SELECT count(*) FROM base}, '0' ],
	'TRUNCATE and fill' => [ q{BEGIN; TRUNCATE base; INSERT INTO base VALUES (1, 'new'); COMMIT},
		q{SELECT * FROM base}, '1|new' ],
	'CREATE INDEX' => [ 'CREATE INDEX base_t ON base USING btree (t)', q{SET enable_seqscan = off;
		SELECT count(*) FROM base WHERE t = 'base'}, '2000' ],
	'ALTER TABLE' => [ q{ALTER TABLE base ALTER id TYPE bigint, ADD n int DEFAULT 7},
		q{SELECT count(*), sum(id), sum(n) FROM base}, '2000|2001000|14000' ],
	'VACUUM FULL' => [ 'VACUUM FULL base', q{SELECT count(*), sum(id) FROM base}, '2000|2001000' ],
	'CLUSTER' => [ 'CLUSTER base USING base_pkey', q{SELECT count(*), sum(id) FROM base},
		'2000|2001000' ],
	'SET ACCESS METHOD heap' => [ 'ALTER TABLE base SET ACCESS METHOD heap',
		q{SELECT count(*), sum(id) FROM base}, '2000|2001000' ],
	'SET ACCESS METHOD leanstore' => [ 'ALTER TABLE base_heap SET ACCESS METHOD leanstore',
		q{SELECT count(*), sum(id) FROM base_heap}, '2000|2001000' ],
	'DROP TABLE' => [ 'DROP TABLE base', q{SELECT to_regclass('base') IS NULL}, 't' ],
	'DROP and CREATE' => [ 'BEGIN; DROP TABLE base; CREATE TABLE base (other text);
		INSERT INTO base VALUES (1); COMMIT', q{SELECT * FROM base}, '1' ],
	'rewrite to nowhere' => [ 'BEGIN; ALTER TABLE base ALTER id TYPE bigint;
		UPDATE base SET id = -id; ROLLBACK', q{SELECT count(*), sum(id) FROM base},
		'2000|2001000' ]);
my $rounds = 0;
foreach my $what (sort keys %crashed_after)
{
	my ($ddl, $query, $answer) = @{ $crashed_after{$what} };

	$node->safe_psql('postgres', q{
		SET client_min_messages = warning;
		DROP TABLE IF EXISTS x, base, base_heap;
		SET default_table_access_method = leanstore;
		CREATE TABLE base (id int PRIMARY KEY, t text);
		INSERT INTO base SELECT i, 'base' FROM generate_series(1, 2000) i;
		CREATE TABLE base_heap (id int PRIMARY KEY, t text) USING heap;
		INSERT INTO base_heap TABLE base});
	# With the old files' pages in memory, or written already.
	$node->safe_psql('postgres', 'CHECKPOINT') if $rounds++ % 2;
	$node->safe_psql('postgres', "SET default_table_access_method = leanstore; $ddl");
	CrashDriver::kill_server($node, 'all');
	$node->start;
	is($node->safe_psql('postgres', $query), $answer, "$what just before the crash");
	$node->leanstore_check_ok("$what just before the crash");
}

# DDL open at the crash is gone.
$node->safe_psql('postgres', q{SET client_min_messages = warning;
	DROP TABLE IF EXISTS x, base, base_heap;
	CREATE TABLE base (id int PRIMARY KEY, t text) USING leanstore;
	INSERT INTO base SELECT i, 'base' FROM generate_series(1, 2000) i; CHECKPOINT});
my $open = $node->background_psql('postgres', on_error_stop => 0);
$open->query(q{BEGIN; SET LOCAL default_table_access_method = leanstore;
	CREATE TABLE never AS SELECT i AS id FROM generate_series(1, 50000) i;
	TRUNCATE base; INSERT INTO base VALUES (0, 'never');
	CREATE INDEX ON base (t); DROP TABLE on_leanstore; SELECT 1});
CrashDriver::kill_server($node, 'all');
eval { $open->quit };
$node->start;
is($node->safe_psql('postgres', q{SELECT to_regclass('never') IS NULL, (SELECT count(*) FROM base),
	(SELECT count(*) > 0 FROM on_leanstore)}), 't|2000|t', 'DDL open at the crash is undone');
$node->leanstore_check_ok('after DDL open at the crash');
$node->safe_psql('postgres', q{INSERT INTO base VALUES (2001, 'more'); TRUNCATE base;
	INSERT INTO base VALUES (1, 'one')});
$node->restart;
is($node->safe_psql('postgres', 'SELECT * FROM base'), '1|one', 'and the table works');
$node->stop('fast');
done_testing();
