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
