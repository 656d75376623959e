-- What heap does not have: there is no heap output to compare with.
SET default_table_access_method = leanstore;
CREATE SCHEMA leanstore_specific;
SET search_path = leanstore_specific, public;

-- The access method, its library and its process are there.
SELECT amname, amtype FROM pg_am WHERE amname = 'leanstore';
SELECT count(*) AS engine_workers FROM pg_stat_activity
	WHERE backend_type = 'leanstore engine worker';
SELECT obj_description(oid, 'pg_am') <> '' AS described FROM pg_am WHERE amname = 'leanstore';

-- Every setting says what it is; names of the family that do not exist are refused.
SELECT count(*) > 0 AS settings,
	count(*) FILTER (WHERE coalesce(short_desc, '') = '') AS undescribed FROM pg_settings
	WHERE name LIKE 'leanstore.%';
SELECT name, setting FROM pg_settings
	WHERE name LIKE 'leanstore.%' AND (short_desc !~ '[.]$' OR short_desc ~ '^ ');
\set VERBOSITY sqlstate
SET leanstore.no_such_setting = 1;
\set VERBOSITY default

-- Nothing of the extension that is not meant for all roles can be called by PUBLIC.
SELECT p.oid::regprocedure AS open_to_all
FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
	AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid
WHERE extname = 'leanstore_am' AND has_function_privilege('public', p.oid, 'EXECUTE')
	AND prorettype NOT IN ('table_am_handler'::regtype, 'index_am_handler'::regtype)
	AND proname NOT IN ('leanstore_as_btree', 'leanstore_version')
ORDER BY 1;
CREATE ROLE regress_ls_nobody;
CREATE TABLE t (id int PRIMARY KEY, v int, k int, pad text);
GRANT ALL ON t TO regress_ls_nobody;
GRANT USAGE ON SCHEMA leanstore_specific TO regress_ls_nobody;
\set VERBOSITY sqlstate
SET ROLE regress_ls_nobody;
INSERT INTO t VALUES (1, 1, 1);
SELECT leanstore_check('t');
RESET ROLE;
DELETE FROM t;
SELECT leanstore_check('pg_class');
SELECT leanstore_check('t_pkey');
\set VERBOSITY default
REVOKE ALL ON t FROM regress_ls_nobody;
REVOKE ALL ON SCHEMA leanstore_specific FROM regress_ls_nobody;
DROP ROLE regress_ls_nobody;

-- A row keeps its ctid as long as no indexed column changes.
CREATE INDEX ON t USING btree (k);
INSERT INTO t SELECT i, i, i, 'short' FROM generate_series(1, 1000) i;
CREATE TABLE place USING heap AS SELECT id, ctid AS c FROM t;
UPDATE t SET v = v + 1;
UPDATE t SET pad = repeat('grown', 50) WHERE id % 2 = 0;
UPDATE t SET pad = repeat('p', 10000) WHERE id % 100 = 0;
UPDATE t SET k = k;
BEGIN; UPDATE t SET v = 0; ROLLBACK;
SELECT count(*) FILTER (WHERE t.ctid = c) AS stayed, count(*) FILTER (WHERE t.ctid <> c) AS moved
	FROM t JOIN place USING (id);
UPDATE t SET k = k + 1 WHERE id <= 10;
SELECT count(*) FILTER (WHERE t.ctid = c) AS stayed, count(*) FILTER (WHERE t.ctid <> c) AS moved
	FROM t JOIN place USING (id);
SELECT count(*) FROM t WHERE ctid IN (SELECT c FROM place WHERE id <= 10);
-- Offsets stay in 1..256.
SELECT min((ctid::text::point)[1]) >= 1 AND max((ctid::text::point)[1]) <= 256 AS offsets FROM t;

-- The first row is (0,1) and a block has 256: every kind of scan finds the rows at the edges, and
-- no other under their neighbours' names.
CREATE TABLE edge (id int);
INSERT INTO edge SELECT generate_series(1, 513);
SELECT id, ctid FROM edge WHERE id IN (1, 2, 255, 256, 257, 258, 512, 513) ORDER BY id;
SELECT array_agg(id) AS by_tid FROM edge
	WHERE ctid IN ('(0,1)', '(0,256)', '(1,1)', '(1,256)', '(2,1)');
SELECT count(*) AS no_rows FROM edge
	WHERE ctid IN ('(0,0)', '(1,0)', '(2,0)', '(0,257)', '(1,257)', '(2,2)', '(3,0)', '(3,1)');
SELECT array_agg(id) AS inside FROM edge WHERE ctid > '(0,255)' AND ctid < '(1,2)';
SELECT array_agg(id) AS gap FROM edge WHERE ctid >= '(0,256)' AND ctid <= '(1,0)';
SELECT array_agg(id) AS above FROM edge WHERE ctid > '(1,255)';
SELECT count(*) AS below FROM edge WHERE ctid < '(1,1)';
SELECT count(*) AS block_1 FROM edge WHERE ctid > '(0,60000)' AND ctid < '(1,60000)';
SET enable_seqscan = off;
SET enable_indexscan = off;
CREATE INDEX edge_brin ON edge USING brin (id) WITH (pages_per_range = 1);
SELECT array_agg(id) AS lossy FROM edge WHERE id BETWEEN 256 AND 257 OR id = 513;
DROP INDEX edge_brin;
CREATE INDEX edge_btree ON edge (id);
SELECT array_agg(id) AS few FROM edge WHERE id BETWEEN 256 AND 257 OR id = 513;
SELECT count(*) AS many FROM edge WHERE id BETWEEN 250 AND 300;
RESET enable_seqscan;
RESET enable_indexscan;
SELECT count(*) FROM edge TABLESAMPLE system (100);
SELECT count(*) FROM edge TABLESAMPLE bernoulli (100);
ANALYZE edge;
SELECT relpages, reltuples FROM pg_class WHERE oid = 'edge'::regclass;
DELETE FROM edge WHERE ctid < '(0,256)' OR ctid > '(1,1)';
VACUUM edge;
SELECT id, ctid FROM edge ORDER BY id;
VACUUM FULL edge;
SELECT id, ctid FROM edge ORDER BY id;

-- No transaction id of a leanstore table ever has to be frozen.
SELECT relfrozenxid FROM pg_class WHERE oid = 't'::regclass;
VACUUM FREEZE t;
SELECT relfrozenxid FROM pg_class WHERE oid = 't'::regclass;

-- Plans name the table as those of any other.
EXPLAIN (COSTS off) SELECT * FROM t;
EXPLAIN (COSTS off) UPDATE t SET v = 0 WHERE id = 1 OR v < 0;

-- What SERIALIZABLE has locked belongs to the leader, whether it or a worker has read it, and
-- cannot outlive the session.
\set VERBOSITY sqlstate
BEGIN ISOLATION LEVEL SERIALIZABLE;
SET LOCAL debug_parallel_query = on;
SELECT count(*) FROM t;
SELECT relation, mode, granted, pid = pg_backend_pid() AS own, upper FROM leanstore_range_locks;
-- Values of keys are for roles that may read all data.
SELECT count(*), count(lower) FROM leanstore_range_locks;
SET LOCAL ROLE pg_monitor;
SELECT count(*), count(lower) FROM leanstore_range_locks;
RESET ROLE;
PREPARE TRANSACTION 'locked';
SELECT count(*) FROM leanstore_range_locks;

-- The extension stays as long as a table needs it.
DROP EXTENSION leanstore_am;
DROP ACCESS METHOD leanstore;
\set VERBOSITY default

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
