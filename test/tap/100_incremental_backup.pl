# leanstore.log = wal: chains of incremental backups have leanstore tables.
#
# A full backup and two incremental ones are made under load, over a crash or a clean restart of the
# primary; files get shorter in between.  What pg_combinebackup makes of them is recovered to a
# restore point, and has all rows.  Pages that did not change are not in an incremental backup.
# What was written with the other log is: whole files then.  Files are made meanwhile, too
# (PLACE-3).
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
$primary->set_config(summarize_wal => 'on');
$primary->restart;
$primary->safe_psql('postgres', q{
	CREATE TABLE stays (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO stays SELECT i, repeat('s', 500) FROM generate_series(1, 20000) i;
	CREATE TABLE shrinks (id int PRIMARY KEY, v text) USING leanstore});

sub incremental
{
	my ($name, $prior) = @_;

	$primary->backup($name, backup_options =>
		[ '--incremental', $primary->backup_dir . "/$prior/backup_manifest", '-c', 'fast' ]);
	return;
}

sub file_in
{
	my ($backup, $table) = @_;
	my $path = $primary->safe_psql('postgres', "SELECT pg_relation_filepath('$table')");

	(my $incremental = $path) =~ s{([^/]+)$}{INCREMENTAL.$1};
	return $primary->backup_dir . "/$backup/$incremental";
}

sub combine
{
	my ($name, $last, @prior) = @_;
	my $copy = LeanstoreTest->new($name);

	$copy->init_from_backup($primary, $last, combine_with_prior => \@prior, has_restoring => 1,
		standby => 0);
	$copy->set_config(archive_mode => 'off');
	return $copy;
}

sub point_of
{
	my ($name) = @_;

	$primary->safe_psql('postgres', "SELECT pg_create_restore_point('$name')");
	return;
}

my $contents = $CopiedServer::contents =~ s/ORDER BY 1/UNION ALL
	SELECT 's', count(*), sum(id), sum(hashtext(stays::text)::bigint) FROM stays
	UNION ALL SELECT 'x', count(*), sum(id), sum(hashtext(shrinks::text)::bigint) FROM shrinks
	ORDER BY 1/r;

foreach my $round (1 .. $rounds)
{
	$primary->safe_psql('postgres', q{TRUNCATE shrinks;
		INSERT INTO shrinks SELECT i, repeat('x', 200) FROM generate_series(1, 20000) i});
	my @load = CopiedServer::start_load($primary);
	usleep(300_000);
	$primary->backup("full$round", backup_options => [ '-c', 'fast' ]);
	usleep(500_000);
	$primary->safe_psql('postgres', 'DELETE FROM shrinks WHERE id > 2000');
	$primary->safe_psql('postgres', 'VACUUM shrinks');
	if ($round % 2 == 0)
	{
		CopiedServer::kill_under_load($primary, @load);
		@load = CopiedServer::start_load($primary);
	}
	my $old = $primary->background_psql('postgres');
	$old->query_safe("BEGIN; UPDATE large SET v = 'lost' WHERE id > 206");
	incremental("first$round", "full$round");
	$primary->safe_psql('postgres', q{
		INSERT INTO shrinks SELECT i, repeat('y', 150) FROM generate_series(20001, 25000) i});
	usleep(500_000);
	if ($round % 2 != 0)
	{
		$old->quit;
		CopiedServer::stop_load($primary, @load);
		$primary->restart;
		@load = CopiedServer::start_load($primary);
	}
	incremental("second$round", "first$round");
	usleep(300_000);
	$old->quit if $round % 2 == 0;
	CopiedServer::stop_load($primary, @load);
	my $expected = $primary->safe_psql('postgres', $contents);
	point_of("point$round");
	$primary->safe_psql('postgres', q{UPDATE large SET v = 'behind' WHERE id < 200;
		SELECT pg_switch_wal()});

	ok(-s file_in("first$round", 'stays') < 100_000,
		"what has not changed is not in an incremental backup, round $round");
	ok(-f file_in("second$round", 'pgbench_accounts'),
		"what has changed is there in part, round $round");
	my $copy = combine("copy$round", "second$round", "full$round", "first$round");
	$copy->set_config(recovery_target_name => "point$round",
		recovery_target_action => 'promote');
	CrashDriver::start_and_kill($copy, rand 1.0);
	$copy->start;
	$copy->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
	is($copy->safe_psql('postgres', $contents), $expected,
		"at the restore point all is as it was, round $round");
	$copy->pgbench_balanced_ok('postgres', "the copy, round $round");
	$copy->leanstore_check_ok("the copy, round $round");
	$copy->stop;
}

# --- A time with the other log ---------------------------------------------------
# The mark of the switch stays over a start that does not get far.
$primary->backup('full', backup_options => [ '-c', 'fast' ]);
$primary->set_config('leanstore.log' => 'engine');
$primary->restart;
$primary->safe_psql('postgres', q{UPDATE stays SET v = repeat('t', 500) WHERE id % 100 = 0;
	UPDATE large SET v = repeat('u', 5000) WHERE id < 50});
$primary->stop;
$primary->set_config('leanstore.log' => 'wal');
CrashDriver::start_and_kill($primary, 0.05);
$primary->start;
$primary->safe_psql('postgres', 'SELECT count(*) FROM stays');
ok(!-e $primary->data_dir . '/leanstore/log_switched', 'the switch is over');
incremental('switched', 'full');
$primary->safe_psql('postgres', 'UPDATE stays SET id = -id WHERE id < 100');
my $expected = $primary->safe_psql('postgres', $contents);
point_of('switched');
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
my $copy = combine('switched', 'switched', 'full');
$copy->set_config(recovery_target_name => 'switched', recovery_target_action => 'promote');
$copy->start;
$copy->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
is($copy->safe_psql('postgres', $contents), $expected,
	'what was written with the other log is in an incremental backup');
$copy->leanstore_check_ok('the copy');
$copy->stop;
$primary->leanstore_check_ok('the primary');
done_testing();
