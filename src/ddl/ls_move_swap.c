/*
 * ls_move_swap.c - two relations change files in the catalogs, as CLUSTER does when it has written
 * a table anew; but indexes are not built, for they come along.
 *
 * Both relations are locked exclusively.  The kept one is what users know, the other one is going
 * to be dropped by this transaction.
 */
#include "postgres.h"

#include "ls_move.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "utils/relcache.h"
#include "utils/syscache.h"

#define SWAP(type, a, b) \
	do { type swapped = (a); (a) = (b); (b) = swapped; } while (0)

static HeapTuple
class_of(Oid relid)
{
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(relid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	return tuple;
}

/* What the server remembers of files that are new in this transaction. */
static void
swap_ages(Oid kept, Oid other)
{
	Relation	a = relation_open(kept, NoLock);
	Relation	b = relation_open(other, NoLock);

	b->rd_createSubid = a->rd_createSubid;
	b->rd_newRelfilelocatorSubid = a->rd_newRelfilelocatorSubid;
	b->rd_firstRelfilelocatorSubid = a->rd_firstRelfilelocatorSubid;
	RelationAssumeNewRelfilelocator(a);
	relation_close(a, NoLock);
	relation_close(b, NoLock);
}

static void
depend_on_method(Oid relid, Oid before, Oid now)
{
	if (changeDependencyFor(RelationRelationId, relid, AccessMethodRelationId, before, now) != 1)
		elog(ERROR, "could not change access method dependency of relation %u", relid);
}

void
ls_swap_files(Oid kept, Oid other)
{
	Relation	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	kept_tuple = class_of(kept);
	HeapTuple	other_tuple = class_of(other);
	Form_pg_class a = (Form_pg_class) GETSTRUCT(kept_tuple);
	Form_pg_class b = (Form_pg_class) GETSTRUCT(other_tuple);
	const bool	is_table = a->relkind != RELKIND_INDEX;
	CatalogIndexState state;

	Assert(RelFileNumberIsValid(a->relfilenode) && RelFileNumberIsValid(b->relfilenode));
	swap_ages(kept, other);
	SWAP(RelFileNumber, a->relfilenode, b->relfilenode);
	SWAP(Oid, a->reltablespace, b->reltablespace);
	SWAP(Oid, a->relam, b->relam);
	SWAP(int32, a->relpages, b->relpages);
	SWAP(float4, a->reltuples, b->reltuples);
	SWAP(int32, a->relallvisible, b->relallvisible);
	SWAP(int32, a->relallfrozen, b->relallfrozen);
	SWAP(TransactionId, a->relfrozenxid, b->relfrozenxid);
	SWAP(MultiXactId, a->relminmxid, b->relminmxid);
	if (is_table)
		SWAP(Oid, a->reltoastrelid, b->reltoastrelid);

	state = CatalogOpenIndexes(pg_class);
	CatalogTupleUpdateWithInfo(pg_class, &kept_tuple->t_self, kept_tuple, state);
	CatalogTupleUpdateWithInfo(pg_class, &other_tuple->t_self, other_tuple, state);
	CatalogCloseIndexes(state);
	if (is_table && a->relam != b->relam)
	{
		depend_on_method(kept, b->relam, a->relam);
		depend_on_method(other, a->relam, b->relam);
	}
	InvokeObjectPostAlterHookArg(RelationRelationId, kept, 0, InvalidOid, true);
	InvokeObjectPostAlterHookArg(RelationRelationId, other, 0, InvalidOid, true);
	heap_freetuple(kept_tuple);
	heap_freetuple(other_tuple);
	table_close(pg_class, RowExclusiveLock);
	CommandCounterIncrement();
}

static Oid
toast_of(Oid relid)
{
	HeapTuple	tuple = class_of(relid);
	const Oid	toast = ((Form_pg_class) GETSTRUCT(tuple))->reltoastrelid;

	heap_freetuple(tuple);
	return toast;
}

static void
depend_on_table(Oid toast, Oid table)
{
	ObjectAddress depender = {RelationRelationId, toast, 0};
	ObjectAddress owner = {RelationRelationId, table, 0};

	if (!OidIsValid(toast))
		return;
	if (deleteDependencyRecordsFor(RelationRelationId, toast, false) != 1)
		elog(ERROR, "TOAST table %u has other dependencies than its table", toast);
	recordDependencyOn(&depender, &owner, DEPENDENCY_INTERNAL);
}

void
ls_swap_toast(Oid kept, Oid other)
{
	depend_on_table(toast_of(kept), kept);
	depend_on_table(toast_of(other), other);
	CommandCounterIncrement();
}
