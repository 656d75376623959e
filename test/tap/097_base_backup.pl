# leanstore.log = wal: base backups have leanstore tables, made while these change, and so has what
# is recovered from one and archived WAL to a point in time.
#
# The backup is made under load; the primary crashes behind it, and the copy in the middle of its
# recovery, now and then.  At a restore point all is as it was there, row by row.  What cannot be
# restored says so, and heap tables are there nevertheless.
#
# Environment: BACKUPS (rounds, 2).
use strict;
use warnings FATAL => 'all';

use CopiedServer;
use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $rounds = $ENV{BACKUPS} // 2;

my $primary = CopiedServer::new_primary('primary', allows_streaming => 1, has_archiving => 1);

foreach my $round (1 .. $rounds)
{
	my @load = CopiedServer::start_load($primary);
	usleep(500_000);

	# Open since before the backup, and never committed; or ended behind it.
	my $old = $primary->background_psql('postgres');
	$old->query_safe("BEGIN; UPDATE large SET v = 'lost' WHERE id > 206");
	my $ends = $primary->background_psql('postgres');
	$ends->query_safe(q{BEGIN;
		INSERT INTO large SELECT i, 0, repeat('k', 9000) FROM generate_series(1001, 1040) i});
	CopiedServer::prepare($primary, "stays$round", 201);
	CopiedServer::prepare($primary, "ends$round", 203);
	my $seen = $primary->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history');
	$primary->backup("backup$round");
	$ends->query_safe('COMMIT');
	$primary->safe_psql('postgres', "COMMIT PREPARED 'ends$round'");
	CopiedServer::prepare($primary, "later$round", 205);
	$ends->quit;
	usleep(500_000);

	if ($round % 2 == 0)
	{
		CopiedServer::kill_under_load($primary, @load);
		$old->{run}->kill_kill;
		@load = CopiedServer::start_load($primary);
		usleep(1_000_000);
	}
	else
	{
		$old->quit;
	}
	CopiedServer::stop_load($primary, @load);
	my $expected = $primary->safe_psql('postgres', $CopiedServer::contents);
	$primary->safe_psql('postgres', "SELECT pg_create_restore_point('point$round')");
	# What comes behind is not there.
	$primary->safe_psql('postgres', q{UPDATE large SET v = 'behind' WHERE id < 200;
		INSERT INTO on_heap VALUES (0); SELECT pg_switch_wal()});

	my $copy = LeanstoreTest->new("copy$round");
	$copy->init_from_backup($primary, "backup$round", has_restoring => 1, standby => 0);
	$copy->set_config(archive_mode => 'off',
		recovery_target_name => "point$round",
		recovery_target_action => 'pause');
	# A promotion that is killed goes on behind the target, heap tables, too.
	CrashDriver::start_and_kill($copy, rand 1.0) foreach 1 .. 2;
	$copy->set_config(recovery_target_action => 'promote');
	$copy->start;
	$copy->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
	is($copy->safe_psql('postgres', $CopiedServer::contents), $expected,
		"at the restore point all is as it was, round $round");
	foreach my $node ($primary, $copy)
	{
		$node->safe_psql('postgres', "COMMIT PREPARED 'stays$round'");
		$node->safe_psql('postgres', "ROLLBACK PREPARED 'later$round'");
	}
	is($copy->safe_psql('postgres', q{SELECT count(*), count(*) FILTER (WHERE n = -1),
			sum(length(v))
		FROM large WHERE id > 200 AND id < 1000 OR id > 2000}), '12|2|98002',
		"prepared transactions are there and end as they are told, round $round");
	cmp_ok($copy->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history'), '>=', $seen,
		"what was committed before the backup is there, round $round");
	$copy->pgbench_balanced_ok('postgres', "the copy, round $round");
	$copy->leanstore_check_ok("the copy, round $round");

	# It is a server like others: it works, crashes, and can be backed up.
	$copy->run_pgbench('postgres', qw(-c 2 -t 100));
	CrashDriver::kill_server($copy, 'all');
	$copy->start;
	$copy->pgbench_balanced_ok('postgres', "the copy after a crash, round $round");
	$copy->leanstore_check_ok("the copy after a crash, round $round");
	ok(!glob($copy->data_dir . '/leanstore/resto*'), "nothing is left over, round $round");
	$copy->stop;
	CopiedServer::renew_rows($primary);
}

$primary->leanstore_check_ok('the primary');

# --- What could not be restored ---------------------------------------------------
$primary->safe_psql('template1', 'CREATE DATABASE another');
like(($primary->psql('template1', 'CREATE DATABASE copied TEMPLATE postgres'))[2],
	qr/ERROR:  cannot copy the files of database "postgres", which has leanstore tables/,
	'a database with leanstore tables is not copied');
is($primary->safe_psql('postgres', q{SELECT count(*) FROM pg_database WHERE datname = 'copied'}),
	'0', '... and there is none');
$primary->leanstore_check_ok('after that');

# --- What cannot be restored ----------------------------------------------------
# The primary's log, or the copy's, says why.
my $number = 0;
foreach my $case (
	[ { full_page_writes => 'off' }, qr/has no state of them to start from/ ])
{
	my ($settings, $says) = @$case;
	my ($name) = keys %$settings;
	my $before = { map { $_ => $primary->safe_psql('postgres', "SHOW $_") } keys %$settings };

	$primary->set_config(%$settings);
	$primary->restart;
	$primary->backup($name);
	my $copy = LeanstoreTest->new("refused" . ++$number);
	$copy->init_from_backup($primary, $name);
	$copy->set_config(archive_mode => 'off');
	$copy->start;
	ok($copy->log_contains($says), "$name: the log of the copy says it");
	like(($copy->psql('postgres', 'SELECT count(*) FROM large'))[2],
		qr/ERROR:  leanstore tables cannot be used in a server that was started from a base backup/,
		"$name: an error");
	is($copy->safe_psql('postgres', 'SELECT count(*) > 0 FROM on_heap'), 't', "$name: heap works");
	$copy->stop;
	$primary->set_config(%$before);
}
$primary->restart;

# A copy of a server in wal mode is not started in the other one.
$primary->backup('last');
my $other = LeanstoreTest->new('other');
$other->init_from_backup($primary, 'last');
$other->set_config(archive_mode => 'off', 'leanstore.log' => 'engine');
is($other->start(fail_ok => 1), 0, 'with the other log the copy does not start');
ok($other->log_contains(qr/"leanstore.log" must be "wal" to restore/), 'and says why');
$other->set_config('leanstore.log' => 'wal');
$other->start;
$other->leanstore_check_ok('the copy with the right log');
done_testing();
