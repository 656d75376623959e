# leanstore.log = wal: PostgreSQL's WAL is the engine's log.
#
# Everything is killed under pgbench again and again; balances agree, what was acknowledged is
# there, no table is damaged.  Rounds that WAL has lost do not count though the relay log has
# them.  The log is changed over a clean shutdown only.
#
# Environment: CRASHES (6).
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $crashes = $ENV{CRASHES} // 6;

# Small, so that segments change and pages are evicted.
my $node = LeanstoreTest->new_node('wal_log',
	'leanstore.log' => 'wal',
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.max_wal_size' => '32MB',
	'leanstore.checkpoint_timeout' => '2s',
	shared_buffers => '16MB',
	max_prepared_transactions => 5,
	wal_writer_delay => '10s');
is($node->safe_psql('postgres', 'SHOW leanstore.log'), 'wal', 'the setting');

$node->pgbench_init('postgres', 2);
$node->safe_psql('postgres', 'CREATE INDEX ON pgbench_accounts (abalance)');
my $before = $node->safe_psql('postgres', 'SELECT wal_records FROM pg_stat_wal');
$node->safe_psql('postgres', q{UPDATE pgbench_accounts SET abalance = 0 WHERE aid = 1;
	SELECT pg_stat_force_next_flush()});
cmp_ok($node->safe_psql('postgres', 'SELECT wal_records FROM pg_stat_wal'), '>', $before,
	'changes of rows are in WAL');

# --- Kills ---------------------------------------------------------------------
foreach my $round (1 .. $crashes)
{
	my $load = $node->start_pgbench('postgres', qw(-c 4 -j 1 -T 60));
	my $seen = $node->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history');

	$node->poll_query_until('postgres',
		"SELECT count(*) > $seen + 50 FROM pgbench_history") or die 'pgbench does nothing';
	$node->safe_psql('postgres', 'CHECKPOINT') if $round % 3 == 0;
	usleep(rand 300_000);
	$seen = $node->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history');
	CrashDriver::kill_server($node, $round % 2 ? 'all' : 'postmaster');
	$node->finish_pgbench($load);
	CrashDriver::start_and_kill($node, rand 0.4) if $round % 3 == 1;
	$node->start;
	cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history'), '>=', $seen,
		"what was seen is there, round $round");
	$node->pgbench_balanced_ok('postgres', "round $round");
}
$node->leanstore_check_ok('after the kills');

# --- What WAL has lost -----------------------------------------------------------
# The relay log is in the page cache and survives; the commit was not flushed.
$node->safe_psql('postgres', q{CREATE TABLE t (i int) USING leanstore; INSERT INTO t VALUES (0)});
foreach my $checkpoint (0, 1)
{
	# With a checkpoint there is no round to be replayed, unless one was flushed.
	$node->safe_psql('postgres', 'CHECKPOINT') if $checkpoint;
	$node->safe_psql('postgres', q{SET synchronous_commit = off;
		INSERT INTO t SELECT generate_series(1, 1000)});
	CrashDriver::kill_server($node, 'all');
	$node->start;
	my $count = $node->safe_psql('postgres', 'SELECT count(*) FROM t');
	ok($count == 1 || $count == 1001,
		"an asynchronous commit is there or not, as a whole: $count, checkpoint $checkpoint");
	$node->safe_psql('postgres', 'DELETE FROM t WHERE i > 0');
}
$node->leanstore_check_ok('after lost commits');

# --- Both kinds of tables, prepared transactions --------------------------------
$node->safe_psql('postgres', q{
	CREATE TABLE h (i int) USING heap;
	BEGIN; INSERT INTO h VALUES (1); INSERT INTO t VALUES (1); COMMIT;
	BEGIN; INSERT INTO h VALUES (2); INSERT INTO t VALUES (2); PREPARE TRANSACTION 'kept';
	BEGIN; INSERT INTO h VALUES (3); INSERT INTO t VALUES (3); PREPARE TRANSACTION 'committed';
	COMMIT PREPARED 'committed'});
CrashDriver::kill_server($node, 'all');
$node->start;
my $rows = q{SELECT (SELECT string_agg(i::text, ',' ORDER BY i) FROM h),
	(SELECT string_agg(i::text, ',' ORDER BY i) FROM t)};
is($node->safe_psql('postgres', $rows), '1,3|0,1,3', 'a prepared transaction is prepared still');

# --- The other log ---------------------------------------------------------------
sub start_fails
{
	my ($log, $name) = @_;
	my $from = -s $node->logfile;

	$node->set_config('leanstore.log' => $log);
	is($node->start(fail_ok => 1), 0, "the server does not start: $name");
	my $text = slurp_file($node->logfile, $from);
	like($text, qr/FATAL:  "leanstore.log" was changed/, "... and says why: $name");
	my $other = $log eq 'wal' ? 'engine' : 'wal';
	like($text, qr/HINT:  Set "leanstore.log" to "$other"/, "... and what to do: $name");
	return;
}

# A server that is stopped in the middle of the engine's recovery was not shut down cleanly.
sub stop_recovered
{
	$node->safe_psql('postgres', 'SELECT count(*) FROM t');
	$node->stop('fast');
	return;
}

$node->stop('fast');
start_fails('engine', 'a prepared transaction');
$node->set_config('leanstore.log' => 'wal');
$node->start;
$node->safe_psql('postgres', q{COMMIT PREPARED 'kept'});
CrashDriver::kill_server($node, 'all');
start_fails('engine', 'a crash');
$node->set_config('leanstore.log' => 'wal');
$node->start;
stop_recovered();

$node->set_config('leanstore.log' => 'engine');
$node->start;
is($node->safe_psql('postgres', $rows), '1,2,3|0,1,2,3', 'with the other log all is there');
$node->safe_psql('postgres', 'INSERT INTO t VALUES (4); INSERT INTO h VALUES (4)');
CrashDriver::kill_server($node, 'all');
start_fails('wal', 'a crash with the own log');
$node->set_config('leanstore.log' => 'engine');
$node->start;
stop_recovered();
$node->set_config('leanstore.log' => 'wal');
$node->start;
$node->safe_psql('postgres', 'INSERT INTO t VALUES (5)');
CrashDriver::kill_server($node, 'all');
$node->start;
is($node->safe_psql('postgres', $rows), '1,2,3,4|0,1,2,3,4,5', 'and back again');
$node->pgbench_balanced_ok('postgres', 'at the end');
$node->leanstore_check_ok('at the end');
$node->stop('fast');
done_testing();
