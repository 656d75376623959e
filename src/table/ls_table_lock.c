/*
 * ls_table_lock.c - row locks: SELECT FOR UPDATE and its weaker kin, EvalPlanQual,
 * ON CONFLICT DO UPDATE, BEFORE ROW triggers.
 *
 * "Newer" takes two forms: a version in place, at the same TID, and a row that has
 * moved on to another row id.  A caller that wants the last version gets either,
 * with tmfd->traversed set, and the mark in its TID when it goes on to change the
 * row.  The others are of two kinds:
 *
 * - in REPEATABLE READ a newer version is the serialization failure that the
 *   caller raises on TM_Updated;
 * - in READ COMMITTED the only one is ON CONFLICT (and logical replication's apply),
 *   which found the row by its newest version and wants just that.
 *
 * FOR KEY SHARE does not mind newer versions with the same key: it gets the one that
 * the snapshot sees if there is only such a difference.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "access/xact.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"

static ls_lock_mode
engine_mode(LockTupleMode mode)
{
	switch (mode)
	{
		case LockTupleKeyShare:
			return LS_LOCK_KEY_SHARE;
		case LockTupleShare:
			return LS_LOCK_SHARE;
		case LockTupleNoKeyExclusive:
			return LS_LOCK_NO_KEY_UPDATE;
		case LockTupleExclusive:
			return LS_LOCK_UPDATE;
	}
	elog(ERROR, "unrecognized row lock mode %d", (int) mode);
}

/* Where a row has moved to. */
static uint64
follow_moved(const ls_conflict *conflict)
{
	if (conflict->moved_to == LS_MOVED_PARTITIONS)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("tuple to be locked was already moved to another partition due to concurrent update")));
	return conflict->moved_to;
}

/*
 * Our own change is in the way.  ON CONFLICT has found the row by its newest
 * version and expects to hear that this is not visible yet; everybody else has seen
 * the version before and is told that we changed it ourselves.
 */
static bool
is_for_on_conflict(Relation rel, uint64 row_id, uint8 flags, CommandId cid)
{
	return ls_is_conflict_lock(rel, row_id, cid) ||
		(flags == 0 && ls_is_dirty_match(rel, row_id));
}

/* The newest version, for a caller that looks at who wrote it. */
static void
store_newest(Relation rel, uint64 row_id, TupleTableSlot *slot)
{
	ls_row		row;

	if (ls_fetch_newest(rel, row_id, ls_fetch_buffer(), &row))
		ls_slot_store(slot, rel, &row);
}

/*
 * An update or delete found the row changed by those it had to wait for.  In READ
 * COMMITTED the executor goes on by locking the newest version: that lock is taken
 * here, before we leave the queue and the next in line may take it.
 */
void
ls_lock_before_leaving(LsRowWait *wait_for, uint64 row_id, Snapshot snapshot, CommandId cid,
					   ls_lock_mode mode, const ls_conflict *conflict)
{
	ls_snapshot seen;
	ls_change	change = {
		.row_id = conflict->moved ? conflict->moved_to : row_id,
		.snapshot = &seen,
		.cid = cid,
		.mode = mode
	};
	ls_conflict other;
	ls_error	error;
	ls_status	status;
	ls_row		row;
	bool		newer;

	if (wait_for->queued == NoLock || IsolationUsesXactSnapshot() ||
		change.row_id == LS_MOVED_PARTITIONS)
		return;
	seen = *ls_snapshot_convert(snapshot);

	/* where it fails the executor's own attempt will tell why */
	LS_CALL_ON(wait_for->rel, status, ls_row_lock(ls_writer(), ls_open(wait_for->rel), &change, true, ls_fetch_buffer(),
								&row, &newer, &other, &error));
	(void) status;
}

/* ls_tuple_lock without the end of its waits. */
static TM_Result
lock_row(LsRowWait *wait_for, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot,
		 CommandId cid, LockTupleMode mode, uint8 flags, TM_FailureData *tmfd)
{
	Relation	rel = wait_for->rel;
	bool		find_last = (flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION) != 0;
	bool		may_be_newer = find_last || !IsolationUsesXactSnapshot();
	bool		any_version = may_be_newer && mode != LockTupleKeyShare;
	bool		will_change = (flags & TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS) == 0;
	bool		works_on_newest = ls_tid_is_marked(tid);
	uint64		row_id = ls_marked_tid_to_row(tid);
	bool		on_conflict = is_for_on_conflict(rel, row_id, flags, cid);

	ls_forget_recent();

	for (;;)
	{
		ls_worker  *worker = ls_writer();
		ls_snapshot seen = *ls_snapshot_convert(snapshot);
		ls_change	change = {
			.row_id = row_id,
			.snapshot = &seen,
			.cid = cid,
			.mode = engine_mode(mode)
		};
		ls_conflict conflict = {0};
		ls_error	error;
		ls_status	status;
		ls_row		row;
		bool		newer = false;

		LS_CALL_ON(rel, status, ls_row_lock(worker, ls_open(rel), &change, any_version, ls_fetch_buffer(),
									&row, &newer, &conflict, &error));
		switch (status)
		{
			case LS_OK:
				ls_slot_store(slot, rel, &row);
				if (newer)
				{
					ls_note_locked_newer(rel, &row);
					if (find_last && !works_on_newest)
						tmfd->traversed = true;
					if (will_change)
						ls_tid_mark_newest(row_id, tid);
				}
				if (on_conflict)
					ls_note_conflict_lock(rel, row_id, cid);
				return TM_Ok;

			case LS_BEING_MODIFIED:
			case LS_LOCKED:
				if (!ls_row_wait(wait_for, &conflict, change.mode))
					return TM_WouldBlock;
				continue;

			case LS_UPDATED:
				if (may_be_newer && !any_version)
				{
					any_version = true;
					continue;
				}
				if (find_last && conflict.moved)
				{
					row_id = follow_moved(&conflict);
					ls_row_to_tid(row_id, tid);
					ls_row_wait_follow(wait_for, row_id);
					tmfd->traversed = true;
					works_on_newest = false;
					continue;
				}
				break;

			case LS_SELF_MODIFIED:
				if (on_conflict)
				{
					store_newest(rel, row_id, slot);
					return TM_Invisible;
				}
				break;

			default:
				break;
		}
		return ls_conflict_result(rel, status, row_id, &conflict, &error, tmfd);
	}
}

TM_Result
ls_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot,
			  CommandId cid, LockTupleMode mode, LockWaitPolicy wait_policy, uint8 flags,
			  TM_FailureData *tmfd)
{
	LsRowWait	wait_for;
	TM_Result	result;

	/* ON CONFLICT comes here for a row that no scan has locked, and looks at it */
	if (ls_locks(rel))
		ls_lock_row(rel, ls_marked_tid_to_row(tid), LS_RANGE_SHARED);
	tmfd->traversed = false;

	ls_row_wait_begin(&wait_for, rel, ls_marked_tid_to_row(tid), XLTW_Lock, wait_policy);
	ls_row_wait_for_turn(&wait_for, engine_mode(mode));
	result = lock_row(&wait_for, tid, snapshot, slot, cid, mode, flags, tmfd);
	ls_row_wait_end(&wait_for);
	return result;
}
