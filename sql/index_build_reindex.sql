-- CREATE INDEX on changed data, CONCURRENTLY, REINDEX of every kind.
SET default_table_access_method = leanstore;
CREATE SCHEMA index_build_reindex;
SET search_path = index_build_reindex, public;

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

-- A table with a past: updated, moved, deleted, rolled back rows.
CREATE TABLE past (id int, v int, t text);
INSERT INTO past SELECT i, i, 't' || i FROM generate_series(1, 2000) i;
UPDATE past SET v = v + 10000 WHERE id % 3 = 0;
UPDATE past SET v = v + 10000 WHERE id % 9 = 0;
DELETE FROM past WHERE id % 7 = 0;
BEGIN;
UPDATE past SET v = -1;
INSERT INTO past SELECT i, i, 'lost' FROM generate_series(1, 500) i;
ROLLBACK;
CREATE INDEX past_v ON past USING btree (v);
CREATE UNIQUE INDEX past_id ON past USING btree (id);
CREATE INDEX past_t ON past USING hash (t);
SELECT * FROM pg_temp.ways('SELECT id, v FROM past WHERE v > 10000');
SELECT * FROM pg_temp.ways('SELECT id, v FROM past WHERE v < 500');
SELECT * FROM pg_temp.ways('SELECT id FROM past WHERE id > 1500');
SELECT * FROM pg_temp.ways('SELECT id FROM past WHERE t = ''t100''', '{index}');

-- Built inside the transaction that changed the rows.
BEGIN;
UPDATE past SET v = 5 WHERE id < 20;
DELETE FROM past WHERE id BETWEEN 20 AND 30;
INSERT INTO past VALUES (5000, 5, 'own'), (5001, 6, 'own');
SAVEPOINT s;
UPDATE past SET v = 6 WHERE v = 5;
ROLLBACK TO s;
CREATE INDEX past_own ON past USING btree (v, id);
SELECT * FROM pg_temp.ways('SELECT v, id, t FROM past WHERE v < 50');
UPDATE past SET v = 6 WHERE id = 5000;
SELECT * FROM pg_temp.ways('SELECT v, id, t FROM past WHERE v < 50');
COMMIT;
SELECT * FROM pg_temp.ways('SELECT v, id, t FROM past WHERE v < 50');

-- A unique index is refused where duplicates are, deleted ones do not count.
INSERT INTO past VALUES (1, 1, 'duplicate');
DROP INDEX past_id;
INSERT INTO past VALUES (1, 1, 'duplicate');
CREATE UNIQUE INDEX past_id ON past USING btree (id);
DELETE FROM past WHERE t = 'duplicate';
CREATE UNIQUE INDEX past_id ON past USING btree (id);
INSERT INTO past VALUES (1, 1, 'duplicate');

-- CONCURRENTLY: built, refused, left invalid, repaired.
CREATE INDEX CONCURRENTLY past_conc ON past USING btree (t);
SELECT * FROM pg_temp.ways('SELECT t FROM past WHERE t < ''t2''');
CREATE INDEX CONCURRENTLY past_gin ON past USING gin ((ARRAY[v, id]));
SELECT * FROM pg_temp.ways('SELECT id FROM past WHERE ARRAY[v, id] @> ''{5}''', '{bitmap}');
\set VERBOSITY terse
CREATE UNIQUE INDEX CONCURRENTLY past_bad ON past USING btree ((v % 100));
\set VERBOSITY default
SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'past_bad'::regclass;
DROP INDEX CONCURRENTLY past_bad;
SELECT to_regclass('past_bad');
BEGIN; CREATE INDEX CONCURRENTLY past_never ON past (v); ROLLBACK;

-- REINDEX INDEX, TABLE, and both CONCURRENTLY.
UPDATE past SET v = v + 1, t = t || '+' WHERE id % 2 = 0;
DELETE FROM past WHERE id % 11 = 0;
REINDEX INDEX past_v;
REINDEX TABLE past;
SELECT * FROM pg_temp.ways('SELECT id, v, t FROM past WHERE v BETWEEN 100 AND 300');
REINDEX INDEX CONCURRENTLY past_v;
REINDEX TABLE CONCURRENTLY past;
SELECT * FROM pg_temp.ways('SELECT id, v, t FROM past WHERE v BETWEEN 100 AND 300');
SELECT * FROM pg_temp.ways('SELECT t FROM past WHERE t < ''t2''');
SELECT count(*) AS indexes, bool_and(indisvalid) AS valid FROM pg_index
	WHERE indrelid = 'past'::regclass;
BEGIN; REINDEX TABLE past; UPDATE past SET v = 0 WHERE id = 2; ROLLBACK;
SELECT * FROM pg_temp.ways('SELECT id FROM past WHERE v = 0', '{index,bitmap}');

-- Large enough for sorted runs on disk, and built by parallel workers.
CREATE TABLE big (id int, k text);
INSERT INTO big SELECT i, md5(i::text) FROM generate_series(1, 20000) i;
UPDATE big SET k = upper(k) WHERE id % 10 = 0;
SET maintenance_work_mem = '64kB';
SET min_parallel_table_scan_size = 0;
SET max_parallel_maintenance_workers = 2;
CREATE INDEX big_k ON big USING btree (k);
CREATE INDEX big_brin ON big USING brin (id);
RESET maintenance_work_mem;
CREATE UNIQUE INDEX big_id ON big USING btree (id);
RESET max_parallel_maintenance_workers;
RESET min_parallel_table_scan_size;
SELECT * FROM pg_temp.ways('SELECT k FROM big WHERE k < ''1''');
SELECT * FROM pg_temp.ways('SELECT id FROM big WHERE id BETWEEN 5000 AND 5999');

-- The expression may read the same table's function of the row, or fail.
CREATE FUNCTION divide(a int, b int) RETURNS int IMMUTABLE LANGUAGE plpgsql
	AS $$ BEGIN RETURN a / b; END $$;
CREATE INDEX past_fails ON past USING btree (divide(10, v - 5));
CREATE INDEX past_divide ON past USING btree (divide(v, id));
SELECT * FROM pg_temp.ways('SELECT id FROM past WHERE divide(v, id) = 11', '{index,bitmap}');
SELECT count(*) FROM past;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
