-- Row locking clauses in one session; system columns.
SET default_table_access_method = leanstore;
CREATE SCHEMA lock_clauses_system_columns;
SET search_path = lock_clauses_system_columns, public;

CREATE TABLE l (id int PRIMARY KEY, v int);
CREATE TABLE other (id int PRIMARY KEY, l_id int REFERENCES l);
INSERT INTO l SELECT i, i * 10 FROM generate_series(1, 10) i;
INSERT INTO other SELECT i, i FROM generate_series(1, 5) i;

-- Each strength, each way of waiting, several on one row, in one transaction.
BEGIN;
SELECT * FROM l WHERE id = 1 FOR KEY SHARE;
SELECT * FROM l WHERE id = 1 FOR SHARE;
SELECT * FROM l WHERE id = 1 FOR NO KEY UPDATE;
SELECT * FROM l WHERE id = 1 FOR UPDATE;
SELECT * FROM l WHERE id = 1 FOR KEY SHARE;
SELECT * FROM l WHERE id IN (1, 2) ORDER BY id FOR UPDATE NOWAIT;
SELECT * FROM l WHERE id IN (2, 3) ORDER BY id FOR UPDATE SKIP LOCKED;
UPDATE l SET v = v + 1 WHERE id = 1 RETURNING v;
SELECT * FROM l WHERE id = 1 FOR UPDATE;
UPDATE l SET id = 100 WHERE id = 8;
SELECT * FROM l WHERE id = 100 FOR UPDATE;
DELETE FROM l WHERE id = 100;
SELECT * FROM l WHERE id = 100 FOR UPDATE;
ROLLBACK;

-- Locks taken, then changes, within savepoints that come and go.
BEGIN;
SELECT * FROM l WHERE id = 1 FOR SHARE;
SAVEPOINT a;
SELECT * FROM l WHERE id = 1 FOR UPDATE;
UPDATE l SET v = -1 WHERE id = 1;
ROLLBACK TO a;
SELECT * FROM l WHERE id = 1 FOR UPDATE;
SAVEPOINT b;
DELETE FROM l WHERE id = 6;
ROLLBACK TO b;
SELECT * FROM l WHERE id = 6 FOR UPDATE;
UPDATE l SET v = v + 1 WHERE id IN (1, 6);
RELEASE a;
COMMIT;
SELECT * FROM l WHERE id IN (1, 6) ORDER BY id;

-- Joins: only the named table; several strengths at once; outer joins, sub-selects, views.
SELECT o.id, l.v FROM other o JOIN l ON l.id = o.l_id WHERE o.id < 3 ORDER BY o.id FOR UPDATE OF o;
SELECT o.id, l.v FROM other o JOIN l ON l.id = o.l_id WHERE o.id < 3 ORDER BY o.id
	FOR UPDATE OF o FOR SHARE OF l;
SELECT l.id, o.id FROM l LEFT JOIN other o ON l.id = o.l_id WHERE l.id BETWEEN 4 AND 7 ORDER BY l.id
	FOR UPDATE OF l SKIP LOCKED;
SELECT l.id FROM l LEFT JOIN other o ON l.id = o.l_id FOR UPDATE OF o;
SELECT * FROM (SELECT id FROM l WHERE id < 3 FOR UPDATE) x ORDER BY id;
WITH locked AS (SELECT id FROM l WHERE id IN (3, 4) FOR UPDATE) UPDATE l SET v = 0 FROM locked
	WHERE l.id = locked.id;
SELECT id, v FROM l WHERE v = 0 ORDER BY id;
SELECT id FROM l ORDER BY v DESC LIMIT 2 FOR UPDATE;
SELECT id FROM l ORDER BY id LIMIT 2 OFFSET 3 FOR UPDATE SKIP LOCKED;
SELECT count(*) FROM l FOR UPDATE;
SELECT DISTINCT v FROM l FOR SHARE;
CREATE VIEW lv AS SELECT id FROM l;
SELECT * FROM lv WHERE id = 2 FOR UPDATE;
-- In functions, at REPEATABLE READ, in read-only transactions.
CREATE FUNCTION lock_it(i int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE r int; BEGIN SELECT v INTO r FROM l WHERE id = i FOR UPDATE; RETURN r; END $$;
SELECT lock_it(2), lock_it(999);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT id FROM l WHERE id = 2 FOR UPDATE;
UPDATE l SET v = 22 WHERE id = 2;
COMMIT;
BEGIN READ ONLY; SELECT id FROM l WHERE id = 2 FOR UPDATE; ROLLBACK;
SELECT v FROM l WHERE id = 2;
-- A locked row's new version, found by key, by ctid, by a cursor.
BEGIN;
DECLARE c CURSOR FOR SELECT id, v FROM l WHERE id = 5 FOR UPDATE;
FETCH c;
UPDATE l SET v = 55 WHERE CURRENT OF c;
SELECT v FROM l WHERE id = 5 FOR UPDATE;
COMMIT;
-- Many locks; locks of rows beside large values.
BEGIN;
CREATE TABLE big AS SELECT i AS id, CASE WHEN i % 50 = 0 THEN repeat('x', 20000) END AS t
	FROM generate_series(1, 1000) i;
SELECT count(*) FROM (SELECT id FROM big FOR UPDATE) x;
SELECT count(*) FROM (SELECT id FROM big WHERE id % 2 = 0 FOR SHARE) x;
UPDATE big SET id = -id WHERE id % 3 = 0;
SELECT count(*), sum(id), sum(length(t)) FROM (SELECT id, t FROM big FOR KEY SHARE) x;
COMMIT;
SELECT count(*), sum(id), sum(length(t)) FROM big;
-- LOCK TABLE does not care for the access method.
BEGIN; LOCK TABLE l; LOCK TABLE big IN SHARE ROW EXCLUSIVE MODE; SELECT count(*) FROM l; ROLLBACK;

-- System columns.
CREATE TABLE s (id int PRIMARY KEY, v int);
INSERT INTO s VALUES (1, 1), (2, 2);
SELECT tableoid::regclass, id, xmin::text <> '0' AS has_xmin, ctid IS NOT NULL AS has_ctid
	FROM s ORDER BY id;
BEGIN;
INSERT INTO s VALUES (3, 3);
UPDATE s SET v = 20 WHERE id = 2;
SELECT id, xmin::text <> '0' AS has_xmin FROM s ORDER BY id;
SELECT count(xmin), count(xmax), count(cmin), count(cmax), count(ctid), count(tableoid) FROM s;
COMMIT;
INSERT INTO s VALUES (4, 4) RETURNING tableoid::regclass, xmin::text <> '0' AS has_xmin,
	ctid IS NOT NULL AS has_ctid;
UPDATE s SET v = 40 WHERE id = 4 RETURNING tableoid::regclass, xmin::text <> '0' AS has_xmin,
	ctid = (SELECT ctid FROM s WHERE id = 3) AS same_as_other;
WITH u AS (UPDATE s SET v = v + 1 RETURNING tableoid::regclass AS t, id, ctid)
	SELECT count(DISTINCT ctid), count(*), min(t::text) FROM u;
DELETE FROM s WHERE id = 4 RETURNING tableoid::regclass, ctid IS NOT NULL AS has_ctid,
	xmax = pg_current_xact_id()::xid AS xmax_ours;
SELECT count(*) FROM s a, s b WHERE a.ctid = b.ctid AND a.id <> b.id;
SELECT id FROM s WHERE tableoid = 's'::regclass ORDER BY id;
SELECT id FROM s WHERE tableoid = 'l'::regclass;
-- Rows that ON CONFLICT has updated were locked before, and xmax says so.
INSERT INTO s VALUES (1, 10), (5, 50) ON CONFLICT (id) DO UPDATE SET v = excluded.v
	RETURNING id, xmax <> 0 AS updated;
-- An in-place reader of the system columns sees each version's own.
CREATE TABLE seen (id int, has_xmin bool);
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO seen SELECT id, xmin::text <> '0' FROM s WHERE id = NEW.id; RETURN NULL; END $$;
CREATE TRIGGER look AFTER UPDATE ON s FOR EACH ROW EXECUTE FUNCTION look();
UPDATE s SET v = 0 WHERE id = 1;
SELECT * FROM seen;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
