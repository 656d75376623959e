# What a statement waits for in the engine shows in pg_stat_activity.  The engine worker is stopped,
# so that no thread empties the log buffer, or makes room in the buffer pool, that the statement
# fills.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('waits', 'leanstore.log_buffer_size' => '64kB',
	'leanstore.buffer_pool_size' => '8MB', autovacuum => 'off');
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int, pad text) USING leanstore;
	INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 40000) i;
	SELECT leanstore_checkpoint()});
my $watcher = $node->background_psql('postgres');
my $session = $node->background_psql('postgres');
my $pid = $session->query_safe('SELECT pg_backend_pid() FROM t LIMIT 1');

# The watcher cannot start anything new: a session begins before the engine worker is stopped.
sub is_seen
{
	my ($event) = @_;

	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if $watcher->query_safe("SELECT wait_event_type || ':' || wait_event
			FROM pg_stat_activity WHERE pid = $pid") eq "Extension:$event";
		select undef, undef, undef, 0.1;
	}
	return 0;
}

my %wait = (
	LeanstoreLogSpace => q{INSERT INTO t SELECT i, repeat('y', 500)
		FROM generate_series(1, 2000) i},
	# A sequential scan reads past the pool when it is full.
	LeanstorePageFrame => q{SELECT sum(id) FROM t WHERE ctid = ANY (ARRAY(
		SELECT format('(%s,%s)', i / 256, i % 256 + 1)::tid FROM generate_series(0, 39999, 7) i))});
foreach my $event (sort keys %wait)
{
	my $worker = $node->engine_worker_pid;

	kill 'STOP', $worker or die "cannot stop the engine worker: $!";
	$session->query_until(qr/started/, "\\echo started\n$wait{$event};\n");
	my $seen = is_seen($event);
	kill 'CONT', $worker;
	ok($seen, "$event is seen");
	$session->query_safe('SELECT 1');
	isnt($watcher->query_safe("SELECT coalesce(wait_event, '') FROM pg_stat_activity
		WHERE pid = $pid"), $event, 'and is over');
}
is($watcher->query_safe('SELECT count(*) FROM t'), 42000, 'the statement has been made');
is($watcher->query_safe(q{SELECT string_agg(name, ' ' ORDER BY name COLLATE "C") FROM pg_wait_events
	WHERE type = 'Extension' AND name LIKE 'Leanstore%'}),
	'LeanstoreCommit LeanstoreEngineMain LeanstoreLogSpace LeanstoreOpenRelation '
		. 'LeanstorePageFrame LeanstorePageRead LeanstoreRecovery'
		. (LeanstoreTest::in_wal() ? ' LeanstoreStandbyMain' : ''),
	'the events have names');
$_->quit foreach $watcher, $session;
$node->stop;
done_testing();
