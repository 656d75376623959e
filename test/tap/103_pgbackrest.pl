# leanstore.log = wal: pgBackRest's backups have leanstore tables.
#
# A full and a differential backup are made under load, the primary crashes in between; what is
# restored to an LSN, a transaction id and a time has all rows of that moment.
#
# Environment: PGBACKREST (the program; else the one in PATH), ROUNDS (1).  Skipped where there is
# none, or one that does not know PostgreSQL 18.
use strict;
use warnings FATAL => 'all';

use CopiedServer;
use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $program = $ENV{PGBACKREST} // 'pgbackrest';
my ($minor) = (`$program version 2>/dev/null` // '') =~ /^pgBackRest 2\.(\d+)/;
plan skip_all => 'there is no pgBackRest for PostgreSQL 18' if ($minor // 0) < 57;

my $primary = CopiedServer::new_primary('primary', allows_streaming => 1);
my $directory = $primary->basedir . '/pgbackrest';
my $config = "$directory/pgbackrest.conf";

mkdir $directory or die "could not make $directory: $!";
append_to_file($config, join "\n", '[global]', "repo1-path=$directory/repo", "log-path=$directory",
	"lock-path=$directory/lock", "spool-path=$directory/spool", 'log-level-console=warn',
	'compress-type=none', 'start-fast=y', 'archive-check=y', '', '[leanstore]',
	'pg1-path=' . $primary->data_dir, 'pg1-port=' . $primary->port,
	'pg1-socket-path=' . $primary->host, '');
my @pgbackrest = ($program, "--config=$config", '--stanza=leanstore');

$primary->set_config(archive_mode => 'on',
	archive_command => join ' ', @pgbackrest, 'archive-push', '%p');
$primary->restart;
command_ok([ @pgbackrest, 'stanza-create' ], 'stanza-create');

sub restore
{
	my ($name, @target) = @_;
	my $copy = LeanstoreTest->new($name);

	mkdir $copy->basedir;
	mkdir $copy->data_dir, 0700 or die 'could not make ' . $copy->data_dir . ": $!";
	command_ok([ @pgbackrest, '--pg1-path=' . $copy->data_dir, 'restore',
			'--target-action=promote', @target ], "restore: $name");
	$copy->append_conf('postgresql.conf', sprintf("port = %d\nunix_socket_directories = '%s'\n",
		$copy->port, $copy->host));
	$copy->set_config(archive_mode => 'off');
	CrashDriver::start_and_kill($copy, rand 1.5);
	$copy->start;
	$copy->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
	return $copy;
}

foreach my $round (1 .. $ENV{ROUNDS} // 1)
{
	my @load = CopiedServer::start_load($primary);
	command_ok([ @pgbackrest, 'backup', '--type=full' ], 'backup: full');
	usleep(500_000);
	CopiedServer::kill_under_load($primary, @load);
	@load = CopiedServer::start_load($primary);
	CopiedServer::prepare($primary, "prepared$round", 201);
	command_ok([ @pgbackrest, 'backup', '--type=diff' ], 'backup: diff');
	usleep(500_000);
	CopiedServer::stop_load($primary, @load);

	my %expected;
	my %target;
	foreach my $kind (qw(lsn xid time))
	{
		my ($xid) = split /\n/, $primary->safe_psql('postgres', qq{BEGIN;
			SELECT pg_current_xact_id();
			UPDATE large SET n = n + 1, v = v || '$kind' WHERE id < 100;
			UPDATE pgbench_accounts SET filler = '$kind' WHERE aid % 100 = 0; COMMIT});
		$expected{$kind} = $primary->safe_psql('postgres', $CopiedServer::contents);
		$target{$kind} = $kind eq 'xid' ? $xid : $primary->safe_psql('postgres',
			$kind eq 'lsn' ? 'SELECT pg_current_wal_lsn()' : 'SELECT clock_timestamp()');
		usleep(100_000);
	}
	$primary->safe_psql('postgres', q{UPDATE large SET v = 'behind' WHERE id < 200;
		SELECT pg_switch_wal()});
	foreach my $kind (qw(lsn xid time))
	{
		my $copy = restore("$kind$round", "--type=$kind", "--target=$target{$kind}");

		is($copy->safe_psql('postgres', $CopiedServer::contents), $expected{$kind},
			"all rows as at the $kind, round $round");
		$copy->safe_psql('postgres', "COMMIT PREPARED 'prepared$round'");
		$copy->pgbench_balanced_ok('postgres', "$kind, round $round");
		$copy->leanstore_check_ok("$kind, round $round");
		$copy->stop;
	}
	$primary->safe_psql('postgres', "ROLLBACK PREPARED 'prepared$round'");
	CopiedServer::renew_rows($primary);
}
$primary->leanstore_check_ok('the primary');
done_testing();
