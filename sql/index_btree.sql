-- btree: unique, multicolumn, partial, expression; every way to scan it; changes of
-- indexed and other columns; deletion and VACUUM.
SET default_table_access_method = leanstore;
CREATE SCHEMA index_btree;
SET search_path = index_btree, public;

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

CREATE TABLE bt (id int, a int, b text, c int, pad text);
INSERT INTO bt SELECT i, i % 100, 'b' || i % 37, CASE WHEN i % 10 > 0 THEN i END,
	repeat('.', i % 90) FROM generate_series(1, 3000) i;
CREATE UNIQUE INDEX bt_id ON bt USING btree (id);
CREATE INDEX bt_a ON bt USING btree (a);
CREATE INDEX bt_ba ON bt USING btree (b, a DESC);
CREATE INDEX bt_c ON bt USING btree (c NULLS FIRST) INCLUDE (id);
CREATE INDEX bt_part ON bt USING btree (id) WHERE a = 7;
CREATE INDEX bt_expr ON bt USING btree ((a * 2 + 1), lower(b));

SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE id = 1234');
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE id BETWEEN 100 AND 300');
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE id IN (5, 50, 500, 5000)');
SELECT * FROM pg_temp.ways('SELECT id, pad FROM bt WHERE a = 33');
SELECT * FROM pg_temp.ways('SELECT a, b FROM bt WHERE b = ''b12'' AND a > 40');
SELECT * FROM pg_temp.ways('SELECT c, id FROM bt WHERE c IS NULL');
SELECT * FROM pg_temp.ways('SELECT c, id FROM bt WHERE c IS NOT NULL AND c < 50');
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE a = 7 AND id > 1000', '{index,bitmap}');
SELECT *
	FROM pg_temp.ways('SELECT id FROM bt WHERE a * 2 + 1 = 21 AND lower(b) < ''b2''',
		'{index,bitmap}');
-- AND and OR of bitmaps; more rows than work_mem holds exactly.
SELECT *
	FROM pg_temp.ways('SELECT id, pad FROM bt WHERE a = 33 OR id < 40 OR b = ''b5''', '{bitmap}');
SELECT *
	FROM pg_temp.ways('SELECT id, pad FROM bt WHERE a = 33 AND b = ''b5'' AND c > 0', '{bitmap}');
SET work_mem = '64kB';
SELECT * FROM pg_temp.ways('SELECT id, pad FROM bt WHERE a >= 0 OR b > ''''', '{bitmap}');
RESET work_mem;

-- Order, both ways, with a limit; nearest to the ends; merge join with mark and restore.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SELECT id FROM bt ORDER BY id LIMIT 3;
SELECT id FROM bt ORDER BY id DESC LIMIT 3;
SELECT b, a, id FROM bt WHERE b IN ('b1', 'b2') ORDER BY b, a DESC, id LIMIT 3;
SELECT b, a FROM bt WHERE b <= 'b1' ORDER BY b DESC, a LIMIT 4;
SELECT min(id), max(id), min(c), max(c) FROM bt;
SELECT c FROM bt ORDER BY c NULLS FIRST OFFSET 298 LIMIT 4;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SELECT count(*), sum(x.id), sum(y.id) FROM bt x JOIN bt y USING (a) WHERE x.id <= 500;
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_sort;
RESET enable_bitmapscan;
RESET enable_seqscan;

-- Changes of columns that no index has: found under the old keys.
UPDATE bt SET pad = 'changed ' || id WHERE id % 2 = 0;
UPDATE bt SET pad = repeat('grown', 60) WHERE id % 7 = 0;
SELECT * FROM pg_temp.ways('SELECT id, pad FROM bt WHERE a = 33');
SELECT * FROM pg_temp.ways('SELECT id, pad FROM bt WHERE id IN (7, 8, 14)');
-- Changes of an indexed column: found under the new key only, and by every index.
UPDATE bt SET a = a + 1000 WHERE id % 3 = 0;
SELECT * FROM pg_temp.ways('SELECT id, a, b FROM bt WHERE a > 1000');
SELECT * FROM pg_temp.ways('SELECT id, a, b FROM bt WHERE a <= 1000');
SELECT * FROM pg_temp.ways('SELECT a, b FROM bt WHERE b = ''b12''');
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE a = 7', '{index,bitmap}');
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE a * 2 + 1 > 2000', '{index,bitmap}');
-- Back again, so that old entries of the same key are met.
UPDATE bt SET a = a - 1000 WHERE id % 3 = 0;
UPDATE bt SET a = a + 0;
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE a = 33');
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE a > 1000');
DO $$
BEGIN
	FOR i IN 1..20 LOOP
		UPDATE bt SET a = i WHERE id <= 100;
		UPDATE bt SET id = id WHERE id <= 50;
	END LOOP;
END $$;
SELECT * FROM pg_temp.ways('SELECT id, a FROM bt WHERE a = 20');
SELECT * FROM pg_temp.ways('SELECT id, a FROM bt WHERE a = 19');
SELECT * FROM pg_temp.ways('SELECT id, a FROM bt WHERE id <= 100');
-- In and out of a partial index.
UPDATE bt SET a = 7 WHERE id BETWEEN 501 AND 520;
UPDATE bt SET a = 8 WHERE a = 7 AND id BETWEEN 1 AND 510;
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE a = 7 AND id < 600', '{index,bitmap}');
-- Keys swapped between rows in one statement and one transaction.
BEGIN;
UPDATE bt SET id = -id WHERE id IN (10, 20);
UPDATE bt SET id = CASE id WHEN -10 THEN 20 ELSE 10 END WHERE id < 0;
COMMIT;
SELECT id, a, b FROM bt WHERE id IN (10, 20) ORDER BY id;

-- Deletion, VACUUM, and other rows in the same places.
DELETE FROM bt WHERE id % 4 = 0;
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE a BETWEEN 10 AND 20');
VACUUM bt;
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE a BETWEEN 10 AND 20');
INSERT INTO bt SELECT i, i % 100, 'again', i, 'again' FROM generate_series(4, 3000, 4) i;
SELECT * FROM pg_temp.ways('SELECT id, b FROM bt WHERE a BETWEEN 10 AND 20');
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE id > 0');
SELECT count(*) FROM bt;
DELETE FROM bt;
VACUUM bt;
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE id > 0');
INSERT INTO bt SELECT i, i, 'last', i, '' FROM generate_series(1, 500) i;
SELECT * FROM pg_temp.ways('SELECT id FROM bt WHERE id > 0');

-- Unique keys: NULLs, NULLS NOT DISTINCT, several columns, a partial one.
CREATE TABLE uq (id int, a int, b text);
CREATE UNIQUE INDEX uq_ab ON uq USING btree (a, b);
INSERT INTO uq VALUES (1, 1, 'x'), (2, 1, NULL), (3, 1, NULL), (4, NULL, 'x'), (5, NULL, 'x');
INSERT INTO uq VALUES (6, 1, 'x');
UPDATE uq SET b = 'x' WHERE id = 2;
UPDATE uq SET b = 'y' WHERE id = 2;
DELETE FROM uq WHERE id = 1;
INSERT INTO uq VALUES (6, 1, 'x');
BEGIN;
DELETE FROM uq WHERE id = 6;
INSERT INTO uq VALUES (7, 1, 'x');
INSERT INTO uq VALUES (8, 1, 'x');
ROLLBACK;
INSERT INTO uq VALUES (9, 1, 'x');
BEGIN; INSERT INTO uq VALUES (10, 9, 'z'); ROLLBACK; INSERT INTO uq VALUES (11, 9, 'z');
DROP INDEX uq_ab;
CREATE UNIQUE INDEX uq_ab ON uq USING btree (a, b) NULLS NOT DISTINCT;
DELETE FROM uq WHERE id = 5;
CREATE UNIQUE INDEX uq_ab ON uq USING btree (a, b) NULLS NOT DISTINCT;
INSERT INTO uq VALUES (12, NULL, 'x');
CREATE UNIQUE INDEX uq_part ON uq USING btree (b) WHERE a > 100;
INSERT INTO uq VALUES (13, 101, 'p'), (14, 50, 'p'), (15, 51, 'p');
UPDATE uq SET a = 102 WHERE id = 14;
UPDATE uq SET b = 'q', a = 102 WHERE id = 14;
SELECT * FROM uq ORDER BY id;
-- A primary key on a btree made beforehand.
ALTER TABLE uq ALTER id SET NOT NULL;
CREATE UNIQUE INDEX uq_id ON uq USING btree (id);
ALTER TABLE uq ADD PRIMARY KEY USING INDEX uq_id;
INSERT INTO uq VALUES (3, 3, '3');
INSERT INTO uq VALUES (NULL, 3, '3');
-- A statement fails at once, even where it would make the key free later.
\set VERBOSITY sqlstate
UPDATE uq SET id = 5 - id WHERE id IN (2, 3);
\set VERBOSITY default

-- Keys of near maximum length, with a long common prefix.
CREATE TABLE wide_keys (id int, k text);
CREATE INDEX wide_k ON wide_keys USING btree (k);
INSERT INTO wide_keys SELECT i, repeat('prefix', 100) || md5(i::text) || repeat('s', i % 1500)
	FROM generate_series(1, 300) i;
SELECT * FROM pg_temp.ways('SELECT id FROM wide_keys WHERE k > repeat(''prefix'', 100) || ''8''');
UPDATE wide_keys SET k = reverse(k) WHERE id % 2 = 0;
SELECT * FROM pg_temp.ways('SELECT id FROM wide_keys WHERE k > repeat(''prefix'', 100) || ''8''');
SELECT * FROM pg_temp.ways('SELECT id FROM wide_keys WHERE k < ''p''');

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
