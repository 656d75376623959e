-- TOAST tables of leanstore tables are leanstore tables: values lie there under row ids.
CREATE SCHEMA values_in_engine;
SET search_path = values_in_engine, public;
SET default_table_access_method = leanstore;

CREATE FUNCTION noise(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT substr(string_agg(md5(seed::text || '/' || i), '' ORDER BY i), 1, n)
	FROM generate_series(1, n / 32 + 1) i $$;
-- The rows of a table's TOAST table that a query gives, and of its index.
CREATE FUNCTION rows_of_values(of regclass, OUT n bigint, OUT bytes bigint) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE (SELECT format('SELECT count(*), coalesce(sum(length(chunk_data)), 0) FROM %s',
		reltoastrelid::regclass) FROM pg_class WHERE oid = of) INTO n, bytes;
END $$;

CREATE TABLE docs (id int PRIMARY KEY, v int DEFAULT 0, t text STORAGE external);
SELECT t.relkind, a.amname, t.relfrozenxid, t.relminmxid FROM pg_class c
	JOIN pg_class t ON t.oid = c.reltoastrelid JOIN pg_am a ON a.oid = t.relam
	WHERE c.oid = 'docs'::regclass;
INSERT INTO docs SELECT i, 0, noise(i, i * 1264) FROM generate_series(2, 6) i;
INSERT INTO docs VALUES (7, 0, noise(7, 3784 * 300 + 1));
SELECT * FROM rows_of_values('docs');
-- What PostgreSQL says of a value it asks the pointer.
SELECT id, pg_column_size(t), pg_column_toast_chunk_id(t) IS NOT NULL AS out_of_line,
	substr(t, 1260, 10) = substr(noise(id, 2600), 1260, 10) AS slice FROM docs ORDER BY id;
SELECT substr(t, 3784 * 256 - 3, 8) = substr(noise(7, 3784 * 300 + 1), 3784 * 256 - 3, 8) AS slice,
	right(t, 1) = right(noise(7, 3784 * 300 + 1), 1) AS "end" FROM docs WHERE id = 7;

-- An update beside a value leaves it alone, one of the value replaces it, a rollback neither.
UPDATE docs SET v = 1;
SELECT * FROM rows_of_values('docs');
UPDATE docs SET t = noise(-id, 2600) WHERE id <= 4;
SELECT * FROM rows_of_values('docs');
BEGIN;
UPDATE docs SET t = noise(0, 10000);
SAVEPOINT s;
DELETE FROM docs;
SELECT * FROM rows_of_values('docs');
ROLLBACK TO s;
SELECT * FROM rows_of_values('docs');
ROLLBACK;
SELECT * FROM rows_of_values('docs');
-- A row that was not inserted after all.
INSERT INTO docs VALUES (7, 0, noise(1, 5000)) ON CONFLICT DO NOTHING;
INSERT INTO docs VALUES (7, 0, noise(1, 5000)) ON CONFLICT (id) DO UPDATE SET v = docs.v + 1;
SELECT * FROM rows_of_values('docs');
SELECT leanstore_check('docs');

-- The index that the server gives a TOAST table is empty, and not used.
CREATE TABLE one_value (t text STORAGE external);
INSERT INTO one_value VALUES (noise(1, 5000));
DO $$
DECLARE
	toast text := (SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'one_value'::regclass);
	id oid := (SELECT pg_column_toast_chunk_id(t) FROM one_value);
	n int;
	plan text;
BEGIN
	SET LOCAL enable_seqscan = off;
	EXECUTE format('EXPLAIN SELECT * FROM %s WHERE chunk_id = %s', toast, id) INTO plan;
	RAISE NOTICE '%', plan ~ '^Seq Scan';
	EXECUTE format('SELECT count(*) FROM %s WHERE chunk_id = %s AND chunk_seq < 3', toast, id)
		INTO n;
	RAISE NOTICE 'rows_of_values %', n;
	EXECUTE format('SELECT count(*) FROM %s WHERE length(chunk_data) = 1264', toast) INTO n;
	RAISE NOTICE 'full rows_of_values %', n;
	EXECUTE format('REINDEX TABLE %s', toast);
	EXECUTE format('SELECT count(*) FROM %s WHERE chunk_id = %s', toast, id) INTO n;
	RAISE NOTICE 'rows_of_values %', n;
END $$;
REINDEX TABLE CONCURRENTLY one_value;
SELECT t = noise(1, 5000) AS same FROM one_value;

-- The TOAST table alone: VACUUM, VACUUM FULL and CLUSTER keep what pointers lead to.
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'docs'::regclass \gset
SELECT relname AS toast_index FROM pg_index JOIN pg_class ON oid = indexrelid
	WHERE indrelid = :'toast'::regclass \gset
VACUUM :toast;
VACUUM FULL :toast;
CLUSTER :toast USING :toast_index;
SELECT count(*) AS rows,
	count(*) FILTER (WHERE t = CASE WHEN id <= 4 THEN noise(-id, 2600) WHEN id < 7
		THEN noise(id, id * 1264) ELSE noise(id, 3784 * 300 + 1) END) AS same FROM docs;
INSERT INTO docs VALUES (8, 0, noise(8, 3000));
SELECT leanstore_check('docs');
SELECT leanstore_check(:'toast');

-- Rewrites.  A version that a cursor sees keeps its value, and the new table is rid of it then.
BEGIN;
DECLARE old CURSOR FOR SELECT id, t = noise(8, 3000) AS same FROM docs WHERE id = 8;
UPDATE docs SET t = noise(9, 3000) WHERE id = 8;
FETCH old;
ROLLBACK;
VACUUM FULL docs;
CLUSTER docs USING docs_pkey;
SELECT count(DISTINCT pg_column_toast_chunk_id(t)) FROM docs;
INSERT INTO docs VALUES (10, 0, noise(10, 3000));
SELECT count(DISTINCT pg_column_toast_chunk_id(t)) FROM docs;
SELECT leanstore_check('docs');
ALTER TABLE docs ALTER t TYPE varchar;
SELECT leanstore_check('docs');
SELECT * FROM rows_of_values('docs');
CREATE TEMP TABLE sums AS SELECT id, md5(t) FROM docs;
ALTER TABLE docs SET ACCESS METHOD heap;
SELECT a.amname FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid
	JOIN pg_am a ON a.oid = t.relam WHERE c.oid = 'docs'::regclass;
SELECT count(*) FROM docs JOIN sums USING (id) WHERE md5(t) = sums.md5;
ALTER TABLE docs SET ACCESS METHOD leanstore;
SELECT count(*) FROM docs JOIN sums USING (id) WHERE md5(t) = sums.md5;
ALTER TABLE docs SET UNLOGGED;
ALTER TABLE docs SET LOGGED;
SELECT count(*) FROM docs JOIN sums USING (id) WHERE md5(t) = sums.md5;
SELECT leanstore_check('docs');

-- A variable has a pointer to a value of a table that is emptied, and gets other values.
CREATE TABLE emptied (t text STORAGE external);
INSERT INTO emptied VALUES (noise(1, 3000));
CREATE FUNCTION follow(how text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	SELECT t INTO r FROM emptied WHERE t = noise(1, 3000);
	EXECUTE how;
	INSERT INTO emptied VALUES (noise(2, 3000));
	RETURN CASE WHEN r.t = noise(1, 3000) THEN 'the value' ELSE 'another value' END;
EXCEPTION WHEN data_corrupted THEN
	RETURN regexp_replace(sqlerrm, '\d+ in pg_toast_\d+', '...');
END $$;
SELECT follow('DELETE FROM emptied');
INSERT INTO emptied VALUES (noise(1, 3000));
SELECT follow('UPDATE emptied SET t = NULL');
INSERT INTO emptied VALUES (noise(1, 3000));
SELECT follow('TRUNCATE emptied');
BEGIN;
TRUNCATE emptied;
INSERT INTO emptied VALUES (noise(1, 3000));
-- a file of this transaction is emptied in place
SELECT follow('TRUNCATE emptied');
COMMIT;
SELECT leanstore_check('emptied');

-- ... and to one that is rolled back.
CREATE FUNCTION follow_back() RETURNS bool LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	BEGIN
		INSERT INTO emptied VALUES (noise(3, 9000)) RETURNING t INTO r;
		RAISE EXCEPTION 'back';
	EXCEPTION WHEN raise_exception THEN
		RETURN r.t = noise(3, 9000);
	END;
END $$;
SELECT follow_back(), follow_back();
SELECT count(*) FROM emptied WHERE t = noise(3, 9000);
SELECT leanstore_check('emptied');

-- Rows that heap keeps on a page need a TOAST table here.
CREATE TABLE wide (id int PRIMARY KEY, a varchar(1500) STORAGE PLAIN, b varchar(1500) STORAGE PLAIN,
	c varchar(1500) STORAGE PLAIN) USING heap;
INSERT INTO wide VALUES (1, noise(1, 1500), noise(2, 1500), noise(3, 1500));
SELECT reltoastrelid = 0 AS none FROM pg_class WHERE oid = 'wide'::regclass;
ALTER TABLE wide SET ACCESS METHOD leanstore;
SELECT id, a = noise(1, 1500) AND b = noise(2, 1500) AND c = noise(3, 1500) AS same FROM wide;
SELECT leanstore_check('wide');
DELETE FROM wide;
ALTER TABLE wide SET ACCESS METHOD heap;
SELECT reltoastrelid = 0 AS none FROM pg_class WHERE oid = 'wide'::regclass;
ALTER TABLE wide SET ACCESS METHOD leanstore;
INSERT INTO wide VALUES (1, noise(1, 1500), noise(2, 1500), noise(3, 1500));
SELECT id, a = noise(1, 1500) AND b = noise(2, 1500) AND c = noise(3, 1500) AS same FROM wide;
SELECT leanstore_check('wide');
CREATE TABLE narrow (id int) USING heap;
ALTER TABLE narrow SET ACCESS METHOD leanstore;
SELECT reltoastrelid = 0 AS none FROM pg_class WHERE oid = 'narrow'::regclass;

-- Temporary tables, and those that are emptied at commit.
CREATE TEMP TABLE temporary (t text STORAGE external) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO temporary VALUES (noise(1, 3000));
SELECT t = noise(1, 3000) AS same FROM temporary;
COMMIT;
SELECT * FROM rows_of_values('temporary');
INSERT INTO temporary VALUES (noise(1, 3000));
SELECT * FROM rows_of_values('temporary');

-- Statistics count the values.
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins, n_tup_del FROM pg_stat_all_tables s JOIN pg_class c ON c.reltoastrelid = s.relid
	WHERE c.oid = 'one_value'::regclass;
DELETE FROM one_value;
SELECT pg_stat_force_next_flush();
SELECT n_tup_ins, n_tup_del FROM pg_stat_all_tables s JOIN pg_class c ON c.reltoastrelid = s.relid
	WHERE c.oid = 'one_value'::regclass;

-- Whole pages lie in the further file, what is behind them in the row if it is short.
CREATE TABLE pages (t text STORAGE external);
INSERT INTO pages SELECT noise(i, 40960 + 1900) FROM generate_series(1, 30) i;
SELECT written_pages FROM pg_class, leanstore_value_info(reltoastrelid)
	WHERE oid = 'pages'::regclass;
SELECT pg_total_relation_size('pages') BETWEEN 1200000 AND 1500000 AS counted_by_the_server;
TRUNCATE pages;
INSERT INTO pages SELECT noise(i, 40960 + 1901) FROM generate_series(1, 10) i;
INSERT INTO pages SELECT noise(i, 1900) FROM generate_series(1, 10) i;
SELECT written_bytes / 4096 AS written_pages, moved_bytes FROM leanstore_stat_values
	WHERE relid = 'pages'::regclass;
SELECT leanstore_value_info('pages') IS NULL AS no_toast_table;
-- The same bytes are stored once; what is behind whole pages may differ.
CREATE TABLE equal (i int, t text STORAGE external);
INSERT INTO equal SELECT i, noise(i % 3, 40960) || i FROM generate_series(1, 30) i;
SELECT written_bytes / 4096 AS written_pages, shared_values, shared_bytes / 4096 AS shared_pages
	FROM leanstore_stat_values WHERE relid = 'equal'::regclass;
UPDATE equal SET t = noise(7, 8192) WHERE i < 5;
SET leanstore.share_values = off;
INSERT INTO equal VALUES (31, noise(0, 40960));
RESET leanstore.share_values;
SELECT written_bytes / 4096 AS written_pages FROM leanstore_stat_values
	WHERE relid = 'equal'::regclass;
SELECT count(*) FROM equal
	WHERE t = noise(i % 3, 40960) || i OR i < 5 AND t = noise(7, 8192) OR i = 31;
SELECT leanstore_check('equal');
SELECT pg_size_pretty(pg_relation_size(reltoastrelid, 'fsm')) AS in_fork_fsm FROM pg_class
	WHERE oid = 'pages'::regclass;

SET client_min_messages = warning;
DROP SCHEMA values_in_engine CASCADE;
