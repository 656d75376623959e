-- leanstore_am 1.0 to 1.1
\echo Use "ALTER EXTENSION leanstore_am UPDATE TO '1.1'" to load this file. \quit

-- The library that the server has loaded, and the version of files that it writes; it takes a
-- store over that is of the oldest one, or of any between, and was shut down.
CREATE FUNCTION leanstore_version(
    OUT library text,
    OUT file_version integer,
    OUT oldest_file_version integer)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT STABLE PARALLEL SAFE;

-- Which file of large values is being counted or made shorter, if any: of which database, the TOAST
-- table where that is this one, how far it is through the rows, bytes moved in this pass, and how
-- long the file is to be.
CREATE FUNCTION leanstore_progress_values(
    OUT datid oid,
    OUT relid oid,
    OUT phase text,
    OUT percent double precision,
    OUT moved_bytes bigint,
    OUT target_bytes bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C VOLATILE;
REVOKE ALL ON FUNCTION leanstore_progress_values() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION leanstore_progress_values() TO pg_read_all_stats;

CREATE VIEW leanstore_progress_values AS
    SELECT p.datid, d.datname, c.oid AS relid, n.nspname AS schemaname, c.relname, p.phase,
           round(p.percent::numeric, 1) AS percent, p.moved_bytes, p.target_bytes
    FROM leanstore_progress_values() p
         LEFT JOIN pg_database d ON d.oid = p.datid
         LEFT JOIN pg_class c ON c.reltoastrelid = p.relid
         LEFT JOIN pg_namespace n ON n.oid = c.relnamespace;
REVOKE ALL ON leanstore_progress_values FROM PUBLIC;
GRANT SELECT ON leanstore_progress_values TO pg_read_all_stats;
