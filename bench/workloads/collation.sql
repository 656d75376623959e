--- create index
-- reset
DROP INDEX IF EXISTS plain_t;
-- timed
CREATE INDEX plain_t ON plain (t);

--- insert a tenth of the rows, indexed
-- reset
DROP TABLE IF EXISTS inserted;
CREATE TABLE inserted (t text COLLATE "en_US.utf8");
CREATE INDEX ON inserted (t);
-- timed
INSERT INTO inserted SELECT md5(i::text) FROM generate_series(1, {rows} / 10) i;

--- look-ups by a twentieth of the rows
-- with enable_hashjoin = off, enable_mergejoin = off, enable_seqscan = off
SELECT count(*) FROM generate_series(1, {rows} / 20) i
  JOIN keyed ON keyed.t = md5(i::text) COLLATE "en_US.utf8";

--- the first hundredth in order
SELECT t FROM keyed ORDER BY t LIMIT {rows} / 100;
