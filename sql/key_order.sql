-- Keys compare by memcmp as the values compare by their operator class, can be taken apart again,
-- and damaged ones are noticed.  Values are drawn at random, next to edge cases: LS_SEED picks
-- others than those of every day, LS_KEY_VALUES how many.  A check that finds something wrong says
-- what, and the seed.
\set seed 1
\set values 80
\getenv seed LS_SEED
\getenv values LS_KEY_VALUES
SET client_min_messages = warning;
SET timezone = 'America/New_York';
SET enable_seqscan = off;
SET enable_bitmapscan = off;

CREATE SCHEMA key_order;
SET search_path = key_order, public;

CREATE FUNCTION key_kind(v anyelement, cmp regproc, descending bool, nulls_first bool) RETURNS bool
	AS '$libdir/leanstore_am', 'ls_key_sql_kind' LANGUAGE C;
CREATE FUNCTION key_encode(v anyelement, cmp regproc, descending bool, nulls_first bool)
	RETURNS bytea
	AS '$libdir/leanstore_am', 'ls_key_sql_encode' LANGUAGE C;
CREATE FUNCTION key_decode(v anyelement, cmp regproc, descending bool, nulls_first bool, key bytea)
	RETURNS anyelement
	AS '$libdir/leanstore_am', 'ls_key_sql_decode' LANGUAGE C;
CREATE FUNCTION key_length(v anyelement, cmp regproc, descending bool, nulls_first bool, key bytea)
	RETURNS int
	AS '$libdir/leanstore_am', 'ls_key_sql_length' LANGUAGE C;
CREATE FUNCTION key_fit(v anyelement, cmp regproc, descending bool, nulls_first bool, other "any")
	RETURNS int
	AS '$libdir/leanstore_am', 'ls_key_sql_fit' LANGUAGE C;
CREATE FUNCTION key_converted(v anyelement, cmp regproc, descending bool, nulls_first bool,
	other "any") RETURNS anyelement
	AS '$libdir/leanstore_am', 'ls_key_sql_converted' LANGUAGE C;

CREATE FUNCTION key_strings(v "any", cmp regproc, descending bool, nulls_first bool) RETURNS int
	AS '$libdir/leanstore_am', 'ls_key_sql_strings' LANGUAGE C;

CREATE TABLE settings AS SELECT :seed AS seed, :values AS n;
DO $$ BEGIN PERFORM setseed((seed % 1000003) / 1000003.0) FROM settings; END $$;

-- ---- random values

CREATE FUNCTION pick(choices anyarray) RETURNS anyelement LANGUAGE sql VOLATILE
	AS 'SELECT choices[random(1, cardinality(choices))]';
-- Few different letters, so that strings have much in common.
CREATE FUNCTION some_text(letters text DEFAULT 'ab') RETURNS text LANGUAGE sql VOLATILE
	RETURN (SELECT coalesce(string_agg(substr(letters, random(1, length(letters)), 1), ''), '')
			FROM generate_series(1, pick(ARRAY[0, 1, 2, 3, 3, 4, 5, 8, 17])));
CREATE FUNCTION some_bytes() RETURNS bytea LANGUAGE sql VOLATILE
	RETURN
		(SELECT coalesce(
			string_agg(pick(ARRAY['\x00', '\x00', '\x01', '\x41', '\xfe', '\xff']::bytea[]), ''),
			'')
			FROM generate_series(1, random(0, 7)));
CREATE FUNCTION some_int8() RETURNS int8 LANGUAGE sql VOLATILE
	RETURN pick(ARRAY[random(-3, 3)::int8, random(-300, 300), random(-70000, 70000),
					  random(-2147483648, 2147483647),
					  random(-9223372036854775808, 9223372036854775807), 9223372036854775807,
					  -9223372036854775808,
					  2147483648, 2147483647, -2147483648, -2147483649, 32767, 32768, -32768,
					  -32769, 95, 96, -96, -97]);
CREATE FUNCTION some_int4() RETURNS int4 LANGUAGE sql VOLATILE
	RETURN pick(ARRAY[random(-3, 3), random(-300, 300), random(-2147483648, 2147483647), 2147483647,
		-2147483648]);
CREATE FUNCTION some_int2() RETURNS int2 LANGUAGE sql VOLATILE
	RETURN pick(ARRAY[random(-3, 3), random(-32768, 32767), 32767, -32768])::int2;
CREATE FUNCTION some_float8() RETURNS float8 LANGUAGE sql VOLATILE
	RETURN pick(ARRAY['NaN', 'Infinity', '-Infinity', 0, '-0', random() - 0.5, random(-5, 5),
					  random_normal() * 1e30,
					  1e308, -1e308, 5e-324, -5e-324, 1e-310, 3.4028235e38, 3.5e38, -3.5e38, 0.1,
					  0.1::float4, 1e-50]);
CREATE FUNCTION some_float4() RETURNS float4 LANGUAGE sql VOLATILE
	RETURN pick(ARRAY['NaN', 'Infinity', '-Infinity', 0, '-0', random() - 0.5, random(-5, 5),
					  random_normal() * 1e9,
					  3.4028235e38, -3.4028235e38, 1e-45, -1e-45, 0.1]::float4[]);
CREATE FUNCTION some_numeric() RETURNS numeric LANGUAGE sql VOLATILE
	RETURN CASE WHEN random(1, 3) = 1
		THEN pick(ARRAY[1, -1])
			* pick(ARRAY[1, 1.5, 1.0001, 1.01, 10000, 10000.5, 1.00010001, 100, 1e20, 1e20 + 1])
		ELSE pick(ARRAY['NaN', 'Infinity', '-Infinity', 0, 0.000, random(-3, 3),
						random(-3, 3) * 1.00, random(-20000, 20000) / 100.0,
						random(-1000000, 1000000)::numeric * power(10::numeric, random(-12, 12)),
						random(-1000000000000, 1000000000000)::numeric,
						pick(ARRAY[1, -1]) * power(10::numeric, random(-400, 900)),
						pick(ARRAY[1, -1])
							* (power(10::numeric, random(-30, 30))
								+ power(10::numeric, random(-30, 30))),
						99.99, 100, 9999, 10000, 10001, 1e-4, 1e131000, -1e131000, 1e-16000, 0.5,
						0.50, 0.05, -0.5])
		END;
CREATE FUNCTION some_timestamp() RETURNS timestamp LANGUAGE sql VOLATILE
	RETURN pick(ARRAY['infinity', '-infinity', '2000-01-01', '294276-12-31 23:59:59.999999',
					  '4714-11-24 00:00:00 BC',
					  '4714-11-24 12:00:00 BC', '294276-12-31 02:00:00',
					  timestamp '2024-11-03 00:00' + random(0, 16) * interval '15 minutes',
					  timestamp '2024-11-03 00:59:59.999999' + random(0, 2)
					    * interval '1 microsecond',
					  timestamp '1999-12-31' + random(0, 3) * interval '12 hours',
					  timestamp '2000-01-01' + random(-1000000000, 1000000000)
					    * interval '1.000001 seconds'
					 ]::timestamp[]);
CREATE FUNCTION some_timestamptz() RETURNS timestamptz LANGUAGE sql VOLATILE
	RETURN pick(ARRAY['infinity', '-infinity', '2000-01-01', '294276-12-31 23:59:59.999999+00',
					  '4714-11-24 00:00:00+00 BC',
					  '4714-11-25 00:00:00+00 BC', '294276-12-31 02:00:00+00',
					  timestamptz '2024-11-03 04:00+00' + random(0, 16) * interval '15 minutes',
					  timestamptz '2024-11-03 04:59:59.999999+00' + random(0, 2)
					    * interval '1 microsecond',
					  timestamptz '1999-12-31' + random(0, 3) * interval '12 hours',
					  timestamptz '2000-01-01' + random(-1000000000, 1000000000)
					    * interval '1.000001 seconds'
					 ]::timestamptz[]);
CREATE FUNCTION some_date() RETURNS date LANGUAGE sql VOLATILE
	RETURN pick(ARRAY['infinity', '-infinity', '5874897-12-31', '4714-11-24 BC', '4714-11-25 BC',
					  '294276-12-31', '294277-01-01',
					  date '2024-11-02' + random(0, 2), date '1999-12-30' + random(0, 3),
					  date '2000-01-01' + random(-20000, 20000)]::date[]);
CREATE FUNCTION some_interval() RETURNS interval LANGUAGE sql VOLATILE
	RETURN pick(ARRAY['infinity', '-infinity', '1 month', '30 days', '29 days 24 hours',
					  '720:00:00', '1 day', '24:00:00', '0',
					  '1 month -30 days', '178000000 years', '-178000000 years', '2147483647 days',
					  '1 microsecond',
					  make_interval(months => random(-2, 2), days => random(-40, 40),
					    hours => random(-50, 50)),
					  make_interval(secs => random_normal())]::interval[]);
CREATE FUNCTION some_bits() RETURNS varbit LANGUAGE sql VOLATILE
	RETURN (SELECT coalesce(string_agg(pick(ARRAY['0', '0', '1']), ''), '')
			FROM generate_series(1, pick(ARRAY[0, 1, 7, 8, 9, random(0, 20)])))::varbit;
CREATE FUNCTION some_inet() RETURNS inet LANGUAGE sql VOLATILE
	RETURN set_masklen(inet(pick(ARRAY['10.0.0.0', '10.0.0.1', '10.0.128.0', '10.255.255.255',
									   '0.0.0.0', '255.255.255.255',
									   '10.' || random(0, 255) || '.' || random(0, 255) || '.3'])),
									   random(0, 32));
CREATE FUNCTION some_inet6() RETURNS inet LANGUAGE sql VOLATILE
	RETURN set_masklen(inet(pick(ARRAY['::', '::1', 'fe80::', 'fe80::1',
									   'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
									   '0a00::1', 'fe80:' || to_hex(random(0, 65535)) || '::2'])),
									   random(0, 128));
CREATE FUNCTION some_json(depth int DEFAULT 3) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	CASE random(1, CASE WHEN depth > 0 THEN 9 ELSE 5 END)
		WHEN 1 THEN RETURN 'null';
		WHEN 2 THEN RETURN to_jsonb(some_text());
		WHEN 3 THEN RETURN to_jsonb(pick(ARRAY[0, 0.0, 1, 1.0, 1.00, 2.5, -7, 100, 1e10]));
		WHEN 4, 5 THEN RETURN to_jsonb(random(0, 1) = 1);
		WHEN 6, 7
			THEN RETURN (SELECT coalesce(jsonb_agg(some_json(depth - 1)), '[]')
				FROM generate_series(1, random(0, 3)));
		ELSE RETURN (SELECT coalesce(jsonb_object_agg('k' || some_text(), some_json(depth - 1)),
			'{}')
					 FROM generate_series(1, random(0, 3)));
	END CASE;
END $$;
CREATE FUNCTION some_int4s() RETURNS int4[] LANGUAGE sql VOLATILE
	RETURN CASE random(1, 4)
		WHEN 1
			THEN array_fill(random(0, 1), ARRAY[random(1, 2), random(1, 3)],
				ARRAY[random(-1, 1), random(0, 1)])
		WHEN 2
			THEN array_fill(random(0, 1), ARRAY[random(0, 3)],
				ARRAY[pick(ARRAY[-200, 0, 1, 1, 2000000000])])
		ELSE
			(SELECT coalesce(
				array_agg(CASE WHEN random(0, 3) > 0 THEN pick(ARRAY[0, 1, some_int4()]) END), '{}')
			  FROM generate_series(1, random(0, 4)))
	END;
CREATE FUNCTION some_texts() RETURNS text[] LANGUAGE sql VOLATILE
	RETURN (SELECT coalesce(array_agg(CASE WHEN random(0, 3) > 0 THEN some_text() END), '{}')
		FROM generate_series(1, random(0, 3)));
-- "0 1 2", of any length.
CREATE FUNCTION some_vector() RETURNS text LANGUAGE sql VOLATILE
	RETURN (SELECT coalesce(string_agg(random(0, 2)::text, ' '), '')
		FROM generate_series(1, random(0, 3)));
CREATE FUNCTION some_int4range() RETURNS int4range LANGUAGE sql VOLATILE
	RETURN CASE random(1, 8) WHEN 1 THEN 'empty' ELSE
		int4range(pick(ARRAY[NULL, random(-3, 3), random(-3, 3)]),
			pick(ARRAY[NULL, random(3, 6), random(3, 6)]),
				  pick(ARRAY['[]', '[)', '()', '(]'])) END;
CREATE FUNCTION some_numrange() RETURNS numrange LANGUAGE sql VOLATILE
	RETURN CASE random(1, 8) WHEN 1 THEN 'empty' ELSE
		numrange(pick(ARRAY[NULL, random(-3, 3) / 2.0, random(-3, 3)]),
			pick(ARRAY[NULL, random(3, 6) / 2.0 + 2, random(3, 6)]),
				 pick(ARRAY['[]', '[)', '()', '(]'])) END;
CREATE FUNCTION some_int4multirange() RETURNS int4multirange LANGUAGE sql VOLATILE
	RETURN (SELECT coalesce(range_agg(int4range(x, x + random(0, 2))), '{}')
			FROM (SELECT random(-6, 6) AS x FROM generate_series(1, random(0, 3))));
CREATE FUNCTION some_tsvector() RETURNS tsvector LANGUAGE sql VOLATILE
	RETURN (SELECT coalesce(string_agg(pick(ARRAY['a', 'ab', 'b', 'ca', 'c']) ||
									   pick(ARRAY['', ':1', ':2', ':1A', ':1,2B', ':16383',
									     ':3C,4']), ' '), '')::tsvector
			FROM generate_series(1, random(0, 3)));
CREATE FUNCTION some_tsquery(depth int DEFAULT 2) RETURNS tsquery LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	CASE random(1, CASE WHEN depth > 0 THEN 7 ELSE 3 END)
		WHEN 1 THEN RETURN pick(ARRAY['', 'a', 'b', 'ab']);
		WHEN 2, 3
			THEN RETURN pick(ARRAY['a:*', 'a:A', 'c', 'ca', 'abcdef', 'a <-> b', 'a <2> b',
				'a <100> b', 'b <-> a']);
		WHEN 4 THEN RETURN some_tsquery(depth - 1) && some_tsquery(depth - 1);
		WHEN 5 THEN RETURN some_tsquery(depth - 1) || some_tsquery(depth - 1);
		WHEN 6 THEN RETURN !! some_tsquery(depth - 1);
		ELSE RETURN tsquery_phrase(some_tsquery(depth - 1), some_tsquery(depth - 1),
			pick(ARRAY[1, 2, 100, 16384]));
	END CASE;
END $$;

-- ---- checks

-- n values of a type, as `source` draws them, and their keys.
CREATE FUNCTION draw(cmp regproc, type text, source text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DROP TABLE IF EXISTS pg_temp.drawn, pg_temp.keyed;
	EXECUTE format('CREATE TEMP TABLE drawn AS SELECT (%s)::%s AS v '
		'FROM generate_series(1, (SELECT n FROM settings)) AS i',
				   source, type);
	EXECUTE format('CREATE TEMP TABLE keyed AS SELECT v, key_encode(v, %1$L, false, false) AS k,
					key_encode(v, %1$L, true, true) AS d FROM drawn', cmp);
END $$;

-- A key with a few bytes changed: whatever it is, it does no harm.
CREATE FUNCTION check_damaged(v anyelement, cmp regproc, descending bool, key bytea) RETURNS text
	LANGUAGE plpgsql AS $$
DECLARE
	len int;
BEGIN
	FOR i IN 1 .. random(1, 3) LOOP
		IF length(key) > 1 THEN
			key := overlay(
				key PLACING pick(ARRAY['', '\x00', '\xff', '\x01', '\x02', '\x03', '\x7f', '\x80ff',
					'\xff00']::bytea[])
						   FROM random(2, length(key)) FOR random(0, 2));
		END IF;
	END LOOP;
	len := key_length(v, cmp, descending, descending, key);
	IF len > length(key) THEN
		RETURN format('length of %s', key);
	END IF;
	-- What the frame has nothing against, or anything.
	PERFORM key_decode(v, cmp, descending, descending,
		CASE WHEN len > 0 THEN substr(key, 1, len) ELSE key END);
	RETURN NULL;
EXCEPTION WHEN index_corrupted THEN
	RETURN NULL;
END $$;

CREATE FUNCTION check_drawn(cmp regproc) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	query text;
	wrong text;
BEGIN
	FOREACH query IN ARRAY ARRAY[
		'SELECT format(''order of %%s and %%s: %%s, %%s'', x.v, y.v, x.k, y.k) FROM keyed x, keyed y
		 WHERE sign(%1$s(x.v, y.v)) <> sign(byteacmp(x.k, y.k))',
		'SELECT format(''descending order of %%s and %%s: %%s, %%s'', x.v, y.v, x.d, y.d)
		 FROM keyed x, keyed y
		 WHERE sign(%1$s(x.v, y.v)) <> - sign(byteacmp(x.d, y.d))',
		'SELECT format(''prefix: %%s and %%s: %%s, %%s'', x.v, y.v, x.k, y.k) FROM keyed x, keyed y
		 WHERE x.k <> y.k AND x.k = substr(y.k, 1, length(x.k))',
		'SELECT format(''length: %%s: %%s, %%s'', v, k, d) FROM keyed
		 WHERE length(k) <> key_length(v, %1$L, false, false, k || some_bytes())
			OR length(d) <> key_length(v, %1$L, true, true, d || some_bytes())
			OR key_length(v, %1$L, false, false, substr(k, 1, random(0, length(k) - 1))) <> 0
			OR key_length(v, %1$L, true, true, substr(d, 1, random(0, length(d) - 1))) <> 0',
		'SELECT format(''value: %%s: %%s'', v, k) FROM keyed
		 WHERE key_kind(v, %1$L, false, false) AND NOT
		 (record_image_eq(ROW(v), ROW(key_decode(v, %1$L, false, false, k))) AND
		  record_image_eq(ROW(v), ROW(key_decode(v, %1$L, true, true, d))))',
		'SELECT wrong FROM (SELECT coalesce(check_damaged(v, %1$L, false, k),
										   check_damaged(v, %1$L, true, d)) AS wrong
							FROM keyed, generate_series(1, 2) OFFSET 0) WHERE wrong IS NOT NULL']
	LOOP
		EXECUTE format(query, cmp) || ' LIMIT 1' INTO wrong;
		IF wrong IS NOT NULL THEN
			RETURN wrong;
		END IF;
	END LOOP;
	RETURN NULL;
END $$;

-- Values of the second type among those of the first.
CREATE FUNCTION check_convert(cmp regproc, type text, source text, cross_cmp regproc,
	other_type text, other_source text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	wrong text;
BEGIN
	DROP TABLE IF EXISTS pg_temp.drawn, pg_temp.placed;
	EXECUTE format('CREATE TEMP TABLE drawn AS SELECT (%s)::%s AS v '
		'FROM generate_series(1, (SELECT n FROM settings)) AS i', source, type);
	EXECUTE format('CREATE TEMP TABLE placed AS
					SELECT o, key_fit(NULL::%1$s, %2$L, false, false, o) AS fit,
					key_converted(NULL::%1$s, %2$L, false, false, o) AS c
					FROM (SELECT (%3$s)::%4$s AS o
						  FROM generate_series(1, (SELECT n FROM settings)) AS i OFFSET 0)',
				   type, cmp, other_source, other_type);
	EXECUTE format('SELECT format(''%%s is %%s, but %%s is placed at %%s, fit %%s'',
								  v, %1$s(v, o), o, c, fit)
					FROM drawn, placed
					WHERE sign(%1$s(v, o)) <>
						CASE fit WHEN 0 THEN sign(%2$s(v, c))
						WHEN 1 THEN CASE WHEN %2$s(v, c) <= 0 THEN -1 ELSE 1 END
						ELSE 1 END
					LIMIT 1', cross_cmp, cmp) INTO wrong;
	RETURN wrong;
END $$;

-- An index on the drawn values finds them, in order, and gives them back.
CREATE FUNCTION check_index(cmp regproc, type text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	class record;
	strategy record;
	query text;
	line text;
	plan text;
	wrong text;
	found bigint;
	expected bigint;
BEGIN
	SELECT c.opcname, c.opcfamily, c.opcintype INTO STRICT class
		FROM pg_opclass c JOIN pg_am ON pg_am.oid = opcmethod
		JOIN pg_amproc ON amprocfamily = opcfamily AND amproclefttype = opcintype
			AND amprocrighttype = opcintype
		WHERE amname = 'leanstore_index' AND amprocnum = 1 AND amproc = cmp
		ORDER BY opcdefault DESC LIMIT 1;
	DROP TABLE IF EXISTS indexed, pg_temp.copied;
	EXECUTE format('CREATE TABLE indexed (i int, v %s) USING leanstore', type);
	CREATE TEMP TABLE copied AS SELECT row_number() OVER ()::int AS i, v FROM drawn;
	INSERT INTO indexed SELECT i, v FROM copied WHERE i % 2 = 0;
	EXECUTE format('CREATE INDEX ON indexed USING leanstore (v %I) INCLUDE (i)', class.opcname);
	INSERT INTO indexed SELECT i, v FROM copied WHERE i % 2 = 1;
	PERFORM leanstore_check('indexed');

	FOR strategy IN SELECT amopstrategy AS n, format('OPERATOR(%s.%s)', nspname, oprname) AS op
					FROM pg_amop JOIN pg_operator o ON o.oid = amopopr
					JOIN pg_namespace n ON n.oid = oprnamespace
					WHERE amopfamily = class.opcfamily AND amoplefttype = class.opcintype
						AND amoprighttype = class.opcintype LOOP
		query := format('SELECT count(*) FROM drawn CROSS JOIN '
			'LATERAL (SELECT FROM indexed WHERE indexed.v %s drawn.v OFFSET 0)', strategy.op);
		plan := '';
		FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
			plan := plan || line;
		END LOOP;
		IF plan NOT LIKE '%Index Cond%' THEN
			RETURN format('no index scan for %s', strategy.op);
		END IF;
		EXECUTE query INTO found;
		EXECUTE format('SELECT count(*) FILTER (WHERE sign(%s(x.v, y.v)) = ANY (%L::int[])) '
			'FROM copied x, drawn y', cmp,
					   (ARRAY['{-1}', '{-1,0}', '{0}', '{0,1}', '{1}'])[strategy.n]) INTO expected;
		IF found <> expected THEN
			RETURN format('%s values by index, %s by comparison for %s', found, expected,
				strategy.op);
		END IF;
		IF strategy.n IN (1, 5) THEN
			EXECUTE format('SELECT format(''%%s after %%s by index, %%s'', v, before, %3$L)
							FROM (SELECT v, lag(v) OVER () AS before
								  FROM (SELECT v FROM indexed WHERE v IS NOT NULL
										ORDER BY v USING %1$s))
							WHERE sign(%2$s(before, v)) = %4$s LIMIT 1',
						   strategy.op, cmp, strategy.op, CASE strategy.n WHEN 1 THEN 1 ELSE -1 END)
				INTO wrong;
			IF wrong IS NOT NULL THEN
				RETURN wrong;
			END IF;
		END IF;
	END LOOP;
	query := 'SELECT i, v FROM indexed OFFSET 0';
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := plan || line;
	END LOOP;
	IF plan NOT LIKE '%Index Only Scan%' THEN
		RETURN 'no index-only scan';
	END IF;
	EXECUTE format('SELECT format(''%%s instead of %%s from the index'', x.v, c.v)
					FROM copied c LEFT JOIN (%s) x USING (i)
					WHERE NOT record_image_eq(ROW(x.v), ROW(c.v)) LIMIT 1', query) INTO wrong;
	DROP TABLE indexed, copied;
	RETURN wrong;
END $$;

-- Says nothing when all is well.
CREATE PROCEDURE run(cmp regproc, type text, source text) LANGUAGE plpgsql AS $$
DECLARE
	wrong text;
BEGIN
	PERFORM draw(cmp, type, source);
	wrong := coalesce(check_drawn(cmp), check_index(cmp, type));
	IF wrong IS NOT NULL THEN
		RAISE WARNING '% %: % (LS_SEED=%)', cmp, type, wrong, (SELECT seed FROM settings);
	END IF;
END $$;
CREATE PROCEDURE run_convert(cmp regproc, type text, source text, cross_cmp regproc,
	other_type text, other_source text)
LANGUAGE plpgsql AS $$
DECLARE
	wrong text := check_convert(cmp, type, source, cross_cmp, other_type, other_source);
BEGIN
	IF wrong IS NOT NULL THEN
		RAISE WARNING '% of % among %: % (LS_SEED=%)', cross_cmp, other_type, type, wrong,
			(SELECT seed FROM settings);
	END IF;
END $$;

-- ---- numbers
CALL run('btint2cmp', 'int2', 'some_int2()');
CALL run('btint4cmp', 'int4', 'some_int4()');
CALL run('btint8cmp', 'int8', 'some_int8()');
CALL run_convert('btint2cmp', 'int2', 'some_int2()', 'btint24cmp', 'int4',
	'pick(ARRAY[some_int4(), some_int2()])');
CALL run_convert('btint2cmp', 'int2', 'some_int2()', 'btint28cmp', 'int8',
	'pick(ARRAY[some_int8(), some_int2()])');
CALL run_convert('btint4cmp', 'int4', 'some_int4()', 'btint42cmp', 'int2', 'some_int2()');
CALL run_convert('btint4cmp', 'int4', 'some_int4()', 'btint48cmp', 'int8',
	'pick(ARRAY[some_int8(), some_int4()])');
CALL run_convert('btint8cmp', 'int8', 'some_int8()', 'btint82cmp', 'int2', 'some_int2()');
CALL run_convert('btint8cmp', 'int8', 'some_int8()', 'btint84cmp', 'int4', 'some_int4()');
CALL run('btfloat4cmp', 'float4', 'some_float4()');
CALL run('btfloat8cmp', 'float8', 'some_float8()');
CALL run_convert('btfloat4cmp', 'float4', 'some_float4()', 'btfloat48cmp', 'float8',
	'pick(ARRAY[some_float8(), some_float4()])');
CALL run_convert('btfloat8cmp', 'float8', 'some_float8()', 'btfloat84cmp',
	'float4', 'some_float4()');
CALL run('numeric_cmp', 'numeric', 'some_numeric()');
CALL run('cash_cmp', 'money', 'some_int4()');
CALL run('btboolcmp', 'bool', 'random(0, 1) = 1');
CALL run('btoidcmp', 'oid', 'pick(ARRAY[0, 1, 4294967295, random(0, 4294967295)])');
CALL run('xid8cmp', 'xid8',
	'(pick(ARRAY[0, 1, 18446744073709551615, random(0, 9223372036854775807)]::numeric[]))::text');
CALL run('pg_lsn_cmp', 'pg_lsn',
	$$pick(ARRAY['0/0', '0/1', 'FFFFFFFF/FFFFFFFF', '1/0',
		to_hex(random(0, 3)) || '/' || to_hex(random(0, 3))])$$);
CALL run('bttidcmp', 'tid',
	$$format('(%s,%s)', pick(ARRAY[0, 4294967295, random(0, 300)]),
		pick(ARRAY[0, 1, 65535, random(0, 300)]))$$);
CALL run('btoidvectorcmp', 'oidvector', 'some_vector()');

-- ---- strings
CALL run('btcharcmp', '"char"', $$pick(ARRAY['', 'a', '\377', '\200', '\177'])$$);
CALL run('bttextcmp', 'text', 'some_text()');
CALL run('bttextcmp', 'varchar', $$some_text('a0 ÄÖ€😀')$$);
CALL run('bttextcmp', 'text COLLATE "C"', $$some_text('a0 ÄÖ€😀')$$);
CALL run('bttextcmp', 'text COLLATE "POSIX"', 'some_text()');
CALL run('bttextcmp', 'text COLLATE "pg_c_utf8"', $$some_text('a0 ÄÖ€😀')$$);
CALL run('bttextcmp', 'text COLLATE "pg_unicode_fast"', $$some_text('a0 ÄÖ€😀')$$);
CREATE COLLATION code_points (provider = libc, locale = 'C.utf8');
SELECT key_strings(NULL::text COLLATE code_points, 'bttextcmp', false, false) AS code_points,
	key_strings(NULL::text COLLATE "C", 'bttextcmp', false, false) AS none,
	key_strings(NULL::jsonb, 'jsonb_cmp', false, false) AS none;
CALL run('bttextcmp', 'text COLLATE code_points', $$some_text('a0 ÄÖ€😀')$$);
CALL run('bpcharcmp', 'bpchar COLLATE code_points', $$some_text('a Ä')$$);
CALL run('btnamecmp', 'name COLLATE code_points', $$some_text('a Ä')$$);
CALL run('btarraycmp', 'text[] COLLATE code_points', 'some_texts()');
CALL run_convert('bttextcmp', 'text COLLATE code_points',
	$$pick(ARRAY[some_text(), repeat('a', random(62, 65))])$$, 'bttextnamecmp', 'name',
				 $$pick(ARRAY[some_text(), repeat('a', random(62, 63))])$$);
CALL run('bttext_pattern_cmp', 'text', $$some_text('aÄ b')$$);
CALL run('bpcharcmp', 'bpchar', $$some_text('a b')$$);
CALL run('bpcharcmp', 'char(5)', $$some_text('a b')$$);
CALL run('btbpchar_pattern_cmp', 'bpchar', $$some_text('a b')$$);
CALL run('btnamecmp', 'name',
	$$pick(ARRAY[some_text(), repeat(pick(ARRAY['a', 'b']), random(62, 63))])$$);
CALL run_convert('btnamecmp', 'name', $$pick(ARRAY[some_text(), repeat('a', random(62, 63))])$$,
	'btnametextcmp', 'text',
				 $$pick(ARRAY[some_text(), repeat('a', random(62, 65)), repeat('a', 63) || 'b'])$$);
CALL run_convert('bttextcmp', 'text COLLATE "C"',
	$$pick(ARRAY[some_text(), repeat('a', random(62, 65))])$$, 'bttextnamecmp', 'name',
				 $$pick(ARRAY[some_text(), repeat('a', random(62, 63))])$$);
CALL run('byteacmp', 'bytea', 'some_bytes()');
CALL run('bitcmp', 'bit(9)', 'some_bits()');
CALL run('varbitcmp', 'varbit', 'some_bits()');
CALL run('uuid_cmp', 'uuid',
	$$pick(ARRAY[gen_random_uuid(), '00000000-0000-0000-0000-000000000000',
		'ffffffff-ffff-ffff-ffff-ffffffffffff'])$$);
CALL run('macaddr_cmp', 'macaddr', $$'08:00:2b:01:02:' || to_hex(random(0, 255))$$);
CALL run('macaddr8_cmp', 'macaddr8',
	$$'08:00:2b:ff:fe:01:' || pick(ARRAY['00', '80', 'ff']) || ':'
		|| pick(ARRAY['00', '7f', '80'])$$);
CALL run('network_cmp', 'inet', 'pick(ARRAY[some_inet(), some_inet(), some_inet6()])');
CALL run('network_cmp', 'cidr', 'pick(ARRAY[some_inet(), some_inet(), some_inet6()])');

-- ---- times
CALL run('date_cmp', 'date', 'some_date()');
CALL run('time_cmp', 'time',
	$$pick(ARRAY['00:00', '24:00', '23:59:59.999999', time '00:00' + random()
		* interval '1 day'])$$);
CALL run('timetz_cmp', 'timetz',
	$$(time '00:00' + random(0, 24) * interval '1 hour')::text
		|| pick(ARRAY['+00', '+15:59:59', '-15:59:59', '+01', '-01', '-05'])$$);
CALL run('timestamp_cmp', 'timestamp', 'some_timestamp()');
CALL run('timestamptz_cmp', 'timestamptz', 'some_timestamptz()');
CALL run('interval_cmp', 'interval', 'some_interval()');
CALL run_convert('date_cmp', 'date', 'some_date()', 'date_cmp_timestamp', 'timestamp',
	'pick(ARRAY[some_timestamp(), some_timestamp()::date])');
CALL run_convert('date_cmp', 'date', 'some_date()', 'date_cmp_timestamptz', 'timestamptz',
	'pick(ARRAY[some_timestamptz(), date ''2024-11-01'' + random(0, 4)])');
CALL run_convert('timestamp_cmp', 'timestamp', 'some_timestamp()', 'timestamp_cmp_date',
	'date', 'some_date()');
CALL run_convert('timestamp_cmp', 'timestamp', 'some_timestamp()', 'timestamp_cmp_timestamptz',
	'timestamptz', 'some_timestamptz()');
CALL run_convert('timestamptz_cmp', 'timestamptz', 'some_timestamptz()', 'timestamptz_cmp_date',
	'date', 'some_date()');
CALL run_convert('timestamptz_cmp', 'timestamptz', 'some_timestamptz()',
	'timestamptz_cmp_timestamp', 'timestamp', 'some_timestamp()');
SET timezone = 'Asia/Tokyo';
CALL run_convert('date_cmp', 'date', 'some_date()', 'date_cmp_timestamptz', 'timestamptz',
	'pick(ARRAY[some_timestamptz(), date ''2024-11-01'' + random(0, 4)])');
CALL run_convert('timestamp_cmp', 'timestamp', 'some_timestamp()', 'timestamp_cmp_timestamptz',
	'timestamptz', 'some_timestamptz()');
CALL run_convert('timestamptz_cmp', 'timestamptz', 'some_timestamptz()',
	'timestamptz_cmp_timestamp', 'timestamp', 'some_timestamp()');
SET timezone = 'America/New_York';

-- ---- containers
CREATE TYPE pair AS (a int, b text);
CREATE TYPE nested AS (p pair, gone int, n numeric, list int[]);
ALTER TYPE nested DROP ATTRIBUTE gone;
CREATE TYPE color AS ENUM ('red', 'green');
ALTER TYPE color ADD VALUE 'orange' BEFORE 'red';
ALTER TYPE color ADD VALUE 'blue';
ALTER TYPE color ADD VALUE 'yellow' AFTER 'red';
CREATE TYPE textrange AS RANGE (subtype = text, collation = "C");
CREATE TYPE pairrange AS RANGE (subtype = pair);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN ints AS int[];
CREATE FUNCTION some_pair() RETURNS pair LANGUAGE sql VOLATILE
	RETURN ROW(pick(ARRAY[NULL, random(0, 2), random(0, 2)]),
		pick(ARRAY[NULL, some_text(), some_text()]))::pair;
CREATE FUNCTION some_nested() RETURNS nested LANGUAGE sql VOLATILE
	RETURN ROW(CASE WHEN random(0, 3) > 0 THEN some_pair() END, pick(ARRAY[NULL, 1, 1.0]),
			   CASE WHEN random(0, 2) > 0 THEN some_int4s() END)::nested;
CALL run('enum_cmp', 'color', $$pick(enum_range(NULL::color))$$);
CALL run('btarraycmp', 'color[]',
	$$ARRAY[pick(enum_range(NULL::color)), pick(enum_range(NULL::color))]$$);
CALL run('btarraycmp', 'int4[]', 'some_int4s()');
CALL run('btarraycmp', 'ints', 'some_int4s()');
CALL run('btarraycmp', 'ints[]', 'ARRAY[some_int4s()::ints, some_int4s()::ints]');
CALL run('btarraycmp', 'text[]', 'some_texts()');
CALL run('btarraycmp', 'numeric[]', 'ARRAY[some_numeric(), some_numeric()]');
CALL run('btarraycmp', 'positive[]', 'ARRAY[random(1, 2), random(1, 2)]');
CALL run('btarraycmp', 'pair[]', 'ARRAY[some_pair(), some_pair()]');
CALL run('btarraycmp', 'int4range[]', 'ARRAY[some_int4range(), some_int4range()]');
CALL run('btarraycmp', 'int2vector', 'some_vector()');
CALL run('range_cmp', 'int4range', 'some_int4range()');
CALL run('range_cmp', 'numrange', 'some_numrange()');
CALL run('range_cmp', 'tsrange',
	$$tsrange(nullif(some_timestamp(), 'infinity'), 'infinity', pick(ARRAY['[]', '()']))$$);
CALL run('range_cmp', 'textrange',
	$$textrange(some_text('ab'), some_text('cd') || 'd', pick(ARRAY['[]', '()', '[)']))$$);
CALL run('range_cmp', 'pairrange',
	'pairrange(ROW(0, some_text())::pair, ROW(random(1, 2), some_text())::pair)');
CALL run('multirange_cmp', 'int4multirange', 'some_int4multirange()');
CALL run('multirange_cmp', 'nummultirange', 'nummultirange(some_numrange(), some_numrange())');
CALL run('btrecordcmp', 'pair', 'some_pair()');
CALL run('btrecordcmp', 'nested', 'some_nested()');
CALL run('btrecordimagecmp', 'pair', 'some_pair()');
CALL run('btrecordimagecmp', 'nested', 'some_nested()');
CALL run('jsonb_cmp', 'jsonb', 'some_json()');
CALL run('jsonb_cmp', 'jsonb', 'some_json(1)');
CALL run('tsvector_cmp', 'tsvector', 'some_tsvector()');
CALL run('tsquery_cmp', 'tsquery', 'some_tsquery()');

-- ---- collations by sort key
SELECT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i') AS icu \gset
\if :icu
CREATE COLLATION accents_ignored (provider = icu, locale = 'und-u-ks-level1',
	deterministic = false);
CREATE COLLATION digits (provider = icu, locale = 'en-u-kn');
CREATE COLLATION french (provider = icu, locale = 'fr-CA-u-kb-kf-upper');
CREATE COLLATION shifted (provider = icu, locale = 'und-u-ka-shifted');
CREATE DOMAIN english AS text COLLATE "en-x-icu";
CREATE TYPE english_pair AS (a text COLLATE "en-x-icu", b text COLLATE accents_ignored);
CREATE TYPE english_range AS RANGE (subtype = text, collation = "en-x-icu");
CALL run('bttextcmp', 'text COLLATE "en-x-icu"', $$some_text('aAäÄbB -€😀')$$);
CALL run('bttextcmp', 'text COLLATE "und-x-icu"', $$some_text(E'e\u0301é\u0001')$$);
CALL run('bttextcmp', 'text COLLATE digits', $$some_text('a0129')$$);
CALL run('bttextcmp', 'text COLLATE french', $$some_text('eéêEÉ-')$$);
CALL run('bttextcmp', 'text COLLATE shifted', $$some_text('aA -_')$$);
CALL run('bttextcmp', 'text COLLATE accents_ignored', $$some_text('aAäb -')$$);
CALL run('bpcharcmp', 'bpchar COLLATE "en-x-icu"', $$some_text('aAä ')$$);
CALL run('bpcharcmp', 'bpchar COLLATE accents_ignored', $$some_text('aAä ')$$);
CALL run('bttext_pattern_cmp', 'text COLLATE "en-x-icu"', $$some_text('aAäb -')$$);
CALL run('bttextcmp', 'english', $$some_text('aAäb -')$$);
CALL run('btarraycmp', 'text[] COLLATE "en-x-icu"', 'some_texts()');
CALL run('btarraycmp', 'text[] COLLATE accents_ignored', 'some_texts()');
CALL run('btrecordcmp', 'english_pair', $$ROW(some_text('aAä'), some_text('aAä'))$$);
CALL run('range_cmp', 'english_range',
	$$english_range(some_text('ab'), some_text('cd') || 'd', pick(ARRAY['[]', '()', '[)']))$$);

-- Sort keys of ASCII strings are put together from what ICU said of others (with assertions they
-- are compared with ICU's), but for characters that contract.
CREATE COLLATION capitals_first (provider = icu, locale = 'en-u-kf-upper');
CREATE COLLATION danish (provider = icu, locale = 'da');
CREATE COLLATION czech (provider = icu, locale = 'cs');
CREATE COLLATION hungarian (provider = icu, locale = 'hu');
CREATE COLLATION three_at_once (provider = icu, locale = 'und', rules = '& x < bcd');
CREATE FUNCTION key_learned(text) RETURNS text AS '$libdir/leanstore_am',
	'ls_key_sql_learned' LANGUAGE C;
CALL run('bttextcmp', 'text COLLATE "en-x-icu"',
	$$some_text('aAzZ09 -_.,;@/$~') || repeat(some_text('aA'), random(1, 8))$$);
CALL run('bttextcmp', 'text COLLATE capitals_first',
	$$some_text('aAbB 0') || repeat(some_text('aA'), random(1, 8))$$);
CALL run('bttextcmp', 'text COLLATE danish', $$some_text('aAbB')$$);
CALL run('bttextcmp', 'text COLLATE czech', $$some_text('bcCdhH')$$);
CALL run('bttextcmp', 'text COLLATE hungarian', $$some_text('dDeszZ')$$);
CALL run('bttextcmp', 'text COLLATE three_at_once', $$some_text('abcdX')$$);
SELECT key_learned('aAzZ09 -@' COLLATE "en-x-icu") AS english,
	   key_learned('aAzZ09 -@' COLLATE capitals_first) AS capitals_first,
	   key_learned('abc' COLLATE danish) AS danish, key_learned('abch' COLLATE czech) AS czech,
	   key_learned('adesxz' COLLATE hungarian) AS hungarian,
	   key_learned('abcdx' COLLATE three_at_once) AS three_at_once;
SELECT key_learned('ab' COLLATE accents_ignored) AS accents_ignored,
	   key_learned('a0' COLLATE digits) AS digits,
	   key_learned('ab' COLLATE french) AS french, key_learned('a-' COLLATE shifted) AS shifted;
\endif

-- ---- several columns: rows in the order of ORDER BY
CREATE FUNCTION check_columns(a_cmp regproc, a_type text, a_source text, b_cmp regproc, b_type text,
	b_source text) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
	wrong text;
	a_options bool[];
	b_options bool[];
BEGIN
	DROP TABLE IF EXISTS pg_temp.two;
	EXECUTE format('CREATE TEMP TABLE two AS
					SELECT CASE WHEN random(1, 4) > 1 THEN %2$s END::%1$s AS a,
					CASE WHEN random(1, 4) > 1 THEN %4$s END::%3$s AS b
					FROM generate_series(1, (SELECT n FROM settings)) AS i',
				   a_type, a_source, b_type, b_source);
	FOR i IN 0 .. 15 LOOP
		a_options := ARRAY[i & 1 <> 0, i & 2 <> 0];
		b_options := ARRAY[i & 4 <> 0, i & 8 <> 0];
		EXECUTE format('SELECT format(''order of (%%s, %%s) with %s: %%s, %%s'',
									  a, b, by_value, by_key)
						FROM (SELECT a, b,
							  rank() OVER (ORDER BY a %s NULLS %s, b %s NULLS %s) AS by_value,
							  rank() OVER (ORDER BY key_encode(a, %L, %L, %L)
												 || key_encode(b, %L, %L, %L)) AS by_key FROM two)
						WHERE by_value <> by_key LIMIT 1', i,
					   CASE WHEN a_options[1] THEN 'DESC' ELSE 'ASC' END,
					   CASE WHEN a_options[2] THEN 'FIRST' ELSE 'LAST' END,
					   CASE WHEN b_options[1] THEN 'DESC' ELSE 'ASC' END,
					   CASE WHEN b_options[2] THEN 'FIRST' ELSE 'LAST' END,
					   a_cmp, a_options[1], a_options[2], b_cmp, b_options[1], b_options[2])
			INTO wrong;
		IF wrong IS NOT NULL THEN
			RETURN NEXT format('%s, %s: %s (LS_SEED=%s)', a_type, b_type, wrong,
				(SELECT seed FROM settings));
		END IF;
	END LOOP;
END $$;
SELECT check_columns('btint4cmp', 'int4', 'random(-2, 2)', 'btint8cmp', 'int8', 'some_int8()');
SELECT check_columns('bttextcmp', 'text', 'some_text()', 'btint2cmp', 'int2', 'some_int2()');
SELECT check_columns('byteacmp', 'bytea', 'some_bytes()', 'byteacmp', 'bytea', 'some_bytes()');
SELECT check_columns('numeric_cmp', 'numeric', 'some_numeric()', 'btfloat8cmp',
	'float8', 'some_float8()');
SELECT check_columns('btarraycmp', 'int4[]', 'some_int4s()', 'bttextcmp', 'text', 'some_text()');
SELECT check_columns('btrecordcmp', 'pair', 'some_pair()', 'range_cmp', 'int4range',
	'some_int4range()');
SELECT check_columns('jsonb_cmp', 'jsonb', 'some_json(1)', 'varbitcmp', 'varbit', 'some_bits()');
SELECT check_columns('network_cmp', 'inet', 'some_inet()', 'bpcharcmp', 'bpchar', 'some_text()');

-- ---- what a type may become: rows from before a column was added read as if it were NULL
CREATE TYPE growing AS (a int, b int);
CREATE TABLE grown (v growing, old_key bytea);
INSERT INTO grown SELECT v, key_encode(v, 'btrecordcmp', false, false)
	FROM (SELECT ROW(a, nullif(b, 2))::growing AS v
		FROM generate_series(1, 2) a, generate_series(0, 2) b);
ALTER TYPE growing ADD ATTRIBUTE c text;
INSERT INTO grown (v) SELECT ROW(a, nullif(b, 2), c)::growing
	FROM generate_series(1, 2) a, generate_series(0, 2) b, unnest(ARRAY['', 'x', NULL]) c;
SELECT count(*) AS rows, count(*) FILTER (WHERE key <> old_key) AS other_keys,
	count(*) FILTER (WHERE by_value <> by_key) AS misplaced
	FROM (SELECT old_key, key, rank() OVER (ORDER BY v) AS by_value,
		rank() OVER (ORDER BY key) AS by_key
		  FROM (SELECT v, old_key, key_encode(v, 'btrecordcmp', false, false) AS key FROM grown));

-- ---- values that were stored out of line, or compressed
CREATE TABLE large (t text, b bytea, n numeric, a text[], j jsonb, p pair);
ALTER TABLE large ALTER a SET STORAGE EXTERNAL;
INSERT INTO large SELECT t, t::bytea, repeat('123', 3000)::numeric, ARRAY[t], to_jsonb(t),
	ROW(1, t)::pair FROM repeat('abc', 10000) t;
SELECT key_encode(t, 'bttextcmp', false, false)
	     = key_encode(t || '', 'bttextcmp', false, false) AS t,
	   key_encode(b, 'byteacmp', false, false) = key_encode(b || '', 'byteacmp', false, false) AS b,
	   key_encode(n, 'numeric_cmp', false, false)
	     = key_encode(n + 0, 'numeric_cmp', false, false) AS n,
	   key_encode(a, 'btarraycmp', false, false)
	     = key_encode(a || '{}', 'btarraycmp', false, false) AS a,
	   key_encode(j, 'jsonb_cmp', false, false)
	     = key_encode(to_jsonb(t), 'jsonb_cmp', false, false) AS j,
	   key_encode(p, 'btrecordcmp', false, false)
	     = key_encode(ROW(1, t || '')::pair, 'btrecordcmp', false, false) AS p,
	   key_encode(p, 'btrecordimagecmp', false, false)
	     = key_encode(ROW(1, t || '')::pair, 'btrecordimagecmp', false, false) AS image
	FROM large;

-- ---- bytes that no value has, which only decoding can tell
CREATE FUNCTION is_damaged(v anyelement, cmp regproc, key bytea) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	PERFORM key_decode(v, cmp, false, false, key);
	RETURN false;
EXCEPTION WHEN index_corrupted THEN
	RETURN true;
END $$;
SELECT is_damaged(NULL::int4, 'btint4cmp', '\x0280000000') AS sound,
	   is_damaged(NULL::int4, 'btint4cmp', '\x01') AS null_first,
	   is_damaged(NULL::int4, 'btint4cmp', '') AS nothing,
	   is_damaged(NULL::int4, 'btint4cmp', '\x028000000000') AS too_long,
	   is_damaged(NULL::bool, 'btboolcmp', '\x0202') AS bool,
	   is_damaged(NULL::name, 'btnamecmp', '\x02' || repeat('a', 64)::bytea || '\x0000') AS name,
	   is_damaged(NULL::varbit, 'varbitcmp', '\x02ff00ff00ff070000') AS padding,
	   is_damaged(NULL::varbit, 'varbitcmp', '\x02ff00ff00ff090000') AS bits,
	   is_damaged(NULL::inet, 'network_cmp', '\x02020a0a0a0a210000') AS netmask,
	   is_damaged(NULL::inet, 'network_cmp', '\x02040a0a0a0a200000') AS family,
	   is_damaged(NULL::int4range, 'range_cmp',
	     '\x02028000ff00ff0901028000ff00ff08010000') AS bounds,
	   is_damaged(NULL::bool[], 'btarraycmp', '\x020201020101828281818180810000') AS dimensions,
	   is_damaged(NULL::bool[], 'btarraycmp', '\x0202010201018181820000') AS behind,
	   is_damaged(NULL::oidvector, 'btoidvectorcmp', '\x0200ff00ff00ff010000') AS oidvector;

-- ---- which of the server's operator classes have no encoding; reversible ones are only asked of
-- types that are not polymorphic
CREATE FUNCTION kind_of(cmp regproc, type regtype) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	reversible bool;
BEGIN
	EXECUTE format('SELECT key_kind(NULL::%s %s, %L, false, false)', type,
				   CASE WHEN (SELECT typcollation <> 0 FROM pg_type t WHERE t.oid = type)
				     THEN 'COLLATE "C"' END, cmp) INTO reversible;
	RETURN CASE WHEN reversible THEN 'reversible' WHEN NOT reversible THEN 'not reversible'
		ELSE 'none' END;
END $$;
SELECT kind_of(amproc,
	CASE amproclefttype WHEN 'anyarray'::regtype THEN 'int4[]' WHEN 'anyenum'::regtype THEN 'color'
										   WHEN 'anyrange'::regtype THEN 'int4range'
										     WHEN 'anymultirange'::regtype THEN 'int4multirange'
										   WHEN 'record'::regtype
										     THEN 'pair' ELSE amproclefttype::regtype END) AS kind,
	   string_agg(amproc::text, ' ' ORDER BY amproc::text COLLATE "C") AS comparisons
	FROM pg_amproc JOIN pg_opfamily f ON f.oid = amprocfamily JOIN pg_am a ON a.oid = opfmethod
	WHERE amname = 'btree' AND amprocnum = 1 AND amproclefttype = amprocrighttype AND amproc < 16384
	GROUP BY 1 ORDER BY 1;

DROP SCHEMA key_order CASCADE;
