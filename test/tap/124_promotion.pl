# A standby is promoted under its sessions, with transactions prepared (TWOPH-6 in
# engine/recovery/two_phase.hpp): snapshots of before go on, whether they have read leanstore tables
# already or not, also those of the standby's own standby.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my %settings = (max_standby_streaming_delay => -1, wal_retrieve_retry_interval => '100ms');
my $primary = LeanstoreTest->new_node('primary', init => { allows_streaming => 1 },
	'leanstore.log' => 'wal', max_connections => 60, max_prepared_transactions => 5);
$primary->safe_psql('postgres', q{
	CREATE TABLE t (k int PRIMARY KEY, n int) USING leanstore;
	CREATE TABLE h (k int PRIMARY KEY, n int) USING heap;
	INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g;
	INSERT INTO h TABLE t});
$primary->backup('backup');
my $standby = LeanstoreTest->new_standby('standby', $primary, 'backup', %settings);
my $next = LeanstoreTest->new_standby('next', $primary, 'backup', %settings);
$next->append_conf('postgresql.conf', "primary_conninfo = '" . $standby->connstr . "'");
$next->restart;

my $both = 'SELECT (SELECT sum(n * k) FROM t), (SELECT sum(n * k) FROM h)';
my $by_index = "SET enable_seqscan = off; $both; RESET enable_seqscan";

sub change
{
	my ($node, $add, $where, $end) = @_;

	return $node->safe_psql('postgres', "BEGIN; UPDATE t SET n = n + $add WHERE $where;
		UPDATE h SET n = n + $add WHERE $where; $end");
}

sub catch_up
{
	$primary->wait_for_catchup($standby);
	$standby->wait_for_catchup($next, 'replay', $primary->lsn('write'));
	return;
}

# Sessions with a snapshot of now, one of which reads the tables with it already.
my @old;
sub look
{
	foreach my $node ($standby, $next)
	{
		my $wanted = $node->safe_psql('postgres', $both);

		foreach my $query ('SELECT 1', $both)
		{
			my $session = $node->background_psql('postgres', on_error_stop => 0);
			$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
			$session->query_safe($query);
			push @old, [ $session, $wanted, $node->name . ' ' . scalar(@old) . ": $query" ];
		}
	}
	return;
}

sub shows_the_same
{
	my ($when) = @_;

	foreach my $snapshot (@old)
	{
		is($snapshot->[0]->query($both), $snapshot->[1], "$when: $snapshot->[2]");
		is($snapshot->[0]->query($by_index), $snapshot->[1], "$when: $snapshot->[2], by an index");
	}
	return;
}

catch_up();
$_->poll_query_until('postgres', 'SELECT count(*) = 100 FROM t') foreach $standby, $next;

# A session that is open, and three that are prepared.
my $open = $primary->background_psql('postgres');
$open->query_safe('BEGIN; UPDATE t SET n = n + 1000 WHERE k = 50');
change($primary, 7, "k = $_", "PREPARE TRANSACTION 'p$_'") foreach 1, 2, 3;
foreach my $i (1 .. 3)
{
	catch_up();
	look();
	change($primary, $i, 'k > 10 AND k < 50', 'COMMIT') foreach 1 .. 3;
}
catch_up();
look();
$primary->stop('immediate');
$open->{run}->finish;
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT count(*) = 100 FROM t');

shows_the_same('promoted');
change($standby, 100, 'k > 10 AND k < 60', 'COMMIT');
$standby->safe_psql('postgres', $_) foreach q{COMMIT PREPARED 'p1'}, q{ROLLBACK PREPARED 'p2'};
$standby->wait_for_catchup($next);
shows_the_same('changed');
is($_->safe_psql('postgres', q{SELECT confl_snapshot FROM pg_stat_database_conflicts
	WHERE datname = 'postgres'}), '0', 'no snapshot was in conflict') foreach $standby, $next;
foreach my $snapshot (@old)
{
	$snapshot->[0]->query_safe('COMMIT');
	$snapshot->[0]->quit;
}

# --- What is prepared still survives the new primary's crash --------------------------------------

my $now = $standby->safe_psql('postgres', $both);
like($now, qr/^(\d+)\|\1$/, 'both tables have the same');
is($next->safe_psql('postgres', $both), $now, 'and on the next standby');
CrashDriver::kill_server($standby, 'all');
$standby->start;
is($standby->safe_psql('postgres', $both), $now, 'behind a crash');
$standby->safe_psql('postgres', q{COMMIT PREPARED 'p3'});
my ($t, $h) = split /\|/, $now;
is($standby->safe_psql('postgres', $both), ($t + 21) . '|' . ($h + 21), 'what was prepared before');
$standby->wait_for_catchup($next);
is($next->safe_psql('postgres', $both), ($t + 21) . '|' . ($h + 21), 'and on the next standby');
is(($_->leanstore_check)[1], undef, 'no damage') foreach $standby, $next;

$_->stop foreach $next, $standby;
done_testing();
