/*
 * ls_publication.c - leanstore tables are not published.
 *
 * Logical decoding reads the server's log, and what happens to a leanstore table is
 * in the engine's: a subscriber would copy the rows once and never hear of a change.
 * So what would leave a leanstore table in a publication is refused: a statement
 * that makes or changes the publication, and whatever brings a table to a
 * publication of all tables, of a schema, or of a partitioned table.
 *
 * The tables that a statement has made or changed are told by the object access hook.  They and the
 * publication are looked at when it has been executed: then the catalogs say what
 * is published, however it was said.
 *
 * A transaction that makes a leanstore table, and one that makes a publication, do not see
 * each other.  Both lock the same object until they end, before they look: so the later one
 * sees what the earlier has left.
 *
 * Catalogs may be changed in other ways, or while this library is not loaded: so the first
 * change of rows that finds the table in a publication is refused, too.
 */
#include "postgres.h"

#include "ls_table_internal.h"

#include "access/relation.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

/* Tables that a statement of this transaction has made, changed or truncated: until its end. */
static List *touched = NIL;
static LocalTransactionId touched_by = InvalidLocalTransactionId;

/* Those that make tables do not wait for each other, nor do those that publish. */
#define LOCK_TABLES RowExclusiveLock
#define LOCK_PUBLICATIONS ShareLock

static void
lock_publications(LOCKMODE mode)
{
	LockDatabaseObject(PublicationRelationId, InvalidOid, 0, mode);
}

static bool
is_published(Relation rel)
{
	PublicationDesc desc;

	/*
	 * the new contents of a table or a materialized view, until they take the place of the old ones
	 */
	if (OidIsValid(rel->rd_rel->relrewrite))
		return false;
	RelationBuildPublicationDesc(rel, &desc);
	return desc.pubactions.pubinsert || desc.pubactions.pubupdate ||
		desc.pubactions.pubdelete || desc.pubactions.pubtruncate;
}

pg_noreturn static void
refuse(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot publish leanstore table \"%s\"", RelationGetRelationName(rel)),
			 errdetail("Logical decoding does not see the changes of leanstore tables."),
			 errhint("Publish tables of other access methods by their names, "
					 "or in schemas without leanstore tables.")));
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
	lock_publications(LOCK_PUBLICATIONS);
	if (publication->alltables)
		check_tables(GetAllTablesPublicationRelations(false));
	else
	{
		check_tables(GetPublicationRelations(publication->oid, PUBLICATION_PART_LEAF));
		check_tables(GetAllSchemaPublicationRelations(publication->oid, PUBLICATION_PART_LEAF));
	}
}

/* A table that a statement has made, changed or truncated, and its partitions. */
static void
check_table(Oid relid)
{
	/* that a rewritten table had for a while */
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return;
	foreach_oid(member, find_all_inheritors(relid, NoLock, NULL))
	{
		Relation	rel;

		/* tables of other access methods may be locked by others */
		if (get_rel_relam(member) != ls_table_am_oid())
			continue;
		rel = try_relation_open(member, AccessShareLock);
		if (rel == NULL)
			continue;
		if (ls_is_table(rel) && is_publishable_relation(rel))
		{
			lock_publications(LOCK_TABLES);
			if (is_published(rel))
				refuse(rel);
		}
		relation_close(rel, AccessShareLock);
	}
}

static void
check_touched(void)
{
	List	   *relids = touched_by == MyProc->vxid.lxid ? touched : NIL;

	if (relids == NIL)
		return;
	touched = NIL;
	CommandCounterIncrement();
	foreach_oid(relid, relids)
		check_table(relid);
	list_free(relids);
}

void
ls_publication_check(const Node *parsetree)
{
	/* a ROLLBACK: what was touched has gone */
	if (!IsTransactionState())
		return;
	check_touched();
	if (IsA(parsetree, CreatePublicationStmt))
	{
		CommandCounterIncrement();
		check_publication(((const CreatePublicationStmt *) parsetree)->pubname);
	}
	else if (IsA(parsetree, AlterPublicationStmt) &&
			 ((const AlterPublicationStmt *) parsetree)->action != AP_DropObjects)
	{
		CommandCounterIncrement();
		check_publication(((const AlterPublicationStmt *) parsetree)->pubname);
	}
}

static void
note_touched(Oid relid)
{
	MemoryContext old;

	/* what is left of another transaction has gone with its memory */
	if (touched_by != MyProc->vxid.lxid)
		touched = NIL;
	touched_by = MyProc->vxid.lxid;
	old = MemoryContextSwitchTo(TopTransactionContext);
	touched = list_append_unique_oid(touched, relid);
	MemoryContextSwitchTo(old);
}

void
ls_publication_note_access(ObjectAccessType access, Oid class_id, Oid object_id,
						   int sub_id)
{
	bool changed = access == OAT_POST_CREATE || access == OAT_POST_ALTER || access == OAT_TRUNCATE;

	/* the second: has become a partition */
	if (changed &&
		((class_id == RelationRelationId && sub_id == 0) || class_id == InheritsRelationId))
		note_touched(object_id);
}

void
ls_publication_refuse_change(Relation rel)
{
	if (is_published(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot change leanstore table \"%s\" because it is published",
						RelationGetRelationName(rel)),
				 errdetail("Logical decoding does not see the changes of leanstore tables."),
				 errhint("Take it out of the publication with ALTER PUBLICATION, "
						 "or drop the publication.")));
	ls_relation_cache(rel)->unpublished = true;
}
