# Prepared transactions that have made, rewritten, truncated or dropped leanstore relations.  The
# server unlinks their files at COMMIT or ROLLBACK PREPARED before the engine hears of it, over
# restarts of every kind, with checkpoints and cleaners at work, and with a kill at each step.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $log = $ENV{LOG} // 'both';

# What a transaction does; what is true of it when it has committed, and when it was rolled back.
my %work = (
	'create' => [
		q{CREATE TABLE made (id int PRIMARY KEY, s text) USING leanstore;
		  CREATE INDEX made_s ON made (left(s, 100));
		  INSERT INTO made SELECT i, 'row ' || i FROM generate_series(1, 3000) i;
		  INSERT INTO made VALUES (0, (SELECT string_agg(md5(i::text), '')
			FROM generate_series(1, 1000) i));
		  UPDATE kept SET v = v + 1},
		q{SELECT count(*), sum(length(s)) FROM made}, '3001|54893',
		q{SELECT to_regclass('made') IS NULL}, 't'],
	'create empty' => [
		q{CREATE TABLE made (id int PRIMARY KEY) USING leanstore},
		q{SELECT count(*) FROM made}, '0',
		q{SELECT to_regclass('made') IS NULL}, 't'],
	'drop' => [
		q{UPDATE old SET v = -v WHERE id <= 100; DELETE FROM old WHERE id > 900; DROP TABLE old},
		q{SELECT to_regclass('old') IS NULL}, 't',
		q{SELECT count(*), sum(v), sum(length(s)) FROM old}, '1001|500500|32000'],
	'truncate' => [
		q{UPDATE old SET v = -v; TRUNCATE old; INSERT INTO old VALUES (1, 1, 'new')},
		q{SELECT count(*), sum(v), sum(length(s)) FROM old}, '1|1|3',
		q{SELECT count(*), sum(v), sum(length(s)) FROM old}, '1001|500500|32000'],
	'rewrite' => [
		q{UPDATE old SET v = v + 1; ALTER TABLE old ALTER v TYPE bigint;
		  UPDATE old SET v = v + 1 WHERE id <= 10},
		q{SELECT count(*), sum(v), pg_typeof(min(v)) FROM old}, '1001|501512|bigint',
		q{SELECT count(*), sum(v), pg_typeof(min(v)) FROM old}, '1001|500500|integer'],
	'index' => [
		q{CREATE INDEX old_v ON old (v); DROP INDEX old_s; REINDEX INDEX old_pkey},
		q{SET enable_seqscan = off; SELECT count(*), to_regclass('old_s') IS NULL FROM old
			WHERE v BETWEEN 1 AND 10}, '10|t',
		q{SELECT count(*), to_regclass('old_v') IS NULL FROM old WHERE v BETWEEN 1 AND 10}, '10|t'],
	'from heap' => [
		q{ALTER TABLE heap SET ACCESS METHOD leanstore; DELETE FROM heap WHERE id = 1;
		  ALTER TABLE kept SET ACCESS METHOD heap},
		q{SELECT count(*), (SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam
			WHERE relname = 'heap') FROM heap}, '99|leanstore',
		q{SELECT count(*), (SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam
			WHERE relname = 'heap') FROM heap}, '100|heap'],
	'made in vain' => [
		q{CREATE TABLE made (id int) USING leanstore; INSERT INTO made VALUES (1); DROP TABLE made;
		  SAVEPOINT a; CREATE TABLE made (id int) USING leanstore; ROLLBACK TO a;
		  DELETE FROM kept WHERE id = 1},
		q{SELECT count(*), to_regclass('made') IS NULL FROM kept}, '99|t',
		q{SELECT count(*), to_regclass('made') IS NULL FROM kept}, '100|t']);

my $tables = q{
	DROP TABLE IF EXISTS made, old, kept, heap;
	CREATE TABLE kept (id int PRIMARY KEY, v int) USING leanstore;
	CREATE TABLE old (id int PRIMARY KEY, v int, s text) USING leanstore;
	CREATE INDEX old_s ON old (left(s, 100));
	CREATE TABLE heap (id int) USING heap;
	INSERT INTO kept SELECT i, i FROM generate_series(1, 100) i;
	INSERT INTO old SELECT i, i, '' FROM generate_series(1, 1000) i;
	INSERT INTO old VALUES (0, 0, (SELECT string_agg(md5(i::text), '')
		FROM generate_series(1, 1000) i));
	INSERT INTO heap SELECT generate_series(1, 100)};

# The engine's threads have something to write and to clean, and files to forget.
sub stir
{
	my ($node) = @_;
	$node->safe_psql('postgres', q{
		CREATE TABLE IF NOT EXISTS load (id int, s text) USING leanstore;
		INSERT INTO load SELECT i, repeat('x', 500) FROM generate_series(1, 500) i;
		DELETE FROM load WHERE id % 2 = 0;
		SELECT leanstore_checkpoint(); CHECKPOINT; SELECT leanstore_checkpoint()});
	return;
}

my %between = (
	'nothing' => sub { },
	'checkpoints' => \&stir,
	'a clean restart' => sub { $_[0]->restart; },
	'a crash' => sub { CrashDriver::kill_server($_[0], 'all'); $_[0]->start; },
	'a crash, a checkpoint, a crash' => sub {
		my ($node) = @_;
		CrashDriver::kill_server($node, 'all');
		$node->start;
		stir($node);
		CrashDriver::kill_server($node, 'all');
		$node->start;
	});

sub run_work
{
	my ($node, $what, $way, $end) = @_;
	my ($sql, $committed, $is_committed, $back, $is_back) = @{ $work{$what} };
	my $name = "$what, $way, $end";

	$node->safe_psql('postgres', $tables);
	$node->safe_psql('postgres', "BEGIN; $sql; PREPARE TRANSACTION 'p'");
	$between{$way}->($node);
	$node->safe_psql('postgres', "$end PREPARED 'p'");
	my ($check, $want) = $end eq 'COMMIT' ? ($committed, $is_committed) : ($back, $is_back);
	is($node->safe_psql('postgres', $check), $want, $name);
	stir($node);
	if ($end eq 'ROLLBACK' || $what eq 'rewrite')
	{
		CrashDriver::kill_server($node, 'all');
		$node->start;
		is($node->safe_psql('postgres', $check), $want, "$name: after a crash");
	}
	$node->leanstore_check_ok($name);
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), '0', "$name: ended");
	return;
}

foreach my $mode ($log eq 'both' ? ('engine', 'wal') : $log)
{
	my $node = LeanstoreTest->new_node("prepared_ddl_$mode",
		'leanstore.log' => $mode,
		'leanstore.buffer_pool_size' => '16MB',
		max_prepared_transactions => 10,
		autovacuum => 'off');
	my @ways = sort keys %between;
	my $turn = $mode eq 'wal' ? 2 : 0;

	my @what = $mode eq 'wal' ? ('create', 'drop', 'rewrite') : sort keys %work;

	# Each with two of the ways, so that each way meets both ends.
	foreach my $what (@what)
	{
		run_work($node, $what, $ways[$turn++ % @ways], $_) foreach 'COMMIT', 'ROLLBACK';
	}

	# The server has ended it, and the engine does not know yet: the next session tells it.
	SKIP:
	{
		skip 'no injection points in this server', 1
			unless $node->check_extension('injection_points');
		$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS injection_points');
		foreach my $what ('create', 'drop', 'rewrite', 'truncate')
		{
			foreach my $end ('COMMIT', 'ROLLBACK')
			{
				my ($sql, $committed, $is_committed, $back, $is_back) = @{ $work{$what} };
				my ($check, $want) =
					$end eq 'COMMIT' ? ($committed, $is_committed) : ($back, $is_back);
				my $kill = $turn++ % 2;

				$node->safe_psql('postgres', $tables);
				$node->safe_psql('postgres', "BEGIN; $sql; PREPARE TRANSACTION 'p';
					SELECT injection_points_attach('leanstore-end-prepared', 'wait')");
				my $ender = $node->background_psql('postgres', on_error_stop => 0);
				$ender->query_until(qr/started/, qq{\\echo started\n$end PREPARED 'p';\n});
				$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
					WHERE wait_event = 'leanstore-end-prepared'});
				if ($kill)
				{
					CrashDriver::kill_server($node, 'all');
					$node->start;
					eval { $ender->quit };
				}
				is($node->safe_psql('postgres', $check), $want,
					"$what, $end: seen before its session has told" . ($kill ? ', killed' : ''));
				if (!$kill)
				{
					$node->safe_psql('postgres',
						q{SELECT injection_points_wakeup('leanstore-end-prepared');
						  SELECT injection_points_detach('leanstore-end-prepared')});
					eval { $ender->quit };
				}
				stir($node);
				$node->leanstore_check_ok("$what, $end: told by another session");
			}
		}
	}

	# Killed in the middle of PREPARE, at any moment: prepared whole, or not at all.
	foreach my $delay ($mode eq 'wal' ? (0, 0.03) : (0, 0.01, 0.02, 0.04, 0.08))
	{
		my ($sql) = @{ $work{create} };
		$node->safe_psql('postgres', $tables);
		my $session = $node->background_psql('postgres', on_error_stop => 0);
		$session->query_until(qr/started/,
			"\\echo started\nBEGIN; $sql; DROP TABLE old; PREPARE TRANSACTION 'p';\n");
		Time::HiRes::sleep($delay);
		CrashDriver::kill_server($node, 'all');
		$node->start;
		eval { $session->quit };
		my $there = $node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts');
		$node->safe_psql('postgres', q{COMMIT PREPARED 'p'}) if $there;
		is($node->safe_psql('postgres', q{SELECT to_regclass('made') IS NOT NULL,
			to_regclass('old') IS NULL}), $there ? 't|t' : 'f|f', "killed after $delay s");
		stir($node);
		$node->leanstore_check_ok("killed after $delay s");
	}
	$node->stop;
}
done_testing();
