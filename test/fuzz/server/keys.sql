-- keys.sql - keys of all types that have an operator class of btree, and of some containers.
CREATE FUNCTION ls_fuzz_keys(text[], oid[], oid[], oid[]) RETURNS void
	AS ':module' LANGUAGE C STRICT;

DO $$ BEGIN CREATE COLLATION en_us (provider = libc, locale = 'en_US.UTF-8');
EXCEPTION WHEN undefined_object THEN NULL; END $$;

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');

CREATE TYPE pair AS (a int, b text);

CREATE TYPE nested AS (a pair, b numeric[]);

SELECT ls_fuzz_keys(:arguments, array_agg(cmp ORDER BY n), array_agg(type ORDER BY n),
	array_agg(coll ORDER BY n))
FROM (
	SELECT row_number() OVER (ORDER BY p.amproc, t.oid)::int AS n, p.amproc::oid AS cmp,
		t.oid AS type, CASE WHEN t.typcollation <> 0 THEN coll.oid ELSE 0 END AS coll
	FROM pg_opclass c JOIN pg_am am ON am.oid = c.opcmethod AND am.amname = 'btree'
	JOIN pg_amproc p ON p.amprocfamily = c.opcfamily AND p.amproclefttype = c.opcintype
		AND p.amprocrighttype = c.opcintype AND p.amprocnum = 1
	JOIN pg_type t ON t.oid = c.opcintype OR (c.opcdefault AND CASE c.opcintype::regtype::text
		WHEN 'anyenum' THEN t.oid = 'mood'::regtype
		WHEN 'record' THEN t.oid IN ('pair'::regtype, 'nested'::regtype)
		WHEN 'anyarray' THEN t.oid IN ('int[]'::regtype, 'text[]'::regtype, 'numeric[]'::regtype,
			'mood[]'::regtype, 'pair[]'::regtype, 'timestamptz[]'::regtype)
		WHEN 'anyrange' THEN t.oid IN ('int4range'::regtype, 'numrange'::regtype,
			'tstzrange'::regtype)
		WHEN 'anymultirange' THEN t.oid IN ('int8multirange'::regtype, 'nummultirange'::regtype)
		END)
	JOIN pg_collation coll ON CASE WHEN t.typcollation = 0 THEN coll.collname = 'C'
		ELSE coll.collname IN ('C', 'C.utf8', 'en-x-icu', 'unicode', 'en_us') END
	WHERE t.typtype <> 'p') AS columns;

