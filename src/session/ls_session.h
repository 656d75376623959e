/*
 * ls_session.h - the engine as a process of the server has it: settings, shared memory, the
 * process as a worker of the engine, calls and their errors.
 *
 * Rules: an engine call (ls_* of leanstore/engine.h) returns a status and never
 * throws; ls_check() turns a failure into an ereport.  CHECK_FOR_INTERRUPTS only
 * between engine calls.  No palloc'd memory is owned by the engine, no engine
 * memory by palloc.
 */
#ifndef LS_SESSION_H
#define LS_SESSION_H

#include "postgres.h"

#include "access/transam.h"
#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "utils/rel.h"

#include "leanstore/engine.h"

/* of the engine's files, pages of values among them */
#define LS_PAGE_BYTES 4096

/* ---- ls_guc.c: settings (units as shown to the user) */
extern int	ls_buffer_pool_size_mb;
extern int	ls_compressed_cache_percent;
extern int	ls_eviction_threads;
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

typedef enum LsWhichLog
{
	LS_LOG_ENGINE,
	LS_LOG_WAL
} LsWhichLog;

extern int	ls_which_log;		/* LsWhichLog */

/* Is the server's own log the engine's? */
static inline bool
ls_log_is_wal(void)
{
	return ls_which_log == LS_LOG_WAL;
}

extern bool ls_replace_btree;
extern bool ls_show_indexes_as_btree;
extern bool ls_count_remote_waits;
extern int	ls_sequence_log_values;
extern char *ls_trace_values;	/* the trace's name; empty: none */
extern int	ls_trace_values_size_kb;
extern int	ls_value_move_rate_kb;
extern int	ls_value_move_percent;
extern int	ls_value_free_percent;
extern bool ls_share_values;
extern void ls_define_settings(void);

/* Snapshots that are taken on a standby. */
typedef enum LsReadable
{
	LS_NOT_READABLE,			/* sessions wait */
	LS_READABLE,
	LS_NEVER_READABLE,			/* it is promoted, and they are refused for good */
} LsReadable;

/* ---- ls_shared.c: what the processes share; server/ls_shmem.c fills it */
typedef struct LsShared
{
	/*
	 * No transaction id at or above it was in use before this start of the
	 * server; see server/ls_rmgr.c.
	 */
	pg_atomic_uint64 first_new_xid;
	pg_atomic_uint64 visible_lsn;	/* txn/ls_commit_order.c */
	uint64		round_behind;	/* redo point before the last round in WAL: ls_host_log.c */
	pg_atomic_uint32 async_commits;
	pg_atomic_uint32 engine_pid;	/* engine worker, 0: not running */
	pg_atomic_uint32 standby_pid;	/* standby worker: server/ls_standby.c */
	pg_atomic_uint32 standby_over;	/* it has to end */
	pg_atomic_uint32 replay_pid;	/* startup process, if it has replayed WAL */
	pg_atomic_uint64 last_redo; /* of the checkpoint that was replayed last */
	pg_atomic_uint32 backups_begin; /* the engine worker has begun to follow */
	pg_atomic_uint64 point_done;	/* end of the state up to which restart points were tried */
	pg_atomic_uint64 point_failed;	/* the last that failed */
	pg_atomic_uint64 flush_asked;	/* by the startup process: pages are to be written */
	pg_atomic_uint64 flush_done;
	pg_atomic_uint64 flush_failed;	/* the last that failed */
	pg_atomic_uint32 readable;	/* LsReadable */
	pg_atomic_uint32 follow_begins; /* the engine worker has the files: server/ls_follow.c */
	pg_atomic_uint32 recovery_failed;
	pg_atomic_uint64 turns[1024];	/* of rows that backends wait for: row/ls_turn.c */
	bool		from_backup;	/* the store must not be opened: ls_backup.c */
	bool		restoring;		/* its state is to come in WAL, that of this redo point */
	XLogRecPtr	restore_redo;
	bool		unnamed_changes;	/* this start makes some: ls_log_switch.c */
	bool		states;			/* there are some for base backups: the log has images of pages */
	pg_atomic_uint32 first_state;	/* sessions wait until it is in WAL: ls_relay.c */
	ls_error	recovery_error;
	bool		upgrade_taken;	/* the store is that of pg_upgrade's old cluster: ls_upgrade.c */
	ls_error	upgrade_error;	/* why it could not be taken over */
	void	   *arena;
	bool		own_mapping;	/* the arena is one: huge pages are possible */
	ls_store   *store;
} LsShared;

/* The engine's worker slots are numbered as the server's processes are. */
#define LS_WORKER_SLOTS (MaxBackends + NUM_AUXILIARY_PROCS)

extern LsShared *ls_shared;

/* ---- ls_error.c: the only file that knows ls_status and SQLSTATE both */
pg_noreturn extern void ls_raise(const ls_error *error, Relation rel);
extern const char *ls_error_text(const ls_error *error);

/*
 * What has failed will be tried again, and again: tells the server's log the first time, and then
 * each half minute.  *told: when that was, 0 at first.
 */
extern void ls_log_failed_again(TimestampTz *told, const char *what, const ls_error *error);

#define ls_check(call, error, rel) \
	do { if (unlikely((call) != LS_OK)) ls_raise(&(error), (rel)); } while (0)

/* ---- ls_session.c: this process as a worker of the engine */

/* The backend's engine worker; attaches (and waits for recovery) on first use. */
extern ls_worker *ls_reader(void);

/* The same, but NULL before it attaches. */
extern ls_worker *ls_attached_worker;

/* Its end: a process that has attached on a standby looks at its next use how things are. */
extern void ls_session_at_eoxact(void);

/* The current transaction has looked at leanstore data: ls_reader() was called. */
extern bool ls_engine_was_read;

/*
 * The worker's place for the address of an interrupt flag (ls_interruptible()); NULL before it
 * attaches.
 */
extern const volatile int **ls_interrupt;

/* The wait event of commits that become durable. */
extern uint32 ls_wait_event_commit;

/* Top-level TN of this transaction, 0 if it has no XID (right in parallel workers too). */
extern uint64 ls_own_tn(void);

/* Of the library, and of the extension that goes with it. */
#define LS_VERSION "1.1"

/* As heap would show it, also where every snapshot has seen it long since. */
static inline TransactionId
ls_tn_to_xid(uint64 tn)
{
	uint64		full = ls_store_full_xid(ls_shared->store, tn);

	return full == 0 ? FrozenTransactionId : (TransactionId) full;
}

/* No process has this pid, or it is 0. */
extern bool ls_process_is_gone(pid_t pid);

/* ---- ls_pages.c */

/*
 * To the server's counters what has come since the last call; rel: the relation that the pages are
 * of, or NULL where the caller knows none.
 */
extern void ls_pages_note(Relation rel);

extern const ls_page_counts *ls_pages;
extern ls_page_counts ls_pages_counted;
extern const ls_log_counts *ls_log;
extern ls_log_counts ls_log_counted;

static inline void
ls_count_pages(Relation rel)
{
	if (unlikely(ls_pages->hit != ls_pages_counted.hit || ls_pages->read != ls_pages_counted.read ||
				 ls_log->bytes != ls_log_counted.bytes))
		ls_pages_note(rel);
}

/*
 * An engine call with waits that an interrupt ends: serve it (which usually does not
 * return) and call again.  Where interrupts are held off, as in an index access
 * method that has a page locked, the waits are not ended.  Calls made without
 * these, those of commit and rollback above all, cannot be interrupted.
 */
static inline void
ls_interruptible(bool on)
{
	if (unlikely(ls_interrupt == NULL))
		(void) ls_reader();
	*ls_interrupt = on && INTERRUPTS_CAN_BE_PROCESSED()
						? (const volatile int *) &InterruptPending
						: NULL;
}

#define LS_CALL(status, call) LS_CALL_ON(NULL, status, call)

/* The same; pages that it uses count as those of the table or index rel. */
#define LS_CALL_ON(rel, status, call) \
	do { \
		for (;;) \
		{ \
			ls_interruptible(true); \
			(status) = (call); \
			ls_interruptible(false); \
			if (likely((status) != LS_INTERRUPTED)) \
				break; \
			CHECK_FOR_INTERRUPTS(); \
		} \
		ls_count_pages(rel); \
	} while (0)

/* ---- ls_host_log.c: rounds of the engine's log, and bytes of values, in WAL */
#define LS_RMGR_ID 187

/* Kinds of its records.  A round: LsWalRound, and its bytes. */
#define LS_WAL_ROUND 0x00

/*
 * A session writes what others have logged, and the record names its own transaction only.  No
 * transaction of the round may be given its id again: what the store numbers by them goes on where
 * it was, behind a crash or on a standby.
 */
typedef struct LsWalRound
{
	uint64		position;		/* in the engine's log */
	uint64		next_xid;		/* above all that it has */
} LsWalRound;

/* No data: its block references are pages that the next round changes, or that are cut off. */
#define LS_WAL_PLACES 0x10
/* Nothing: pages change from here on that are named in no record. */
#define LS_WAL_UNNAMED 0x20
/* Pages of 4 KiB of a file of values: LsWalValues, their bytes; the last page ends with zeros. */
#define LS_WAL_VALUES 0x50

/*
 * Once for each redo point of a checkpoint, before that ends: LsWalState, and what a copy of the
 * data directory is to be recovered from that is replayed from there.
 */
#define LS_WAL_STATE 0x30

typedef struct LsWalState
{
	XLogRecPtr	redo;
} LsWalState;

/* A piece of the file of a prepared transaction: LsWalPrepared, its bytes. */
#define LS_WAL_PREPARED 0x60

typedef struct LsWalPrepared
{
	uint64		full_xid;
	uint64		at;				/* in the file */
	bool		last;
	uint8		zero[7];
} LsWalPrepared;

typedef struct LsWalValues
{
	RelFileLocator locator;
	uint32		page;			/* the first */
} LsWalValues;

/*
 * With wal_level = logical, for logical decoding alone: rows of a table that a transaction has
 * changed (row/ls_row_image.c).  LsWalRows, and then images: of INSERT one or more new rows, of
 * UPDATE one, of UPDATE and DELETE one old row before it if REPLICA IDENTITY asks for it.
 */
#define LS_WAL_ROWS 0x40

typedef enum LsWalChange
{
	LS_WAL_INSERT,
	LS_WAL_UPDATE,
	LS_WAL_DELETE
} LsWalChange;

typedef struct LsWalRows
{
	RelFileLocator locator;
	uint8		change;			/* LsWalChange */
	bool		is_chunk;		/* a row of a TOAST table: the row that it belongs to comes later */
	uint16		zero;
} LsWalRows;

/* Followed by the bytes of a heap tuple from its null bitmap on; not aligned. */
typedef struct LsWalImage
{
	uint32		bytes;
	uint16		infomask2;
	uint16		infomask;
	uint8		hoff;
	bool		is_old;
	uint16		zero;
} LsWalImage;

/* With leanstore.log = wal the calling process may write them from now on. */
extern void ls_host_log_begin(void);

/* The same for the engine worker, with longer lists of places. */
extern void ls_host_log_begin_writer(void);

/* The next checkpoint, or restart point, syncs what has just been written there (VWAL-2). */
extern void ls_host_log_sync_values(const LsWalValues *values, Size bytes);

extern void ls_host_log_insert_state(XLogRecPtr redo, const void *state, Size bytes);

/* ---- ls_relay.c: the same in the engine worker's main thread */

/* From before recovery until the store has stopped; they do nothing with another log. */
extern void ls_relay_begin(void);

/* Between the two: the engine has recovered. */
extern void ls_relay_recovered(void);
extern void ls_relay_end(void);

/* Between them, whenever there is nothing else to do: takes wait_us or less. */
extern void ls_relay_tend(long wait_us);

/*
 * Run `call` in a thread, which must not call the server; tend the log until it has ended, and run
 * `meanwhile` again and again.  LS_NO_MEMORY: there is no thread, so it has not been called.
 */
extern ls_status ls_aside(void (*call) (void *arg), void *arg, void (*meanwhile) (void),
						  ls_error *error);

/* ---- ls_backup.c: a data directory that was copied */

/* A file that tells the next start something; durable. */
extern void ls_leave_file(const char *path, const char *text);

/*
 * Of a standby: the first and the last of its restart points with which base backups of it may
 * begin, and all in between are such, too (server/ls_standby_backup.c).  False: there are none.
 */
typedef struct LsBackupPoints
{
	XLogRecPtr	first;
	XLogRecPtr	last;
	int64		since;			/* that have begun behind that time(); 0: any */
} LsBackupPoints;

extern bool ls_backup_read_points(LsBackupPoints *points);
extern void ls_backup_leave_points(const LsBackupPoints *points);
extern void ls_backup_forget_points(void);

/* In the postmaster, before the startup process: is it, and can its store be restored? */
extern void ls_backup_look(void);

/* In the startup process: a state of the engine for a redo point; the end of replay. */
extern void ls_backup_take_state(const LsWalState *head, const void *state, Size bytes);
extern void ls_backup_replay_ended(void);

/* The same: WAL up to lsn lacks something of the engine's log. */
extern void ls_backup_lost(XLogRecPtr lsn);

/* In the engine worker: the engine has recovered. */
extern void ls_backup_recovered(void);

/* An error if leanstore tables cannot be used in this data directory. */
extern void ls_backup_refuse(void);

/* ---- ls_log_switch.c: changes of pages that no WAL names */

/* In the postmaster, behind ls_backup_look(): does this start have to do with some? */
extern void ls_log_switch_look(void);

/* In the engine worker, before ls_relay_begin(): WAL says so. */
extern void ls_log_switch_finish(void);

/* ---- ls_upgrade.c: pg_upgrade hands the old cluster's store on */

/* In the postmaster, before all that looks at the store: take the old cluster's, if it is there. */
extern void ls_upgrade_look(void);

/* In the engine worker, when the store has stopped. */
extern void ls_upgrade_leave(void);

/* In a server that pg_upgrade has started no relation is used before the store was taken over. */
extern void ls_upgrade_refuse(const char *table);

/*
 * In the old cluster, once for each database: what dumps do not tell of.  An index is one of ours,
 * with the forms of its key columns; a value of an enum has a position.
 */
extern bool ls_upgrade_wants_notes(void);
extern void ls_upgrade_note_index(StringInfo notes, Oid index, const uint16 *forms, int n);
extern void ls_upgrade_note_enum(StringInfo notes, Oid value, float4 position);
extern void ls_upgrade_leave_notes(StringInfo notes);

/* And in the new one, while pg_upgrade makes its relations.  NULL: nothing was noted. */
extern const uint16 *ls_upgrade_forms(Oid index);
extern const float4 *ls_upgrade_position(Oid enum_value);

#endif							/* LS_SESSION_H */
