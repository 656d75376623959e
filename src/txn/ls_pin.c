/*
 * ls_pin.c - the snapshot that this backend has for long, told to the engine exactly.
 *
 * A REPEATABLE READ transaction has one snapshot for all its statements.  As long as its
 * backend holds no other and can take none, it pins just that one in shared memory, and
 * the engine keeps the versions that this snapshot sees and nothing else (ls_horizon.c).
 *
 * New snapshots in such a transaction come from GetLatestSnapshot(): called by the
 * triggers of referential integrity, by utility commands, and by the apply worker of a
 * subscription.  Deferred triggers run in COMMIT and PREPARE TRANSACTION, and where there is no
 * transaction block COMMIT comes behind any statement, without a command of its own.
 * So the backend is in one of these states (LsSnapshotUse), and each hook puts the one
 * that it has found back when it is left, by an error, too:
 *
 *	state				 from						 the pin
 *	any snapshots		 start of a transaction		 none; stays so until BEGIN is done
 *	any snapshots		 COMMIT, PREPARE, ROLLBACK	 withdrawn, for the rest of the transaction
 *	between commands	 end of a command			 made here
 *	reading				 a plain query, COPY TO		 stays
 *	changing			 all else					 withdrawn
 *
 * What this file does not know of is met by ls_pin_check(): a snapshot that is converted
 * while another one is pinned was not counted.  It is used only if a snapshot taken now,
 * without the pin, would be the same.
 *
 * Withdrawing races with a publication that has just read the pin as exact: a snapshot
 * taken after the withdrawal sees everything that had ended when that publication
 * read the process array, and only such versions are dropped by it.
 */
#include "postgres.h"

#include "ls_txn_internal.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/snapmgr.h"

/* One per backend; written by it, read by the engine worker. */
typedef struct PinSlot
{
	pg_atomic_uint64 version;	/* odd: exact.  Another one with each change. */
	uint64		xmin;
	uint64		xmax;
	uint32		n_running;
	uint32		behind[FLEXIBLE_ARRAY_MEMBER];	/* xmax - each that was running */
} PinSlot;

static char *pin_slots = NULL;

/* backend state */
static LsSnapshotUse use = LS_ANY_SNAPSHOTS;
static bool chained = false;	/* the end of the transaction begins another block: AND CHAIN */

/* what is pinned, as PostgreSQL knows it: valid while the pin is exact */
static TransactionId pinned_xmin;
static TransactionId pinned_xmax;
static uint32 pinned_xcnt;
static TransactionId *pinned_xip = NULL;

ExecutorRun_hook_type ls_pin_below_run = NULL;
ExecutorFinish_hook_type ls_pin_below_finish = NULL;

uint32
ls_pin_slots(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

static Size
slot_bytes(void)
{
	return MAXALIGN(offsetof(PinSlot, behind) + mul_size(ls_max_running(), sizeof(uint32)));
}

static PinSlot *
pin_slot(uint32 proc)
{
	return (PinSlot *) (pin_slots + proc * slot_bytes());
}

Size
ls_pin_shmem_size(void)
{
	return mul_size(ls_pin_slots(), slot_bytes());
}

void
ls_pin_shmem_init(void)
{
	bool		found;

	pin_slots = ShmemInitStruct("leanstore_am pinned snapshots", ls_pin_shmem_size(), &found);
	if (!found)
		for (uint32 i = 0; i < ls_pin_slots(); i++)
			pg_atomic_init_u64(&pin_slot(i)->version, 0);
}

/* ---- the pin ---------------------------------------------------------------- */

static bool
is_pinned(void)
{
	return pin_slots != NULL && MyProc != NULL &&
		(pg_atomic_read_u64(&pin_slot(MyProcNumber)->version) & 1) != 0;
}

void
ls_pin_withdraw(void)
{
	/* A full barrier: before any snapshot that comes now. */
	if (is_pinned())
		pg_atomic_fetch_add_u64(&pin_slot(MyProcNumber)->version, 1);
}

/* As opposed to the block that several statements in one message, or a pipeline, make. */
static bool
in_explicit_block(void)
{
	bool		is_explicit;

	if (!IsTransactionBlock())
		return false;
	EndImplicitTransactionBlock();
	is_explicit = IsTransactionBlock();
	if (!is_explicit)
		BeginImplicitTransactionBlock();
	return is_explicit;
}

static bool
same_xids(const TransactionId *a, const TransactionId *b, uint32 n)
{
	return n == 0 || memcmp(a, b, n * sizeof(TransactionId)) == 0;
}

static void
remember_source(Snapshot snapshot)
{
	if (pinned_xip == NULL)
		pinned_xip = MemoryContextAlloc(TopMemoryContext,
										GetMaxSnapshotXidCount() * sizeof(TransactionId));
	pinned_xmin = snapshot->xmin;
	pinned_xmax = snapshot->xmax;
	pinned_xcnt = snapshot->xcnt;
	memcpy(pinned_xip, snapshot->xip, snapshot->xcnt * sizeof(TransactionId));
}

/*
 * Pin the transaction's only snapshot, if it is a REPEATABLE READ transaction that has used the
 * engine.
 */
static void
consider_pin(void)
{
	PinSlot    *slot;
	Snapshot	snapshot;
	const ls_snapshot *converted;

	if (use != LS_BETWEEN_COMMANDS || !IsolationUsesXactSnapshot() || !FirstSnapshotSet ||
		ls_attached_worker == NULL || IsParallelWorker() || is_pinned() ||
		TransactionStartedDuringRecovery() ||
		MyProc->xmin == InvalidTransactionId || !in_explicit_block())
		return;

	snapshot = GetTransactionSnapshot();
	converted = ls_snapshot_convert(snapshot);
	if (converted->kind != LS_SNAPSHOT_MVCC || converted->n_running > ls_max_running() ||
		snapshot->xcnt > GetMaxSnapshotXidCount() ||
		converted->xmax - converted->xmin > PG_UINT32_MAX)
		return;
	remember_source(snapshot);
	slot = pin_slot(MyProcNumber);
	slot->xmin = converted->xmin;
	slot->xmax = converted->xmax;
	slot->n_running = converted->n_running;
	for (uint32 i = 0; i < converted->n_running; i++)
		slot->behind[i] = (uint32) (converted->xmax - converted->running[i]);
	pg_write_barrier();
	pg_atomic_write_u64(&slot->version, pg_atomic_read_u64(&slot->version) + 1);
}

/* Would a snapshot taken now see the same? */
static bool
is_latest(Snapshot snapshot)
{
	static SnapshotData now = {SNAPSHOT_MVCC};

	GetSnapshotData(&now);
	return now.xmax == snapshot->xmax && now.xcnt == snapshot->xcnt &&
		same_xids(now.xip, snapshot->xip, now.xcnt);
}

void
ls_pin_check(Snapshot snapshot)
{
	if (likely(!is_pinned()) ||
		(snapshot->xmin == pinned_xmin && snapshot->xmax == pinned_xmax &&
		 snapshot->xcnt == pinned_xcnt &&
		 same_xids(snapshot->xip, pinned_xip, pinned_xcnt)))
		return;
	ls_pin_withdraw();
#ifdef USE_ASSERT_CHECKING
	elog(WARNING, "a snapshot is used that is not the pinned one");
#endif
	if (!is_latest(snapshot))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not serialize access: row versions needed by a snapshot "
						"may have gone"),
				 errdetail("The transaction had told of another snapshot only."),
				 errhint("The transaction might succeed if retried.")));
}

bool
ls_pin_read(uint32 proc, LsPin *pin)
{
	PinSlot    *slot = pin_slot(proc);
	uint64		version = pg_atomic_read_u64(&slot->version);
	uint32		n;

	if ((version & 1) == 0)
		return false;
	pg_read_barrier();
	n = Min(slot->n_running, ls_max_running());
	pin->snapshot = (ls_plain_snapshot)
	{
		slot->xmin, slot->xmax, pin->running, n
	};
	for (uint32 i = 0; i < n; i++)
		pin->running[i] = slot->xmax - slot->behind[i];
	pg_read_barrier();
	return pg_atomic_read_u64(&slot->version) == version;
}

/* ---- the backend's state ---------------------------------------------------- */

static LsSnapshotUse
enter(LsSnapshotUse wanted)
{
	LsSnapshotUse found = use;

	use = Max(use, wanted);
	if (use >= LS_CHANGING)
		ls_pin_withdraw();
	return found;
}

static bool
ends_transaction(Node *statement, bool *and_chain)
{
	TransactionStmt *stmt = (TransactionStmt *) statement;

	*and_chain = false;
	if (!IsA(statement, TransactionStmt))
		return false;
	*and_chain = stmt->chain;
	return stmt->kind == TRANS_STMT_COMMIT || stmt->kind == TRANS_STMT_ROLLBACK ||
		stmt->kind == TRANS_STMT_PREPARE;
}

static bool
begins_transaction(Node *statement)
{
	return IsA(statement, TransactionStmt) &&
		(((TransactionStmt *) statement)->kind == TRANS_STMT_BEGIN ||
		 ((TransactionStmt *) statement)->kind == TRANS_STMT_START);
}

/* Commands that use the transaction's snapshot as a query does; what they call tells for itself. */
static bool
is_reading(Node *statement)
{
	return IsA(statement, FetchStmt) ||
		(IsA(statement, CopyStmt) && !((CopyStmt *) statement)->is_from);
}

LsSnapshotUse
ls_pin_enter_utility(Node *statement)
{
	bool		and_chain;

	if (!ends_transaction(statement, &and_chain))
		return enter(is_reading(statement) ? LS_READING : LS_CHANGING);
	/* COMMIT does its work, deferred triggers included, after the command: the state stays. */
	(void) enter(LS_ANY_SNAPSHOTS);
	/* a transaction that has failed as a whole has ended, and told us, before */
	chained = and_chain && LocalTransactionIdIsValid(MyProc->vxid.lxid);
	return and_chain && !chained ? LS_BETWEEN_COMMANDS : LS_ANY_SNAPSHOTS;
}

void
ls_pin_leave_utility(LsSnapshotUse found, Node *statement, bool succeeded)
{
	use = succeeded && begins_transaction(statement) ? LS_BETWEEN_COMMANDS : found;
	if (succeeded)
		consider_pin();
}

void
ls_pin_at_eoxact(void)
{
	ls_pin_withdraw();
	use = chained ? LS_BETWEEN_COMMANDS : LS_ANY_SNAPSHOTS;
	chained = false;
}

static bool
modifies(QueryDesc *query)
{
	return query->operation != CMD_SELECT || query->plannedstmt->hasModifyingCTE;
}

void
ls_pin_executor_run(QueryDesc *query, ScanDirection direction, uint64 count)
{
	LsSnapshotUse found = enter(modifies(query) ? LS_CHANGING : LS_READING);

	PG_TRY();
	{
		if (ls_pin_below_run)
			ls_pin_below_run(query, direction, count);
		else
			standard_ExecutorRun(query, direction, count);
	}
	PG_FINALLY();
	{
		use = found;
	}
	PG_END_TRY();
	/* what has changed data has its triggers before it */
	if (!modifies(query))
		consider_pin();
}

/* Here a query's AFTER triggers run. */
void
ls_pin_executor_finish(QueryDesc *query)
{
	LsSnapshotUse found = enter(modifies(query) ? LS_CHANGING : LS_READING);

	PG_TRY();
	{
		if (ls_pin_below_finish)
			ls_pin_below_finish(query);
		else
			standard_ExecutorFinish(query);
	}
	PG_FINALLY();
	{
		use = found;
	}
	PG_END_TRY();
	consider_pin();
}
