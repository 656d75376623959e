# Scans of leanstore indexes while others insert, update and delete around
# them: rows that no writer touches are found, once, in order, whichever way the
# index is read; leaves split, merge and leave memory meanwhile.
use strict;
use warnings FATAL => 'all';

use LeanstoreTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = LeanstoreTest->new_node(
	'scans',
	'leanstore.buffer_pool_size' => '4MB',
	'synchronous_commit' => 'off',
	'max_connections' => 20);

$node->safe_psql('postgres', q{
	CREATE TABLE s (id int, k int, t text COLLATE "C") USING leanstore;
	INSERT INTO s SELECT i, i, repeat('a', i % 200) FROM generate_series(1, 20000) i;
	CREATE INDEX s_k ON s USING leanstore_index (k);
	CREATE INDEX s_tk ON s USING leanstore_index (t, k DESC);
	CREATE INDEX s_id ON s USING leanstore_index (id) INCLUDE (k);

	-- The rows of the query, which have k between lo and hi, are in order, and those with ids
	-- that end in 0 are all there.
	CREATE FUNCTION check_rows(way text, query text, lo int, hi int, backward bool) RETURNS void
		LANGUAGE plpgsql AS $$
	DECLARE
		r record;
		last int;
		found int = 0;
	BEGIN
		FOR r IN EXECUTE query LOOP
			IF r.k NOT BETWEEN lo AND hi OR (backward AND r.k > last)
				OR (NOT backward AND r.k < last) THEN
				RAISE EXCEPTION '%: % after % in % .. %', way, r.k, last, lo, hi;
			END IF;
			last := r.k;
			found := found + (r.id % 10 = 0)::int;
		END LOOP;
		IF found <> hi / 10 - (lo - 1) / 10 THEN
			RAISE EXCEPTION '%: % rows of % in % .. %', way, found, hi / 10 - (lo - 1) / 10, lo, hi;
		END IF;
	END $$;

	CREATE FUNCTION check_scans() RETURNS void LANGUAGE plpgsql AS $$
	DECLARE
		lo int = 1 + random() * 17000;
		hi int = lo + random() * 2000;
		query text;
		found int;
	BEGIN
		SET LOCAL enable_seqscan = off;
		SET LOCAL enable_sort = off;
		SET LOCAL enable_bitmapscan = off;
		query := format('SELECT k, id FROM s WHERE k BETWEEN %s AND %s ORDER BY k', lo, hi);
		PERFORM check_rows('forward', query, lo, hi, false);
		PERFORM check_rows('backward', query || ' DESC', lo, hi, true);
		SET LOCAL max_parallel_workers_per_gather = 2;
		SET LOCAL parallel_setup_cost = 0;
		SET LOCAL parallel_tuple_cost = 0;
		SET LOCAL min_parallel_index_scan_size = 0;
		SET LOCAL cpu_tuple_cost = 100;
		PERFORM check_rows('parallel', query, lo, hi, false);
		RESET max_parallel_workers_per_gather;
		RESET cpu_tuple_cost;

		SELECT count(*) INTO found FROM s WHERE t = ANY (ARRAY['', 'aaaaaaaaaa', repeat('a', 50)])
		AND k BETWEEN 1000 AND 5000 AND id % 10 = 0;
		IF found <> 21 + 20 + 20 THEN
			RAISE EXCEPTION 'array: % rows', found;
		END IF;
		SELECT count(*) INTO found FROM s WHERE t >= '' AND k = lo / 10 * 10 + 10 AND id % 10 = 0;
		IF found <> 1 THEN
			RAISE EXCEPTION 'skipping: % rows', found;
		END IF;
		SELECT count(*) INTO found FROM s x JOIN s y ON x.id = y.id
			WHERE x.k BETWEEN lo AND lo + 99 AND x.id % 10 = 0;
		IF found <> 10 THEN
			RAISE EXCEPTION 'rescans: % rows', found;
		END IF;
	END $$;
});

my $readers = "$PostgreSQL::Test::Utils::tmp_check/readers.sql";
my $writers = "$PostgreSQL::Test::Utils::tmp_check/writers.sql";
append_to_file($readers, "SELECT check_scans();\n");
append_to_file($writers, q{
\set a random(1, 20000)
\set b random(1, 20000)
UPDATE s SET k = :b, t = repeat('b', :a % 180) WHERE id BETWEEN :a AND :a + 20 AND id % 10 <> 0;
DELETE FROM s WHERE id = :b * 10 + 200001;
INSERT INTO s SELECT :b * 10 + 200001, :a, repeat('c', :b % 150);
});

$node->run_pgbench('postgres', qw(-n -c 4 -j 2 -T 8), '-f', "$readers\@1", '-f', "$writers\@2");
$node->safe_psql('postgres', 'DELETE FROM s WHERE id % 10 <> 0');
$node->run_pgbench('postgres', qw(-n -c 2 -t 20), '-f', $readers);
is($node->safe_psql('postgres', 'SET enable_seqscan = off;
	SELECT count(*), sum(k) FROM s WHERE k > 0'),
	'2000|20010000', 'what nobody touched is there');
$node->leanstore_check_ok('after the scans');
$node->stop;
done_testing();
