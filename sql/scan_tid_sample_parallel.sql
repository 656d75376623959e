-- TID scans, TABLESAMPLE, parallel sequential scans.
SET default_table_access_method = leanstore;
CREATE SCHEMA scan_tid_sample_parallel;
SET search_path = scan_tid_sample_parallel, public;

CREATE TABLE t (id int PRIMARY KEY, v int, pad text);
INSERT INTO t SELECT i, i % 10, repeat('x', 100) FROM generate_series(1, 2000) i;

-- A row is found by its ctid, by that of several, and through joins.
SELECT id FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 1234);
SELECT id FROM t
	WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE id IN (5, 500, 1500))) ORDER BY id;
SELECT count(*) FROM t a JOIN t b ON a.ctid = b.ctid WHERE a.id = b.id;
SELECT count(DISTINCT ctid) FROM t;
UPDATE t SET v = 100 WHERE ctid = (SELECT ctid FROM t WHERE id = 7) RETURNING id, v;
DELETE FROM t WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE id BETWEEN 11 AND 20));
SELECT count(*) FROM t;
MERGE INTO t USING (SELECT ctid AS c FROM t WHERE id = 8) s ON t.ctid = s.c
	WHEN MATCHED THEN UPDATE SET v = 200;
SELECT v FROM t WHERE id = 8;
-- No row, or none any more, under a ctid.
SELECT id FROM t WHERE ctid = '(4000000,1)';
SELECT id FROM t WHERE ctid = '(0,0)';
SELECT id FROM t WHERE ctid = '(4294967295,65535)';
SELECT id FROM t WHERE ctid IS NULL OR ctid = NULL;
SELECT ctid AS gone FROM t WHERE id = 30 \gset
DELETE FROM t WHERE id = 30;
SELECT id FROM t WHERE ctid = :'gone';
-- Within a transaction: own insertion, own deletion.
BEGIN;
INSERT INTO t VALUES (5000, 1, '');
SELECT id FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 5000);
SELECT ctid AS mine FROM t WHERE id = 5000 \gset
DELETE FROM t WHERE id = 5000;
SELECT id FROM t WHERE ctid = :'mine';
ROLLBACK;
SELECT id FROM t WHERE ctid = :'mine';
-- A range of ctids, bounded on one side or on both, holds what a filter by comparison finds.
SELECT ctid AS low FROM t WHERE id = 300 \gset
SELECT ctid AS high FROM t WHERE id = 900 \gset
SELECT count(*) AS all_rows, count(*) FILTER (WHERE ctid < :'low')
	+ count(*) FILTER (WHERE ctid >= :'low') = count(*) AS halves FROM t;
SELECT (SELECT count(*) FROM t WHERE ctid < :'low') + (SELECT count(*) FROM t WHERE ctid >= :'low')
	= (SELECT count(*) FROM t) AS halves;
SELECT (SELECT array_agg(id ORDER BY id) FROM t WHERE ctid > :'low' AND ctid <= :'high')
	= (SELECT array_agg(id ORDER BY id) FROM t
		WHERE (ctid > :'low' AND ctid <= :'high') IS TRUE) AS same;
SELECT (SELECT count(*) FROM t WHERE ctid <= :'low')
	- (SELECT count(*) FROM t WHERE ctid < :'low') AS one;
SELECT count(*) FROM t WHERE ctid < '(0,0)';
SELECT count(*) = (SELECT count(*) FROM t) AS everything FROM t WHERE ctid >= '(0,0)';
SELECT count(*) FROM t WHERE ctid > '(4000000,1)';
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM t WHERE ctid >= :'low' AND ctid <= :'high';
MOVE FORWARD ALL IN c;
CREATE TEMP TABLE back USING heap AS SELECT 0 AS n LIMIT 0;
DO $$
DECLARE
	i int;
	c refcursor := 'c';
BEGIN
	LOOP
		FETCH PRIOR FROM c INTO i;
		EXIT WHEN NOT FOUND;
		INSERT INTO back VALUES (i);
	END LOOP;
END $$;
SELECT (SELECT array_agg(n ORDER BY n) FROM back) = (SELECT array_agg(id ORDER BY id) FROM t
	WHERE ctid >= :'low' AND ctid <= :'high') AS same;
COMMIT;
-- After everything has moved.
UPDATE t SET id = id + 10000;
SELECT count(*) FROM t a JOIN t b ON a.ctid = b.ctid WHERE a.id = b.id;
SELECT id FROM t WHERE ctid = (SELECT ctid FROM t WHERE id = 11234);

-- TABLESAMPLE: all, none, repeatable, of a table with holes and of an empty one.
DELETE FROM t WHERE id % 3 = 0;
SELECT count(*) FROM t;
SELECT count(*) FROM t TABLESAMPLE bernoulli (100);
SELECT count(*) FROM t TABLESAMPLE system (100);
SELECT count(*), count(DISTINCT id), sum(v) = (SELECT sum(v) FROM t) AS same
	FROM t TABLESAMPLE system (100) WHERE v < 1000;
SELECT count(*) FROM t TABLESAMPLE bernoulli (0);
SELECT count(*) FROM t TABLESAMPLE system (0);
SELECT (SELECT array_agg(id ORDER BY id) FROM t TABLESAMPLE bernoulli (40) REPEATABLE (7))
	= (SELECT array_agg(id ORDER BY id)
		FROM t TABLESAMPLE bernoulli (40) REPEATABLE (7)) AS bernoulli_same,
	(SELECT array_agg(id ORDER BY id) FROM t TABLESAMPLE system (40) REPEATABLE (7))
		IS NOT DISTINCT FROM (SELECT array_agg(id ORDER BY id)
			FROM t TABLESAMPLE system (40) REPEATABLE (7)) AS system_same;
SELECT count(*) BETWEEN 300 AND 1000 AS about_half FROM t TABLESAMPLE bernoulli (50) REPEATABLE (1);
SELECT count(*)
	FROM (SELECT id FROM t TABLESAMPLE bernoulli (30) REPEATABLE (2) EXCEPT SELECT id FROM t) x;
BEGIN; DELETE FROM t; SELECT count(*) FROM t TABLESAMPLE bernoulli (100); ROLLBACK;
CREATE TABLE empty (id int);
SELECT count(*) FROM empty TABLESAMPLE system (100);
SELECT count(*) FROM empty TABLESAMPLE bernoulli (100);

-- Parallel scans give what a single process gives.
CREATE TABLE p (id int PRIMARY KEY, v int, t text);
INSERT INTO p SELECT i, i % 100, 't' || i FROM generate_series(1, 20000) i;
UPDATE p SET v = -1 WHERE id % 500 = 0;
DELETE FROM p WHERE id % 7 = 0;
CREATE INDEX p_v ON p USING btree (v);
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
CREATE FUNCTION is_parallel(query text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	plan text;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
	RETURN plan LIKE '%"Parallel Aware": true%';
END $$;
SELECT is_parallel('SELECT count(*), sum(id), sum(v) FROM p');
SELECT count(*), sum(id), sum(v) FROM p;
SELECT v, count(*) FROM p GROUP BY v HAVING v < 3 ORDER BY v;
SELECT count(*) FROM p a JOIN p b USING (id) WHERE a.v < 50;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*), sum(id) FROM p WHERE v BETWEEN 10 AND 90;
RESET enable_bitmapscan;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT count(*), sum(id) FROM p WHERE v BETWEEN 10 AND 90;
RESET enable_indexscan;
RESET enable_indexonlyscan;
RESET enable_seqscan;
-- Workers see the leader's own uncommitted changes and those of its savepoints.
BEGIN;
UPDATE p SET v = v + 1000 WHERE id <= 1000;
SAVEPOINT s;
INSERT INTO p SELECT i, 5000, 'own' FROM generate_series(30001, 30100) i;
DELETE FROM p WHERE id BETWEEN 1001 AND 2000;
SELECT count(*), sum(id), sum(v) FROM p;
ROLLBACK TO s;
SELECT count(*), sum(id), sum(v) FROM p;
ROLLBACK;
SELECT count(*), sum(id), sum(v) FROM p;
-- Rescanned under a nested loop; stopped early by a limit; made into a table.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT x.n, count(p.id) FROM (VALUES (1), (2), (3)) x (n)
	LEFT JOIN LATERAL (SELECT id FROM p WHERE v = x.n) p ON true GROUP BY x.n ORDER BY x.n;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT count(*) FROM (SELECT id FROM p LIMIT 10) x;
CREATE TABLE made AS SELECT id, v FROM p WHERE v < 50;
SELECT count(*), sum(id) FROM made;
SELECT count(*) FROM empty;
SET debug_parallel_query = on;
SELECT count(*), max(length(t)) FROM p WHERE id < 500;
RESET debug_parallel_query;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
