# The entries of an index that was built are durable when the command that built it has returned,
# also where its transaction has changed no row.  The server dies a moment later, before the log is
# written for some other reason.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('built', fsync => 'on', autovacuum => 'off');

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, k int, v text) USING leanstore;
	INSERT INTO t SELECT i, i * 7 % 1000, 'row ' || i FROM generate_series(1, 1000) i});

sub crash_behind
{
	my ($what, $sql, $column) = @_;
	my $engine_worker = $node->engine_worker_pid;
	my $checkpointer = $node->child_pid('checkpointer');

	$node->psql('postgres', "$sql;\nCOPY (SELECT 1) TO PROGRAM 'kill -9 $engine_worker'");
	$node->wait_for_restart($checkpointer);
	is( $node->safe_psql('postgres', qq{SET enable_seqscan = off;
			SELECT count(*) FROM t WHERE $column IS NOT NULL}),
		'1000', "$what: all entries are there");
	is($node->safe_psql('postgres', "SELECT leanstore_check('t') IS NOT NULL"), 't',
		"$what: the check finds nothing");
}

my %commands = (
	'CREATE INDEX' => ['CREATE INDEX t_k ON t (k)', 'k'],
	'CREATE INDEX CONCURRENTLY' => ['CREATE INDEX CONCURRENTLY t_v ON t (v)', 'v'],
	'REINDEX' => ['REINDEX INDEX t_k', 'k'],
	'REINDEX CONCURRENTLY' => ['REINDEX INDEX CONCURRENTLY t_v', 'v']);
crash_behind($_, @{ $commands{$_} }) for sort keys %commands;

# With rows in the same transaction, and without the server waiting for its own log.
crash_behind('beside changed rows', q{SET synchronous_commit = off;
	BEGIN;
	UPDATE t SET v = v || '.' WHERE id <= 10;
	CREATE INDEX t_vk ON t (v, k);
	COMMIT}, 'v');

$node->stop;
done_testing();
