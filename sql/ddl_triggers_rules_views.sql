-- Triggers of every kind, transition tables, rules, views.
SET default_table_access_method = leanstore;
CREATE SCHEMA ddl_triggers_rules_views;
SET search_path = ddl_triggers_rules_views, public;

CREATE TABLE t (id int PRIMARY KEY, v int, note text);
CREATE TABLE log (n serial, what text);
CREATE FUNCTION log_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log (what)
		VALUES (concat_ws(' ', TG_ARGV[0], TG_WHEN, TG_OP,
			CASE WHEN TG_OP <> 'INSERT' THEN OLD::text END,
			CASE WHEN TG_OP <> 'DELETE' THEN NEW::text END));
	RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE FUNCTION log_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO log (what)
		VALUES (concat_ws(' ', TG_WHEN, TG_OP, 'statement', (SELECT count(*) FROM t)));
	RETURN NULL;
END $$;
CREATE TRIGGER a_before BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW
	EXECUTE FUNCTION log_row('row');
CREATE TRIGGER b_after AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW
	EXECUTE FUNCTION log_row('row');
CREATE TRIGGER c_of AFTER UPDATE OF v ON t FOR EACH ROW WHEN (OLD.v IS DISTINCT FROM NEW.v)
	EXECUTE FUNCTION log_row('of v');
CREATE TRIGGER d_before BEFORE INSERT OR UPDATE OR DELETE ON t EXECUTE FUNCTION log_statement();
CREATE TRIGGER e_after AFTER INSERT OR UPDATE OR DELETE ON t EXECUTE FUNCTION log_statement();
INSERT INTO t VALUES (1, 10, 'one');
UPDATE t SET v = v + 1;
UPDATE t SET note = 'uno';
UPDATE t SET id = 2;
UPDATE t SET id = 3 WHERE id = 99;
DELETE FROM t;
SELECT what FROM log ORDER BY n;
TRUNCATE log;
BEGIN; INSERT INTO t VALUES (5, 5); SAVEPOINT s; UPDATE t SET v = 6; ROLLBACK TO s; COMMIT;
SELECT what FROM log ORDER BY n;
DELETE FROM t;
DROP TRIGGER a_before ON t;
DROP TRIGGER b_after ON t;
DROP TRIGGER c_of ON t;
DROP TRIGGER d_before ON t;
DROP TRIGGER e_after ON t;
TRUNCATE log;

-- A BEFORE trigger changes the row, its key, or skips it.
CREATE FUNCTION change_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN RETURN CASE WHEN OLD.note = 'locked' THEN NULL ELSE OLD END; END IF;
	IF NEW.note = 'skip' THEN RETURN NULL; END IF;
	IF NEW.note = 'move' THEN NEW.id := NEW.id + 100; END IF;
	NEW.v := coalesce(NEW.v, 0) + 1;
	RETURN NEW;
END $$;
CREATE TRIGGER change BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW
	EXECUTE FUNCTION change_row();
INSERT INTO t VALUES (1, 1, ''), (2, 2, 'skip'), (3, 3, 'move'), (4, 4, 'locked');
SELECT * FROM t ORDER BY id;
UPDATE t SET note = 'move' WHERE id = 1 RETURNING *;
UPDATE t SET note = 'skip' WHERE id = 4 RETURNING *;
DELETE FROM t WHERE id = 4 RETURNING *;
DELETE FROM t WHERE id = 101 RETURNING *;
SELECT * FROM t ORDER BY id;
DROP TRIGGER change ON t;

-- Triggers that change the very row, or other rows of the table.
CREATE FUNCTION touch_self() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.note = 'before' THEN UPDATE t SET v = v + 1000 WHERE id = NEW.id; END IF;
	IF NEW.note = 'delete' THEN DELETE FROM t WHERE id = NEW.id; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER touch BEFORE UPDATE ON t FOR EACH ROW WHEN (pg_trigger_depth() = 0)
	EXECUTE FUNCTION touch_self();
UPDATE t SET note = 'before' WHERE id = 4;
UPDATE t SET note = 'delete' WHERE id = 4;
SELECT * FROM t WHERE id = 4;
DROP TRIGGER touch ON t;
CREATE FUNCTION touch_others() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE t SET v = v + 1 WHERE id <> NEW.id;
	INSERT INTO t VALUES (NEW.id + 1000, 0, 'child') ON CONFLICT DO NOTHING;
	RETURN NULL;
END $$;
CREATE TRIGGER touch AFTER UPDATE ON t FOR EACH ROW WHEN (pg_trigger_depth() = 0)
	EXECUTE FUNCTION touch_others();
UPDATE t SET v = 0 WHERE id = 4;
SELECT id, v, note FROM t ORDER BY id;
DROP TRIGGER touch ON t;

-- Transition tables: many rows, changed keys, both images, of MERGE, of cascades.
TRUNCATE t;
CREATE FUNCTION log_tables() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE o text; n text;
BEGIN
	IF TG_OP <> 'INSERT' THEN
		SELECT count(*) || ' old, ids ' || sum(id) || ', v ' || sum(v) INTO o FROM old_rows;
	END IF;
	IF TG_OP <> 'DELETE' THEN
		SELECT count(*) || ' new, ids ' || sum(id) || ', v ' || sum(v) INTO n FROM new_rows;
	END IF;
	INSERT INTO log (what) VALUES (concat_ws(' ', TG_OP, o, n));
	RETURN NULL;
END $$;
CREATE TRIGGER ins AFTER INSERT ON t REFERENCING NEW TABLE AS new_rows
	EXECUTE FUNCTION log_tables();
CREATE TRIGGER upd AFTER UPDATE ON t REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
	EXECUTE FUNCTION log_tables();
CREATE TRIGGER del AFTER DELETE ON t REFERENCING OLD TABLE AS old_rows
	EXECUTE FUNCTION log_tables();
INSERT INTO t SELECT i, i, 'n' FROM generate_series(1, 100) i;
UPDATE t SET v = v + 1;
UPDATE t SET id = id + 1000 WHERE id > 90;
UPDATE t SET note = repeat('wide', 1000) WHERE id < 10;
INSERT INTO t VALUES (1, 7), (500, 7) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
MERGE INTO t USING generate_series(1, 4) s ON t.id = s WHEN MATCHED AND s < 3 THEN DELETE
	WHEN MATCHED THEN UPDATE SET v = 0;
DELETE FROM t WHERE id > 50;
DELETE FROM t WHERE id < 0;
SELECT what FROM log ORDER BY n;
TRUNCATE log;
-- Deferred constraint triggers see the row as it was changed.
CREATE CONSTRAINT TRIGGER deferred AFTER UPDATE ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
	EXECUTE FUNCTION log_row('deferred');
BEGIN;
UPDATE t SET v = 1 WHERE id = 20;
UPDATE t SET v = 2 WHERE id = 20;
UPDATE t SET id = 2000 WHERE id = 20;
DELETE FROM t WHERE id = 2000;
SELECT count(*) FROM log WHERE what LIKE 'deferred%';
COMMIT;
SELECT what FROM log WHERE what LIKE 'deferred%' ORDER BY n;
-- Row security hides and refuses.
CREATE ROLE regress_ls_reader;
CREATE TABLE secret (id int, owner text);
INSERT INTO secret VALUES (1, 'regress_ls_reader'), (2, 'other');
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secret USING (owner = current_user);
GRANT ALL ON secret TO regress_ls_reader;
GRANT USAGE ON SCHEMA ddl_triggers_rules_views TO regress_ls_reader;
SET ROLE regress_ls_reader;
SELECT * FROM secret;
UPDATE secret SET id = id + 10 RETURNING *;
INSERT INTO secret VALUES (3, 'other');
DELETE FROM secret RETURNING id;
RESET ROLE;
SELECT * FROM secret;
DROP TABLE secret;
REVOKE ALL ON SCHEMA ddl_triggers_rules_views FROM regress_ls_reader;
DROP ROLE regress_ls_reader;

-- Views: updatable, with check option, with INSTEAD OF triggers; rules.
TRUNCATE t;
DROP TRIGGER ins ON t; DROP TRIGGER upd ON t; DROP TRIGGER del ON t; DROP TRIGGER deferred ON t;
INSERT INTO t SELECT i, i * 10, NULL FROM generate_series(1, 5) i;
CREATE VIEW small AS SELECT id, v FROM t WHERE v < 40 WITH CHECK OPTION;
UPDATE small SET v = v + 1 WHERE id = 1 RETURNING *;
UPDATE small SET v = 100 WHERE id = 1;
UPDATE small SET v = 0 WHERE id = 5;
INSERT INTO small VALUES (6, 6);
DELETE FROM small WHERE id = 2;
SELECT * FROM small ORDER BY id;
SELECT id FROM small WHERE id = 3 FOR UPDATE;
CREATE VIEW joined AS SELECT a.id, a.v, b.v AS prior FROM t a JOIN t b ON b.id = a.id - 1;
CREATE FUNCTION change_joined() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	UPDATE t SET v = NEW.v WHERE id = OLD.id;
	UPDATE t SET v = NEW.prior WHERE id = OLD.id - 1;
	RETURN NEW;
END $$;
CREATE TRIGGER instead INSTEAD OF UPDATE ON joined FOR EACH ROW EXECUTE FUNCTION change_joined();
UPDATE joined SET prior = -1 WHERE id = 4;
SELECT * FROM joined ORDER BY id;
CREATE RULE also AS ON UPDATE TO t DO ALSO INSERT INTO log (what)
	VALUES ('rule ' || OLD.id || ' ' || NEW.v);
CREATE RULE instead AS ON DELETE TO t DO INSTEAD UPDATE t SET note = 'deleted' WHERE id = OLD.id;
DELETE FROM t WHERE id = 3;
UPDATE t SET v = v + 1 WHERE id = 4;
SELECT * FROM t ORDER BY id;
SELECT what FROM log WHERE what LIKE 'rule%' ORDER BY n;

-- Nothing is damaged.
DO $$ BEGIN PERFORM leanstore_check(c.oid) FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'leanstore' AND c.relkind IN ('r', 'm', 't')
	AND NOT pg_is_other_temp_schema(c.relnamespace);
END $$;
