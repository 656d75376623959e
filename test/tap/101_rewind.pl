# leanstore.log = wal: pg_rewind makes an old primary a standby of the new one.
#
# A standby is promoted while its primary goes on working, so that the two differ; the old primary
# is killed or stopped, and is rewound while the new one is at work.  As a standby it gets all that
# the new one has, and nothing of its own stays.  When it is promoted again all rows are as they
# were on the other.  wal_consistency_checking is on meanwhile.
#
# Environment: REWINDS (rounds, 2).
use strict;
use warnings FATAL => 'all';

use CopiedServer;
use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $rounds = $ENV{REWINDS} // 2;

# Behind a clean shutdown a state of the engine is in WAL before the first change of a table: a
# standby that is promoted behind that change has it, and the server can be rewound.
sub changes_follow_state
{
	my ($server, $round) = @_;

	my $xid = $server->safe_psql('postgres', q{BEGIN; UPDATE large SET n = n + 1 WHERE id = 1;
		SELECT pg_current_xact_id()::xid; COMMIT});
	my ($redo, $timeline) = split /\|/, $server->safe_psql('postgres',
		'SELECT redo_lsn, timeline_id FROM pg_control_checkpoint()');
	my ($wal, undef) = run_command([ 'pg_waldump', '--path' => $server->data_dir . '/pg_wal',
			'--start' => $redo, '--timeline' => $timeline ]);
	my @records = $wal =~ /(tx: +$xid, .*desc: COMMIT|custom187 .*UNKNOWN \(30\))/g;
	like($records[0] // '', qr/custom187/, "a state comes before the first change, round $round");
	return;
}

my $primary = CopiedServer::new_primary('primary0', allows_streaming => 1);
$primary->set_config(wal_log_hints => 'on', wal_consistency_checking => 'all');
$primary->restart;

foreach my $round (1 .. $rounds)
{
	my @load = CopiedServer::start_load($primary);

	$primary->backup("backup$round", backup_options => [ '-c', 'fast' ]);
	my $standby = LeanstoreTest->new("primary$round");
	$standby->init_from_backup($primary, "backup$round", has_streaming => 1);
	$standby->start;
	CopiedServer::prepare($primary, "both$round", 201);
	usleep(500_000);
	$primary->safe_psql('postgres', 'CHECKPOINT');
	usleep(500_000);
	if ($round % 2 == 0)
	{
		# what both have in common ends behind a clean shutdown
		CopiedServer::stop_load($primary, @load);
		$primary->restart;
		changes_follow_state($primary, $round);
		@load = CopiedServer::start_load($primary);
	}
	$primary->wait_for_catchup($standby);

	# From here on each goes its own way.
	$standby->promote;
	CopiedServer::prepare($primary, "lost$round", 203);
	$primary->safe_psql('postgres', q{CREATE TABLE lost USING leanstore AS SELECT * FROM large;
		UPDATE large SET v = 'lost' WHERE id > 205; VACUUM large});
	usleep(700_000);
	$primary->safe_psql('postgres', 'CHECKPOINT');
	usleep(300_000);
	CopiedServer::write_load($standby);
	CopiedServer::end_prepared($standby);
	my @other = CopiedServer::start_load($standby);
	$standby->safe_psql('postgres', 'CHECKPOINT');
	if ($round % 2 == 0)
	{
		CopiedServer::stop_load($primary, @load);
		$primary->stop;
	}
	else
	{
		CrashDriver::kill_server($primary, 'all');
		$primary->finish_pgbench($_) foreach @load;
	}
	usleep(500_000);
	CopiedServer::rewind($primary, $standby);
	CrashDriver::start_and_kill($primary, rand 1.0);
	$primary->start;
	usleep(500_000);
	$standby->safe_psql('postgres', 'CHECKPOINT');
	CopiedServer::stop_load($standby, @other);
	my $expected = $standby->safe_psql('postgres', $CopiedServer::contents);
	$standby->wait_for_catchup($primary);
	$standby->leanstore_check_ok("the new primary, round $round");
	CopiedServer::whole_blocks_ok($_, $_->name . ", round $round") foreach $standby, $primary;
	$standby->stop;
	$primary->promote;
	is($primary->safe_psql('postgres', $CopiedServer::contents), $expected,
		"the old primary has what the new one had, round $round");
	is($primary->safe_psql('postgres', q{SELECT to_regclass('lost') IS NULL}), 't',
		"... and nothing of its own, round $round");
	$primary->safe_psql('postgres', "COMMIT PREPARED 'both$round'");
	$primary->pgbench_balanced_ok('postgres', "the old primary, round $round");
	$primary->leanstore_check_ok("the old primary, round $round");
	CopiedServer::renew_rows($primary);
	$primary->safe_psql('postgres', 'ALTER SYSTEM RESET primary_conninfo');
	CrashDriver::kill_server($primary, 'all');
	$primary->start;
	$primary->leanstore_check_ok("the old primary after a crash, round $round");
}
done_testing();
