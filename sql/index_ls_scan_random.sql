-- Random conditions on random indexes: whatever the way a leanstore index is
-- scanned, its answer and its order are those of a sequential scan of a heap
-- table with the same rows.  Only differences are printed, and whether each way
-- was taken at all.  To look for more: other seeds for run(), and larger n.
CREATE SCHEMA index_ls_scan_random;
SET search_path = index_ls_scan_random, public;

CREATE TABLE way_taken (way text, queries int, answered int, PRIMARY KEY (way));
CREATE FUNCTION note_way(w text, rows int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO way_taken AS t VALUES (w, 1, (rows > 0)::int)
		ON CONFLICT (way) DO UPDATE SET queries = t.queries + 1,
			answered = t.answered + (rows > 0)::int
$$;

CREATE TABLE layout (n int, columns text[], directions text[], include text);
INSERT INTO layout VALUES
	(1, '{a,b,c}', '{"",DESC,""}', ''),
	(2, '{c,a,d}', '{"",NULLS FIRST,DESC NULLS LAST}', 'b'),
	(3, '{d}', '{DESC}', 'a, c'),
	(4, '{b,c,a,d}', '{NULLS FIRST,DESC,DESC,""}', ''),
	(5, '{a,b,d,c}', '{"","","",""}', ''),
	(6, '{t,b}', '{DESC,""}', 'e'),
	(7, '{e,d,t}', '{"",DESC,""}', 'c'),
	-- column c under a collation that needs labels
	(8, '{c,a}', '{"",DESC}', ''),
	(9, '{b,c,d}', '{DESC,"DESC NULLS LAST",""}', 'a');
CREATE COLLATION libc (provider = libc, locale = 'C.utf8');

CREATE FUNCTION pick(choices anyarray) RETURNS anyelement LANGUAGE sql VOLATILE
AS $$ SELECT choices[1 + floor(random() * cardinality(choices))::int] $$;

-- A random value for a column, as an expression, sometimes of another type or known only at run
-- time.
CREATE FUNCTION value(col text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	v text;
BEGIN
	v := CASE col
		WHEN 'a' THEN (floor(random() * 12) - 2)::int || pick('{"","::int2","::int8"}'::text[])
		WHEN 'b'
			THEN CASE WHEN random() < 0.05 THEN '5000000000'
				ELSE (floor(random() * 8) - 1)::int::text || pick('{"","::int8"}'::text[]) END
		WHEN 'c'
			THEN quote_literal(pick('{"",a,ab,abc,b,"b ",x1,x2,x3,x31,y}'::text[]))
			|| pick('{"::text","::text","::name"}'::text[])
		WHEN 'd'
			THEN CASE WHEN random() < 0.05 THEN '-9223372036854775808'
				ELSE (floor(random() * 320) - 10)::int::text || pick('{"","::int8"}'::text[]) END
		WHEN 'e' THEN pick('{1.5,-0.1,0,3,2.25,NaN,Infinity,-Infinity,7}'::text[])
		WHEN 't'
			THEN quote_literal(
				pick('{2026-01-01,2026-01-03,2026-01-05,2026-02-01,infinity,-infinity}'::text[]))
			|| '::timestamptz'
	END;
	IF col = 'e' THEN
		v := quote_literal(v) || pick('{"::float4","::float8"}'::text[]);
	ELSIF col = 't' AND random() < 0.4 THEN
		v := replace(v, '::timestamptz', pick('{"::date","::timestamp"}'::text[]));
	END IF;
	RETURN CASE WHEN random() < 0.03 THEN '(SELECT NULL::' || CASE col WHEN 'c' THEN 'text'
		WHEN 'e' THEN 'float8' WHEN 't' THEN 'timestamptz' ELSE 'int' END || ')'
		WHEN random() < 0.3 THEN '(SELECT ' || v || ')' ELSE v END;
END $$;

CREATE FUNCTION condition(cols text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	parts text[] = '{}';
	col text;
	n int;
	members text[];
	elements text;
	element_type text;
BEGIN
	FOR i IN 1 .. floor(random() * 4.5)::int LOOP
		col := pick(cols);
		CASE floor(random() * 10)::int
			WHEN 0 THEN
				parts := parts || (col || pick('{" IS NULL"," IS NOT NULL"}'::text[]));
			WHEN 1, 2, 3 THEN
				element_type := CASE col WHEN 'c' THEN 'text' WHEN 'e' THEN 'float8'
					WHEN 't' THEN pick('{date,timestamptz}'::text[])
					ELSE pick('{int4,int8}'::text[]) END;
				SELECT string_agg(CASE WHEN random() < 0.05 THEN 'NULL'
					ELSE regexp_replace(value(col), '5000000000|-9223372036854775808', '7') END
					|| '::' || element_type, ', ')
					INTO elements FROM generate_series(0, floor(random() * 9)::int);
				parts := parts || format('%s %s ANY (ARRAY[%s]::%s[])', col,
					pick('{=,=,=,=,=,<,>=}'::text[]), elements, element_type);
			WHEN 4, 5 THEN
				SELECT array_agg(x ORDER BY random()) INTO members FROM unnest(cols) x;
				IF random() < 0.6 THEN
					n := 1 + floor(random() * cardinality(cols))::int;
					members := cols[n:n + 1 + floor(random() * 3)::int];
				END IF;
				parts := parts || format('(%s) %s (%s)', array_to_string(members, ', '),
					pick('{<,<=,>,>=}'::text[]),
					(SELECT string_agg(value(x), ', ') FROM unnest(members) x));
			ELSE
				parts := parts || format('%s %s %s', col, pick('{<,<=,=,=,=,>,>=}'::text[]),
					value(col));
		END CASE;
	END LOOP;
	RETURN coalesce(nullif(array_to_string(parts, ' AND '), ''), 'true');
END $$;

-- Only ways of scanning in this list are allowed.
CREATE FUNCTION allow(ways text[]) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_' || way, (way = ANY (ways))::text, true)
	FROM unnest('{seqscan,indexscan,indexonlyscan,bitmapscan,sort,incremental_sort,'
		'hashjoin,mergejoin,nestloop,material,memoize}'::text[]) way
$$;

CREATE FUNCTION plan_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text = '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || query LOOP
		plan := plan || line || E'\n';
	END LOOP;
	RETURN plan;
END $$;

-- The same question to both: in the order given (keys), and which rows (ids).
CREATE FUNCTION compare(way text, ways text[], query text, wanted text, keys_wanted text[],
	ids_wanted text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	keys text[];
	ids text[];
	plan text;
BEGIN
	PERFORM allow(ways);
	plan := plan_of(query);
	EXECUTE format('SELECT coalesce(array_agg(q.k), ''{}''), '
		'coalesce(array_agg(q.id ORDER BY q.id), ''{}'') FROM (%s) q(k, id)', query) INTO keys, ids;
	IF plan ~ wanted THEN
		PERFORM note_way(way, cardinality(ids));
	END IF;
	IF ids_wanted IS NOT NULL AND ids IS DISTINCT FROM ids_wanted THEN
		RETURN NEXT format('%s: other rows (%s, should be %s): %s', way, cardinality(ids),
			cardinality(ids_wanted), query);
	ELSIF keys_wanted IS NOT NULL AND keys IS DISTINCT FROM keys_wanted THEN
		RETURN NEXT format('%s: other order: %s', way, query);
	END IF;
END $$;

-- A cursor that goes to and fro must find the same rows in the same places.
CREATE FUNCTION walk(query text, keys_wanted text[]) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	cur refcursor;
	at int = 0;
	total int = cardinality(keys_wanted);
	seen text[];
	k text;
	id text;
	step int;
BEGIN
	PERFORM allow('{indexscan,indexonlyscan}');
	PERFORM note_way('cursor', total) WHERE plan_of(query) ~ 'Index';
	OPEN cur SCROLL FOR EXECUTE query;
	FOR i IN 1 .. 40 LOOP
		CASE floor(random() * 12)::int
			WHEN 0 THEN
				MOVE LAST FROM cur;
				at := total;
				CONTINUE;
			WHEN 1 THEN
				MOVE ABSOLUTE 0 FROM cur;
				at := 0;
				CONTINUE;
			WHEN 2, 3, 4, 5, 6 THEN step := 1;
			WHEN 7, 8, 9 THEN step := -1;
			ELSE step := floor(random() * 13)::int - 6;
		END CASE;
		FETCH RELATIVE step FROM cur INTO k, id;
		at := greatest(0, least(total + 1, at + step));
		IF at BETWEEN 1 AND total THEN
			IF k IS DISTINCT FROM keys_wanted[at] OR coalesce(seen[at], id) IS DISTINCT FROM id THEN
				RETURN NEXT format('cursor: at %s of %s found %s (%s), should be %s (%s): %s', at,
					total, k, id, keys_wanted[at], seen[at], query);
				EXIT;
			END IF;
			seen[at] := id;
		ELSIF k IS NOT NULL THEN
			RETURN NEXT format('cursor: at %s of %s found %s: %s', at, total, k, query);
			EXIT;
		END IF;
	END LOOP;
	CLOSE cur;
END $$;

CREATE FUNCTION one_query(l layout) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	-- names have a collation of their own
	cond text = CASE WHEN l.n < 8 THEN condition(l.columns)
		ELSE replace(condition(l.columns), '::name', '::text') END;
	-- what index-only scans can answer; 0 and -0 are equal
	columns_only text =
		format('ROW(%s)::text', replace(array_to_string(l.columns, ', '), 'e', 'e + 0'));
	keys text = columns_only || ', id::text';
	forward text;
	backward text;
	ordered text;
	reversed text;
	wanted text[];
	wanted_reversed text[];
	ids text[];
	joined text;
BEGIN
	SELECT string_agg(concat_ws(' ', c, d), ', ' ORDER BY i) INTO forward
		FROM unnest(l.columns, l.directions) WITH ORDINALITY AS u(c, d, i);
	SELECT string_agg(c || CASE WHEN d LIKE '%DESC%' THEN ' ASC' ELSE ' DESC' END ||
			CASE WHEN (d LIKE '%DESC%' AND d NOT LIKE '%LAST%') OR d LIKE '%FIRST%'
				THEN ' NULLS LAST' ELSE ' NULLS FIRST' END, ', ' ORDER BY i) INTO backward
		FROM unnest(l.columns, l.directions) WITH ORDINALITY AS u(c, d, i);
	ordered := format('SELECT %s FROM %%s%s WHERE %s ORDER BY %s', keys, l.n, cond, forward);
	reversed := format('SELECT %s FROM %%s%s WHERE %s ORDER BY %s', keys, l.n, cond, backward);

	PERFORM allow('{seqscan,sort}');
	EXECUTE format('SELECT coalesce(array_agg(q.k), ''{}''), '
		'coalesce(array_agg(q.id ORDER BY q.id), ''{}'') FROM (%s) q(k, id)', format(ordered, 'h'))
		INTO wanted, ids;
	EXECUTE format('SELECT coalesce(array_agg(q.k), ''{}'') FROM (%s) q(k, id)',
		format(reversed, 'h')) INTO wanted_reversed;

	RETURN QUERY
		SELECT compare('forward', '{indexscan}', format(ordered, 'l'),
			'Index Scan using', wanted, ids);
	RETURN QUERY
		SELECT compare('backward', '{indexscan}', format(reversed, 'l'), 'Index Scan Backward',
			wanted_reversed, ids);
	RETURN QUERY
		SELECT compare('bitmap', '{bitmapscan}', format(ordered, 'l'),
			'Bitmap Index Scan', wanted, ids);
	RETURN QUERY
		SELECT compare('index only', '{indexonlyscan}',
			format('SELECT k, k FROM (SELECT %s AS k FROM l%s WHERE %s ORDER BY %s) s',
				columns_only, l.n, cond, forward),
		'Index Only Scan using', wanted,
		(SELECT coalesce(array_agg(x ORDER BY x), '{}') FROM unnest(wanted) x));
	RETURN QUERY
		SELECT compare('index only backward', '{indexonlyscan}',
			format('SELECT k, k FROM (SELECT %s AS k FROM l%s WHERE %s ORDER BY %s) s',
				columns_only, l.n, cond, backward),
		'Index Only Scan Backward', wanted_reversed,
		(SELECT coalesce(array_agg(x ORDER BY x), '{}') FROM unnest(wanted) x));
	RETURN QUERY SELECT walk(format(ordered, 'l'), wanted);
	RETURN QUERY SELECT walk(format(reversed, 'l'), wanted_reversed);

	-- a few rows from each end
	RETURN QUERY
		SELECT compare('limit', '{indexscan}', format(ordered, 'l') || ' LIMIT 5',
			'Index Scan using', wanted[1:5], NULL);
	RETURN QUERY
		SELECT compare('limit backward', '{indexscan}', format(reversed, 'l') || ' LIMIT 5',
			'Index Scan Backward', wanted_reversed[1:5], NULL);

	IF random() < 0.5 THEN
		-- work that is worth sharing
		PERFORM set_config('cpu_tuple_cost', '1000', true);
		PERFORM set_config('max_parallel_workers_per_gather', '2', true),
			set_config('parallel_setup_cost', '0', true),
			set_config('parallel_tuple_cost', '0', true),
			set_config('min_parallel_index_scan_size', '0', true),
			set_config('min_parallel_table_scan_size', '0', true);
		RETURN QUERY
			SELECT compare('parallel', '{indexscan}', format(ordered, 'l'), 'Parallel Index Scan',
				wanted, ids);
		RETURN QUERY
			SELECT compare('parallel backward', '{indexscan}', format(reversed, 'l'),
				'Parallel Index Scan Backward', wanted_reversed, ids);
		PERFORM set_config('max_parallel_workers_per_gather', '0', true),
			set_config('cpu_tuple_cost', '0.01', true);
	END IF;

	-- joins: rescans, and marks
	joined := format('SELECT ROW(x.id, y.id)::text, ROW(x.id, y.id)::text FROM %%1$s%1$s x '
		'JOIN (SELECT * FROM %%1$s%1$s WHERE %2$s) y ON x.%3$s = y.%3$s WHERE mod(x.id, 5) = 0',
		l.n, cond, l.columns[1]);
	PERFORM allow('{seqscan,hashjoin}');
	EXECUTE format('SELECT coalesce(array_agg(q.id ORDER BY q.id), ''{}'') FROM (%s) q(k, id)',
		format(joined, 'h')) INTO ids;
	RETURN QUERY
		SELECT compare('nested loop', '{indexscan,nestloop}', format(joined, 'l'),
			'Index Cond: .*= x\.', NULL, ids);
	RETURN QUERY
		SELECT compare('merge join', '{indexscan,mergejoin}', format(joined, 'l'),
			'Merge Join\n.*\n  ->  Index Scan [^\n]*\n(    [^\n]*\n)*  ->  Index Scan', NULL, ids);
END $$;

CREATE FUNCTION run(seed float8, n int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	l layout;
BEGIN
	PERFORM setseed(seed);
	SET LOCAL max_parallel_workers_per_gather = 0;
	SET LOCAL enable_presorted_aggregate = off;	-- it would sort what compare() gets in order
	SET LOCAL jit = off;
	FOR i IN 1 .. n LOOP
		FOR l IN SELECT * FROM layout WHERE to_regclass('l' || layout.n) IS NOT NULL
			ORDER BY layout.n LOOP
			RETURN QUERY SELECT one_query(l);
		END LOOP;
	END LOOP;
END $$;

-- Rows: few values per column, NULLs, many duplicates.
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	CREATE TEMP TABLE new AS
		SELECT i AS id, nullif((random() * 8)::int, 0) AS a, nullif((random() * 6)::int, 3) AS b,
			(ARRAY['a', 'ab', 'abc', 'b', 'b ', 'x1', 'x2', 'x3', 'x31', '', NULL])[
				1 + floor(random() * 11)::int] AS c,
			CASE WHEN random() < 0.95 THEN (random() * 300)::int8 END AS d,
			(ARRAY['1.5', '-0', '0', '3', '2.25', 'NaN', 'Infinity', '-Infinity', NULL])[
				1 + floor(random() * 9)::int]::float8 AS e,
			(ARRAY['2026-01-01', '2026-01-02 12:00', '2026-01-03', '2026-01-05', 'infinity',
				'-infinity', NULL])[1 + floor(random() * 7)::int]::timestamptz AS t
		FROM generate_series(first, last) i;
	FOR i IN 1 .. 9 LOOP
		CONTINUE WHEN to_regclass('l' || i) IS NULL;
		EXECUTE format('INSERT INTO h%1$s SELECT * FROM new; INSERT INTO l%1$s SELECT * FROM new',
			i);
	END LOOP;
	DROP TABLE new;
END $$;

DO $$
DECLARE
	l layout;
BEGIN
	FOR l IN SELECT * FROM layout LOOP
		EXECUTE format('CREATE TABLE h%1$s (id int, a int, b int, c text COLLATE "C", d int8, '
			'e float8, t timestamptz) USING heap', l.n);
		IF l.n >= 8 THEN
			EXECUTE format('ALTER TABLE h%s ALTER c TYPE text COLLATE libc', l.n);
		END IF;
		EXECUTE format('CREATE TABLE l%1$s (LIKE h%1$s) USING leanstore', l.n);
		EXECUTE format('CREATE INDEX ON l%s USING leanstore_index (%s)%s', l.n,
			(SELECT string_agg(concat_ws(' ', c, d), ', ' ORDER BY i)
				FROM unnest(l.columns, l.directions) WITH ORDINALITY AS u(c, d, i)),
			' INCLUDE (' || nullif(l.include, '') || ')');
	END LOOP;
	-- labels, which text has in indexes of before there were keys for such collations
	SET LOCAL allow_system_table_mods = on;
	UPDATE pg_index SET indoption =
		array_to_string(ARRAY(SELECT o & 3 FROM unnest(indoption) o), ' ')::int2vector
		WHERE indrelid = 'l9'::regclass;
END $$;
SELECT setseed(0.25);
SELECT fill(1, 1500);
ANALYZE;
SELECT run(0.5, 3);

-- Rows that are gone, that have changed, that are new; entries of some are dead.
DO $$
BEGIN
	FOR i IN 1 .. 9 LOOP
		CONTINUE WHEN to_regclass('l' || i) IS NULL;
		EXECUTE format('DELETE FROM h%1$s WHERE id %% 3 = 0; DELETE FROM l%1$s WHERE id %% 3 = 0',
			i);
		EXECUTE format('UPDATE h%1$s SET a = b, b = a WHERE id %% 4 = 1; '
			'UPDATE l%1$s SET a = b, b = a WHERE id %% 4 = 1', i);
	END LOOP;
END $$;
SELECT run(0.75, 3);
BEGIN;
SELECT fill(2000, 2300);
SELECT run(0.125, 1);
ROLLBACK;
SELECT run(0.0625, 1);

SELECT way, queries > 10 AS taken, answered > 5 AS found FROM way_taken ORDER BY way;
SELECT format('l%s', n) AS checked, leanstore_check(format('l%s', n)::regclass) FROM layout
	WHERE to_regclass('l' || n) IS NOT NULL ORDER BY n;
DROP SCHEMA index_ls_scan_random CASCADE;
