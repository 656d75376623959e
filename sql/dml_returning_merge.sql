-- INSERT, UPDATE, DELETE, MERGE and what they return.
SET default_table_access_method = leanstore;
CREATE SCHEMA dml_returning_merge;
SET search_path = dml_returning_merge, public;

CREATE TABLE dml_item (id int, name text, qty int DEFAULT 1, note text);

-- The table under test is what it claims to be.
SELECT a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = 'dml_item'::regclass;

-- INSERT returns what was stored, defaults included.
INSERT INTO dml_item (id, name) VALUES (1, 'one') RETURNING *;
INSERT INTO dml_item VALUES (2, 'two', 2, NULL), (3, 'three', 3, 'x')
	RETURNING id, qty + 1 AS more, note;
INSERT INTO dml_item DEFAULT VALUES RETURNING *;
DELETE FROM dml_item WHERE id IS NULL RETURNING id IS NULL AS was_null, qty;
INSERT INTO dml_item SELECT i, 'n' || i, i, CASE WHEN i % 2 = 0 THEN 'even' END
	FROM generate_series(4, 10) i;
SELECT * FROM dml_item ORDER BY id;

-- UPDATE: none, one, many, self-assignment, NULL, from another table.
UPDATE dml_item SET qty = 0 WHERE id = 99;
UPDATE dml_item SET qty = qty * 10 WHERE id = 3 RETURNING *;
UPDATE dml_item SET name = name WHERE id = 3 RETURNING name;
UPDATE dml_item SET note = NULL WHERE id = 3 RETURNING note IS NULL AS is_null;
UPDATE dml_item SET (name, note) = (SELECT 'sub', 'select') WHERE id = 4 RETURNING *;
WITH u AS (UPDATE dml_item SET qty = qty + 100 WHERE id > 5 RETURNING id, qty)
	SELECT * FROM u ORDER BY id;
CREATE TABLE dml_price (id int, price numeric(10, 2));
INSERT INTO dml_price SELECT i, i * 1.5 FROM generate_series(1, 5) i;
WITH u AS (UPDATE dml_item i SET note = p.price::text FROM dml_price p WHERE p.id = i.id
	RETURNING i.id, i.note, p.price)
SELECT * FROM u ORDER BY id;

-- A row joined twice is updated once.
CREATE TABLE dml_twice (id int, v int);
INSERT INTO dml_twice VALUES (1, 0);
UPDATE dml_twice SET v = v + 1 FROM generate_series(1, 5) WHERE id = 1;
SELECT * FROM dml_twice;

-- OLD and NEW in RETURNING.
UPDATE dml_item SET qty = qty - 1 WHERE id = 1 RETURNING old.qty AS before, new.qty AS after;
INSERT INTO dml_item VALUES (11, 'eleven') RETURNING old.id, new.id;
DELETE FROM dml_item WHERE id = 11 RETURNING old.name, new.name;

-- Row comes and goes several times inside one transaction.
BEGIN;
INSERT INTO dml_item VALUES (20, 'a');
UPDATE dml_item SET name = 'b' WHERE id = 20;
UPDATE dml_item SET name = 'c', qty = 7 WHERE id = 20;
SELECT * FROM dml_item WHERE id = 20;
DELETE FROM dml_item WHERE id = 20;
SELECT count(*) FROM dml_item WHERE id = 20;
INSERT INTO dml_item VALUES (20, 'again');
SELECT * FROM dml_item WHERE id = 20;
COMMIT;
SELECT * FROM dml_item WHERE id = 20;

-- DELETE: USING, sub-select, everything, and again.
WITH d AS (DELETE FROM dml_item i USING dml_price p WHERE p.id = i.id AND p.price > 5
	RETURNING i.id, p.price)
SELECT * FROM d ORDER BY id;
DELETE FROM dml_item WHERE id = (SELECT max(id) FROM dml_item) RETURNING id;
SELECT id, name, qty, note FROM dml_item ORDER BY id;
DELETE FROM dml_item;
DELETE FROM dml_item;
SELECT count(*) FROM dml_item;
INSERT INTO dml_item VALUES (1, 'reborn') RETURNING *;

-- A statement does not see its own insertions.
CREATE TABLE dml_double (i int);
INSERT INTO dml_double VALUES (1), (2), (3);
INSERT INTO dml_double SELECT i + 10 FROM dml_double;
INSERT INTO dml_double SELECT i + 100 FROM dml_double;
SELECT array_agg(i ORDER BY i) FROM dml_double;
-- Nor its own updates, even those that move a row forward in an index.
CREATE TABLE dml_halloween (i int PRIMARY KEY DEFERRABLE);
INSERT INTO dml_halloween SELECT generate_series(1, 500);
SET enable_seqscan = off;
UPDATE dml_halloween SET i = i + 1000 WHERE i >= 1;
SELECT count(*), min(i), max(i) FROM dml_halloween;
UPDATE dml_halloween SET i = i + 1 WHERE i > 0;
SELECT count(*), min(i), max(i) FROM dml_halloween;
RESET enable_seqscan;

-- Data-modifying WITH: all parts see the same snapshot.
WITH ins AS (INSERT INTO dml_double VALUES (999) RETURNING i),
     del AS (DELETE FROM dml_double WHERE i = 1 RETURNING i)
SELECT (SELECT i FROM ins) AS inserted, (SELECT i FROM del) AS deleted,
       (SELECT count(*) FROM dml_double WHERE i IN (1, 999)) AS seen;
SELECT count(*) FROM dml_double WHERE i IN (1, 999);
WITH moved AS (DELETE FROM dml_double WHERE i < 100 RETURNING i),
	back AS (INSERT INTO dml_twice SELECT i, -i FROM moved RETURNING *)
SELECT count(*), sum(v) FROM back;
SELECT id, v FROM dml_twice ORDER BY id, v;

-- MERGE with every kind of action.
CREATE TABLE dml_target (id int PRIMARY KEY, val int, origin text DEFAULT 'target');
CREATE TABLE dml_source (id int, delta int);
INSERT INTO dml_target VALUES (1, 10), (2, 20), (3, 30), (4, 40);
INSERT INTO dml_source VALUES (2, 2), (3, 0), (5, 5), (6, -1);
MERGE INTO dml_target t USING dml_source s ON t.id = s.id
WHEN MATCHED AND s.delta = 0 THEN DELETE
WHEN MATCHED THEN UPDATE SET val = t.val + s.delta, origin = 'merged'
WHEN NOT MATCHED AND s.delta > 0 THEN INSERT VALUES (s.id, s.delta, 'source')
WHEN NOT MATCHED THEN DO NOTHING;
SELECT * FROM dml_target ORDER BY id;
WITH m AS (
	MERGE INTO dml_target t USING dml_source s ON t.id = s.id
	WHEN MATCHED THEN UPDATE SET val = -t.val
	WHEN NOT MATCHED BY TARGET THEN INSERT (id, val) VALUES (s.id, s.delta)
	WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN DELETE
	WHEN NOT MATCHED BY SOURCE THEN UPDATE SET origin = 'alone'
	RETURNING merge_action() AS action, old.val AS before, new.val AS after, t.id)
SELECT * FROM m ORDER BY id;
SELECT * FROM dml_target ORDER BY id;
-- A target row matched twice is an error, and nothing is left of the statement.
INSERT INTO dml_source VALUES (2, 1);
MERGE INTO dml_target t USING dml_source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET val = 0;
SELECT id, val FROM dml_target WHERE id = 2;
-- MERGE that changes the key.
MERGE INTO dml_target t USING (VALUES (2, 102), (4, 104)) s (id, new_id) ON t.id = s.id
WHEN MATCHED THEN UPDATE SET id = s.new_id;
SELECT id FROM dml_target ORDER BY id;

-- Constraints: the statement that violates one leaves nothing.
CREATE TABLE dml_checked (id int NOT NULL, v int CHECK (v > 0));
INSERT INTO dml_checked VALUES (1, 1), (2, 2);
INSERT INTO dml_checked VALUES (3, 3), (4, -4);
INSERT INTO dml_checked VALUES (3, 3), (NULL, 4);
UPDATE dml_checked SET v = v - 1;
SELECT * FROM dml_checked ORDER BY id;

-- Many rows changed many times.
CREATE TABLE dml_many (id int PRIMARY KEY, v int, pad text);
INSERT INTO dml_many SELECT i, 0, repeat('p', i % 50) FROM generate_series(1, 3000) i;
UPDATE dml_many SET v = v + 1;
UPDATE dml_many SET v = v + 1, pad = pad || pad WHERE id % 3 = 0;
UPDATE dml_many SET pad = 'short' WHERE id % 5 = 0;
DELETE FROM dml_many WHERE id % 7 = 0;
INSERT INTO dml_many SELECT i, 7, 'new' FROM generate_series(7, 3000, 14) i;
SELECT count(*), sum(id), sum(v), sum(length(pad)) FROM dml_many;
SELECT v, count(*), sum(id) FROM dml_many GROUP BY v ORDER BY v;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
