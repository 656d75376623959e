-- Which access method an index gets, by which names it goes, and how it changes.
CREATE SCHEMA index_ls_access_method;
SET search_path = index_ls_access_method, public;
CREATE VIEW ams AS
    SELECT c.relname AS index, a.amname AS am, i.indrelid::regclass AS "table", k.contype AS key,
    	i.indisvalid AS valid
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
    LEFT JOIN pg_constraint k ON k.conindid = c.oid AND k.contype <> 'f'
    WHERE c.relnamespace = 'index_ls_access_method'::regnamespace ORDER BY c.relname COLLATE "C";
\set of 'SELECT index, am FROM ams WHERE "table" ='

-- Keys and indexes of a leanstore table where the statement names none.
CREATE TABLE keys (id bigint PRIMARY KEY, email text UNIQUE, a int, b int,
	UNIQUE NULLS NOT DISTINCT (a), UNIQUE (b, a) DEFERRABLE) USING leanstore;
CREATE INDEX keys_plain ON keys (a);
CREATE INDEX keys_named ON keys USING leanstore (a);
CREATE INDEX keys_by_name ON keys USING leanstore_index (a);
CREATE INDEX keys_btree ON keys USING btree (a);
CREATE INDEX keys_hash ON keys USING hash (a);
create /* using */ index "using" on keys (a);
CREATE INDEX "on" ON index_ls_access_method.keys /* btree */ USING BTREE (b);
CREATE INDEX keys_expression ON keys (lower(email), (a + b) DESC NULLS LAST)
	INCLUDE (id) WHERE a > 0;
ALTER TABLE keys ADD c int UNIQUE, ADD d serial, ADD UNIQUE (d, c);
ALTER TABLE keys ADD CONSTRAINT keys_excluded EXCLUDE USING leanstore (a WITH =);
:of 'keys'::regclass;
SELECT pg_get_indexdef('keys_plain'::regclass), pg_get_constraintdef(oid) FROM pg_constraint
	WHERE conname = 'keys_pkey';
SELECT leanstore_check('keys');
-- Not on heap.
CREATE TABLE on_heap (id int PRIMARY KEY, v int) USING heap;
CREATE INDEX ON on_heap (v);
:of 'on_heap'::regclass;
CREATE INDEX ON on_heap USING leanstore (v);
CREATE INDEX CONCURRENTLY ON on_heap USING leanstore (v);
CREATE UNLOGGED TABLE on_heap_2 (id int, EXCLUDE USING leanstore (id WITH =)) USING heap;
:of 'on_heap'::regclass;
-- The setting, columns that have no encoding, options that only btree has.
SET leanstore.default_index = btree;
CREATE TABLE by_setting (id int PRIMARY KEY, v int) USING leanstore;
CREATE INDEX ON by_setting (v);
CREATE INDEX ON by_setting USING leanstore (v);
RESET leanstore.default_index;
SET leanstore.default_index = hash;
:of 'by_setting'::regclass;
CREATE TABLE no_encoding (id int, v text COLLATE "POSIX",
	UNIQUE (id) WITH (deduplicate_items = off),
	UNIQUE (id, v) WITH (fillfactor = 50)) USING leanstore;
CREATE TYPE pair AS (a int, b int);
CREATE TABLE no_class (id pair PRIMARY KEY, d tsvector UNIQUE) USING leanstore;
CREATE INDEX ON no_class (d, (d::text) text_pattern_ops);
ALTER TABLE no_class ADD UNIQUE (id) WITH (fillfactor = 5);
CREATE INDEX ON no_class USING leanstore (d) WITH (deduplicate_items = on);
-- Without OVERLAPS needs gist.
CREATE TABLE periods (id int4range, p daterange, UNIQUE (id, p WITHOUT OVERLAPS)) USING leanstore;
:of 'periods'::regclass;

-- CREATE TABLE ... LIKE.
CREATE TABLE like_leanstore (LIKE keys INCLUDING INDEXES) USING leanstore;
:of 'like_leanstore'::regclass;
CREATE TABLE like_heap (LIKE keys INCLUDING INDEXES) USING heap;
:of 'like_heap'::regclass;
CREATE TABLE heap_like (LIKE on_heap INCLUDING INDEXES) USING leanstore;
:of 'heap_like'::regclass;
-- CREATE SCHEMA.
CREATE SCHEMA index_ls_schema CREATE TABLE t (id int PRIMARY KEY) CREATE INDEX i1 ON t (id)
	CREATE INDEX i2 ON t USING btree (id) CREATE UNIQUE INDEX i3 ON t (id);
SELECT indexrelid::regclass, amname FROM pg_index JOIN pg_class c ON c.oid = indexrelid
	JOIN pg_am a ON a.oid = relam WHERE indrelid = 'index_ls_schema.t'::regclass ORDER BY 1;
DROP TABLE index_ls_schema.t;
SET default_table_access_method = leanstore;
CREATE TABLE index_ls_schema.t (id int PRIMARY KEY);
DROP SCHEMA index_ls_schema CASCADE;
CREATE SCHEMA index_ls_schema CREATE INDEX i1 ON t (id) CREATE INDEX i2 ON t USING btree (id)
	CREATE TABLE t (id int PRIMARY KEY, v text UNIQUE) CREATE UNIQUE INDEX i3 ON t (id);
SELECT indexrelid::regclass, amname FROM pg_index JOIN pg_class c ON c.oid = indexrelid
	JOIN pg_am a ON a.oid = relam WHERE indrelid = 'index_ls_schema.t'::regclass ORDER BY 1;
DROP SCHEMA index_ls_schema CASCADE;

-- Partitions.
CREATE TABLE parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
CREATE INDEX parts_v ON parts (v);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
CREATE TABLE parts_3 (id int PRIMARY KEY, v int);
CREATE INDEX ON parts_3 (v);
ALTER TABLE parts ATTACH PARTITION parts_3 FOR VALUES FROM (20) TO (30);
ALTER TABLE parts ADD UNIQUE (v, id);
INSERT INTO parts SELECT i, i FROM generate_series(0, 29) i;
INSERT INTO parts VALUES (25, 1);
INSERT INTO parts VALUES (25, 1) ON CONFLICT (id) DO UPDATE SET v = excluded.v RETURNING *;
SELECT index, am, "table" FROM ams WHERE "table"::text LIKE 'parts%';
SELECT count(*) FROM pg_inherits
	WHERE inhparent IN ('parts_pkey'::regclass, 'parts_v'::regclass, 'parts_v_id_key'::regclass);
SET default_table_access_method = heap;
CREATE TABLE parts_named (id int PRIMARY KEY, v int UNIQUE) PARTITION BY RANGE (id) USING leanstore;
CREATE TABLE parts_named (id int PRIMARY KEY, v int) PARTITION BY RANGE (id) USING leanstore;
CREATE TABLE parts_heap (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE parts_mixed (id int, v int) PARTITION BY RANGE (id) USING leanstore;
CREATE TABLE parts_mixed_1 PARTITION OF parts_mixed FOR VALUES FROM (0) TO (10) USING heap;
CREATE TABLE parts_mixed_2 PARTITION OF parts_mixed FOR VALUES FROM (10) TO (20);
ALTER TABLE parts_mixed ADD PRIMARY KEY (id);
CREATE INDEX ON parts_mixed (v);
SELECT index, am, "table" FROM ams WHERE "table"::text ~ 'parts_(named|heap|mixed)';
SET default_table_access_method = leanstore;

-- ADD CONSTRAINT ... USING INDEX.
CREATE TABLE using_index (id int, v text, w int);
INSERT INTO using_index SELECT i, i, i FROM generate_series(1, 10) i;
CREATE UNIQUE INDEX using_index_id ON using_index (id) INCLUDE (w);
CREATE UNIQUE INDEX using_index_v ON using_index (v);
CREATE UNIQUE INDEX using_index_desc ON using_index (w DESC);
CREATE UNIQUE INDEX using_index_part ON using_index (w) WHERE w > 0;
CREATE INDEX using_index_w ON using_index (w);
ALTER TABLE using_index ADD CONSTRAINT using_index_pkey PRIMARY KEY USING INDEX using_index_id;
ALTER TABLE using_index ADD UNIQUE USING INDEX using_index_v DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE using_index ADD UNIQUE USING INDEX using_index_v;
ALTER TABLE using_index ADD UNIQUE USING INDEX using_index_desc;
ALTER TABLE using_index ADD UNIQUE USING INDEX using_index_part;
ALTER TABLE using_index ADD UNIQUE USING INDEX using_index_w;
ALTER TABLE using_index ADD UNIQUE USING INDEX no_such_index;
\d using_index
BEGIN; INSERT INTO using_index VALUES (11, '1', 11); COMMIT;
-- With a new type, which makes another index of it.
CREATE TABLE using_index_2 (id int, v int);
CREATE UNIQUE INDEX using_index_2_id ON using_index_2 (id);
ALTER TABLE using_index_2 ADD PRIMARY KEY USING INDEX using_index_2_id, ALTER id TYPE bigint,
	ALTER v TYPE text;
\d using_index_2
-- Of a partitioned table: not, as with btree.
CREATE UNIQUE INDEX parts_id ON parts (id);
ALTER TABLE parts ADD UNIQUE USING INDEX parts_id;
DROP TABLE using_index, using_index_2;
-- A unique index with an operator class is for ON CONFLICT with that class, which means btree's.
CREATE TABLE unique_class (v text, w text);
CREATE UNIQUE INDEX unique_class_v ON unique_class (v text_pattern_ops);
CREATE INDEX unique_class_w ON unique_class (w text_pattern_ops);
INSERT INTO unique_class VALUES ('a') ON CONFLICT (v text_pattern_ops) DO NOTHING;
:of 'unique_class'::regclass;
CREATE INDEX unique_class_e ON unique_class ((v || nothing));

-- A column's type changes: keys keep their access method.
CREATE TABLE retyped (id int PRIMARY KEY, v varchar(10) UNIQUE, w int);
COMMENT ON INDEX retyped_pkey IS 'the key';
CREATE INDEX retyped_w ON retyped (w);
CREATE INDEX retyped_v ON retyped (v) INCLUDE (w);
CREATE TABLE retyped_ref (id int REFERENCES retyped, v text REFERENCES retyped (v));
INSERT INTO retyped SELECT i, i, i FROM generate_series(1, 100) i;
INSERT INTO retyped_ref VALUES (1, '2');
ALTER TABLE retyped ALTER id TYPE bigint, ALTER w TYPE bigint;
ALTER TABLE retyped ALTER v TYPE varchar(20);
ALTER TABLE retyped ALTER v TYPE text;
:of 'retyped'::regclass;
SELECT obj_description('retyped_pkey'::regclass), leanstore_check('retyped');
INSERT INTO retyped VALUES (1, 'x', 1);
INSERT INTO retyped_ref VALUES (1000, '2');
DELETE FROM retyped WHERE id = 1;
\d retyped
CREATE TEMP TABLE retyped_temp (v varchar(10) UNIQUE) USING leanstore;
INSERT INTO retyped_temp SELECT i FROM generate_series(1, 1000) i;
CREATE INDEX retyped_temp_v ON retyped_temp (v);
-- A plain index keeps its file.
SELECT pg_relation_filenode('retyped_v') AS file,
	pg_relation_filenode('retyped_temp_v') AS temp_file \gset
BEGIN;
ALTER TABLE retyped ALTER v TYPE varchar;
ALTER TABLE retyped_temp ALTER v TYPE varchar(20);
ROLLBACK;
SELECT leanstore_check('retyped'), leanstore_check('retyped_temp');
ALTER TABLE retyped ALTER v TYPE varchar;
ALTER TABLE retyped_temp ALTER v TYPE varchar(20);
SELECT pg_relation_filenode('retyped_v') = :file,
	pg_relation_filenode('retyped_temp_v') = :temp_file;
SELECT leanstore_check('retyped'), leanstore_check('retyped_temp'),
	(SELECT count(*) FROM retyped_temp WHERE v = '500');
BEGIN; ALTER TABLE retyped_temp ALTER v TYPE text; ROLLBACK;
REINDEX TABLE retyped_temp;
INSERT INTO retyped_temp VALUES ('500');
SELECT leanstore_check('retyped_temp');

-- A table changes its access method: so do its keys, and what can not stay.
CREATE TABLE moved (id int PRIMARY KEY, v text, w int UNIQUE DEFERRABLE) WITH (fillfactor = 80);
CREATE INDEX moved_v ON moved (v DESC, lower(v) text_pattern_ops) INCLUDE (w) WITH (fillfactor = 70)
	WHERE v IS NOT NULL;
CREATE INDEX moved_btree ON moved USING btree (v);
ALTER TABLE moved CLUSTER ON moved_pkey;
ALTER TABLE moved REPLICA IDENTITY USING INDEX moved_pkey;
CREATE TABLE moved_ref (id int REFERENCES moved);
INSERT INTO moved SELECT i, i, i FROM generate_series(1, 100) i;
INSERT INTO moved_ref VALUES (7);
BEGIN;
ALTER TABLE moved SET ACCESS METHOD heap;
:of 'moved'::regclass;
INSERT INTO moved VALUES (7);
ROLLBACK;
SELECT leanstore_check('moved');
ALTER TABLE moved SET ACCESS METHOD heap;
\d moved
INSERT INTO moved VALUES (7);
DELETE FROM moved WHERE id = 7;
ALTER TABLE moved SET ACCESS METHOD leanstore;
\d moved
SELECT leanstore_check('moved');
INSERT INTO moved VALUES (7);
DELETE FROM moved WHERE id = 7;
SELECT relname, relreplident FROM pg_class WHERE oid = 'moved'::regclass;
-- Not when it is a partition's part of a leanstore index.
ALTER TABLE parts_1 SET ACCESS METHOD heap;

-- Operator classes and families by either name.
CREATE OPERATOR FAMILY some_family USING leanstore;
CREATE OPERATOR CLASS some_class FOR TYPE int USING leanstore FAMILY some_family AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btint4cmp(int, int);
ALTER OPERATOR FAMILY some_family USING leanstore ADD OPERATOR 1 < (int, bigint),
	FUNCTION 1 (int, bigint) btint48cmp(int, bigint);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'some_class';
ALTER OPERATOR FAMILY some_family USING leanstore DROP OPERATOR 1 (int, bigint),
	FUNCTION 1 (int, bigint);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'some_class';
ALTER OPERATOR FAMILY some_family USING leanstore
	ADD FUNCTION 2 (int, int) btint4sortsupport(internal);
COMMENT ON OPERATOR CLASS some_class USING leanstore IS 'some class';
ALTER OPERATOR CLASS some_class USING leanstore RENAME TO other_class;
ALTER OPERATOR CLASS other_class USING leanstore_index SET SCHEMA index_ls_access_method;
ALTER OPERATOR CLASS other_class USING leanstore OWNER TO CURRENT_USER;
CREATE INDEX keys_class ON keys (a other_class);
DROP OPERATOR CLASS other_class USING leanstore;
DROP OPERATOR CLASS other_class USING leanstore CASCADE;
DROP OPERATOR FAMILY some_family USING leanstore;

-- Other tablespaces.
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE index_ls_space LOCATION '';
CREATE TABLE spaced (id int PRIMARY KEY, v int) WITH (fillfactor = 100);
CREATE INDEX spaced_v ON spaced (v) TABLESPACE index_ls_space;
INSERT INTO spaced SELECT i, i FROM generate_series(1, 1000) i;
BEGIN;
ALTER INDEX spaced_pkey SET TABLESPACE index_ls_space;
INSERT INTO spaced VALUES (1001, 1001);
ROLLBACK;
SELECT leanstore_check('spaced');
ALTER INDEX spaced_pkey SET TABLESPACE index_ls_space;
ALTER INDEX spaced_pkey SET TABLESPACE index_ls_space, SET (fillfactor = 60);
\set spaces 'SELECT relname, spcname, reloptions FROM pg_class c LEFT JOIN pg_tablespace t ON t.oid = reltablespace WHERE relname LIKE ''spaced%'' ORDER BY 1;'
:spaces
ALTER TABLE spaced_pkey SET TABLESPACE pg_default;
:spaces
ALTER INDEX ALL IN TABLESPACE index_ls_space SET TABLESPACE pg_default;
:spaces
REINDEX (TABLESPACE index_ls_space) TABLE spaced;
:spaces
SELECT leanstore_check('spaced');
INSERT INTO spaced VALUES (1, 1);
CREATE ROLE index_ls_user;
GRANT CREATE ON TABLESPACE index_ls_space TO index_ls_user;
GRANT MAINTAIN ON spaced TO index_ls_user;
GRANT USAGE ON SCHEMA index_ls_access_method TO index_ls_user;
SET ROLE index_ls_user;
ALTER INDEX spaced_pkey SET TABLESPACE pg_default;
RESET ROLE;
DROP TABLE spaced;
DROP TABLESPACE index_ls_space;
DROP OWNED BY index_ls_user;
DROP ROLE index_ls_user;
-- a name that is too long is told of once
CREATE TABLE named (id int) USING leanstore;
CREATE INDEX named_1234567890123456789012345678901234567890123456789012345678901234567890
	ON named (id);
DROP TABLE named;
SET client_min_messages = warning;
DROP SCHEMA index_ls_access_method CASCADE;
