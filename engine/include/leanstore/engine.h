/*
 * engine.h - the C API between the storage engine and its host.
 *
 * The engine knows nothing of PostgreSQL; the host (src/) includes nothing of
 * the engine but this file.  Clean as C11 and as C++20.
 *
 * Contract of every function here:
 *  - it never throws, never longjmps and never calls back into the host;
 *  - it returns holding no latch and no pin (checked in capi/);
 *  - a status other than LS_OK comes with details in *err (caller owned, may
 *    be NULL);
 *  - where the host has to act (wait for a transaction) the call returns
 *    LS_BEING_MODIFIED / LS_LOCKED with the holder and is simply made again.
 *
 * Vocabulary: docs/glossary.md.  TN = transaction number, 48 bits, strictly
 * growing over the life of the store (an XID is not: it may come back after a
 * crash).  GSN = position in the one total order of log records.
 */
#ifndef LEANSTORE_ENGINE_H
#define LEANSTORE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define LS_NODISCARD [[nodiscard]]
#define LS_NOEXCEPT noexcept
extern "C" {
#else
#define LS_NODISCARD __attribute__((warn_unused_result))
#define LS_NOEXCEPT
#endif

/* ---------------------------------------------------------------- status -- */

typedef enum ls_status {
  LS_OK = 0,
  /* expected outcomes of row operations */
  LS_NOT_FOUND,      /* no such row, or no version of it for this snapshot */
  LS_INVISIBLE,      /* the newest version is not visible to the snapshot and not by us */
  LS_SELF_MODIFIED,  /* already changed by this transaction in this or a later command */
  LS_UPDATED,        /* another transaction has committed a newer version */
  LS_DELETED,        /* deleted by a committed transaction */
  LS_BEING_MODIFIED, /* changed by a running transaction: wait for it, call again */
  LS_LOCKED,         /* row lock of a running transaction conflicts: wait, call again */
  LS_EXISTS,         /* key present already */
  LS_END,            /* end of scan */
  /* failures */
  LS_INTERRUPTED,    /* interrupt flag was raised while waiting */
  LS_NOT_READY,      /* recovery has not finished */
  LS_TOO_LARGE,      /* row or key over the limit */
  LS_LIMIT,          /* max_open_files relations are in use */
  LS_NO_ROW_IDS,     /* a table has used up its row ids */
  LS_NO_PAGES,       /* a file has as many pages as it can have */
  LS_NO_TNS,         /* transaction numbers are used up */
  LS_MANY_CHANGES,   /* in one transaction */
  LS_MANY_PREPARED,  /* transactions: more than configured */
  LS_RANGE_MEMORY,   /* for range locks: more than configured */
  LS_NO_FRAMES,      /* buffer pool too small for the load */
  LS_NO_SPACE,       /* ENOSPC / EDQUOT */
  LS_IO_ERROR,       /* any other failed system call on a file */
  LS_CORRUPT,        /* bytes on disk do not make sense */
  LS_FOREIGN,        /* the file belongs to another store */
  LS_CONFLICT,       /* a snapshot needs what is removed (leanstore/standby.h) */
  LS_IN_USE,         /* the file is sealed by a prepared transaction, or cannot be closed for one */
  LS_NO_MEMORY,
  LS_INVALID,        /* host broke the contract */
  LS_NOT_ADOPTABLE   /* the file belongs to this store, or has nothing of another one's */
} ls_status;

typedef struct ls_error {
  ls_status status;
  int sys_errno;       /* 0 when no system call failed */
  uint32_t page_no;    /* UINT32_MAX when not about a page */
  uint32_t line;       /* of the engine's source that has told it; 0: none has */
  char source[48];     /* the end of that file's name */
  char path[160];      /* file concerned, "" when none */
  char message[320];   /* plain sentence fragment, no newline */
} ls_error;

/* --------------------------------------------------------- configuration -- */

typedef struct ls_config {
  uint64_t buffer_pool_bytes;
  /* of the pool at most, for evicted leaves that are kept compressed; 0: none are */
  uint32_t compressed_cache_percent;
  uint32_t worker_slots;        /* host slots; the engine adds its own behind them */
  uint32_t prepared_slots;      /* transactions prepared for two-phase commit at a time */
  uint32_t max_open_files;      /* relations that may be open at a time */
  uint32_t log_buffer_bytes;    /* per slot, power of two */
  uint64_t log_segment_bytes;
  uint64_t max_log_bytes;       /* soft: a checkpoint is due before it is reached */
  /* the log is not kept for transactions that began so much of it before a checkpoint */
  uint64_t long_transaction_bytes;
  uint32_t checkpoint_seconds;
  /* over how many percent of the time, or the log, to the next one its writes are spread; 0: at
   * once */
  uint32_t checkpoint_spread;
  uint32_t page_providers;      /* threads */
  uint32_t version_trees;       /* partitions of the version store, power of two */
  /* shared memory for range locks, 0: 16 MB; about 128 bytes a range with short keys */
  uint64_t range_lock_bytes;
  bool fsync;                   /* false: nothing is flushed, as PostgreSQL's fsync=off */
  bool direct_io;
  /* the log is the host's: ls_host_log; changes only where a store was shut down cleanly */
  bool host_log;
  bool page_images;             /* the log has an image of each page behind a checkpoint */
  bool host_sync_points;        /* the host calls ls_host_sync_point: the log is kept from there */
  /* the arena is a mapping that the system may back with huge pages: ask for them */
  bool huge_pages;
  char data_dir[512];           /* "<PGDATA>/leanstore", exists, mode 0700 */
  char root_dir[512];           /* "<PGDATA>": relation paths are relative to it */
} ls_config;

typedef struct ls_store ls_store;   /* lives in the arena */
typedef struct ls_worker ls_worker; /* private to a process/thread */
typedef struct ls_rel {             /* a relation file, wherever it is open; the host's memory */
  void *slot;                       /* of the shared file table */
  uint64_t number;                  /* of the file: never another one's */
} ls_rel;
typedef struct ls_rel_key {
  uint32_t tablespace;
  uint32_t database;
  uint32_t relation;
  int32_t owner; /* temporary: backend number; else -1 */
} ls_rel_key;
typedef struct ls_scan ls_scan;

/* Arena bytes needed for a configuration. */
LS_NODISCARD size_t ls_store_size(const ls_config *config) LS_NOEXCEPT;
/* Format the arena (zeroed, 4 KiB aligned, same address in every process). */
LS_NODISCARD ls_status ls_store_create(void *arena, size_t size, const ls_config *config,
                                       ls_store **store, ls_error *err) LS_NOEXCEPT;

/* ------------------------------------------------- start, recovery, stop -- */

/* A transaction of which only the host's own log knows the fate. */
typedef struct ls_in_doubt {
  uint64_t tn;
  uint64_t full_xid; /* as given to ls_txn_prepare_commit or ls_txn_prepare */
  bool two_phase;    /* ls_txn_prepare: the host may still have it prepared */
  bool committed;    /* to be filled in by the host */
  bool prepared;     /* so is this, with two_phase; and committed: it may still have been prepared
                        for snapshots of now.  Its end is ls_prepared_finish() if that has any */
} ls_in_doubt;

/* Step 1, in the engine process: read control file and log, redo.  next_full_xid: no
 * transaction id at or above it was ever used before this start.  *doubts is malloc'ed. */
LS_NODISCARD ls_status ls_recovery_redo(ls_store *store, uint64_t next_full_xid,
                                        ls_in_doubt **doubts, size_t *n_doubts,
                                        ls_error *err) LS_NOEXCEPT;
/* Step 2: undo losers, checkpoint, open the store for workers, start the threads.  With
 * host_sync_points: the host's log has everything that it has ever recorded on disk. */
LS_NODISCARD ls_status ls_recovery_finish(ls_store *store, const ls_in_doubt *doubts,
                                          size_t n_doubts, ls_error *err) LS_NOEXCEPT;
/* How far step 1 is, and what both have done; any process may ask at any time. */
typedef struct ls_recovery_progress {
  /* to be replayed: 0 until the log is read, and when there is nothing to replay */
  uint64_t log_bytes;
  uint64_t redone_bytes;
  uint64_t records;        /* in them */
  uint64_t rolled_back;    /* transactions; after step 2, as what follows */
  uint64_t analysis_us, redo_us, undo_us; /* how long the passes took */
  uint64_t put_off;        /* changes that redo has left until their pages are read */
} ls_recovery_progress;
void ls_recovery_get_progress(const ls_store *store, ls_recovery_progress *progress) LS_NOEXCEPT;
/* By another thread of the same process: step 1, or 2, ends with LS_INTERRUPTED as soon as it can,
 * and the store counts as stopped. */
void ls_recovery_cancel(ls_store *store) LS_NOEXCEPT;
bool ls_store_ready(const ls_store *store) LS_NOEXCEPT;
/* Recovery has begun: no other process can start it, ever. */
bool ls_store_begun(const ls_store *store) LS_NOEXCEPT;
/* Shut down or abandoned: the arena has to be formatted again before use. */
bool ls_store_stopped(const ls_store *store) LS_NOEXCEPT;
/* Block until ready or timeout (ms). */
bool ls_store_wait_ready(ls_store *store, uint32_t timeout_ms) LS_NOEXCEPT;
/* Workers attached at this moment (host slots only). */
uint32_t ls_store_attached(const ls_store *store) LS_NOEXCEPT;
bool ls_store_slot_attached(const ls_store *store, uint32_t slot) LS_NOEXCEPT;
/* Checkpoint, flush everything, mark clean, stop threads.  No worker may be attached. */
LS_NODISCARD ls_status ls_store_shutdown(ls_store *store, ls_error *err) LS_NOEXCEPT;
/* Stop threads and write nothing more: the host is dying and its next start recovers.  No worker
 * may be attached. */
LS_NODISCARD ls_status ls_store_abandon(ls_store *store, ls_error *err) LS_NOEXCEPT;
/* Ask for a checkpoint and wait for it (host: CHECKPOINT-like calls, before file copies). */
LS_NODISCARD ls_status ls_store_checkpoint(ls_store *store, ls_error *err) LS_NOEXCEPT;
/* The same; the worker's interrupt flag ends the wait (LS_INTERRUPTED), not the checkpoint. */
LS_NODISCARD ls_status ls_worker_checkpoint(ls_store *store, ls_worker *worker,
                                            ls_error *err) LS_NOEXCEPT;
/* A background thread failed (fsync, log write): the host must PANIC.  false when all is well. */
bool ls_store_failed(const ls_store *store, ls_error *err) LS_NOEXCEPT;

/*
 * With host_sync_points.  A commit is durable when this log is (ls_wait_hardened); the host's own
 * record of it may be in memory only then, and a crash takes it along with the transaction's id.
 * What a crash leaves: recovery/host_sync_point.hpp.
 */
/* Every commit that lies before this position in the log has passed ls_txn_commit. */
uint64_t ls_commits_position(const ls_store *store) LS_NOEXCEPT;
/* What the host had recorded when it got this position is on disk now.  By the engine process. */
LS_NODISCARD ls_status ls_host_sync_point(ls_store *store, uint64_t position,
                                          ls_error *err) LS_NOEXCEPT;
/* By any process before step 1 of recovery: transactions that have committed behind the last such
 * position, ascending, in one malloc'ed block; *highest: of all that have logged anything there, 0:
 * none. */
typedef struct ls_commit_behind {
  uint64_t full_xid;
  const void *note; /* as given to ls_txn_commit; not aligned */
  size_t note_bytes;
} ls_commit_behind;
LS_NODISCARD ls_status ls_commits_behind(ls_store *store, ls_commit_behind **commits, size_t *n,
                                         uint64_t *highest, ls_error *err) LS_NOEXCEPT;

/*
 * With host_log.  The log goes into the host's log as well, and recovery reads what the host has
 * replayed of it (wal/relay_files.hpp).  The host makes of one commit one record of its own, behind
 * ls_txn_write_out(); what it decides counts.
 */
typedef struct ls_prepared_bytes {
  uint64_t full_xid;
  uint64_t at; /* in the file */
  const void *bytes;
  size_t count;
  bool last;
} ls_prepared_bytes;
typedef struct ls_page_place {
  ls_rel_key relation;
  uint32_t page; /* of 4 KiB, in the first file of the relation */
} ls_page_place;
typedef struct ls_host_log {
  /* Append what stands at `position` of the engine's log; in this order, one call at a time, under
   * a mutex of the engine's: it calls no function of the engine and always succeeds (else the host
   * ends all its processes).  Where it ends there, which grows from call to call and is not 0.
   * The first call behind the place where the host's recovery would begin, and the first of a
   * start, return when this is flushed. */
  uint64_t (*insert)(const void *bytes, size_t count, uint64_t position);
  /* Durable up to there, at return. */
  void (*flush)(uint64_t end);
  /* As far as it is durable. */
  uint64_t (*flushed)(void);
  /* Bytes of values, which stand in the file of values of this relation by now: whole pages of
   * 4 KiB from `page` on, zeros behind the bytes in the last one.  They get into the host's log
   * before all that is inserted next.  Before its recovery may begin behind them the host syncs
   * the file, which is there at least until this returns.  Under no mutex of the engine's, several
   * calls at a time; calls no function of the engine and always succeeds (vlog/value_sink.hpp). */
  void (*insert_values)(const ls_rel_key *relation, uint32_t page, const void *bytes,
                        size_t count);
  /* A piece of the file of a prepared transaction.  As insert_values, without anything to sync. */
  void (*insert_prepared)(const ls_prepared_bytes *bytes);
  /* Pages of files of logged relations, ascending: which the next insertion of a round changes (as
   * `insert`); or, `durable`, which are about to be cut off (as insert_values; all is durable when
   * this returns).  wal/changed_places.hpp says what for. */
  void (*insert_places)(const ls_page_place *places, size_t count, bool durable);
} ls_host_log;
/* The calling thread may call these; null: it may not any more. */
void ls_host_log_use(const ls_host_log *log) LS_NOEXCEPT;
/* Engine process, a thread that may use the host's log, from step 1 of recovery until the store has
 * stopped, again and again, and while any other call of the engine waits in this process: wait for
 * at most wait_us, insert what there is. */
LS_NODISCARD ls_status ls_host_log_pump(ls_store *store, uint32_t wait_us,
                                        ls_error *err) LS_NOEXCEPT;
/* The host has flushed its log: what that makes durable here is taken note of. */
void ls_host_log_flushed(ls_worker *worker) LS_NOEXCEPT;
/* Changes, as prepared(full_xid), and everything before them get into the host's log; *end: they
 * end there, 0: there were none.  Without changes it is what the worker has logged otherwise, as
 * pages of indexes that it has built, with everything before that.  The host decides the rest, as
 * after ls_txn_prepare_commit. */
LS_NODISCARD ls_status ls_txn_write_out(ls_worker *worker, uint64_t full_xid, uint64_t *end,
                                        ls_error *err) LS_NOEXCEPT;
/* All that was logged so far, by any worker, gets there: before what the host logs next, as
 * standbys want it.  Without a host's log nothing is done. */
LS_NODISCARD ls_status ls_log_write_out(ls_worker *worker, ls_error *err) LS_NOEXCEPT;
/* What was inserted so far becomes durable in the relay log; a number to ask with.  The host has
 * to see to that before its recovery may begin at a later place. */
uint32_t ls_relay_sync(ls_store *store) LS_NOEXCEPT;
bool ls_relay_is_synced(const ls_store *store, uint32_t request) LS_NOEXCEPT;
/* From now on pages are named again when they are changed: once, or with each insertion. */
void ls_name_places(ls_store *store, bool each_time) LS_NOEXCEPT;
/* What is in the host's log by now, durable: all that was logged with a GSN at or below this. */
uint64_t ls_log_hardened(const ls_store *store) LS_NOEXCEPT;
/* With page_images, in the engine process.  Redo begins at or before such a GSN, now and in each
 * checkpoint that is made until the host sets a greater one.  It has to be one of a time at which
 * the host's recovery began where the next state that is asked for is to be of, or earlier
 * (RESTORE-4 in recovery/restore_state.hpp). */
void ls_restore_floor(ls_store *store, uint64_t gsn) LS_NOEXCEPT;
/* Is this the first page of a relation file of a store, whichever? */
bool ls_is_relation_file(const void *page) LS_NOEXCEPT;
/* With page_images.  States from which a copy of the store's files can be recovered that is begun
 * behind the state's insertion into the host's log, and replayed from a place before it
 * (recovery/restore_state.hpp).  In the engine process: of a checkpoint that begins behind this; a
 * number to ask with. */
uint32_t ls_restore_state_ask(ls_store *store) LS_NOEXCEPT;
/* Spread no writes any more: a process waits for that state. */
void ls_restore_state_hurry(ls_store *store, uint32_t request) LS_NOEXCEPT;
/* done: the checkpoint has ended, and bytes are what to insert, until the next call; or
 * there is none, which status and err explain.  The store works on either way. */
typedef struct ls_restore_state {
  bool done;
  const void *bytes;
  size_t count;
} ls_restore_state;
LS_NODISCARD ls_status ls_restore_state_take(ls_store *store, uint32_t request,
                                             ls_restore_state *state, ls_error *err) LS_NOEXCEPT;
/* Before the host replays its log onto a copy: what has been copied of the store's own directory
 * and does not count there goes. */
LS_NODISCARD ls_status ls_restore_forget(ls_store *store, ls_error *err) LS_NOEXCEPT;
/* Before step 1 of recovery, by the process that replays the host's log: the beginning; each
 * insertion again, in order; then the end of all.  Nothing of it holds a place in memory of the
 * store.  restoring: onto a copy, of which the state is to come; the first one that is handed in
 * ends that, and later ones say where the log is if nothing else was replayed.  sync: all so far is
 * durable, and need not come again.  LS_NOT_FOUND: something is missing between two insertions. */
void ls_relay_replay_begin(ls_store *store, bool restoring) LS_NOEXCEPT;
/* No other process reads the relay log before the end, or a sync: it is written in larger parts. */
void ls_relay_replay_alone(ls_store *store) LS_NOEXCEPT;
LS_NODISCARD ls_status ls_relay_replay_state(ls_store *store, const void *bytes, size_t count,
                                             ls_error *err) LS_NOEXCEPT;
LS_NODISCARD ls_status ls_relay_replay_sync(ls_store *store, ls_error *err) LS_NOEXCEPT;
/* Behind the last insertion that was replayed; 0: none was yet. */
uint64_t ls_relay_replay_position(const ls_store *store) LS_NOEXCEPT;
/* By another process, in an arena of its own with the same configuration, but for host_log and
 * page_images: what was replayed before a state, other than that of a copy's beginning, is redone
 * and written, and recovery will begin at the state (store/standby_apply.hpp). */
typedef struct ls_standby_state {
  const void *bytes;
  size_t count;
  uint64_t position; /* when it was replayed; the host's replay does not end before that any more */
  const volatile int *stop; /* not 0: LS_INTERRUPTED */
  uint64_t log_bytes; /* out: that were redone; 0: the state is passed over */
} ls_standby_state;
LS_NODISCARD ls_status ls_standby_apply(ls_store *store, ls_standby_state *state,
                                        ls_error *err) LS_NOEXCEPT;
LS_NODISCARD ls_status ls_relay_replay(ls_store *store, const void *bytes, size_t count,
                                       uint64_t position, ls_error *err) LS_NOEXCEPT;
LS_NODISCARD ls_status ls_relay_replay_end(ls_store *store, ls_error *err) LS_NOEXCEPT;
/* By the same process: each insert_values again, in order.  *there: the host has to sync the file
 * as it does after insert_values; false: the relation has gone, nothing was written. */
typedef struct ls_value_bytes {
  const char *path; /* of the relation, as for ls_rel_open */
  uint32_t page;
  const void *bytes;
  size_t count;
} ls_value_bytes;
LS_NODISCARD ls_status ls_values_replay(ls_store *store, const ls_value_bytes *values, bool *there,
                                        ls_error *err) LS_NOEXCEPT;
LS_NODISCARD ls_status ls_prepared_replay(ls_store *store, const ls_prepared_bytes *bytes,
                                          ls_error *err) LS_NOEXCEPT;
/* Before all else: could the store be started with the log that is configured?  False: it was not
 * shut down, and had the other one. */
LS_NODISCARD ls_status ls_store_log_fits(ls_store *store, bool *fits, ls_error *err) LS_NOEXCEPT;
/* The same: is there a store, and is its log the host's? */
LS_NODISCARD ls_status ls_store_log_kind(ls_store *store, bool *exists, bool *host_log,
                                         ls_error *err) LS_NOEXCEPT;

/* Another host gets the relation files, and the store with them (recovery/handover.hpp).  Behind
 * the shutdown: what it goes on from, to the file `path`. */
LS_NODISCARD ls_status ls_store_leave(ls_store *store, const char *path, ls_error *err) LS_NOEXCEPT;
/* Before all else, in the other host: this store, which has no relations, becomes the one that has
 * left the file.  *taken false: it is that one already. */
LS_NODISCARD ls_status ls_store_take(ls_store *store, const char *path, bool *taken,
                                     ls_error *err) LS_NOEXCEPT;

/* TN = full xid + offset; constant from recovery to the end of the process tree. */
uint64_t ls_store_tn_offset(const ls_store *store) LS_NOEXCEPT;
/* Rows written by a TN below it are committed and visible to every snapshot. */
uint64_t ls_store_tn_base(const ls_store *store) LS_NOEXCEPT;
/* Transactions that began since the start have this TN or a larger one. */
uint64_t ls_store_first_tn(const ls_store *store) LS_NOEXCEPT;
/* The full transaction id behind any TN, also one of an earlier start; 0: that start is among those
 * forgotten (txn/tn_eras.hpp). */
uint64_t ls_store_full_xid(const ls_store *store, uint64_t tn) LS_NOEXCEPT;

/* What the host knows of existing snapshots, in the TN domain (version/horizon.hpp); published
 * again and again by the engine process' main thread.
 *   horizon  the oldest TN that any existing or future snapshot may still consider running:
 *            versions superseded below it are garbage.  Monotonic, and not above a TN that is
 *            active (ls_active_tns): a commit that has no place in the log yet may be taken back by
 *            a crash.
 *   now      which transactions have ended: every snapshot taken later sees what `now` sees
 *   floor    every snapshot that exists and is not among the pins has xmin >= floor
 *   pins     snapshots that exist and are known exactly; the call puts them into another order */
typedef struct ls_plain_snapshot {
  uint64_t xmin, xmax;
  const uint64_t *running; /* ascending, below xmax */
  uint32_t n_running;
} ls_plain_snapshot;
void ls_store_publish_horizon(ls_store *store, uint64_t horizon, uint64_t floor,
                              const ls_plain_snapshot *now, ls_plain_snapshot *pins,
                              uint32_t n_pins) LS_NOEXCEPT;
uint64_t ls_store_horizon(const ls_store *store) LS_NOEXCEPT;
/* May a snapshot need the version that `writer` wrote and `next` superseded?  What was published
 * last decides, so "yes" may be out of date.  LS_NO_PIN for `writer`: one that none of the pins
 * sees. */
#define LS_NO_PIN UINT64_MAX
bool ls_version_needed(const ls_store *store, uint64_t writer, uint64_t next) LS_NOEXCEPT;

/* --------------------------------------------------------------- workers -- */

/* Take host slot `slot` (0 .. worker_slots-1); one owner at a time. */
LS_NODISCARD ls_status ls_worker_attach(ls_store *store, uint32_t slot, ls_worker **worker,
                                        ls_error *err) LS_NOEXCEPT;
/* No transaction may be open. */
void ls_worker_detach(ls_worker *worker) LS_NOEXCEPT;
/* Pages of 4 KiB used by this worker since it was attached; the struct is the live one, private to
 * the worker. */
typedef struct ls_page_counts {
  uint64_t hit;  /* leaves found in memory; inner nodes are not counted */
  uint64_t read; /* pages read from files */
  uint64_t extended; /* pages added to files */
} ls_page_counts;
const ls_page_counts *ls_worker_page_counts(const ls_worker *worker) LS_NOEXCEPT;
/* The same for what it has written to the log. */
typedef struct ls_log_counts {
  uint64_t records;
  uint64_t bytes;
} ls_log_counts;
const ls_log_counts *ls_worker_log_counts(const ls_worker *worker) LS_NOEXCEPT;
/* Where the host puts the address of the flag that is polled in waits that may be long
 * (InterruptPending; NULL: none is), before a call, as often as it likes. */
const volatile int **ls_worker_interrupt(ls_worker *worker) LS_NOEXCEPT;
/* What a call may sleep for, beside the waits that calls are made for. */
typedef enum ls_wait {
  LS_WAIT_LOG_SPACE,  /* the log buffer is full */
  LS_WAIT_PAGE_READ,  /* a page comes from its file, by this worker or another */
  LS_WAIT_PAGE_FRAME, /* all of the buffer pool is in use: pages have to be written or to go */
  LS_WAIT_OPEN_RELATION, /* a relation file is being closed, this one or one that makes room */
  LS_WAITS
} ls_wait;
/* While a call sleeps for one, *word holds its code; then again what it held before. */
void ls_worker_report_waits(ls_worker *worker, volatile uint32_t *word,
                            const uint32_t codes[LS_WAITS]) LS_NOEXCEPT;
/* Count for each commit of this worker whether it would depend on another worker's log, were each
 * flushed alone: ls_stats::log_remote_*.  False: no memory, nothing is counted. */
bool ls_worker_count_dependencies(ls_worker *worker, bool count) LS_NOEXCEPT;
/* At the end of a transaction, also of one that only read: what it has used is forgotten. */
void ls_worker_forget_dependencies(ls_worker *worker) LS_NOEXCEPT;

/* ---------------------------------------------------------- transactions -- */

/* First write: make `tn` the active transaction of this slot.  Idempotent for the same tn. */
LS_NODISCARD ls_status ls_txn_begin(ls_worker *worker, uint64_t tn, ls_error *err) LS_NOEXCEPT;
uint64_t ls_txn_active(const ls_worker *worker) LS_NOEXCEPT; /* 0: none */
/* Did the transaction write anything that a log must make durable? */
bool ls_txn_has_log(const ls_worker *worker) LS_NOEXCEPT;
/* Every change up to here has a smaller sequence number than every later one. */
uint32_t ls_txn_savepoint(const ls_worker *worker) LS_NOEXCEPT;
/* From the next change on `part` writes, the host's name for a part of the transaction that may be
 * rolled back by itself; 0: the transaction as a whole. */
void ls_txn_set_part(ls_worker *worker, uint32_t part) LS_NOEXCEPT;
/* Which part has made a change of an active transaction.  LS_NOT_FOUND: the transaction as a whole,
 * or it was rolled back since. */
LS_NODISCARD ls_status ls_change_part(ls_worker *worker, uint64_t tn, uint32_t seq,
                                      uint32_t *part, ls_error *err) LS_NOEXCEPT;
/* Undo changes with sequence >= savepoint.  Cannot fail (panics through ls_store_failed). */
void ls_txn_rollback_to(ls_worker *worker, uint32_t savepoint) LS_NOEXCEPT;

/* Engine-only commit, step 1: room in the log, so that step 2 need not wait for it.
 * LS_INTERRUPTED. */
LS_NODISCARD ls_status ls_txn_reserve_commit(ls_worker *worker, ls_error *err) LS_NOEXCEPT;
/* Mixed commit, step 1: harden all changes as prepared(full_xid), and everything before them. */
LS_NODISCARD ls_status ls_txn_prepare_commit(ls_worker *worker, uint64_t full_xid,
                                             ls_error *err) LS_NOEXCEPT;
/* Step 2, after the host made the effects visible: the commit takes its place in the total order,
 * before another worker finds the transaction no longer active.  The host lets no worker use a
 * snapshot that sees the effects before that, or a crash could keep what depends on a commit that
 * it takes back.  Returns the GSN to wait for (0: nothing).  note: bytes of the host's that go with
 * the commit, see ls_commits_behind; LS_COMMIT_NOTE_BYTES at most.  awaited: the host acknowledges
 * it when it is hardened, and does not want others to rely on it before (ls_shown_unhardened). */
#define LS_COMMIT_NOTE_BYTES 4096
uint64_t ls_txn_commit(ls_worker *worker, const void *note, size_t note_bytes,
                       bool awaited) LS_NOEXCEPT;
/* Step 3, when locks are released: wait until everything up to gsn is hardened.  delay_us: a round
 * that this worker writes for it may wait so long for other commits; 0: the engine chooses. */
void ls_wait_hardened(ls_worker *worker, uint64_t gsn, uint32_t delay_us) LS_NOEXCEPT;
/* Has this worker been shown changes, since it last waited for them, of another worker's
 * transaction that has committed, is awaited and is not hardened?  Then a crash could take them
 * back.  ls_wait_shown: until they are.  LS_INTERRUPTED. */
bool ls_shown_unhardened(ls_worker *worker) LS_NOEXCEPT;
LS_NODISCARD ls_status ls_wait_shown(ls_worker *worker, ls_error *err) LS_NOEXCEPT;
/* Abort: undo in place, then free the slot's TN. Also right after step 1. */
void ls_txn_abort(ls_worker *worker) LS_NOEXCEPT;

/*
 * Two-phase commit.  Step 1: harden all changes and row locks as prepared, whatever happens to the
 * host; ls_txn_abort still takes everything back.  LS_MANY_PREPARED: there are as many as
 * configured.
 * files: all that the host unlinks when the transaction ends, this way or the other, perhaps before
 * step 3.  They are closed, and LS_IN_USE until step 3 has been done.  LS_IN_USE: one of them is
 * busy for too long.
 * Step 2, when the host has prepared it for good: the worker is free for another transaction, this
 * one stays active.
 */
typedef struct ls_ending_file {
  ls_rel_key key;
  bool at_commit; /* it goes when the transaction commits; else when it is rolled back */
} ls_ending_file;
LS_NODISCARD ls_status ls_txn_prepare(ls_worker *worker, uint64_t full_xid,
                                      const ls_ending_file *files, size_t n_files,
                                      ls_error *err) LS_NOEXCEPT;
void ls_txn_hand_over(ls_worker *worker) LS_NOEXCEPT;
/* Step 3, when the host has recorded for good how it ends and has made that visible: by any worker,
 * inside a transaction of its own or not, by several at a time, also for one that is finished
 * already.  LS_INTERRUPTED while another worker does it. */
LS_NODISCARD ls_status ls_prepared_finish(ls_worker *worker, uint64_t tn, bool committed,
                                          ls_error *err) LS_NOEXCEPT;
/* Those between step 2 and the end of step 3 (they are active, too), as ls_active_tns. */
size_t ls_prepared_tns(const ls_store *store, uint64_t *out, size_t cap) LS_NOEXCEPT;
bool ls_prepared_has(const ls_store *store, uint64_t tn) LS_NOEXCEPT;

/* Is tn active (running, prepared, aborting, or committed but not yet past ls_txn_commit)? */
bool ls_tn_is_active(const ls_store *store, uint64_t tn) LS_NOEXCEPT;
/* Copy active TNs (unsorted) into out[cap]; returns how many there are. */
size_t ls_active_tns(const ls_store *store, uint64_t *out, size_t cap) LS_NOEXCEPT;

/* ------------------------------------------------------------- snapshots -- */

typedef enum ls_snapshot_kind {
  LS_SNAPSHOT_MVCC = 0, /* xmin, xmax, running, own, curcid */
  LS_SNAPSHOT_SELF,     /* committed or own, now */
  LS_SNAPSHOT_DIRTY,    /* newest version, by any writer: reported in ls_row */
  LS_SNAPSHOT_ANY       /* newest version including ghosts not yet removed */
} ls_snapshot_kind;

typedef struct ls_snapshot {
  ls_snapshot_kind kind;
  uint64_t xmin;           /* every TN below is finished */
  uint64_t xmax;           /* every TN at or above is in the future */
  const uint64_t *running; /* sorted, TNs in [xmin, xmax) not visible; top-level only */
  uint32_t n_running;
  uint32_t curcid;
  uint64_t own_tn;         /* 0: this transaction has written nothing */
  /* MVCC: where a transaction that the snapshot does not see has committed the newest version, the
   * row is LS_UPDATED, in ls_row_fetch and ls_scan_next.  What is in progress is passed over. */
  bool newest_only;
} ls_snapshot;

/* ------------------------------------------------------------- relations -- */

typedef enum ls_rel_kind {
  LS_REL_TABLE = 1,
  LS_REL_INDEX = 2,
  LS_REL_VERSIONS = 3,
  LS_REL_VALUES = 4 /* rows of values, see there */
} ls_rel_kind;

/* Find or open the relation file (path: first segment, relative to root_dir).  The handle stays
 * valid until the file is forgotten; a forgotten handle gives LS_NOT_FOUND.  An idle file may be
 * closed to make room for another one: a call with its handle opens it again.  A scan keeps its
 * file open.  LS_LIMIT: all places are in use, and stayed so for a while. */
LS_NODISCARD ls_status ls_rel_open(ls_worker *worker, const ls_rel_key *key, const char *path,
                                   ls_rel_kind kind, bool logged, ls_rel *rel,
                                   ls_error *err) LS_NOEXCEPT;
/* The file is open where the handle says (cheap). */
bool ls_rel_is_open(const ls_rel *rel) LS_NOEXCEPT;
/* A file of that key is open.  Else one without pages on disk never had any. */
bool ls_rel_is_known(ls_store *store, const ls_rel_key *key) LS_NOEXCEPT;
/* Drop all pages without writing them: the file is about to be unlinked or truncated.
 * Idempotent. */
void ls_rel_forget(ls_store *store, const ls_rel_key *key) LS_NOEXCEPT;
/* Write and sync every dirty page of the database, then forget its files: the host is about to
 * copy, move or remove them.  No worker may be using them, nor begin to before the host has
 * finished.  Nothing is lost if it changes its mind. */
LS_NODISCARD ls_status ls_database_close(ls_worker *worker, uint32_t database,
                                         ls_error *err) LS_NOEXCEPT;

typedef struct ls_rel_info {
  uint64_t next_row_id; /* every row id in use is below */
  uint64_t next_place;  /* the next to draw: the same, but for values it goes on over all laps */
  uint64_t pages;       /* 4 KiB pages in use, meta page included */
  uint64_t free_pages;
  uint32_t height;      /* levels, 1 = root is a leaf */
} ls_rel_info;
LS_NODISCARD ls_status ls_rel_get_info(ls_worker *worker, ls_rel *rel, ls_rel_info *info,
                                       ls_error *err) LS_NOEXCEPT;

/* ------------------------------------------------------------ table rows -- */

#define LS_MAX_ROW_ID ((UINT64_C(1) << 40) - 1)
/* None is drawn from here on: the host counts blocks of them, and a start leaves some out. */
#define LS_ROW_IDS_END ((UINT64_C(1) << 40) - (UINT64_C(1) << 24))
#define LS_MAX_ROW_BYTES 3800u /* payload; more is LS_TOO_LARGE */

/* Draw `count` consecutive row ids. */
LS_NODISCARD ls_status ls_row_ids(ls_worker *worker, ls_rel *rel, uint32_t count, uint64_t *first,
                                  ls_error *err) LS_NOEXCEPT;
/* Of those [first, end) were never used: they will be drawn again, if none has been drawn since. */
void ls_row_ids_return(ls_worker *worker, ls_rel *rel, uint64_t first, uint64_t end) LS_NOEXCEPT;

/* No row id below `to` is drawn from now on; of a file of values, no place (ls_rel_info). */
LS_NODISCARD ls_status ls_row_ids_skip(ls_worker *worker, ls_rel *rel, uint64_t to,
                                       ls_error *err) LS_NOEXCEPT;

typedef enum ls_row_flag {
  LS_ROW_GHOST = 1,        /* deleted (by writer_tn) */
  LS_ROW_MOVED = 2,        /* with GHOST: updated into row moved_to */
  LS_ROW_KEYS_CHANGED = 4, /* the change conflicts with FOR KEY SHARE */
  LS_ROW_SPECULATIVE = 8,  /* insertion not confirmed; cid is the token */
  LS_ROW_HAS_PREV = 16,    /* an older version exists in the version store */
  LS_ROW_LOCKED = 32,      /* the lock tree may have entries */
  /* the older versions are those of the row it was copied from (ls_row_insert_copied) */
  LS_ROW_COPIED = 64
} ls_row_flag;

typedef struct ls_row {
  uint64_t row_id;
  uint64_t writer_tn;  /* of the version returned */
  uint32_t cid;        /* of the writer, meaningful while it runs */
  uint32_t seq;        /* the writer's sequence number of the change */
  uint32_t flags;      /* ls_row_flag */
  uint64_t moved_to;   /* row id, with LS_ROW_MOVED */
  const uint8_t *data; /* in the buffer given, or in the scan */
  uint32_t len;
} ls_row;

/* Buffer for one row; the caller provides at least LS_MAX_ROW_BYTES + 64 bytes, 8-aligned. */
#define LS_ROW_BUFFER_BYTES (LS_MAX_ROW_BYTES + 296u)

/* LS_OK, LS_NOT_FOUND (*all_dead: no snapshot will ever see a row here again). */
LS_NODISCARD ls_status ls_row_fetch(ls_worker *worker, ls_rel *rel, uint64_t row_id,
                                    const ls_snapshot *snapshot, uint8_t *buffer, ls_row *row,
                                    bool *all_dead, ls_error *err) LS_NOEXCEPT;

/* Outcome details of a change, as PostgreSQL's TM_FailureData wants them. */
typedef struct ls_conflict {
  uint64_t tn;       /* the writer, or the holder of the lock */
  /* BEING_MODIFIED, LOCKED: which change of the holder (a savepoint may undo it alone) */
  uint32_t seq;
  uint32_t cid;      /* SELF_MODIFIED: when */
  bool moved;        /* UPDATED: the row continues at moved_to (else in place, same id) */
  uint64_t moved_to;
  bool speculative;  /* BEING_MODIFIED: unconfirmed insertion, token in cid */
  bool holds_lock;   /* BEING_MODIFIED, LOCKED: the caller has a weaker lock on the row already */
} ls_conflict;

/* flags: 0 or LS_ROW_SPECULATIVE (then cid is the token). */
LS_NODISCARD ls_status ls_row_insert(ls_worker *worker, ls_rel *rel, uint64_t row_id, uint32_t cid,
                                     uint32_t flags, const uint8_t *data, uint32_t len,
                                     ls_error *err) LS_NOEXCEPT;
/* Rows [first_row_id, first_row_id + count), each leaf latched once.  *inserted: how many are in,
 * on failure too. */
typedef struct ls_bytes {
  const uint8_t *data;
  uint32_t len;
} ls_bytes;
LS_NODISCARD ls_status ls_row_insert_many(ls_worker *worker, ls_rel *rel, uint64_t first_row_id,
                                          uint32_t count, uint32_t cid, const ls_bytes *rows,
                                          uint32_t *inserted, ls_error *err) LS_NOEXCEPT;
/* Insert a row as another file has it, without undo (rewrites into a new file): writer, cid and
 * seq, GHOST, MOVED with moved_to, KEYS_CHANGED, payload.  With HAS_PREV the versions before it
 * stay where they are and are found from both rows; without, it is as if it had always been so. */
LS_NODISCARD ls_status ls_row_insert_copied(ls_worker *worker, ls_rel *rel, uint64_t row_id,
                                            const ls_row *row, ls_error *err) LS_NOEXCEPT;
/* Confirm (real cid) or remove a speculative insertion. */
LS_NODISCARD ls_status ls_row_finish_speculative(ls_worker *worker, ls_rel *rel, uint64_t row_id,
                                                 uint32_t cid, bool keep,
                                                 ls_error *err) LS_NOEXCEPT;

typedef enum ls_lock_mode {
  LS_LOCK_KEY_SHARE = 0,
  LS_LOCK_SHARE,
  LS_LOCK_NO_KEY_UPDATE,
  LS_LOCK_UPDATE
} ls_lock_mode;

/* Common to update, delete and lock: the newest version must be visible to `snapshot` (MVCC), or by
 * us before curcid, or exclusively locked by us; `crosscheck` may be NULL.  LS_OK, SELF_MODIFIED,
 * UPDATED, DELETED, BEING_MODIFIED, LOCKED, INVISIBLE, NOT_FOUND. */
typedef struct ls_change {
  uint64_t row_id;
  const ls_snapshot *snapshot;
  const ls_snapshot *crosscheck;
  uint32_t cid;
  ls_lock_mode mode; /* update, move: NO_KEY_UPDATE, or UPDATE when keys change; delete: UPDATE */
  /* Delete: null, or behind LS_OK the version that was deleted, in `buffer`, one for a row. */
  ls_row *deleted;
  uint8_t *buffer;
} ls_change;

/* Replace in place. */
LS_NODISCARD ls_status ls_row_update(ls_worker *worker, ls_rel *rel, const ls_change *change,
                                     const uint8_t *data, uint32_t len, ls_conflict *conflict,
                                     ls_error *err) LS_NOEXCEPT;
/* Ghost it; moved_to != 0: it continues as that row (inserted by the caller beforehand), and FOR
 * KEY SHARE locks of others with it. */
LS_NODISCARD ls_status ls_row_delete(ls_worker *worker, ls_rel *rel, const ls_change *change,
                                     uint64_t moved_to, ls_conflict *conflict,
                                     ls_error *err) LS_NOEXCEPT;
/* Lock the newest version and return it.  any_version: do not ask whether the snapshot sees it
 * (EvalPlanQual's FIND_LAST_VERSION).  *newer: the version locked is not the one the snapshot
 * sees. */
LS_NODISCARD ls_status ls_row_lock(ls_worker *worker, ls_rel *rel, const ls_change *change,
                                   bool any_version, uint8_t *buffer, ls_row *row, bool *newer,
                                   ls_conflict *conflict, ls_error *err) LS_NOEXCEPT;

/* A transaction that holds a lock on the row, this one before others, and the sequence number of
 * that; LS_NOT_FOUND: none does. */
LS_NODISCARD ls_status ls_row_locker(ls_worker *worker, ls_rel *rel, uint64_t row_id, uint64_t *tn,
                                     uint32_t *seq, ls_error *err) LS_NOEXCEPT;

/* ---------------------------------------------------------------- values -- */

/*
 * Values too large for a row lie in a file of their own (LS_REL_VALUES).  Value v has one row
 * there: v * LS_ROWS_PER_VALUE with the bytes themselves, up to LS_VALUE_IN_ROW_BYTES; or the row
 * behind it with the place of the bytes, which are in pages of a further file of the relation,
 * "path" followed by "_fsm".  The row begins with LS_VALUE_HEAD_BYTES of the host's.  It is
 * inserted and deleted in the transaction that changes the row with the pointer, and undone with
 * it.  Values with the same bytes may have the same pages.  How these files are kept short:
 * leanstore/values.h.
 *
 * A pointer is followed without a snapshot, also where the row that had it is deleted: as long as
 * any snapshot does not see the deletion, the value is there.
 */
#define LS_ROWS_PER_VALUE 256u
#define LS_VALUE_IN_ROW_BYTES 1900u
#define LS_VALUE_HEAD_BYTES 14u
#define LS_MAX_VALUE_BYTES (UINT32_C(1) << 30)
/* Draw `count` consecutive values.  They come round. */
typedef struct ls_value_range {
  uint64_t first;
  bool used; /* drawn before: some may be in use */
} ls_value_range;
LS_NODISCARD ls_status ls_value_ids(ls_worker *worker, ls_rel *rel, uint32_t count,
                                    ls_value_range *values, ls_error *err) LS_NOEXCEPT;
typedef struct ls_new_value {
  uint64_t value_id;
  const uint8_t *data;
  uint32_t bytes;
  bool share; /* pages with another value of the file that has the same bytes */
} ls_new_value;
/* What the host has at the beginning of a value's row: LS_VALUE_HEAD_BYTES before so many bytes of
 * the value (in_row), or of its place.  Of this process, before any call; null: zeros. */
void ls_set_value_head(void (*head)(uint64_t value_id, bool in_row, uint32_t bytes,
                                    uint8_t *out)) LS_NOEXCEPT;
/* LS_NO_SPACE, LS_LIMIT (the file can not get longer), LS_EXISTS. */
LS_NODISCARD ls_status ls_value_insert(ls_worker *worker, ls_rel *rel, const ls_new_value *value,
                                       uint32_t cid, ls_error *err) LS_NOEXCEPT;
typedef struct ls_value_slice {
  uint64_t value_id;
  uint32_t value_bytes; /* of all of it, as the pointer says */
  uint32_t offset, bytes;
} ls_value_slice;
/* LS_NOT_FOUND; LS_CORRUPT: damaged, or of another size. */
LS_NODISCARD ls_status ls_value_read(ls_worker *worker, ls_rel *rel, const ls_value_slice *slice,
                                     uint8_t *out, ls_error *err) LS_NOEXCEPT;
/* Of the slice only value_id and value_bytes count.  The transaction has locked, or changed, the
 * row with the pointer.  LS_OK, LS_NOT_FOUND; any outcome of ls_row_delete that tells of another
 * transaction, or of a deletion before, means that two rows have had the same pointer. */
LS_NODISCARD ls_status ls_value_delete(ls_worker *worker, ls_rel *rel, const ls_value_slice *value,
                                       uint32_t cid, ls_error *err) LS_NOEXCEPT;
/* ls_row_insert_copied for the row of a value in `from`, with its bytes.  LS_NOT_FOUND: it is
 * deleted, and they are gone. */
LS_NODISCARD ls_status ls_value_insert_copied(ls_worker *worker, ls_rel *rel, ls_rel *from,
                                              const ls_row *row, ls_error *err) LS_NOEXCEPT;
/* Reads a value with its row as a scan has met it: LS_CORRUPT unless all of it is there.
 * *value_bytes: its size. */
LS_NODISCARD ls_status ls_value_check(ls_worker *worker, ls_rel *rel, const ls_row *row,
                                      uint32_t *value_bytes, ls_error *err) LS_NOEXCEPT;
/* What all rows of the file say of pages against what is noted of these: LS_CORRUPT.  *compared:
 * false where it could not be, as others changed values all the time, or rows are not counted. */
LS_NODISCARD ls_status ls_value_check_pages(ls_worker *worker, ls_rel *rel, bool *compared,
                                            ls_error *err) LS_NOEXCEPT;

/* ----------------------------------------------------------------- scans -- */

/* Rows with lo <= row id < hi in order.  A scan survives splits, merges and changes by any worker;
 * it holds no latch between calls.  Memory is malloc'ed: close it (resource owner). */
LS_NODISCARD ls_status ls_scan_open(ls_worker *worker, ls_rel *rel, const ls_snapshot *snapshot,
                                    uint64_t lo, uint64_t hi, bool backward, ls_scan **scan,
                                    ls_error *err) LS_NOEXCEPT;
/* The next visible rows, *count of them in the scan's direction: at least one, at most what one
 * leaf has.  They and their data are valid until the next call on the scan.  LS_END.  `running` of
 * the snapshot is copied at open. */
LS_NODISCARD ls_status ls_scan_next(ls_scan *scan, const ls_row **rows, uint32_t *count,
                                    ls_error *err) LS_NOEXCEPT;
/* Where the rows behind those probably are, LS_PAGE_BYTES; null: not known.  To be prefetched, part
 * by part while the rows are looked at: what is there may be anything. */
const void *ls_scan_next_page(ls_scan *scan) LS_NOEXCEPT;
/* The version of one row that the scan's snapshot sees (LS_NOT_FOUND: none), whatever its range.
 * As ls_row_fetch does, but from a copy of the row's leaf, which is kept for the next call: for row
 * ids that come nearly in order.  run: 0, this row alone; 1 or -1, behind it the visible rows that
 * follow in that direction, as ls_scan_next gives them; *count with the one wanted.  A scan serves
 * either these calls or ls_scan_next. */
LS_NODISCARD ls_status ls_scan_fetch(ls_scan *scan, uint64_t row_id, int run, const ls_row **rows,
                                     uint32_t *count, ls_error *err) LS_NOEXCEPT;
/* Turn around at the row `from`, one of those that the last call returned: the next one returns
 * what is before/after it.  After LS_END: what is at the end that was reached. */
void ls_scan_set_backward(ls_scan *scan, bool backward, uint64_t from) LS_NOEXCEPT;
/* Reposition on a new range, same snapshot. */
void ls_scan_rescan(ls_scan *scan, uint64_t lo, uint64_t hi, bool backward) LS_NOEXCEPT;
void ls_scan_close(ls_scan *scan) LS_NOEXCEPT;

/* ------------------------------------------------- files of other stores -- */

/*
 * The rows in the file of a table that another store has written (LS_FOREIGN to ls_rel_open): the
 * newest version of each that is not deleted, by any writer.  Nothing is changed in that file, and
 * no other process may do so meanwhile.  Memory is malloc'ed: close it, before the worker detaches.
 */
typedef struct ls_foreign ls_foreign;
/* path, kind: as for ls_rel_open, of a file with rows.  LS_NOT_ADOPTABLE. */
LS_NODISCARD ls_status ls_foreign_open(ls_worker *worker, const char *path, ls_rel_kind kind,
                                       ls_foreign **foreign, ls_error *err) LS_NOEXCEPT;
/* The rows of the next leaf, in order of their ids, perhaps none; row_id, data and len are set.
 * Valid until the next call.  LS_END; LS_CORRUPT names the page, again if called again. */
LS_NODISCARD ls_status ls_foreign_next(ls_foreign *foreign, const ls_row **rows,
                                       uint32_t *count, ls_error *err) LS_NOEXCEPT;
/* A value, with its row as ls_foreign_next has given it (cid is the caller's), into a new file
 * under its number. */
LS_NODISCARD ls_status ls_foreign_value(ls_foreign *foreign, ls_worker *worker, ls_rel *rel,
                                        const ls_row *row, ls_error *err) LS_NOEXCEPT;
void ls_foreign_close(ls_foreign *foreign) LS_NOEXCEPT;

/* --------------------------------------------------------- index entries -- */

/*
 * An index is a tree of entries in memcmp order of  key | row id (5 bytes, big endian).  The key is
 * what the host made of the indexed values: keys of one index are compared with memcmp, equal
 * exactly when the values are, and none is a prefix of another.  Behind it lies the entry's
 * payload, which the engine does not look at (INCLUDE columns).
 *
 * Entries have no versions: whether one counts is asked of its row.  An insertion is durable with
 * its transaction, but rolling it back leaves the entry behind; like the entry of a deleted row it
 * is dead once no snapshot will ever see a row under its row id (row ids are not used again), and
 * goes when its leaf is full, when a host that met it says so, and in ls_index_sweep.
 *
 * `table` is where the row ids point to; both handles of one call belong to files of the same
 * database.
 */
#define LS_MAX_KEY_BYTES 1300u         /* without the row id */
#define LS_ENTRY_ROW_ID_BYTES 5u
/* What fits beside a key: LS_TOO_LARGE beyond.  With a short key about 3,900 bytes. */
uint32_t ls_index_max_payload(uint32_t key_bytes) LS_NOEXCEPT;

typedef struct ls_index_entry {
  uint64_t row_id;
  ls_bytes key;      /* without row id; of a scan's it and payload are valid until its next call */
  ls_bytes payload;
} ls_index_entry;

/* In an open transaction (else LS_INVALID).  LS_EXISTS: this very entry is there already. */
LS_NODISCARD ls_status ls_index_insert(ls_worker *worker, ls_rel *index, ls_rel *table,
                                       ls_bytes key, uint64_t row_id, ls_bytes payload,
                                       ls_error *err) LS_NOEXCEPT;
/* Insert unless an entry with an equal key is there with a row id that is not among `ignore` (no
 * order): then LS_EXISTS and its row id in *other.  The host looks at that row: a conflict; or a
 * transaction to wait for, and the call is made again; or a row that is gone for good (or deleted
 * by this very transaction), and the call is made again with it in `ignore`.  Decided in one step:
 * of two concurrent insertions of equal keys one meets the other. */
LS_NODISCARD ls_status ls_index_insert_unique(ls_worker *worker, ls_rel *index, ls_rel *table,
                                              ls_bytes key, uint64_t row_id, ls_bytes payload,
                                              const uint64_t *ignore, uint32_t n_ignore,
                                              uint64_t *other, ls_error *err) LS_NOEXCEPT;
/* Remove an entry (key and row_id) that the host knows to be dead; absent is fine. */
LS_NODISCARD ls_status ls_index_remove(ls_worker *worker, ls_rel *index, ls_rel *table,
                                       const ls_index_entry *entry, ls_error *err) LS_NOEXCEPT;
/*
 * Stale entries: a host may give a row another key under its row id, and insert an entry for that.
 * The old entry stays for snapshots that see the old version, and has to be told from those of the
 * key that a version has: by the host, in every scan, once the index has been marked.  Mark it
 * before the row is changed; the mark stays with the file.
 *
 * To remove one: look at it (LS_NOT_FOUND: it is gone), find out that no version has the key that a
 * snapshot may see or a rollback may bring back, remove it as seen.  *removed false: something has
 * changed in its leaf, perhaps it was inserted again.  newest, for standbys: no snapshot that sees
 * all transactions up to this TN as ended needs the entry; 0: the row is not there.
 */
typedef struct ls_index_seen {
  void *leaf;
  uint64_t version;
} ls_index_seen;
LS_NODISCARD ls_status ls_index_note_stale(ls_worker *worker, ls_rel *index,
                                           ls_error *err) LS_NOEXCEPT;
bool ls_index_may_be_stale(const ls_rel *index) LS_NOEXCEPT; /* true: it is, or that is not known */
LS_NODISCARD ls_status ls_index_look(ls_worker *worker, ls_rel *index, ls_bytes key,
                                     uint64_t row_id, ls_index_seen *seen,
                                     ls_error *err) LS_NOEXCEPT;
LS_NODISCARD ls_status ls_index_remove_seen(ls_worker *worker, ls_rel *index, ls_bytes key,
                                            uint64_t row_id, const ls_index_seen *seen,
                                            uint64_t newest, bool *removed,
                                            ls_error *err) LS_NOEXCEPT;
/* Which rows of a table there are, as sweeps of its indexes find out: then they do not look up each
 * row for each entry.  Memory of the caller's, for sweeps that follow each other. */
typedef struct ls_rows_there {
  uint64_t *bits; /* zeros at first */
  uint64_t end;   /* there is a bit for each row below */
  uint64_t gone;  /* rows, before the first was noted */
  bool begun;
} ls_rows_there;
/* Look at up to max_leaves leaves from *position on (zero-initialised: the first) and remove what
 * is dead.  LS_END when the last leaf was among them, LS_OK: call again.
 * *entries, *removed: how many this call has left and removed. */
typedef struct ls_index_position {
  ls_rows_there *there; /* in; may be null */
  uint64_t gone;        /* rows, when the sweep began */
  bool begun;
  uint32_t len;
  uint8_t key[LS_MAX_KEY_BYTES + LS_ENTRY_ROW_ID_BYTES];
} ls_index_position;
LS_NODISCARD ls_status ls_index_sweep(ls_worker *worker, ls_rel *index, ls_rel *table,
                                      uint32_t max_leaves, ls_index_position *position,
                                      uint64_t *entries, uint64_t *removed,
                                      ls_error *err) LS_NOEXCEPT;

/* How many rows of the table have gone since the last whole sweep; UINT64_MAX: not known. */
LS_NODISCARD ls_status ls_index_rows_gone(ls_worker *worker, ls_rel *index, ls_rel *table,
                                          uint64_t *gone, ls_error *err) LS_NOEXCEPT;

/*
 * Scans: entries with  from <= key | row id < to  in memcmp order, either way.  A bound is any byte
 * string: a key's prefix stands before everything that begins with it; `to` with data == NULL is
 * the end, an empty `from` the beginning.  What a scan returns next was copied from its leaf at
 * some moment since the scan came there; splits and merges by others make it miss or repeat
 * nothing.  No latch between calls.  Memory is malloc'ed: close it (resource owner).
 */
typedef struct ls_index_scan ls_index_scan;
LS_NODISCARD ls_status ls_index_scan_open(ls_worker *worker, ls_rel *index, ls_index_scan **scan,
                                          ls_error *err) LS_NOEXCEPT;
/* Begin (again) on a range, before its first entry in that direction.  The bounds are copied. */
LS_NODISCARD ls_status ls_index_scan_range(ls_index_scan *scan, ls_bytes from, ls_bytes to,
                                           bool backward, ls_error *err) LS_NOEXCEPT;
/* LS_OK, LS_END (again and again until the scan turns around). */
LS_NODISCARD ls_status ls_index_scan_next(ls_index_scan *scan, ls_index_entry *entry,
                                          ls_error *err) LS_NOEXCEPT;
/* Look ahead without moving: the rows of the entries that the next calls return, at most `max` and
 * only as far as they have been copied.  A caller that takes them moves the scan over `n` of them
 * (1 .. *count) before anything else is asked of it; *entry: the last one. */
LS_NODISCARD ls_status ls_index_scan_ahead(ls_index_scan *scan, uint64_t *rows, uint32_t max,
                                           uint32_t *count, ls_error *err) LS_NOEXCEPT;
LS_NODISCARD ls_status ls_index_scan_skip(ls_index_scan *scan, uint32_t n, ls_index_entry *entry,
                                          ls_error *err) LS_NOEXCEPT;
/* As many calls of ls_index_scan_next in one as their entries are copied already and the batch has
 * room for: LS_OK, at least one; LS_END.  They are valid until the next call but
 * ls_index_scan_give_back: the last n of them, and not all, are as if they had not been returned.
 * What a batch says of visibility stays so for the snapshots that existed when it was taken. */
#define LS_BATCH_ENTRIES 64
#define LS_BATCH_KEY_BYTES 4096
typedef struct ls_batch_entry {
  ls_index_entry entry;
  bool same_key; /* as the one before it in the batch; then it is the same bytes */
  bool visible;  /* every snapshot sees the entry's row, with its key; false: that is not known */
} ls_batch_entry;
typedef struct ls_index_batch {
  uint32_t count;
  ls_batch_entry entries[LS_BATCH_ENTRIES];
  uint8_t keys[LS_BATCH_KEY_BYTES];
} ls_index_batch;
LS_NODISCARD ls_status ls_index_scan_take(ls_index_scan *scan, ls_index_batch *batch,
                                          ls_error *err) LS_NOEXCEPT;
void ls_index_scan_give_back(ls_index_scan *scan, uint32_t n) LS_NOEXCEPT;
/* Turn around: the next call returns the neighbour of the entry last returned; after LS_END the
 * entry at that end. */
void ls_index_scan_set_backward(ls_index_scan *scan, bool backward) LS_NOEXCEPT;
/* Within the range, go on as if `position` (key | row id, or any byte string) had just been
 * returned: forward with the first entry behind it, backward with the last before it.  Cheap when
 * that is in the same leaf. */
LS_NODISCARD ls_status ls_index_scan_seek(ls_index_scan *scan, ls_bytes position,
                                          ls_error *err) LS_NOEXCEPT;
/* For a host that locks what it reads, and learns what that is by reading ahead.  Remember where
 * the scan stands; later, with the locks, go back there: true if everything since it began or
 * sought came from one leaf that has not changed since it was copied.  *entry: the one it stands
 * on, unless that is an end of the range.  False: begin again. */
void ls_index_scan_mark(ls_index_scan *scan) LS_NOEXCEPT;
LS_NODISCARD bool ls_index_scan_confirm(ls_index_scan *scan, ls_index_entry *entry) LS_NOEXCEPT;
/* For searches by an order that only the host can tell: some entry of the range, about in the
 * middle of its entries.  LS_END: it has none (at one moment of the call).  Afterwards the scan has
 * no place: ls_index_scan_range gives it one. */
LS_NODISCARD ls_status ls_index_scan_middle(ls_index_scan *scan, ls_bytes from, ls_bytes to,
                                            ls_index_entry *entry, ls_error *err) LS_NOEXCEPT;
/* For ls_row_vouched: about the entry last returned. */
uint64_t ls_index_scan_vouches(const ls_index_scan *scan) LS_NOEXCEPT;
/* How often it went down the tree from the root to begin or to seek, since it was opened (not: on
 * to the next leaf). */
uint64_t ls_index_scan_searches(const ls_index_scan *scan) LS_NOEXCEPT;
void ls_index_scan_close(ls_index_scan *scan) LS_NOEXCEPT;

/* Build a new, empty index from entries in ascending order: leaves are filled to fill_percent
 * (10..100) and written to the log once, whole.  No other worker may use the index before
 * ls_index_build_finish.  Given up halfway (ls_index_build_abandon), the file is good for nothing
 * but being forgotten. */
typedef struct ls_index_build ls_index_build;
LS_NODISCARD ls_status ls_index_build_open(ls_worker *worker, ls_rel *index, uint32_t fill_percent,
                                           ls_index_build **build, ls_error *err) LS_NOEXCEPT;
/* entry: key | row id as one string, greater than the one before (LS_INVALID otherwise). */
LS_NODISCARD ls_status ls_index_build_add(ls_index_build *build, ls_bytes entry, ls_bytes payload,
                                          ls_error *err) LS_NOEXCEPT;
/* Frees `build`, unless it is LS_INTERRUPTED: to be called again, or given up.  Entries are no
 * transaction's: before its own commit record is durable the host hardens what was logged
 * (ls_txn_prepare_commit; with host_log, before that record is inserted, ls_txn_write_out). */
LS_NODISCARD ls_status ls_index_build_finish(ls_index_build *build, ls_error *err) LS_NOEXCEPT;
void ls_index_build_abandon(ls_index_build *build) LS_NOEXCEPT;

/* ----------------------------------------------------------- range locks -- */

/*
 * Locks on ranges of keys, for SERIALIZABLE (docs/concurrency.md; "Concurrent Range Locking",
 * chapters 4 and 5).  A range is from <= key < to in memcmp order within one tree (`to` with data
 * == NULL: no upper bound); trees are told apart by their file.  Shared ranges may overlap, an
 * exclusive one overlaps no range of another owner.  Ranges of one owner never conflict: locking
 * again is free, shared becomes exclusive when no other owner is in the way (an upgrade waits like
 * any request).
 *
 * An owner is a transaction of the host: the slot of the worker that began it, and a number that no
 * other transaction of the slot has had.  Any worker may lock for it (parallel workers lock for
 * their leader); its end releases everything at once.
 *
 * Requests that conflict are served in the order in which they were made.  The engine does not
 * wait: LS_LOCKED leaves the request in the queue and names an owner in the way; the host waits for
 * that owner's end (so that its deadlock detector sees it) and makes the same call again, or
 * withdraws.
 */
typedef enum ls_range_mode { LS_RANGE_SHARED = 1, LS_RANGE_EXCLUSIVE = 2 } ls_range_mode;

typedef struct ls_range_owner {
  uint32_t slot;
  uint32_t number; /* not 0 */
} ls_range_owner;

/* LS_OK: granted until ls_range_unlock_all.  LS_LOCKED: *holder is in the way.  LS_RANGE_MEMORY:
 * out of memory for locks, even after ranges of this owner have been coalesced. */
LS_NODISCARD ls_status ls_range_lock(ls_worker *worker, const ls_rel_key *tree, ls_bytes from,
                                     ls_bytes to, ls_range_mode mode, ls_range_owner owner,
                                     ls_range_owner *holder, ls_error *err) LS_NOEXCEPT;
/* Take the request that this worker was told to wait for out of the queue.  Nothing queued is
 * fine. */
void ls_range_withdraw(ls_worker *worker) LS_NOEXCEPT;
/* Release every range of the owner; its workers make no request any more. */
void ls_range_unlock_all(ls_worker *worker, ls_range_owner owner) LS_NOEXCEPT;

/* What is locked now, for a view: up to `cap` ranges in no order; returns how many there are.  Keys
 * are cut at 32 bytes. */
typedef struct ls_range_info {
  ls_rel_key tree;
  ls_range_owner owner;
  ls_range_mode mode;
  bool granted;
  bool to_end;            /* no upper bound */
  uint8_t from_len, to_len;
  uint8_t from[32], to[32];
} ls_range_info;
size_t ls_range_list(const ls_store *store, ls_range_info *out, size_t cap) LS_NOEXCEPT;

/* -------------------------------------------------- statistics, checking -- */

typedef struct ls_stats {
  uint64_t pages_read, pages_written, pages_evicted, frames_total, frames_free, frames_dirty;
  uint64_t page_hits; /* resolves that found the page in memory, inner nodes not counted */
  uint64_t log_bytes, log_flushes, log_fsyncs, log_fsync_ns, log_commits, log_position,
      log_durable_gsn;
  /* written, but to be acknowledged only with a record of another slot that a later round has */
  uint64_t log_commits_held;
  uint64_t log_segments;     /* files */
  /* Commits of workers that count dependencies; of them those that used a page, or a row, with a
   * last change by another worker that was not durable. */
  uint64_t log_counted, log_remote_by_page, log_remote_by_transaction;
  uint64_t checkpoints, log_redo_position;
  uint64_t undo_failures; /* checkpoints that could not write undo files and kept the log instead */
  uint64_t versions_written, versions_removed, ghosts_removed, row_locks;
  uint64_t splits, merges, restarts;
  /* of leaves that are not in memory: ever, and now */
  uint64_t change_buffer_inserts, change_buffer_pending;
  uint64_t compressed_hits; /* leaves that were found compressed in memory instead of being read */
  /* now, of them those that the file does not have yet, the frames that hold them */
  uint64_t compressed_pages, compressed_dirty_pages, compressed_frames;
  uint64_t files_open, files_max; /* relations that are open now, and may be at a time */
  uint64_t files_closed;          /* ever, so that others could be opened */
  uint64_t index_entries_removed; /* dead ones */
} ls_stats;
void ls_store_stats(const ls_store *store, ls_stats *stats) LS_NOEXCEPT;
/* Version of the files that are written; *oldest: of those that a clean store may have. */
uint32_t ls_file_version(uint32_t *oldest) LS_NOEXCEPT;
/* ls_stats.undo_failures, and why the last one failed. */
uint64_t ls_undo_failures(const ls_store *store, ls_error *last) LS_NOEXCEPT;

/*
 * Called by this process while it waits long for others, about once a second, by the thread that
 * waits and with whatever that holds: it ends the process when no process is left that could end
 * the wait, or returns.  Null: nothing is called.
 */
void ls_watch_host(void (*watch)(void)) LS_NOEXCEPT;

/*
 * What is in the log on disk, record by record, while the store runs.  `from`: where a round begins
 * (log_redo_position); rounds that begin at `to` or later are left out.  Memory is malloc'ed: close
 * it.
 */
typedef struct ls_log_scan ls_log_scan;
typedef struct ls_log_item {   /* a page operation, or a record without any */
  uint64_t position;     /* of the round */
  uint64_t gsn, run;
  /* of the transaction; 0: none, or not known because it began before `from` */
  uint64_t tn;
  uint32_t slot;
  uint32_t bytes;        /* of the record */
  const char *kind;      /* of the record; static, as is the next */
  const char *operation; /* NULL: none */
  uint32_t page;         /* UINT32_MAX: none */
  uint32_t operand_bytes;
  uint64_t file_no;      /* 0: none */
  bool has_file;         /* the relation of file_no is known */
  ls_rel_key file;
} ls_log_item;
LS_NODISCARD ls_status ls_log_scan_open(ls_store *store, uint64_t from, uint64_t to,
                                        ls_log_scan **scan, ls_error *err) LS_NOEXCEPT;
/* LS_OK, LS_END; LS_CORRUPT: no round begins here, be it damaged or truncated away meanwhile. */
LS_NODISCARD ls_status ls_log_scan_next(ls_log_scan *scan, ls_log_item *item,
                                        ls_error *err) LS_NOEXCEPT;
void ls_log_scan_close(ls_log_scan *scan) LS_NOEXCEPT;

/* Remove the rows that are deleted for every snapshot from the leaf around row_id, and merge it
 * with a neighbour if little is left. *end_row: the leaf's rows are below. For VACUUM; mostly it
 * happens by itself. */
LS_NODISCARD ls_status ls_rel_purge(ls_worker *worker, ls_rel *rel, uint64_t row_id,
                                    uint64_t *end_row, ls_error *err) LS_NOEXCEPT;

/* VACUUM of a table, some of its rows at a time: removes the rows that are deleted for every
 * snapshot where something has changed since the last time, and counts. What a call has found, and
 * where the next one goes on: the caller adds up. */
typedef struct ls_vacuum {
  uint64_t below;    /* in: transactions below are seen by all snapshots, and durable */
  uint64_t end_row;  /* in: all rows are below */
  bool all;          /* in: also where nothing has changed */
  uint64_t next_row; /* in and out; 0: the first. end_row or more: that was all */
  /* There are changes by transactions below `below` that the engine's horizon has not passed yet:
   * the same call, made again when it has, can do more. */
  bool waits;
  uint64_t rows, ghosts;    /* there are; ghosts: deleted, but a snapshot may see them */
  uint64_t blocks;          /* of rows */
  uint64_t looked_at;       /* of them: the others were known, and are as they were */
  uint64_t clean;           /* of them: all rows are old */
  uint64_t not_vouched;     /* of them: not LS_ROWS_VOUCHED */
  uint64_t visible;         /* of them: LS_ROWS_VISIBLE */
  uint64_t rows_looked_at, bytes; /* rows of blocks that were looked at, and of what length */
} ls_vacuum;
LS_NODISCARD ls_status ls_rel_vacuum(ls_worker *worker, ls_rel *rel, ls_vacuum *state,
                                     ls_error *err) LS_NOEXCEPT;
/* Since ls_rel_vacuum has come to the end every index of the table has been cleaned: of entries of
 * rows that were gone, and of stale ones, but for rows of LS_ROWS_VOUCHED. No other VACUUM of the
 * table runs. */
LS_NODISCARD ls_status ls_rel_vouch(ls_worker *worker, ls_rel *rel, ls_error *err) LS_NOEXCEPT;
/* What is known of a row and its neighbours; false: that is not. It stays so for the snapshots that
 * exist when it is asked. */
typedef enum ls_row_fact {
  LS_ROWS_CLEAN = 1, /* none is deleted, or has versions that only some snapshots see */
  LS_ROWS_FULL,      /* the same, and there is a row under each id */
  LS_ROWS_VOUCHED,   /* clean, and each entry that an index has leads to a row with its key */
  LS_ROWS_VISIBLE    /* LS_ROWS_FULL or LS_ROWS_VOUCHED */
} ls_row_fact;
bool ls_row_known(const ls_store *store, const ls_rel *rel, uint64_t row_id,
                  ls_row_fact fact) LS_NOEXCEPT;
/* LS_ROWS_VOUCHED, for an entry that a scan of an index has returned, which the index may not have
 * any more.  vouches: ls_index_scan_vouches, asked when the entry was returned. */
bool ls_row_vouched(const ls_store *store, const ls_rel *rel, uint64_t row_id,
                    uint64_t vouches) LS_NOEXCEPT;
/* Look at the row's neighbours: true if LS_ROWS_FULL is known now, and was not before. */
bool ls_rows_look_around(ls_worker *worker, ls_rel *rel, uint64_t row_id) LS_NOEXCEPT;
/* For those: a row is there; note it, and others of its leaf. */
LS_NODISCARD ls_status ls_rows_note_there(ls_worker *worker, ls_rel *rel, uint64_t row_id,
                                          ls_rows_there *there, ls_error *err) LS_NOEXCEPT;
/* How many rows have gone since the host's own indexes were last cleaned of their entries, that is
 * since ls_rows_swept; UINT64_MAX: that is not known. *mark: for that, when they are clean of those
 * that have gone so far. */
LS_NODISCARD ls_status ls_rows_gone(ls_worker *worker, ls_rel *rel, uint64_t *gone, uint64_t *mark,
                                    ls_error *err) LS_NOEXCEPT;
LS_NODISCARD ls_status ls_rows_swept(ls_worker *worker, ls_rel *rel, uint64_t mark,
                                     ls_error *err) LS_NOEXCEPT;

/* Give free pages at the end of the file back to the file system. Pages of 4 KiB that the file has
 * before and after; look: would have, it stays as it is. Also where others work on the relation,
 * but then perhaps nothing is done. */
LS_NODISCARD ls_status ls_rel_cut(ls_worker *worker, ls_rel *rel, bool look, uint64_t *before,
                                  uint64_t *after, ls_error *err) LS_NOEXCEPT;

typedef struct ls_check_result {
  uint64_t pages, leaf_pages, inner_pages, free_pages, rows, ghosts, versions;
} ls_check_result;
/* Verify every invariant of the relation's tree: order, fences, counts, swips, page ownership,
 * versions. */
LS_NODISCARD ls_status ls_rel_check(ls_worker *worker, ls_rel *rel, ls_check_result *result,
                                    ls_error *err) LS_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif /* LEANSTORE_ENGINE_H */
