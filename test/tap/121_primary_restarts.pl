# leanstore.log = wal: a primary crashes and comes back while its standby is read.
#
# Snapshots of before go on, and show what they have shown (FROW-4 in engine/txn/followed_rows.hpp).
# But a primary that comes back with a transaction prepared numbers its transactions anew; its
# standby replays that when no snapshot with the old numbers is there any more, also none that has
# come while it waited (NUM-1 in src/txn/ls_snapshot.c).
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $primary = LeanstoreTest->new_node('primary', init => { allows_streaming => 1 },
	'leanstore.log' => 'wal', max_prepared_transactions => 5);
$primary->safe_psql('postgres', q{
	CREATE TABLE t (k int PRIMARY KEY, n int) USING leanstore;
	CREATE TABLE h (k int PRIMARY KEY, n int) USING heap;
	INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g;
	INSERT INTO h TABLE t});
$primary->backup('backup');
my $standby = LeanstoreTest->new_standby('standby', $primary, 'backup',
	max_standby_streaming_delay => -1, wal_retrieve_retry_interval => '100ms');
$primary->wait_for_catchup($standby);
$standby->poll_query_until('postgres', 'SELECT count(*) = 100 FROM t');

# --- Snapshots go on ----------------------------------------------------------------------------

$primary->safe_psql('postgres', q{
	CREATE TABLE w (k int PRIMARY KEY, n int, t text) USING leanstore;
	INSERT INTO w SELECT g, 0, repeat('w', g % 50) FROM generate_series(1, 5000) g});
$primary->wait_for_catchup($standby);

my $all = q{SELECT count(*), sum(n), md5(string_agg(w::text, ';' ORDER BY k)) FROM w};
my $by_index = "SET enable_seqscan = off; $all; RESET enable_seqscan";
my @old;
foreach my $crash (1 .. 3)
{
	my $old = $standby->background_psql('postgres', on_error_stop => 0);
	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	push @old, [ $old, $old->query_safe($all), $crash ];
	is($old->query_safe($by_index), $old[-1][1], "crash $crash: a snapshot, by an index");

	# rows that it needs as they were, some of which an open transaction changes, too
	$primary->safe_psql('postgres', 'UPDATE w SET n = n + 1 WHERE k % 3 > 0');
	my $open = $primary->background_psql('postgres');
	$open->query_safe(q{BEGIN; UPDATE w SET n = -1, t = t || 'x' WHERE k % 2 = 0;
		DELETE FROM w WHERE k % 5 = 0; INSERT INTO w SELECT -g, 1 FROM generate_series(1, 500) g;
		UPDATE w SET n = -2 WHERE k % 4 = 0});
	$primary->safe_psql('postgres', 'UPDATE w SET n = n + 1 WHERE k = 1');
	$primary->wait_for_catchup($standby);
	CrashDriver::kill_server($primary, 'all');
	eval { $open->quit };
	$primary->start;
	my ($count, $sum) = split /\|/, $primary->safe_psql('postgres', $all);
	is($count, 5000, "crash $crash: the open transaction is undone");

	# what was put back is logged whole, changes, and is put back once more
	$primary->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
	$primary->safe_psql('postgres', $_) foreach
		'BEGIN; UPDATE w SET n = -3 WHERE k % 2 = 0; DELETE FROM w WHERE k % 3 = 0; ROLLBACK',
		q{UPDATE w SET n = n + 1, t = t || repeat('long', 20) WHERE k % 7 = 0},
		'UPDATE w SET n = n + 1 WHERE k % 2 = 0';
	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', $all), $primary->safe_psql('postgres', $all),
		"crash $crash: a new snapshot");
	foreach my $snapshot (@old)
	{
		is($snapshot->[0]->query($_), $snapshot->[1],
			"crash $crash: the snapshot of crash $snapshot->[2] shows the same")
		  foreach $all, $by_index;
	}
}
is($standby->safe_psql('postgres', q{SELECT confl_snapshot FROM pg_stat_database_conflicts
	WHERE datname = 'postgres'}), '0', 'no snapshot was in conflict');
foreach my $snapshot (@old)
{
	$snapshot->[0]->query_safe('COMMIT');
	$snapshot->[0]->quit;
}
$standby->leanstore_check_ok('behind three crashes');

# --- Transactions are numbered anew ---------------------------------------------------------------

my $sums = 'SELECT (SELECT sum(n) FROM t), (SELECT sum(n) FROM h)';
my $reader = sub {
	my $session = $standby->background_psql('postgres', on_error_stop => 0);
	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	is($session->query_safe($sums), '0|0', $_[0]);
	return $session;
};
my $replay_waits = sub {
	return $standby->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE backend_type = 'startup' AND wait_event LIKE 'RecoveryConflict%')});
};

$primary->safe_psql('postgres', q{BEGIN; UPDATE t SET n = n + 1; UPDATE h SET n = n + 1;
	PREPARE TRANSACTION 'p'});
# The new number of that one may lie among those that the old snapshots take for ended: of these
# transactions the engine knows nothing.
$primary->safe_psql('postgres', "INSERT INTO h VALUES (1000 + $_, 0)") foreach 1 .. 10;
$primary->wait_for_catchup($standby);
my $first = $reader->('a snapshot');
CrashDriver::kill_server($primary, 'all');
$primary->start;
$primary->safe_psql('postgres', q{COMMIT PREPARED 'p'});
ok($replay_waits->(), 'replay waits for it');

# The longer that waits, the more seldom it looks.
usleep(3_000_000);
my $second = $reader->('another one, taken while replay waits');
$first->query_safe('COMMIT');
$first->quit;
usleep(2_000_000);
is($second->query_safe($sums), '0|0', 'shows the same when the first is gone');
ok($replay_waits->(), 'and replay waits for it');

# Later ones are held up, for a moment.
my (undef, undef, $error) = $standby->psql('postgres', $sums, extra_params => [ '-v',
	'VERBOSITY=verbose' ]);
like($error, qr/ERROR:  40001: canceling statement due to conflict with recovery/,
	'a third is held up');
like($error, qr/was started anew with prepared transactions/, 'and told why');
is($standby->safe_psql('postgres', 'SELECT sum(n) FROM h'), '0', 'but not from other tables');
is($second->query_safe($sums), '0|0', 'the second goes on');
$second->query_safe('COMMIT');
$primary->wait_for_catchup($standby);
is($second->query_safe($sums), '100|100', 'then all is replayed');
$second->quit;
is($standby->safe_psql('postgres', $sums), '100|100', 'and can be read');
$standby->leanstore_check_ok('the standby');
$standby->stop;
$primary->stop;
done_testing();
