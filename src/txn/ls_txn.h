/*
 * ls_txn.h - transactions of the server as the engine's: what a transaction sees, writes, waits for
 * and locks, and how it ends.
 *
 * Of a hook there is the function, and a place named `below` for what it calls: server/ls_hooks.c.
 */
#ifndef LS_TXN_H
#define LS_TXN_H

#include "session/ls_session.h"

#include "access/xact.h"
#include "executor/executor.h"
#include "nodes/nodes.h"
#include "storage/itemptr.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"

/* ---- ls_xact.c */
extern void ls_xact_install_callbacks(void);

/* ls_reader() with the current transaction begun on the engine (assigns an XID). */
extern ls_worker *ls_writer(void);

/* Everything that was logged by the engine so far becomes durable. */
extern void ls_harden_all(void);

/*
 * leanstore.log = wal: all that was logged by the engine so far gets into WAL, before what this
 * session writes to it next.
 */
extern void ls_write_out_all(void);

/*
 * leanstore.log = wal: what this session has logged gets into WAL, for a transaction without
 * changes of rows.
 */
extern void ls_write_out_logged(void);

/* ---- ls_snapshot.c */

/*
 * The engine's view of a snapshot.  The result points into backend-local memory
 * that stays valid until the next call, except `running`, which stays valid
 * as long as the same snapshot is converted again or 16 others have been; scans copy it.
 */
extern const ls_snapshot *ls_snapshot_convert(Snapshot snapshot);

/* The TN domain's value of an XID near the present. */
extern uint64 ls_tn_from_xid(TransactionId xid);

/* ---- ls_horizon.c: which versions are still needed */
extern void ls_horizon_publish(void);	/* engine worker */
extern void ls_horizon_publish_standby(void);	/* the same, in recovery */

/* ---- ls_snapshot_standby.c */
extern Size ls_first_snapshot_shmem_size(void);
extern void ls_first_snapshot_shmem_init(void);

/* Engine worker, in recovery: the engine follows, and sessions are let in. */
extern void ls_first_snapshot_take(void);

/* Startup process, at the end of replay: if none was taken by now, none is. */
extern void ls_first_snapshot_end(void);

/* ---- ls_wait.c: waiting for transactions */

/*
 * Wait until the transaction behind tn has ended (deadlock detection,
 * lock_timeout and cancel work as for heap rows).  rel/tid/oper for the error context.
 */
extern void ls_wait_for_tn(uint64 tn, uint32 seq, Relation rel, ItemPointer tid, XLTW_Oper oper);

/*
 * The XID to wait for when change `seq` of the running transaction tn is in the way: a
 * subtransaction's, if it is one.
 */
extern TransactionId ls_xid_of_change(uint64 tn, uint32 seq);

/* The XID that has made it. */
extern TransactionId ls_writer_of_change(uint64 tn, uint32 seq);

/* Is the change known no more?  Its savepoint was rolled back, or its transaction has ended. */
extern bool ls_change_has_gone(uint64 tn, uint32 seq);

/* ---- ls_shown.c: statements do not complete before what they were shown is durable */
extern int	ls_shown_enter(void);	/* a utility statement; what ls_shown_leave() is to be given */
extern void ls_shown_leave(int outer);
extern void ls_shown_put_back(int outer);	/* instead, without a wait */
extern void ls_shown_executor_run(QueryDesc *query, ScanDirection direction, uint64 count);
extern ExecutorRun_hook_type ls_shown_below_run;

/* ---- ls_twophase.c: prepared transactions */

/*
 * If tn is a prepared transaction that the server has ended: end it in the engine, too, and say so.
 */
extern bool ls_twophase_settle(uint64 tn);

/*
 * All of them, before a file is worked on as a whole: a prepared transaction may have held the
 * lock on it until now.
 */
extern void ls_twophase_settle_all(void);

/* The same in the engine worker. */
extern void ls_twophase_sweep(void);

/* Before COMMIT PREPARED or ROLLBACK PREPARED: waits for recovery. */
extern void ls_twophase_before_end(void);

/* ---- ls_commit_note.c: pg_xact after a crash */
extern void ls_commits_begin(void); /* engine worker, before it lets backends in */
extern void ls_host_sync_point_advance(void); /* engine worker */
extern void ls_commits_replay(void);	/* startup process, at the end of replay */

/* ---- ls_pin.c: snapshots that backends have for long, told to the engine exactly */

/*
 * What snapshots a backend may have or take, in order: one that allows more goes before one that
 * allows less.
 */
typedef enum LsSnapshotUse
{
	LS_BETWEEN_COMMANDS,
	LS_READING,
	LS_CHANGING,
	LS_ANY_SNAPSHOTS
} LsSnapshotUse;

extern Size ls_pin_shmem_size(void);
extern void ls_pin_shmem_init(void);
extern void ls_pin_executor_run(QueryDesc *query, ScanDirection direction, uint64 count);
extern ExecutorRun_hook_type ls_pin_below_run;
extern void ls_pin_executor_finish(QueryDesc *query);
extern ExecutorFinish_hook_type ls_pin_below_finish;

/* Call before taking a snapshot by other means than a query's. */
extern void ls_pin_withdraw(void);

/* Around every utility command; the result goes into the second call. */
extern LsSnapshotUse ls_pin_enter_utility(Node *statement);
extern void ls_pin_leave_utility(LsSnapshotUse found, Node *statement, bool succeeded);

/*
 * ---- ls_serializable.c: SERIALIZABLE on leanstore tables (docs/serializable.md)
 *
 * A transaction locks the ranges of row ids and index entries that it reads
 * (shared) and writes (exclusive), keeps them to its end, and fails when one holds
 * something newer than its snapshot.
 */
extern Size ls_serializable_shmem_size(void);
extern void ls_serializable_shmem_init(void);
extern void ls_serializable_executor_start(QueryDesc *query, int eflags);
extern ExecutorStart_hook_type ls_serializable_below_start;
extern void ls_serializable_executor_run(QueryDesc *query, ScanDirection direction, uint64 count);
extern ExecutorRun_hook_type ls_serializable_below_run;

/* Behind every row id, as the upper bound of a range. */
#define LS_ROWS_END ((uint64) LS_MAX_ROW_ID + 1)

extern bool ls_locks_in(Relation rel);

/*
 * Does this transaction lock what it reads and writes in the relation, a table or an
 * index?  Only at SERIALIZABLE, and not for READ ONLY transactions.
 */
static inline bool
ls_locks(Relation rel)
{
	return unlikely(XactIsoLevel == XACT_SERIALIZABLE) && ls_locks_in(rel);
}

/* ... when it reads with this snapshot. */
static inline bool
ls_locks_reads(Relation rel, Snapshot snapshot)
{
	return unlikely(XactIsoLevel == XACT_SERIALIZABLE) && snapshot != NULL &&
		   IsMVCCSnapshot(snapshot) && ls_locks_in(rel);
}

/* Rows lo <= row id < hi. */
extern void ls_lock_rows(Relation table, uint64 lo, uint64 hi, ls_range_mode mode);

static inline void
ls_lock_row(Relation table, uint64 row_id, ls_range_mode mode)
{
	ls_lock_rows(table, row_id, row_id + 1, mode);
}

/*
 * How to lock a row of the table that the running statement has found: exclusively
 * if it is to be changed or locked for that.  Two that read the same row first and
 * then change it would wait for each other.
 */
extern ls_range_mode ls_read_mode(Relation table);

/* All of them: what a sequential scan reads, or a scan of an index that locks no ranges itself. */
static inline void
ls_lock_table(Relation table)
{
	ls_lock_rows(table, 0, LS_ROWS_END, LS_RANGE_SHARED);
}

/* Entries from <= key | row id < to. */
extern void ls_lock_entries(Relation index, ls_bytes from, ls_bytes to, ls_range_mode mode);

/*
 * The transaction's snapshot, at the command of the given one, for reading what is
 * locked: the engine answers LS_UPDATED where it meets something newer.  In static memory.
 */
extern const ls_snapshot *ls_locked_snapshot(Snapshot snapshot);

/* LS_UPDATED came back. */
pg_noreturn extern void ls_raise_newer(Relation rel);

/* ---- ls_serializable_mixed.c: together with tables that the server tracks itself */
extern Size ls_mixed_shmem_size(void);
extern void ls_mixed_shmem_init(void);

#endif							/* LS_TXN_H */
