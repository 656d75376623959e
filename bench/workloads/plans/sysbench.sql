-- sysbench's tables (one of 100,000 rows) and the queries of its oltp scripts.
CREATE TABLE sbtest1 (id int PRIMARY KEY, k int NOT NULL DEFAULT 0, c char(120) NOT NULL
	DEFAULT '',
	pad char(60) NOT NULL DEFAULT '');
INSERT INTO sbtest1 SELECT i, (i::bigint * 7919) % 100000, md5(i::text), md5('pad' || i)
	FROM generate_series(1, 100000) i;
CREATE INDEX k_1 ON sbtest1 (k);
VACUUM ANALYZE sbtest1;
SELECT c FROM sbtest1 WHERE id = 50123;
SELECT c FROM sbtest1 WHERE id BETWEEN 50123 AND 50222;
SELECT sum(k) FROM sbtest1 WHERE id BETWEEN 50123 AND 50222;
SELECT c FROM sbtest1 WHERE id BETWEEN 50123 AND 50222 ORDER BY c;
SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 50123 AND 50222 ORDER BY c;
SELECT count(k) FROM sbtest1 WHERE k BETWEEN 50000 AND 50100 OR k BETWEEN 60000 AND 60100
	OR k BETWEEN 70000 AND 70100;
SELECT id, k, c, pad FROM sbtest1 WHERE k IN (1, 5000, 20000, 30000, 40000, 50000, 60000,
	70000, 80000, 90000);
UPDATE sbtest1 SET k = k + 1 WHERE id = 50123;
UPDATE sbtest1 SET c = 'other' WHERE id = 50123;
DELETE FROM sbtest1 WHERE id = 50123;
PREPARE point (int) AS SELECT c FROM sbtest1 WHERE id = $1;
PREPARE range (int, int) AS SELECT c FROM sbtest1 WHERE id BETWEEN $1 AND $2;
PREPARE sorted (int, int) AS SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c;
PREPARE sums (int, int) AS SELECT sum(k) FROM sbtest1 WHERE id BETWEEN $1 AND $2;
SET plan_cache_mode = force_generic_plan;
EXECUTE point(50123);
EXECUTE range(50123, 50222);
EXECUTE sorted(50123, 50222);
EXECUTE sums(50123, 50222);
