# Recovery may be killed as often as one likes, so may checkpoints, and each
# time the next start finds the same: recovery is repeatable.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = LeanstoreTest->new_node('crash',
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.checkpoint_timeout' => '1h',
	checkpoint_timeout => '1h');
my $all = q{SELECT count(*), sum(id), sum(v), sum(length(t)) FROM t};
my $index = q{SET enable_seqscan = off; SET enable_bitmapscan = off;
	SELECT count(*) FROM t WHERE v > 0};

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v int, t text) USING leanstore;
	CREATE INDEX t_v ON t USING btree (v);
	INSERT INTO t SELECT i, i, repeat('t', i % 100) FROM generate_series(1, 10000) i;
	CHECKPOINT;
});

# A long log of every kind of change, and a transaction open at its end.
sub make_log
{
	my ($n) = @_;
	$node->safe_psql('postgres', qq{
		INSERT INTO t SELECT i, i, repeat('n', i % 150)
			FROM generate_series(10000 * $n + 1, 10000 * $n + 10000) i;
		UPDATE t SET t = t || '+' WHERE id % 5 = 0;
		UPDATE t SET v = v + 1 WHERE id % 11 = 0;
		DELETE FROM t WHERE id % 13 = $n;
		UPDATE t SET t = repeat(md5(id::text), 200) WHERE id % 1000 = 0;
		BEGIN; DELETE FROM t; ROLLBACK});
	my $open = $node->background_psql('postgres', on_error_stop => 0);
	$open->query(q{BEGIN; UPDATE t SET v = -1, t = 'open' WHERE id % 2 = 0;
		DELETE FROM t WHERE id % 3 = 0;
		INSERT INTO t SELECT i, i, 'open' FROM generate_series(1000001, 1003000) i; SELECT 1});
	return $open;
}

foreach my $n (1 .. 2)
{
	my $open = make_log($n);
	my $want = $node->safe_psql('postgres', $all);
	my $rows = $node->safe_psql('postgres', $index);

	CrashDriver::kill_server($node, 'all');
	eval { $open->quit };
	# Later and later.
	foreach my $seconds (0, 0.03, 0.1, 0.2, 0.35)
	{
		CrashDriver::start_and_kill($node, $seconds);
	}
	$node->start;
	is($node->safe_psql('postgres', $all), $want,
		"pass $n: recovery after interrupted ones finds what was committed");
	is($node->safe_psql('postgres', $index), $rows, "pass $n: also by index");
	$node->leanstore_check_ok("pass $n");
}

# A server that is ready is killed before it has done anything, then after a few changes.
my $want = $node->safe_psql('postgres', $all);
CrashDriver::kill_server($node, 'all');
$node->start;
CrashDriver::kill_server($node, 'postmaster');
$node->start;
is($node->safe_psql('postgres', $all), $want, 'killed again right after recovery');
$node->safe_psql('postgres', q{INSERT INTO t VALUES (0, 7, 'late')});
CrashDriver::kill_server($node, 'all');
$node->start;
is($node->safe_psql('postgres', 'SELECT v FROM t WHERE id = 0'), '7',
	'a commit soon after recovery outlives the next crash');

# During checkpoints, under load.
$node->pgbench_init('postgres', 1);
foreach my $round (1 .. 4)
{
	my $run = $node->start_pgbench('postgres', qw(-c 2 -T 60 -N));
	CrashDriver::wait_for_rows($node, 'pgbench_history', 20);
	my $checkpoint = CrashDriver::checkpoint_in_background($node);
	usleep($round * 25_000 + rand 25_000);
	CrashDriver::kill_server($node, 'all');
	$node->finish_pgbench($run);
	waitpid($checkpoint, 0);
	$node->start;
	is($node->safe_psql('postgres', q{SELECT (SELECT sum(abalance) FROM pgbench_accounts)
		= (SELECT coalesce(sum(delta), 0) FROM pgbench_history)}), 't',
		"round $round: killed during a checkpoint");
	$node->leanstore_check_ok("round $round");
}
$node->stop('fast');
$node->start;
$node->leanstore_check_ok('after a clean restart at the end');
$node->stop;
done_testing();
