-- Queries that differ in their values only are planned once, where a unique index bounds the rows.
-- What they return is what they return on a heap table, whatever is changed in between.
CREATE SCHEMA plan_reuse;
SET search_path = plan_reuse, public;
SET plan_cache_mode = force_custom_plan;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE ours (id int PRIMARY KEY, a int NOT NULL, b bigint NOT NULL, v text, UNIQUE (a, b))
	USING leanstore;
INSERT INTO ours SELECT i, i / 100, i % 100, 'v' || i FROM generate_series(1, 20000) i;
ANALYZE ours;

-- Prints a plan without costs.  The query is planned three times: the second time its plan is kept,
-- the third time used.
CREATE FUNCTION plan_of(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE 'EXPLAIN (COSTS off) ' || query;
	EXECUTE 'EXPLAIN (COSTS off) ' || query;
	RETURN QUERY EXECUTE 'EXPLAIN (COSTS off) ' || query;
END $$;
CREATE VIEW kept AS
	SELECT relation, command, rows_max, uses FROM leanstore_plan_cache
	WHERE relation = 'ours'::regclass;

-- Values are those of the query at hand.
SELECT plan_of('SELECT v FROM ours WHERE id = 7');
SELECT plan_of('SELECT v FROM ours WHERE id = 8');
EXPLAIN (COSTS off) SELECT v FROM ours WHERE id = 9;
SELECT * FROM kept;
SELECT v FROM ours WHERE id = 10;
SELECT v FROM ours WHERE id = 11;
SELECT uses FROM kept;

-- Parameters are values, too; NULL as a constant is not.
PREPARE by_id(int) AS SELECT v FROM ours WHERE id = $1;
EXECUTE by_id(1);
EXECUTE by_id(2);
EXPLAIN (COSTS off) EXECUTE by_id(3);
EXECUTE by_id(NULL);
EXECUTE by_id(4);
SELECT v FROM ours WHERE id = NULL;
SELECT uses FROM kept;

-- All columns of a unique index, a range in the last one, lists.
SELECT plan_of('SELECT v FROM ours WHERE a = 7 AND b = 5');
SELECT plan_of('SELECT v FROM ours WHERE a = 7 AND b BETWEEN 10 AND 12');
SELECT plan_of('SELECT v FROM ours WHERE id IN (1, 2, 3)');
SELECT plan_of(
	'SELECT v FROM ours WHERE (a, b) IN ((1, 2), (3, 4), (5, 6)) AND v <> ''x'' FOR UPDATE');
SELECT plan_of('SELECT sum(a) FROM ours WHERE id >= 100 AND id < 200');
SELECT plan_of('SELECT DISTINCT a FROM ours WHERE id BETWEEN 100 AND 200 ORDER BY a');
SELECT plan_of('SELECT v FROM ours WHERE id = 5 AND v LIKE ''v5%'' FOR UPDATE');
SELECT plan_of('UPDATE ours SET v = v || ''x'' WHERE id = 3 RETURNING v, 17');
SELECT plan_of('DELETE FROM ours WHERE id = 3');
SELECT plan_of('INSERT INTO ours VALUES (1, 2, 3, ''v'') ON CONFLICT (id) DO UPDATE '
	'SET v = excluded.v || 4 WHERE ours.a < 5');
SELECT command, rows_max, uses FROM kept ORDER BY command, rows_max, uses;

-- What the planner computes of values is computed each time; also what cannot be, before anything
-- is executed.
SELECT plan_of('SELECT v FROM ours WHERE id = 5::bigint + 2');
SELECT plan_of('SELECT v FROM ours WHERE id = ANY (ARRAY[3, 2, 1]::bigint[]) AND v < ''w''');
SELECT plan_of('SELECT v FROM ours WHERE id = length(''four'')');
CREATE SEQUENCE counter;
CREATE TABLE small (n int DEFAULT nextval('counter'), s int2 PRIMARY KEY) USING leanstore;
INSERT INTO small (s) VALUES (1);
INSERT INTO small (s) VALUES (2);
INSERT INTO small (s) VALUES (3);
INSERT INTO small (s) VALUES (400000);
INSERT INTO small (s) VALUES (4);
TABLE small ORDER BY s;
SELECT plan_of('SELECT s FROM small WHERE 3 > 2 AND s = 1');
SELECT plan_of('SELECT s FROM small WHERE s = CASE WHEN 3 > 2 THEN 7 END');
SELECT plan_of('SELECT v FROM ours WHERE CASE WHEN id > 3 THEN id ELSE 5 END = 7');
SELECT plan_of('SELECT v FROM ours WHERE id = 7 AND CASE a WHEN 0 THEN b WHEN 3 THEN 4 END = 7 '
	'LIMIT CASE WHEN random() < 2 THEN 1::bigint END');
-- a function that the planner calls asks the same question
CREATE FUNCTION twice(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	r int;
BEGIN
	IF n > 1 THEN
		EXECUTE format('SELECT s * 2 FROM small WHERE s = twice(%s)', n / 2) INTO r;
	END IF;
	RETURN coalesce(r, n);
END $$;
SELECT s * 2 FROM small WHERE s = twice(4);
SELECT s * 2 FROM small WHERE s = twice(2);
SELECT s * 2 FROM small WHERE s = twice(1);
SELECT s * 2 FROM small WHERE s = twice(3);
SELECT command, rows_max, uses FROM leanstore_plan_cache WHERE relation = 'small'::regclass
	ORDER BY command, rows_max;

-- No bound: planned each time.
SELECT plan_of('SELECT v FROM ours WHERE b = 7');
SELECT plan_of('SELECT v FROM ours WHERE id > 19990');
SELECT plan_of('SELECT v FROM ours WHERE id BETWEEN 5 AND 8 AND a = 0');
SELECT command, rows_max, uses FROM kept WHERE rows_max IS NULL;

-- A range that is longer: its plan is kept when it is still the same way, and otherwise it has its
-- own.
SELECT plan_of('SELECT sum(b) FROM ours WHERE id BETWEEN 1 AND 10');
EXPLAIN (COSTS off) SELECT sum(b) FROM ours WHERE id BETWEEN 1 AND 20;
SELECT rows_max, uses FROM kept LIMIT 1;
EXPLAIN (COSTS off) SELECT sum(b) FROM ours WHERE id BETWEEN 1 AND 400;
SELECT rows_max, uses FROM kept LIMIT 1;
EXPLAIN (COSTS off) SELECT sum(b) FROM ours WHERE id BETWEEN 1 AND 19000;
SELECT rows_max, uses FROM kept LIMIT 1;
EXPLAIN (COSTS off) SELECT sum(b) FROM ours WHERE id BETWEEN 1 AND 20000;
EXPLAIN (COSTS off) SELECT sum(b) FROM ours WHERE id BETWEEN 5 AND 8;
SELECT sum(b) FROM ours WHERE id BETWEEN 5 AND 8;
SELECT sum(b) FROM ours WHERE id BETWEEN 8 AND 5;
SELECT sum(b) FROM ours WHERE id BETWEEN -2147483648 AND 2147483647;

-- What a plan depends on.
SELECT plan_of('SELECT v FROM ours WHERE a = 7 AND b = 5');
SET enable_indexscan = off;
SELECT plan_of('SELECT v FROM ours WHERE a = 7 AND b = 5');
RESET enable_indexscan;
SELECT plan_of('SELECT v FROM ours WHERE a = 7 AND b = 5');
ALTER TABLE ours DROP CONSTRAINT ours_a_b_key;
SELECT plan_of('SELECT v FROM ours WHERE a = 7 AND b = 5');
CREATE UNIQUE INDEX other ON ours (b, a);
SELECT plan_of('SELECT v FROM ours WHERE a = 7 AND b = 5');
ALTER INDEX other RENAME TO another;
SELECT plan_of('SELECT v FROM ours WHERE a = 7 AND b = 5');
BEGIN;
DROP INDEX another;
SELECT plan_of('SELECT v FROM ours WHERE a = 7 AND b = 5');
ROLLBACK;
SELECT plan_of('SELECT v FROM ours WHERE a = 7 AND b = 5');
ALTER TABLE ours ALTER COLUMN v TYPE varchar(20), ADD COLUMN w int DEFAULT 12;
SELECT v, w FROM ours WHERE a = 7 AND b = 5;
SELECT v, w FROM ours WHERE a = 7 AND b = 6;
SELECT v, w FROM ours WHERE a = 7 AND b = 7;
CREATE FUNCTION tag(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'old ' || $1 $$;
SELECT tag(v) FROM ours WHERE id = 1;
SELECT tag(v) FROM ours WHERE id = 2;
SELECT tag(v) FROM ours WHERE id = 3;
CREATE OR REPLACE FUNCTION tag(text) RETURNS text LANGUAGE sql IMMUTABLE
	AS $$ SELECT 'new ' || $1 $$;
SELECT tag(v) FROM ours WHERE id = 4;
-- deferrable: two rows may have the key for a while
ALTER TABLE ours ADD CONSTRAINT deferred UNIQUE (w, id) DEFERRABLE;
SELECT plan_of('SELECT v FROM ours WHERE w = 12 AND id = 17');
DROP INDEX another;
ALTER TABLE ours DROP CONSTRAINT ours_pkey;
SELECT plan_of('SELECT v FROM ours WHERE w = 12 AND id = 17');
SELECT rows_max FROM kept LIMIT 1;
ALTER TABLE ours DROP CONSTRAINT deferred, ADD PRIMARY KEY (id);

-- unique, and yet several rows for one value of the last column
CREATE TABLE rooms (room int4range, during int4range, v text,
	PRIMARY KEY (room, during WITHOUT OVERLAPS)) USING leanstore;
INSERT INTO rooms SELECT '[1,2)', int4range(i, i + 1), 'v' || i FROM generate_series(1, 2000) i;
ANALYZE rooms;
SELECT plan_of('SELECT count(*) FROM rooms WHERE room = int4range ''[1,2)'' '
	'AND during && int4range ''[5,8)''');
SELECT rows_max, uses FROM leanstore_plan_cache WHERE relation = 'rooms'::regclass;

-- Row security depends on the role: never kept.
ALTER TABLE ours ENABLE ROW LEVEL SECURITY;
CREATE POLICY even ON ours USING (id % 2 = 0);
CREATE ROLE plan_reuse_user;
GRANT USAGE ON SCHEMA plan_reuse TO plan_reuse_user;
GRANT SELECT (id, v) ON ours TO plan_reuse_user;
SELECT v FROM ours WHERE id = 1;
SELECT v FROM ours WHERE id = 2;
SELECT v FROM ours WHERE id = 3;
SET ROLE plan_reuse_user;
SELECT v FROM ours WHERE id = 1;
SELECT v FROM ours WHERE id = 2;
SELECT v FROM ours WHERE id = 3;
RESET ROLE;
ALTER TABLE ours DISABLE ROW LEVEL SECURITY;
SELECT v FROM ours WHERE id = 3;
-- Privileges are looked at each time.
SELECT a FROM ours WHERE id = 3;
SELECT a FROM ours WHERE id = 4;
SELECT a FROM ours WHERE id = 5;
SET ROLE plan_reuse_user;
SELECT v FROM ours WHERE id = 5;
SELECT a FROM ours WHERE id = 5;
RESET ROLE;

-- A query within a query of the same form.
CREATE FUNCTION next_a(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	found bigint;
BEGIN
	IF n > 3 THEN
		RETURN 1000;
	END IF;
	EXECUTE format('SELECT b + next_a(%s) FROM ours WHERE id = %s', n + 1, n) INTO found;
	RETURN found;
END $$;
SELECT b + next_a(1) FROM ours WHERE id = 10;
SELECT b + next_a(1) FROM ours WHERE id = 20;
SELECT b + next_a(2) FROM ours WHERE id = 30;

SET leanstore_accel.plan_cache = off;
SELECT uses FROM kept WHERE uses > 2 LIMIT 1 \gset before_
SELECT v FROM ours WHERE id = 12;
SELECT v FROM ours WHERE id = 13;
SELECT bool_or(uses = :before_uses) FROM kept;
RESET leanstore_accel.plan_cache;

DISCARD PLANS;
SELECT count(*) FROM kept;
SELECT v FROM ours WHERE id = 13;
SELECT uses FROM kept;

-- Where statistics know few values of the last column, those are all that can be read; not where
-- another condition is left.
CREATE TABLE lines (o int, n int2, v int, PRIMARY KEY (o, n)) USING leanstore;
INSERT INTO lines SELECT i / 15, 1 + i % 15, i FROM generate_series(0, 29999) i;
SELECT plan_of('SELECT sum(v) FROM lines WHERE o = 5');
SELECT command, rows_max, uses FROM leanstore_plan_cache WHERE relation = 'lines'::regclass;
ANALYZE lines;
SELECT plan_of('SELECT sum(v) FROM lines WHERE o = 5');
SELECT plan_of('SELECT o, sum(v) FROM lines WHERE o IN (5, 6) GROUP BY o');
SELECT o, sum(v) FROM lines WHERE o IN (100, 6) GROUP BY o ORDER BY o;
SELECT plan_of('UPDATE lines SET v = 3 WHERE o = 7 OR o = 8');
SELECT plan_of('SELECT n FROM lines WHERE o = 5 AND v = 80');
SELECT plan_of('SELECT o FROM lines WHERE n = 5');
SELECT command, rows_max, uses FROM leanstore_plan_cache WHERE relation = 'lines'::regclass
	ORDER BY command, rows_max;

-- Many forms: the ones used last stay.
DO $$
BEGIN
	FOR turn IN 1 .. 3 LOOP
		FOR n IN 1 .. 200 LOOP
			EXECUTE format('SELECT v AS c%s FROM ours WHERE id = 5', n);
		END LOOP;
	END LOOP;
	FOR turn IN 1 .. 5 LOOP
		EXECUTE 'SELECT v AS c200 FROM ours WHERE id = 5';
	END LOOP;
END $$;
-- Two forms may share a place in what was seen last, so the first uses may not be counted.
SELECT count(*), max(uses) BETWEEN 3 AND 6 AS used FROM kept;

-- At random, beside heap.
DROP TABLE ours CASCADE;
CREATE TABLE ours (id int PRIMARY KEY, a int, b int8, v text, UNIQUE (a, b)) USING leanstore;
CREATE TABLE twin (id int PRIMARY KEY, a int, b int8, v text, UNIQUE (a, b)) USING heap;
CREATE VIEW kept AS SELECT command, rows_max, uses FROM leanstore_plan_cache
	WHERE relation = 'ours'::regclass;
CREATE FUNCTION value_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE query INTO result;
	RETURN result;
EXCEPTION WHEN unique_violation OR numeric_value_out_of_range THEN
	RETURN sqlstate;
END $$;
CREATE FUNCTION compare(rounds int, OUT compared int, OUT differ int, OUT used int)
	LANGUAGE plpgsql AS $$
DECLARE
	forms text[] := ARRAY[
		'SELECT t::text FROM %1$s t WHERE id = %2$s',
		'SELECT t::text FROM %1$s t WHERE id = %2$s AND v > ''v%3$s''',
		'SELECT t::text FROM %1$s t WHERE %2$s = id AND a IS NOT NULL',
		'SELECT t::text FROM %1$s t WHERE a = %2$s AND b = %3$s',
		'SELECT t::text FROM %1$s t WHERE a = %2$s AND b = %3$s::int8 FOR UPDATE',
		'SELECT count(*)::text FROM %1$s WHERE id BETWEEN %2$s AND %3$s',
		'SELECT string_agg(v, '','' ORDER BY id) FROM %1$s WHERE id >= %2$s AND id < %3$s + %4$s',
		'SELECT sum(b)::text FROM %1$s WHERE a = %2$s AND b > %3$s AND b <= %4$s',
		'SELECT count(DISTINCT a)::text FROM %1$s WHERE id IN (%2$s, %3$s, %4$s)',
		'SELECT count(v)::text FROM %1$s WHERE (a, b) IN ((%2$s, %3$s), (%4$s, %2$s))',
		'UPDATE %1$s t SET b = b - 1 WHERE (a, b) IN ((%2$s, %3$s), (NULL, %2$s)) '
		'RETURNING t::text',
		'SELECT v FROM %1$s WHERE id BETWEEN %2$s AND %2$s + %3$s ORDER BY id DESC '
		'LIMIT 1 OFFSET %4$s + 1',
		'SELECT (id + %3$s)::text FROM %1$s WHERE id = %2$s::int8',
		'SELECT (id + %3$s)::text FROM %1$s WHERE id = %2$s.0',
		'INSERT INTO %1$s VALUES (%2$s, %3$s, %4$s, ''v%2$s'') RETURNING id::text',
		'INSERT INTO %1$s VALUES (%2$s, NULL, %4$s, ''v%2$s'') RETURNING id::text',
		'INSERT INTO %1$s AS t VALUES (%2$s, %3$s, %4$s) ON CONFLICT (id) DO UPDATE '
		'SET a = %4$s, v = t.v || %3$s WHERE t.b <> %2$s RETURNING t::text',
		'INSERT INTO %1$s VALUES (%2$s, %3$s, %4$s) ON CONFLICT DO NOTHING RETURNING id::text',
		'UPDATE %1$s t SET v = ''w'' || %3$s, b = b + %4$s WHERE id = %2$s RETURNING t::text',
		'UPDATE %1$s t SET id = %4$s WHERE a = %2$s AND b = %3$s RETURNING t::text',
		'UPDATE %1$s t SET a = NULL WHERE id = %2$s RETURNING t::text',
		'UPDATE %1$s t SET b = id WHERE id IN (%2$s, %3$s - %3$s) AND a = %4$s RETURNING t::text',
		'SELECT string_agg(v, '','' ORDER BY b) FROM %1$s WHERE a = %2$s',
		'SELECT a || '':'' || sum(b) FROM %1$s WHERE a IN (%2$s, %3$s) GROUP BY a ORDER BY a '
		'LIMIT 1',
		'SELECT (id %% 7 + %3$s::int8)::text FROM %1$s WHERE id BETWEEN %2$s AND %4$s '
		'GROUP BY id %% 7 + %3$s::int8 HAVING count(*) > %4$s - 18 ORDER BY 1 LIMIT 1',
		'DELETE FROM %1$s t WHERE id = %2$s RETURNING t::text',
		'DELETE FROM %1$s t WHERE a = %2$s AND b = %3$s RETURNING t::text'];
	changes text[] := ARRAY[
		'ANALYZE %1$s', 'ANALYZE %1$s', 'CREATE INDEX %1$s_v ON %1$s (v)',
		'DROP INDEX IF EXISTS %1$s_v',
		'ALTER TABLE %1$s DROP CONSTRAINT %1$s_a_b_key', 'ALTER TABLE %1$s ADD UNIQUE (a, b)',
		'ALTER TABLE %1$s ALTER COLUMN v TYPE varchar', 'ALTER TABLE %1$s ALTER COLUMN v TYPE text',
		'ALTER TABLE %1$s ALTER COLUMN id TYPE int8', 'ALTER TABLE %1$s ALTER COLUMN id TYPE int4',
		'CREATE UNIQUE INDEX ON %1$s (b, a) WHERE id > 50', 'TRUNCATE %1$s',
		'SET enable_indexscan = off', 'RESET enable_indexscan', 'SET random_page_cost = 1',
		'RESET random_page_cost'];
	form text;
	x int;
	y int;
	z int;
	ra text;
	rb text;
BEGIN
	compared := 0;
	differ := 0;
	used := 0;
	FOR round IN 1 .. rounds LOOP
		form := forms[1 + floor(random() * cardinality(forms))];
		x := floor(random() * 120) - 5;
		y := CASE WHEN random() < 0.05 THEN 2147483647 ELSE floor(random() * 120) - 5 END;
		z := floor(random() * 20) - 1;
		ra := value_of(format(form, 'ours', x, y, z));
		rb := value_of(format(form, 'twin', x, y, z));
		compared := compared + 1;
		IF ra IS DISTINCT FROM rb THEN
			differ := differ + 1;
			RAISE NOTICE '% % % %: % %', form, x, y, z, ra, rb;
		END IF;
		CONTINUE WHEN random() > 0.005;
		used := greatest(used, (SELECT sum(uses) FROM kept));
		form := changes[1 + floor(random() * cardinality(changes))];
		BEGIN
			EXECUTE format(form, 'ours');
			EXECUTE format(form, 'twin');
		EXCEPTION WHEN duplicate_table OR undefined_object OR unique_violation THEN
			NULL;
		END;
	END LOOP;
END $$;
SELECT setseed(0.18);
SELECT compared, differ, used > 300 AS used FROM compare(20000);
SELECT count(*) FROM (TABLE ours EXCEPT TABLE twin) o;
SELECT count(*) FROM (TABLE twin EXCEPT TABLE ours) o;
SELECT leanstore_check('ours');

-- EXPLAIN tells of a plan that was used before: the first is not kept, the second is made to be.
CREATE TABLE told (id int PRIMARY KEY, v text) USING leanstore;
INSERT INTO told SELECT i, 'v' || i FROM generate_series(1, 5000) i;
ANALYZE told;
EXPLAIN (COSTS off) SELECT v FROM told WHERE id = 1;
EXPLAIN (COSTS off) SELECT v FROM told WHERE id = 2;
EXPLAIN (COSTS off) SELECT v FROM told WHERE id = 3;
EXPLAIN (COSTS off, FORMAT yaml) SELECT v FROM told WHERE id = 4;
PREPARE told(int) AS SELECT v FROM told WHERE id = $1;
EXPLAIN (COSTS off) EXECUTE told(5);
EXPLAIN (COSTS off) EXECUTE told(6);
EXPLAIN (COSTS off) EXECUTE told(7);
SET leanstore_accel.plan_cache = off;
EXPLAIN (COSTS off) EXECUTE told(8);
RESET leanstore_accel.plan_cache;
EXPLAIN (COSTS off) EXECUTE told(9);
DISCARD PLANS;
EXPLAIN (COSTS off) EXECUTE told(10);

SET client_min_messages = warning;
DROP SCHEMA plan_reuse CASCADE;
DROP ROLE plan_reuse_user;
