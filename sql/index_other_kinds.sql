-- hash, gin, gist, spgist and brin over rows that change, go and come back.
SET default_table_access_method = leanstore;
CREATE SCHEMA index_other_kinds;
SET search_path = index_other_kinds, public;

-- ways(QUERY): the plan node by which QUERY is answered when only one way of
-- scanning is allowed, and whether the answer is that of the sequential scan.
CREATE FUNCTION pg_temp.ways(query text, modes text[] DEFAULT '{index,indexonly,bitmap}')
	RETURNS TABLE (node text, rows int, same bool) LANGUAGE plpgsql AS $$
DECLARE
	mode text;
	plan jsonb;
	answer text[];
	expected text[];
BEGIN
	FOREACH mode IN ARRAY 'seq'::text || modes LOOP
		PERFORM set_config('enable_seqscan', (mode = 'seq')::text, true),
			set_config('enable_indexscan', (mode IN ('index', 'indexonly'))::text, true),
			set_config('enable_indexonlyscan', (mode = 'indexonly')::text, true),
			set_config('enable_bitmapscan', (mode = 'bitmap')::text, true);
		EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
		EXECUTE format(
			'SELECT coalesce(array_agg(q::text ORDER BY q::text), ''{}'') FROM (%s OFFSET 0) q',
			query) INTO answer;
		expected := coalesce(expected, answer);
		IF mode <> 'seq' THEN
			RETURN QUERY SELECT plan -> 0 -> 'Plan' ->> 'Node Type', cardinality(answer),
				answer = expected;
		END IF;
	END LOOP;
END $$;

-- hash
CREATE TABLE h (id int, k text, pad text);
INSERT INTO h SELECT i, 'key' || i % 400, '' FROM generate_series(1, 2000) i;
CREATE INDEX h_k ON h USING hash (k);
SELECT * FROM pg_temp.ways('SELECT id FROM h WHERE k = ''key77''', '{index,bitmap}');
UPDATE h SET pad = repeat('p', 100) WHERE id % 2 = 0;
UPDATE h SET k = 'key77' WHERE id BETWEEN 100 AND 200;
UPDATE h SET k = 'other' WHERE id = 77;
SELECT * FROM pg_temp.ways('SELECT id FROM h WHERE k = ''key77''', '{index,bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM h WHERE k = ''key150''', '{index,bitmap}');
DELETE FROM h WHERE id > 150;
VACUUM h;
INSERT INTO h SELECT i, 'key77', 'new' FROM generate_series(151, 400) i;
SELECT * FROM pg_temp.ways('SELECT id FROM h WHERE k = ''key77''', '{index,bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM h WHERE k IN (''key77'', ''other'')', '{bitmap}');

-- gin: arrays, jsonb, full text; with pending list and without.
CREATE TABLE g (id int PRIMARY KEY, a int[], j jsonb, t tsvector, pad text);
CREATE INDEX g_a ON g USING gin (a);
INSERT INTO g SELECT i, ARRAY[i % 10, i % 7, i], jsonb_build_object('m', i % 5, 'n', ARRAY[i % 3]),
	to_tsvector('simple', 'word' || i % 11 || ' word' || i % 13), ''
	FROM generate_series(1, 1500) i;
CREATE INDEX g_j ON g USING gin (j jsonb_path_ops);
CREATE INDEX g_t ON g USING gin (t) WITH (fastupdate = off);
SELECT * FROM pg_temp.ways('SELECT id FROM g WHERE a @> ''{3,5}''', '{bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM g WHERE j @> ''{"m": 2, "n": [1]}''', '{bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM g WHERE t @@ ''word3 & word4''', '{bitmap}');
UPDATE g SET pad = 'changed' WHERE id % 4 = 0;
UPDATE g SET a = a || 1000 WHERE id % 6 = 0;
UPDATE g SET j = j - 'm' WHERE id % 9 = 0;
UPDATE g SET t = to_tsvector('simple', 'word3 word4 fresh') WHERE id % 100 = 0;
SELECT * FROM pg_temp.ways('SELECT id FROM g WHERE a && ''{1000}''', '{bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM g WHERE a @> ''{3,5}''', '{bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM g WHERE j @> ''{"m": 2}''', '{bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM g WHERE t @@ ''word3 & word4''', '{bitmap}');
DELETE FROM g WHERE id % 5 = 0;
VACUUM g;
INSERT INTO g SELECT i, ARRAY[3, 5], '{"m": 2}', 'word3 word4', 'again'
	FROM generate_series(5, 1500, 5) i;
SELECT * FROM pg_temp.ways('SELECT id FROM g WHERE a @> ''{3,5}''', '{bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM g WHERE j @> ''{"m": 2}''', '{bitmap}');
SELECT *
	FROM pg_temp.ways('SELECT id FROM g WHERE t @@ ''word3 & word4'' AND a @> ''{3}''', '{bitmap}');

-- gist: boxes, ranges, nearest neighbours; spgist: points, text.
CREATE TABLE s (id int PRIMARY KEY, b box, r int4range, p point, k text, pad text);
INSERT INTO s SELECT i, box(point(i % 50, i / 50), point(i % 50 + 2, i / 50 + 2)),
	int4range(i, i + i % 20 + 1), point(i % 37, i % 41), 'k/' || i % 60 || '/' || i, ''
	FROM generate_series(1, 1500) i;
CREATE INDEX s_b ON s USING gist (b);
CREATE INDEX s_r ON s USING gist (r);
CREATE INDEX s_p ON s USING spgist (p);
CREATE INDEX s_k ON s USING spgist (k);
SELECT *
	FROM pg_temp.ways('SELECT id FROM s WHERE b && box ''((10,10),(13,13))''', '{index,bitmap}');
SELECT * FROM pg_temp.ways('SELECT r FROM s WHERE r @> 700', '{index,indexonly,bitmap}');
SELECT *
	FROM pg_temp.ways('SELECT p FROM s WHERE p <@ box ''((3,3),(6,6))''',
		'{index,indexonly,bitmap}');
SELECT * FROM pg_temp.ways('SELECT id, k FROM s WHERE k ^@ ''k/7/''', '{index,bitmap}');
UPDATE s SET pad = 'changed' WHERE id % 3 = 0;
UPDATE s SET r = int4range(700, 705), p = point(4, 4) WHERE id % 50 = 0;
UPDATE s SET b = box(point(10, 10), point(11, 11)), k = 'k/7/moved' || id WHERE id % 75 = 0;
SELECT *
	FROM pg_temp.ways('SELECT id FROM s WHERE b && box ''((10,10),(13,13))''', '{index,bitmap}');
SELECT * FROM pg_temp.ways('SELECT id, r FROM s WHERE r @> 702', '{index,bitmap}');
SELECT *
	FROM pg_temp.ways('SELECT id, p FROM s WHERE p <@ box ''((3,3),(6,6))''', '{index,bitmap}');
SELECT * FROM pg_temp.ways('SELECT id, k FROM s WHERE k ^@ ''k/7/''', '{index,bitmap}');
DELETE FROM s WHERE id BETWEEN 600 AND 1200;
VACUUM s;
INSERT INTO s SELECT i, box(point(12, 12), point(12, 12)), int4range(i, i + 100), point(5, 5),
	'k/7/' || i, 'again' FROM generate_series(600, 800) i;
SELECT *
	FROM pg_temp.ways('SELECT id FROM s WHERE b && box ''((10,10),(13,13))''', '{index,bitmap}');
SELECT * FROM pg_temp.ways('SELECT id, r FROM s WHERE r @> 702', '{index,bitmap}');
SELECT * FROM pg_temp.ways('SELECT id, k FROM s WHERE k ^@ ''k/7/''', '{index,bitmap}');
SET enable_seqscan = off;
SET enable_sort = off;
SELECT p <-> point(50, 50) AS distance FROM s ORDER BY p <-> point(50, 50) LIMIT 5;
SELECT round((b <-> point(100, 100))::numeric, 6) AS distance
	FROM s ORDER BY b <-> point(100, 100) LIMIT 5;
RESET enable_sort;
RESET enable_seqscan;

-- brin: summaries stay right while rows change, move and fill gaps.
CREATE TABLE br (id int, v int, d timestamp, pad text);
INSERT INTO br SELECT i, i, timestamp '2024-01-01' + i * interval '1 minute', repeat('b', 100)
	FROM generate_series(1, 5000) i;
CREATE INDEX br_id ON br USING brin (id) WITH (pages_per_range = 2);
CREATE INDEX br_multi ON br USING brin (v int4_minmax_multi_ops, d timestamp_bloom_ops)
	WITH (pages_per_range = 4);
SELECT * FROM pg_temp.ways('SELECT id FROM br WHERE id BETWEEN 2000 AND 2100', '{bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM br WHERE v < 10', '{bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM br WHERE d = ''2024-01-02 03:04:00''', '{bitmap}');
UPDATE br SET pad = 'short' WHERE id % 2 = 0;
UPDATE br SET v = v + 100000 WHERE id % 10 = 0;
UPDATE br SET id = 2050 WHERE id > 4990;
SELECT * FROM pg_temp.ways('SELECT id FROM br WHERE id BETWEEN 2000 AND 2100', '{bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM br WHERE v > 100000', '{bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM br WHERE d = ''2024-01-02 03:04:00''', '{bitmap}');
-- New rows behind the summarized part, before and after it is summarized.
INSERT INTO br SELECT i, i, timestamp '2024-01-01' + i * interval '1 minute', repeat('b', 100)
	FROM generate_series(6001, 9000) i;
SELECT * FROM pg_temp.ways('SELECT id FROM br WHERE id BETWEEN 7000 AND 7100', '{bitmap}');
SELECT brin_summarize_new_values('br_id') >= 0 AS summarized;
SELECT * FROM pg_temp.ways('SELECT id FROM br WHERE id BETWEEN 7000 AND 7100', '{bitmap}');
DELETE FROM br WHERE id BETWEEN 1000 AND 8000;
VACUUM br;
INSERT INTO br SELECT i, -i, timestamp '2030-01-01', 'again' FROM generate_series(7050, 7060) i;
SELECT * FROM pg_temp.ways('SELECT id FROM br WHERE id BETWEEN 7000 AND 7100', '{bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM br WHERE v < 0', '{bitmap}');
SELECT brin_desummarize_range('br_id', 0);
SELECT * FROM pg_temp.ways('SELECT id FROM br WHERE id < 50', '{bitmap}');
SELECT *
	FROM pg_temp.ways('SELECT id FROM br WHERE id < 50 AND v > 100000 AND d > ''2024-01-01''',
		'{bitmap}');

-- All kinds on one table, changed together.
CREATE TABLE every_kind (id int, v int, a int[]);
CREATE INDEX ON every_kind USING btree (v);
CREATE INDEX ON every_kind USING hash (v);
CREATE INDEX ON every_kind USING brin (v);
CREATE INDEX ON every_kind USING gin (a);
CREATE INDEX ON every_kind USING gist (int4range(v, v, '[]'));
INSERT INTO every_kind SELECT i, i % 50, ARRAY[i % 50] FROM generate_series(1, 1000) i;
BEGIN;
UPDATE every_kind SET v = v + 1, a = a || v WHERE id % 2 = 0;
SAVEPOINT x;
DELETE FROM every_kind WHERE v = 25;
UPDATE every_kind SET v = 25 WHERE v = 26;
ROLLBACK TO x;
UPDATE every_kind SET v = 25 WHERE v = 27;
COMMIT;
SELECT * FROM pg_temp.ways('SELECT id FROM every_kind WHERE v = 25', '{index,bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM every_kind WHERE a @> ''{25}''', '{bitmap}');
SELECT *
	FROM pg_temp.ways('SELECT id FROM every_kind WHERE int4range(v, v, ''[]'') && ''[25,28]''',
		'{index,bitmap}');
SELECT *
	FROM pg_temp.ways('SELECT id FROM every_kind WHERE v = 25 AND a @> ''{27}'' '
		'AND int4range(v, v, ''[]'') && ''[25,28]''', '{bitmap}');

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
