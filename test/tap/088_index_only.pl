# Index-only scans fetch no rows that all snapshots see, and say what other plans say: while others
# change rows, give them keys that an index has already, take changes back, and VACUUM; under old
# snapshots; and after SIGKILL, when nothing is known.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = LeanstoreTest->new_node('only',
	'leanstore.buffer_pool_size' => '32MB',
	max_connections => 30,
	autovacuum => 'off');
my $rows = 20_000;

# Of what it does not see nothing is known.
my $old = $node->background_psql('postgres');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$node->safe_psql('postgres', qq{
	CREATE TABLE t (id int PRIMARY KEY, k int, n int DEFAULT 0) USING leanstore;
	CREATE INDEX t_k ON t (k);
	INSERT INTO t SELECT i, i % 1000 FROM generate_series(1, $rows) i;

	-- what a snapshot sees by index-only scans of both indexes, and by a sequential scan: the same
	CREATE FUNCTION look() RETURNS text LANGUAGE plpgsql AS \$\$
	DECLARE
		by_table text; by_k text; by_id text;
	BEGIN
		PERFORM set_config('enable_seqscan', 'on', true),
			set_config('enable_indexscan', 'off', true),
			set_config('enable_bitmapscan', 'off', true),
			set_config('enable_indexonlyscan', 'off', true);
		SELECT count(*) || ' ' || sum(k) || ' ' || sum(id::bigint) INTO by_table FROM t;
		PERFORM set_config('enable_seqscan', 'off', true),
			set_config('enable_indexscan', 'on', true),
			set_config('enable_indexonlyscan', 'on', true);
		SELECT count(*) || ' ' || sum(k) INTO by_k FROM t WHERE k >= 0;
		SELECT count(*) || ' ' || sum(id::bigint) INTO by_id FROM t WHERE id > 0;
		IF by_table <> by_k || ' ' || split_part(by_id, ' ', 2)
			OR split_part(by_table, ' ', 1) <> split_part(by_id, ' ', 1) THEN
			RAISE 'different: table %, k %, id %', by_table, by_k, by_id;
		END IF;
		RETURN by_table;
	END \$\$;});

# Leaves in which a count by an index-only scan looks: of the index, and of the table where rows are
# fetched.
sub leaves
{
	my ($query) = @_;
	my $plan = $node->safe_psql('postgres', qq{
		SET enable_seqscan = off; SET enable_bitmapscan = off;
		EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) $query});

	like($plan, qr/Index Only Scan/, 'an index-only scan');
	my ($leaves) = $plan =~ /hit=(\d+)/ or die "no pages in $plan";
	return $leaves;
}
my $count = 'SELECT count(*) FROM t WHERE k BETWEEN 100 AND 299';

my $fetched = leaves($count);
cmp_ok($fetched, '>', 1000, 'before VACUUM rows are fetched');
$old->query_safe('COMMIT');
$old->quit;
$node->safe_psql('postgres', 'VACUUM t');
my $known = leaves($count);
cmp_ok($known, '<', 200, 'after VACUUM none is');
$node->safe_psql('postgres', 'UPDATE t SET n = 1 WHERE id % 5000 = 0');
cmp_ok(leaves($count), '<', $fetched / 2, 'those of blocks with changes are');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id % 100 = 1; VACUUM t');
cmp_ok(leaves($count), '<', 200, 'rows that have gone make no difference after VACUUM');
$node->safe_psql('postgres', 'UPDATE t SET k = k + 1 WHERE id < 2000; VACUUM t');
cmp_ok(leaves($count), '<', 200, 'nor do new keys');
$node->safe_psql('postgres', 'UPDATE t SET k = k - 1 WHERE id < 1000');
$node->safe_psql('postgres', 'SELECT look()');

# The planner counts on it.
my ($with, $without) = map {
	$node->safe_psql('postgres', $_) if $_;
	my $plan = $node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off;
		EXPLAIN $count");
	$plan =~ /Index Only Scan.*cost=[\d.]+\.\.([\d.]+)/ or die "no cost in $plan";
	$1 } ('VACUUM ANALYZE t', 'UPDATE t SET n = n + 1');
cmp_ok($with, '<', $without / 2, 'rows that are not fetched cost nothing');

# Scans find out by themselves what VACUUM would: the blocks are full.
$node->safe_psql('postgres', qq{
	CREATE TABLE full_blocks (id int PRIMARY KEY, k int) USING leanstore;
	INSERT INTO full_blocks SELECT i, i % 1000 FROM generate_series(1, $rows) i;
	CREATE INDEX full_k ON full_blocks (k)});
my $count_full = 'SELECT count(*) FROM full_blocks WHERE k BETWEEN 100 AND 599';
$node->poll_query_until('postgres', q{SELECT pg_sleep(0.1) IS NOT NULL}) or die;
my @leaves = map { leaves($count_full) } 1 .. 4;
cmp_ok($leaves[3], '<', $leaves[0] / 2, 'scans find out as well');

# --- Entries that a scan has read before ------------------------------------------

# Beside a scan that has read them rows are deleted for all, or taken back, VACUUM removes their
# entries, and finds all that are left to be right.  The scan has what is not right any more.
# A cursor is begun between BEFORE and END; VACUUM runs after both.
sub read_before_ok
{
	my ($column, $before, $end, $expected, $name) = @_;
	my ($reader, $writer) = map { $node->background_psql('postgres') } 1 .. 2;

	$node->safe_psql('postgres', q{
		DROP TABLE IF EXISTS c;
		CREATE TABLE c (id int PRIMARY KEY, k int) USING leanstore;
		CREATE INDEX c_k ON c (k);
		INSERT INTO c SELECT i, i FROM generate_series(1, 60) i;
		UPDATE c SET k = 61 WHERE id = 1; UPDATE c SET k = 1 WHERE id = 1});
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) c');
	$writer->query_safe($before);
	my $query = "SELECT $column FROM c WHERE $column > 0 ORDER BY $column";
	$reader->query_safe(qq{SET enable_seqscan = off; SET enable_bitmapscan = off;
		BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE x CURSOR FOR $query});
	like($reader->query_safe("EXPLAIN $query"), qr/Index Only Scan/, "$name: index-only");
	my $rows = () = $reader->query_safe('FETCH 5 FROM x') =~ /\d+/g;
	$writer->query_safe($end);
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) c');
	$rows += () = $reader->query_safe('FETCH ALL FROM x') =~ /\d+/g;
	is($rows, $expected, "$name: what the snapshot sees");
	$_->quit foreach $reader, $writer;
	return;
}
foreach my $column (qw(id k))
{
	read_before_ok($column, 'DELETE FROM c WHERE id = 40', 'SELECT 1', 59, "$column, deleted");
	read_before_ok($column, 'BEGIN; INSERT INTO c VALUES (61, 61)', 'ROLLBACK', 60,
		"$column, inserted and taken back");
}
read_before_ok('k', 'BEGIN; UPDATE c SET k = 50 WHERE id = 40', 'ROLLBACK', 60,
	'a key taken back');
read_before_ok('k', 'UPDATE c SET k = 50 WHERE id = 40', 'SELECT 1', 60, 'a new key');

# --- SERIALIZABLE ---------------------------------------------------------------

# Rows that need not be fetched are locked all the same: a change of one waits.
{
	my ($reader, $writer) = map { $node->background_psql('postgres', on_error_stop => 0) } 1 .. 2;
	my $query = 'SELECT count(*) FROM c WHERE k BETWEEN 1 AND 20';

	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) c');
	$reader->query_safe(q{SET enable_seqscan = off; SET enable_bitmapscan = off;
		BEGIN ISOLATION LEVEL SERIALIZABLE});
	like($reader->query_safe("EXPLAIN $query"), qr/Index Only Scan/, 'serializable: index-only');
	is($reader->query_safe($query), 20, 'serializable: rows');
	$writer->query_safe(q{SET lock_timeout = '200ms'; BEGIN ISOLATION LEVEL SERIALIZABLE});
	$writer->query('DELETE FROM c WHERE id = 10');
	like($writer->{stderr}, qr/lock timeout/, 'serializable: a row that was read is locked');
	$_->quit foreach $reader, $writer;
}

# --- Under load -----------------------------------------------------------------

my $directory = PostgreSQL::Test::Utils::tempdir();

# Processes that share a scan, and return what they have read in turns.
my $parallel = q{
SET enable_seqscan = off; SET enable_bitmapscan = off; SET min_parallel_index_scan_size = 0;
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0};
my $all_keys = q{SELECT count(*) || ' ' || sum(k) AS by_k FROM t WHERE k >= 0};
like($node->safe_psql('postgres', "$parallel; EXPLAIN $all_keys"),
	qr/Parallel Index Only Scan/, 'a parallel index-only scan');

my %script = (
	change => qq{
\\set id random(1, $rows)
\\set k random(0, 999)
\\set r random(1, 8)
BEGIN;
UPDATE t SET k = :k WHERE id = :id;
SAVEPOINT s;
DELETE FROM t WHERE id = :id + 1;
INSERT INTO t VALUES (:id + 1, :k) ON CONFLICT (id) DO UPDATE SET n = t.n + 1;
\\if :r < 3
ROLLBACK TO s;
\\endif
UPDATE t SET k = :k + 1 WHERE id = :id;
\\if :r = 5
ROLLBACK;
\\else
COMMIT;
\\endif
},
	vacuum => "VACUUM t;\n\\sleep 10 ms\n",
	look => "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT look();\nCOMMIT;\n",
	parallel => qq{$parallel;
BEGIN ISOLATION LEVEL REPEATABLE READ;
$all_keys \\gset
SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_indexscan = off;
SET LOCAL enable_seqscan = on; SET LOCAL max_parallel_workers_per_gather = 0;
SELECT count(*) || ' ' || sum(k) AS by_table FROM t \\gset
COMMIT;
SELECT 1 / (':by_k' = ':by_table')::int;
},
	# an old snapshot sees the same again and again
	old => q{
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT look() AS first \gset
\sleep 50 ms
SELECT look() AS second \gset
\sleep 50 ms
SELECT look() AS third \gset
COMMIT;
SELECT 1 / (':first' = ':second' AND ':second' = ':third')::int;
});
foreach my $name (keys %script)
{
	open(my $file, '>', "$directory/$name.sql") or die $!;
	print $file $script{$name};
	close $file;
}

sub load
{
	my ($seconds) = @_;
	return map { $node->start_pgbench('postgres', '-n', '-c', /vacuum|parallel/ ? 1 : 2,
		'-T', $seconds, '--max-tries=100', '-f', "$directory/$_.sql") } sort keys %script;
}

my @runs = load(12);
unlike($node->finish_pgbench($_), qr/different|division by zero|abort|FATAL/, 'under load')
  foreach @runs;
$node->leanstore_check_ok('under load');

foreach my $how (qw(all postmaster))
{
	@runs = load(60);
	usleep(1_000_000 + rand 1_500_000);
	CrashDriver::kill_server($node, $how);
	unlike($node->finish_pgbench($_), qr/different:|division by zero/, "killed: $how")
	  foreach @runs;
	$node->start;
	ok($node->safe_psql('postgres', 'SELECT look()'), "killed: $how, nothing is known");
	$node->safe_psql('postgres', 'VACUUM t');
	ok($node->safe_psql('postgres', 'SELECT look()'), "killed: $how, after VACUUM");
	$node->leanstore_check_ok("killed: $how");
}

$node->stop;
done_testing();
