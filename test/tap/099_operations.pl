# The commands of docs/operations.md, as they stand there.
use strict;
use warnings FATAL => 'all';

use DocumentedCommands;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

sub commands
{
	return DocumentedCommands::of('docs/operations.md', @_);
}

my $primary = LeanstoreTest->prepare_node('primary',
	init => { allows_streaming => 1, has_archiving => 1 },
	'leanstore.log' => 'wal',
	listen_addresses => '');
$primary->start;
$primary->safe_psql('postgres', q{CREATE EXTENSION leanstore_am;
	CREATE TABLE t (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO t SELECT i, repeat('v', i) FROM generate_series(1, 3000) i});
my $count = 0;
my @copies;

sub set_port
{
	my ($node) = @_;

	append_to_file($node->data_dir . '/postgresql.auto.conf',
		sprintf("port = %d\narchive_mode = off\n", $node->port));
	return;
}

# A data directory for a copy, and the commands with its name in them, run.
sub run_commands
{
	my ($copy, @commands) = @_;
	my $directory = $copy->data_dir;
	# the name of a standby that is made of the primary
	local $ENV{PGAPPNAME} = $primary->name;

	foreach my $command (@commands)
	{
		DocumentedCommands::run_ok($primary, $command,
			{ COPY => $directory, ARCHIVE => $primary->archive_dir,
				FULL => "$directory.full", INCREMENT => "$directory.increment",
				OLD => $primary->data_dir, SOURCE => $copy->connstr });
		# It has a socket, and an archive, of its own.
		set_port($copy) if $command->{text} =~ /-D COPY .*-c fast|-o COPY/;
		set_port($primary) if $command->{text} =~ /^pg_rewind/;
	}
	return;
}

sub new_copy
{
	my $copy = LeanstoreTest->new('copy' . ++$count);

	push @copies, $copy;
	return $copy;
}

# It runs, started by a command.
sub rows_ok
{
	my ($copy, $rows, $name, %how) = @_;

	$copy->_update_pid(1);
	$copy->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
	is($copy->safe_psql('postgres', 'SELECT count(*) FROM t'), $rows, $name);
	$copy->leanstore_check_ok($name);
	$copy->stop unless $how{goes_on};
	return;
}

my @backup = commands('Base backup');
my $copy = new_copy();
run_commands($copy, @backup);
rows_ok($copy, 3000, 'a base backup');

my ($summarize, $full, @increment) = commands('Incremental backups');
my $combined = new_copy();
run_commands($combined, $summarize);
run_commands($combined, $full);
$primary->safe_psql('postgres', 'DELETE FROM t WHERE id > 2900');
run_commands($combined, @increment);
rows_ok($combined, 2900, 'an incremental backup');

my $restored = new_copy();
run_commands($restored, $backup[0]);
$primary->safe_psql('postgres', 'DELETE FROM t WHERE id > 2000');
my ($point, @recovery) = commands('Recovery to a point in time');
run_commands($restored, $point);
$primary->safe_psql('postgres', 'TRUNCATE t; SELECT pg_switch_wal()');
run_commands($restored, @recovery);
rows_ok($restored, 2000, 'at the restore point');

my $standby = new_copy();
my ($make, $start, $promote) = commands('Standby and failover');
run_commands($standby, $make, $start);
$primary->safe_psql('postgres', q{INSERT INTO t SELECT i, 'new' FROM generate_series(1, 100) i});
$standby->_update_pid(1);
$primary->poll_query_until('postgres',
	'SELECT replay_lsn >= pg_current_wal_lsn() FROM pg_stat_replication');
$primary->stop;
run_commands($standby, $promote);
rows_ok($standby, 100, 'a promoted standby', goes_on => 1);

run_commands($standby, commands('The old primary as a standby'));
$primary->_update_pid(1);
$standby->safe_psql('postgres', 'DELETE FROM t WHERE id > 50');
$standby->wait_for_catchup($primary);
$standby->stop;
$primary->promote;
rows_ok($primary, 50, 'the old primary');
done_testing();
