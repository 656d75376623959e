/*
 * ls.h - what the PostgreSQL side of leanstore_am shares between its files.
 *
 * Rules: an engine call (ls_* of leanstore/engine.h) returns a status and never
 * throws; ls_check() turns a failure into an ereport.  CHECK_FOR_INTERRUPTS only
 * between engine calls.  No palloc'd memory is owned by the engine, no engine
 * memory by palloc: scans are released through ls_resowner.c.
 */
#ifndef LS_H
#define LS_H

#include "postgres.h"

#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "nodes/lockoptions.h"
#include "storage/itemptr.h"
#include "storage/lmgr.h"
#include "storage/relfilelocator.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapshot.h"

#include "leanstore/engine.h"

/* ---- ls_guc.c: settings (units as shown to the user) */
extern int	ls_buffer_pool_size_mb;
extern int	ls_packed_pages_percent;
extern int	ls_page_providers;
extern int	ls_log_buffer_size_kb;
extern int	ls_wal_segment_size_mb;
extern int	ls_max_wal_size_mb;
extern int	ls_checkpoint_timeout_s;
extern int	ls_max_open_relations;
extern int	ls_version_trees;
extern int	ls_range_lock_memory_kb;
extern bool ls_direct_io;

typedef enum LsDefaultIndex
{
	LS_DEFAULT_INDEX_LEANSTORE,
	LS_DEFAULT_INDEX_BTREE
} LsDefaultIndex;

extern int	ls_default_index;	/* LsDefaultIndex */
extern bool ls_replace_btree;
extern bool ls_show_indexes_as_btree;
extern bool ls_count_remote_waits;
extern int	ls_sequence_log_values;
extern void ls_define_settings(void);

/* ---- ls_shmem.c: the arena in shared memory */
typedef struct LsShared
{
	/*
	 * No transaction id at or above it was in use before this start of the
	 * server; see ls_rmgr.c.
	 */
	pg_atomic_uint64 first_new_xid;
	pg_atomic_uint64 visible_lsn;	/* ls_two_logs.c */
	pg_atomic_uint32 async_commits;
	pg_atomic_uint32 engine_pid;	/* engine worker, 0: not running */
	pg_atomic_uint32 recovery_failed;
	pg_atomic_uint64 turns[1024];	/* of rows that backends wait for: ls_turn.c */
	bool		from_backup;	/* the store must not be opened: ls_backup.c */
	ls_error	recovery_error;
	void	   *arena;
	bool		own_mapping;	/* the arena is one: huge pages are possible */
	ls_store   *store;
} LsShared;

/* The engine's worker slots are numbered as the server's processes are. */
#define LS_WORKER_SLOTS (MaxBackends + NUM_AUXILIARY_PROCS)

extern LsShared *ls_shared;
extern void ls_fill_config(ls_config *config);
extern void ls_shmem_install_hooks(void);
extern void ls_rmgr_register(void);

/* ---- ls_commit_note.c: pg_xact after a crash */
extern void ls_commits_begin(void); /* engine worker, before it lets anybody in */
extern void ls_commits_note_progress(void); /* engine worker */
extern void ls_commits_replay(void);	/* startup process, at the end of replay */

/*
 * At XACT_EVENT_COMMIT: what the commit record has that ls_commits_replay() could not
 * know, into LS_COMMIT_NOTE_BYTES; how many were used.
 */
extern size_t ls_commit_note_fill(char *note);

/* ---- ls_worker.c: the engine worker process */
extern void ls_worker_register(void);
PGDLLEXPORT extern void ls_engine_worker_main(Datum arg);

/* In it: the server is being stopped, or has lost its postmaster. */
extern bool ls_engine_worker_leaves(void);

/* No process has this pid, or it is 0. */
extern bool ls_process_is_gone(pid_t pid);

/* ---- ls_recovery.c: recovery in the engine worker; false: the server's log says why */
extern bool ls_recover(void);

/* ---- ls_xact.c: this backend as a worker of the engine */
extern void ls_xact_install_callbacks(void);

/* The backend's engine worker; attaches (and waits for recovery) on first use. */
extern ls_worker *ls_reader(void);

extern void ls_assign_count_remote_waits(bool newval, void *extra);
extern bool ls_reader_attached(void);

/* Waits until no change that this backend was shown can be taken back by a crash. */
extern void ls_wait_for_shown(void);

/* As things are, the transaction's commit waits for the engine's log, and so for all that it has been shown. */
extern bool ls_commit_is_awaited(void);

/* ---- ls_shown.c: statements do not complete before what they were shown is durable */
extern int	ls_shown_enter(void);	/* a utility statement; what ls_shown_leave() is to be given */
extern void ls_shown_leave(int outer);
extern void ls_shown_put_back(int outer);	/* instead, without a wait */
extern void ls_shown_at_abort(void);
extern void ls_shown_install_hooks(void);

/* Everything that was logged by the engine so far becomes durable. */
extern void ls_harden_all(void);

/* The worker's place for the address of an interrupt flag (ls_interruptible()); NULL before it attaches. */
extern const volatile int **ls_interrupt;

/* ls_descriptors.c: some of the process' file descriptors are the engine's from now on. */
extern void ls_descriptors_reserve(void);

/* The same with the current transaction begun on the engine (assigns an XID). */
extern ls_worker *ls_writer(void);

/* ls_pages.c: count this worker's pages and log from now on; NULL: none. */
extern void ls_pages_attach(const ls_worker *worker);

/* To the server's counters what has come since the last call; rel: whose pages they are, or NULL when nobody says. */
extern void ls_pages_note(Relation rel);

/* ---- ls_twophase.c: prepared transactions */

/* Harden the open transaction as prepared; before PostgreSQL does. */
extern void ls_twophase_prepare(ls_worker *worker, uint64 tn);

/* If tn is a prepared transaction that the server has ended: end it in the engine, too, and say so. */
extern bool ls_twophase_settle(uint64 tn);

/* All of them: before a file is worked on as a whole, whose lock a prepared transaction may have held until now. */
extern void ls_twophase_settle_all(void);

/* The same in the engine worker. */
extern void ls_twophase_sweep(void);

/* Top-level TN of this transaction, 0 if it has no XID (right in parallel workers too). */
extern uint64 ls_own_tn(void);

/* As heap would show it, also where every snapshot has seen it long since. */
static inline TransactionId
ls_tn_to_xid(uint64 tn)
{
	uint64		full = ls_store_full_xid(ls_shared->store, tn);

	return full == 0 ? FrozenTransactionId : (TransactionId) full;
}

/* ---- ls_snapshot.c */

/*
 * The engine's view of a snapshot.  The result points into backend-local memory
 * that stays valid until the next call, except `running`, which stays valid
 * as long as the same snapshot is converted again or 16 others have been; scans copy it.
 */
extern const ls_snapshot *ls_snapshot_convert(Snapshot snapshot);

/* The TN domain's value of an XID near the present. */
extern uint64 ls_tn_from_xid(TransactionId xid);

/* How many transactions a snapshot does not see, though they have begun: at most so many. */
extern uint32 ls_max_running(void);

/* ---- ls_horizon.c: which versions are still needed */
extern void ls_horizon_publish(void);	/* engine worker */

/*
 * ---- row id <-> TID (design: 256 offsets per block, below every limit of PostgreSQL's bitmap code)
 *
 * Row ids and offsets both begin with 1, so the first row of a table is (0,1) and
 * block b holds the row ids (256 b, 256 b + 256].
 */
#define LS_ROWS_PER_BLOCK 256

/* A TID from a user may be any: can it be the TID of a row? */
static inline bool
ls_tid_names_row(const ItemPointerData *tid)
{
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);

	return offset >= FirstOffsetNumber && offset <= LS_ROWS_PER_BLOCK;
}

static inline uint64
ls_tid_to_row(const ItemPointerData *tid)
{
	return (uint64) ItemPointerGetBlockNumberNoCheck(tid) * LS_ROWS_PER_BLOCK +
		ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline BlockNumber
ls_row_to_block(uint64 row_id)
{
	return (BlockNumber) ((row_id - 1) / LS_ROWS_PER_BLOCK);
}

static inline OffsetNumber
ls_row_to_offset(uint64 row_id)
{
	return (OffsetNumber) ((row_id - 1) % LS_ROWS_PER_BLOCK + 1);
}

static inline void
ls_row_to_tid(uint64 row_id, ItemPointer tid)
{
	ItemPointerSet(tid, ls_row_to_block(row_id), ls_row_to_offset(row_id));
}

/* ---- ls_wait.c */

/*
 * Wait until the transaction behind tn has ended (deadlock detection,
 * lock_timeout and cancel work as for heap rows).  rel/tid/oper for the error context.
 */
extern void ls_wait_for_tn(uint64 tn, uint32 seq, Relation rel, ItemPointer tid, XLTW_Oper oper);

/* One call's waits for a row: begin, wait as often as there is a conflict, end. */
typedef struct LsRowWait
{
	Relation	rel;
	ItemPointerData tid;
	XLTW_Oper	oper;
	LockWaitPolicy policy;
	LOCKMODE	queued;			/* tuple lock held, NoLock: none */
	ItemPointerData queued_tid; /* of which row */
	uint64		gone_tn;		/* the change that was in the way last, if it had gone */
	uint32		gone_seq;
} LsRowWait;

/*
 * The XID to wait for when change `seq` of the running transaction tn is in the way: a
 * subtransaction's, if it is one.
 */
extern TransactionId ls_xid_of_change(uint64 tn, uint32 seq);

/* The XID that has made it. */
extern TransactionId ls_writer_of_change(uint64 tn, uint32 seq);

/*
 * Before a shared lock of this mode is asked for: those who wait for the row go first, for a while.
 * NOWAIT and SKIP LOCKED do not wait for them.
 */
extern void ls_row_wait_for_turn(LsRowWait *wait, ls_lock_mode mode);

extern void ls_row_wait_begin(LsRowWait *wait, Relation rel, uint64 row_id, XLTW_Oper oper, LockWaitPolicy policy);

/*
 * Wait until a lock of this mode may be tried again.  False when it would block and
 * the policy is SKIP LOCKED; NOWAIT raises 55P03.
 */
extern bool ls_row_wait(LsRowWait *wait, const ls_conflict *conflict, ls_lock_mode mode);
extern void ls_row_wait_end(LsRowWait *wait);

/* The row goes on under another id: the place in line is kept until there is need to wait there. */
static inline void
ls_row_wait_follow(LsRowWait *wait, uint64 row_id)
{
	ls_row_to_tid(row_id, &wait->tid);
}

/* ---- ls_turn.c */

/* This backend has the tuple lock, and waits for those who share the row. */
extern void ls_turn_note(Relation rel, const ItemPointerData *tid);

/* Let such a backend go first; true: the tuple lock was taken meanwhile, in this mode. */
extern bool ls_turn_give_way(Relation rel, ItemPointer tid, LOCKMODE lockmode);

/* ---- ls_relation.c: relation -> open tree */

/* In rd_amcache of a leanstore relation. */
typedef struct LsRelCache
{
	ls_rel_key	key;
	ls_rel		handle;
	const struct LsIndexShape *shape;	/* of an index; NULL: not asked for yet */
	bool		unpublished;	/* of a table: no publication has it (ls_publication.h) */
} LsRelCache;

extern LsRelCache *ls_relation_cache(Relation rel);

extern ls_rel *ls_open(Relation rel);

/* Remember that the relation's present file goes away at commit / a new one at abort. */
extern void ls_relation_install_hooks(void);
extern void ls_relation_note_dropped(const RelFileLocator *locator, ProcNumber backend, bool at_commit);
extern bool ls_relation_has_pending(void);
extern void ls_relation_at_eoxact(bool commit);
extern void ls_relation_at_eosubxact(bool commit, SubTransactionId sub, SubTransactionId parent);
extern Oid	ls_table_am_oid(void);
extern bool ls_is_table(Relation rel);

#define LS_TABLE_AM "leanstore"
#define LS_INDEX_AM "leanstore_index"
extern Oid	ls_index_am_oid(void);
extern bool ls_is_index(Relation rel);

/* ---- ls_error.c: the only file that knows ls_status and SQLSTATE both */
pg_noreturn extern void ls_raise(const ls_error *error, Relation rel);
extern const char *ls_error_text(const ls_error *error);

#define ls_check(call, error, rel) \
	do { if (unlikely((call) != LS_OK)) ls_raise(&(error), (rel)); } while (0)

/* ---- ls_resowner.c: engine scans released after an error */
extern ls_scan *ls_scan_open_owned(Relation rel, const ls_snapshot *snapshot, uint64 lo, uint64 hi, bool backward);
extern void ls_scan_close_owned(ls_scan *scan);
extern ls_index_scan *ls_index_scan_open_owned(Relation index, ls_rel *tree);
extern void ls_index_scan_close_owned(ls_index_scan *scan);

/* ---- ls_inspect.c: a leanstore table the user may inspect, opened with AccessShareLock */
extern Relation ls_inspect_open(Oid relid);

/* ---- ls_table_handler.c */
extern const TableAmRoutine ls_table_routine;

/* ---- ls_page_tools.c */
extern void ls_page_tools_install_hooks(void);

/* ---- ls_utility.c */
extern void ls_utility_install_hooks(void);

#endif							/* LS_H */
