/*
 * ls_table_scan.c - sequential, TID range and parallel scans.
 *
 * Logical block b is the row ids (256 b, 256 b + 256]: parallel workers draw
 * ranges of blocks from the server's own allocator and read each range with the
 * engine's scan.  A scan ends at the next row id of its start, so that one that
 * writes to the table it reads does not run after its own rows.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "access/valid.h"
#include "access/xact.h"
#include "pgstat.h"
#include "utils/snapmgr.h"

/*
 * Parallel scans take at least so many blocks (4096 rows) at a time from a table
 * of some size: finding the first row of a range is a descent of the tree, and
 * it should cost nothing beside the rows.
 */
#define LS_PARALLEL_MIN_CHUNK 16

/* What a prefetch brings in.  The least that is asked for with a row is two of them. */
#define LS_CACHE_LINE 64

uint64
ls_end_row(Relation rel)
{
	ls_rel_info info;
	ls_error	error;
	ls_status	status;

	if (ls_relation_is_untouched(rel))
		return LS_FIRST_ROW_ID;
	LS_CALL(status, ls_rel_get_info(ls_reader(), ls_open(rel), &info, &error));
	ls_check(status, error, rel);
	return info.next_row_id;
}

uint64
ls_scan_end_row(LsScanDesc *scan)
{
	if (scan->end_row == 0)
		scan->end_row = ls_end_row(scan->base.rs_rd);
	return scan->end_row;
}

BlockNumber
ls_scan_blocks(LsScanDesc *scan)
{
	return (BlockNumber) ls_end_row_to_blocks(ls_scan_end_row(scan));
}

/* What the engine has given is not wanted; nor is the place where it is. */
static inline void
lose_position(LsScanDesc *scan)
{
	scan->positioned = false;
	scan->has_pending = false;
	scan->n_rows = scan->next_row = 0;
	scan->ahead = scan->ahead_end = NULL;
}

/* Close the engine's scan; the next row wanted opens a new one. */
static void
close_engine_scan(LsScanDesc *scan)
{
	if (scan->engine != NULL)
	{
		ls_scan	   *engine = scan->engine;

		ls_loan_settle(scan->loan);
		scan->engine = NULL;
		ls_scan_close_owned(engine);
	}
	lose_position(scan);
}

const ls_snapshot *
ls_scan_snapshot(LsScanDesc *scan)
{
	return unlikely(scan->locks) ? ls_locked_snapshot(scan->base.rs_snapshot)
								 : ls_snapshot_convert(scan->base.rs_snapshot);
}

/* Before the scan finds out where it ends: rows may be added until they are locked. */
static void
lock_range(LsScanDesc *scan)
{
	if (scan->base.rs_flags & SO_TYPE_TIDRANGESCAN)
		ls_lock_rows(scan->base.rs_rd, scan->lo, scan->hi, LS_RANGE_SHARED);
	else if ((scan->base.rs_flags & SO_TYPE_BITMAPSCAN) == 0)
		ls_lock_table(scan->base.rs_rd);
}

/*
 * Put the engine's scan on [lo, hi).  It is used again as long as it would be
 * opened with the same snapshot: what this transaction has written itself, and how much
 * of that is visible, is the part that may have changed since.
 */
static void
position(LsScanDesc *scan, uint64 lo, uint64 hi, bool backward)
{
	const ls_snapshot *snapshot = ls_scan_snapshot(scan);

	if (scan->engine != NULL &&
		(snapshot->own_tn != scan->own_tn || snapshot->curcid != scan->curcid))
		close_engine_scan(scan);

	if (scan->engine == NULL)
	{
		scan->own_tn = snapshot->own_tn;
		scan->curcid = snapshot->curcid;
		scan->engine = ls_scan_open_owned(scan->base.rs_rd, snapshot, lo, hi, backward);
	}
	else
		ls_scan_rescan(scan->engine, lo, hi, backward);

	lose_position(scan);
	scan->positioned = true;
	scan->backward = backward;
}

/* Draw the next range of blocks of a parallel scan; false when there is none. */
static bool
next_chunk(LsScanDesc *scan)
{
	Relation	rel = scan->base.rs_rd;
	ParallelBlockTableScanDesc shared = (ParallelBlockTableScanDesc) scan->base.rs_parallel;
	ParallelBlockTableScanWorker worker = &scan->parallel;
	BlockNumber first;
	uint64		blocks;

	if (!scan->parallel_started)
	{
		uint32		chunk;

		table_block_parallelscan_startblock_init(rel, worker, shared);
		chunk = Min(LS_PARALLEL_MIN_CHUNK, pg_nextpower2_32(Max(shared->phs_nblocks / 64, 1)));
		worker->phsw_chunk_size = Max(worker->phsw_chunk_size, chunk);
		scan->parallel_started = true;
	}

	first = table_block_parallelscan_nextpage(rel, worker, shared);
	if (first == InvalidBlockNumber)
		return false;

	/* take the rest of the chunk at once */
	blocks = 1 + (uint64) worker->phsw_chunk_remaining;
	worker->phsw_nallocated += worker->phsw_chunk_remaining;
	worker->phsw_chunk_remaining = 0;

	scan->chunk_lo = ls_block_to_row(first);
	scan->chunk_hi = ls_block_to_row(Min((uint64) first + blocks, (uint64) shared->phs_nblocks));
	return true;
}

/*
 * Position the scan where it has to go on; false when nothing is left in this
 * direction.
 */
static bool
prepare(LsScanDesc *scan, bool backward)
{
	if (unlikely(scan->locks))
		lock_range(scan);
	if (scan->base.rs_parallel != NULL)
	{
		if (!next_chunk(scan))
			return false;
		position(scan, scan->chunk_lo, scan->chunk_hi, backward);
	}
	else
	{
		uint64		hi = Min(scan->hi, ls_scan_end_row(scan));

		if (scan->lo >= hi)
			return false;
		position(scan, scan->lo, hi, backward);
	}
	return true;
}

/*
 * A processor has a dozen requests to memory on their way, and waits where there are more: so the
 * next page is asked for while the executor works on the rows of this one.
 */
static void
note_next_page(LsScanDesc *scan)
{
	scan->ahead = ls_scan_next_page(scan->engine);
	scan->ahead_end = scan->ahead == NULL ? NULL : scan->ahead + LS_PAGE_BYTES;
	scan->ahead_step = TYPEALIGN(2 * LS_CACHE_LINE, LS_PAGE_BYTES / scan->n_rows);
}

/* The engine's next rows, in the direction given; false at the end. */
static bool
read_rows(LsScanDesc *scan, bool backward)
{
	ls_error	error;

	if (unlikely(backward != scan->backward))
	{
		/* past the end the other way round starts from that end */
		if (scan->at_end)
			scan->positioned = false;
		else if (scan->positioned)
			ls_scan_set_backward(scan->engine, backward,
								 scan->next_row > 0 ? scan->rows[scan->next_row - 1].row_id : 0);
		scan->backward = backward;
		scan->at_end = false;
	}
	scan->n_rows = scan->next_row = 0;
	ls_loan_settle(scan->loan);

	while (!scan->at_end)
	{
		ls_status	status;

		if (!scan->positioned && !prepare(scan, backward))
			break;

		LS_CALL_ON(scan->base.rs_rd, status,
				   ls_scan_next(scan->engine, &scan->rows, &scan->n_rows, &error));
		if (likely(status == LS_OK))
		{
			note_next_page(scan);
			return true;
		}
		if (status == LS_UPDATED)
			ls_raise_newer(scan->base.rs_rd);
		if (status != LS_END)
			ls_raise(&error, scan->base.rs_rd);

		if (scan->base.rs_parallel == NULL)
			break;
		scan->positioned = false;
		CHECK_FOR_INTERRUPTS();
	}

	scan->at_end = true;
	return false;
}

/* Of those that the engine has given. */
static inline const ls_row *
take_row(LsScanDesc *scan)
{
	if (scan->ahead < scan->ahead_end)
	{
		for (uint32 at = 0; at < scan->ahead_step; at += LS_CACHE_LINE)
			__builtin_prefetch(scan->ahead + at);
		scan->ahead += scan->ahead_step;
	}
	return &scan->rows[scan->next_row++];
}

/* The next row, valid until the next call; NULL at the end. */
static inline const ls_row *
next_row(LsScanDesc *scan, bool backward)
{
	if (unlikely(scan->next_row == scan->n_rows || backward != scan->backward) &&
		!read_rows(scan, backward))
		return NULL;
	return take_row(scan);
}

const ls_row *
ls_scan_read(LsScanDesc *scan, bool backward)
{
	return next_row(scan, backward);
}

bool
ls_scan_row(LsScanDesc *scan, bool backward, ls_row *row)
{
	const ls_row *next = next_row(scan, backward);

	if (next == NULL)
		return false;
	*row = *next;
	return true;
}

void
ls_scan_range(LsScanDesc *scan, uint64 lo, uint64 hi)
{
	scan->lo = lo;
	scan->hi = hi;
	lose_position(scan);
	scan->at_end = false;
}

/* Start from the beginning, with the parameters as they are. */
static void
restart(LsScanDesc *scan)
{
	/* which rows count as written by now depends on the present */
	if (scan->base.rs_snapshot == NULL || !IsMVCCSnapshot(scan->base.rs_snapshot))
		close_engine_scan(scan);
	lose_position(scan);
	scan->at_end = false;
	scan->end_row = 0;
	scan->newer_due = 0;
	scan->parallel_started = false;
	scan->block = InvalidBlockNumber;
	scan->noffsets = scan->next_offset = 0;
	scan->whole_range = false;

	if (scan->base.rs_flags & SO_TYPE_SEQSCAN)
		pgstat_count_heap_scan(scan->base.rs_rd);
}

LsScanDesc *
ls_scan_create(Relation rel, Snapshot snapshot, uint32 flags)
{
	LsScanDesc *scan = palloc0_object(LsScanDesc);

	RelationIncrementReferenceCount(rel);
	scan->base.rs_rd = rel;
	scan->base.rs_snapshot = snapshot;
	scan->base.rs_flags = flags;
	scan->lo = LS_FIRST_ROW_ID;
	scan->hi = LS_LAST_ROW_ID + 1;
	if (flags & SO_TYPE_BITMAPSCAN)
		scan->offsets = palloc_array(OffsetNumber, TBM_MAX_TUPLES_PER_PAGE);
	restart(scan);
	return scan;
}

static bool
is_dirty(Snapshot snapshot)
{
	return snapshot != NULL && snapshot->snapshot_type == SNAPSHOT_DIRTY;
}

TableScanDesc
ls_scan_begin(Relation rel, Snapshot snapshot, int nkeys, ScanKeyData *key,
			  ParallelTableScanDesc pscan, uint32 flags)
{
	LsScanDesc *scan;

	scan = ls_scan_create(rel, snapshot, flags);
	scan->locks = ls_locks_reads(rel, snapshot);
	scan->takes_all = nkeys == 0 && !is_dirty(snapshot);
	scan->base.rs_parallel = pscan;
	scan->base.rs_nkeys = nkeys;
	if (nkeys > 0)
	{
		scan->base.rs_key = palloc_array(ScanKeyData, nkeys);
		if (key != NULL)
			memcpy(scan->base.rs_key, key, nkeys * sizeof(ScanKeyData));
	}
	return &scan->base;
}

void
ls_scan_end(TableScanDesc sscan)
{
	LsScanDesc *scan = (LsScanDesc *) sscan;

	ls_loan_end(&scan->loan);
	close_engine_scan(scan);
	RelationDecrementReferenceCount(sscan->rs_rd);
	if (sscan->rs_key != NULL)
		pfree(sscan->rs_key);
	if (scan->offsets != NULL)
		pfree(scan->offsets);
	if (sscan->rs_flags & SO_TEMP_SNAPSHOT)
		UnregisterSnapshot(sscan->rs_snapshot);
	pfree(scan);
}

void
ls_scan_rescan_table(TableScanDesc sscan, ScanKeyData *key, bool set_params,
					 bool allow_strat, bool allow_sync, bool allow_pagemode)
{
	if (sscan->rs_nkeys > 0 && key != NULL)
		memcpy(sscan->rs_key, key, sscan->rs_nkeys * sizeof(ScanKeyData));
	/* strategy, synchronized scans and page mode mean nothing here */
	restart((LsScanDesc *) sscan);
}

/*
 * The next row for a dirty snapshot: its fields tell whether another transaction is changing the
 * row.  Where the newest version is certain the row is given as the engine's scan read it, the
 * others are judged anew.
 */
static const ls_row *
next_dirty_row(LsScanDesc *scan, bool backward, ls_row *space)
{
	Relation	rel = scan->base.rs_rd;
	Snapshot	snapshot = scan->base.rs_snapshot;

	for (;;)
	{
		uint64		row_id = scan->newer_due;

		if (row_id == 0)
		{
			const ls_row *row = next_row(scan, backward);

			if (row == NULL || ((row->flags & LS_ROW_GHOST) == 0 &&
								(row->writer_tn == ls_own_tn() ||
								 row->writer_tn < ls_store_horizon(ls_shared->store))))
			{
				snapshot->xmin = snapshot->xmax = InvalidTransactionId;
				snapshot->speculativeToken = 0;
				return row;
			}
			row_id = row->row_id;
		}
		if (ls_fetch_dirty(rel, row_id, snapshot, &scan->newer_due, ls_fetch_buffer(), space, NULL))
			return space;
	}
}

/* Wherever the row comes from, and whatever has to be asked of it. */
static pg_noinline bool
next_slot(LsScanDesc *scan, bool backward, TupleTableSlot *slot)
{
	TableScanDesc sscan = &scan->base;
	const bool	dirty = is_dirty(sscan->rs_snapshot);
	ls_row		space;
	const ls_row *row;

	while ((row = unlikely(dirty) ? next_dirty_row(scan, backward, &space)
			: next_row(scan, backward)) != NULL)
	{
		if (unlikely(!scan->takes_all))
			ls_slot_store(slot, sscan->rs_rd, row);
		else
			ls_slot_lend(slot, sscan->rs_rd, row, &scan->loan);
		if (unlikely(sscan->rs_nkeys > 0) &&
			!HeapKeyTest(ls_slot_tuple(slot), RelationGetDescr(sscan->rs_rd),
						 sscan->rs_nkeys, sscan->rs_key))
		{
			CHECK_FOR_INTERRUPTS();
			continue;
		}
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}

	ExecClearTuple(slot);
	return false;
}

bool
ls_scan_getnextslot(TableScanDesc sscan, ScanDirection direction, TupleTableSlot *slot)
{
	LsScanDesc *scan = (LsScanDesc *) sscan;
	const bool	backward = ScanDirectionIsBackward(direction);

	ls_forget_recent();
	if (likely(scan->next_row < scan->n_rows && backward == scan->backward && scan->takes_all))
	{
		ls_slot_lend(slot, sscan->rs_rd, take_row(scan), &scan->loan);
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}
	ExecClearTuple(slot);		/* so there is no loan to settle */
	return next_slot(scan, backward, slot);
}

/*
 * The bounds are inclusive and may be any item pointers: offsets that do not
 * exist are taken as the gap they are in.
 */
void
ls_scan_set_tidrange(TableScanDesc sscan, ItemPointer mintid, ItemPointer maxtid)
{
	uint32		min_offset = ItemPointerGetOffsetNumberNoCheck(mintid);
	uint32		max_offset = ItemPointerGetOffsetNumberNoCheck(maxtid);
	uint64		lo = ls_block_to_row(ItemPointerGetBlockNumberNoCheck(mintid));
	uint64		hi = ls_block_to_row(ItemPointerGetBlockNumberNoCheck(maxtid));

	ItemPointerCopy(mintid, &sscan->st.tidrange.rs_mintid);
	ItemPointerCopy(maxtid, &sscan->st.tidrange.rs_maxtid);

	if (min_offset > 0)
		lo += Min(min_offset - 1, LS_ROWS_PER_BLOCK);
	hi += Min(max_offset, LS_ROWS_PER_BLOCK);
	ls_scan_range((LsScanDesc *) sscan, lo, Min(hi, LS_LAST_ROW_ID + 1));
}

bool
ls_scan_getnextslot_tidrange(TableScanDesc sscan, ScanDirection direction, TupleTableSlot *slot)
{
	return ls_scan_getnextslot(sscan, direction, slot);
}

Size
ls_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan)
{
	Size		size = table_block_parallelscan_initialize(rel, pscan);

	/* ranges are read in order from the start: no wrapping around */
	pscan->phs_syncscan = false;
	return size;
}
