-- TPC-C's and sysbench's queries are planned for leanstore tables as for heap tables: never
-- analyzed, analyzed, as generic plans; small and large.  Only what differs is printed.  The heap
-- tables are not vacuumed: leanstore tables have no visibility map.
CREATE SCHEMA plan_like_heap;
SET search_path = plan_like_heap, public;
-- leanstore_accel may be loaded: a plan that is kept prefers the index
SET leanstore_accel.plan_cache = off;

-- "?" stands for h (heap) or l (leanstore)
CREATE FUNCTION on_both(command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(replace(command, '?am', 'heap'), '?', 'h');
	EXECUTE replace(replace(command, '?am', 'leanstore'), '?', 'l');
END $$;

SELECT on_both(format('CREATE TABLE ?_%s (%s) USING ?am WITH (autovacuum_enabled = off)', name,
	columns)) FROM (VALUES
	('warehouse', 'w_id int PRIMARY KEY, w_tax numeric, w_pad char(80)'),
	('customer',
		'c_w_id int, c_d_id int, c_id int, c_last varchar(16), c_first varchar(16), '
		'c_data varchar(500), PRIMARY KEY (c_w_id, c_d_id, c_id)'),
	('orders', 'o_w_id int, o_d_id int, o_id int, o_c_id int, PRIMARY KEY (o_w_id, o_d_id, o_id)'),
	('new_order', 'no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id)'),
	('order_line',
		'ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, '
		'ol_amount numeric(6, 2), ol_dist char(24), '
		'PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)'),
	('stock',
		's_i_id int, s_w_id int, s_quantity smallint, s_dist_1 char(24), s_dist_2 char(24), '
		's_dist_3 char(24), s_dist_4 char(24), s_data varchar(50), PRIMARY KEY (s_i_id, s_w_id)'),
	('sbtest', 'id int PRIMARY KEY, k int, c char(120), pad char(60)')) t (name, columns);
SELECT on_both('CREATE INDEX ON ?_customer (c_w_id, c_d_id, c_last, c_first)'),
	on_both('CREATE INDEX ON ?_orders (o_w_id, o_d_id, o_c_id, o_id)'),
	on_both('CREATE INDEX ON ?_sbtest (k)');

CREATE FUNCTION fill(n int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['warehouse', 'customer', 'orders', 'new_order', 'order_line',
		'stock', 'sbtest'] LOOP
		PERFORM on_both('TRUNCATE ?_' || name);
	END LOOP;
	PERFORM on_both('INSERT INTO ?_warehouse VALUES (1, 0.1, ''x'')');
	PERFORM on_both(format('INSERT INTO ?_customer SELECT 1, d, i, ''last'' || i %% 100, '
		'''first'' || i, repeat(''d'', 400) FROM generate_series(1, 10) d, '
		'generate_series(1, %s / 10) i', n));
	PERFORM on_both(format('INSERT INTO ?_orders SELECT 1, d, i, 1 + (i * 7919) %% (%1$s / 10) '
		'FROM generate_series(1, 10) d, generate_series(1, %1$s / 10) i', n));
	PERFORM on_both(format('INSERT INTO ?_new_order SELECT 1, d, i FROM generate_series(1, 10) d, '
		'generate_series(%1$s / 14, %1$s / 10) i', n));
	PERFORM on_both(format('INSERT INTO ?_order_line '
		'SELECT 1, d, i, l, 1 + (i * 131 + l * 7) %% %1$s, 1.5, ''x'' '
		'FROM generate_series(1, 10) d, generate_series(1, %1$s / 10) i, generate_series(1, 10) l',
		n));
	PERFORM on_both(format('INSERT INTO ?_stock SELECT i, 1, 10 + (i * 7919) %% 91, ''x'', ''x'', '
		'''x'', ''x'', repeat(''d'', 40) FROM generate_series(1, %s) i', n));
	PERFORM on_both(format('INSERT INTO ?_sbtest SELECT i, (i * 7919) %% %1$s, ''c'' || i, ''pad'' '
		'FROM generate_series(1, %1$s) i', n));
END $$;

CREATE TABLE query (n int GENERATED ALWAYS AS IDENTITY, text text);
INSERT INTO query (text) VALUES
	('SELECT c_last, w_tax FROM ?_customer, ?_warehouse WHERE w_id = $1 AND c_w_id = w_id '
		'AND c_d_id = $2 AND c_id = $3'),
	('SELECT s_quantity FROM ?_stock WHERE s_i_id = $3 AND s_w_id = $1 FOR UPDATE'),
	('SELECT count(DISTINCT s_i_id) FROM ?_order_line, ?_stock WHERE ol_w_id = $1 AND ol_d_id = $2 '
		'AND ol_o_id < $3 AND ol_o_id >= $3 - 20 AND s_w_id = $1 AND s_i_id = ol_i_id '
		'AND s_quantity < 15'),
	('SELECT count(DISTINCT s_i_id) FROM ?_order_line JOIN ?_stock '
		'ON s_i_id = ol_i_id AND s_w_id = ol_w_id WHERE ol_w_id = $1 AND ol_d_id = $2 '
		'AND ol_o_id BETWEEN $3 - 20 AND $3 AND s_quantity < 15'),
	('SELECT c_id FROM ?_customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = ''last7'' '
		'ORDER BY c_first'),
	('SELECT o_id FROM ?_orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 '
		'ORDER BY o_id DESC LIMIT 1'),
	('SELECT ol_i_id, ol_amount FROM ?_order_line WHERE ol_w_id = $1 AND ol_d_id = $2 '
		'AND ol_o_id = $3'),
	('SELECT sum(ol_amount) FROM ?_order_line WHERE ol_w_id = $1 AND ol_d_id = $2 '
		'AND ol_o_id = $3'),
	('UPDATE ?_order_line SET ol_dist = ''y'' WHERE ol_w_id = $1 AND ol_d_id = $2 '
		'AND ol_o_id = $3'),
	('SELECT no_o_id FROM ?_new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id '
		'LIMIT 1'),
	('DELETE FROM ?_new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3'),
	('UPDATE ?_stock SET s_quantity = s_quantity - 1 WHERE s_i_id = $3 AND s_w_id = $1'),
	('SELECT c FROM ?_sbtest WHERE id = $3'),
	('SELECT c FROM ?_sbtest WHERE id BETWEEN $3 AND $3 + 99'),
	('SELECT sum(k) FROM ?_sbtest WHERE id BETWEEN $3 AND $3 + 99'),
	('SELECT c FROM ?_sbtest WHERE id BETWEEN $3 AND $3 + 99 ORDER BY c'),
	('SELECT DISTINCT c FROM ?_sbtest WHERE id BETWEEN $3 AND $3 + 99 ORDER BY c'),
	('SELECT count(k) FROM ?_sbtest WHERE k BETWEEN $3 AND $3 + 99 OR k BETWEEN $3 + 200 '
		'AND $3 + 210'),
	('SELECT id, k FROM ?_sbtest WHERE k IN ($3, $3 + 5, $3 + 10)'),
	('UPDATE ?_sbtest SET k = k + 1 WHERE id = $3'),
	('SELECT count(*) FROM ?_sbtest'),
	('SELECT o_c_id, count(*) FROM ?_orders JOIN ?_order_line '
		'ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id GROUP BY 1');

-- How tables are read, without what stands for heap or leanstore; $1, $2, $3 are 1, 3 and the value
-- given, known or not.
CREATE FUNCTION scans(query text, tables text, value int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; result text[] := '{}';
BEGIN
	EXECUTE 'PREPARE planned (int, int, int) AS ' || replace(query, '?', tables);
	FOR line IN EXECUTE format('EXPLAIN (COSTS off) EXECUTE planned(1, 3, %s)', value) LOOP
		IF line ~ 'Scan (on|using)|Gather' THEN
			result := result || regexp_replace(regexp_replace(line, ' (on|using) .*', ''),
				'^[ >-]*', '');
		END IF;
	END LOOP;
	DEALLOCATE planned;
	RETURN array_to_string(result, ', ');
END $$;
CREATE FUNCTION differing(state text, value int)
	RETURNS TABLE (state_of text, query_text text, heap text, leanstore text) LANGUAGE plpgsql AS $$
DECLARE mode text; q record;
BEGIN
	FOREACH mode IN ARRAY ARRAY['force_custom_plan', 'force_generic_plan'] LOOP
		PERFORM set_config('plan_cache_mode', mode, true);
		FOR q IN SELECT text, scans(text, 'h', value) AS h, scans(text, 'l', value) AS l
			FROM query ORDER BY n LOOP
			IF q.h <> q.l THEN
				RETURN QUERY SELECT state || ', ' || mode,
					left(regexp_replace(q.text, '^SELECT .* FROM', '...'), 100), q.h, q.l;
			END IF;
		END LOOP;
	END LOOP;
END $$;

SELECT fill(200);
SET max_parallel_workers_per_gather = 0;
SELECT * FROM differing('small, never analyzed', 15);
ANALYZE;
SELECT * FROM differing('small, analyzed', 15);
RESET max_parallel_workers_per_gather;
SELECT fill(3000);
ANALYZE;
SELECT * FROM differing('large, analyzed', 150);

-- A large index has fewer blocks than a btree.  Look-ups, of one entry or of many, cost what they
-- do there.
SELECT on_both(
	'CREATE TABLE ?_lines (a int, b int, c int, d int, PRIMARY KEY (a, b, c, d)) USING ?am'),
	on_both('INSERT INTO ?_lines SELECT i / 50000, i / 5000 % 10, i / 10 % 500, i % 10 '
		'FROM generate_series(0, 99999) i'),
	on_both('REINDEX TABLE ?_lines');
-- ANALYZE takes all rows into its sample: both tables get the same numbers of distinct values
SET default_statistics_target = 1000;
SELECT on_both('ANALYZE ?_lines');
RESET default_statistics_target;
SELECT l.relpages < h.relpages * 0.7 AS fewer FROM pg_class l, pg_class h
WHERE l.oid = 'l_lines_pkey'::regclass AND h.oid = 'h_lines_pkey'::regclass;
CREATE FUNCTION index_cost(of text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE plan jsonb;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) SELECT FROM ' || of INTO plan;
	RETURN jsonb_path_query_first(plan, '$.**?(@."Node Type" == "Bitmap Index Scan")."Total Cost"');
END $$;
SET enable_seqscan = off;
SET enable_indexscan = off;
SET enable_indexonlyscan = off;
SELECT of, round((index_cost('l_' || of) / index_cost('h_' || of))::numeric, 1) AS ratio
FROM unnest(ARRAY['lines WHERE a = 1', 'lines WHERE a = 1 AND b = 3',
	'lines WHERE a = 1 AND b = 3 AND c = 17 AND d = 2']) of
ORDER BY of;
RESET enable_seqscan;
RESET enable_indexscan;
RESET enable_indexonlyscan;

UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE relnamespace = 'plan_like_heap'::regnamespace
	AND relkind = 'r';
DELETE FROM pg_statistic
	WHERE starelid IN (SELECT oid FROM pg_class
		WHERE relnamespace = 'plan_like_heap'::regnamespace);
SELECT * FROM differing('large, never analyzed', 150);
SET client_min_messages = warning;
DROP SCHEMA plan_like_heap CASCADE;
