-- Indexes built by parallel workers: the same as those built by one process.
CREATE TABLE pb (id bigint, t text, n int, d numeric) USING leanstore WITH (parallel_workers = 2);
INSERT INTO pb SELECT i, md5(i::text), i % 100, nullif(i % 7, 3) FROM generate_series(1, 30000) i;
DELETE FROM pb WHERE id % 10 = 0;
UPDATE pb SET n = -n WHERE id % 10 = 1;

SET max_parallel_maintenance_workers = 2;
SET maintenance_work_mem = '64MB';
SET client_min_messages = debug1;
CREATE INDEX pb_id ON pb (id);
CREATE UNIQUE INDEX pb_t ON pb (t COLLATE "C") INCLUDE (n);
CREATE INDEX pb_expr ON pb ((n * 2), d DESC) WHERE n >= 0;
REINDEX INDEX pb_id;
SET max_parallel_maintenance_workers = 0;
CREATE INDEX pb_alone ON pb (id, n);
SET max_parallel_maintenance_workers = 2;
RESET client_min_messages;
DO $$ BEGIN PERFORM leanstore_check('pb'); END $$;

SET enable_seqscan = off;
SELECT count(*), min(id), max(id) FROM pb WHERE id BETWEEN 1000 AND 20000;
SELECT id FROM pb WHERE t COLLATE "C" = md5('777');
SELECT count(*), sum(n) FROM pb WHERE n * 2 = 24 AND n >= 0;

-- More than fits into memory: many runs of each process.
SET maintenance_work_mem = '1MB';
CREATE INDEX pb_small ON pb (t COLLATE "C", id);
DO $$ BEGIN PERFORM leanstore_check('pb'); END $$;
SET maintenance_work_mem = '64MB';

-- Concurrently, and rows of this transaction.
CREATE INDEX CONCURRENTLY pb_c ON pb (d, id);
REINDEX INDEX CONCURRENTLY pb_c;
BEGIN;
INSERT INTO pb SELECT i, 'new ' || i, i, i FROM generate_series(1, 5000) i;
DELETE FROM pb WHERE n = 50;
CREATE INDEX pb_own ON pb (n, t COLLATE "C");
SELECT count(*), sum(n) FROM pb WHERE n BETWEEN 40 AND 60;
COMMIT;
DO $$ BEGIN PERFORM leanstore_check('pb'); END $$;

-- Errors of a worker, and of the leader behind the workers.
CREATE UNIQUE INDEX pb_dup ON pb (n);
CREATE FUNCTION fails(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS
$$ BEGIN IF $1 = 29999 THEN RAISE 'no index for %', $1; END IF; RETURN $1; END $$;
\set VERBOSITY sqlstate
CREATE INDEX pb_fails ON pb (fails(id));
\set VERBOSITY default
SELECT count(*) FROM pg_class WHERE relname IN ('pb_dup', 'pb_fails');
SELECT count(*) FROM pg_ls_dir('base/pgsql_tmp', true, false) file;
DROP FUNCTION fails;
DROP TABLE pb;
