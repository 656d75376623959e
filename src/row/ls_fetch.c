/*
 * ls_fetch.c - one version of a row by its row id.
 *
 * Which version the caller gets follows from the snapshot.  Callers that pass SnapshotAny want
 * "the tuple there"; what that is for a row that is changed in place, see ls_versions.c.
 */
#include "postgres.h"

#include "ls_row.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"

#include "utils/snapmgr.h"

bool
ls_fetch(Relation rel, uint64 row_id, const ls_snapshot *snapshot, uint8 *buffer,
		 ls_row *row, bool *all_dead)
{
	ls_error	error;
	ls_status	status;
	bool		dead = false;

	LS_CALL_ON(rel, status,
			   ls_row_fetch(ls_reader(), ls_open(rel), row_id, snapshot, buffer, row, &dead,
							&error));
	if (all_dead != NULL)
		*all_dead = (status == LS_NOT_FOUND && dead);
	if (status == LS_NOT_FOUND)
		return false;
	if (unlikely(status == LS_UPDATED))
		ls_raise_newer(rel);
	ls_check(status, error, rel);
	return true;
}

bool
ls_fetch_visible(Relation rel, uint64 row_id, Snapshot snapshot, ls_row *row, bool *all_dead)
{
	if (likely(!ls_locks_reads(rel, snapshot)))
		return ls_fetch(rel, row_id, ls_snapshot_convert(snapshot), ls_fetch_buffer(), row,
						all_dead);
	ls_lock_row(rel, row_id, ls_read_mode(rel));
	return ls_fetch(rel, row_id, ls_locked_snapshot(snapshot), ls_fetch_buffer(), row, all_dead);
}

bool
ls_fetch_newest(Relation rel, uint64 row_id, uint8 *buffer, ls_row *row)
{
	return ls_fetch(rel, row_id, ls_snapshot_convert(SnapshotAny), buffer, row, NULL);
}

/*
 * The version that stands at this moment: our own, or the last committed one.
 *
 * A change of this row that succeeds afterwards replaces exactly this version:
 * if another transaction had changed the row in between, the change would have
 * met a version that its snapshot (older than this call) does not see.
 */
bool
ls_fetch_committed(Relation rel, uint64 row_id, uint8 *buffer, ls_row *row)
{
	return ls_fetch(rel, row_id, ls_snapshot_convert(SnapshotSelf), buffer, row, NULL);
}

bool
ls_row_is_dead(const ls_row *row)
{
	return (row->flags & LS_ROW_GHOST) != 0 &&
		row->writer_tn < ls_store_horizon(ls_shared->store);
}

/* ----------------------------------------------------------------
 * dirty snapshots: what unique checks and subscriptions look with
 * ----------------------------------------------------------------
 */

/*
 * The row's newest version, as HeapTupleSatisfiesDirty judges it: false when it is gone.  The
 * snapshot gets the transaction that the caller has to wait for to be sure.  A writer
 * found not running any more may have removed its change in the meantime, so the row is
 * read again then.
 */
static bool
fetch_dirty_newest(Relation rel, uint64 row_id, Snapshot snapshot,
				   uint8 *buffer, ls_row *row, bool *all_dead)
{
	uint64		own = ls_own_tn();
	uint64		finished = 0;

	snapshot->xmin = snapshot->xmax = InvalidTransactionId;
	snapshot->speculativeToken = 0;
	if (all_dead != NULL)
		*all_dead = false;

	for (;;)
	{
		bool		ghost;

		if (!ls_fetch(rel, row_id, ls_snapshot_convert(SnapshotAny), buffer, row, all_dead))
			return false;

		ghost = (row->flags & LS_ROW_GHOST) != 0;
		if (row->writer_tn == own ||
			row->writer_tn == finished ||
			row->writer_tn < ls_store_tn_base(ls_shared->store))
		{
			if (ghost && all_dead != NULL)
				*all_dead = ls_row_is_dead(row);
			return !ghost;
		}

		if (ls_tn_is_active(ls_shared->store, row->writer_tn))
		{
			TransactionId writer = ls_xid_of_change(row->writer_tn, row->seq);

			/* the caller could not wait for it: the server has ended it */
			if (ls_twophase_settle(row->writer_tn))
				continue;
			if (row->flags & LS_ROW_SPECULATIVE)
			{
				snapshot->speculativeToken = row->cid;
				snapshot->xmin = writer;
			}
			else if (ghost || (row->flags & LS_ROW_HAS_PREV))
				snapshot->xmax = writer;
			else
				snapshot->xmin = writer;
			return true;
		}
		finished = row->writer_tn;
	}
}

/*
 * A row as a dirty snapshot sees it.  Of one that another transaction is updating there are two
 * versions, as in heap: first the one that is there if that transaction rolls back, with
 * its xid as the snapshot's xmax; *newer_due then names the row, and the next call for it gives
 * what the transaction has written, with xmin.
 */
bool
ls_fetch_dirty(Relation rel, uint64 row_id, Snapshot snapshot, uint64 *newer_due,
			   uint8 *buffer, ls_row *row, bool *all_dead)
{
	bool		older_given = *newer_due == row_id;
	TransactionId writer;

	*newer_due = 0;
	if (!fetch_dirty_newest(rel, row_id, snapshot, buffer, row, all_dead))
		return false;
	writer = snapshot->xmax;
	if (!TransactionIdIsValid(writer) || (row->flags & LS_ROW_GHOST) != 0)
		return true;
	if (older_given)
	{
		snapshot->xmin = writer;
		snapshot->xmax = InvalidTransactionId;
		return true;
	}
	if (ls_fetch_committed(rel, row_id, buffer, row))
	{
		*newer_due = row_id;
		return true;
	}
	/* there was none, or it has gone since: what is there now */
	return fetch_dirty_newest(rel, row_id, snapshot, buffer, row, all_dead);
}
