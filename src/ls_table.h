/*
 * ls_table.h - what the files of the table access method share.
 *
 * The callbacks carry their slot's name in TableAmRoutine; ls_table_handler.c
 * lists them, src/README.md says which file holds which.
 */
#ifndef LS_TABLE_H
#define LS_TABLE_H

#include "ls.h"

#include "access/relscan.h"
#include "access/skey.h"
#include "access/tableam.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/tidbitmap.h"

struct VacuumParams;
struct ValidateIndexState;

/* ---- ls_pages.c */
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
 * An engine call whose waits an interrupt ends: serve it (which usually does not
 * return) and call again.  Where interrupts are held off, as in an index access
 * method that has a page locked, the waits are not ended.  Calls made without
 * these, those of commit and rollback above all, cannot be interrupted.
 */
static inline void
ls_interruptible(bool on)
{
	if (unlikely(ls_interrupt == NULL))
		(void) ls_reader();
	*ls_interrupt = on && INTERRUPTS_CAN_BE_PROCESSED() ? (const volatile int *) &InterruptPending : NULL;
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

/* The row id that says "moved to another partition" in place of a row. */
#define LS_MOVED_PARTITIONS LS_MAX_ROW_ID

/* Row ids whose TID would be in InvalidBlockNumber are never handed out. */
#define LS_LAST_ROW_ID ((uint64) InvalidBlockNumber * LS_ROWS_PER_BLOCK)
StaticAssertDecl(LS_ROW_IDS_END <= LS_LAST_ROW_ID, "row ids without a TID are drawn");

/* Blocks of the row ids below end_row: a table that never had a row has none. */
static inline uint64
ls_end_row_to_blocks(uint64 end_row)
{
	return (end_row - 1 + LS_ROWS_PER_BLOCK - 1) / LS_ROWS_PER_BLOCK;
}

/* The first row of a logical block; also one past the last of the block before. */
static inline uint64
ls_block_to_row(BlockNumber block)
{
	return (uint64) block * LS_ROWS_PER_BLOCK + 1;
}

/*
 * A mark in the TIDs that the executor holds while it changes a row: it has locked
 * the newest version and works on that (ls_table_versions.c).  Never stored, never
 * seen by a user.
 */
#define LS_NEWEST_MARK 0x0400

static inline bool
ls_tid_is_marked(const ItemPointerData *tid)
{
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);

	return offset > LS_NEWEST_MARK && offset <= LS_NEWEST_MARK + LS_ROWS_PER_BLOCK;
}

static inline void
ls_tid_mark_newest(uint64 row_id, ItemPointer tid)
{
	ls_row_to_tid(row_id, tid);
	ItemPointerSetOffsetNumber(tid, ItemPointerGetOffsetNumberNoCheck(tid) + LS_NEWEST_MARK);
}

static inline uint64
ls_marked_tid_to_row(const ItemPointerData *tid)
{
	return ls_tid_to_row(tid) - (ls_tid_is_marked(tid) ? LS_NEWEST_MARK : 0);
}

/* ---- ls_table_scan.c */

/*
 * A scan.  The engine's scan is opened by the first row wanted: EXPLAIN and
 * plan nodes that are never run cost nothing, and what it holds belongs to the
 * resource owner of the execution.
 */
typedef struct LsScanDesc
{
	TableScanDescData base;

	ls_scan    *engine;			/* NULL: not opened */
	uint64		own_tn;			/* of the snapshot the engine's scan copied */
	uint32		curcid;
	bool		positioned;		/* the engine's scan is on the range wanted */
	bool		backward;
	bool		at_end;			/* in the present direction */
	bool		locks;			/* what it reads (SERIALIZABLE) */

	const ls_row *rows;			/* what the engine has given last, */
	uint32		n_rows;
	uint32		next_row;		/* and the first of it that nobody has got yet */

	uint64		lo;				/* rows asked for: lo <= row id < hi */
	uint64		hi;
	uint64		end_row;		/* next row id at the start, 0: not known yet */
	uint64		newer_due;		/* with a dirty snapshot: for ls_fetch_dirty() */

	/* parallel scan: the chunk this process is reading */
	bool		parallel_started;
	ParallelBlockTableScanWorkerData parallel;
	uint64		chunk_lo;
	uint64		chunk_hi;

	/* sample, analyze and bitmap scans: the logical block they are on */
	BlockNumber block;
	ls_row		pending;		/* read from the engine, not yet asked for */
	bool		has_pending;
	OffsetNumber *offsets;		/* bitmap scan: what the bitmap says */
	int			noffsets;
	int			next_offset;
	bool		whole_range;	/* read the block by scan, not row by row */
} LsScanDesc;

extern TableScanDesc ls_scan_begin(Relation rel, Snapshot snapshot, int nkeys,
								   ScanKeyData *key, ParallelTableScanDesc pscan, uint32 flags);
extern LsScanDesc *ls_scan_create(Relation rel, Snapshot snapshot, uint32 flags);
extern void ls_scan_end(TableScanDesc sscan);
extern void ls_scan_rescan_table(TableScanDesc sscan, ScanKeyData *key, bool set_params,
								 bool allow_strat, bool allow_sync, bool allow_pagemode);
extern bool ls_scan_getnextslot(TableScanDesc sscan, ScanDirection direction, TupleTableSlot *slot);
extern void ls_scan_set_tidrange(TableScanDesc sscan, ItemPointer mintid, ItemPointer maxtid);
extern bool ls_scan_getnextslot_tidrange(TableScanDesc sscan, ScanDirection direction, TupleTableSlot *slot);
extern Size ls_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan);

/* The next row of the scan, as the engine gives it; false at the end. */
extern bool ls_scan_row(LsScanDesc *scan, bool backward, ls_row *row);

/* Rows lo <= row id < hi from now on, in ascending order. */
extern void ls_scan_range(LsScanDesc *scan, uint64 lo, uint64 hi);

/* Logical blocks of the relation as of the start of the scan. */
extern BlockNumber ls_scan_blocks(LsScanDesc *scan);
extern uint64 ls_scan_end_row(LsScanDesc *scan);

/* Every row id in use is below. */
extern uint64 ls_end_row(Relation rel);

/* The engine's view of the scan's snapshot; valid until the next conversion. */
extern const ls_snapshot *ls_scan_snapshot(LsScanDesc *scan);

/* ---- ls_table_fetch.c */
extern bool ls_fetch(Relation rel, uint64 row_id, const ls_snapshot *snapshot, uint8 *buffer,
					 ls_row *row, bool *all_dead);
extern bool ls_fetch_newest(Relation rel, uint64 row_id, uint8 *buffer, ls_row *row);
extern bool ls_fetch_committed(Relation rel, uint64 row_id, uint8 *buffer, ls_row *row);
extern bool ls_fetch_dirty(Relation rel, uint64 row_id, Snapshot snapshot, uint64 *newer_due,
						   uint8 *buffer, ls_row *row, bool *all_dead);

/* Is a row that the engine still has gone for everybody? */
extern bool ls_row_is_dead(const ls_row *row);

extern struct IndexFetchTableData *ls_index_fetch_begin(Relation rel);

/* It fetches for a leanstore index, which locks the ranges that it reads (SERIALIZABLE). */
extern void ls_index_fetch_note_locks(struct IndexFetchTableData *scan);

/* It fetches for a scan of a leanstore index whose entries may be stale. */
struct LsIndexScan;
extern void ls_index_fetch_note_scan(struct IndexFetchTableData *scan, struct LsIndexScan *entries);
extern void ls_index_fetch_reset(struct IndexFetchTableData *scan);
extern void ls_index_fetch_end(struct IndexFetchTableData *scan);
extern bool ls_index_fetch_tuple(struct IndexFetchTableData *scan, ItemPointer tid, Snapshot snapshot,
								 TupleTableSlot *slot, bool *call_again, bool *all_dead);
extern bool ls_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot,
									   TupleTableSlot *slot);
extern bool ls_tuple_tid_valid(TableScanDesc sscan, ItemPointer tid);
extern void ls_tuple_get_latest_tid(TableScanDesc sscan, ItemPointer tid);
extern bool ls_tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot);
extern TransactionId ls_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate);

/* ---- ls_table_versions.c */

/* A walk over a row's versions behind the newest. */
typedef struct LsVersionWalk
{
	Relation	rel;
	uint64		row_id;
	uint64		horizon;
	ls_row		at;				/* the version last met; its data may be gone */
	uint64	   *writers;		/* of it and those before, ascending */
	uint32		n;
	uint32		capacity;
} LsVersionWalk;

extern void ls_versions_begin(LsVersionWalk *walk, Relation rel, const ls_row *newest, uint64 horizon);
extern bool ls_versions_next(LsVersionWalk *walk, uint8 *buffer, ls_row *version);
extern void ls_versions_end(LsVersionWalk *walk);

/*
 * The row last updated in place by this backend: the executor asks for "the
 * tuple at this TID" once more when it wants the old version for AFTER triggers
 * and transition tables.  Any other access to a table forgets it.
 */
typedef struct LsSuperseded
{
	Oid			relid;			/* InvalidOid: none */
	CommandId	cid;
	uint64		row_id;
} LsSuperseded;

extern LsSuperseded ls_superseded;

/*
 * The row last moved by this backend: whoever inserts an entry for `to` need not ask
 * whether `from`, which has the same key as a rule, still counts.  Row ids begin anew when a table is
 * truncated, so it holds for one command.
 */
typedef struct LsMoved
{
	Oid			relid;
	CommandId	cid;
	uint64		tn;
	uint64		from;
	uint64		to;
} LsMoved;

extern LsMoved ls_moved;

/* The row last found by a dirty snapshot: ON CONFLICT is about to lock it. */
typedef struct LsDirtyMatch
{
	Oid			relid;			/* InvalidOid: none */
	uint64		row_id;
} LsDirtyMatch;

extern LsDirtyMatch ls_dirty_match;

/* The row last locked by ON CONFLICT DO UPDATE, which goes on to update it. */
typedef struct LsConflictLock
{
	uint64		row_id;
	uint64		own_tn;			/* 0: none */
	Oid			relid;
	CommandId	cid;
} LsConflictLock;

extern LsConflictLock ls_conflict_lock;

static inline bool
ls_is_conflict_lock(Relation rel, uint64 row_id, CommandId cid)
{
	return ls_conflict_lock.row_id == row_id && ls_conflict_lock.relid == RelationGetRelid(rel) &&
		ls_conflict_lock.cid == cid && ls_conflict_lock.own_tn == ls_own_tn();
}

/* Called by whatever else is done to a table. */
static inline void
ls_forget_recent(void)
{
	ls_superseded.relid = InvalidOid;
	ls_dirty_match.relid = InvalidOid;
}

/* Rows locked by this transaction in a version that the query's snapshot does not see. */
extern void ls_note_locked_newer(Relation rel, const ls_row *row);
extern bool ls_is_locked_newer(Relation rel, uint64 row_id, Snapshot snapshot, uint8 *buffer, ls_row *row);

/* The version that a fetch with SnapshotAny means; *deleted: by us, since. */
extern bool ls_fetch_any(Relation rel, const ItemPointerData *tid, uint8 *buffer, ls_row *row, bool *deleted);

/* ---- ls_table_ids.c */
extern uint64 ls_next_row_id(Relation rel);
extern uint64 ls_row_id_range(Relation rel, uint32 count);
extern void ls_forget_row_ids(Relation rel);
extern void ls_finish_bulk_insert(Relation rel, int options);

/* ---- ls_table_modify.c, ls_table_update.c, ls_table_lock.c */
extern void ls_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
							struct BulkInsertStateData *bistate);
extern void ls_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
										struct BulkInsertStateData *bistate, uint32 token);
extern void ls_tuple_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 token, bool succeeded);
extern void ls_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid, int options,
							struct BulkInsertStateData *bistate);
extern TM_Result ls_tuple_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot,
								 Snapshot crosscheck, bool wait, TM_FailureData *tmfd, bool changingPart);
extern TM_Result ls_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid,
								 Snapshot snapshot, Snapshot crosscheck, bool wait, TM_FailureData *tmfd,
								 LockTupleMode *lockmode, TU_UpdateIndexes *update_indexes);
extern TM_Result ls_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot,
							   CommandId cid, LockTupleMode mode, LockWaitPolicy wait_policy, uint8 flags,
							   TM_FailureData *tmfd);
extern void ls_lock_before_leaving(LsRowWait *wait_for, uint64 row_id, Snapshot snapshot, CommandId cid,
								   ls_lock_mode mode, const ls_conflict *conflict);
extern TransactionId ls_row_locker_xid(Oid relid, uint64 row_id);
extern TM_Result ls_conflict_result(Relation rel, ls_status status, uint64 row_id, const ls_conflict *conflict,
									const ls_error *error, TM_FailureData *tmfd);
extern Snapshot ls_change_snapshot(Snapshot snapshot);
extern bool ls_snapshot_is_behind(Relation rel, ItemPointer tid, Snapshot snapshot, TM_FailureData *tmfd);
extern uint64 ls_insert_payload(Relation rel, const uint8 *payload, uint32 len, CommandId cid);

/* ---- ls_table_toast.c */
extern bool ls_relation_needs_toast_table(Relation rel);
extern Oid	ls_relation_toast_am(Relation rel);

/* Would storing the tuple need toasting? */
extern bool ls_toast_wanted(Relation rel, HeapTuple tuple);

/* Delete what the TOAST table has of a row that is there as a whole; of others, nothing. */
extern void ls_toast_delete_wide(Relation rel, const ls_row *row, bool is_speculative);

/* The tuple to store in place of newtup (newtup itself when nothing had to be done). */
extern HeapTuple ls_toast_tuple(Relation rel, HeapTuple newtup, HeapTuple oldtup, int options);

/* ---- ls_table_ddl.c */
extern void ls_relation_set_new_filelocator(Relation rel, const RelFileLocator *newrlocator, char persistence,
											TransactionId *freezeXid, MultiXactId *minmulti);
extern void ls_relation_nontransactional_truncate(Relation rel);
extern void ls_relation_copy_data(Relation rel, const RelFileLocator *newrlocator);
extern uint64 ls_relation_size(Relation rel, ForkNumber forkNumber);

/* ---- ls_table_cluster.c */
extern void ls_relation_copy_for_cluster(Relation OldTable, Relation NewTable, Relation OldIndex, bool use_sort,
										 TransactionId OldestXmin, TransactionId *xid_cutoff,
										 MultiXactId *multi_cutoff, double *num_tuples,
										 double *tups_vacuumed, double *tups_recently_dead);

/* ---- ls_table_vacuum.c, ls_table_analyze.c */
extern void ls_table_cut(Relation rel, Relation *indexes, int nindexes, int message_level);
extern void ls_relation_vacuum(Relation rel, struct VacuumParams *params, BufferAccessStrategy bstrategy);
extern bool ls_scan_analyze_next_block(TableScanDesc sscan, ReadStream *stream);
extern bool ls_scan_analyze_next_tuple(TableScanDesc sscan, TransactionId OldestXmin, double *liverows,
									   double *deadrows, TupleTableSlot *slot);
extern void ls_relation_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages, double *tuples,
									  double *allvisfrac);

/* ---- ls_table_build.c */
extern double ls_index_build_range_scan(Relation table_rel, Relation index_rel, struct IndexInfo *index_info,
										bool allow_sync, bool anyvisible, bool progress,
										BlockNumber start_blockno, BlockNumber numblocks,
										IndexBuildCallback callback, void *callback_state, TableScanDesc scan);
extern void ls_index_validate_scan(Relation table_rel, Relation index_rel, struct IndexInfo *index_info,
								   Snapshot snapshot, struct ValidateIndexState *state);

/* ---- ls_table_bitmap.c, ls_table_sample.c */
extern bool ls_scan_bitmap_next_tuple(TableScanDesc sscan, TupleTableSlot *slot, bool *recheck,
									  uint64 *lossy_pages, uint64 *exact_pages);
extern bool ls_scan_sample_next_block(TableScanDesc sscan, SampleScanState *scanstate);
extern bool ls_scan_sample_next_tuple(TableScanDesc sscan, SampleScanState *scanstate, TupleTableSlot *slot);

#endif							/* LS_TABLE_H */
