/* leanstore_accel--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION leanstore_accel" to load this file. \quit

-- What this session keeps to plan queries of the same form without planning: a plan reads at most
-- rows_max rows; NULL: no plan is right for all values.
CREATE FUNCTION leanstore_plan_cache(
    OUT relation regclass,
    OUT command text,
    OUT rows_max float8,
    OUT uses bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE;

CREATE VIEW leanstore_plan_cache AS
    SELECT relation, command, rows_max, uses FROM leanstore_plan_cache();
GRANT SELECT ON leanstore_plan_cache TO PUBLIC;

-- Plans with an executor state that this session keeps between executions, and how often it was
-- used again.
CREATE FUNCTION leanstore_executor_cache(
    OUT relation regclass,
    OUT command text,
    OUT uses bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE;

CREATE VIEW leanstore_executor_cache AS
    SELECT relation, command, uses FROM leanstore_executor_cache();
GRANT SELECT ON leanstore_executor_cache TO PUBLIC;
