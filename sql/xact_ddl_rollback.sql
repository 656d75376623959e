-- DDL inside transactions that commit or roll back.
SET default_table_access_method = leanstore;
CREATE SCHEMA xact_ddl_rollback;
SET search_path = xact_ddl_rollback, public;

CREATE TABLE kept (id int PRIMARY KEY, v text);
INSERT INTO kept SELECT i, 'v' || i FROM generate_series(1, 100) i;
\set state 'SELECT count(*), sum(id), min(v), max(v) FROM kept;'
CREATE VIEW kept_view AS SELECT * FROM kept;

-- CREATE TABLE rolled back leaves the name free.
BEGIN;
CREATE TABLE fresh (id int PRIMARY KEY, t text);
INSERT INTO fresh SELECT i, repeat('x', 3000) FROM generate_series(1, 50) i;
UPDATE fresh SET t = 'y' WHERE id > 25;
SELECT count(*), count(DISTINCT t) FROM fresh;
ROLLBACK;
SELECT to_regclass('fresh');
CREATE TABLE fresh (id int PRIMARY KEY, t text);
SELECT count(*) FROM fresh;
INSERT INTO fresh VALUES (1, 'second');
BEGIN;
SAVEPOINT s;
CREATE TABLE in_savepoint (id int);
INSERT INTO in_savepoint VALUES (1);
ROLLBACK TO s;
SELECT to_regclass('in_savepoint');
CREATE TABLE in_savepoint (id text);
INSERT INTO in_savepoint VALUES ('other');
COMMIT;
SELECT * FROM in_savepoint;

-- CREATE TABLE AS, SELECT INTO and materialized views.
BEGIN;
CREATE TABLE as_copy AS SELECT * FROM kept WHERE id <= 10;
SELECT id, v INTO into_copy FROM kept WHERE id > 90;
CREATE MATERIALIZED VIEW as_view AS SELECT id % 10 AS d, count(*) FROM kept GROUP BY 1;
COMMIT;
SELECT (SELECT count(*) FROM as_copy), (SELECT sum(id) FROM into_copy),
	(SELECT sum(count) FROM as_view);
CREATE UNIQUE INDEX ON as_view (d);
DELETE FROM kept WHERE id = 100;
BEGIN; REFRESH MATERIALIZED VIEW as_view; SELECT count FROM as_view WHERE d = 0; ROLLBACK;
SELECT count FROM as_view WHERE d = 0;
REFRESH MATERIALIZED VIEW CONCURRENTLY as_view;
SELECT count FROM as_view WHERE d = 0;
INSERT INTO kept VALUES (100, 'v100');
DROP MATERIALIZED VIEW as_view;

-- DROP rolled back: rows and indexes are all there.
BEGIN;
UPDATE kept SET v = 'changed' WHERE id = 1;
DROP TABLE kept CASCADE;
SELECT to_regclass('kept');
CREATE TABLE kept (other int);
INSERT INTO kept VALUES (1), (2);
ROLLBACK;
:state
SET enable_seqscan = off;
SELECT * FROM kept WHERE id = 77;
RESET enable_seqscan;
INSERT INTO kept VALUES (77, 'duplicate');
BEGIN;
SAVEPOINT s;
DROP VIEW kept_view;
DROP TABLE kept;
ROLLBACK TO s;
UPDATE kept SET v = 'v1' WHERE id = 1;
COMMIT;
:state

-- TRUNCATE: rolled back, committed, twice, with changes before and after it.
BEGIN;
INSERT INTO kept VALUES (101, 'before');
TRUNCATE kept;
SELECT count(*) FROM kept;
INSERT INTO kept VALUES (1, 'after');
SELECT * FROM kept;
TRUNCATE kept;
INSERT INTO kept VALUES (2, 'after again');
ROLLBACK;
:state
BEGIN;
DELETE FROM kept WHERE id = 50;
SAVEPOINT s;
TRUNCATE kept;
INSERT INTO kept VALUES (1, 'x');
ROLLBACK TO s;
:state ROLLBACK;
:state
BEGIN; TRUNCATE fresh; INSERT INTO fresh VALUES (1, 'third'), (2, 'third'); COMMIT;
SELECT * FROM fresh ORDER BY id;
TRUNCATE fresh;
TRUNCATE fresh;
SELECT count(*) FROM fresh;
INSERT INTO fresh VALUES (1, 'fourth');
-- A table made and truncated in one transaction.
BEGIN;
CREATE TABLE made_and_truncated (id int PRIMARY KEY);
INSERT INTO made_and_truncated SELECT generate_series(1, 1000);
TRUNCATE made_and_truncated;
INSERT INTO made_and_truncated VALUES (7);
SAVEPOINT s;
TRUNCATE made_and_truncated;
ROLLBACK TO s;
COMMIT;
SELECT * FROM made_and_truncated;

-- ALTER TABLE that rewrites, rolled back.
DROP VIEW kept_view;
BEGIN;
ALTER TABLE kept ADD COLUMN n int DEFAULT 5, ADD COLUMN r float8 DEFAULT random(),
	ALTER COLUMN v TYPE varchar(10);
UPDATE kept SET n = 6 WHERE id = 1;
SELECT sum(n), count(r) FROM kept;
ROLLBACK;
:state
SELECT * FROM kept WHERE id = 1;
BEGIN;
ALTER TABLE kept ALTER COLUMN id TYPE text USING 'k' || id;
SELECT max(id) FROM kept;
ROLLBACK;
SELECT max(id) FROM kept;
BEGIN; ALTER TABLE kept DROP COLUMN v; INSERT INTO kept VALUES (200); ROLLBACK;
SELECT count(*), count(v) FROM kept;
BEGIN;
SAVEPOINT s;
ALTER TABLE kept ALTER COLUMN id TYPE bigint;
UPDATE kept SET v = 'big';
ROLLBACK TO s;
UPDATE kept SET v = 'small' WHERE id = 1;
COMMIT;
SELECT v, count(*) FROM kept GROUP BY v HAVING count(*) > 1 OR v = 'small';
SELECT pg_typeof(id) FROM kept LIMIT 1;

-- CREATE INDEX, DROP INDEX and constraints, rolled back.
BEGIN; CREATE UNIQUE INDEX kept_v ON kept (v); INSERT INTO kept VALUES (300, 'v300'); ROLLBACK;
SELECT to_regclass('kept_v'), (SELECT count(*) FROM kept WHERE id = 300);
CREATE INDEX kept_v ON kept (v);
BEGIN;
DROP INDEX kept_v;
UPDATE kept SET v = 'w' || id WHERE id <= 50;
INSERT INTO kept VALUES (301, 'w301');
ROLLBACK;
SET enable_seqscan = off;
SELECT count(*) FROM kept WHERE v LIKE 'w%' AND v > 'w';
SELECT id FROM kept WHERE v = 'v33';
RESET enable_seqscan;
BEGIN; ALTER TABLE kept DROP CONSTRAINT kept_pkey; INSERT INTO kept VALUES (1, 'twice'); ROLLBACK;
INSERT INTO kept VALUES (1, 'twice');
BEGIN;
DROP INDEX kept_v;
UPDATE kept SET v = 'w' || id WHERE id <= 50;
CREATE INDEX kept_v ON kept (v);
COMMIT;
SET enable_seqscan = off;
SELECT count(*) FROM kept WHERE v > 'w';
RESET enable_seqscan;

-- Everything at once, rolled back, then committed.
BEGIN;
CREATE TABLE made (id int);
INSERT INTO made SELECT id FROM kept;
DROP TABLE fresh;
TRUNCATE kept;
CREATE TABLE fresh (different text);
INSERT INTO fresh SELECT id FROM made;
ALTER TABLE made RENAME TO renamed;
ROLLBACK;
SELECT to_regclass('made'), to_regclass('renamed'), (SELECT count(*) FROM kept),
	(SELECT t FROM fresh);
BEGIN;
CREATE TABLE made (id int);
INSERT INTO made SELECT id FROM kept;
DROP TABLE fresh;
CREATE TABLE fresh (different text);
INSERT INTO fresh SELECT id FROM made;
ALTER TABLE made RENAME TO renamed;
COMMIT;
SELECT to_regclass('made'), to_regclass('renamed'), (SELECT count(*) FROM renamed),
	(SELECT count(*) FROM fresh);

-- Many tables made and dropped: names and files are free again each time.
DO $$
BEGIN
	FOR i IN 1..30 LOOP
		EXECUTE 'CREATE TABLE again (id int PRIMARY KEY, t text)';
		EXECUTE 'INSERT INTO again SELECT g, $1 FROM generate_series(1, 20) g' USING i::text;
		IF i % 3 = 0 THEN EXECUTE 'TRUNCATE again'; END IF;
		BEGIN
			EXECUTE 'INSERT INTO again VALUES (21)';
			EXECUTE 'DROP TABLE again';
			RAISE EXCEPTION 'undo';
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
		ASSERT (SELECT count(*) FROM again) = CASE WHEN i % 3 = 0 THEN 0 ELSE 20 END;
		EXECUTE 'DROP TABLE again';
	END LOOP;
END $$;
SELECT to_regclass('again');

-- A schema goes with all of its tables.
CREATE SCHEMA doomed
	CREATE TABLE one (id int PRIMARY KEY)
	CREATE TABLE two (id int REFERENCES one);
INSERT INTO doomed.one VALUES (1);
INSERT INTO doomed.two VALUES (1);
SET client_min_messages = warning;
BEGIN; DROP SCHEMA doomed CASCADE; ROLLBACK;
SELECT * FROM doomed.one JOIN doomed.two USING (id);
-- Statements that failed half way leave nothing to be looked at when they are rolled back.
BEGIN;
SAVEPOINT s;
CREATE TABLE half_made USING leanstore AS SELECT 1 / 0;
ROLLBACK TO s;
SAVEPOINT t;
CREATE TABLE half_made USING leanstore AS SELECT 'x' AS v;
ALTER TABLE half_made ALTER v TYPE int USING v::int;
ROLLBACK TO nosuch;
ROLLBACK TO t;
CREATE TABLE half_made USING leanstore AS SELECT 1 AS v;
COMMIT;
SELECT * FROM half_made;
DROP TABLE half_made;
DROP SCHEMA doomed CASCADE;
RESET client_min_messages;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
