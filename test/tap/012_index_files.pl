# Files of leanstore indexes: built and crashed, cancelled halfway, dropped while others use the
# table, copied with wal_level = minimal, dumped and restored.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('index',
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.checkpoint_timeout' => '1h',
	wal_level => 'minimal',
	max_wal_senders => 0,
	wal_skip_threshold => '1GB',
	autovacuum => 'off');
my $by_index = q{SET enable_seqscan = off;
	SELECT count(*), sum(v) FROM t WHERE v BETWEEN 100 AND 200};
my $files = q{SELECT count(*) FROM pg_ls_dir((SELECT 'base/' || oid FROM pg_database
	WHERE datname = 'postgres')) f WHERE f ~ '^\d+$' AND pg_filenode_relation(0, f::oid) IS NULL};

# With wal_level = minimal the server would like to copy new files to its own log.
$node->safe_psql('postgres', q{
	BEGIN;
	CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING leanstore;
	INSERT INTO t SELECT i, i, repeat('x', i % 50) FROM generate_series(1, 20000) i;
	CREATE INDEX t_v ON t (v) INCLUDE (pad);
	COMMIT;
	BEGIN;
	CREATE TABLE emptied (id int PRIMARY KEY, v int) USING leanstore;
	INSERT INTO emptied SELECT i, i FROM generate_series(1, 20000) i;
	SELECT leanstore_checkpoint();
	CREATE INDEX emptied_v ON emptied (v);
	TRUNCATE emptied;
	INSERT INTO emptied SELECT i, i FROM generate_series(1, 100) i;
	COMMIT;
	CREATE UNLOGGED TABLE un (id int PRIMARY KEY) USING leanstore;
	INSERT INTO un SELECT generate_series(1, 1000);
	CREATE UNLOGGED TABLE un_empty (id int PRIMARY KEY) USING leanstore});
CrashDriver::kill_server($node, 'postmaster');
$node->start;
$node->leanstore_check_ok('indexes built right before a crash');
is($node->safe_psql('postgres', $by_index), '101|15150', 'rows by index');
is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FROM emptied
	WHERE v > 0}), '100', 'an index that was emptied in the transaction that made it');
is($node->safe_psql('postgres', q{INSERT INTO un SELECT generate_series(1, 1000);
	INSERT INTO un_empty VALUES (1); SET enable_seqscan = off;
	SELECT count(*) FROM un WHERE id < 100}),
	'99', 'indexes of unlogged tables are empty after a crash, and usable');

# A crash before the end of the transaction, with pages of the index written.
my $session = $node->background_psql('postgres');
$session->query_safe(q{BEGIN});
$session->query_safe(q{CREATE INDEX t_lost ON t (v, id); REINDEX TABLE t;
	SELECT leanstore_checkpoint()});
CrashDriver::kill_server($node, 'postmaster');
eval { $session->quit };
$node->start;
$node->leanstore_check_ok('a crash within REINDEX');
is($node->safe_psql('postgres', q{SELECT to_regclass('t_lost') IS NULL}), 't',
	'the new index is not there');
is($node->safe_psql('postgres', $by_index), '101|15150', 'rows by the old index');
$node->safe_psql('postgres', 'CHECKPOINT');

# Cancelled at any moment, by one process and with parallel workers.
my $before = $node->safe_psql('postgres', $files);
foreach my $workers (0, 2)
{
	$node->safe_psql('postgres', "ALTER TABLE t SET (parallel_workers = $workers)");
	my @said;
	foreach my $ms (1, 3, 6, 10, 15, 25, 40, 60, 90, 130)
	{
		my (undef, undef, $error) = $node->psql('postgres', qq{SET statement_timeout = '${ms}ms';
			SET maintenance_work_mem = '64kB'; CREATE INDEX t_cancelled ON t (pad, v, id);
			SET statement_timeout = 0; DROP INDEX t_cancelled});
		push @said, "$ms ms: $error";
	}
	$node->psql('postgres', q{SET maintenance_work_mem = '64kB';
		CREATE UNIQUE INDEX t_cancelled ON t (pad)});
	$node->safe_psql('postgres', 'CHECKPOINT');
	is($node->safe_psql('postgres', $files), $before,
		"cancelled builds leave no file, $workers workers");
	is($node->safe_psql('postgres', q{SELECT count(*)
		FROM pg_ls_dir('base/pgsql_tmp', true, false)}), '0', '... nor temporary ones');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 't_cancelled'}),
		'0', '... nor an index') || diag(@said);
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity
		WHERE backend_type = 'parallel worker'}), '... nor a worker');
}

# Concurrently, while others insert: a cancelled build leaves an invalid index that can be dropped,
# or built again.
my $writers = $node->background_psql('postgres');
$writers->query_until(qr/started/, q{\echo started
	DO $$ BEGIN FOR i IN 20001 .. 23000 LOOP INSERT INTO t VALUES (i, i, 'w'); COMMIT;
	END LOOP; END $$;
});
foreach my $ms (20, 60, 120)
{
	$node->psql('postgres', qq{SET statement_timeout = '${ms}ms';
		CREATE INDEX CONCURRENTLY t_half ON t (pad, v)});
	$node->psql('postgres', q{REINDEX INDEX t_half});
	$node->psql('postgres', q{DROP INDEX CONCURRENTLY IF EXISTS t_half});
}
foreach my $round (1 .. 3)
{
	$node->safe_psql('postgres', q{CREATE UNIQUE INDEX CONCURRENTLY t_c ON t (v DESC, id)});
	$node->safe_psql('postgres', q{REINDEX INDEX CONCURRENTLY t_c});
	$node->safe_psql('postgres', q{DROP INDEX CONCURRENTLY t_c});
}
is($writers->query(q{SELECT count(*) FROM t}), '23000', 'all insertions beside concurrent builds');
$writers->quit;
$node->leanstore_check_ok('after concurrent builds');
$node->safe_psql('postgres', 'CHECKPOINT');
is($node->safe_psql('postgres', $files), $before, 'no file is left');

# An index is dropped while another session goes on with the table.
my $other = $node->background_psql('postgres');
$node->safe_psql('postgres', q{CREATE INDEX t_used ON t (v, pad)});
$other->query_safe(q{BEGIN; INSERT INTO t VALUES (30001, 1, 'o')});
my $drop = $node->background_psql('postgres');
$drop->query_until(qr/started/, "\\echo started\nDROP INDEX CONCURRENTLY t_used;\n");
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted})
	or die 'DROP INDEX does not wait';
$other->query_safe(q{INSERT INTO t SELECT i, i, 'p' FROM generate_series(30002, 31000) i; COMMIT});
$drop->query_safe('SELECT 1');
$drop->quit;
$other->quit;
$node->leanstore_check_ok('an index dropped beside insertions');

# pg_dump and restore give the same schema and the same access methods.
$node->safe_psql('postgres', 'CREATE DATABASE dumped');
$node->safe_psql('dumped', q{
	CREATE EXTENSION leanstore_am;
	SET default_table_access_method = leanstore;
	CREATE TABLE a (id bigint PRIMARY KEY, k text COLLATE "C" UNIQUE, d int UNIQUE DEFERRABLE,
		n int, p int, UNIQUE NULLS NOT DISTINCT (n) WITH (fillfactor = 70),
		EXCLUDE USING leanstore (p WITH =));
	CREATE INDEX a_n ON a (n DESC, lower(k)) INCLUDE (p) WHERE p > 0;
	CREATE INDEX a_btree ON a USING btree (n);
	CREATE INDEX a_hash ON a USING hash (n);
	CREATE TABLE b (id int REFERENCES a, k text REFERENCES a (k));
	CREATE TABLE parted (id int PRIMARY KEY, v int) PARTITION BY RANGE (id) USING leanstore;
	CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
	CREATE INDEX ON parted (v);
	CREATE MATERIALIZED VIEW m AS SELECT * FROM a;
	CREATE UNIQUE INDEX m_id ON m (id);
	ALTER TABLE a REPLICA IDENTITY USING INDEX a_pkey;
	CREATE OPERATOR CLASS my_ops FOR TYPE int USING leanstore AS OPERATOR 1 <, OPERATOR 2 <=,
		OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int);
	CREATE INDEX a_my ON a (n my_ops);
	INSERT INTO a SELECT i, i, i, i, i FROM generate_series(1, 100) i;
	INSERT INTO b VALUES (1, '2');
});
my $access_methods = q{SELECT c.oid::regclass, a.amname
	FROM pg_class c JOIN pg_am a ON a.oid = relam
	WHERE relkind IN ('i', 'I') AND relnamespace = 'public'::regnamespace ORDER BY c.relname};
my $dump = $node->basedir . '/dump.sql';
command_ok([ 'pg_dump', '-d', $node->connstr('dumped'), '-f', $dump ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'),
	'-f', $dump ], 'restore');
is($node->safe_psql('restored', $access_methods), $node->safe_psql('dumped', $access_methods),
	'the same access methods');
my @schemas;
foreach my $database ('dumped', 'restored')
{
	my ($schema) = run_command([ 'pg_dump', '-s', '-d', $node->connstr($database) ]);
	push @schemas, $schema =~ s/^\\(?:un)?restrict .*\n?//mgr;
}
is($schemas[1], $schemas[0], 'the same schema');

# A database copied with its indexes.
SKIP:
{
	skip 'the copy would not be in WAL, so it is refused', 1 if LeanstoreTest::in_wal();
	$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE restored');
	is($node->safe_psql('copied', q{SET enable_seqscan = off;
		INSERT INTO a VALUES (101, 'x', 101, 101, 101); SELECT count(*) FROM a WHERE id > 50}),
		'51', 'a copied database');
}
$node->leanstore_check_ok('at the end');

$node->stop;
done_testing();
