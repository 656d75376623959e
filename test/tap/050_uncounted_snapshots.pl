# A REPEATABLE READ transaction tells of one snapshot only, and takes newer ones when
# COMMIT or PREPARE check its deferred foreign keys.  What those see must be kept while
# others change: or the check misses a row, and leaves an orphan.  The check
# pauses between taking its snapshot and using it (injection points).
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use Test::More;
use Time::HiRes qw(usleep);

my $node = LeanstoreTest->new_node('snapshots',
	max_prepared_transactions => 4,
	autovacuum => 'off');
plan skip_all => 'no injection points in this server'
  unless $node->check_extension('injection_points');

my $POINT = 'leanstore-snapshot-converted';
$node->safe_psql('postgres', q{
	CREATE EXTENSION injection_points;
	CREATE TABLE pk (id int PRIMARY KEY) USING leanstore;
	CREATE TABLE fk (n int, v int, pkid int REFERENCES pk DEFERRABLE INITIALLY DEFERRED)
		USING leanstore;
	CREATE FUNCTION remove(i int) RETURNS void LANGUAGE sql AS 'DELETE FROM pk WHERE id = i';
	CREATE PROCEDURE change(k int) LANGUAGE plpgsql AS $$
	BEGIN
		FOR i IN 1 .. 20 LOOP UPDATE fk SET v = v + 1 WHERE pkid = k; COMMIT; END LOOP;
	END $$});

# What makes the transaction's snapshot, what changes, what ends it; and whether the last
# makes that snapshot, too.
my $BEGIN = 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pk';
my $SET = q{SET default_transaction_isolation = 'repeatable read'};
my @ways = (
	[ 'COMMIT', $BEGIN, 'DELETE FROM pk WHERE id = KEY', 'COMMIT' ],
	[ 'PREPARE TRANSACTION', $BEGIN, 'DELETE FROM pk WHERE id = KEY', q{PREPARE TRANSACTION 'p'} ],
	[ 'COMMIT AND CHAIN', "$BEGIN; COMMIT AND CHAIN; SELECT count(*) FROM pk",
		'DELETE FROM pk WHERE id = KEY', 'COMMIT AND CHAIN' ],
	[ 'a function, no block', $SET, 'SELECT 1', 'SELECT remove(KEY)', 'both' ],
	[ 'statements in one message', $SET, 'SELECT 1',
		'SELECT count(*) FROM pk\; SELECT remove(KEY)\; SELECT count(*) FROM pk', 'both' ]);

my $key = 0;
foreach my $way (@ways)
{
	my ($name, $begin, $change, $end, $both) = @$way;
	$key++;
	s/KEY/$key/ foreach ($change, $end);
	$node->safe_psql('postgres', "INSERT INTO pk VALUES ($key)");

	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query_safe("SELECT injection_points_set_local(); $begin");
	if (!$both)
	{
		$node->safe_psql('postgres', "INSERT INTO fk VALUES (-$key, 0, $key)");
	}
	$session->query_safe("$change; SELECT injection_points_attach('$POINT', 'wait')");
	$session->query_until(qr/ending/, "\\echo ending\n$end;\n");
	$node->wait_for_event('client backend', $POINT);
	if ($both)
	{
		$node->safe_psql('postgres', "INSERT INTO fk VALUES (-$key, 0, $key)");
		$node->safe_psql('postgres', "SELECT injection_points_wakeup('$POINT')");
		usleep(50_000);
		$node->wait_for_event('client backend', $POINT);
	}
	# The cleaner and the horizon have the time that they need to drop what no snapshot seems to
	# see.
	foreach my $round (1 .. 2)
	{
		$node->safe_psql('postgres', "CALL change($key)");
		usleep(200_000);
	}
	$node->safe_psql('postgres', "SELECT injection_points_detach('$POINT')");
	$node->safe_psql('postgres', "SELECT injection_points_wakeup('$POINT')");
	$session->query('ROLLBACK');
	my $orphans = 'SELECT count(*) FROM fk WHERE NOT EXISTS (SELECT FROM pk WHERE id = pkid)';
	is($node->safe_psql('postgres', $orphans), 0, "$name: no orphan");
	my $prepared = 'SELECT count(*) FROM pg_prepared_xacts';
	is($node->safe_psql('postgres', $prepared), 0, "$name: is refused");
	like($session->{stderr}, qr/violates foreign key constraint/, "$name: says why");
	$session->quit;
}
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();
