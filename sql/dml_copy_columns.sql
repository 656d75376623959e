-- COPY, multi-row insertion, NULLs, defaults, identity and generated columns,
-- columns added and dropped under existing rows.
SET default_table_access_method = leanstore;
CREATE SCHEMA dml_copy_columns;
SET search_path = dml_copy_columns, public;
SET datestyle = 'ISO, MDY';

-- COPY in: text, CSV, NULLs, column list, WHERE.
CREATE TABLE copy_in (a int, b text, c numeric DEFAULT 9.5, d date);
COPY copy_in FROM stdin;
1	one	1.1	2024-01-01
2	\N	\N	\N
3	with\ttab and \\ backslash	3	2024-03-03
4		4	infinity
\.
COPY copy_in (b, a) FROM stdin WITH (FORMAT csv, NULL 'nil');
"quoted, ""text""",5
nil,6
,7
\.
COPY copy_in (a) FROM stdin WHERE a % 2 = 0;
11
12
13
14
\.
SELECT a, b, b IS NULL AS b_null, c, d FROM copy_in ORDER BY a;

-- COPY out.
COPY (SELECT * FROM copy_in ORDER BY a) TO stdout;
COPY (SELECT a, b FROM copy_in ORDER BY a) TO stdout WITH (FORMAT csv, HEADER, FORCE_QUOTE (b));
CREATE TABLE copy_one (a int, b text);
INSERT INTO copy_one VALUES (1, 'only');
COPY copy_one TO stdout;

-- A bad line leaves nothing behind; ON_ERROR ignore skips it.
COPY copy_one FROM stdin;
2	two
three	3
\.
SELECT * FROM copy_one;
COPY copy_one FROM stdin WITH (ON_ERROR ignore, LOG_VERBOSITY silent);
2	two
three	3
4	four
\.
SELECT * FROM copy_one ORDER BY a;
-- A duplicate key in the middle of a large batch leaves nothing either.
CREATE TABLE copy_unique (a int PRIMARY KEY, b text);
INSERT INTO copy_unique VALUES (2500, 'there already');
COPY copy_unique FROM PROGRAM 'seq 1 3000 | sed "s/$/	row/"';
SELECT count(*) FROM copy_unique;
DELETE FROM copy_unique;
COPY copy_unique FROM PROGRAM 'seq 1 3000 | sed "s/$/	row/"';
SELECT count(*), sum(a), min(b), max(b) FROM copy_unique;
-- COPY FREEZE into a table made in the same transaction.
BEGIN;
CREATE TABLE copy_frozen (a int);
COPY copy_frozen FROM PROGRAM 'seq 1 1000' WITH (FREEZE);
SELECT count(*), sum(a) FROM copy_frozen;
COMMIT;
SELECT count(*), sum(a) FROM copy_frozen;
-- Into a table with a row trigger, which forbids batches that skip it.
CREATE FUNCTION copy_double() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NEW.a := NEW.a * 2; RETURN CASE WHEN NEW.a % 10 = 0 THEN NULL ELSE NEW END; END $$;
CREATE TRIGGER double_it BEFORE INSERT ON copy_frozen FOR EACH ROW EXECUTE FUNCTION copy_double();
TRUNCATE copy_frozen;
COPY copy_frozen FROM PROGRAM 'seq 1 20';
SELECT array_agg(a ORDER BY a) FROM copy_frozen;
-- Binary there and back.
CREATE TABLE copy_wide (a int, b bytea, c text[], d timestamptz, e float8);
INSERT INTO copy_wide SELECT i, sha256(i::text::bytea), ARRAY[i::text, NULL],
	timestamptz '2024-01-01 00:00Z' + i * interval '1 hour', i / 3.0::float8
FROM generate_series(1, 500) i;
CREATE TABLE copy_back (LIKE copy_wide);
\getenv builddir PG_ABS_BUILDDIR
\set file :builddir '/results/copy_wide.data'
COPY copy_wide TO :'file' WITH (FORMAT binary);
COPY copy_back FROM :'file' WITH (FORMAT binary);
SELECT count(*) FROM copy_back;
SELECT count(*) AS different
	FROM ((TABLE copy_wide EXCEPT ALL TABLE copy_back)
		UNION ALL (TABLE copy_back EXCEPT ALL TABLE copy_wide)) d;

-- NULLs in every place of a row, and rows of nothing but NULLs.
CREATE TABLE null_places (a int, b text, c int8, d text, e bool, f int, g text, h int, i text);
INSERT INTO null_places VALUES
	(1, 'b', 3, 'd', true, 6, 'g', 8, 'i'),
	(NULL, 'b', 3, 'd', true, 6, 'g', 8, NULL),
	(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'i'),
	(3, '', NULL, '', NULL, NULL, '', NULL, ''),
	(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT * FROM null_places ORDER BY a, b;
UPDATE null_places SET b = NULL, i = 'set' WHERE a IS NULL;
UPDATE null_places SET (a, c) = (4, 5) WHERE a IS NULL AND d IS NULL;
SELECT * FROM null_places ORDER BY a NULLS LAST;
SELECT count(*) FILTER (WHERE null_places IS NULL) AS all_null,
	count(*) FILTER (WHERE null_places IS NOT NULL) AS none_null FROM null_places;
CREATE TABLE no_columns ();
INSERT INTO no_columns DEFAULT VALUES;
INSERT INTO no_columns DEFAULT VALUES;
SELECT count(*) FROM no_columns;
DELETE FROM no_columns;
SELECT count(*) FROM no_columns;

-- Identity and serial columns.
CREATE TABLE ident (id int GENERATED ALWAYS AS IDENTITY, s serial, v text);
INSERT INTO ident (v) VALUES ('a'), ('b');
INSERT INTO ident (id, v) VALUES (10, 'refused');
INSERT INTO ident (id, v) OVERRIDING SYSTEM VALUE VALUES (10, 'forced');
INSERT INTO ident (v) VALUES ('c') RETURNING *;
UPDATE ident SET id = DEFAULT WHERE id = 10 RETURNING id;
SELECT * FROM ident ORDER BY id;

-- Generated columns, stored and virtual.
CREATE TABLE gen (a int, twice int GENERATED ALWAYS AS (a * 2) STORED,
	square int GENERATED ALWAYS AS (a * a), note text DEFAULT upper('dflt'));
INSERT INTO gen (a) VALUES (1), (2), (NULL);
INSERT INTO gen (a, twice) VALUES (3, 7);
UPDATE gen SET a = 10 WHERE a = 2 RETURNING *;
SELECT * FROM gen ORDER BY a;
CREATE INDEX ON gen (twice);
UPDATE gen SET a = a + 1 WHERE twice = 20 RETURNING a, twice, square;
COPY gen (a) FROM stdin;
50
\.
SELECT * FROM gen ORDER BY a;

-- Columns added under existing rows: absent, constant, computed, NOT NULL.
CREATE TABLE added (id int);
INSERT INTO added SELECT generate_series(1, 3);
ALTER TABLE added ADD COLUMN n int;
ALTER TABLE added ADD COLUMN k int NOT NULL DEFAULT 42, ADD COLUMN t text DEFAULT 'old default';
ALTER TABLE added ALTER COLUMN t SET DEFAULT 'new default';
INSERT INTO added (id) VALUES (4);
SELECT * FROM added ORDER BY id;
UPDATE added SET n = 1 WHERE id = 1;
UPDATE added SET t = NULL WHERE id = 2;
SELECT * FROM added ORDER BY id;
SELECT id FROM added WHERE k = 42 AND t = 'old default' ORDER BY id;
CREATE INDEX ON added (t);
SET enable_seqscan = off;
SELECT id FROM added WHERE t = 'old default' ORDER BY id;
RESET enable_seqscan;
ALTER TABLE added ADD COLUMN r double precision DEFAULT random();
SELECT count(DISTINCT r) = 4 AS all_differ FROM added;

-- Columns dropped: rows from before and after live together.
ALTER TABLE added DROP COLUMN n, DROP COLUMN r;
INSERT INTO added VALUES (5, 55, 'five');
UPDATE added SET k = k + 1 WHERE id IN (2, 5);
SELECT * FROM added ORDER BY id;
ALTER TABLE added ADD COLUMN n text DEFAULT 'n is back';
ALTER TABLE added DROP COLUMN k;
SELECT * FROM added ORDER BY id;
DELETE FROM added WHERE id = 3 RETURNING *;
INSERT INTO added SELECT id + 10, t, n FROM added;
SELECT * FROM added ORDER BY id;
COPY (SELECT * FROM added ORDER BY id) TO stdout;
ALTER TABLE added DROP COLUMN id, DROP COLUMN t;
SELECT n, count(*) FROM added GROUP BY n ORDER BY n;
-- A row type that has lost columns still travels as a value.
CREATE TABLE holder (r added);
INSERT INTO holder SELECT added FROM added LIMIT 1;
SELECT (r).n FROM holder;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
