-- A scan takes all rows of a leaf at once, a slot fills in system columns when they are wanted, and
-- COPY fills a leaf at a time: what is seen must not tell.
SET default_table_access_method = leanstore;
CREATE SCHEMA scan_rows;
SET search_path = scan_rows, public;

CREATE TABLE wide (id int PRIMARY KEY, v int, t text, big bigint[]);
INSERT INTO wide SELECT i, i % 7, repeat(chr(97 + i % 26), i % 90), ARRAY[i, i + 1]
	FROM generate_series(1, 1500) i;

-- Cursors: to and fro over leaves, over rows with older versions, behind the ends
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id, v FROM wide;
FETCH 2 FROM c;
UPDATE wide SET v = v + 100 WHERE id % 3 = 0;
DELETE FROM wide WHERE id % 10 = 4;
FETCH 3 FROM c;
FETCH BACKWARD 4 FROM c;
MOVE 200 FROM c;
FETCH BACKWARD 3 FROM c;
FETCH 3 FROM c;
MOVE FORWARD ALL FROM c;
FETCH BACKWARD 2 FROM c;
FETCH 3 FROM c;
FETCH BACKWARD 1 FROM c;
MOVE BACKWARD ALL FROM c;
FETCH 2 FROM c;
DECLARE now SCROLL CURSOR FOR SELECT id, v FROM wide;
FETCH 5 FROM now;
FETCH BACKWARD 2 FROM now;
ROLLBACK;

-- A held cursor, and a current row that the cursor has passed into another leaf with
BEGIN;
DECLARE h CURSOR WITH HOLD FOR SELECT id, t, big, ctid FROM wide WHERE id % 300 = 1;
FETCH 1 FROM h;
DECLARE u CURSOR FOR SELECT id FROM wide FOR UPDATE;
MOVE 77 FROM u;
UPDATE wide SET v = -1 WHERE CURRENT OF u RETURNING id, ctid;
FETCH 1 FROM u;
DELETE FROM wide WHERE CURRENT OF u RETURNING id, v, t, big;
COMMIT;
DELETE FROM wide WHERE id BETWEEN 595 AND 605;
VACUUM wide;
FETCH ALL FROM h;
CLOSE h;

-- Two scans of a table, one inside of the other; rows that are kept while the scan goes on
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_indexscan = off;
SET enable_bitmapscan = off;
SET enable_material = off;
SELECT count(*), sum(a.id), sum(b.v), min(a.t || b.t) FROM wide a
	JOIN wide b ON b.id = a.id + 40 AND b.id < 300 WHERE a.id < 250;
SELECT a.id, b.id, a.xmin = b.xmin, a.ctid, b.ctid
	FROM wide a, LATERAL (SELECT id, xmin, ctid FROM wide b WHERE b.id > a.id LIMIT 1) b
	WHERE a.id IN (50, 100, 700);
SET enable_material = on;
SET enable_mergejoin = on;
SET enable_nestloop = off;
SELECT count(*), sum(length(a.t)), sum(b.big[2]) FROM wide a JOIN wide b ON a.v = b.v AND a.id < 60;
RESET enable_hashjoin;
RESET enable_indexscan;
RESET enable_bitmapscan;
RESET enable_nestloop;
SELECT array_agg(w.id), array_agg(w.big), (array_agg(w))[2]
	FROM (SELECT * FROM wide WHERE id % 250 = 0) w;

-- System columns of rows that were read, stored, changed, copied
CREATE TABLE sys (id int, t text);
INSERT INTO sys VALUES (1, 'a'), (2, NULL)
	RETURNING ctid, xmin::text = pg_current_xact_id()::xid::text AS own, xmax, tableoid::regclass;
SELECT ctid, xmin <> '0' AS has_xmin, xmax, cmin, tableoid::regclass, sys FROM sys;
UPDATE sys SET t = 'b' RETURNING ctid, xmin::text = pg_current_xact_id()::xid::text AS own, t;
BEGIN;
DELETE FROM sys WHERE id = 1 RETURNING ctid, xmin <> '0' AS has_xmin,
	xmax::text = pg_current_xact_id()::xid::text AS own, t;
SELECT ctid, xmax FROM sys ORDER BY ctid;
ROLLBACK;
SELECT s.ctid, s.xmin = z.xmin AS same FROM sys s CROSS JOIN (SELECT xmin FROM sys LIMIT 1) z
	ORDER BY s.t, s.ctid;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE NOTICE '% old % new %', tg_op, OLD, NEW;
  RETURN NULL;
END $$;
CREATE TRIGGER t AFTER UPDATE OR DELETE ON sys FOR EACH ROW EXECUTE FUNCTION tell();
UPDATE sys SET id = id + 10;
DELETE FROM sys WHERE id = 11;
DROP TABLE sys;
DROP FUNCTION tell();

-- Columns that rows do not have, or have lost
ALTER TABLE wide ADD COLUMN added int DEFAULT 5, DROP COLUMN t;
INSERT INTO wide SELECT i, NULL, NULL, i FROM generate_series(2001, 2003) i;
SELECT count(*), sum(added), count(v), count(big) FROM wide;
SELECT * FROM wide WHERE id IN (1, 2, 2001);

-- COPY: many leaves, rows of any size, and back
CREATE TABLE loaded (id int, u int DEFAULT 1,
	t text GENERATED ALWAYS AS (CASE WHEN id % 5 > 0 THEN repeat('x', id * id % 3500) END) STORED);
BEGIN;
SAVEPOINT s;
COPY loaded (id) FROM PROGRAM 'seq 1 2000';
SELECT count(*), count(t), sum(length(t)), sum(u) FROM loaded;
ROLLBACK TO s;
SELECT count(*) FROM loaded;
COPY loaded (id) FROM PROGRAM 'seq 1 2000';
UPDATE loaded SET u = -u WHERE id % 2 = 0;
SAVEPOINT s;
DELETE FROM loaded WHERE id > 500;
COPY loaded (id) FROM PROGRAM 'seq 1 2000';
ROLLBACK TO s;
COMMIT;
SELECT count(*), count(t), sum(length(t)), sum(u) FROM loaded;
SELECT leanstore_check('loaded') IS NOT NULL AS good;
BEGIN;
TRUNCATE loaded;
COPY loaded (id) FROM PROGRAM 'seq 1 2000' WITH (FREEZE);
COMMIT;
SELECT count(*), sum(u) FROM loaded;
SET client_min_messages = warning;
DROP SCHEMA scan_rows CASCADE;
