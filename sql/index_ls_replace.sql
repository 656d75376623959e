-- USING btree on leanstore tables, USING leanstore on others, SET ACCESS METHOD in both directions.
CREATE SCHEMA index_ls_replace;
SET search_path = index_ls_replace, public;
SET leanstore.replace_btree = on;
CREATE VIEW ams AS
    SELECT i.indrelid::regclass AS "table", c.relname AS index, a.amname AS am, k.contype AS key,
    	c.reloptions AS options
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
        LEFT JOIN pg_constraint k ON k.conindid = c.oid AND k.contype <> 'f'
    WHERE c.relnamespace = 'index_ls_replace'::regnamespace ORDER BY c.relname COLLATE "C";

-- On a leanstore table btree means leanstore where one can serve the same, and is told once.
CREATE TABLE l (id int, t text, v varchar(10), q tsquery, r int4range) USING leanstore;
CREATE INDEX l_id ON l USING btree (id);
CREATE INDEX l_t ON l
	USING btree (t pg_catalog.text_pattern_ops DESC NULLS LAST, (lower(v)) text_ops)
	WITH (fillfactor = 70);
CREATE UNIQUE INDEX l_unique ON l USING btree (id) INCLUDE (t) NULLS NOT DISTINCT WHERE id > 0;
CREATE INDEX CONCURRENTLY l_conc ON l USING "btree" (v);
-- Not: options of btree, a class that ON CONFLICT can name, no such class.
CREATE INDEX l_option ON l USING btree (id) WITH (deduplicate_items = off);
CREATE UNIQUE INDEX l_class ON l USING btree (t text_pattern_ops);
INSERT INTO l VALUES (1, 'a') ON CONFLICT (t text_pattern_ops) DO NOTHING;
CREATE TABLE excluded (id int, v int, EXCLUDE USING btree (id WITH =), EXCLUDE (v WITH =))
	USING leanstore;
ALTER TABLE excluded ADD w int, ADD EXCLUDE USING btree (w WITH =),
	ADD EXCLUDE (v WITH =, (id + v) WITH =);
ALTER TABLE excluded ADD EXCLUDE USING btree ((id * 2) WITH =) WHERE (id > 5);
INSERT INTO excluded VALUES (1, 1, 1);
INSERT INTO excluded VALUES (1, 2, 2);
INSERT INTO excluded VALUES (2, 2, 1);
SELECT * FROM ams;
SET leanstore.replace_btree = off;
CREATE INDEX l_off ON l USING btree (id);
ALTER TABLE excluded ADD EXCLUDE USING btree (w WITH =, v WITH =);
SET leanstore.replace_btree = on;
SET leanstore.default_index = btree;
CREATE INDEX l_default ON l USING btree (id);
RESET leanstore.default_index;
SELECT index, am FROM ams WHERE index IN ('l_off', 'l_default', 'excluded_w_v_excl');

-- On other tables leanstore means btree.
CREATE TABLE h (id int, t text) USING heap;
CREATE INDEX h_id ON h USING leanstore (id);
CREATE INDEX h_t ON h USING leanstore_index (t public.text_pattern_ops, t) WITH (fillfactor = 60);
CREATE INDEX CONCURRENTLY h_conc ON h USING leanstore (t);
ALTER TABLE h ADD EXCLUDE USING leanstore_index (id WITH =);
CREATE TABLE h_excluded (id int, EXCLUDE USING leanstore (id WITH =)) USING heap;
CREATE INDEX h_hash ON h USING hash (id);
SELECT * FROM ams WHERE index LIKE 'h%';
SELECT pg_get_indexdef('h_t'::regclass);
SET leanstore.replace_btree = off;
CREATE INDEX ON h USING leanstore (id);
SET leanstore.replace_btree = on;

-- Partitions: the indexes of a mixed tree are btree, but what one partition has for itself.
CREATE TABLE mixed (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE mixed_l PARTITION OF mixed FOR VALUES FROM (0) TO (10) USING leanstore;
CREATE TABLE mixed_h PARTITION OF mixed FOR VALUES FROM (10) TO (20) USING heap;
CREATE INDEX mixed_v ON mixed USING leanstore_index (v);
CREATE INDEX mixed_b ON mixed USING btree (v);
CREATE INDEX mixed_l_own ON mixed_l USING leanstore (v);
CREATE INDEX mixed_h_own ON mixed_h USING leanstore (v);
CREATE INDEX mixed_only ON ONLY mixed USING leanstore_index (id);
CREATE INDEX mixed_l_id ON mixed_l USING btree (id);
CREATE INDEX mixed_h_id ON mixed_h USING leanstore_index (id);
ALTER INDEX mixed_only ATTACH PARTITION mixed_l_id;
ALTER INDEX mixed_only ATTACH PARTITION mixed_h_id;
CREATE TABLE whole (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE whole_1 PARTITION OF whole FOR VALUES FROM (0) TO (10) USING leanstore;
CREATE INDEX whole_v ON whole USING btree (v);
CREATE INDEX whole_own ON whole_1 USING btree (id);
SELECT i.relname, a.amname FROM pg_class i JOIN pg_am a ON a.oid = relam
    WHERE relnamespace = 'index_ls_replace'::regnamespace AND (i.relname ~ '^(mixed|whole)')
    	AND i.relkind IN ('i', 'I') ORDER BY 1;
SELECT indisvalid FROM pg_index WHERE indexrelid = 'mixed_only'::regclass;
ALTER TABLE whole_1 SET ACCESS METHOD heap;

-- SET ACCESS METHOD: everything that an index has goes with it, and it is built once.
CREATE TABLE moved (id int PRIMARY KEY, a int, t text, x int UNIQUE DEFERRABLE INITIALLY DEFERRED,
	r int4range, n int NOT NULL, u text) USING heap;
INSERT INTO moved SELECT i, i % 7, 'text ' || i, i, int4range(i, i + 1), i, i
	FROM generate_series(1, 500) i;
CREATE INDEX moved_a ON moved (a DESC NULLS LAST, (lower(t) || a) text_pattern_ops)
	INCLUDE (x) WITH (fillfactor = 55) WHERE a > 0;
ALTER INDEX moved_a ALTER COLUMN 2 SET STATISTICS 33;
CREATE UNIQUE INDEX moved_n ON moved (n);
CREATE INDEX moved_option ON moved (a) WITH (deduplicate_items = off);
CREATE UNIQUE INDEX moved_class ON moved (u text_pattern_ops);
CREATE INDEX moved_hash ON moved USING hash (t);
CREATE INDEX moved_gist ON moved USING gist (r);
ALTER TABLE moved ADD CONSTRAINT moved_excl EXCLUDE USING btree (t WITH =) DEFERRABLE;
CREATE TABLE moved_ref (id int REFERENCES moved, x int) USING heap;
INSERT INTO moved_ref VALUES (7);
COMMENT ON INDEX moved_a IS 'an index';
COMMENT ON INDEX moved_pkey IS 'the key';
COMMENT ON CONSTRAINT moved_excl ON moved IS 'the exclusion';
ALTER TABLE moved CLUSTER ON moved_x_key;
ALTER TABLE moved REPLICA IDENTITY USING INDEX moved_n;
CREATE VIEW moved_view AS SELECT id, a, count(*) FROM moved GROUP BY id;
ANALYZE moved;
CREATE VIEW moved_state AS
    SELECT c.relname, a.amname, pg_get_indexdef(c.oid) AS definition, k.conname, k.condeferrable,
    	k.condeferred, obj_description(c.oid) AS comment,
        i.indisclustered AS clustered, i.indisreplident AS identity, i.indisvalid AS valid,
        i.indisexclusion AS excludes, i.indimmediate AS immediate,
        (SELECT string_agg(attstattarget::text, ',') FROM pg_attribute
        	WHERE attrelid = c.oid) AS targets,
        (SELECT count(*) FROM pg_statistic WHERE starelid = c.oid) AS statistics
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
        LEFT JOIN pg_constraint k ON k.conindid = c.oid AND k.contype <> 'f'
    WHERE i.indrelid = 'moved'::regclass;
-- What indexes depend on that the server does not always have.
CREATE VIEW moved_depends AS
    SELECT DISTINCT c.relname, pg_describe_object(d.refclassid, d.refobjid, 0) AS "on"
    FROM pg_depend d JOIN pg_class c ON c.oid = d.objid
    WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_opclass'::regclass
    	AND c.relnamespace = 'index_ls_replace'::regnamespace
        AND c.relname LIKE 'moved%';
CREATE TABLE before_move AS SELECT * FROM moved_state;
ALTER TABLE moved SET ACCESS METHOD leanstore;
SELECT relname, amname FROM moved_state ORDER BY 1;
SELECT leanstore_check('moved');
SELECT b.relname FROM before_move b JOIN moved_state n USING (relname)
    WHERE (to_jsonb(b) - 'amname' - 'definition')
    	IS DISTINCT FROM (to_jsonb(n) - 'amname' - 'definition') OR
        b.definition <> replace(replace(n.definition, 'leanstore_index', 'btree'), 'public.', '')
        OR b.valid IS NOT TRUE;
SELECT * FROM before_move ORDER BY relname;
SELECT * FROM moved_depends ORDER BY 1, 2;
SET enable_seqscan = off;
EXPLAIN (COSTS off) SELECT id FROM moved WHERE n = 3;
RESET enable_seqscan;
INSERT INTO moved VALUES (1, 1, 'new', 1000, NULL, 1000);
INSERT INTO moved VALUES (1001, 1, 'new', 1001, NULL, 1);
INSERT INTO moved VALUES (1001, 1, 'text 1', 1001, NULL, 1001);
BEGIN; UPDATE moved SET x = 501 - x; COMMIT;
DELETE FROM moved WHERE id = 7;
SELECT leanstore_check('moved');
ALTER TABLE moved SET ACCESS METHOD heap;
SELECT b.relname FROM before_move b FULL JOIN moved_state n USING (relname)
	WHERE to_jsonb(b) IS DISTINCT FROM to_jsonb(n);
SELECT * FROM moved_depends ORDER BY 1, 2;
INSERT INTO moved VALUES (1, 1, 'new', 1000, NULL, 1000);
INSERT INTO moved VALUES (1001, 1, 'text 1', 1001, NULL, 1001);
SELECT count(*) FROM moved WHERE t LIKE 'text 1%';
-- Together with other commands.
ALTER TABLE moved SET ACCESS METHOD leanstore, ALTER n TYPE bigint, CLUSTER
	ON moved_n, ADD z int UNIQUE;
SELECT relname, amname, clustered FROM moved_state ORDER BY 1;
SELECT leanstore_check('moved');
ALTER TABLE moved SET ACCESS METHOD heap, ALTER n TYPE int, CLUSTER ON moved_x_key,
	ADD CHECK (a < 100);
SELECT relname, amname, clustered FROM moved_state ORDER BY 1;
SELECT * FROM moved_depends ORDER BY 1, 2;
BEGIN;
ALTER TABLE moved SET ACCESS METHOD leanstore;
ROLLBACK;
SELECT count(*) FROM moved_state WHERE amname = 'btree';
-- Off: only what can not name an access method.
SET leanstore.replace_btree = off;
ALTER TABLE moved SET ACCESS METHOD leanstore;
SELECT relname, amname FROM moved_state ORDER BY 1;
SET leanstore.replace_btree = on;
SET leanstore.default_index = btree;
ALTER TABLE moved SET ACCESS METHOD heap;
ALTER TABLE moved SET ACCESS METHOD leanstore;
SELECT count(*) FROM moved_state WHERE amname = 'leanstore_index';
RESET leanstore.default_index;
SET client_min_messages = warning;
DROP SCHEMA index_ls_replace CASCADE;
