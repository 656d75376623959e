# Recovery reports what it does, a clean restart does nothing, however the server
# was stopped; it can be stopped during recovery.  synchronous_commit = off loses
# the last moments at most, and no part of a transaction; fsync = off is heeded.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = LeanstoreTest->new_node('recovery',
	'leanstore.buffer_pool_size' => '32MB',
	'leanstore.max_wal_size' => '1GB',
	'leanstore.checkpoint_timeout' => '1h',
	log_startup_progress_interval => '1ms',
	autovacuum => 'off');
my $REPLAYED =
	qr/leanstore recovery: replayed (\d+\.\d+) GB of log in \d+\.\d+ s \(\d+\.\d+ GB per minute\), \d+ records, rolled back (\d+) transactions/;
my $READY = qr/leanstore engine is ready/;

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v text) USING leanstore;
	CREATE TABLE u (id int PRIMARY KEY) USING leanstore});

# --- Stops of all kinds -----------------------------------------------------------
my $rows = 0;
foreach my $mode (qw(smart fast immediate))
{
	$rows += 100;
	$node->safe_psql('postgres',
		"INSERT INTO t SELECT i, 'row' FROM generate_series($rows - 99, $rows) i");
	my $log_start = -s $node->logfile;
	$node->stop($mode);
	$node->start;
	is($node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM t'),
		"$rows|" . $rows * ($rows + 1) / 2, "stop -m $mode loses nothing");
	$node->wait_for_log($READY, $log_start);
	is($node->log_contains($REPLAYED, $log_start) ? 1 : 0, $mode eq 'immediate' ? 1 : 0,
		"after stop -m $mode "
		. ($mode eq 'immediate' ? 'the log is replayed' : 'nothing is replayed'));
	$node->leanstore_check_ok("stop -m $mode");
}

# --- Progress, and a stop in the middle of recovery ---------------------------------
my $open = $node->background_psql('postgres', on_error_stop => 0);
$open->query_safe(q{BEGIN; UPDATE t SET v = 'open'});
my $open_pid = $open->query_safe('SELECT pg_backend_pid()');
$node->safe_psql('postgres', q{
	INSERT INTO t SELECT i, repeat(md5(i::text), 20) FROM generate_series(1001, 41000) i;
	UPDATE t SET v = repeat(md5(v), 20) WHERE id > 1000});
$rows += 40000;
my $state = q{SELECT count(*), md5(string_agg(v, ',' ORDER BY id)) FROM t};
my $want = $node->safe_psql('postgres', $state);
# Or else it would notice that the postmaster has gone, and roll back.
kill 'STOP', $open_pid;
CrashDriver::kill_server($node, 'all');
eval { $open->quit };

my $log_start = -s $node->logfile;
system_or_bail('pg_ctl', '-W', '-D', $node->data_dir, '-l', $node->logfile,
	'-o', '--cluster-name=recovery', 'start');
$node->wait_for_log(qr/leanstore recovery in progress: /, $log_start);
system_or_bail('pg_ctl', '-w', '-m', 'fast', '-D', $node->data_dir, 'stop');
pass('the server can be stopped during recovery');
$node->{_pid} = undef;

$log_start = -s $node->logfile;
$node->start;
is($node->safe_psql('postgres', $state), $want, 'the next start recovers everything');
my $log = slurp_file($node->logfile, $log_start);
like($log,
	qr/leanstore recovery in progress: \d+\.\d+ of \d+\.\d+ GB of log replayed, elapsed time: \d+\.\d+ s/,
	'recovery reports its progress');
like($log, $REPLAYED, 'and what it has done: volume and speed');
my ($volume, $rolled_back) = $log =~ $REPLAYED;
cmp_ok($volume, '>', 0.02, "$volume GB");
is($rolled_back, 1, 'one transaction was rolled back');
$node->leanstore_check_ok('after an interrupted recovery');

# --- A stop while a large transaction is undone -----------------------------------------
$open = $node->background_psql('postgres', on_error_stop => 0);
$open_pid = $open->query_safe('SELECT pg_backend_pid()');
$open->query_safe('BEGIN; ' . 'UPDATE t SET v = reverse(v); ' x 3);
$node->safe_psql('postgres', q{INSERT INTO t VALUES (0, 'hardens what came before')});
$want = $node->safe_psql('postgres', $state);
kill 'STOP', $open_pid;
CrashDriver::kill_server($node, 'all');
eval { $open->quit };
$log_start = -s $node->logfile;
system_or_bail('pg_ctl', '-W', '-D', $node->data_dir, '-l', $node->logfile,
	'-o', '--cluster-name=recovery', 'start');
# All is redone.
$node->wait_for_log(qr/leanstore recovery in progress: (\d+\.\d+) of \1 GB of log/, $log_start);
system_or_bail('pg_ctl', '-w', '-m', 'fast', '-D', $node->data_dir, 'stop');
$node->{_pid} = undef;
ok(!$node->log_contains($REPLAYED, $log_start), 'a stop does not wait for the end of undo');
$log_start = -s $node->logfile;
$node->start;
is($node->safe_psql('postgres', $state), $want, 'the next start undoes everything');
like(slurp_file($node->logfile, $log_start), qr/rolled back 1 transactions/, 'once more');
$node->leanstore_check_ok('after an interrupted undo');

# --- synchronous_commit = off --------------------------------------------------------
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe('SET synchronous_commit = off');
foreach my $n (1 .. 400)
{
	# The time that may be lost is what is tried here.
	sleep 1 if $n == 201;
	$session->query_safe("BEGIN; INSERT INTO t VALUES (-$n, 'async');
		INSERT INTO u VALUES ($n); COMMIT");
}
CrashDriver::kill_server($node, 'all');
eval { $session->quit };
$node->start;
my ($count, $max, $others) = split /\|/, $node->safe_psql('postgres', q{
	SELECT count(*), coalesce(max(id), 0),
		(SELECT count(*) FROM t WHERE v = 'async' AND -id IN (SELECT id FROM u)) FROM u});
note "$count of 400 asynchronous commits survived";
cmp_ok($count, '>=', 200, 'synchronous_commit = off: what is a second old is there');
is($max, $count, 'what is lost is the end, without gaps');
is($others, $count, 'no transaction is there in part');
is($node->safe_psql('postgres', q{SELECT count(*) FROM t WHERE v = 'async'}), $count,
	'nor with another part');
$node->leanstore_check_ok('after asynchronous commits');

# --- fsync = off ----------------------------------------------------------------------
# With leanstore.log = wal the server does the syncs, of its own log.
foreach my $fsync (LeanstoreTest::in_wal() ? () : qw(off on))
{
	$node->set_config(fsync => $fsync);
	$node->restart;
	my $n = $node->safe_psql('postgres', 'SELECT log_fsyncs FROM leanstore_stat_wal');
	$node->safe_psql('postgres', "INSERT INTO u VALUES ($_)")
		foreach $fsync eq 'off' ? 1001 .. 1010 : 1011 .. 1020;
	$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
	my $after = $node->safe_psql('postgres', 'SELECT log_fsyncs FROM leanstore_stat_wal');
	$fsync eq 'off' ? is($after, 0, 'fsync = off: the log is not synced')
		: cmp_ok($after - $n, '>=', 10, 'fsync = on: every commit is');
}
$node->stop;
done_testing();
