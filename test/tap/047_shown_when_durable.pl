# What a statement has returned, a crash does not take back.  Writes of the engine's log
# are held up: a change is visible then, and its commit is not durable.  A session that reads
# it, in whatever way, waits; one that reads something else does not.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use FaultyDisk;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'PostgreSQL flushes a commit before others see it'
  if LeanstoreTest::in_wal();
my $disk = FaultyDisk->new;
my $node = LeanstoreTest->prepare_node('shown', autovacuum => 'off', max_prepared_transactions => 2,
	debug_parallel_query => 'off');

$disk->start($node);
$node->safe_psql('postgres', q{
	CREATE EXTENSION leanstore_am;
	CREATE TABLE t (id int PRIMARY KEY, v int) USING leanstore;
	INSERT INTO t SELECT i, 0 FROM generate_series(1, 5) i;
	CREATE TABLE other (id int PRIMARY KEY, v int) USING leanstore;
	INSERT INTO other VALUES (1, 0), (2, 0);
	CREATE FUNCTION sees() RETURNS bigint
		LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT sum(v) FROM t WHERE id = 1); END';
	CREATE PROCEDURE looks() LANGUAGE plpgsql AS 'BEGIN PERFORM v FROM t WHERE id = 1; END';
});

my $writer = $node->background_psql('postgres');
my $plain = $node->background_psql('postgres');
my $plain_pid = $plain->query_safe('SELECT pg_backend_pid()');
$writer->query_safe('UPDATE t SET v = 0 WHERE id = 5');

# Changes t, and returns when that is visible and the log is held up.
sub change
{
	my ($sql) = @_;
	my $xid = $writer->query_safe("BEGIN; $sql; SELECT pg_current_xact_id()");

	$disk->hold(pwrite => 'leanstore/wal');
	$writer->query_until(qr/committing/, "\\echo committing\nCOMMIT;\n");
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity
		WHERE wait_event = 'LeanstoreCommit'") or die 'the commit does not wait';
	return;
}

sub waiters
{
	return $node->safe_psql('postgres',
		q{SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'LeanstoreCommit'});
}

# Each in a session of its own, which has opened everything that it needs; in a transaction block
# where nothing else makes it wait.
my %reader = (
	'SELECT by key' => q{SELECT v FROM t WHERE id = 1},
	'SELECT by sequential scan' => q{SET LOCAL enable_indexscan = off;
		SET LOCAL enable_bitmapscan = off; SELECT sum(v) FROM t},
	'SELECT FOR UPDATE' => q{SELECT v FROM t WHERE id = 3 FOR UPDATE},
	'that a row is gone' => q{SELECT v FROM t WHERE id = 2},
	'a cursor' => q{DECLARE c CURSOR FOR SELECT v FROM t ORDER BY id; FETCH 1 FROM c},
	'COPY TO' => q{COPY t TO STDOUT},
	'a function' => q{SELECT sees()},
	'a procedure' => q{CALL looks()},
	'a prepared statement' => q{PREPARE p AS SELECT v FROM t WHERE id = $1; EXECUTE p(1);
		DEALLOCATE p},
	'a parallel query' => q{SET LOCAL debug_parallel_query = on; SELECT sum(v) FROM t},
	'UPDATE RETURNING' => q{UPDATE t SET v = v + 0 WHERE id = 1 RETURNING v},
	'UPDATE that finds nothing' => q{UPDATE t SET v = v + 1 WHERE id = 2},
	'INSERT ON CONFLICT DO NOTHING' => q{INSERT INTO t VALUES (1, 0) ON CONFLICT DO NOTHING},
	'a copy in a temporary table' => q{CREATE TEMPORARY TABLE copy (v int)
		USING heap ON COMMIT DROP; INSERT INTO copy SELECT v FROM t; SELECT v FROM copy},
	'a subtransaction that failed before' => q{SAVEPOINT s; SELECT 1/0; ROLLBACK TO s;
		SELECT v FROM t WHERE id = 1});

my %session;
foreach my $name (sort keys %reader)
{
	$session{$name} = $node->background_psql('postgres', on_error_stop => 0);
	$session{$name}->query("BEGIN; $reader{$name}; ROLLBACK");
	$session{$name}->{stderr} = '';
}
$node->safe_psql('postgres', 'UPDATE t SET v = 7 WHERE id = 5');

change('UPDATE t SET v = 1 WHERE id IN (1, 3); DELETE FROM t WHERE id = 2');
foreach my $name (sort keys %reader)
{
	my @steps = split /;\s+/, "BEGIN; $reader{$name}";
	my $before = waiters();

	$session{$name}->query_until(qr/started/,
		"\\echo started\n" . join('', map { "$_;\n" } @steps) . "\\echo answered\n");
	ok($node->poll_query_until('postgres', "SELECT count(*) > $before FROM pg_stat_activity
		WHERE wait_event = 'LeanstoreCommit' AND state = 'active'"), "$name waits");
	unlike($session{$name}->{stdout}, qr/answered/, "$name: nothing is told yet");
}

# Own changes, other rows, and changes alone.
is($plain->query_safe('SELECT v FROM t WHERE id = 5'), '7', 'who reads another row does not wait');
is($plain->query_safe('BEGIN; UPDATE other SET v = v + 1 WHERE id = 2;
	SELECT v FROM other WHERE id = 2'), '1', 'nor who reads what he has changed');
$plain->query_safe('UPDATE other SET v = (SELECT v FROM t WHERE id = 1) WHERE id = 1');
pass('nor who changes a row, and hears no more than that');
$plain->query_until(qr/started/, "\\echo started\nSELECT v FROM other WHERE id = 1;\n");
ok($node->poll_query_until('postgres', "SELECT wait_event = 'LeanstoreCommit' FROM pg_stat_activity
	WHERE pid = $plain_pid"), 'but when he looks');

# It can be cancelled.
my $victim = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity
	WHERE query LIKE 'SELECT sees()%' AND wait_event = 'LeanstoreCommit'});
$node->safe_psql('postgres', "SELECT pg_cancel_backend($victim)");
ok($node->poll_query_until('postgres', "SELECT wait_event IS DISTINCT FROM 'LeanstoreCommit'
	FROM pg_stat_activity WHERE pid = $victim"), 'the wait can be cancelled');

# What was not told may be taken back; what is told is there.
CrashDriver::kill_server($node, 'all');
$disk->heal;
eval { $_->quit } foreach values %session, $writer, $plain;
$disk->start($node);
is($node->safe_psql('postgres', 'SELECT sum(v), count(*) FROM t'), '7|5',
	'the crash has taken the commit back');

# Without a crash all get their answers.
$writer = $node->background_psql('postgres');
my $reader = $node->background_psql('postgres');
$reader->query_safe('SELECT v FROM t WHERE id = 1');
change('UPDATE t SET v = 2 WHERE id = 1');
$reader->query_until(qr/started/, "\\echo started\nSELECT 'value ' || v FROM t WHERE id = 1;\n");
$node->poll_query_until('postgres',
	"SELECT count(*) = 2 FROM pg_stat_activity WHERE wait_event = 'LeanstoreCommit'");
$disk->heal;
like($reader->query_safe('SELECT 1'), qr/value 2/, 'the answer comes when the log is there');

# An asynchronous commit may be shown before it is durable, as heap's.
$writer->query_safe('SET synchronous_commit = off');
$disk->hold(pwrite => 'leanstore/wal');
$writer->query_safe('UPDATE t SET v = 3 WHERE id = 1');
is($reader->query_safe('SELECT v FROM t WHERE id = 1'), '3',
	'an asynchronous commit is shown at once');
$disk->heal;

$_->quit foreach $writer, $reader;
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();
