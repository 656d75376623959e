/*
 * ls_check.c - leanstore_check(regclass): the table's tree, its large values
 * (ls_check_values.c), and each index against its rows, both ways.
 *
 * Entries are read by ls_check_leanstore.c and ls_check_other.c; BRIN has none.  Rows and indexes
 * may change meanwhile, so each difference is decided on the row again under the newest state.
 * Index against table: the entry of a row that lives must carry the key that the row has now.
 * Table against index: every committed row that satisfies the predicate must be found, by its
 * present key, and no row twice.
 *
 * Expressions of indexes are evaluated as the table's owner, as REINDEX does.
 */
#include "postgres.h"

#include "ls_inspect_internal.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"
#include "row/ls_row.h"

#include "access/genam.h"
#include "access/relation.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(leanstore_check);

/* What the files that read entries need. */

void
ls_check_note_entry(LsIndexCheck *check, ItemPointer tid)
{
	tuplesort_putdatum(check->noted, Int64GetDatum((int64) ls_tid_to_row(tid)), false);
}

bool
ls_check_row_lives(LsIndexCheck *check, ItemPointer tid)
{
	return table_tuple_fetch_row_version(check->table, tid, SnapshotSelf, check->slot);
}

void
ls_check_raise_different(LsIndexCheck *check, ItemPointer tid, int column)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" has an entry for row (%u,%u) whose column %d differs "
					"from the row",
					RelationGetRelationName(check->index),
					ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid), column),
			 errhint("REINDEX the index.")));
}

static bool
satisfies_predicate(LsIndexCheck *check, TupleTableSlot *slot)
{
	ExprContext *econtext = GetPerTupleExprContext(check->estate);
	bool		satisfied;

	if (check->predicate == NULL)
		return true;
	econtext->ecxt_scantuple = slot;
	satisfied = ExecQual(check->predicate, econtext);
	econtext->ecxt_scantuple = check->slot;
	return satisfied;
}

static LsEntryFound
entry_of(LsIndexCheck *check, ItemPointer tid, uint64 noted)
{
	if (!ls_is_index(check->index))
		return ls_check_other_entry(check, tid, noted);
	if (noted == 0)
		return ls_check_leanstore_entry(check, tid);
	return ls_check_row_lives(check, tid) ? LS_ENTRY_TWICE : LS_ENTRY_NOT_WANTED;
}

/* A row was noted so often: is that a fault? */
static void
check_row(LsIndexCheck *check, ItemPointer tid, uint64 noted)
{
	switch (entry_of(check, tid, noted))
	{
		case LS_ENTRY_MISSING:
			ereport(ERROR, (errcode(ERRCODE_INDEX_CORRUPTED),
							errmsg("row (%u,%u) of table \"%s\" is missing in index \"%s\"",
								   ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid),
								   RelationGetRelationName(check->table),
								   RelationGetRelationName(check->index)),
							errhint("REINDEX the index.")));
			break;
		case LS_ENTRY_TWICE:
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("index \"%s\" has more than one entry for row (%u,%u)",
							RelationGetRelationName(check->index),
							ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid)),
					 errhint("REINDEX the index.")));
			break;
		case LS_ENTRY_ONCE:
		case LS_ENTRY_NOT_WANTED:
			break;
	}
}

static uint64
take_noted(LsIndexCheck *check)
{
	Datum		row_id;
	bool		isnull;

	if (!tuplesort_getdatum(check->noted, true, false, &row_id, &isnull, NULL))
		return 0;
	return (uint64) DatumGetInt64(row_id);
}

/*
 * Was the row noted?  Asked in the order of row ids.  counted: the index is of a kind that has
 * one entry for a row, so those that were noted more often are looked at on the way.
 */
static bool
was_noted(LsIndexCheck *check, uint64 row_id, bool counted)
{
	while (check->next_noted != 0 && check->next_noted <= row_id)
	{
		uint64		noted = check->next_noted;
		uint64		entries = 0;

		CHECK_FOR_INTERRUPTS();
		for (; check->next_noted == noted; check->next_noted = take_noted(check))
			entries++;
		if (counted && entries > 1)
		{
			ItemPointerData tid;

			ls_row_to_tid(noted, &tid);
			check_row(check, &tid, entries);
		}
		if (noted == row_id)
			return true;
	}
	return false;
}

/* Both are in the order of row ids: memory is bounded (maintenance_work_mem). */
static void
rows_against_entries(LsIndexCheck *check, Snapshot snapshot, bool counted)
{
	TupleTableSlot *slot = table_slot_create(check->table, NULL);
	TableScanDesc scan = table_beginscan(check->table, snapshot, 0, NULL);

	tuplesort_performsort(check->noted);
	check->next_noted = take_noted(check);
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		ItemPointerData tid = slot->tts_tid;

		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(check->estate);
		if (was_noted(check, ls_tid_to_row(&tid), counted))
			continue;
		if (!satisfies_predicate(check, slot))
			continue;
		/* Deleted since, or moved to another row id: then the index is right. */
		if (!ls_check_row_lives(check, &tid) || !satisfies_predicate(check, check->slot))
			continue;
		check_row(check, &tid, 0);
	}
	(void) was_noted(check, PG_UINT64_MAX, counted);
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

static void
check_index(Relation table, Oid index_oid)
{
	LsIndexCheck check = {0};
	Snapshot	snapshot;

	check.index = index_open(index_oid, AccessShareLock);
	if (check.index->rd_rel->relam == BRIN_AM_OID || !check.index->rd_index->indisvalid)
		;						/* it has no entries, or need not have them */
	else if (!ls_is_index(check.index) && !ls_check_other_can(check.index))
		ereport(WARNING,
				(errmsg("index \"%s\" was not compared with its table",
						RelationGetRelationName(check.index)),
				 errdetail("Entries of its access method are not listed on a standby."),
				 errhint("Run leanstore_check on the primary.")));
	else
	{
		bool		counted;

		/* Rows committed before the index is read must be in it. */
		ls_pin_withdraw();
		snapshot = RegisterSnapshot(GetLatestSnapshot());
		check.table = table;
		check.info = BuildIndexInfo(check.index);
		check.estate = CreateExecutorState();
		check.predicate = ExecPrepareQual(check.info->ii_Predicate, check.estate);
		check.slot = table_slot_create(table, NULL);
		check.noted = tuplesort_begin_datum(INT8OID, Int8LessOperator, InvalidOid, false,
											maintenance_work_mem, NULL, TUPLESORT_NONE);
		GetPerTupleExprContext(check.estate)->ecxt_scantuple = check.slot;

		counted = ls_is_index(check.index) ? ls_check_leanstore_entries(&check) :
			ls_check_other_entries(&check);
		rows_against_entries(&check, snapshot, counted);

		tuplesort_end(check.noted);
		ExecDropSingleTupleTableSlot(check.slot);
		FreeExecutorState(check.estate);
		UnregisterSnapshot(snapshot);
	}
	index_close(check.index, AccessShareLock);
}

Datum
leanstore_check(PG_FUNCTION_ARGS)
{
	Relation	rel = ls_inspect_open(PG_GETARG_OID(0));
	ls_check_result result;
	ls_error	error = {0};
	Oid			user;
	int			context;
	int			guc_level;

	ls_check(ls_rel_check(ls_reader(), ls_open(rel), &result, &error), error, rel);
	ereport(DEBUG1,
			(errmsg("leanstore table \"%s\": " UINT64_FORMAT " pages, " UINT64_FORMAT " rows, "
					UINT64_FORMAT " ghosts",
					RelationGetRelationName(rel), result.pages, result.rows, result.ghosts)));

	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(rel->rd_rel->relowner, context | SECURITY_RESTRICTED_OPERATION);
	guc_level = NewGUCNestLevel();
	RestrictSearchPath();
	ls_check_values(rel);
	/* the index that the server gives a TOAST table is empty */
	if (!ls_holds_values(rel))
		foreach_oid(index_oid, RelationGetIndexList(rel))
			check_index(rel, index_oid);
	AtEOXact_GUC(false, guc_level);
	SetUserIdAndSecContext(user, context);
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}
