# Deletions that share an undo entry: prepared ones over a crash, a crash in the middle, and readers
# of a standby beside them.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $ROWS = 1000;
my $node;

sub sql { return $node->safe_psql('postgres', $_[0]); }

my $CONTENT = q{SELECT count(*) || ' ' || coalesce(sum(id * length(t)), 0) FROM gone};

sub crash
{
	$node->stop('immediate');
	$node->start;
}

sub refill
{
	sql(qq{TRUNCATE gone;
		INSERT INTO gone SELECT i, repeat('x', 20 + i % 60) FROM generate_series(1, $ROWS) i});
	return sql($CONTENT);
}

# every second row, so that a run has gaps, and a part that was taken back
my $DELETIONS = q{
	DELETE FROM gone WHERE id <= 400;
	SAVEPOINT s;
	DELETE FROM gone WHERE id BETWEEN 401 AND 500;
	ROLLBACK TO s;
	DELETE FROM gone WHERE id BETWEEN 451 AND 700 AND id % 2 = 0;
	UPDATE gone SET t = t || 'y' WHERE id % 50 = 1;
	DELETE FROM gone WHERE id > 950};
my ($all, $left);

foreach my $log ('engine', 'wal')
{
	$node->stop if $node;
	$node = LeanstoreTest->new_node("primary_$log",
		'leanstore.log' => $log,
		max_prepared_transactions => 10,
		autovacuum => 'off',
		init => { allows_streaming => 1 });
	sql('CREATE TABLE gone (id int PRIMARY KEY, t text) USING leanstore');
	$all = refill();
	sql("BEGIN; $DELETIONS; COMMIT");
	$left = sql($CONTENT);
	isnt($left, $all, 'rows are deleted');

	for my $end ('ROLLBACK', 'COMMIT')
	{
		refill();
		my $reader = $node->background_psql('postgres', on_error_die => 1);
		is($reader->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $CONTENT"), $all,
			'a reader');
		sql("BEGIN; $DELETIONS; PREPARE TRANSACTION 'p'");
		is(sql($CONTENT), $all, "$end: prepared, not seen");
		is($reader->query_safe($CONTENT), $all, 'nor by the reader');
		$reader->quit;
		crash();
		is(sql($CONTENT), $all, "$end: prepared, after a crash");
		isnt($node->psql('postgres',
				q{SET lock_timeout = '50ms'; UPDATE gone SET t = 'z' WHERE id = 300}),
			0, 'a row of it is locked');
		sql("$end PREPARED 'p'");
		is(sql($CONTENT), $end eq 'COMMIT' ? $left : $all, "$end PREPARED");
		$node->leanstore_check_ok($log);
	}

	# Killed with the transaction open, its changes in the log.
	$all = refill();
	my $open = $node->background_psql('postgres', on_error_stop => 0);
	$open->query_safe("BEGIN; $DELETIONS");
	sql('CHECKPOINT');
	sql("CREATE TABLE later (i int) USING leanstore");
	crash();
	eval { $open->quit };
	is(sql($CONTENT), $all, 'a crash undoes it');
	$node->leanstore_check_ok($log);
}

$node->backup('b');
my $standby = LeanstoreTest->new_standby('standby', $node, 'b',
	max_standby_streaming_delay => '-1');
$node->wait_for_catchup($standby);
# Keeps the rows on the primary: if they went there, replay would wait for the standby's reader.
my $keeper = $node->background_psql('postgres', on_error_die => 1);
$keeper->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $CONTENT");
my $seen = $standby->background_psql('postgres', on_error_die => 1);
is($seen->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; $CONTENT"), $all, 'on a standby');
sql("BEGIN; $DELETIONS; COMMIT");
$node->wait_for_catchup($standby);
is($seen->query_safe($CONTENT), $all, 'a snapshot of before');
is($standby->safe_psql('postgres', $CONTENT), $left, 'one of now');
sql(q{BEGIN; DELETE FROM gone WHERE id BETWEEN 701 AND 900; PREPARE TRANSACTION 'q'});
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $CONTENT), $left, 'prepared');
is($seen->query_safe($CONTENT), $all, 'beside a prepared one');
$standby->promote;
is($standby->safe_psql('postgres', $CONTENT), $left, 'promoted');
is($seen->query_safe($CONTENT), $all, 'under the reader');
$standby->safe_psql('postgres', q{ROLLBACK PREPARED 'q'});
is($standby->safe_psql('postgres', $CONTENT), $left, 'and rolled back there');
$seen->quit;
$keeper->quit;
$standby->leanstore_check_ok('the standby');
sql(q{COMMIT PREPARED 'q'});
is(sql('SELECT count(*) FROM gone WHERE id BETWEEN 701 AND 900'), 0, 'committed on the other');
$node->leanstore_check_ok('the primary');

done_testing();
