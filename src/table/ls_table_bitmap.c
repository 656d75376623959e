/*
 * ls_table_bitmap.c - bitmap scans.
 *
 * A page of the bitmap is a logical block.  A few rows of it are fetched one by one;
 * many, or all of a lossy page, are read with the engine's scan.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "txn/ls_txn.h"

#include "nodes/tidbitmap.h"
#include "pgstat.h"

/*
 * From so many rows wanted of a block on, reading along the leaves is cheaper
 * than descending the tree for each.
 */
#define LS_SCAN_MIN_OFFSETS 8

static void
read_range(LsScanDesc *scan, uint64 lo, uint64 hi)
{
	if (unlikely(scan->locks))
		ls_lock_rows(scan->base.rs_rd, lo, hi, LS_RANGE_SHARED);
	ls_scan_range(scan, lo, hi);
}

/* Take the next block from the bitmap; false at its end. */
static bool
next_block(LsScanDesc *scan, bool *recheck, uint64 *lossy_pages, uint64 *exact_pages)
{
	TBMIterateResult result;
	uint64		first;

	if (!tbm_iterate(&scan->base.st.rs_tbmiterator, &result))
		return false;

	*recheck = result.recheck;
	scan->block = result.blockno;
	scan->next_offset = 0;
	first = ls_block_to_row(result.blockno);

	if (result.lossy)
	{
		(*lossy_pages)++;
		scan->noffsets = 0;
		scan->whole_range = true;
		read_range(scan, first, first + LS_ROWS_PER_BLOCK);
		return true;
	}

	(*exact_pages)++;
	scan->noffsets = tbm_extract_page_tuple(&result, scan->offsets, TBM_MAX_TUPLES_PER_PAGE);
	scan->whole_range = scan->noffsets >= LS_SCAN_MIN_OFFSETS;
	if (scan->whole_range)
		read_range(scan, first + scan->offsets[0] - 1, first + scan->offsets[scan->noffsets - 1]);
	return true;
}

/* Is the row wanted?  Rows come in the order of the offsets; lossy: all are. */
static bool
is_wanted(LsScanDesc *scan, const ls_row *row)
{
	OffsetNumber offset = ls_row_to_offset(row->row_id);

	if (scan->noffsets == 0)
		return true;
	while (scan->next_offset < scan->noffsets && scan->offsets[scan->next_offset] < offset)
		scan->next_offset++;
	return scan->next_offset < scan->noffsets && scan->offsets[scan->next_offset] == offset;
}

/* The next visible row of the present block. */
static bool
store_next(LsScanDesc *scan, TupleTableSlot *slot)
{
	const ls_row *next;
	ls_row		row;

	if (scan->whole_range)
	{
		while ((next = ls_scan_read(scan, false)) != NULL)
		{
			if (is_wanted(scan, next))
			{
				ls_slot_lend(slot, scan->base.rs_rd, next, &scan->loan);
				return true;
			}
		}
		scan->whole_range = false;
		scan->next_offset = scan->noffsets;
		return false;
	}

	while (scan->next_offset < scan->noffsets)
	{
		uint64		row_id = ls_block_to_row(scan->block) + scan->offsets[scan->next_offset++] - 1;

		if (unlikely(scan->locks))
			ls_lock_row(scan->base.rs_rd, row_id, ls_read_mode(scan->base.rs_rd));
		if (ls_fetch(scan->base.rs_rd, row_id, ls_scan_snapshot(scan), ls_fetch_buffer(), &row,
					 NULL))
		{
			ls_slot_store(slot, scan->base.rs_rd, &row);
			return true;
		}
	}
	return false;
}

bool
ls_scan_bitmap_next_tuple(TableScanDesc sscan, TupleTableSlot *slot, bool *recheck,
						  uint64 *lossy_pages, uint64 *exact_pages)
{
	LsScanDesc *scan = (LsScanDesc *) sscan;

	ls_forget_recent();
	if (scan->next_row == scan->n_rows)
		ExecClearTuple(slot);	/* so there is no loan to settle */

	while (!store_next(scan, slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (!next_block(scan, recheck, lossy_pages, exact_pages))
			return false;
	}

	pgstat_count_heap_fetch(sscan->rs_rd);
	return true;
}
