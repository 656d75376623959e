-- leanstore_accel.kept_memory bounds what a session keeps of plans and executor states.
CREATE SCHEMA kept_memory;
SET search_path = kept_memory, public;
SELECT format('CREATE TABLE t (id int PRIMARY KEY, %s) USING leanstore',
	string_agg(format('c%s int', n), ', ')) FROM generate_series(1, 60) n \gexec
INSERT INTO t (id) SELECT generate_series(1, 100);
ANALYZE t;

CREATE VIEW kept AS
	WITH all_contexts AS (SELECT * FROM pg_backend_memory_contexts)
	SELECT (SELECT count(*) FROM leanstore_plan_cache) AS plans,
		(SELECT count(*) FROM leanstore_executor_cache) AS states,
		sum(below.total_bytes) AS bytes
	FROM all_contexts above JOIN all_contexts below
		ON below.path[above.level] = above.path[above.level] AND below.level > above.level
	WHERE above.name IN ('leanstore plans', 'leanstore executor states')
		AND below.name <> above.name;

-- 60 prepared statements, and as many that are not.
SET plan_cache_mode = force_generic_plan;
\o /dev/null
SELECT format('PREPARE p%s AS SELECT c%s FROM t WHERE id = $1', n, n)
	FROM generate_series(1, 60) n \gexec
SET leanstore_accel.kept_memory = '256kB';
SELECT format('EXECUTE p%s(%s)', n, m) FROM generate_series(1, 60) n, generate_series(1, 3) m \gexec
SELECT format('SELECT c%s FROM t WHERE id = %s', n, m)
	FROM generate_series(1, 60) n, generate_series(1, 3) m \gexec
\o
SELECT plans BETWEEN 2 AND 40 AS plans, states BETWEEN 2 AND 20 AS states,
	bytes BETWEEN 100000 AND 256 * 1024 AS bytes FROM kept;

SET leanstore_accel.kept_memory = '100MB';
\o /dev/null
SELECT format('EXECUTE p%s(%s)', n, m) FROM generate_series(1, 60) n, generate_series(1, 3) m \gexec
SELECT format('SELECT c%s FROM t WHERE id = %s', n, m)
	FROM generate_series(1, 60) n, generate_series(1, 3) m \gexec
\o
SELECT plans > 0 AS plans, states >= 60 AS states, bytes > 1024 * 1024 AS bytes FROM kept;

-- Less: what was not used for longest goes.
SET leanstore_accel.kept_memory = '64kB';
\o /dev/null
EXECUTE p1(1);
SELECT c1 FROM t WHERE id = 1;
\o
SELECT plans < 30 AS plans, states < 5 AS states, bytes < 100000 AS bytes FROM kept;
EXECUTE p1(1);
SELECT c1 FROM t WHERE id = 1;
DEALLOCATE ALL;
DROP SCHEMA kept_memory CASCADE;
