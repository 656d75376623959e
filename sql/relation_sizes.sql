-- What small relations take on disk, in blocks of 8 kB, beside heap and btree.
CREATE SCHEMA relation_sizes;
SET search_path = relation_sizes, public;

CREATE FUNCTION blocks(relation regclass) RETURNS bigint
	LANGUAGE sql AS 'SELECT pg_relation_size(relation) / 8192';
-- "?" stands for h (heap) or l (leanstore)
CREATE FUNCTION on_both(command text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE replace(replace(command, '?am', 'heap'), '?', 'h');
	EXECUTE replace(replace(command, '?am', 'leanstore'), '?', 'l');
END $$;

SELECT on_both('CREATE TABLE ?_small (id int PRIMARY KEY, v text) USING ?am');
SELECT on_both('CREATE INDEX ?_small_v ON ?_small (v)');
CREATE VIEW small AS SELECT name, blocks('h_' || name) AS heap, blocks('l_' || name) AS leanstore
FROM unnest(ARRAY['small', 'small_pkey', 'small_v']) name ORDER BY name;
SELECT * FROM small;
SELECT on_both('INSERT INTO ?_small SELECT i, ''v'' || i FROM generate_series(1, 10) i');
SELECT * FROM small;
-- two leaves and the page above them, with the meta page
SELECT on_both('INSERT INTO ?_small SELECT i, ''v'' || i FROM generate_series(11, 200) i');
SELECT * FROM small;
SELECT on_both('TRUNCATE ?_small');
SELECT * FROM small;
CREATE TEMPORARY TABLE l_temporary (id int PRIMARY KEY) USING leanstore;
CREATE UNLOGGED TABLE l_unlogged (id int PRIMARY KEY) USING leanstore;
INSERT INTO l_temporary VALUES (1);
INSERT INTO l_unlogged VALUES (1);
SELECT blocks('l_temporary'), blocks('l_temporary_pkey'), blocks('l_unlogged'),
	blocks('l_unlogged_pkey');

SELECT on_both('CREATE TABLE ?_parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id)');
SELECT on_both(
	format('CREATE TABLE ?_part_%s PARTITION OF ?_parts FOR VALUES FROM (%s) TO (%s) USING ?am', i,
		i * 10, i * 10 + 10))
FROM generate_series(0, 49) i \g /dev/null
SELECT on_both('INSERT INTO ?_parts SELECT i, 0 FROM generate_series(0, 499) i');
SELECT left(relname, 1) AS am, count(*) AS files, sum(blocks(oid)) AS blocks FROM pg_class
WHERE relnamespace = 'relation_sizes'::regnamespace AND relname LIKE '__part\_%'
	GROUP BY 1 ORDER BY 1;

-- A large one has a few percent to spare.
SELECT on_both('INSERT INTO ?_small SELECT i, ''v'' || i FROM generate_series(1, 50000) i');
SELECT name, leanstore < heap AS smaller FROM small;
SELECT leanstore_check('l_small');
SET client_min_messages = warning;
DROP SCHEMA relation_sizes CASCADE;
