/*
 * ls_versions.c - which version of a row the executor means.
 *
 * Heap's TIDs name versions, and the executor makes use of that: it keeps a TID,
 * later asks for "the tuple there" with SnapshotAny, and expects the version it had
 * in mind.  Our TIDs name rows.  So it is remembered what happened to rows a
 * moment ago in this backend: by the notes of ls_recent.c and, here, by the rows of the
 * transaction that were locked in a version newer than the query's snapshot sees.
 *
 * For these the TID helps too: a lock that finds a newer version gives the
 * executor's TID a mark (ls_tid_mark_newest), as heap would give it the TID of the
 * new version.  With the mark the executor means the newest version, which it has
 * locked; without it the one that its snapshot sees, even if some other row of a join
 * has made it lock a newer one.
 */
#include "postgres.h"

#include "ls_row.h"
#include "txn/ls_txn.h"

#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/*
 * Rows of this transaction that were locked in a newer version.  The entry says
 * which version that was: when the lock has gone with a savepoint and another transaction
 * has changed the row since, it does not match any more.
 */
typedef struct LockedRowKey
{
	uint64		row_id;
	Oid			relid;
	uint32		unused;			/* zero: the key is hashed as bytes */
} LockedRowKey;

typedef struct LockedRow
{
	LockedRowKey key;
	uint64		writer_tn;
	uint32		cid;
} LockedRow;

static HTAB *locked_rows = NULL;	/* in TopTransactionContext */

/* ----------------------------------------------------------------
 * rows locked in a newer version
 * ----------------------------------------------------------------
 */

static void
forget_locked_rows(void *arg)
{
	locked_rows = NULL;
}

static LockedRowKey
locked_row_key(Relation rel, uint64 row_id)
{
	return (LockedRowKey)
	{
		.row_id = row_id, .relid = RelationGetRelid(rel)
	};
}

/* The row's newest version is locked by us, and the query's snapshot does not see it. */
void
ls_note_locked_newer(Relation rel, const ls_row *row)
{
	LockedRowKey key = locked_row_key(rel, row->row_id);
	LockedRow  *entry;

	if (locked_rows == NULL)
	{
		HASHCTL		ctl = {
			.keysize = sizeof(LockedRowKey),
			.entrysize = sizeof(LockedRow),
			.hcxt = TopTransactionContext
		};
		MemoryContextCallback *callback = MemoryContextAlloc(TopTransactionContext,
															 sizeof(MemoryContextCallback));
		HTAB	   *table = hash_create("leanstore rows locked in a newer version", 16, &ctl,
										HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

		callback->func = forget_locked_rows;
		callback->arg = NULL;
		MemoryContextRegisterResetCallback(TopTransactionContext, callback);
		locked_rows = table;
	}

	entry = hash_search(locked_rows, &key, HASH_ENTER, NULL);
	entry->writer_tn = row->writer_tn;
	entry->cid = row->cid;
}

/* ----------------------------------------------------------------
 * versions by name
 * ----------------------------------------------------------------
 */

/* An upper bound of the TNs in use; TNs have 48 bits. */
#define LS_TN_LIMIT ((UINT64CONST(1) << 48) - 1)

/*
 * The versions of a row behind its newest one, down to the last that all snapshots see
 * (its writer is below the horizon).  Each is what a snapshot sees in which the
 * writers of all newer ones are running.
 */
void
ls_versions_begin(LsVersionWalk *walk, Relation rel, const ls_row *newest, uint64 horizon)
{
	*walk = (LsVersionWalk)
	{
		.rel = rel, .row_id = newest->row_id, .horizon = horizon, .at = *newest
	};
}

static void
add_writer(LsVersionWalk *walk, uint64 writer)
{
	uint32		i = walk->n;

	if (walk->n == walk->capacity)
	{
		walk->capacity = Max(8, walk->capacity * 2);
		walk->writers = walk->writers == NULL ? palloc_array(uint64, walk->capacity)
			: repalloc_array(walk->writers, uint64, walk->capacity);
	}
	for (; i > 0 && walk->writers[i - 1] > writer; i--)
		walk->writers[i] = walk->writers[i - 1];
	walk->writers[i] = writer;
	walk->n++;
}

bool
ls_versions_next(LsVersionWalk *walk, uint8 *buffer, ls_row *version)
{
	ls_snapshot snapshot = {
		.kind = LS_SNAPSHOT_MVCC,
		.xmax = LS_TN_LIMIT
	};

	CHECK_FOR_INTERRUPTS();
	if (walk->at.writer_tn < walk->horizon || (walk->at.flags & LS_ROW_HAS_PREV) == 0)
		return false;
	add_writer(walk, walk->at.writer_tn);
	snapshot.xmin = walk->writers[0];
	snapshot.running = walk->writers;
	snapshot.n_running = walk->n;
	if (!ls_fetch(walk->rel, walk->row_id, &snapshot, buffer, version, NULL))
		return false;
	walk->at = *version;
	return true;
}

void
ls_versions_end(LsVersionWalk *walk)
{
	if (walk->writers != NULL)
		pfree(walk->writers);
}

/* The version that command cid of this transaction replaced. */
static bool
fetch_superseded(Relation rel, uint64 row_id, CommandId cid, uint8 *buffer, ls_row *row)
{
	uint64		own = ls_own_tn();

	/* no other transaction has a change in progress on a row that this one has changed */
	ls_snapshot snapshot = {
		.kind = LS_SNAPSHOT_MVCC,
		.xmin = own,
		.xmax = LS_TN_LIMIT,
		.running = NULL,
		.n_running = 0,
		.curcid = cid,
		.own_tn = own
	};

	return ls_fetch(rel, row_id, &snapshot, buffer, row, NULL);
}


/* Does a snapshot see what this transaction, known to have committed, wrote? */
static bool
sees_committed(const ls_snapshot *snapshot, uint64 tn)
{
	uint32		lo = 0;
	uint32		hi = snapshot->n_running;

	if (tn < snapshot->xmin)
		return true;
	if (tn >= snapshot->xmax)
		return false;
	while (lo < hi)
	{
		uint32		mid = lo + (hi - lo) / 2;

		if (snapshot->running[mid] == tn)
			return false;
		if (snapshot->running[mid] < tn)
			lo = mid + 1;
		else
			hi = mid;
	}
	return true;
}

/*
 * Has the row a version that this transaction has locked and this snapshot does not see?  The
 * engine lets the transaction change such a row; but a caller with a TID that has no mark has
 * computed its change from an older version.
 */
bool
ls_is_locked_newer(Relation rel, uint64 row_id, Snapshot snapshot, uint8 *buffer, ls_row *row)
{
	LockedRowKey key = locked_row_key(rel, row_id);
	LockedRow  *entry;

	if (likely(locked_rows == NULL))
		return false;
	entry = hash_search(locked_rows, &key, HASH_FIND, NULL);
	return entry != NULL &&
		ls_fetch_committed(rel, row_id, buffer, row) &&
		entry->writer_tn == row->writer_tn && entry->cid == row->cid &&
		row->writer_tn != ls_own_tn() &&
		!sees_committed(ls_snapshot_convert(snapshot), row->writer_tn);
}

/*
 * The query's snapshot, when the version that it sees may be wanted although there
 * is a newer one: in READ COMMITTED, where a query goes on after it has met that.  In
 * REPEATABLE READ it fails, and to find that out it must be shown the newer one.
 */
static Snapshot
query_snapshot(void)
{
	if (IsolationUsesXactSnapshot() || !ActiveSnapshotSet() || !IsMVCCSnapshot(GetActiveSnapshot()))
		return NULL;
	return GetActiveSnapshot();
}

/*
 * "The tuple there", for SnapshotAny.  The executor asks so
 *
 * - for a row that it is about to change, or that an EvalPlanQual recheck joins
 *   with: it means the version that its snapshot sees, and nothing newer unless
 *   it has locked that;
 * - for the old version of a row that it has just updated, for AFTER triggers and
 *   transition tables; after an update in place that is not the row's version any
 *   more, see ls_take_superseded();
 * - for a row that it has just written or deleted, or that an AFTER trigger is
 *   about.
 *
 * What another transaction has in progress is never given: it may be undone.
 */
bool
ls_fetch_any(Relation rel, const ItemPointerData *tid, uint8 *buffer, ls_row *row, bool *deleted)
{
	uint64		row_id = ls_marked_tid_to_row(tid);
	bool		newest_locked = ls_tid_is_marked(tid);
	Snapshot	snapshot = query_snapshot();
	CommandId	cid;

	*deleted = false;
	if (ls_take_superseded(rel, row_id, &cid) &&
		fetch_superseded(rel, row_id, cid, buffer, row))
		return true;

	if (ls_fetch_committed(rel, row_id, buffer, row))
	{
		if (snapshot == NULL ||
			newest_locked ||
			row->writer_tn == ls_own_tn() ||
			sees_committed(ls_snapshot_convert(snapshot), row->writer_tn))
			return true;
		return ls_fetch(rel, row_id, ls_snapshot_convert(snapshot), buffer, row, NULL) ||
			ls_fetch_committed(rel, row_id, buffer, row);
	}

	/*
	 * Deleted, by this transaction or since the query began.  What this transaction deleted is
	 * fetched as the version that it was: referential integrity asks for its writer.
	 */
	if (ls_fetch_newest(rel, row_id, buffer, row))
	{
		cid = row->cid;
		if (row->writer_tn == ls_own_tn())
		{
			*deleted = true;
			return fetch_superseded(rel, row_id, cid, buffer, row) ||
				ls_fetch_newest(rel, row_id, buffer, row);
		}
		if (snapshot == NULL)
			return true;
	}
	return (snapshot != NULL &&
			ls_fetch(rel, row_id, ls_snapshot_convert(snapshot), buffer, row, NULL)) ||
		   ls_fetch_newest(rel, row_id, buffer, row);
}
