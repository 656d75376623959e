/* leanstore_leap--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION leanstore_leap" to load this file. \quit

-- Where there is leanstore the module's own tables are of it: a hand-over is a commit of one log.
SELECT pg_catalog.set_config('default_table_access_method', 'leanstore', true)
    FROM pg_catalog.pg_am WHERE amname = 'leanstore';

-- --- What a node knows ---

CREATE TABLE self (id int NOT NULL);
CREATE UNIQUE INDEX one_self ON self ((true));
COMMENT ON TABLE self IS 'this node: one row';

CREATE TABLE node (
    id int PRIMARY KEY CHECK (id BETWEEN 1 AND 1023),
    name text NOT NULL UNIQUE,
    conninfo text NOT NULL);
COMMENT ON TABLE node IS 'all nodes; the same on each';

CREATE TABLE family (
    id int PRIMARY KEY,
    name text NOT NULL UNIQUE,
    home_columns int,
    frozen_since timestamptz);
COMMENT ON TABLE family IS 'sets of tables that share a key; the same on each node';

CREATE TABLE member (
    family int NOT NULL REFERENCES family ON DELETE CASCADE,
    ordinal int NOT NULL,
    relation regclass NOT NULL UNIQUE,
    columns text[] NOT NULL,
    PRIMARY KEY (family, ordinal));
COMMENT ON TABLE member IS 'tables of families, parents first, and the columns of the key';

CREATE TABLE bucket (
    family int NOT NULL REFERENCES family ON DELETE CASCADE,
    bucket int NOT NULL,
    node int NOT NULL REFERENCES node,
    PRIMARY KEY (family, bucket));
COMMENT ON TABLE bucket IS 'the home of keys, by hash; the same on each node';

CREATE TABLE key (
    family int NOT NULL,
    key text NOT NULL,
    owner int NOT NULL,
    epoch bigint NOT NULL,
    told boolean NOT NULL,
    since timestamptz NOT NULL,
    payload text[],
    PRIMARY KEY (family, key));
CREATE INDEX untold ON key (family, key) WHERE NOT told;
CREATE INDEX in_flight ON key (family, key) WHERE payload IS NOT NULL;
COMMENT ON TABLE key IS 'keys that are not simply at home, and their owners as far as known';

SELECT pg_catalog.pg_extension_config_dump('self', '');
SELECT pg_catalog.pg_extension_config_dump('node', '');
SELECT pg_catalog.pg_extension_config_dump('family', '');
SELECT pg_catalog.pg_extension_config_dump('member', '');
SELECT pg_catalog.pg_extension_config_dump('bucket', '');
SELECT pg_catalog.pg_extension_config_dump('key', '');

-- --- In C ---

CREATE FUNCTION own("table" regclass, keys text[]) RETURNS int
AS 'MODULE_PATHNAME', 'leap_own_keys' LANGUAGE C STRICT VOLATILE;
COMMENT ON FUNCTION own IS 'this transaction owns these keys from here on';

CREATE FUNCTION own_of_family(family int, keys text[]) RETURNS int
AS 'MODULE_PATHNAME', 'leap_own_of_family' LANGUAGE C STRICT VOLATILE;

CREATE FUNCTION home(family int, key text) RETURNS int
AS 'MODULE_PATHNAME', 'leap_home_of' LANGUAGE C STRICT STABLE;

CREATE FUNCTION bucket_of(family int, key text) RETURNS int
AS 'MODULE_PATHNAME', 'leap_bucket_of' LANGUAGE C STRICT STABLE;

CREATE FUNCTION changed() RETURNS void
AS 'MODULE_PATHNAME' , 'leap_changed' LANGUAGE C STRICT VOLATILE;

CREATE FUNCTION call(node int, sql text, params text[] DEFAULT '{}') RETURNS text[]
AS 'MODULE_PATHNAME', 'leap_call' LANGUAGE C STRICT VOLATILE;

CREATE FUNCTION try_lock(family int, key text) RETURNS boolean
AS 'MODULE_PATHNAME', 'leap_try_lock' LANGUAGE C STRICT VOLATILE;

CREATE FUNCTION guard() RETURNS trigger
AS 'MODULE_PATHNAME', 'leap_guard' LANGUAGE C VOLATILE;

CREATE FUNCTION counters(OUT name text, OUT value bigint) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'leap_counters' LANGUAGE C STRICT VOLATILE;

CREATE FUNCTION waits(OUT pid int, OUT hash bigint, OUT transaction_start timestamptz,
    OUT node int, OUT since timestamptz) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'leap_waits' LANGUAGE C STRICT VOLATILE;

CREATE FUNCTION set_fault(step text, pause_ms int) RETURNS void
AS 'MODULE_PATHNAME', 'leap_set_fault' LANGUAGE C STRICT VOLATILE;

CREATE FUNCTION cut(node int, is_cut_off boolean) RETURNS void
AS 'MODULE_PATHNAME', 'leap_cut' LANGUAGE C STRICT VOLATILE;

-- --- Messages between nodes ---

-- The keys of a family that a node wants: outcome g (given, with its rows), o (another node owns
-- it), u (unknown here: ask its home).  told: since which epoch this node is said to own it.
CREATE FUNCTION peer_take(requester int, transaction bigint, family int, keys text[],
    told bigint[], OUT key text, OUT outcome text, OUT owner int, OUT epoch bigint,
    OUT payload text, OUT of_family int) RETURNS SETOF record
AS 'MODULE_PATHNAME', 'leap_peer_take' LANGUAGE C STRICT VOLATILE;

-- A node has come to own keys of which this is the home.  Returns those that it now knows of; a row
-- that a transaction is changing is left for the next time.
CREATE FUNCTION peer_inform(requester int, of_family int, keys text[], epochs bigint[])
RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WITH free AS (
        SELECT k.key, u.epoch
            FROM leap.key k JOIN unnest(keys, epochs) u (key, epoch) ON k.key = u.key
            WHERE k.family = of_family AND k.key = ANY (keys) AND (k.epoch < u.epoch
                OR k.epoch = u.epoch AND k.payload IS NOT NULL)
            FOR UPDATE OF k SKIP LOCKED)
    UPDATE leap.key k
        SET owner = requester, epoch = free.epoch, told = true, since = clock_timestamp(),
            payload = NULL
        FROM free WHERE k.family = of_family AND k.key = ANY (keys) AND k.key = free.key;
    RETURN QUERY
        SELECT k.key FROM leap.key k JOIN unnest(keys, epochs) u (key, epoch) ON k.key = u.key
            WHERE k.family = of_family AND k.key = ANY (keys) AND (k.epoch > u.epoch
                OR k.epoch = u.epoch AND k.payload IS NULL);
END $$;

-- Epochs that this node, the home, knows of keys.
CREATE FUNCTION peer_epochs(of_family int, keys text[]) RETURNS SETOF bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT coalesce((SELECT k.epoch FROM key k WHERE k.family = of_family AND k.key = u.key), 0)
        FROM pg_catalog.unnest(keys) WITH ORDINALITY u (key, place) ORDER BY place;
END;

-- Units were given to this node, and no transaction has taken them: it takes them now.
CREATE FUNCTION peer_come(of_family int, keys text[], epochs bigint[]) RETURNS int
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT own_of_family(of_family, ARRAY(SELECT u.key
        FROM ROWS FROM (pg_catalog.unnest(keys), pg_catalog.unnest(epochs)) u (key, epoch)
        WHERE NOT EXISTS (SELECT FROM key k
            WHERE k.family = of_family AND k.key = u.key AND k.epoch >= u.epoch)));
END;

CREATE FUNCTION peer_join(me int, nodes json) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM leap.self WHERE id <> me) THEN
        RAISE EXCEPTION 'this database is a node of a leap cluster already'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO leap.self VALUES (me) ON CONFLICT DO NOTHING;
    INSERT INTO leap.node SELECT * FROM json_populate_recordset(NULL::leap.node, nodes)
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, conninfo = excluded.conninfo;
    PERFORM leap.changed();
END $$;

-- --- Nodes ---

CREATE FUNCTION init(name text, conninfo text) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM leap.peer_join(1, json_build_array(json_build_object('id', 1, 'name', name,
        'conninfo', conninfo)));
    RETURN 1;
END $$;
COMMENT ON FUNCTION init IS 'this database becomes the first node of a cluster';

CREATE FUNCTION this_node() RETURNS int
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me int := (SELECT id FROM leap.self);
BEGIN
    IF me IS NULL THEN
        RAISE EXCEPTION 'this database is no node of a leap cluster'
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Call leap.init() here, or leap.add_node() on a node of the cluster.';
    END IF;
    RETURN me;
END $$;

-- All nodes know all nodes; the new one learns the families last.
CREATE FUNCTION add_node(new_name text, new_conninfo text) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me int := leap.this_node();
    new_id int;
    nodes text;
    other int;
    definition json;
BEGIN
    LOCK TABLE leap.node IN EXCLUSIVE MODE;
    SELECT max(id) + 1 INTO new_id FROM leap.node;
    INSERT INTO leap.node VALUES (new_id, new_name, new_conninfo);
    SELECT json_agg(n)::text INTO nodes FROM leap.node n;
    FOR other IN SELECT id FROM leap.node WHERE id <> me ORDER BY id LOOP
        PERFORM leap.call(other, 'SELECT leap.peer_join($1::int, $2::json)',
            ARRAY[other::text, nodes]);
    END LOOP;
    FOR definition IN SELECT leap.definition(id) FROM leap.family ORDER BY id LOOP
        PERFORM leap.call(new_id, 'SELECT leap.peer_create($1::json)', ARRAY[definition::text]);
    END LOOP;
    PERFORM leap.changed();
    RETURN new_id;
END $$;
COMMENT ON FUNCTION add_node IS 'another database, with the extension in it, joins the cluster';

CREATE FUNCTION set_node(of_name text, new_conninfo text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me int := leap.this_node();
    other int;
    nodes text;
BEGIN
    UPDATE leap.node SET conninfo = new_conninfo WHERE name = of_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no leap node "%"', of_name USING ERRCODE = 'undefined_object';
    END IF;
    PERFORM leap.changed();
    SELECT json_agg(n)::text INTO nodes FROM leap.node n;
    FOR other IN SELECT id FROM leap.node WHERE id <> me ORDER BY id LOOP
        PERFORM leap.call(other, 'SELECT leap.peer_join($1::int, $2::json)',
            ARRAY[other::text, nodes]);
    END LOOP;
END $$;
COMMENT ON FUNCTION set_node IS 'a node has another address: tells all of them';

-- --- Tables ---

-- What a table has to be like on all nodes.
CREATE FUNCTION signature(relation regclass) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN (SELECT pg_catalog.string_agg(pg_catalog.format('%I %s', attname,
            pg_catalog.format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
        FROM pg_catalog.pg_attribute
        WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped);

-- CREATE TABLE for another node.  Defaults that draw from a sequence, and identity, stay here: two
-- nodes would draw the same numbers.
CREATE FUNCTION table_ddl(relation regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns text;
    constraints text;
    indexes text;
    method text;
BEGIN
    SELECT string_agg(format('%I %s%s%s%s', attname, format_type(atttypid, atttypmod),
            CASE WHEN attcollation <> typcollation THEN format(' COLLATE %s',
                attcollation::regcollation) END,
            CASE WHEN attgenerated <> '' THEN format(' GENERATED ALWAYS AS (%s)%s',
                    pg_get_expr(adbin, adrelid), CASE attgenerated WHEN 's' THEN ' STORED' END)
                WHEN pg_get_expr(adbin, adrelid) NOT LIKE '%nextval(%' THEN
                    ' DEFAULT ' || pg_get_expr(adbin, adrelid) END,
            CASE WHEN attnotnull THEN ' NOT NULL' END), ', ' ORDER BY attnum)
        INTO columns
        FROM pg_attribute JOIN pg_type t ON t.oid = atttypid
            LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped;
    SELECT string_agg(format(', CONSTRAINT %I %s', conname, pg_get_constraintdef(c.oid)), ''
            ORDER BY contype DESC, conname)
        INTO constraints FROM pg_constraint c
        WHERE conrelid = relation AND contype IN ('p', 'u', 'c');
    SELECT string_agg('; ' || pg_get_indexdef(indexrelid), '')
        INTO indexes FROM pg_index
        WHERE indrelid = relation
            AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid);
    SELECT amname INTO method FROM pg_class c JOIN pg_am a ON a.oid = relam
        WHERE c.oid = relation;
    RETURN format('CREATE TABLE %s (%s%s) USING %I%s', leap.full_name(relation), columns,
        constraints, method, indexes);
END $$;

CREATE FUNCTION full_name(relation regclass) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN (SELECT pg_catalog.format('%I.%I', nspname, relname) FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation);

-- Foreign keys between tables of one family.
CREATE FUNCTION foreign_keys(relation regclass, tables regclass[]) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN (SELECT pg_catalog.array_agg(pg_catalog.format('ALTER TABLE %s ADD CONSTRAINT %I %s',
            leap.full_name(relation), conname, pg_catalog.pg_get_constraintdef(oid)))
        FROM pg_catalog.pg_constraint
        WHERE conrelid = relation AND contype = 'f' AND confrelid = ANY (tables));

-- A family as other nodes are told of it.
CREATE FUNCTION definition(of_family int) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
RETURN (SELECT pg_catalog.json_build_object('id', f.id, 'name', f.name,
            'home_columns', f.home_columns,
            'buckets', (SELECT pg_catalog.json_agg(node ORDER BY bucket) FROM leap.bucket b
                WHERE b.family = f.id),
            'columns', (SELECT pg_catalog.to_json(columns) FROM leap.member m
                WHERE m.family = f.id LIMIT 1),
            'tables', (SELECT pg_catalog.json_agg(pg_catalog.json_build_object(
                    'name', leap.full_name(relation), 'signature', leap.signature(relation),
                    'ddl', leap.table_ddl(relation),
                    'foreign_keys', leap.foreign_keys(relation,
                        (SELECT pg_catalog.array_agg(o.relation) FROM leap.member o
                         WHERE o.family = f.id))) ORDER BY ordinal)
                FROM leap.member m WHERE m.family = f.id))
        FROM leap.family f WHERE f.id = of_family);

-- Makes a family known to this node: its triggers come last.
CREATE FUNCTION register(definition json) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    new_id int := definition ->> 'id';
    entry json;
    relation regclass;
    place int := 0;
BEGIN
    INSERT INTO leap.family (id, name, home_columns)
        VALUES (new_id, definition ->> 'name', (definition ->> 'home_columns')::int);
    INSERT INTO leap.bucket SELECT new_id, ordinality - 1, value::int
        FROM json_array_elements_text(definition -> 'buckets') WITH ORDINALITY;
    FOR entry IN SELECT * FROM json_array_elements(definition -> 'tables') LOOP
        relation := (entry ->> 'name')::regclass;
        INSERT INTO leap.member VALUES (new_id, place, relation,
            ARRAY(SELECT json_array_elements_text(definition -> 'columns')));
        place := place + 1;
        EXECUTE format('CREATE TRIGGER "~leap_guard" BEFORE INSERT ON %s FOR EACH ROW'
            ' EXECUTE FUNCTION leap.guard()', relation);
        EXECUTE format('CREATE TRIGGER "~leap_guard_truncate" BEFORE TRUNCATE ON %s'
            ' FOR EACH STATEMENT EXECUTE FUNCTION leap.guard()', relation);
    END LOOP;
    PERFORM leap.changed();
END $$;

-- Another node has made a family: its tables are made here, or found, alike and empty.
CREATE FUNCTION peer_create(definition json) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    entry json;
    command text;
    has_rows boolean;
BEGIN
    PERFORM leap.unregister(definition ->> 'name');
    FOR entry IN SELECT * FROM json_array_elements(definition -> 'tables') LOOP
        IF to_regclass(entry ->> 'name') IS NULL THEN
            EXECUTE entry ->> 'ddl';
            FOR command IN SELECT json_array_elements_text(entry -> 'foreign_keys')
                WHERE json_typeof(entry -> 'foreign_keys') = 'array' LOOP
                EXECUTE command;
            END LOOP;
        ELSIF leap.signature((entry ->> 'name')::regclass) <> entry ->> 'signature' THEN
            RAISE EXCEPTION 'table % is another one on this node', entry ->> 'name'
                USING ERRCODE = 'invalid_table_definition',
                    DETAIL = format('Here: %s. There: %s.',
                        leap.signature((entry ->> 'name')::regclass), entry ->> 'signature');
        END IF;
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', (entry ->> 'name')::regclass)
            INTO has_rows;
        IF has_rows THEN
            RAISE EXCEPTION 'table % has rows on this node', entry ->> 'name'
                USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = 'Only the node that calls leap.create() may have rows.';
        END IF;
    END LOOP;
    PERFORM leap.register(definition);
END $$;

-- Keys of rows that another node had when it made the family: it owns them, at epoch 1.
CREATE FUNCTION peer_load(of_owner int, of_family int, keys text[]) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    INSERT INTO key SELECT of_family, k, of_owner, 1, true, pg_catalog.now(), NULL
        FROM pg_catalog.unnest(keys) k ON CONFLICT DO NOTHING;
END;

CREATE FUNCTION unregister(of_name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old int := (SELECT id FROM leap.family WHERE name = of_name);
    relation regclass;
BEGIN
    FOR relation IN SELECT m.relation FROM leap.member m WHERE family = old LOOP
        EXECUTE format('DROP TRIGGER "~leap_guard" ON %s', relation);
        EXECUTE format('DROP TRIGGER "~leap_guard_truncate" ON %s', relation);
    END LOOP;
    DELETE FROM leap.key WHERE family = old;
    DELETE FROM leap.family WHERE id = old;
    PERFORM leap.changed();
END $$;

CREATE FUNCTION check_table(relation regclass, columns text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wrong text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_class WHERE oid = relation AND relkind = 'r'
            AND relpersistence = 'p' AND NOT relispartition AND NOT relhassubclass) THEN
        RAISE EXCEPTION 'leap tables are permanent tables without partitions and children'
            USING ERRCODE = 'wrong_object_type';
    END IF;
    IF EXISTS (SELECT FROM leap.member m WHERE m.relation = check_table.relation) THEN
        RAISE EXCEPTION '% is a leap table already', relation
            USING ERRCODE = 'duplicate_object';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_index WHERE indrelid = relation AND indisprimary
            AND columns <@ ARRAY(SELECT attname::text FROM pg_attribute
                WHERE attrelid = relation AND attnum = ANY (indkey))) THEN
        RAISE EXCEPTION 'the primary key of % has to contain the columns of the leap key', relation
            USING ERRCODE = 'invalid_table_definition';
    END IF;
    SELECT attname INTO wrong FROM pg_attribute LEFT JOIN pg_collation c ON c.oid = attcollation
        WHERE attrelid = relation AND attname = ANY (columns)
            AND (atttypid <> ALL ('{int2,int4,int8,text,varchar,uuid}'::regtype[])
                OR NOT collisdeterministic);
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'column % cannot be part of a leap key', wrong
            USING ERRCODE = 'feature_not_supported', HINT = 'Its type has to be smallint, integer,'
                ' bigint, text, varchar or uuid, its collation deterministic.';
    END IF;
END $$;

-- The keys of rows that are here, in the form that leap.key has.
CREATE FUNCTION keys_here(of_family int) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET leap.scans = local AS $$
DECLARE
    of_member record;
    expression text;
    column_text CONSTANT text := $f$regexp_replace(%I::text, '([,\\])', '\\\1', 'g')$f$;
BEGIN
    FOR of_member IN SELECT relation, columns FROM leap.member WHERE family = of_family LOOP
        SELECT CASE WHEN cardinality(of_member.columns) = 1 THEN format('%I::text', min(name))
                ELSE string_agg(format(column_text, name), $f$ || ',' || $f$ ORDER BY place) END
            INTO expression FROM unnest(of_member.columns) WITH ORDINALITY c (name, place);
        RETURN QUERY EXECUTE format('SELECT DISTINCT %s FROM %s', expression,
            of_member.relation);
    END LOOP;
END $$;

-- Tables that share the key columns, parents first: their rows with one key move together.
-- home_columns: keys of which so many columns agree have one home; of families with as many of
-- them, too.
CREATE FUNCTION create_family(new_name text, tables regclass[], columns text[],
    nodes text[] DEFAULT NULL, buckets int DEFAULT 64, home_columns int DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me int := leap.this_node();
    new_id int;
    homes int[];
    definition json;
    relation regclass;
    load record;
BEGIN
    LOCK TABLE leap.family IN EXCLUSIVE MODE;
    FOREACH relation IN ARRAY tables LOOP
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
        PERFORM leap.check_table(relation, columns);
    END LOOP;
    IF home_columns NOT BETWEEN 1 AND cardinality(columns) THEN
        RAISE EXCEPTION 'a key of % columns cannot have its home by %', cardinality(columns),
            home_columns USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT coalesce(max(id), 0) + 1 INTO new_id FROM leap.family;
    SELECT array_agg(id ORDER BY id) INTO homes FROM leap.node
        WHERE nodes IS NULL OR name = ANY (nodes);
    IF homes IS NULL OR cardinality(homes) <> cardinality(coalesce(nodes, homes::text[])) THEN
        RAISE EXCEPTION 'not all of these are leap nodes: %', nodes
            USING ERRCODE = 'undefined_object';
    END IF;
    definition := json_build_object('id', new_id, 'name', new_name, 'columns', columns,
        'home_columns', home_columns,
        'buckets', (SELECT json_agg(homes[1 + b % cardinality(homes)])
            FROM generate_series(0, buckets - 1) b),
        'tables', (SELECT json_agg(json_build_object('name', leap.full_name(t)) ORDER BY place)
            FROM unnest(tables) WITH ORDINALITY u (t, place)));
    PERFORM leap.register(definition);
    definition := leap.definition(new_id);
    PERFORM leap.call(id, 'SELECT leap.peer_create($1::json)', ARRAY[definition::text])
        FROM (SELECT id FROM leap.node WHERE id <> me ORDER BY id) others;
    FOR load IN SELECT leap.home(new_id, k) AS home, array_agg(DISTINCT k) AS keys
            FROM leap.keys_here(new_id) k GROUP BY 1 LOOP
        CONTINUE WHEN load.home = me;
        PERFORM leap.call(load.home, 'SELECT leap.peer_load($1::int, $2::int, $3::text[])',
            ARRAY[me::text, new_id::text, load.keys::text]);
        PERFORM leap.peer_load(me, new_id, load.keys);
    END LOOP;
END $$;
COMMENT ON FUNCTION create_family IS 'makes leap tables of tables that share a key, on all nodes';

CREATE FUNCTION "create"("table" regclass, nodes text[] DEFAULT NULL,
    home_columns int DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    columns text[];
BEGIN
    SELECT array_agg(attname ORDER BY place) INTO columns
        FROM pg_index, unnest(indkey) WITH ORDINALITY k (attnum, place)
            JOIN pg_attribute a USING (attnum)
        WHERE indrelid = "table" AND indisprimary AND attrelid = "table";
    IF columns IS NULL THEN
        RAISE EXCEPTION '% has no primary key', "table"
            USING ERRCODE = 'invalid_table_definition';
    END IF;
    PERFORM leap.create_family(leap.full_name("table"), ARRAY["table"], columns, nodes,
        home_columns => home_columns);
END $$;
COMMENT ON FUNCTION "create" IS 'makes a table a leap table, on all nodes';

-- Tables of a family become plain ones; each node keeps the rows that it has.
CREATE FUNCTION "drop"("table" regclass) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me int := leap.this_node();
    old text;
BEGIN
    SELECT name INTO old FROM leap.member m JOIN leap.family f ON f.id = m.family
        WHERE m.relation = "table";
    IF old IS NULL THEN
        RAISE EXCEPTION '% is no leap table', "table" USING ERRCODE = 'wrong_object_type';
    END IF;
    PERFORM leap.call(id, 'SELECT leap.peer_drop($1)', ARRAY[old])
        FROM leap.node WHERE id <> me;
    PERFORM leap.unregister(old);
END $$;
COMMENT ON FUNCTION "drop" IS 'the tables of a family are plain tables again, on all nodes';

CREATE FUNCTION peer_drop(of_name text) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT unregister(of_name);
END;

-- --- Calls that go to the keys ---

-- Runs a function with text arguments where its keys are owned, as this role, and as it alone: the
-- function cannot take another one.
CREATE FUNCTION peer_run(function text, args text[], of_family int, keys text[], as_role text)
RETURNS text
AS 'MODULE_PATHNAME', 'leap_peer_run' LANGUAGE C STRICT VOLATILE;

-- Owners of keys, as their home knows them.
CREATE FUNCTION peer_owners(of_family int, keys text[]) RETURNS SETOF int
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT coalesce((SELECT k.owner FROM key k WHERE k.family = of_family AND k.key = u.key),
            this_node())
        FROM pg_catalog.unnest(keys) WITH ORDINALITY u (key, place) ORDER BY place;
END;

-- The node that owns most of these keys, as far as this node and the keys' homes know.
CREATE FUNCTION majority(of_family int, keys text[]) RETURNS int
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me int := leap.this_node();
    owners int[];
    part record;
BEGIN
    SELECT array_agg(owner) INTO owners FROM leap.key WHERE family = of_family AND key = ANY (keys);
    FOR part IN SELECT leap.home(of_family, k) AS home, array_agg(k) AS keys FROM unnest(keys) k
            WHERE NOT EXISTS (SELECT FROM leap.key l WHERE l.family = of_family AND l.key = k)
            GROUP BY 1 LOOP
        IF part.home = me THEN
            owners := owners || array_fill(me, ARRAY[cardinality(part.keys)]);
        ELSE
            owners := owners || leap.call(part.home,
                'SELECT leap.peer_owners($1::int, $2::text[])',
                ARRAY[of_family::text, part.keys::text])::int[];
        END IF;
    END LOOP;
    RETURN (SELECT o FROM unnest(owners) o GROUP BY o ORDER BY count(*) DESC, o = me DESC LIMIT 1);
END $$;

-- Keys in their canonical form, and whether the call should go to them: some are not here, and
-- leap.delegation says so.
CREATE FUNCTION missing("table" regclass, keys text[], OUT family int, OUT all_keys text[],
    OUT should_call boolean) RETURNS record
AS 'MODULE_PATHNAME', 'leap_missing' LANGUAGE C STRICT VOLATILE;

CREATE FUNCTION own_for_call(family int, keys text[]) RETURNS int
AS 'MODULE_PATHNAME', 'leap_own_for_call' LANGUAGE C STRICT VOLATILE;

CREATE FUNCTION delegate(target int, function text, args text[], family int, keys text[])
RETURNS text
AS 'MODULE_PATHNAME', 'leap_delegate' LANGUAGE C STRICT VOLATILE;

-- A function with its keys: either they come here, and it runs in this transaction, or it runs
-- where they are, in a transaction of its own there.  leap.delegation chooses.
CREATE FUNCTION run(function regproc, args text[], "table" regclass, keys text[]) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    found_keys record;
    target int;
    result text;
    name text := (SELECT pg_catalog.format('%I.%I', nspname, proname) FROM pg_catalog.pg_proc p
        JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE p.oid = function);
BEGIN
    SELECT * INTO found_keys FROM leap.missing("table", keys);
    IF found_keys.should_call THEN
        target := leap.majority(found_keys.family, found_keys.all_keys);
        IF target <> leap.this_node() THEN
            RETURN leap.delegate(target, name, args, found_keys.family, found_keys.all_keys);
        END IF;
    END IF;
    PERFORM leap.own("table", keys);
    EXECUTE pg_catalog.format('SELECT %s(%s)::text', name,
        (SELECT pg_catalog.string_agg(pg_catalog.quote_nullable(a), ', ')
            FROM pg_catalog.unnest(args) a)) INTO result;
    RETURN result;
END $$;
COMMENT ON FUNCTION run IS 'a function and its keys: either moves to the other';

-- --- All rows ---

-- The rows that this node owns, as a role sees them; and those of a node, as the caller does.
CREATE FUNCTION peer_rows("table" text, as_role text) RETURNS text[]
AS 'MODULE_PATHNAME', 'leap_peer_rows' LANGUAGE C STRICT VOLATILE;

-- The same one by one, some columns of those that meet conditions: for leap.scans = all.
CREATE FUNCTION peer_scan("table" text, as_role text, columns text[], conditions text)
RETURNS SETOF text
AS 'MODULE_PATHNAME', 'leap_peer_scan' LANGUAGE C STRICT VOLATILE;

CREATE FUNCTION rows_of(node int, "table" regclass) RETURNS text[]
AS 'MODULE_PATHNAME', 'leap_rows_of' LANGUAGE C STRICT VOLATILE;

-- All rows of a leap table, from all nodes: SELECT * FROM leap.everywhere(NULL::account).  Each
-- node shows what it owns when it is asked, so a row that moves may be seen twice, or not.
CREATE FUNCTION everywhere(of_table anyelement) RETURNS SETOF anyelement
LANGUAGE plpgsql AS $$
DECLARE
    relation regclass := (SELECT typrelid::regclass FROM pg_catalog.pg_type
        WHERE oid OPERATOR(pg_catalog.=) pg_catalog.pg_typeof(of_table));
    node int;
BEGIN
    FOR node IN SELECT * FROM leap.nodes() LOOP
        RETURN QUERY EXECUTE pg_catalog.format('SELECT (r.t).* FROM (SELECT u::%s AS t'
                ' FROM pg_catalog.unnest(leap.rows_of($1, $2)) u OFFSET 0) r', relation)
            USING node, relation;
    END LOOP;
END $$;
COMMENT ON FUNCTION everywhere IS 'all rows of a leap table, of all nodes; of no common moment';

CREATE FUNCTION nodes() RETURNS SETOF int
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT id FROM node ORDER BY id;
END;

-- --- Homes, and nodes that go ---

-- A family is frozen while its homes are changed: keys do not move, and are not taken for use.
-- Until it is asked for unrest, which is after this has committed, all transactions are older than
-- it: one that begins before the commit does not see it.
CREATE FUNCTION peer_freeze(of_family int, is_frozen boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE leap.family SET frozen_since = CASE WHEN is_frozen THEN
        coalesce(frozen_since, 'infinity') END WHERE id = of_family;
    PERFORM leap.changed();
END $$;

-- What of a frozen family is still moving: transactions that may use its keys, units in flight.
CREATE FUNCTION peer_unrest(of_family int) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE leap.family SET frozen_since = clock_timestamp()
        WHERE id = of_family AND frozen_since = 'infinity';
    IF EXISTS (SELECT FROM leap.key
            WHERE family = of_family AND (NOT told OR payload IS NOT NULL)) THEN
        PERFORM leap.settle('0');
    END IF;
    RETURN QUERY SELECT DISTINCT format('process %s on %s uses keys', l.pid, n.name)
        FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid), leap.node n, leap.self s
        WHERE locktype = 'advisory' AND objsubid = 76 AND n.id = s.id
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND (l.pid IS NULL OR a.xact_start <
                (SELECT frozen_since FROM leap.family WHERE id = of_family));
    RETURN QUERY SELECT format('key %s of epoch %s on %s is %s', key, epoch, n.name,
            CASE WHEN payload IS NULL THEN 'not told of' ELSE 'in flight' END)
        FROM leap.key, leap.node n, leap.self s
        WHERE family = of_family AND (NOT told OR payload IS NOT NULL) AND n.id = s.id LIMIT 10;
END $$;

-- Directory entries of buckets that get another home.  The keys of rows that this node owned as
-- their home get entries, too.
CREATE FUNCTION peer_directory(of_family int, buckets int[])
RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me int := leap.this_node();
BEGIN
    INSERT INTO leap.key SELECT of_family, k, me, 1, true, now(), NULL
        FROM (SELECT DISTINCT leap.keys_here(of_family)) x (k)
        WHERE leap.home(of_family, k) = me AND leap.bucket_of(of_family, k) = ANY (buckets)
        ON CONFLICT DO NOTHING;
    RETURN QUERY SELECT row_to_json(e)::text
        FROM (SELECT key, owner, epoch FROM leap.key WHERE family = of_family
            AND leap.home(of_family, key) = me
            AND leap.bucket_of(of_family, key) = ANY (buckets)) e;
END $$;

CREATE FUNCTION peer_take_directory(of_family int, entries text) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    INSERT INTO key AS k
        SELECT of_family, e.key, e.owner, e.epoch, true, pg_catalog.now(), NULL
            FROM pg_catalog.json_to_recordset(entries::json) e (key text, owner int, epoch bigint)
        ON CONFLICT (family, key) DO UPDATE SET owner = excluded.owner, epoch = excluded.epoch
            WHERE k.epoch < excluded.epoch;
END;

-- The new homes; entries of keys that are of no use any more go.
CREATE FUNCTION peer_set_homes(of_family int, homes int[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me int := leap.this_node();
BEGIN
    UPDATE leap.bucket b SET node = homes[b.bucket + 1]
        WHERE family = of_family AND node <> homes[b.bucket + 1];
    PERFORM leap.changed();
    DELETE FROM leap.key WHERE family = of_family AND owner <> me AND payload IS NULL
        AND homes[leap.bucket_of(of_family, key) + 1] <> me;
END $$;

CREATE FUNCTION on_all(sql text, params text[]) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    of_node int;
BEGIN
    FOR of_node IN SELECT id FROM leap.node ORDER BY id LOOP
        RETURN QUERY SELECT unnest(leap.call(of_node, sql, params));
    END LOOP;
END $$;

-- Changes homes of a family: homes[b + 1] is the node of bucket b.  Repeat it if it fails: the
-- family stays frozen until it succeeds, or leap.thaw() is called before homes were changed.
CREATE PROCEDURE set_homes(of_table regclass, homes int[])
LANGUAGE plpgsql AS $$
DECLARE
    of_family int := (SELECT m.family FROM leap.member m WHERE m.relation = of_table);
    old int[] := (SELECT array_agg(b.node ORDER BY b.bucket) FROM leap.bucket b
        WHERE b.family = of_family);
    moved record;
    entries text;
    unrest text;
BEGIN
    IF of_family IS NULL OR cardinality(homes) <> cardinality(old)
            OR NOT homes <@ ARRAY(SELECT id FROM leap.node) THEN
        RAISE EXCEPTION 'these are no homes of %', of_table
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM leap.on_all('SELECT leap.peer_freeze($1::int, true)', ARRAY[of_family::text]);
    COMMIT;
    FOR attempt IN 1 .. 600 LOOP
        SELECT string_agg(u, '; ') INTO unrest FROM leap.on_all(
            'SELECT leap.peer_unrest($1::int)', ARRAY[of_family::text]) u;
        EXIT WHEN unrest IS NULL;
        IF attempt = 600 THEN
            RAISE EXCEPTION 'transactions that use keys of % do not end', of_table
                USING ERRCODE = 'lock_not_available', DETAIL = unrest || '.', HINT =
                    'The family is frozen. Try it again, or call leap.thaw().';
        END IF;
        COMMIT;
        PERFORM pg_sleep(0.05);
    END LOOP;
    FOR moved IN SELECT o AS source, n AS target, array_agg(place - 1) AS buckets
            FROM unnest(old, homes) WITH ORDINALITY u (o, n, place) WHERE o <> n GROUP BY 1, 2 LOOP
        SELECT '[' || string_agg(e, ',') || ']' INTO entries FROM unnest(leap.call(moved.source,
            'SELECT leap.peer_directory($1::int, $2::int[])', ARRAY[of_family::text,
                moved.buckets::text])) e;
        PERFORM leap.call(moved.target, 'SELECT leap.peer_take_directory($1::int, $2)',
            ARRAY[of_family::text, entries]) WHERE entries IS NOT NULL;
    END LOOP;
    PERFORM leap.on_all('SELECT leap.peer_set_homes($1::int, $2::int[])',
        ARRAY[of_family::text, homes::text]);
    PERFORM leap.on_all('SELECT leap.peer_freeze($1::int, false)', ARRAY[of_family::text]);
END $$;
COMMENT ON PROCEDURE set_homes IS 'the directory entries of a table''s keys get other homes';

CREATE FUNCTION thaw(of_table regclass) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
    SELECT leap.on_all('SELECT leap.peer_freeze($1::int, false)', ARRAY[m.family::text])
        FROM leap.member m WHERE m.relation = of_table;
END;

-- All families spread their homes over these nodes, all nodes by default.
CREATE PROCEDURE spread(nodes text[] DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
    ids int[] := (SELECT array_agg(id ORDER BY id) FROM leap.node
        WHERE nodes IS NULL OR name = ANY (nodes));
    of_table regclass;
    homes int[];
BEGIN
    FOR of_table IN SELECT relation FROM leap.member WHERE ordinal = 0 ORDER BY family LOOP
        SELECT array_agg(ids[1 + b.bucket % cardinality(ids)] ORDER BY b.bucket) INTO homes
            FROM leap.bucket b JOIN leap.member m USING (family) WHERE m.relation = of_table;
        CALL leap.set_homes(of_table, homes);
        COMMIT;
    END LOOP;
END $$;
COMMENT ON PROCEDURE spread IS 'homes of all leap tables, over these nodes';

-- Keys that a node owns or has rows of, and of which another is the home, if it is drained.
CREATE FUNCTION peer_owned(of_family int) RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT key FROM key
        WHERE family = of_family AND (owner = this_node() OR payload IS NOT NULL);
END;

-- A node is home of nothing, then gives all of its rows to their homes.
CREATE PROCEDURE drain_node(of_name text)
LANGUAGE plpgsql AS $$
DECLARE
    leaving int := (SELECT id FROM leap.node WHERE name = of_name);
    others text[] := ARRAY(SELECT name FROM leap.node WHERE id <> leaving);
    part record;
BEGIN
    IF leaving IS NULL THEN
        RAISE EXCEPTION 'there is no leap node "%"', of_name USING ERRCODE = 'undefined_object';
    END IF;
    CALL leap.spread(others);
    FOR part IN SELECT f.id AS family, leap.home(f.id, k) AS home, array_agg(k) AS keys
            FROM leap.family f, unnest(leap.call(leaving, 'SELECT leap.peer_owned($1::int)',
                ARRAY[f.id::text])) WITH ORDINALITY u (k, place)
            GROUP BY 1, 2, place / 500 LOOP
        PERFORM leap.call(part.home, 'SELECT leap.own_for_call($1::int, $2::text[])',
            ARRAY[part.family::text, part.keys::text]);
        COMMIT;
    END LOOP;
END $$;
COMMENT ON PROCEDURE drain_node IS 'a node gives away all that it owns and is home of';

-- A drained node leaves the cluster; its tables are plain ones, and empty.
CREATE PROCEDURE remove_node(of_name text)
LANGUAGE plpgsql AS $$
DECLARE
    me int := leap.this_node();
    leaving int := (SELECT id FROM leap.node WHERE name = of_name);
    owned bigint;
BEGIN
    IF leaving IS NULL OR leaving = me THEN
        RAISE EXCEPTION 'leap node "%" cannot be removed here', of_name
            USING ERRCODE = 'invalid_parameter_value', HINT = 'Name another node than this one.';
    END IF;
    SELECT count(*) INTO owned FROM leap.family f,
        unnest(leap.call(leaving, 'SELECT leap.peer_owned($1::int)', ARRAY[f.id::text]));
    IF owned > 0 OR EXISTS (SELECT FROM leap.bucket WHERE node = leaving) THEN
        RAISE EXCEPTION 'leap node "%" owns keys, or is a home', of_name
            USING ERRCODE = 'object_in_use', HINT = 'Call leap.drain_node() first.';
    END IF;
    PERFORM leap.call(leaving, 'SELECT leap.peer_leave()');
    PERFORM leap.call(id, 'SELECT leap.peer_forget($1::int)', ARRAY[leaving::text])
        FROM leap.node WHERE id <> leaving ORDER BY id;
END $$;
COMMENT ON PROCEDURE remove_node IS 'a drained node leaves the cluster';

CREATE FUNCTION peer_leave() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM leap.unregister(name) FROM leap.family;
    DELETE FROM leap.self;
    DELETE FROM leap.node;
    PERFORM leap.changed();
END $$;

CREATE FUNCTION peer_forget(leaving int) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM leap.node WHERE id = leaving;
    PERFORM leap.changed();
END $$;

-- --- Settling ---

-- A key of which another node knows: what a round of settling notes.
CREATE TYPE settled AS (family int, key text, epoch bigint);

-- A call of which an error is one node's affair, and not that of the others.
-- An empty array where the call has failed, null where the node is away.
CREATE FUNCTION try_call(node int, sql text, params text[]) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN leap.call(node, sql, params);
EXCEPTION WHEN OTHERS THEN
    RAISE LOG '%', SQLERRM;
    RETURN CASE WHEN SQLSTATE LIKE '08%' THEN NULL ELSE '{}'::text[] END;
END $$;

CREATE FUNCTION try_come(node int, of_family int, keys text[], epochs bigint[]) RETURNS text[]
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
RETURN leap.try_call(node, 'SELECT leap.peer_come($1::int, $2::text[], $3::bigint[])',
    ARRAY[of_family::text, keys::text, epochs::text]);

-- First all calls, then this node's changes: no row is locked while another node is waited for.
-- Rows that others have locked are left for the next round: a hand-over locks many, too, in another
-- order.  Keys are looked up by an array of them, since nothing else tells the planner to.
CREATE FUNCTION settle(patience interval DEFAULT '5 seconds') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    me int := (SELECT id FROM leap.self);
    batch record;
    known text[];
    known_epochs bigint[];
    informed leap.settled[] := '{}';
    arrived leap.settled[] := '{}';
BEGIN
    IF me IS NULL THEN
        RETURN;
    END IF;
    FOR batch IN SELECT family, leap.home(family, key) AS home, array_agg(key) AS keys,
                array_agg(epoch) AS epochs
            FROM (SELECT family, key, epoch FROM leap.key WHERE NOT told LIMIT 1000) k
            GROUP BY 1, 2 LOOP
        known := leap.try_call(batch.home,
            'SELECT leap.peer_inform($1::int, $2::int, $3::text[], $4::bigint[])',
            ARRAY[me::text, batch.family::text, batch.keys::text, batch.epochs::text]);
        informed := informed || ARRAY(SELECT ROW(batch.family, key, epoch)::leap.settled
            FROM unnest(batch.keys, batch.epochs) x (key, epoch) WHERE key = ANY (known));
    END LOOP;
    FOR batch IN SELECT family, leap.home(family, key) AS home, array_agg(key) AS keys,
                array_agg(epoch) AS epochs
            FROM (SELECT family, key, epoch FROM leap.key
                WHERE payload IS NOT NULL AND leap.home(family, key) <> me LIMIT 1000) k
            GROUP BY 1, 2 LOOP
        known_epochs := leap.try_call(batch.home,
            'SELECT leap.peer_epochs($1::int, $2::text[])',
            ARRAY[batch.family::text, batch.keys::text])::bigint[];
        arrived := arrived || ARRAY(SELECT ROW(batch.family, key, epoch)::leap.settled
            FROM unnest(batch.keys, batch.epochs, known_epochs) x (key, epoch, at_home)
            WHERE at_home >= epoch);
    END LOOP;
    FOR batch IN SELECT owner, family, array_agg(key) AS keys, array_agg(epoch) AS epochs
            FROM leap.key k WHERE payload IS NOT NULL AND since < clock_timestamp() - patience
                AND NOT EXISTS (SELECT FROM unnest(arrived) a
                    WHERE a.key = k.key AND a.family = k.family)
            GROUP BY 1, 2 LOOP
        -- A key that cannot come holds back none of the others.
        IF leap.try_come(batch.owner, batch.family, batch.keys, batch.epochs) = '{}' THEN
            PERFORM leap.try_come(batch.owner, batch.family, ARRAY[key], ARRAY[epoch])
                FROM unnest(batch.keys, batch.epochs) x (key, epoch)
                WHERE cardinality(batch.keys) > 1 ORDER BY random() LIMIT 20;
        END IF;
    END LOOP;
    FOR batch IN SELECT t.family, array_agg(t.key) AS keys, array_agg(t.epoch) AS epochs
            FROM unnest(informed) t GROUP BY 1 LOOP
        WITH free AS MATERIALIZED (
            SELECT k.key, k.epoch FROM leap.key k
                    JOIN unnest(batch.keys, batch.epochs) t (key, epoch) USING (key, epoch)
                WHERE k.family = batch.family AND k.key = ANY (batch.keys) AND NOT k.told
                FOR UPDATE OF k SKIP LOCKED)
        UPDATE leap.key k SET told = true FROM free
            WHERE k.family = batch.family AND k.key = ANY (batch.keys)
                AND k.key = free.key AND k.epoch = free.epoch;
    END LOOP;
    FOR batch IN SELECT t.family, array_agg(t.key) AS keys, array_agg(t.epoch) AS epochs
            FROM unnest(arrived) t GROUP BY 1 LOOP
        WITH free AS MATERIALIZED (
            SELECT k.key, k.epoch FROM leap.key k
                    JOIN unnest(batch.keys, batch.epochs) t (key, epoch) USING (key, epoch)
                WHERE k.family = batch.family AND k.key = ANY (batch.keys) AND k.owner <> me
                FOR UPDATE OF k SKIP LOCKED),
            unused AS MATERIALIZED (SELECT * FROM free WHERE leap.try_lock(batch.family, key))
        DELETE FROM leap.key k USING unused
            WHERE k.family = batch.family AND k.key = ANY (batch.keys)
                AND k.key = unused.key AND k.epoch = unused.epoch;
    END LOOP;
END $$;
COMMENT ON FUNCTION settle IS
    'what the worker does: homes are told, payloads cleared, and brought after so long';

-- --- Views ---

CREATE VIEW owners AS
    SELECT f.name AS family, k.key, n.name AS owner, k.epoch, k.since,
            k.payload IS NOT NULL AS in_flight
        FROM key k JOIN family f ON f.id = k.family LEFT JOIN node n ON n.id = k.owner;
COMMENT ON VIEW owners IS 'owners of keys that are not simply at home, as this node knows them';

CREATE VIEW handovers AS
    SELECT name, value FROM counters();
COMMENT ON VIEW handovers IS 'counters of this node since the start of its server';

CREATE VIEW waiting AS
    SELECT w.pid, n.name AS for_node, w.transaction_start, w.since, a.query
        FROM waits() w LEFT JOIN node n ON n.id = w.node
            LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = w.pid;
COMMENT ON VIEW waiting IS 'sessions that wait for a key here, and the node of their transaction';

-- --- Rights ---

REVOKE ALL ON ALL ROUTINES IN SCHEMA leap FROM PUBLIC;
GRANT USAGE ON SCHEMA leap TO PUBLIC;
GRANT EXECUTE ON FUNCTION own(regclass, text[]), home(int, text), guard(), this_node(),
    run(regproc, text[], regclass, text[]), missing(regclass, text[]), majority(int, text[]),
    delegate(int, text, text[], int, text[]), everywhere(anyelement), nodes(),
    rows_of(int, regclass) TO PUBLIC;
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'leap_node') THEN
        CREATE ROLE leap_node NOLOGIN;
    END IF;
END $$;
GRANT EXECUTE ON FUNCTION peer_take(int, bigint, int, text[], bigint[]),
    peer_inform(int, int, text[], bigint[]), peer_epochs(int, text[]),
    peer_come(int, text[], bigint[]),
    peer_owners(int, text[]), peer_rows(text, text), peer_scan(text, text, text[], text),
    peer_run(text, text[], int, text[], text), own_for_call(int, text[])
    TO leap_node;
GRANT SELECT ON owners, handovers, waiting TO pg_monitor;
GRANT EXECUTE ON FUNCTION counters(), waits() TO pg_monitor;
