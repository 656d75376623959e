/*
 * ls_serializable.h - SERIALIZABLE on leanstore tables (docs/serializable.md).
 *
 * A transaction locks the ranges of row ids and index entries that it reads
 * (shared) and writes (exclusive), keeps them to its end, and fails when one holds
 * something newer than its snapshot.
 */
#ifndef LS_SERIALIZABLE_H
#define LS_SERIALIZABLE_H

#include "ls.h"

#include "executor/executor.h"

extern Size ls_serializable_shmem_size(void);
extern void ls_serializable_shmem_init(void);
/* Returned is the place of what its ExecutorStart_hook calls. */
extern ExecutorStart_hook_type *ls_serializable_install_hooks(void);

/* Behind every row id, as the upper bound of a range. */
#define LS_ROWS_END ((uint64) LS_MAX_ROW_ID + 1)

/* ---- what to lock */

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
	return unlikely(XactIsoLevel == XACT_SERIALIZABLE) && snapshot != NULL && IsMVCCSnapshot(snapshot) &&
		ls_locks_in(rel);
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

/* ---- events of transactions (ls_xact.c) */
extern void ls_serializable_start_sub(void);
extern void ls_serializable_before_prepare(void);

/* After the effects have become visible, or were undone. */
extern void ls_serializable_at_eoxact(void);
extern void ls_serializable_at_worker_abort(void);

/* ---- ls_serializable_mixed.c: together with tables that the server tracks itself */
extern Size ls_mixed_shmem_size(void);
extern void ls_mixed_shmem_init(void);

/* The transaction is about to commit.  wrote: something in leanstore tables. */
extern void ls_mixed_before_commit(bool wrote);
extern void ls_mixed_at_eoxact(void);

#endif							/* LS_SERIALIZABLE_H */
