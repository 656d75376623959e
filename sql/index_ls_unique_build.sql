-- Uniqueness of leanstore indexes, building, cleaning and files of all kinds.
CREATE SCHEMA index_ls_unique_build;
SET search_path = index_ls_unique_build, public;
SET default_table_access_method = leanstore;

-- Unique, with NULLs and without, of several columns, partial, of expressions.
CREATE TABLE u (id int, a int, b text, c int);
CREATE UNIQUE INDEX u_ab ON u (a, b);
CREATE UNIQUE INDEX u_c ON u (c DESC) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX u_lower ON u (lower(b)) INCLUDE (a) WHERE id > 100;
INSERT INTO u VALUES (1, 1, 'x', 1), (2, 1, NULL, 2), (3, 1, NULL, NULL), (4, NULL, 'x', 4);
INSERT INTO u VALUES (5, 1, 'x', 5);
INSERT INTO u VALUES (5, 2, 'x', NULL);
INSERT INTO u VALUES (6, 2, 'X', 6), (101, 3, 'X', 101);
INSERT INTO u VALUES (102, 4, 'x', 102);
UPDATE u SET id = 200 WHERE id = 6;
UPDATE u SET c = c + 1 WHERE c = 1;
UPDATE u SET c = NULL WHERE c = 1;
UPDATE u SET a = NULL WHERE id = 1;
INSERT INTO u VALUES (7, NULL, 'x', 7);
-- The same key again and again, by deleting, by rolling back, by savepoints.
BEGIN;
DELETE FROM u WHERE c = 7;
INSERT INTO u VALUES (7, NULL, 'x', 7);
UPDATE u SET c = 70 WHERE c = 7;
INSERT INTO u VALUES (8, NULL, 'x', 7);
SAVEPOINT s;
DELETE FROM u WHERE c = 7;
INSERT INTO u VALUES (9, NULL, 'x', 7);
ROLLBACK TO s;
INSERT INTO u VALUES (9, NULL, 'x', 7);
ROLLBACK;
DO $$
BEGIN
	FOR i IN 1..500 LOOP
		UPDATE u SET c = 8 WHERE c = 7;
		UPDATE u SET c = 7 WHERE c = 8;
	END LOOP;
END $$;
DO $$
BEGIN
	FOR i IN 1..100 LOOP
		DELETE FROM u WHERE c = 7;
		INSERT INTO u VALUES (7, NULL, 'x', 7);
		COMMIT;
	END LOOP;
END $$;
SELECT * FROM u ORDER BY id;
SELECT leanstore_check('u');
-- The old row of an update does not count, but another one that is given its row id later does.
BEGIN;
CREATE TABLE again (k int UNIQUE, v int UNIQUE);
INSERT INTO again VALUES (1, 1), (2, 2);
UPDATE again SET v = 3 WHERE k = 1;
UPDATE again SET v = v + 10;
TRUNCATE again;
INSERT INTO again VALUES (1, 1), (2, 2);
SAVEPOINT s;
INSERT INTO again VALUES (1, 3);
ROLLBACK TO s;
INSERT INTO again VALUES (3, 3);
UPDATE again SET k = 2 WHERE k = 1;
ROLLBACK;
-- Deferred.
CREATE TABLE d (id int PRIMARY KEY DEFERRABLE, k int UNIQUE DEFERRABLE INITIALLY DEFERRED,
	n int UNIQUE NULLS NOT DISTINCT DEFERRABLE INITIALLY DEFERRED);
INSERT INTO d SELECT i, i, i FROM generate_series(1, 10) i;
UPDATE d SET id = id + 1;
UPDATE d SET k = 11 - k, n = NULLIF(n, 5);
INSERT INTO d VALUES (12, 1, 12);
INSERT INTO d VALUES (12, 12, NULL);
BEGIN;
INSERT INTO d VALUES (12, 1, 12);
UPDATE d SET k = 100 WHERE id = 12;
INSERT INTO d VALUES (13, 100, NULL);
SELECT leanstore_check('d');
DELETE FROM d WHERE id = 12;
UPDATE d SET n = 13 WHERE id = 13;
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE d SET id = 5;
SAVEPOINT s;
DELETE FROM d WHERE k > 1;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK TO s;
SET CONSTRAINTS ALL IMMEDIATE;
ROLLBACK;
INSERT INTO d VALUES (5, 0, 0) ON CONFLICT (id) DO NOTHING;
INSERT INTO d VALUES (5, 0, 0) ON CONFLICT DO NOTHING RETURNING id;
SELECT leanstore_check('d'), count(*), sum(id), sum(k), sum(n) FROM d;
-- Exclusion by equality.
CREATE TABLE e (a int, b text, EXCLUDE USING leanstore (a WITH =, b WITH =) WHERE (a > 0));
INSERT INTO e VALUES (1, 'a'), (1, 'b'), (0, 'a'), (0, 'a'), (1, NULL), (1, NULL);
INSERT INTO e VALUES (1, 'b');
INSERT INTO e VALUES (1, 'b') ON CONFLICT DO NOTHING;
-- Foreign keys, and what is too long.
CREATE TABLE p (a int, b text, PRIMARY KEY (b, a) INCLUDE (b));
CREATE TABLE f (id int PRIMARY KEY, b text, a int, FOREIGN KEY (a, b) REFERENCES p (a, b)
	ON UPDATE CASCADE ON DELETE SET NULL);
INSERT INTO p VALUES (1, 'one'), (2, 'two');
INSERT INTO f VALUES (1, 'one', 1), (2, 'two', 2);
INSERT INTO f VALUES (3, 'two', 1);
UPDATE p SET b = b || '!';
DELETE FROM p WHERE a = 2;
SELECT * FROM f ORDER BY id;
INSERT INTO p VALUES (3, repeat('x', 900)), (4, repeat('y', 2000));
CREATE TABLE long (id int, v text);
INSERT INTO long SELECT 1, string_agg(md5(i::text), '') FROM generate_series(1, 130) i;
CREATE INDEX long_v ON long (id) INCLUDE (v);
CREATE INDEX long_v ON long (v);
CREATE INDEX long_v ON long (substr(v, 1, 300)) INCLUDE (id);
INSERT INTO long SELECT 2, repeat('long', 10000);
CREATE INDEX long_included ON long (id) INCLUDE (v) WHERE id > 1;
SELECT leanstore_check('p'), leanstore_check('f'), leanstore_check('long');

-- Building: what is in order, what is not, with NULLs at both ends, in little memory.
CREATE TABLE b (i bigint, s text, n int, f bool);
INSERT INTO b SELECT (i * 7919) % 100003, 'k' || (i * 31) % 7000,
	CASE WHEN i % 10 = 0 THEN NULL WHEN i = 11 THEN -2147483648 WHEN i = 12 THEN 2147483647
		ELSE (i * 17) % 500 - 250 END, i % 3 = 0
    FROM generate_series(1, 20000) i;
SET maintenance_work_mem = '64kB';
CREATE UNIQUE INDEX b_i ON b (i);
CREATE INDEX b_i_desc ON b (i DESC) WITH (fillfactor = 30);
CREATE INDEX b_s ON b (s, n) INCLUDE (i);
CREATE INDEX b_n ON b (n);
CREATE INDEX b_n_first ON b (n NULLS FIRST);
CREATE INDEX b_n_desc ON b (n DESC NULLS LAST);
CREATE INDEX b_f ON b (f, n, s DESC);
CREATE UNIQUE INDEX b_n_u ON b (n) NULLS NOT DISTINCT WHERE n IS NULL;
CREATE UNIQUE INDEX b_n_u ON b (n) WHERE n IS NULL;
CREATE UNIQUE INDEX b_s_u ON b (s);
CREATE UNIQUE INDEX b_s_u ON b (s, i) INCLUDE (n);
RESET maintenance_work_mem;
SELECT leanstore_check('b');
SELECT pg_relation_size('b_i_desc') > 2 * pg_relation_size('b_i');
SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;
SELECT count(*) FILTER (WHERE i < before), count(*), max(i)
	FROM (SELECT i, lag(i) OVER () AS before FROM (SELECT i FROM b ORDER BY i) x) y;
SELECT count(*) FILTER (WHERE before IS NULL AND n IS NOT NULL), count(n), count(*)
	FROM (SELECT n, lag(n, 1, 0) OVER () AS before FROM (SELECT n FROM b ORDER BY n) x) y;
SELECT count(*) FILTER (WHERE before IS NOT NULL AND n IS NULL), count(n), count(*)
	FROM (SELECT n, lag(n) OVER () AS before FROM (SELECT n FROM b ORDER BY n NULLS FIRST) x) y;
RESET enable_seqscan; RESET enable_sort; RESET enable_bitmapscan;
REINDEX TABLE b;
REINDEX INDEX CONCURRENTLY b_s;
CREATE UNIQUE INDEX CONCURRENTLY b_concurrently ON b (i, f);
CREATE UNIQUE INDEX CONCURRENTLY b_failed ON b (s);
INSERT INTO b VALUES (-1, 'k1', 0, true);
SELECT indisvalid FROM pg_index WHERE indexrelid = 'b_failed'::regclass;
REINDEX INDEX b_failed;
DELETE FROM b WHERE i > 6900 OR i = -1;
DELETE FROM b x USING b y WHERE x.s = y.s AND x.i < y.i;
REINDEX INDEX b_failed;
SELECT indisvalid FROM pg_index WHERE indexrelid = 'b_failed'::regclass;
DROP INDEX CONCURRENTLY b_s_u;
SELECT leanstore_check('b'), count(*) < 7000 FROM b;
-- In a transaction that changed the table: old versions are for older snapshots, dead rows for
-- none.
BEGIN;
CREATE TABLE t (id int, v int);
INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i;
UPDATE t SET v = v + 1;
DELETE FROM t WHERE id % 2 = 0;
UPDATE t SET id = id - 1 WHERE id % 4 = 1;
CREATE UNIQUE INDEX t_id ON t (id);
CREATE UNIQUE INDEX t_v ON t (v);
TRUNCATE t;
INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;
SAVEPOINT s;
REINDEX TABLE t;
TRUNCATE t;
INSERT INTO t VALUES (1000, 1000);
ROLLBACK TO s;
INSERT INTO t VALUES (50, 0);
ROLLBACK TO s;
COMMIT;
SELECT leanstore_check('t'), count(*) FROM t;
BEGIN; REINDEX TABLE t; DELETE FROM t; DROP INDEX t_v; ROLLBACK;
INSERT INTO t VALUES (0, 50);
BEGIN; TRUNCATE t; INSERT INTO t VALUES (1, 1); COMMIT;
CLUSTER t USING t_id;
VACUUM FULL t;
ALTER TABLE t ALTER id TYPE bigint;
SELECT leanstore_check('t'), count(*) FROM t;
CREATE MATERIALIZED VIEW mv USING leanstore AS SELECT * FROM t;
CREATE UNIQUE INDEX mv_id ON mv (id);
INSERT INTO t VALUES (2, 2);
REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
SELECT leanstore_check('mv'), count(*), (SELECT amname FROM pg_am a JOIN pg_class c ON a.oid = relam
	WHERE c.oid = 'mv_id'::regclass) FROM mv;

-- Temporary and unlogged.
CREATE TEMP TABLE tt (id int PRIMARY KEY, v text UNIQUE) ON COMMIT DELETE ROWS;
BEGIN;
INSERT INTO tt SELECT i, i FROM generate_series(1, 1000) i;
INSERT INTO tt VALUES (1, 'x') ON CONFLICT DO NOTHING;
SELECT count(*) FROM tt WHERE v = '7';
COMMIT;
INSERT INTO tt VALUES (1, '1');
BEGIN;
INSERT INTO tt VALUES (1, '1');
REINDEX TABLE tt;
INSERT INTO tt VALUES (2, '2');
SELECT leanstore_check('tt');
ROLLBACK;
BEGIN;
INSERT INTO tt VALUES (1, '1');
SAVEPOINT s;
TRUNCATE tt;
INSERT INTO tt VALUES (1, '2');
ROLLBACK TO s;
SELECT leanstore_check('tt'), * FROM tt;
COMMIT;
CREATE TEMP TABLE tk (id int PRIMARY KEY);
INSERT INTO tk SELECT generate_series(1, 1000);
BEGIN;
REINDEX TABLE tk;
ROLLBACK;
REINDEX TABLE tk;
TRUNCATE tk;
INSERT INTO tk VALUES (1);
VACUUM tk;
SELECT leanstore_check('tk'), leanstore_check('tt'), count(*) FROM tk;
DROP TABLE tt, tk;
CREATE UNLOGGED TABLE ul (id int PRIMARY KEY);
INSERT INTO ul SELECT generate_series(1, 1000);
ALTER TABLE ul SET LOGGED;
INSERT INTO ul VALUES (1);
ALTER TABLE ul SET UNLOGGED;
SELECT leanstore_check('ul'), count(*) FROM ul;
-- PREPARE TRANSACTION
BEGIN; REINDEX INDEX ul_pkey; PREPARE TRANSACTION 'p';
ROLLBACK PREPARED 'p';
SELECT leanstore_check('ul');
BEGIN; DROP INDEX t_v; PREPARE TRANSACTION 'p';
ROLLBACK PREPARED 'p';

-- VACUUM, and what goes by itself.
CREATE TABLE v (id int PRIMARY KEY, k int);
CREATE INDEX v_k ON v (k);
INSERT INTO v SELECT i, i FROM generate_series(1, 20000) i;
UPDATE v SET k = -k;
DELETE FROM v WHERE id % 10 <> 0;
SELECT leanstore_check('v');
VACUUM v;
SELECT leanstore_check('v');
ANALYZE v;
SELECT relname, reltuples < 60000, relpages > 0 FROM pg_class
	WHERE oid IN ('v_pkey'::regclass, 'v_k'::regclass) ORDER BY relname;
SELECT phase FROM pg_stat_progress_create_index;
SELECT pg_indexam_progress_phasename(oid, n) FROM pg_am, generate_series(1, 5) n
	WHERE amname = 'leanstore_index';
SELECT amname, pg_index_column_has_property('v_pkey', 1, p), p
	FROM pg_am,
	unnest(ARRAY['asc', 'nulls_last', 'orderable', 'returnable', 'search_array', 'search_nulls',
		'distance_orderable']) p WHERE amname = 'leanstore_index';
SELECT p, pg_index_has_property('v_pkey', p)
	FROM unnest(ARRAY['clusterable', 'index_scan', 'bitmap_scan', 'backward_scan']) p;
SELECT p, pg_indexam_has_property(oid, p)
	FROM pg_am,
	unnest(ARRAY['can_order', 'can_unique', 'can_multi_col', 'can_exclude', 'can_include']) p
	WHERE amname = 'leanstore_index';
SET client_min_messages = warning;
DROP SCHEMA index_ls_unique_build CASCADE;
