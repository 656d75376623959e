# leanstore.log = wal: leanstore tables are read on a standby while it replays.
#
# What a snapshot shows on the standby is what it would have shown on the primary: pgbench's
# balances agree in each statement, in transactions that keep their snapshot, in sequential and
# index scans.  A reader is cancelled where rows that it sees are removed, and only there.  DDL, a
# restart of either server, and a promotion happen beside readers.
#
# Environment: STANDBY_SECONDS (of load, 5).
use strict;
use warnings FATAL => 'all';

use CopiedServer;
use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $seconds = $ENV{STANDBY_SECONDS} // 5;

my $contents = $CopiedServer::steady;
my $balances = q{
	SELECT count(*) FILTER (WHERE a <> b OR b <> t OR t <> h) FROM (SELECT
		(SELECT sum(abalance) FROM pgbench_accounts) a,
		(SELECT sum(bbalance) FROM pgbench_branches) b,
		(SELECT sum(tbalance) FROM pgbench_tellers) t,
		(SELECT coalesce(sum(delta), 0) FROM pgbench_history) h) x};

my $primary = CopiedServer::new_primary('primary', allows_streaming => 1);
$primary->safe_psql('postgres', 'TRUNCATE pgbench_history');
$primary->safe_psql('postgres', 'UPDATE pgbench_accounts SET abalance = 0;
	UPDATE pgbench_branches SET bbalance = 0; UPDATE pgbench_tellers SET tbalance = 0');
$primary->backup('backup');
my $standby = LeanstoreTest->new_standby('standby', $primary, 'backup',
	max_standby_streaming_delay => '30s');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $contents),
	$primary->safe_psql('postgres', $contents), 'the standby shows the same');

# ---- beside a load

my $pgbench = $primary->start_pgbench('postgres', '-n', '-c', 4, '-T', $seconds);
my $reader = $standby->background_psql('postgres', on_error_stop => 1);
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $first = $reader->query_safe($contents);
my ($bad, $differs, $reads) = (0, 0, 0);
my $end = time + $seconds;
while (time < $end)
{
	$bad += $standby->safe_psql('postgres', $balances);
	$bad += $standby->safe_psql('postgres', "SET enable_seqscan = off; $balances");
	$differs += $reader->query_safe($contents) ne $first;
	$reads++;
}
is("$bad $differs", '0 0', 'all balances agree, and one snapshot shows the same');
note("$reads turns of reads");
cmp_ok($reads, '>', 2, 'there were some');
$reader->query_safe('COMMIT');
$primary->finish_pgbench($pgbench);
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $contents),
	$primary->safe_psql('postgres', $contents), 'behind the load, too');
$standby->leanstore_check_ok('the standby');

# ---- DDL, and databases that come and go

$primary->safe_psql('postgres', q{
	CREATE TABLE t (k int PRIMARY KEY, n int, b text) USING leanstore;
	INSERT INTO t SELECT i, i, 'b' || i FROM generate_series(1, 10000) i});
my $sum = sub {
	$primary->wait_for_catchup($standby);
	return $standby->safe_psql('postgres', 'SELECT count(*), sum(n) FROM t');
};
is($sum->(), '10000|50005000', 'a new table');
$primary->safe_psql('postgres', 'VACUUM FULL t; CREATE INDEX t_n ON t (n)');
is($sum->(), '10000|50005000', 'behind VACUUM FULL');
is($standby->safe_psql('postgres', 'SET enable_seqscan = off;
	SELECT count(*), sum(n), (SELECT b FROM t WHERE n = 77) FROM t WHERE n BETWEEN 100 AND 199'),
	'100|14950|b77', 'by the new index');
$primary->safe_psql('postgres', 'DROP INDEX t_n; REINDEX TABLE t; ALTER TABLE t ADD m int DEFAULT 5;
	DELETE FROM t WHERE k > 5000; VACUUM t');
is($sum->(), '5000|12502500', 'behind DELETE and VACUUM');
$primary->safe_psql('postgres', 'BEGIN; TRUNCATE t; INSERT INTO t VALUES (1, 1); COMMIT');
is($sum->(), '1|1', 'behind TRUNCATE');
$primary->safe_psql('postgres', 'DROP TABLE t');
$primary->wait_for_catchup($standby);
like(($standby->psql('postgres', 'SELECT count(*) FROM t'))[2], qr/does not exist/, 'and DROP');
$primary->safe_psql('postgres', 'CREATE DATABASE other');
$primary->safe_psql('other', q{CREATE EXTENSION leanstore_am;
	CREATE TABLE o USING leanstore AS SELECT i FROM generate_series(1, 1000) i});
$primary->wait_for_catchup($standby);
is($standby->safe_psql('other', 'SELECT count(*) FROM o'), '1000', 'another database');
$primary->safe_psql('postgres', 'DROP DATABASE other');
$primary->wait_for_catchup($standby);
like(($standby->psql('other', 'SELECT 1'))[2], qr/does not exist/, 'is dropped');

# ---- transactions that end in another way

my $writer = $primary->background_psql('postgres');
$primary->safe_psql('postgres', 'CREATE TABLE w (k int PRIMARY KEY, n int) USING leanstore;
	INSERT INTO w SELECT i, 0 FROM generate_series(1, 1000) i');
$writer->query_safe('BEGIN; UPDATE w SET n = 1 WHERE k <= 500; SAVEPOINT s;
	UPDATE w SET n = 100; ROLLBACK TO s;
	INSERT INTO w SELECT i, 1 FROM generate_series(1001, 1500) i');
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
my $totals = 'SELECT count(*), sum(n), max(n) FROM w';
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $totals), '1000|0|0', 'what is not committed is not seen');
$writer->query_safe('COMMIT');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $totals), '1500|1000|1', 'what is committed is');
$writer->query_safe('BEGIN; UPDATE w SET n = 2; DELETE FROM w WHERE k > 700; ROLLBACK');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $totals), '1500|1000|1', 'what is rolled back is not');
$writer->query_safe(q{BEGIN; UPDATE w SET n = 3; PREPARE TRANSACTION 'p'});
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $totals), '1500|1000|1', 'nor what is prepared');
$writer->query_safe(q{COMMIT PREPARED 'p'});
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $totals), '1500|4500|3', 'until that is committed');

# ---- conflicts

sub conflicts
{
	return $standby->safe_psql('postgres',
		q{SELECT confl_snapshot FROM pg_stat_database_conflicts WHERE datname = 'postgres'});
}

$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 100ms');
$standby->reload;
my $before = conflicts();
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($reader->query_safe($totals), '1500|4500|3', 'a snapshot');
$primary->safe_psql('postgres', 'UPDATE w SET n = n + 1') for 1 .. 10;
$primary->wait_for_catchup($standby);
usleep(300_000);
is($reader->query_safe($totals), '1500|4500|3', 'updates are no conflict');
$primary->safe_psql('postgres', 'DELETE FROM w WHERE k % 2 = 0');
is($reader->query_safe($totals), '1500|4500|3', 'nor is DELETE');
# What VACUUM may remove the engine worker says, a moment later.
for (my $i = 0; $i < 100 && conflicts() == $before; $i++)
{
	$primary->safe_psql('postgres', 'VACUUM w');
	$primary->wait_for_catchup($standby);
	usleep(50_000);
}
is($standby->safe_psql('postgres', $totals), '750|9750|13', 'replay goes on');
cmp_ok(conflicts(), '>', $before, 'what VACUUM has removed is a conflict');
eval { $reader->query($totals) };
like($reader->{stderr}, qr/conflict with recovery/, 'which the reader hears of');
eval { $reader->quit };

# Large values that are replaced are deleted, as they are for heap.
$reader = $standby->background_psql('postgres', on_error_stop => 0);
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $values = 'SELECT sum(hashtext(v)::bigint) FROM large';
my $shown = $reader->query($values);
for my $i (1 .. 100)
{
	$primary->safe_psql('postgres', "UPDATE large SET v = repeat('$i-' || id, 2000)");
	$primary->wait_for_catchup($standby);
	usleep(50_000);
	my $now = eval { $reader->query($values) } // '';
	next if $now eq $shown;
	is($now, '', 'no other values are shown');
	last;
}
like($reader->{stderr}, qr/conflict with recovery/, 'the reader of large values is cancelled');
eval { $reader->quit };

# ---- starts and stops

sub expect_same
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$primary->wait_for_catchup($standby);
	my $query = "$contents UNION ALL SELECT 'w', count(*), sum(n), 0 FROM w";

	is($standby->safe_psql('postgres', $query), $primary->safe_psql('postgres', $query), $name);
	return;
}

# Transactions that are open then, and stay so.
$writer->query_safe(q{BEGIN; UPDATE w SET n = -1 WHERE k % 10 = 1; DELETE FROM w WHERE k % 10 = 3;
	PREPARE TRANSACTION 'open'});
$writer->query_safe('BEGIN; UPDATE w SET n = -2 WHERE k % 10 = 5;
	UPDATE w SET n = -3 WHERE k % 10 = 5; DELETE FROM w WHERE k % 10 = 7;
	SAVEPOINT s; UPDATE w SET n = -4 WHERE k % 10 = 9; ROLLBACK TO s');
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
$primary->wait_for_catchup($standby);
$standby->restart;
expect_same('behind a restart of the standby');
$writer->query_safe('UPDATE w SET n = -5 WHERE k % 10 = 5');
expect_same('beside transactions that were open before');
CrashDriver::kill_server($standby, 'all');
$standby->start;
expect_same('and behind a crash of it');
$writer->query_safe('COMMIT');
$writer->query_safe(q{COMMIT PREPARED 'open'});
expect_same('when they have ended');
$primary->safe_psql('postgres', 'UPDATE w SET n = n + 1; CHECKPOINT');
CrashDriver::kill_server($standby, 'all');
$standby->start;
expect_same('behind another one');
$primary->restart;
$primary->safe_psql('postgres', 'UPDATE w SET n = n + 1');
expect_same('behind a restart of the primary');
CrashDriver::kill_server($primary, 'all');
$primary->start;
$primary->safe_psql('postgres', 'UPDATE w SET n = n + 1');
expect_same('behind a crash of it');
my $all = $primary->safe_psql('postgres', $totals);
$primary->stop;
is($standby->safe_psql('postgres', $totals), $all, 'without a primary');
$standby->safe_psql('postgres', 'CHECKPOINT');
$standby->restart;
is($standby->safe_psql('postgres', $totals), $all, 'and started without one');
$primary->start;
$primary->safe_psql('postgres', 'UPDATE w SET n = n + 1');
expect_same('which comes back');

# ---- a promotion

$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 30s');
$standby->reload;
$writer = $primary->background_psql('postgres');
$writer->query_safe('BEGIN; UPDATE w SET n = 1000000');
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
$primary->wait_for_catchup($standby);
$all = $standby->safe_psql('postgres', $totals);
$reader = $standby->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($reader->query_safe($totals), $all, 'a reader before the promotion');
$primary->stop('immediate');
$standby->promote;
is($reader->query_safe($totals), $all, 'sees the same behind it');
is($standby->safe_psql('postgres', $totals), $all, 'and so do others');
$standby->safe_psql('postgres', 'UPDATE w SET n = n + 1');
is($reader->query_safe($totals), $all, 'while there are new changes');
$reader->query_safe('COMMIT; UPDATE w SET n = n - 1');
is($reader->query_safe($totals), $all, 'it writes');
$reader->quit;
$standby->leanstore_check_ok('the new primary');
CrashDriver::kill_server($standby, 'all');
$standby->start;
is($standby->safe_psql('postgres', $totals), $all, 'it comes back from a crash');

done_testing();
