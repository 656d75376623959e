-- leanstore_advise(): which tables it names, what it says stands in their way, and whether that is
-- what ALTER TABLE does.
SET client_min_messages = error;	-- publications want another wal_level
CREATE SCHEMA advise_move;
SET search_path = advise_move, public;
SET leanstore.replace_btree = on;
SET default_table_access_method = heap;
CREATE TYPE colour AS ENUM ('red', 'green');

-- Much updated, with all that stands in the way.
CREATE TABLE busy (id int PRIMARY KEY, v int, c colour, j jsonb, w text)
	WITH (autovacuum_enabled = false);
CREATE INDEX busy_j ON busy USING gin (j);
CREATE INDEX busy_c ON busy (c);
CREATE INDEX busy_v ON busy (v) WITH (deduplicate_items = off);
CREATE INDEX busy_filled ON busy (v, id) WITH (fillfactor = 70);
CREATE UNIQUE INDEX busy_w ON busy (w text_pattern_ops, id);
CREATE TABLE child (id int PRIMARY KEY, busy int REFERENCES busy);
INSERT INTO busy SELECT i, i, 'red' FROM generate_series(1, 5000) i;
UPDATE busy SET v = v + 1;
DELETE FROM busy WHERE id > 3000;
-- Loaded once; unlogged; a leanstore table already.
CREATE TABLE calm AS SELECT i FROM generate_series(1, 5000) i;
CREATE UNLOGGED TABLE passing (id int, v int) WITH (autovacuum_enabled = false);
CREATE TABLE there (id int, v int) USING leanstore;
INSERT INTO passing SELECT i, i FROM generate_series(1, 5000) i;
INSERT INTO there SELECT i, i FROM generate_series(1, 5000) i;
UPDATE passing SET v = v + 1;
UPDATE there SET v = v + 1;
-- A partition.
CREATE TABLE root (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE part PARTITION OF root FOR VALUES FROM (0) TO (100000)
	WITH (autovacuum_enabled = false);
CREATE INDEX root_id ON root (id);
INSERT INTO root SELECT i, i FROM generate_series(1, 5000) i;
UPDATE root SET v = v + 1;

CREATE FUNCTION advice(OUT subject text, OUT kind text, OUT advice text, OUT statement text)
	RETURNS SETOF record LANGUAGE sql AS $$
	SELECT subject, kind, regexp_replace(advice, '\d[\d.]*( (bytes|kB|MB))?', 'N', 'g'), statement
	FROM leanstore_advise() WHERE subject LIKE 'advise_move.%' AND advice !~ 'two logs'
	ORDER BY 1, kind <> 'table', kind DESC, advice $$;
SELECT pg_stat_force_next_flush();
\x on
SELECT * FROM advice();
\x off
-- With one log there are no two to wait for.
SELECT count(*) = CASE current_setting('leanstore.log') WHEN 'engine' THEN 4 ELSE 0 END AS two_logs
	FROM leanstore_advise() WHERE subject LIKE 'advise_move.%' AND advice ~ 'two logs';
CREATE FUNCTION kept(OUT kept text) LANGUAGE sql AS $$
	SELECT CASE current_setting('leanstore.log') WHEN 'engine' THEN
		substring(string_agg(advice, '') FROM 'stay so \(.*?\)') END
	FROM leanstore_obstacles('busy') $$;
SELECT kept IS NULL OR kept LIKE '%(busy_v, busy_w)' AS kept FROM kept();
SET leanstore.replace_btree = off;
SELECT kept IS NULL OR kept LIKE '%(busy_c, busy_filled, busy_v, busy_w)' AS kept FROM kept();
SET leanstore.replace_btree = on;

-- A publication is no obstacle.
CREATE PUBLICATION advise_by_name FOR TABLE busy, root;
DROP TABLE there;
SELECT subject, kind, advice, statement FROM advice() WHERE kind = 'refused';
ALTER TABLE passing SET ACCESS METHOD leanstore;
SELECT statement AS move FROM leanstore_advise()
	WHERE subject = 'advise_move.busy' AND kind = 'table' \gset
:move;
-- What was said to stay a btree did, and nothing else.
SELECT c.relname, a.amname FROM pg_index i JOIN pg_class c ON c.oid = indexrelid
	JOIN pg_am a ON a.oid = relam WHERE indrelid = 'busy'::regclass ORDER BY 1;
DROP PUBLICATION advise_by_name;
SELECT kind, advice, statement FROM leanstore_obstacles('root');
ALTER TABLE part SET ACCESS METHOD leanstore;
SELECT kind, advice FROM leanstore_obstacles('busy_v');
SELECT subject FROM advice() WHERE kind = 'table';

-- A machine that is too small for the pool, and one that is not.
SELECT subject, kind, statement IS NOT NULL AS can_be_run
	FROM leanstore_advise_settings(700 * 1024 * 1024) WHERE subject = 'leanstore.buffer_pool_size';
SELECT subject FROM leanstore_advise_settings(1024::bigint * 1024 * 1024 * 1024, 4)
	WHERE subject = 'leanstore.buffer_pool_size';
SELECT memory > 0 AS memory, processors > 0 AS processors FROM leanstore_machine();

-- For pg_monitor, with nothing of the server's files beside.
CREATE ROLE regress_ls_adviser;
SET ROLE regress_ls_adviser;
\set VERBOSITY sqlstate
SELECT * FROM leanstore_advise();
SELECT * FROM leanstore_advise_settings();
SELECT * FROM leanstore_advise_tables();
SELECT * FROM leanstore_obstacles('pg_class');
SELECT * FROM leanstore_machine();
\set VERBOSITY default
RESET ROLE;
GRANT pg_monitor TO regress_ls_adviser;
SET ROLE regress_ls_adviser;
SELECT count(*) >= 0 AS works FROM leanstore_advise();
RESET ROLE;
DROP ROLE regress_ls_adviser;
DROP SCHEMA advise_move CASCADE;
