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
COMMENT ON ACCESS METHOD leanstore_index IS 'indexes of leanstore tables, on the LeanStore storage engine';

-- Verify a table and its indexes; an error describes the first damage found.
CREATE FUNCTION leanstore_check(relation regclass)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION leanstore_check(regclass) FROM PUBLIC;

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

CREATE FUNCTION leanstore_checkpoint()
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION leanstore_checkpoint() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_checkpoint() TO pg_checkpoint;

CREATE FUNCTION leanstore_stat(
    OUT frames_total bigint,
    OUT frames_free bigint,
    OUT frames_dirty bigint,
    OUT pages_read bigint,
    OUT pages_written bigint,
    OUT pages_evicted bigint,
    OUT log_bytes bigint,
    OUT log_rounds bigint,
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
    OUT log_fsync_ms double precision)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION leanstore_stat() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_stat() TO pg_read_all_stats;

CREATE VIEW leanstore_stat_buffer AS
    SELECT frames_total, frames_free, frames_dirty, pages_read, pages_written, pages_evicted, files_open, files_max
    FROM leanstore_stat();

CREATE VIEW leanstore_stat_wal AS
    SELECT log_bytes, log_rounds, log_fsyncs, log_fsync_ms, log_commits,
           CASE WHEN log_rounds > 0 THEN round(log_commits::numeric / log_rounds, 2) END AS commits_per_round,
           log_position, log_redo_position, checkpoints
    FROM leanstore_stat();

CREATE VIEW leanstore_stat_versions AS
    SELECT versions_written, versions_removed, ghosts_removed, row_locks, splits, merges, restarts
    FROM leanstore_stat();

GRANT SELECT ON leanstore_stat_buffer, leanstore_stat_wal, leanstore_stat_versions TO pg_read_all_stats;
