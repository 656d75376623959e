-- PREPARE TRANSACTION, COMMIT PREPARED and ROLLBACK PREPARED.
CREATE TABLE tp (id int PRIMARY KEY, v int, t text) USING leanstore;
CREATE INDEX tp_v ON tp (v);
CREATE INDEX tp_t ON tp USING btree (t);
CREATE TABLE tp_heap (id int PRIMARY KEY, v int) USING heap;
CREATE VIEW tp_all AS SELECT id, v, left(t, 10) AS t, length(t) FROM tp ORDER BY id;
INSERT INTO tp SELECT i, i, 'row ' || i FROM generate_series(1, 5) i;

-- Every kind of change; nothing of it is seen before the end.
BEGIN;
INSERT INTO tp VALUES (10, 10, 'new');
UPDATE tp SET v = v + 100 WHERE id = 1;
UPDATE tp SET t = t || ' changed' WHERE id = 2;
UPDATE tp SET t = repeat('long ', 2000) WHERE id = 3;
DELETE FROM tp WHERE id = 4;
INSERT INTO tp_heap VALUES (1, 1);
PREPARE TRANSACTION 'regress_tp_1';
SELECT * FROM tp_all;
SELECT * FROM tp_heap;
SELECT gid, database = current_database() FROM pg_prepared_xacts ORDER BY gid;
COMMIT PREPARED 'regress_tp_1';
SELECT * FROM tp_all;
SELECT * FROM tp_heap;

BEGIN;
INSERT INTO tp VALUES (11, 11, 'new');
UPDATE tp SET v = v + 1000, t = 'gone';
DELETE FROM tp WHERE id IN (1, 11);
UPDATE tp SET id = id + 100 WHERE id = 5;
DELETE FROM tp_heap;
PREPARE TRANSACTION 'regress_tp_1';
SELECT * FROM tp_all;
SELECT count(*) FROM tp WHERE v > 1000;
ROLLBACK PREPARED 'regress_tp_1';
SELECT * FROM tp_all;
SELECT * FROM tp_heap;
SELECT leanstore_check('tp');

-- Savepoints: what was rolled back is not prepared; what was released is.
BEGIN;
SAVEPOINT a;
INSERT INTO tp VALUES (20, 20, 'a');
SAVEPOINT b;
UPDATE tp SET v = -1;
ROLLBACK TO b;
UPDATE tp SET v = -2 WHERE id = 1;
RELEASE a;
DO $$
BEGIN
	FOR i IN 1..60 LOOP
		BEGIN
			INSERT INTO tp VALUES (20 + i, 0, 'loop');
			IF i % 2 = 0 THEN
				RAISE division_by_zero;
			END IF;
		EXCEPTION
			WHEN division_by_zero THEN
				NULL;
		END;
	END LOOP;
END $$;
PREPARE TRANSACTION 'regress_tp_1';
SELECT count(*), min(v) FROM tp;
COMMIT PREPARED 'regress_tp_1';
SELECT count(*), min(v), count(*) FILTER (WHERE t = 'loop') FROM tp;
DELETE FROM tp WHERE id >= 20;

-- Several at a time, ended in another order; the session is free for more, also in the meantime.
BEGIN; UPDATE tp SET v = 1 WHERE id = 1; PREPARE TRANSACTION 'regress_tp_1';
BEGIN; UPDATE tp SET v = 2 WHERE id = 2; PREPARE TRANSACTION 'regress_tp_2';
BEGIN; UPDATE tp SET v = 3 WHERE id = 3; PREPARE TRANSACTION 'regress_tp_3';
UPDATE tp SET v = 10 WHERE id = 10;
SELECT id FROM tp ORDER BY id FOR UPDATE SKIP LOCKED;
SELECT id FROM tp WHERE id = 1 FOR KEY SHARE NOWAIT;
\set VERBOSITY sqlstate
SELECT id FROM tp WHERE id = 1 FOR UPDATE NOWAIT;
\set VERBOSITY default
COMMIT PREPARED 'regress_tp_3';
ROLLBACK PREPARED 'regress_tp_1';
COMMIT PREPARED 'regress_tp_2';
SELECT id, v FROM tp ORDER BY id;

-- Row locks alone.
BEGIN;
SELECT id FROM tp WHERE id IN (1, 2) ORDER BY id FOR SHARE;
PREPARE TRANSACTION 'regress_tp_1';
SELECT id FROM tp ORDER BY id FOR UPDATE SKIP LOCKED;
COMMIT PREPARED 'regress_tp_1';
SELECT id FROM tp ORDER BY id FOR UPDATE SKIP LOCKED;

-- Only read; nothing at all; an unlogged table.
BEGIN; SELECT count(*) FROM tp; PREPARE TRANSACTION 'regress_tp_1';
COMMIT PREPARED 'regress_tp_1';
BEGIN;
SELECT count(*) FROM tp;
INSERT INTO tp_heap VALUES (2, 2);
PREPARE TRANSACTION 'regress_tp_1';
ROLLBACK PREPARED 'regress_tp_1';
BEGIN; SAVEPOINT a; UPDATE tp SET v = 0; ROLLBACK TO a; PREPARE TRANSACTION 'regress_tp_1';
COMMIT PREPARED 'regress_tp_1';
CREATE UNLOGGED TABLE tp_unlogged (id int) USING leanstore;
BEGIN; INSERT INTO tp_unlogged VALUES (1); PREPARE TRANSACTION 'regress_tp_1';
SELECT * FROM tp_unlogged;
COMMIT PREPARED 'regress_tp_1';
SELECT * FROM tp_unlogged;

-- The server's own refusals; each rolls the transaction back.
BEGIN; UPDATE tp SET v = 77 WHERE id = 5; PREPARE TRANSACTION 'regress_tp_1';
BEGIN; UPDATE tp SET v = 88 WHERE id = 10; PREPARE TRANSACTION 'regress_tp_1';
ROLLBACK PREPARED 'regress_tp_1';
BEGIN;
CREATE TEMP TABLE tp_temp (id int) USING leanstore;
INSERT INTO tp VALUES (30);
PREPARE TRANSACTION 'regress_tp_1';
COMMIT PREPARED 'regress_tp_1';
BEGIN; INSERT INTO tp VALUES (1); PREPARE TRANSACTION 'regress_tp_1';
SELECT count(*) FROM pg_prepared_xacts;
SELECT id, v FROM tp ORDER BY id;

DROP VIEW tp_all;
-- Files that were made, replaced or dropped: back as they were, or for good.
BEGIN; CREATE TABLE tp_new (id int) USING leanstore; PREPARE TRANSACTION 'regress_tp_1';
BEGIN; TRUNCATE tp; INSERT INTO tp VALUES (1, 1, 'new'); PREPARE TRANSACTION 'regress_tp_2';
ROLLBACK PREPARED 'regress_tp_1';
ROLLBACK PREPARED 'regress_tp_2';
SELECT count(*), to_regclass('tp_new') FROM tp;
BEGIN; DROP TABLE tp; PREPARE TRANSACTION 'regress_tp_1';
ROLLBACK PREPARED 'regress_tp_1';
BEGIN; UPDATE tp SET v = v + 1; ALTER TABLE tp ALTER v TYPE bigint; CREATE INDEX ON tp (v, id);
PREPARE TRANSACTION 'regress_tp_1';
ROLLBACK PREPARED 'regress_tp_1';
SELECT sum(v), pg_typeof(min(v)) FROM tp;
SELECT leanstore_check('tp');
BEGIN; UPDATE tp SET v = v + 1; ALTER TABLE tp ALTER v TYPE bigint; CREATE INDEX ON tp (v, id);
PREPARE TRANSACTION 'regress_tp_1';
COMMIT PREPARED 'regress_tp_1';
SELECT sum(v), pg_typeof(min(v)) FROM tp;
SELECT leanstore_check('tp');
UPDATE tp SET v = v - 1;
ALTER TABLE tp ALTER v TYPE int;
-- Refused by the server when the engine has done its part.
BEGIN; CREATE TABLE tp_new (id int) USING leanstore; INSERT INTO tp_new VALUES (1);
PREPARE TRANSACTION 'regress_tp_2';
BEGIN; DELETE FROM tp; DROP TABLE tp CASCADE; CREATE TABLE tp_new2 (id int) USING leanstore;
PREPARE TRANSACTION 'regress_tp_2';
SELECT count(*), to_regclass('tp_new2') FROM tp;
COMMIT PREPARED 'regress_tp_2';
SELECT count(*) FROM tp_new;
DROP TABLE tp_new;
BEGIN;
CREATE TABLE tp_new (id int) USING heap;
INSERT INTO tp_new SELECT id FROM tp;
UPDATE tp SET v = 0;
ALTER TABLE tp RENAME v TO w;
PREPARE TRANSACTION 'regress_tp_1';
COMMIT PREPARED 'regress_tp_1';
SELECT count(*) FROM tp_new;
SELECT sum(w) FROM tp;
ALTER TABLE tp RENAME w TO v;

-- VACUUM FULL waits for the end, and finds nothing of what was rolled back.
BEGIN;
INSERT INTO tp SELECT i, i, 'rolled back' FROM generate_series(100, 300) i;
PREPARE TRANSACTION 'regress_tp_1';
ROLLBACK PREPARED 'regress_tp_1';
VACUUM FULL tp;
SELECT count(*) FROM tp;
SELECT leanstore_check('tp');
SELECT leanstore_check('tp_unlogged');
DROP TABLE tp, tp_heap, tp_new, tp_unlogged;
