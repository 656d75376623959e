-- A table with its indexes, in a server that has all modules.
CREATE EXTENSION leanstore_am;
CREATE EXTENSION leanstore_accel;
CREATE EXTENSION leanstore_leap;
CREATE TABLE item (id int PRIMARY KEY, name text) USING leanstore;
CREATE INDEX ON item (name);
INSERT INTO item SELECT i, 'item ' || i FROM generate_series(1, 1000) i;
UPDATE item SET name = name || '!' WHERE id % 2 = 0;
DELETE FROM item WHERE id > 900;
CHECKPOINT;
DO $$ BEGIN
	ASSERT (SELECT count(*) FROM item) = 900, 'rows are missing';
	ASSERT (SELECT id FROM item WHERE name = 'item 500!') = 500, 'an index finds nothing';
END $$;
SELECT leanstore_check('item');
SELECT leap.init('a', '');
SELECT leap.create('item');
UPDATE item SET name = 'b' WHERE id = 1;
