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
