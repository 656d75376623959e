-- Types with another order than the type they are coercible to (citext): keys compare as btree's
-- do.
CREATE SCHEMA index_ls_classes;
SET search_path = index_ls_classes, public;
SET client_min_messages = warning;
CREATE VIEW classes AS
	SELECT c.relname AS index, a.amname AS am, string_agg(o.opcname, ', ' ORDER BY n) AS classes
	FROM pg_index i JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam,
		unnest(indclass::oid[]) WITH ORDINALITY AS u(class, n) JOIN pg_opclass o ON o.oid = class
	WHERE c.relnamespace = 'index_ls_classes'::regnamespace GROUP BY 1, 2 ORDER BY 1;

-- A class for each class of an extension that is created now.
CREATE EXTENSION citext SCHEMA index_ls_classes;
CREATE EXTENSION hstore SCHEMA index_ls_classes;
CREATE EXTENSION ltree SCHEMA index_ls_classes;
CREATE EXTENSION cube SCHEMA index_ls_classes;
CREATE EXTENSION seg SCHEMA index_ls_classes;
CREATE EXTENSION isn SCHEMA index_ls_classes;
SELECT leanstore_add_operator_classes();
SELECT opcname, opcintype::regtype, opcdefault, amvalidate(oid) FROM pg_opclass o
WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'leanstore_index')
	AND opcintype::regtype::text ~ 'index_ls_classes|citext|hstore|ltree|cube|seg|isbn|ean13'
ORDER BY 1;
SELECT count(*) FROM pg_amop
	WHERE amopmethod = (SELECT oid FROM pg_am WHERE amname = 'leanstore_index')
	AND amoplefttype::regtype::text ~ 'isbn';

CREATE TABLE ci (v citext UNIQUE, n int DEFAULT 0) USING leanstore;
INSERT INTO ci VALUES ('Ann');
INSERT INTO ci VALUES ('ANN');
INSERT INTO ci VALUES ('ann') ON CONFLICT (v) DO UPDATE SET n = ci.n + 1;
SELECT v, n FROM ci;
SET enable_seqscan = off;
SELECT count(*) FROM ci WHERE v = 'aNN';
SELECT count(*) FROM ci WHERE v IN ('aNN', 'bo') AND v >= 'ANN' AND v < 'B';
INSERT INTO ci SELECT chr(96 + i) || i FROM generate_series(1, 20) i;
SELECT string_agg(v::text, ' ') FROM (SELECT v FROM ci WHERE v < 'F' ORDER BY v DESC) AS s;
RESET enable_seqscan;
CREATE TABLE cp (v citext PRIMARY KEY) USING leanstore;
CREATE TABLE ck (v citext REFERENCES cp ON UPDATE CASCADE) USING leanstore;
CREATE INDEX ON ck (v);
INSERT INTO cp VALUES ('Bo');
INSERT INTO ck VALUES ('BO');
DELETE FROM cp WHERE v = 'bO';
UPDATE cp SET v = 'Cy';
SELECT * FROM ck;
-- Domains, partitions, copies; what is built anew.
CREATE DOMAIN email AS citext CHECK (value ~ '@');
CREATE TABLE dom (v email PRIMARY KEY) USING leanstore;
INSERT INTO dom VALUES ('a@b'), ('A@B');
CREATE TABLE arr (v citext[] UNIQUE) USING leanstore;
INSERT INTO arr VALUES ('{a,b}'), ('{A,B}');
SET default_table_access_method = leanstore;
CREATE TABLE part (v citext, n int, PRIMARY KEY (v, n)) PARTITION BY LIST (n);
CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE part_2 (v citext NOT NULL, n int NOT NULL);
ALTER TABLE part ATTACH PARTITION part_2 FOR VALUES IN (2);
INSERT INTO part VALUES ('x', 1), ('x', 2);
INSERT INTO part VALUES ('X', 1);
INSERT INTO part VALUES ('X', 2);
CREATE TABLE copied (LIKE ci INCLUDING ALL);
INSERT INTO copied VALUES ('d'), ('D');
CREATE TABLE altered (v text UNIQUE, w text, x text);
CREATE INDEX altered_plain ON altered (w);
CREATE INDEX altered_named ON altered USING leanstore (x);
INSERT INTO altered VALUES ('e', 'f', 'g');
ALTER TABLE altered ALTER v TYPE citext, ALTER w TYPE citext, ALTER x TYPE citext;
INSERT INTO altered VALUES ('E');
SET enable_seqscan = off;
SELECT count(*) FROM altered WHERE w = 'F';
SELECT count(*) FROM altered WHERE x = 'G';
RESET enable_seqscan;
CREATE INDEX altered_pattern ON altered (v citext_pattern_ops);
CREATE INDEX altered_text ON altered USING leanstore (v text_ops);
REINDEX TABLE ci;
REINDEX TABLE CONCURRENTLY ci;
INSERT INTO ci VALUES ('aNn');
SELECT * FROM classes;
SELECT leanstore_check(oid::regclass) FROM pg_class
	WHERE relnamespace = 'index_ls_classes'::regnamespace AND relkind = 'r'
	AND relam = (SELECT oid FROM pg_am WHERE amname = 'leanstore');
DROP TABLE ci, cp, ck, dom, arr, part, copied, altered;

-- The other types beside heap's answers.
CREATE TABLE h (i int, h hstore, l ltree, c cube, s seg, e ean13, b isbn) USING heap;
INSERT INTO h SELECT i, hstore('k' || i % 17, i::text), ('a' || i % 13 || '.b' || i % 7)::ltree,
	cube(i % 29, i % 3), (i % 31)::text::seg,
	((979000000000 + i * 37 % 101)::text || '?')::ean13,
	((978000000000 + i * 31 % 97)::text || '?')::isbn FROM generate_series(1, 200) i;
CREATE TABLE o USING leanstore AS TABLE h;
CREATE INDEX o_h ON o (h);
CREATE INDEX o_l ON o (l);
CREATE INDEX o_c ON o (c DESC);
CREATE INDEX o_s ON o (s);
CREATE INDEX o_e ON o (e);
CREATE INDEX o_b ON o (b NULLS FIRST);
SELECT * FROM classes;
SET enable_seqscan = off; SET enable_sort = off;
SELECT bool_and(a.h = b.h) FROM (SELECT h, row_number() OVER (ORDER BY h) n FROM h) a
	JOIN (SELECT h, row_number() OVER (ORDER BY h) n FROM o) b USING (n);
SELECT bool_and(a.l = b.l) FROM (SELECT l, row_number() OVER (ORDER BY l) n FROM h) a
	JOIN (SELECT l, row_number() OVER (ORDER BY l) n FROM o) b USING (n);
SELECT bool_and(a.c = b.c) FROM (SELECT c, row_number() OVER (ORDER BY c) n FROM h) a
	JOIN (SELECT c, row_number() OVER (ORDER BY c) n FROM o) b USING (n);
SELECT bool_and(a.s = b.s) FROM (SELECT s, row_number() OVER (ORDER BY s) n FROM h) a
	JOIN (SELECT s, row_number() OVER (ORDER BY s) n FROM o) b USING (n);
SELECT bool_and(a.e = b.e) FROM (SELECT e, row_number() OVER (ORDER BY e) n FROM h) a
	JOIN (SELECT e, row_number() OVER (ORDER BY e) n FROM o) b USING (n);
SELECT (SELECT count(*) FROM o WHERE b > '978000000050?'::ean13),
	(SELECT count(*) FROM h WHERE b > '978000000050?'::ean13);
RESET enable_seqscan; RESET enable_sort;
SELECT leanstore_check('o');
DROP TABLE h, o;

-- Pattern classes compare bytes: not under a collation for which others are equal.
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE pattern (t text COLLATE ci, p char(5) COLLATE ci) USING leanstore;
CREATE INDEX ON pattern (t text_pattern_ops);
CREATE INDEX ON pattern USING leanstore (p bpchar_pattern_ops);
CREATE INDEX ON pattern (t COLLATE "C" text_pattern_ops);
DROP TABLE pattern;

-- A type of a user, coercible to text.
CREATE TYPE shout;
CREATE FUNCTION shout_in(cstring) RETURNS shout AS 'textin'
	LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION shout_out(shout) RETURNS cstring AS 'textout'
	LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
CREATE TYPE shout (INPUT = shout_in, OUTPUT = shout_out, LIKE = text, CATEGORY = 'S',
	COLLATABLE = true);
CREATE CAST (shout AS text) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (text AS shout) WITHOUT FUNCTION AS ASSIGNMENT;
-- It has text's order so far.
CREATE TABLE plain (v shout UNIQUE) USING leanstore;
INSERT INTO plain VALUES ('ab'), ('AB');
DROP TABLE plain;
CREATE FUNCTION shout_cmp(shout, shout) RETURNS int
	LANGUAGE sql IMMUTABLE STRICT AS 'SELECT bttextcmp(upper($1::text), upper($2::text))';
CREATE FUNCTION shout_lt(shout, shout) RETURNS bool
	LANGUAGE sql IMMUTABLE STRICT AS 'SELECT shout_cmp($1, $2) < 0';
CREATE FUNCTION shout_le(shout, shout) RETURNS bool
	LANGUAGE sql IMMUTABLE STRICT AS 'SELECT shout_cmp($1, $2) <= 0';
CREATE FUNCTION shout_eq(shout, shout) RETURNS bool
	LANGUAGE sql IMMUTABLE STRICT AS 'SELECT shout_cmp($1, $2) = 0';
CREATE FUNCTION shout_ge(shout, shout) RETURNS bool
	LANGUAGE sql IMMUTABLE STRICT AS 'SELECT shout_cmp($1, $2) >= 0';
CREATE FUNCTION shout_gt(shout, shout) RETURNS bool
	LANGUAGE sql IMMUTABLE STRICT AS 'SELECT shout_cmp($1, $2) > 0';
CREATE OPERATOR < (FUNCTION = shout_lt, LEFTARG = shout, RIGHTARG = shout, COMMUTATOR = >);
CREATE OPERATOR <= (FUNCTION = shout_le, LEFTARG = shout, RIGHTARG = shout, COMMUTATOR = >=);
CREATE OPERATOR = (FUNCTION = shout_eq, LEFTARG = shout, RIGHTARG = shout, COMMUTATOR = =);
CREATE OPERATOR >= (FUNCTION = shout_ge, LEFTARG = shout, RIGHTARG = shout, COMMUTATOR = <=);
CREATE OPERATOR > (FUNCTION = shout_gt, LEFTARG = shout, RIGHTARG = shout, COMMUTATOR = <);
CREATE OPERATOR CLASS shout_ops DEFAULT FOR TYPE shout USING btree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 shout_cmp(shout, shout);
CREATE TABLE loud (v shout UNIQUE, w text) USING leanstore;
INSERT INTO loud VALUES ('ab'), ('AB');
CREATE INDEX loud_w ON loud USING leanstore (w);
SELECT * FROM classes;
DROP OPERATOR CLASS shout_ops USING leanstore;
DROP INDEX loud_w;
ALTER TABLE loud DROP CONSTRAINT loud_v_key;
DROP OPERATOR CLASS shout_ops USING leanstore;
-- Without a class of ours: btree, or an error if the statement names leanstore.
CREATE UNIQUE INDEX loud_default ON loud (v);
CREATE INDEX loud_w ON loud USING leanstore (w);
CREATE INDEX loud_named ON loud USING leanstore (v);
CREATE INDEX loud_expression ON loud USING leanstore (((v || w)::shout));
CREATE TABLE quiet (LIKE loud INCLUDING INDEXES) USING leanstore;
ALTER TABLE loud ALTER w TYPE shout;
CREATE TABLE levels (v shout, n int) PARTITION BY LIST (n) USING leanstore;
CREATE INDEX levels_v ON levels USING leanstore (v);
CREATE INDEX levels_v_named ON levels USING leanstore (v text_ops);
CREATE UNIQUE INDEX levels_v_default ON levels (v, n);
SELECT * FROM classes;
-- A class of the user's takes the place of ours, and drops with the type.
SELECT leanstore_add_operator_classes();
CREATE OPERATOR CLASS shout_own_ops DEFAULT FOR TYPE shout USING leanstore AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 shout_cmp(shout, shout);
CREATE INDEX loud_own ON loud (v);
ALTER TABLE loud ALTER w TYPE shout;
INSERT INTO loud VALUES ('ab', 'w');
SELECT * FROM classes;
SELECT leanstore_check('loud');
DROP TABLE loud, quiet, levels;
DROP DOMAIN email;
DROP EXTENSION citext;
DROP EXTENSION hstore;
DROP EXTENSION isn;
SET client_min_messages = error;
DROP SCHEMA index_ls_classes CASCADE;
SELECT opcname FROM pg_opclass
	WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'leanstore_index') AND oid NOT IN
	(SELECT objid FROM pg_depend WHERE classid = 'pg_opclass'::regclass AND deptype = 'e');
-- The order in which the two extensions are created does not matter.
CREATE DATABASE index_ls_classes TEMPLATE template0;
\c index_ls_classes
CREATE EXTENSION citext;
CREATE EXTENSION leanstore_am;
CREATE TABLE ci (v citext UNIQUE) USING leanstore;
INSERT INTO ci VALUES ('Ann'), ('ANN');
SELECT pg_get_indexdef('ci_v_key'::regclass);
DROP TABLE ci;
DROP EXTENSION leanstore_am;
CREATE EXTENSION leanstore_am;
DROP EXTENSION citext;
SELECT opcname FROM pg_opclass
	WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'leanstore_index')
	AND opcnamespace = 'pg_catalog'::regnamespace;
\c leanstore_regression
DROP DATABASE index_ls_classes;
