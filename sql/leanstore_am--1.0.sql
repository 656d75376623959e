/* leanstore_am--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION leanstore_am" to load this file. \quit

CREATE FUNCTION leanstore_tableam_handler(internal)
RETURNS table_am_handler
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

CREATE ACCESS METHOD leanstore TYPE TABLE HANDLER leanstore_tableam_handler;
COMMENT ON ACCESS METHOD leanstore IS 'tables on the LeanStore storage engine';

-- Access methods of tables and indexes share one name space; in commands about indexes
-- and operator classes, USING leanstore means this one.
CREATE FUNCTION leanstore_indexam_handler(internal)
RETURNS index_am_handler
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

CREATE ACCESS METHOD leanstore_index TYPE INDEX HANDLER leanstore_indexam_handler;
COMMENT ON ACCESS METHOD leanstore_index IS
    'indexes of leanstore tables, on the LeanStore storage engine';

-- Verify a table and its indexes; an error describes the first damage found.
CREATE FUNCTION leanstore_check(relation regclass)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION leanstore_check(regclass) FROM PUBLIC;

-- Take over the rows of a table with a file that another store, one that is lost, has written.
CREATE FUNCTION leanstore_adopt(relation regclass)
RETURNS bigint
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION leanstore_adopt(regclass) FROM PUBLIC;

-- A heap table becomes a leanstore table while it is used.
CREATE PROCEDURE leanstore_move(relation regclass)
AS 'MODULE_PATHNAME'
LANGUAGE C;
REVOKE ALL ON PROCEDURE leanstore_move(regclass) FROM PUBLIC;

CREATE FUNCTION leanstore_relation_info(
    relation regclass,
    OUT pages bigint,
    OUT free_pages bigint,
    OUT height integer,
    OUT next_row_id bigint)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION leanstore_relation_info(regclass) FROM PUBLIC;

-- Of a TOAST table, the file with the pages of values, which have 4 KiB: in all, free, free but
-- found again at the next start only; and since the file was opened: written by sessions, moved to
-- make the file shorter, and whether the rows are counted, so that free pages are known.  Now:
-- values that have their pages from another one with the same bytes, and how many they would need.
CREATE FUNCTION leanstore_value_info(
    relation regclass,
    OUT pages bigint,
    OUT free_pages bigint,
    OUT lost_pages bigint,
    OUT written_pages bigint,
    OUT moved_pages bigint,
    OUT counted boolean,
    OUT shared_values bigint,
    OUT shared_pages bigint)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION leanstore_value_info(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_value_info(regclass) TO pg_read_all_stats;

CREATE FUNCTION leanstore_checkpoint()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION leanstore_checkpoint() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_checkpoint() TO pg_checkpoint;

-- Ranges that SERIALIZABLE transactions have locked or wait for: keys from lower up to,
-- not including, upper (NULL: no bound), cut at 32 bytes.  Keys of tables are row ids, those
-- of indexes normalized values; shown to roles with privileges of pg_read_all_data.
CREATE FUNCTION leanstore_range_locks(
    OUT pid integer,
    OUT database oid,
    OUT relation oid,
    OUT mode text,
    OUT granted boolean,
    OUT lower bytea,
    OUT upper bytea)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION leanstore_range_locks() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_range_locks() TO pg_monitor;

CREATE VIEW leanstore_range_locks AS
    SELECT pid, database, relation::regclass AS relation, mode, granted, lower, upper
    FROM leanstore_range_locks();
REVOKE ALL ON leanstore_range_locks FROM PUBLIC;
GRANT SELECT ON leanstore_range_locks TO pg_monitor;

-- The definition of an index (or of a constraint, with its OID) as it would be if the index were a
-- btree: what leanstore.show_indexes_as_btree puts around the server's functions in queries of any
-- role.
CREATE FUNCTION leanstore_as_btree(definition text, object oid, of_constraint boolean)
RETURNS text
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT STABLE PARALLEL SAFE;

CREATE FUNCTION leanstore_stat(
    OUT frames_total bigint,
    OUT frames_free bigint,
    OUT frames_dirty bigint,
    OUT pages_read bigint,
    OUT pages_written bigint,
    OUT pages_evicted bigint,
    OUT log_bytes bigint,
    OUT log_flushes bigint,
    OUT log_fsyncs bigint,
    OUT log_commits bigint,
    OUT log_position bigint,
    OUT log_redo_position bigint,
    OUT checkpoints bigint,
    OUT versions_written bigint,
    OUT versions_removed bigint,
    OUT ghosts_removed bigint,
    OUT row_locks bigint,
    OUT splits bigint,
    OUT merges bigint,
    OUT restarts bigint,
    OUT files_open bigint,
    OUT files_max bigint,
    OUT log_durable_gsn bigint,
    OUT log_commits_held bigint,
    OUT log_segments bigint,
    OUT page_hits bigint,
    OUT log_counted bigint,
    OUT log_remote_by_page bigint,
    OUT log_remote_by_transaction bigint,
    OUT change_buffer_inserts bigint,
    OUT change_buffer_pending bigint,
    OUT compressed_hits bigint,
    OUT compressed_pages bigint,
    OUT compressed_dirty_pages bigint,
    OUT compressed_frames bigint,
    OUT undo_failures bigint,
    OUT files_closed bigint,
    OUT log_fsync_ms double precision)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION leanstore_stat() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_stat() TO pg_read_all_stats;

CREATE VIEW leanstore_stat_buffer AS
    SELECT frames_total, frames_free, frames_dirty, pages_read, pages_written, pages_evicted,
           files_open, files_max, files_closed, change_buffer_inserts, change_buffer_pending,
           compressed_hits, compressed_pages, compressed_dirty_pages, compressed_frames
    FROM leanstore_stat();

CREATE VIEW leanstore_stat_wal AS
    SELECT log_bytes, log_flushes, log_fsyncs, log_fsync_ms, log_commits,
           CASE WHEN log_flushes > 0 THEN round(log_commits::numeric / log_flushes, 2) END
               AS commits_per_flush,
           log_commits_held, log_counted, log_remote_by_page, log_remote_by_transaction,
           log_position, log_durable_gsn, log_redo_position, log_segments, checkpoints,
           undo_failures
    FROM leanstore_stat();

CREATE VIEW leanstore_stat_values AS
    SELECT c.oid AS relid, n.nspname AS schemaname, c.relname,
           v.pages * 4096 AS bytes, v.free_pages * 4096 AS free_bytes,
           v.lost_pages * 4096 AS lost_bytes, v.written_pages * 4096 AS written_bytes,
           v.moved_pages * 4096 AS moved_bytes, v.counted, v.shared_values,
           v.shared_pages * 4096 AS shared_bytes
    FROM pg_class c
         JOIN pg_namespace n ON n.oid = c.relnamespace
         JOIN pg_class t ON t.oid = c.reltoastrelid
         JOIN pg_am a ON a.oid = t.relam AND a.amname = 'leanstore',
         LATERAL leanstore_value_info(t.oid) v
    WHERE NOT pg_is_other_temp_schema(c.relnamespace);

-- What is in the log on disk, a row for each page operation; from one position of the log (a row's
-- position, or leanstore_stat_wal.log_redo_position, which NULL stands for) to another (NULL: the
-- end).
CREATE FUNCTION leanstore_wal_inspect(
    from_position bigint DEFAULT NULL,
    to_position bigint DEFAULT NULL,
    OUT "position" bigint,
    OUT gsn bigint,
    OUT slot integer,
    OUT type text,
    OUT tn bigint,
    OUT operation text,
    OUT tablespace oid,
    OUT database oid,
    OUT relfilenode oid,
    OUT relation regclass,
    OUT page bigint,
    OUT length integer,
    OUT operation_length integer)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE;
REVOKE ALL ON FUNCTION leanstore_wal_inspect(bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_wal_inspect(bigint, bigint) TO pg_monitor;

CREATE VIEW leanstore_stat_versions AS
    SELECT versions_written, versions_removed, ghosts_removed, row_locks, splits, merges, restarts
    FROM leanstore_stat();

-- What pg_stat_io tells of the server's buffers and log, of the engine's.  Threads write pages and
-- log there, so there are no rows by kind of process.
CREATE VIEW leanstore_stat_io AS
    SELECT object, reads, reads * 4096 AS read_bytes, writes, write_bytes, hits, evictions,
           fsyncs, fsync_time
    FROM leanstore_stat(),
         LATERAL (VALUES
             ('relation', pages_read, pages_written, pages_written * 4096, page_hits, pages_evicted,
              NULL::bigint, NULL::double precision),
             ('wal', NULL, log_flushes, log_bytes, NULL, NULL, log_fsyncs, log_fsync_ms))
             AS io(object, reads, writes, write_bytes, hits, evictions, fsyncs, fsync_time);

GRANT SELECT ON leanstore_stat_buffer, leanstore_stat_wal, leanstore_stat_versions,
    leanstore_stat_io, leanstore_stat_values TO pg_read_all_stats;

-- What the server may use of this machine: memory in bytes, the least of what there is and what its
-- control groups allow, and processors.  NULL where Linux does not tell.
CREATE FUNCTION leanstore_machine(OUT memory bigint, OUT processors integer)
RETURNS record
LANGUAGE SQL VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    WITH group_of_server AS (
        SELECT string_to_array(substring(pg_read_file('/proc/self/cgroup', true)
                                         FROM '(?n)^0::/(.*)$'), '/') AS path),
    limits AS (
        SELECT substring(pg_read_file(file, true) FROM '^\d+')::numeric AS bytes
        FROM group_of_server, LATERAL generate_series(0, cardinality(path)) depth,
             LATERAL concat('/sys/fs/cgroup/',
                            array_to_string(path[:depth] || 'memory.max'::text, '/')) file
        UNION ALL
        SELECT substring(pg_read_file('/proc/meminfo', true)
                         FROM '(?n)^MemTotal: +(\d+) kB$')::numeric * 1024)
    SELECT (SELECT min(bytes)::bigint FROM limits),
           nullif(regexp_count(pg_read_file('/proc/stat', true), '^cpu\d+ ', 1, 'n'), 0);
END;
REVOKE ALL ON FUNCTION leanstore_machine() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_machine() TO pg_monitor;

-- What stands in the way of a table that is to be moved to leanstore: kind is refused, where the
-- move or the next change of a row fails, or differs, where it works otherwise than on heap.
CREATE FUNCTION leanstore_obstacles(
    relation regclass,
    OUT kind text,
    OUT advice text,
    OUT statement text)
RETURNS SETOF record
LANGUAGE SQL STABLE STRICT
BEGIN ATOMIC
    WITH moved AS (
        SELECT c.oid, c.relkind, c.relpersistence,
               format('%I.%I', n.nspname, c.relname) AS name,
               current_setting('leanstore.log') = 'engine' AS two_logs,
               current_setting('leanstore.replace_btree')::boolean AS replaces
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation),
    -- stays: a btree that no leanstore index takes the place of
    indexes AS (
        SELECT i.indexrelid, a.amname, x.relname,
               x.relispartition OR
               NOT (replaces OR EXISTS (SELECT FROM pg_constraint k
                                        WHERE k.conindid = x.oid AND k.conrelid = moved.oid)) OR
               EXISTS (SELECT FROM unnest(x.reloptions) o WHERE o NOT LIKE 'fillfactor=%') OR
               EXISTS (SELECT FROM unnest(i.indclass::oid[]) AS o(oid) JOIN pg_opclass b USING (oid)
                       WHERE i.indisunique AND NOT b.opcdefault OR NOT EXISTS (
                           SELECT FROM pg_opclass l JOIN pg_am la ON la.oid = l.opcmethod
                           WHERE la.amname = 'leanstore_index' AND l.opcname = b.opcname AND
                                 l.opcintype = b.opcintype)) AS stays,
               EXISTS (SELECT FROM pg_attribute e JOIN pg_type t ON t.oid = e.atttypid
                       WHERE e.attrelid = i.indexrelid AND e.attnum <= i.indnkeyatts AND
                             t.typtype = 'e') AS has_enum
        FROM moved JOIN pg_index i ON i.indrelid = moved.oid JOIN pg_class x ON x.oid = i.indexrelid
             JOIN pg_am a ON a.oid = x.relam),
    others AS (
        SELECT string_agg(format('%I (%s)', relname, amname), ', ' ORDER BY relname) AS names
        FROM indexes WHERE amname NOT IN ('btree', 'leanstore_index')),
    kept AS (
        SELECT string_agg(format('%I', relname), ', ' ORDER BY relname) AS names
        FROM indexes
        WHERE amname = 'btree' AND stays),
    enums AS (
        SELECT string_agg(format('%I', relname), ', ' ORDER BY relname) AS names
        FROM indexes WHERE amname = 'btree' AND has_enum AND NOT stays),
    linked AS (
        SELECT string_agg(DISTINCT format('%I.%I', n.nspname, c.relname), ', ') AS names
        FROM moved JOIN pg_constraint k
                 ON k.contype = 'f' AND moved.oid IN (k.conrelid, k.confrelid)
             JOIN pg_class c ON c.oid IN (k.conrelid, k.confrelid)
             JOIN pg_am a ON a.oid = c.relam JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid <> moved.oid AND a.amname = 'heap')
    SELECT 'refused', name || ' is no table, materialized view or partitioned table', NULL::text
    FROM moved WHERE relkind NOT IN ('r', 'm', 'p')
    UNION ALL
    SELECT 'refused', 'it is larger than the 15 TiB that a leanstore table takes: partition it',
           NULL
    FROM moved WHERE relkind IN ('r', 'm') AND pg_table_size(moved.oid) > 15 * 1024::bigint ^ 4
    UNION ALL
    SELECT 'differs', 'a partitioned table has no rows itself: the statement is for partitions '
                      'that are made later, those that are there are moved one by one',
           format('ALTER TABLE %s SET ACCESS METHOD leanstore', name)
    FROM moved WHERE relkind = 'p'
    UNION ALL
    SELECT 'differs', 'wal_level is logical, so each row that changes goes to the server''s WAL, '
                      'too: with leanstore.log = engine a commit waits for two logs', NULL
    FROM moved WHERE two_logs AND relpersistence = 'p' AND current_setting('wal_level') = 'logical'
    UNION ALL
    SELECT 'differs', format('indexes of other kinds stay (%s): a commit of rows that were '
                             'inserted into them waits for two logs', names), NULL
    FROM moved, others WHERE two_logs AND names IS NOT NULL
    UNION ALL
    SELECT 'differs', format('btree indexes that stay so (%s), for %s: a commit of rows that were '
                             'inserted into them waits for two logs', names, CASE WHEN replaces
                                 THEN 'their options or operator classes, or as part of an index '
                                      'of a partitioned table'
                                 ELSE 'leanstore.replace_btree is off' END), NULL
    FROM moved, kept WHERE two_logs AND names IS NOT NULL
    UNION ALL
    SELECT 'differs', format('enums in keys (%s) take about 20 new values between the same two; '
                             'then ALTER TYPE ... ADD VALUE is refused', names), NULL
    FROM enums WHERE names IS NOT NULL
    UNION ALL
    SELECT 'differs', format('foreign keys link it to heap tables (%s): a transaction that changes '
                             'both waits for two logs, so move them, too', names), NULL
    FROM moved, linked WHERE two_logs AND names IS NOT NULL;
END;
REVOKE ALL ON FUNCTION leanstore_obstacles(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_obstacles(regclass) TO pg_monitor;

-- Advice about settings, for a machine with that memory and so many processors (NULL: this one).
CREATE FUNCTION leanstore_advise_settings(
    memory bigint DEFAULT NULL,
    processors integer DEFAULT NULL,
    OUT subject text,
    OUT kind text,
    OUT advice text,
    OUT statement text)
RETURNS SETOF record
LANGUAGE SQL VOLATILE
BEGIN ATOMIC
    WITH machine AS (
        SELECT coalesce($1, (SELECT m.memory FROM leanstore_machine() m)) AS memory,
               coalesce($2, (SELECT m.processors FROM leanstore_machine() m)) AS processors),
    -- of this database
    relations AS (
        SELECT coalesce(sum(size) FILTER (WHERE ours), 0) AS leanstore,
               coalesce(sum(size) FILTER (WHERE NOT ours), 0) AS others
        FROM pg_class c JOIN pg_am a ON a.oid = c.relam, LATERAL pg_relation_size(c.oid) size,
             LATERAL (SELECT a.amname IN ('leanstore', 'leanstore_index') AS ours) o
        WHERE c.relpersistence <> 't'),
    foreign_indexes AS (
        SELECT count(*) AS number
        FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid JOIN pg_am ta ON ta.oid = t.relam
             JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am xa ON xa.oid = x.relam
        WHERE ta.amname = 'leanstore' AND t.relkind IN ('r', 'm') AND t.relpersistence <> 't' AND
              xa.amname <> 'leanstore_index'),
    facts AS (
        SELECT s.*, m.memory, m.processors, r.leanstore, r.others, f.number AS foreign_indexes,
               pg_size_bytes(current_setting('leanstore.buffer_pool_size')) AS pool,
               pg_size_bytes(current_setting('shared_buffers')) AS buffers,
               pg_size_bytes(current_setting('leanstore.max_wal_size')) AS max_log,
               pg_size_bytes(current_setting('leanstore.log_buffer_size')) *
                   (current_setting('max_connections')::bigint +
                    current_setting('max_worker_processes')::bigint) AS log_buffers,
               current_setting('leanstore.eviction_threads')::int AS threads,
               current_setting('leanstore.log') AS log,
               extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) AS uptime,
               (SELECT setting::int FROM pg_settings WHERE name = 'leanstore.checkpoint_timeout')
                   AS checkpoint_seconds,
               current_setting('archive_mode') <> 'off' OR
                   EXISTS (SELECT FROM pg_stat_replication) OR
                   EXISTS (SELECT FROM pg_replication_slots WHERE slot_type = 'physical')
                   AS wal_goes_elsewhere
        FROM leanstore_stat() s, machine m, relations r, foreign_indexes f),
    -- three fifths of the memory for pages of both kinds
    roomy AS (SELECT *, memory * 6 / 10 - buffers AS spare FROM facts),
    sized AS (SELECT *, greatest(spare, 16 * 1024 * 1024::bigint) AS room FROM roomy)
    SELECT 'leanstore.buffer_pool_size', 'setting',
           format('it and shared_buffers take %s of the %s of memory; sessions, log buffers and '
                  'the operating system need a fifth at least', pg_size_pretty(pool + buffers),
                  pg_size_pretty(memory)),
           format('ALTER SYSTEM SET leanstore.buffer_pool_size = ''%sMB''', room / 1048576)
    FROM sized WHERE pool + buffers > memory * 0.8 AND room < pool
    UNION ALL
    SELECT 'shared_buffers', 'setting',
           format('it and leanstore.buffer_pool_size take %s of the %s of memory; sessions, log '
                  'buffers and the operating system need a fifth at least',
                  pg_size_pretty(pool + buffers), pg_size_pretty(memory)),
           NULL
    FROM sized WHERE pool + buffers > memory * 0.8 AND room >= pool
    UNION ALL
    SELECT 'leanstore.buffer_pool_size', 'setting',
           format('the pool of %s has no room for leanstore relations of this database, %s: %s %% '
                  'of the pages that were wanted came from files, and there is memory for more',
                  pg_size_pretty(pool), pg_size_pretty(leanstore),
                  round(100.0 * pages_read / (pages_read + page_hits), 1)),
           format('ALTER SYSTEM SET leanstore.buffer_pool_size = ''%sMB''',
                  (least(spare, leanstore * 1.2) / 1048576)::bigint)
    FROM sized
    WHERE pages_evicted * 10 > frames_total AND leanstore > pool AND spare > pool * 1.2 AND
          pages_read * 50 > page_hits AND pages_read > 0
    UNION ALL
    SELECT 'shared_buffers', 'setting',
           format('leanstore relations of this database take %s and do not use shared_buffers, '
                  'other ones %s: memory of shared_buffers (%s) serves more in '
                  'leanstore.buffer_pool_size (%s)', pg_size_pretty(leanstore),
                  pg_size_pretty(others), pg_size_pretty(buffers), pg_size_pretty(pool)),
           NULL
    FROM sized WHERE leanstore > others * 4 AND leanstore > pool AND buffers > pool
    UNION ALL
    SELECT 'leanstore.eviction_threads', 'setting',
           format('page frames are short (%s of %s free) though pages are evicted all the time, '
                  'and there are %s processors', frames_free, frames_total, processors),
           format('ALTER SYSTEM SET leanstore.eviction_threads = %s', threads + 1)
    FROM sized
    WHERE threads < 3 AND processors >= 4 * (threads + 1) AND pages_evicted > frames_total AND
          frames_free * 100 < frames_total
    UNION ALL
    SELECT 'leanstore.log', 'setting',
           'WAL is archived or streamed, but leanstore tables are in base backups and on standbys '
           'with wal only',
           'ALTER SYSTEM SET leanstore.log = ''wal'''
    FROM sized WHERE log = 'engine' AND wal_goes_elsewhere
    UNION ALL
    SELECT 'leanstore.log', 'setting',
           format('%s indexes of leanstore tables of this database are of other kinds; commits of '
                  'rows that were inserted into them wait for two logs, with wal for one',
                  foreign_indexes),
           'ALTER SYSTEM SET leanstore.log = ''wal'''
    FROM sized WHERE log = 'engine' AND NOT wal_goes_elsewhere AND foreign_indexes > 0
    UNION ALL
    SELECT 'full_page_writes', 'setting', 'base backups have leanstore tables only if it is on',
           'ALTER SYSTEM SET full_page_writes = on'
    FROM sized WHERE log = 'wal' AND current_setting('full_page_writes') = 'off'
    UNION ALL
    SELECT 'leanstore.max_wal_size', 'setting',
           format('%s of log a minute fill it (%s) before leanstore.checkpoint_timeout (%s) is '
                  'over: checkpoints come, and write pages, more often than was asked for',
                  pg_size_pretty((log_bytes / uptime * 60)::bigint), pg_size_pretty(max_log),
                  current_setting('leanstore.checkpoint_timeout')),
           format('ALTER SYSTEM SET leanstore.max_wal_size = ''%sMB''',
                  least(ceil(log_bytes / uptime * checkpoint_seconds * 1.3 / 1048576),
                        1048576))
    FROM sized WHERE log_bytes > max_log AND log_bytes / uptime * checkpoint_seconds > max_log
    UNION ALL
    SELECT 'leanstore.log_buffer_size', 'setting',
           format('log buffers of all sessions that max_connections allows would take %s of the %s '
                  'of memory', pg_size_pretty(log_buffers), pg_size_pretty(memory)),
           NULL
    FROM sized WHERE log_buffers > memory / 10
    UNION ALL
    SELECT 'huge_pages', 'setting',
           format('a pool of %s without huge pages: each random look-up reads page tables of the '
                  'processor, too', pg_size_pretty(pool)),
           'ALTER SYSTEM SET huge_pages = ''try'''
    FROM sized WHERE current_setting('huge_pages') = 'off' AND pool >= 1024 ^ 3
    UNION ALL
    SELECT 'leanstore.max_open_relations', 'setting',
           format('%s relations were closed to open others, of which each had its changed pages '
                  'written', files_closed),
           format('ALTER SYSTEM SET leanstore.max_open_relations = %s',
                  least(files_max * 2, 1048576))
    FROM sized WHERE files_closed > files_max
    UNION ALL
    SELECT 'leanstore/undo', 'setting',
           format('%s checkpoints could not write the undo of a long transaction and keep the log '
                  'instead; the server''s log says why', undo_failures),
           NULL
    FROM sized WHERE undo_failures > 0
    UNION ALL
    SELECT 'shared_preload_libraries', 'setting',
           'leanstore_accel is not loaded: with it short statements on leanstore tables take less '
           'processor time',
           NULL
    FROM sized
    WHERE leanstore > 0 AND
          current_setting('shared_preload_libraries') !~ '\mleanstore_accel\M';
END;
REVOKE ALL ON FUNCTION leanstore_advise_settings(bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_advise_settings(bigint, integer) TO pg_monitor;

-- Heap tables of this database that would gain, the largest first, each with what stands in its
-- way.
CREATE FUNCTION leanstore_advise_tables(
    OUT subject text,
    OUT kind text,
    OUT advice text,
    OUT statement text)
RETURNS SETOF record
LANGUAGE SQL STABLE
BEGIN ATOMIC
    WITH heap AS (
        SELECT c.oid, c.relkind, format('%I.%I', n.nspname, c.relname) AS name, c.reltuples,
               pg_table_size(c.oid) AS bytes, pg_relation_size(c.oid) AS row_bytes,
               pg_total_relation_size(c.oid) AS total_bytes,
               s.n_tup_upd, s.n_tup_hot_upd, s.n_live_tup, s.n_dead_tup,
               s.seq_scan, coalesce(s.idx_scan, 0) AS idx_scan,
               s.total_vacuum_time + s.total_autovacuum_time AS vacuum_ms,
               (SELECT sum(w.avg_width * (1 - w.null_frac))
                FROM pg_stats w
                WHERE w.schemaname = n.nspname AND w.tablename = c.relname AND NOT w.inherited
                HAVING count(*) = (SELECT count(*) FROM pg_attribute a
                                   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT attisdropped))
                   AS width
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
             JOIN pg_am a ON a.oid = c.relam JOIN pg_stat_user_tables s ON s.relid = c.oid
        WHERE a.amname = 'heap' AND c.relkind IN ('r', 'm') AND c.relpersistence <> 't' AND
              NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND
                              d.objid = c.oid AND d.deptype = 'e')),
    -- a row has a header of 24 bytes and a line pointer of 4
    estimated AS (
        SELECT *, row_bytes - reltuples * (width + 28) AS empty_bytes FROM heap),
    gains AS (
        SELECT *, array_remove(ARRAY[
            CASE WHEN n_tup_upd >= 1000 AND n_tup_upd * 5 >= n_live_tup THEN
                format('%s updates of its %s rows, %s of which made new index entries: leanstore '
                       'updates in place', n_tup_upd, n_live_tup, n_tup_upd - n_tup_hot_upd) END,
            CASE WHEN n_dead_tup >= 1000 AND n_dead_tup * 5 >= n_live_tup THEN
                format('%s dead rows beside %s live ones wait for VACUUM: in leanstore they go '
                       'when no snapshot needs them', n_dead_tup, n_live_tup) END,
            CASE WHEN empty_bytes > 1024 * 1024 AND empty_bytes > row_bytes * 0.3 THEN
                format('about %s of %s hold no rows, as far as widths of columns tell',
                       pg_size_pretty(empty_bytes::bigint), pg_size_pretty(row_bytes)) END,
            CASE WHEN vacuum_ms > 60000 THEN
                format('VACUUM has worked on it for %s s: of a leanstore table it reads what has '
                       'changed', round(vacuum_ms / 1000)) END,
            CASE WHEN total_bytes > pg_size_bytes(current_setting('shared_buffers')) AND
                      idx_scan > 1000 AND idx_scan > seq_scan * 10 THEN
                format('it is read by key (%s times) and larger with its indexes (%s) than '
                       'shared_buffers', idx_scan, pg_size_pretty(total_bytes)) END], NULL)
            AS reasons
        FROM estimated),
    rows AS (
        SELECT name, total_bytes, 0 AS place, 'table' AS kind,
               format('%s. The move writes %s anew, with all indexes, and locks it meanwhile%s',
                      array_to_string(reasons, '; '), pg_size_pretty(bytes),
                      CASE WHEN is_refused
                           THEN '; it is refused until what follows is changed' END) AS advice,
               CASE WHEN NOT is_refused THEN
                   format('ALTER %s %s SET ACCESS METHOD leanstore',
                          CASE relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END, name) END
                   AS statement
        FROM gains, LATERAL (SELECT EXISTS (SELECT FROM leanstore_obstacles(oid) o
                                            WHERE o.kind = 'refused') AS is_refused) r
        WHERE cardinality(reasons) > 0
        UNION ALL
        SELECT name, total_bytes, CASE o.kind WHEN 'refused' THEN 1 ELSE 2 END, o.kind, o.advice,
               o.statement
        FROM gains, LATERAL leanstore_obstacles(oid) o WHERE cardinality(reasons) > 0)
    SELECT name, kind, advice, statement FROM rows ORDER BY total_bytes DESC, name, place, advice;
END;
REVOKE ALL ON FUNCTION leanstore_advise_tables() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_advise_tables() TO pg_monitor;

CREATE FUNCTION leanstore_advise(
    OUT subject text,
    OUT kind text,
    OUT advice text,
    OUT statement text)
RETURNS SETOF record
LANGUAGE SQL VOLATILE
BEGIN ATOMIC
    SELECT s.subject, s.kind, s.advice, s.statement FROM leanstore_advise_settings() s
    UNION ALL
    SELECT t.subject, t.kind, t.advice, t.statement FROM leanstore_advise_tables() t;
END;
REVOKE ALL ON FUNCTION leanstore_advise() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_advise() TO pg_monitor;

-- A class for each btree class that extensions and users have made; classes made later get theirs
-- when they are.
CREATE FUNCTION leanstore_add_operator_classes()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION leanstore_add_operator_classes() FROM PUBLIC;

-- Operator classes of leanstore_index: what follows is printed by generate_opclasses.sh, but for
-- the last statement.

CREATE OPERATOR FAMILY array_ops USING leanstore_index;
CREATE OPERATOR CLASS array_ops
    DEFAULT FOR TYPE anyarray USING leanstore_index FAMILY array_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btarraycmp(anyarray,anyarray);

CREATE OPERATOR FAMILY bit_ops USING leanstore_index;
CREATE OPERATOR CLASS bit_ops
    DEFAULT FOR TYPE bit USING leanstore_index FAMILY bit_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bitcmp(bit,bit);

CREATE OPERATOR FAMILY bool_ops USING leanstore_index;
CREATE OPERATOR CLASS bool_ops
    DEFAULT FOR TYPE boolean USING leanstore_index FAMILY bool_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btboolcmp(boolean,boolean);

CREATE OPERATOR FAMILY bpchar_ops USING leanstore_index;
CREATE OPERATOR CLASS bpchar_ops
    DEFAULT FOR TYPE character USING leanstore_index FAMILY bpchar_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bpcharcmp(character,character);

CREATE OPERATOR FAMILY bpchar_pattern_ops USING leanstore_index;
CREATE OPERATOR CLASS bpchar_pattern_ops
    FOR TYPE character USING leanstore_index FAMILY bpchar_pattern_ops AS
    OPERATOR 1 ~<~, OPERATOR 2 ~<=~, OPERATOR 3 =, OPERATOR 4 ~>=~, OPERATOR 5 ~>~,
    FUNCTION 1 btbpchar_pattern_cmp(character,character);

CREATE OPERATOR FAMILY bytea_ops USING leanstore_index;
CREATE OPERATOR CLASS bytea_ops
    DEFAULT FOR TYPE bytea USING leanstore_index FAMILY bytea_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 byteacmp(bytea,bytea);

CREATE OPERATOR FAMILY char_ops USING leanstore_index;
CREATE OPERATOR CLASS char_ops
    DEFAULT FOR TYPE "char" USING leanstore_index FAMILY char_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btcharcmp("char","char");

CREATE OPERATOR FAMILY datetime_ops USING leanstore_index;
CREATE OPERATOR CLASS date_ops
    DEFAULT FOR TYPE date USING leanstore_index FAMILY datetime_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 date_cmp(date,date);
CREATE OPERATOR CLASS timestamp_ops
    DEFAULT FOR TYPE timestamp without time zone USING leanstore_index FAMILY datetime_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 timestamp_cmp(timestamp without time zone,timestamp without time zone);
CREATE OPERATOR CLASS timestamptz_ops
    DEFAULT FOR TYPE timestamp with time zone USING leanstore_index FAMILY datetime_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 timestamptz_cmp(timestamp with time zone,timestamp with time zone);
ALTER OPERATOR FAMILY datetime_ops USING leanstore_index ADD
    OPERATOR 1 < (date, timestamp with time zone),
    OPERATOR 2 <= (date, timestamp with time zone),
    OPERATOR 3 = (date, timestamp with time zone),
    OPERATOR 4 >= (date, timestamp with time zone),
    OPERATOR 5 > (date, timestamp with time zone),
    FUNCTION 1 (date, timestamp with time zone)
        date_cmp_timestamptz(date,timestamp with time zone);
ALTER OPERATOR FAMILY datetime_ops USING leanstore_index ADD
    OPERATOR 1 < (date, timestamp without time zone),
    OPERATOR 2 <= (date, timestamp without time zone),
    OPERATOR 3 = (date, timestamp without time zone),
    OPERATOR 4 >= (date, timestamp without time zone),
    OPERATOR 5 > (date, timestamp without time zone),
    FUNCTION 1 (date, timestamp without time zone)
        date_cmp_timestamp(date,timestamp without time zone);
ALTER OPERATOR FAMILY datetime_ops USING leanstore_index ADD
    OPERATOR 1 < (timestamp with time zone, date),
    OPERATOR 2 <= (timestamp with time zone, date),
    OPERATOR 3 = (timestamp with time zone, date),
    OPERATOR 4 >= (timestamp with time zone, date),
    OPERATOR 5 > (timestamp with time zone, date),
    FUNCTION 1 (timestamp with time zone, date)
        timestamptz_cmp_date(timestamp with time zone,date);
ALTER OPERATOR FAMILY datetime_ops USING leanstore_index ADD
    OPERATOR 1 < (timestamp with time zone, timestamp without time zone),
    OPERATOR 2 <= (timestamp with time zone, timestamp without time zone),
    OPERATOR 3 = (timestamp with time zone, timestamp without time zone),
    OPERATOR 4 >= (timestamp with time zone, timestamp without time zone),
    OPERATOR 5 > (timestamp with time zone, timestamp without time zone),
    FUNCTION 1 (timestamp with time zone, timestamp without time zone)
        timestamptz_cmp_timestamp(timestamp with time zone,timestamp without time zone);
ALTER OPERATOR FAMILY datetime_ops USING leanstore_index ADD
    OPERATOR 1 < (timestamp without time zone, date),
    OPERATOR 2 <= (timestamp without time zone, date),
    OPERATOR 3 = (timestamp without time zone, date),
    OPERATOR 4 >= (timestamp without time zone, date),
    OPERATOR 5 > (timestamp without time zone, date),
    FUNCTION 1 (timestamp without time zone, date)
        timestamp_cmp_date(timestamp without time zone,date);
ALTER OPERATOR FAMILY datetime_ops USING leanstore_index ADD
    OPERATOR 1 < (timestamp without time zone, timestamp with time zone),
    OPERATOR 2 <= (timestamp without time zone, timestamp with time zone),
    OPERATOR 3 = (timestamp without time zone, timestamp with time zone),
    OPERATOR 4 >= (timestamp without time zone, timestamp with time zone),
    OPERATOR 5 > (timestamp without time zone, timestamp with time zone),
    FUNCTION 1 (timestamp without time zone, timestamp with time zone)
        timestamp_cmp_timestamptz(timestamp without time zone,timestamp with time zone);

CREATE OPERATOR FAMILY enum_ops USING leanstore_index;
CREATE OPERATOR CLASS enum_ops
    DEFAULT FOR TYPE anyenum USING leanstore_index FAMILY enum_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 enum_cmp(anyenum,anyenum);

CREATE OPERATOR FAMILY float_ops USING leanstore_index;
CREATE OPERATOR CLASS float4_ops
    DEFAULT FOR TYPE real USING leanstore_index FAMILY float_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btfloat4cmp(real,real);
CREATE OPERATOR CLASS float8_ops
    DEFAULT FOR TYPE double precision USING leanstore_index FAMILY float_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btfloat8cmp(double precision,double precision);
ALTER OPERATOR FAMILY float_ops USING leanstore_index ADD
    OPERATOR 1 < (double precision, real),
    OPERATOR 2 <= (double precision, real),
    OPERATOR 3 = (double precision, real),
    OPERATOR 4 >= (double precision, real),
    OPERATOR 5 > (double precision, real),
    FUNCTION 1 (double precision, real)
        btfloat84cmp(double precision,real);
ALTER OPERATOR FAMILY float_ops USING leanstore_index ADD
    OPERATOR 1 < (real, double precision),
    OPERATOR 2 <= (real, double precision),
    OPERATOR 3 = (real, double precision),
    OPERATOR 4 >= (real, double precision),
    OPERATOR 5 > (real, double precision),
    FUNCTION 1 (real, double precision)
        btfloat48cmp(real,double precision);

CREATE OPERATOR FAMILY integer_ops USING leanstore_index;
CREATE OPERATOR CLASS int2_ops
    DEFAULT FOR TYPE smallint USING leanstore_index FAMILY integer_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btint2cmp(smallint,smallint);
CREATE OPERATOR CLASS int4_ops
    DEFAULT FOR TYPE integer USING leanstore_index FAMILY integer_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btint4cmp(integer,integer);
CREATE OPERATOR CLASS int8_ops
    DEFAULT FOR TYPE bigint USING leanstore_index FAMILY integer_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btint8cmp(bigint,bigint);
ALTER OPERATOR FAMILY integer_ops USING leanstore_index ADD
    OPERATOR 1 < (bigint, integer),
    OPERATOR 2 <= (bigint, integer),
    OPERATOR 3 = (bigint, integer),
    OPERATOR 4 >= (bigint, integer),
    OPERATOR 5 > (bigint, integer),
    FUNCTION 1 (bigint, integer)
        btint84cmp(bigint,integer);
ALTER OPERATOR FAMILY integer_ops USING leanstore_index ADD
    OPERATOR 1 < (bigint, smallint),
    OPERATOR 2 <= (bigint, smallint),
    OPERATOR 3 = (bigint, smallint),
    OPERATOR 4 >= (bigint, smallint),
    OPERATOR 5 > (bigint, smallint),
    FUNCTION 1 (bigint, smallint)
        btint82cmp(bigint,smallint);
ALTER OPERATOR FAMILY integer_ops USING leanstore_index ADD
    OPERATOR 1 < (integer, bigint),
    OPERATOR 2 <= (integer, bigint),
    OPERATOR 3 = (integer, bigint),
    OPERATOR 4 >= (integer, bigint),
    OPERATOR 5 > (integer, bigint),
    FUNCTION 1 (integer, bigint)
        btint48cmp(integer,bigint);
ALTER OPERATOR FAMILY integer_ops USING leanstore_index ADD
    OPERATOR 1 < (integer, smallint),
    OPERATOR 2 <= (integer, smallint),
    OPERATOR 3 = (integer, smallint),
    OPERATOR 4 >= (integer, smallint),
    OPERATOR 5 > (integer, smallint),
    FUNCTION 1 (integer, smallint)
        btint42cmp(integer,smallint);
ALTER OPERATOR FAMILY integer_ops USING leanstore_index ADD
    OPERATOR 1 < (smallint, bigint),
    OPERATOR 2 <= (smallint, bigint),
    OPERATOR 3 = (smallint, bigint),
    OPERATOR 4 >= (smallint, bigint),
    OPERATOR 5 > (smallint, bigint),
    FUNCTION 1 (smallint, bigint)
        btint28cmp(smallint,bigint);
ALTER OPERATOR FAMILY integer_ops USING leanstore_index ADD
    OPERATOR 1 < (smallint, integer),
    OPERATOR 2 <= (smallint, integer),
    OPERATOR 3 = (smallint, integer),
    OPERATOR 4 >= (smallint, integer),
    OPERATOR 5 > (smallint, integer),
    FUNCTION 1 (smallint, integer)
        btint24cmp(smallint,integer);

CREATE OPERATOR FAMILY interval_ops USING leanstore_index;
CREATE OPERATOR CLASS interval_ops
    DEFAULT FOR TYPE interval USING leanstore_index FAMILY interval_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 interval_cmp(interval,interval);

CREATE OPERATOR FAMILY jsonb_ops USING leanstore_index;
CREATE OPERATOR CLASS jsonb_ops
    DEFAULT FOR TYPE jsonb USING leanstore_index FAMILY jsonb_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 jsonb_cmp(jsonb,jsonb);

CREATE OPERATOR FAMILY macaddr8_ops USING leanstore_index;
CREATE OPERATOR CLASS macaddr8_ops
    DEFAULT FOR TYPE macaddr8 USING leanstore_index FAMILY macaddr8_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 macaddr8_cmp(macaddr8,macaddr8);

CREATE OPERATOR FAMILY macaddr_ops USING leanstore_index;
CREATE OPERATOR CLASS macaddr_ops
    DEFAULT FOR TYPE macaddr USING leanstore_index FAMILY macaddr_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 macaddr_cmp(macaddr,macaddr);

CREATE OPERATOR FAMILY money_ops USING leanstore_index;
CREATE OPERATOR CLASS money_ops
    DEFAULT FOR TYPE money USING leanstore_index FAMILY money_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 cash_cmp(money,money);

CREATE OPERATOR FAMILY multirange_ops USING leanstore_index;
CREATE OPERATOR CLASS multirange_ops
    DEFAULT FOR TYPE anymultirange USING leanstore_index FAMILY multirange_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 multirange_cmp(anymultirange,anymultirange);

CREATE OPERATOR FAMILY network_ops USING leanstore_index;
CREATE OPERATOR CLASS inet_ops
    DEFAULT FOR TYPE inet USING leanstore_index FAMILY network_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 network_cmp(inet,inet);
CREATE OPERATOR CLASS cidr_ops
    FOR TYPE inet USING leanstore_index FAMILY network_ops AS
    STORAGE inet;

CREATE OPERATOR FAMILY numeric_ops USING leanstore_index;
CREATE OPERATOR CLASS numeric_ops
    DEFAULT FOR TYPE numeric USING leanstore_index FAMILY numeric_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 numeric_cmp(numeric,numeric);

CREATE OPERATOR FAMILY oid_ops USING leanstore_index;
CREATE OPERATOR CLASS oid_ops
    DEFAULT FOR TYPE oid USING leanstore_index FAMILY oid_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btoidcmp(oid,oid);

CREATE OPERATOR FAMILY oidvector_ops USING leanstore_index;
CREATE OPERATOR CLASS oidvector_ops
    DEFAULT FOR TYPE oidvector USING leanstore_index FAMILY oidvector_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btoidvectorcmp(oidvector,oidvector);

CREATE OPERATOR FAMILY pg_lsn_ops USING leanstore_index;
CREATE OPERATOR CLASS pg_lsn_ops
    DEFAULT FOR TYPE pg_lsn USING leanstore_index FAMILY pg_lsn_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 pg_lsn_cmp(pg_lsn,pg_lsn);

CREATE OPERATOR FAMILY range_ops USING leanstore_index;
CREATE OPERATOR CLASS range_ops
    DEFAULT FOR TYPE anyrange USING leanstore_index FAMILY range_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 range_cmp(anyrange,anyrange);

CREATE OPERATOR FAMILY record_image_ops USING leanstore_index;
CREATE OPERATOR CLASS record_image_ops
    FOR TYPE record USING leanstore_index FAMILY record_image_ops AS
    OPERATOR 1 *<, OPERATOR 2 *<=, OPERATOR 3 *=, OPERATOR 4 *>=, OPERATOR 5 *>,
    FUNCTION 1 btrecordimagecmp(record,record);

CREATE OPERATOR FAMILY record_ops USING leanstore_index;
CREATE OPERATOR CLASS record_ops
    DEFAULT FOR TYPE record USING leanstore_index FAMILY record_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btrecordcmp(record,record);

CREATE OPERATOR FAMILY text_ops USING leanstore_index;
CREATE OPERATOR CLASS name_ops
    DEFAULT FOR TYPE name USING leanstore_index FAMILY text_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 btnamecmp(name,name);
CREATE OPERATOR CLASS text_ops
    DEFAULT FOR TYPE text USING leanstore_index FAMILY text_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bttextcmp(text,text);
CREATE OPERATOR CLASS varchar_ops
    FOR TYPE text USING leanstore_index FAMILY text_ops AS
    STORAGE text;
ALTER OPERATOR FAMILY text_ops USING leanstore_index ADD
    OPERATOR 1 < (name, text),
    OPERATOR 2 <= (name, text),
    OPERATOR 3 = (name, text),
    OPERATOR 4 >= (name, text),
    OPERATOR 5 > (name, text),
    FUNCTION 1 (name, text)
        btnametextcmp(name,text);
ALTER OPERATOR FAMILY text_ops USING leanstore_index ADD
    OPERATOR 1 < (text, name),
    OPERATOR 2 <= (text, name),
    OPERATOR 3 = (text, name),
    OPERATOR 4 >= (text, name),
    OPERATOR 5 > (text, name),
    FUNCTION 1 (text, name)
        bttextnamecmp(text,name);

CREATE OPERATOR FAMILY text_pattern_ops USING leanstore_index;
CREATE OPERATOR CLASS text_pattern_ops
    FOR TYPE text USING leanstore_index FAMILY text_pattern_ops AS
    OPERATOR 1 ~<~, OPERATOR 2 ~<=~, OPERATOR 3 =, OPERATOR 4 ~>=~, OPERATOR 5 ~>~,
    FUNCTION 1 bttext_pattern_cmp(text,text);
CREATE OPERATOR CLASS varchar_pattern_ops
    FOR TYPE text USING leanstore_index FAMILY text_pattern_ops AS
    STORAGE text;

CREATE OPERATOR FAMILY tid_ops USING leanstore_index;
CREATE OPERATOR CLASS tid_ops
    DEFAULT FOR TYPE tid USING leanstore_index FAMILY tid_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 bttidcmp(tid,tid);

CREATE OPERATOR FAMILY time_ops USING leanstore_index;
CREATE OPERATOR CLASS time_ops
    DEFAULT FOR TYPE time without time zone USING leanstore_index FAMILY time_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 time_cmp(time without time zone,time without time zone);

CREATE OPERATOR FAMILY timetz_ops USING leanstore_index;
CREATE OPERATOR CLASS timetz_ops
    DEFAULT FOR TYPE time with time zone USING leanstore_index FAMILY timetz_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 timetz_cmp(time with time zone,time with time zone);

CREATE OPERATOR FAMILY tsquery_ops USING leanstore_index;
CREATE OPERATOR CLASS tsquery_ops
    DEFAULT FOR TYPE tsquery USING leanstore_index FAMILY tsquery_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 tsquery_cmp(tsquery,tsquery);

CREATE OPERATOR FAMILY tsvector_ops USING leanstore_index;
CREATE OPERATOR CLASS tsvector_ops
    DEFAULT FOR TYPE tsvector USING leanstore_index FAMILY tsvector_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 tsvector_cmp(tsvector,tsvector);

CREATE OPERATOR FAMILY uuid_ops USING leanstore_index;
CREATE OPERATOR CLASS uuid_ops
    DEFAULT FOR TYPE uuid USING leanstore_index FAMILY uuid_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 uuid_cmp(uuid,uuid);

CREATE OPERATOR FAMILY varbit_ops USING leanstore_index;
CREATE OPERATOR CLASS varbit_ops
    DEFAULT FOR TYPE bit varying USING leanstore_index FAMILY varbit_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 varbitcmp(bit varying,bit varying);

CREATE OPERATOR FAMILY xid8_ops USING leanstore_index;
CREATE OPERATOR CLASS xid8_ops
    DEFAULT FOR TYPE xid8 USING leanstore_index FAMILY xid8_ops AS
    OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
    FUNCTION 1 xid8cmp(xid8,xid8);

SELECT leanstore_add_operator_classes();
