/*
 * ls_check_other.c - leanstore_check: an index of one of the server's access methods, or of
 * another extension's, against its table.
 *
 * A btree is read by an index scan, so that the keys of its entries are compared as well; gist
 * and spgist by one, too, for a scan meets each entry once.  Other kinds show their entries
 * only to VACUUM: they are asked to "delete" what a callback chooses, which notes every row
 * and chooses none.  While they divide their pages that may show an entry twice, or again
 * later.  Hash indexes are searched for such rows.
 */
#include "postgres.h"

#include "ls_inspect_internal.h"

#include "access/genam.h"
#include "access/itup.h"
#include "access/relscan.h"
#include "access/stratnum.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

/* Entry's columns against what the row gives now. */
static void
check_columns(LsIndexCheck *check, IndexTuple itup, TupleDesc itup_desc, ItemPointer tid)
{
	Datum		row_values[INDEX_MAX_KEYS];
	bool		row_nulls[INDEX_MAX_KEYS];

	FormIndexDatum(check->info, check->slot, check->estate, row_values, row_nulls);
	for (int i = 0; i < check->info->ii_NumIndexAttrs; i++)
	{
		CompactAttribute *att = TupleDescCompactAttr(itup_desc, i);
		bool		isnull;
		Datum		value = index_getattr(itup, i + 1, itup_desc, &isnull);
		bool		equal;

		/* An opclass may store another type (name as cstring): images do not compare then. */
		if (TupleDescAttr(RelationGetDescr(check->index), i)->atttypid == CSTRINGOID)
			continue;
		if (isnull || row_nulls[i])
			equal = isnull == row_nulls[i];
		else
			equal = datum_image_eq(value, row_values[i], att->attbyval, att->attlen);
		if (!equal)
			ls_check_raise_different(check, tid, i + 1);
	}
}

/* All entries by a scan of the index; of a btree their columns, too. */
static void
scan_entries(LsIndexCheck *check)
{
	bool		ordered = check->index->rd_rel->relam == BTREE_AM_OID;
	IndexScanDesc scan = index_beginscan(check->table, check->index, SnapshotAny, NULL, 0, 0);
	ItemPointer tid;

	scan->xs_want_itup = ordered;
	index_rescan(scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		ls_check_note_entry(check, tid);
		if (!ordered || !ls_check_row_lives(check, tid))
			continue;			/* dead: the entry waits for cleaning */
		ResetPerTupleExprContext(check->estate);
		old = MemoryContextSwitchTo(GetPerTupleMemoryContext(check->estate));
		check_columns(check, scan->xs_itup, scan->xs_itupdesc, tid);
		MemoryContextSwitchTo(old);
	}
	index_endscan(scan);
}

static bool
note_entry_keep_it(ItemPointer tid, void *check)
{
	ls_check_note_entry(check, tid);
	return false;
}

static void
list_entries(LsIndexCheck *check)
{
	IndexVacuumInfo info = {
		.index = check->index,
		.heaprel = check->table,
		.message_level = DEBUG2,
		.num_heap_tuples = check->table->rd_rel->reltuples,
		.estimated_count = true,
	};

	/* As VACUUM: one at a time. */
	LockRelation(check->table, ShareUpdateExclusiveLock);
	index_bulk_delete(&info, NULL, note_entry_keep_it, check);
	UnlockRelation(check->table, ShareUpdateExclusiveLock);
}

/* VACUUM's way takes a lock, and may write, which a standby cannot. */
bool
ls_check_other_can(Relation index)
{
	switch (index->rd_rel->relam)
	{
		case BTREE_AM_OID:
		case GIST_AM_OID:
		case SPGIST_AM_OID:
			return true;
		default:
			return !RecoveryInProgress();
	}
}

bool
ls_check_other_entries(LsIndexCheck *check)
{
	switch (check->index->rd_rel->relam)
	{
		case BTREE_AM_OID:
		case GIST_AM_OID:
		case SPGIST_AM_OID:
			scan_entries(check);
			return true;
		case HASH_AM_OID:
			list_entries(check);
			return true;
		default:
			/* gin has many entries of a row, and others may have */
			list_entries(check);
			return false;
	}
}

/* ---- one row */

static LsEntryFound
search_hash(LsIndexCheck *check, ItemPointer tid, Datum value)
{
	Relation	index = check->index;
	Oid			type = index->rd_opcintype[0];
	Oid equality = get_opfamily_member(index->rd_opfamily[0], type, type, HTEqualStrategyNumber);
	IndexScanDesc scan;
	ScanKeyData key;
	ItemPointer found;
	int			entries = 0;

	ScanKeyEntryInitialize(&key, 0, 1, HTEqualStrategyNumber, type, index->rd_indcollation[0],
						   get_opcode(equality), value);
	scan = index_beginscan(check->table, index, SnapshotAny, NULL, 1, 0);
	index_rescan(scan, &key, 1, NULL, 0);
	while (entries < 2 && (found = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		entries += ItemPointerEquals(found, tid);
	}
	index_endscan(scan);
	return entries == 0 ? LS_ENTRY_MISSING : entries == 1 ? LS_ENTRY_ONCE : LS_ENTRY_TWICE;
}

/*
 * An access method that needs a condition on the first column for a scan need not have entries
 * without a value there: hash has none.  What access methods of others do with NULL is not known.
 */
static bool
may_be_left_out(const LsIndexCheck *check, const bool *isnull)
{
	if (!check->index->rd_indam->amoptionalkey && isnull[0])
		return true;
	if (check->index->rd_rel->relam < FirstNormalObjectId)
		return false;
	for (int i = 0; i < check->info->ii_NumIndexKeyAttrs; i++)
		if (isnull[i])
			return true;
	return false;
}

LsEntryFound
ls_check_other_entry(LsIndexCheck *check, ItemPointer tid, uint64 noted)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	if (!ls_check_row_lives(check, tid))
		return LS_ENTRY_NOT_WANTED;
	ResetPerTupleExprContext(check->estate);
	FormIndexDatum(check->info, check->slot, check->estate, values, isnull);
	if (noted == 0 && may_be_left_out(check, isnull))
		return LS_ENTRY_NOT_WANTED;
	if (check->index->rd_rel->relam == HASH_AM_OID)
		return search_hash(check, tid, values[0]);
	return noted == 0 ? LS_ENTRY_MISSING : LS_ENTRY_TWICE;
}
