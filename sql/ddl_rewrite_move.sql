-- ALTER TABLE rewrites, SET ACCESS METHOD both ways, SET TABLESPACE, storage settings.
SET default_table_access_method = leanstore;
CREATE SCHEMA ddl_rewrite_move;
SET search_path = ddl_rewrite_move, public;

CREATE TABLE a (id int PRIMARY KEY, v int, t text, large text);
CREATE INDEX a_v ON a USING btree (v);
INSERT INTO a SELECT i, i % 50, 't' || i, CASE WHEN i % 100 = 0 THEN repeat(md5(i::text), 300) END
	FROM generate_series(1, 1000) i;
UPDATE a SET v = v + 100 WHERE id % 4 = 0;
DELETE FROM a WHERE id % 10 = 1;
-- What the table holds, by sequential scan and by both indexes.
CREATE FUNCTION state()
	RETURNS TABLE (am name, rows bigint, ids bigint, vs bigint, large bool, by_v bigint, by_id text)
	LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('enable_seqscan', 'on', true);
	SELECT amname INTO am FROM pg_class c JOIN pg_am m ON m.oid = relam WHERE c.oid = 'a'::regclass;
	SELECT count(*), sum(id), sum(v::int), bool_and(a.large = repeat(md5(id::text), 300)) INTO rows,
		ids, vs, large FROM a;
	PERFORM set_config('enable_seqscan', 'off', true);
	EXECUTE 'SELECT count(*) FROM a WHERE v = ''106''' INTO by_v;
	EXECUTE 'SELECT t FROM a WHERE id = ''777''' INTO by_id;
	RETURN NEXT;
END $$;
SELECT * FROM state();

-- Types, defaults, generated columns: whatever writes the table anew.
ALTER TABLE a ALTER COLUMN id TYPE bigint;
SELECT * FROM state();
ALTER TABLE a ALTER COLUMN v TYPE text USING v::text, ADD COLUMN r float8 DEFAULT random(),
	ADD COLUMN g int GENERATED ALWAYS AS (length(t)) STORED;
SELECT * FROM state();
SELECT sum(g), count(DISTINCT r) FROM a;
ALTER TABLE a ALTER COLUMN v TYPE int USING v::int, DROP COLUMN r, DROP COLUMN g;
ALTER TABLE a ALTER COLUMN t SET NOT NULL, ADD CHECK (id > 0),
	ALTER COLUMN large SET STORAGE EXTERNAL;
ALTER TABLE a ADD CHECK (id > 5);
ALTER TABLE a ALTER COLUMN id TYPE int USING CASE WHEN id = 500 THEN 1 / (id - 500) ELSE id END;
SELECT * FROM state();
SELECT pg_typeof(id) FROM a LIMIT 1;
ALTER TABLE a ALTER COLUMN id TYPE int;

-- From leanstore to heap and back, with and without other changes, rolled back too.
ALTER TABLE a SET ACCESS METHOD heap;
SELECT * FROM state();
UPDATE a SET v = v + 0 WHERE id % 3 = 0;
DELETE FROM a WHERE id = 2;
ALTER TABLE a SET ACCESS METHOD leanstore;
SELECT * FROM state();
INSERT INTO a VALUES (2, 2, 't2');
UPDATE a SET v = v + 1 WHERE id = 2;
BEGIN;
ALTER TABLE a SET ACCESS METHOD heap;
DELETE FROM a WHERE id > 500;
ROLLBACK;
SELECT * FROM state();
BEGIN;
UPDATE a SET v = 106 WHERE id = 2;
ALTER TABLE a SET ACCESS METHOD heap, ALTER COLUMN id TYPE bigint, ADD COLUMN extra int DEFAULT 3;
UPDATE a SET v = 106 WHERE id = 3;
COMMIT;
SELECT * FROM state();
ALTER TABLE a SET ACCESS METHOD DEFAULT, DROP COLUMN extra, ALTER COLUMN id TYPE int;
SELECT * FROM state();
INSERT INTO a VALUES (777, 0, 'duplicate');
CREATE TABLE like_a (LIKE a INCLUDING ALL) USING heap;
CREATE MATERIALIZED VIEW mv USING heap AS SELECT id FROM a WHERE v = 106;
ALTER MATERIALIZED VIEW mv SET ACCESS METHOD leanstore;
REFRESH MATERIALIZED VIEW mv;
SELECT count(*) FROM mv;

-- To another tablespace and back, table and indexes, inside and outside of transactions.
SET allow_in_place_tablespaces = true;
CREATE TABLESPACE regress_ls_space LOCATION '';
ALTER TABLE a SET TABLESPACE regress_ls_space;
SELECT * FROM state();
SELECT spcname FROM pg_class c JOIN pg_tablespace s ON s.oid = reltablespace
	WHERE c.oid = 'a'::regclass;
ALTER INDEX a_v SET TABLESPACE regress_ls_space;
ALTER INDEX a_pkey SET TABLESPACE regress_ls_space;
UPDATE a SET v = v + 1;
UPDATE a SET v = v - 1;
SELECT * FROM state();
BEGIN;
UPDATE a SET v = 0;
ALTER TABLE a SET TABLESPACE pg_default;
ALTER INDEX a_v SET TABLESPACE pg_default;
ROLLBACK;
SELECT * FROM state();
BEGIN;
UPDATE a SET v = 106 WHERE id = 4;
ALTER TABLE a SET TABLESPACE pg_default;
UPDATE a SET v = 106 WHERE id = 5;
COMMIT;
SELECT * FROM state();
ALTER TABLE a SET TABLESPACE regress_ls_space, SET ACCESS METHOD heap;
ALTER TABLE a SET TABLESPACE pg_default, SET ACCESS METHOD leanstore;
SELECT * FROM state();
CREATE TABLE there (id int PRIMARY KEY USING INDEX TABLESPACE regress_ls_space, t text)
	TABLESPACE regress_ls_space;
INSERT INTO there SELECT i, repeat('there', 1000) FROM generate_series(1, 100) i;
VACUUM FULL there;
TRUNCATE there;
INSERT INTO there VALUES (1, 'here');
SELECT * FROM there;
ALTER INDEX a_v SET TABLESPACE pg_default;
ALTER INDEX a_pkey SET TABLESPACE pg_default;
DROP TABLE there;
DROP TABLESPACE regress_ls_space;
SELECT * FROM state();

-- LOGGED to UNLOGGED and back.
ALTER TABLE a SET UNLOGGED;
SELECT * FROM state();
UPDATE a SET v = 106 WHERE id = 6;
ALTER TABLE a SET LOGGED;
SELECT * FROM state();
BEGIN; ALTER TABLE a SET UNLOGGED; DELETE FROM a; ROLLBACK;
SELECT * FROM state();

-- Settings of storage that heap takes are taken, or do no harm.
ALTER TABLE a SET (fillfactor = 70);
ALTER TABLE a SET (autovacuum_enabled = false, toast.autovacuum_enabled = false);
ALTER TABLE a RESET (fillfactor);
CREATE TABLE with_options (id int) WITH (fillfactor = 50, parallel_workers = 2);
INSERT INTO with_options SELECT generate_series(1, 1000);
SELECT count(*) FROM with_options;

-- Sizes are those of something that exists.
SELECT pg_relation_size('a') > 0 AS main, pg_table_size('a') >= pg_relation_size('a') AS with_toast,
	pg_total_relation_size('a') > pg_table_size('a') AS total;
TRUNCATE a;
SELECT * FROM state();

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
