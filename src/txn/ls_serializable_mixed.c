/*
 * ls_serializable_mixed.c - SERIALIZABLE transactions that use leanstore tables
 * together with tables of other access methods.
 *
 * The server tracks the latter itself (predicate.c): it lets a transaction read what
 * another has overwritten since its snapshot, a read/write dependency, and
 * aborts one when two of them follow each other dangerously.  Range locks know no
 * such dependency: a reader's transaction becomes visible before its writer's.  A cycle of both
 * kinds would be seen by neither.  It always has, however, a transaction that wrote
 * leanstore tables and became visible after one that overwrote what it had read elsewhere
 * (proof: docs/serializable.md).  So there is one rule:
 *
 *	A transaction that has written leanstore tables becomes visible before those
 *	that have overwritten what it read elsewhere, or it fails.
 *
 * Both sides look when they are about to commit, after they have said so in
 * shared memory; so of two that do it at the same time one at least sees the other.
 * The writer of leanstore tables fails if the other is about to commit or has; the other
 * waits for it if it came first.
 */
#include "postgres.h"

#include "ls_txn_internal.h"

#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "storage/predicate.h"
#include "storage/predicate_internals.h"
#include "storage/proc.h"
#include "storage/shmem.h"

/* What the transaction of a backend is about to do. */
typedef enum Commitment
{
	NOT_COMMITTING,
	COMMITTING,
	COMMITTING_LEANSTORE		/* has written leanstore tables */
} Commitment;

/* Shared, by proc number. */
static pg_atomic_uint32 *commitments = NULL;

static int
commitment_slots(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

Size
ls_mixed_shmem_size(void)
{
	return mul_size(commitment_slots(), sizeof(pg_atomic_uint32));
}

void
ls_mixed_shmem_init(void)
{
	bool		found;

	commitments = ShmemInitStruct("leanstore_am commitments", ls_mixed_shmem_size(), &found);
	if (!found)
		for (int i = 0; i < commitment_slots(); i++)
			pg_atomic_init_u32(&commitments[i], NOT_COMMITTING);
}

static Commitment
commitment_of(const SERIALIZABLEXACT *sxact)
{
	/* a prepared transaction has no backend, and says that it is prepared by a flag */
	if (sxact->pid == 0 || sxact->pgprocno == INVALID_PROC_NUMBER)
		return NOT_COMMITTING;
	return (Commitment) pg_atomic_read_u32(&commitments[sxact->pgprocno]);
}

/* Is, or was, somebody about to commit who has overwritten what we read?  Under SerializableXactHashLock. */
static bool
is_overtaken(SERIALIZABLEXACT *own)
{
	dlist_iter	iter;

	if ((own->flags & SXACT_FLAG_SUMMARY_CONFLICT_OUT) != 0)
		return true;
	dlist_foreach(iter, &own->outConflicts)
	{
		const SERIALIZABLEXACT *writer = dlist_container(RWConflictData, outLink, iter.cur)->sxactIn;

		if ((writer->flags & (SXACT_FLAG_PREPARED | SXACT_FLAG_COMMITTED)) != 0 ||
			commitment_of(writer) != NOT_COMMITTING)
			return true;
	}
	return false;
}

/*
 * Somebody who has read what we overwrite, has written leanstore tables and is about to
 * commit: he has not seen us.  Under SerializableXactHashLock.
 */
static TransactionId
to_be_let_pass(SERIALIZABLEXACT *own)
{
	dlist_iter	iter;

	dlist_foreach(iter, &own->inConflicts)
	{
		const SERIALIZABLEXACT *reader = dlist_container(RWConflictData, inLink, iter.cur)->sxactOut;

		if ((reader->flags & SXACT_FLAG_COMMITTED) == 0 && commitment_of(reader) == COMMITTING_LEANSTORE)
			return reader->topXid;
	}
	return InvalidTransactionId;
}

void
ls_mixed_before_commit(bool wrote)
{
	SERIALIZABLEXACT *own;
	bool		overtaken = false;

	if (likely(XactIsoLevel != XACT_SERIALIZABLE))
		return;
	own = (SERIALIZABLEXACT *) ShareSerializableXact();
	if (own == NULL)
		return;					/* READ ONLY, and known to be safe */

	/* exchange is a full barrier: what is read below is read after */
	(void) pg_atomic_exchange_u32(&commitments[MyProcNumber], wrote ? COMMITTING_LEANSTORE : COMMITTING);

	/*
	 * No need to lock lists that are empty: who adds a dependency now has yet to say
	 * that he is about to commit, and will see us.
	 */
	if (wrote && (!dlist_is_empty(&own->outConflicts) || (own->flags & SXACT_FLAG_SUMMARY_CONFLICT_OUT) != 0))
	{
		LWLockAcquire(SerializableXactHashLock, LW_SHARED);
		overtaken = is_overtaken(own);
		LWLockRelease(SerializableXactHashLock);
	}
	if (overtaken)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to read/write dependencies among transactions"),
				 errdetail("The transaction has written leanstore tables, and what it read in other tables has changed since."),
				 errhint("The transaction might succeed if retried.")));

	while (!dlist_is_empty(&own->inConflicts))
	{
		TransactionId xid;

		LWLockAcquire(SerializableXactHashLock, LW_SHARED);
		xid = to_be_let_pass(own);
		LWLockRelease(SerializableXactHashLock);
		if (!TransactionIdIsValid(xid))
			break;
		XactLockTableWait(xid, NULL, NULL, XLTW_None);
	}
}

void
ls_mixed_at_eoxact(void)
{
	if (commitments != NULL && pg_atomic_read_u32(&commitments[MyProcNumber]) != NOT_COMMITTING)
		pg_atomic_write_u32(&commitments[MyProcNumber], NOT_COMMITTING);
}
