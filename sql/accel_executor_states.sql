-- What the executor builds for a prepared plan is kept and used again.  What statements return and
-- do is what they do on a heap table, whatever happens in between.
CREATE SCHEMA executor_states;
SET search_path = executor_states, public;
SET plan_cache_mode = force_generic_plan;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE ours (id int PRIMARY KEY, a int NOT NULL, b bigint, v text, UNIQUE (a, b))
	USING leanstore;
INSERT INTO ours SELECT i, i / 100, i % 100, 'v' || i FROM generate_series(1, 5000) i;
CREATE TABLE other (id int PRIMARY KEY, w text) USING leanstore;
INSERT INTO other SELECT i, 'w' || i FROM generate_series(1, 100) i;
ANALYZE ours, other;
CREATE VIEW kept AS SELECT relation::regclass AS relation, command, uses
	FROM leanstore_executor_cache ORDER BY 1, 2, 3;

-- The second execution leaves a state behind, from the third on it is used.
PREPARE by_id(int) AS SELECT v FROM ours WHERE id = $1;
EXECUTE by_id(1);
SELECT * FROM kept;
EXECUTE by_id(2);
SELECT * FROM kept;
EXECUTE by_id(3);
EXECUTE by_id(NULL);
EXECUTE by_id(6000);
EXECUTE by_id(4);
SELECT * FROM kept;

-- All kinds of plans.
PREPARE bump(int, int) AS UPDATE ours SET b = b + $2 WHERE id = $1 RETURNING id, b, old.b;
PREPARE add(int, text) AS INSERT INTO ours VALUES ($1, $1, $1, $2) RETURNING id, v;
PREPARE add_two(int) AS INSERT INTO ours VALUES ($1, $1, 0, 'one'), ($1 + 1, $1 + 1, 0, 'two');
PREPARE add_old(int) AS INSERT INTO ours VALUES ($1, $1, 1, 'x') RETURNING old.id, new.id;
PREPARE gone(int) AS DELETE FROM ours WHERE id = $1 RETURNING v;
PREPARE locked(int) AS SELECT v FROM ours WHERE id = $1 FOR UPDATE;
PREPARE first(int, int) AS SELECT id FROM ours WHERE a = $1 ORDER BY b LIMIT $2;
PREPARE several(int[]) AS SELECT id FROM ours WHERE id = ANY ($1) ORDER BY id LIMIT 3;
PREPARE either(int, int, int) AS SELECT id, v FROM ours
	WHERE (a = $1 AND b = $2) OR (a = $1 AND b = $3);
PREPARE pair(int) AS SELECT v, w FROM ours JOIN other ON other.id = ours.a WHERE ours.id = $1;
PREPARE long(text) AS SELECT count(*) FROM ours WHERE v = $1;
PREPARE only(int) AS SELECT id FROM ours WHERE id = $1;
PREPARE scan(text) AS SELECT id FROM ours WHERE v = $1;
PREPARE constant(int) AS SELECT id FROM ours WHERE $1 = 1 AND id = 5;
DO $$
DECLARE
	r record;
	line text;
BEGIN
	FOR i IN 1..4 LOOP
		FOREACH line IN ARRAY ARRAY['bump(%s, 1000)', 'add(1000%s, ''new'')', 'add_old(3000%s)',
			'gone(1000%s)', 'locked(%s)', 'first(%s, %1$s)', 'several(''{%s,7,9,11,8}'')',
			'either(1, %s, 5)', 'pair(%s + 250)', 'long(''v%s'')', 'only(%s)', 'scan(''v%s'')',
			'constant(%s)'] LOOP
			FOR r IN EXECUTE 'EXECUTE ' || format(line, i) LOOP
				RAISE NOTICE '%: %', format(line, i), r;
			END LOOP;
		END LOOP;
		EXECUTE format('EXECUTE add_two(2000%s0)', i);
	END LOOP;
END $$;
SELECT * FROM kept;
SELECT count(*), sum(id), sum(b) FROM ours;

-- What changes in between.
EXECUTE by_id(5);
ALTER TABLE ours ADD COLUMN n int DEFAULT 3;
EXECUTE bump(5, 1000);
EXECUTE bump(5, 1000);
EXECUTE bump(5, 1000);
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE NOTICE '% %', TG_OP, new; RETURN new; END $$;
CREATE TRIGGER told BEFORE UPDATE ON ours FOR EACH ROW EXECUTE FUNCTION tell();
EXECUTE bump(5, 1000);
EXECUTE bump(5, 1000);
EXECUTE bump(5, 1000);
SELECT * FROM kept WHERE command = 'UPDATE';
DROP TRIGGER told ON ours;
EXECUTE bump(5, 1000);
EXECUTE bump(5, 1000);
EXECUTE bump(5, 1000);
ALTER TABLE ours ADD CONSTRAINT small CHECK (b < 50000);
EXECUTE bump(5, 1000);
EXECUTE bump(5, 50000);
ALTER TABLE ours DROP CONSTRAINT small;
EXECUTE bump(5, 50000);
EXECUTE bump(5, 1000);
EXECUTE bump(5, 1000);
CREATE UNIQUE INDEX ours_b ON ours (a) WHERE b >= 400000;
EXECUTE bump(6, 400000);
EXECUTE bump(7, 400000);
DROP INDEX ours_b;
EXECUTE bump(7, 400000);
CREATE INDEX ours_v ON ours (v);
EXECUTE scan('v77');
EXECUTE scan('v78');
EXECUTE scan('v79');
EXECUTE bump(5, 1000);
EXECUTE bump(5, 1000);
EXECUTE bump(5, 1000);
EXECUTE add(10001, 'indexed');
EXECUTE add(10002, 'indexed');
EXECUTE add(10003, 'indexed');
SELECT id FROM ours WHERE v = 'indexed' ORDER BY id;
DROP INDEX ours_v;
EXECUTE scan('v79');
ALTER TABLE ours ALTER COLUMN b SET NOT NULL;
EXECUTE bump(5, NULL);
EXECUTE bump(5, 1000);
CREATE TABLE moved (id int PRIMARY KEY, v int) USING leanstore;
PREPARE add_moved(int) AS INSERT INTO moved VALUES ($1, $1);
EXECUTE add_moved(1);
EXECUTE add_moved(2);
EXECUTE add_moved(3);
ALTER TABLE moved SET ACCESS METHOD heap;
EXECUTE add_moved(4);
EXECUTE add_moved(5);
SELECT * FROM kept WHERE relation = 'moved'::regclass;
ALTER TABLE moved SET ACCESS METHOD leanstore;
EXECUTE add_moved(6);
EXECUTE add_moved(7);
SELECT sum(id), sum(v) FROM moved;
CREATE TABLE child () INHERITS (ours);
INSERT INTO child VALUES (5, -1, -1, 'of the child');
EXECUTE by_id(5);
EXECUTE bump(5, 1000);
DROP TABLE child;
ANALYZE ours;
EXECUTE by_id(5);
TRUNCATE other;
EXECUTE pair(250);
DROP TABLE other;
EXECUTE pair(250);

-- The role that executes it.
CREATE ROLE regress_ls_executor;
GRANT USAGE ON SCHEMA executor_states TO regress_ls_executor;
GRANT SELECT ON ours TO regress_ls_executor;
EXECUTE by_id(6);
EXECUTE by_id(7);
SET ROLE regress_ls_executor;
EXECUTE by_id(6);
EXECUTE by_id(7);
EXECUTE by_id(8);
EXECUTE bump(5, 1000);
RESET ROLE;
REVOKE SELECT ON ours FROM regress_ls_executor;
SET ROLE regress_ls_executor;
EXECUTE by_id(6);
RESET ROLE;
PREPARE plus(int) AS SELECT id + a FROM ours WHERE id = $1;
EXECUTE plus(1);
EXECUTE plus(2);
EXECUTE plus(3);
GRANT SELECT ON ours TO regress_ls_executor;
BEGIN;
REVOKE EXECUTE ON FUNCTION int4pl(int, int) FROM PUBLIC;
SET LOCAL ROLE regress_ls_executor;
EXECUTE plus(4);
ROLLBACK;
EXECUTE plus(4);
-- that the plan is the same does not tell: functions of the server's own are not what the plan
-- cache looks at
SET ROLE regress_ls_executor;
EXECUTE plus(1);
EXECUTE plus(2);
EXECUTE plus(3);
RESET ROLE;
BEGIN;
REVOKE EXECUTE ON FUNCTION int4pl(int, int) FROM PUBLIC;
SET LOCAL ROLE regress_ls_executor;
EXECUTE plus(4);
ROLLBACK;
BEGIN;
REVOKE EXECUTE ON FUNCTION int4pl(int, int) FROM PUBLIC;
EXECUTE plus(1);
EXECUTE plus(2);
EXECUTE plus(3);
SET LOCAL ROLE regress_ls_executor;
EXECUTE plus(4);
ROLLBACK;
CREATE FUNCTION sums() RETURNS refcursor LANGUAGE plpgsql AS $$
DECLARE
	c CURSOR FOR SELECT id + a FROM ours WHERE id BETWEEN 120 AND 123 ORDER BY id;
BEGIN
	c := NULL;
	OPEN c;
	RETURN c;
END $$;
BEGIN;
SET LOCAL ROLE regress_ls_executor;
SELECT sums() AS zero \gset
CLOSE :"zero";
SELECT sums() AS one \gset
FETCH 1 FROM :"one";
RESET ROLE;
REVOKE EXECUTE ON FUNCTION int4pl(int, int) FROM PUBLIC;
SET LOCAL ROLE regress_ls_executor;
SAVEPOINT s;
SELECT sums();
ROLLBACK TO s;
FETCH 1 FROM :"one";
CLOSE :"one";
SELECT sums();
ROLLBACK;
DROP OWNED BY regress_ls_executor;
DROP ROLE regress_ls_executor;
BEGIN READ ONLY;
EXECUTE by_id(6);
EXECUTE bump(5, 1000);
ROLLBACK;

-- Errors on the way, also caught ones.
PREPARE divide(int, int) AS UPDATE ours SET b = 10000000 / $2 WHERE id = $1 RETURNING b;
EXECUTE divide(1, 10);
EXECUTE divide(1, 20);
EXECUTE divide(1, 0);
EXECUTE divide(1, 20);
EXECUTE divide(1, 25);
DO $$
BEGIN
	FOR i IN 1..6 LOOP
		BEGIN
			EXECUTE format('EXECUTE divide(2, %s)', i % 3);
		EXCEPTION WHEN division_by_zero THEN
			RAISE NOTICE '%', SQLERRM;
		END;
		BEGIN
			EXECUTE format('EXECUTE add(%s, ''again'')', 20000 + i / 2);
		EXCEPTION WHEN unique_violation THEN
			RAISE NOTICE '%', SQLERRM;
		END;
	END LOOP;
END $$;
SELECT id, b, v FROM ours WHERE id = 2 OR id >= 20000 AND v = 'again' ORDER BY id;
BEGIN;
EXECUTE divide(1, 50);
SAVEPOINT s;
EXECUTE divide(1, 0);
ROLLBACK TO s;
EXECUTE divide(2, 50);
COMMIT;
SELECT id, b FROM ours WHERE id IN (1, 2) ORDER BY id;

-- The same plan within itself; a loop that is left in the middle; a cursor that is still open at
-- the end.
CREATE FUNCTION nest(depth int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	result text := '';
BEGIN
	FOR r IN SELECT id FROM ours WHERE id BETWEEN 10 AND 12 LOOP
		result := result || r.id || CASE WHEN depth > 0 THEN '(' || nest(depth - 1) || ')'
			ELSE '' END;
		EXIT WHEN depth = 1 AND r.id = 11;
	END LOOP;
	RETURN result;
END $$;
SELECT nest(2);
SELECT nest(2);
SELECT nest(2);
-- Variables of PL/pgSQL of all kinds, also while the function calls itself.
CREATE FUNCTION count_down(number int, suffix text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r ours;
	word text := suffix || number;
	result text;
BEGIN
	SELECT * INTO r FROM ours WHERE id = number;
	INSERT INTO ours (id, a, b, v)
		VALUES (number + 50000, number + 50000, r.b, word || length(r.v));
	IF number > 30 THEN
		result := count_down(number - 1, suffix || 'x');
	END IF;
	UPDATE ours SET v = v || '+' || word WHERE id = number + 50000 RETURNING v INTO r.v;
	DELETE FROM ours WHERE id = number + 50000;
	RETURN concat_ws(', ', result, r.v);
END $$;
SELECT count_down(33, 'a');
SELECT count_down(32, 'bb');
SELECT count_down(31, repeat('c', 5));
SELECT sum(uses) > 10 AS used FROM kept WHERE command IN ('INSERT', 'UPDATE', 'DELETE');
CREATE FUNCTION open_one() RETURNS refcursor LANGUAGE plpgsql AS $$
DECLARE
	c CURSOR FOR SELECT id FROM ours WHERE id BETWEEN 20 AND 23 ORDER BY id;
BEGIN
	c := NULL;
	OPEN c;
	RETURN c;
END $$;
SELECT open_one() IS NOT NULL FROM generate_series(1, 3);
BEGIN;
SELECT open_one() AS one \gset
SELECT open_one() AS two \gset
FETCH 2 FROM :"one";
FETCH 1 FROM :"two";
FETCH 2 FROM :"one";
CLOSE :"one";
SELECT open_one() AS one \gset
FETCH 2 FROM :"two";
FETCH 2 FROM :"one";
FETCH BACKWARD 1 FROM :"one";
MOVE LAST IN :"two";
FETCH PRIOR FROM :"two";
CLOSE :"two";
SELECT open_one() AS two \gset
FETCH ALL FROM :"two";
COMMIT;
CREATE FUNCTION first_pair() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
BEGIN
	FOR r IN SELECT x.id AS one, y.id AS two FROM ours x
		JOIN ours y ON y.id BETWEEN x.id AND x.id + 2 WHERE x.id BETWEEN 100 AND 112 LOOP
		EXIT;
	END LOOP;
	RETURN r;
END $$;
SELECT first_pair() FROM generate_series(1, 5);
SELECT command, uses >= 3 AS used FROM kept WHERE uses >= 3 AND command = 'SELECT';

-- Relations that go with their transaction.
BEGIN;
CREATE TABLE brief (id int PRIMARY KEY, v int) USING leanstore;
PREPARE to_brief(int) AS INSERT INTO brief VALUES ($1, $1);
PREPARE of_brief(int) AS SELECT v FROM brief WHERE id = $1;
EXECUTE to_brief(1);
EXECUTE to_brief(2);
EXECUTE to_brief(3);
EXECUTE of_brief(1);
EXECUTE of_brief(2);
EXECUTE of_brief(3);
ROLLBACK;
CREATE TABLE brief (v int, id int PRIMARY KEY) USING leanstore;
INSERT INTO brief VALUES (77, 1);
EXECUTE of_brief(1);
EXECUTE of_brief(2);
EXECUTE of_brief(1);
CREATE TEMP TABLE mine (id int PRIMARY KEY, v int) USING leanstore ON COMMIT DELETE ROWS;
PREPARE to_mine(int) AS INSERT INTO mine VALUES ($1, $1) RETURNING v;
BEGIN;
EXECUTE to_mine(1);
EXECUTE to_mine(2);
EXECUTE to_mine(3);
COMMIT;
EXECUTE to_mine(1);
EXECUTE to_mine(1);
SELECT count(*) FROM mine;
DISCARD TEMP;
EXECUTE to_mine(1);

-- Measured, or with other settings, as always; plans that go take their states along.
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off, BUFFERS off) EXECUTE by_id(8);
EXECUTE by_id(8);
EXECUTE by_id(9);
SET leanstore_accel.executor_cache = off;
EXECUTE by_id(10);
RESET leanstore_accel.executor_cache;
EXECUTE by_id(11);
SELECT count(*) > 0 AS some FROM kept;
DEALLOCATE ALL;
DISCARD PLANS;
SELECT count(*) AS prepared FROM kept WHERE command <> 'SELECT';

-- More often than a state is used, more plans than are kept.
PREPARE by_id(int) AS SELECT id FROM ours WHERE id = $1;
CREATE FUNCTION run_often(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	result bigint := 0;
	one int;
BEGIN
	FOR i IN 1..n LOOP
		EXECUTE format('EXECUTE by_id(%s)', i) INTO one;
		result := result + one;
	END LOOP;
	RETURN result;
END $$;
SELECT run_often(1500), 1500 * 1501 / 2;
SELECT max(uses) > 1400 AS used FROM kept;
-- 64 of them at most, also where the memory is enough for more
SET leanstore_accel.kept_memory = '10MB';
DO $$
BEGIN
	FOR i IN 1..100 LOOP
		EXECUTE format('PREPARE p%s(int) AS SELECT id + %1$s FROM ours WHERE id = $1', i);
	END LOOP;
	FOR j IN 1..3 LOOP
		FOR i IN 1..100 LOOP
			EXECUTE format('EXECUTE p%s(1)', i);
		END LOOP;
	END LOOP;
END $$;
SELECT count(*), sum(uses) FROM kept;
EXECUTE p7(1);
EXECUTE p99(1);
DEALLOCATE ALL;

-- Statements at random with changes of the table between them, beside heap.
CREATE TABLE lean (id int PRIMARY KEY, a int, v text) USING leanstore;
CREATE TABLE heap (id int PRIMARY KEY, a int, v text) USING heap;
CREATE PROCEDURE change_at_random(n int, INOUT enough_worked bool, INOUT enough_failed bool)
	LANGUAGE plpgsql AS $$
DECLARE
	statements text[] := ARRAY[
		'(int, int) AS SELECT id || v FROM %1$s WHERE id BETWEEN $1 AND $1 + $2 %% 5 '
		'ORDER BY id DESC LIMIT 1',
		'(int, int) AS SELECT v || $2 FROM %1$s WHERE id = $1',
		'(int, int) AS INSERT INTO %1$s (id, a, v) VALUES ($1, $2, $2::text) RETURNING id',
		'(int, int) AS INSERT INTO %1$s (id, a, v) VALUES ($1 * 1000, $2, ''x''), '
		'($1 * 1000 + 1, $2, ''y'') RETURNING a',
		'(int, int) AS UPDATE %1$s SET a = a + $2, v = v || ''u'' WHERE id = $1 RETURNING a',
		'(int, int) AS UPDATE %1$s SET id = id + $2 WHERE id = $1 RETURNING id',
		'(int, int) AS DELETE FROM %1$s WHERE id = $1 RETURNING v',
		'(int, int) AS DELETE FROM %1$s WHERE a = $2 AND id > $1 RETURNING a',
		'(int, int) AS SELECT 100 / ($2 - 5) FROM %1$s WHERE id = $1',
		'(int, int) AS SELECT v FROM %1$s WHERE id IN ($1, $2, $1 + $2) ORDER BY id LIMIT 2 FOR '
		'UPDATE',
		'(int, int) AS SELECT x.v || y.v FROM %1$s x JOIN %1$s y ON y.id = x.a WHERE x.id = $1',
		'(int, int) AS UPDATE %1$s SET a = $2 WHERE id IN ($1, $1 + 1) RETURNING a'];
	changes text[] := ARRAY[
		'CREATE INDEX ON %s (a)',
		'ALTER TABLE %s ADD COLUMN IF NOT EXISTS extra int DEFAULT 5',
		'ALTER TABLE %s DROP COLUMN IF EXISTS extra',
		'ALTER TABLE %s ALTER COLUMN a TYPE bigint',
		'ALTER TABLE %s ALTER COLUMN a TYPE int',
		'TRUNCATE %s',
		'ALTER TABLE %s ADD CONSTRAINT checked CHECK (a <> 7) NOT VALID',
		'ALTER TABLE %s DROP CONSTRAINT IF EXISTS checked',
		'ANALYZE %s',
		'REINDEX TABLE %s'];
	tables text[] := ARRAY['lean', 'heap'];
	results text[];
	result text;
	number int;
	x int;
	y int;
	worked bigint := 0;
	failed bigint := 0;
BEGIN
	PERFORM setseed(0.5);
	FOR i IN 1..array_length(statements, 1) LOOP
		FOR t IN 1..2 LOOP
			EXECUTE format('PREPARE %1$s_%2$s' || statements[i], tables[t], i);
		END LOOP;
	END LOOP;
	FOR i IN 1..n LOOP
		x := 1 + random() * 40;
		y := random() * 10;
		IF random() < 0.002 THEN
			number := 1 + floor(random() * array_length(changes, 1));
			FOR t IN 1..2 LOOP
				BEGIN
					EXECUTE format(changes[number], tables[t]);
				EXCEPTION WHEN duplicate_object THEN
				END;
			END LOOP;
			COMMIT;
		ELSE
			number := 1 + floor(random() * array_length(statements, 1));
			FOR t IN 1..2 LOOP
				BEGIN
					EXECUTE format('EXECUTE %s_%s(%s, %s)', tables[t], number, x, y) INTO result;
					results[t] := result;
					worked := worked + 1;
				EXCEPTION WHEN unique_violation OR division_by_zero OR check_violation
					OR feature_not_supported THEN
					results[t] := SQLSTATE;
					failed := failed + 1;
				END;
			END LOOP;
			IF results[1] IS DISTINCT FROM results[2] THEN
				RAISE EXCEPTION 'statement % (%, %) returns % instead of %', statements[number], x,
					y, results[1], results[2];
			END IF;
		END IF;
	END LOOP;
	enough_worked := worked > n;
	enough_failed := failed > n / 100;
END $$;
SET client_min_messages = warning;
CALL change_at_random(20000, NULL, NULL);
RESET client_min_messages;
SELECT count(*) FROM (TABLE lean EXCEPT TABLE heap) x;
SELECT count(*) FROM (TABLE heap EXCEPT TABLE lean) x;
SELECT count(*) >= 5 AS kept, sum(uses) > 500 AS used FROM kept WHERE relation = 'lean'::regclass;
SELECT leanstore_check('ours'), leanstore_check('lean');

DEALLOCATE ALL;
RESET search_path;
RESET plan_cache_mode;
\set VERBOSITY terse
DROP SCHEMA executor_states CASCADE;
