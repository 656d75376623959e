-- Rows as large as heap takes them (8,160 bytes) with columns that TOAST cannot shrink: storage
-- PLAIN, many columns of fixed width.
SET default_table_access_method = leanstore;

CREATE TABLE wide (id int PRIMARY KEY, v int, body text, tail text);
ALTER TABLE wide ALTER body SET STORAGE PLAIN;

INSERT INTO wide SELECT i, i, repeat(chr(97 + i % 26), i * 400), 'tail ' || i
	FROM generate_series(1, 20) i;
SELECT id, v, length(body), md5(body), tail FROM wide ORDER BY id;
INSERT INTO wide VALUES (21, 21, repeat('x', 8200), 'too large');

-- by index, by scan, in expressions
SET enable_seqscan = off;
SELECT length(body) FROM wide WHERE id = 19;
RESET enable_seqscan;
SELECT count(*), sum(length(body)) FROM wide WHERE body LIKE '%u%';

-- changes: in place, of the key, to a small row and back; undone and not
UPDATE wide SET v = -v WHERE id IN (5, 15);
UPDATE wide SET id = id + 100 WHERE id IN (10, 20);
BEGIN;
UPDATE wide SET body = 'small', v = 0 WHERE id > 9;
SAVEPOINT s;
DELETE FROM wide;
SELECT count(*) FROM wide;
ROLLBACK TO s;
SELECT count(*), sum(length(body)), sum(v) FROM wide;
ROLLBACK;
SELECT count(*), sum(length(body)), sum(v), sum(hashtext(body)) FROM wide;
UPDATE wide SET body = 'small' WHERE id = 16;
UPDATE wide SET body = repeat('again', 1500) WHERE id = 16;
UPDATE wide SET body = body || '!' WHERE id = 16
	RETURNING old.v, length(old.body), length(new.body);
INSERT INTO wide VALUES (16, 0, repeat('conflict', 900), '')
	ON CONFLICT (id) DO UPDATE SET body = excluded.body, v = wide.v + 1 RETURNING length(body), v;
MERGE INTO wide USING (VALUES (17), (200)) AS s(id) ON wide.id = s.id
	WHEN MATCHED THEN UPDATE SET body = repeat('merged', 1200)
	WHEN NOT MATCHED THEN INSERT VALUES (s.id, 0, repeat('new', 2000), '');
SELECT id, v, length(body), md5(body), tail FROM wide WHERE id > 9 ORDER BY id;

-- an external value in a row that is outside as a whole
ALTER TABLE wide ALTER tail SET STORAGE EXTERNAL;
UPDATE wide SET tail = repeat('tail', 3000) WHERE id IN (12, 18);
SELECT id, length(body), length(tail), md5(tail) FROM wide WHERE length(tail) > 100 ORDER BY id;
UPDATE wide SET v = 1000 WHERE id IN (12, 18);
SELECT id, length(body), length(tail), md5(tail) FROM wide WHERE v = 1000 ORDER BY id;

-- a new column, a dropped one, a rewrite, another tablespace
ALTER TABLE wide ADD added text DEFAULT 'added';
ALTER TABLE wide DROP v;
VACUUM FULL wide;
SELECT count(*), sum(length(body)), sum(length(tail)), min(added), sum(hashtext(body)) FROM wide;
CLUSTER wide USING wide_pkey;
ALTER TABLE wide ALTER id TYPE bigint;
SELECT count(*), sum(length(body)), sum(length(tail)), min(added), sum(hashtext(body)) FROM wide;
ANALYZE wide;
CREATE INDEX ON wide (length(body));
DO $$ BEGIN PERFORM leanstore_check('wide'); END $$;

-- what the deleted rows had in the TOAST table is dead, too
CREATE FUNCTION chunks(rel regclass) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM %s',
		(SELECT reltoastrelid::regclass FROM pg_class WHERE oid = rel)) INTO n;
	RETURN n;
END $$;
DELETE FROM wide;
SELECT chunks('wide');

-- columns of fixed width alone
SELECT format('CREATE TABLE many (%s)', string_agg(format('c%s bigint DEFAULT %s', i, i), ', '))
	FROM generate_series(1, 990) i \gexec
INSERT INTO many DEFAULT VALUES;
INSERT INTO many (c990) VALUES (-1);
UPDATE many SET c500 = -500 WHERE c990 = -1;
SELECT c1, c500, c990, (many.*)::text LIKE '(1,2,3,4,%' AS whole FROM many ORDER BY c990;
COPY many (c1, c990) FROM stdin;
7	7
8	8
\.
SELECT count(*), sum(c990), sum(c989) FROM many;
TRUNCATE many;

-- and with a null bitmap of its own
INSERT INTO many (c2) VALUES (NULL);
SELECT c1, c2, c3 FROM many;

DROP TABLE wide, many;
DROP FUNCTION chunks;
