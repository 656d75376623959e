-- What VACUUM leaves of a table's files, in blocks of 8 kB, beside heap and btree.
CREATE SCHEMA maint_vacuum_sizes;
SET search_path = maint_vacuum_sizes, public;
-- "?" stands for h (heap) or l (leanstore)
CREATE FUNCTION on_both(command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(replace(command, '?am', 'heap'), '?', 'h');
	EXECUTE replace(replace(command, '?am', 'leanstore'), '?', 'l');
END $$;
CREATE FUNCTION blocks(name text, OUT heap bigint, OUT leanstore bigint) LANGUAGE sql
AS $$ SELECT pg_relation_size('h_' || name) / 8192, pg_relation_size('l_' || name) / 8192 $$;
SELECT on_both(
	'CREATE TABLE ?_t (id int PRIMARY KEY, v text) USING ?am WITH (autovacuum_enabled = off)');
CREATE FUNCTION fill() RETURNS void LANGUAGE sql
AS $$
	SELECT on_both('INSERT INTO ?_t SELECT i, repeat(''v'', 200) FROM generate_series(1, 20000) i')
	$$;

-- All rows deleted: both are empty.
SELECT fill() \g /dev/null
SELECT heap > 500 AS heap, leanstore > 500 AS leanstore FROM blocks('t');
SELECT on_both('DELETE FROM ?_t') \g /dev/null
VACUUM h_t, l_t;
SELECT * FROM blocks('t');
-- btree keeps its pages
SELECT heap > 50 AS heap, leanstore FROM blocks('t_pkey');
SELECT leanstore_check('l_t'), count(*) FROM l_t;
-- What was there once can be there again.
SELECT fill() \g /dev/null
SELECT leanstore_check('l_t'), count(*), sum(id) FROM l_t;

-- The last half deleted: the first one stays.
SELECT on_both('DELETE FROM ?_t WHERE id > 10000') \g /dev/null
CREATE TABLE before AS SELECT * FROM blocks('t');
VACUUM h_t, l_t;
SELECT round(b.heap / a.heap::numeric, 1) AS heap,
	round(b.leanstore / a.leanstore::numeric, 1) AS leanstore FROM before b, blocks('t') a;
SELECT leanstore_check('l_t'), count(*), sum(id) FROM l_t;
-- The first half deleted: the last one stays where it is.
SELECT on_both('DELETE FROM ?_t WHERE id < 5000') \g /dev/null
TRUNCATE before;
INSERT INTO before SELECT * FROM blocks('t');
VACUUM h_t, l_t;
SELECT b.heap = a.heap AS heap, b.leanstore = a.leanstore AS leanstore FROM before b, blocks('t') a;

-- Not if it is not wanted.
SELECT on_both('DELETE FROM ?_t') \g /dev/null
VACUUM (TRUNCATE off) h_t, l_t;
SELECT b.heap = a.heap AS heap, b.leanstore = a.leanstore AS leanstore FROM before b, blocks('t') a;
SELECT on_both('ALTER TABLE ?_t SET (vacuum_truncate = off)') \g /dev/null
VACUUM h_t, l_t;
SELECT b.heap = a.heap AS heap, b.leanstore = a.leanstore AS leanstore FROM before b, blocks('t') a;
SELECT on_both('ALTER TABLE ?_t RESET (vacuum_truncate)') \g /dev/null
SET vacuum_truncate = off;
VACUUM h_t, l_t;
SELECT b.heap = a.heap AS heap, b.leanstore = a.leanstore AS leanstore FROM before b, blocks('t') a;
RESET vacuum_truncate;
VACUUM h_t, l_t;
SELECT * FROM blocks('t');

-- Temporary and unlogged tables.
SELECT on_both('CREATE TEMPORARY TABLE ?_temp (id int PRIMARY KEY, v text) USING ?am');
SELECT on_both('CREATE UNLOGGED TABLE ?_unlogged (id int PRIMARY KEY, v text) '
	'USING ?am WITH (autovacuum_enabled = off)');
SELECT on_both('INSERT INTO ?_temp SELECT i, repeat(''v'', 200) FROM generate_series(1, 5000) i'),
	on_both('INSERT INTO ?_unlogged SELECT i, repeat(''v'', 200) FROM generate_series(1, 5000) i');
SELECT on_both('DELETE FROM ?_temp'), on_both('DELETE FROM ?_unlogged');
VACUUM h_temp, l_temp, h_unlogged, l_unlogged;
SELECT * FROM blocks('temp') temp, blocks('unlogged') unlogged;
SELECT on_both('INSERT INTO ?_temp SELECT i, ''v'' FROM generate_series(1, 5000) i'),
	on_both('INSERT INTO ?_unlogged SELECT i, ''v'' FROM generate_series(1, 5000) i');
SELECT leanstore_check('l_temp'), leanstore_check('l_unlogged');
SET client_min_messages = warning;
DROP SCHEMA maint_vacuum_sizes CASCADE;
