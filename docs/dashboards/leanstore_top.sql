-- leanstore_top: what the engine does now, for psql:
--
--   psql -f leanstore_top.sql                       every 2 seconds, until ^C
--   psql -v interval=1 -v count=10 -f leanstore_top.sql
--
-- The column "per second" counts from the look before.  The session keeps what it saw in a setting
-- of its own, leanstore_top.last.  For members of pg_monitor.
\if :{?interval}
\else
\set interval 2
\endif
\pset null ''
\pset footer off
WITH
-- nothing is taken from the setting after it has been set
last AS MATERIALIZED (
    SELECT nullif(current_setting('leanstore_top.last', true), '')::jsonb AS l),
now AS MATERIALIZED (
    SELECT to_jsonb(s) || jsonb_build_object('at', extract(epoch FROM clock_timestamp())) AS n
    FROM last, leanstore_stat() s),
kept AS MATERIALIZED (SELECT set_config('leanstore_top.last', n::text, false) FROM now),
rates AS MATERIALIZED (
    SELECT key, n.value::numeric AS value,
           ((n.value::numeric - (l ->> key)::numeric) /
            nullif((now.n ->> 'at')::numeric - (l ->> 'at')::numeric, 0)) AS rate
    FROM now, last, jsonb_each_text(now.n) n, kept),
v AS MATERIALIZED (
    SELECT jsonb_object_agg(key, value) AS n, jsonb_object_agg(key, rate) AS r FROM rates),
f AS MATERIALIZED (
    SELECT (n ->> 'frames_total')::numeric AS frames, (n ->> 'frames_free')::numeric AS free,
           (n ->> 'frames_dirty')::numeric AS dirty, (n ->> 'page_hits')::numeric AS hits,
           (n ->> 'pages_read')::numeric AS reads, (n ->> 'log_flushes')::numeric AS flushes,
           (n ->> 'log_commits')::numeric AS commits, (n ->> 'log_fsyncs')::numeric AS fsyncs,
           (n ->> 'log_fsync_ms')::numeric AS fsync_ms,
           (n ->> 'log_position')::numeric - (n ->> 'log_redo_position')::numeric AS redo,
           (n ->> 'versions_written')::numeric - (n ->> 'versions_removed')::numeric AS versions
    FROM v),
holder AS (
    SELECT format('session %s, %s, %s, %s', pid, usename, state, left(query, 40)) AS who,
           age(backend_xmin) AS transactions, xact_start AS since
    FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
    UNION ALL
    SELECT format('prepared transaction %L, %s', gid, owner), age(transaction), prepared
    FROM pg_prepared_xacts
    UNION ALL
    SELECT format('replication slot %s', slot_name), age(xmin), NULL
    FROM pg_replication_slots WHERE xmin IS NOT NULL),
rows(place, part, what, now, key) AS (
    SELECT 1, 'pool', 'free frames', format('%s of %s, %s %%', free, frames,
                                            round(100 * free / nullif(frames, 0), 1)), NULL FROM f
    UNION ALL
    SELECT 2, 'pool', 'changed frames', format('%s, %s %%', dirty,
                                               round(100 * dirty / nullif(frames, 0), 1)), NULL
    FROM f
    UNION ALL
    SELECT 3, 'pool', 'pages found', coalesce(round(100 * hits / nullif(hits + reads, 0), 2) ||
                                              ' % of those wanted', 'none wanted'), 'page_hits'
    FROM f
    UNION ALL
    SELECT 4, 'pool', 'pages read', reads::text, 'pages_read' FROM f
    UNION ALL
    SELECT 5, 'pool', 'found compressed', n ->> 'compressed_hits', 'compressed_hits' FROM v
    UNION ALL
    SELECT 6, 'eviction', 'pages evicted', n ->> 'pages_evicted', 'pages_evicted' FROM v
    UNION ALL
    SELECT 7, 'eviction', 'pages written', n ->> 'pages_written', 'pages_written' FROM v
    UNION ALL
    SELECT 8, 'log', 'bytes', pg_size_pretty((n ->> 'log_bytes')::numeric), 'log_bytes' FROM v
    UNION ALL
    SELECT 9, 'log', 'commits', format('%s, %s for each write', commits,
                                       coalesce(round(commits / nullif(flushes, 0), 2), 0)),
           'log_commits'
    FROM f
    UNION ALL
    SELECT 10, 'log', 'syncs', format('%s, %s ms each', fsyncs,
                                      coalesce(round(fsync_ms / nullif(fsyncs, 0), 2), 0)),
           'log_fsyncs'
    FROM f
    UNION ALL
    SELECT 11, 'checkpoint', 'log to recover', pg_size_pretty(redo), NULL FROM f
    UNION ALL
    SELECT 12, 'checkpoint', 'checkpoints', n ->> 'checkpoints', 'checkpoints' FROM v
    UNION ALL
    SELECT 13, 'versions', 'kept', versions::text, NULL FROM f
    UNION ALL
    SELECT 14, 'versions', 'written', n ->> 'versions_written', 'versions_written' FROM v
    UNION ALL
    SELECT 15, 'versions', 'removed', n ->> 'versions_removed', 'versions_removed' FROM v
    UNION ALL
    (SELECT 16, 'versions', 'oldest snapshot',
            format('%s transactions ago, %s: %s', transactions,
                   coalesce(date_trunc('second', clock_timestamp() - since)::text, '?'), who), NULL
     FROM holder ORDER BY transactions DESC, since LIMIT 1)
    UNION ALL
    SELECT 17, 'values', 'of this database',
           format('%s, %s free, %s saved by sharing', pg_size_pretty(coalesce(sum(bytes), 0)),
                  pg_size_pretty(coalesce(sum(free_bytes), 0)),
                  pg_size_pretty(coalesce(sum(shared_bytes), 0))), NULL
    FROM leanstore_stat_values
    UNION ALL
    SELECT 18, 'range locks', 'held, waited for',
           format('%s, %s', count(*) FILTER (WHERE granted), count(*) FILTER (WHERE NOT granted)),
           NULL
    FROM leanstore_range_locks
    UNION ALL
    SELECT 19, 'waits', wait_event, format('%s sessions', count(*)), NULL
    FROM pg_stat_activity
    WHERE wait_event_type = 'Extension' AND wait_event LIKE 'Leanstore%' AND
          wait_event <> 'LeanstoreEngineMain'
    GROUP BY wait_event)
SELECT part, what, now, CASE WHEN key = 'log_bytes' THEN pg_size_pretty(round(rate))
                             ELSE round(rate, 1)::text END AS "per second"
FROM rows LEFT JOIN rates USING (key) ORDER BY place, what
\if :{?count}
\watch interval=:interval count=:count
\else
\watch interval=:interval
\endif
