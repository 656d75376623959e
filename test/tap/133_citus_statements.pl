# What Citus does with tables, the same on heap, on leanstore as the default of all nodes, and on
# leanstore by USING where the default is heap.
#
# Environment: CITUS_PG, the prefix of a PostgreSQL 18 with Citus in it.  Skipped without.
use strict;
use warnings FATAL => 'all';

use CitusCluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'CITUS_PG names no server with Citus' unless CitusCluster::available();

my $cluster = CitusCluster->new('citus.shard_count' => 4);
my $coordinator = $cluster->{coordinator};
my ($worker1, $worker2) = map { CitusCluster::place($_) } @{ $cluster->{workers} };

# The access method, what stands behind CREATE TABLE, the default of all nodes, and whether btree
# means leanstore_index.
my @ways = (
	{ name => 'heap', method => 'heap', using => '', default => 'heap', btree => 'off' },
	{ name => 'by default', method => 'leanstore', using => '', default => 'leanstore',
		btree => 'on' },
	{ name => 'by USING', method => 'leanstore', using => 'USING leanstore', default => 'heap',
		btree => 'off' });

# --- Statements, a group for each function of Citus.

my @groups = (

tables => q{
	CREATE TABLE region (id int PRIMARY KEY, name text UNIQUE) USING_;
	CREATE TABLE site (region int REFERENCES region, id int, v int, t text DEFAULT 'a',
		PRIMARY KEY (region, id)) USING_;
	CREATE TABLE note (id serial PRIMARY KEY, region int REFERENCES region, t text) USING_;
	INSERT INTO region SELECT i, 'region ' || i FROM generate_series(1, 20) i;
	INSERT INTO site SELECT i % 20 + 1, i, i, repeat('x', i % 50) FROM generate_series(1, 400) i;
	SELECT create_reference_table('region');
	SELECT create_distributed_table('site', 'region');
	CREATE TABLE event (region int, site int, id bigserial, at date, v numeric,
		w numeric GENERATED ALWAYS AS (v * 2) STORED, PRIMARY KEY (region, id)) USING_;
	SELECT create_distributed_table('event', 'region', colocate_with => 'site');
	ALTER TABLE event ADD FOREIGN KEY (region, site) REFERENCES site ON DELETE CASCADE;
	SELECT citus_add_local_table_to_metadata('note');
	INSERT INTO event (region, site, at, v) SELECT region, id, date '2026-01-01' + v % 60, v
		FROM site;
	INSERT INTO note (region, t) SELECT i % 20 + 1, 'note ' || i FROM generate_series(1, 60) i;
	CREATE TABLE single (id int PRIMARY KEY, v int) USING_;
	SELECT create_distributed_table('single', NULL);
	INSERT INTO single SELECT i, i FROM generate_series(1, 100) i;
	SELECT table_name, citus_table_type, access_method FROM citus_tables ORDER BY 1::text;
	SELECT count(*), sum(w) FROM event;
	BEGIN; DELETE FROM site WHERE v % 7 = 0; SELECT count(*) FROM event; ROLLBACK;
	INSERT INTO site VALUES (99, 1, 1, '');
	INSERT INTO site VALUES (1, 20, 1, '');
	INSERT INTO note (region) VALUES (99);
	SELECT count(*) FROM event;},

indexes => q{
	CREATE INDEX site_v ON site (v);
	CREATE UNIQUE INDEX site_u ON site (region, v);
	CREATE UNIQUE INDEX site_w ON site (v);
	CREATE INDEX CONCURRENTLY event_at ON event (at) INCLUDE (v);
	CREATE INDEX event_part ON event (v) WHERE v > 100;
	CREATE INDEX event_expr ON event ((v % 10));
	CREATE INDEX region_name ON region (lower(name));
	ALTER INDEX site_v RENAME TO site_v2;
	REINDEX INDEX CONCURRENTLY event_at;
	SELECT count(*) FROM event WHERE at BETWEEN '2026-01-05' AND '2026-01-10';
	SELECT id FROM site WHERE v = 77;
	BEGIN; DROP INDEX site_u; INSERT INTO site VALUES (1, 9999, 20, ''); ROLLBACK;
	INSERT INTO site VALUES (1, 9999, 20, '');
	DROP INDEX site_v2, site_u;
	DROP INDEX CONCURRENTLY event_part;
	SELECT indexname FROM pg_indexes WHERE schemaname = 's' ORDER BY 1;},

columns => q{
	ALTER TABLE site ALTER v TYPE bigint;
	ALTER TABLE site ALTER t TYPE varchar(60) USING upper(t);
	ALTER TABLE site ADD u int DEFAULT 5, ADD r float DEFAULT random();
	ALTER TABLE site ADD CONSTRAINT v_positive CHECK (v > 0);
	INSERT INTO site (region, id, v) VALUES (1, 5000, -1);
	ALTER TABLE region ALTER name TYPE varchar(100);
	ALTER TABLE event DROP w;
	ALTER TABLE note ALTER t TYPE varchar(30);
	SELECT pg_typeof(min(v)), count(*), sum(v), sum(u), count(r), max(t) FROM site;
	ALTER TABLE site DROP r, DROP CONSTRAINT v_positive;
	BEGIN; ALTER TABLE site ALTER v TYPE text; SELECT max(v) FROM site; ROLLBACK;
	SELECT max(v) FROM site;},

changes => q{
	BEGIN; UPDATE region SET name = name || '!'; SAVEPOINT a; UPDATE site SET v = v + 1;
	SAVEPOINT b; DELETE FROM site WHERE region = 3; ROLLBACK TO b; COMMIT;
	SELECT sum(v), count(*) FROM site;
	INSERT INTO site (region, id, v) VALUES (1, 20, 7), (1, 21, 8), (2, 1, 9)
		ON CONFLICT (region, id) DO UPDATE SET v = excluded.v + site.v RETURNING region, id, v;
	INSERT INTO site (region, id, v) SELECT region, id + 1000, v + 10000 FROM site;
	INSERT INTO site (region, id, v) SELECT id % 20 + 1, id + 5000, max(v) + 50000
		FROM site WHERE id < 100 GROUP BY id;
	WITH d AS (DELETE FROM event WHERE v < 20 RETURNING *) SELECT count(*), sum(v) FROM d;
	UPDATE note SET t = 'new' FROM region r WHERE r.id = note.region AND r.id < 5;
	SELECT count(*) FROM note WHERE t = 'new';
	COPY (SELECT region, id, v FROM site WHERE region = 4 ORDER BY id LIMIT 4) TO STDOUT;
	SELECT id, v FROM site WHERE region = 5 ORDER BY id LIMIT 3 FOR UPDATE;
	SELECT count(*) FROM site s JOIN event e ON e.region = s.region AND e.site = s.id
		JOIN region r ON r.id = s.region JOIN note n ON n.region = r.id;
	SET citus.enable_repartition_joins = on;
	SELECT count(*) FROM site s JOIN event e ON e.id = s.v;
	CREATE MATERIALIZED VIEW m USING_ AS SELECT region, sum(v) FROM site GROUP BY 1;
	SELECT count(*), sum(sum) FROM m;
	BEGIN; TRUNCATE region CASCADE; SELECT count(*) FROM site; ROLLBACK;
	SELECT count(*), sum(v) FROM site;
	BEGIN; TRUNCATE site, event; INSERT INTO site VALUES (1, 1, 1, ''); COMMIT;
	SELECT count(*), sum(v) FROM site;
	INSERT INTO site SELECT i % 20 + 1, i, i, 'y' FROM generate_series(1, 400) i;
	VACUUM site; ANALYZE site; VACUUM FULL event;},

merge => q{
	CREATE TABLE news (region int, id int, v int) USING_;
	CREATE TABLE far (k int, region int, id int, v int) USING_;
	SELECT create_distributed_table('news', 'region', colocate_with => 'site');
	SELECT create_distributed_table('far', 'k', colocate_with => 'none');
	INSERT INTO news SELECT i % 20 + 1, i * 2, i FROM generate_series(100, 300) i;
	INSERT INTO far SELECT i, i % 20 + 1, i, -i FROM generate_series(1, 50) i;
	MERGE INTO site USING news n ON site.region = n.region AND site.id = n.id
		WHEN MATCHED AND n.v % 3 = 0 THEN DELETE
		WHEN MATCHED THEN UPDATE SET v = site.v + n.v
		WHEN NOT MATCHED THEN INSERT (region, id, v) VALUES (n.region, n.id, n.v + 70000);
	SELECT count(*), sum(v) FROM site;
	MERGE INTO site USING far f ON site.region = f.region AND site.id = f.id
		WHEN MATCHED THEN UPDATE SET v = f.v WHEN NOT MATCHED THEN DO NOTHING;
	SELECT count(*), sum(v) FROM site;
	MERGE INTO site USING region r ON site.region = r.id AND site.region = 7
		WHEN MATCHED THEN DELETE;
	SELECT count(*), sum(v) FROM site;
	BEGIN; MERGE INTO news USING site ON site.region = news.region
		WHEN MATCHED AND site.id = news.id THEN DELETE; ROLLBACK;
	SELECT count(*) FROM news;},

partitions => q{
	CREATE TABLE part (id int, day date, v int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)
		USING_;
	CREATE TABLE part_old PARTITION OF part FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
	INSERT INTO part SELECT i, date '2025-06-01' + i % 90, i FROM generate_series(1, 500) i;
	SELECT create_distributed_table('part', 'id');
	SELECT create_time_partitions('part', '1 month', '2026-06-01', '2026-01-01');
	INSERT INTO part SELECT i, date '2026-01-01' + i % 150, i FROM generate_series(1, 500) i;
	CREATE INDEX part_v ON part (v);
	CREATE TABLE part_far (id int, day date, v int, PRIMARY KEY (id, day)) USING_;
	SELECT create_distributed_table('part_far', 'id', colocate_with => 'part');
	INSERT INTO part_far SELECT i, '2027-01-01', i FROM generate_series(1, 50) i;
	ALTER TABLE part ATTACH PARTITION part_far FOR VALUES FROM ('2027-01-01') TO ('2028-01-01');
	SELECT count(*), sum(v), count(DISTINCT tableoid) FROM part;
	UPDATE part SET day = '2027-03-03' WHERE id % 50 = 3
		AND day BETWEEN '2026-01-01' AND '2026-12-31';
	SELECT count(*), sum(v) FROM part WHERE day > '2027-02-01';
	ALTER TABLE part DETACH PARTITION part_old;
	CALL drop_old_time_partitions('part', '2026-03-01');
	ALTER TABLE part ALTER v TYPE bigint;
	SELECT count(*), sum(v) FROM part;
	SELECT count(*), sum(v) FROM part_old;
	SELECT table_name, access_method FROM citus_tables WHERE table_name::text LIKE 'part_%'
		ORDER BY 1::text;},

session => q{
	SET default_table_access_method = METHOD_;
	CREATE TABLE sess (id int, day int, v int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
	CREATE TABLE sess_1 PARTITION OF sess FOR VALUES FROM (0) TO (10);
	CREATE INDEX sess_v ON sess (v);
	INSERT INTO sess SELECT i, i % 10, i FROM generate_series(1, 100) i;
	SELECT create_distributed_table('sess', 'id');
	CREATE TABLE sess_2 PARTITION OF sess FOR VALUES FROM (10) TO (20);
	INSERT INTO sess SELECT i, 10 + i % 10, i FROM generate_series(1, 100) i;
	INSERT INTO sess VALUES (1, 1, 1);
	SELECT count(*), sum(v) FROM sess;
	SELECT id FROM sess WHERE v = 77 ORDER BY day;
	DROP TABLE sess;},

columnar => q{
	SET client_min_messages = error;
	CREATE TABLE cold (region int, id int, v int) USING columnar;
	SELECT create_distributed_table('cold', 'region', colocate_with => 'site');
	BEGIN; INSERT INTO cold SELECT region, id, v FROM site; UPDATE site SET v = v + 1; COMMIT;
	BEGIN; INSERT INTO cold SELECT region, id, v FROM site; UPDATE site SET v = v + 1; ROLLBACK;
	SELECT count(*), sum(c.v), sum(s.v) FROM cold c JOIN site s USING (region, id);
	INSERT INTO news SELECT * FROM cold WHERE id < 50;
	SELECT count(*), sum(v) FROM news;
	SELECT alter_table_set_access_method('news', 'columnar');
	SELECT count(*), sum(v) FROM news;
	SELECT alter_table_set_access_method('news', 'METHOD_');
	UPDATE news SET v = v + 1;
	SELECT count(*), sum(v) FROM news;},

access_methods => q{
	SET client_min_messages = error;
	SELECT alter_table_set_access_method('far', 'OTHER_');
	SELECT count(*), sum(v) FROM far;
	SELECT access_method FROM citus_tables WHERE table_name::text = 'far';
	SELECT alter_table_set_access_method('far', 'METHOD_');
	ALTER TABLE single SET ACCESS METHOD OTHER_; ALTER TABLE single SET ACCESS METHOD METHOD_;
	UPDATE far SET v = v - 1; UPDATE single SET v = v - 1;
	SELECT count(*), sum(v) FROM far;
	SELECT count(*), sum(v) FROM single;
	SELECT alter_distributed_table('far', distribution_column => 'id', shard_count => 6);
	SELECT alter_distributed_table('site', shard_count => 6, cascade_to_colocated => true);
	SELECT table_name, shard_count, access_method FROM citus_tables WHERE table_name::text <> 'part'
		ORDER BY 1::text;
	SELECT count(*), sum(v) FROM far;
	SELECT count(*), sum(v) FROM site;},

schemas => q{
	SET client_min_messages = warning;
	SET citus.enable_schema_based_sharding = on;
	CREATE SCHEMA tenant_1; CREATE SCHEMA tenant_2;
	RESET citus.enable_schema_based_sharding;
	CREATE TABLE tenant_1.client (id int PRIMARY KEY, region int REFERENCES region) USING_;
	CREATE TABLE tenant_1.bill (id serial PRIMARY KEY, client int REFERENCES tenant_1.client, v int)
		USING_;
	CREATE TABLE tenant_2.client (LIKE tenant_1.client INCLUDING ALL) USING_;
	INSERT INTO tenant_1.client SELECT i, i % 20 + 1 FROM generate_series(1, 100) i;
	INSERT INTO tenant_1.bill (client, v) SELECT i % 100 + 1, i FROM generate_series(1, 1000) i;
	INSERT INTO tenant_2.client SELECT * FROM tenant_1.client WHERE id < 10;
	CREATE INDEX ON tenant_1.bill (v);
	BEGIN; UPDATE tenant_1.bill SET v = v + 1; UPDATE tenant_2.client SET region = 1; COMMIT;
	SELECT citus_schema_move('tenant_1', nodename, nodeport, 'block_writes') FROM pg_dist_node
		WHERE nodeport NOT IN (SELECT nodeport FROM citus_shards
			WHERE table_name = 'tenant_1.bill'::regclass) AND groupid > 0;
	SELECT citus_schema_move('tenant_1', nodename, nodeport, 'force_logical') FROM pg_dist_node
		WHERE nodeport NOT IN (SELECT nodeport FROM citus_shards
			WHERE table_name = 'tenant_1.bill'::regclass) AND groupid > 0;
	SELECT count(*), sum(v) FROM tenant_1.bill JOIN tenant_1.client c ON client = c.id;
	SELECT citus_schema_undistribute('tenant_2');
	SELECT count(*), sum(region) FROM tenant_2.client;
	SELECT citus_schema_distribute('tenant_2');
	CREATE SCHEMA plain;
	CREATE TABLE plain.t (id int PRIMARY KEY, v int) USING_;
	INSERT INTO plain.t SELECT i, i FROM generate_series(1, 100) i;
	SELECT citus_schema_distribute('plain');
	SELECT count(*), sum(v) FROM plain.t;
	SELECT table_name, citus_table_type, access_method FROM citus_tables
		WHERE table_name::text LIKE '%.%' ORDER BY 1::text;
	INSERT INTO tenant_1.bill (client, v) VALUES (1000, 1);
	DROP SCHEMA tenant_2 CASCADE;},

databases => q{
	SET client_min_messages = error; SET citus.enable_create_database_propagation = on;
	CREATE DATABASE spread;
	SELECT result FROM run_command_on_all_nodes(
		$$SELECT count(*) FROM pg_database WHERE datname = 'spread'$$);
	DROP DATABASE spread;
	CREATE ROLE ROLE_ LOGIN; SET ROLE ROLE_; CREATE DATABASE theirs; RESET ROLE; DROP ROLE ROLE_;
	SELECT result FROM run_command_on_all_nodes(
		$$SELECT count(*) FROM pg_database WHERE datname = 'spread'$$);},

shards => q{
	SET client_min_messages = error;
	SELECT isolate_tenant_to_new_shard('site', 5, 'CASCADE', shard_transfer_mode => 'block_writes')
		> 0;
	SELECT isolate_tenant_to_new_shard('site', 6, 'CASCADE', shard_transfer_mode => 'force_logical')
		> 0;
	SELECT count(*) FROM citus_shards WHERE table_name = 'site'::regclass;
	SELECT count(*), sum(v) FROM site;
	SELECT citus_drain_node(WORKER1_, 'block_writes');
	SELECT citus_set_node_property(WORKER1_, 'shouldhaveshards', true);
	SELECT rebalance_table_shards(shard_transfer_mode => 'block_writes');
	SELECT citus_drain_node(WORKER2_, 'force_logical');
	SELECT citus_set_node_property(WORKER2_, 'shouldhaveshards', true);
	SELECT citus_rebalance_start(shard_transfer_mode := 'block_writes') > 0;
	SELECT citus_rebalance_wait();
	CALL citus_cleanup_orphaned_resources();
	SELECT count(DISTINCT nodeport) FROM citus_shards WHERE table_name = 'site'::regclass;
	SELECT count(*), sum(v) FROM site;
	SELECT count(*), sum(v) FROM event;
	SELECT count(*), sum(v) FROM tenant_1.bill;},

undistribute => q{
	SET client_min_messages = error;
	SELECT undistribute_table('far');
	SELECT undistribute_table('part');
	SELECT undistribute_table('site', cascade_via_foreign_keys => true);
	SELECT count(*), sum(v) FROM site;
	SELECT count(*), sum(v) FROM part;
	SELECT c.relname, amname FROM pg_class c JOIN pg_am a ON a.oid = relam
		WHERE relkind = 'r'
		AND relname IN ('site', 'event', 'region', 'note', 'far', 'part')
		ORDER BY 1;
	INSERT INTO site VALUES (99, 1, 1, '');
	ALTER TABLE event DROP CONSTRAINT event_region_site_fkey;
	SELECT create_reference_table('region');
	SELECT create_distributed_table('site', 'region');
	SELECT create_distributed_table('event', 'region', colocate_with => 'site');
	ALTER TABLE event ADD FOREIGN KEY (region, site) REFERENCES site ON DELETE CASCADE;
	SELECT create_distributed_table('part', 'id');
	SELECT count(*), sum(v) FROM site;
	SELECT count(*), sum(v) FROM part;});

# Partitions that are columnar beside partitions that are not: their table's keys have to be btree.
my $mixed = q{
	SET client_min_messages = error;
	CREATE TABLE mixed (id int, day date, v int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)
		USING_;
	SELECT create_distributed_table('mixed', 'id');
	SELECT create_time_partitions('mixed', '1 month', '2026-06-01', '2026-01-01');
	INSERT INTO mixed SELECT i, date '2026-01-01' + i % 150, i FROM generate_series(1, 500) i;
	CREATE INDEX mixed_v ON mixed (v);
	CALL alter_old_partitions_set_access_method('mixed', '2026-03-01', 'columnar');
	SELECT count(*), sum(v) FROM mixed;
	INSERT INTO mixed VALUES (9000, '2026-02-05', 1), (9001, '2026-05-05', 1);
	SELECT id, v FROM mixed WHERE v = 1 ORDER BY id;
	SELECT alter_table_set_access_method('mixed_p2026_02', 'METHOD_');
	UPDATE mixed SET v = v + 1 WHERE day >= '2026-02-01';
	SELECT count(*), sum(v) FROM mixed;
	SELECT table_name, access_method FROM citus_tables WHERE table_name::text LIKE 'mixed_%'
		ORDER BY 1::text;};

# What tables hold, for comparisons after pg_dump.
my $content = q{
	SELECT count(*), sum(hashtextextended(x::text, 0)) FROM s.site x;
	SELECT count(*), sum(hashtextextended(x::text, 0)) FROM s.event x;
	SELECT count(*), sum(hashtextextended(x::text, 0)) FROM s.region x;
	SELECT count(*), sum(hashtextextended(x::text, 0)) FROM s.part x;
	SELECT count(*), sum(hashtextextended(x::text, 0)) FROM s.cold x;
	SELECT count(*), sum(hashtextextended(x::text, 0)) FROM tenant_1.bill x};

# run_group(WAY, TEXT): what psql says of the statements, errors among them.
sub run_group
{
	my ($way, $sql) = @_;

	$sql =~ s/USING_/$way->{using}/g;
	$sql =~ s/METHOD_/$way->{method}/g;
	$sql =~ s/ROLE_/role_of_$way->{database}/g;
	my $other = $way->{method} eq 'heap' ? 'leanstore' : 'heap';
	$sql =~ s/OTHER_/$other/g;
	$sql =~ s/WORKER1_/$worker1/g;
	$sql =~ s/WORKER2_/$worker2/g;
	my (undef, $out, $error) = $coordinator->psql($way->{database},
		"\\set VERBOSITY terse\nSET search_path = s, public; SET client_min_messages = warning;\n"
		. $sql, on_error_stop => 0);
	my $all = "$out\n-- errors:\n$error";
	# names of shards, of nodes and of the access method
	$all =~ s/_\d{6}\b/_SHARD/g;
	$all =~ s/psql:<stdin>:\d+: //g;
	$all =~ s/\b$way->{method}\b/METHOD/g;
	$all =~ s/\b$other\b/OTHER/g;
	$all =~ s/role_of_$way->{database}/ROLE/g;
	return $all;
}

# --- Dump and restore: all as local tables; then tables that are distributed, their rows, their
# keys.

sub dump_and_restore
{
	my ($way) = @_;
	my $dump = PostgreSQL::Test::Utils::tempdir();
	my $want = $coordinator->safe_psql($way->{database}, $content);
	my @program = ($coordinator->installed_command('pg_dump'), '-d',
		$coordinator->connstr($way->{database}), '--no-sync');
	my @load = ($coordinator->installed_command('psql'), qw(-X -q -o /dev/null -v ON_ERROR_STOP=1));

	foreach my $section ('all', 'pre-data', 'data', 'post-data')
	{
		my @options = $section eq 'all' ? () : "--section=$section";
		command_ok([ @program, @options, '-f', "$dump/$section" ], "$way->{name}: dump, $section");
	}
	foreach my $kind ('local', 'spread')
	{
		my $database = "$way->{database}_$kind";
		$cluster->database($database);
		my @into = (@load, '-d', $coordinator->connstr($database), '-f');
		if ($kind eq 'local')
		{
			command_ok([ @into, "$dump/all" ], "$way->{name}: restored as local tables");
		}
		else
		{
			command_ok([ @into, "$dump/pre-data" ], "$way->{name}: tables restored");
			$coordinator->safe_psql($database, q{SET search_path = s, public;
				SET client_min_messages = error;
				SELECT create_reference_table('region');
				SELECT create_distributed_table('site', 'region');
				SELECT create_distributed_table('event', 'region', colocate_with => 'site');
				SELECT create_distributed_table('part', 'id');
				SELECT create_distributed_table('cold', 'region', colocate_with => 'site')});
			command_ok([ @into, "$dump/$_" ], "$way->{name}: $_ restored into shards")
			  foreach 'data', 'post-data';
		}
		is($coordinator->safe_psql($database, $content), $want,
			"$way->{name}: the same rows, $kind");
		is($coordinator->safe_psql($database, q{SELECT string_agg(DISTINCT amname, ' ')
			FROM pg_class c JOIN pg_am a ON a.oid = relam
			WHERE relkind = 'r' AND relname IN ('site', 'event', 'region', 'bill')}),
			$way->{method}, "$way->{name}: the same access method, $kind");
	}
	return;
}

# --- Each way.

my %result;
foreach my $way (@ways)
{
	$way->{database} = 'db_' . lc($way->{name} =~ s/ /_/r);
	$cluster->set(default_table_access_method => $way->{default},
		'leanstore.replace_btree' => $way->{btree});
	$cluster->database($way->{database});
	$coordinator->safe_psql($way->{database},
		'SET client_min_messages = error; CREATE EXTENSION citus_columnar; CREATE SCHEMA s');
	my @list = @groups;
	while (my ($name, $sql) = splice @list, 0, 2)
	{
		$result{ $way->{name} }{$name} = run_group($way, $sql);
		note("$name:\n$result{heap}{$name}") if $way->{method} eq 'heap';
		next if $way->{method} eq 'heap';
		is($result{ $way->{name} }{$name}, $result{heap}{$name}, "$way->{name}: $name as on heap");
	}
	if ($way->{method} ne 'heap')
	{
		like(run_group($way, q{SELECT alter_table_set_access_method('part_p2026_04', 'columnar')}),
			qr/cannot drop inherited constraint/,
			"$way->{name}: no columnar partition of a table with leanstore keys");
	}
	dump_and_restore($way);
	$cluster->set('leanstore.default_index' => 'btree', 'leanstore.replace_btree' => 'off');
	my $said = $result{ $way->{name} }{mixed} = run_group($way, $mixed);
	is($said, $result{heap}{mixed}, "$way->{name}: columnar partitions as on heap");
	note($said) if $way->{method} eq 'heap';
	$cluster->set('leanstore.default_index' => 'leanstore');
	$cluster->check($way->{name});
}

# Citus ends its worker in a database that is dropped, once it sees the statement.
$coordinator->safe_psql('postgres', 'SET client_min_messages = error; CREATE DATABASE lonely');
$coordinator->safe_psql('lonely', 'CREATE EXTENSION citus; SELECT citus_version()');
$coordinator->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity
	WHERE datname = 'lonely' AND backend_type LIKE 'Citus Maintenance%'}) or die 'no worker';
my ($status, undef, $error) = $coordinator->psql('postgres', 'DROP DATABASE lonely');
is($status, 0, 'a database with a worker of Citus is dropped') or diag($error);
$cluster->stop;
done_testing();
