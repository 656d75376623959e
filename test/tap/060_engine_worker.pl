# The engine worker ends with the server or takes it along: nothing goes on with half of its
# threads.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = LeanstoreTest->prepare_node('worker', 'leanstore.max_wal_size' => '64MB',
	'leanstore.log_buffer_size' => '64kB');
my $library = LeanstoreTest::compile_library('end_engine_worker',
	'-I' . $node->config_data('--includedir-server'));
my $psql_timeout = 60;

$node->set_config(shared_preload_libraries => "leanstore_am,$library");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION leanstore_am');
$node->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, pad text) USING leanstore;
	INSERT INTO t VALUES (0)});

sub threads
{
	my @tasks = glob '/proc/' . $node->engine_worker_pid . '/task/*';
	return scalar @tasks;
}

# Everything that needs a thread of the engine: commits, room in the log, checkpoints.
my $rows = 1;
sub works
{
	my ($name) = @_;
	my $out = eval { $node->safe_psql('postgres', qq{
		INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series($rows, $rows + 999) i;
		SELECT leanstore_checkpoint();
		SELECT count(*) FROM t}, timeout => $psql_timeout) } // $@;

	$rows += 1000;
	return is($out =~ s/\A\n//r, $rows, "$name: the engine works");
}

# --- Asked to go alone it stays -------------------------------------------------
my $pid = $node->engine_worker_pid;
my $threads = threads();
my $open = $node->background_psql('postgres');
$open->query_safe(q{BEGIN; INSERT INTO t VALUES (-1); DELETE FROM t WHERE id = -1});
foreach my $signal (qw(INT TERM))
{
	my $log_end = -s $node->logfile;
	my $function = $signal eq 'INT' ? 'pg_cancel_backend' : 'pg_terminate_backend';

	$node->safe_psql('postgres', "SELECT $function($pid)");
	kill $signal, $pid;
	$node->wait_for_log(qr/ignores a request to terminate/, $log_end) if $signal eq 'TERM';
	works("SIG$signal");
	is($node->engine_worker_pid, $pid, "SIG$signal: the worker is the same");
	is(threads(), $threads, "SIG$signal: so are its threads");
}
$open->query_safe('COMMIT');
$open->quit;

# --- Ending otherwise it is a crash of the server --------------------------------
foreach my $by (qw(error exit _exit))
{
	my $checkpointer = $node->child_pid('checkpointer');
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->query_safe(q{BEGIN; INSERT INTO t VALUES (-1)});
	$node->psql('postgres', "ALTER SYSTEM SET end_engine_worker.by = '$by'");
	$node->psql('postgres', 'SELECT pg_reload_conf()');
	$node->wait_for_restart($checkpointer);
	eval { $session->quit };
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE id = -1'), '0',
		"$by: what was open is undone");
	works($by);
}
ok($node->log_contains(qr/PANIC:  leanstore engine worker ended while the store was open/),
	'the log says why');

# --- A smart shutdown waits for sessions -----------------------------------------
my $session = $node->background_psql('postgres');
$session->query_safe('SELECT 1');
system('pg_ctl', '-D', $node->data_dir, '-m', 'smart', '-W', 'stop') == 0 or die 'pg_ctl failed';
$node->wait_for_log(qr/received smart shutdown request/);
kill 'TERM', $node->child_pid('leanstore engine worker');
usleep(500_000);   # it looks every 10 ms
is($session->query_safe('SELECT count(*) FROM t'), $rows,
	'smart shutdown: a session that has not used the engine before still can');
$session->quit;
$node->wait_for_log(qr/database system is shut down/);
$node->{_pid} = undef;

# --- No background worker to be had ----------------------------------------------
$node->set_config(max_worker_processes => 0);
$node->start;
my $begin = time;
my ($status, $out, $error) = $node->psql('postgres',
	"\\set VERBOSITY verbose\nSELECT count(*) FROM t", timeout => $psql_timeout);
like($error, qr/ERROR:  55000: .*engine worker is not running/,
	'without a worker there is an error');
like($error, qr/HINT: .*"max_worker_processes" \(currently 0\)/, 'that says what to do');
cmp_ok(time - $begin, '<', 30, 'after seconds');
$begin = time;
($status, $out, $error) = $node->psql('postgres', "SET statement_timeout = '1s';
	SELECT count(*) FROM t", timeout => $psql_timeout);
like($error, qr/statement timeout/, 'the wait for it can be cancelled');
cmp_ok(time - $begin, '<', 8, 'at once');
is($node->safe_psql('postgres', 'CREATE TABLE h (id int) USING heap; INSERT INTO h VALUES (1);
	SELECT id FROM h'), '1', 'heap does not mind');
$node->stop('fast');
$node->set_config(max_worker_processes => 8);
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), $rows, 'with one it is all there');
$node->leanstore_check_ok('at the end');
$node->stop('fast');
done_testing();
