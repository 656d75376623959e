-- rows.sql - rows of tables with few columns and many.
CREATE FUNCTION ls_fuzz_rows(text[], oid[]) RETURNS void AS ':module' LANGUAGE C STRICT;

CREATE TABLE narrow (a int);

CREATE TABLE padded (a int, b char(200), c text, d char(10));

SELECT ls_fuzz_rows(:arguments,
	ARRAY['narrow'::regclass::oid, 'padded'::regclass, 'pg_class'::regclass]);

