/*
 * ls_serializable.c - range locks of SERIALIZABLE transactions.
 *
 * Strict two-phase locking over ranges of row ids and of index entries, on top of
 * snapshot isolation: a range is locked before it is read or written, and everything
 * is released when the effects are visible or undone.  What is read under a lock must be what
 * the transaction's snapshot sees, or the transaction fails: the engine looks
 * at the newest version of every row that it meets in a locked range.  Why this is
 * enough, and what READ ONLY transactions are spared: docs/serializable.md.
 *
 * The engine grants a lock or names the owner that is in the way; here the transaction waits for
 * that one's virtual transaction id, which is released after its ranges.  So the server's deadlock
 * detector, lock_timeout and pg_locks see the wait.  A cycle of such waits alone, of
 * which two transactions that read the same row to update it are the common case, is
 * found at once and not only after deadlock_timeout.
 *
 * The owner of a lock is the transaction: proc number and local transaction id, of the
 * leader in parallel workers.
 */
#include "postgres.h"

#include "ls_txn_internal.h"
#include "pg/ls_pg.h"
#include "relation/ls_relation.h"

#include "access/parallel.h"
#include "access/table.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/predicate.h"
#include "storage/proc.h"
#include "storage/procnumber.h"
#include "storage/shmem.h"
#include "utils/snapmgr.h"

/* What a transaction does; decided when it first comes here with its snapshot. */
typedef enum LockingMode
{
	LOCKING_UNDECIDED,
	LOCKING_ON,
	LOCKING_OFF					/* READ ONLY */
} LockingMode;

/* Shared, one for each backend. */
typedef struct Session
{
	pg_atomic_uint32 mode;		/* LockingMode, for parallel workers */
	pg_atomic_uint32 owner;		/* number of the transaction that has or had range locks, 0: none */

	/* Under wait_lock: the transaction that waits (0: none), and the one that it waits for. */
	uint32		waiting;
	ls_range_owner waits_for;
} Session;

typedef struct SessionArray
{
	LWLock		wait_lock;
	int			tranche;
	Session		sessions[FLEXIBLE_ARRAY_MEMBER];
} SessionArray;

static SessionArray *shared = NULL;

/* ---- of the present transaction */

/* What rows are locked entirely, of tables that were read last: saves calls. */
#define WHOLE_TABLES 8

static LockingMode mode = LOCKING_UNDECIDED;
/* what the top level was when its first subtransaction began */
static bool top_is_read_only = false;
static bool told_server = false;	/* predicate.c knows that this transaction writes */
static RelFileNumber whole_tables[WHOLE_TABLES];
static int	next_whole_table = 0;

/* Rows locked exclusively last: those drawn for insertion are locked together. */
static RelFileNumber own_rows_of = InvalidRelFileNumber;
static uint64 own_rows_lo;
static uint64 own_rows_hi;

/* The statement being run, innermost; and what it does with the table that was asked about last. */
static const PlannedStmt *running = NULL;
static Oid	asked_table = InvalidOid;
static ls_range_mode asked_mode;

ExecutorStart_hook_type ls_serializable_below_start = NULL;
ExecutorRun_hook_type ls_serializable_below_run = NULL;

/* ----------------------------------------------------------------
 * shared memory
 * ----------------------------------------------------------------
 */

static int
session_slots(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS;
}

Size
ls_serializable_shmem_size(void)
{
	return add_size(offsetof(SessionArray, sessions), mul_size(session_slots(), sizeof(Session)));
}

void
ls_serializable_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("leanstore_am serializable sessions", ls_serializable_shmem_size(),
							 &found);
	if (!found)
	{
		memset(shared, 0, ls_serializable_shmem_size());
		shared->tranche = LWLockNewTrancheId();
		LWLockInitialize(&shared->wait_lock, shared->tranche);
		for (int i = 0; i < session_slots(); i++)
		{
			pg_atomic_init_u32(&shared->sessions[i].mode, LOCKING_UNDECIDED);
			pg_atomic_init_u32(&shared->sessions[i].owner, 0);
		}
	}
	LWLockRegisterTranche(shared->tranche, "LeanstoreRangeWait");
}

/* The transaction that this process locks for. */
static ls_range_owner
this_owner(void)
{
	ProcNumber	leader = ParallelLeaderProcNumber == INVALID_PROC_NUMBER ? MyProcNumber
																		: ParallelLeaderProcNumber;

	return (ls_range_owner)
	{
		.slot = (uint32) leader, .number = ls_pg_process_lxid(leader)
	};
}

/* ----------------------------------------------------------------
 * which transactions lock
 * ----------------------------------------------------------------
 */

/*
 * A READ ONLY transaction needs no locks if it is so from its first snapshot to its
 * end, which only the top level can tell: it may not go back to READ WRITE once
 * there is a snapshot, while the end of a subtransaction restores what was before.
 */
static void
decide(void)
{
	Session    *own = &shared->sessions[MyProcNumber];
	bool		read_only;

	if (IsParallelWorker())
	{
		Session    *leader = &shared->sessions[ParallelLeaderProcNumber];

		mode = pg_atomic_read_u32(&leader->mode) == LOCKING_OFF ? LOCKING_OFF : LOCKING_ON;
		return;
	}
	read_only = GetCurrentTransactionNestLevel() == 1 ? XactReadOnly : top_is_read_only;
	mode = read_only && FirstSnapshotSet ? LOCKING_OFF : LOCKING_ON;
	pg_atomic_write_u32(&own->mode, mode);
}

bool
ls_locks_in(Relation rel)
{
	if (unlikely(mode == LOCKING_UNDECIDED))
		decide();
	if (mode == LOCKING_OFF)
		return false;

	/* no other session can come to a temporary relation, nor to a file made by this transaction */
	return !RelationUsesLocalBuffers(rel) &&
		rel->rd_createSubid == InvalidSubTransactionId &&
		rel->rd_firstRelfilelocatorSubid == InvalidSubTransactionId;
}

void
ls_serializable_start_sub(void)
{
	if (GetCurrentTransactionNestLevel() == 2)
		top_is_read_only = XactReadOnly;
}

/* ----------------------------------------------------------------
 * waiting
 * ----------------------------------------------------------------
 */

static void
end_wait(void)
{
	/* no other process writes it */
	if (shared->sessions[MyProcNumber].waiting == 0)
		return;
	LWLockAcquire(&shared->wait_lock, LW_EXCLUSIVE);
	shared->sessions[MyProcNumber].waiting = 0;
	LWLockRelease(&shared->wait_lock);
}

/*
 * Say that this transaction waits for the holder.  False: that one waits for this one
 * already, perhaps through others.  Each waits for one at a time, so there is one path to
 * follow.
 */
static bool
begin_wait(ls_range_owner self, ls_range_owner holder)
{
	Session    *own = &shared->sessions[MyProcNumber];
	ls_range_owner next = holder;

	LWLockAcquire(&shared->wait_lock, LW_EXCLUSIVE);
	for (int steps = 0; steps < session_slots(); steps++)
	{
		Session    *session = &shared->sessions[next.slot];

		if (session->waiting != next.number)
			break;
		next = session->waits_for;
		if (next.slot == self.slot && next.number == self.number)
		{
			LWLockRelease(&shared->wait_lock);
			return false;
		}
	}
	own->waiting = self.number;
	own->waits_for = holder;
	LWLockRelease(&shared->wait_lock);
	return true;
}

pg_noreturn static void
raise_deadlock(Relation rel, ls_range_owner holder)
{
	int			pid = ls_pg_process_pid(holder.slot);

	ereport(
		ERROR,
		(errcode(ERRCODE_T_R_DEADLOCK_DETECTED), errmsg("deadlock detected"),
		 errdetail(
			 "A key range of relation \"%s\" is locked by a transaction that waits for this one.",
			 RelationGetRelationName(rel)),
		 errdetail_log(
			 "A key range of relation \"%s\" is locked by process %d, which waits for process %d.",
			 RelationGetRelationName(rel), pid, MyProcPid),
		 errhint("The transaction might succeed if retried.")));
}

/* Wait until the owner in the way has ended. */
static void
wait_for(Relation rel, ls_range_owner self, ls_range_owner holder)
{
	VirtualTransactionId vxid = {
		.procNumber = (ProcNumber) holder.slot,
		.localTransactionId = holder.number
	};

	PG_TRY();
	{
		/* workers of one leader may wait for several: theirs are left to the deadlock detector */
		if (!IsParallelWorker() && !begin_wait(self, holder))
			raise_deadlock(rel, holder);
		(void) VirtualXactLock(vxid, true);
	}
	PG_CATCH();
	{
		end_wait();
		ls_range_withdraw(ls_reader());
		PG_RE_THROW();
	}
	PG_END_TRY();
	end_wait();
}

/* ----------------------------------------------------------------
 * locking
 * ----------------------------------------------------------------
 */

static void
lock_range(Relation rel, ls_bytes from, ls_bytes to, ls_range_mode range_mode)
{
	ls_range_owner self = this_owner();
	Session    *session = &shared->sessions[self.slot];
	ls_rel_key	tree;

	(void) ls_open(rel);
	tree = ls_relation_cache(rel)->key;
	if (pg_atomic_read_u32(&session->owner) != self.number)
		pg_atomic_write_u32(&session->owner, self.number);

	for (;;)
	{
		ls_range_owner holder;
		ls_error	error;
		ls_status	status;

		LS_CALL(status,
				ls_range_lock(ls_reader(), &tree, from, to, range_mode, self, &holder, &error));
		if (likely(status == LS_OK))
			return;
		if (status == LS_RANGE_MEMORY)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory for range locks"),
					 errhint("Increase \"leanstore.range_lock_memory\" and restart the server, "
							 "or run fewer or smaller SERIALIZABLE transactions at a time.")));
		if (status != LS_LOCKED)
			ls_raise(&error, rel);
		wait_for(rel, self, holder);
	}
}

static bool
is_whole(Relation table)
{
	for (int i = 0; i < WHOLE_TABLES; i++)
		if (whole_tables[i] == table->rd_locator.relNumber)
			return true;
	return false;
}

/* The server's own check has to know that the transaction is not a reader only. */
static void
tell_server(Relation table)
{
	if (!told_server)
		CheckForSerializableConflictIn(table, NULL, InvalidBlockNumber);
	told_server = true;
}

/* The upper bound behind all has no bytes. */
static ls_bytes
row_bound(uint64 row_id, uint8 *space)
{
	if (row_id >= LS_ROWS_END)
		return (ls_bytes) {NULL, 0};
	for (int i = 0; i < 5; i++)
		space[i] = (uint8) (row_id >> (8 * (4 - i)));
	return (ls_bytes) {space, 5};
}

void
ls_lock_rows(Relation table, uint64 lo, uint64 hi, ls_range_mode range_mode)
{
	uint8		from[5];
	uint8		to[5];

	if (own_rows_of == table->rd_locator.relNumber && own_rows_lo <= lo && hi <= own_rows_hi)
		return;
	if (range_mode == LS_RANGE_SHARED && is_whole(table))
		return;

	if (range_mode == LS_RANGE_EXCLUSIVE)
		tell_server(table);
	lock_range(table, row_bound(lo, from), row_bound(hi, to), range_mode);

	if (range_mode == LS_RANGE_EXCLUSIVE)
	{
		own_rows_of = table->rd_locator.relNumber;
		own_rows_lo = lo;
		own_rows_hi = hi;
	}
	else if (lo == 0 && hi == LS_ROWS_END)
	{
		whole_tables[next_whole_table] = table->rd_locator.relNumber;
		next_whole_table = (next_whole_table + 1) % WHOLE_TABLES;
	}
}

/*
 * Does the statement change or lock the rows of the table that it finds, waiting for them?  Not
 * what it inserts, nor what it may skip: a statement that waits for ranges does not skip.
 */
static bool
is_for_change(const PlannedStmt *statement, Oid table)
{
	ListCell   *cell;

	if (statement->commandType != CMD_INSERT)
		foreach(cell, statement->resultRelations)
			if (rt_fetch(lfirst_int(cell), statement->rtable)->relid == table)
				return true;
	foreach(cell, statement->rowMarks)
	{
		PlanRowMark *mark = lfirst_node(PlanRowMark, cell);

		if ((mark->markType == ROW_MARK_EXCLUSIVE || mark->markType == ROW_MARK_NOKEYEXCLUSIVE) &&
			mark->waitPolicy == LockWaitBlock &&
			rt_fetch(mark->rti, statement->rtable)->relid == table)
			return true;
	}
	return false;
}

ls_range_mode
ls_read_mode(Relation table)
{
	if (running == NULL)
		return LS_RANGE_SHARED;
	if (asked_table != RelationGetRelid(table))
	{
		asked_table = RelationGetRelid(table);
		asked_mode = is_for_change(running, asked_table) ? LS_RANGE_EXCLUSIVE : LS_RANGE_SHARED;
	}
	return asked_mode;
}

void
ls_lock_entries(Relation index, ls_bytes from, ls_bytes to, ls_range_mode range_mode)
{
	lock_range(index, from, to, range_mode);
}

/*
 * The transaction's snapshot even where PostgreSQL takes a newer one (foreign key
 * actions): what is newer than the transaction's is a failure, not to be read.
 */
const ls_snapshot *
ls_locked_snapshot(Snapshot snapshot)
{
	static ls_snapshot converted;

	converted = *ls_snapshot_convert(GetTransactionSnapshot());
	converted.curcid = snapshot->curcid;
	converted.newest_only = true;
	return &converted;
}

void
ls_raise_newer(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update"),
			 errdetail("A row of table \"%s\" has changed since the transaction began.",
					   RelationGetRelationName(rel)),
			 errhint("The transaction might succeed if retried.")));
}

/* ----------------------------------------------------------------
 * end of transaction
 * ----------------------------------------------------------------
 */

void
ls_serializable_before_prepare(void)
{
	if (pg_atomic_read_u32(&shared->sessions[MyProcNumber].owner) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a SERIALIZABLE transaction that has used leanstore tables"),
				 errhint("Use REPEATABLE READ, or COMMIT.")));
}

void
ls_serializable_at_eoxact(void)
{
	Session    *own;
	ls_range_owner self;

	if (likely(mode == LOCKING_UNDECIDED))
		return;
	own = &shared->sessions[MyProcNumber];

	/* workers may have locked for this transaction when its leader did not */
	self = (ls_range_owner)
	{
		.slot = (uint32) MyProcNumber, .number = pg_atomic_read_u32(&own->owner)
	};
	if (self.number != 0)
	{
		end_wait();
		ls_range_withdraw(ls_reader());
		ls_range_unlock_all(ls_reader(), self);
		pg_atomic_write_u32(&own->owner, 0);
	}
	pg_atomic_write_u32(&own->mode, LOCKING_UNDECIDED);
	mode = LOCKING_UNDECIDED;
	told_server = false;
	own_rows_of = InvalidRelFileNumber;
	memset(whole_tables, 0, sizeof(whole_tables));
}

/* A parallel worker ends; what it has locked is its leader's. */
void
ls_serializable_at_worker_abort(void)
{
	if (mode == LOCKING_ON && ls_attached_worker != NULL)
		ls_range_withdraw(ls_reader());
}

/* ----------------------------------------------------------------
 * scans of the server's own indexes
 * ----------------------------------------------------------------
 */

/*
 * Such an index says nothing of the gaps that it has looked at: its scans lock
 * the table, before they begin, for one that finds no row would never come to us.
 */
static bool
lock_tables_of_other_indexes(PlanState *node, void *context)
{
	Relation	index = NULL;

	if (IsA(node, IndexScanState))
		index = ((IndexScanState *) node)->iss_RelationDesc;
	else if (IsA(node, IndexOnlyScanState))
		index = ((IndexOnlyScanState *) node)->ioss_RelationDesc;
	else if (IsA(node, BitmapIndexScanState))
		index = ((BitmapIndexScanState *) node)->biss_RelationDesc;

	if (index != NULL && !ls_is_index(index))
	{
		Relation	table = table_open(index->rd_index->indrelid, NoLock);

		if (ls_is_table(table) && ls_locks(table))
			ls_lock_table(table);
		table_close(table, NoLock);
	}
	return planstate_tree_walker(node, lock_tables_of_other_indexes, context);
}

void
ls_serializable_executor_start(QueryDesc *query, int eflags)
{
	if (ls_serializable_below_start)
		ls_serializable_below_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);

	if (unlikely(XactIsoLevel == XACT_SERIALIZABLE) && (eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0 &&
		!IsParallelWorker())
	{
		/* before workers are started for the query: they ask what was decided */
		if (mode == LOCKING_UNDECIDED && FirstSnapshotSet)
			decide();
		if (mode == LOCKING_ON)
			(void) lock_tables_of_other_indexes(query->planstate, NULL);
	}
}

void
ls_serializable_executor_run(QueryDesc *query, ScanDirection direction, uint64 count)
{
	ExecutorRun_hook_type run = ls_serializable_below_run ? ls_serializable_below_run :
		standard_ExecutorRun;
	const PlannedStmt *outer = running;

	if (likely(XactIsoLevel != XACT_SERIALIZABLE))
	{
		run(query, direction, count);
		return;
	}
	running = query->plannedstmt;
	asked_table = InvalidOid;
	PG_TRY();
	{
		run(query, direction, count);
	}
	PG_FINALLY();
	{
		running = outer;
		asked_table = InvalidOid;
	}
	PG_END_TRY();
}
