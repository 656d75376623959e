-- Temporary tables with each ON COMMIT action, unlogged tables.
SET default_table_access_method = leanstore;
CREATE SCHEMA temp_unlogged;
SET search_path = temp_unlogged, public;

-- Temporary: every change, index, large value, rollback.
CREATE TEMP TABLE tmp (id int PRIMARY KEY, v int, t text);
SELECT amname FROM pg_class c JOIN pg_am m ON m.oid = relam WHERE c.oid = 'tmp'::regclass;
INSERT INTO tmp SELECT i, i % 10, CASE WHEN i % 100 = 0 THEN repeat(md5(i::text), 300) END
	FROM generate_series(1, 2000) i;
CREATE INDEX tmp_v ON tmp USING btree (v);
UPDATE tmp SET v = v + 1 WHERE id % 3 = 0;
DELETE FROM tmp WHERE id % 7 = 0;
BEGIN;
UPDATE tmp SET v = 0;
DELETE FROM tmp WHERE id < 1000;
SAVEPOINT s;
TRUNCATE tmp;
ROLLBACK TO s;
SELECT count(*) FROM tmp;
ROLLBACK;
SELECT count(*), sum(id), sum(v), sum(length(t)) FROM tmp;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM tmp WHERE v = 5;
RESET enable_seqscan;
ANALYZE tmp;
SELECT reltuples FROM pg_class WHERE oid = 'tmp'::regclass;
VACUUM tmp;
VACUUM FULL tmp;
CLUSTER tmp USING tmp_pkey;
ALTER TABLE tmp ALTER COLUMN v TYPE text;
SELECT count(*), sum(id), sum(v::int), sum(length(t)) FROM tmp;
TRUNCATE tmp;
INSERT INTO tmp VALUES (1, '1', 'one');
SELECT * FROM tmp;
-- It hides a permanent table of the same name, and is gone with the session.
CREATE TABLE tmp2 (who text);
INSERT INTO tmp2 VALUES ('permanent');
CREATE TEMP TABLE tmp2 (who text);
INSERT INTO tmp2 VALUES ('temporary');
SELECT * FROM tmp2;
SELECT * FROM temp_unlogged.tmp2;
DROP TABLE tmp2;
SELECT * FROM tmp2;

-- ON COMMIT DELETE ROWS, DROP, PRESERVE ROWS.
CREATE TEMP TABLE del (id int PRIMARY KEY, t text) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO del SELECT i, repeat('d', 5000) FROM generate_series(1, 50) i;
SELECT count(*) FROM del;
COMMIT;
SELECT count(*) FROM del;
BEGIN;
INSERT INTO del VALUES (1);
SAVEPOINT s;
INSERT INTO del VALUES (2);
ROLLBACK TO s;
SELECT count(*) FROM del;
ROLLBACK;
DO $$
BEGIN
	FOR i IN 1..10 LOOP
		INSERT INTO del VALUES (1, i::text);
		ASSERT (SELECT t FROM del) = i::text;
		COMMIT;
	END LOOP;
END $$;
BEGIN;
CREATE TEMP TABLE dropped ON COMMIT DROP AS SELECT generate_series(1, 100) AS id;
CREATE TEMP TABLE kept ON COMMIT PRESERVE ROWS AS SELECT generate_series(1, 100) AS id;
SELECT (SELECT count(*) FROM dropped), (SELECT count(*) FROM kept);
COMMIT;
SELECT to_regclass('dropped'), (SELECT count(*) FROM kept);
-- Foreign keys among them; a permanent one may not refer to it.
CREATE TEMP TABLE tmp_parent (id int PRIMARY KEY);
CREATE TEMP TABLE tmp_child (id int REFERENCES tmp_parent ON DELETE CASCADE);
INSERT INTO tmp_parent VALUES (1);
INSERT INTO tmp_child VALUES (1);
INSERT INTO tmp_child VALUES (2);
DELETE FROM tmp_parent;
SELECT count(*) FROM tmp_child;
-- Cursors over them, a dropped one inside a transaction that rolls back.
BEGIN;
DECLARE c CURSOR FOR SELECT count(*) FROM kept;
DELETE FROM kept WHERE id <= 40;
FETCH c;
CLOSE c;
DROP TABLE kept;
ROLLBACK;
SELECT count(*) FROM kept;
-- Many of them, and rows copied to and from permanent tables.
DO $$
BEGIN
	FOR i IN 1..20 LOOP
		EXECUTE format('CREATE TEMP TABLE many_%s AS SELECT g AS id FROM generate_series(1, %s) g',
			i, i);
	END LOOP;
END $$;
CREATE TABLE collected (n int, id int);
DO $$
BEGIN
	FOR i IN 1..20 LOOP
		EXECUTE format('INSERT INTO collected SELECT %s, id FROM many_%s', i, i);
	END LOOP;
END $$;
SELECT count(*), sum(id) FROM collected;
DISCARD TEMP;
SELECT to_regclass('kept'), to_regclass('tmp'), (SELECT count(*) FROM collected);

-- A new session has none of it, and its own of the same name.
\c -
SET default_table_access_method = leanstore;
SET search_path = temp_unlogged, public;
SELECT to_regclass('pg_temp.tmp');
CREATE TEMP TABLE tmp (other text);
INSERT INTO tmp VALUES ('other session');
SELECT * FROM tmp;

-- Unlogged: every change, index, large value, rollback, truncation.
CREATE UNLOGGED TABLE un (id int PRIMARY KEY, v int, t text);
CREATE INDEX un_v ON un USING btree (v);
INSERT INTO un SELECT i, i % 10, CASE WHEN i % 100 = 0 THEN repeat(md5(i::text), 300) END
	FROM generate_series(1, 2000) i;
UPDATE un SET v = v + 1 WHERE id % 3 = 0;
DELETE FROM un WHERE id % 7 = 0;
BEGIN; UPDATE un SET v = 0; DELETE FROM un WHERE id < 1000; ROLLBACK;
SELECT count(*), sum(id), sum(v), sum(length(t)) FROM un;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM un WHERE v = 5;
RESET enable_seqscan;
BEGIN; TRUNCATE un; INSERT INTO un VALUES (1); ROLLBACK;
VACUUM FULL un;
REINDEX TABLE un;
SELECT count(*), sum(id), sum(v), sum(length(t)) FROM un;
CHECKPOINT;
TRUNCATE un;
INSERT INTO un VALUES (1, 1, 'one');
SELECT * FROM un;
CREATE UNLOGGED SEQUENCE un_seq;
CREATE UNLOGGED TABLE un_child (id int REFERENCES un, n int DEFAULT nextval('un_seq'));
INSERT INTO un_child VALUES (1), (1);
SELECT * FROM un_child ORDER BY n;
-- A permanent and an unlogged table in one transaction.
CREATE TABLE logged (id int);
BEGIN; INSERT INTO logged VALUES (1); INSERT INTO un VALUES (2); ROLLBACK;
BEGIN; INSERT INTO logged VALUES (3); INSERT INTO un VALUES (3); COMMIT;
SELECT (SELECT array_agg(id ORDER BY id) FROM logged), (SELECT array_agg(id ORDER BY id) FROM un);

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
