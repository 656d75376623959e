-- Pages that a statement uses: EXPLAIN (BUFFERS), pg_statio_*, pg_stat_io.
SET default_table_access_method = leanstore;
SET max_parallel_workers_per_gather = 0;

-- shared hit and read pages of the topmost node
CREATE FUNCTION pages(query text, OUT hit bigint, OUT read bigint) LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, FORMAT JSON) ' || query INTO plan;
	hit := plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks';
	read := plan -> 0 -> 'Plan' ->> 'Shared Read Blocks';
END $$;
CREATE FUNCTION statio(rel text, OUT heap bigint, OUT idx bigint) LANGUAGE sql AS $$
	SELECT heap_blks_hit + heap_blks_read, idx_blks_hit + idx_blks_read FROM pg_statio_user_tables
		WHERE relname = rel $$;
CREATE FUNCTION io_hits() RETURNS numeric LANGUAGE sql AS $$
	SELECT sum(hits) + sum(reads) FROM pg_stat_io
		WHERE backend_type = 'client backend' AND object = 'relation' AND context = 'normal' $$;

CREATE TABLE counted (id int PRIMARY KEY, filler text);
INSERT INTO counted SELECT i, repeat('x', 200) FROM generate_series(1, 20000) i;
ANALYZE counted;

-- a scan meets each leaf: at 8 kB heap pages or 4 kB leaves of 20,000 rows of 200 bytes
SELECT hit + read BETWEEN 400 AND 2000 AS whole_table
	FROM pages('SELECT count(*) FROM counted WHERE filler <> ''''');
-- and one look-up a few pages
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT hit + read BETWEEN 1 AND 6 AS one_row
	FROM pages('SELECT filler FROM counted WHERE id = 777');
SELECT hit + read BETWEEN 100 AND 400 AS hundred_rows
	FROM pages('SELECT * FROM generate_series(1, 19801, 200) g, '
		'LATERAL (SELECT filler FROM counted WHERE id = g OFFSET 0) x');
SELECT hit + read > 0 AS update FROM pages('UPDATE counted SET filler = ''y'' WHERE id = 1000');
RESET enable_seqscan;
RESET enable_bitmapscan;

-- the same in the views
SELECT pg_stat_force_next_flush();
SELECT heap AS heap_before, idx AS idx_before, io_hits() AS io_before FROM statio('counted') \gset
SELECT count(*) FROM counted WHERE filler <> '';
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM generate_series(1, 19801, 200) g,
	LATERAL (SELECT filler FROM counted WHERE id = g OFFSET 0) x;
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT pg_stat_force_next_flush();
SELECT heap - :heap_before >= 500 AS table_pages, idx - :idx_before >= 50 AS index_pages,
	io_hits() - :io_before >= 550 AS io FROM statio('counted');

-- pages added to the files: an insertion of 4,000 rows of 200 bytes
SELECT sum(extends) AS extends_before FROM pg_stat_io
	WHERE backend_type = 'client backend' AND object = 'relation' AND context = 'normal' \gset
INSERT INTO counted SELECT i, repeat('x', 200) FROM generate_series(20001, 24000) i;
SELECT pg_stat_force_next_flush();
SELECT sum(extends) - :extends_before >= 200 AS extended FROM pg_stat_io
	WHERE backend_type = 'client backend' AND object = 'relation' AND context = 'normal';

-- the engine's log is WAL, too
CREATE FUNCTION wal(query text, OUT records bigint, OUT bytes bigint) LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE 'EXPLAIN (ANALYZE, WAL, COSTS OFF, FORMAT JSON) ' || query INTO plan;
	records := plan -> 0 -> 'Plan' ->> 'WAL Records';
	bytes := plan -> 0 -> 'Plan' ->> 'WAL Bytes';
END $$;
SELECT * FROM wal('SELECT count(*) FROM counted');
SELECT records BETWEEN 100 AND 500 AS records, bytes BETWEEN 100 * 20 AND 500 * 1000 AS bytes
	FROM wal('UPDATE counted SET filler = ''z'' WHERE id <= 100');

DROP TABLE counted;
DROP FUNCTION pages, statio, io_hits, wal;
