-- Index-only scans take entries from the engine many at a time.  Whatever the keys are, and
-- whatever happens between two rows, they return what those of btree on a heap table with the same
-- rows do.
CREATE SCHEMA index_only_batches;
SET search_path = index_only_batches, public;

CREATE TABLE ours (id int, many int, n int, t text, b bigint, u uuid) USING leanstore;
CREATE TABLE twin (LIKE ours) USING heap;
-- Some keys have hundreds of rows, more than are taken at a time; some values are null.
INSERT INTO ours SELECT i, i / 200, CASE WHEN i % 7 > 0 THEN i % 50 END,
	CASE WHEN i % 11 > 0 THEN repeat(chr(97 + i % 26), i % 120) || i % 300 END,
	i::bigint << 20, md5((i % 400)::text)::uuid
	FROM generate_series(1, 4000) i;
INSERT INTO twin TABLE ours;
CREATE UNIQUE INDEX ON ours USING leanstore_index (id);
CREATE INDEX ON ours USING leanstore_index (many);
CREATE INDEX ON ours USING leanstore_index (many, n DESC, id);
CREATE INDEX ON ours USING leanstore_index (t);
CREATE INDEX ON ours USING leanstore_index (b) INCLUDE (t);
CREATE INDEX ON ours USING leanstore_index (u);
CREATE UNIQUE INDEX ON twin USING btree (id);
CREATE INDEX ON twin USING btree (many);
CREATE INDEX ON twin USING btree (many, n DESC, id);
CREATE INDEX ON twin USING btree (t);
CREATE INDEX ON twin USING btree (b) INCLUDE (t);
CREATE INDEX ON twin USING btree (u);
VACUUM ANALYZE ours, twin;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET enable_incremental_sort = off;

CREATE TABLE queries (no int PRIMARY KEY, query text) USING heap;
INSERT INTO queries VALUES
	(1, 'SELECT id FROM %s WHERE id BETWEEN 100 AND 3900 ORDER BY id'),
	(2, 'SELECT many FROM %s WHERE many > 0 ORDER BY many'),
	(3, 'SELECT many, n, id FROM %s WHERE many BETWEEN 2 AND 15 ORDER BY many, n DESC, id'),
	(4, 'SELECT many, n, id FROM %s WHERE n BETWEEN 5 AND 40 AND id > 700
		ORDER BY many, n DESC, id'),
	(5, 'SELECT t FROM %s WHERE t > ''c'' ORDER BY t'),
	(6, 'SELECT t FROM %s ORDER BY t'),
	(7, 'SELECT b, t FROM %s WHERE b > 1000000 ORDER BY b'),
	(8, 'SELECT u FROM %s ORDER BY u'),
	(9, 'SELECT id FROM %s WHERE id = ANY (ARRAY(SELECT i * 3 FROM generate_series(1, 900) i))
		ORDER BY id'),
	(10, 'SELECT id FROM %s WHERE id BETWEEN 100 AND 3900 ORDER BY id DESC'),
	(11, 'SELECT many FROM %s WHERE many = ANY (''{1,2,5,9,17,30}'') ORDER BY many');

CREATE FUNCTION plan_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ 'Scan' AND line ~ 'ours' THEN
			RETURN regexp_replace(line, '^[ >-]*', '');
		END IF;
	END LOOP;
END $$;
SELECT no, plan_of(format(query, 'ours')) FROM queries ORDER BY no;

-- All of their rows, in order.
CREATE FUNCTION differ(OUT no int, OUT n_rows bigint, OUT n_differ bigint) RETURNS SETOF record
	LANGUAGE plpgsql AS $$
DECLARE
	q text;
BEGIN
	FOR no, q IN SELECT queries.no, query FROM queries ORDER BY queries.no LOOP
		EXECUTE format('
			WITH a AS MATERIALIZED (SELECT row_number() OVER () i, x::text v FROM (%s) x),
				b AS MATERIALIZED (SELECT row_number() OVER () i, x::text v FROM (%s) x)
			SELECT count(*), count(*) FILTER (WHERE a.v IS DISTINCT FROM b.v)
			FROM a FULL JOIN b USING (i)', format(q, 'ours'), format(q, 'twin'))
			INTO n_rows, n_differ;
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM differ();

-- Cursors that turn, jump and go on, while rows change, are taken back, go and come.
CREATE FUNCTION compare(rounds int, changes float, OUT compared int, OUT n_differ int)
	LANGUAGE plpgsql AS $$
DECLARE
	a refcursor;
	b refcursor;
	ra record;
	rb record;
	q text;
	n int;
	target int;
	tab text;
BEGIN
	compared := 0;
	n_differ := 0;
	FOR round IN 0 .. rounds - 1 LOOP
		SELECT query INTO q FROM queries WHERE no = round % 11 + 1;
		OPEN a SCROLL FOR EXECUTE format(q, 'ours');
		OPEN b SCROLL FOR EXECUTE format(q, 'twin');
		FOR turn IN 1 .. 40 LOOP
			n := CASE floor(random() * 8)::int
				WHEN 0 THEN -floor(random() * 90)::int
				WHEN 1 THEN floor(random() * 300)::int
				WHEN 2 THEN -1
				ELSE 1 END;
			FOR i IN 1 .. CASE WHEN abs(n) = 1 THEN 1 + floor(random() * 30)::int ELSE 1 END LOOP
				FETCH RELATIVE n FROM a INTO ra;
				FETCH RELATIVE n FROM b INTO rb;
				compared := compared + 1;
				n_differ := n_differ + (ra IS DISTINCT FROM rb)::int;
			END LOOP;
			CONTINUE WHEN random() > changes;
			target := 1 + floor(random() * 4000);
			BEGIN
				FOREACH tab IN ARRAY ARRAY['ours', 'twin'] LOOP
					CASE turn % 4
						WHEN 0 THEN
							EXECUTE format('UPDATE %s SET many = many + 1, t = t || ''w''
								WHERE id BETWEEN %s AND %s', tab, target, target + 5);
						WHEN 1 THEN
							EXECUTE format('DELETE FROM %s WHERE id = %s', tab, target);
						WHEN 2 THEN
							EXECUTE format('INSERT INTO %s SELECT %s, 5, 5, ''k'', 7
								WHERE NOT EXISTS (SELECT FROM %1$s WHERE id = %2$s)', tab, target);
						ELSE
							EXECUTE format('UPDATE %s SET id = id + 10000 WHERE id = %s',
								tab, target);
					END CASE;
				END LOOP;
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
SELECT setseed(0.5);
SELECT n_differ, compared > 3000 AS many FROM compare(20, 0);
SELECT n_differ, compared > 6000 AS many FROM compare(40, 0.3);
SELECT no, n_differ FROM differ();
VACUUM (INDEX_CLEANUP ON) ours;
SELECT n_differ, compared > 6000 AS many FROM compare(40, 0.3);

-- Rows that a cursor has taken, and not returned yet, are deleted: it sees them, others do not.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT many FROM ours WHERE many > 5 ORDER BY many;
FETCH 4 FROM c;
DELETE FROM ours WHERE many BETWEEN 6 AND 7;
FETCH 4 FROM c;
FETCH BACKWARD 2 FROM c;
SELECT count(*) FROM ours WHERE many BETWEEN 6 AND 7;
ROLLBACK;

-- Rescans: a nested loop's inner side, by ranges that end anywhere in a batch; with a limit.
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_memoize = off;
SELECT count(*), sum(x.n), sum(y.n) FROM generate_series(1, 300) g,
	LATERAL (SELECT count(*) n FROM ours WHERE id BETWEEN g * 11 AND g * 11 + g) x,
	LATERAL (SELECT count(*) n FROM
		(SELECT id FROM ours WHERE id > g * 11 ORDER BY id LIMIT g) l) y;
SELECT count(*), sum(x.n), sum(y.n) FROM generate_series(1, 300) g,
	LATERAL (SELECT count(*) n FROM twin WHERE id BETWEEN g * 11 AND g * 11 + g) x,
	LATERAL (SELECT count(*) n FROM
		(SELECT id FROM twin WHERE id > g * 11 ORDER BY id LIMIT g) l) y;

-- Marks, in the middle of a batch: groups of the outer side read the inner's again.
RESET enable_mergejoin;
SET enable_nestloop = off;
SET enable_material = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM ours a JOIN ours b ON a.many = b.many WHERE a.many < 3;
SELECT count(*) FROM ours a JOIN ours b ON a.many = b.many WHERE a.many < 3;
SELECT count(*) FROM twin a JOIN twin b ON a.many = b.many WHERE a.many < 3;
RESET enable_nestloop;
RESET enable_material;

-- Processes that share a scan.
VACUUM ANALYZE ours;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_index_scan_size = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SET parallel_leader_participation = off;
SELECT plan_of('SELECT count(many), sum(many) FROM ours WHERE many >= 0');
SELECT (SELECT (count(many), sum(many)) FROM ours WHERE many >= 0) =
	(SELECT (count(many), sum(many)) FROM twin WHERE many >= 0) AS same;
SELECT (SELECT (count(id), sum(id)) FROM ours WHERE id > 100) =
	(SELECT (count(id), sum(id)) FROM twin WHERE id > 100) AS same;
SELECT (SELECT (count(t), max(t)) FROM ours WHERE t >= '') =
	(SELECT (count(t), max(t)) FROM twin WHERE t >= '') AS same;
RESET max_parallel_workers_per_gather;

-- What is read is locked: entry by entry, not in batches.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT (SELECT (count(*), sum(id)) FROM ours WHERE id BETWEEN 100 AND 900) =
	(SELECT (count(*), sum(id)) FROM twin WHERE id BETWEEN 100 AND 900) AS same;
COMMIT;

SELECT leanstore_check('ours');
SET client_min_messages = warning;
DROP SCHEMA index_only_batches CASCADE;
