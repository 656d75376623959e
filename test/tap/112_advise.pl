# leanstore_advise_settings(): each rule that a server can be brought to, the statement that the row
# names, and that the row is gone when the statement was run and the server restarted.  Of
# leanstore_advise_tables() what sql/advise_move.sql does not have: tables with empty space, and
# tables that are larger than shared_buffers.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('advised',
	init => { allows_streaming => 'logical' },
	shared_buffers => '16MB',
	'leanstore.log' => 'engine',
	'leanstore.buffer_pool_size' => '4MB',
	'leanstore.compressed_cache_percent' => 0,
	'leanstore.max_open_relations' => 64,
	'leanstore.max_wal_size' => '32MB',
	'leanstore.checkpoint_timeout' => '1h',
	max_connections => 20,
	autovacuum => 'off',
	listen_addresses => '');

# The statements of rows about a setting with advice that matches, for a machine with that memory.
sub statements
{
	my ($subject, $advice, $memory) = @_;
	$memory //= 16 * 2**30;

	return $node->safe_psql('postgres', qq{SELECT coalesce(statement, 'none')
		FROM leanstore_advise_settings($memory, 4)
		WHERE kind = 'setting' AND subject = '$subject' AND advice ~ '$advice'});
}

is(statements('shared_preload_libraries', '.'), '', 'nothing to gain without leanstore tables');
$node->safe_psql('postgres', q{
	CREATE TABLE t (id int PRIMARY KEY, v int[], filler text) USING leanstore;
	CREATE INDEX t_v ON t USING gin (v);
	INSERT INTO t SELECT i, ARRAY[i % 10], repeat('x', 400) FROM generate_series(1, 100000) i;
	DO $$ BEGIN FOR n IN 1 .. 100 LOOP
		EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY) USING leanstore', n);
		EXECUTE format('INSERT INTO t%s VALUES (1)', n);
	END LOOP; END $$});
$node->safe_psql('postgres', 'SELECT sum(length(filler)) FROM t') for 1 .. 2;

is(statements('shared_preload_libraries', 'leanstore_accel'), 'none', 'accel is not loaded');
my @run = (
	statements('leanstore.buffer_pool_size', 'the pool of 4096 kB has no room'),
	statements('leanstore.log', '1 indexes .* other kinds'),
	statements('leanstore.max_wal_size', 'of log a minute fill it \(32 MB\)'),
	statements('leanstore.max_open_relations', 'were closed'));
like($run[0], qr/buffer_pool_size = '[1-9]\d+MB'$/, 'more of the memory for the pool');
is($run[1], "ALTER SYSTEM SET leanstore.log = 'wal'", 'one log');
like($run[2], qr/max_wal_size = '\d+MB'$/, 'more log between checkpoints');
is($run[3], 'ALTER SYSTEM SET leanstore.max_open_relations = 128', 'more open relations');
is(statements('leanstore.buffer_pool_size', 'has no room', 20 * 2**20), '',
	'no larger pool where there is no memory');
is(statements('shared_buffers', 'fifth', 20 * 2**20), 'none', 'of which shared_buffers take most');
is(statements('leanstore.buffer_pool_size', 'fifth'), '', 'and not where it is plenty');
is(statements('leanstore.log_buffer_size', '.', 50 * 2**20), 'none', 'log buffers');

# Tables: one of which VACUUM has left a tenth, one that is read by key, and one that is neither.
$node->safe_psql('postgres', q{
	SET default_table_access_method = heap;
	CREATE TABLE hollow AS SELECT i, repeat('h', 100) AS filler FROM generate_series(1, 50000) i;
	DELETE FROM hollow WHERE i % 10 > 0;
	CREATE TABLE by_key AS SELECT i AS id, repeat('k', 400) AS filler
		FROM generate_series(1, 50000) i;
	ALTER TABLE by_key ADD PRIMARY KEY (id);
	CREATE TABLE as_it_is AS SELECT i FROM generate_series(1, 50000) i});
$node->safe_psql('postgres', 'VACUUM ANALYZE hollow, by_key, as_it_is');
$node->safe_psql('postgres', q{SET plan_cache_mode = force_generic_plan;
	DO $$ DECLARE t text; BEGIN FOR n IN 1 .. 1100 LOOP
		SELECT filler INTO t FROM by_key WHERE id = n;
	END LOOP; END $$});
my @tables = split /\n/, $node->safe_psql('postgres', q{
	SELECT subject, advice FROM leanstore_advise_tables() WHERE kind = 'table' ORDER BY 1});
is(scalar @tables, 2, 'two tables would gain') or diag "@tables";
like($tables[0], qr/^public\.by_key\|it is read by key \(\d{4} times\) and larger/, 'one is large');
like($tables[1], qr/^public\.hollow\|about \d+ kB of \d+ kB hold no rows/, 'one is hollow');
$node->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('decoder', 'pgoutput')});
like($node->safe_psql('postgres', q{SELECT * FROM leanstore_obstacles('hollow')}),
	qr/^differs\|wal_level is logical, so each row that changes goes/, 'WAL for logical decoding');

# WAL that is copied away is to have leanstore tables in it.
$node->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('s')});
is(statements('leanstore.log', 'archived or streamed'), $run[1], 'a standby comes');
is(statements('leanstore.log', 'other kinds'), '', 'told once');

$node->safe_psql('postgres', $_) for @run;
$node->safe_psql('postgres', $_) for 'ALTER SYSTEM SET full_page_writes = off',
	'ALTER SYSTEM SET huge_pages = off';
$node->restart;
$node->safe_psql('postgres', 'SELECT sum(length(filler)) FROM t') for 1 .. 2;
is(statements($_, '.'), '', "$_ is as it should be")
  for 'leanstore.buffer_pool_size', 'leanstore.log', 'leanstore.max_wal_size',
  'leanstore.max_open_relations', 'huge_pages';

@run = (statements('full_page_writes', '.'));
is("@run", 'ALTER SYSTEM SET full_page_writes = on', 'what base backups need');
$node->safe_psql('postgres', $_) for @run,
	q{ALTER SYSTEM SET leanstore.buffer_pool_size = '1GB'};
$node->restart;
is(statements('full_page_writes', '.'), '', 'full_page_writes is as it should be');
is(statements('huge_pages', '1024 MB'), q{ALTER SYSTEM SET huge_pages = 'try'}, 'a large pool');
is(statements('leanstore.buffer_pool_size', 'fifth', 2**30),
	q{ALTER SYSTEM SET leanstore.buffer_pool_size = '598MB'}, 'too large a pool');
$node->leanstore_check_ok('at the end');
$node->stop;
done_testing();
