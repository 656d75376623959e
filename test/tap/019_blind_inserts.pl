# Entries of indexes that are not unique go in without their leaf being read,
# where memory is short.  Killing the server while many of them wait loses none,
# nor does a clean stop, and all sessions see them meanwhile.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $CLIENTS = 4;
my $node = LeanstoreTest->new_node('blind',
	'leanstore.buffer_pool_size' => '4MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.checkpoint_timeout' => '2s');
my $directory = PostgreSQL::Test::Utils::tempdir();

$node->safe_psql('postgres', q{
	SET default_table_access_method = leanstore;
	CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY, n int, label text, at numeric);
	INSERT INTO events (n, label, at) SELECT random(1, 1000000000), md5(i::text), i
		FROM generate_series(1, 60000) i;
	CREATE INDEX events_n ON events (n);
	CREATE INDEX events_label ON events (label, n);
	CREATE TABLE done (client int, n bigint)});
append_to_file("$directory/work.sql", q{
	\set n random(1, 1000000000)
	\set some random(1, 60000)
	BEGIN;
	INSERT INTO events (n, label, at) SELECT random(1, 1000000000), md5((:n + i)::text), 0
		FROM generate_series(1, 10) i;
	UPDATE events SET n = :n WHERE id = :some;
	INSERT INTO done VALUES (:client_id, :n);
	COMMIT;
});
sub stat_of { return $node->safe_psql('postgres', "SELECT $_[0] FROM leanstore_stat_buffer"); }

# What the indexes say of the table, one by one.
sub indexes_agree
{
	my ($when) = @_;
	my $expected = $node->safe_psql('postgres', 'SET enable_indexscan = off;
		SET enable_bitmapscan = off;
		SELECT count(*), sum(n), sum(hashtext(label)) FROM events WHERE n >= 0 AND label >= $$$$');
	foreach my $condition ('n >= 0', 'label >= $$$$')
	{
		is($node->safe_psql('postgres', "SET enable_seqscan = off;
			SELECT count(*), sum(n), sum(hashtext(label)) FROM events WHERE $condition"),
			$expected, "$when: by $condition");
	}
	return;
}

my $most_waiting = 0;
foreach my $how (qw(all postmaster stop all stop))
{
	my $before = stat_of('change_buffer_inserts');
	my $run = $node->start_pgbench('postgres', '-n', '-c', $CLIENTS, '-T', 60,
		'-f', "$directory/work.sql");
	CrashDriver::wait_for_rows($node, 'done', 150);
	usleep(rand 500_000);
	cmp_ok(stat_of('change_buffer_inserts') - $before, '>', 200,
		"$how: leaves are not read for entries");
	my $waiting = stat_of('change_buffer_pending');
	$most_waiting = $waiting if $waiting > $most_waiting;
	if ($how eq 'stop')
	{
		$node->stop('fast');
	}
	else
	{
		CrashDriver::kill_server($node, $how);
	}
	$node->finish_pgbench($run);
	$node->start;
	# What recovery has put off is made while sessions are there (docs/decisions/0056).
	ok($node->poll_query_until('postgres',
			'SELECT change_buffer_pending = 0 FROM leanstore_stat_buffer'),
		"$how: none waits any more soon after the start");
	is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM events) - 60000
		- 10 * (SELECT count(*) FROM done)'), 0, "$how: whole transactions");
	indexes_agree($how);
	$node->leanstore_check_ok($how);
}
cmp_ok($most_waiting, '>', 100, "$most_waiting waited at one time");

# Dropping an index, or the table, takes what waits with it.  No checkpoint brings the changes in
# before that.
$node->append_conf('postgresql.conf', "leanstore.checkpoint_timeout = '1h'");
$node->restart;
my $run = $node->start_pgbench('postgres', '-n', '-c', $CLIENTS, '-t', 60,
	'-f', "$directory/work.sql");
$node->finish_pgbench($run);
cmp_ok(stat_of('change_buffer_pending'), '>', 0, 'some wait');
$node->safe_psql('postgres', 'REINDEX INDEX events_n; DROP INDEX events_label; CHECKPOINT');
$node->leanstore_check_ok('after REINDEX');
$node->safe_psql('postgres', 'SELECT leanstore_checkpoint()');
is(stat_of('change_buffer_pending'), 0, 'a checkpoint leaves none');
$node->stop('fast');
done_testing();
