# Logical replication: leanstore tables cannot be published, and whatever would
# publish one is refused at once.  They can receive what others publish.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('publications', wal_level => 'logical', max_wal_senders => 4);

sub refused_ok
{
	my ($query, $name) = @_;
	my ($status, undef, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$query");

	isnt($status, 0, "$name: refused");
	like($error, qr/ERROR:  0A000: cannot (publish|change) leanstore table "lean\w*"/,
		"$name: with a reason");
	return;
}

$node->safe_psql('postgres', q{
	CREATE TABLE on_heap (id int PRIMARY KEY);
	CREATE SCHEMA s;
	CREATE TABLE part (id int) PARTITION BY RANGE (id);
	CREATE TABLE part_heap PARTITION OF part FOR VALUES FROM (0) TO (10);
	CREATE PUBLICATION heaps FOR TABLE on_heap, part, TABLES IN SCHEMA s;
	CREATE TABLE lean (id int PRIMARY KEY) USING leanstore;
	CREATE TABLE lean_part PARTITION OF part DEFAULT USING heap;
	ALTER TABLE part DETACH PARTITION lean_part;
	ALTER TABLE lean_part SET ACCESS METHOD leanstore});

# A publication that is made or changed
refused_ok('CREATE PUBLICATION p FOR TABLE lean', 'a table');
refused_ok('CREATE PUBLICATION p FOR TABLE on_heap, lean WHERE (id > 0)', 'one of two');
refused_ok('CREATE PUBLICATION p FOR ALL TABLES', 'all tables');
refused_ok('CREATE PUBLICATION p FOR TABLES IN SCHEMA public', 'a schema');
refused_ok('ALTER PUBLICATION heaps ADD TABLE lean', 'ADD');
refused_ok('ALTER PUBLICATION heaps SET TABLE lean', 'SET');
refused_ok('ALTER PUBLICATION heaps ADD TABLES IN SCHEMA public', 'ADD a schema');

# A table that would be published
refused_ok('CREATE TABLE s.lean (id int) USING leanstore', 'a new table in a schema');
refused_ok('CREATE TABLE s.lean USING leanstore AS SELECT 1', 'CREATE TABLE AS');
refused_ok('SET default_table_access_method = leanstore; SELECT 1 AS a INTO s.lean', 'SELECT INTO');
refused_ok('ALTER TABLE lean SET SCHEMA s', 'SET SCHEMA');
refused_ok('CREATE TABLE lean_new PARTITION OF part FOR VALUES FROM (10) TO (20) USING leanstore',
	'a new partition');
refused_ok('ALTER TABLE part ATTACH PARTITION lean_part DEFAULT', 'ATTACH PARTITION');
refused_ok('CREATE TABLE s.lean (id int) USING heap;
	ALTER TABLE s.lean SET ACCESS METHOD leanstore', 'SET ACCESS METHOD');
$node->safe_psql('postgres', 'DROP TABLE s.lean;
	CREATE UNLOGGED TABLE s.lean (id int) USING leanstore');
refused_ok('ALTER TABLE s.lean SET LOGGED', 'SET LOGGED');
refused_ok('EXPLAIN ANALYZE CREATE TABLE s.lean_as USING leanstore AS SELECT 1',
	'EXPLAIN ANALYZE CREATE TABLE AS');
refused_ok('SET default_table_access_method = leanstore;
	EXPLAIN ANALYZE SELECT 1 AS a INTO s.lean_as', 'EXPLAIN ANALYZE SELECT INTO');
refused_ok('PREPARE w AS SELECT 1 AS a; EXPLAIN ANALYZE CREATE TABLE s.lean_as
	USING leanstore AS EXECUTE w', 'CREATE TABLE AS EXECUTE');
refused_ok('CREATE SCHEMA lean_schema;
	CREATE PUBLICATION lean_schema FOR TABLES IN SCHEMA lean_schema;
	SET default_table_access_method = leanstore; SET search_path = lean_schema;
	CREATE TABLE lean (id int)', 'by the search path');
$node->safe_psql('postgres', 'DROP SCHEMA lean_schema CASCADE; DROP PUBLICATION lean_schema');
refused_ok('DO $$ BEGIN CREATE TABLE s.lean_do (id int) USING leanstore; END $$', 'in a function');

# Two transactions that do not see each other: the later one waits, and is refused.
$node->safe_psql('postgres', 'CREATE SCHEMA two');
foreach my $order ([ 'CREATE TABLE two.lean (id int) USING leanstore',
	'CREATE PUBLICATION two FOR TABLES IN SCHEMA two' ],
	[ 'CREATE PUBLICATION two FOR TABLES IN SCHEMA two',
		'CREATE TABLE two.lean (id int) USING leanstore' ],
	[ 'CREATE TABLE two.lean AS SELECT 1; ALTER TABLE two.lean SET ACCESS METHOD leanstore',
		'CREATE PUBLICATION two FOR TABLES IN SCHEMA two' ])
{
	my ($first, $second) = @$order;
	my $open = $node->background_psql('postgres');
	my $later = $node->background_psql('postgres', on_error_stop => 0);

	$open->query_safe("BEGIN; $first");
	$later->query_until(qr/started/, "\\echo started\n$second;\n");
	$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks
		WHERE classid = 'pg_publication'::regclass AND NOT granted})
	  or die "no wait: $second";
	$open->query_safe('COMMIT');
	$open->quit;
	$later->query('SELECT 1');
	like($later->{stderr}, qr/cannot publish leanstore table "lean"/,
		"$second: refused after $first");
	$later->quit;
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_publication_tables
		WHERE schemaname = 'two'}), '0', 'none is published');
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS two.lean; DROP PUBLICATION IF EXISTS two');
}

# Catalogs say that it is published, however that came: its rows are not changed.
$node->safe_psql('postgres', q{
	CREATE PUBLICATION by_hand;
	CREATE TABLE lean_by_hand (id int PRIMARY KEY) USING leanstore;
	INSERT INTO lean_by_hand SELECT generate_series(1, 10);
	SET allow_system_table_mods = on;
	UPDATE pg_publication SET puballtables = true WHERE pubname = 'by_hand'});
foreach my $change ('INSERT INTO lean_by_hand VALUES (11)', 'UPDATE lean_by_hand SET id = id + 100',
	'DELETE FROM lean_by_hand',
	'TRUNCATE lean_by_hand', "COPY lean_by_hand FROM PROGRAM 'echo 11'",
	'MERGE INTO lean_by_hand USING (VALUES (1)) v ON id = 1 WHEN MATCHED THEN DELETE')
{
	my ($status, undef, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$change");

	like($error, qr/ERROR:  0A000: cannot (publish|change) leanstore table "lean_by_hand"/,
		"$change: refused");
}
is($node->safe_psql('postgres', 'SELECT count(*), sum(id) FROM lean_by_hand'), '10|55',
	'its rows are as they were');
$node->safe_psql('postgres', q{DROP PUBLICATION by_hand; UPDATE lean_by_hand SET id = id + 100;
	DROP TABLE lean_by_hand});

# What publishes none is not refused
$node->safe_psql('postgres', q{
	CREATE TEMP TABLE lean_temp (id int) USING leanstore;
	CREATE MATERIALIZED VIEW s.lean_matview USING leanstore AS SELECT 1 AS a;
	ALTER PUBLICATION heaps SET (publish = 'insert, delete');
	ALTER PUBLICATION heaps SET TABLE on_heap, part;
	CREATE TABLE s.lean_new (id int) USING leanstore;
	CREATE TABLE lean_later (id int) USING leanstore;
	ALTER TABLE lean_later SET SCHEMA s;
	CREATE PUBLICATION empty;
	DROP PUBLICATION empty});
is($node->safe_psql('postgres',
	q{SELECT string_agg(tablename, ' ' ORDER BY tablename) FROM pg_publication_tables}),
	'on_heap part_heap', 'heap tables alone are published');

# In a database without the extension, and in one where nothing is published, nothing changes.
$node->safe_psql('template1', 'CREATE TABLE x (id int);
	CREATE PUBLICATION all_tables FOR ALL TABLES; CREATE TABLE y (id int);
	DROP PUBLICATION all_tables; DROP TABLE x, y');

# A subscriber: with a key, without one, and from the copy of the first rows on.
$node->safe_psql('postgres', q{
	CREATE DATABASE subscriber;
	DROP PUBLICATION heaps;
	CREATE TABLE without_key (a int, b text);
	ALTER TABLE without_key REPLICA IDENTITY FULL;
	INSERT INTO on_heap SELECT generate_series(1, 1000);
	INSERT INTO without_key SELECT i % 10, 'b' || i FROM generate_series(1, 100) i;
	CREATE PUBLICATION tables FOR TABLE on_heap, without_key;
	SELECT pg_create_logical_replication_slot('tables', 'pgoutput')});
$node->safe_psql('subscriber', q{
	CREATE EXTENSION leanstore_am;
	CREATE TABLE on_heap (id int PRIMARY KEY) USING leanstore;
	CREATE TABLE without_key (a int, b text) USING leanstore;
	CREATE INDEX ON without_key (a)});
$node->safe_psql('subscriber', "CREATE SUBSCRIPTION tables CONNECTION '" . $node->connstr
	. " dbname=postgres' PUBLICATION tables WITH (create_slot = false, slot_name = tables)");
$node->wait_for_subscription_sync($node, 'tables', 'subscriber');
$node->safe_psql('postgres', q{
	UPDATE on_heap SET id = id + 10000 WHERE id % 2 = 0;
	DELETE FROM on_heap WHERE id < 100;
	INSERT INTO on_heap SELECT generate_series(20000, 20100);
	UPDATE without_key SET b = b || '+' WHERE a = 3;
	DELETE FROM without_key WHERE a = 4;
	UPDATE without_key SET a = NULL WHERE a = 5});
$node->wait_for_catchup('tables');
foreach my $table (qw(on_heap without_key))
{
	my $content = "SELECT count(*), sum(hashtext(t::text)) FROM $table t";

	is($node->safe_psql('subscriber', $content), $node->safe_psql('postgres', $content),
		"the subscriber has what $table has");
}
$node->safe_psql('subscriber', 'DROP SUBSCRIPTION tables');
$node->leanstore_check_ok('at the end');
done_testing();
