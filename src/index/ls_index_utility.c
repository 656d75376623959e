/*
 * ls_index_utility.c - what utility commands need to know of leanstore indexes.
 *
 * The choice of the access method.  A key or an index of a leanstore table for which
 * nobody has named one is a leanstore index, if leanstore.default_index says so and
 * there is an operator class of ours for each of its columns.  The server names btree when the user
 * names nothing, so whether it was the user is seen in the text of the statement.
 * Constraints can not name one at all.
 *
 * The name.  Access methods of tables and indexes share one name space, so
 * "leanstore" is taken; where only an index access method can be meant we read it as
 * ours.
 *
 * Access methods come and go: ls_index_replace.c.
 *
 * Moving.  The server moves an index to another tablespace by copying its
 * pages through code that knows its own page format; ours is built there anew.
 *
 * docs/decisions/0006-index-access-method-name.md says why it is done this way.
 */
#include "ls_index.h"
#include "ls_table.h"

#include "access/heapam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "commands/tablespace.h"
#include "commands/user.h"
#include "tcop/dest.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "parser/parse_type.h"
#include "parser/scanner.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#define IMPLICIT_AM NULL		/* in IndexStmt.accessMethod: to be chosen */

/* Indexes come from a leanstore table by CREATE TABLE (LIKE ... INCLUDING INDEXES). */
static bool like_leanstore = false;

static bool
is_named(const char *name, const char *am)
{
	return name != NULL && strcmp(name, am) == 0;
}

bool
ls_index_is_ours(Oid relid)
{
	return get_rel_relkind(relid) == RELKIND_INDEX && get_rel_relam(relid) == ls_index_am_oid();
}

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
static bool
options_suit(List *options)
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
	return is_named(default_table_access_method, LS_TABLE_AM);
}

/*
 * A partitioned table: are its partitions leanstore tables?  When it has none yet: will they be?  What the session's
 * default says of new tables does not count otherwise: pg_restore makes keys under another one than tables.
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

/* The keys of a partition and of its parents have to be of one access method: what holds for the root holds for all. */
static bool
table_suits(Relation rel)
{
	if (!OidIsValid(ls_index_am_oid()))
		return false;			/* the extension is not in this database */
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE && !rel->rd_rel->relispartition)
		return partitions_are_leanstore(RelationGetRelid(rel));
	if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE &&
		!((rel->rd_rel->relkind == RELKIND_RELATION || rel->rd_rel->relkind == RELKIND_MATVIEW) && ls_is_table(rel)))
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

/* ---- CREATE INDEX ---------------------------------------------------------- */

static Oid
expression_type(Relation rel, const IndexElem *elem, bool transformed, const char *query)
{
	Node	   *expr = elem->expr;

	if (!transformed)
	{
		ParseState *pstate = make_parsestate(NULL);

		pstate->p_sourcetext = query;
		addNSItemToQuery(pstate, addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, true),
						 false, true, true);
		expr = transformExpr(pstate, copyObject(expr), EXPR_KIND_INDEX_EXPRESSION);
		free_parsestate(pstate);
	}
	return exprType(expr);
}

/* Make it a leanstore index, if one can serve the same.  False: it is as it was. */
static bool
become_leanstore(Relation rel, IndexStmt *stmt, const char *query)
{
	List	   *elements = copyObject(stmt->indexParams);

	if (stmt->iswithoutoverlaps || !options_suit(stmt->options))
		return false;
	/* ON CONFLICT that names an operator class means one of btree's, if there is such */
	foreach_node(IndexElem, elem, elements)
		if (elem->opclassopts != NIL ||
			(stmt->unique && elem->opclass != NIL && OidIsValid(get_opclass_oid(BTREE_AM_OID, elem->opclass, true))))
			return false;
	if (!ls_index_translate_classes(elements, BTREE_AM_OID, ls_index_am_oid()))
		return false;
	foreach_node(IndexElem, elem, elements)
	{
		Oid			type;

		if (elem->name == NULL)
			type = expression_type(rel, elem, stmt->transformed, query);
		else if (!table_column(rel, elem->name, &type))
			return false;		/* the server will say so */
		if (!column_suits(type, elem->opclass))
			return false;
	}
	stmt->indexParams = elements;
	stmt->accessMethod = LS_INDEX_AM;
	return true;
}

/*
 * An index copied by LIKE ... INCLUDING INDEXES has an access method of its source.
 * Where that was the default there, it is the default here; a btree index that
 * somebody has made on a leanstore table stays one.
 */
static void
choose_for_copied_index(Relation rel, IndexStmt *stmt, const char *query)
{
	bool		for_leanstore = table_suits(rel);

	if (is_named(stmt->accessMethod, LS_INDEX_AM) && !for_leanstore &&
		ls_index_translate_classes(stmt->indexParams, ls_index_am_oid(), BTREE_AM_OID))
		stmt->accessMethod = DEFAULT_INDEX_TYPE;
	else if (is_named(stmt->accessMethod, DEFAULT_INDEX_TYPE) && for_leanstore && !like_leanstore &&
			 ls_default_index == LS_DEFAULT_INDEX_LEANSTORE)
		(void) become_leanstore(rel, stmt, query);
}

/* ---- what the text says ---------------------------------------------------- */

typedef struct Text
{
	core_yyscan_t scanner;
	core_yy_extra_type extra;
	core_YYSTYPE value;
	YYLTYPE		location;
} Text;

static int
keyword(const char *word)
{
	return ScanKeywordTokens[ScanKeywordLookup(word, &ScanKeywords)];
}

static int
next_token(Text *text)
{
	return core_yylex(&text->value, &text->location, text->scanner);
}

static void
open_text(Text *text, const char *query, int location, int len)
{
	const char *start = query + Max(location, 0);

	text->scanner = scanner_init(len > 0 ? pnstrdup(start, len) : start, &text->extra, &ScanKeywords, ScanKeywordTokens);
}

/* Go behind the table's name in the next CREATE INDEX.  *names_am: USING comes next.  False: there is none. */
static bool
next_create_index(Text *text, bool *names_am)
{
	int			token;

	for (;;)
	{
		while ((token = next_token(text)) != keyword("create"))
			if (token == 0)
				return false;
		token = next_token(text);
		if (token == keyword("unique"))
			token = next_token(text);
		if (token == keyword("index"))
			break;
	}
	do
		token = next_token(text);
	while (token != 0 && token != keyword("on"));
	do
		token = next_token(text);
	while (token != 0 && token != '(' && token != keyword("using"));
	*names_am = token == keyword("using");
	return token != 0;
}

static bool
text_names_am(const char *query, int location, int len)
{
	Text		text;
	bool		names_am;
	bool		found;

	open_text(&text, query, location, len);
	found = next_create_index(&text, &names_am);
	scanner_finish(text.scanner);
	return !found || names_am;
}

/* The indexes of CREATE SCHEMA are created one by one later on, far from their text. */
static void
mark_schema_elements(CreateSchemaStmt *schema, const char *query, int location, int len)
{
	Text		text;
	bool		names_am;

	open_text(&text, query, location, len);
	foreach_ptr(Node, element, schema->schemaElts)
		if (IsA(element, IndexStmt) && next_create_index(&text, &names_am) && !names_am)
			((IndexStmt *) element)->accessMethod = IMPLICIT_AM;
	scanner_finish(text.scanner);
}

static bool
names_no_am(const IndexStmt *stmt, const PlannedStmt *pstmt, const char *query, ProcessUtilityContext context)
{
	if (stmt->accessMethod == IMPLICIT_AM)
		return true;
	if (strcmp(stmt->accessMethod, DEFAULT_INDEX_TYPE) != 0)
		return false;
	/* of UNIQUE and PRIMARY KEY in CREATE TABLE; an exclusion constraint may name one */
	if (stmt->isconstraint)
		return stmt->excludeOpNames == NIL;
	return context != PROCESS_UTILITY_SUBCOMMAND && !text_names_am(query, pstmt->stmt_location, pstmt->stmt_len);
}

static void
prepare_index(IndexStmt *stmt, const PlannedStmt *pstmt, const char *query, ProcessUtilityContext context)
{
	bool		implicit;
	Relation	rel;

	if (is_named(stmt->accessMethod, LS_TABLE_AM))
		stmt->accessMethod = LS_INDEX_AM;
	implicit = !stmt->transformed && names_no_am(stmt, pstmt, query, context);
	if (!implicit && !stmt->transformed && !(is_named(stmt->accessMethod, LS_INDEX_AM) && stmt->concurrent))
		return;

	/* as the server is about to */
	rel = relation_open(RangeVarGetRelidExtended(stmt->relation, stmt->concurrent ? ShareUpdateExclusiveLock : ShareLock,
												 0, RangeVarCallbackOwnsRelation, NULL), NoLock);
	if (stmt->transformed)
		choose_for_copied_index(rel, stmt, query);
	else if (implicit)
	{
		stmt->accessMethod = DEFAULT_INDEX_TYPE;
		if (ls_default_index == LS_DEFAULT_INDEX_LEANSTORE && table_suits(rel))
			(void) become_leanstore(rel, stmt, query);
	}
	else
		ls_index_require_table(rel);	/* not only when a first transaction has left its index behind */
	relation_close(rel, NoLock);
}

/* ---- constraints of ALTER TABLE -------------------------------------------- */

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

/* A column as it will be when the constraint is added: the same command may add it, or change its type. */
static bool
altered_column(Relation rel, const AlterTableStmt *stmt, const char *name, Oid *type)
{
	bool		found = table_column(rel, name, type);

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

static void
choose_for_constraint(Relation rel, const AlterTableStmt *stmt, Constraint *constraint, const char *only_column)
{
	List	   *keys = constraint->keys;

	if (constraint->contype == CONSTR_EXCLUSION && is_named(constraint->access_method, LS_TABLE_AM))
		constraint->access_method = LS_INDEX_AM;
	if ((constraint->contype != CONSTR_PRIMARY && constraint->contype != CONSTR_UNIQUE) ||
		constraint->access_method != NULL || constraint->without_overlaps || constraint->indexname != NULL ||
		ls_default_index != LS_DEFAULT_INDEX_LEANSTORE || !options_suit(constraint->options))
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

/*
 * ADD CONSTRAINT ... USING INDEX: the server takes a btree only, before it makes of the
 * statement what it executes.  So that is made here, of an index that would do if it
 * were one; of others the server says what is wrong with them.
 */
static bool
use_index(Relation rel, AlterTableStmt *stmt, AlterTableCmd *cmd, const char *query, LsIndexAfterwards *after)
{
	Constraint *constraint = castNode(Constraint, cmd->def);
	Oid			index_oid = constraint->indexname == NULL ? InvalidOid
		: get_relname_relid(constraint->indexname, RelationGetNamespace(rel));
	IndexStmt  *made;
	Relation	index;
	Form_pg_index form;

	if (!OidIsValid(index_oid) || get_rel_relam(index_oid) != ls_index_am_oid())
		return false;
	index = index_open(index_oid, AccessShareLock);
	form = index->rd_index;
	if (form->indrelid != RelationGetRelid(rel) || !form->indisvalid || !form->indisunique ||
		OidIsValid(get_index_constraint(index_oid)) || RelationGetIndexExpressions(index) != NIL ||
		RelationGetIndexPredicate(index) != NIL || (!form->indimmediate && !constraint->deferrable))
	{
		index_close(index, NoLock);
		return false;
	}

	/* A column's new type makes another index of it. */
	foreach_node(AlterTableCmd, other, stmt->cmds)
		if (other->subtype == AT_AlterColumnType)
		{
			AlterTableStmt *later = makeNode(AlterTableStmt);

			later->relation = stmt->relation;
			later->objtype = stmt->objtype;
			later->cmds = list_make1(cmd);
			after->statements = lappend(after->statements, later);
			stmt->cmds = list_delete_ptr(stmt->cmds, cmd);
			index_close(index, NoLock);
			return true;
		}

	for (int i = 0; i < form->indnkeyatts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), form->indkey.values[i] - 1);
		Oid			opclass = ls_index_default_class(att->atttypid);

		if (!OidIsValid(opclass) || get_opclass_family(opclass) != index->rd_opfamily[i] ||
			get_opclass_input_type(opclass) != index->rd_opcintype[i] ||
			att->attcollation != index->rd_indcollation[i] || index->rd_indoption[i] != 0)
		{
			ParseState *pstate = make_parsestate(NULL);

			pstate->p_sourcetext = query;
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("index \"%s\" column number %d does not have default sorting behavior",
							constraint->indexname, i + 1),
					 errdetail("Cannot create a primary key or unique constraint using such an index."),
					 parser_errposition(pstate, constraint->location)));
		}
		if (constraint->contype == CONSTR_PRIMARY && !att->attnotnull)
		{
			AlterTableCmd *not_null = makeNode(AlterTableCmd);

			not_null->subtype = AT_SetNotNull;
			not_null->name = pstrdup(NameStr(att->attname));
			stmt->cmds = lappend(stmt->cmds, not_null);
		}
	}
	index_close(index, NoLock);

	made = makeNode(IndexStmt);
	made->unique = true;
	made->primary = constraint->contype == CONSTR_PRIMARY;
	made->isconstraint = true;
	made->nulls_not_distinct = form->indnullsnotdistinct;
	made->deferrable = constraint->deferrable;
	made->initdeferred = constraint->initdeferred;
	made->idxname = constraint->conname;
	made->relation = stmt->relation;
	made->accessMethod = LS_INDEX_AM;
	made->indexOid = index_oid;
	cmd->subtype = AT_AddIndexConstraint;
	cmd->def = (Node *) made;
	return true;
}

/* ---- moving ---------------------------------------------------------------- */

/* Build the index anew in the tablespace, as its owner may. */
static void
move_index(Oid index, const char *tablespace)
{
	ReindexStmt *reindex = makeNode(ReindexStmt);

	if (!object_ownercheck(RelationRelationId, index, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, get_rel_name(index));
	reindex->kind = REINDEX_OBJECT_INDEX;
	reindex->relation = makeRangeVar(get_namespace_name(get_rel_namespace(index)), get_rel_name(index), -1);
	reindex->params = list_make1(makeDefElem("tablespace", (Node *) makeString(pstrdup(tablespace)), -1));
	ExecReindex(make_parsestate(NULL), reindex, false);
	CommandCounterIncrement();
}

static Oid
tablespace_of(Oid relid)
{
	Oid			tablespace = get_rel_tablespace(relid);

	return OidIsValid(tablespace) ? tablespace : MyDatabaseTableSpace;
}

/* ALTER INDEX i SET TABLESPACE t; true when that was it. */
static bool
move_if_index(const AlterTableStmt *stmt, const AlterTableCmd *cmd)
{
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);

	if (!OidIsValid(relid) || !ls_index_is_ours(relid))
		return false;
	if (tablespace_of(relid) != get_tablespace_oid(cmd->name, false))
		move_index(relid, cmd->name);
	return true;
}

/* ALTER INDEX ALL IN TABLESPACE: ours first; the server then finds them elsewhere. */
static void
move_all_indexes(const AlterTableMoveAllStmt *stmt)
{
	Oid			from = get_tablespace_oid(stmt->orig_tablespacename, false);
	List	   *roles = roleSpecsToIds(stmt->roles);
	List	   *indexes = NIL;
	Relation	pg_class;
	TableScanDesc scan;
	HeapTuple	tuple;

	if (from == get_tablespace_oid(stmt->new_tablespacename, false))
		return;
	pg_class = table_open(RelationRelationId, AccessShareLock);
	scan = table_beginscan_catalog(pg_class, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (form->relkind == RELKIND_INDEX && form->relam == ls_index_am_oid() && tablespace_of(form->oid) == from &&
			!isAnyTempNamespace(form->relnamespace) && (roles == NIL || list_member_oid(roles, form->relowner)))
			indexes = lappend_oid(indexes, form->oid);
	}
	table_endscan(scan);
	table_close(pg_class, AccessShareLock);

	foreach_oid(index, indexes)
		if (ls_index_is_ours(index))
			move_index(index, stmt->new_tablespacename);
}

/* ---- ALTER TABLE ----------------------------------------------------------- */

/* The table that is altered, locked as the server is about to; NULL: IF EXISTS. */
static Relation
open_altered(const AlterTableStmt *stmt, LOCKMODE *lockmode)
{
	Oid			relid;

	*lockmode = AlterTableGetLockLevel(stmt->cmds);
	relid = AlterTableLookupRelation(unconstify(AlterTableStmt *, stmt), *lockmode);
	return OidIsValid(relid) ? relation_open(relid, NoLock) : NULL;
}

/* Does the table move from or to our access method?  Only its own rows do, so it is none with partitions. */
static void
prepare_access_method(Relation rel, const AlterTableCmd *cmd, LsIndexAfterwards *after)
{
	bool		to_leanstore = is_named(cmd->name != NULL ? cmd->name : default_table_access_method, LS_TABLE_AM);

	if (!RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) || RELKIND_HAS_PARTITIONS(rel->rd_rel->relkind))
		return;
	if (ls_is_table(rel) && !to_leanstore)
		ls_index_replace_all(RelationGetRelid(rel));
	else if (!ls_is_table(rel) && to_leanstore && ls_default_index == LS_DEFAULT_INDEX_LEANSTORE)
		after->new_table = RelationGetRelid(rel);
}

static void
prepare_alter_table(AlterTableStmt *stmt, const char *query, LsIndexAfterwards *after)
{
	bool		concerned = false;
	LOCKMODE	lockmode;
	Relation	rel;

	foreach_node(AlterTableCmd, cmd, stmt->cmds)
	{
		if (cmd->subtype == AT_SetTableSpace && move_if_index(stmt, cmd))
			stmt->cmds = foreach_delete_current(stmt->cmds, cmd);
		else if (cmd->subtype == AT_AddConstraint || cmd->subtype == AT_AlterColumnType ||
				 cmd->subtype == AT_SetAccessMethod ||
				 (cmd->subtype == AT_AddColumn && ((ColumnDef *) cmd->def)->constraints != NIL))
			concerned = true;
	}
	if (!concerned || !OidIsValid(ls_index_am_oid()) ||
		(stmt->objtype != OBJECT_TABLE && stmt->objtype != OBJECT_MATVIEW) ||
		(rel = open_altered(stmt, &lockmode)) == NULL)
		return;

	foreach_node(AlterTableCmd, cmd, list_copy(stmt->cmds))
	{
		if (cmd->subtype == AT_SetAccessMethod)
			prepare_access_method(rel, cmd, after);
		else if (cmd->subtype == AT_AlterColumnType && after->keys == NIL)
			after->keys = ls_index_note_keys(RelationGetRelid(rel), stmt->relation->inh, lockmode);
		else if (cmd->subtype == AT_AddConstraint && table_suits(rel) && !use_index(rel, stmt, cmd, query, after))
			choose_for_constraint(rel, stmt, castNode(Constraint, cmd->def), NULL);
		else if (cmd->subtype == AT_AddColumn && table_suits(rel))
			foreach_node(Constraint, constraint, ((ColumnDef *) cmd->def)->constraints)
				choose_for_constraint(rel, stmt, constraint, ((ColumnDef *) cmd->def)->colname);
	}
	relation_close(rel, NoLock);
}

/* ---- CREATE TABLE ---------------------------------------------------------- */

static void
prepare_create_table(CreateStmt *stmt)
{
	like_leanstore = false;
	foreach_ptr(Node, element, stmt->tableElts)
	{
		if (IsA(element, Constraint))
		{
			Constraint *constraint = (Constraint *) element;

			if (constraint->contype == CONSTR_EXCLUSION && is_named(constraint->access_method, LS_TABLE_AM))
				constraint->access_method = LS_INDEX_AM;
		}
		else if (IsA(element, TableLikeClause))
		{
			Relation	source = relation_openrv_extended(((TableLikeClause *) element)->relation, AccessShareLock, true);

			if (source == NULL)
				continue;
			like_leanstore |= ls_is_table(source);
			relation_close(source, NoLock);
		}
	}
}

/* ---- names of operator classes and families -------------------------------- */

static void
rename_am(List *object)
{
	String	   *name = linitial_node(String, object);

	if (is_named(name->sval, LS_TABLE_AM))
		name->sval = LS_INDEX_AM;
}

static void
rename_am_of(ObjectType type, Node *object)
{
	if (type == OBJECT_OPCLASS || type == OBJECT_OPFAMILY)
		rename_am((List *) object);
}

static void
rename_am_name(char **name)
{
	if (is_named(*name, LS_TABLE_AM))
		*name = LS_INDEX_AM;
}

/* ---- the hook -------------------------------------------------------------- */

bool
ls_index_concerns(const Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_IndexStmt:
		case T_AlterTableStmt:
		case T_AlterTableMoveAllStmt:
		case T_CreateStmt:
		case T_CreateSchemaStmt:
		case T_CreateOpClassStmt:
		case T_CreateOpFamilyStmt:
		case T_AlterOpFamilyStmt:
		case T_DropStmt:
		case T_RenameStmt:
		case T_AlterObjectSchemaStmt:
		case T_AlterOwnerStmt:
		case T_CommentStmt:
		case T_AlterExtensionContentsStmt:
			return true;
		default:
			return false;
	}
}

void
ls_index_prepare_statement(PlannedStmt *pstmt, const char *query, ProcessUtilityContext context, LsIndexAfterwards *after)
{
	Node	   *stmt = pstmt->utilityStmt;

	switch (nodeTag(stmt))
	{
		case T_IndexStmt:
			prepare_index((IndexStmt *) stmt, pstmt, query, context);
			break;
		case T_AlterTableStmt:
			prepare_alter_table((AlterTableStmt *) stmt, query, after);
			break;
		case T_AlterTableMoveAllStmt:
			if (((AlterTableMoveAllStmt *) stmt)->objtype == OBJECT_INDEX)
				move_all_indexes((AlterTableMoveAllStmt *) stmt);
			break;
		case T_CreateStmt:
			prepare_create_table((CreateStmt *) stmt);
			break;
		case T_CreateSchemaStmt:
			mark_schema_elements((CreateSchemaStmt *) stmt, query, pstmt->stmt_location, pstmt->stmt_len);
			break;
		case T_CreateOpClassStmt:
			rename_am_name(&((CreateOpClassStmt *) stmt)->amname);
			if (is_named(((CreateOpClassStmt *) stmt)->amname, LS_INDEX_AM))
				ls_index_make_way((CreateOpClassStmt *) stmt);
			break;
		case T_CreateOpFamilyStmt:
			rename_am_name(&((CreateOpFamilyStmt *) stmt)->amname);
			break;
		case T_AlterOpFamilyStmt:
			rename_am_name(&((AlterOpFamilyStmt *) stmt)->amname);
			break;
		case T_DropStmt:
			if (((DropStmt *) stmt)->removeType == OBJECT_OPCLASS || ((DropStmt *) stmt)->removeType == OBJECT_OPFAMILY)
				foreach_ptr(List, object, ((DropStmt *) stmt)->objects)
					rename_am(object);
			break;
		case T_RenameStmt:
			rename_am_of(((RenameStmt *) stmt)->renameType, ((RenameStmt *) stmt)->object);
			break;
		case T_AlterObjectSchemaStmt:
			rename_am_of(((AlterObjectSchemaStmt *) stmt)->objectType, ((AlterObjectSchemaStmt *) stmt)->object);
			break;
		case T_AlterOwnerStmt:
			rename_am_of(((AlterOwnerStmt *) stmt)->objectType, ((AlterOwnerStmt *) stmt)->object);
			break;
		case T_CommentStmt:
			rename_am_of(((CommentStmt *) stmt)->objtype, ((CommentStmt *) stmt)->object);
			break;
		case T_AlterExtensionContentsStmt:
			rename_am_of(((AlterExtensionContentsStmt *) stmt)->objtype, ((AlterExtensionContentsStmt *) stmt)->object);
			break;
		default:
			break;
	}
}

void
ls_index_finish_statement(const LsIndexAfterwards *after, const char *query)
{
	if (after->statements == NIL && after->keys == NIL && !OidIsValid(after->new_table))
		return;
	CommandCounterIncrement();
	foreach_ptr(Node, stmt, after->statements)
	{
		PlannedStmt *wrapper = makeNode(PlannedStmt);

		wrapper->commandType = CMD_UTILITY;
		wrapper->utilityStmt = stmt;
		wrapper->stmt_location = -1;
		ProcessUtility(wrapper, query, false, PROCESS_UTILITY_SUBCOMMAND, NULL, NULL, None_Receiver, NULL);
		CommandCounterIncrement();
	}
	ls_index_restore_keys(after->keys);
	if (OidIsValid(after->new_table))
		ls_index_replace_keys(after->new_table);
}
