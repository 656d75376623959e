# leanstore.log = wal: a standby receives leanstore tables, shows them, and has them when it is
# promoted.
#
# It follows while the primary works, is killed and started again in the middle, and so is the
# primary.  Behind a promotion the tables are as they were on the primary, row by row; the new
# primary works, crashes, and is followed by a standby of its own.
#
# Environment: STANDBYS (rounds, 2).
use strict;
use warnings FATAL => 'all';

use CopiedServer;
use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $rounds = $ENV{STANDBYS} // 2;

my $primary = CopiedServer::new_primary('primary0', allows_streaming => 1);

foreach my $round (1 .. $rounds)
{
	my @load = CopiedServer::start_load($primary);

	usleep(300_000);
	CopiedServer::prepare($primary, "before$round", 201);
	$primary->backup("backup$round");
	my $standby = LeanstoreTest->new("primary$round");
	$standby->init_from_backup($primary, "backup$round", has_streaming => 1);
	$standby->start;
	CopiedServer::prepare($primary, "behind$round", 203);

	# It is killed and stopped behind restart points and in between; the primary crashes, too.
	foreach my $step (1 .. 4)
	{
		usleep(rand 600_000);
		$primary->safe_psql('postgres', 'CHECKPOINT') if $step % 2;
		if ($step == 2)
		{
			CopiedServer::kill_under_load($primary, @load);
			@load = CopiedServer::start_load($primary);
		}
		$primary->wait_for_catchup($standby) if $step == 3;
		$standby->safe_psql('postgres', 'CHECKPOINT') if $step != 2;
		if ($step == 4)
		{
			$standby->restart;
			next;
		}
		CrashDriver::kill_server($standby, 'all');
		$standby->start;
	}
	$standby->pgbench_balanced_ok('postgres', "the standby beside the load, round $round");
	if ($round % 2 == 0)
	{
		# A clean shutdown of the primary, and what comes behind it.
		CopiedServer::stop_load($primary, @load);
		$primary->restart;
		@load = CopiedServer::start_load($primary);
		usleep(500_000);
	}
	CopiedServer::stop_load($primary, @load);
	my $expected = $primary->safe_psql('postgres', $CopiedServer::contents);
	$primary->wait_for_catchup($standby);
	$primary->leanstore_check_ok("the primary, round $round");
	$primary->stop;

	$standby->promote;
	is($standby->safe_psql('postgres', $CopiedServer::contents), $expected,
		"behind the promotion all is as it was on the primary, round $round");
	$standby->safe_psql('postgres', "COMMIT PREPARED 'before$round'");
	$standby->safe_psql('postgres', "ROLLBACK PREPARED 'behind$round'");
	is($standby->safe_psql('postgres', q{SELECT count(*), count(*) FILTER (WHERE n = -1)
		FROM large WHERE id > 200}), '11|1', "prepared transactions ended, round $round");
	$standby->pgbench_balanced_ok('postgres', "the new primary, round $round");
	$standby->leanstore_check_ok("the new primary, round $round");
	CopiedServer::renew_rows($standby);
	CrashDriver::kill_server($standby, 'all');
	$standby->start;
	$standby->pgbench_balanced_ok('postgres', "the new primary after a crash, round $round");
	CopiedServer::write_load($standby);
	$primary = $standby;
}
$primary->leanstore_check_ok('the last primary');

# With the other log for a while: its changes are in no WAL, and the standby says so.
$primary->backup('gap');
my $standby = LeanstoreTest->new('behind_a_gap');
$standby->init_from_backup($primary, 'gap', has_streaming => 1);
$standby->start;
foreach my $log (qw(engine wal))
{
	$primary->set_config('leanstore.log' => $log);
	$primary->restart;
	$primary->safe_psql('postgres', q{INSERT INTO large VALUES (3000 + pg_backend_pid(), 0, 'v');
		INSERT INTO on_heap VALUES (4711)});
}
$primary->wait_for_catchup($standby);
ok($standby->log_contains(qr/WAL before .* lacks changes of them/),
	'a standby behind a gap says so');
$standby->restart;
$standby->promote;
like(($standby->psql('postgres', 'SELECT count(*) FROM large'))[2],
	qr/ERROR:  leanstore tables cannot be used in a server/, '... and has no leanstore tables');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM on_heap WHERE n = 4711'), '2',
	'... but all rows of heap tables');
done_testing();
