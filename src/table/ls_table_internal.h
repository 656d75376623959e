/*
 * ls_table_internal.h - what the files of the table access method share.
 *
 * The callbacks carry their slot's name in TableAmRoutine; ls_table_handler.c
 * lists them, README.md says which file holds which.
 */
#ifndef LS_TABLE_INTERNAL_H
#define LS_TABLE_INTERNAL_H

#include "ls_table.h"
#include "relation/ls_relation.h"
#include "row/ls_row.h"

#include "access/relscan.h"
#include "access/skey.h"
#include "lib/stringinfo.h"
#include "nodes/execnodes.h"
#include "nodes/tidbitmap.h"

struct VacuumParams;
struct ValidateIndexState;

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
	bool		takes_all;		/* rows as the engine gives them: no keys, no dirty snapshot */

	const ls_row *rows;			/* what the engine has given last, */
	uint32		n_rows;
	uint32		next_row;		/* and the first of it that the executor has not got yet */
	const char *ahead;			/* the rest of the page with the rows behind those: */
	const char *ahead_end;		/* so much of it is prefetched with each row */
	uint32		ahead_step;
	LsLoan	   *loan;			/* of a row among them; NULL: none yet */

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
extern bool ls_scan_getnextslot_tidrange(TableScanDesc sscan, ScanDirection direction,
										 TupleTableSlot *slot);
extern Size ls_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan);

/* The next row of the scan, as the engine gives it; false at the end. */

/* The next row, valid until the next call; NULL at the end.  The other: a copy of it. */
extern const ls_row *ls_scan_read(LsScanDesc *scan, bool backward);
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
extern struct IndexFetchTableData *ls_index_fetch_begin(Relation rel);
extern void ls_index_fetch_reset(struct IndexFetchTableData *scan);
extern void ls_index_fetch_end(struct IndexFetchTableData *scan);
extern bool ls_index_fetch_tuple(struct IndexFetchTableData *scan, ItemPointer tid,
								 Snapshot snapshot, TupleTableSlot *slot, bool *call_again,
								 bool *all_dead);
extern bool ls_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot,
									   TupleTableSlot *slot);
extern bool ls_tuple_tid_valid(TableScanDesc sscan, ItemPointer tid);
extern void ls_tuple_get_latest_tid(TableScanDesc sscan, ItemPointer tid);
extern bool ls_tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot);
extern bool ls_conflicts_on_standbys(Relation rel);
extern TransactionId ls_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate);

/* ---- ls_table_ids.c */
extern uint64 ls_next_row_id(Relation rel);
extern uint64 ls_row_id_range(Relation rel, uint32 count);
extern void ls_forget_row_ids(Relation rel);
extern void ls_finish_bulk_insert(Relation rel, int options);

/* ---- ls_table_stage.c */
extern bool ls_stage_takes(Relation rel, int options);
extern uint64 ls_stage_row(Relation rel, TupleTableSlot *slot, CommandId cid, bool images);

/* ---- ls_table_modify.c, ls_table_update.c, ls_table_lock.c */
extern void ls_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
							struct BulkInsertStateData *bistate);
/* Appends the row as it is stored to `payloads`, and its image to `images` if any; its length. */
extern uint32 ls_encode_slot(Relation rel, TupleTableSlot *slot, StringInfo payloads,
							 StringInfo images);

typedef struct LsNewRows
{
	uint64		first;			/* id of the first; the others follow */
	CommandId	cid;
	ls_bytes   *rows;			/* with their lengths; their bytes are found then */
	uint32		n;
	const char *payloads;		/* one behind the other */
} LsNewRows;

/*
 * By the worker, which has begun its transaction.  rel: where pages are counted and what errors
 * name, or NULL.
 */
extern void ls_insert_encoded(Relation rel, ls_rel *file, const LsNewRows *new_rows);
extern void ls_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid,
										int options, struct BulkInsertStateData *bistate,
										uint32 token);
extern void ls_tuple_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 token,
										  bool succeeded);
extern void ls_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid,
							int options, struct BulkInsertStateData *bistate);
extern TM_Result ls_tuple_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot,
								 Snapshot crosscheck, bool wait, TM_FailureData *tmfd,
								 bool changingPart);
extern TM_Result ls_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot,
								 CommandId cid, Snapshot snapshot, Snapshot crosscheck, bool wait,
								 TM_FailureData *tmfd, LockTupleMode *lockmode,
								 TU_UpdateIndexes *update_indexes);
extern TM_Result ls_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot,
							   TupleTableSlot *slot, CommandId cid, LockTupleMode mode,
							   LockWaitPolicy wait_policy, uint8 flags, TM_FailureData *tmfd);
extern void ls_lock_before_leaving(LsRowWait *wait_for, uint64 row_id, Snapshot snapshot,
								   CommandId cid, ls_lock_mode mode, const ls_conflict *conflict);
extern TM_Result ls_conflict_result(Relation rel, ls_status status, uint64 row_id,
									const ls_conflict *conflict, const ls_error *error,
									TM_FailureData *tmfd);
extern Snapshot ls_change_snapshot(Snapshot snapshot);
extern bool ls_snapshot_is_behind(Relation rel, ItemPointer tid, Snapshot snapshot,
								  TM_FailureData *tmfd);
extern uint64 ls_insert_payload(Relation rel, const uint8 *payload, uint32 len, CommandId cid);

/* ---- ls_table_toast.c */
extern bool ls_relation_needs_toast_table(Relation rel);
extern Oid	ls_relation_toast_am(Relation rel);

extern void ls_relation_fetch_toast_slice(Relation toast, Oid value_id, int32 attrsize,
										  int32 offset, int32 length, struct varlena *result);

/* Would storing the tuple need toasting? */
extern bool ls_toast_wanted(Relation rel, HeapTuple tuple);

/* Delete what the TOAST table has of a row that is there as a whole; of others, nothing. */
extern void ls_toast_delete_wide(const ls_row *row, bool is_speculative);

/* All values of a version that goes away for good. */
extern void ls_toast_delete(Relation rel, const ls_row *row, bool is_speculative);

/* The tuple to store in place of newtup (newtup itself when nothing had to be done). */
extern HeapTuple ls_toast_tuple(Relation rel, HeapTuple newtup, HeapTuple oldtup, bool images);

/* ---- ls_table_ddl.c */

/* Copy all rows, under their ids, into a tree that is empty. */
typedef struct LsCopied
{
	double		rows;
	double		ghosts;			/* deleted, but a snapshot may see them */
	double		dead;			/* and such as none sees: left out */
} LsCopied;

/* The relation's tree, if it is to be had. */
extern ls_status ls_try_open(Relation rel, ls_rel *tree, ls_error *error);

/* A new tree goes on with the row ids, or values, of this relation. */
extern void ls_continue_ids(Relation rel, ls_rel *tree);
extern LsCopied ls_copy_rows_as_they_are(Relation rel, ls_rel *tree);
extern void ls_relation_set_new_filelocator(Relation rel, const RelFileLocator *newrlocator,
											char persistence, TransactionId *freezeXid,
											MultiXactId *minmulti);
extern void ls_relation_nontransactional_truncate(Relation rel);
extern void ls_relation_copy_data(Relation rel, const RelFileLocator *newrlocator);
extern uint64 ls_relation_size(Relation rel, ForkNumber forkNumber);

/* ---- ls_table_cluster.c */
extern void ls_relation_copy_for_cluster(Relation OldTable, Relation NewTable, Relation OldIndex,
										 bool use_sort, TransactionId OldestXmin,
										 TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
										 double *num_tuples, double *tups_vacuumed,
										 double *tups_recently_dead);

/* ---- ls_table_vacuum.c, ls_table_analyze.c */
extern void ls_table_cut(Relation rel, Relation *indexes, int nindexes, int message_level);
extern void ls_relation_vacuum(Relation rel, struct VacuumParams *params,
							   BufferAccessStrategy bstrategy);
extern bool ls_scan_analyze_next_block(TableScanDesc sscan, ReadStream *stream);
extern bool ls_scan_analyze_next_tuple(TableScanDesc sscan, TransactionId OldestXmin,
									   double *liverows, double *deadrows, TupleTableSlot *slot);
extern void ls_relation_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages,
									  double *tuples, double *allvisfrac);

/* ---- ls_table_build.c */
extern double ls_index_build_range_scan(Relation table_rel, Relation index_rel,
										struct IndexInfo *index_info, bool allow_sync,
										bool anyvisible, bool progress, BlockNumber start_blockno,
										BlockNumber numblocks, IndexBuildCallback callback,
										void *callback_state, TableScanDesc scan);
extern void ls_index_validate_scan(Relation table_rel, Relation index_rel,
								   struct IndexInfo *index_info, Snapshot snapshot,
								   struct ValidateIndexState *state);

/* ---- ls_table_bitmap.c, ls_table_sample.c */
extern bool ls_scan_bitmap_next_tuple(TableScanDesc sscan, TupleTableSlot *slot, bool *recheck,
									  uint64 *lossy_pages, uint64 *exact_pages);
extern bool ls_scan_sample_next_block(TableScanDesc sscan, SampleScanState *scanstate);
extern bool ls_scan_sample_next_tuple(TableScanDesc sscan, SampleScanState *scanstate,
									  TupleTableSlot *slot);

#endif							/* LS_TABLE_INTERNAL_H */
