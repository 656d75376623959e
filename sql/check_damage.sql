-- leanstore_check finds what is wrong with an index, whatever its kind.
SET default_table_access_method = leanstore;
CREATE SCHEMA check_damage;
SET search_path = check_damage, public;
SET client_min_messages = warning;

CREATE TABLE t (id int PRIMARY KEY, v int, a int[], p point, s text);
CREATE INDEX t_hash ON t USING hash (v);
CREATE INDEX t_gin ON t USING gin (a);
CREATE INDEX t_gist ON t USING gist (p);
CREATE INDEX t_spgist ON t USING spgist (s);
CREATE INDEX t_brin ON t USING brin (v);
CREATE INDEX t_some ON t USING hash (s) WHERE v < 0;
INSERT INTO t SELECT i, i % 7, ARRAY[i % 5, i % 3], point(i, i), 's' || i
	FROM generate_series(1, 300) i;
UPDATE t SET v = v + 1, s = s || 'x' WHERE id % 10 = 0;
DELETE FROM t WHERE id % 11 = 0;
SELECT leanstore_check('t');

-- A row that an index does not know.
CREATE FUNCTION check_damage.without(index_name regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE pg_index SET indisready = false WHERE indexrelid = index_name;
	INSERT INTO t VALUES (1000, 1000, '{1000}', '(1000, 1000)', 'missing');
	UPDATE pg_index SET indisready = true WHERE indexrelid = index_name;
	PERFORM leanstore_check('t');
END $$;
SET allow_system_table_mods = on;
SELECT check_damage.without('t_pkey');
SELECT check_damage.without('t_hash');
SELECT check_damage.without('t_gin');
SELECT check_damage.without('t_gist');
SELECT check_damage.without('t_spgist');
-- No entry is wanted there.
SELECT check_damage.without('t_some');
-- A hash index has no entries for NULL; a row with a value is missed all the same.
CREATE TABLE h (v int);
CREATE INDEX h_hash ON h USING hash (v);
INSERT INTO h VALUES (1), (NULL), (2);
SELECT leanstore_check('h');
UPDATE pg_index SET indisready = false WHERE indexrelid = 'h_hash'::regclass;
INSERT INTO h VALUES (NULL);
SELECT leanstore_check('h');
INSERT INTO h VALUES (3);
UPDATE pg_index SET indisready = true WHERE indexrelid = 'h_hash'::regclass;
SELECT leanstore_check('h');
RESET allow_system_table_mods;
SELECT leanstore_check('t');

-- An entry that the row does not give any more.
CREATE FUNCTION liar(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1; END';
CREATE INDEX t_liar ON t (liar(v));
SELECT leanstore_check('t');
CREATE OR REPLACE FUNCTION liar(int) RETURNS int
	LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 + 1; END';
SELECT leanstore_check('t');
REINDEX INDEX t_liar;
SELECT leanstore_check('t');

-- Not for every role.
CREATE ROLE leanstore_check_stranger;
GRANT USAGE ON SCHEMA check_damage TO leanstore_check_stranger;
SET ROLE leanstore_check_stranger;
SELECT leanstore_check('t');
RESET ROLE;
GRANT EXECUTE ON FUNCTION leanstore_check(regclass) TO leanstore_check_stranger;
SET ROLE leanstore_check_stranger;
SELECT leanstore_check('t');
RESET ROLE;
REVOKE EXECUTE ON FUNCTION leanstore_check(regclass) FROM leanstore_check_stranger;
DROP SCHEMA check_damage CASCADE;
DROP ROLE leanstore_check_stranger;
