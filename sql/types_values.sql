-- Values of all common types survive being stored, updated and read back.
SET default_table_access_method = leanstore;
CREATE SCHEMA types_values;
SET search_path = types_values, public;
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
SET bytea_output = 'hex';
SET intervalstyle = 'postgres';

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE point3 AS (x int, y text, z numeric);
CREATE DOMAIN positive AS int CHECK (value > 0);

-- Each column alone, as a table of one row for each value, so that alignment
-- and NULL bitmaps of every type are tried: text of the value before and after.
CREATE TABLE type_sample (n serial, type text, value text);
INSERT INTO type_sample (type, value) VALUES
	('bool', 'true'), ('bool', 'false'),
	('"char"', 'x'), ('char(5)', 'ab'), ('varchar(10)', 'abc'), ('name', 'some_name'), ('text', ''),
	('text', 'grüße 漢字 😀'),
	('int2', '-32768'), ('int2', '32767'), ('int4', '-2147483648'), ('int4', '2147483647'),
	('int8', '-9223372036854775808'), ('int8', '9223372036854775807'),
	('float4', '1.5'), ('float4', 'NaN'), ('float4', '-Infinity'), ('float8', '1e-300'),
	('float8', '-0'), ('float8', 'Infinity'),
	('numeric', '0'), ('numeric', '-123456789012345678901234567890.0000000001'), ('numeric', 'NaN'),
	('numeric(10,2)', '12345678.90'), ('numeric', '1e100'),
	('money', '$1,234.56'), ('oid', '4294967295'), ('regclass', 'pg_class'),
	('xid8', '18446744073709551615'), ('pg_lsn', '16/B374D848'),
	('date', '2024-02-29'), ('date', 'infinity'), ('date', '4713-01-01 BC'),
	('time', '23:59:59.999999'), ('timetz', '12:00:00+05:30'),
	('timestamp', '2024-02-29 12:34:56.789'), ('timestamptz', '2024-02-29 12:34:56.789+02'),
	('timestamptz', '-infinity'), ('interval', '1 year 2 mons 3 days 04:05:06.7'),
	('bytea', '\x'), ('bytea', '\x00ff00'), ('uuid', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'),
	('bit(3)', '101'), ('varbit', '1100101'),
	('inet', '192.168.1.5/24'), ('inet', '2001:db8::1'), ('cidr', '10.0.0.0/8'),
	('macaddr', '08:00:2b:01:02:03'), ('macaddr8', '08:00:2b:01:02:03:04:05'),
	('point', '(1,2)'), ('line', '{1,-1,0}'), ('lseg', '[(0,0),(1,1)]'), ('box', '(2,2),(0,0)'),
	('path', '((0,0),(1,1),(2,0))'), ('polygon', '((0,0),(1,1),(2,0))'), ('circle', '<(1,1),2>'),
	('json', '{"a": [1, 2,  {"b": null}]}'), ('jsonb', '{"a": [1, 2, {"b": null}]}'),
	('jsonpath', '$."a"[*]'), ('xml', NULL),
	('tsvector', '''cat'':3 ''fat'':2'), ('tsquery', '''cat'' & ''rat'''),
	('int4[]', '{1,NULL,3}'), ('text[]', '{a,"b c",NULL,"null",""}'), ('int4[][]', '{{1,2},{3,4}}'),
	('int4[]', '[2:3]={7,8}'), ('mood[]', '{sad,happy}'),
	('int4range', '[1,10)'), ('int4range', 'empty'), ('numrange', '(,5.5]'),
	('tstzrange', '["2024-01-01 00:00:00+00",)'), ('int8multirange', '{[1,3),[5,7)}'),
	('mood', 'ok'), ('point3', '(1,"two, 2",3.30)'), ('point3', '(,,)'),
	('point3[]', '{"(1,a,1)","(2,b,2)"}'), ('positive', '5'), ('int2vector', '1 2 3'),
	('oidvector', '4 5 6');

CREATE FUNCTION try_type(type text, value text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	got text;
	expected text;
	failures text := '';
BEGIN
	EXECUTE format('SELECT (%L::%s)::text', value, type) INTO expected;
	EXECUTE format('CREATE TABLE one_type (pre bool, v %s, post int2, w %1$s)', type);
	EXECUTE format('INSERT INTO one_type VALUES (true, %L, 7, NULL), (NULL, NULL, NULL, %1$L), '
		'(false, %1$L, 9, %1$L)', value);
	EXECUTE 'SELECT v::text FROM one_type WHERE post = 7' INTO got;
	IF got IS DISTINCT FROM expected THEN
		failures := failures || ' inserted:' || coalesce(got, 'NULL');
	END IF;
	EXECUTE 'UPDATE one_type SET w = v, v = w WHERE pre IS NULL OR pre';
	EXECUTE 'SELECT w::text FROM one_type WHERE post = 7 AND v IS NULL' INTO got;
	IF got IS DISTINCT FROM expected THEN
		failures := failures || ' updated:' || coalesce(got, 'NULL');
	END IF;
	EXECUTE 'SELECT v::text FROM one_type WHERE post IS NULL AND w IS NULL' INTO got;
	IF got IS DISTINCT FROM expected THEN
		failures := failures || ' moved:' || coalesce(got, 'NULL');
	END IF;
	EXECUTE 'ALTER TABLE one_type DROP COLUMN pre, ADD COLUMN added ' || type;
	EXECUTE 'UPDATE one_type SET added = w';
	EXECUTE 'SELECT added::text FROM one_type WHERE post = 9' INTO got;
	IF got IS DISTINCT FROM expected THEN
		failures := failures || ' added:' || coalesce(got, 'NULL');
	END IF;
	PERFORM leanstore_check('one_type');
	DROP TABLE one_type;
	RETURN failures;
END $$;
SELECT *
	FROM (SELECT type, value, try_type(type, value) AS difference FROM type_sample
		ORDER BY n OFFSET 0) t WHERE difference <> '';
SELECT count(*) AS values, count(DISTINCT type) AS types FROM type_sample;

-- All of them in one row: constants checked by the type's own operators.
CREATE TABLE all_types (id int PRIMARY KEY, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8,
	n numeric, c char(4), v varchar(20), t text,
	d date, ti time, ts timestamp, tz timestamptz, iv interval, by bytea, u uuid, ip inet, j jsonb,
	a int[], r int4range, m mood, p point3, pos positive);
INSERT INTO all_types SELECT g, g % 2 = 0, g, g * 1000, g * 10000000000, g / 4.0, g / 3.0, g / 8.0,
	g::text, 'v' || g, repeat('t', g % 40),
	date '2024-01-01' + g, time '00:00' + g * interval '1 minute',
	timestamp '2024-01-01' + g * interval '1 day',
	timestamptz '2024-01-01Z' + g * interval '1 hour',
	g * interval '1 day', decode(lpad(to_hex(g), 8, '0'), 'hex'),
	('00000000-0000-0000-0000-' || lpad(g::text, 12, '0'))::uuid, inet '10.0.0.0' + g,
	jsonb_build_object('k', g), ARRAY[g, NULL, g + 1], int4range(g, g + 10),
	(ARRAY['sad', 'ok', 'happy']::mood[])[g % 3 + 1], ROW(g, 'y' || g, g)::point3, g
FROM generate_series(1, 200) g;
SELECT * FROM all_types WHERE id IN (1, 200) ORDER BY id \gx
UPDATE all_types SET t = upper(t), n = n + 1, j = j || '{"more": true}', a = a || id,
	v = NULL WHERE id % 2 = 0;
SELECT count(*) AS wrong FROM all_types WHERE (
	b = (id % 2 = 0) AND i2 = id AND i4 = id * 1000 AND i8 = id * 10000000000
	AND f4 = (id / 4.0)::float4 AND f8 = (id / 3.0)::float8
	AND n = id / 8.0 + (id % 2 = 0)::int AND c = id::text
	AND v IS NOT DISTINCT FROM CASE WHEN id % 2 = 1 THEN 'v' || id END
	AND t = repeat(CASE WHEN id % 2 = 0 THEN 'T' ELSE 't' END, id % 40)
	AND d = date '2024-01-01' + id AND ti = time '00:00' + id * interval '1 minute'
	AND ts = timestamp '2024-01-01' + id * interval '1 day'
	AND tz = timestamptz '2024-01-01Z' + id * interval '1 hour' AND iv = id * interval '1 day'
	AND by = decode(lpad(to_hex(id), 8, '0'), 'hex') AND u::text LIKE '%' || id
	AND ip = inet '10.0.0.0' + id AND j -> 'k' = to_jsonb(id)
	AND a[1] = id AND a[2] IS NULL AND cardinality(a) = 3 + (id % 2 = 0)::int AND r @> id
	AND m = (ARRAY['sad', 'ok', 'happy']::mood[])[id % 3 + 1]
	AND p = ROW(id, 'y' || id, id)::point3 AND pos = id) IS NOT TRUE;
-- Every NULL pattern of a row of many columns.
UPDATE all_types SET b = NULL, i4 = NULL, f8 = NULL, c = NULL, d = NULL, tz = NULL, u = NULL,
	a = NULL, p = NULL WHERE id % 3 = 0;
UPDATE all_types SET i2 = NULL, i8 = NULL, n = NULL, t = NULL, ti = NULL, iv = NULL, ip = NULL,
	r = NULL, pos = NULL WHERE id % 5 = 0;
SELECT count(b) AS b, count(i2) AS i2, count(i4) AS i4, count(n) AS n, count(t) AS t, count(u) AS u,
	count(p) AS p, count(pos) AS pos, sum(i4) AS sum_i4, sum(i8) AS sum_i8 FROM all_types;
-- Type changes rewrite the values.
ALTER TABLE all_types ALTER COLUMN i4 TYPE text USING i4::text,
	ALTER COLUMN n TYPE int8 USING n * 8, ALTER COLUMN t TYPE bytea USING t::bytea;
SELECT id, i4, n, t FROM all_types WHERE id <= 6 ORDER BY id;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
