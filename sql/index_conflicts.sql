-- ON CONFLICT, exclusion constraints, deferrable uniqueness.
SET default_table_access_method = leanstore;
CREATE SCHEMA index_conflicts;
SET search_path = index_conflicts, public;

-- ON CONFLICT DO NOTHING: existing key, same key twice in one statement, several constraints.
CREATE TABLE oc (id int PRIMARY KEY, k text UNIQUE, n int DEFAULT 0);
INSERT INTO oc VALUES (1, 'a'), (2, 'b');
INSERT INTO oc VALUES (1, 'x') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO oc VALUES (3, 'a') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO oc VALUES (3, 'a') ON CONFLICT (id) DO NOTHING RETURNING *;
INSERT INTO oc VALUES (3, 'c'), (3, 'd'), (4, 'c'), (4, 'd') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO oc VALUES (1, 'x') ON CONFLICT ON CONSTRAINT oc_pkey DO NOTHING;
SELECT * FROM oc ORDER BY id;

-- DO UPDATE: with excluded, with WHERE, of the key itself, with RETURNING of both versions.
INSERT INTO oc VALUES (1, 'ignored', 5), (5, 'e', 5)
	ON CONFLICT (id) DO UPDATE SET n = oc.n + excluded.n;
INSERT INTO oc VALUES (1, 'ignored', 5) ON CONFLICT (id) DO UPDATE SET n = oc.n + excluded.n
	WHERE oc.n < 3 RETURNING *;
INSERT INTO oc VALUES (1, 'ignored', 5) ON CONFLICT (id) DO UPDATE SET n = oc.n + excluded.n
	RETURNING old.n, new.n;
INSERT INTO oc VALUES (9, 'b', 1)
	ON CONFLICT (k) DO UPDATE SET id = excluded.id, n = -1 RETURNING *;
INSERT INTO oc VALUES (9, 'z', 1) ON CONFLICT (id) DO UPDATE SET k = 'a';
SELECT * FROM oc ORDER BY id;
-- The same row twice in one statement is an error, and nothing of it stays.
INSERT INTO oc VALUES (7, 'seven'), (7, 'seven again') ON CONFLICT (id) DO UPDATE SET n = 1;
SELECT count(*) FROM oc WHERE id = 7;
-- A key that was deleted, or updated away, in the same transaction is free.
BEGIN;
DELETE FROM oc WHERE id = 1;
UPDATE oc SET id = 12 WHERE id = 5;
INSERT INTO oc VALUES (1, 'a', 100), (5, 'five', 100)
	ON CONFLICT (id) DO UPDATE SET n = -100 RETURNING *;
INSERT INTO oc VALUES (1, 'a', 100), (5, 'five', 100)
	ON CONFLICT (id) DO UPDATE SET n = -100 RETURNING *;
ROLLBACK;
SELECT * FROM oc ORDER BY id;
-- Partial and expression indexes as arbiters.
CREATE TABLE arb (id int, v text, live bool);
CREATE UNIQUE INDEX ON arb USING btree (id) WHERE live;
CREATE UNIQUE INDEX ON arb USING btree (lower(v));
INSERT INTO arb VALUES (1, 'One', true), (1, 'uno', false);
INSERT INTO arb VALUES (1, 'eins', true)
	ON CONFLICT (id) WHERE live DO UPDATE SET v = excluded.v RETURNING *;
INSERT INTO arb VALUES (1, 'UNO', false)
	ON CONFLICT (lower(v)) DO UPDATE SET v = excluded.v, live = NULL RETURNING *;
INSERT INTO arb VALUES (2, 'zwei', false), (2, 'deux', false)
	ON CONFLICT (id) WHERE live DO NOTHING;
SELECT * FROM arb ORDER BY id, v;
-- Counting up by upsert, many times.
CREATE TABLE counters (k int PRIMARY KEY, n int);
DO $$
BEGIN
	FOR i IN 1..1000 LOOP
		INSERT INTO counters VALUES (i % 10, 1) ON CONFLICT (k) DO UPDATE SET n = counters.n + 1;
	END LOOP;
END $$;
INSERT INTO counters SELECT i, 1 FROM generate_series(0, 99) i
	ON CONFLICT (k) DO UPDATE SET n = counters.n + 1;
SELECT n, count(*), min(k), max(k) FROM counters GROUP BY n ORDER BY n;
-- Triggers see what became of an insertion.
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE '% % %', TG_WHEN, TG_OP, NEW; RETURN NEW; END $$;
CREATE TRIGGER before_row BEFORE INSERT OR UPDATE ON counters FOR EACH ROW EXECUTE FUNCTION tell();
CREATE TRIGGER after_row AFTER INSERT OR UPDATE ON counters FOR EACH ROW EXECUTE FUNCTION tell();
INSERT INTO counters VALUES (1, 7) ON CONFLICT DO NOTHING;
INSERT INTO counters VALUES (1, 7) ON CONFLICT (k) DO UPDATE SET n = excluded.n;
INSERT INTO counters VALUES (1000, 7) ON CONFLICT (k) DO UPDATE SET n = 0;

-- Exclusion constraints.
CREATE TABLE ex (id int PRIMARY KEY, during int4range, room box,
	EXCLUDE USING gist (during WITH &&));
INSERT INTO ex VALUES (1, '[1,5)'), (2, '[5,9)'), (3, NULL), (4, 'empty');
INSERT INTO ex VALUES (5, '[4,6)');
INSERT INTO ex VALUES (5, '[4,6)') ON CONFLICT DO NOTHING RETURNING id;
UPDATE ex SET during = '[1,6)' WHERE id = 1;
UPDATE ex SET during = '[2,5)' WHERE id = 1;
INSERT INTO ex VALUES (5, '[1,2)');
BEGIN; DELETE FROM ex WHERE id = 2; INSERT INTO ex VALUES (6, '[6,7)'); ROLLBACK;
INSERT INTO ex VALUES (6, '[6,7)');
ALTER TABLE ex ADD CONSTRAINT apart EXCLUDE USING gist (room WITH &&) DEFERRABLE INITIALLY DEFERRED;
UPDATE ex SET room = box(point(id, id), point(id, id));
BEGIN;
UPDATE ex SET room = box '((1,1),(2,2))' WHERE id = 1;
UPDATE ex SET room = box '((7,7),(7,7))' WHERE id = 2;
COMMIT;
BEGIN;
UPDATE ex SET room = box '((3,3),(4,4))' WHERE id = 1;
COMMIT;
SELECT id, during, room FROM ex ORDER BY id;
CREATE TABLE ex_hash (v text, EXCLUDE USING hash (v WITH =));
INSERT INTO ex_hash VALUES ('one'), ('two');
INSERT INTO ex_hash VALUES ('two');
-- PERIOD keys without overlap.
CREATE TABLE ex_period (p int4range, r int4range, UNIQUE (r, p WITHOUT OVERLAPS));
INSERT INTO ex_period VALUES ('[1,5)', '[1,2)'), ('[5,9)', '[1,2)'), ('[1,5)', '[2,3)');
INSERT INTO ex_period VALUES ('[4,6)', '[1,2)');
SELECT * FROM ex_period ORDER BY r, p;

-- Deferrable uniqueness: checked at the end of the statement, or of the transaction.
CREATE TABLE df (id int PRIMARY KEY DEFERRABLE, k int UNIQUE DEFERRABLE INITIALLY DEFERRED);
INSERT INTO df SELECT i, i FROM generate_series(1, 10) i;
UPDATE df SET id = id + 1;
UPDATE df SET k = 11 - k;
SELECT min(id), max(id), sum(id * k) FROM df;
UPDATE df SET id = 5 WHERE id = 6;
BEGIN;
UPDATE df SET k = 1 WHERE k = 2;
UPDATE df SET k = 2 WHERE id = (SELECT max(id) FROM df WHERE k = 1);
COMMIT;
BEGIN;
INSERT INTO df VALUES (20, 1);
SELECT count(*) FROM df WHERE k = 1;
COMMIT;
SELECT count(*) FROM df WHERE k = 1;
BEGIN;
INSERT INTO df VALUES (20, 1);
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
BEGIN;
SET CONSTRAINTS df_pkey DEFERRED;
INSERT INTO df VALUES (2, 100);
SAVEPOINT s;
INSERT INTO df VALUES (3, 101);
ROLLBACK TO s;
DELETE FROM df WHERE id = 2 AND k = 100;
COMMIT;
SELECT count(*), sum(id), sum(k) FROM df;
INSERT INTO df VALUES (1, 1) ON CONFLICT (id) DO NOTHING;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
