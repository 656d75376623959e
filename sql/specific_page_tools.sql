-- Tools that read pages of the server's format say that leanstore relations have others; they work
-- on heap tables.
CREATE SCHEMA page_tools;
SET search_path = page_tools, public;
CREATE EXTENSION pageinspect;
CREATE EXTENSION pg_prewarm;
CREATE EXTENSION pg_visibility;
CREATE EXTENSION pg_freespacemap;
CREATE TABLE l (id int PRIMARY KEY) USING leanstore;
CREATE TABLE h (id int PRIMARY KEY) USING heap;
INSERT INTO l SELECT generate_series(1, 10);
INSERT INTO h SELECT generate_series(1, 10);
CHECKPOINT;
SELECT count(*) FROM heap_page_items(get_raw_page('l', 0));
SELECT get_raw_page('page_tools.l', 'main', 0) IS NULL;
SELECT magic FROM bt_metap('l_pkey');
SELECT pg_prewarm('l');
SELECT pg_prewarm('l_pkey', 'read');
SELECT count(*) FROM pg_visibility_map('l');
SELECT pg_truncate_visibility_map('l');
SELECT count(*) FROM pg_freespace('l');
SELECT count(*) FROM pg_class c, LATERAL pg_visibility_map_summary(c.oid) WHERE c.relname = 'l';
-- Inlined, and by name from a table.
CREATE FUNCTION first_page(text) RETURNS bytea LANGUAGE sql AS 'SELECT get_raw_page($1, 0)';
SELECT length(first_page(relname)) FROM pg_class WHERE oid = 'l'::regclass;
\set VERBOSITY sqlstate
SELECT pg_prewarm('l');
\set VERBOSITY default
SELECT count(*) FROM heap_page_items(get_raw_page('h', 0));
SELECT magic > 0 AS magic FROM bt_metap('h_pkey');
SELECT pg_prewarm('h'), length(first_page('h'));
SELECT count(*) FROM pg_visibility_map('h');
SELECT get_raw_page('nothing', 0);
SELECT get_raw_page(NULL, 0);
-- One that was another function before.
CREATE FUNCTION replaced(regclass, text, text, bigint, bigint) RETURNS bigint LANGUAGE plpgsql
AS 'BEGIN RETURN 0; END';
SELECT replaced('l', 'buffer', 'main', NULL, NULL);
CREATE OR REPLACE FUNCTION replaced(regclass, text, text, bigint, bigint) RETURNS bigint LANGUAGE c
AS '$libdir/pg_prewarm', 'pg_prewarm';
SELECT replaced('l', 'buffer', 'main', NULL, NULL);
DROP SCHEMA page_tools CASCADE;
