-- The planner does with leanstore indexes on leanstore tables what it does with
-- btree on heap: the same queries on equal tables, only plans that differ are
-- printed.  The heap tables are not vacuumed: with a visibility map, which
-- leanstore tables do not have, index-only scans of heap are cheaper.
CREATE SCHEMA index_ls_scan_plans;
SET search_path = index_ls_scan_plans, public;
SET max_parallel_workers_per_gather = 0;

-- "?" stands for h (heap and btree) or l (leanstore)
CREATE FUNCTION on_both(command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(replace(command, '?am', 'heap'), '?', 'h');
	EXECUTE replace(replace(replace(command, '?am', 'leanstore'), 'USING btree',
		'USING leanstore_index'), '?', 'l');
END $$;

SELECT on_both(
	$$ CREATE TABLE ?_fact (id int NOT NULL, a int, b int, c text COLLATE "C", d bigint NOT NULL,
		pad text) USING ?am WITH (autovacuum_enabled = off) $$);
SELECT on_both($$ INSERT INTO ?_fact SELECT i, i % 100, CASE WHEN i % 11 > 0 THEN i % 1000 END,
	'name' || i % 5000, i * 3, repeat('x', 60) FROM generate_series(1, 20000) i $$);
SELECT on_both($$ CREATE UNIQUE INDEX ?_fact_id ON ?_fact USING btree (id) $$);
SELECT on_both($$ CREATE INDEX ?_fact_ab ON ?_fact USING btree (a, b DESC) $$);
SELECT on_both($$ CREATE INDEX ?_fact_b ON ?_fact USING btree (b NULLS FIRST) INCLUDE (d) $$);
SELECT on_both($$ CREATE INDEX ?_fact_c ON ?_fact USING btree (c) $$);
SELECT on_both($$ CREATE INDEX ?_fact_expr ON ?_fact USING btree ((a + b), id) $$);
SELECT on_both($$ CREATE INDEX ?_fact_part ON ?_fact USING btree (d) WHERE a = 7 $$);
SELECT on_both($$ CREATE TABLE ?_dim (id int NOT NULL, code text, big bigint)
	USING ?am WITH (autovacuum_enabled = off) $$);
SELECT on_both($$ INSERT INTO ?_dim SELECT i, 'Code' || i, i * 5
	FROM generate_series(1, 3000) i $$);
SELECT on_both($$ CREATE UNIQUE INDEX ?_dim_id ON ?_dim USING btree (id) $$);
SELECT on_both($$ CREATE INDEX ?_dim_code ON ?_dim USING btree (code text_pattern_ops) $$);
SELECT on_both($$ CREATE UNIQUE INDEX ?_dim_big ON ?_dim USING btree (big) $$);
ANALYZE h_fact, h_dim, l_fact, l_dim;

CREATE TABLE query (n int GENERATED ALWAYS AS IDENTITY, kind text, text text);
INSERT INTO query (kind, text) VALUES
	('point', 'SELECT * FROM ?_fact WHERE id = 5'),
	('point', 'SELECT * FROM ?_fact WHERE id = 5::bigint'),
	('point', 'SELECT * FROM ?_fact WHERE id = 5::smallint AND a > 3'),
	('point', 'SELECT * FROM ?_fact WHERE a = 5 AND b = 105'),
	('point', 'SELECT * FROM ?_fact WHERE c = ''name17'''),
	('range', 'SELECT * FROM ?_fact WHERE id BETWEEN 100 AND 120'),
	('range', 'SELECT * FROM ?_fact WHERE id > 19990'),
	('range', 'SELECT * FROM ?_fact WHERE id > 5'),
	('range', 'SELECT * FROM ?_fact WHERE a = 5 AND b > 800'),
	('range', 'SELECT * FROM ?_fact WHERE a > 97 AND b = 500'),
	('range', 'SELECT * FROM ?_fact WHERE c >= ''name499'' AND c < ''name4991'''),
	('range', 'SELECT count(*) FROM ?_fact WHERE b < 100'),
	('order', 'SELECT * FROM ?_fact ORDER BY id LIMIT 10'),
	('order', 'SELECT * FROM ?_fact ORDER BY id DESC LIMIT 10'),
	('order', 'SELECT * FROM ?_fact ORDER BY a, b DESC LIMIT 10'),
	('order', 'SELECT * FROM ?_fact ORDER BY a DESC, b LIMIT 10'),
	('order', 'SELECT * FROM ?_fact ORDER BY a, b LIMIT 10'),
	('order', 'SELECT * FROM ?_fact ORDER BY b NULLS FIRST LIMIT 10'),
	('order', 'SELECT * FROM ?_fact ORDER BY b DESC NULLS LAST LIMIT 10'),
	('order', 'SELECT * FROM ?_fact ORDER BY b LIMIT 10'),
	('order', 'SELECT * FROM ?_fact WHERE a = 5 ORDER BY b DESC LIMIT 10'),
	('order', 'SELECT * FROM ?_fact WHERE a = 5 ORDER BY b LIMIT 10'),
	('order', 'SELECT * FROM ?_fact ORDER BY a + b, id LIMIT 10'),
	('order', 'SELECT * FROM ?_fact ORDER BY c USING > LIMIT 5'),
	('incremental sort', 'SELECT * FROM ?_fact ORDER BY a, b DESC, c LIMIT 10'),
	('incremental sort', 'SELECT * FROM ?_fact ORDER BY a, c LIMIT 10'),
	('min, max', 'SELECT min(id), max(id) FROM ?_fact'),
	('min, max', 'SELECT min(b) FROM ?_fact'),
	('min, max', 'SELECT max(b) FROM ?_fact WHERE a = 42'),
	('min, max', 'SELECT max(d) FROM ?_fact WHERE a = 7'),
	('distinct', 'SELECT DISTINCT id FROM ?_fact'),
	('distinct', 'SELECT DISTINCT a, b FROM ?_fact ORDER BY a, b DESC LIMIT 20'),
	('distinct', 'SELECT DISTINCT ON (a) a, b FROM ?_fact ORDER BY a, b DESC LIMIT 5'),
	('group', 'SELECT a, count(*) FROM ?_fact GROUP BY a ORDER BY a'),
	('group', 'SELECT b, sum(d) FROM ?_fact GROUP BY b ORDER BY b NULLS FIRST LIMIT 7'),
	('in', 'SELECT * FROM ?_fact WHERE id IN (1, 100, 10000)'),
	('in', 'SELECT * FROM ?_fact WHERE id = ANY (ARRAY[3, 2, 1]::bigint[]) ORDER BY id'),
	('in', 'SELECT * FROM ?_fact WHERE a IN (1, 3) AND b IN (501, 203) ORDER BY a, b DESC'),
	('in', 'SELECT * FROM ?_fact WHERE id = 1 OR id = 9 OR id = 1000'),
	('or', 'SELECT * FROM ?_fact WHERE id = 1 OR c = ''name9'''),
	('and', 'SELECT * FROM ?_fact WHERE b = 7 AND c < ''name1'''),
	('row', 'SELECT * FROM ?_fact WHERE (a, b) > (98, 500)'),
	('row', 'SELECT * FROM ?_fact WHERE (id, a) >= (19990, 3) ORDER BY id LIMIT 5'),
	('row', 'SELECT * FROM ?_fact WHERE (5, 105) = (a, b)'),
	('row', 'SELECT * FROM ?_fact WHERE (10, 2) > (id, a)'),
	('null', 'SELECT * FROM ?_fact WHERE b IS NULL AND a = 3'),
	('null', 'SELECT count(*) FROM ?_fact WHERE b IS NOT NULL'),
	('null', 'SELECT * FROM ?_fact WHERE b IS NULL ORDER BY a LIMIT 3'),
	('partial', 'SELECT d FROM ?_fact WHERE a = 7 AND d > 100 ORDER BY d'),
	('partial', 'SELECT d FROM ?_fact WHERE a = 8 AND d > 100 ORDER BY d'),
	('expression', 'SELECT * FROM ?_fact WHERE a + b = 17'),
	('expression', 'SELECT * FROM ?_fact WHERE a + b = 17 AND id > 500 ORDER BY id'),
	('index only', 'SELECT b, d FROM ?_fact WHERE b = 77'),
	('index only', 'SELECT id FROM ?_fact WHERE id < 50'),
	('index only', 'SELECT a, b FROM ?_fact WHERE a = 3'),
	('skip', 'SELECT a, b FROM ?_fact WHERE b = 77 AND id > 0'),
	('skip', 'SELECT a, b FROM ?_fact WHERE a BETWEEN 1 AND 90 AND b = 777'),
	('like', 'SELECT * FROM ?_fact WHERE c LIKE ''name123%'''),
	('like', 'SELECT * FROM ?_fact WHERE c LIKE ''name1234'''),
	('like', 'SELECT * FROM ?_fact WHERE c ~ ''^name44'''),
	('like', 'SELECT * FROM ?_fact WHERE starts_with(c, ''name44'')'),
	('like', 'SELECT * FROM ?_dim WHERE code LIKE ''Code17%'''),
	('like', 'SELECT * FROM ?_dim WHERE code = ''Code17'''),
	('like', 'SELECT * FROM ?_dim WHERE code ~<~ ''Code10'''),
	('join', 'SELECT * FROM ?_dim x JOIN ?_fact y ON y.id = x.id WHERE x.big = 50'),
	('join', 'SELECT * FROM ?_dim x JOIN ?_fact y ON y.d = x.id WHERE y.a = 7 AND x.id < 9'),
	('join', 'SELECT * FROM ?_dim x, ?_fact y WHERE y.id = x.big'),
	('join',
		'SELECT * FROM ?_fact x WHERE id IN (SELECT big FROM ?_dim WHERE code LIKE ''Code29%'')'),
	('join',
		'SELECT * FROM ?_fact x WHERE NOT EXISTS (SELECT FROM ?_dim y WHERE y.id = x.id) '
		'ORDER BY id LIMIT 8'),
	('merge join',
		'SET enable_hashjoin = off; SET enable_nestloop = off; SELECT * FROM ?_dim x JOIN ?_fact y '
		'USING (id)'),
	('merge join',
		'SET enable_hashjoin = off; SET enable_nestloop = off; SELECT * FROM ?_dim x JOIN ?_fact y '
		'ON x.big = y.id'),
	('merge join',
		'SET enable_hashjoin = off; SET enable_nestloop = off; SELECT * FROM ?_fact x '
		'JOIN ?_fact y USING (a) WHERE x.id < 100'),
	('merge join',
		'SET enable_hashjoin = off; SET enable_nestloop = off; SELECT * FROM ?_dim x '
		'FULL JOIN ?_dim y USING (id)'),
	('join removal', 'SELECT y.* FROM ?_fact y LEFT JOIN ?_dim x ON x.id = y.a'),
	('join removal', 'SELECT y.* FROM ?_fact y LEFT JOIN ?_dim x ON x.big = y.a'),
	('self join', 'SELECT x.* FROM ?_dim x JOIN ?_dim y ON x.id = y.id WHERE y.code > ''x'''),
	('window', 'SELECT id, rank() OVER (ORDER BY id) FROM ?_fact LIMIT 5'),
	('window',
		'SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b DESC) FROM ?_fact LIMIT 5'),
	('window',
		'SELECT id, sum(b) OVER (ORDER BY id RANGE BETWEEN 5 PRECEDING AND 5 FOLLOWING) '
		'FROM ?_fact LIMIT 5'),
	('append', 'SELECT id FROM ?_fact UNION ALL SELECT id FROM ?_dim ORDER BY id LIMIT 5'),
	('append', 'SELECT id FROM ?_dim UNION SELECT big FROM ?_dim ORDER BY 1 LIMIT 5'),
	('lock', 'SELECT * FROM ?_dim WHERE id = 8 FOR UPDATE'),
	('change', 'UPDATE ?_dim SET code = ''x'' WHERE id = 8'),
	('change', 'DELETE FROM ?_dim WHERE big < 20'),
	('change',
		'INSERT INTO ?_dim VALUES (1, '''', 0) ON CONFLICT (id) DO UPDATE '
		'SET code = excluded.code'),
	('change',
		'MERGE INTO ?_dim x USING (VALUES (1, ''a'')) v (id, code) ON x.id = v.id '
		'WHEN MATCHED THEN UPDATE SET code = v.code'),
	('parallel',
		'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; '
		'SET parallel_tuple_cost = 0; SET min_parallel_index_scan_size = 0; '
		'SET min_parallel_table_scan_size = 0; SET enable_seqscan = off; SELECT count(pad) '
		'FROM ?_fact WHERE id > 5000'),
	('parallel',
		'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; '
		'SET parallel_tuple_cost = 0; SET min_parallel_index_scan_size = 0; '
		'SET min_parallel_table_scan_size = 0; SET enable_seqscan = off; SELECT count(*) '
		'FROM ?_fact WHERE id > 5000'),
	('parallel',
		'SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; '
		'SET parallel_tuple_cost = 0; SET min_parallel_index_scan_size = 0; '
		'SET min_parallel_table_scan_size = 0; SET enable_bitmapscan = off; '
		'SET enable_seqscan = off; SELECT a, count(pad) FROM ?_fact WHERE a > 50 GROUP BY a '
		'ORDER BY a');

CREATE FUNCTION shape(query text, tables text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	lines text[] = '{}';
	statement text;
	setting text;
BEGIN
	FOREACH statement IN ARRAY string_to_array(replace(query, '?', tables), '; ') LOOP
		setting := substring(statement FROM '^SET (.*) = ');
		IF setting IS NOT NULL THEN
			PERFORM set_config(setting, substring(statement FROM ' = (.*)$'), true);
			CONTINUE;
		END IF;
		FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || statement LOOP
			lines := lines || regexp_replace(line, '\m' || tables || '_', '', 'g');
		END LOOP;
	END LOOP;
	RETURN array_to_string(lines, E'\n');
END $$;

CREATE FUNCTION compare_plans() RETURNS TABLE (kind text, query text, btree text, leanstore text)
	LANGUAGE plpgsql AS $$
DECLARE
	q query;
BEGIN
	FOR q IN SELECT * FROM query ORDER BY n LOOP
		BEGIN
			btree := shape(q.text, 'h');
			leanstore := shape(q.text, 'l');
			kind := q.kind;
			query := q.text;
			RAISE EXCEPTION 'undo settings' USING ERRCODE = 'LS001';
		EXCEPTION WHEN SQLSTATE 'LS001' THEN
			IF btree <> leanstore THEN
				RETURN NEXT;
			END IF;
		END;
	END LOOP;
END $$;

SELECT count(*) AS queries,
	count(*) FILTER (WHERE shape(text, 'l') ~ 'Index.* using|Bitmap Index Scan')
	> 60 AS most_use_an_index
	FROM query WHERE text NOT LIKE 'SET%';
\x on
SELECT * FROM compare_plans();
\x off

-- At SERIALIZABLE a look-up in a small table takes the index, for a sequential scan locks the whole
-- table; READ ONLY transactions lock nothing.
CREATE TABLE small (id int PRIMARY KEY, v int) USING leanstore;
INSERT INTO small SELECT i, i FROM generate_series(1, 20) i;
ANALYZE small;
EXPLAIN (COSTS off) UPDATE small SET v = 0 WHERE id = 5;
BEGIN ISOLATION LEVEL SERIALIZABLE;
EXPLAIN (COSTS off) UPDATE small SET v = 0 WHERE id = 5;
EXPLAIN (COSTS off) SELECT sum(v) FROM small;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
EXPLAIN (COSTS off) SELECT v FROM small WHERE id = 5;
COMMIT;
DROP SCHEMA index_ls_scan_plans CASCADE;
