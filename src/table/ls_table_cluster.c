/*
 * ls_table_cluster.c - CLUSTER and VACUUM FULL: copy a table's rows into a new one.
 *
 * What a snapshot sees before the rewrite it sees behind it:
 *
 *	- the newest version of a row goes along with the name of its writer;
 *	- older versions stay in the engine's store of versions, where the new row
 *	  leads to them as the old one did (ls_row_insert_copied);
 *	- rows deleted or moved by a transaction that some snapshot may not see go along as
 *	  ghosts, behind all others;
 *	- out-of-line values of those are copied to the new TOAST table under their
 *	  old names.
 *
 * The table is locked exclusively: of its writers only this transaction runs.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/multixact.h"
#include "access/relscan.h"
#include "access/table.h"
#include "commands/progress.h"
#include "utils/backend_progress.h"
#include "utils/hsearch.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

/* Row ids to draw at a time from a table that no other session can see. */
#define LS_REWRITE_DRAW 1024

/* The new id of a row that a ghost leads to. */
typedef struct MovedRow
{
	uint64		old_id;
	uint64		new_id;			/* 0: not written (yet) */
} MovedRow;

typedef struct Rewrite
{
	Relation	old_table;
	Relation	new_table;
	Datum	   *values;
	bool	   *isnull;
	uint64		horizon;		/* writers below it are visible to all snapshots */
	uint64		next_row_id;	/* [next, end) are drawn */
	uint64		end_row_id;
	uint64	   *ghosts;			/* old ids, ascending */
	Size		n_ghosts;
	Size		max_ghosts;
	HTAB	   *moved;			/* MovedRow; NULL: no ghost leads anywhere */
	TupleTableSlot *version_slot;	/* for a version while its large values are copied */
	double		written;
	double		dead;
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

/* ----------------------------------------------------------------
 * history: ghosts and older versions
 * ----------------------------------------------------------------
 */

static void
note_ghost(Rewrite *r, const ls_row *row)
{
	if (r->n_ghosts == r->max_ghosts)
	{
		r->max_ghosts = Max(1024, r->max_ghosts * 2);
		r->ghosts = r->ghosts == NULL ? palloc_array(uint64, r->max_ghosts)
			: repalloc_huge(r->ghosts, r->max_ghosts * sizeof(uint64));
	}
	r->ghosts[r->n_ghosts++] = row->row_id;

	if ((row->flags & LS_ROW_MOVED) && row->moved_to != LS_MOVED_PARTITIONS)
	{
		MovedRow   *moved;

		if (r->moved == NULL)
		{
			HASHCTL		ctl = {
				.keysize = sizeof(uint64),
				.entrysize = sizeof(MovedRow),
				.hcxt = CurrentMemoryContext
			};

			r->moved = hash_create("leanstore rows moved before a rewrite", 1024, &ctl,
								   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		}
		moved = hash_search(r->moved, &row->moved_to, HASH_ENTER, NULL);
		moved->new_id = 0;
	}
}

/* Which ghosts have to go along, and the rows that they lead to. */
static void
find_ghosts(Rewrite *r)
{
	LsScanDesc *scan = ls_scan_create(r->old_table, SnapshotAny, 0);
	ls_row		row;

	while (ls_scan_row(scan, false, &row))
	{
		CHECK_FOR_INTERRUPTS();
		if ((row.flags & LS_ROW_GHOST) == 0)
			continue;
		if (row.writer_tn < r->horizon)
			r->dead += 1;
		else
			note_ghost(r, &row);
	}
	ls_scan_end(&scan->base);
}

static void
note_new_id(Rewrite *r, uint64 old_id, uint64 new_id)
{
	MovedRow   *moved = r->moved == NULL ? NULL : hash_search(r->moved, &old_id, HASH_FIND, NULL);

	if (moved != NULL)
		moved->new_id = new_id;
}

/*
 * Copy a version's out-of-line values to the new TOAST table, which takes over
 * the old one's name: pointers in versions that are not written anew stay right.
 * A value that the newest version has is there by now.  Another one is deleted at once, by
 * this transaction: so it stays for the snapshots that there are, and no longer.
 */
static void
copy_external_value(Rewrite *r, struct varlena *pointer)
{
	struct varlena *value = detoast_external_attr(pointer);
	struct varlena *copy;
	bool		stored;

	copy = ls_value_save(r->new_table, value, pointer, &stored);
	if (stored)
		ls_value_drop_copy(r->new_table, copy);
	pfree(copy);
	pfree(value);
}

static void
copy_external_values(Rewrite *r, const ls_row *version)
{
	TupleDesc	desc = RelationGetDescr(r->old_table);
	TupleTableSlot *slot = r->version_slot;

	if (!ls_row_has_external(version))
		return;
	if (ls_row_wide_pointer(version) != NULL)
		copy_external_value(r, ls_row_wide_pointer(version));
	ls_slot_store(slot, r->old_table, version);
	slot_getallattrs(slot);
	for (int i = 0; i < desc->natts; i++)
	{
		struct varlena *value = (struct varlena *) DatumGetPointer(slot->tts_values[i]);

		if (!slot->tts_isnull[i] && TupleDescCompactAttr(desc, i)->attlen == -1 &&
			!TupleDescCompactAttr(desc, i)->attisdropped && VARATT_IS_EXTERNAL_ONDISK(value))
			copy_external_value(r, value);
	}
	ExecClearTuple(slot);
}

static bool
copies_external_values(const Rewrite *r)
{
	return OidIsValid(r->new_table->rd_rel->reltoastrelid);
}

/* The same for the versions behind one, down to the last that all snapshots see. */
static void
copy_older_external_values(Rewrite *r, const ls_row *newest)
{
	LsVersionWalk walk;
	ls_row		version;

	ls_versions_begin(&walk, r->old_table, newest, r->horizon);
	while (ls_versions_next(&walk, ls_old_row_buffer(), &version))
		copy_external_values(r, &version);
	ls_versions_end(&walk);
}

/* A row into the new table, as `row` says. */
static void
insert_row(Rewrite *r, uint64 row_id, const ls_row *row)
{
	ls_error	error;
	ls_status	status;

	LS_CALL_ON(r->new_table, status,
			   ls_row_insert_copied(ls_writer(), ls_open(r->new_table), row_id, row, &error));
	ls_check(status, error, r->new_table);
}

/* Ghosts keep their bytes: no query sees them with new columns. */
static void
write_ghosts(Rewrite *r)
{
	uint64	   *new_ids = r->n_ghosts == 0 ? NULL :
		MemoryContextAllocHuge(CurrentMemoryContext, r->n_ghosts * sizeof(uint64));

	/* one may lead to another */
	for (Size i = 0; i < r->n_ghosts; i++)
	{
		new_ids[i] = next_row_id(r);
		note_new_id(r, r->ghosts[i], new_ids[i]);
	}

	for (Size i = 0; i < r->n_ghosts; i++)
	{
		ls_row		row;

		CHECK_FOR_INTERRUPTS();
		if (!ls_fetch_newest(r->old_table, r->ghosts[i], ls_fetch_buffer(), &row))
			continue;
		if ((row.flags & LS_ROW_MOVED) && row.moved_to != LS_MOVED_PARTITIONS)
		{
			MovedRow   *moved = hash_search(r->moved, &row.moved_to, HASH_FIND, NULL);

			/*
			 * an update that would have followed finds a deletion where the other row has gone for
			 * all snapshots
			 */
			row.moved_to = moved->new_id;
			if (moved->new_id == 0)
				row.flags &= ~LS_ROW_MOVED;
		}
		insert_row(r, new_ids[i], &row);
		if (copies_external_values(r))
		{
			copy_external_values(r, &row);
			copy_older_external_values(r, &row);
		}
	}
}

/* ----------------------------------------------------------------
 * rows
 * ----------------------------------------------------------------
 */

/*
 * Write a row of the old table to the new one.  Its tuple is formed anew: dropped columns
 * become null, columns added since get the value that the catalog has kept for
 * them until now, and large values go to the new TOAST table.
 */
static void
write_row(Rewrite *r, HeapTuple tuple, uint64 writer)
{
	TupleDesc	desc = RelationGetDescr(r->new_table);
	uint64		old_id = ls_tid_to_row(&tuple->t_self);
	uint64		new_id = next_row_id(r);
	HeapTuple	formed;
	HeapTuple	stored;
	ls_row		origin;
	ls_row		row = {.writer_tn = writer};

	heap_deform_tuple(tuple, RelationGetDescr(r->old_table), r->values, r->isnull);
	for (int i = 0; i < desc->natts; i++)
		if (TupleDescCompactAttr(desc, i)->attisdropped)
			r->isnull[i] = true;

	formed = heap_form_tuple(desc, r->values, r->isnull);
	stored = ls_toast_tuple(r->new_table, formed, NULL, false);

	/* what it takes to find older versions is not in the tuple */
	if (writer >= r->horizon && ls_fetch_newest(r->old_table, old_id, ls_fetch_buffer(), &origin))
	{
		row = origin;
		if (copies_external_values(r))
			copy_older_external_values(r, &origin);
	}
	row.data = ls_row_encode(r->new_table, stored, &row.len);
	insert_row(r, new_id, &row);
	note_new_id(r, old_id, new_id);
	r->written += 1;

	if (stored != formed)
		heap_freetuple(stored);
	heap_freetuple(formed);
}

static void
report_progress(int param, double count)
{
	pgstat_progress_update_param(param, (int64) count);
}

/* Through the sort: the writer travels in the tuple's xmin and xmax, half of it in each. */
static void
put_sorted(Tuplesortstate *sort, HeapTuple tuple, uint64 writer)
{
	HeapTupleHeaderSetXmin(tuple->t_data, (TransactionId) writer);
	HeapTupleHeaderSetXmax(tuple->t_data, (TransactionId) (writer >> 32));
	tuplesort_putheaptuple(sort, tuple);
}

static uint64
sorted_writer(HeapTuple tuple)
{
	uint64		high = HeapTupleHeaderGetRawXmax(tuple->t_data);

	return high << 32 | HeapTupleHeaderGetRawXmin(tuple->t_data);
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
		write_row(r, tuple, sorted_writer(tuple));
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
		if (row.flags & LS_ROW_GHOST)
			continue;

		rows += 1;
		ls_slot_store(slot, r->old_table, &row);
		if (sort != NULL)
			put_sorted(sort, ls_slot_tuple(slot), row.writer_tn);
		else
		{
			write_row(r, ls_slot_tuple(slot), row.writer_tn);
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
		if (ls->flags & LS_ROW_GHOST)
			continue;

		rows += 1;
		write_row(r, ls_slot_tuple(slot), ls->writer_tn);
		report_progress(PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED, rows);
		report_progress(PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, r->written);
	}

	index_endscan(scan);
	return rows;
}

/* A TOAST table: pointers lead to its row ids, so these stay, and there is no other order. */
static void
copy_values(Relation old_table, Relation new_table, double *rows, double *dead, double *ghosts)
{
	LsCopied	copied;

	ls_twophase_settle_all();
	copied = ls_copy_rows_as_they_are(old_table, ls_open(new_table));
	*rows = copied.rows;
	*dead = copied.dead;
	*ghosts = copied.ghosts;
}

/* Values that are new have other numbers than those in pointers that are not written anew. */
static void
continue_value_ids(Rewrite *r)
{
	Oid			old_oid = r->old_table->rd_rel->reltoastrelid;
	Oid			new_oid = r->new_table->rd_rel->reltoastrelid;
	Relation	old_toast;
	Relation	new_toast;

	if (!OidIsValid(old_oid) || !OidIsValid(new_oid))
		return;
	old_toast = table_open(old_oid, AccessShareLock);
	new_toast = table_open(new_oid, RowExclusiveLock);
	ls_continue_ids(old_toast, ls_open(new_toast));
	table_close(new_toast, NoLock);
	table_close(old_toast, NoLock);
}

void
ls_relation_copy_for_cluster(Relation OldTable, Relation NewTable, Relation OldIndex, bool use_sort,
							 TransactionId OldestXmin, TransactionId *xid_cutoff,
							 MultiXactId *multi_cutoff, double *num_tuples, double *tups_vacuumed,
							 double *tups_recently_dead)
{
	int			natts = RelationGetDescr(NewTable)->natts;
	TupleTableSlot *slot;
	Tuplesortstate *sort = NULL;
	Rewrite		r = {
		.old_table = OldTable,
		.new_table = NewTable,
	};

	(void) ls_reader();
	/* there is nothing to freeze, here or in the TOAST table */
	*xid_cutoff = InvalidTransactionId;
	*multi_cutoff = InvalidMultiXactId;
	if (ls_holds_values(OldTable))
	{
		copy_values(OldTable, NewTable, num_tuples, tups_vacuumed, tups_recently_dead);
		return;
	}
	r.values = palloc_array(Datum, natts);
	r.isnull = palloc_array(bool, natts);
	r.horizon = ls_tn_from_xid(OldestXmin);
	r.version_slot = table_slot_create(OldTable, NULL);
	slot = table_slot_create(OldTable, NULL);
	continue_value_ids(&r);
	/* one that was rolled back may have its rows in here still, though its lock is gone */
	ls_twophase_settle_all();
	find_ghosts(&r);

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
	write_ghosts(&r);
	ExecDropSingleTupleTableSlot(r.version_slot);

	pfree(r.values);
	pfree(r.isnull);
	*tups_vacuumed = r.dead;
	*tups_recently_dead = (double) r.n_ghosts;
}
