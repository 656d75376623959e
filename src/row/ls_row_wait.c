/*
 * ls_row_wait.c - waiting for the transaction that holds a row.
 *
 * The waiter sleeps on the holder's XID, as for heap rows: the deadlock detector,
 * lock_timeout, NOWAIT and SKIP LOCKED work.  Several waiters for one row stand in
 * line: the first to come takes the server's tuple lock and keeps it until it has
 * what it wanted, the others wait for that lock.  So the row goes to them in turn.
 * A row that no backend waits for has no such lock, and a backend that meets no conflict takes
 * none.
 *
 * A transaction that holds a lock on the row already and wants a stronger one does not queue:
 * the first in line may be waiting for just this transaction.
 *
 * Shared locks that meet no conflict do not queue, either, but give way for a while: ls_turn.c.
 */
#include "postgres.h"

#include "ls_row_internal.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"

#include "storage/lock.h"

/*
 * Has the change that is in the way gone with its savepoint, before its owner was
 * asked for?  Insertions of a transaction as a whole are not known, either: if the same
 * one is met again it is one of those.
 */
static bool
may_have_gone(LsRowWait *wait, const ls_conflict *conflict)
{
	if (conflict->tn == wait->gone_tn && conflict->seq == wait->gone_seq)
		return false;
	wait->gone_tn = conflict->tn;
	wait->gone_seq = conflict->seq;
	return conflict->seq != 0 && ls_change_has_gone(conflict->tn, conflict->seq);
}

void
ls_row_wait_begin(LsRowWait *wait, Relation rel, uint64 row_id, XLTW_Oper oper,
				  LockWaitPolicy policy)
{
	wait->rel = rel;
	ls_row_to_tid(row_id, &wait->tid);
	wait->oper = oper;
	wait->policy = policy;
	wait->queued = NoLock;
	wait->queued_tid = wait->tid;
	wait->gone_tn = 0;
	wait->gone_seq = 0;
}

/* Tuple locks conflict as the row locks that they are taken for. */
static LOCKMODE
queue_mode(ls_lock_mode mode)
{
	switch (mode)
	{
		case LS_LOCK_KEY_SHARE:
			return AccessShareLock;
		case LS_LOCK_SHARE:
			return RowShareLock;
		case LS_LOCK_NO_KEY_UPDATE:
			return ExclusiveLock;
		case LS_LOCK_UPDATE:
			return AccessExclusiveLock;
	}
	elog(ERROR, "unrecognized row lock mode %d", (int) mode);
}

/* NOWAIT: another transaction is in the way. */
pg_noreturn static void
raise_not_available(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not obtain lock on row in relation \"%s\"",
					RelationGetRelationName(rel))));
}

/* Take a place in line; false: SKIP LOCKED, and there is a line. */
static bool
enter_queue(LsRowWait *wait, ls_lock_mode mode)
{
	LOCKMODE	lockmode = queue_mode(mode);

	wait->queued_tid = wait->tid;
	switch (wait->policy)
	{
		case LockWaitBlock:
			LockTuple(wait->rel, &wait->tid, lockmode);
			break;
		case LockWaitSkip:
			if (!ConditionalLockTuple(wait->rel, &wait->tid, lockmode, false))
				return false;
			break;
		case LockWaitError:
			if (!ConditionalLockTuple(wait->rel, &wait->tid, lockmode, log_lock_failures))
				raise_not_available(wait->rel);
			break;
	}
	wait->queued = lockmode;
	return true;
}

void
ls_row_wait_for_turn(LsRowWait *wait, ls_lock_mode mode)
{
	if (wait->policy != LockWaitBlock || mode > LS_LOCK_SHARE)
		return;
	if (ls_turn_give_way(wait->rel, &wait->tid, queue_mode(mode)))
		wait->queued = queue_mode(mode);
}

bool
ls_row_wait(LsRowWait *wait, const ls_conflict *conflict, ls_lock_mode mode)
{
	TransactionId xid;

	if (!ItemPointerEquals(&wait->tid, &wait->queued_tid))
		ls_row_wait_end(wait);
	if (may_have_gone(wait, conflict))
		return true;
	if (wait->queued == NoLock && !conflict->holds_lock && !enter_queue(wait, mode))
		return false;
	if (wait->queued != NoLock && mode > LS_LOCK_SHARE)
		ls_turn_note(wait->rel, &wait->tid);

	/* the holder may have ended while this backend stood in line: then this returns at once */
	xid = ls_xid_of_change(conflict->tn, conflict->seq);
	switch (wait->policy)
	{
		case LockWaitBlock:
			XactLockTableWait(xid, wait->rel, &wait->tid, wait->oper);
			break;
		case LockWaitSkip:
			if (!ConditionalXactLockTableWait(xid, false))
				return false;
			break;
		case LockWaitError:
			if (!ConditionalXactLockTableWait(xid, log_lock_failures))
				raise_not_available(wait->rel);
			break;
	}
	(void) ls_twophase_settle(conflict->tn);
	return true;
}

void
ls_row_wait_end(LsRowWait *wait)
{
	if (wait->queued != NoLock)
		UnlockTuple(wait->rel, &wait->queued_tid, wait->queued);
	wait->queued = NoLock;
}

/* The transaction that holds a lock on the row, for its xmax. */
TransactionId
ls_row_locker_xid(Oid relid, uint64 row_id)
{
	Relation	rel = RelationIdGetRelation(relid);
	ls_error	error;
	ls_status	status;
	uint64		tn = 0;
	uint32		seq = 0;

	if (!RelationIsValid(rel))
		return InvalidTransactionId;
	LS_CALL_ON(rel, status, ls_row_locker(ls_reader(), ls_open(rel), row_id, &tn, &seq, &error));
	if (status != LS_NOT_FOUND)
		ls_check(status, error, rel);
	RelationClose(rel);
	return status == LS_NOT_FOUND ? InvalidTransactionId : ls_writer_of_change(tn, seq);
}
