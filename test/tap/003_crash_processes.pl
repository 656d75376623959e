# The death of any process is survived without help: a backend in the middle of
# a transaction, one that waits for a row, the engine worker, the checkpointer.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('crash', 'leanstore.buffer_pool_size' => '16MB');

$node->pgbench_init('postgres', 1);
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v int, pad text) USING leanstore;
	CREATE INDEX t_v ON t USING btree (v);
	INSERT INTO t SELECT i, i, repeat('p', 100) FROM generate_series(1, 5000) i;
});
my $want = '5000|12502500|12502500';

sub session
{
	my ($name) = @_;
	local $ENV{PGAPPNAME} = $name;
	return $node->background_psql('postgres', on_error_stop => 0);
}

# KILL is called with the victim's pid while other sessions have open changes.
sub crash_ok
{
	my ($what, $pid) = @_;

	CrashDriver::kill_process($node, $pid);
	is($node->safe_psql('postgres', 'SELECT count(*), sum(id), sum(v) FROM t'), $want,
		"$what: what was committed is there, nothing else");
	is($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT count(*) FROM t WHERE v > 0'), '5000', "$what: so it is in the index");
	$node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id = 1;
		UPDATE t SET v = v - 1 WHERE id = 1');
	$node->leanstore_check_ok($what);
	return;
}

sub backend_pid
{
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE application_name = '$_[0]'");
}

# A backend that has changed everything and not committed.
my $writer = session('writer');
$writer->query(q{BEGIN; UPDATE t SET v = -v; DELETE FROM t WHERE id % 2 = 0;
	INSERT INTO t SELECT i, 0 FROM generate_series(10001, 12000) i; SAVEPOINT s;
	UPDATE t SET id = -id WHERE id < 100; SELECT 1});
crash_ok('writer killed', backend_pid('writer'));
eval { $writer->quit };

# One that waits for a row of the other; then the one that is waited for.
foreach my $victim (qw(waiter holder))
{
	my $holder = session('holder');
	my $waiter = session('waiter');
	$holder->query('BEGIN; UPDATE t SET v = 0 WHERE id = 42; SELECT 1');
	$waiter->query_until(qr/started/, "\\echo started\nUPDATE t SET v = 1 WHERE id = 42;\n");
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
		WHERE application_name = 'waiter' AND wait_event_type = 'Lock'})
	  or die 'the waiter does not wait';
	crash_ok("$victim killed", backend_pid($victim));
	eval { $_->quit } foreach $holder, $waiter;
}

# Under load: a backend, the engine worker, the checkpointer.
foreach my $victim (qw(pgbench engine_worker checkpointer))
{
	my $run = $node->start_pgbench('postgres', qw(-c 4 -T 60));
	CrashDriver::wait_for_rows($node, 'pgbench_history', 50);
	my $pid = $victim eq 'pgbench' ? $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() LIMIT 1})
	  : $victim eq 'engine_worker' ? $node->engine_worker_pid
	  : $node->child_pid('checkpointer');
	crash_ok("$victim killed under load", $pid);
	$node->finish_pgbench($run);
	$node->pgbench_balanced_ok('postgres', "$victim killed under load");
}

# Twice in a row, without anything between.
CrashDriver::kill_process($node, $node->engine_worker_pid) foreach 1 .. 2;
crash_ok('engine worker killed three times', $node->engine_worker_pid);

is($node->safe_psql('postgres', 'SELECT count(*), sum(id), sum(v) FROM t'), $want,
	'the table can be read');
$node->leanstore_check_ok('at the end');
$node->stop('fast');
done_testing();
