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
#include "pg/ls_pg.h"

#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
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
commitment_of(const LsPgConflict *conflict)
{
	if (conflict->proc == INVALID_PROC_NUMBER)
		return NOT_COMMITTING;
	return (Commitment) pg_atomic_read_u32(&commitments[conflict->proc]);
}

/* A writer of what this transaction has read: has it committed, or is it about to? */
static bool
overtakes(const LsPgConflict *writer)
{
	return writer->prepared || writer->committed || commitment_of(writer) != NOT_COMMITTING;
}

/*
 * A reader of what this transaction has overwritten: has it written leanstore tables, and is it
 * about to commit?  It has not seen this transaction.
 */
static bool
is_to_be_let_pass(const LsPgConflict *reader)
{
	return !reader->committed && commitment_of(reader) == COMMITTING_LEANSTORE;
}

void
ls_mixed_before_commit(bool wrote)
{
	SerializableXactHandle own;
	LsPgConflict	conflict;

	if (likely(XactIsoLevel != XACT_SERIALIZABLE))
		return;
	own = ShareSerializableXact();
	if (own == NULL)
		return;					/* READ ONLY, and known to be safe */

	/* exchange is a full barrier: what is read below is read after */
	(void) pg_atomic_exchange_u32(&commitments[MyProcNumber],
								  wrote ? COMMITTING_LEANSTORE : COMMITTING);

	/*
	 * No need to lock lists that are empty: a transaction that adds a dependency now has yet
	 * to say that it is about to commit, and will see that this one is.
	 */
	if (wrote && ls_pg_has_conflicts(own, LS_PG_CONFLICTS_OUT) &&
		ls_pg_find_conflict(own, LS_PG_CONFLICTS_OUT, overtakes, &conflict))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access due to read/write dependencies among "
						"transactions"),
				 errdetail("The transaction has written leanstore tables, "
						   "and what it read in other tables has changed since."),
				 errhint("The transaction might succeed if retried.")));

	while (ls_pg_has_conflicts(own, LS_PG_CONFLICTS_IN) &&
		   ls_pg_find_conflict(own, LS_PG_CONFLICTS_IN, is_to_be_let_pass, &conflict) &&
		   TransactionIdIsValid(conflict.xid))
		XactLockTableWait(conflict.xid, NULL, NULL, XLTW_None);
}

void
ls_mixed_at_eoxact(void)
{
	if (commitments != NULL && pg_atomic_read_u32(&commitments[MyProcNumber]) != NOT_COMMITTING)
		pg_atomic_write_u32(&commitments[MyProcNumber], NOT_COMMITTING);
}
