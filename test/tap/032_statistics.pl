# What the server's statistics views tell of leanstore tables: pg_stat_user_tables,
# pg_stat_progress_*, wait events; and leanstore_stat_io.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('statistics', autovacuum => 'off');

sub scalar_of
{
	return $node->safe_psql('postgres', shift);
}

# What a session has counted is there for others as soon as it has ended, not a moment later.
sub counted
{
	$node->safe_psql('postgres', shift . '; SELECT pg_stat_force_next_flush()');
	return;
}

sub until_ok
{
	my ($query, $name) = @_;
	ok($node->poll_query_until('postgres', "SELECT coalesce(($query), false)"), $name);
	return;
}

# ---- pg_stat_user_tables, pg_stat_user_indexes

my $counts = q{SELECT n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_newpage_upd, n_tup_del, n_live_tup,
	n_dead_tup, seq_scan, seq_tup_read, idx_scan, idx_tup_fetch
	FROM pg_stat_user_tables WHERE relname = 't'};
counted(q{
	CREATE TABLE t (id int PRIMARY KEY, v int, w int) USING leanstore;
	CREATE INDEX t_v ON t (v);
	INSERT INTO t SELECT i, i, i FROM generate_series(1, 1000) i;
	ALTER DATABASE postgres SET enable_seqscan = off;
	ALTER DATABASE postgres SET enable_bitmapscan = off});
is(scalar_of($counts), '1000|0|0|0|0|1000|0|2|0|0|0', 'insertions');
counted(q{UPDATE t SET w = w + 1 WHERE id <= 100});
is(scalar_of($counts), '1000|100|100|0|0|1000|0|2|0|1|100', 'updates in place leave no dead row');
counted(q{BEGIN; UPDATE t SET w = w + 1 WHERE id <= 100; ROLLBACK});
is(scalar_of($counts), '1000|200|200|0|0|1000|0|2|0|2|200', '... nor do those rolled back');
counted(q{UPDATE t SET v = -v WHERE id BETWEEN 101 AND 150; DELETE FROM t WHERE id > 900});
is(scalar_of($counts), '1000|250|200|0|100|900|150|2|0|4|350',
	'updates of an indexed column, deletions');
counted(q{ALTER DATABASE postgres RESET ALL});
counted(q{SELECT sum(w) FROM t});
is(scalar_of($counts), '1000|250|200|0|100|900|150|3|900|4|350', 'a scan of the table');
is(scalar_of(q{SELECT last_vacuum IS NULL, last_analyze IS NULL, vacuum_count, analyze_count,
	n_mod_since_analyze, n_ins_since_vacuum FROM pg_stat_user_tables WHERE relname = 't'}),
	't|t|0|0|1250|1000', 'before VACUUM');
counted(q{VACUUM ANALYZE t});
is(scalar_of(q{SELECT last_vacuum > now() - interval '1 hour',
	last_analyze > now() - interval '1 hour', vacuum_count, analyze_count, n_mod_since_analyze,
	n_ins_since_vacuum, n_live_tup, n_dead_tup
	FROM pg_stat_user_tables WHERE relname = 't'}), 't|t|1|1|0|0|900|0', 'after VACUUM ANALYZE');
counted(q{SET enable_seqscan = off; SET enable_bitmapscan = off;
	SELECT sum(w) FROM t WHERE v BETWEEN 201 AND 210});
is(scalar_of(q{SELECT idx_scan, idx_tup_read, idx_tup_fetch, last_idx_scan IS NOT NULL
	FROM pg_stat_user_indexes WHERE indexrelname = 't_v'}), '1|10|10|t', 'pg_stat_user_indexes');
counted(q{BEGIN; TRUNCATE t; INSERT INTO t VALUES (1, 1, 1); COMMIT});
is(scalar_of(q{SELECT n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE relname = 't'}), '1|0',
	'TRUNCATE');

# ---- pg_stat_progress_*

# wait_at_row stops a command at a row until the test lets go of the advisory lock
$node->safe_psql('postgres', q{
	CREATE FUNCTION wait_at_row(id int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
		BEGIN IF id = 15000 THEN PERFORM pg_advisory_xact_lock_shared(1); END IF; RETURN id; END $$;
	CREATE FUNCTION wait_at_insert() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM public.wait_at_row(new.id); RETURN new; END $$;
	CREATE TABLE big (id int, filler text) USING leanstore;
	INSERT INTO big SELECT i, repeat('x', 100) FROM generate_series(1, 20000) i;
	CREATE INDEX big_id ON big USING btree (id)});

# A command that stops halfway; then it is looked at, and goes on.
sub halfway_ok
{
	my ($command, $query, $name) = @_;
	my $holder = $node->background_psql('postgres');
	my $runner = $node->background_psql('postgres', on_error_stop => 0);

	$holder->query_safe('SELECT pg_advisory_lock(1)');
	$runner->query_until(qr/started/, "\\echo started\n$command;\n");
	until_ok($query, $name);
	$holder->quit;
	$runner->query_safe('SELECT 1');
	$runner->quit;
	return;
}

# The delays of VACUUM and ANALYZE, which leanstore pages are counted for, make them last as long as
# it takes to look.
sub slowly_ok
{
	my ($command, $query, $name) = @_;
	my $runner = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $runner->query_safe('SELECT pg_backend_pid()');

	$runner->query_safe('SET vacuum_cost_delay = 100; SET vacuum_cost_limit = 1');
	$runner->query_until(qr/started/, "\\echo started\n$command;\n");
	until_ok($query, $name);
	until_ok("SELECT wait_event = 'VacuumDelay' FROM pg_stat_activity WHERE pid = $pid",
		"$name: it is delayed");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	until_ok("SELECT state = 'idle' FROM pg_stat_activity WHERE pid = $pid", "$name: ended");
	$runner->quit;
	return;
}

halfway_ok('CREATE INDEX big_wait ON big (wait_at_row(id))',
	q{SELECT phase LIKE 'building index%' AND command = 'CREATE INDEX'
		AND blocks_total BETWEEN 79 AND 90 AND blocks_done BETWEEN 50 AND 70
		FROM pg_stat_progress_create_index WHERE relid = 'big'::regclass}, 'CREATE INDEX');
halfway_ok('DROP INDEX big_wait;
	CREATE INDEX CONCURRENTLY big_wait ON big USING btree (wait_at_row(id))',
	q{SELECT phase LIKE 'building index%' AND command = 'CREATE INDEX CONCURRENTLY'
		AND blocks_total BETWEEN 79 AND 90 AND blocks_done BETWEEN 50 AND 70
		FROM pg_stat_progress_create_index WHERE relid = 'big'::regclass},
			'CREATE INDEX CONCURRENTLY');
halfway_ok('CLUSTER big USING big_wait',
	q{SELECT phase IN ('sorting tuples', 'seq scanning heap', 'index scanning heap',
			'rebuilding index') AND heap_tuples_scanned > 0
		FROM pg_stat_progress_cluster WHERE relid = 'big'::regclass}, 'CLUSTER');
$node->safe_psql('postgres', 'DROP INDEX big_wait;
	CREATE TABLE target (id int, filler text) USING leanstore;
	CREATE TRIGGER wait BEFORE INSERT ON target FOR EACH ROW EXECUTE FUNCTION wait_at_insert()');
$node->safe_psql('postgres', "COPY big TO '" . $node->basedir . "/big'");
halfway_ok("COPY target FROM '" . $node->basedir . "/big'",
	q{SELECT tuples_processed BETWEEN 10000 AND 15000 AND bytes_processed BETWEEN 1 AND bytes_total
		FROM pg_stat_progress_copy WHERE relid = 'target'::regclass}, 'COPY FROM');
is(scalar_of('SELECT count(*) FROM target'), '20000', 'COPY went on to its end');
slowly_ok('VACUUM big', q{SELECT phase = 'scanning heap' AND heap_blks_total BETWEEN 79 AND 90
	AND heap_blks_scanned BETWEEN 1 AND heap_blks_total - 1
	FROM pg_stat_progress_vacuum WHERE relid = 'big'::regclass}, 'VACUUM');
slowly_ok('ANALYZE big', q{SELECT phase = 'acquiring sample rows'
	AND sample_blks_total BETWEEN 79 AND 90
	AND sample_blks_scanned BETWEEN 1 AND sample_blks_total - 1
	FROM pg_stat_progress_analyze WHERE relid = 'big'::regclass}, 'ANALYZE');
is(scalar_of(join ' UNION ALL ', map { "SELECT count(*) FROM pg_stat_progress_$_ WHERE relid <> 0" }
	qw(create_index cluster copy vacuum analyze)), "0\n0\n0\n0\n0", 'nothing is left over');

# ---- wait events

my $engine = $node->engine_worker_pid;
until_ok("SELECT wait_event_type = 'Extension' AND wait_event = 'LeanstoreEngineMain'
	FROM pg_stat_activity WHERE pid = $engine", 'the engine worker waits for work');
my $session = $node->background_psql('postgres');
my $waiter = $node->background_psql('postgres');
my $pid = $waiter->query_safe('SELECT pg_backend_pid()');
$session->query_safe('INSERT INTO t VALUES (100, 1, 1)');
$session->query_safe('BEGIN; UPDATE t SET w = 0 WHERE id = 100');
$waiter->query_until(qr/started/, "\\echo started\nUPDATE t SET w = 1 WHERE id = 100;\n");
until_ok("SELECT wait_event_type = 'Lock' AND wait_event = 'transactionid' FROM pg_stat_activity
	WHERE pid = $pid", 'a writer waits for another transaction');
$session->query_safe('COMMIT');
$waiter->query_safe('SELECT 1');
$_->quit foreach $session, $waiter;
$node->pgbench_init('postgres', 1);
my $pgbench = $node->start_pgbench('postgres', qw(-c 4 -T 600 -b simple-update));
my $commit = LeanstoreTest::in_wal()
  ? q{backend_type = 'client backend' AND upper(wait_event) LIKE 'WAL%'}
  : q{wait_event_type = 'Extension' AND wait_event = 'LeanstoreCommit'};
until_ok("SELECT true FROM pg_stat_activity WHERE $commit LIMIT 1", 'commits wait for the log');
$pgbench->{run}->kill_kill;

# ---- leanstore_stat_io

$node->restart;
$node->safe_psql('postgres', 'SELECT sum(length(filler)) FROM big; UPDATE big SET filler = NULL;
	SELECT leanstore_checkpoint()');
is(scalar_of(q{SELECT object, reads > 500, read_bytes = reads * 4096, writes > 0,
	write_bytes > 100000, hits > 500, evictions >= 0, fsyncs > 0, fsync_time >= 0
	FROM leanstore_stat_io ORDER BY object}), "relation|t|t|t|t|t|t||\nwal|||t|t|||t|t",
		'leanstore_stat_io');
is(($node->psql('postgres', 'CREATE ROLE nobody; SET ROLE nobody;
	SELECT * FROM leanstore_stat_io'))[0], 3, 'not for everybody');

$node->leanstore_check_ok('at the end');
done_testing();
