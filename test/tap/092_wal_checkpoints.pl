# leanstore.log = wal and PostgreSQL's checkpoints: WAL is recycled under load and a transaction
# that stays open, and the server recovers from what is left.  A checkpoint waits for the relay
# log, and does not wait longer than that.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('wal_checkpoints',
	'leanstore.log' => 'wal',
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.max_wal_size' => '32MB',
	'leanstore.checkpoint_timeout' => '3s',
	init => { extra => ['--wal-segsize=1'] },
	shared_buffers => '16MB',
	min_wal_size => '2MB',
	max_wal_size => '6MB',
	checkpoint_timeout => '30s',
	log_checkpoints => 'on');

sub value { return $node->safe_psql('postgres', $_[0]); }

sub wal_segments
{
	my @segments = grep { /^[0-9A-F]{24}$/ } slurp_dir($node->data_dir . '/pg_wal');

	return scalar @segments;
}

$node->pgbench_init('postgres', 2);
$node->safe_psql('postgres', q{
	CREATE TABLE open_since (i int PRIMARY KEY, v text) USING leanstore;
	INSERT INTO open_since SELECT i, 'old' FROM generate_series(1, 5000) i});

# --- Under load, with a transaction that began before all of it ------------------
my $open = $node->background_psql('postgres');
$open->query_safe(q{BEGIN; UPDATE open_since SET v = 'new' WHERE i % 2 = 0;
	DELETE FROM open_since WHERE i % 5 = 0});
my $redo = value('SELECT redo_lsn FROM pg_control_checkpoint()');
my $done;
my $load = $node->start_pgbench('postgres', qw(-c 4 -j 1 -T 600));
foreach my $round (1 .. 5)
{
	my $before = value('SELECT count(*) FROM pgbench_history');

	$node->poll_query_until('postgres', "SELECT count(*) > $before + 200 FROM pgbench_history")
	  or die 'pgbench does nothing';
	# Several segments of the engine's log, of which its own checkpoints remove some.
	$node->safe_psql('postgres', qq{
		CREATE TABLE bulk_$round (i int, v text) USING leanstore;
		INSERT INTO bulk_$round SELECT i, repeat('x', 200) FROM generate_series(1, 30000) i;
		SELECT leanstore_checkpoint()});
	$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
	$node->safe_psql('postgres', 'CHECKPOINT');
}
ok(value("SELECT redo_lsn > '$redo' FROM pg_control_checkpoint()") eq 't',
	'the redo point has moved');
cmp_ok(wal_segments(), '<', 30, 'WAL was recycled');
my $seen = value('SELECT count(*) FROM pgbench_history');
CrashDriver::kill_server($node, 'all');
$node->finish_pgbench($load);
eval { $open->quit };
$node->start;
cmp_ok(value('SELECT count(*) FROM pgbench_history'), '>=', $seen, 'what was seen is there');
$node->pgbench_balanced_ok('postgres', 'after many checkpoints');
is(value(q{SELECT count(*), count(*) FILTER (WHERE v = 'old') FROM open_since}), '5000|5000',
	'the transaction that was open is undone');
$node->leanstore_check_ok('after many checkpoints');

# --- Checkpoints one after the other, each followed by a crash --------------------
foreach my $round (1 .. 4)
{
	$node->safe_psql('postgres', "INSERT INTO open_since VALUES (10000 + $round, 'kept')");
	$node->safe_psql('postgres', 'CHECKPOINT') foreach 1 .. $round;
	CrashDriver::kill_server($node, 'all');
	$node->start;
}
is(value('SELECT count(*) FROM open_since WHERE i > 10000'), '4', 'rows from before checkpoints');

# --- A checkpoint waits for the relay log ------------------------------------------
my $worker = $node->engine_worker_pid;
$node->safe_psql('postgres', q{INSERT INTO open_since VALUES (20000, 'kept')});
$done = value('SELECT num_done FROM pg_stat_checkpointer');
kill 'STOP', $worker;
my $waiting = $node->background_psql('postgres');
$waiting->query_until(qr/asked/, "\\echo asked\nCHECKPOINT;\n");
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE backend_type = 'checkpointer' AND wait_event = 'CheckpointDelayComplete'})
  or die 'the checkpoint does not wait';
is(value('SELECT num_done FROM pg_stat_checkpointer'), $done, 'a checkpoint waits for the worker');
kill 'CONT', $worker;
$waiting->query_safe('SELECT 1');
$waiting->quit;
ok(value("SELECT num_done > $done FROM pg_stat_checkpointer") eq 't', '... and then ends');

# Sessions commit while the worker stands still: they insert into WAL themselves.
kill 'STOP', $worker;
$node->safe_psql('postgres', q{INSERT INTO open_since VALUES (20001, 'kept')});
CrashDriver::kill_server($node, 'all');
$node->start;
is(value('SELECT count(*) FROM open_since WHERE i > 10000'), '6',
	'what was committed without the worker');
$node->leanstore_check_ok('at the end');
$node->stop('fast');
done_testing();
