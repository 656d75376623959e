/*
 * ls_table_vacuum.c - VACUUM.
 *
 * The table itself needs none: the engine's cleaner removes versions and deleted
 * rows as soon as no snapshot needs them; VACUUM does not wait until it comes by.  What is
 * left to do is for indexes, which have entries of rows that are gone, and for statistics: a
 * leanstore index is swept, one of another access method is told row by row.  Row ids are not used
 * twice, so the entry of a row that is not there can go at any time, and there is no order to keep
 * between index and table.
 *
 * A leanstore table needs no relfrozenxid, but one may have been given to it.  Nothing in our rows
 * depends on it, so VACUUM just moves it on.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "access/genam.h"
#include "access/multixact.h"
#include "commands/dbcommands.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "storage/procarray.h"
#include "utils/backend_progress.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

typedef struct Vacuum
{
	Relation	rel;
	BufferAccessStrategy strategy;
	int			message_level;
	uint64		horizon;		/* deletions by writers below it are seen by all snapshots */
	uint64		purged;			/* dead rows below have been removed, or cannot be yet */
	bool		waited;			/* for the engine's horizon, in vain */

	/*
	 * A bit for each row id below present_rows: set when the row was there and
	 * a snapshot may need it.  Only a filter: rows may have come since.
	 */
	uint8	   *present;
	uint64		present_rows;

	BlockNumber blocks;
	double		live;
	double		live_bytes;
	double		recently_dead;
	double		entries_removed;
} Vacuum;

/* Make the filter if it fits into the memory that VACUUM may use. */
static void
allocate_filter(Vacuum *v, uint64 end_row)
{
	int			work_mem_kb = AmAutoVacuumWorkerProcess() && autovacuum_work_mem != -1
		? autovacuum_work_mem : maintenance_work_mem;
	uint64		bytes = end_row / 8 + 1;

	if (bytes > (uint64) work_mem_kb * 1024)
		return;
	v->present = MemoryContextAllocExtended(CurrentMemoryContext, bytes,
											MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	v->present_rows = end_row;
}

/* A row's header and slot in a leaf, and an engine page. */
#define LS_ROW_OVERHEAD 24
#define LS_PAGE_BYTES 4096

/* How long to wait for the engine's horizon, which the engine worker moves on every 10 ms. */
#define HORIZON_WAIT_MS 1000

/* Remove the dead rows of the leaf around this one. */
static void
purge(Vacuum *v, const ls_row *row)
{
	ls_error	error;
	ls_status	status;

	if (row->row_id < v->purged)
		return;
	for (int ms = 0; !v->waited && row->writer_tn >= ls_store_horizon(ls_shared->store); ms++)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000);
		v->waited = ms == HORIZON_WAIT_MS;
	}
	LS_CALL(status, ls_rel_purge(ls_reader(), ls_open(v->rel), row->row_id, &v->purged, &error));
	ls_check(status, error, v->rel);
}

/*
 * Leaves that were emptied before the last start, or when their neighbours were not in memory or
 * latched, have no rows by which a purge comes to them.  So where half of the pages in use would
 * do, or a sixteenth of all is free, each leaf is looked at once more.
 */
static void
merge_leaves(Vacuum *v, uint64 end_row)
{
	ls_rel_info info;
	uint64		row_id = 0;
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_rel_get_info(ls_reader(), ls_open(v->rel), &info, &error));
	ls_check(status, error, v->rel);
	if ((double) (info.pages - info.free_pages) * LS_PAGE_BYTES / 2 <
			v->live_bytes + 2 * LS_PAGE_BYTES &&
		info.free_pages < info.pages / 16)
		return;
	while (row_id < end_row)
	{
		vacuum_delay_point(false);
		LS_CALL(status, ls_rel_purge(ls_reader(), ls_open(v->rel), row_id, &row_id, &error));
		ls_check(status, error, v->rel);
	}
}

static void
scan_table(Vacuum *v, bool with_indexes)
{
	LsScanDesc *scan = ls_scan_create(v->rel, SnapshotAny, 0);
	uint64		end_row = ls_scan_end_row(scan);
	BlockNumber block = InvalidBlockNumber;
	ls_row		row;

	v->blocks = ls_scan_blocks(scan);
	if (with_indexes)
		allocate_filter(v, end_row);

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS, v->blocks);

	while (ls_scan_row(scan, false, &row))
	{
		if (ls_row_to_block(row.row_id) != block)
		{
			block = ls_row_to_block(row.row_id);
			vacuum_delay_point(false);
			pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, block);
		}

		if ((row.flags & LS_ROW_GHOST) == 0)
		{
			v->live += 1;
			v->live_bytes += row.len + LS_ROW_OVERHEAD;
		}
		else if (row.writer_tn < v->horizon)
		{
			purge(v, &row);
			continue;
		}
		else
			v->recently_dead += 1;
		if (row.row_id < v->present_rows)
			v->present[row.row_id / 8] |= 1 << (row.row_id % 8);
	}

	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, v->blocks);
	ls_scan_end(&scan->base);
	merge_leaves(v, end_row);
}

/* May the index entry for this TID go? */
static bool
is_dead_entry(ItemPointer tid, void *state)
{
	Vacuum	   *v = state;
	uint64		row_id = ls_tid_to_row(tid);
	ls_row		row;

	if (row_id < v->present_rows && (v->present[row_id / 8] & (1 << (row_id % 8))))
		return false;
	if (ls_fetch_newest(v->rel, row_id, ls_fetch_buffer(), &row) && !ls_row_is_dead(&row))
		return false;
	v->entries_removed += 1;
	return true;
}

static void
vacuum_index(Vacuum *v, Relation index)
{
	IndexVacuumInfo info = {
		.index = index,
		.heaprel = v->rel,
		.analyze_only = false,
		.report_progress = false,
		.estimated_count = false,
		.message_level = v->message_level,
		.num_heap_tuples = v->live,
		.strategy = v->strategy,
	};
	IndexBulkDeleteResult *result = NULL;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_VACUUM_INDEX);
	if (!ls_is_index(index))
		result = index_bulk_delete(&info, NULL, is_dead_entry, v);
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);
	result = index_vacuum_cleanup(&info, result);

	if (result == NULL)
		return;
	if (ls_is_index(index))
		v->entries_removed += result->tuples_removed;
	if (!result->estimated_count)
		vac_update_relstats(index, result->num_pages, result->num_index_tuples, 0, 0, false,
							InvalidTransactionId, InvalidMultiXactId, NULL, NULL, false);
	pfree(result);
}

static void
report(Vacuum *v, const VacuumParams *params, TimestampTz start, int nindexes)
{
	bool		verbose = (params->options & VACOPT_VERBOSE) != 0;
	bool		logged = AmAutoVacuumWorkerProcess() && params->log_min_duration >= 0 &&
		(params->log_min_duration == 0 ||
		 TimestampDifferenceExceeds(start, GetCurrentTimestamp(), params->log_min_duration));

	if (!verbose && !logged)
		return;

	ereport(verbose ? INFO : LOG,
			(errmsg("finished vacuuming \"%s.%s.%s\": %.0f rows, %.0f deleted rows still needed, "
					"%.0f index entries removed",
					get_database_name(MyDatabaseId),
					get_namespace_name(RelationGetNamespace(v->rel)),
					RelationGetRelationName(v->rel),
					v->live, v->recently_dead, v->entries_removed),
			 errdetail_plural("%d index was scanned.", "%d indexes were scanned.",
							  nindexes, nindexes)));
}

/*
 * Deletions by writers below are seen by all snapshots, and durable: the server's log may be
 * flushed at any time with the removal of an index entry, and the row must not come back then.  A
 * snapshot that sees those writers is not to be had before they have their places in the engine's
 * log.
 */
static uint64
dead_below(Relation rel)
{
	/* the engine's horizon lags behind by the time between two publications */
	uint64		horizon = ls_tn_from_xid(GetOldestNonRemovableTransactionId(rel));

	PushActiveSnapshot(GetLatestSnapshot());
	(void) ls_snapshot_convert(GetActiveSnapshot());
	PopActiveSnapshot();
	ls_harden_all();
	return horizon;
}

/* The index that the server gives a TOAST table stays empty. */
static bool
cleans_indexes(Relation rel, const VacuumParams *params)
{
	return params->index_cleanup != VACOPTVALUE_DISABLED && !ls_holds_values(rel);
}

void
ls_relation_vacuum(Relation rel, struct VacuumParams *params, BufferAccessStrategy bstrategy)
{
	TimestampTz start = GetCurrentTimestamp();
	bool		clean_indexes = cleans_indexes(rel, params);
	TransactionId frozen_xid = InvalidTransactionId;
	MultiXactId min_multi = InvalidMultiXactId;
	Relation   *indexes;
	int			nindexes;
	int			nforeign = 0;
	Vacuum		v = {
		.rel = rel,
		.strategy = bstrategy,
		.message_level = (params->options & VACOPT_VERBOSE) ? INFO : DEBUG2,
	};

	(void) ls_reader();
	v.horizon = dead_below(rel);
	ls_forget_recent();
	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM, RelationGetRelid(rel));
	if (params->options & VACOPT_VERBOSE)
		ereport(INFO,
				(errmsg("vacuuming \"%s.%s.%s\"",
						get_database_name(MyDatabaseId),
						get_namespace_name(RelationGetNamespace(rel)),
						RelationGetRelationName(rel))));

	vac_open_indexes(rel, RowExclusiveLock, &nindexes, &indexes);

	for (int i = 0; i < nindexes; i++)
		nforeign += !ls_is_index(indexes[i]);
	scan_table(&v, clean_indexes && nforeign > 0);
	/* heap's VACUUM warns of this; that other tables get no workers, it does not say either */
	if (clean_indexes && nindexes > 1 && params->nworkers > 0 && RelationUsesLocalBuffers(rel))
		ereport(WARNING,
				(errmsg("disabling parallel option of vacuum on \"%s\" --- cannot vacuum temporary "
						"tables in parallel",
						RelationGetRelationName(rel))));
	if (clean_indexes)
	{
		pgstat_progress_update_param(PROGRESS_VACUUM_INDEXES_TOTAL, nindexes);
		for (int i = 0; i < nindexes; i++)
		{
			vacuum_index(&v, indexes[i]);
			pgstat_progress_update_param(PROGRESS_VACUUM_INDEXES_PROCESSED, i + 1);
		}
	}
	if (params->truncate != VACOPTVALUE_DISABLED)
	{
		pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_TRUNCATE);
		ls_table_cut(rel, indexes, nindexes, v.message_level);
	}
	vac_close_indexes(nindexes, indexes, NoLock);
	if (v.present != NULL)
		pfree(v.present);

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_FINAL_CLEANUP);
	if (TransactionIdIsNormal(rel->rd_rel->relfrozenxid))
	{
		frozen_xid = GetOldestNonRemovableTransactionId(rel);
		min_multi = GetOldestMultiXactId();
	}
	vac_update_relstats(rel, v.blocks, v.live, 0, 0, nindexes > 0,
						frozen_xid, min_multi, NULL, NULL, false);
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared,
						 (PgStat_Counter) v.live, (PgStat_Counter) v.recently_dead, start);
	pgstat_progress_end_command();

	report(&v, params, start, clean_indexes ? nindexes : 0);
}
