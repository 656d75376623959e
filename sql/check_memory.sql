-- leanstore_check sorts what an index says of the rows: what maintenance_work_mem does not hold
-- goes to temporary files.
CREATE TABLE check_memory (id int PRIMARY KEY, v int) USING leanstore;
CREATE INDEX check_memory_hash ON check_memory USING hash (v);
INSERT INTO check_memory SELECT i, i FROM generate_series(1, 30000) i;
SET maintenance_work_mem = '64kB';
SELECT leanstore_check('check_memory');
SET temp_file_limit = '64kB';
SELECT leanstore_check('check_memory');
SET maintenance_work_mem = '64MB';
SELECT leanstore_check('check_memory');
RESET temp_file_limit;
-- A row that is missing is found in what has been sorted on disk.
SET maintenance_work_mem = '64kB';
SET allow_system_table_mods = on;
UPDATE pg_index SET indisready = false WHERE indexrelid = 'check_memory_hash'::regclass;
INSERT INTO check_memory VALUES (30001, 30001);
UPDATE pg_index SET indisready = true WHERE indexrelid = 'check_memory_hash'::regclass;
INSERT INTO check_memory SELECT i, i FROM generate_series(30002, 40000) i;
SELECT leanstore_check('check_memory');
RESET allow_system_table_mods;
RESET maintenance_work_mem;
DROP TABLE check_memory;
