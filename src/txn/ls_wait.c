/*
 * ls_wait.c - waiting for the transaction that has made a change.
 *
 * The waiter sleeps on that transaction's XID, as for heap rows: the deadlock detector and
 * lock_timeout work.  Of a prepared transaction the XID is released before the engine knows its
 * end: the backend that was woken by that sees to it (ls_twophase_settle), or it would find the
 * row held still.
 */
#include "postgres.h"

#include "ls_txn.h"

#include "access/subtrans.h"
#include "access/tableam.h"
#include "storage/lock.h"
#include "storage/procarray.h"

/*
 * Which subtransaction; InvalidTransactionId: none of its own.  *known false: that, or the change
 * was rolled back meanwhile.
 */
static TransactionId
part_of_change(uint64 tn, uint32 seq, bool *known)
{
	ls_error	error;
	uint32		part = 0;
	ls_status	status = ls_change_part(ls_reader(), tn, seq, &part, &error);

	*known = status != LS_NOT_FOUND;
	if (*known)
		ls_check(status, error, NULL);
	return *known ? (TransactionId) part : InvalidTransactionId;
}

/*
 * A savepoint that was released has become part of the one around it: the rollback of the
 * first that is still open ends the wait.  An ended one has no lock on its XID.
 */
static TransactionId
open_ancestor(TransactionId part, TransactionId top)
{
	TransactionId xid = part;

	while (TransactionIdIsValid(xid) && xid != top)
	{
		LOCKTAG		tag;

		SET_LOCKTAG_TRANSACTION(tag, xid);
		if (LockAcquire(&tag, ShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
			return xid;
		LockRelease(&tag, ShareLock, false);
		if (!TransactionIdIsInProgress(xid))
			return xid;
		xid = SubTransGetParent(xid);
	}
	return top;
}

TransactionId
ls_writer_of_change(uint64 tn, uint32 seq)
{
	bool		known;
	TransactionId part = seq != 0 ? part_of_change(tn, seq, &known) : InvalidTransactionId;

	return TransactionIdIsValid(part) ? part : ls_tn_to_xid(tn);
}

TransactionId
ls_xid_of_change(uint64 tn, uint32 seq)
{
	return open_ancestor(ls_writer_of_change(tn, seq), ls_tn_to_xid(tn));
}

void
ls_wait_for_tn(uint64 tn, uint32 seq, Relation rel, ItemPointer tid, XLTW_Oper oper)
{
	XactLockTableWait(ls_xid_of_change(tn, seq), rel, tid, oper);
	(void) ls_twophase_settle(tn);
}

bool
ls_change_has_gone(uint64 tn, uint32 seq)
{
	bool		known;

	(void) part_of_change(tn, seq, &known);
	return !known;
}
