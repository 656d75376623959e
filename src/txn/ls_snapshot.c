/*
 * ls_snapshot.c - a PostgreSQL snapshot as plain data for the engine.
 *
 * The engine needs top-level transactions only (rows carry nothing else), as
 * sorted TNs.  One thing PostgreSQL's snapshot cannot know: a transaction that
 * aborted has left the process array a moment before its changes are undone.
 * Such a transaction is still on the engine's list of active ones, finished for
 * the snapshot, and not committed according to pg_xact: it joins the running list.  So it
 * is with a prepared transaction between ROLLBACK PREPARED and the engine's part of it.
 *
 * One that committed is visible a moment before its COMMIT callback takes it off that
 * list.  The snapshot sees what it wrote, but a caller that asks the engine what is active
 * (SnapshotSelf, ls_fetch_committed) would be given the version before; an
 * update that mixes the two takes back what was committed.  So no backend works with a
 * snapshot before all that it sees have left the list.
 *
 * On a standby a snapshot has the transactions that ran on the primary in its list of
 * subtransactions.  Those that have committed see no callback here, and one that aborted may take
 * long to be undone: that is replayed, too.
 *
 * Conversions are cached by content: a statement converts its snapshot for every
 * scan and index probe.  A cached conversion stays right: transactions that
 * were aborting when it was made never get new changes.
 */
#include "postgres.h"

#include "ls_txn_internal.h"

#include <sched.h>

#include "access/twophase.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "utils/injection_point.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define CACHED_SNAPSHOTS 16

/* The processor is what it waits for, as a rule. */
#define YIELDS_FOR_CALLBACK 20

typedef struct CachedSnapshot
{
	ls_snapshot converted;
	TransactionId xmin;
	TransactionId xmax;
	uint32		xcnt;
	TransactionId *xip;			/* copy of the list it was made from */
	uint64	   *running;
	uint32		capacity;		/* of xip and running */
	bool		in_recovery;
} CachedSnapshot;

static CachedSnapshot cache[CACHED_SNAPSHOTS];
static int	last_used = 0;
static int	next_victim = 0;
static ls_snapshot other;		/* non-MVCC kinds */

uint64
ls_tn_from_xid(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint64		full = U64FromFullTransactionId(next);

	if (!TransactionIdIsNormal(xid))
		return 0;
	full -= (uint32) (XidFromFullTransactionId(next) - xid);
	return full + ls_store_tn_offset(ls_shared->store);
}

int
ls_compare_tn(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

typedef struct XidList
{
	const TransactionId *xids;
	uint32		n;
} XidList;

/* The transactions that run in it, in recovery with their subtransactions. */
static XidList
running_in(Snapshot snapshot)
{
	if (snapshot->takenDuringRecovery)
		return (XidList) {snapshot->subxip, Max(snapshot->subxcnt, 0)};
	return (XidList) {snapshot->xip, snapshot->xcnt};
}

static bool
is_cached(const CachedSnapshot *c, Snapshot snapshot, XidList running)
{
	return c->xip != NULL && c->in_recovery == snapshot->takenDuringRecovery &&
		   c->xmin == snapshot->xmin && c->xmax == snapshot->xmax && c->xcnt == running.n &&
		   (running.n == 0 ||
			memcmp(c->xip, running.xids, running.n * sizeof(TransactionId)) == 0);
}

/*
 * Those that ran when the snapshot was taken and those that were aborting: no process has
 * one of each, and one that is being prepared may be found twice.
 */
uint32
ls_max_running(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS + 2 * max_prepared_xacts + 16;
}

/*
 * Its COMMIT callback is about to be called, and its XID to be released; if it was prepared,
 * any backend may do the engine's part.
 */
static void
wait_for_callback(uint64 tn)
{
	for (int i = 0; i < YIELDS_FOR_CALLBACK && ls_tn_is_active(ls_shared->store, tn); i++)
		sched_yield();
	while (ls_tn_is_active(ls_shared->store, tn))
	{
		CHECK_FOR_INTERRUPTS();
		ls_wait_for_tn(tn, 0, NULL, NULL, XLTW_None);
	}
}

/*
 * Transactions that PostgreSQL has forgotten as aborted but the engine has not undone yet.  Of
 * those that have committed none is active any more when this returns, but on a standby.  The n
 * that run are sorted.
 */
static uint32
add_aborting(CachedSnapshot *c, const uint32 n, uint64 own)
{
	uint32		all = n;
	static uint64 *active = NULL;
	static size_t capacity = 0;
	size_t		found;

	if (active == NULL)
	{
		capacity = ls_max_running();
		active = MemoryContextAlloc(TopMemoryContext, capacity * sizeof(uint64));
	}
	found = Min(ls_active_tns(ls_shared->store, active, capacity), capacity);
	for (size_t i = 0; i < found; i++)
	{
		uint64		tn = active[i];

		if (tn == own || tn >= c->converted.xmax ||
			bsearch(&tn, c->running, n, sizeof(uint64), ls_compare_tn) != NULL)
			continue;
		if (!TransactionIdDidCommit(ls_tn_to_xid(tn)))
			c->running[all++] = tn;
		else if (!c->in_recovery)
			wait_for_callback(tn);
	}
	return all;
}

static CachedSnapshot *
convert_into(CachedSnapshot *c, Snapshot snapshot, uint64 own)
{
	const XidList running = running_in(snapshot);
	uint32		n = 0;
	uint32		needed = running.n + ls_max_running();

	if (c->capacity < needed)
	{
		uint32		capacity = needed + 64;

		if (c->xip)
		{
			pfree(c->xip);
			pfree(c->running);
			c->xip = NULL;
		}
		c->running = MemoryContextAlloc(TopMemoryContext, capacity * sizeof(uint64));
		c->xip = MemoryContextAlloc(TopMemoryContext, capacity * sizeof(TransactionId));
		c->capacity = capacity;
	}
	c->xmin = snapshot->xmin;
	c->xmax = snapshot->xmax;
	c->in_recovery = snapshot->takenDuringRecovery;
	c->xcnt = running.n;
	memcpy(c->xip, running.xids, running.n * sizeof(TransactionId));

	c->converted.kind = LS_SNAPSHOT_MVCC;
	c->converted.xmin = ls_tn_from_xid(snapshot->xmin);
	c->converted.xmax = ls_tn_from_xid(snapshot->xmax);
	for (uint32 i = 0; i < running.n; i++)
		c->running[n++] = ls_tn_from_xid(running.xids[i]);
	qsort(c->running, n, sizeof(uint64), ls_compare_tn);
	n = add_aborting(c, n, own);
	qsort(c->running, n, sizeof(uint64), ls_compare_tn);
	if (n > 0)
		c->converted.xmin = Min(c->converted.xmin, c->running[0]);
	c->converted.running = c->running;
	c->converted.n_running = n;
	return c;
}

/* Taken on a standby. */
static void
check_usable(CachedSnapshot *c)
{
	ls_backup_refuse();
	if (ls_first_snapshot_is_older(ls_tn_from_xid(c->xmin), c->converted.xmax, c->xip, c->xcnt))
		return;
	pfree(c->xip);
	pfree(c->running);
	memset(c, 0, sizeof(*c));
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("leanstore tables cannot be read with a snapshot that was taken before they "
					"could be read on this standby"),
			 errhint("The transaction might succeed if retried.")));
}

static const ls_snapshot *
convert_mvcc(Snapshot snapshot)
{
	uint64		own = ls_own_tn();
	CachedSnapshot *c = &cache[last_used];

	const XidList running = running_in(snapshot);

	ls_pin_check(snapshot);
	if (!is_cached(c, snapshot, running))
	{
		int			i;

		for (i = 0; i < CACHED_SNAPSHOTS; i++)
			if (is_cached(&cache[i], snapshot, running))
				break;
		if (i == CACHED_SNAPSHOTS)
		{
			i = next_victim;
			next_victim = (next_victim + 1) % CACHED_SNAPSHOTS;
			convert_into(&cache[i], snapshot, own);
			if (snapshot->takenDuringRecovery)
				check_usable(&cache[i]);
			INJECTION_POINT("leanstore-snapshot-converted", NULL);
		}
		last_used = i;
		c = &cache[i];
	}
	c->converted.curcid = snapshot->curcid;
	c->converted.own_tn = own;
	return &c->converted;
}

const ls_snapshot *
ls_snapshot_convert(Snapshot snapshot)
{
	(void) ls_reader();
	switch (snapshot->snapshot_type)
	{
		case SNAPSHOT_MVCC:
			return convert_mvcc(snapshot);
		case SNAPSHOT_SELF:
			other.kind = LS_SNAPSHOT_SELF;
			break;
		case SNAPSHOT_DIRTY:
			other.kind = LS_SNAPSHOT_DIRTY;
			break;
		case SNAPSHOT_ANY:
		case SNAPSHOT_NON_VACUUMABLE:
			other.kind = LS_SNAPSHOT_ANY;
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("leanstore tables cannot be read with a snapshot of type %d",
							(int) snapshot->snapshot_type),
					 errhint("What an output plugin of logical decoding reads by itself has "
							 "to be a heap table.")));
	}
	other.own_tn = ls_own_tn();
	other.curcid = InvalidCommandId;
	return &other;
}
