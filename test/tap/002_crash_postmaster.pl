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
my $node = LeanstoreTest->new_node('crash', 'leanstore.buffer_pool_size' => '16MB', 'leanstore.checkpoint_timeout' => '1s');
my $directory = PostgreSQL::Test::Utils::tempdir();

CrashDriver::adopt_orphans();
$node->pgbench_init('postgres', 1);
my $acknowledged = 0;
my $doubtful = 0;
my $round = 0;
foreach my $how (qw(postmaster all postmaster all))
{
	$round++;
	my $run = $node->start_pgbench('postgres', '-c', $CLIENTS, '-T', 60, '-M', $round % 2 ? 'prepared' : 'simple',
		'--log', "--log-prefix=$directory/round_$round");
	CrashDriver::wait_for_rows($node, 'pgbench_history', 50);
	usleep(rand 700_000);
	CrashDriver::kill_server($node, $how);
	$node->finish_pgbench($run);
	$node->start;

	# One line for each transaction whose COMMIT was answered.
	my $lines = 0;
	foreach my $log (glob "$directory/round_$round.*") { $lines += () = slurp_file($log) =~ /^\d/mg; }
	$acknowledged += $lines;
	$doubtful += $CLIENTS;
	my $found = $node->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history');
	cmp_ok($lines, '>', 0, "round $round ($how): $lines transactions were acknowledged");
	cmp_ok($found, '>=', $acknowledged, "round $round: $found transactions are there, $acknowledged were acknowledged");
	cmp_ok($found, '<=', $acknowledged + $doubtful, "round $round: not more than were in flight besides");
	$node->pgbench_balanced_ok('postgres', "round $round");
	$node->leanstore_check_ok("round $round");
	# What is there now has to stay.
	($acknowledged, $doubtful) = ($found, 0);
}
$node->stop('fast');
done_testing();
