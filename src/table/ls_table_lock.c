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
				 errmsg("tuple to be locked was already moved to another partition due to "
						"concurrent update")));
	return conflict->moved_to;
}

/*
 * This transaction's own change is in the way.  ON CONFLICT has found the row by its
 * newest version and expects to hear that this is not visible yet; any other caller has
 * seen the version before and is told that its own transaction has changed it.
 */
static bool
is_for_on_conflict(Relation rel, uint64 row_id, uint8 flags, CommandId cid)
{
	return ls_is_conflict_lock(rel, row_id, cid) ||
		(flags == 0 && ls_is_dirty_match(rel, row_id));
}

/* The newest version, for a caller that looks at its writer. */
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
 * here, before this backend leaves the queue and the next in line may take it.
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
	LS_CALL_ON(wait_for->rel, status,
			   ls_row_lock(ls_writer(), ls_open(wait_for->rel), &change, true, ls_fetch_buffer(),
						   &row, &newer, &other, &error));
	(void) status;
}

/* A call of ls_tuple_lock. */
typedef struct LockCall
{
	Relation	rel;
	LsRowWait	wait_for;
	ItemPointer tid;			/* of the row that is locked in the end */
	uint64		row_id;			/* the same, without its mark */
	TupleTableSlot *slot;
	CommandId	cid;
	bool		find_last;		/* a row that has moved on is followed */
	bool		may_be_newer;	/* than what the snapshot sees */
	bool		any_version;	/* is taken */
	bool		will_change;	/* the caller, the row */
	bool		works_on_newest;	/* the caller knows already that it is newer */
	bool		on_conflict;
	TM_FailureData *tmfd;
} LockCall;

/* The row is ours. */
static TM_Result
end_with_lock(LockCall *call, const ls_row *row, bool newer)
{
	ls_slot_store(call->slot, call->rel, row);
	if (newer)
	{
		ls_note_locked_newer(call->rel, row);
		if (call->find_last && !call->works_on_newest)
			call->tmfd->traversed = true;
		if (call->will_change)
			ls_tid_mark_newest(call->row_id, call->tid);
	}
	if (call->on_conflict)
		ls_note_conflict_lock(call->rel, call->row_id, call->cid);
	return TM_Ok;
}

/* The row has been changed by others.  True: try again, for any version or where it has moved. */
static bool
go_on_behind_change(LockCall *call, const ls_conflict *conflict)
{
	if (call->may_be_newer && !call->any_version)
	{
		call->any_version = true;
		return true;
	}
	if (!call->find_last || !conflict->moved)
		return false;
	call->row_id = follow_moved(conflict);
	ls_row_to_tid(call->row_id, call->tid);
	ls_row_wait_follow(&call->wait_for, call->row_id);
	call->tmfd->traversed = true;
	call->works_on_newest = false;
	return true;
}

/* ls_tuple_lock without the end of its waits. */
static TM_Result
lock_row(LockCall *call, Snapshot snapshot, LockTupleMode mode)
{
	Relation	rel = call->rel;

	ls_forget_recent();

	for (;;)
	{
		ls_worker  *worker = ls_writer();
		ls_snapshot seen = *ls_snapshot_convert(snapshot);
		ls_change	change = {
			.row_id = call->row_id,
			.snapshot = &seen,
			.cid = call->cid,
			.mode = engine_mode(mode)
		};
		ls_conflict conflict = {0};
		ls_error	error;
		ls_status	status;
		ls_row		row;
		bool		newer = false;

		LS_CALL_ON(rel, status,
				   ls_row_lock(worker, ls_open(rel), &change, call->any_version,
							   ls_fetch_buffer(), &row, &newer, &conflict, &error));
		if (status == LS_OK)
			return end_with_lock(call, &row, newer);
		if (status == LS_BEING_MODIFIED || status == LS_LOCKED)
		{
			if (!ls_row_wait(&call->wait_for, &conflict, change.mode))
				return TM_WouldBlock;
			continue;
		}
		if (status == LS_UPDATED && go_on_behind_change(call, &conflict))
			continue;
		if (status == LS_SELF_MODIFIED && call->on_conflict)
		{
			store_newest(rel, call->row_id, call->slot);
			return TM_Invisible;
		}
		return ls_conflict_result(rel, status, call->row_id, &conflict, &error, call->tmfd);
	}
}

TM_Result
ls_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot,
			  CommandId cid, LockTupleMode mode, LockWaitPolicy wait_policy, uint8 flags,
			  TM_FailureData *tmfd)
{
	const bool	find_last = (flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION) != 0;
	const bool	may_be_newer = find_last || !IsolationUsesXactSnapshot();
	const uint64 row_id = ls_marked_tid_to_row(tid);
	LockCall	call = {
		.rel = rel,
		.tid = tid,
		.row_id = row_id,
		.slot = slot,
		.cid = cid,
		.find_last = find_last,
		.may_be_newer = may_be_newer,
		.any_version = may_be_newer && mode != LockTupleKeyShare,
		.will_change = (flags & TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS) == 0,
		.works_on_newest = ls_tid_is_marked(tid),
		.on_conflict = is_for_on_conflict(rel, row_id, flags, cid),
		.tmfd = tmfd,
	};
	TM_Result	result;

	/* ON CONFLICT comes here for a row that no scan has locked, and looks at it */
	if (ls_locks(rel))
		ls_lock_row(rel, row_id, LS_RANGE_SHARED);
	tmfd->traversed = false;

	snapshot = ls_change_snapshot(snapshot);
	ls_row_wait_begin(&call.wait_for, rel, row_id, XLTW_Lock, wait_policy);
	ls_row_wait_for_turn(&call.wait_for, engine_mode(mode));
	result = lock_row(&call, snapshot, mode);
	ls_row_wait_end(&call.wait_for);
	return result;
}
