# leanstore.log = wal: base backups that are made of a standby have leanstore tables.
#
# They begin with a restart point of the standby: the one that it was made with, one behind a
# checkpoint of the primary, one behind its shutdown.  What is made of them follows, is promoted,
# and has what the primary has.
use strict;
use warnings FATAL => 'all';

use CopiedServer;
use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $contents = "$CopiedServer::steady ORDER BY 1";
my $primary = CopiedServer::new_primary('primary', allows_streaming => 1);
$primary->backup('backup');
my $standby = LeanstoreTest->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);

# A standby of the standby.
sub expect_copy
{
	my ($name) = @_;
	my $copy = LeanstoreTest->new($name);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$standby->backup($name);
	$copy->init_from_backup($standby, $name, has_streaming => 1);
	$copy->start;
	return $copy;
}

sub expect_same
{
	my ($copy, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$primary->wait_for_replay_catchup($standby);
	$standby->wait_for_replay_catchup($copy, $primary) if $copy != $standby;
	is($copy->safe_psql('postgres', $contents), $primary->safe_psql('postgres', $contents), $name);
	return;
}

my @load = CopiedServer::start_load($primary);
my $first = expect_copy('first');
usleep(500_000);
$primary->safe_psql('postgres', 'CHECKPOINT');
usleep(500_000);
$standby->safe_psql('postgres', 'CHECKPOINT');
my $second = expect_copy('second');
usleep(300_000);
CopiedServer::stop_load($primary, @load);
expect_same($first, 'made at the standby\'s beginning');
expect_same($second, 'made behind a checkpoint');
$second->leanstore_check_ok('the second copy');
$_->stop foreach ($first, $second);

$primary->restart;
$primary->safe_psql('postgres', 'UPDATE large SET n = n + 1');
$primary->wait_for_replay_catchup($standby);
$standby->restart;
@load = CopiedServer::start_load($primary);
usleep(300_000);
$primary->safe_psql('postgres', 'CHECKPOINT');
CrashDriver::kill_server($standby, 'all');
$standby->start;
usleep(2_100_000);    # what was copied before the pages were written is refused
my $third = expect_copy('third');
CopiedServer::stop_load($primary, @load);
expect_same($standby, 'the standby itself');
$standby->leanstore_check_ok('the standby itself');
expect_same($third, 'made behind starts of both');
my $expected = $primary->safe_psql('postgres', $contents);
$third->promote;
is($third->safe_psql('postgres', $contents), $expected, 'promoted');
$third->safe_psql('postgres', 'UPDATE large SET n = n + 1, v = v || id');
$third->leanstore_check_ok('the promoted copy');
CrashDriver::kill_server($third, 'all');
$third->start;
$third->leanstore_check_ok('and behind a crash');

done_testing();
