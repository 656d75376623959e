/*
 * ls_horizon.c - tells the engine which row versions some snapshot may still need.
 *
 * The engine worker publishes, every few milliseconds (engine/version/horizon.hpp):
 *	horizon	 below it every superseded version is garbage (what heap's VACUUM would use)
 *	now		 a snapshot of the process array: which transactions have ended
 *	floor	 the oldest xmin among backends with snapshots that are not known exactly
 *	pins	 snapshots known exactly
 *
 * One long-lived REPEATABLE READ transaction would hold the floor down, and every
 * version written meanwhile would have to be kept: so its backend pins its snapshot (ls_pin.c).
 */
#include "postgres.h"

#include "ls_txn_internal.h"
#include "pg/ls_pg.h"

#include "access/transam.h"
#include "lib/qunique.h"
#include "storage/procarray.h"
#include "utils/memutils.h"

typedef struct HorizonInputs
{
	uint64		floor;
	uint64		now_xmax;
	uint64	   *running;		/* the transactions that run now */
	uint32		n_running;
	ls_plain_snapshot *pins;
	uint64	   *pin_running;	/* of all pins, one behind the other */
	uint32		n_pins;
} HorizonInputs;

/* Read the process array as GetSnapshotData would, and the pins with it. */
static void
read_process_array(HorizonInputs *p)
{
	const uint32 n = ls_pg_process_count();

	p->now_xmax = ls_tn_from_xid(ls_pg_lock_processes()) + 1;
	p->floor = p->now_xmax;
	for (uint32 i = 0; i < n; i++)
	{
		TransactionId xid = ls_pg_process_xid(i);

		if (TransactionIdIsNormal(xid))
			p->running[p->n_running++] = ls_tn_from_xid(xid);
	}

	/* Pins after xids: see the head of ls_pin.c. */
	pg_memory_barrier();
	for (uint32 i = 0; i < n; i++)
	{
		TransactionId xmin = ls_pg_process_xmin(i);
		LsPin		pin;

		if (!TransactionIdIsNormal(xmin))
			continue;
		pin.running = p->pin_running + (Size) p->n_pins * ls_max_running();
		if (i < ls_pin_slots() && ls_pin_read(i, &pin))
			p->pins[p->n_pins++] = pin.snapshot;
		else
			p->floor = Min(p->floor, ls_tn_from_xid(xmin));
	}
	ls_pg_unlock_processes();
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
		Size		pins = (Size) ls_pin_slots() * ls_max_running();

		capacity = ls_max_running();
		active = MemoryContextAlloc(TopMemoryContext, capacity * sizeof(uint64));
		p.running = MemoryContextAlloc(TopMemoryContext,
									   (capacity + ls_pg_process_count()) * sizeof(uint64));
		p.pins = MemoryContextAlloc(TopMemoryContext, ls_pin_slots() * sizeof(ls_plain_snapshot));
		p.pin_running = MemoryContextAllocHuge(TopMemoryContext, pins * sizeof(uint64));
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
	qsort(p.running, p.n_running, sizeof(uint64), ls_compare_tn);
	p.n_running = qunique(p.running, p.n_running, sizeof(uint64), ls_compare_tn);
	/* what has begun since runs for any snapshot */
	while (p.n_running > 0 && p.running[p.n_running - 1] >= p.now_xmax)
		p.n_running--;

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

/*
 * On a standby: what the primary's transactions have ended says WAL, so all that is not below the
 * horizon counts as running.
 */
void
ls_horizon_publish_standby(void)
{
	static uint64 *active = NULL;
	uint64		horizon = ls_tn_from_xid(GetOldestNonRemovableTransactionId(NULL));
	ls_plain_snapshot now = {0};
	size_t		n;

	if (active == NULL)
		active = MemoryContextAlloc(TopMemoryContext, ls_max_running() * sizeof(uint64));
	n = Min(ls_active_tns(ls_shared->store, active, ls_max_running()), ls_max_running());
	for (size_t i = 0; i < n; i++)
		horizon = Min(horizon, active[i]);
	now.xmin = now.xmax = horizon;
	ls_store_publish_horizon(ls_shared->store, horizon, horizon, &now, NULL, 0);
}
