-- Keys as long as btree takes, and longer values that can be compressed: the answers are those of
-- heap and btree.
CREATE SCHEMA index_ls_long;
SET search_path = index_ls_long, public;
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE FUNCTION noise(seed int, len int) RETURNS text LANGUAGE sql IMMUTABLE AS
	$$
		SELECT left(string_agg(encode(sha256((seed || '.' || i)::bytea), 'base64'), '' ORDER BY i),
			len) FROM generate_series(0, len / 44) i $$;
CREATE TABLE h (id int, s text COLLATE "C", b bytea, u text COLLATE "en-x-icu",
	p char(900) COLLATE "C", a text[] COLLATE "C") USING heap;
-- many that begin alike, of any length around where they are cut
INSERT INTO h SELECT i,
	repeat('abc', i % 3 * 126) || left(noise(i % 7, i % 13), i % 11) || noise(i % 50, i % 5 * 150),
	decode(repeat(lpad(to_hex(i % 3), 2, '0'), 370 + i % 20), 'hex') || decode(repeat('00', i % 9),
		'hex') || int4send(i % 17),
	CASE WHEN i % 10 > 0 THEN repeat('Ab c', 40) || noise(i % 100, i % 4 * 200) END,
	repeat('x', i % 5 * 100) || i % 77,
	CASE WHEN i % 9 > 0 THEN ARRAY[repeat('e', i % 8 * 55), noise(i % 19, 200), NULL,
		(i % 3)::text] END
FROM generate_series(1, 300) i;
CREATE TABLE t USING leanstore AS TABLE h WITH NO DATA;
CREATE INDEX h_s ON h (s);
CREATE INDEX h_b ON h (b DESC);
CREATE INDEX h_u ON h (u, id);
CREATE INDEX h_p ON h (p);
CREATE INDEX h_a ON h (a NULLS FIRST, s DESC);
CREATE INDEX t_s ON t (s);
CREATE INDEX t_b ON t (b DESC);
CREATE INDEX t_u ON t (u, id);
CREATE INDEX t_p ON t (p) INCLUDE (id);
CREATE INDEX t_a ON t (a NULLS FIRST, s DESC);
INSERT INTO t SELECT * FROM h ORDER BY md5(id::text);
SELECT leanstore_check('t');
ANALYZE h; ANALYZE t;

CREATE FUNCTION same(columns text, condition text, ordering text) RETURNS text
	LANGUAGE plpgsql AS $$
DECLARE
	answer text;
	line text;
	plan text;
BEGIN
	FOR scan IN 1..3 LOOP
		FOR back IN 0..1 LOOP
			PERFORM set_config('enable_seqscan', 'off', true),
				set_config('enable_indexscan', (scan = 1)::text, true),
				set_config('enable_indexonlyscan', (scan = 2)::text, true),
				set_config('enable_bitmapscan', (scan = 3)::text, true);
			plan := format('SELECT count(*) || '' '' || coalesce(md5(string_agg(s::text, '','')), '
				'''-'') FROM (SELECT %s FROM this_table WHERE %s ORDER BY %s) AS s', columns,
				condition,
				CASE back WHEN 0 THEN ordering
					ELSE regexp_replace(ordering, '(\w+)', '\1 DESC', 'g') END);
			EXECUTE replace(plan, 'this_table', 't') INTO answer;
			PERFORM set_config('enable_seqscan', 'on', true);
			EXECUTE replace(plan, 'this_table', 'h') INTO line;
			IF answer IS DISTINCT FROM line THEN
				RETURN format('scan %s: %s, and not %s', scan, answer, line);
			END IF;
		END LOOP;
	END LOOP;
	RETURN split_part(answer, ' ', 1);
END $$;
CREATE FUNCTION all_same() RETURNS TABLE (what text, rows text) LANGUAGE sql AS $$
	SELECT 'all ' || c, same(c || ', id', c || ' IS NOT NULL OR ' || c || ' IS NULL', c || ', id')
		FROM unnest('{s,b,u,p,a}'::text[]) c
	UNION ALL
	SELECT 'equal ' || c || ' ' || i,
		same(c || ', id', format('%s = (SELECT %s FROM h WHERE id = %s)', c, c, i), c || ', id')
	FROM unnest('{s,b,u,p,a}'::text[]) c, unnest('{1,44,233,299}'::int[]) i
	UNION ALL
	SELECT 'greater ' || c || ' ' || i,
		same(c || ', id', format('%s > (SELECT %s FROM h WHERE id = %s)', c, c, i), c || ', id')
	FROM unnest('{s,b,u,p,a}'::text[]) c, unnest('{7,52,234}'::int[]) i
	UNION ALL
	SELECT 'between ' || c || ' ' || i,
		same(c || ', id',
			format(
				'%s BETWEEN (SELECT min(x) FROM (SELECT %1$s x FROM h '
				'WHERE id IN (%2$s, %2$s + 11)) y) AND (SELECT max(x) FROM (SELECT %1$s x FROM h '
				'WHERE id IN (%2$s, %2$s + 11)) y)', c, i), c || ', id')
	FROM unnest('{s,u,p,a}'::text[]) c, unnest('{8,123}'::int[]) i
	UNION ALL
	SELECT 'in ' || c,
		same(c || ', id', format('%s = ANY (ARRAY(SELECT %1$s FROM h WHERE id %% 40 = 3))', c),
			c || ', id') FROM unnest('{s,b,u,p}'::text[]) c
	UNION ALL
	SELECT 'row', same('u, id', '(u, id) > (SELECT u, id FROM h WHERE id = 222)', 'u, id')
	UNION ALL
	SELECT 'second column',
		same('s', 's = (SELECT s FROM h WHERE id = 44) AND a >= (SELECT a FROM h WHERE id = 43)',
			's')
	ORDER BY 1 $$;
SELECT * FROM all_same();
-- Built, by one process and by several; few bytes of memory.
REINDEX TABLE t;
SELECT leanstore_check('t');
SELECT count(*) FROM all_same() WHERE rows ~ 'scan';
DROP INDEX t_s, t_u;
SET min_parallel_table_scan_size = 0;
SET max_parallel_maintenance_workers = 2;
SET maintenance_work_mem = '64kB';
CREATE INDEX t_s ON t (s); CREATE INDEX t_u ON t (u, id);
RESET min_parallel_table_scan_size;
RESET max_parallel_maintenance_workers;
RESET maintenance_work_mem;
SELECT leanstore_check('t');
SELECT count(*) FROM all_same() WHERE rows ~ 'scan';
-- Rows that get longer and shorter keys; an old snapshot; removal.
BEGIN ISOLATION LEVEL REPEATABLE READ;
DECLARE old CURSOR FOR SELECT count(*), md5(string_agg(s, ',' ORDER BY s, id)) FROM t WHERE s >= '';
UPDATE t SET s = s || noise(id % 6, 700) WHERE id % 4 = 0;
UPDATE h SET s = s || noise(id % 6, 700) WHERE id % 4 = 0;
UPDATE t SET s = left(s, 20) WHERE id % 4 = 1; UPDATE h SET s = left(s, 20) WHERE id % 4 = 1;
UPDATE t SET s = 'A' || id WHERE id % 8 = 1; UPDATE h SET s = 'A' || id WHERE id % 8 = 1;
SAVEPOINT x;
UPDATE t SET s = s || noise(id, 100);
ROLLBACK TO x;
FETCH old;
COMMIT;
DELETE FROM t WHERE id % 6 = 0; DELETE FROM h WHERE id % 6 = 0;
SELECT leanstore_check('t');
SELECT count(*) FROM all_same() WHERE rows ~ 'scan';
VACUUM t;
INSERT INTO t SELECT id + 1000, s, b, u, p, a FROM h;
INSERT INTO h SELECT id + 1000, s, b, u, p, a FROM h;
SELECT leanstore_check('t');
SELECT count(*) FROM all_same() WHERE rows ~ 'scan';
-- Unique keys.
CREATE TABLE k (s text COLLATE "C" PRIMARY KEY, n int) USING leanstore;
INSERT INTO k SELECT repeat('=', 400) || noise(i, 2100), i FROM generate_series(1, 50) i;
INSERT INTO k SELECT s, 1000 FROM k WHERE n = 7;
INSERT INTO k SELECT s, 1000 FROM k ON CONFLICT (s) DO UPDATE SET n = k.n + excluded.n;
SELECT count(*), sum(n), max(length(s)) FROM k;
CREATE TABLE f (s text COLLATE "C" REFERENCES k ON UPDATE CASCADE) USING leanstore;
INSERT INTO f SELECT s FROM k WHERE n % 5 = 0;
INSERT INTO f SELECT s || '.' FROM k WHERE n % 5 = 0;
UPDATE k SET s = '+' || s WHERE n % 2 = 0;
SELECT count(*) FROM f JOIN k USING (s) WHERE s ~ '^[+]';
DELETE FROM k WHERE n % 5 = 0;
SELECT leanstore_check('k');
CREATE UNIQUE INDEX ON f (left(s, 399));
CREATE UNIQUE INDEX ON f (left(s, 440));
INSERT INTO k VALUES (repeat('abcdefgh', 2500), 0);
SELECT length(s) FROM k WHERE s = repeat('abcdefgh', 2500);
SELECT length(s) FROM k WHERE s = repeat('abcdefgh', 2499);
INSERT INTO k VALUES (repeat('abcdefgh', 2500), 0);
INSERT INTO k SELECT noise(1, 4000), 0;
CREATE TABLE d (s text COLLATE "C" UNIQUE DEFERRABLE INITIALLY DEFERRED,
	EXCLUDE USING leanstore (s WITH =)) USING leanstore;
ALTER TABLE d DROP CONSTRAINT d_s_excl;
INSERT INTO d SELECT repeat('-', 500) || noise(i, 500) FROM generate_series(1, 3) i;
BEGIN;
INSERT INTO d TABLE d;
DELETE FROM d WHERE ctid IN (SELECT min(ctid) FROM d GROUP BY s);
COMMIT;
SELECT count(*) FROM d;
INSERT INTO d TABLE d;
-- 2,690 characters under ICU, as btree takes.
CREATE TABLE i (s text COLLATE "en-x-icu" PRIMARY KEY) USING leanstore;
INSERT INTO i SELECT noise(n, 2690) FROM generate_series(1, 20) n;
SELECT count(*), max(length(s)) FROM i;
INSERT INTO i SELECT noise(5, 2690);
-- Long keys that are equal, many of them; marks and turns.
CREATE TABLE e (n int, s text COLLATE "C") USING leanstore;
INSERT INTO e SELECT i, repeat('equal', 1000) || i % 2 FROM generate_series(1, 300) i;
CREATE INDEX e_s ON e (s);
INSERT INTO e SELECT i, repeat('equal', 1000) || i % 2 FROM generate_series(301, 340) i;
SELECT leanstore_check('e');
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;
SELECT count(*) FROM e WHERE s = repeat('equal', 1000) || '1';
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT right(s, 1) FROM e WHERE s > repeat('equal', 999) ORDER BY s;
FETCH 1 FROM c;
MOVE FORWARD 168 FROM c;
FETCH 2 FROM c;
FETCH BACKWARD 2 FROM c;
MOVE LAST IN c;
FETCH PRIOR FROM c;
COMMIT;
SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = off;
SELECT count(*) FROM e a JOIN e b USING (s) WHERE a.n % 10 = 0 AND b.n % 10 = 0;
RESET ALL;
SET client_min_messages = warning;
DROP SCHEMA index_ls_long CASCADE;
