# A subscriber with leanstore tables is killed again and again while the publisher and
# other clients of the subscriber are at work.  It ends with the publisher's rows: none is
# missing, none is there twice, and no transaction was applied in part.  Before that: a row
# that is found by all its values while a local transaction has a change of it in progress.
#
# Environment: KILLS (4; 50 in a long run), KILL_SEED (random; printed).
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $kills = $ENV{KILLS} // 4;
my $seed = $ENV{KILL_SEED} // int(rand 2**31);
note "KILLS=$kills KILL_SEED=$seed";
srand $seed;

my $publisher = LeanstoreTest->new_node('publisher', wal_level => 'logical', max_wal_senders => 5,
	fsync => 'off');
my $subscriber = LeanstoreTest->new_node('subscriber', autovacuum_naptime => '1s',
	wal_retrieve_retry_interval => '100ms', 'leanstore.max_wal_size' => '32MB',
	'leanstore.wal_segment_size' => '1MB');

# Rows without a key show what was applied twice, rows with one what was applied in part.
my $tables = q{
	CREATE TABLE seen (client int, n int, t text);
	CREATE TABLE account (id int PRIMARY KEY, balance bigint, t text);
	ALTER TABLE seen REPLICA IDENTITY FULL;
	CREATE TABLE shared (n int, t text);
	ALTER TABLE shared REPLICA IDENTITY FULL;
	CREATE TABLE keyed (n int, t text);
	ALTER TABLE keyed REPLICA IDENTITY FULL};
$publisher->safe_psql('postgres', qq{
	$tables;
	INSERT INTO account SELECT g, 0, 'from the start' FROM generate_series(1, 500) g;
	INSERT INTO shared VALUES (1, 'old'), (2, 'old'), (3, 'old');
	INSERT INTO keyed TABLE shared;
	CREATE SEQUENCE place;
	CREATE PUBLICATION p FOR TABLE seen, account, shared, keyed});
$subscriber->safe_psql('postgres', qq{
	SET default_table_access_method = leanstore;
	$tables;
	CREATE INDEX ON keyed (n);
	CREATE TABLE local (id int PRIMARY KEY, n bigint);
	INSERT INTO local SELECT g, 0 FROM generate_series(1, 500) g});
my $connection = $publisher->connstr . ' dbname=postgres';
$subscriber->safe_psql('postgres',
	"CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p WITH (synchronous_commit = off)");
$subscriber->poll_query_until('postgres',
	q{SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel});

# That the tables are synchronized is told by commits that do not wait for the disk.
$subscriber->safe_psql('postgres', 'CHECKPOINT');

# --- A change in progress: by a scan of the table, and by an index that is not unique --

foreach my $table (qw(shared keyed))
{
	foreach my $end (qw(ROLLBACK COMMIT))
	{
		my $n = $end eq 'ROLLBACK' ? 1 : 2;
		my $local = $subscriber->background_psql('postgres');

		$local->query_safe("BEGIN; UPDATE $table SET t = 'local' WHERE n = $n");
		$publisher->safe_psql('postgres', "DELETE FROM $table WHERE n = $n");
		$subscriber->poll_query_until('postgres',
			q{SELECT EXISTS (SELECT FROM pg_locks
				WHERE locktype = 'transactionid' AND NOT granted)});
		$local->query_safe($end);
		$local->quit;
		$publisher->wait_for_catchup('s');
		# One that has become another row meanwhile is not the publisher's.
		is($subscriber->safe_psql('postgres', "SELECT t FROM $table WHERE n = $n"),
			$end eq 'ROLLBACK' ? '' : 'local', "$table: the worker waits for a local change, $end");
	}
}

# --- Kills under load ---------------------------------------------------------------------

my $published = PostgreSQL::Test::Utils::tempdir() . '/published.sql';
append_to_file($published, q{
\set a random(1, 500)
\set b random(1, 500)
\set some random(1, 20)
BEGIN;
INSERT INTO seen SELECT :client_id, nextval('place'), repeat('x', 100)
	FROM generate_series(1, :some);
SAVEPOINT s;
UPDATE account SET balance = balance + 1, t = 'in the middle' WHERE id = least(:a, :b);
UPDATE account SET balance = balance - 1 WHERE id = greatest(:a, :b);
ROLLBACK TO s;
SAVEPOINT s;
UPDATE account SET balance = balance + :some, t = 'updated' WHERE id = least(:a, :b);
UPDATE account SET balance = balance - :some WHERE id = greatest(:a, :b);
DELETE FROM seen WHERE client = :client_id AND n % 50 = 0;
COMMIT;
});
my $at_subscriber = PostgreSQL::Test::Utils::tempdir() . '/at_subscriber.sql';
append_to_file($at_subscriber, q{
\set a random(1, 500)
UPDATE local SET n = n + 1 WHERE id = :a;
});

my $sum = 'SELECT count(*), sum(balance) FROM account';
my $load = $publisher->start_pgbench('postgres', qw(-c 3 -R 60 -T 3600 -f), $published);
foreach my $round (1 .. $kills)
{
	my $how = $round % 2 ? 'on' : 'off';
	$subscriber->safe_psql('postgres', "ALTER SUBSCRIPTION s SET (synchronous_commit = $how)");
	my $others = $subscriber->start_pgbench('postgres', qw(-c 2 -T 600 -f), $at_subscriber);

	# It has to have applied something anew, or nothing would be tested.
	my $before = $subscriber->safe_psql('postgres', 'SELECT coalesce(max(n), 0) FROM seen');
	ok($subscriber->poll_query_until('postgres',
		"SELECT EXISTS (SELECT FROM seen WHERE n > $before)"),
		"round $round: the subscriber applies");
	usleep(rand 500_000);
	CrashDriver::kill_server($subscriber, $round % 4 == 3 ? 'postmaster' : 'all');
	$subscriber->finish_pgbench($others);
	$subscriber->start;
	# A transaction's changes of two accounts cancel each other out.
	is($subscriber->safe_psql('postgres', $sum), '500|0', "round $round: whole transactions only");
}
$publisher->stop_pgbench($load);

$publisher->wait_for_catchup('s');
foreach my $table (qw(seen account))
{
	my $digest = "SELECT count(*), count(DISTINCT x::text), "
	  . "md5(string_agg(x::text, ';' ORDER BY x::text)) FROM $table x";
	is($subscriber->safe_psql('postgres', $digest), $publisher->safe_psql('postgres', $digest),
		"$table has the publisher's rows after $kills kills");
}
is($publisher->safe_psql('postgres',
	'SELECT count(*) > 0 AND count(*) = count(DISTINCT n) FROM seen'), 't',
	'each row of the publisher differs from the others');
$subscriber->leanstore_check_ok('at the end');
$subscriber->stop;
$publisher->stop;
done_testing();
