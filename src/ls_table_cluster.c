/*
 * ls_table_cluster.c - CLUSTER and VACUUM FULL: copy a table's rows into a new one.
 *
 * The newest version of each row goes along with the name of its writer, so a
 * snapshot that does not see the writer does not see the row either.  Older versions
 * and deleted rows do not go along: a rewrite waits until nobody needs them, and
 * gives up when that takes long.
 */
#include "postgres.h"

#include "ls_row.h"
#include "ls_slot.h"
#include "ls_table.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/multixact.h"
#include "access/relscan.h"
#include "commands/progress.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/procarray.h"
#include "utils/backend_progress.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"
#include "utils/wait_event.h"

/* Row ids to draw at a time from a table that nobody else can see. */
#define LS_REWRITE_DRAW 1024

/* How long to wait for transactions that may need versions which a rewrite would lose. */
#define OLD_SNAPSHOT_WAIT_MS 3000

/* A version older than any snapshot, whose writer does not matter any more. */
#define LS_ANCIENT_TN 1

typedef struct Rewrite
{
	Relation	old_table;
	Relation	new_table;
	Datum	   *values;
	bool	   *isnull;
	uint64		horizon;		/* writers below it are visible to everybody */
	uint64		next_row_id;	/* [next, end) are drawn */
	uint64		end_row_id;
	double		written;
	double		dead;
	double		recently_dead;
} Rewrite;

static uint64
next_row_id(Rewrite *r)
{
	if (r->next_row_id == r->end_row_id)
	{
		r->next_row_id = ls_row_id_range(r->new_table, LS_REWRITE_DRAW);
		r->end_row_id = r->next_row_id + LS_REWRITE_DRAW;
	}
	return r->next_row_id++;
}

/*
 * Write a tuple of the old table to the new one.  It is formed anew: dropped columns
 * become null, columns added since get the value that the catalog has kept for
 * them until now, and large values go to the new TOAST table.
 */
static void
write_tuple(Rewrite *r, HeapTuple tuple, uint64 writer)
{
	TupleDesc	desc = RelationGetDescr(r->new_table);
	HeapTuple	formed;
	HeapTuple	stored;
	const uint8 *payload;
	uint32		len;
	ls_error	error;
	ls_status	status;

	heap_deform_tuple(tuple, RelationGetDescr(r->old_table), r->values, r->isnull);
	for (int i = 0; i < desc->natts; i++)
		if (TupleDescCompactAttr(desc, i)->attisdropped)
			r->isnull[i] = true;

	formed = heap_form_tuple(desc, r->values, r->isnull);
	stored = ls_toast_tuple(r->new_table, formed, NULL, HEAP_INSERT_SKIP_FSM | HEAP_INSERT_NO_LOGICAL);
	payload = ls_row_encode(r->new_table, stored, &len);
	LS_CALL(status, ls_row_insert_raw(ls_writer(), ls_open(r->new_table), next_row_id(r), writer, payload, len, &error));
	ls_check(status, error, r->new_table);

	if (stored != formed)
		heap_freetuple(stored);
	heap_freetuple(formed);
}

/* Does the row go to the new table?  Counts those that do not. */
static bool
wanted(Rewrite *r, uint64 writer, uint32 flags)
{
	if ((flags & LS_ROW_GHOST) == 0)
		return true;
	if (writer < r->horizon)
		r->dead += 1;
	else
		r->recently_dead += 1;
	return false;
}

static void
report_progress(int param, double count)
{
	pgstat_progress_update_param(param, (int64) count);
}

/* Through the sort: the writer travels in the tuple's xmin. */
static void
put_sorted(Rewrite *r, Tuplesortstate *sort, HeapTuple tuple, uint64 writer)
{
	HeapTupleHeaderSetXmin(tuple->t_data,
						   writer < r->horizon ? FrozenTransactionId : ls_tn_to_xid(writer));
	tuplesort_putheaptuple(sort, tuple);
}

static uint64
sorted_writer(HeapTuple tuple)
{
	TransactionId xmin = HeapTupleHeaderGetRawXmin(tuple->t_data);

	return TransactionIdIsNormal(xmin) ? ls_tn_from_xid(xmin) : LS_ANCIENT_TN;
}

static void
write_sorted(Rewrite *r, Tuplesortstate *sort)
{
	HeapTuple	tuple;

	report_progress(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_SORT_TUPLES);
	tuplesort_performsort(sort);

	report_progress(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_WRITE_NEW_HEAP);
	while ((tuple = tuplesort_getheaptuple(sort, true)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		write_tuple(r, tuple, sorted_writer(tuple));
		r->written += 1;
		report_progress(PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, r->written);
	}
}

/* All rows in the order of their ids; returns how many go to the new table. */
static double
scan_table(Rewrite *r, Tuplesortstate *sort, TupleTableSlot *slot)
{
	LsScanDesc *scan = ls_scan_create(r->old_table, SnapshotAny, 0);
	BlockNumber block = InvalidBlockNumber;
	double		rows = 0;
	ls_row		row;

	report_progress(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP);
	report_progress(PROGRESS_CLUSTER_TOTAL_HEAP_BLKS, ls_scan_blocks(scan));

	while (ls_scan_row(scan, false, &row))
	{
		CHECK_FOR_INTERRUPTS();
		if (ls_row_to_block(row.row_id) != block)
		{
			block = ls_row_to_block(row.row_id);
			report_progress(PROGRESS_CLUSTER_HEAP_BLKS_SCANNED, (double) block + 1);
		}
		if (!wanted(r, row.writer_tn, row.flags))
			continue;

		rows += 1;
		ls_slot_store(slot, r->old_table, &row);
		if (sort != NULL)
			put_sorted(r, sort, ls_slot_tuple(slot), row.writer_tn);
		else
		{
			write_tuple(r, ls_slot_tuple(slot), row.writer_tn);
			r->written += 1;
			report_progress(PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, r->written);
		}
		report_progress(PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED, rows);
	}

	report_progress(PROGRESS_CLUSTER_HEAP_BLKS_SCANNED, ls_scan_blocks(scan));
	ls_scan_end(&scan->base);
	return rows;
}

/* All rows in the order of an index. */
static double
scan_index(Rewrite *r, Relation index, TupleTableSlot *slot)
{
	IndexScanDesc scan = index_beginscan(r->old_table, index, SnapshotAny, NULL, 0, 0);
	double		rows = 0;

	report_progress(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP);
	report_progress(PROGRESS_CLUSTER_INDEX_RELID, RelationGetRelid(index));

	index_rescan(scan, NULL, 0, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		LsSlot	   *ls = ls_slot_cast(slot);

		CHECK_FOR_INTERRUPTS();
		if (scan->xs_recheck)
			elog(ERROR, "CLUSTER does not support lossy index conditions");
		if (!wanted(r, ls->writer_tn, ls->flags))
			continue;

		rows += 1;
		write_tuple(r, ls_slot_tuple(slot), ls->writer_tn);
		r->written += 1;
		report_progress(PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED, rows);
		report_progress(PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, r->written);
	}

	index_endscan(scan);
	return rows;
}

/*
 * The new table gets the newest versions only, so nobody may need an older one any
 * more.  The table is locked exclusively, so the newest writer is fixed: wait
 * until no snapshot is older than it.  Who holds one and waits for the table in
 * turn would wait forever: after a while this gives up with an error.
 */
void
ls_wait_for_old_snapshots(Relation rel)
{
	LsScanDesc *scan = ls_scan_create(rel, SnapshotAny, 0);
	uint64		newest_change = 0;
	uint64		own = ls_own_tn();
	ls_row		row;

	while (ls_scan_row(scan, false, &row))
	{
		CHECK_FOR_INTERRUPTS();
		if (row.writer_tn != own && (row.flags & (LS_ROW_HAS_PREV | LS_ROW_GHOST)) != 0)
			newest_change = Max(newest_change, row.writer_tn);
	}
	ls_scan_end(&scan->base);

	for (int waited_ms = 0; newest_change >= ls_store_horizon(ls_shared->store); waited_ms += 10)
	{
		if (waited_ms >= OLD_SNAPSHOT_WAIT_MS)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot rewrite table \"%s\" because older transactions may still need its previous row versions",
							RelationGetRelationName(rel)),
					 errhint("Repeat the command when transactions that were running before the last changes have ended.")));
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

void
ls_relation_copy_for_cluster(Relation OldTable, Relation NewTable, Relation OldIndex, bool use_sort,
							 TransactionId OldestXmin, TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
							 double *num_tuples, double *tups_vacuumed, double *tups_recently_dead)
{
	int			natts = RelationGetDescr(NewTable)->natts;
	TupleTableSlot *slot = table_slot_create(OldTable, NULL);
	Tuplesortstate *sort = NULL;
	Rewrite		r = {
		.old_table = OldTable,
		.new_table = NewTable,
		.values = palloc_array(Datum, natts),
		.isnull = palloc_array(bool, natts),
	};

	(void) ls_reader();
	ls_wait_for_old_snapshots(OldTable);
	r.horizon = ls_tn_from_xid(OldestXmin);

	if (OldIndex != NULL && !use_sort)
		*num_tuples = scan_index(&r, OldIndex, slot);
	else
	{
		if (use_sort)
			sort = tuplesort_begin_cluster(RelationGetDescr(OldTable), OldIndex,
										   maintenance_work_mem, NULL, TUPLESORT_NONE);
		*num_tuples = scan_table(&r, sort, slot);
	}
	ExecDropSingleTupleTableSlot(slot);

	if (sort != NULL)
	{
		write_sorted(&r, sort);
		tuplesort_end(sort);
	}

	pfree(r.values);
	pfree(r.isnull);

	/*
	 * The cutoffs are for the TOAST table, too, whose files are swapped along and
	 * which is a heap table: it has to keep them.  Ours alone needs none.
	 */
	if (!OidIsValid(NewTable->rd_rel->reltoastrelid))
	{
		*xid_cutoff = InvalidTransactionId;
		*multi_cutoff = InvalidMultiXactId;
	}
	*tups_vacuumed = r.dead;
	*tups_recently_dead = r.recently_dead;
}
