-- Wide rows and large values: compressed, external, updated and left alone.
SET default_table_access_method = leanstore;
CREATE SCHEMA types_toast;
SET search_path = types_toast, public;

-- Text that compresses well, text that does not, and where it lies.
CREATE FUNCTION noise(seed int, n int) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT substr(string_agg(md5(seed::text || '/' || i), '' ORDER BY i), 1, n)
	FROM generate_series(1, n / 32 + 1) i $$;
CREATE TABLE large (id int PRIMARY KEY, v int DEFAULT 0, t text, b bytea);
INSERT INTO large (id, t, b) VALUES
	(1, 'small', 'small'), (2, repeat('x', 100000), NULL), (3, noise(3, 3000), NULL),
	(4, noise(4, 10000), noise(4, 20000)::bytea),
	(5, noise(5, 300000), repeat('y', 300000)::bytea), (6, NULL, decode(noise(6, 200000), 'hex')),
	(7, repeat(noise(7, 1000), 500), '');
SELECT id, v, length(t) AS t,
	md5(t)
	= md5(CASE id WHEN 1 THEN 'small' WHEN 2 THEN repeat('x', 100000)
		WHEN 7 THEN repeat(noise(7, 1000), 500) ELSE noise(id, length(t)) END) AS t_right,
	length(b) AS b, md5(b) FROM large ORDER BY id;

-- Pieces of it.
SELECT id, substr(t, 2001, 5) = substr(noise(id, 3000), 2001, 5) AS same FROM large
	WHERE id IN (3, 4, 5) ORDER BY id;
SELECT substr(t, 499990) = substr(repeat(noise(7, 1000), 500), 499990) AS same
	FROM large WHERE id = 7;

-- Another column changes: large values stay what they were.
UPDATE large SET v = v + 1;
UPDATE large SET v = v + 1 WHERE id IN (4, 5);
SELECT id, v, length(t) AS t, md5(t), md5(b) FROM large ORDER BY id;
-- So also when the key changes, and the row moves.
UPDATE large SET id = id + 100 WHERE id IN (5, 7);
SELECT id, length(t) AS t,
	t = CASE id WHEN 105 THEN noise(5, 300000) ELSE repeat(noise(7, 1000), 500) END AS same
	FROM large WHERE id > 100 ORDER BY id;
-- A large value changes, shrinks, grows, goes; a copy between rows.
UPDATE large SET t = t || '!' WHERE id = 4;
UPDATE large SET t = 'shrunk' WHERE id = 105;
UPDATE large SET t = noise(1, 50000) WHERE id = 1;
UPDATE large SET b = NULL WHERE id = 105;
UPDATE large SET t = (SELECT t FROM large WHERE id = 107) WHERE id = 6;
SELECT id, v, length(t) AS t, md5(t), length(b) AS b FROM large ORDER BY id;
DELETE FROM large WHERE id = 107;
SELECT length(t), t = repeat(noise(7, 1000), 500) AS same FROM large WHERE id = 6;

-- Rolled back changes of large values.
BEGIN;
UPDATE large SET t = noise(99, 100000);
SAVEPOINT s;
UPDATE large SET t = 'short';
DELETE FROM large WHERE id < 4;
ROLLBACK TO s;
SELECT id, t = noise(99, 100000) AS changed FROM large ORDER BY id;
ROLLBACK;
SELECT id, length(t) AS t, md5(t) FROM large ORDER BY id;

-- A cursor reads large values of rows that are gone meanwhile.
BEGIN;
DECLARE c CURSOR FOR SELECT id, length(t) AS t, md5(t) FROM large ORDER BY id;
UPDATE large SET t = 'overwritten';
DELETE FROM large WHERE id > 3;
FETCH ALL FROM c;
ROLLBACK;
-- A large value kept in a variable outlives its row's version.
DO $$
DECLARE value text;
BEGIN
	SELECT t INTO value FROM large WHERE id = 6;
	DELETE FROM large WHERE id = 6;
	ASSERT value = repeat(noise(7, 1000), 500);
	INSERT INTO large (id, t) VALUES (6, value);
END $$;
SELECT length(t), t = repeat(noise(7, 1000), 500) AS same FROM large WHERE id = 6;

-- Every storage strategy gives the same answer.
CREATE TABLE strategy (id int, plain text, external text, extended text, main text);
ALTER TABLE strategy ALTER plain SET STORAGE plain, ALTER external SET STORAGE external,
	ALTER extended SET STORAGE extended, ALTER main SET STORAGE main;
INSERT INTO strategy SELECT i, repeat('p', 500), repeat('e', i * 3000), repeat('x', i * 3000),
	repeat('m', i * 3000) FROM generate_series(1, 5) i;
INSERT INTO strategy SELECT i, 'p', noise(i, i * 1000), noise(i, i * 1000), noise(i, i * 300)
	FROM generate_series(6, 10) i;
UPDATE strategy SET id = -id WHERE id % 2 = 0;
SELECT id, length(plain) AS plain, md5(external) = md5(extended) AS same,
	length(extended) AS extended, length(main) AS main FROM strategy ORDER BY abs(id);
ALTER TABLE strategy ALTER extended SET COMPRESSION lz4;
INSERT INTO strategy (id, extended) VALUES (11, repeat('lz4 ', 50000));
SELECT id, length(extended), extended = repeat('lz4 ', 50000) AS same FROM strategy WHERE id = 11;

-- Rows around the limit at which values leave the row.
CREATE TABLE near_limit (n int, t text);
INSERT INTO near_limit SELECT n, noise(n, n) FROM generate_series(1800, 2200, 7) n;
INSERT INTO near_limit SELECT n, noise(n, n) FROM generate_series(3500, 4500, 23) n;
INSERT INTO near_limit SELECT n, noise(n, n) FROM generate_series(7800, 8300, 11) n;
SELECT count(*), count(*) FILTER (WHERE t = noise(n, n)) AS same FROM near_limit;
UPDATE near_limit SET t = noise(n, n + 1) WHERE n % 2 = 0;
UPDATE near_limit SET t = t || t WHERE n % 3 = 0;
SELECT count(*), count(*) FILTER (WHERE t LIKE noise(n, n) || '%') AS same,
	sum(length(t)) FROM near_limit;

-- A row grows in place until it no longer fits its page; so do its neighbours.
CREATE TABLE growing (id int PRIMARY KEY, t text);
INSERT INTO growing SELECT i, '' FROM generate_series(1, 40) i;
DO $$
BEGIN
	FOR i IN 1..35 LOOP
		UPDATE growing SET t = t || substr(md5(id || '/' || i), 1, 30) || repeat('+', 20);
	END LOOP;
END $$;
SELECT count(*),
	count(*) FILTER
	(WHERE t = (SELECT string_agg(substr(md5(id || '/' || i), 1, 30) || repeat('+', 20), ''
		ORDER BY i) FROM generate_series(1, 35) i)) AS same FROM growing;
UPDATE growing SET t = '' WHERE id % 2 = 0;
SELECT count(*), sum(length(t)) FROM growing;

-- Many columns: 900 numbers, and 100 texts which together are large.
DO $$ BEGIN
EXECUTE (SELECT format('CREATE TABLE many_columns (%s)',
	string_agg('c' || i || ' int', ', ' ORDER BY i)) FROM generate_series(1, 900) i);
EXECUTE (SELECT format('INSERT INTO many_columns VALUES (%s)', string_agg(i::text, ', ' ORDER BY i))
	FROM generate_series(1, 900) i);
EXECUTE (SELECT format('CREATE TABLE many_texts (%s)',
	string_agg('c' || i || ' text', ', ' ORDER BY i)) FROM generate_series(1, 100) i);
EXECUTE (SELECT format('INSERT INTO many_texts VALUES (%s)',
	string_agg(format('noise(%s, 200)', i), ', ' ORDER BY i)) FROM generate_series(1, 100) i);
END $$;
INSERT INTO many_columns (c1, c900) VALUES (-1, -900);
UPDATE many_columns SET c450 = -450 WHERE c1 = 1;
SELECT c1, c2, c449, c450, c451, c899, c900 FROM many_columns ORDER BY c1;
UPDATE many_texts SET c50 = c50 || 'x';
SELECT c1 = noise(1, 200) AS c1, c50 = noise(50, 200) || 'x' AS c50, c100 = noise(100, 200) AS c100,
	length(many_texts::text) FROM many_texts;

-- Large values in other containers.
CREATE TABLE containers (id int, a text[], j jsonb, r large);
INSERT INTO containers
	VALUES (1, ARRAY[noise(1, 5000), repeat('z', 100000)], jsonb_build_object('k', noise(2, 30000)),
		ROW(1, 2, noise(3, 40000), NULL));
INSERT INTO containers SELECT 2, a, j, r FROM containers;
UPDATE containers SET a[1] = 'first' WHERE id = 2;
DELETE FROM containers WHERE id = 1;
SELECT a[1], length(a[2]) AS a2, j ->> 'k' = noise(2, 30000) AS j, (r).t = noise(3, 40000) AS r
	FROM containers;

-- Tables and indexes over them after a rewrite.
CREATE INDEX ON large (md5(t));
CREATE TABLE large_copy AS TABLE large;
VACUUM FULL large;
SELECT count(*) AS different
	FROM ((TABLE large EXCEPT ALL TABLE large_copy)
		UNION ALL (TABLE large_copy EXCEPT ALL TABLE large)) d;
SET enable_seqscan = off;
SELECT id FROM large WHERE md5(t) = md5(noise(1, 50000));
RESET enable_seqscan;
TRUNCATE large;
INSERT INTO large SELECT * FROM large_copy;
SELECT count(*), sum(length(t)), sum(length(b)) FROM large;

-- A row of more than 512 MB, which a trigger drops before it is stored.
CREATE TABLE huge (d text);
CREATE FUNCTION huge_length() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN RAISE NOTICE ''% bytes'', length(NEW.d); RETURN NULL; END';
CREATE TRIGGER huge BEFORE INSERT ON huge FOR EACH ROW EXECUTE FUNCTION huge_length();
INSERT INTO huge VALUES (repeat('x', 540000000));
CREATE TABLE two_huge (a text, b text);
INSERT INTO two_huge SELECT s, s FROM repeat('x', 540000000) AS s;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
