/*
 * ls_index_choose.c - the access method of a new index.
 *
 * A key or an index of a leanstore table is a leanstore index where the statement names none, if
 * leanstore.default_index says so and there is an operator class of ours for each of its columns.
 * Constraints can not name one at all.
 *
 * docs/decisions/0006-index-access-method-name.md says why it is done this way.
 */
#include "postgres.h"

#include "ls_ddl_internal.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"
#include "index/ls_index.h"

#include "access/relation.h"
#include "catalog/binary_upgrade.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "parser/parse_type.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* Indexes come from a leanstore table by CREATE TABLE (LIKE ... INCLUDING INDEXES). */
static bool like_leanstore = false;

/* ---- can this column be in a leanstore index? ------------------------------ */

/* opclass: as named by the user, NIL: the default one. */
static bool
column_suits(Oid type, List *opclass)
{
	Oid			found = opclass != NIL ? get_opclass_oid(ls_index_am_oid(), opclass, true)
		: ls_index_default_class(type);

	return OidIsValid(found) && ls_index_has_order(found);
}

/* Options that only btree has are a wish for btree. */
bool
ls_index_options_suit(List *options)
{
	foreach_node(DefElem, option, options)
		if (option->defnamespace != NULL || strcmp(option->defname, "fillfactor") != 0)
			return false;
	return true;
}

/* ---- is it an index of a leanstore table? ---------------------------------- */

static bool
new_tables_are_leanstore(void)
{
	return ls_is_named(default_table_access_method, LS_TABLE_AM);
}

/*
 * A partitioned table: are its partitions leanstore tables?  When it has none yet: will they be?
 * What the session's default says of new tables does not count otherwise: pg_restore makes keys
 * under another one than tables.
 */
static bool
partitions_are_leanstore(Oid root)
{
	Oid			am = get_rel_relam(root);
	bool		has_partitions = false;

	if (OidIsValid(am) && am != ls_table_am_oid())
		return false;
	foreach_oid(relid, find_all_inheritors(root, NoLock, NULL))
	{
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
		bool		suits = true;

		if (HeapTupleIsValid(tuple))
		{
			Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

			if (form->relkind != RELKIND_PARTITIONED_TABLE)
			{
				suits = form->relam == ls_table_am_oid();
				has_partitions = true;
			}
			ReleaseSysCache(tuple);
		}
		if (!suits)
			return false;
	}
	return has_partitions || OidIsValid(am) || new_tables_are_leanstore();
}

bool
ls_index_table_suits(Relation rel)
{
	if (!OidIsValid(ls_index_am_oid()))
		return false;			/* the extension is not in this database */
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE && !rel->rd_rel->relispartition)
		return partitions_are_leanstore(RelationGetRelid(rel));
	if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE &&
		!((rel->rd_rel->relkind == RELKIND_RELATION || rel->rd_rel->relkind == RELKIND_MATVIEW) &&
		  ls_is_table(rel)))
		return false;
	return !rel->rd_rel->relispartition ||
		partitions_are_leanstore(llast_oid(get_partition_ancestors(RelationGetRelid(rel))));
}

static bool
table_column(Relation rel, const char *name, Oid *type)
{
	AttrNumber	attno = get_attnum(RelationGetRelid(rel), name);

	if (attno <= 0)
		return false;
	*type = TupleDescAttr(RelationGetDescr(rel), attno - 1)->atttypid;
	return true;
}

/* ---- columns that ALTER TABLE changes --------------------------------------- */

static Oid
serial_type(const TypeName *name)
{
	static const struct
	{
		const char *name;
		Oid			type;
	}			serials[] = {
		{"smallserial", INT2OID}, {"serial2", INT2OID},
		{"serial", INT4OID}, {"serial4", INT4OID},
		{"bigserial", INT8OID}, {"serial8", INT8OID},
	};

	if (list_length(name->names) == 1 && !name->pct_type)
		for (int i = 0; i < lengthof(serials); i++)
			if (strcmp(strVal(linitial(name->names)), serials[i].name) == 0)
				return serials[i].type;
	return InvalidOid;
}

static bool
changes_columns(const AlterTableStmt *stmt)
{
	if (stmt != NULL)
		foreach_node(AlterTableCmd, cmd, stmt->cmds)
			if (cmd->subtype == AT_AddColumn || cmd->subtype == AT_AlterColumnType)
				return true;
	return false;
}

/*
 * A column as it will be when the index is made: ALTER TABLE may add it, or change its type, in
 * the same command.  stmt may be NULL.
 */
static bool
altered_column(Relation rel, const AlterTableStmt *stmt, const char *name, Oid *type)
{
	bool		found = table_column(rel, name, type);

	if (stmt == NULL)
		return found;
	foreach_node(AlterTableCmd, cmd, stmt->cmds)
	{
		ColumnDef  *def = (ColumnDef *) cmd->def;
		Type		tuple;

		if (cmd->subtype == AT_AddColumn ? strcmp(def->colname, name) != 0
			: cmd->subtype != AT_AlterColumnType || strcmp(cmd->name, name) != 0)
			continue;
		*type = serial_type(def->typeName);
		if (!OidIsValid(*type))
		{
			tuple = LookupTypeName(NULL, def->typeName, NULL, true);
			if (tuple == NULL)
				return false;	/* the server will say so */
			*type = typeTypeId(tuple);
			ReleaseSysCache(tuple);
		}
		found = true;
	}
	return found;
}

/* ---- CREATE INDEX ---------------------------------------------------------- */

static Oid
expression_type(Relation rel, const IndexElem *elem, bool transformed, const char *query)
{
	Node	   *expr = elem->expr;

	if (!transformed)
	{
		ParseState *pstate = make_parsestate(NULL);

		pstate->p_sourcetext = query;
		addNSItemToQuery(pstate,
						 addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false,
													   true),
						 false, true, true);
		expr = transformExpr(pstate, copyObject(expr), EXPR_KIND_INDEX_EXPRESSION);
		free_parsestate(pstate);
	}
	return exprType(expr);
}

/*
 * Its columns for a leanstore index, if one can serve the same; NIL: not.  alter: the statement
 * that makes it, or NULL.
 */
static List *
leanstore_elements(Relation rel, List *named, bool unique, bool transformed,
				   const AlterTableStmt *alter, const char *query)
{
	List	   *elements = copyObject(named);

	/* ON CONFLICT that names an operator class means one of btree's, if there is such */
	foreach_node(IndexElem, elem, elements)
		if (elem->opclassopts != NIL ||
			(unique && elem->opclass != NIL &&
			 OidIsValid(get_opclass_oid(BTREE_AM_OID, elem->opclass, true))))
			return NIL;
	if (!ls_index_translate_classes(elements, BTREE_AM_OID, ls_index_am_oid()))
		return NIL;
	foreach_node(IndexElem, elem, elements)
	{
		Oid			type;

		if (elem->name != NULL ? !altered_column(rel, alter, elem->name, &type)
			: changes_columns(alter))
			return NIL;			/* the server will say so, if there is no such column */
		if (elem->name == NULL)
			type = expression_type(rel, elem, transformed, query);
		if (!column_suits(type, elem->opclass))
			return NIL;
	}
	return elements;
}

/* Make it a leanstore index, if one can serve the same.  False: it is as it was. */
static bool
become_leanstore(Relation rel, IndexStmt *stmt, const char *query)
{
	List	   *elements;

	if (stmt->iswithoutoverlaps || !ls_index_options_suit(stmt->options))
		return false;
	elements = leanstore_elements(rel, stmt->indexParams, stmt->unique, stmt->transformed,
								  NULL, query);
	if (elements == NIL)
		return false;
	stmt->indexParams = elements;
	stmt->accessMethod = LS_INDEX_AM;
	return true;
}

/*
 * An index copied by LIKE ... INCLUDING INDEXES has an access method of its source.
 * Where that was the default there, it is the default here; a btree index that was made by name
 * on a leanstore table stays one.
 */
static void
choose_for_copied_index(Relation rel, IndexStmt *stmt, const char *query)
{
	bool		for_leanstore = ls_index_table_suits(rel);

	if (ls_is_named(stmt->accessMethod, LS_INDEX_AM) && !for_leanstore &&
		ls_index_translate_classes(stmt->indexParams, ls_index_am_oid(), BTREE_AM_OID))
		stmt->accessMethod = DEFAULT_INDEX_TYPE;
	else if (ls_is_named(stmt->accessMethod, DEFAULT_INDEX_TYPE) && for_leanstore &&
			 !like_leanstore && ls_default_index == LS_DEFAULT_INDEX_LEANSTORE)
		(void) become_leanstore(rel, stmt, query);
}

static bool
names_no_am(const IndexStmt *stmt, const PlannedStmt *pstmt, const char *query,
			ProcessUtilityContext context)
{
	if (stmt->accessMethod == LS_IMPLICIT_AM)
		return true;
	if (strcmp(stmt->accessMethod, DEFAULT_INDEX_TYPE) != 0)
		return false;
	/* of UNIQUE and PRIMARY KEY in CREATE TABLE; an exclusion constraint may name one */
	if (stmt->isconstraint)
		return stmt->excludeOpNames == NIL;
	return context != PROCESS_UTILITY_SUBCOMMAND &&
		   !ls_index_text_names_am(query, pstmt->stmt_location, pstmt->stmt_len);
}

/* ---- access methods that are named ----------------------------------------- */

/*
 * Dumps name the access method of every index, whatever table it comes to be on, and so do tools
 * that know btree only.  What is named is then taken for what serves the same on this table.
 */
static void
tell_once(bool to_leanstore)
{
	static bool told[2] = {false, false};

	if (told[to_leanstore])
		return;
	told[to_leanstore] = true;
	ereport(NOTICE,
			(to_leanstore
			 ? errmsg("\"USING btree\" makes leanstore indexes of leanstore tables")
			 : errmsg("\"USING leanstore\" makes btree indexes of tables of other access methods"),
			 errhint("Set leanstore.replace_btree to off to have access methods as they are named."
					 "  This is told once per session.")));
}

static bool
become_btree(List *elements)
{
	return OidIsValid(ls_index_am_oid()) &&
		ls_index_translate_classes(elements, ls_index_am_oid(), BTREE_AM_OID);
}

/* A leanstore partition beside heap partitions can have leanstore indexes of its own. */
static bool
can_have_leanstore_index(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ? ls_index_table_suits(rel)
		: ls_is_table(rel);
}

void
ls_index_choose(IndexStmt *stmt, const PlannedStmt *pstmt, const char *query,
				ProcessUtilityContext context)
{
	bool		ours;
	bool		named;
	Relation	rel;

	if (IsBinaryUpgrade)
		return;					/* the dump names what it was */
	if (ls_is_named(stmt->accessMethod, LS_TABLE_AM))
		stmt->accessMethod = LS_INDEX_AM;
	ours = ls_is_named(stmt->accessMethod, LS_INDEX_AM);
	if (!ours && stmt->accessMethod != LS_IMPLICIT_AM &&
		!ls_is_named(stmt->accessMethod, DEFAULT_INDEX_TYPE))
		return;
	named = !stmt->transformed && !names_no_am(stmt, pstmt, query, context);
	if (named && !ls_replace_btree && !(ours && stmt->concurrent))
		return;

	/* as the server is about to */
	rel = relation_open(RangeVarGetRelidExtended(stmt->relation,
												 stmt->concurrent ? ShareUpdateExclusiveLock
												 : ShareLock,
												 0, RangeVarCallbackOwnsRelation, NULL), NoLock);
	if (stmt->transformed)
		choose_for_copied_index(rel, stmt, query);
	else if (!ours)
	{
		stmt->accessMethod = DEFAULT_INDEX_TYPE;
		if (ls_default_index == LS_DEFAULT_INDEX_LEANSTORE && ls_index_table_suits(rel) &&
			become_leanstore(rel, stmt, query) && named)
			tell_once(true);
	}
	else if (ls_replace_btree && !can_have_leanstore_index(rel) && become_btree(stmt->indexParams))
	{
		stmt->accessMethod = DEFAULT_INDEX_TYPE;
		tell_once(false);
	}
	else if (stmt->concurrent)
	{
		/* not only when a first transaction has left its index behind */
		ls_index_require_table(rel);
	}
	relation_close(rel, NoLock);
}

/* ---- constraints of ALTER TABLE -------------------------------------------- */

/* EXCLUDE always names an access method.  Its operator, equality, is in the classes of both. */
static void
choose_for_exclusion(Relation rel, const AlterTableStmt *stmt, Constraint *constraint,
					 const char *query)
{
	bool		to_leanstore = ls_is_named(constraint->access_method, DEFAULT_INDEX_TYPE);
	List	   *elements = NIL;
	ListCell   *element;

	if (ls_is_named(constraint->access_method, LS_TABLE_AM))
		constraint->access_method = LS_INDEX_AM;
	if (!ls_replace_btree ||
		(!to_leanstore && !ls_is_named(constraint->access_method, LS_INDEX_AM)))
		return;

	foreach_node(List, exclusion, constraint->exclusions)
		elements = lappend(elements, copyObject(linitial(exclusion)));
	if (to_leanstore)
	{
		if (ls_default_index != LS_DEFAULT_INDEX_LEANSTORE || !ls_index_table_suits(rel) ||
			!ls_index_options_suit(constraint->options))
			return;
		elements = leanstore_elements(rel, elements, false, false, stmt, query);
		if (elements == NIL)
			return;
	}
	else if (can_have_leanstore_index(rel) || !become_btree(elements))
		return;

	constraint->access_method = to_leanstore ? LS_INDEX_AM : DEFAULT_INDEX_TYPE;
	element = list_head(elements);
	foreach_node(List, exclusion, constraint->exclusions)
	{
		linitial(exclusion) = lfirst(element);
		element = lnext(elements, element);
	}
	tell_once(to_leanstore);
}

/* pg_upgrade has said which index is made next: it has to be as it was. */
static void
choose_as_it_was(Constraint *constraint)
{
	if ((constraint->contype == CONSTR_PRIMARY || constraint->contype == CONSTR_UNIQUE) &&
		ls_upgrade_forms(binary_upgrade_next_index_pg_class_oid) != NULL)
		constraint->access_method = LS_INDEX_AM;
}

void
ls_index_choose_for_constraint(Relation rel, const AlterTableStmt *stmt, Constraint *constraint,
							   const char *only_column, const char *query)
{
	List	   *keys = constraint->keys;

	if (IsBinaryUpgrade)
	{
		choose_as_it_was(constraint);
		return;
	}
	if (constraint->contype == CONSTR_EXCLUSION)
		choose_for_exclusion(rel, stmt, constraint, query);
	if ((constraint->contype != CONSTR_PRIMARY && constraint->contype != CONSTR_UNIQUE) ||
		constraint->access_method != NULL || constraint->without_overlaps ||
		constraint->indexname != NULL || ls_default_index != LS_DEFAULT_INDEX_LEANSTORE ||
		!ls_index_options_suit(constraint->options) ||
		!ls_index_table_suits(rel))
		return;
	if (only_column != NULL)
		keys = list_make1(makeString(pstrdup(only_column)));

	foreach_node(String, key, keys)
	{
		Oid			type;

		if (!altered_column(rel, stmt, strVal(key), &type) || !column_suits(type, NIL))
			return;
	}
	constraint->access_method = LS_INDEX_AM;
}

/* ---- CREATE TABLE ---------------------------------------------------------- */

void
ls_index_choose_for_table(CreateStmt *stmt)
{
	like_leanstore = false;
	foreach_ptr(Node, element, stmt->tableElts)
	{
		if (IsA(element, Constraint))
		{
			Constraint *constraint = (Constraint *) element;

			if (constraint->contype == CONSTR_EXCLUSION &&
				ls_is_named(constraint->access_method, LS_TABLE_AM))
				constraint->access_method = LS_INDEX_AM;
		}
		else if (IsA(element, TableLikeClause))
		{
			Relation	source = relation_openrv_extended(((TableLikeClause *) element)->relation,
													   AccessShareLock, true);

			if (source == NULL)
				continue;
			like_leanstore |= ls_is_table(source);
			relation_close(source, NoLock);
		}
	}
}
