-- Rows are kept without their long runs of blanks: what comes back is what heap keeps.
CREATE TABLE blanks_heap (id int PRIMARY KEY, a char(100), n int, t text, b char(300), z char(7))
	USING heap;
CREATE TABLE blanks (id int PRIMARY KEY, a char(100), n int, t text, b char(300), z char(7))
	USING leanstore;
ALTER TABLE blanks ALTER t SET STORAGE PLAIN, ALTER a SET STORAGE PLAIN, ALTER b SET STORAGE PLAIN;

CREATE FUNCTION blanks_differ() RETURNS TABLE (id int) LANGUAGE sql AS $$
	SELECT coalesce(h.id, l.id) FROM blanks_heap h FULL JOIN blanks l ON h.id = l.id
	WHERE (h.id, h.a, h.n, h.t, h.b, h.z)::text
		IS DISTINCT FROM (l.id, l.a, l.n, l.t, l.b, l.z)::text
		OR length(h.t) IS DISTINCT FROM length(l.t)
		OR octet_length(h.a) IS DISTINCT FROM octet_length(l.a)
$$;

-- runs of all lengths about the shortest that counts, and about what a pair of counts can say, at
-- all places of a word
INSERT INTO blanks_heap SELECT i, repeat('x', i % 9), i,
	repeat('y', i / 300) || repeat(' ', i % 300) || repeat('z', i % 3), '', 'e'
	FROM generate_series(0, 2399) i;
INSERT INTO blanks SELECT * FROM blanks_heap;
SELECT * FROM blanks_differ();
-- many runs in a row; nothing but blanks; long pieces without any between; nulls of all kinds
INSERT INTO blanks_heap SELECT 3000 + i, NULL, i,
	repeat(repeat(' ', 10 + i % 30) || repeat('w', 1 + i % 20), 30), NULL, NULL
	FROM generate_series(0, 599) i;
INSERT INTO blanks_heap SELECT 4000 + i, '', NULL, repeat(' ', i * 7), NULL, ''
	FROM generate_series(0, 299) i;
INSERT INTO blanks_heap
	SELECT 5000 + i, 'a', i, repeat('v', 200 + i) || repeat(' ', 40) || repeat('u', 300 - i), 'b',
	NULL FROM generate_series(0, 299) i;
INSERT INTO blanks_heap SELECT 6000 + i, CASE WHEN i & 1 = 1 THEN 'p' END,
	CASE WHEN i & 2 = 2 THEN i END, CASE WHEN i & 4 = 4 THEN repeat(' ', 20) END,
	CASE WHEN i & 8 = 8 THEN 'q' END, CASE WHEN i & 16 = 16 THEN 'r' END
		FROM generate_series(0, 63) i;
INSERT INTO blanks SELECT * FROM blanks_heap WHERE id >= 3000;
SELECT * FROM blanks_differ();
SELECT id, length(t), octet_length(a), a::text = 'a', xmin::text = pg_current_xact_id()::text
	FROM blanks WHERE id = 5100;

-- rows that grow and shrink, in place and not, and are rolled back
UPDATE blanks_heap SET a = repeat('A', id % 101), t = t || repeat(' ', id % 50) WHERE id % 3 = 0;
UPDATE blanks SET a = repeat('A', id % 101), t = t || repeat(' ', id % 50) WHERE id % 3 = 0;
SELECT * FROM blanks_differ();
BEGIN;
UPDATE blanks SET b = repeat('B', 300), z = 'zz' WHERE id % 2 = 0;
SAVEPOINT s;
UPDATE blanks SET b = '', t = '' WHERE id % 4 = 0;
DELETE FROM blanks WHERE id % 5 = 0;
ROLLBACK TO s;
SELECT count(*), sum(length(b)), count(DISTINCT octet_length(b)) FROM blanks;
ROLLBACK;
SELECT * FROM blanks_differ();
UPDATE blanks_heap SET b = '', n = id WHERE id % 7 = 0;
UPDATE blanks SET b = '', n = id WHERE id % 7 = 0;
DELETE FROM blanks_heap WHERE id % 11 = 0;
DELETE FROM blanks WHERE id % 11 = 0;
SELECT * FROM blanks_differ();

-- an old snapshot sees old rows; RETURNING, ON CONFLICT, triggers' OLD and NEW
BEGIN;
DECLARE before CURSOR
	FOR SELECT md5(string_agg(id || '|' || coalesce(t, '-') || '|' || coalesce(a, '-'), ';'
		ORDER BY id))
	= (SELECT md5(string_agg(id || '|' || coalesce(t, '-') || '|' || coalesce(a, '-'), ';'
		ORDER BY id)) FROM blanks_heap) AS same FROM blanks;
UPDATE blanks SET t = 'gone' WHERE id < 3000;
FETCH before;
ROLLBACK;
INSERT INTO blanks VALUES (1, 'new', 0, repeat(' ', 60) || '.', 'c')
	ON CONFLICT (id) DO UPDATE SET t = EXCLUDED.t || blanks.a RETURNING old.a, octet_length(new.a),
	length(old.t), length(new.t);
INSERT INTO blanks_heap VALUES (1, 'new', 0, repeat(' ', 60) || '.', 'c')
	ON CONFLICT (id) DO UPDATE SET t = EXCLUDED.t || blanks_heap.a;
SELECT * FROM blanks_differ();

-- copies: new columns, CLUSTER, COPY, an index on a padded column
ALTER TABLE blanks_heap ADD d char(64) DEFAULT 'd';
ALTER TABLE blanks ADD d char(64) DEFAULT 'd';
UPDATE blanks_heap SET d = 'e' WHERE id % 13 = 0;
UPDATE blanks SET d = 'e' WHERE id % 13 = 0;
SELECT count(*) FROM blanks_heap h JOIN blanks l ON h.id = l.id AND h::text = l::text;
CREATE INDEX blanks_a ON blanks (a, id);
CLUSTER blanks USING blanks_a;
SELECT count(*) FROM blanks_heap h JOIN blanks l ON h.id = l.id AND h::text = l::text;
SELECT * FROM blanks_differ();
SET enable_seqscan = off;
SELECT count(*), min(octet_length(a)) FROM blanks WHERE a = 'A';
RESET enable_seqscan;
SELECT leanstore_check('blanks');

-- what it is for: a table of padding takes little; one that would not fit into a page without it is
-- kept there
CREATE TABLE blanks_padded (id int, filler char(84)) USING leanstore;
CREATE TABLE blanks_padded_heap (id int, filler char(84)) USING heap;
INSERT INTO blanks_padded SELECT i, '' FROM generate_series(1, 100000) i;
INSERT INTO blanks_padded_heap SELECT i, '' FROM generate_series(1, 100000) i;
SELECT pg_relation_size('blanks_padded') < pg_relation_size('blanks_padded_heap') / 2 AS small;
CREATE TABLE blanks_wide (id int, a char(2000), b char(2000), c char(2000), d char(1900))
	USING leanstore;
ALTER TABLE blanks_wide ALTER a SET STORAGE PLAIN, ALTER b SET STORAGE PLAIN,
	ALTER c SET STORAGE PLAIN, ALTER d SET STORAGE PLAIN;
INSERT INTO blanks_wide SELECT i, 'a', 'b', 'c', 'd' FROM generate_series(1, 100) i;
INSERT INTO blanks_wide VALUES (101, repeat('a', 2000), repeat('b', 2000), 'c', 'd');
SELECT count(*), min(octet_length(a) + octet_length(b) + octet_length(c) + octet_length(d)),
	pg_relation_size('blanks_wide') < 100000 AS small FROM blanks_wide;
SELECT count(*) FROM blanks_wide WHERE a = 'a' AND d = 'd';
UPDATE blanks_wide SET a = 'short' WHERE id = 101;
UPDATE blanks_wide SET b = repeat('x', 2000), c = repeat('y', 2000) WHERE id = 7;
SELECT id, a::text, length(b), length(c) FROM blanks_wide WHERE id IN (7, 101) ORDER BY id;
SELECT leanstore_check('blanks_padded'), leanstore_check('blanks_wide');
DROP TABLE blanks, blanks_heap, blanks_padded, blanks_padded_heap, blanks_wide;
DROP FUNCTION blanks_differ;
