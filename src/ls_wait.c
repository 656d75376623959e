/*
 * ls_wait.c - waiting for the transaction that holds a row.
 *
 * The waiter sleeps on the holder's XID, as for heap rows: the deadlock detector,
 * lock_timeout, NOWAIT and SKIP LOCKED work, and no heavyweight lock is taken
 * per row.
 */
#include "ls.h"

#include "access/tableam.h"
#include "nodes/lockoptions.h"

void
ls_wait_for_tn(uint64 tn, uint32 seq, Relation rel, ItemPointer tid, XLTW_Oper oper)
{
	XactLockTableWait(ls_subxact_of_change(tn, seq), rel, tid, oper);
}

bool
ls_wait_by_policy(uint64 tn, uint32 seq, Relation rel, ItemPointer tid, XLTW_Oper oper, LockWaitPolicy policy)
{
	TransactionId xid = ls_subxact_of_change(tn, seq);

	switch (policy)
	{
		case LockWaitBlock:
			XactLockTableWait(xid, rel, tid, oper);
			return true;
		case LockWaitSkip:
			return ConditionalXactLockTableWait(xid, false);
		case LockWaitError:
			if (!ConditionalXactLockTableWait(xid, log_lock_failures))
				ereport(ERROR,
						(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
						 errmsg("could not obtain lock on row in relation \"%s\"",
								RelationGetRelationName(rel))));
			return true;
	}
	return true;
}
