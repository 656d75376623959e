/*
 * ls_table_analyze.c - samples for ANALYZE, and the planner's size estimate.
 *
 * ANALYZE samples logical blocks of 256 row ids.  pg_class.relpages counts logical
 * blocks too (RelationGetNumberOfBlocks), so rows per block stays a density
 * that makes sense; the planner is told the pages that a scan reads.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include <math.h>


#include "optimizer/optimizer.h"
#include "optimizer/plancat.h"
#include "storage/bufpage.h"
#include "storage/read_stream.h"
#include "utils/snapmgr.h"

bool
ls_scan_analyze_next_block(TableScanDesc sscan, ReadStream *stream)
{
	LsScanDesc *scan = (LsScanDesc *) sscan;
	BufferAccessStrategy strategy;
	BlockNumber block = read_stream_next_block(stream, &strategy);

	if (block == InvalidBlockNumber)
		return false;

	/* ANALYZE begins its scan without a snapshot */
	sscan->rs_snapshot = SnapshotAny;
	scan->block = block;
	ls_scan_range(scan, ls_block_to_row(block), ls_block_to_row(block) + LS_ROWS_PER_BLOCK);
	CHECK_FOR_INTERRUPTS();
	return true;
}

/*
 * As heap counts: what other transactions have in progress has not happened yet,
 * what this one has has.
 */
bool
ls_scan_analyze_next_tuple(TableScanDesc sscan, TransactionId OldestXmin, double *liverows,
						   double *deadrows, TupleTableSlot *slot)
{
	Relation	rel = sscan->rs_rd;
	uint64		own = ls_own_tn();
	ls_row		row;

	while (ls_scan_row((LsScanDesc *) sscan, false, &row))
	{
		if (row.writer_tn != own &&
			row.writer_tn >= ls_store_horizon(ls_shared->store) &&
			ls_tn_is_active(ls_shared->store, row.writer_tn))
		{
			uint64		row_id = row.row_id;

			if (!ls_fetch_committed(rel, row_id, ls_fetch_buffer(), &row))
				continue;		/* being inserted */
		}
		else if (row.flags & LS_ROW_GHOST)
		{
			/* what no snapshot needs is about to go by itself */
			if (row.writer_tn >= ls_tn_from_xid(OldestXmin))
				*deadrows += 1;
			continue;
		}

		*liverows += 1;
		ls_slot_store(slot, rel, &row);
		return true;
	}

	ExecClearTuple(slot);
	return false;
}

/*
 * Heap's assumptions for a table that has next to nothing yet: plans made for it
 * should be the ones that users know.
 */
#define LS_FEW_PAGES 10
#define HEAP_ROW_OVERHEAD_BYTES (MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData))
#define HEAP_PAGE_USABLE_BYTES (BLCKSZ - SizeOfPageHeaderData)

/* Least that a row takes in a leaf: slot and key, row header, payload head. */
#define LS_MIN_ROW_BYTES (6 + 2 + 16 + 2)

static double
density_from_width(Relation rel, int32 *attr_widths)
{
	int			fillfactor = RelationGetFillFactor(rel, HEAP_DEFAULT_FILLFACTOR);
	int32		width = get_rel_data_width(rel, attr_widths) + HEAP_ROW_OVERHEAD_BYTES;

	/* integer division, as there */
	return clamp_row_est((HEAP_PAGE_USABLE_BYTES * fillfactor / 100) / width);
}

/*
 * Pages that heap has for so many rows.  The planner has no other measure of what a scan of a
 * table costs beside look-ups by an index.  Our rows take less room (no blanks, short headers, no
 * page half empty), but reading them takes no less time where pages are in memory, so with our
 * pages sequential scans would come out where heap has index scans: TPC-C's stock level
 * would read all of the stock.
 */
static BlockNumber
heap_pages(Relation rel, int32 *attr_widths, double rows)
{
	double		rows_per_page = density_from_width(rel, attr_widths);

	return (BlockNumber) Min(ceil(rows / rows_per_page), (double) MaxBlockNumber);
}

/*
 * Of how many blocks do index-only scans fetch no rows?  That is asked of some, for pg_class knows
 * it only between VACUUM and ANALYZE (which counts bits of a visibility map), and not what has
 * become of it since.  Of most tables a few tell, and they are asked whenever a statement is
 * planned.
 */
#define BLOCKS_ASKED 32
#define BLOCKS_ASKED_FIRST 8

static uint32
visible_among(Relation rel, BlockNumber blocks, uint32 asked)
{
	uint32		visible = 0;

	for (uint32 i = 0; i < asked; i++)
	{
		BlockNumber block = (BlockNumber) ((uint64) blocks * i / asked);

		visible += ls_row_known(ls_shared->store, ls_open(rel), ls_block_to_row(block),
								LS_ROWS_VISIBLE);
	}
	return visible;
}

static double
visible_fraction(Relation rel, BlockNumber blocks)
{
	uint32		asked = Min(blocks, BLOCKS_ASKED_FIRST);
	uint32		visible = visible_among(rel, blocks, asked);

	if (visible > 0 && visible < asked)
	{
		asked = Min(blocks, BLOCKS_ASKED);
		visible = visible_among(rel, blocks, asked);
	}
	return asked > 0 ? (double) visible / asked : 0;
}

void
ls_relation_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages, double *tuples,
						  double *allvisfrac)
{
	ls_rel_info info = {.next_row_id = LS_FIRST_ROW_ID};
	ls_error	error;
	ls_status	status;
	double		blocks;
	double		relpages = rel->rd_rel->relpages;
	double		reltuples = rel->rd_rel->reltuples;

	if (!ls_relation_is_untouched(rel))
	{
		LS_CALL(status, ls_rel_get_info(ls_reader(), ls_open(rel), &info, &error));
		ls_check(status, error, rel);
	}

	*allvisfrac = visible_fraction(rel, (BlockNumber) ls_end_row_to_blocks(info.next_row_id));
	*pages = (BlockNumber) Min((info.pages * LS_PAGE_BYTES + BLCKSZ - 1) / BLCKSZ,
							   (uint64) MaxBlockNumber);
	blocks = (double) ls_end_row_to_blocks(info.next_row_id);

	if (reltuples >= 0 && relpages > 0)
	{
		*tuples = rint(reltuples / relpages * blocks);
		*pages = Max(*pages, heap_pages(rel, attr_widths, *tuples));
	}
	else if (*pages < LS_FEW_PAGES && reltuples < 0 && !rel->rd_rel->relhassubclass)
	{
		/*
		 * A table that was never analyzed is not believed to be tiny: plans made
		 * now should still do when it has been filled.
		 */
		*pages = LS_FEW_PAGES;
		*tuples = rint(density_from_width(rel, attr_widths) * *pages);
	}
	else if (blocks == 0)
	{
		*pages = 0;
		*tuples = 0;
	}
	else
	{
		/*
		 * So many row ids were used; deleted rows make it less, and after a
		 * crash a range of ids is left out, but no page has more than fit.
		 */
		*tuples = Min((double) (info.next_row_id - 1),
					  (double) info.pages * LS_PAGE_BYTES / LS_MIN_ROW_BYTES);
	}
}
