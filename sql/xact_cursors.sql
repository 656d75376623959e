-- Cursors: directions, holding, positioned changes, and what an open one sees.
SET default_table_access_method = leanstore;
CREATE SCHEMA xact_cursors;
SET search_path = xact_cursors, public;

CREATE TABLE cur (id int PRIMARY KEY, v int, pad text);
INSERT INTO cur SELECT i, i * 10, repeat('c', 200) FROM generate_series(1, 60) i;

-- An open cursor does not see later changes of its own transaction.
BEGIN;
DECLARE before CURSOR FOR SELECT count(*), sum(v), min(id), max(id) FROM cur;
DECLARE rows CURSOR FOR SELECT id, v FROM cur WHERE id < 6 ORDER BY id;
DECLARE plain CURSOR FOR SELECT id, v FROM cur;
FETCH 2 FROM rows;
MOVE 1 FROM plain;
UPDATE cur SET v = -1 WHERE id <= 5;
DELETE FROM cur WHERE id = 4;
INSERT INTO cur VALUES (0, 0, 'new'), (61, 0, 'new');
UPDATE cur SET id = id + 100 WHERE id = 5;
DECLARE after CURSOR FOR SELECT count(*), sum(v), min(id), max(id) FROM cur;
FETCH ALL FROM rows;
FETCH ALL FROM before;
FETCH ALL FROM after;
MOVE ALL FROM plain;
ROLLBACK;

-- Nor after a savepoint is rolled back below it.
BEGIN;
SAVEPOINT s;
UPDATE cur SET v = 0;
ROLLBACK TO s;
DECLARE c CURSOR FOR SELECT sum(v) FROM cur;
SAVEPOINT t;
UPDATE cur SET v = 1;
ROLLBACK TO t;
FETCH c;
COMMIT;

-- Each statement sees the ones before it, a function's own query too.
CREATE FUNCTION count_now() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN RETURN (SELECT count(*) FROM cur); END $$;
CREATE FUNCTION count_then() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN RETURN (SELECT count(*) FROM cur); END $$;
CREATE TABLE counts (n int, now bigint, statement bigint);
INSERT INTO counts SELECT i, count_now(), count_then() FROM generate_series(1, 3) i;
BEGIN;
WITH del AS (DELETE FROM cur WHERE id = 60 RETURNING id)
	SELECT id, (SELECT count(*) FROM cur) AS same_statement FROM del;
SELECT count_now(), count_then();
ROLLBACK;
SELECT * FROM counts ORDER BY n;

-- SCROLL by sequential scan: the order is not promised, but is the same in both
-- directions, and stays so when the transaction changes the rows.
DO $$
DECLARE
	c SCROLL CURSOR FOR SELECT id FROM cur;
	forth int[];
	back int[];
	again int[];
	i int;
BEGIN
	OPEN c;
	LOOP FETCH NEXT FROM c INTO i; EXIT WHEN NOT FOUND; forth := forth || i; END LOOP;
	LOOP FETCH PRIOR FROM c INTO i; EXIT WHEN NOT FOUND; back := i || back; END LOOP;
	ASSERT (SELECT array_agg(x ORDER BY x) FROM unnest(forth) x)
		= (SELECT array_agg(x) FROM generate_series(1, 60) x), 'all rows';
	ASSERT forth = back, 'both directions';
	FETCH NEXT FROM c INTO i;
	ASSERT i = forth[1], 'first after turning round';
	FETCH PRIOR FROM c INTO i;
	ASSERT NOT FOUND, 'before the first';
	FETCH ABSOLUTE 30 FROM c INTO i;
	ASSERT i = forth[30], 'absolute';
	FETCH RELATIVE -5 FROM c INTO i;
	ASSERT i = forth[25], 'relative';
	FETCH RELATIVE 0 FROM c INTO i;
	ASSERT i = forth[25], 'the same again';
	UPDATE cur SET v = v + 1;
	DELETE FROM cur WHERE id BETWEEN 2 AND 50;
	INSERT INTO cur SELECT x, 0, 'new' FROM generate_series(100, 300) x;
	FETCH LAST FROM c INTO i;
	ASSERT i = forth[60], 'last after changes';
	FETCH NEXT FROM c INTO i;
	ASSERT NOT FOUND, 'behind the last';
	FETCH PRIOR FROM c INTO i;
	ASSERT i = forth[60], 'last again';
	MOVE FIRST FROM c;
	again := ARRAY[forth[1]];
	LOOP FETCH NEXT FROM c INTO i; EXIT WHEN NOT FOUND; again := again || i; END LOOP;
	ASSERT again = forth, 'forward after changes';
	again := '{}';
	LOOP FETCH PRIOR FROM c INTO i; EXIT WHEN NOT FOUND; again := i || again; END LOOP;
	ASSERT again = forth, 'backward after changes';
	RAISE EXCEPTION 'undo the changes';
EXCEPTION WHEN raise_exception THEN NULL;
END $$;
SELECT count(*), sum(v) FROM cur;
-- SCROLL by index: forward, backward, absolute, over both ends.
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
DECLARE idx SCROLL CURSOR FOR SELECT id FROM cur WHERE id > 0 ORDER BY id DESC;
FETCH 3 FROM idx;
FETCH BACKWARD 2 FROM idx;
FETCH LAST FROM idx;
FETCH BACKWARD 2 FROM idx;
FETCH ABSOLUTE -1 FROM idx;
FETCH NEXT FROM idx;
FETCH BACKWARD 2 FROM idx;
DELETE FROM cur WHERE id BETWEEN 2 AND 50;
UPDATE cur SET id = id + 100 WHERE id > 50;
FETCH ABSOLUTE 30 FROM idx;
FETCH RELATIVE -5 FROM idx;
FETCH RELATIVE 0 FROM idx;
FETCH FIRST FROM idx;
FETCH PRIOR FROM idx;
FETCH FORWARD 2 FROM idx;
ROLLBACK;

-- WITH HOLD outlives its transaction with the rows it had.
BEGIN;
DECLARE held SCROLL CURSOR WITH HOLD FOR SELECT id, v FROM cur WHERE id <= 5 ORDER BY id;
FETCH 1 FROM held;
UPDATE cur SET v = v + 1 WHERE id <= 5;
COMMIT;
DELETE FROM cur WHERE id = 2;
UPDATE cur SET v = 0 WHERE id = 3;
FETCH ALL FROM held;
FETCH FIRST FROM held;
CLOSE held;
SELECT id, v FROM cur WHERE id <= 5 ORDER BY id;

-- WHERE CURRENT OF: update and delete, sequential and by index, after other changes.
CREATE TABLE pos (id int PRIMARY KEY, v int);
INSERT INTO pos SELECT i, 0 FROM generate_series(1, 10) i;
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM pos WHERE id IN (3, 4);
FETCH 1 FROM c \gset first_
UPDATE pos SET v = v + 1 WHERE CURRENT OF c RETURNING v;
UPDATE pos SET v = v + 10 WHERE CURRENT OF c RETURNING v;
FETCH 1 FROM c \gset second_
DELETE FROM pos WHERE CURRENT OF c RETURNING v;
DELETE FROM pos WHERE CURRENT OF c RETURNING v;
FETCH 1 FROM c;
UPDATE pos SET v = 100 WHERE CURRENT OF c;
ROLLBACK;
SELECT least(:first_id, :second_id), greatest(:first_id, :second_id);
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM pos WHERE id = 3;
FETCH 1 FROM c;
UPDATE pos SET v = v + 1 WHERE CURRENT OF c RETURNING *;
UPDATE pos SET v = v + 10 WHERE CURRENT OF c RETURNING *;
UPDATE pos SET id = 33 WHERE CURRENT OF c RETURNING *;
UPDATE pos SET v = v + 100 WHERE CURRENT OF c RETURNING *;
DELETE FROM pos WHERE CURRENT OF c RETURNING *;
COMMIT;
BEGIN;
DECLARE u CURSOR FOR SELECT * FROM pos ORDER BY id DESC FOR UPDATE;
FETCH 2 FROM u;
UPDATE pos SET v = id * 2 WHERE CURRENT OF u;
FETCH 1 FROM u;
DELETE FROM pos WHERE CURRENT OF u;
COMMIT;
SELECT * FROM pos ORDER BY id;

-- Loops that change what they read.
DO $$
DECLARE r record; c CURSOR FOR SELECT * FROM cur ORDER BY id FOR UPDATE;
BEGIN
	FOR r IN c LOOP
		IF r.id % 2 = 0 THEN DELETE FROM cur WHERE CURRENT OF c;
		ELSE UPDATE cur SET v = r.id WHERE CURRENT OF c; END IF;
	END LOOP;
	FOR r IN SELECT * FROM cur LOOP
		INSERT INTO cur VALUES (r.id + 1000, r.v, 'copy');
		UPDATE cur SET v = v + 1 WHERE id = r.id;
	END LOOP;
END $$;
SELECT count(*), sum(v), count(*) FILTER (WHERE pad = 'copy') AS copies FROM cur;
SELECT count(*) AS wrong FROM cur
	WHERE (v = CASE WHEN pad = 'copy' THEN id - 1000 ELSE id + 1 END) IS NOT TRUE;

-- Several cursors at different places of one table, interleaved.
BEGIN;
DECLARE a CURSOR FOR SELECT id FROM cur WHERE id < 1000 ORDER BY id;
DECLARE b CURSOR FOR SELECT id FROM cur WHERE id < 1000 ORDER BY id DESC;
FETCH 2 FROM a;
FETCH 2 FROM b;
SAVEPOINT s;
DELETE FROM cur;
DECLARE empty CURSOR FOR SELECT id FROM cur;
FETCH empty;
FETCH 1 FROM a;
ROLLBACK TO s;
FETCH 1 FROM a;
FETCH 1 FROM b;
FETCH empty;
ROLLBACK;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
