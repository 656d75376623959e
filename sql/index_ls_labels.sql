-- Columns of leanstore indexes that are compared by their operator class' procedure: text under a
-- libc collation, in indexes of before there were keys for these, and operator classes of users.
CREATE SCHEMA index_ls_labels;
SET search_path = index_ls_labels, public;
CREATE COLLATION libc (provider = libc, locale = 'C.utf8');

-- An empty index of this table as it was then.
CREATE PROCEDURE give_labels(of_table regclass) LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL allow_system_table_mods = on;
	UPDATE pg_index SET indoption =
		array_to_string(ARRAY(SELECT o & 3 FROM unnest(indoption) o), ' ')::int2vector
		WHERE indrelid = of_table;
END $$;

-- Integers by their distance from 50, so that some that differ are equal.
CREATE FUNCTION away_cmp(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
	AS 'BEGIN RETURN sign(abs($1 - 50) - abs($2 - 50))::int; END';
CREATE FUNCTION away_lt(int, int) RETURNS bool
	LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
	AS 'BEGIN RETURN abs($1 - 50) < abs($2 - 50); END';
CREATE FUNCTION away_le(int, int) RETURNS bool
	LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
	AS 'BEGIN RETURN abs($1 - 50) <= abs($2 - 50); END';
CREATE FUNCTION away_eq(int, int) RETURNS bool
	LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
	AS 'BEGIN RETURN abs($1 - 50) = abs($2 - 50); END';
CREATE FUNCTION away_ge(int, int) RETURNS bool
	LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
	AS 'BEGIN RETURN abs($1 - 50) >= abs($2 - 50); END';
CREATE FUNCTION away_gt(int, int) RETURNS bool
	LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
	AS 'BEGIN RETURN abs($1 - 50) > abs($2 - 50); END';
CREATE OPERATOR <| (FUNCTION = away_lt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = |>,
	RESTRICT = scalarltsel);
CREATE OPERATOR <=| (FUNCTION = away_le, LEFTARG = int, RIGHTARG = int, COMMUTATOR = |>=,
	RESTRICT = scalarlesel);
CREATE OPERATOR =| (FUNCTION = away_eq, LEFTARG = int, RIGHTARG = int, COMMUTATOR = =|,
	RESTRICT = eqsel, MERGES);
CREATE OPERATOR |>= (FUNCTION = away_ge, LEFTARG = int, RIGHTARG = int, COMMUTATOR = <=|,
	RESTRICT = scalargesel);
CREATE OPERATOR |> (FUNCTION = away_gt, LEFTARG = int, RIGHTARG = int, COMMUTATOR = <|,
	RESTRICT = scalargtsel);
CREATE OPERATOR CLASS away_ops FOR TYPE int USING leanstore AS
	OPERATOR 1 <|, OPERATOR 2 <=|, OPERATOR 3 =|, OPERATOR 4 |>=, OPERATOR 5 |>,
	FUNCTION 1 away_cmp(int, int);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'away_ops';

-- What such indexes are: leanstore, also when the statement does not say so.
CREATE TABLE t (id int PRIMARY KEY, name text COLLATE libc UNIQUE, n int, tags text[] COLLATE libc)
	USING leanstore;
CREATE INDEX t_n ON t (n away_ops);
CREATE INDEX t_tags ON t USING leanstore (tags DESC, id);
CALL give_labels('t');
SELECT c.relname, amname FROM pg_class c JOIN pg_index i ON indexrelid = c.oid
	JOIN pg_am a ON relam = a.oid
WHERE indrelid = 't'::regclass ORDER BY 1;
-- a class of btree that this one stands for
CREATE OPERATOR CLASS away_btree_ops FOR TYPE int USING btree AS
	OPERATOR 1 <|, OPERATOR 2 <=|, OPERATOR 3 =|, OPERATOR 4 |>=, OPERATOR 5 |>,
	FUNCTION 1 away_cmp(int, int);
CREATE INDEX t_n_btree ON t (n away_btree_ops);
SELECT amname FROM pg_class c JOIN pg_am a ON relam = a.oid WHERE c.relname = 't_n_btree';
DROP INDEX t_n_btree;

-- Insertion in any order, up and down, into gaps; equal values that differ.
SELECT setseed(0.5);
INSERT INTO t SELECT i, 'r' || md5(i::text), i % 101, ARRAY['x', (i % 7)::text]
	FROM generate_series(1, 2000) i;
INSERT INTO t SELECT i, 'a' || to_char(i, '00000'), i % 13, NULL FROM generate_series(2001, 4000) i;
INSERT INTO t SELECT i, 'z' || to_char(10000 - i, '00000'), NULL, '{}'
	FROM generate_series(4001, 6000) i;
INSERT INTO t SELECT i, 'r5' || to_char(i, '00000'), -i, ARRAY[NULL]
	FROM generate_series(6001, 6500) i;
SELECT leanstore_check('t');

CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP RETURN NEXT line; END LOOP;
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SELECT plan('SELECT name FROM t WHERE name >= ''r0'' AND name < ''r1'' ORDER BY name');
SELECT plan('SELECT n FROM t WHERE n <=| 51 ORDER BY n USING <|');

-- The order is that of a sort of a sequential scan.
CREATE FUNCTION same_as_sort(columns text, condition text, ordering text) RETURNS bool
	LANGUAGE plpgsql AS $$
DECLARE
	by_index text;
	by_sort text;
	query text := format('SELECT md5(string_agg(s::text, '','')) '
		'FROM (SELECT %s FROM t WHERE %s ORDER BY %s) AS s', columns, condition, ordering);
BEGIN
	SET LOCAL enable_sort = off; SET LOCAL enable_seqscan = off;
	EXECUTE query INTO by_index;
	SET LOCAL enable_sort = on;
	SET LOCAL enable_seqscan = on;
	SET LOCAL enable_indexscan = off;
	SET LOCAL enable_indexonlyscan = off;
	EXECUTE query INTO by_sort;
	SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = on;
	RETURN by_index IS NOT DISTINCT FROM by_sort;
END $$;
SELECT same_as_sort('name', 'true', 'name'), same_as_sort('name', 'true', 'name DESC'),
	same_as_sort('name', 'name > ''r7'' AND name <= ''r99''', 'name'),
	same_as_sort('name', 'name BETWEEN ''a 02500'' AND ''a 02600''', 'name DESC'),
	same_as_sort('name',
		'name = ANY (ARRAY[''a 02500'', ''nobody'', NULL, ''z 05000'', ''a 02001''])', 'name'),
	same_as_sort('name',
		'name >= ''a 02500''::name COLLATE libc AND ''a 02600''::name COLLATE libc > name', 'name'),
	same_as_sort('abs(n - 50)', 'n |>= 60', 'n USING <|'),
	same_as_sort('abs(n - 50)', 'n <| 40', 'n USING |>'),
	same_as_sort('tags, id', 'true', 'tags DESC, id'),
	same_as_sort('tags, id', 'tags < ARRAY[''x'', ''3''] AND id > 100', 'tags DESC, id'),
	same_as_sort('tags, id', 'id = 777', 'tags DESC, id'),
	same_as_sort('tags, id', '(tags, id) > (ARRAY[''x'', ''3''], 500)', 'tags, id DESC');
SELECT count(*) FROM t WHERE n =| 49;
SELECT DISTINCT n FROM t WHERE n =| 49 ORDER BY n;
SELECT name FROM t WHERE name = 'nobody';
SELECT count(*) FROM t WHERE n IS NULL;
SELECT count(*) FROM t WHERE name IN ('a 02500', 'nobody', 'z 05000');

-- The values come back as they were; bitmaps; a mark is restored in a merge join.
SELECT name FROM t WHERE name < 'a 02004' ORDER BY name DESC;
SET enable_bitmapscan = on; SET enable_indexscan = off; SET enable_indexonlyscan = off;
SELECT count(*), min(id), max(id) FROM t WHERE name >= 'r0' AND name < 'r1';
RESET enable_bitmapscan; RESET enable_indexscan; RESET enable_indexonlyscan;
SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = off;
SELECT count(*) FROM t a JOIN t b ON a.n =| b.n WHERE a.id <= 500 AND b.id <= 500;
RESET enable_hashjoin; RESET enable_nestloop; RESET enable_material;

-- A cursor goes back and forth while others of its transaction insert between what it reads.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT name FROM t WHERE name > 'a 02010' ORDER BY name;
FETCH 2 FROM c;
INSERT INTO t VALUES (10001, 'a 02011x'), (10002, 'a 02012x'), (10003, 'a 02010x');
FETCH 2 FROM c;
FETCH BACKWARD 3 FROM c;
ROLLBACK;

-- Uniqueness.
INSERT INTO t VALUES (10001, 'a 02011');
INSERT INTO t VALUES (10001, 'a 02011') ON CONFLICT (name) DO UPDATE SET n = 1000 RETURNING id, n;
INSERT INTO t VALUES (10001, 'a 02011') ON CONFLICT DO NOTHING;
BEGIN;
DELETE FROM t WHERE name = 'a 02011';
INSERT INTO t VALUES (10001, 'a 02011');
SAVEPOINT s;
INSERT INTO t VALUES (10002, 'a 020115');
ROLLBACK TO s;
INSERT INTO t VALUES (10003, 'a 020116'), (10004, 'a 020114');
COMMIT;
SELECT id, name FROM t WHERE name BETWEEN 'a 02011' AND 'a 02012' ORDER BY name;
CREATE TABLE u (n int, m text COLLATE libc, o int) USING leanstore;
CREATE UNIQUE INDEX u_n ON u (n away_ops) NULLS NOT DISTINCT;
INSERT INTO u VALUES (51), (NULL);
INSERT INTO u VALUES (49);
INSERT INTO u VALUES (NULL);
INSERT INTO u VALUES (48), (30);
SELECT n FROM u ORDER BY n USING <|;
SELECT leanstore_check('u');
DROP TABLE u;
CREATE TABLE u (n int, m text COLLATE libc, o int, UNIQUE (m, o) DEFERRABLE INITIALLY DEFERRED,
	EXCLUDE USING leanstore (m WITH =, n WITH =)) USING leanstore;
CALL give_labels('u');
INSERT INTO u SELECT i, 'm' || i % 10, i FROM generate_series(1, 100) i;
UPDATE u SET o = o + 10;
INSERT INTO u VALUES (1000, 'm5', 15);
INSERT INTO u VALUES (15, 'm5', 1000);
SELECT leanstore_check('u');

-- A foreign key.
CREATE TABLE child (name text COLLATE libc REFERENCES t (name) ON UPDATE CASCADE ON DELETE CASCADE)
	USING leanstore;
CREATE INDEX ON child (name) INCLUDE (name);
CALL give_labels('child');
INSERT INTO child SELECT name FROM t WHERE name < 'b' AND id % 100 = 0;
INSERT INTO child VALUES ('nobody');
UPDATE t SET name = 'b' || name WHERE name < 'a 02100' AND id % 100 = 0;
DELETE FROM t WHERE name = 'a 02100';
SELECT count(*), min(name), max(name) FROM child;
SELECT leanstore_check('child'), leanstore_check('t');

-- Several columns, with and without labels, both directions, included ones.
CREATE TABLE m (a text COLLATE libc, b int, c text COLLATE libc, d text) USING leanstore;
CREATE INDEX m_1 ON m USING leanstore (a DESC, b, c DESC NULLS LAST) INCLUDE (d);
CREATE INDEX m_2 ON m USING leanstore (b, c, a NULLS FIRST);
CALL give_labels('m');
INSERT INTO m SELECT CASE WHEN i % 11 > 0 THEN 'a' || i % 11 END, i % 5,
	CASE WHEN i % 17 > 0 THEN md5((i % 333)::text) END, 'd' || i
	FROM generate_series(1, 3000) i;
SELECT leanstore_check('m');
DELETE FROM m WHERE b = 3;
VACUUM m;
INSERT INTO m SELECT 'a' || i % 11, 3, md5((i % 333)::text), 'e' || i
	FROM generate_series(1, 1000) i;
SELECT leanstore_check('m');
-- a new index has keys
REINDEX TABLE m;
SELECT leanstore_check('m');

-- Damage: the function says something else than when the index was built.
CREATE OR REPLACE FUNCTION away_cmp(int, int) RETURNS int
	LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
	AS 'BEGIN RETURN sign(abs($1 - 40) - abs($2 - 40)); END';
SELECT leanstore_check('t');
REINDEX INDEX t_n;
SELECT leanstore_check('t');

-- It may fail, at any time; nothing is left behind but what was.
\c -
SET search_path = index_ls_labels, public;
SET enable_seqscan = off;
CREATE OR REPLACE FUNCTION away_cmp(int, int) RETURNS int
	LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
	AS $$ BEGIN
		IF $2 = 4711 THEN RAISE EXCEPTION 'no comparison with %', $2; END IF;
		RETURN sign(abs($1 - 40) - abs($2 - 40));
	END $$;
INSERT INTO t VALUES (10011, 'fails', 4711);
SELECT count(*) FROM t WHERE n =| 4711;
BEGIN;
SAVEPOINT s;
INSERT INTO t VALUES (10011, 'fails', 4711);
ROLLBACK TO s;
INSERT INTO t VALUES (10011, 'does not fail', 4712);
COMMIT;
SELECT n FROM t WHERE n =| 4712;
SELECT leanstore_check('t');

-- A value between the last two, again and again: labels grow until there is no room, and REINDEX
-- makes some.
CREATE TABLE worst (v text COLLATE libc) USING leanstore;
CREATE INDEX worst_v ON worst (v);
CALL give_labels('worst');
CREATE FUNCTION insert_between(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	low text = 'm';
	high text = 'n';
	done int = 0;
	message text;
BEGIN
	WHILE done < n LOOP
		IF done % 2 = 0 THEN high := low || 'n'; ELSE low := low || 'm'; END IF;
		BEGIN
			INSERT INTO worst VALUES (CASE WHEN done % 2 = 0 THEN high ELSE low END);
		EXCEPTION WHEN program_limit_exceeded THEN
			GET STACKED DIAGNOSTICS message = PG_EXCEPTION_HINT;
			RETURN format('%s, then: %s', done, message);
		END;
		done := done + 1;
	END LOOP;
	RETURN done;
END $$;
SELECT insert_between(20000);
SELECT leanstore_check('worst');
REINDEX INDEX worst_v;
SELECT leanstore_check('worst');
INSERT INTO worst SELECT repeat('m', 50) || 'x';
SELECT leanstore_check('worst');

DROP SCHEMA index_ls_labels CASCADE;
