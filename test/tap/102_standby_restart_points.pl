# leanstore.log = wal: a standby redoes what it has replayed, so that its log does not grow for ever
# and its promotion has little to do.
#
# A standby, and one behind it, follow a primary at work that makes checkpoints.  Both make restart
# points, are killed in the middle and stopped in between.  A commit with synchronous_commit =
# remote_apply waits for a standby that stalls.  The near one is promoted, the far one follows it
# over the change of timelines and is promoted, too: each has all rows.
#
# Environment: STEPS (for each standby, 6).
use strict;
use warnings FATAL => 'all';

use CopiedServer;
use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $steps = $ENV{STEPS} // 6;

sub segments
{
	my ($node) = @_;

	return sort map { m{/([0-9A-F]{16})$}i ? hex $1 : () }
	  glob($node->data_dir . '/leanstore/wal/*');
}

sub restart_points
{
	my ($node) = @_;
	my $log = slurp_file($node->logfile);

	return scalar(() = $log =~ /leanstore restart point at \S+: /g);
}

my $primary = CopiedServer::new_primary('primary', allows_streaming => 1);
$primary->set_config(synchronous_standby_names => 'near');
$primary->restart;
$primary->safe_psql('postgres', 'ALTER SYSTEM SET synchronous_commit = local;
	SELECT pg_reload_conf()');
my @load = CopiedServer::start_load($primary);
$primary->backup('backup', backup_options => [ '-c', 'fast' ]);
my $near = LeanstoreTest->new('near');
$near->init_from_backup($primary, 'backup', has_streaming => 1);
$near->set_config(synchronous_standby_names => '');
$near->start;
my $far = LeanstoreTest->new('far');
$far->init_from_backup($primary, 'backup', has_streaming => 1);
$far->set_config(synchronous_standby_names => '');
$far->append_conf('postgresql.conf', sprintf("primary_conninfo = '%s application_name=far'",
	$near->connstr));
$far->start;

# They are there, and redo is under way.
my ($begin) = segments($near);
foreach my $step (1 .. 2 * $steps)
{
	my $node = $step % 2 ? $near : $far;

	$primary->safe_psql('postgres', 'CHECKPOINT');
	$primary->wait_for_replay_catchup('near') if $step % 4 == 0;
	$node->safe_psql('postgres', 'CHECKPOINT');
	usleep(rand 1_000_000);
	if ($step % 6 == 5)
	{
		$node->restart;
	}
	elsif ($step % 3 != 0)
	{
		CrashDriver::kill_server($node, 'all');
		$node->start;
	}
}

# Without being disturbed; a third one answers no queries.
my $cold = LeanstoreTest->new('cold');
$cold->init_from_backup($primary, 'backup', has_streaming => 1);
$cold->set_config(synchronous_standby_names => '', hot_standby => 'off');
$cold->start;
foreach my $node ($near, $far, $cold)
{
	my $before = restart_points($node);

	for (my $i = 0; $i < 60 && restart_points($node) < $before + 2; $i++)
	{
		$primary->safe_psql('postgres', 'CHECKPOINT');
		usleep(500_000);
	}
	cmp_ok(restart_points($node), '>=', $before + 2, $node->name . ' makes restart points');
	my ($oldest) = segments($node);
	cmp_ok($oldest, '>', $begin, $node->name . ' has removed log');
}
unlike(slurp_file($_->logfile), qr/leanstore restart point failed/, $_->name . ' had no failure')
  foreach $near, $far, $cold;
$cold->stop;

# --- remote_apply ---------------------------------------------------------------
$near->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$near->poll_query_until('postgres', q{SELECT pg_get_wal_replay_pause_state() = 'paused'});
my $session = $primary->background_psql('postgres');
$session->query_safe('SET synchronous_commit = remote_apply');
my $pid = $session->query_safe('SELECT pg_backend_pid()');
$session->query_until(qr/begun/, "\\echo begun\nUPDATE large SET v = 'applied' WHERE id = 210;\n");
ok($primary->poll_query_until('postgres', "SELECT wait_event = 'SyncRep' FROM pg_stat_activity
	WHERE pid = $pid"), 'a commit waits for a standby that stalls');
$near->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
is($session->query_safe('SELECT v FROM large WHERE id = 210'), 'applied', '... and goes on then');
$session->quit;

# --- Promotion ------------------------------------------------------------------
CopiedServer::stop_load($primary, @load);
my $expected = $primary->safe_psql('postgres', $CopiedServer::contents);
$primary->wait_for_replay_catchup($near);
$primary->stop;
$near->promote;
is($near->safe_psql('postgres', $CopiedServer::contents), $expected, 'the near one has all rows');
$near->pgbench_balanced_ok('postgres', 'the near one');
$near->leanstore_check_ok('the near one');
CopiedServer::write_load($near);
@load = CopiedServer::start_load($near);
usleep(1_000_000);
$near->safe_psql('postgres', 'CHECKPOINT');
CrashDriver::kill_server($far, 'all');
$far->start;
usleep(500_000);
$near->safe_psql('postgres', 'CHECKPOINT');
CopiedServer::stop_load($near, @load);
$expected = $near->safe_psql('postgres', $CopiedServer::contents);
$near->wait_for_replay_catchup('far');
$near->stop;
$far->promote;
is($far->safe_psql('postgres', $CopiedServer::contents), $expected, 'the far one has all rows');
$far->pgbench_balanced_ok('postgres', 'the far one');
$far->leanstore_check_ok('the far one');
done_testing();
