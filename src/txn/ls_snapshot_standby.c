/*
 * ls_snapshot_standby.c - which snapshots of a standby can read leanstore tables.
 *
 * The engine has old versions of what was changed since it began to follow (FLW-4 in
 * engine/store/standby_follow.hpp).  Sessions come a moment before that, and may have taken a
 * snapshot in which a transaction runs that had committed by then.  So the engine worker takes one
 * when the engine follows: one that is as new has no such transaction.
 */
#include "postgres.h"

#include "ls_txn_internal.h"

#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/snapmgr.h"

/* Written once, before sessions are let in. */
typedef struct FirstSnapshot
{
	uint32		n_running;
	uint64		xmax;
	uint64		running[FLEXIBLE_ARRAY_MEMBER]; /* ascending */
} FirstSnapshot;

static FirstSnapshot *first = NULL;

Size
ls_first_snapshot_shmem_size(void)
{
	return MAXALIGN(offsetof(FirstSnapshot, running) +
					mul_size(GetMaxSnapshotSubxidCount(), sizeof(uint64)));
}

void
ls_first_snapshot_shmem_init(void)
{
	bool		found;

	first = ShmemInitStruct("leanstore_am first snapshot", ls_first_snapshot_shmem_size(), &found);
}

/* If recovery ends meanwhile no snapshot of before is let in. */
void
ls_first_snapshot_take(void)
{
	static SnapshotData now = {SNAPSHOT_MVCC};
	uint32		readable = LS_NOT_READABLE;

	GetSnapshotData(&now);
	MyProc->xmin = TransactionXmin = InvalidTransactionId;
	if (!now.takenDuringRecovery)
		return;
	first->xmax = ls_tn_from_xid(now.xmax);
	first->n_running = Max(now.subxcnt, 0);
	for (uint32 i = 0; i < first->n_running; i++)
		first->running[i] = ls_tn_from_xid(now.subxip[i]);
	qsort(first->running, first->n_running, sizeof(uint64), ls_compare_tn);
	(void) pg_atomic_compare_exchange_u32(&ls_shared->readable, &readable, LS_READABLE);
}

void
ls_first_snapshot_end(void)
{
	uint32		readable = LS_NOT_READABLE;

	(void) pg_atomic_compare_exchange_u32(&ls_shared->readable, &readable, LS_NEVER_READABLE);
}

static bool
runs_in_first(uint64 tn)
{
	return tn >= first->xmax ||
		bsearch(&tn, first->running, first->n_running, sizeof(uint64), ls_compare_tn) != NULL;
}

/* xmin, xmax: of the other one; its transactions are those of the server alone. */
bool
ls_first_snapshot_is_older(uint64 xmin, uint64 xmax, const TransactionId *running, uint32 n)
{
	if (pg_atomic_read_membarrier_u32(&ls_shared->readable) != LS_READABLE)
		return false;
	if (xmin >= first->xmax)
		return true;
	for (uint64 tn = xmax; tn < first->xmax; tn++)
		if (!runs_in_first(tn))
			return false;
	for (uint32 i = 0; i < n; i++)
		if (!runs_in_first(ls_tn_from_xid(running[i])))
			return false;
	return true;
}
