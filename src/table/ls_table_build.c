/*
 * ls_table_build.c - reading the table for a new index.
 *
 * There is one version of a row to index: the newest.  Older ones that some
 * snapshot may still read have the same key in every index that was there when
 * they were replaced; in an index that is made now they may lack one.  The build
 * then sets ii_BrokenHotChain and PostgreSQL keeps such snapshots off the index,
 * as it does for heap's HOT chains.
 *
 * BRIN summarizes a range while others write ("anyvisible") and has no such
 * protection, so it is shown all versions that a snapshot may see or a rollback bring back.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "access/genam.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "executor/executor.h"
#include "pgstat.h"
#include "storage/procarray.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

typedef struct Build
{
	Relation	table;
	Relation	index;
	IndexInfo  *info;
	EState	   *estate;
	ExprContext *econtext;
	ExprState  *predicate;
	TupleTableSlot *slot;
	IndexBuildCallback callback;
	void	   *callback_state;
	bool		anyvisible;
	uint64		own_tn;
	uint64		horizon;		/* writers below it are finished and seen by all snapshots */
	double		live;
} Build;

static void
begin_build(Build *b, Relation table, Relation index, IndexInfo *info)
{
	b->table = table;
	b->index = index;
	b->info = info;
	b->estate = CreateExecutorState();
	b->econtext = GetPerTupleExprContext(b->estate);
	b->slot = table_slot_create(table, NULL);
	b->econtext->ecxt_scantuple = b->slot;
	b->predicate = ExecPrepareQual(info->ii_Predicate, b->estate);
	b->own_tn = ls_own_tn();
}

static void
end_build(Build *b)
{
	ExecDropSingleTupleTableSlot(b->slot);
	FreeExecutorState(b->estate);
	/* these may point into the executor state */
	b->info->ii_ExpressionsState = NIL;
	b->info->ii_PredicateState = NULL;
}

/* The row in its slot; false when the index does not want it. */
static bool
form_entry(Build *b, const ls_row *row, Datum *values, bool *isnull)
{
	MemoryContextReset(b->econtext->ecxt_per_tuple_memory);
	ls_slot_store(b->slot, b->table, row);
	if (b->predicate != NULL && !ExecQual(b->predicate, b->econtext))
		return false;
	FormIndexDatum(b->info, b->slot, b->estate, values, isnull);
	return true;
}

static void
index_row(Build *b, const ls_row *row, bool alive)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	ItemPointerData tid;

	/* the server gives a TOAST table an index, but nothing is looked up in it */
	if (ls_holds_values(b->table) || !form_entry(b, row, values, isnull))
		return;
	ls_row_to_tid(row->row_id, &tid);
	b->callback(b->index, &tid, values, isnull, alive, b->callback_state);
}

/* Is the writer a transaction that may still end either way, and not ours? */
static bool
is_in_progress(Build *b, const ls_row *row)
{
	return row->writer_tn >= b->horizon && row->writer_tn != b->own_tn &&
		ls_tn_is_active(ls_shared->store, row->writer_tn);
}

/* Index the versions before this one, down to the last that all snapshots see. */
static void
index_older_versions(Build *b, const ls_row *newest)
{
	LsVersionWalk walk;
	ls_row		version;

	ls_versions_begin(&walk, b->table, newest, b->horizon);
	while (ls_versions_next(&walk, ls_fetch_buffer(), &version))
		index_row(b, &version, true);
	ls_versions_end(&walk);
}

/* A row for BRIN while others write: every version counts as live. */
static void
build_any_version(Build *b, const ls_row *row)
{
	bool		has_history = row->writer_tn >= b->horizon &&
		(row->flags & (LS_ROW_HAS_PREV | LS_ROW_GHOST)) != 0;
	ls_row		newest = *row;

	if ((row->flags & LS_ROW_GHOST) && row->writer_tn < b->horizon)
		return;
	b->live += 1;
	index_row(b, row, (row->flags & LS_ROW_GHOST) == 0);
	if (has_history)
		index_older_versions(b, &newest);
}

/*
 * A row for any other index.  The table is locked against writers, so a change in
 * progress is our own; should there be another (in a catalog-like use), wait and see
 * what has become of the row.
 */
static void
build_newest_version(Build *b, const ls_row *scanned)
{
	ls_row		row = *scanned;

	while (is_in_progress(b, &row))
	{
		ItemPointerData tid;

		ls_row_to_tid(row.row_id, &tid);
		ls_wait_for_tn(row.writer_tn, 0, b->table, &tid, XLTW_InsertIndexUnique);
		CHECK_FOR_INTERRUPTS();
		if (!ls_fetch_newest(b->table, row.row_id, ls_fetch_buffer(), &row))
			return;
	}

	if (row.writer_tn >= b->horizon && (row.flags & LS_ROW_HAS_PREV))
		b->info->ii_BrokenHotChain = true;

	if ((row.flags & LS_ROW_GHOST) == 0)
	{
		b->live += 1;
		index_row(b, &row, true);
	}
	else if (row.writer_tn >= b->horizon)
		index_row(b, &row, false);	/* some snapshot may still see it */
}

/* Blocks that a scan is going to read and has read, for progress reports. */
static BlockNumber
total_blocks(LsScanDesc *scan)
{
	if (scan->base.rs_parallel != NULL)
		return ((ParallelBlockTableScanDesc) scan->base.rs_parallel)->phs_nblocks;
	return ls_scan_blocks(scan);
}

static void
scan_rows(Build *b, LsScanDesc *scan, bool progress)
{
	bool		mvcc = scan->base.rs_snapshot != SnapshotAny;
	BlockNumber reported = InvalidBlockNumber;
	ls_row		row;

	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, total_blocks(scan));

	while (ls_scan_row(scan, false, &row))
	{
		BlockNumber block = ls_row_to_block(row.row_id);

		CHECK_FOR_INTERRUPTS();
		if (progress && block != reported)
		{
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, block);
			reported = block;
		}

		if (mvcc)
		{
			b->live += 1;
			index_row(b, &row, true);
		}
		else if (b->anyvisible)
			build_any_version(b, &row);
		else
			build_newest_version(b, &row);
	}

	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, total_blocks(scan));
}

double
ls_index_build_range_scan(Relation table_rel, Relation index_rel, struct IndexInfo *index_info,
						  bool allow_sync, bool anyvisible, bool progress,
						  BlockNumber start_blockno, BlockNumber numblocks,
						  IndexBuildCallback callback, void *callback_state, TableScanDesc scan)
{
	Build		b = {0};
	LsScanDesc *rows = (LsScanDesc *) scan;
	Snapshot	registered = NULL;

	Assert(!(anyvisible && (index_info->ii_Unique || index_info->ii_ExclusionOps != NULL)));

	(void) ls_reader();
	ls_forget_recent();
	begin_build(&b, table_rel, index_rel, index_info);
	b.callback = callback;
	b.callback_state = callback_state;
	b.anyvisible = anyvisible;
	if (!index_info->ii_Concurrent)
		b.horizon = ls_tn_from_xid(GetOldestNonRemovableTransactionId(table_rel));

	/* a parallel build brings its scan along; that locks no rows, either, at SERIALIZABLE */
	if (rows != NULL)
		rows->locks = false;
	else
	{
		if (index_info->ii_Concurrent)
			registered = RegisterSnapshot(GetTransactionSnapshot());
		rows = ls_scan_create(table_rel, registered != NULL ? registered : SnapshotAny,
							  SO_TYPE_SEQSCAN);
		if (!allow_sync)
		{
			uint64		lo = ls_block_to_row(start_blockno);
			uint64		hi = numblocks == InvalidBlockNumber ? LS_LAST_ROW_ID + 1
				: lo + (uint64) numblocks * LS_ROWS_PER_BLOCK;

			ls_scan_range(rows, lo, Min(hi, LS_LAST_ROW_ID + 1));
		}
	}

	scan_rows(&b, rows, progress);

	ls_scan_end(&rows->base);
	if (registered != NULL)
		UnregisterSnapshot(registered);
	end_build(&b);
	return b.live;
}

/* The next TID in the index being validated; false at the end. */
static bool
next_indexed(ValidateIndexState *state, ItemPointer tid)
{
	Datum		value;
	bool		isnull;

	if (!tuplesort_getdatum(state->tuplesort, true, false, &value, &isnull, NULL))
		return false;
	Assert(!isnull);
	itemptr_decode(tid, DatumGetInt64(value));
	return true;
}

/*
 * Second phase of a concurrent build: the rows that the reference snapshot sees,
 * merged in TID order with what the index has; insert what it lacks.
 */
void
ls_index_validate_scan(Relation table_rel, Relation index_rel, struct IndexInfo *index_info,
					   Snapshot snapshot, struct ValidateIndexState *state)
{
	Build		b = {0};
	LsScanDesc *scan;
	ItemPointerData indexed;
	bool		have_indexed;
	BlockNumber reported = InvalidBlockNumber;
	ls_row		row;

	ls_forget_recent();
	if (ls_holds_values(table_rel))
		return;
	begin_build(&b, table_rel, index_rel, index_info);
	scan = ls_scan_create(table_rel, snapshot, SO_TYPE_SEQSCAN);
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL, ls_scan_blocks(scan));
	have_indexed = next_indexed(state, &indexed);

	while (ls_scan_row(scan, false, &row))
	{
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS];
		ItemPointerData tid;

		CHECK_FOR_INTERRUPTS();
		state->htups += 1;
		ls_row_to_tid(row.row_id, &tid);
		if (ItemPointerGetBlockNumber(&tid) != reported)
		{
			reported = ItemPointerGetBlockNumber(&tid);
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, reported);
		}

		while (have_indexed && ItemPointerCompare(&indexed, &tid) < 0)
			have_indexed = next_indexed(state, &indexed);
		if (have_indexed && ItemPointerEquals(&indexed, &tid))
			continue;

		if (!form_entry(&b, &row, values, isnull))
			continue;
		index_insert(index_rel, values, isnull, &tid, table_rel,
					 index_info->ii_Unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
					 false, index_info);
		state->tups_inserted += 1;
	}

	ls_scan_end(&scan->base);
	end_build(&b);
}
