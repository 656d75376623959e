-- leanstore indexes: operator classes, conditions, what EXPLAIN says of scans,
-- marks, cursors, dead entries.
CREATE SCHEMA index_ls_scan;
SET search_path = index_ls_scan, public;
SET max_parallel_workers_per_gather = 0;

-- The operator families are btree's.
SELECT count(*) AS classes, bool_and(amvalidate(oid)) AS valid FROM pg_opclass
	WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'leanstore_index');
CREATE VIEW member AS
	SELECT amname, opfname, amoplefttype::regtype, amoprighttype::regtype, amopstrategy AS place,
		amopopr::regoperator::text AS member
	FROM pg_amop JOIN pg_opfamily f ON f.oid = amopfamily JOIN pg_am a ON a.oid = opfmethod
	UNION ALL
	SELECT amname, opfname, amproclefttype::regtype, amprocrighttype::regtype, amprocnum,
		amproc::regprocedure::text
	FROM pg_amproc JOIN pg_opfamily f ON f.oid = amprocfamily JOIN pg_am a ON a.oid = opfmethod
	WHERE amprocnum = 1
	UNION ALL
	SELECT amname, opfname, opcintype::regtype, NULL, NULL, opcname || opcdefault FROM pg_opclass
	JOIN pg_opfamily f ON f.oid = opcfamily JOIN pg_am a ON a.oid = opcmethod;
SELECT 'missing', opfname, amoplefttype, amoprighttype, place, member
	FROM (TABLE member EXCEPT SELECT 'btree', opfname, amoplefttype, amoprighttype, place, member
		FROM member WHERE amname = 'leanstore_index') m
	WHERE amname = 'btree';

CREATE TABLE t (id int, a int, b int2, c text COLLATE "C", n name, d date, pad text)
	USING leanstore;
INSERT INTO t SELECT i, i % 5, i % 1000, 'c' || i % 50, 'n' || i, date '2026-01-01' + i,
	repeat('.', 50) FROM generate_series(1, 10000) i;
INSERT INTO t (id, a, b, c, n, d) VALUES (10001, NULL, NULL, NULL, NULL, NULL),
	(10002, 6, 7, 'c7', 'n7', 'infinity');
CREATE UNIQUE INDEX t_id ON t USING leanstore_index (id);
CREATE INDEX t_ab ON t USING leanstore_index (a, b DESC) INCLUDE (id);
CREATE INDEX t_c ON t USING leanstore_index (c);
CREATE INDEX t_n ON t USING leanstore_index (n);
CREATE INDEX t_d ON t USING leanstore_index (d DESC NULLS LAST);
ANALYZE t;

-- What a scan did.
CREATE FUNCTION did(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) '
		|| query LOOP
		RETURN NEXT line;
	END LOOP;
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT did('SELECT id FROM t WHERE id = 77');
SELECT did('SELECT id FROM t WHERE id = -77');
SELECT did('SELECT id FROM t WHERE id IN (5000, 3, 1, 2, 9000, 3, NULL) ORDER BY id');
SELECT did('SELECT id FROM t WHERE id IN (5000, 3, 1, 2, 9000, 3, NULL) ORDER BY id DESC');
SELECT did('SELECT id FROM t WHERE id > 5 AND id < 3');
SELECT did('SELECT id FROM t WHERE id = (SELECT NULL::int)');
SELECT did('SELECT a, b, id FROM t WHERE b = 500');
SELECT did('SELECT a, b, id FROM t WHERE a >= 0 AND b = 500 ORDER BY a DESC, b');
SELECT
	did('SELECT a, b, id FROM t WHERE (a, b) IN ((2, 7), (4, 504), (3, 3)) AND a IN (2, 3, 4) '
		'AND b IN (3, 7, 504) ORDER BY a, b DESC');
SELECT did('SELECT a, b, id FROM t WHERE (a, id) > (3, 9990)');
RESET enable_bitmapscan;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT did('SELECT * FROM t WHERE b = 500 AND a = 0');
RESET enable_indexscan;
RESET enable_indexonlyscan;

CREATE INDEX t_b ON t USING leanstore_index (b);

-- Arguments of other types of the family, in and out of the column's range; ends of the range.
SET enable_bitmapscan = off;
SELECT count(*) FROM t WHERE b < 5000000000;
SELECT count(*) FROM t WHERE b > -5000000000 AND b <= 32767;
SELECT count(*) FROM t WHERE b = 65543 OR b = -5000000000;
SELECT count(*) FROM t WHERE b IN (7::bigint, 65543, 70000, -40000);
SELECT count(*) FROM t WHERE (a, b) < (0, 65543::bigint);
SELECT count(*) FROM t WHERE (a, b) > (4, -70000);
SELECT count(*) FROM t WHERE d <= timestamp '2026-01-03 12:00';
SELECT count(*) FROM t WHERE d < timestamp '2026-01-03 00:00';
SELECT count(*) FROM t WHERE d = timestamp '2026-01-03 12:00' OR d = timestamp '2026-01-04';
SELECT count(*) FROM t WHERE d > timestamptz '5000-01-01 00:00+00';
SELECT count(*) FROM t WHERE d >= timestamp '-infinity' AND d < timestamp 'infinity';
SELECT count(*) FROM t WHERE d IS NULL;
SELECT n FROM t WHERE n = 'n77'::text OR n = 'n78';
SELECT n FROM t WHERE n LIKE 'n777_' ORDER BY n;
SELECT min(d), max(d), min(b), max(b), min(n), max(n) FROM t;

-- Marks: duplicates on both sides of a merge join that has a bare index scan as its inner side.
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_sort = off;
SET enable_material = off;
EXPLAIN (COSTS off) SELECT count(*), sum(x.id - y.id) FROM t x JOIN t y ON x.b = y.b WHERE x.b < 20;
SELECT count(*), sum(x.id - y.id) FROM t x JOIN t y ON x.b = y.b WHERE x.b < 20;
SELECT count(*), sum(x.id + y.id) FROM t x JOIN t y ON x.a = y.a AND x.b = y.b
	WHERE y.a IN (1, 3) AND x.b BETWEEN 10 AND 40;
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_sort;
RESET enable_material;

-- Cursors: across savepoints, with changes by the same transaction in between.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t
	WHERE id IN (10, 20, 30, 40) OR id BETWEEN 35 AND 38 ORDER BY id;
DECLARE r SCROLL CURSOR FOR SELECT a, b, id FROM t
	WHERE a IN (0, 4) AND b = ANY ('{4,5,999,1000,100}') ORDER BY a DESC, b;
FETCH 2 FROM r;
SAVEPOINT s;
FETCH 3 FROM c;
UPDATE t SET id = -id WHERE id IN (20, 36);
DELETE FROM t WHERE id = 37;
INSERT INTO t (id) VALUES (20039), (20021);
FETCH 3 FROM r;
ROLLBACK TO s;
FETCH BACKWARD 2 FROM r;
FETCH ALL FROM c;
FETCH BACKWARD ALL FROM c;
MOVE LAST FROM r;
FETCH BACKWARD 3 FROM r;
FETCH FIRST FROM r;
FETCH PRIOR FROM r;
COMMIT;

-- An error in the midst of a scan.
DO $$
BEGIN
	PERFORM 1 / (id - 500) FROM t WHERE id > 400 ORDER BY id;
EXCEPTION WHEN division_by_zero THEN
	RAISE NOTICE 'divided';
END $$;

-- Entries of rows that are dead to all are removed by the scan that meets them.
CREATE TABLE queue (id int, pad text) USING leanstore WITH (autovacuum_enabled = off);
CREATE INDEX queue_id ON queue USING leanstore_index (id);
INSERT INTO queue SELECT i, 'queue' FROM generate_series(1, 500) i;
DELETE FROM queue WHERE id < 450;
DO $$
DECLARE
	before bigint;
	read bigint;
BEGIN
	FOR i IN 1 .. 600 LOOP
		before := pg_stat_get_xact_tuples_returned('queue_id'::regclass);
		PERFORM FROM queue ORDER BY id LIMIT 1;
		read := pg_stat_get_xact_tuples_returned('queue_id'::regclass) - before;
		EXIT WHEN read = 1;
		PERFORM pg_sleep(0.05);
	END LOOP;
	RAISE NOTICE 'entries read for one row: %', read;
END $$;
SELECT count(*), min(id), max(id) FROM queue WHERE id > 0;
SELECT leanstore_check('t'), leanstore_check('queue');

DROP SCHEMA index_ls_scan CASCADE;
