# A prepared transaction that the server ends while its engine still recovers: an apply worker does
# not wait for the engine.  Snapshots of before see nothing of it, on either side; later ones all.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use Time::HiRes qw(usleep);

my $publisher = LeanstoreTest->new_node('publisher', wal_level => 'logical', max_wal_senders => 5,
	max_prepared_transactions => 5, fsync => 'off');
my $subscriber = LeanstoreTest->new_node('subscriber', max_prepared_transactions => 5,
	wal_retrieve_retry_interval => '100ms', 'leanstore.checkpoint_timeout' => '1h');
my $connection = $publisher->connstr . ' dbname=postgres';
my $both = 'SELECT (SELECT sum(n) FROM t), (SELECT sum(n) FROM h)';

$publisher->safe_psql('postgres', q{
	CREATE TABLE t (k int PRIMARY KEY, n int);
	CREATE TABLE h (k int PRIMARY KEY, n int);
	CREATE TABLE cut (k int PRIMARY KEY);
	INSERT INTO t SELECT g, 0 FROM generate_series(1, 3) g;
	INSERT INTO h TABLE t;
	CREATE PUBLICATION p FOR ALL TABLES});
$subscriber->safe_psql('postgres', qq{
	CREATE TABLE t (k int PRIMARY KEY, n int) USING leanstore;
	CREATE TABLE h (k int PRIMARY KEY, n int) USING heap;
	CREATE TABLE cut (k int PRIMARY KEY) USING leanstore;
	CREATE TABLE redone (k int) USING leanstore;
	CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p WITH (two_phase = true)});
$subscriber->wait_for_subscription_sync($publisher, 's');

# Starts the server; the engine worker is stopped as soon as it is there.  Its PID.
sub start_without_engine
{
	my $file = $subscriber->data_dir . '/postmaster.pid';
	my $pid = fork // die "cannot fork: $!";

	if ($pid == 0)
	{
		foreach (1 .. 100_000)
		{
			my ($postmaster) = -s $file ? slurp_file($file) =~ /^(\d+)/ : ();
			local $subscriber->{_pid} = $postmaster;
			my $worker = $subscriber->child_pid('leanstore engine worker');
			POSIX::_exit(kill('STOP', $worker) == 1 ? 0 : 1) if $worker;
			usleep(200);
		}
		POSIX::_exit(1);
	}
	$subscriber->start;
	waitpid($pid, 0);
	is($?, 0, 'the engine worker is stopped');
	return $subscriber->engine_worker_pid;
}

foreach my $end ([ 'COMMIT', '1|1' ], [ 'ROLLBACK', '1|1' ], [ 'COMMIT', '2|2' ])
{
	my ($how, $after) = @$end;
	my $before = $subscriber->safe_psql('postgres', $both);

	# what it cuts gets another file, and the old one is removed at its end
	$publisher->safe_psql('postgres', q{INSERT INTO cut SELECT generate_series(1, 5000)});
	$publisher->wait_for_catchup('s');
	$publisher->safe_psql('postgres', q{BEGIN; UPDATE t SET n = n + 1 WHERE k = 1;
		UPDATE h SET n = n + 1 WHERE k = 1; TRUNCATE cut; INSERT INTO cut VALUES (-1);
		PREPARE TRANSACTION 'p'});
	$subscriber->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_prepared_xacts');
	# so that recovery takes longer than what stops it
	$subscriber->safe_psql('postgres', 'INSERT INTO redone SELECT generate_series(1, 20000)');
	$subscriber->stop($after eq '2|2' ? 'fast' : 'immediate');

	my $log = -s $subscriber->logfile;
	my $worker = start_without_engine();
	my $old = $subscriber->background_psql('postgres');

	is($old->query_safe(q{BEGIN ISOLATION LEVEL REPEATABLE READ;
		SELECT count(*) FROM pg_prepared_xacts}), '1', 'a snapshot of before');
	$publisher->safe_psql('postgres', "$how PREPARED 'p'");
	$subscriber->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_prepared_xacts');
	ok(!$subscriber->log_contains('leanstore engine is ready', $log),
		'the engine has not recovered');
	kill 'CONT', $worker;
	is($old->query_safe($both), $before, "$how PREPARED: the snapshot of before");
	is($subscriber->safe_psql('postgres', $both), $after, "$how PREPARED: a new one");
	is($subscriber->safe_psql('postgres', 'SELECT count(*), min(k) FROM cut'),
		$how eq 'COMMIT' ? '1|-1' : '5001|-1', "$how PREPARED: the table that was cut");
	$publisher->safe_psql('postgres', 'DELETE FROM cut WHERE k > 0');
	$publisher->wait_for_catchup('s');
	$old->query_safe('COMMIT');
	$old->quit;
	is(($subscriber->leanstore_check)[1], undef, 'no damage');
}

$subscriber->stop;
$publisher->stop;
done_testing();
