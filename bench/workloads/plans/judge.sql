-- Functions of `bench/run plans`: shapes of plans, their times, and which settings bring one about.
CREATE SCHEMA plans;
CREATE TABLE plans.heap (label text, query text, shape text, ms float8) USING heap;
CREATE TABLE plans.differing (label text, query text, heap text, ours text, heap_ms float8,
	ours_ms float8, as_heap_ms float8) USING heap;
CREATE TABLE plans.compared (label text) USING heap;

-- The nodes, without what they compute; an index-only scan is an index scan.
CREATE FUNCTION plans.shape(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; nodes text := NULL;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS off) ' || query LOOP
		IF nodes IS NULL OR line LIKE '%->%' OR line ~ '^ *(CTE|SubPlan|InitPlan)' THEN
			nodes := concat_ws(E'\n', nodes, replace(line, 'Index Only Scan', 'Index Scan'));
		END IF;
	END LOOP;
	RETURN nodes;
END $$;

-- Milliseconds, the least of five executions, fewer when they take long.  What they
-- change is undone.
CREATE FUNCTION plans.ms(query text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE line text; ms float8; least_ms float8; total float8 := 0;
BEGIN
	FOR i IN 1 .. 5 LOOP
		BEGIN
			FOR line IN
				EXECUTE 'EXPLAIN (ANALYZE, TIMING off, COSTS off, BUFFERS off) ' || query
			LOOP
				ms := coalesce(substring(line FROM '^Execution Time: ([0-9.]+)')::float8, ms);
			END LOOP;
			RAISE EXCEPTION 'undo';
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
		least_ms := least(ms, least_ms);
		total := total + ms;
		EXIT WHEN total > 3000;
	END LOOP;
	RETURN least_ms;
END $$;

-- The planner settings, none to three switched off, with which the query has this shape.
CREATE FUNCTION plans.ms_as(query text, wanted text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	settings text[] := '{enable_seqscan, enable_indexscan, enable_bitmapscan, enable_nestloop,
		enable_hashjoin, enable_mergejoin, enable_hashagg, enable_sort, enable_incremental_sort,
		enable_material, enable_memoize, max_parallel_workers_per_gather}';
	n int := array_length(settings, 1);
	page_cost float8;
	found float8;
BEGIN
	FOREACH page_cost IN ARRAY ARRAY[4, 1.1, 20] LOOP
		FOR a IN 0 .. n LOOP FOR b IN 0 .. a LOOP FOR c IN 0 .. b LOOP
			CONTINUE WHEN (a > 0 AND a = b) OR (b > 0 AND b = c);
			BEGIN
				PERFORM set_config('random_page_cost', page_cost::text, true);
				PERFORM set_config(settings[i],
						CASE WHEN settings[i] LIKE 'max%' THEN '0' ELSE 'off' END, true)
					FROM unnest(ARRAY[a, b, c]) i WHERE i > 0;
				IF plans.shape(query) = wanted THEN
					found := plans.ms(query);
				END IF;
				RAISE EXCEPTION 'undo';
			EXCEPTION WHEN raise_exception THEN
				NULL;
			END;
			IF found IS NOT NULL THEN
				RETURN found;
			END IF;
		END LOOP; END LOOP; END LOOP;
	END LOOP;
	RETURN NULL;
END $$;

-- On heap, then on leanstore.
CREATE FUNCTION plans.note(label text, query text) RETURNS void LANGUAGE sql AS $$
	INSERT INTO plans.heap VALUES (label, query, plans.shape(query), plans.ms(query));
$$;
CREATE FUNCTION plans.judge(of text, query text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE heap plans.heap; ours text := plans.shape(query);
BEGIN
	SELECT * INTO heap FROM plans.heap WHERE label = of;
	INSERT INTO plans.compared SELECT of WHERE FOUND;
	IF heap.shape <> ours THEN
		INSERT INTO plans.differing
			VALUES (of, query, heap.shape, ours, heap.ms, plans.ms(query),
				plans.ms_as(query, heap.shape));
	END IF;
END $$;
