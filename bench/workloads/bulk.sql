--- count and sum
-- with max_parallel_workers_per_gather = 0
SELECT count(*), sum(abalance) FROM account;

--- count and sum, one worker
-- with max_parallel_workers_per_gather = 1, parallel_leader_participation = off
SELECT count(*), sum(abalance) FROM account;

--- count and sum, two workers
-- with max_parallel_workers_per_gather = 2, parallel_leader_participation = off
SELECT count(*), sum(abalance) FROM account;

--- COPY FROM
-- reset
DROP TABLE IF EXISTS copied;
CREATE TABLE copied (LIKE account);
-- timed
COPY copied FROM '{work}/account';

--- COPY FROM with a primary key
-- reset
DROP TABLE IF EXISTS copied;
CREATE TABLE copied (LIKE account, PRIMARY KEY (aid));
-- timed
COPY copied FROM '{work}/account';

--- COPY TO
COPY account TO '/dev/null';
