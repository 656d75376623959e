-- Rows for tables that a statement makes: CREATE TABLE AS, materialized views, ALTER TABLE.
CREATE SCHEMA dml_rows_for_new_tables;
SET search_path = dml_rows_for_new_tables, public;
SET default_table_access_method = leanstore;
CREATE TABLE source AS
	SELECT i AS id, 'value ' || i AS v, i % 7 AS k FROM generate_series(1, 5000) i;
SELECT count(*), sum(id), min(v), max(v) FROM source;
SELECT count(DISTINCT ctid), count(DISTINCT xmin::text), count(DISTINCT cmin::text) FROM source;

-- wide rows, and values that go elsewhere
CREATE TABLE wide AS
	SELECT i AS id, repeat(md5(i::text), 1 + i % 100) AS v FROM generate_series(1, 2000) i;
SELECT count(*), sum(length(v)), sum((v = repeat(md5(id::text), 1 + id::int % 100))::int) FROM wide;
ALTER TABLE wide ALTER id TYPE bigint, ALTER v SET STORAGE external;
SELECT count(*), sum(length(v)), sum((v = repeat(md5(id::text), 1 + id::int % 100))::int) FROM wide;

-- rewritten; a column that is added, a constraint that fails in the middle
ALTER TABLE source ALTER id TYPE bigint, ADD u int DEFAULT (random() * 0)::int;
SELECT count(*), sum(id), sum(u) FROM source;
ALTER TABLE source ALTER k TYPE smallint, ADD CHECK (id < 4000);
SELECT count(*), sum(id), sum(k), pg_typeof(min(k)) FROM source;

-- a query that fails
CREATE TABLE failed AS SELECT 1 / (3000 - i) AS x FROM generate_series(1, 5000) i;
SELECT to_regclass('failed');

-- a function of the query that looks at the table (STAGED-2)
CREATE FUNCTION rows_of(name text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM %I', name) INTO n;
	RETURN n;
END $$;
CREATE TABLE counted AS
	SELECT i, CASE WHEN i % 100 = 0 THEN rows_of('counted') END AS n FROM generate_series(1, 500) i;
SELECT i, n FROM counted WHERE n IS NOT NULL ORDER BY i;

-- one that changes it
CREATE FUNCTION remove_from(name text, low int) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	EXECUTE format('DELETE FROM %I WHERE i < $1', name) USING low;
END $$;
CREATE TABLE changed AS
	SELECT i, CASE WHEN i = 250 THEN remove_from('changed', 101)::text END AS x
	FROM generate_series(1, 500) i;
SELECT count(*), min(i), max(i) FROM changed;

-- one with subtransactions, every other of which is rolled back
CREATE TABLE log_of_calls (i int);
CREATE FUNCTION half_fails(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	INSERT INTO log_of_calls VALUES (i);
	IF i % 2 = 0 THEN RAISE EXCEPTION 'even'; END IF;
	RETURN i;
EXCEPTION WHEN raise_exception THEN RETURN -i;
END $$;
CREATE TABLE through_savepoints AS
	SELECT i, half_fails(i) AS f FROM generate_series(1, 300) i;
SELECT count(*), sum(i), sum(f) FROM through_savepoints;
SELECT count(*), sum(i) FROM log_of_calls;

-- one that makes a table of its own
CREATE FUNCTION nested(i int) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	n bigint;
BEGIN
	EXECUTE format('CREATE TABLE inner_%s AS
		SELECT j FROM generate_series(1, %s) j', i, i);
	EXECUTE format('SELECT sum(j) FROM inner_%s', i) INTO n;
	RETURN n;
END $$;
CREATE TABLE outer_table AS SELECT i, nested(i) AS n FROM generate_series(1, 5) i;
SELECT * FROM outer_table ORDER BY i;
SELECT (SELECT count(*) FROM inner_1), (SELECT count(*) FROM inner_5);

-- savepoints around, and a transaction rolled back
BEGIN;
SAVEPOINT a;
CREATE TABLE kept AS SELECT i FROM generate_series(1, 1500) i;
RELEASE a;
SAVEPOINT b;
CREATE TABLE gone AS SELECT i FROM generate_series(1, 1500) i;
ROLLBACK TO b;
INSERT INTO kept VALUES (1501);
SELECT count(*), sum(i), to_regclass('gone') FROM kept;
COMMIT;
SELECT count(*), sum(i) FROM kept;
BEGIN;
CREATE TABLE gone AS SELECT i FROM generate_series(1, 1500) i;
ROLLBACK;
SELECT to_regclass('gone');

-- COPY, row by row for a default that is volatile, and what may come behind it
BEGIN;
CREATE TABLE copied (i int, n bigint DEFAULT rows_of('copied'));
COPY copied (i) FROM stdin;
1
2
3
\.
INSERT INTO copied VALUES (4, -1);
CREATE INDEX ON copied (i);
SELECT * FROM copied ORDER BY i;
COMMIT;
SELECT leanstore_check('copied');
BEGIN;
CREATE TABLE emptied (i int, n float8 DEFAULT random());
COPY emptied (i) FROM stdin;
1
2
\.
TRUNCATE emptied;
COPY emptied (i) FROM stdin;
3
\.
COMMIT;
SELECT i FROM emptied;
BEGIN;
CREATE TABLE dropped (i int, n float8 DEFAULT random());
COPY dropped (i) FROM stdin;
1
\.
DROP TABLE dropped;
COMMIT;
BEGIN;
CREATE TABLE moved (i int, n float8 DEFAULT random());
COPY moved (i) FROM stdin;
1
2
\.
ALTER TABLE moved SET TABLESPACE pg_default;
ALTER TABLE moved SET ACCESS METHOD heap;
COMMIT;
SELECT i FROM moved ORDER BY i;

-- materialized views, and temporary tables
CREATE MATERIALIZED VIEW view_of AS SELECT k, count(*) AS n FROM source GROUP BY k;
SELECT * FROM view_of ORDER BY k;
INSERT INTO source SELECT i, 'more', 3 FROM generate_series(1, 10) i;
REFRESH MATERIALIZED VIEW view_of;
SELECT * FROM view_of ORDER BY k;
CREATE TEMPORARY TABLE of_session AS SELECT i FROM generate_series(1, 3000) i;
SELECT count(*), sum(i) FROM of_session;
BEGIN ISOLATION LEVEL SERIALIZABLE;
CREATE TABLE serial AS SELECT i FROM generate_series(1, 3000) i;
SELECT count(*), sum(i) FROM serial;
COMMIT;

SELECT relname, leanstore_check(oid::regclass) FROM pg_class
	WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'leanstore')
	AND relnamespace = 'dml_rows_for_new_tables'::regnamespace AND relkind IN ('r', 'm')
	ORDER BY relname;
