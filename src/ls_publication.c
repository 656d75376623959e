/*
 * ls_publication.c - leanstore tables are not published.
 *
 * Logical decoding reads the server's log, and what happens to a leanstore table is
 * in the engine's: a subscriber would copy the rows once and never hear of a change.
 * So a statement that would leave a leanstore table in a publication is refused: one
 * that makes or changes the publication, and one that brings a table to a
 * publication of all tables, of a schema, or of a partitioned table.
 *
 * The statement is looked at when it has been executed: then the catalogs say what
 * is published, however it was said.
 */
#include "ls.h"
#include "ls_publication.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "nodes/parsenodes.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"

pg_noreturn static void
refuse(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot publish leanstore table \"%s\"", RelationGetRelationName(rel)),
			 errdetail("Logical decoding does not see the changes of leanstore tables."),
			 errhint("Publish tables of other access methods by their names, or in schemas without leanstore tables.")));
}

/* Tables that may be dropped meanwhile, of a publication that has just been made or changed. */
static void
check_tables(List *relids)
{
	foreach_oid(relid, relids)
	{
		Relation	rel = try_relation_open(relid, AccessShareLock);

		if (rel == NULL)
			continue;
		if (ls_is_table(rel))
			refuse(rel);
		relation_close(rel, AccessShareLock);
	}
}

static void
check_publication(const char *name)
{
	Publication *publication = GetPublicationByName(name, true);

	if (publication == NULL)
		return;
	if (publication->alltables)
		check_tables(GetAllTablesPublicationRelations(false));
	else
	{
		check_tables(GetPublicationRelations(publication->oid, PUBLICATION_PART_LEAF));
		check_tables(GetAllSchemaPublicationRelations(publication->oid, PUBLICATION_PART_LEAF));
	}
}

/* A table that a statement has made or altered, and its partitions. */
static void
check_table(Oid relid)
{
	if (!OidIsValid(relid))
		return;
	foreach_oid(member, find_all_inheritors(relid, NoLock, NULL))
	{
		Relation	rel = try_relation_open(member, AccessShareLock);
		PublicationDesc desc;

		if (rel == NULL)
			continue;
		if (ls_is_table(rel))
		{
			RelationBuildPublicationDesc(rel, &desc);
			if (desc.pubactions.pubinsert || desc.pubactions.pubupdate ||
				desc.pubactions.pubdelete || desc.pubactions.pubtruncate)
				refuse(rel);
		}
		relation_close(rel, AccessShareLock);
	}
}

/* A new table: where it was created, whatever hides it in the search path. */
static Oid
created_table(const RangeVar *name)
{
	return get_relname_relid(name->relname, RangeVarGetCreationNamespace(name));
}

/* Not every ALTER TABLE: only these bring a table, or its changes, to a publication. */
static bool
may_publish(const AlterTableStmt *stmt)
{
	foreach_node(AlterTableCmd, cmd, stmt->cmds)
		if (cmd->subtype == AT_SetAccessMethod || cmd->subtype == AT_SetLogged || cmd->subtype == AT_AttachPartition)
			return true;
	return false;
}

void
ls_publication_check(const Node *parsetree)
{
	switch (nodeTag(parsetree))
	{
		case T_CreatePublicationStmt:
			CommandCounterIncrement();
			check_publication(((const CreatePublicationStmt *) parsetree)->pubname);
			break;
		case T_AlterPublicationStmt:
			CommandCounterIncrement();
			check_publication(((const AlterPublicationStmt *) parsetree)->pubname);
			break;
		case T_CreateStmt:
			CommandCounterIncrement();
			check_table(created_table(((const CreateStmt *) parsetree)->relation));
			break;
		case T_CreateTableAsStmt:
			CommandCounterIncrement();
			check_table(created_table(((const CreateTableAsStmt *) parsetree)->into->rel));
			break;
		case T_AlterTableStmt:
			if (!may_publish((const AlterTableStmt *) parsetree))
				break;
			CommandCounterIncrement();
			check_table(RangeVarGetRelid(((const AlterTableStmt *) parsetree)->relation, NoLock, true));
			break;
		case T_AlterObjectSchemaStmt:
			{
				const AlterObjectSchemaStmt *stmt = (const AlterObjectSchemaStmt *) parsetree;

				if (stmt->objectType != OBJECT_TABLE)
					break;
				CommandCounterIncrement();
				check_table(get_relname_relid(stmt->relation->relname, get_namespace_oid(stmt->newschema, true)));
				break;
			}
		default:
			break;
	}
}
