-- An update of an indexed column leaves the row where it is, if only plain leanstore indexes have
-- the column.
CREATE EXTENSION IF NOT EXISTS leanstore_am;
SET default_table_access_method = leanstore;
-- leanstore_accel may be loaded, and EXPLAIN tells of it
SET leanstore_accel.plan_cache = off;

CREATE TABLE st (id int PRIMARY KEY, a int, b text COLLATE "C", c int, d numeric, e int, f int,
	g int, h int[], i text COLLATE "und-x-icu", j int) WITH (fillfactor = 100);
CREATE INDEX ON st (a);
CREATE INDEX ON st (b DESC NULLS FIRST, a);
CREATE UNIQUE INDEX ON st (c);
CREATE INDEX ON st (d);
CREATE INDEX ON st ((e + 1));
CREATE INDEX ON st (id) WHERE f > 0;
CREATE INDEX ON st USING btree (g);
CREATE INDEX ON st USING gin (h);
CREATE INDEX ON st (i);
CREATE INDEX ON st USING brin (j);
INSERT INTO st SELECT n, n, 'b' || n, n, n, n, n, n, ARRAY[n], 'i' || n, n
	FROM generate_series(1, 100) n;

-- these stay
UPDATE st SET a = 1000 WHERE id = 1 RETURNING old.ctid = new.ctid AS stays,
	'a, of two indexes' AS what;
UPDATE st SET b = NULL WHERE id = 2 RETURNING old.ctid = new.ctid AS stays,
	'b becomes null' AS what;
UPDATE st SET a = a + 1000, b = 'x', j = 500 WHERE id = 3 RETURNING old.ctid = new.ctid AS stays,
	'and a summarizing index' AS what;
UPDATE st SET i = 'y' WHERE id = 18 RETURNING old.ctid = new.ctid AS stays, 'ICU' AS what;
UPDATE st SET a = a, c = c WHERE id = 4 RETURNING old.ctid = new.ctid AS stays,
	'nothing changes' AS what;
-- these move
UPDATE st SET c = 1000 WHERE id = 11 RETURNING old.ctid = new.ctid AS stays, 'unique' AS what;
UPDATE st SET a = 1001, c = 1001 WHERE id = 12
	RETURNING old.ctid = new.ctid AS stays, 'both' AS what;
UPDATE st SET d = 1000 WHERE id = 13 RETURNING old.ctid = new.ctid AS stays,
	'entries that have more than the key' AS what;
UPDATE st SET e = 1000 WHERE id = 14 RETURNING old.ctid = new.ctid AS stays, 'expression' AS what;
UPDATE st SET f = 1000 WHERE id = 15 RETURNING old.ctid = new.ctid AS stays, 'predicate' AS what;
UPDATE st SET g = 1000 WHERE id = 16 RETURNING old.ctid = new.ctid AS stays, 'btree' AS what;
UPDATE st SET h = ARRAY[1000] WHERE id = 17 RETURNING old.ctid = new.ctid AS stays, 'gin' AS what;
SELECT leanstore_check('st');

-- Each row once, by its present key, whatever the plan.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT id, a FROM st WHERE a IN (1, 2, 3, 1000, 1003) ORDER BY a;
SELECT id FROM st WHERE a < 5 ORDER BY a DESC;
SELECT id, b FROM st WHERE b IS NULL;
SELECT count(*), count(DISTINCT id) FROM st WHERE a > 0;
SELECT max(a), min(b) FROM st;
EXPLAIN (COSTS OFF) SELECT a FROM st WHERE a BETWEEN 1 AND 4;
SELECT a FROM st WHERE a BETWEEN 1 AND 4;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SET enable_bitmapscan = on;
SELECT id, a FROM st WHERE a IN (1, 2, 3, 1000, 1003) ORDER BY a;
SELECT id FROM st WHERE a = 1 OR b = 'b3';
RESET enable_indexscan;
RESET enable_indexonlyscan;

-- An update that walks the index that it changes meets no row twice; and back again.
UPDATE st SET a = a + 1 WHERE a > 10;
UPDATE st SET a = a + 10 WHERE a > 0;
SELECT count(*), sum(a) FROM st WHERE a > 0;
BEGIN;
UPDATE st SET a = a - 10;
SAVEPOINT s;
UPDATE st SET a = -a;
SELECT count(*) FROM st WHERE a > 0;
ROLLBACK TO s;
SELECT count(*), sum(a) FROM st WHERE a > 0;
ROLLBACK;
SELECT count(*), sum(a) FROM st WHERE a > 0;
-- a cursor keeps what it saw
BEGIN;
DECLARE c CURSOR FOR SELECT id, a FROM st WHERE a < 20 ORDER BY a;
FETCH 2 FROM c;
UPDATE st SET a = 15 WHERE id > 50;
UPDATE st SET a = 16 WHERE id < 10;
FETCH ALL FROM c;
SELECT count(*) FROM st WHERE a = 15;
ROLLBACK;
SELECT leanstore_check('st');

-- In the order of the index, into new files.
CLUSTER st USING st_a_idx;
SELECT count(*), count(DISTINCT id), sum(a) FROM st WHERE a > 0;
SELECT leanstore_check('st');

-- Keys of other types than the column's: drivers send them.
PREPARE by_bigint(bigint) AS SELECT id FROM st WHERE id = $1;
EXECUTE by_bigint(7);
EXECUTE by_bigint(4294967303);
EXECUTE by_bigint(-9223372036854775808);
EXECUTE by_bigint(NULL);
SELECT id FROM st WHERE id = 7::smallint;
PREPARE two(bigint, text) AS SELECT id FROM st WHERE a = $1 AND b = $2;
EXECUTE two(30, 'b19');
EXECUTE two(4294967326, 'b19');
EXPLAIN (COSTS OFF) EXECUTE by_bigint(7);

DROP TABLE st;
