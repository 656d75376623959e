# Prepared transactions over restarts of every kind: they are there until a session ends
# them, with their row locks, and end whole when the server dies at any moment of that.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = LeanstoreTest->new_node('two_phase',
	'leanstore.buffer_pool_size' => '16MB',
	'leanstore.wal_segment_size' => '1MB',
	'leanstore.max_wal_size' => '32MB',
	max_prepared_transactions => 10,
	autovacuum => 'off');

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v int, s text) USING leanstore;
	CREATE INDEX t_v ON t USING btree (v);
	CREATE INDEX t_s ON t (s, v);
	CREATE TABLE h (id int PRIMARY KEY, v int) USING heap;
	CREATE TABLE parent (id int PRIMARY KEY, v int) USING leanstore;
	CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent) USING leanstore;
	CREATE TABLE load (id bigint, s text) USING leanstore;
	INSERT INTO t SELECT i, i, 'row ' || i FROM generate_series(1, 1000) i;
	INSERT INTO h SELECT i, i FROM generate_series(1, 10) i;
	INSERT INTO parent SELECT i, i FROM generate_series(1, 5) i});

# What all sessions see, also by each index.
my $state = q{SELECT count(*), sum(v), md5(string_agg(id || s, ',' ORDER BY id)) FROM t};
my $by_index = q{SET enable_seqscan = off; SET enable_bitmapscan = off;
	SELECT (SELECT count(*) FROM t WHERE v > -1000000), (SELECT count(*) FROM t WHERE s >= ''),
		(SELECT count(*) FROM t WHERE id > 0)};

sub fails_like
{
	my ($sql, $pattern, $name) = @_;
	my (undef, undef, $error) = $node->psql('postgres', "SET lock_timeout = '50ms'; $sql");
	return like($error, $pattern, $name);
}

my %restart = (
	'kill of all' => sub { CrashDriver::kill_server($node, 'all'); $node->start },
	'kill of the postmaster' => sub { CrashDriver::kill_server($node, 'postmaster'); $node->start },
	'kill of the engine worker' =>
		sub { CrashDriver::kill_process($node, $node->engine_worker_pid) },
	'immediate stop' => sub { $node->stop('immediate'); $node->start },
	'clean restart' => sub { $node->restart },
	'checkpoints and a kill' => sub {
		$node->safe_psql('postgres', 'CHECKPOINT; SELECT leanstore_checkpoint();
			SELECT leanstore_checkpoint()');
		CrashDriver::kill_server($node, 'all');
		$node->start;
	},
	'kills during recovery' => sub {
		CrashDriver::kill_server($node, 'all');
		CrashDriver::start_and_kill($node, $_) foreach 0, 0.05, 0.15, 0.3;
		$node->start;
	});

# --- Held over restarts, and ended after them.

my $before = $node->safe_psql('postgres', $state);
$node->safe_psql('postgres', q{
	BEGIN;
	UPDATE t SET v = v + 1 WHERE id <= 100;
	UPDATE t SET s = repeat(s, 20) WHERE id BETWEEN 50 AND 150;
	SAVEPOINT a; DELETE FROM t; ROLLBACK TO a;
	DELETE FROM t WHERE id BETWEEN 151 AND 200;
	INSERT INTO t SELECT i, i, repeat(md5(i::text), i % 50) FROM generate_series(2001, 2500) i;
	INSERT INTO t SELECT i, i, repeat(md5(i::text), 300) FROM generate_series(2501, 2505) i;
	UPDATE h SET v = v + 1;
	PREPARE TRANSACTION 'commit';
	BEGIN;
	UPDATE t SET v = -v WHERE id BETWEEN 301 AND 400;
	DELETE FROM t WHERE id BETWEEN 351 AND 360;
	INSERT INTO t SELECT i, i, 'never' FROM generate_series(3001, 3500) i;
	INSERT INTO h VALUES (100, 100);
	PREPARE TRANSACTION 'rollback';
	BEGIN;
	SELECT 1 FROM t WHERE id = 500 FOR UPDATE;
	SELECT 1 FROM t WHERE id = 501 FOR SHARE;
	INSERT INTO child VALUES (1, 1);
	PREPARE TRANSACTION 'locks'});

foreach my $way (sort(keys %restart), 'clean restart', 'clean restart')
{
	$restart{$way}->();
	is($node->safe_psql('postgres', $state), $before,
		"$way: nothing of prepared transactions is seen");
	is($node->safe_psql('postgres', $by_index), '1000|1000|1000', "$way: by index neither");
	is($node->safe_psql('postgres', q{SELECT string_agg(gid, ' ' ORDER BY gid)
		FROM pg_prepared_xacts}), 'commit locks rollback', "$way: they are there");
	fails_like('UPDATE t SET v = 0 WHERE id = 100', qr/lock timeout/,
		"$way: a changed row is held");
	fails_like('SELECT 1 FROM t WHERE id = 160 FOR KEY SHARE', qr/lock timeout/,
		"$way: a deleted row is held");
	fails_like(q{INSERT INTO t VALUES (3001)}, qr/lock timeout/, "$way: a new key is held");
	fails_like('SELECT 1 FROM t WHERE id = 500 FOR KEY SHARE', qr/lock timeout/,
		"$way: FOR UPDATE is held");
	fails_like('UPDATE t SET v = 0 WHERE id = 501', qr/lock timeout/, "$way: FOR SHARE is held");
	fails_like('DELETE FROM parent WHERE id = 1', qr/lock timeout/,
		"$way: the row that a foreign key refers to is held");
	$node->safe_psql('postgres', q{SELECT 1 FROM t WHERE id = 501 FOR SHARE;
		UPDATE parent SET v = v + 1 WHERE id = 1; UPDATE t SET v = v WHERE id = 600});
	$node->leanstore_check_ok($way);
}

# The engine's log is not kept for them.
$node->safe_psql('postgres', q{INSERT INTO load SELECT i, repeat('x', 3000)
	FROM generate_series(1, 5000) i; SELECT leanstore_checkpoint(); SELECT leanstore_checkpoint()});
cmp_ok($node->safe_psql('postgres', 'SELECT log_position - log_redo_position
	FROM leanstore_stat_wal'), '<', 4_000_000, 'the log is truncated');

$node->safe_psql('postgres', q{ROLLBACK PREPARED 'rollback'; COMMIT PREPARED 'commit';
	COMMIT PREPARED 'locks'});
my $after = $node->safe_psql('postgres', $state);
my $sum = q{SELECT count(*), count(*) FILTER (WHERE s = 'never'), count(*) FILTER (WHERE id > 2000),
	(SELECT sum(v) FROM h), (SELECT count(*) FROM child) FROM t};
is($node->safe_psql('postgres', $sum), '1455|0|505|65|1', 'ended');
$node->safe_psql('postgres', q{UPDATE t SET v = v; DELETE FROM child;
	DELETE FROM parent WHERE id = 1});
$node->leanstore_check_ok('ended');
CrashDriver::kill_server($node, 'all');
$node->start;
is($node->safe_psql('postgres', $state), $after, 'and so after a crash');
is($node->safe_psql('postgres', $by_index), '1455|1455|1455', 'by index, too');
$node->leanstore_check_ok('ended, after a crash');

# --- Killed right after each step: no time for anything to be written by chance.  A small
# transaction has no file before a checkpoint.

foreach my $end ('COMMIT', 'ROLLBACK')
{
	my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM t');
	my $new = $end eq 'COMMIT' ? 20 : 0;

	$node->safe_psql('postgres', q{BEGIN;
		INSERT INTO t SELECT i, 0, 'x' FROM generate_series(4001, 4020) i;
		UPDATE t SET s = 'y' WHERE id = 4001; PREPARE TRANSACTION 'p'});
	CrashDriver::kill_server($node, 'all');
	is(scalar(my @files = glob($node->data_dir . '/leanstore/prepared/*')), 0,
		"$end PREPARED: it has no file");
	$node->start;
	$node->safe_psql('postgres', "$end PREPARED 'p'");
	CrashDriver::kill_server($node, 'all');
	$node->start;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), $rows + $new,
		"$end PREPARED, then killed");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 0,
		"$end PREPARED, then killed: ended");
	$node->leanstore_check_ok("$end PREPARED, then killed");
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 4000');
}

# --- Between PostgreSQL's end of it and the engine's.

SKIP:
{
	skip 'no injection points in this server', 1 unless $node->check_extension('injection_points');
	$node->safe_psql('postgres', 'CREATE EXTENSION injection_points');

	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		foreach my $then ('waiter', 'terminate', 'kill')
		{
			my $name = "$end PREPARED interrupted, $then";
			my $want = $end eq 'COMMIT' ? '500|1000' : '0|500';

			$node->safe_psql('postgres', q{
				TRUNCATE load;
				INSERT INTO load SELECT i, 'old' FROM generate_series(1, 500) i;
				BEGIN;
				UPDATE load SET s = 'new';
				INSERT INTO load SELECT i, 'more' FROM generate_series(501, 1000) i;
				PREPARE TRANSACTION 'p';
				SELECT injection_points_attach('leanstore-end-prepared', 'wait')});
			my $waiter = $node->background_psql('postgres');
			$waiter->query_until(qr/started/,
				qq{\\echo started\nUPDATE load SET id = id WHERE id = 7;\n\\echo done\n});
			$node->poll_query_until('postgres',
				q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'});
			my $ender = $node->background_psql('postgres', on_error_stop => 0);
			$ender->query_until(qr/started/, qq{\\echo started\n$end PREPARED 'p';\n});
			$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
				WHERE wait_event = 'leanstore-end-prepared'});

			is($node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE s = 'new'), count(*)
				FROM load}), $want, "$name: seen as a whole");
			if ($then eq 'kill')
			{
				CrashDriver::kill_server($node, 'all');
				$node->start;
				eval { $_->quit } foreach $ender, $waiter;
			}
			else
			{
				$waiter->query_until(qr/done/, '');
				pass("$name: who has waited goes on");
				$waiter->quit;
				$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid)
					FROM pg_stat_activity WHERE wait_event = 'leanstore-end-prepared'})
					if $then eq 'terminate';
				$node->safe_psql('postgres',
					q{SELECT injection_points_wakeup('leanstore-end-prepared')})
					if $then eq 'waiter';
				$node->safe_psql('postgres',
					q{SELECT injection_points_detach('leanstore-end-prepared')});
				eval { $ender->quit };
			}
			is($node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE s = 'new'), count(*)
				FROM load}), $want, "$name: all of it in the end");
			is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), 0,
				"$name: ended");
			$node->safe_psql('postgres', q{SET lock_timeout = '10s'; UPDATE load SET s = s});
			$node->leanstore_check_ok($name);
		}
	}
}

# --- The server's own errors.

$node->set_config(max_prepared_transactions => 0);
$node->restart;
fails_like(q{BEGIN; UPDATE t SET v = 0 WHERE id = 1; PREPARE TRANSACTION 'p'},
	qr/prepared transactions are disabled/, 'disabled');
$node->set_config(max_prepared_transactions => 1);
$node->restart;
$node->safe_psql('postgres', q{BEGIN; UPDATE t SET v = 0 WHERE id = 1; PREPARE TRANSACTION 'p'});
fails_like(q{BEGIN; UPDATE t SET v = 0 WHERE id = 2; PREPARE TRANSACTION 'q'},
	qr/maximum number of prepared transactions reached/, 'too many');
$node->safe_psql('postgres', q{COMMIT PREPARED 'p'});
$node->safe_psql('postgres', qq{BEGIN; UPDATE t SET v = 0 WHERE id = $_; PREPARE TRANSACTION 'p';
	COMMIT PREPARED 'p'}) foreach 1 .. 5;
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();
