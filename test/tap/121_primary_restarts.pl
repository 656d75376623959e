# leanstore.log = wal: a primary crashes and comes back while its standby is read.
#
# Snapshots of before go on, and show what they have shown (FROW-3 in engine/txn/followed_rows.hpp),
# also where a transaction was prepared, or the primary's own records had not named one that had
# changed rows: no transaction gets another's number (FLW-8 in engine/recovery/log_follower.hpp).
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = LeanstoreTest->new_node('primary', init => { allows_streaming => 1 },
	'leanstore.log' => 'wal', max_prepared_transactions => 5);
$primary->safe_psql('postgres', q{
	CREATE TABLE t (k int PRIMARY KEY, n int) USING leanstore;
	CREATE TABLE h (n int) USING heap;
	INSERT INTO t SELECT g, 0 FROM generate_series(1, 100) g;
	INSERT INTO h VALUES (0)});
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

# --- No transaction is numbered anew --------------------------------------------------------------

# Of the heap table no row is pruned: that would be a conflict.
my $sums = 'SELECT (SELECT sum(n) FROM t), (SELECT sum(n) FROM h)';
my $reader = sub {
	my ($first_query) = @_;
	my $session = $standby->background_psql('postgres', on_error_stop => 0);
	$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
	$session->query_safe($first_query);
	return $session;
};
my $both = 'UPDATE t SET n = n + 1; INSERT INTO h SELECT count(*) FROM t';

$primary->safe_psql('postgres', "BEGIN; $both; PREPARE TRANSACTION 'p'");
# Of these transactions the engine knows nothing.
$primary->safe_psql('postgres', 'INSERT INTO h VALUES (0)') foreach 1 .. 10;
$primary->wait_for_catchup($standby);
my @readers = map { $reader->($_) } $sums, 'SELECT 1';
foreach my $start (1 .. 2)
{
	CrashDriver::kill_server($primary, 'all');
	$primary->start;
	$primary->wait_for_catchup($standby);
	is($standby->safe_psql('postgres', $sums), '0|0', "start $start: a new snapshot");
}
$primary->safe_psql('postgres', q{COMMIT PREPARED 'p'});
$primary->safe_psql('postgres', $both) foreach 1 .. 2;
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $sums), '300|300', 'what was prepared has been committed');
foreach my $i (0, 1)
{
	is($readers[$i]->query($sums), '0|0', "snapshot $i of before");
	$readers[$i]->query_safe('COMMIT');
	$readers[$i]->quit;
}

# What B has logged comes into WAL with a record of A's, which has an earlier id.  B's rows are
# undone, and its id is not given again.
my ($earlier, $later) = map { $primary->background_psql('postgres') } 1, 2;
$earlier->query_safe('BEGIN; INSERT INTO h VALUES (1)');
my $old = $reader->($sums);
my $lost = $later->query_safe(q{BEGIN; INSERT INTO t VALUES (2000, 10);
	SELECT pg_current_xact_id()});
$earlier->query_safe('INSERT INTO t VALUES (2001, 1); COMMIT');
CrashDriver::kill_server($primary, 'all');
eval { $_->quit } foreach $earlier, $later;
$primary->start;
$primary->safe_psql('postgres', $both);
cmp_ok($primary->safe_psql('postgres', 'SELECT pg_current_xact_id()'), '>', $lost,
	'an id that was lost is not given again');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $sums), $primary->safe_psql('postgres', $sums),
	'a new snapshot, behind an id that was lost');
is($old->query($sums), '300|300', 'and one of before');
$old->quit;
is($standby->safe_psql('postgres', q{SELECT confl_snapshot FROM pg_stat_database_conflicts
	WHERE datname = 'postgres'}), '0', 'no snapshot was in conflict');
$standby->leanstore_check_ok('the standby');
$standby->stop;
$primary->stop;
done_testing();
