-- Commit, rollback and nested savepoints.
SET default_table_access_method = leanstore;
CREATE SCHEMA xact_savepoints;
SET search_path = xact_savepoints, public;

CREATE TABLE sp (id int PRIMARY KEY, v text);
CREATE INDEX ON sp USING btree (v);
INSERT INTO sp VALUES (1, 'base'), (2, 'base'), (3, 'base');

-- Rollback of each kind of change, and of all of them to one row.
BEGIN; INSERT INTO sp VALUES (4, 'new'); ROLLBACK;
BEGIN; UPDATE sp SET v = 'changed'; ROLLBACK;
BEGIN; DELETE FROM sp WHERE id < 3; ROLLBACK;
BEGIN; UPDATE sp SET id = id + 10; ROLLBACK;
BEGIN;
UPDATE sp SET v = 'one' WHERE id = 1;
UPDATE sp SET id = 11 WHERE id = 1;
UPDATE sp SET v = 'two' WHERE id = 11;
DELETE FROM sp WHERE id = 11;
INSERT INTO sp VALUES (1, 'other');
UPDATE sp SET v = 'three' WHERE id = 1;
SELECT * FROM sp ORDER BY id;
ROLLBACK;
SELECT * FROM sp ORDER BY id;

-- The index finds what the rollback restored, and nothing else.
SET enable_seqscan = off;
SELECT id FROM sp WHERE v = 'base' ORDER BY id;
SELECT id FROM sp WHERE v IN ('new', 'changed', 'one', 'two', 'three', 'other');
SELECT v FROM sp WHERE id IN (1, 4, 11);
RESET enable_seqscan;

-- A savepoint takes back only what came after it.
BEGIN;
INSERT INTO sp VALUES (4, 'kept');
UPDATE sp SET v = 'kept' WHERE id = 1;
SAVEPOINT a;
UPDATE sp SET v = 'lost' WHERE id = 1;
UPDATE sp SET v = 'lost' WHERE id = 2;
DELETE FROM sp WHERE id = 3;
DELETE FROM sp WHERE id = 4;
INSERT INTO sp VALUES (5, 'lost');
ROLLBACK TO a;
SELECT * FROM sp ORDER BY id;
COMMIT;
SELECT * FROM sp ORDER BY id;

-- Nested: release, rollback of the outer one takes the released inner one.
BEGIN;
SAVEPOINT a;
INSERT INTO sp VALUES (10, 'a');
SAVEPOINT b;
UPDATE sp SET v = 'b' WHERE id = 10;
SAVEPOINT c;
UPDATE sp SET v = 'c' WHERE id = 10;
SELECT v FROM sp WHERE id = 10;
ROLLBACK TO c;
SELECT v FROM sp WHERE id = 10;
UPDATE sp SET v = 'c again' WHERE id = 10;
RELEASE c;
SELECT v FROM sp WHERE id = 10;
ROLLBACK TO b;
SELECT v FROM sp WHERE id = 10;
UPDATE sp SET v = 'b again' WHERE id = 10;
RELEASE b;
SELECT v FROM sp WHERE id = 10;
ROLLBACK TO a;
SELECT count(*) FROM sp WHERE id = 10;
INSERT INTO sp VALUES (10, 'a again');
RELEASE a;
COMMIT;
SELECT * FROM sp WHERE id = 10;

-- The same savepoint rolled back to again and again.
BEGIN;
SAVEPOINT s;
UPDATE sp SET v = v || '1' WHERE id = 1;
ROLLBACK TO s;
UPDATE sp SET v = v || '2' WHERE id = 1;
ROLLBACK TO s;
UPDATE sp SET v = v || '3' WHERE id = 1;
SAVEPOINT s;
UPDATE sp SET v = v || '4' WHERE id = 1;
ROLLBACK TO s;
COMMIT;
SELECT v FROM sp WHERE id = 1;

-- An error inside a savepoint; without one the whole transaction is lost.
BEGIN;
UPDATE sp SET v = 'before error' WHERE id = 2;
SAVEPOINT e;
INSERT INTO sp VALUES (20, 'twenty'), (1, 'duplicate');
ROLLBACK TO e;
INSERT INTO sp VALUES (20, 'after error');
COMMIT;
SELECT * FROM sp WHERE id IN (2, 20) ORDER BY id;
BEGIN;
UPDATE sp SET v = 'lost' WHERE id = 2;
SELECT 1 / 0;
SELECT 1;
COMMIT;
SELECT v FROM sp WHERE id = 2;

-- Exception blocks are savepoints: many of them, of which every third fails.
CREATE TABLE blocks (id int PRIMARY KEY, v int);
DO $$
BEGIN
	FOR i IN 1..300 LOOP
		BEGIN
			INSERT INTO blocks VALUES (i, 0);
			UPDATE blocks SET v = v + 1 WHERE id IN (i, i - 1);
			IF i % 3 = 0 THEN RAISE EXCEPTION 'third'; END IF;
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
	END LOOP;
END $$;
SELECT count(*), sum(id), sum(v), count(*) FILTER (WHERE id % 3 = 0) AS thirds FROM blocks;
SELECT v, count(*) FROM blocks GROUP BY v ORDER BY v;

-- More nested savepoints than a snapshot can list.
BEGIN;
DO $$
DECLARE i int;
BEGIN
	FOR i IN 1..100 LOOP
		BEGIN
			INSERT INTO blocks VALUES (1000 + i, i);
		EXCEPTION WHEN division_by_zero THEN NULL;
		END;
	END LOOP;
END $$;
SELECT count(*), sum(v) FROM blocks WHERE id > 1000;
SAVEPOINT big;
UPDATE blocks SET v = -v WHERE id > 1000;
DELETE FROM blocks WHERE id > 1050;
SELECT count(*), sum(v) FROM blocks WHERE id > 1000;
ROLLBACK TO big;
SELECT count(*), sum(v) FROM blocks WHERE id > 1000;
ROLLBACK;
SELECT count(*) FROM blocks WHERE id > 1000;

-- A deep nest, rolled back from the middle.
CREATE FUNCTION nest(depth int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE blocks SET v = depth WHERE id = 1;
	INSERT INTO blocks VALUES (2000 + depth, depth);
	IF depth < 40 THEN
		PERFORM nest(depth + 1);
	END IF;
	IF depth = 20 THEN RAISE EXCEPTION 'halfway'; END IF;
EXCEPTION WHEN raise_exception THEN NULL;
END $$;
SELECT nest(1);
SELECT v, (SELECT count(*) FROM blocks WHERE id > 2000) AS left, (SELECT max(id) FROM blocks) AS max
	FROM blocks WHERE id = 1;

-- Procedures that commit and roll back as they go.
CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..20 LOOP
		INSERT INTO blocks VALUES (3000 + i, i);
		IF i % 2 = 0 THEN COMMIT; ELSE ROLLBACK; END IF;
	END LOOP;
END $$;
CALL steps();
SELECT array_agg(v ORDER BY v) FROM blocks WHERE id > 3000;

-- COMMIT AND CHAIN; a read-only transaction; isolation levels in one session.
BEGIN ISOLATION LEVEL REPEATABLE READ;
UPDATE sp SET v = 'chained' WHERE id = 3;
COMMIT AND CHAIN;
SHOW transaction_isolation;
UPDATE sp SET v = 'not chained' WHERE id = 3;
ROLLBACK;
SELECT v FROM sp WHERE id = 3;
BEGIN READ ONLY;
UPDATE sp SET v = 'x';
ROLLBACK;

-- A large rolled back transaction over all rows, and the table afterwards.
CREATE TABLE large_undo (id int PRIMARY KEY, v int, pad text);
INSERT INTO large_undo SELECT i, i, repeat('u', 100) FROM generate_series(1, 2000) i;
BEGIN;
UPDATE large_undo SET v = v + 1, pad = repeat('w', 150);
DELETE FROM large_undo WHERE id % 2 = 0;
INSERT INTO large_undo SELECT i, i, '' FROM generate_series(5001, 7000) i;
UPDATE large_undo SET id = -id WHERE id % 3 = 0;
ROLLBACK;
SELECT count(*), sum(id), sum(v), sum(length(pad)), min(pad) = max(pad) AS same FROM large_undo;
BEGIN;
SAVEPOINT s;
DELETE FROM large_undo;
INSERT INTO large_undo SELECT i, 0, 'n' FROM generate_series(1, 2000) i;
ROLLBACK TO s;
UPDATE large_undo SET v = 0 WHERE id <= 1000;
COMMIT;
SELECT count(*), sum(id), sum(v), sum(length(pad)) FROM large_undo;

-- Both access methods in one transaction agree on its fate.
CREATE TABLE on_heap (id int) USING heap;
CREATE TABLE on_leanstore (id int) USING leanstore;
BEGIN; INSERT INTO on_heap VALUES (1); INSERT INTO on_leanstore VALUES (1); COMMIT;
BEGIN; INSERT INTO on_leanstore VALUES (2); INSERT INTO on_heap VALUES (2); ROLLBACK;
BEGIN;
INSERT INTO on_heap VALUES (3);
SAVEPOINT s;
INSERT INTO on_leanstore VALUES (4);
INSERT INTO on_heap VALUES (4);
ROLLBACK TO s;
INSERT INTO on_leanstore VALUES (3);
COMMIT;
SELECT (SELECT array_agg(id ORDER BY id) FROM on_heap) AS heap,
	(SELECT array_agg(id ORDER BY id) FROM on_leanstore) AS leanstore;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
