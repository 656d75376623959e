-- leanstore.show_indexes_as_btree: what clients are shown that know the server's access methods
-- only.
CREATE SCHEMA index_ls_show;
SET search_path = index_ls_show, public;
CREATE TABLE l (id int PRIMARY KEY, t text, "odd USING leanstore_index (" text,
	EXCLUDE USING leanstore (t WITH =)) USING leanstore;
CREATE INDEX l_t ON l
	USING leanstore (t public.text_pattern_ops DESC,
		(' public.text_pattern_ops,' || t) public.text_pattern_ops) INCLUDE (id)
    WITH (fillfactor = 70) WHERE t <> ' USING leanstore_index (';
CREATE INDEX "l USING leanstore_index (" ON l ("odd USING leanstore_index (");
CREATE INDEX l_hash ON l USING hash (t);
CREATE VIEW stored AS SELECT amname FROM pg_am WHERE amname ~ 'leanstore';
PREPARE kept AS SELECT relname, amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam
	WHERE relnamespace = 'index_ls_show'::regnamespace ORDER BY 1;
EXECUTE kept;
CREATE FUNCTION kinds() RETURNS SETOF name LANGUAGE plpgsql AS
    'BEGIN RETURN QUERY SELECT DISTINCT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam '
    'WHERE relnamespace = ''index_ls_show''::regnamespace; END';
SELECT kinds() ORDER BY 1;

SET leanstore.show_indexes_as_btree = on;
EXECUTE kept;
SELECT kinds() ORDER BY 1;
SELECT * FROM stored ORDER BY 1;
SELECT pg_get_viewdef('stored'::regclass);
SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'index_ls_show' ORDER BY 1;
SELECT pg_get_indexdef(indexrelid, 0, true), pg_get_indexdef(indexrelid, 1, false) FROM pg_index
	WHERE indrelid = 'l'::regclass ORDER BY 1;
SELECT pg_get_constraintdef(oid), pg_get_constraintdef(oid, true) FROM pg_constraint
	WHERE conrelid = 'l'::regclass ORDER BY 1;
\d l
-- By the OID of btree, as SQLAlchemy asks.
SELECT count(*) FROM pg_class WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'btree')
	AND relnamespace = 'index_ls_show'::regnamespace;
-- Where the name is compared, grouped, aggregated, joined, null-extended.
SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = indexrelid
	JOIN pg_am ON pg_am.oid = relam WHERE indrelid = 'l'::regclass AND amname = 'btree';
SELECT amname, count(*), string_agg(DISTINCT upper(amname), ',') FROM pg_class c
	JOIN pg_am am ON c.relam = am.oid
    WHERE relnamespace = 'index_ls_show'::regnamespace GROUP BY amname HAVING amname <> 'x'
    ORDER BY amname;
SELECT relname, am.amname, CASE am.amname WHEN 'btree' THEN 'ordered' END FROM pg_class c
	LEFT JOIN pg_am am ON am.oid = c.relam
    WHERE relnamespace = 'index_ls_show'::regnamespace ORDER BY 1;
SELECT (SELECT a.amname FROM pg_am a WHERE a.oid = c.relam),
	(SELECT x.n FROM (SELECT a.amname AS n, a.oid FROM pg_am a) x WHERE x.oid = c.relam)
    FROM pg_class c WHERE oid = 'l_t'::regclass;
WITH a AS (SELECT * FROM pg_am) SELECT amname, pg_am.tableoid::regclass FROM pg_am NATURAL JOIN a
	JOIN pg_class c ON c.relam = pg_am.oid WHERE c.oid = 'l_t'::regclass;
SELECT amname FROM pg_am WHERE amname LIKE 'leanstore%' UNION ALL SELECT amname FROM pg_am
	WHERE oid = (SELECT relam FROM pg_class WHERE oid = 'l_t'::regclass);
CREATE TEMP TABLE copied AS SELECT amname FROM pg_am JOIN pg_class c ON c.relam = pg_am.oid
	WHERE c.oid = 'l_t'::regclass;
DECLARE shown CURSOR WITH HOLD FOR SELECT amname FROM pg_am JOIN pg_class c ON c.relam = pg_am.oid
	WHERE c.oid = 'l_t'::regclass;
FETCH shown;
CLOSE shown;
COPY (SELECT amname FROM pg_am JOIN pg_class c ON c.relam = pg_am.oid WHERE c.oid = 'l_t'::regclass)
	TO stdout;
-- By any role; and the definition can be executed.
CREATE ROLE index_ls_show_user;
GRANT USAGE ON SCHEMA index_ls_show TO index_ls_show_user;
SET ROLE index_ls_show_user;
SELECT pg_get_indexdef('index_ls_show.l_t'::regclass);
RESET ROLE;
BEGIN;
REVOKE USAGE ON SCHEMA public FROM PUBLIC;
SET LOCAL ROLE index_ls_show_user;
SELECT pg_get_indexdef('index_ls_show.l_hash'::regclass);
ROLLBACK;
SET leanstore.replace_btree = on;
SET client_min_messages = warning;
SELECT replace(pg_get_indexdef('l_t'::regclass), 'INDEX l_t', 'INDEX again') \gexec

RESET leanstore.show_indexes_as_btree;
SELECT amname FROM copied;
EXECUTE kept;
SELECT pg_get_indexdef('again'::regclass)
	= replace(pg_get_indexdef('l_t'::regclass), 'INDEX l_t', 'INDEX again');
SELECT * FROM stored ORDER BY 1;
SET client_min_messages = warning;
DROP SCHEMA index_ls_show CASCADE;
DROP ROLE index_ls_show_user;
