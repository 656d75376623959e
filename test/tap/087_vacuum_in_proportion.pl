# VACUUM looks at what has changed since the last one, and at nothing else: told by its own report
# of blocks and indexes, not by time.  What it passes over has nothing to be cleaned: a VACUUM that
# passes over nothing finds nothing more, be it after load with savepoints, rollbacks and old
# snapshots, or after SIGKILL.
use strict;
use warnings FATAL => 'all';

use CrashDriver;
use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = LeanstoreTest->new_node('vacuum',
	'leanstore.buffer_pool_size' => '32MB',
	max_connections => 30,
	max_prepared_transactions => 5,
	autovacuum => 'off');
my $rows = 50_000;

# vacuum(TABLE, OPTION ...): what it reports.
sub vacuum
{
	my ($table, @options) = @_;
	my $list = join(', ', 'VERBOSE', @options);
	my ($status, $out, $err) = $node->psql('postgres', "VACUUM ($list) $table");

	die "VACUUM of $table failed: $err" if $status != 0;
	my ($live, $dead, $entries) =
	  $err =~ /finished vacuuming "postgres\.\w+\.$table": (\d+) rows, (\d+) del.*?, (\d+) index/
	  or die "no report: $err";
	my ($looked, $of, $indexes) =
	  $err =~ /\QINFO:  finished\E.*?$table.*?Looked at (\d+) of (\d+) blocks.*?through (\d+) ind/s
	  or die "no details: $err";
	return (rows => $live, dead => $dead, entries => $entries,
		blocks => $looked, of => $of, indexes => $indexes);
}

# What one VACUUM says, in this order: blocks looked at, indexes, entries removed.
sub vacuum_is
{
	my ($table, $options, $expected, $name) = @_;
	my %found = vacuum($table, @$options);

	is("$found{blocks} $found{indexes} $found{entries}", $expected, $name);
	is($node->safe_psql('postgres',
		"SELECT reltuples FROM pg_class WHERE relname = '$table'"),
		$node->safe_psql('postgres', "SELECT count(*) FROM $table"), "$name: reltuples is right");
	return;
}

# Nothing that VACUUM passes over has anything left behind.
sub nothing_left_ok
{
	my ($table, $name) = @_;
	my %last = vacuum($table, 'INDEX_CLEANUP ON');
	my %all = vacuum($table, 'DISABLE_PAGE_SKIPPING');

	is("$all{rows} $all{dead} $all{entries}", "$last{rows} 0 0", "$name: nothing is left behind");
	is($all{blocks}, $all{of}, "$name: that has looked at everything");
	is($node->safe_psql('postgres', "SELECT count(*) FROM $table"), $all{rows},
		"$name: and has counted right");
	$node->leanstore_check_ok($name);
	return;
}

$node->safe_psql('postgres', qq{
	CREATE TABLE t (id int PRIMARY KEY, k int, b int, n int DEFAULT 0) USING leanstore;
	INSERT INTO t SELECT i, i % 1000, i FROM generate_series(1, $rows) i;
	CREATE INDEX t_k ON t (k);
	CREATE INDEX t_b ON t USING btree (b);
	CREATE INDEX t_part ON t (id) WHERE b > 10000});
# --- In proportion ------------------------------------------------------------

my %first = vacuum('t');
my $blocks = $first{of};
is("$first{blocks} $first{indexes} $first{entries} $first{rows}", "$blocks 4 0 $rows", 'the first');
vacuum_is('t', [], '0 0 0', 'without a change');
vacuum_is('t', ['FREEZE'], '0 0 0', 'FREEZE');
vacuum_is('t', ['INDEX_CLEANUP ON'], '0 0 0', 'INDEX_CLEANUP ON');
vacuum_is('t', ['DISABLE_PAGE_SKIPPING'], "$blocks 4 0", 'DISABLE_PAGE_SKIPPING');
vacuum_is('t', [], '0 0 0', 'after that');

$node->safe_psql('postgres', 'UPDATE t SET n = 1 WHERE id BETWEEN 100 AND 110');
vacuum_is('t', [], '1 0 0', 'rows of one block have changed');
vacuum_is('t', [], '0 0 0', 'and not again');

$node->safe_psql('postgres', 'DELETE FROM t WHERE id BETWEEN 1001 AND 1300');
vacuum_is('t', [], '3 0 0', 'a few rows have gone');
vacuum_is('t', ['INDEX_CLEANUP ON'], '0 4 900', 'the indexes when that is asked for');
vacuum_is('t', ['INDEX_CLEANUP ON'], '0 0 0', 'and not again');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id BETWEEN 5001 AND 8000');
vacuum_is('t', ['INDEX_CLEANUP OFF'], '13 0 0', 'INDEX_CLEANUP OFF');
vacuum_is('t', [], '0 4 9000', 'many have gone');

$node->safe_psql('postgres',
	"INSERT INTO t SELECT i, i, i FROM generate_series($rows + 1, 51000) i");
vacuum_is('t', [], '5 0 0', 'rows have come');

# An index that has had entries left behind is looked through when rows of it may have changed.
$node->safe_psql('postgres', 'UPDATE t SET k = k + 1 WHERE id BETWEEN 10001 AND 13000');
my %found = vacuum('t');
is("$found{blocks} $found{indexes}", '12 1', 'rows with new keys');
vacuum_is('t', [], '0 0 0', 'and not again');

# Over a restart, and what has changed since the last look over it, too.
$node->safe_psql('postgres', 'UPDATE t SET n = 2 WHERE id BETWEEN 40001 AND 40010; ANALYZE t');
my $count = 'EXPLAIN SELECT count(*) FROM t WHERE k BETWEEN 5 AND 50';
my $plan = $node->safe_psql('postgres', $count);
like($plan, qr/Index Only Scan/, 'a plan that counts on what is known');
$node->restart;
$node->safe_psql('postgres', 'SELECT FROM t LIMIT 1');
ok(!-e $node->data_dir . '/leanstore/row_blocks', 'the file is gone when the store runs');
is($node->safe_psql('postgres', $count), $plan, 'the same plan behind a restart');
vacuum_is('t', [], '1 0 0', 'rows that had changed before it');
$node->restart;
vacuum_is('t', [], '0 0 0', 'a restart without a change');
nothing_left_ok('t', 'restart');

# Taken back.
$node->safe_psql('postgres', q{
	BEGIN; UPDATE t SET k = k + 1 WHERE id BETWEEN 20001 AND 23000; ROLLBACK;
	BEGIN; INSERT INTO t SELECT i, i, i FROM generate_series(100001, 103000) i; ROLLBACK});
nothing_left_ok('t', 'rollback');

# A prepared transaction is not over.
$node->safe_psql('postgres', q{
	BEGIN; DELETE FROM t WHERE id BETWEEN 30001 AND 33000; PREPARE TRANSACTION 'p'});
%found = vacuum('t');
is($found{blocks}, 12, 'rows of a prepared transaction');
%found = vacuum('t');
is($found{blocks}, 12, 'are looked at until it is over');
$node->safe_psql('postgres', q{COMMIT PREPARED 'p'});
nothing_left_ok('t', 'prepared');

# An old snapshot keeps rows.
my $old = $node->background_psql('postgres');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $before = $old->query_safe('SELECT count(*) FROM t');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id BETWEEN 40001 AND 43000');
%found = vacuum('t');
is($found{dead}, 3000, 'rows that a snapshot sees stay');
is($old->query_safe('SELECT count(*) FROM t'), $before, 'and are there for it');
$old->query_safe('COMMIT');
$old->quit;
vacuum('t');
nothing_left_ok('t', 'snapshot');

# Rewritten, or emptied, it is another file.
$node->safe_psql('postgres', 'CLUSTER t USING t_pkey');
vacuum('t');
vacuum_is('t', [], '0 0 0', 'after CLUSTER and VACUUM');
$node->safe_psql('postgres', 'VACUUM (FULL) t');
nothing_left_ok('t', 'VACUUM FULL');

# --- Values out of line ---------------------------------------------------------

$node->safe_psql('postgres', q{
	CREATE TABLE wide (id int PRIMARY KEY, v text) USING leanstore;
	ALTER TABLE wide ALTER v SET STORAGE EXTERNAL;
	INSERT INTO wide SELECT i, repeat(i::text, 3000) FROM generate_series(1, 2000) i});

sub toast_blocks
{
	my ($status, $out, $err) = $node->psql('postgres', 'VACUUM (VERBOSE) wide');
	my ($live, $looked, $of) =
	  $err =~ /finished vacuuming "postgres\.pg_toast\.\w+": (\d+) rows.*?Looked at (\d+) of (\d+)/s
	  or die "no report on the TOAST table: $err";
	return ($live, $looked, $of);
}
my ($pieces, $looked, $of) = toast_blocks();
is($looked, $of, 'TOAST: the first looks at all');
is_deeply([toast_blocks()], [$pieces, 0, $of], 'TOAST: the second at nothing');
$node->safe_psql('postgres', 'UPDATE wide SET v = repeat(id::text, 3001) WHERE id = 77');
my @after = toast_blocks();
is($after[0], $pieces, 'TOAST: as many pieces as before');
cmp_ok($after[1], '<=', 2, 'TOAST: the old value and the new one');
is($node->safe_psql('postgres', 'SELECT sum(length(v)) FROM wide'),
	$node->safe_psql('postgres',
		q{SELECT sum(length(i::text) * CASE i WHEN 77 THEN 3001 ELSE 3000 END)
			FROM generate_series(1, 2000) i}), 'TOAST: all values are there');

# --- Under load -----------------------------------------------------------------

my $directory = PostgreSQL::Test::Utils::tempdir();
my %script = (
	change => q{
\set id random(1, 6000)
\set r random(1, 6)
\set new random(100000, 2000000000)
BEGIN;
UPDATE u SET n = n + 1 WHERE id = :id;
SAVEPOINT s;
UPDATE u SET k = :r WHERE id = :id + 1;
DELETE FROM u WHERE id = :id + 2;
INSERT INTO u VALUES (:id + 2, :r, :r) ON CONFLICT (id) DO UPDATE SET b = u.b + 1;
\if :r < 3
ROLLBACK TO s;
\endif
INSERT INTO u VALUES (:new, 1, 1) ON CONFLICT DO NOTHING;
DELETE FROM u WHERE id = :new;
\if :r = 5
ROLLBACK;
\else
COMMIT;
\endif
},
	vacuum => "VACUUM u;\n\\sleep 20 ms\n",
	# looks at rows through each index, so that scans take entries away, too
	look => q{
SET enable_seqscan = off;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) AS by_k FROM u WHERE k >= 0 \gset
\sleep 5 ms
SELECT count(*) AS by_id FROM u WHERE id > 0 \gset
SELECT count(*) AS by_b FROM u WHERE b >= 0 \gset
COMMIT;
SELECT 1 / (:by_k = :by_id AND :by_id = :by_b)::int;
});
foreach my $name (keys %script)
{
	open(my $file, '>', "$directory/$name.sql") or die $!;
	print $file $script{$name};
	close $file;
}
$node->safe_psql('postgres', q{
	CREATE TABLE u (id int PRIMARY KEY, k int, b int, n int DEFAULT 0) USING leanstore;
	INSERT INTO u SELECT i, i % 1000, i FROM generate_series(1, 20000) i;
	CREATE INDEX u_k ON u (k);
	CREATE INDEX u_b ON u USING btree (b)});

sub load
{
	my ($seconds) = @_;
	return map { $node->start_pgbench('postgres', '-n', '-c', $_ eq 'change' ? 4 : 1,
		'-T', $seconds, '--max-tries=100', '-f', "$directory/$_.sql") } sort keys %script;
}

foreach my $round (1 .. 2)
{
	my @runs = load(6);
	unlike($node->finish_pgbench($_), qr/division by zero|abort|FATAL/, "round $round")
	  foreach @runs;
	nothing_left_ok('u', "round $round");
}

# --- Restart and crash ----------------------------------------------------------

vacuum('t');
my %known = vacuum('t');
is($known{blocks}, 0, 'nothing to be looked at');
$node->restart;
my %again = vacuum('t');
is("$again{blocks} $again{rows}", "0 $known{rows}", 'nor behind a restart');
$node->stop('immediate');
$node->start;
%again = vacuum('t');
is("$again{blocks} $again{rows}", "$again{of} $known{rows}", 'a start behind a crash begins anew');
vacuum_is('t', [], '0 0 0', 'and knows then');

foreach my $how (qw(all postmaster all))
{
	my @runs = load(60);
	usleep(1_000_000 + rand 1_500_000);
	CrashDriver::kill_server($node, $how);
	$node->finish_pgbench($_) foreach @runs;
	$node->start;
	nothing_left_ok('u', "killed: $how");
	nothing_left_ok('t', "killed: $how, the other table");
}

$node->stop;
done_testing();
