#!/bin/sh
# Prints the operator families and classes of the index access method: those that
# btree has in a server's catalogs, under the same names, with the same
# operators across types.  What they need of btree's support functions is the
# comparison alone: it says which encoding a column's keys have.
#
#   sql/generate_opclasses.sh [psql options] > classes.sql
#
# on a server of the version that the extension is for; the result is the end of
# sql/leanstore_am--1.0.sql, behind the line "Operator classes".
set -eu

exec psql -X -A -t -q -v ON_ERROR_STOP=1 "$@" <<'SQL'
CREATE TEMP VIEW family AS
	SELECT oid, opfname FROM pg_opfamily
	WHERE opfmethod = 403 AND opfnamespace = 'pg_catalog'::regnamespace;

CREATE TEMP VIEW item AS
	SELECT amopfamily AS family, amoplefttype AS lefttype, amoprighttype AS righttype,
		amopstrategy AS place, format('OPERATOR %s %s', amopstrategy, oprname) AS name, NULL AS call
	FROM pg_amop JOIN pg_operator o ON o.oid = amopopr
	WHERE amopmethod = 403
	UNION ALL
	SELECT amprocfamily, amproclefttype, amprocrighttype,
		100, 'FUNCTION 1', amproc::regprocedure::text
	FROM pg_amproc
	WHERE amprocfamily IN (SELECT oid FROM family) AND amprocnum = 1;

-- A class names the operators of its own type, but only the first class of that type in the family.
CREATE TEMP VIEW class AS
	SELECT opcfamily AS family, opcintype AS type, opcname, opcdefault,
		row_number() OVER (PARTITION BY opcfamily, opcintype
			ORDER BY opcdefault DESC, opcname) = 1 AS is_first
	FROM pg_opclass
	WHERE opcmethod = 403 AND opcfamily IN (SELECT oid FROM family);

SELECT statement FROM (
	SELECT opfname, 1 AS step, '' AS name,
		format(E'\nCREATE OPERATOR FAMILY %s USING leanstore_index;', opfname) AS statement
	FROM family
	UNION ALL
	SELECT opfname, 2, CASE WHEN is_first THEN '1' ELSE '2' END || opcname,
		format(E'CREATE OPERATOR CLASS %s\n'
			'    %sFOR TYPE %s USING leanstore_index FAMILY %s AS\n    %s;',
			opcname, CASE WHEN opcdefault THEN 'DEFAULT ' ELSE '' END,
			format_type(type, NULL), opfname,
			CASE WHEN is_first THEN
				(SELECT string_agg(concat_ws(' ', i.name, call),
					CASE WHEN call IS NULL THEN ', ' ELSE E',\n    ' END ORDER BY place)
				 FROM item i
				 WHERE i.family = class.family AND lefttype = type AND righttype = type)
			ELSE 'STORAGE ' || format_type(type, NULL) END)
	FROM class JOIN family ON family.oid = class.family
	UNION ALL
	SELECT opfname, 3, format_type(lefttype, NULL) || ' ' || format_type(righttype, NULL),
		format(E'ALTER OPERATOR FAMILY %s USING leanstore_index ADD\n    %s;', opfname,
			string_agg(format('%s (%s, %s)', i.name,
				format_type(lefttype, NULL), format_type(righttype, NULL)) ||
				coalesce(E'\n        ' || call, ''), E',\n    ' ORDER BY place))
	FROM item i JOIN family ON family.oid = i.family
	WHERE NOT EXISTS (SELECT FROM class
		WHERE class.family = i.family AND type = lefttype AND type = righttype)
	GROUP BY opfname, lefttype, righttype
) AS s
ORDER BY opfname, step, name;
SQL
