/*
 * ls_index_utility.c - what utility commands need to know of leanstore indexes.
 *
 * Which access method an index gets: ls_index_choose.c.
 *
 * The name.  Access methods of tables and indexes share one name space, so "leanstore" is taken;
 * where only an index access method can be meant this file reads it as leanstore_index.
 *
 * Access methods come and go: ls_index_replace.c.
 *
 * Moving.  The server moves an index to another tablespace by copying its
 * pages through code that knows its own page format; ours is built there anew.
 *
 * docs/decisions/0006-index-access-method-name.md says why it is done this way.
 */
#include "postgres.h"

#include "ls_ddl_internal.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"
#include "index/ls_index.h"

#include "access/heapam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_constraint.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "commands/tablespace.h"
#include "commands/user.h"
#include "tcop/dest.h"
#include "nodes/makefuncs.h"
#include "parser/parse_node.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* It may be that of a constraint, but for its columns. */
static bool
may_be_constraint(Relation rel, Relation index, const Constraint *constraint)
{
	Form_pg_index form = index->rd_index;

	return form->indrelid == RelationGetRelid(rel) && form->indisvalid && form->indisunique &&
		!OidIsValid(get_index_constraint(RelationGetRelid(index))) &&
		RelationGetIndexExpressions(index) == NIL && RelationGetIndexPredicate(index) == NIL &&
		(form->indimmediate || constraint->deferrable);
}

/* Does the statement give a column a new type?  That makes another index of it. */
static bool
changes_type(const AlterTableStmt *stmt)
{
	foreach_node(AlterTableCmd, cmd, stmt->cmds)
		if (cmd->subtype == AT_AlterColumnType)
			return true;
	return false;
}

/* The command is a statement of its own, behind this one. */
static void
put_behind(AlterTableStmt *stmt, AlterTableCmd *cmd, LsIndexAfterwards *after)
{
	AlterTableStmt *later = makeNode(AlterTableStmt);

	later->relation = stmt->relation;
	later->objtype = stmt->objtype;
	later->cmds = list_make1(cmd);
	after->statements = lappend(after->statements, later);
	stmt->cmds = list_delete_ptr(stmt->cmds, cmd);
}

/* A constraint's columns are in their type's order, and those of a primary key are not null. */
static void
check_columns(Relation rel, Relation index, AlterTableStmt *stmt, const Constraint *constraint,
			  const char *query)
{
	Form_pg_index form = index->rd_index;

	for (int i = 0; i < form->indnkeyatts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), form->indkey.values[i] - 1);
		Oid			opclass = ls_index_default_class(att->atttypid);

		if (!OidIsValid(opclass) || get_opclass_family(opclass) != index->rd_opfamily[i] ||
			get_opclass_input_type(opclass) != index->rd_opcintype[i] ||
			att->attcollation != index->rd_indcollation[i] ||
			(index->rd_indoption[i] & LS_INDEX_ORDER_OPTIONS) != 0)
		{
			ParseState *pstate = make_parsestate(NULL);

			pstate->p_sourcetext = query;
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("index \"%s\" column number %d does not have default sorting behavior",
							constraint->indexname, i + 1),
					 errdetail("Cannot create a primary key or unique constraint using "
							   "such an index."),
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
}

/*
 * ADD CONSTRAINT ... USING INDEX: the server takes a btree only, before it makes of the
 * statement what it executes.  So that is made here, of an index that would do if it
 * were one; of others the server says what is wrong with them.
 */
static bool
use_index(Relation rel, AlterTableStmt *stmt, AlterTableCmd *cmd, const char *query,
		  LsIndexAfterwards *after)
{
	Constraint *constraint = castNode(Constraint, cmd->def);
	Oid			index_oid = constraint->indexname == NULL ? InvalidOid
		: get_relname_relid(constraint->indexname, RelationGetNamespace(rel));
	IndexStmt  *made;
	Relation	index;

	if (!OidIsValid(index_oid) || get_rel_relam(index_oid) != ls_index_am_oid())
		return false;
	index = index_open(index_oid, AccessShareLock);
	if (!may_be_constraint(rel, index, constraint))
	{
		index_close(index, NoLock);
		return false;
	}
	if (changes_type(stmt))
	{
		put_behind(stmt, cmd, after);
		index_close(index, NoLock);
		return true;
	}
	check_columns(rel, index, stmt, constraint, query);

	made = makeNode(IndexStmt);
	made->unique = true;
	made->primary = constraint->contype == CONSTR_PRIMARY;
	made->isconstraint = true;
	made->nulls_not_distinct = index->rd_index->indnullsnotdistinct;
	made->deferrable = constraint->deferrable;
	made->initdeferred = constraint->initdeferred;
	made->idxname = constraint->conname;
	made->relation = stmt->relation;
	made->accessMethod = LS_INDEX_AM;
	made->indexOid = index_oid;
	index_close(index, NoLock);
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
	reindex->relation = makeRangeVar(get_namespace_name(get_rel_namespace(index)),
									 get_rel_name(index), -1);
	reindex->params = list_make1(
		makeDefElem("tablespace", (Node *) makeString(pstrdup(tablespace)), -1));
	ExecReindex(make_parsestate(NULL), reindex, false);
	CommandCounterIncrement();
}

static Oid
tablespace_of(Oid relid)
{
	Oid			tablespace = get_rel_tablespace(relid);

	return OidIsValid(tablespace) ? tablespace : MyDatabaseTableSpace;
}

/*
 * ALTER INDEX i SET TABLESPACE t.  The command stays: the server, and libraries below that may
 * refuse it, then find the index there.
 */
static void
move_if_index(const AlterTableStmt *stmt, const AlterTableCmd *cmd)
{
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	Oid			tablespace = get_tablespace_oid(cmd->name, true);

	if (OidIsValid(relid) && OidIsValid(tablespace) && ls_index_is_ours(relid) &&
		tablespace_of(relid) != tablespace)
		move_index(relid, cmd->name);
}

static void
lock_without_wait(Oid relid, LOCKMODE mode)
{
	if (!ConditionalLockRelationOid(relid, mode))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("aborting because lock on relation \"%s.%s\" is not available",
						get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid))));
}

/* NOWAIT: what REINDEX will lock, of all indexes before the first is moved. */
static void
lock_all_indexes(List *indexes)
{
	foreach_oid(index, indexes)
	{
		Oid			table = IndexGetRelation(index, true);

		if (!OidIsValid(table))
			continue;
		if (!object_ownercheck(RelationRelationId, index, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, get_rel_name(index));
		lock_without_wait(table, ShareLock);
		lock_without_wait(index, AccessExclusiveLock);
	}
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

		if (form->relkind == RELKIND_INDEX && form->relam == ls_index_am_oid() &&
			tablespace_of(form->oid) == from && !isAnyTempNamespace(form->relnamespace) &&
			(roles == NIL || list_member_oid(roles, form->relowner)))
			indexes = lappend_oid(indexes, form->oid);
	}
	table_endscan(scan);
	table_close(pg_class, AccessShareLock);

	if (stmt->nowait)
		lock_all_indexes(indexes);
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

/*
 * Does the table move from or to our access method?  Only its own rows do, so it is none with
 * partitions.
 */
static void
prepare_access_method(Relation rel, const AlterTableStmt *stmt, const AlterTableCmd *cmd,
					  LsIndexAfterwards *after)
{
	bool to_leanstore = ls_is_named(cmd->name != NULL ? cmd->name : default_table_access_method,
									LS_TABLE_AM);
	bool		build = list_length(stmt->cmds) > 1;

	if (!RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) || RELKIND_HAS_PARTITIONS(rel->rd_rel->relkind))
		return;
	if (ls_is_table(rel) && !to_leanstore)
		ls_index_replace_ours(RelationGetRelid(rel), build);
	else if (ls_is_table(rel) || !to_leanstore || ls_default_index != LS_DEFAULT_INDEX_LEANSTORE)
		return;
	else if (build)
		after->new_table = RelationGetRelid(rel);
	else
		ls_index_replace_btree(RelationGetRelid(rel), false);
}

/* What the server will refuse is left to it. */
static void
prepare_attach(Relation table, const PartitionCmd *command)
{
	Oid			partition = RangeVarGetRelid(command->name, AccessExclusiveLock, true);

	if (OidIsValid(partition) &&
		object_ownercheck(RelationRelationId, partition, GetUserId()) &&
		get_rel_relkind(partition) == RELKIND_RELATION)
		ls_index_follow_partition(table, partition);
}

static void
prepare_alter_table(AlterTableStmt *stmt, const char *query, LsIndexAfterwards *after)
{
	bool		concerned = false;
	List	   *keys = NIL;
	LOCKMODE	lockmode;
	Relation	rel;

	foreach_node(AlterTableCmd, cmd, stmt->cmds)
	{
		if (cmd->subtype == AT_SetTableSpace)
			move_if_index(stmt, cmd);
		else if (cmd->subtype == AT_AddConstraint || cmd->subtype == AT_AlterColumnType ||
				 cmd->subtype == AT_SetAccessMethod || cmd->subtype == AT_AttachPartition ||
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
			prepare_access_method(rel, stmt, cmd, after);
		else if (cmd->subtype == AT_AttachPartition)
			prepare_attach(rel, castNode(PartitionCmd, cmd->def));
		else if (cmd->subtype == AT_AlterColumnType && keys == NIL)
			keys = ls_index_note_keys(RelationGetRelid(rel), stmt->relation->inh, lockmode);
		else if (cmd->subtype == AT_AddConstraint)
		{
			if (!ls_index_table_suits(rel) || !use_index(rel, stmt, cmd, query, after))
				ls_index_choose_for_constraint(rel, stmt, castNode(Constraint, cmd->def), NULL,
											   query);
		}
		else if (cmd->subtype == AT_AddColumn)
			foreach_node(Constraint, constraint, ((ColumnDef *) cmd->def)->constraints)
				ls_index_choose_for_constraint(rel, stmt, constraint,
											   ((ColumnDef *) cmd->def)->colname, query);
	}
	relation_close(rel, NoLock);
	(void) ls_index_expect_keys(keys);
}

/* ---- names of operator classes and families -------------------------------- */

static void
rename_am(List *object)
{
	String	   *name = linitial_node(String, object);

	if (ls_is_named(name->sval, LS_TABLE_AM))
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
	if (ls_is_named(*name, LS_TABLE_AM))
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
ls_index_prepare_statement(PlannedStmt *pstmt, const char *query, ProcessUtilityContext context,
						   LsIndexAfterwards *after)
{
	Node	   *stmt = pstmt->utilityStmt;

	switch (nodeTag(stmt))
	{
		case T_IndexStmt:
			ls_index_choose((IndexStmt *) stmt, pstmt, query, context);
			break;
		case T_AlterTableStmt:
			prepare_alter_table((AlterTableStmt *) stmt, query, after);
			break;
		case T_AlterTableMoveAllStmt:
			if (((AlterTableMoveAllStmt *) stmt)->objtype == OBJECT_INDEX)
				move_all_indexes((AlterTableMoveAllStmt *) stmt);
			break;
		case T_CreateStmt:
			ls_index_choose_for_table((CreateStmt *) stmt);
			break;
		case T_CreateSchemaStmt:
			ls_index_mark_schema_elements((CreateSchemaStmt *) stmt, query, pstmt->stmt_location,
										  pstmt->stmt_len);
			break;
		case T_CreateOpClassStmt:
			rename_am_name(&((CreateOpClassStmt *) stmt)->amname);
			if (ls_is_named(((CreateOpClassStmt *) stmt)->amname, LS_INDEX_AM))
				ls_index_make_way((CreateOpClassStmt *) stmt);
			break;
		case T_CreateOpFamilyStmt:
			rename_am_name(&((CreateOpFamilyStmt *) stmt)->amname);
			break;
		case T_AlterOpFamilyStmt:
			rename_am_name(&((AlterOpFamilyStmt *) stmt)->amname);
			break;
		case T_DropStmt:
			if (((DropStmt *) stmt)->removeType == OBJECT_OPCLASS ||
				((DropStmt *) stmt)->removeType == OBJECT_OPFAMILY)
				foreach_ptr(List, object, ((DropStmt *) stmt)->objects)
					rename_am(object);
			break;
		case T_RenameStmt:
			rename_am_of(((RenameStmt *) stmt)->renameType, ((RenameStmt *) stmt)->object);
			break;
		case T_AlterObjectSchemaStmt:
			rename_am_of(((AlterObjectSchemaStmt *) stmt)->objectType,
						 ((AlterObjectSchemaStmt *) stmt)->object);
			break;
		case T_AlterOwnerStmt:
			rename_am_of(((AlterOwnerStmt *) stmt)->objectType, ((AlterOwnerStmt *) stmt)->object);
			break;
		case T_CommentStmt:
			rename_am_of(((CommentStmt *) stmt)->objtype, ((CommentStmt *) stmt)->object);
			break;
		case T_AlterExtensionContentsStmt:
			rename_am_of(((AlterExtensionContentsStmt *) stmt)->objtype,
						 ((AlterExtensionContentsStmt *) stmt)->object);
			break;
		default:
			break;
	}
}

void
ls_index_finish_statement(const LsIndexAfterwards *after, const char *query)
{
	if (after->statements == NIL && !OidIsValid(after->new_table))
		return;
	CommandCounterIncrement();
	foreach_ptr(Node, stmt, after->statements)
	{
		PlannedStmt *wrapper = makeNode(PlannedStmt);

		wrapper->commandType = CMD_UTILITY;
		wrapper->utilityStmt = stmt;
		wrapper->stmt_location = -1;
		ProcessUtility(wrapper, query, false, PROCESS_UTILITY_SUBCOMMAND, NULL, NULL, None_Receiver,
					   NULL);
		CommandCounterIncrement();
	}
	if (OidIsValid(after->new_table))
		ls_index_replace_btree(after->new_table, true);
}
