# Range locks at their limits: transactions that hold more ranges than there is memory
# for, and cannot trade them for wider ones, fail with 53200, and hold what they hold
# until then.  A session that waits for a range shows it.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use Test::More;

my $node = LeanstoreTest->new_node(
	'range_lock_memory',
	'leanstore.buffer_pool_size' => '32MB',
	'leanstore.range_lock_memory' => '64kB',    # as little as the server takes for its slots
	'max_connections' => 5,
	'max_worker_processes' => 4,
	'autovacuum_worker_slots' => 1,
	'autovacuum' => 'off',
	'max_wal_senders' => 0);

my $rows = 60_000;
$node->safe_psql('postgres', qq{
	CREATE TABLE t (k int PRIMARY KEY, v int) USING leanstore;
	INSERT INTO t SELECT k, 0 FROM generate_series(1, $rows) k;});

# Rows of one session; those in the way of which the other has locked are left out.
$node->safe_psql('postgres', q{
	CREATE PROCEDURE change(first int, last int, new int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN first .. last BY 2 LOOP
			BEGIN
				UPDATE t SET v = new WHERE k = i;
			EXCEPTION WHEN lock_not_available THEN
			END;
		END LOOP;
	END $$;});

sub session
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query_safe('SET enable_seqscan = off; SET enable_bitmapscan = off;
		BEGIN ISOLATION LEVEL SERIALIZABLE;');
	return $session;
}

# Two sessions take turns, so that every range of one lies between two of the other.
my @session = (session(), session());
$_->query_safe(q{SET LOCAL lock_timeout = '10ms'}) for @session;
my ($changed, $step, $error) = (0, 100);
for (my $from = 1; $from + $step <= $rows && !defined $error; $from += $step)
{
	for my $who (0, 1)
	{
		$session[$who]->query('CALL change(' . ($from + $who) . ', ' . ($from + $step - 1) . ', '
			. ($who + 1) . ');');
		$error = $session[$who]->{stderr} if $session[$who]->{stderr} =~ /ERROR/;
		last if defined $error;
		$changed += $step / 2;
	}
}
like($error, qr/out of memory for range locks/,
	'a transaction with more ranges than there is memory for fails');
like($error, qr/leanstore\.range_lock_memory/, 'and its hint says why');
cmp_ok($changed, '>', 4096, "after $changed rows");

is($node->safe_psql('postgres',
	q{SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction (aborted)'}),
	'1', 'one of the two has failed');

# What the other has changed no third session can change.
my $third = $node->background_psql('postgres', on_error_stop => 0);
$third->query_safe(q{SET enable_seqscan = off; SET lock_timeout = '20ms';});
my ($waited, @free) = (0);
for my $key (map { (1000 * $_ + 1, 1000 * $_ + 2) } 0 .. int($changed / 1000) - 1)
{
	$third->{stderr} = '';
	$third->query("BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE t SET v = 9 WHERE k = $key;");
	if ($third->{stderr} =~ /lock timeout/) { $waited++ }
	else { push @free, $key }
	$third->query('ROLLBACK;');
}
$third->{stderr} = '';
cmp_ok($waited, '>=', int($changed / 1000) - 2, 'the other keeps what it has locked');

$_->{stderr} = '' for @session;
$_->query('COMMIT;') for @session;
$_->quit for @session;
is($node->safe_psql('postgres', 'SELECT count(*) FROM leanstore_range_locks'), '0',
	'no lock is left');
is($node->safe_psql('postgres', 'SELECT count(DISTINCT v) FROM t WHERE v <> 0'), '1',
	'one has committed');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE v <> 0 AND k IN ('
	. join(',', 0, @free) . ')'),
	'0', 'and nothing that another could have changed');

# Fewer ranges go through again.
$third->query_safe('SET lock_timeout = 0;');
$third->query("BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE t SET v = 3 WHERE k = 7; COMMIT;");
is($node->safe_psql('postgres', 'SELECT v FROM t WHERE k = 7'), '3',
	'the next transaction finds memory');

# Which session waits can be seen, and for which.
my $holder = session();
my $waiting = session();
$holder->query_safe('UPDATE t SET v = 4 WHERE k = 11;');
my $holder_pid = $holder->query_safe('SELECT pg_backend_pid()');
my $waiting_pid = $waiting->query_safe('SELECT pg_backend_pid()');
$waiting->query_until(qr/begun/, "\\echo begun\nUPDATE t SET v = 5 WHERE k = 11;\n");
ok($node->poll_query_until('postgres', qq{
	SELECT wait_event_type = 'Lock' AND wait_event = 'virtualxid'
		AND pg_blocking_pids(pid) = ARRAY[$holder_pid]
	FROM pg_stat_activity WHERE pid = $waiting_pid}),
		'the wait is in pg_stat_activity, and who is waited for');
is($node->safe_psql('postgres',
	"SELECT DISTINCT relation FROM leanstore_range_locks WHERE pid = $waiting_pid AND NOT granted"),
	't', 'leanstore_range_locks tells the range');
$holder->query('ROLLBACK;');
$waiting->query('COMMIT;');
is($node->safe_psql('postgres', 'SELECT v FROM t WHERE k = 11'), '5',
	'and it goes on when the other has ended');

$_->quit for $holder, $waiting, $third;
$node->leanstore_check_ok('at the end');
done_testing();
