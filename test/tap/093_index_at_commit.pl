# The entries of an index that was built are durable when the command that built it has returned,
# also where its transaction has changed no row.  So are rows and entries of whatever else writes
# files anew.  The server dies a moment later, before the log is written for some other reason.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('built', fsync => 'on', autovacuum => 'off',
	wal_level => 'logical', max_prepared_transactions => 5);

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, k int, v text) USING leanstore;
	CREATE TABLE moved (id int PRIMARY KEY, k int, v text) USING heap;
	INSERT INTO t SELECT i, i * 7 % 1000, 'row ' || i FROM generate_series(1, 1000) i;
	INSERT INTO moved SELECT * FROM t});

sub crash_behind
{
	my ($what, $sql, $column, $table) = @_;
	$table //= 't';
	my $engine_worker = $node->engine_worker_pid;
	my $checkpointer = $node->child_pid('checkpointer');

	my (undef, undef, $error) = $node->psql('postgres',
		"\\set ON_ERROR_STOP 1\n$sql;\nCOPY (SELECT 1) TO PROGRAM 'kill -9 $engine_worker'");
	unlike($error, qr/ERROR:  (?!could not close pipe)/, "$what is possible");
	$node->wait_for_restart($checkpointer);
	foreach my $scan ('seqscan', 'indexscan')
	{
		is($node->safe_psql('postgres', qq{SET enable_seqscan = off; SET enable_bitmapscan = off;
				SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_$scan = on;
				SELECT count(*) FROM $table WHERE $column IS NOT NULL}),
			'1000', "$what: all is there, by $scan");
	}
	my ($status, $checked, $refusal) =
	  $node->psql('postgres', "SELECT leanstore_check('$table') IS NOT NULL");
	is($checked . $refusal, 't', "$what: the check finds nothing");
	return;
}

# Without a row that the transaction changes.
my $parallel = q{SET min_parallel_table_scan_size = 0; SET max_parallel_maintenance_workers = 2;
	ALTER TABLE t SET (parallel_workers = 2)};
my %commands = (
	'CREATE INDEX' => ['CREATE INDEX t_k ON t (k)', 'k'],
	'CREATE INDEX CONCURRENTLY' => ['CREATE INDEX CONCURRENTLY t_v ON t (v)', 'v'],
	'CREATE INDEX, parallel' => ["$parallel; CREATE INDEX t_kv ON t (k, v)", 'k'],
	'CREATE INDEX, prepared' => [q{BEGIN; CREATE INDEX t_vk ON t (v, k);
		PREPARE TRANSACTION 'built'; COMMIT PREPARED 'built'}, 'v'],
	'REINDEX' => ['REINDEX INDEX t_k', 'k'],
	'REINDEX CONCURRENTLY' => ['REINDEX INDEX CONCURRENTLY t_v', 'v'],
	'REINDEX TABLE, parallel' => ["$parallel; REINDEX TABLE t", 'k'],
	'UNIQUE' => ['ALTER TABLE t ADD UNIQUE (v)', 'v']);
crash_behind($_, @{ $commands{$_} }) for sort keys %commands;

# New files, with rows.
my @rewrites = (
	['another type', 'ALTER TABLE t ALTER k TYPE bigint', 'k'],
	['CLUSTER', 'CLUSTER t USING t_k', 'k'],
	['VACUUM FULL', 'VACUUM FULL t', 'k'],
	['TRUNCATE', q{BEGIN; CREATE TEMP TABLE old AS SELECT * FROM t; TRUNCATE t;
		INSERT INTO t SELECT * FROM old; COMMIT}, 'k'],
	['CREATE TABLE AS', q{BEGIN; CREATE TABLE copied USING leanstore AS SELECT * FROM t;
		CREATE INDEX copied_k ON copied (k); COMMIT}, 'k', 'copied'],
	['materialized view', q{BEGIN; CREATE MATERIALIZED VIEW m USING leanstore AS SELECT * FROM t;
		CREATE UNIQUE INDEX m_k ON m (k, id); COMMIT}, 'k', 'm'],
	['its refresh', 'REFRESH MATERIALIZED VIEW m', 'k', 'm'],
	['leanstore_move()', q{SET leanstore.replace_btree = on; CALL leanstore_move('moved')}, 'id',
		'moved']);
crash_behind(@$_) foreach @rewrites;

# With rows in the same transaction, and without the server waiting for its own log.
crash_behind('beside changed rows', q{SET synchronous_commit = off;
	BEGIN;
	UPDATE t SET v = v || '.' WHERE id <= 10;
	CREATE INDEX t_vid ON t (v, id);
	COMMIT}, 'v');

$node->stop;
done_testing();
