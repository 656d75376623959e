# A clean restart keeps everything that was committed, nothing else, and writes
# no page of a table that no session touches.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(stat);

my $node = LeanstoreTest->new_node('restart', 'leanstore.buffer_pool_size' => '32MB');

$node->pgbench_init('postgres', 1);
$node->safe_psql('postgres', q{
	SET default_table_access_method = leanstore;
	CREATE TABLE kept (id int PRIMARY KEY, v int, t text);
	INSERT INTO kept SELECT i, i, CASE WHEN i % 100 = 0 THEN repeat(md5(i::text), 500)
		ELSE repeat('k', i % 50) END FROM generate_series(1, 20000) i;
	CREATE INDEX kept_v ON kept USING btree (v);
	UPDATE kept SET v = v + 100000 WHERE id % 3 = 0;
	DELETE FROM kept WHERE id % 7 = 0;
	CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY, t text);
	INSERT INTO unlogged SELECT i, repeat('u', 100) FROM generate_series(1, 5000) i;
	CREATE TABLE empty (id int);
	CREATE TABLE emptied (id int PRIMARY KEY);
	INSERT INTO emptied SELECT generate_series(1, 5000);
	DELETE FROM emptied;
	CREATE TABLE starts (n int PRIMARY KEY);
	CREATE TABLE dropped AS SELECT generate_series(1, 1000) AS id;
	DROP TABLE dropped;
});

# A fingerprint of everything, by sequential scans and by the indexes.
sub state_of
{
	return $node->safe_psql('postgres', q{
		SELECT 'kept', count(*), sum(id), sum(v), md5(string_agg(t, ',' ORDER BY id)) FROM kept;
		SELECT 'unlogged', count(*), sum(id), sum(length(t)) FROM unlogged;
		SELECT 'empty', (SELECT count(*) FROM empty), (SELECT count(*) FROM emptied);
		SELECT 'pgbench', count(*), sum(abalance) FROM pgbench_accounts;
		SELECT 'history', count(*), sum(delta) FROM pgbench_history;
		SET enable_seqscan = off;
		SET enable_bitmapscan = off;
		SELECT 'by v', count(*), sum(id) FROM kept WHERE v > 100000;
		SELECT 'by id', v FROM kept WHERE id = 12345;
		SELECT 'by aid', count(*) FROM pgbench_accounts WHERE aid BETWEEN 500 AND 600;
	});
}

$node->run_pgbench('postgres', qw(-c 4 -t 100));
my $before = state_of();
$node->restart;
is(state_of(), $before, 'all is there after a restart');
$node->pgbench_balanced_ok('postgres', 'after a restart');
$node->leanstore_check_ok('after a restart');

# Restarts with load between them; a session with open changes is ended by each.
foreach my $n (1 .. 3)
{
	my $open = $node->background_psql('postgres', on_error_stop => 0);
	$open->query("BEGIN; UPDATE kept SET v = -1 WHERE id <= 100; INSERT INTO starts VALUES (-$n);
		DELETE FROM pgbench_history");
	$node->safe_psql('postgres', "INSERT INTO starts VALUES ($n)");
	$node->run_pgbench('postgres', qw(-c 2 -t 50 -N));
	$before = state_of();
	$node->stop('fast');
	eval { $open->quit };
	$node->start;
	is(state_of(), $before, "restart $n, with a transaction open at the stop");
}
is($node->safe_psql('postgres', 'SELECT array_agg(n ORDER BY n) FROM starts'), '{1,2,3}',
	'what was committed between restarts is there, what was not is not');
# History was changed by -N runs only, which do not touch branches: compare what they do.
is($node->safe_psql('postgres', q{SELECT (SELECT sum(abalance) FROM pgbench_accounts)
	= (SELECT sum(delta) FROM pgbench_history)}), 't', 'accounts agree with history');

# Nothing is replayed: a start does not write the tables' files.
my %files = map { split /\|/ } split /\n/, $node->safe_psql('postgres', q{
	VACUUM (FREEZE) kept;
	CHECKPOINT;
	SELECT relname, pg_relation_filepath(oid) FROM pg_class
		WHERE relname IN ('kept', 'kept_pkey', 'kept_v', 'emptied')});
$node->stop('fast');
my ($state) = run_command([ 'pg_controldata', $node->data_dir ]);
like($state, qr/Database cluster state: *shut down$/m, 'the server was shut down cleanly');
my %written = map { $_ => (stat $node->data_dir . "/$files{$_}")[9] } keys %files;
$node->start;
is($node->safe_psql('postgres', 'SELECT count(*) FROM starts'), '3', 'the engine is ready');
foreach my $name (sort keys %files)
{
	is((stat $node->data_dir . "/$files{$name}")[9], $written{$name},
		"a clean start does not write $name");
}
$node->leanstore_check_ok('after all restarts');

# A server that is started and stopped without any use of the engine, several times.
$node->restart foreach 1 .. 2;
is(state_of() =~ /^kept\|\d+/ ? 1 : 0, 1, 'restarts without use');
$node->stop('smart');
$node->start;
$node->leanstore_check_ok('after a smart stop');
$node->stop;
done_testing();
