-- Partitioned tables with row movement, inheritance, mixed access methods.
SET default_table_access_method = leanstore;
CREATE SCHEMA ddl_partitions_inheritance;
SET search_path = ddl_partitions_inheritance, public;

-- Partitions of both kinds: their indexes are of one kind, and that is btree then.
CREATE TABLE pt (id int PRIMARY KEY) PARTITION BY LIST (id);
CREATE TABLE pt_1 PARTITION OF pt FOR VALUES IN (1) USING heap;
DROP TABLE pt;
SET leanstore.default_index = btree;
CREATE TABLE pt (id int, region text, v int, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
RESET leanstore.default_index;
CREATE TABLE pt_a PARTITION OF pt FOR VALUES IN ('a');
CREATE TABLE pt_b PARTITION OF pt FOR VALUES IN ('b') USING heap;
CREATE TABLE pt_c PARTITION OF pt FOR VALUES IN ('c') PARTITION BY RANGE (id);
CREATE TABLE pt_c_low PARTITION OF pt_c FOR VALUES FROM (0) TO (100);
CREATE TABLE pt_c_high PARTITION OF pt_c FOR VALUES FROM (100) TO (1000);
CREATE TABLE pt_rest PARTITION OF pt DEFAULT;
CREATE INDEX ON pt USING btree (v);
SELECT relname, amname FROM pg_class c JOIN pg_am m ON m.oid = relam
	WHERE relnamespace = current_schema::regnamespace AND relkind = 'r' ORDER BY relname;
INSERT INTO pt SELECT i, substr('abcd', i % 4 + 1, 1), i % 10 FROM generate_series(1, 200) i;
\set where_they_are 'SELECT tableoid::regclass, count(*), sum(id), sum(v) FROM pt GROUP BY tableoid ORDER BY tableoid::regclass::text;'
:where_they_are

-- Rows move: to a sibling, to another access method and back, two levels down.
WITH moved AS (UPDATE pt SET region = 'b' WHERE region = 'a' AND v = 4
	RETURNING id, tableoid::regclass AS now) SELECT now, count(*), sum(id) FROM moved GROUP BY now;
WITH moved AS (UPDATE pt SET region = 'a' WHERE region = 'b' AND v = 5
	RETURNING id, tableoid::regclass AS now) SELECT now, count(*), sum(id) FROM moved GROUP BY now;
UPDATE pt SET id = id + 500 WHERE region = 'c' AND id < 50;
UPDATE pt SET region = 'zzz' WHERE region = 'd' AND id > 150;
:where_they_are
BEGIN;
UPDATE pt SET region = CASE region WHEN 'a' THEN 'b' WHEN 'b' THEN 'c' ELSE 'a' END;
:where_they_are ROLLBACK;
:where_they_are
UPDATE pt SET id = 2000 WHERE region = 'c' AND id = 102;
INSERT INTO pt VALUES (4, 'a', 0);
UPDATE pt SET region = 'a' WHERE id = 5 AND region = 'b';
SET enable_seqscan = off;
SELECT id, region FROM pt WHERE v = 7 AND id < 50 ORDER BY id;
SELECT region, v FROM pt WHERE id = 77;
RESET enable_seqscan;
INSERT INTO pt VALUES (4, 'a', 9), (5000, 'a', 9)
	ON CONFLICT (id, region) DO UPDATE SET v = excluded.v + 100 RETURNING *;
DELETE FROM pt WHERE v > 100;
MERGE INTO pt USING (VALUES (8, 'a'), (9000, 'b')) s (id, region) ON pt.id = s.id
WHEN MATCHED THEN UPDATE SET region = 'c' WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.region, 1);
SELECT tableoid::regclass, * FROM pt WHERE id IN (8, 9000) ORDER BY id;

-- ATTACH, DETACH, partitions of another row layout.
CREATE TABLE other_layout (dropped int, v int, region text NOT NULL, extra int, id int NOT NULL);
ALTER TABLE other_layout DROP COLUMN dropped, DROP COLUMN extra;
INSERT INTO other_layout (id, region, v) SELECT i, 'e', i FROM generate_series(1, 20) i;
ALTER TABLE pt ATTACH PARTITION other_layout FOR VALUES IN ('e');
INSERT INTO pt VALUES (21, 'e', 21);
UPDATE pt SET region = 'e' WHERE region = 'b' AND id = 21;
UPDATE pt SET region = 'e' WHERE region = 'b' AND id BETWEEN 22 AND 49;
UPDATE pt SET region = 'a' WHERE region = 'e' AND id = 1;
SELECT tableoid::regclass, count(*), sum(v) FROM pt WHERE region = 'e' GROUP BY 1;
ALTER TABLE pt DETACH PARTITION other_layout;
ALTER TABLE pt DETACH PARTITION pt_rest;
ALTER TABLE pt DETACH PARTITION pt_a CONCURRENTLY;
SELECT (SELECT count(*) FROM pt), (SELECT count(*) FROM other_layout), (SELECT count(*) FROM pt_a);
ALTER TABLE pt ATTACH PARTITION pt_a FOR VALUES IN ('x');
ALTER TABLE pt_a DROP CONSTRAINT pt_a_region_check;
ALTER TABLE pt ATTACH PARTITION pt_a FOR VALUES IN ('x');
ALTER TABLE pt ATTACH PARTITION pt_a FOR VALUES IN ('a');
TRUNCATE pt_c;
:where_they_are
BEGIN; TRUNCATE pt; SELECT count(*) FROM pt; ROLLBACK;
SELECT count(*) > 0 AS there FROM pt;
-- Partitions added later take the access method of their parent.
ALTER TABLE pt SET ACCESS METHOD heap;
CREATE TABLE pt_f PARTITION OF pt FOR VALUES IN ('f');
ALTER TABLE pt SET ACCESS METHOD leanstore;
CREATE TABLE pt_g PARTITION OF pt FOR VALUES IN ('g');
SELECT relname, amname FROM pg_class c JOIN pg_am m ON m.oid = relam
	WHERE c.oid IN ('pt'::regclass, 'pt_f'::regclass, 'pt_g'::regclass) ORDER BY relname;
DROP TABLE pt_b;
-- COPY spreads over many partitions.
CREATE TABLE spread (k int, v int) PARTITION BY HASH (k);
SELECT format(
	'CREATE TABLE spread_%s PARTITION OF spread FOR VALUES WITH (MODULUS 8, REMAINDER %s)', i, i)
	FROM generate_series(0, 7) i \gexec
COPY spread FROM PROGRAM 'seq 1 2000 | sed "s/.*/&	&/"';
SELECT count(*), sum(v), count(DISTINCT tableoid) FROM spread;
UPDATE spread SET k = k + 1;
DELETE FROM spread WHERE k % 2 = 0;
SELECT count(*), sum(v), sum(k), count(DISTINCT tableoid) FROM spread;
ANALYZE spread;
VACUUM spread;

-- Inheritance: parents and children of both access methods.
CREATE TABLE base (id int PRIMARY KEY, v text);
CREATE TABLE derived (extra int) INHERITS (base);
CREATE TABLE derived_heap (other text) INHERITS (base) USING heap;
CREATE TABLE deeper (PRIMARY KEY (id)) INHERITS (derived);
INSERT INTO base VALUES (1, 'base');
INSERT INTO derived VALUES (2, 'derived', 20), (3, 'derived', 30);
INSERT INTO derived_heap VALUES (4, 'derived_heap', 'x');
INSERT INTO deeper VALUES (5, 'deeper', 50);
SELECT tableoid::regclass, * FROM base ORDER BY id;
SELECT * FROM ONLY base;
UPDATE base SET v = upper(v) WHERE id > 1;
DELETE FROM base WHERE id = 3;
UPDATE ONLY base SET v = v || ' only';
WITH u AS (UPDATE derived SET extra = extra + 1 RETURNING tableoid::regclass AS t, *)
	SELECT * FROM u ORDER BY id;
ALTER TABLE base ADD COLUMN added int DEFAULT 7;
SELECT tableoid::regclass, * FROM base ORDER BY id;
SELECT b.id FROM base b WHERE b.id = ANY (SELECT id FROM derived) ORDER BY 1;
SELECT id FROM base ORDER BY id FOR UPDATE;
ALTER TABLE deeper NO INHERIT derived;
TRUNCATE base;
SELECT count(*) FROM base;
SELECT * FROM deeper;

-- Indexes of a partitioned table that were made under another default become those of the first
-- partition that is attached, where it has such ones.
SET default_table_access_method = heap;
CREATE TABLE follows (id int, day int, v int, t text, PRIMARY KEY (id, day))
	PARTITION BY RANGE (day);
CREATE INDEX follows_v ON follows (v DESC) INCLUDE (id);
CREATE INDEX follows_t ON follows (lower(t)) WHERE v > 0;
CREATE INDEX follows_alone ON follows (t);
CREATE TABLE follows_1 (t text, dropped int, v int, day int, id int, PRIMARY KEY (id, day))
	USING leanstore;
ALTER TABLE follows_1 DROP dropped;
CREATE INDEX follows_1_v ON follows_1 (v DESC) INCLUDE (id);
CREATE INDEX follows_1_t ON follows_1 (lower(t)) WHERE v > 0;
INSERT INTO follows_1 (id, day, v, t) SELECT i, i % 10, i, 'T' || i FROM generate_series(1, 50) i;
ALTER TABLE follows ATTACH PARTITION follows_1 FOR VALUES FROM (0) TO (10);
CREATE TABLE follows_2 PARTITION OF follows FOR VALUES FROM (10) TO (20) USING leanstore;
SELECT c.relname, amname, i.inhparent::regclass FROM pg_class c JOIN pg_am a ON a.oid = relam
	LEFT JOIN pg_inherits i ON inhrelid = c.oid
	WHERE c.relname ~ '^follows' AND relkind IN ('i', 'I') ORDER BY 1;
INSERT INTO follows VALUES (1, 1, 0, '');
INSERT INTO follows VALUES (1, 1, 0, ''), (100, 15, 0, '')
	ON CONFLICT (id, day) DO UPDATE SET v = follows.v + 1000;
SELECT id, v FROM follows WHERE lower(t) = 't1' AND v > 0;
SELECT pg_get_indexdef('follows_pkey'::regclass), pg_get_indexdef('follows_v'::regclass);
BEGIN;
CREATE TABLE at_once (id int, v int) PARTITION BY RANGE (id);
ALTER TABLE at_once ADD PRIMARY KEY (id);
CREATE TABLE at_once_1 (id int PRIMARY KEY, v int) USING leanstore;
ALTER TABLE at_once ATTACH PARTITION at_once_1 FOR VALUES FROM (0) TO (10);
CREATE TABLE at_once_2 PARTITION OF at_once FOR VALUES FROM (10) TO (20) USING leanstore;
INSERT INTO at_once VALUES (1, 1), (11, 1);
COMMIT;
INSERT INTO at_once VALUES (1, 2), (12, 2) ON CONFLICT (id) DO UPDATE SET v = 3;
SELECT tableoid::regclass, * FROM at_once ORDER BY id;
DROP TABLE at_once;
CREATE TABLE stays (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE stays_1 (id int PRIMARY KEY) USING heap;
CREATE TABLE stays_2 (id int PRIMARY KEY) USING leanstore;
ALTER TABLE stays ATTACH PARTITION stays_1 FOR VALUES FROM (0) TO (10);
ALTER TABLE stays ATTACH PARTITION stays_2 FOR VALUES FROM (10) TO (20);
SELECT c.relname, amname FROM pg_class c JOIN pg_am a ON a.oid = relam
	WHERE c.relname ~ '^stays' AND relkind IN ('i', 'I') ORDER BY 1;
DROP TABLE stays, stays_2;
RESET default_table_access_method;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
