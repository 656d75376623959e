-- A slot reads columns where the scan has the row, and has the row laid out for what it cannot read
-- there.  Whatever is read of a row, in whatever order, is what a heap table gives.
CREATE SCHEMA scan_in_place;
SET search_path = scan_in_place, public;

CREATE FUNCTION make(am text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %1$s_rows (small int2, id int, gone int, big int8, flag bool,
		letter "char", word text, at timestamptz, amount numeric, span interval, key uuid, who name,
		blank char(40), parts int[], late text) USING %1$s', am);
	EXECUTE format('INSERT INTO %s_rows SELECT i %% 100, i, -i, i::int8 << 33, i %% 3 = 0,
		chr(97 + i %% 26)::"char",
		repeat(chr(97 + i %% 26),
			CASE i %% 5 WHEN 0 THEN 0 WHEN 1 THEN 126 WHEN 2 THEN 200 ELSE i %% 90 END),
		timestamptz ''2026-01-01 00:00+00'' + i * interval ''1 minute'', i / 7.0,
		i * interval ''1 hour'',
		md5(i::text)::uuid, ''n'' || i, ''b'' || i, ARRAY[i, -i], ''l'' || i
		FROM generate_series(1, 2000) i', am);
	-- nulls in some rows, a column that is gone, columns that rows have not
	EXECUTE format('UPDATE %s_rows SET word = NULL, at = NULL WHERE id %% 11 = 0', am);
	EXECUTE format('UPDATE %s_rows SET big = NULL WHERE id %% 13 = 0', am);
	EXECUTE format('ALTER TABLE %s_rows DROP gone', am);
	EXECUTE format('ALTER TABLE %s_rows ADD more int DEFAULT 7, ADD text text DEFAULT ''so''', am);
	EXECUTE format('INSERT INTO %s_rows (id, more) SELECT i, i FROM generate_series(2001, 2100) i',
		am);
END $$;
SELECT make('heap'), make('leanstore');

-- How many rows differ, of so many, in a projection.
CREATE FUNCTION differ(what text) RETURNS TABLE (columns text, differ bigint, n bigint)
LANGUAGE plpgsql AS $$
BEGIN
	columns := what;
	EXECUTE format('SELECT count(*) FROM ((SELECT %1$s FROM heap_rows EXCEPT ALL SELECT %1$s FROM
		leanstore_rows) UNION ALL (SELECT %1$s FROM leanstore_rows EXCEPT ALL SELECT %1$s FROM
		heap_rows)) x', what) INTO differ;
	EXECUTE format('SELECT count(*) FROM (SELECT DISTINCT %s FROM leanstore_rows) x', what) INTO n;
	RETURN NEXT;
END $$;
SELECT d.* FROM unnest(ARRAY['id', 'small, id', 'big', 'flag, letter', 'word', 'at', 'id, word, at',
	'amount', 'span', 'key', 'who', 'blank', 'parts', 'late', 'more', 'text', 'id, text, big',
	'heap_rows']) what, LATERAL differ(CASE what WHEN 'heap_rows' THEN
	'small, id, big, flag, letter, word, at, amount, span, key, who, blank, parts, late, more, text'
	ELSE what END) d;

-- First a column, then what needs the whole row, then a column again
SELECT id, cmin IS NOT NULL AS cmin, word, tableoid::regclass, leanstore_rows.id + 1 AS next, late,
	length(leanstore_rows::text) > 100 AS whole, big, xmax
FROM leanstore_rows WHERE small = 3 AND ctid IS NOT NULL AND word LIKE 'd%' AND late > 'l'
ORDER BY id LIMIT 3;
SELECT CASE WHEN id % 2 = 0 THEN word END = word AS same, count(*),
	count(CASE WHEN small > 50 THEN span END), count(CASE WHEN small > 98 THEN leanstore_rows END)
FROM leanstore_rows GROUP BY 1 ORDER BY 1;

-- Values outlive their rows (LOAN-1): in aggregates, sorts, tables, variables
SELECT min(word), md5(max(word)), min(who), max(late), max(at), max(span),
	array_length(array_agg(word), 1) FROM leanstore_rows;
SELECT string_agg(word, ',' ORDER BY id) FILTER (WHERE id IN (3, 503, 1003, 2003))
FROM leanstore_rows;
CREATE TABLE copied USING leanstore AS SELECT * FROM leanstore_rows;
INSERT INTO copied SELECT * FROM copied;
SELECT count(*), sum(id), sum(length(word)), count(DISTINCT late) FROM copied;
SELECT a.id, b.id, a.word FROM leanstore_rows a, leanstore_rows b
WHERE left(a.word, 3) = b.word AND length(b.word) = 3 AND a.small = 13 ORDER BY 1, 2 LIMIT 2;

-- An error ends a scan, and the one around it goes on; one cursor is left in the middle
DO $$
DECLARE
	c CURSOR FOR SELECT id, word, span FROM leanstore_rows WHERE id < 1000;
	r record;
	failed int := 0;
	words text := '';
BEGIN
	OPEN c;
	FETCH c INTO r;
	FOR r IN SELECT id, word FROM leanstore_rows WHERE id % 100 = 3 LOOP
		BEGIN
			PERFORM 1 / (id - 500), word FROM leanstore_rows WHERE id <= 500 + r.id % 2;
		EXCEPTION WHEN division_by_zero THEN
			failed := failed + 1;
		END;
		words := words || coalesce(r.word, '-') || ';';
	END LOOP;
	FETCH c INTO r;
	RAISE NOTICE '% failed, % %, then % %', failed, length(words), md5(words), r.id, length(r.word);
END $$;
SELECT length(string_agg(coalesce(word, '-') || ';', '' ORDER BY id)),
	md5(string_agg(coalesce(word, '-') || ';', '' ORDER BY id))
FROM heap_rows WHERE id % 100 = 3;

-- A table without columns
CREATE TABLE none () USING leanstore;
INSERT INTO none SELECT FROM generate_series(1, 3);
SELECT count(*), count(none.*), count(ctid) FROM none;

DROP SCHEMA scan_in_place CASCADE;
