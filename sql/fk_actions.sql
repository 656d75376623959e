-- Foreign keys: every action, deferred checks, self-reference, partitions.
SET default_table_access_method = leanstore;
CREATE SCHEMA fk_actions;
SET search_path = fk_actions, public;

CREATE TABLE parent (id int PRIMARY KEY, code text UNIQUE, v int DEFAULT 0);
INSERT INTO parent SELECT i, 'p' || i FROM generate_series(1, 10) i;

-- NO ACTION: refused in every way, allowed where nothing refers.
CREATE TABLE child (id int PRIMARY KEY, parent_id int REFERENCES parent);
INSERT INTO child VALUES (1, 1), (2, 2), (3, NULL);
INSERT INTO child VALUES (4, 99);
UPDATE child SET parent_id = 99 WHERE id = 1;
DELETE FROM parent WHERE id = 1;
UPDATE parent SET id = 101 WHERE id = 1;
DELETE FROM parent WHERE id = 10;
UPDATE parent SET v = 1, code = code || '!' WHERE id = 1;
UPDATE parent SET id = id WHERE id = 1;
BEGIN; DELETE FROM child WHERE id = 1; DELETE FROM parent WHERE id = 1; ROLLBACK;
BEGIN; INSERT INTO parent VALUES (50, 'p50'); INSERT INTO child VALUES (50, 50); COMMIT;
TRUNCATE parent;
SELECT id, code, v FROM parent WHERE id IN (1, 10, 50) ORDER BY id;
SELECT * FROM child ORDER BY id;
DROP TABLE child;

-- RESTRICT, CASCADE, SET NULL, SET DEFAULT on delete and on update.
CREATE TABLE restrict_child (id int, p int REFERENCES parent ON DELETE RESTRICT ON UPDATE RESTRICT);
CREATE TABLE cascade_child (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE
	ON UPDATE CASCADE, note text DEFAULT 'n');
CREATE TABLE grandchild (id int, c int REFERENCES cascade_child ON DELETE CASCADE
	ON UPDATE CASCADE);
CREATE TABLE null_child (id int, p int REFERENCES parent ON DELETE SET NULL ON UPDATE SET NULL);
CREATE TABLE default_child (id int, p int DEFAULT 10 REFERENCES parent
	ON DELETE SET DEFAULT ON UPDATE SET DEFAULT);
INSERT INTO parent VALUES (10, 'p10');
INSERT INTO restrict_child VALUES (1, 2);
INSERT INTO cascade_child VALUES (1, 3), (2, 3), (3, 4), (4, 5);
INSERT INTO grandchild VALUES (11, 1), (12, 2), (13, 3), (14, 4), (15, 4);
INSERT INTO null_child VALUES (1, 3), (2, 4), (3, 6);
INSERT INTO default_child VALUES (1, 4), (2, 7);
\set VERBOSITY terse
DELETE FROM parent WHERE id = 2;
UPDATE parent SET id = 102 WHERE id = 2;
\set VERBOSITY default
DELETE FROM parent WHERE id = 3;
UPDATE parent SET id = 104 WHERE id = 4;
UPDATE cascade_child SET id = id + 100 WHERE id = 4;
SELECT * FROM cascade_child ORDER BY id;
SELECT * FROM grandchild ORDER BY id;
SELECT * FROM null_child ORDER BY id;
SELECT * FROM default_child ORDER BY id;
DELETE FROM parent WHERE id IN (6, 7, 104);
DELETE FROM parent WHERE id = 10;
SELECT * FROM cascade_child ORDER BY id;
SELECT * FROM grandchild ORDER BY id;
SELECT * FROM null_child ORDER BY id;
SELECT * FROM default_child ORDER BY id;
-- Cascades that roll back.
BEGIN;
DELETE FROM parent WHERE id = 5;
SELECT count(*) FROM cascade_child;
SELECT count(*) FROM grandchild;
ROLLBACK;
SELECT count(*) FROM cascade_child;
SELECT count(*) FROM grandchild;
-- SET NULL of some columns only, of a key of two columns, MATCH FULL.
CREATE TABLE two_keys (a int, b int, PRIMARY KEY (a, b));
INSERT INTO two_keys VALUES (1, 1), (1, 2), (2, 1);
CREATE TABLE two_child (id int, a int, b int, FOREIGN KEY (a, b) REFERENCES two_keys
	ON DELETE SET NULL (b) ON UPDATE CASCADE);
CREATE TABLE full_child (id int, a int, b int, FOREIGN KEY (a, b) REFERENCES two_keys MATCH FULL);
INSERT INTO two_child VALUES (1, 1, 1), (2, 1, 2), (3, NULL, 7);
INSERT INTO full_child VALUES (1, 2, 1), (2, NULL, NULL);
INSERT INTO full_child VALUES (3, NULL, 7);
DELETE FROM two_keys WHERE a = 1 AND b = 2;
UPDATE two_keys SET a = 7 WHERE a = 1;
SELECT * FROM two_child ORDER BY id;

-- Deferred: the order within the transaction does not matter, its end does.
CREATE TABLE later (id int, p int REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
BEGIN; INSERT INTO later VALUES (1, 200); INSERT INTO parent VALUES (200, 'p200'); COMMIT;
BEGIN; INSERT INTO later VALUES (2, 201); COMMIT;
BEGIN; INSERT INTO later VALUES (3, 202); UPDATE later SET p = 200 WHERE id = 3; COMMIT;
BEGIN; INSERT INTO later VALUES (4, 203); DELETE FROM later WHERE id = 4; COMMIT;
BEGIN; DELETE FROM parent WHERE id = 200; INSERT INTO parent VALUES (200, 'again'); COMMIT;
BEGIN;
INSERT INTO later VALUES (5, 204);
SAVEPOINT s;
INSERT INTO later VALUES (6, 205);
ROLLBACK TO s;
INSERT INTO parent VALUES (204, 'p204');
COMMIT;
BEGIN; INSERT INTO later VALUES (7, 206); SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK;
SELECT * FROM later ORDER BY id;

-- A table that refers to itself.
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 2), (4, 3), (5, 1), (6, 6);
UPDATE tree SET id = 20 WHERE id = 2;
SELECT * FROM tree ORDER BY id;
DELETE FROM tree WHERE id = 20;
SELECT * FROM tree ORDER BY id;
DELETE FROM tree WHERE id IN (1, 6);
SELECT count(*) FROM tree;
-- A long chain goes in one statement.
INSERT INTO tree SELECT i, NULLIF(i - 1, 0) FROM generate_series(1, 200) i;
DELETE FROM tree WHERE id = 1;
SELECT count(*) FROM tree;

-- Added to rows that exist: refused, NOT VALID, validated.
CREATE TABLE added (id int, p int);
INSERT INTO added VALUES (1, 5), (2, 999);
ALTER TABLE added ADD FOREIGN KEY (p) REFERENCES parent;
ALTER TABLE added ADD CONSTRAINT fk FOREIGN KEY (p) REFERENCES parent NOT VALID;
INSERT INTO added VALUES (3, 998);
ALTER TABLE added VALIDATE CONSTRAINT fk;
DELETE FROM added WHERE id = 2;
ALTER TABLE added VALIDATE CONSTRAINT fk;

-- To a unique key that is not the primary one, and between heap and leanstore both ways.
CREATE TABLE by_code (id int, code text REFERENCES parent (code) ON UPDATE CASCADE);
INSERT INTO by_code VALUES (1, 'p8'), (2, 'p9');
UPDATE parent SET code = 'changed' WHERE id = 8;
SELECT * FROM by_code ORDER BY id;
CREATE TABLE heap_parent (id int PRIMARY KEY) USING heap;
CREATE TABLE lean_child (id int, p int REFERENCES heap_parent ON DELETE CASCADE);
CREATE TABLE heap_child (id int, p int REFERENCES parent ON DELETE CASCADE) USING heap;
INSERT INTO heap_parent VALUES (1), (2);
INSERT INTO lean_child VALUES (1, 1), (2, 2);
INSERT INTO lean_child VALUES (3, 3);
INSERT INTO heap_child VALUES (1, 9);
INSERT INTO heap_child VALUES (2, 999);
DELETE FROM by_code;
DELETE FROM heap_parent WHERE id = 1;
DELETE FROM parent WHERE id = 9;
SELECT (SELECT count(*) FROM lean_child) AS lean, (SELECT count(*) FROM heap_child) AS heap;

-- Partitioned on both sides.
CREATE TABLE part_parent (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE part_parent_low PARTITION OF part_parent FOR VALUES FROM (0) TO (100);
CREATE TABLE part_parent_high PARTITION OF part_parent FOR VALUES FROM (100) TO (200);
CREATE TABLE part_child (id int, p int REFERENCES part_parent ON UPDATE CASCADE ON DELETE SET NULL)
	PARTITION BY LIST (id);
CREATE TABLE part_child_1 PARTITION OF part_child FOR VALUES IN (1);
CREATE TABLE part_child_rest PARTITION OF part_child DEFAULT;
INSERT INTO part_parent VALUES (1), (2), (101);
INSERT INTO part_child VALUES (1, 1), (2, 2), (3, 101);
INSERT INTO part_child VALUES (4, 55);
UPDATE part_parent SET id = 150 WHERE id = 1;
DELETE FROM part_parent WHERE id = 2;
UPDATE part_child SET id = 1 WHERE id = 3;
SELECT * FROM part_child ORDER BY id, p;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
