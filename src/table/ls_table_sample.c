/*
 * ls_table_sample.c - TABLESAMPLE over logical blocks.
 *
 * The sampling method names offsets in a block; rows are read with the engine's
 * scan as long as the offsets rise, which they do with the methods that come with
 * PostgreSQL.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "txn/ls_txn.h"

#include "access/tsmapi.h"
#include "pgstat.h"

bool
ls_scan_sample_next_block(TableScanDesc sscan, SampleScanState *scanstate)
{
	LsScanDesc *scan = (LsScanDesc *) sscan;
	TsmRoutine *tsm = scanstate->tsmroutine;
	BlockNumber blocks;
	BlockNumber block;

	if (unlikely(scan->locks))
		ls_lock_table(sscan->rs_rd);
	blocks = ls_scan_blocks(scan);
	if (blocks == 0)
		return false;

	if (tsm->NextSampleBlock)
		block = tsm->NextSampleBlock(scanstate, blocks);
	else if (scan->block == InvalidBlockNumber)
		block = 0;
	else
		block = scan->block + 1 < blocks ? scan->block + 1 : InvalidBlockNumber;

	scan->block = block;
	if (block == InvalidBlockNumber)
		return false;

	CHECK_FOR_INTERRUPTS();
	ls_forget_recent();
	ls_scan_range(scan, ls_block_to_row(block), ls_block_to_row(block) + LS_ROWS_PER_BLOCK);
	return true;
}

/* Is there a visible row with this id?  It is scan->pending then. */
static bool
read_row(LsScanDesc *scan, uint64 row_id)
{
	/* an offset before the ones that were read: start again from it */
	if (row_id < scan->lo)
		ls_scan_range(scan, row_id, ls_block_to_row(scan->block) + LS_ROWS_PER_BLOCK);
	scan->lo = row_id;

	while (!scan->has_pending || scan->pending.row_id < row_id)
	{
		if (!ls_scan_row(scan, false, &scan->pending))
		{
			scan->has_pending = false;
			return false;
		}
		scan->has_pending = true;
	}
	return scan->pending.row_id == row_id;
}

bool
ls_scan_sample_next_tuple(TableScanDesc sscan, SampleScanState *scanstate, TupleTableSlot *slot)
{
	LsScanDesc *scan = (LsScanDesc *) sscan;
	TsmRoutine *tsm = scanstate->tsmroutine;
	uint64		first = ls_block_to_row(scan->block);
	OffsetNumber max_offset = (OffsetNumber) Min(ls_scan_end_row(scan) - first, LS_ROWS_PER_BLOCK);

	for (;;)
	{
		OffsetNumber offset;

		CHECK_FOR_INTERRUPTS();
		offset = tsm->NextSampleTuple(scanstate, scan->block, max_offset);
		if (!OffsetNumberIsValid(offset))
			break;
		if (!read_row(scan, first + offset - 1))
			continue;

		ls_slot_store(slot, sscan->rs_rd, &scan->pending);
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}

	ExecClearTuple(slot);
	return false;
}
