-- Index scans take rows from the engine many at a time.  Whatever happens between two
-- rows (turning around, jumps, rows that change, move or go, also those just
-- returned), a cursor returns what one on a heap table with the same rows returns.
CREATE SCHEMA scan_ahead;
SET search_path = scan_ahead, public;

CREATE TABLE ours (id int, k int, v text) USING leanstore;
CREATE TABLE twin (id int, k int, v text) USING heap;
INSERT INTO ours SELECT i, i * 3, repeat('v', i % 100) FROM generate_series(1, 3000) i;
INSERT INTO twin TABLE ours;
CREATE INDEX ours_k ON ours USING leanstore_index (k);
CREATE INDEX twin_k ON twin USING btree (k);
CREATE UNIQUE INDEX ours_id ON ours USING leanstore_index (id);
CREATE UNIQUE INDEX twin_id ON twin USING btree (id);
ANALYZE ours, twin;

SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
EXPLAIN (COSTS off) SELECT id, k, v FROM ours WHERE k BETWEEN 5 AND 3000 ORDER BY k;

-- Each row has three numbers to itself.  Returns how many rows were compared, and how many of them
-- differ.
CREATE FUNCTION compare(rounds int, column_read text, changes float, OUT compared int,
	OUT differ int) LANGUAGE plpgsql AS $$
DECLARE
	a refcursor;
	b refcursor;
	ra record;
	rb record;
	low int;
	steps int;
	step int;
	jump int;
	n int;
	target int;
BEGIN
	compared := 0;
	differ := 0;
	FOR round IN 1 .. rounds LOOP
		-- An index with stale entries is read one by one, but no scan knows before there are some.
		IF round % 2 = 1 THEN
			REINDEX INDEX ours_k;
		END IF;
		low := floor(random() * 6000);
		OPEN a SCROLL
			FOR EXECUTE format('SELECT %s FROM ours WHERE k BETWEEN $1 AND $2 ORDER BY k',
				column_read) USING low, low + 2500;
		OPEN b SCROLL
			FOR EXECUTE format('SELECT %s FROM twin WHERE k BETWEEN $1 AND $2 ORDER BY k',
				column_read) USING low, low + 2500;
		FOR turn IN 1 .. 60 LOOP
			-- some steps, then a jump
			steps := 0;
			step := 1;
			jump := 1;
			CASE floor(random() * 10)::int
				WHEN 0 THEN
					jump := -floor(random() * 80)::int;
				WHEN 1 THEN
					jump := floor(random() * 150)::int;
				WHEN 2 THEN
					step := -1;
					jump := 0;
					steps := floor(random() * 40)::int;
				ELSE
					steps := floor(random() * 40)::int;
			END CASE;
			FOR i IN 1 .. steps + 1 LOOP
				n := CASE WHEN i <= steps THEN step ELSE jump END;
				FETCH RELATIVE n FROM a INTO ra;
				FETCH RELATIVE n FROM b INTO rb;
				compared := compared + 1;
				differ := differ + (ra IS DISTINCT FROM rb)::int;
			END LOOP;
			CONTINUE WHEN random() > changes;
			-- near where the cursors are, where that is known
			target := CASE WHEN ra.id IS NULL THEN 1 + floor(random() * 3000)
				ELSE ra.id + floor(random() * 60) - 20 END;
			BEGIN
				CASE floor(random() * 4)::int
					WHEN 0 THEN
						UPDATE ours SET k = k / 3 * 3 + (k + 1) % 3 WHERE id = target;
						UPDATE twin SET k = k / 3 * 3 + (k + 1) % 3 WHERE id = target;
					WHEN 1 THEN
						UPDATE ours SET v = v || 'w' WHERE id BETWEEN target AND target + 9;
						UPDATE twin SET v = v || 'w' WHERE id BETWEEN target AND target + 9;
					WHEN 2 THEN
						DELETE FROM ours WHERE id = target;
						DELETE FROM twin WHERE id = target;
					ELSE
						UPDATE ours SET id = id + 100000 WHERE id = target;
						UPDATE twin SET id = id + 100000 WHERE id = target;
				END CASE;
				IF random() < 0.3 THEN
					RAISE EXCEPTION 'never mind';
				END IF;
			EXCEPTION WHEN raise_exception THEN NULL;
			END;
		END LOOP;
		CLOSE a;
		CLOSE b;
	END LOOP;
END $$;
SELECT setseed(0.25);
SELECT * FROM compare(12, 'id, k, v', 0.3);
SELECT * FROM compare(12, 'k, 1 AS id', 0.3);
SET enable_indexonlyscan = off;
SELECT * FROM compare(12, 'k, 1 AS id', 0);

-- Marks: runs of equal keys that are longer than what is taken at a time.
CREATE TABLE many (k int, n int) USING leanstore;
INSERT INTO many SELECT i / 150, i FROM generate_series(0, 1199) i;
CREATE INDEX ON many USING leanstore_index (k);
CREATE TABLE few (k int, n int) USING leanstore;
INSERT INTO few SELECT i / 3, i FROM generate_series(0, 23) i;
CREATE INDEX ON few USING leanstore_index (k);
ANALYZE many, few;
SET enable_hashjoin = off;
SET enable_nestloop = off;
SET enable_material = off;
EXPLAIN (COSTS off) SELECT count(*) FROM few JOIN many USING (k);
SELECT count(*), sum(few.n * many.n) FROM few JOIN many USING (k);
SELECT count(*), sum(few.n * many.n)
	FROM (SELECT i / 3 AS k, i AS n FROM generate_series(0, 23) i) few
	JOIN (SELECT i / 150 AS k, i AS n FROM generate_series(0, 1199) i) many ON few.k = many.k;
RESET enable_hashjoin;
RESET enable_nestloop;
RESET enable_material;

-- Bitmaps, and a condition that not all entries of the range meet.
SET enable_indexscan = off;
SET enable_bitmapscan = on;
EXPLAIN (COSTS off) SELECT count(*), sum(n) FROM many WHERE k BETWEEN 2 AND 5;
SELECT count(*), sum(n) FROM many WHERE k BETWEEN 2 AND 5;
SELECT count(*), sum(n) FROM many WHERE k IN (2, 4, 5);

-- Entries that a scan finds dead behind many that it has returned go with it.
RESET enable_indexscan;
SET enable_bitmapscan = off;
DELETE FROM many WHERE n % 3 = 0;
DO $$
DECLARE
	before bigint;
	read bigint;
	found int;
BEGIN
	FOR i IN 1 .. 600 LOOP
		before := pg_stat_get_xact_tuples_returned('many_k_idx'::regclass);
		SELECT count(*) INTO found FROM many WHERE k >= 0;
		read := pg_stat_get_xact_tuples_returned('many_k_idx'::regclass) - before;
		EXIT WHEN found <> 800 OR read = 800;
		PERFORM pg_sleep(0.01);
	END LOOP;
	RAISE NOTICE '% rows by % entries', found, read;
END $$;

SELECT leanstore_check('ours'), leanstore_check('many'), leanstore_check('few');
SET client_min_messages = warning;
DROP SCHEMA scan_ahead CASCADE;
