# One transaction that writes several times leanstore.max_wal_size stops no other:
# others commit, checkpoints go on, and the log is kept as short as ever, for its
# undo lies in a file; whether it commits, rolls back or is lost in a crash.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use Test::More;
use Time::HiRes qw(usleep);

my $MAX_WAL = 32;
my $node = LeanstoreTest->new_node('long',
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.max_wal_size' => "${MAX_WAL}MB",
	'leanstore.checkpoint_timeout' => '1h',
	autovacuum => 'off');
my $log_mb = q{SELECT (log_position - log_redo_position) / 1048576 FROM leanstore_stat_wal};
my $counters = q{SELECT checkpoints FROM leanstore_stat_wal};

$node->pgbench_init('postgres', 1);
$node->safe_psql('postgres', q{
	CREATE TABLE big (id int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO big SELECT i, 'small' FROM generate_series(1, 20000) i});
$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');

sub shorten_log
{
	foreach (1 .. 100)
	{
		$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
		return if $node->safe_psql('postgres', $log_mb) <= 2;
		usleep(100_000);
	}
	return;
}

foreach my $end (qw(COMMIT ROLLBACK crash))
{
	my $before = $node->safe_psql('postgres', q{SELECT count(*), sum(length(v)) FROM big});
	my $history = $node->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history');
	my $checkpoints = $node->safe_psql('postgres', $counters);
	my $long = $node->background_psql('postgres', on_error_stop => 0);

	$long->query_safe('BEGIN');
	foreach my $part (1 .. 5)
	{
		my $run = $node->start_pgbench('postgres', qw(-c 2 -t 40 -N));
		$long->query_safe("UPDATE big SET v = repeat(md5(id::text || '$part$end'), 15)");
		unlike($node->finish_pgbench($run), qr/aborted|ERROR/, "$end, part $part: others work");
	}
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pgbench_history'), $history + 400,
		"$end: what others have committed is there");
	cmp_ok($node->safe_psql('postgres', $counters), '>', $checkpoints, "$end: checkpoints go on");
	# One that is under way may be late on a busy machine; after this one the log is as short as it
	# can be.
	$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
	cmp_ok($node->safe_psql('postgres', $log_mb), '<=', $MAX_WAL,
		"$end: the log from the transaction's beginning on is not kept");
	is($node->safe_psql('postgres', q{SELECT count(*), sum(length(v)) FROM big}), $before,
		"$end: nobody sees it");

	if ($end eq 'crash')
	{
		# With everything of it in the log.
		$node->safe_psql('postgres', 'INSERT INTO big VALUES (0, $$$$)');
		# Or else it would notice that the postmaster has gone, and roll back.
		kill 'STOP', $long->query_safe('SELECT pg_backend_pid()');
		CrashDriver::kill_server($node, 'all');
		eval { $long->quit };
		$node->start;
		is($node->safe_psql('postgres', q{SELECT count(*), sum(length(v)) FROM big WHERE id > 0}),
			$before, 'crash: it is rolled back');
		ok($node->log_contains(qr/leanstore recovery: replayed .* rolled back 1 transactions/),
			'crash: the server\'s log says so');
	}
	else
	{
		$long->query_safe($end);
		$long->quit;
		my $after = $end eq 'COMMIT' ? '20000|' . 20000 * 480 : $before;
		is($node->safe_psql('postgres', q{SELECT count(*), sum(length(v)) FROM big}), $after,
			"$end: all of it or nothing");
	}
	# With leanstore.log = wal the log goes when PostgreSQL needs it no more.
	shorten_log() if LeanstoreTest::in_wal();
	$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
	cmp_ok($node->safe_psql('postgres', $log_mb), '<=', 2, "$end: the log is short again");
	my $segments = $node->safe_psql('postgres', 'SELECT log_segments FROM leanstore_stat_wal');
	cmp_ok($segments, '<=', $MAX_WAL, "$end: and so are its files ($segments)");
	$node->leanstore_check_ok($end);
}
$node->stop;
done_testing();
