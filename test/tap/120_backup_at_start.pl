# leanstore.log = wal: a base backup that begins in the first moments of a server.
#
# The engine worker is held up before it can hold up checkpoints.  A checkpoint that is still under
# way when it goes on gets a state, and so the backup has leanstore tables; one that has ended by
# then has none, the server's log says so, and the copy refuses them.
use strict;
use warnings FATAL => 'all';

use FaultyDisk;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $disk = FaultyDisk->new;
my $primary = LeanstoreTest->prepare_node('primary',
	init => { allows_streaming => 1 },
	'leanstore.log' => 'wal',
	checkpoint_timeout => '60s',
	checkpoint_completion_target => '0.1',
	autovacuum => 'off',
	shared_buffers => '64MB');

$primary->start;
$primary->safe_psql('postgres', q{CREATE EXTENSION leanstore_am;
	CREATE TABLE t USING leanstore AS SELECT i FROM generate_series(1, 1000) i;
	CREATE TABLE h (v text) USING heap});
$primary->stop;

# A backup with a checkpoint of about five seconds, or one at once.
sub back_up_at_start
{
	my ($name, $at_once) = @_;

	$disk->hold(access => 'leanstore/log_switched');
	$disk->start($primary);
	$primary->safe_psql('postgres', q{INSERT INTO h SELECT repeat('x', 5000)
		FROM generate_series(1, 3000)});
	my @command = ('pg_basebackup', '-D', $primary->backup_dir . "/$name", '-h', $primary->host,
		'-p', $primary->port, '--no-sync', '-c', $at_once ? 'fast' : 'spread');
	my $backup = IPC::Run::start(\@command);
	my $log = slurp_file($primary->logfile);
	my $began = () = $log =~ /checkpoint starting/g;
	for (my $i = 0; $i < 500; $i++)
	{
		my $now = () = slurp_file($primary->logfile) =~ /checkpoint (?:starting|complete)/g;
		last if $now >= ($at_once ? 2 : 1) + $main::seen;
		select undef, undef, undef, 0.02;
	}
	select undef, undef, undef, 1 if !$at_once;
	$disk->heal;
	ok($backup->finish, "$name: a backup");
	$main::seen = () = slurp_file($primary->logfile) =~ /checkpoint (?:starting|complete)/g;
	my $copy = LeanstoreTest->new($name);
	$copy->init_from_backup($primary, $name);
	$copy->start;
	return $copy;
}

our $seen = () = slurp_file($primary->logfile) =~ /checkpoint (?:starting|complete)/g;
my $copy = back_up_at_start('spread', 0);
is($copy->safe_psql('postgres', 'SELECT count(*) FROM t'), '1000', 'it has leanstore tables');
$copy->stop;
$primary->stop;
$seen = () = slurp_file($primary->logfile) =~ /checkpoint (?:starting|complete)/g;
$copy = back_up_at_start('fast', 1);
like(slurp_file($primary->logfile), qr/will have no leanstore tables: it ended before/,
	'one that comes too early has none, and the server says so');
like(($copy->psql('postgres', 'SELECT count(*) FROM t'))[2], qr/cannot be used/,
	'and the copy, too');
$copy->stop;
$primary->safe_psql('postgres', 'INSERT INTO t VALUES (0)');
$primary->leanstore_check_ok('the primary');

done_testing();
