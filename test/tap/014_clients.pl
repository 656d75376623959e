# The server's own clients with leanstore tables: psql's \d and \dt, pg_dump and
# pg_restore with four jobs in both directions between heap and leanstore and to where
# the extension is not, pgbench with partitions and foreign keys.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node('clients', 'leanstore.buffer_pool_size' => '64MB',
	'leanstore.replace_btree' => 'on');
my $dir = $node->basedir;

# ---- psql

$node->safe_psql('postgres', q{CREATE TABLE item (id int PRIMARY KEY, name text) USING leanstore;
	CREATE INDEX item_name ON item (name COLLATE "C");
	INSERT INTO item SELECT i, 'name ' || i FROM generate_series(1, 1000) i});
my $described = $node->safe_psql('postgres', "\\pset tuples_only off\n\\d+ item");
like($described, qr/item_pkey.*PRIMARY KEY, leanstore_index \(id\)/, '\d+ shows the key');
like($described, qr/item_name.*leanstore_index \(name/, '\d+ shows the index');
like($described, qr/^Access method: leanstore$/m, '\d+ shows the access method');
my @row = split /\|/, $node->safe_psql('postgres', '\dt+ item');
is($row[5], 'leanstore', '\dt+ shows the access method');
like($row[6], qr/^[1-9]\d* (kB|MB)$/, '\dt+ shows a size');
@row = split /\|/, $node->safe_psql('postgres', '\di+ item_pkey');
is($row[6], 'leanstore_index', '\di+ shows the access method');
like($row[7], qr/^[1-9]\d* (kB|MB)$/, '\di+ shows a size');

# ---- pg_dump, pg_restore

my $content = q{
	SELECT 'customer', count(*), sum(hashtext(t::text)) FROM customer t
	UNION ALL SELECT 'part', count(*), sum(hashtext(t::text)) FROM part t
	UNION ALL SELECT 'part_2', count(*), sum(hashtext(t::text)) FROM part_2 t
	UNION ALL SELECT 'big', count(*), sum(hashtext(t::text)) FROM big t
	UNION ALL SELECT 'pair', count(*), sum(hashtext(t::text)) FROM pair t
	UNION ALL SELECT 'unlogged', count(*), sum(hashtext(t::text)) FROM unlogged t
	UNION ALL SELECT 'summary', count(*), sum(hashtext(t::text)) FROM summary t
	UNION ALL SELECT 'large object', count(*), sum(length(lo_get(oid))) FROM pg_largeobject_metadata
	UNION ALL SELECT 'indexes', count(*), 0 FROM pg_index i JOIN pg_class c ON c.oid = indrelid
		WHERE relnamespace = 'public'::regnamespace AND indisvalid
	UNION ALL SELECT 'constraints', count(*), 0 FROM pg_constraint
		WHERE connamespace = 'public'::regnamespace
	ORDER BY 1};
# Access methods of tables and of their keys and indexes.
my $methods = q{SELECT string_agg(DISTINCT amname, ' ' ORDER BY amname) FROM pg_class c
	JOIN pg_am a ON a.oid = relam
	WHERE relnamespace = 'public'::regnamespace};

sub fill
{
	my ($database, $am) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, qq{
		CREATE EXTENSION leanstore_am;
		SET default_table_access_method = $am;
		CREATE TABLE customer (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			name text NOT NULL, born date,
			upper_name text GENERATED ALWAYS AS (upper(name)) STORED, CHECK (length(name) > 0));
		CREATE INDEX customer_lower ON customer (lower(name)) WHERE born > '1980-01-01';
		CREATE UNIQUE INDEX customer_name ON customer (name) INCLUDE (born);
		CREATE STATISTICS customer_statistics ON name, born FROM customer;
		COMMENT ON TABLE customer IS 'who buys';
		CREATE TABLE part (customer int REFERENCES customer, day date, amount numeric,
			PRIMARY KEY (customer, day)) PARTITION BY RANGE (day);
		CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (MINVALUE) TO ('2001-01-01');
		CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM ('2001-01-01') TO (MAXVALUE);
		CREATE TABLE big (id int, body text, bytes bytea);
		ALTER TABLE big ALTER body SET STORAGE EXTERNAL;
		CREATE UNLOGGED TABLE unlogged (id int,
			EXCLUDE USING gist (int4range(id, id, '[]') WITH &&));
		INSERT INTO customer (name, born) SELECT 'n' || i, '1970-01-01'::date + i
			FROM generate_series(1, 5000) i;
		INSERT INTO part SELECT 1 + i % 5000, '2000-01-01'::date + i / 20, i
			FROM generate_series(1, 14000) i;
		INSERT INTO big SELECT i, repeat(md5(i::text), 200), decode(repeat('00ff', i * 20), 'hex')
			FROM generate_series(1, 200) i;
		INSERT INTO unlogged SELECT generate_series(1, 500);
		CREATE MATERIALIZED VIEW summary AS SELECT customer % 10 AS class, sum(amount)
			FROM part GROUP BY 1;
		CREATE UNIQUE INDEX ON summary (class);
		CREATE INDEX big_pattern ON big (left(body, 100) text_pattern_ops DESC NULLS LAST, id)
			WITH (fillfactor = 60);
		ALTER INDEX big_pattern ALTER COLUMN 1 SET STATISTICS 50;
		ALTER TABLE big ADD CONSTRAINT big_excluded EXCLUDE USING btree (id WITH =) DEFERRABLE;
		ALTER TABLE customer CLUSTER ON customer_name, REPLICA IDENTITY USING INDEX customer_name;
		COMMENT ON INDEX customer_name IS 'by name';
		CREATE TABLE pair (id int, v text) PARTITION BY HASH (id);
		CREATE TABLE pair_1 PARTITION OF pair FOR VALUES WITH (MODULUS 2, REMAINDER 0);
		CREATE TABLE pair_2 PARTITION OF pair FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING heap;
		ALTER TABLE pair ADD PRIMARY KEY (id);
		CREATE INDEX pair_v ON pair (v);
		INSERT INTO pair SELECT i, i FROM generate_series(1, 100) i;
		SELECT lo_from_bytea(0, decode(repeat('aa', 10000), 'hex'));
		UPDATE customer SET born = born + 1 WHERE id % 3 = 0;
		DELETE FROM part WHERE customer % 7 = 0;
		REFRESH MATERIALIZED VIEW CONCURRENTLY summary});
	return;
}

sub dump_and_restore
{
	my ($from, $to, %options) = @_;

	local $ENV{PGOPTIONS} = $options{dump_settings} // '';
	command_ok([ 'pg_dump', '-Fd', '-j', 4, @{ $options{dump} // [] }, '-f', "$dir/$from-$to",
		'-d', $node->connstr($from) ],
		"$from: pg_dump -j 4");
	$ENV{PGOPTIONS} = '';
	$node->safe_psql('postgres', "CREATE DATABASE $to");
	# with the extension, so that the database's default access method can be what it brings
	$node->safe_psql($to, 'CREATE EXTENSION leanstore_am') unless $options{without_extension};
	$node->safe_psql('postgres', "ALTER DATABASE $to SET $_") foreach @{ $options{settings} // [] };
	command_ok([ 'pg_restore', '-j', 4, '--exit-on-error', @{ $options{restore} // [] },
		'-d', $node->connstr($to), "$dir/$from-$to" ],
		"$to: pg_restore -j 4");
	is($node->safe_psql($to, $content), $node->safe_psql($from, $content),
		"$to has what $from has");
	return;
}

fill('heap', 'heap');
fill('lean', 'leanstore');
is($node->safe_psql('lean', $content), $node->safe_psql('heap', $content),
	'both begin with the same');

dump_and_restore('lean', 'lean_lean');
is($node->safe_psql('lean_lean', $methods), $node->safe_psql('lean', $methods),
	'access methods are restored');

# Onto leanstore: the dump names no access method of tables, and btree for indexes.
dump_and_restore('heap', 'heap_lean', restore => ['--no-table-access-method'],
	settings => ['default_table_access_method = leanstore']);
is($node->safe_psql('heap_lean', $methods), 'gist leanstore leanstore_index',
	'tables and indexes are leanstore ones');

# And back: the dump names leanstore indexes.
my $definitions = q{SELECT regexp_replace(pg_get_indexdef(indexrelid), 'USING \w+', ''),
	indisclustered, indisreplident, obj_description(indexrelid),
	(SELECT string_agg(attstattarget::text, ' ') FROM pg_attribute WHERE attrelid = indexrelid)
	FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relnamespace = 'public'::regnamespace
		ORDER BY relname};
dump_and_restore('heap_lean', 'heap_again', restore => ['--no-table-access-method']);
is($node->safe_psql('heap_again', $methods), 'btree gist heap',
	'tables are heap tables, indexes are btree indexes');
is($node->safe_psql('heap_again', $definitions), $node->safe_psql('heap', $definitions),
	'indexes are what they were at first');

# To a server without the extension.
dump_and_restore('lean', 'lean_stock', dump_settings => '-c leanstore.show_indexes_as_btree=on',
	dump => ['--exclude-extension=leanstore_am'], restore => ['--no-table-access-method'],
	without_extension => 1);
is($node->safe_psql('lean_stock', $methods), 'btree gist heap',
	'without the extension tables are heap tables');
is($node->safe_psql('lean_stock', $definitions), $node->safe_psql('heap', $definitions),
	'and indexes as on heap');

# ---- pgbench

foreach my $partitioning ([ 'range', 4 ], [ 'hash', 3 ])
{
	my ($method, $partitions) = @$partitioning;
	my $database = "bench_$method";

	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, "CREATE EXTENSION leanstore_am;
		ALTER DATABASE $database SET default_table_access_method = leanstore");
	command_ok([ 'pgbench', '-i', '-q', '-s', 1, '--foreign-keys', '--partitions', $partitions,
		"--partition-method=$method",
			'-d', $node->connstr($database) ], "$method partitions: pgbench -i");
	command_ok([ 'pgbench', '-n', '-c', 4, '-t', 200, '-M', 'prepared',
		'-d', $node->connstr($database) ], "$method partitions: tpcb-like");
	command_ok([ 'pgbench', '-n', '-c', 4, '-t', 100, '-b', 'select-only',
		'-d', $node->connstr($database) ], "$method partitions: select-only");
	is($node->safe_psql($database, "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = relam
		WHERE relname ~ '^pgbench_accounts_' AND relkind = 'r' AND amname = 'leanstore'"),
		$partitions, "$method partitions are leanstore tables");
	$node->pgbench_balanced_ok($database, "$method partitions");
	isnt($node->psql($database, 'DELETE FROM pgbench_branches'), 0,
		"$method partitions: foreign keys hold");
}

$node->leanstore_check_ok('at the end');
done_testing();
