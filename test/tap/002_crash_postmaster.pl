# Killing the postmaster, or all processes, with SIGKILL under pgbench load loses
# no transaction that pgbench has seen committed, and keeps no half of any.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $CLIENTS = 4;
my $node = LeanstoreTest->new_node('crash',
	'leanstore.buffer_pool_size' => '64MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.checkpoint_timeout' => '1s');
my $directory = PostgreSQL::Test::Utils::tempdir();

$node->pgbench_init('postgres', 1);
my $acknowledged = 0;
my $doubtful = 0;
my $round = 0;

# Asks in an open session, as a server without its postmaster takes no new ones.
sub query_until_true
{
	my ($session, $query) = @_;

	for (my $i = 0; $i < 10 * $PostgreSQL::Test::Utils::timeout_default; $i++)
	{
		return if $session->query($query) eq 't';
		usleep(100_000);
	}
	die "never true: $query";
}

foreach my $how (qw(postmaster all postmaster all))
{
	$round++;
	my $run = $node->start_pgbench('postgres', '-c', $CLIENTS, '-T', 60,
		'-M', $round % 2 ? 'prepared' : 'simple',
		'--log', "--log-prefix=$directory/round_$round");
	CrashDriver::wait_for_rows($node, 'pgbench_history', 50);
	usleep(rand 700_000);
	CrashDriver::kill_server($node, $how);
	$node->finish_pgbench($run);
	$node->start;

	# One line for each transaction with an answered COMMIT.
	my $lines = 0;
	foreach my $log (glob "$directory/round_$round.*")
	{
		$lines += () = slurp_file($log) =~ /^\d/mg;
	}
	$acknowledged += $lines;
	$doubtful += $CLIENTS;
	my $found = $node->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history');
	cmp_ok($lines, '>', 0, "round $round ($how): $lines transactions were acknowledged");
	cmp_ok($found, '>=', $acknowledged,
		"round $round: $found transactions are there, $acknowledged were acknowledged");
	cmp_ok($found, '<=', $acknowledged + $doubtful,
		"round $round: not more than were in flight besides");
	$node->pgbench_balanced_ok('postgres', "round $round");
	$node->leanstore_check_ok("round $round");
	# What is there now has to stay.
	($acknowledged, $doubtful) = ($found, 0);
}

# The engine worker must not leave before the backends that need it: commits that wait for it to
# make a segment of the log when the postmaster dies are hardened, and no process is left to block
# the next start.
my $run = $node->start_pgbench('postgres', '-c', $CLIENTS, '-T', 60);
CrashDriver::wait_for_rows($node, 'pgbench_history', 50);
my $watcher = $node->background_psql('postgres');
my $postmaster = $node->{_pid};
my $worker = $node->engine_worker_pid;
# With leanstore.log = wal a commit still has its locks then, so the others may wait for one.
my $waiting = LeanstoreTest::in_wal()
  ? q{count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'LeanstoreLogSpace'}
  : qq{count(*) = $CLIENTS FROM pg_stat_activity WHERE wait_event = 'LeanstoreCommit'};
kill 'STOP', $worker;
query_until_true($watcher, "SELECT $waiting");
kill 'KILL', $postmaster;
# Longer than a wait in the engine lasts before the session looks after the server: the worker
# lives.
sleep 2;
kill 'CONT', $worker;
CrashDriver::kill_server($node, 'postmaster');
$node->finish_pgbench($run);
eval { $watcher->quit };
$node->start;
pass('processes in the middle of a commit leave after the postmaster');
$node->pgbench_balanced_ok('postgres', 'the postmaster died while commits waited');

# A session that was killed with the postmaster never detaches.  The worker does not wait for it.
my @sessions = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 3;
my @pids = map {
	$_->query_safe('BEGIN; SELECT count(*) FROM pgbench_branches');
	$_->query_safe('SELECT pg_backend_pid()')
} @sessions;
kill 'STOP', $node->{_pid};
kill 'KILL', $pids[0];
CrashDriver::kill_server($node, 'postmaster');
eval { $_->quit } foreach @sessions;
$node->start;
$node->pgbench_balanced_ok('postgres', 'a session died with the postmaster');

# Sessions leave also when they wait for the engine worker: without a slot there is none.
$node->stop('fast');
$node->set_config(max_worker_processes => 0);
$node->start;
$watcher = $node->background_psql('postgres');
my $reader = $node->background_psql('postgres', on_error_stop => 0);
$reader->query_until(qr/started/, "\\echo started\nSELECT count(*) FROM pgbench_history;\n");
query_until_true($watcher,
	q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'LeanstoreRecovery')});
CrashDriver::kill_server($node, 'postmaster');
eval { $_->quit } foreach $watcher, $reader;
$node->set_config(max_worker_processes => 8);
$node->start;
pass('so do those that wait for recovery');
$node->leanstore_check_ok('at the end');
$node->stop('fast');
done_testing();
