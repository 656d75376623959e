--- bigint, random order, no workers
-- with max_parallel_maintenance_workers = 0
-- reset
DROP INDEX IF EXISTS built;
-- timed
CREATE INDEX built ON numbers (r);

--- bigint, in order, no workers
-- with max_parallel_maintenance_workers = 0
-- reset
DROP INDEX IF EXISTS built;
-- timed
CREATE INDEX built ON numbers (id);

--- text, C, no workers
-- with max_parallel_maintenance_workers = 0
-- reset
DROP INDEX IF EXISTS built;
-- timed
CREATE INDEX built ON texts (c);

--- text, ICU, no workers
-- with max_parallel_maintenance_workers = 0
-- reset
DROP INDEX IF EXISTS built;
-- timed
CREATE INDEX built ON texts (u);

--- bigint, random order, parallel workers
-- with max_parallel_maintenance_workers = {workers}
-- reset
DROP INDEX IF EXISTS built;
-- timed
CREATE INDEX built ON numbers (r);

--- bigint, in order, parallel workers
-- with max_parallel_maintenance_workers = {workers}
-- reset
DROP INDEX IF EXISTS built;
-- timed
CREATE INDEX built ON numbers (id);

--- text, C, parallel workers
-- with max_parallel_maintenance_workers = {workers}
-- reset
DROP INDEX IF EXISTS built;
-- timed
CREATE INDEX built ON texts (c);

--- text, ICU, parallel workers
-- with max_parallel_maintenance_workers = {workers}
-- reset
DROP INDEX IF EXISTS built;
-- timed
CREATE INDEX built ON texts (u);
