-- ALTER COLUMN TYPE: the index of a key stays a leanstore index, and is built once.
CREATE SCHEMA index_ls_altered_keys;
SET search_path = index_ls_altered_keys, public;
SET default_table_access_method = leanstore;
SET max_parallel_maintenance_workers = 0;
CREATE VIEW keys AS
	SELECT c.relname, c.relkind, amname, i.indisvalid, array_agg(opcname ORDER BY n) AS classes,
		(SELECT count(*) FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
			AND d.refclassid = 'pg_opclass'::regclass) AS on_classes
	FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
		JOIN LATERAL unnest(indclass::oid[]) WITH ORDINALITY u (class, n) ON true
		JOIN pg_opclass o ON o.oid = class
	WHERE relnamespace = 'index_ls_altered_keys'::regnamespace
	GROUP BY c.oid, amname, i.indexrelid ORDER BY 1;

CREATE TABLE t (id int PRIMARY KEY, code varchar(10) UNIQUE, v int, w int,
	UNIQUE (v, w) INCLUDE (code),
	EXCLUDE USING leanstore (w WITH =), UNIQUE (w) DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE referring (id int REFERENCES t, code varchar(10) REFERENCES t (code));
INSERT INTO t SELECT i, 'code' || i, i, i FROM generate_series(1, 1000) i;
INSERT INTO referring SELECT i, 'code' || i FROM generate_series(1, 1000) i;
COMMENT ON INDEX t_pkey IS 'commented';

-- The server tells of each build; the table is written anew, or only the index made.  Its caches
-- have what they need after the first time, and nothing has a TOAST table: neither is told of.
CREATE TABLE first (LIKE t INCLUDING ALL);
ALTER TABLE first ALTER COLUMN id TYPE bigint, ALTER COLUMN v TYPE numeric(10, 2),
	ALTER COLUMN w TYPE bigint;
DROP TABLE first;
SET client_min_messages = debug1;
ALTER TABLE t ALTER COLUMN id TYPE bigint, ALTER COLUMN v TYPE numeric(10, 2),
	ALTER COLUMN w TYPE bigint;
ALTER TABLE t ALTER COLUMN code TYPE varchar(20);
ALTER TABLE t ALTER COLUMN code TYPE varchar(30) USING code || '!';
RESET client_min_messages;
SELECT * FROM keys;
SELECT obj_description('t_pkey'::regclass), leanstore_check('t');
INSERT INTO t VALUES (1, 'new', 0, 0);
INSERT INTO t VALUES (0, 'code1!', 0, 0);
INSERT INTO t VALUES (0, 'new', 1, 1);
INSERT INTO referring VALUES (1001);
ALTER TABLE referring DROP CONSTRAINT referring_code_fkey;
ALTER TABLE t ALTER COLUMN code TYPE varchar(40) USING code || '!';
DELETE FROM t WHERE id = 1000;
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT v FROM t WHERE id = 7;
SELECT v FROM t WHERE id = 7;
SELECT id FROM t WHERE code = 'code8!';
RESET enable_seqscan;

-- A key that the new values violate, and what comes after it.
ALTER TABLE t ALTER COLUMN id TYPE int USING (id / 2)::int;
SELECT pg_typeof(id) FROM t LIMIT 1;
BEGIN;
ALTER TABLE t ALTER COLUMN v TYPE int;
SAVEPOINT s;
ALTER TABLE t ALTER COLUMN v TYPE text USING 'same';
ROLLBACK TO s;
INSERT INTO t VALUES (2000, 'again', 5, 5);
ROLLBACK;
CREATE TABLE other (id int, UNIQUE (id));
ALTER TABLE t RENAME CONSTRAINT t_pkey TO key_of_t;
CREATE TABLE named (id int, CONSTRAINT t_pkey PRIMARY KEY (id)) USING heap;
ALTER TABLE t ALTER COLUMN id TYPE int;
ALTER TABLE named ALTER COLUMN id TYPE bigint;
SELECT relname, amname FROM keys WHERE relname IN ('t_pkey', 'key_of_t');

-- Partitions, of which one was there before, and children.
CREATE TABLE p (id int, v int, PRIMARY KEY (id), UNIQUE (id, v)) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (500);
CREATE TABLE p_2 (id int NOT NULL, v int);
ALTER TABLE p ATTACH PARTITION p_2 FOR VALUES FROM (500) TO (1000);
INSERT INTO p SELECT i, i FROM generate_series(0, 999) i;
CREATE TABLE parent (id int UNIQUE);
CREATE TABLE child (UNIQUE (id)) INHERITS (parent);
INSERT INTO child SELECT generate_series(1, 10);
SET client_min_messages = debug1;
ALTER TABLE p ALTER COLUMN v TYPE bigint;
ALTER TABLE parent ALTER COLUMN id TYPE bigint;
RESET client_min_messages;
SELECT relname, relkind, amname, classes FROM keys WHERE relname ~ '^(p|parent|child)_';
SELECT leanstore_check('p_1'), leanstore_check('p_2'), leanstore_check('child');
INSERT INTO p VALUES (700, 1);

-- What is said of a key stays with it, as for a heap table.
CREATE VIEW said AS
	SELECT indrelid::regclass::text AS of, replace(c.relname, 'on_heap', 'ours') AS index, amname,
		condeferrable,
		condeferred, indisreplident, indisclustered, indnullsnotdistinct, c.reloptions,
		obj_description(c.oid, 'pg_class') AS of_index,
		obj_description(k.oid, 'pg_constraint') AS of_constraint,
		ARRAY(SELECT attstattarget FROM pg_attribute WHERE attrelid = c.oid
			ORDER BY attnum) AS targets,
		(SELECT count(*) FROM pg_constraint f
			WHERE f.conindid = c.oid AND contype = 'f') AS referring
	FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
		LEFT JOIN pg_constraint k ON k.conindid = c.oid AND k.contype <> 'f'
	WHERE indrelid::regclass::text IN ('ours', 'on_heap');
DO $$
DECLARE name text; am text; using_am text;
BEGIN
	FOREACH name IN ARRAY '{ours,on_heap}'::text[] LOOP
		am := CASE name WHEN 'ours' THEN 'leanstore' ELSE 'heap' END;
		using_am := CASE name WHEN 'ours' THEN 'leanstore' ELSE 'btree' END;
		EXECUTE format($f$
			CREATE TABLE %1$I (id int NOT NULL, v int NOT NULL, w int, x int,
				PRIMARY KEY (id) WITH (fillfactor = 70),
				UNIQUE (v), UNIQUE NULLS NOT DISTINCT (w), UNIQUE (x) DEFERRABLE INITIALLY DEFERRED,
				EXCLUDE USING %3$s ((id + v) WITH =)) USING %2$s;
			CREATE TABLE %4$I (id int REFERENCES %1$I, v int REFERENCES %1$I (v)) USING %2$s;
			INSERT INTO %1$I SELECT i, i, i, i FROM generate_series(1, 100) i;
			INSERT INTO %4$I VALUES (1, 1);
			CREATE INDEX %5$I ON %1$I ((id * 2));
			ALTER TABLE %1$I REPLICA IDENTITY USING INDEX %6$I;
			ALTER TABLE %1$I CLUSTER ON %7$I;
			ALTER INDEX %5$I ALTER COLUMN 1 SET STATISTICS 50;
			ALTER INDEX %8$I ALTER COLUMN 1 SET STATISTICS 60;
			COMMENT ON INDEX %7$I IS 'the key''s index';
			COMMENT ON CONSTRAINT %7$I ON %1$I IS 'the key';
			$f$, name, am, using_am, name || '_ref', name || '_twice', name || '_v_key',
				name || '_pkey', name || '_expr_excl');
	END LOOP;
	FOREACH name IN ARRAY '{ours,on_heap}'::text[] LOOP
		EXECUTE format('ALTER TABLE %I ALTER id TYPE bigint, ALTER v TYPE bigint, '
			'ALTER w TYPE bigint, ALTER x TYPE bigint', name);
	END LOOP;
END $$;
SELECT * FROM said WHERE of = 'ours' ORDER BY index;
SELECT to_jsonb(s) - 'of' - 'amname' FROM said s WHERE of = 'ours'
EXCEPT SELECT to_jsonb(s) - 'of' - 'amname' FROM said s WHERE of = 'on_heap';
SELECT leanstore_check('ours');
DELETE FROM ours WHERE id = 1;
BEGIN;
INSERT INTO ours VALUES (101, 101, 101, 1);
COMMIT;

SET client_min_messages = warning;
DROP SCHEMA index_ls_altered_keys CASCADE;
