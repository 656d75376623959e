-- Loading

--- load, no index
-- reset
DROP TABLE IF EXISTS load1;
CREATE TABLE load1 (id int, kind int, token text);
-- timed
INSERT INTO load1 SELECT i, i % 1000, 'v' || i FROM generate_series(1, {rows}) i;

--- load, primary key
-- reset
DROP TABLE IF EXISTS load2;
CREATE TABLE load2 (id int PRIMARY KEY, kind int, token text);
-- timed
INSERT INTO load2 SELECT i, i % 1000, 'v' || i FROM generate_series(1, {rows}) i;

--- load a quarter, primary key and three indexes
-- reset
DROP TABLE IF EXISTS load3;
CREATE TABLE load3 (id int PRIMARY KEY, r int, token text, at timestamptz);
CREATE INDEX ON load3 (r);
CREATE INDEX ON load3 (token);
CREATE INDEX ON load3 (at);
-- timed
INSERT INTO load3 SELECT i, (i * 7919::bigint) % {rows}, md5(i::text), now()
  FROM generate_series(1, {rows} / 4) i;

--- load a quarter, uuid as primary key
-- reset
DROP TABLE IF EXISTS load4;
CREATE TABLE load4 (id uuid PRIMARY KEY, n int);
-- timed
INSERT INTO load4 SELECT gen_random_uuid(), i FROM generate_series(1, {rows} / 4) i;

--- CREATE TABLE AS
-- reset
DROP TABLE IF EXISTS load5;
-- timed
CREATE TABLE load5 AS SELECT * FROM event;

--- COPY TO
COPY event TO '/dev/null';

-- Index builds

--- index on int
-- reset
DROP INDEX IF EXISTS built1;
-- timed
CREATE INDEX built1 ON event (kind);

--- index on text
-- reset
DROP INDEX IF EXISTS built1, built2;
-- timed
CREATE INDEX built2 ON event (token);

--- index on two columns, one descending
-- reset
DROP INDEX IF EXISTS built2, built3;
-- timed
CREATE INDEX built3 ON event (kind, at DESC);

--- index, gin on jsonb
-- reset
DROP INDEX IF EXISTS built3, built4;
-- timed
CREATE INDEX built4 ON json USING gin (value);

--- index, brin
-- reset
DROP INDEX IF EXISTS built4, built5;
-- timed
CREATE INDEX built5 ON event USING brin (id);

-- Scans of the table

--- count
-- reset
DROP INDEX IF EXISTS built5;
-- timed
SELECT count(*) FROM event;

--- sum of an early column
SELECT sum(kind) FROM event;

--- max of the last column
SELECT max(at) FROM event;

--- whole rows
SELECT count(event.*) FROM event;

--- filter, one in a hundred
SELECT count(*) FROM event WHERE kind < 10;

--- filter, LIKE
SELECT count(*) FROM event WHERE token LIKE '%99%';

--- GROUP BY a thousand
SELECT kind, count(*), avg(id) FROM event GROUP BY kind;

--- parallel GROUP BY
-- with max_parallel_workers_per_gather = 2, parallel_setup_cost = 0
SELECT kind, sum(id) FROM event GROUP BY kind;

--- TABLESAMPLE
SELECT count(*) FROM event TABLESAMPLE SYSTEM (1);

--- ten rows at random
SELECT id FROM event ORDER BY random() LIMIT 10;

-- Joins

--- hash join
SELECT count(*) FROM event a JOIN event b USING (id) WHERE b.kind < 500;

--- merge join by primary key
-- with enable_hashjoin = off, enable_nestloop = off
SELECT count(*) FROM event a JOIN event b USING (id);

--- nested loop, look-ups by primary key
-- with enable_hashjoin = off, enable_mergejoin = off
SELECT sum(event.kind) FROM generate_series(1, {rows} / 4) i
  JOIN event ON event.id = (i * 7919::bigint) % {rows} + 1;

-- Indexes

--- first tenth by primary key
SELECT sum(kind) FROM (SELECT kind FROM event ORDER BY id LIMIT {rows} / 10) x;

--- last tenth by primary key, backward
SELECT sum(kind) FROM (SELECT kind FROM event ORDER BY id DESC LIMIT {rows} / 10) x;

--- range of a tenth by primary key
SELECT sum(kind) FROM event WHERE id BETWEEN 1000 AND {rows} / 10;

--- range of a tenth by secondary index
-- with enable_seqscan = off
SELECT sum(id) FROM indexed WHERE kind BETWEEN 100 AND 199;

--- index-only count of a range
-- with enable_seqscan = off
SELECT count(*) FROM indexed WHERE kind BETWEEN 100 AND 399;

--- bitmap of two indexes
-- with enable_seqscan = off
SELECT count(*) FROM indexed WHERE kind IN (5, 6, 7, 8) OR day = 17;

--- DISTINCT of an indexed column
SELECT count(*) FROM (SELECT DISTINCT kind FROM indexed) x;

--- min and max by index
SELECT min(kind), max(kind), min(day) FROM indexed;

--- window in the order of the key
SELECT count(*) FROM (SELECT id, lag(kind) OVER (ORDER BY id) AS before FROM event) x
  WHERE before IS NULL;

--- jsonb contains, by gin
SELECT count(*) FROM json WHERE value @> '{"k": 77}';

-- Updates

--- update a tenth, column without index
UPDATE counter SET n = n + 1 WHERE id <= {rows} / 10;

--- update all, column without index
UPDATE counter SET n = n + 1;

--- update a tenth, indexed column
UPDATE ranked SET place = place + 1 WHERE id <= {rows} / 10;

--- update a hundredth of the rows, wide ones
UPDATE wide SET n = n + 1 WHERE id <= {rows} / 100;

--- update beside a toasted value
UPDATE document SET n = n + 1;

--- update toasted values
UPDATE document SET body = body || 'x' WHERE id <= 500;

--- read toasted values
SELECT sum(length(body)) FROM document;

--- read beside toasted values
SELECT sum(n) FROM document;

--- delete a tenth
-- reset
DROP TABLE IF EXISTS deleted;
CREATE TABLE deleted AS SELECT * FROM event;
ALTER TABLE deleted ADD PRIMARY KEY (id);
-- timed
DELETE FROM deleted WHERE id <= {rows} / 10;

--- upsert, rows that are there
INSERT INTO ranked SELECT i, i, 0 FROM generate_series(1, {rows} / 20) i
  ON CONFLICT (id) DO UPDATE SET n = excluded.n;

--- upsert, new rows
-- reset
DELETE FROM ranked WHERE id > {rows};
-- timed
INSERT INTO ranked SELECT {rows} + i, i, 0 FROM generate_series(1, {rows} / 20) i
  ON CONFLICT (id) DO UPDATE SET n = excluded.n;

--- merge
MERGE INTO ranked USING (SELECT i FROM generate_series(1, {rows} / 20) i) source
  ON ranked.id = source.i
  WHEN MATCHED THEN UPDATE SET n = 1
  WHEN NOT MATCHED THEN INSERT VALUES (source.i, 0, 0);

--- insert with a foreign key
-- reset
TRUNCATE referring;
-- timed
INSERT INTO referring SELECT i, i % {rows} + 1 FROM generate_series(1, {rows} / 20) i;

--- SELECT FOR UPDATE
SELECT count(*) FROM (SELECT FROM ranked WHERE id <= {rows} / 20 FOR UPDATE) x;

-- Many small statements in functions

--- 5,000 subtransactions
DO $$
BEGIN
  FOR i IN 1 .. 5000 LOOP
    BEGIN
      UPDATE ranked SET n = n + 1 WHERE id = i;
    EXCEPTION WHEN others THEN
      RAISE;
    END;
  END LOOP;
END $$;

--- 20,000 look-ups
DO $$
DECLARE found int;
BEGIN
  FOR i IN 1 .. 20000 LOOP
    SELECT kind INTO found FROM event WHERE id = i * 31;
  END LOOP;
END $$;

--- 20,000 updates
DO $$
BEGIN
  FOR i IN 1 .. 20000 LOOP
    UPDATE ranked SET n = n + 1 WHERE id = i * 3;
  END LOOP;
END $$;

--- 20,000 inserts
-- reset
DROP TABLE IF EXISTS single;
CREATE TABLE single (id int PRIMARY KEY, kind int, token text);
-- timed
DO $$
BEGIN
  FOR i IN 1 .. 20000 LOOP
    INSERT INTO single VALUES (i, i, 'x');
  END LOOP;
END $$;

--- 5,000 look-ups among 50 partitions
DO $$
DECLARE found int;
BEGIN
  FOR i IN 1 .. 5000 LOOP
    SELECT n INTO found FROM part WHERE id = i * 10 - 1;
  END LOOP;
END $$;

-- Maintenance and DDL

--- ANALYZE
ANALYZE event;

--- VACUUM
VACUUM event;

--- change of a column's type, rewriting
-- reset
DROP TABLE IF EXISTS altered;
CREATE TABLE altered AS SELECT * FROM event;
-- timed
ALTER TABLE altered ALTER COLUMN kind TYPE bigint;

--- column with a default
-- reset
DROP TABLE IF EXISTS altered;
CREATE TABLE altered AS SELECT * FROM event LIMIT {rows} / 10;
-- timed
ALTER TABLE altered ADD COLUMN more int DEFAULT 5;

--- TRUNCATE
-- reset
DROP TABLE IF EXISTS truncated;
CREATE TABLE truncated (id int PRIMARY KEY, token text);
INSERT INTO truncated SELECT i, 'x' FROM generate_series(1, {rows} / 10) i;
-- timed
TRUNCATE truncated;

--- create and drop 200 tables
DO $$
BEGIN
  FOR i IN 1 .. 200 LOOP
    CREATE TABLE short_lived (id int PRIMARY KEY, token text);
    DROP TABLE short_lived;
  END LOOP;
END $$;

--- 200 temporary tables with a row
DO $$
BEGIN
  FOR i IN 1 .. 200 LOOP
    CREATE TEMPORARY TABLE scratch (id int, token text);
    INSERT INTO scratch VALUES (1, 'x');
    DROP TABLE scratch;
  END LOOP;
END $$;

--- REFRESH MATERIALIZED VIEW CONCURRENTLY
REFRESH MATERIALIZED VIEW CONCURRENTLY kinds;
