-- What docs/security.md says: which role may call and read what of the extension.

-- Functions: PUBLIC and the roles that EXECUTE was granted to; all others are for superusers.
SELECT p.proname AS function, CASE WHEN prosecdef THEN 'owner' ELSE 'caller' END AS runs_as,
	coalesce(string_agg(CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, ', '
		ORDER BY grantee) FILTER (WHERE grantee <> p.proowner), 'superusers') AS who
FROM pg_proc p
	JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
	JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'leanstore_am',
	LATERAL aclexplode(coalesce(proacl, acldefault('f', proowner)))
WHERE prorettype NOT IN ('table_am_handler'::regtype, 'index_am_handler'::regtype)
GROUP BY p.oid ORDER BY p.proname COLLATE "C";

-- Views. "superusers": a grant of the view alone reads nothing.
SELECT c.relname AS view,
	coalesce(string_agg(CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END, ', '
		ORDER BY grantee) FILTER (WHERE grantee <> c.relowner), 'superusers') AS who
FROM pg_class c
	JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
	JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'leanstore_am',
	LATERAL aclexplode(coalesce(relacl, acldefault('r', relowner)))
GROUP BY c.oid ORDER BY c.relname COLLATE "C";

-- A member of the role that a view was granted to reads it, an ordinary role does not.
CREATE ROLE regress_ls_ordinary;
CREATE ROLE regress_ls_stats IN ROLE pg_read_all_stats;
CREATE ROLE regress_ls_monitor IN ROLE pg_monitor;
CREATE TABLE security_privileges (id int, v text) USING leanstore;
CREATE FUNCTION reads(view regclass, role text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	EXECUTE format('SELECT count(*) FROM %s', view);
	RESET ROLE;
	RETURN 'yes';
EXCEPTION WHEN insufficient_privilege THEN
	RESET ROLE;
	RETURN 'no';
END $$;
SELECT c.relname AS view, reads(c.oid, 'regress_ls_ordinary') AS ordinary,
	reads(c.oid, 'regress_ls_stats') AS pg_read_all_stats,
	reads(c.oid, 'regress_ls_monitor') AS pg_monitor
FROM pg_class c
	JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
	JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'leanstore_am'
ORDER BY c.relname COLLATE "C";

-- Settings: what an ordinary role can change, and that none is hidden.
SELECT name, context FROM pg_settings WHERE name LIKE 'leanstore.%' AND context <> 'postmaster'
ORDER BY name COLLATE "C";
SET ROLE regress_ls_ordinary;
SELECT count(*) > 15 AS all_are_shown FROM pg_settings WHERE name LIKE 'leanstore.%';
\set VERBOSITY sqlstate
SET leanstore.trace_values = 'mine';
SET leanstore.count_remote_waits = on;

-- What PUBLIC may call takes anything.
SELECT leanstore_as_btree('anything', 0, false), leanstore_as_btree('', 1, true);
SELECT leanstore_as_btree('x USING leanstore_index (', oid, kind) FROM
	(VALUES (0::oid), ('pg_class'::regclass), ('pg_class_oid_index'::regclass), (4294967295))
		AS o(oid), (VALUES (true), (false)) AS k(kind);
SELECT leanstore_as_btree(NULL, 0, false) IS NULL AS strict;

-- Sizes of values of a table of another role are statistics, what verifies it is not.
SET ROLE regress_ls_stats;
SELECT pages, shared_values FROM leanstore_value_info(
	(SELECT reltoastrelid FROM pg_class WHERE oid = 'security_privileges'::regclass));
SELECT leanstore_relation_info('security_privileges');
SELECT leanstore_check('security_privileges');
\set VERBOSITY default
RESET ROLE;
DROP FUNCTION reads;
DROP TABLE security_privileges;
DROP ROLE regress_ls_ordinary, regress_ls_stats, regress_ls_monitor;
