# Transactions that outlive checkpoints: an idle one with one row, and one that goes on.  Their undo
# lies in files, so the log goes on without them, and a server that is killed finds both to roll
# back, in little memory; also when it is killed again while it does.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $MAX_WAL = 32;
my $node = LeanstoreTest->new_node('undo_files',
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.max_wal_size' => "${MAX_WAL}MB",
	'leanstore.checkpoint_timeout' => '1h',
	autovacuum => 'off');
my $log_mb = q{SELECT (log_position - log_redo_position) / 1048576 FROM leanstore_stat_wal};
my $undo = $node->data_dir . '/leanstore/undo';
my $rows = q{SELECT count(*), sum(length(v)), (SELECT count(*) FROM quiet) FROM big};

sub undo_files { return grep { !/\/list\./ } glob("$undo/*") }

# With leanstore.log = wal checkpoints wait for PostgreSQL to need the log no more, which takes a
# moment behind a start.
sub checkpoint_until
{
	my ($done) = @_;

	foreach (1 .. (LeanstoreTest::in_wal() ? 100 : 1))
	{
		$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
		return if $done->();
		usleep(100_000);
	}
	return;
}

sub memory_mb
{
	my ($what) = @_;
	open(my $status, '<', '/proc/' . $node->engine_worker_pid . '/status') or die $!;
	return (map { /^$what:\s+(\d+)/ ? $1 / 1024 : () } <$status>)[0];
}

# Until recovery's undo has begun, and a little longer; false: none was seen.
sub in_undo
{
	my $log_end = -s $node->logfile;
	for (my $i = 0; $i < 60_000; $i++)
	{
		my $worker = $node->child_pid('leanstore engine worker');
		foreach my $comm (defined $worker ? glob("/proc/$worker/task/*/comm") : ())
		{
			open(my $file, '<', $comm) or next;
			next unless (<$file> // '') eq "ls undo\n";
			usleep(rand 100_000);
			return 1;
		}
		return 0 if $node->log_contains(qr/leanstore engine is ready/, $log_end);
		usleep(1_000);
	}
	return 0;
}

$node->safe_psql('postgres', q{
	CREATE TABLE quiet (i int) USING leanstore;
	CREATE TABLE big (id int PRIMARY KEY, v text) USING leanstore;
	CREATE TABLE other (v text) USING leanstore;
	INSERT INTO big SELECT i, repeat('b', 400) FROM generate_series(1, 20000) i});

foreach my $end (qw(commit crash))
{
	my $before = $node->safe_psql('postgres', $rows);
	my $idle = $node->background_psql('postgres', on_error_stop => 0);
	my $long = $node->background_psql('postgres', on_error_stop => 0);
	$idle->query_safe('BEGIN');
	$idle->query_safe('INSERT INTO quiet VALUES (1)');
	$long->query_safe('BEGIN');
	my $most = 0;
	foreach my $part (1 .. 4)
	{
		$long->query_safe("UPDATE big SET v = repeat('$part', 400)");
		$long->query_safe('SAVEPOINT s');
		$long->query_safe('INSERT INTO big SELECT 100000 + i, repeat(md5(i::text), 60)
			FROM generate_series(1, 5000) i');
		$long->query_safe('ROLLBACK TO s') if $part < 4;
		$node->safe_psql('postgres', q{
			INSERT INTO other SELECT repeat(md5(i::text), 30) FROM generate_series(1, 10000) i;
			SELECT leanstore_checkpoint()});
		my $now = $node->safe_psql('postgres', $log_mb);
		$most = $now if $now > $most;
	}
	cmp_ok($most, '<=', $MAX_WAL, "$end: the log is not kept for them");
	is(scalar(undo_files()), 2, "$end: each has an undo file");
	is($node->safe_psql('postgres', $rows), $before, "$end: nobody sees them");
	if ($end eq 'commit')
	{
		$_->query_safe('COMMIT') foreach ($idle, $long);
		$_->quit foreach ($idle, $long);
		$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
		is($node->safe_psql('postgres', $rows),
			(20000 + 5000) . '|' . (20000 * 400 + 5000 * 1920) . '|1', 'committed: all is there');
		is(scalar(undo_files()), 0, 'committed: the files are gone');
		$node->safe_psql('postgres', 'DELETE FROM big WHERE id > 100000');
		next;
	}
	# What is behind the last checkpoint is in the log.
	$long->query_safe(q{UPDATE big SET v = 'last'});
	$node->safe_psql('postgres', q{INSERT INTO other VALUES ('hardens what came before')});
	# Or else they would notice that the postmaster has gone, and roll back.
	kill 'STOP', map { $_->query_safe('SELECT pg_backend_pid()') } ($idle, $long);
	CrashDriver::kill_server($node, 'all');
	eval { $_->quit } foreach ($idle, $long);
	my @killed;
	CrashDriver::start_and_kill($node, 0, sub { push @killed, in_undo() }) foreach (1 .. 3);
	is($killed[0], 1, 'crash: the server was killed while it undid');
	$node->start;
	is($node->safe_psql('postgres', $rows), $before, 'crash: both are rolled back');
	ok($node->log_contains(qr/leanstore recovery: replayed .* rolled back [12] transactions.*\n.*DETAIL:  Analysis .* undo [0-9.]+ s/),
		q{crash: the server's log says so});
	cmp_ok(memory_mb('VmHWM') - memory_mb('RssShmem'), '<', 250,
		'crash: recovery took little memory');
	checkpoint_until(sub { undo_files() == 0 });
	is(scalar(undo_files()), 0, 'crash: the files are gone');
}

# --- Undo files that cannot be written -------------------------------------------
my $failures = q{SELECT undo_failures FROM leanstore_stat_wal};
is($node->safe_psql('postgres', $failures), 0, 'all could be written');
my $session = $node->background_psql('postgres');
$session->query_safe(q{BEGIN; INSERT INTO quiet VALUES (2)});
$node->safe_psql('postgres',
	q{INSERT INTO other SELECT repeat(md5(i::text), 30) FROM generate_series(1, 10000) i});
my $log_end = -s $node->logfile;
rename $undo, "$undo.away" or die $!;
append_to_file($undo, 'not a directory');
checkpoint_until(sub { $node->safe_psql('postgres', $failures) > 0 });
cmp_ok($node->safe_psql('postgres', $failures), '>', 0, 'what could not be written is counted');
cmp_ok($node->safe_psql('postgres', $log_mb), '>', 8, 'and its log is kept');
$node->wait_for_log(qr/could not write the undo of long transactions: .*: Not a directory\n.*DETAIL: .*undo.*\n.*HINT:  The engine's log is kept/,
	$log_end);
unlink $undo;
rename "$undo.away", $undo or die $!;
$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
cmp_ok($node->safe_psql('postgres', $log_mb), '<', 8, 'until it can be written');
is(scalar(undo_files()), 1, 'as it is then');
$session->query_safe('ROLLBACK');
$session->quit;

$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();
