/*
 * ls_horizon.c - tells the engine which row versions some snapshot may still need.
 *
 * The engine worker publishes, every few milliseconds (engine/version/horizon.hpp):
 *	horizon	 below it every superseded version is garbage (what heap's VACUUM would use)
 *	now		 a snapshot of the process array: who has ended
 *	floor	 the oldest xmin among backends whose snapshots are not known exactly
 *	pins	 snapshots known exactly
 *
 * One long-lived REPEATABLE READ transaction would hold the floor down, and every
 * version written meanwhile would have to be kept.  But such a transaction has
 * a single snapshot for all its statements, so its backend can pin exactly that.
 * It may say "this is all I have" only while it cannot be holding another one: new
 * snapshots in REPEATABLE READ come from GetLatestSnapshot(), called by referential
 * integrity triggers (inside data-modifying queries or COMMIT) and by
 * utility commands.  So the pin is exact between commands and during plain
 * SELECTs, and withdrawn before a data-modifying query or a utility command starts.
 *
 * Withdrawing races with a publication that has just read the pin as exact: a snapshot
 * taken after the withdrawal sees everything that had ended when that publication
 * read the process array, and only such versions are dropped by it.
 */
#include "ls.h"

#include "access/parallel.h"
#include "access/twophase.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#define MAX_PIN_RUNNING 128

/* One per backend; written by it, read by the engine worker. */
typedef struct PinSlot
{
	pg_atomic_uint32 exact;
	uint64		xmin;
	uint64		xmax;
	uint32		n_running;
	uint64		running[MAX_PIN_RUNNING];
} PinSlot;

static PinSlot *pin_slots = NULL;

/* backend state */
static int	executor_depth = 0;
static int	utility_depth = 0;
static int	modifying_queries = 0;	/* started and not ended */

static ExecutorStart_hook_type previous_start = NULL;
static ExecutorRun_hook_type previous_run = NULL;
static ExecutorEnd_hook_type previous_end = NULL;

static int
pin_slot_count(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

Size
ls_horizon_shmem_size(void)
{
	return mul_size(pin_slot_count(), sizeof(PinSlot));
}

void
ls_horizon_shmem_init(void)
{
	bool		found;

	pin_slots = ShmemInitStruct("leanstore_am pinned snapshots", ls_horizon_shmem_size(), &found);
	if (!found)
		for (int i = 0; i < pin_slot_count(); i++)
			pg_atomic_init_u32(&pin_slots[i].exact, 0);
}

/* ---- a backend's pin -------------------------------------------------------- */

static bool
pin_is_exact(void)
{
	return pin_slots != NULL && MyProc != NULL && pg_atomic_read_u32(&pin_slots[MyProcNumber].exact) != 0;
}

static void
withdraw_pin(void)
{
	if (pin_is_exact())
	{
		/* A full barrier: before any snapshot that comes now. */
		pg_atomic_exchange_u32(&pin_slots[MyProcNumber].exact, 0);
	}
}

/* Pin the transaction's only snapshot, if it is a REPEATABLE READ transaction that has used the engine. */
static void
consider_pin(void)
{
	PinSlot    *slot;
	const ls_snapshot *converted;

	if (executor_depth > 0 || utility_depth > 0 || modifying_queries > 0 ||
		!IsolationUsesXactSnapshot() || !FirstSnapshotSet || !ls_reader_attached() ||
		IsParallelWorker() || pin_is_exact() || MyProc->xmin == InvalidTransactionId)
		return;

	converted = ls_snapshot_convert(GetTransactionSnapshot());
	if (converted->kind != LS_SNAPSHOT_MVCC || converted->n_running > MAX_PIN_RUNNING)
		return;
	slot = &pin_slots[MyProcNumber];
	slot->xmin = converted->xmin;
	slot->xmax = converted->xmax;
	slot->n_running = converted->n_running;
	memcpy(slot->running, converted->running, converted->n_running * sizeof(uint64));
	pg_write_barrier();
	pg_atomic_write_u32(&slot->exact, 1);
}

void
ls_horizon_enter_utility(void)
{
	utility_depth++;
	withdraw_pin();
}

void
ls_horizon_leave_utility(bool ends_transaction)
{
	utility_depth--;
	/* COMMIT does its work, deferred triggers included, after the command. */
	if (!ends_transaction)
		consider_pin();
}

void
ls_horizon_withdraw(void)
{
	withdraw_pin();
}

void
ls_horizon_at_eoxact(void)
{
	withdraw_pin();
	executor_depth = 0;
	utility_depth = 0;
	modifying_queries = 0;
}

static bool
modifies(QueryDesc *query)
{
	return query->operation != CMD_SELECT || query->plannedstmt->hasModifyingCTE;
}

static void
executor_start(QueryDesc *query, int eflags)
{
	if (modifies(query))
	{
		modifying_queries++;
		withdraw_pin();
	}
	if (previous_start)
		previous_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

static void
executor_run(QueryDesc *query, ScanDirection direction, uint64 count)
{
	executor_depth++;
	PG_TRY();
	{
		if (previous_run)
			previous_run(query, direction, count);
		else
			standard_ExecutorRun(query, direction, count);
	}
	PG_FINALLY();
	{
		executor_depth = Max(executor_depth - 1, 0);
	}
	PG_END_TRY();
	if (executor_depth == 0)
		consider_pin();
}

static void
executor_end(QueryDesc *query)
{
	if (modifies(query) && modifying_queries > 0)
		modifying_queries--;
	if (previous_end)
		previous_end(query);
	else
		standard_ExecutorEnd(query);
}

void
ls_horizon_install_hooks(void)
{
	previous_start = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	previous_end = ExecutorEnd_hook;
	ExecutorEnd_hook = executor_end;
}

/* ---- publication, in the engine worker -------------------------------------- */

typedef struct HorizonInputs
{
	uint64		floor;
	uint64		now_xmax;
	uint64	   *running;		/* who runs now */
	uint32		n_running;
	ls_plain_snapshot *pins;
	PinSlot    *pin_copies;
	uint32		n_pins;
} HorizonInputs;

static int
compare_tn(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

/* Read the process array as GetSnapshotData would, and the pins with it. */
static void
read_process_array(HorizonInputs *p)
{
	LWLockAcquire(ProcArrayLock, LW_SHARED);
	p->now_xmax = ls_tn_from_xid(XidFromFullTransactionId(TransamVariables->latestCompletedXid)) + 1;
	p->floor = p->now_xmax;
	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[i];
		TransactionId xid = *((volatile TransactionId *) &proc->xid);

		if (TransactionIdIsNormal(xid))
			p->running[p->n_running++] = ls_tn_from_xid(xid);
	}

	/* Pins after xids: see the head of this file. */
	pg_memory_barrier();
	for (uint32 i = 0; i < ProcGlobal->allProcCount; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[i];
		TransactionId xmin = *((volatile TransactionId *) &proc->xmin);

		if (!TransactionIdIsNormal(xmin) || (proc->statusFlags & PROC_IN_VACUUM))
			continue;
		if (i < (uint32) pin_slot_count() && pg_atomic_read_u32(&pin_slots[i].exact) != 0)
		{
			PinSlot    *copy = &p->pin_copies[p->n_pins];

			pg_read_barrier();
			memcpy(copy, &pin_slots[i], sizeof(PinSlot));
			pg_read_barrier();
			if (pg_atomic_read_u32(&pin_slots[i].exact) != 0)
			{
				p->pins[p->n_pins++] = (ls_plain_snapshot)
				{
					copy->xmin, copy->xmax, copy->running, copy->n_running
				};
				continue;
			}
		}
		p->floor = Min(p->floor, ls_tn_from_xid(xmin));
	}
	LWLockRelease(ProcArrayLock);
}

void
ls_horizon_publish(void)
{
	static HorizonInputs p;
	static uint64 *active = NULL;
	static size_t capacity;
	uint64		horizon = ls_tn_from_xid(GetOldestNonRemovableTransactionId(NULL));
	TransactionId slot_xmin;
	TransactionId slot_catalog_xmin;
	size_t		n;

	if (active == NULL)
	{
		capacity = pin_slot_count() + 2 * max_prepared_xacts + 16;
		active = MemoryContextAlloc(TopMemoryContext, capacity * sizeof(uint64));
		p.running = MemoryContextAlloc(TopMemoryContext, (capacity + ProcGlobal->allProcCount) * sizeof(uint64));
		p.pins = MemoryContextAlloc(TopMemoryContext, ProcGlobal->allProcCount * sizeof(ls_plain_snapshot));
		p.pin_copies = MemoryContextAlloc(TopMemoryContext, ProcGlobal->allProcCount * sizeof(PinSlot));
	}
	p.n_running = 0;
	p.n_pins = 0;
	read_process_array(&p);

	ProcArrayGetReplicationSlotXmin(&slot_xmin, &slot_catalog_xmin);
	if (TransactionIdIsNormal(slot_xmin))
		p.floor = Min(p.floor, ls_tn_from_xid(slot_xmin));

	/*
	 * An aborting transaction has left the process array before its changes are
	 * undone; the engine's own list of active transactions has it.
	 */
	n = Min(ls_active_tns(ls_shared->store, active, capacity), capacity);
	for (size_t i = 0; i < n; i++)
	{
		horizon = Min(horizon, active[i]);
		p.running[p.n_running++] = active[i];
	}
	qsort(p.running, p.n_running, sizeof(uint64), compare_tn);

	{
		ls_plain_snapshot now = {
			.xmin = p.n_running > 0 ? Min(p.running[0], p.now_xmax) : p.now_xmax,
			.xmax = p.now_xmax,
			.running = p.running,
			.n_running = p.n_running
		};

		ls_store_publish_horizon(ls_shared->store, horizon, p.floor, &now, p.pins, p.n_pins);
	}
}
