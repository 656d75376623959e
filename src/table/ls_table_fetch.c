/*
 * ls_table_fetch.c - one row by its TID.
 *
 * A TID names a row, not a version: which version the caller gets follows from
 * the snapshot (row/).
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"
#include "index/ls_index.h"

#include "access/relscan.h"
#include "access/xlog.h"
#include "pgstat.h"
#include "utils/snapmgr.h"

/* ----------------------------------------------------------------
 * index fetches
 * ----------------------------------------------------------------
 */

/*
 * After so many rows, each near the one before, rows are taken from a copy of their
 * leaf, as a scan of the table takes them, and not looked up one by one any more.
 */
#define NEAR_ROWS_BEFORE_COPY 4

/* Rows of one leaf, mostly. */
#define NEAR_DISTANCE 32

typedef struct LsTableFetch
{
	LsIndexFetch index;			/* what the scan of the index tells */
	uint64		newer_due;		/* for ls_fetch_dirty() */
	uint64		last_row;
	int			n_near;			/* rows fetched that were near the one before */
	/* rows found in a row that some other snapshot may want, though this one does not */
	int			n_wanted;
	int			n_unasked;		/* rows passed since one was asked about */
	/* index-only: rows fetched since the neighbours of one were looked at, of how many */
	int			n_unknown;
	int			look_every;

	/* rows of that copy that come next, if rows are wanted one after the other */
	const ls_row *run;
	uint32		n_run;

	/* the engine's scan with the leaf copy, and the snapshot that it was opened with; NULL: none */
	ls_scan    *engine;
	Snapshot	snapshot;
	TransactionId xmin;
	TransactionId xmax;
	CommandId	curcid;
	uint64		own_tn;
} LsTableFetch;

static void
close_copy(LsTableFetch *fetch)
{
	ls_scan    *engine = fetch->engine;

	fetch->engine = NULL;
	fetch->n_run = 0;
	if (engine != NULL)
		ls_scan_close_owned(engine);
}

static void
open_copy(LsTableFetch *fetch, Snapshot snapshot)
{
	const ls_snapshot *converted = ls_snapshot_convert(snapshot);

	close_copy(fetch);
	fetch->snapshot = snapshot;
	fetch->xmin = snapshot->xmin;
	fetch->xmax = snapshot->xmax;
	fetch->curcid = snapshot->curcid;
	fetch->own_tn = converted->own_tn;
	fetch->engine = ls_scan_open_owned(fetch->index.base.rel, converted, 0, LS_LAST_ROW_ID + 1,
									   false);
}

/*
 * Rows of a snapshot that come nearly in order.  What their leaf was like a moment ago is
 * as good as what it is like now: which version the snapshot sees does not change, and an
 * older one that it needs stays.  Not so at SERIALIZABLE, where newer versions have to be noticed.
 */
static inline bool
is_near(LsTableFetch *fetch, uint64 row_id)
{
	if (row_id + NEAR_DISTANCE - fetch->last_row >= 2 * NEAR_DISTANCE ||
		XactIsoLevel == XACT_SERIALIZABLE)
	{
		fetch->n_near = 0;
		return false;
	}
	return fetch->n_near >= NEAR_ROWS_BEFORE_COPY || ++fetch->n_near == NEAR_ROWS_BEFORE_COPY;
}

static inline bool
is_of_copy(const LsTableFetch *fetch, Snapshot snapshot)
{
	return fetch->engine != NULL && fetch->snapshot == snapshot && fetch->xmin == snapshot->xmin &&
		   fetch->xmax == snapshot->xmax && fetch->curcid == snapshot->curcid &&
		   fetch->own_tn == ls_own_tn();
}

/* NULL: the snapshot sees no such row. */
static const ls_row *
fetch_near(LsTableFetch *fetch, uint64 row_id, Snapshot snapshot)
{
	if (!is_of_copy(fetch, snapshot))
		open_copy(fetch, snapshot);
	if (fetch->n_run == 0 || fetch->run->row_id != row_id)
	{
		int64		step = (int64) (row_id - fetch->last_row);
		/* those behind a neighbour will be wanted, too */
		int			run = step == 1 || step == -1 ? (int) step : 0;
		ls_error	error;
		ls_status	status;

		fetch->n_run = 0;
		LS_CALL(status,
				ls_scan_fetch(fetch->engine, row_id, run, &fetch->run, &fetch->n_run, &error));
		if (status == LS_NOT_FOUND)
			return NULL;
		ls_check(status, error, fetch->index.base.rel);
	}
	fetch->n_run--;
	return fetch->run++;
}

/*
 * A run of rows that are gone for this snapshot: each that is gone for all takes its entry
 * with it, when asked about.  Where the answer is no again and again, since an old
 * snapshot wants them, not all are asked about, and the fewer the longer that goes on.
 */
#define WANTED_ROWS_PER_STEP 16

static bool
is_worth_asking(LsTableFetch *fetch)
{
	if (fetch->n_unasked < fetch->n_wanted / WANTED_ROWS_PER_STEP)
	{
		fetch->n_unasked++;
		return false;
	}
	fetch->n_unasked = 0;
	return true;
}

/* The row's leaf copy gives no version: is it dead to all snapshots?  That is asked of the leaf. */
static bool
fetch_again(LsTableFetch *fetch, uint64 row_id, Snapshot snapshot, ls_row *row, bool *all_dead)
{
	if (all_dead == NULL || !is_worth_asking(fetch))
		return false;
	if (ls_fetch_visible(fetch->index.base.rel, row_id, snapshot, row, all_dead))
		return true;
	fetch->n_wanted = *all_dead ? 0 : fetch->n_wanted + 1;
	return false;
}

struct IndexFetchTableData *
ls_index_fetch_begin(Relation rel)
{
	LsTableFetch *fetch = palloc0_object(LsTableFetch);

	fetch->index.base.rel = rel;
	return &fetch->index.base;
}

/* The next scan may want a single row. */
void
ls_index_fetch_reset(struct IndexFetchTableData *scan)
{
	((LsTableFetch *) scan)->n_near = 0;
	((LsTableFetch *) scan)->newer_due = 0;
}

void
ls_index_fetch_end(struct IndexFetchTableData *scan)
{
	close_copy((LsTableFetch *) scan);
	pfree(scan);
}

/*
 * Nothing is known of an index-only scan's row.  Now and then its neighbours are looked at, for
 * then they need not be fetched any more; less often where that comes to nothing.
 */
#define LOOK_OFTEN 16
#define LOOK_SELDOM 4096

static bool
look_around(LsTableFetch *fetch, ls_rel *table, uint64 row_id)
{
	if (++fetch->n_unknown < Max(fetch->look_every, LOOK_OFTEN))
		return false;
	fetch->n_unknown = 0;
	if (ls_rows_look_around(ls_reader(), table, row_id))
	{
		fetch->look_every = LOOK_OFTEN;
		return true;
	}
	fetch->look_every = Min(2 * Max(fetch->look_every, LOOK_OFTEN), LOOK_SELDOM);
	return false;
}

/*
 * Does every snapshot see the row of this entry as the entry says?  Then an index-only scan has all
 * that it wants.  The entry is as the scan has read it, which may be long ago.  What is known is
 * asked before the mark: an index is marked, as one with entries of other keys, before the row of
 * such an entry gets its key, and that clears what was known.
 */
static bool
is_known(LsTableFetch *fetch, uint64 row_id, Snapshot snapshot)
{
	const struct LsIndexScan *scan = fetch->index.scan;
	ls_rel	   *table;

	if (!fetch->index.index_only || !IsMVCCSnapshot(snapshot) ||
		XactIsoLevel == XACT_SERIALIZABLE)
		return false;
	table = ls_open(fetch->index.base.rel);
	if (ls_row_vouched(ls_shared->store, table, row_id, ls_index_scan_vouched(scan)))
		return true;
	if (!ls_row_known(ls_shared->store, table, row_id, LS_ROWS_FULL) &&
		!look_around(fetch, table, row_id))
		return false;
	return fetch->index.entries == NULL || !ls_index_scan_has_stale(fetch->index.entries);
}

bool
ls_index_fetch_tuple(struct IndexFetchTableData *scan, ItemPointer tid, Snapshot snapshot,
					 TupleTableSlot *slot, bool *call_again, bool *all_dead)
{
	LsTableFetch *fetch = (LsTableFetch *) scan;
	Relation	rel = scan->rel;
	uint64		row_id = ls_tid_to_row(tid);
	ls_row		row;
	const ls_row *found = NULL;

	*call_again = false;		/* an MVCC snapshot sees at most one version of a row */
	if (all_dead != NULL)
		*all_dead = false;
	ls_forget_recent();
	if (fetch->index.visible || is_known(fetch, row_id, snapshot))
		return true;

	if (snapshot->snapshot_type == SNAPSHOT_DIRTY)
	{
		if (ls_fetch_dirty(rel, row_id, snapshot, &fetch->newer_due, ls_fetch_buffer(), &row,
						   all_dead))
		{
			found = &row;
			*call_again = fetch->newer_due != 0;
			ls_note_dirty_match(rel, row_id);
		}
	}
	else
	{
		/* the gaps of other indexes: the executor's scans have locked the table already */
		if (unlikely(XactIsoLevel == XACT_SERIALIZABLE) && !fetch->index.locks &&
			ls_locks_reads(rel, snapshot))
			ls_lock_table(rel);
		if (IsMVCCSnapshot(snapshot) && is_near(fetch, row_id))
		{
			found = fetch_near(fetch, row_id, snapshot);
			if (found == NULL && fetch_again(fetch, row_id, snapshot, &row, all_dead))
				found = &row;
		}
		else if (ls_fetch_visible(rel, row_id, snapshot, &row, all_dead))
			found = &row;
		fetch->last_row = row_id;
	}

	if (found == NULL)
		return false;
	ls_slot_store(slot, rel, found);
	/* a caller with a dirty snapshot waits for changes in progress, and looks again */
	if (fetch->index.entries != NULL &&
		!(snapshot->snapshot_type == SNAPSHOT_DIRTY &&
		  (TransactionIdIsValid(snapshot->xmin) || TransactionIdIsValid(snapshot->xmax))) &&
		ls_index_entry_is_stale(fetch->index.entries, rel, slot))
	{
		ExecClearTuple(slot);
		return false;
	}
	return true;
}

/* ----------------------------------------------------------------
 * other fetches
 * ----------------------------------------------------------------
 */

bool
ls_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot)
{
	ls_row		row;
	bool		found;
	bool		deleted = false;

	if (snapshot->snapshot_type == SNAPSHOT_ANY)
		found = ls_fetch_any(rel, tid, ls_fetch_buffer(), &row, &deleted);
	else
	{
		ls_forget_recent();
		found = ls_tid_names_row(tid) &&
			ls_fetch_visible(rel, ls_tid_to_row(tid), snapshot, &row, NULL);
	}

	if (!found)
		return false;
	ls_slot_store(slot, rel, &row);
	if (deleted)
		ls_slot_set_deleted(slot);
	return true;
}

bool
ls_tuple_tid_valid(TableScanDesc sscan, ItemPointer tid)
{
	return ls_tid_names_row(tid) &&
		ItemPointerGetBlockNumber(tid) < ls_scan_blocks((LsScanDesc *) sscan);
}

void
ls_tuple_get_latest_tid(TableScanDesc sscan, ItemPointer tid)
{
	Relation	rel = sscan->rs_rd;
	ItemPointerData next = *tid;

	for (;;)
	{
		uint64		row_id = ls_tid_to_row(&next);
		ls_row		row;

		CHECK_FOR_INTERRUPTS();
		if (ls_fetch_visible(rel, row_id, sscan->rs_snapshot, &row, NULL))
			*tid = next;
		if (!ls_fetch_newest(rel, row_id, ls_fetch_buffer(), &row) ||
			(row.flags & LS_ROW_MOVED) == 0 ||
			row.moved_to == LS_MOVED_PARTITIONS)
			break;
		ls_row_to_tid(row.moved_to, &next);
	}
}

bool
ls_tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot)
{
	ls_row		row;

	if (!ls_fetch_visible(rel, ls_tid_to_row(&slot->tts_tid), snapshot, &row, NULL))
		return false;

	/* another version is visible: the one in the slot is not */
	if (ls_is_slot(slot))
	{
		LsSlot	   *ls = (LsSlot *) slot;

		if (ls->writer_tn != 0)
			return ls->writer_tn == row.writer_tn && ls->cid == row.cid;
	}
	return true;
}

/* ----------------------------------------------------------------
 * deletion of index entries by native index access methods
 * ----------------------------------------------------------------
 */

/* May a standby have readers that need what is removed here? */
bool
ls_conflicts_on_standbys(Relation rel)
{
	return ls_log_is_wal() && XLogStandbyInfoActive() && RelationNeedsWAL(rel);
}

/* What a deletion tells standbys. */
typedef struct Conflict
{
	bool		told;			/* are there any? */
	bool		gone;			/* of rows that are not there */
	TransactionId newest;		/* of the others, the newest deleter */
} Conflict;

/*
 * No scan will find a row through this entry any more.  Row ids are not used twice: a row that is
 * not there will never be.
 */
static bool
entry_is_dead(Relation rel, ItemPointer tid, Conflict *conflict)
{
	ls_row		row;
	TransactionId deleter;

	if (!ls_fetch_newest(rel, ls_tid_to_row(tid), ls_fetch_buffer(), &row))
	{
		conflict->gone = true;
		return true;
	}
	if (!ls_row_is_dead(&row))
		return false;
	deleter = ls_tn_to_xid(row.writer_tn);
	if (TransactionIdIsNormal(deleter) && (!TransactionIdIsValid(conflict->newest) ||
										   TransactionIdFollows(deleter, conflict->newest)))
		conflict->newest = deleter;
	return true;
}

static int
compare_by_promise(const void *a, const void *b, void *arg)
{
	const TM_IndexStatus *status = arg;
	const TM_IndexDelete *l = a;
	const TM_IndexDelete *r = b;
	uint64		l_row = ls_tid_to_row(&l->tid);
	uint64		r_row = ls_tid_to_row(&r->tid);

	if (status[l->id].promising != status[r->id].promising)
		return status[l->id].promising ? -1 : 1;
	return l_row < r_row ? -1 : l_row > r_row;
}

/*
 * A bottom-up deletion may ask for hundreds of entries on a mere suspicion: after so
 * many in a row that are still needed the rest are not looked at.
 */
#define LS_BOTTOMUP_MAX_MISSES 32

TransactionId
ls_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate)
{
	int			freed = 0;
	int			misses = 0;
	int			useful = 0;
	Conflict	conflict = {.told = ls_conflicts_on_standbys(rel)};

	if (delstate->bottomup)
		qsort_arg(delstate->deltids, delstate->ndeltids, sizeof(TM_IndexDelete),
				  compare_by_promise, delstate->status);

	for (int i = 0; i < delstate->ndeltids; i++)
	{
		TM_IndexDelete *entry = &delstate->deltids[i];
		TM_IndexStatus *status = &delstate->status[entry->id];

		if (!status->knowndeletable)
		{
			if (!entry_is_dead(rel, &entry->tid, &conflict))
			{
				if (delstate->bottomup && ++misses >= LS_BOTTOMUP_MAX_MISSES)
					break;
				continue;
			}
			status->knowndeletable = true;
		}
		else if (conflict.told)
			(void) entry_is_dead(rel, &entry->tid, &conflict);

		useful = i + 1;
		misses = 0;
		freed += status->freespace;
		if (delstate->bottomup && freed >= delstate->bottomupfreespace)
			break;
	}

	/* entries behind the last deletable one are of no interest to the caller */
	delstate->ndeltids = useful;

	if (!conflict.told)
		return InvalidTransactionId;
	/* with the removal of a row its own conflict gets into WAL, which has to be before that */
	if (conflict.gone)
		ls_write_out_all();
	return conflict.newest;
}
