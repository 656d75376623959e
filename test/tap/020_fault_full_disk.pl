# A full disk is an error for a statement that needs space, names what there was
# no space for, and is over as soon as there is space again; all others go on.  A
# failed read is an error of that statement.  A failed write or sync of the log is
# a PANIC, after which everything acknowledged is there.
use strict;
use warnings FATAL => 'all';

use Errno qw(EIO ENOSPC);
use FaultyDisk;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $disk = FaultyDisk->new;
my $node = LeanstoreTest->prepare_node('faulty',
	'leanstore.buffer_pool_size' => '8MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.log_buffer_size' => '64kB',
	'leanstore.max_wal_size' => '32MB',
	'leanstore.checkpoint_timeout' => '1h');
$disk->start($node);
$node->safe_psql('postgres', q{
	CREATE EXTENSION leanstore_am;
	CREATE TABLE t (id int PRIMARY KEY, v text) USING leanstore;
	CREATE TABLE other (id int PRIMARY KEY, v text) USING leanstore;
	CREATE TABLE on_heap (id int) USING heap;
	INSERT INTO t SELECT i, repeat('t', 500) FROM generate_series(1, 2000) i;
	INSERT INTO other SELECT i, 'o' FROM generate_series(1, 100) i;
	CHECKPOINT});
my %file = map { split /\|/ } split /\n/, $node->safe_psql('postgres', q{
	SELECT relname, pg_relation_filepath(oid) FROM pg_class
		WHERE relname IN ('t', 't_pkey', 'other')});

# (SQLSTATE or "ok", everything psql said)
sub outcome
{
	my ($query) = @_;
	my ($status, $out, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$query");

	return ('ok', $out) if $status == 0 && $error !~ /ERROR|FATAL|PANIC/;
	return ($error =~ /(?:ERROR|FATAL|PANIC):  (\w{5})/ ? $1 : 'none', $error);
}

sub fails_with
{
	my ($query, $sqlstate, $message, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($got, $text) = outcome($query);

	is($got, $sqlstate, $name) || diag($text);
	like($text, $message, "$name: the message");
	return;
}

sub works
{
	my ($query, $want, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($got, $text) = outcome($query);

	is("$got $text", "ok $want", $name);
	return;
}

# --- No space for a table, for an index ----------------------------------------
my $rows = 2000;
my $more = 0;
foreach my $name ('t_pkey', 't')
{
	$more += 15000;    # what was there before is room now
	my $insert =
		"INSERT INTO t SELECT i, repeat('n', 500) FROM generate_series(10001, 10000 + $more) i";

	$disk->fail(fallocate => ENOSPC, $file{$name});
	fails_with($insert, '53100',
		qr/leanstore relation "$name": could not extend relation file: No space left on device.*File ".*\Q$file{$name}\E"/s,
		"no space for $name");
	works('SELECT count(*), sum(length(v)) FROM t', "$rows|" . $rows * 500,
		"$name full: the statement has left nothing");
	works(q{UPDATE t SET v = upper(v) WHERE id <= 10; SELECT v = repeat('T', 500) FROM t
		WHERE id = 3}, 't', "$name full: rows can be changed in place");
	works(q{INSERT INTO other SELECT i, 'more' FROM generate_series(1001, 1500) i;
		DELETE FROM other WHERE id > 1000; SELECT count(*) FROM other}, '100',
		"$name full: other tables do not mind");
	$disk->heal;
	works("$insert; DELETE FROM t WHERE id > 10000; SELECT count(*) FROM t", $rows,
		"$name: space again, writing works again");
	$node->leanstore_check_ok("after $name was full");
}

# --- No space for old row versions ----------------------------------------------
$node->safe_psql('postgres', q{UPDATE t SET v = repeat('t', 500)});
$disk->fail(fallocate => ENOSPC, 'leanstore/versions/');
my $old = $node->background_psql('postgres');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t');
my ($state, $text) = ('ok');
for (my $i = 0; $state eq 'ok' && $i < 100; $i++)
{
	($state, $text) = outcome(qq{UPDATE t SET v = repeat('$i', 500 / length('$i'))});
}
is($state, '53100', 'no space for row versions') || diag($text);
is($old->query_safe(q{SELECT count(*), count(*) FILTER (WHERE length(v) = 500) FROM t}),
	"$rows|$rows", 'an old snapshot reads on');
works('SELECT count(DISTINCT v) FROM t', 1, 'the failed update has left nothing');
$disk->heal;
works(q{UPDATE t SET v = repeat('t', 500); SELECT count(DISTINCT v) FROM t}, 1,
	'versions: space again, writing works again');
$old->quit;
$node->leanstore_check_ok('after the version store was full');

# --- No space for the log --------------------------------------------------------
# New segments are written under another name first; writing into one that exists needs no space.
# What a statement logs is less than half a segment here: to roll it back, there is the rest of the
# segment that is the last.
$disk->fail(pwrite => ENOSPC, '.new');
($state, my $n) = ('ok', 0);
for (; $state eq 'ok' && $n < 100; $n++)
{
	($state, $text) = outcome("INSERT INTO on_heap VALUES ($n);
		UPDATE t SET v = repeat(chr(97 + $n % 26), 500) WHERE id <= 400");
}
is($state, '53100', "no space for the log, after $n statements") || diag($text);
like($text, qr/no space left for the log/, 'the message says so');
works('SELECT count(*), count(DISTINCT v) FILTER (WHERE id <= 400) FROM t', "$rows|1",
	'log full: readers go on, the failed statement has left nothing');
works('SELECT count(*) >= 1 FROM on_heap', 't', 'log full: heap goes on');
$disk->heal;
$node->poll_query_until('postgres', q{WITH u AS (UPDATE t SET v = v WHERE id = 1 RETURNING true)
	SELECT * FROM u}) or die 'the log does not recover';
works(q{UPDATE t SET v = repeat('l', 500); SELECT count(DISTINCT v) FROM t}, 1,
	'log: space again, writing works again');
$node->leanstore_check_ok('after the log was full');

# --- Reading fails ----------------------------------------------------------------
$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
$node->stop('fast');
$disk->start($node);
works('SELECT count(*) FROM other', 100, 'a start');
$disk->fail(pread => EIO, $file{t});
fails_with('SELECT count(*) FROM t', '58030',
	qr/leanstore relation "t": could not read page \d+: Input\/output error/, 'a failed read');
works('SELECT count(*) FROM other', 100, 'other tables can be read');
$disk->heal;
works('SELECT count(*), count(DISTINCT v) FROM t', "$rows|1", 'the next read works');

# --- The log cannot be written or synced --------------------------------------------
foreach my $call ('fdatasync', 'pwrite')
{
	$node->safe_psql('postgres', "UPDATE t SET v = '$call ' || id");
	my $log_start = -s $node->logfile;
	my $checkpointer = $node->child_pid('checkpointer');
	$disk->fail($call => EIO, 'leanstore/wal/');
	my ($status, $out, $error) = $node->psql('postgres',
		q{UPDATE t SET v = 'not acknowledged' WHERE id = 1});
	if (LeanstoreTest::in_wal())
	{
		# WAL has it; the relay log, of the next checkpoint, has not.
		$node->psql('postgres', 'CHECKPOINT');
	}
	else
	{
		isnt($status, 0, "a failed $call of the log: the commit is not acknowledged");
	}
	$node->wait_for_log(qr/PANIC: .*leanstore engine failed/, $log_start);
	$disk->heal;
	$node->wait_for_restart($checkpointer);
	works("SELECT count(*) FROM t WHERE v = '$call ' || id OR (id = 1 AND v = 'not acknowledged')",
		$rows, "a failed $call of the log: all that was acknowledged is there");
	$node->leanstore_check_ok("after a failed $call of the log");
}
$node->stop;
done_testing();
