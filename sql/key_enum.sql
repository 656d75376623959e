-- Enums in leanstore indexes: values keep their place when others are added, and get no new ones as
-- long as an index depends on it.
CREATE TYPE key_color AS ENUM ('red', 'green', 'blue');
CREATE TABLE key_enum (id int, c key_color, list key_color[]) USING leanstore;
INSERT INTO key_enum VALUES (1, 'blue', '{red,blue}'), (2, 'red', '{}'), (3, 'green', '{red}'),
	(4, NULL, '{green}');
CREATE INDEX key_enum_c ON key_enum USING leanstore (c);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
ALTER TYPE key_color ADD VALUE 'orange' BEFORE 'green';
ALTER TYPE key_color ADD VALUE 'black' BEFORE 'red';
ALTER TYPE key_color ADD VALUE 'white' AFTER 'blue';
INSERT INTO key_enum VALUES (5, 'orange'), (6, 'white'), (7, 'black');
EXPLAIN (COSTS OFF) SELECT * FROM key_enum WHERE c > 'red' ORDER BY c;
SELECT id, c FROM key_enum WHERE c > 'red' ORDER BY c;
SELECT id, c FROM key_enum WHERE c IN ('orange', 'black') ORDER BY c DESC;
SELECT leanstore_check('key_enum');

-- Values between the same two until there is no more room.
CREATE FUNCTION key_enum_squeeze() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 40 LOOP
		EXECUTE format('ALTER TYPE key_color ADD VALUE %L BEFORE %L', 'c' || i, 'orange');
	END LOOP;
	RETURN 40;
END $$;
SELECT key_enum_squeeze();
SELECT count(*) FROM pg_enum WHERE enumtypid = 'key_color'::regtype;

-- Arrays, rows, ranges and domains of it; an included column does not care.
DROP INDEX key_enum_c;
CREATE DOMAIN key_shade AS key_color;
CREATE TYPE key_paint AS (name text, shade key_shade);
CREATE TYPE key_color_range AS RANGE (subtype = key_color);
CREATE TABLE key_enum_within (p key_paint, r key_color_range, m key_color_multirange, s key_shade[],
	v text) USING leanstore;
CREATE INDEX within_array ON key_enum USING leanstore (list);
CREATE INDEX within_row ON key_enum_within USING leanstore (p);
CREATE INDEX within_range ON key_enum_within USING leanstore (v, r);
CREATE INDEX within_multirange ON key_enum_within USING leanstore (m);
CREATE INDEX within_array_of_domain ON key_enum_within USING leanstore (s);
CREATE INDEX included ON key_enum USING leanstore (id) INCLUDE (c);
DO $$
DECLARE
	name text;
BEGIN
	FOR i IN 1 .. 5 LOOP
		BEGIN
			PERFORM key_enum_squeeze();
			RAISE WARNING 'not refused';
		EXCEPTION WHEN dependent_objects_still_exist THEN
			name := substring(SQLERRM FROM 'index "(.*)"');
			RAISE NOTICE '%', regexp_replace(SQLERRM, name, '...');
			EXECUTE 'DROP INDEX ' || name;
		END;
	END LOOP;
END $$;
SELECT key_enum_squeeze();
SELECT count(*) FROM pg_enum WHERE enumtypid = 'key_color'::regtype;

-- Once they have their new positions.
CREATE INDEX key_enum_c ON key_enum USING leanstore (c);
INSERT INTO key_enum VALUES (8, 'c1'), (9, 'c40');
SELECT id, c FROM key_enum WHERE c >= 'red' ORDER BY c;
SELECT leanstore_check('key_enum');

DROP TABLE key_enum, key_enum_within;
DROP FUNCTION key_enum_squeeze;
DROP TYPE key_paint, key_color_range, key_shade, key_color;
