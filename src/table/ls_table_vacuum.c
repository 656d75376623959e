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
 * The engine remembers for each block of rows whether it has been looked at since its last change,
 * and what there was (ls_rel_vacuum); for the indexes, how many rows have gone since they were last
 * cleaned.  So a table that has not changed costs next to nothing, and other work is for what has.
 * All of that is forgotten when the server stops: then the first VACUUM looks at everything.
 *
 * A leanstore table needs no relfrozenxid, but one may have been given to it.  Nothing in our rows
 * depends on it, so VACUUM just moves it on.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "index/ls_index.h"
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
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

typedef struct Vacuum
{
	Relation	rel;
	BufferAccessStrategy strategy;
	int			message_level;
	uint64		horizon;		/* transactions below it are seen by all snapshots, and durable */
	int			waited_ms;		/* for the engine's horizon */
	bool		all;			/* also what has not changed: DISABLE_PAGE_SKIPPING */
	bool		bypass;			/* an index need not be cleaned for a few rows */
	bool		conflicts;		/* on a standby: leanstore tables are read there */
	uint64		gone_told;		/* rows that have gone, as tell_standbys() has found it */

	uint64		end_row;
	ls_vacuum	found;			/* added up */
	BlockNumber blocks;
	double		live;
	double		entries_removed;
	ls_rows_there there;		/* for their indexes; bits is NULL until one is cleaned */
	int			cleaned;		/* indexes */
	bool		complete;		/* so that all entries of rows that have not changed are right */
} Vacuum;

/* A row's header and slot in a leaf. */
#define LS_ROW_OVERHEAD 24

/*
 * How long to wait for the engine's horizon, which the engine worker moves on every 10 ms: deleted
 * rows can go then, and others need not be looked at the next time.
 */
#define HORIZON_WAIT_MS 1000

/* As heap: indexes are not cleaned where fewer of the blocks, and of the rows, are concerned. */
#define BYPASS_FRACTION 0.02

/* Wait, if that has not been done long enough yet.  True: the horizon is there. */
static bool
wait_for_horizon(Vacuum *v)
{
	for (;; v->waited_ms++)
	{
		if (ls_store_horizon(ls_shared->store) >= v->horizon)
			return true;
		if (v->waited_ms >= HORIZON_WAIT_MS)
			return false;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000);
	}
}

static void
add_up(Vacuum *v, const ls_vacuum *portion)
{
	ls_vacuum  *sum = &v->found;

	sum->rows += portion->rows;
	sum->ghosts += portion->ghosts;
	sum->blocks += portion->blocks;
	sum->looked_at += portion->looked_at;
	sum->clean += portion->clean;
	sum->not_vouched += portion->not_vouched;
	sum->visible += portion->visible;
	sum->rows_looked_at += portion->rows_looked_at;
	sum->bytes += portion->bytes;
}

/*
 * Leaves that were emptied before the last start, or when their neighbours were not in memory or
 * latched, have no rows by which a purge comes to them.  So where half of the pages in use would
 * do, or a sixteenth of all is free, each leaf is looked at once more; not for changes of less than
 * a sixteenth of the table.
 */
#define MERGE_FRACTION 16

static void
merge_leaves(Vacuum *v)
{
	double		rows = Max(v->found.rows_looked_at, 1);
	double		bytes = v->live * (v->found.bytes / rows + LS_ROW_OVERHEAD);
	ls_rel_info info;
	uint64		row_id = 0;
	ls_error	error;
	ls_status	status;

	if (v->found.looked_at * MERGE_FRACTION < v->found.blocks)
		return;
	LS_CALL(status, ls_rel_get_info(ls_reader(), ls_open(v->rel), &info, &error));
	ls_check(status, error, v->rel);
	if ((double) (info.pages - info.free_pages) * LS_PAGE_BYTES / 2 < bytes + 2 * LS_PAGE_BYTES &&
		info.free_pages < info.pages / 16)
		return;
	while (row_id < v->end_row)
	{
		vacuum_delay_point(false);
		LS_CALL(status, ls_rel_purge(ls_reader(), ls_open(v->rel), row_id, &row_id, &error));
		ls_check(status, error, v->rel);
	}
}

static void
look_at_rows(Vacuum *v)
{
	uint64		next = 0;
	bool		again = false;

	v->end_row = ls_end_row(v->rel);
	v->blocks = (BlockNumber) ls_end_row_to_blocks(v->end_row);
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS, v->blocks);

	while (next < v->end_row)
	{
		ls_vacuum	portion = {
			.below = v->horizon, .end_row = v->end_row, .all = v->all, .next_row = next
		};
		ls_error	error;
		ls_status	status;

		vacuum_delay_point(false);
		LS_CALL(status, ls_rel_vacuum(ls_reader(), ls_open(v->rel), &portion, &error));
		ls_check(status, error, v->rel);
		again = !again && portion.waits && wait_for_horizon(v);
		if (again)
			continue;
		next = portion.next_row;
		add_up(v, &portion);
		pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED,
									 ls_row_to_block(Min(next, v->end_row)));
	}
	v->live = (double) v->found.rows;
	merge_leaves(v);
}

/*
 * A bit for each row, as far as they fit into what VACUUM may use: the first index that is cleaned
 * finds out which rows there are, the others need not look them up.
 */
static ls_rows_there *
rows_there(Vacuum *v)
{
	int			kilobytes = AmAutoVacuumWorkerProcess() && autovacuum_work_mem != -1 ?
		autovacuum_work_mem : maintenance_work_mem;
	Size		words = (Size) kilobytes * 1024 / sizeof(uint64);

	if (v->there.bits != NULL)
		return &v->there;
	words = Min(words, v->end_row / 64 + 1);
	v->there.bits = MemoryContextAllocExtended(CurrentMemoryContext, words * sizeof(uint64),
											   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	v->there.end = words * 64;
	return &v->there;
}

static bool
is_there(const Vacuum *v, uint64 row_id)
{
	return row_id < v->there.end &&
		(v->there.bits[row_id / 64] & (UINT64CONST(1) << row_id % 64)) != 0;
}

/*
 * For standbys: an index of another access method writes to WAL itself what it removes, and does
 * not say which snapshots need it.  The removal of the row does, so that has to be in WAL before.
 */
static void
tell_standbys(Vacuum *v)
{
	uint64		gone;
	uint64		mark;
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_rows_gone(ls_reader(), ls_open(v->rel), &gone, &mark, &error));
	ls_check(status, error, v->rel);
	if (mark == v->gone_told)
		return;
	ls_write_out_all();
	v->gone_told = mark;
}

/* May the index entry for this TID go? */
static bool
is_dead_entry(ItemPointer tid, void *state)
{
	Vacuum	   *v = state;
	uint64		row_id = ls_tid_to_row(tid);
	ls_row		row;
	ls_error	error;
	ls_status	status;

	if (is_there(v, row_id) ||
		ls_row_known(ls_shared->store, ls_open(v->rel), row_id, LS_ROWS_VISIBLE))
		return false;
	if (!ls_fetch_newest(v->rel, row_id, ls_fetch_buffer(), &row))
	{
		if (v->conflicts)
			tell_standbys(v);
	}
	/* a row that is still to go is for the next VACUUM, if there is a standby */
	else if (v->conflicts || !ls_row_is_dead(&row))
	{
		LS_CALL(status, ls_rows_note_there(ls_reader(), ls_open(v->rel), row_id, &v->there,
										   &error));
		ls_check(status, error, v->rel);
		return false;
	}
	v->entries_removed += 1;
	return true;
}

/*
 * ---- what indexes have left behind
 *
 * An entry leads nowhere when its row has gone, so an index is cleaned if some have since it was.
 * As heap's VACUUM does, it is left alone for a few.  Stale entries are in marked indexes only, and
 * of rows in blocks that were changed since all entries that lead there were found to be right.
 */

static bool
is_worth_while(const Vacuum *v, uint64 gone)
{
	if (!v->bypass || gone == UINT64_MAX)
		return true;
	return gone >= BYPASS_FRACTION * v->live ||
		v->found.not_vouched >= BYPASS_FRACTION * v->found.blocks;
}

static void
update_statistics(const Vacuum *v, Relation index, const IndexBulkDeleteResult *result)
{
	bool		counted = result != NULL && !result->estimated_count;
	double		entries = counted ? result->num_index_tuples : v->live;

	/* without a count: of a whole index there is one for each row */
	if (!counted && RelationGetIndexPredicate(index) != NIL)
		return;
	vac_update_relstats(index, RelationGetNumberOfBlocks(index), entries, 0, 0, false,
						InvalidTransactionId, InvalidMultiXactId, NULL, NULL, false);
}

static void
vacuum_own_index(Vacuum *v, IndexVacuumInfo *info)
{
	uint64		gone = ls_index_rows_gone_since(info->index, v->rel);
	bool		stale = ls_index_has_stale(info->index) && v->found.not_vouched > 0;
	IndexBulkDeleteResult *result = NULL;

	if (v->all || ((gone > 0 || stale) && is_worth_while(v, gone)))
	{
		bool		complete;

		result = ls_index_clean(info, gone == 0 && !v->all, rows_there(v), &complete);
		v->complete &= complete;
		v->entries_removed += result->tuples_removed;
		v->cleaned++;
	}
	else
		v->complete &= gone == 0 && !stale;
	update_statistics(v, info->index, result);
}

/* Of another access method.  It may have work of its own, be there dead rows or not. */
static void
vacuum_foreign_index(Vacuum *v, IndexVacuumInfo *info, uint64 gone)
{
	IndexBulkDeleteResult *result = NULL;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_VACUUM_INDEX);
	if (v->all || (gone > 0 && is_worth_while(v, gone)))
	{
		(void) rows_there(v);
		result = index_bulk_delete(info, NULL, is_dead_entry, v);
		v->cleaned++;
	}
	else
		v->complete &= gone == 0;
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);
	result = index_vacuum_cleanup(info, result);
	if (result != NULL && !result->estimated_count)
		vac_update_relstats(info->index, result->num_pages, result->num_index_tuples, 0, 0, false,
							InvalidTransactionId, InvalidMultiXactId, NULL, NULL, false);
}

static void
vacuum_index(Vacuum *v, Relation index, uint64 gone)
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

	if (ls_is_index(index))
		vacuum_own_index(v, &info);
	else
		vacuum_foreign_index(v, &info, gone);
}

static void
vacuum_indexes(Vacuum *v, Relation *indexes, int nindexes)
{
	uint64		gone;
	uint64		mark;
	ls_error	error;
	ls_status	status;

	v->complete = true;
	LS_CALL(status, ls_rows_gone(ls_reader(), ls_open(v->rel), &gone, &mark, &error));
	ls_check(status, error, v->rel);
	pgstat_progress_update_param(PROGRESS_VACUUM_INDEXES_TOTAL, nindexes);
	for (int i = 0; i < nindexes; i++)
	{
		pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);
		vacuum_index(v, indexes[i], gone);
		pgstat_progress_update_param(PROGRESS_VACUUM_INDEXES_PROCESSED, i + 1);
	}
	/* those of other kinds are cleaned together, or left alone */
	if (v->all || gone == 0 || is_worth_while(v, gone))
	{
		LS_CALL(status, ls_rows_swept(ls_reader(), ls_open(v->rel), mark, &error));
		ls_check(status, error, v->rel);
	}
	if (v->complete && v->found.not_vouched > 0)
	{
		LS_CALL(status, ls_rel_vouch(ls_reader(), ls_open(v->rel), &error));
		ls_check(status, error, v->rel);
	}
}

static void
report(Vacuum *v, const VacuumParams *params, TimestampTz start)
{
	bool		verbose = (params->options & VACOPT_VERBOSE) != 0;
	bool		logged = AmAutoVacuumWorkerProcess() && params->log_min_duration >= 0 &&
		(params->log_min_duration == 0 ||
		 TimestampDifferenceExceeds(start, GetCurrentTimestamp(), params->log_min_duration));

	if (!verbose && !logged)
		return;

	ereport(verbose ? INFO : LOG,
			(errmsg("finished vacuuming \"%s.%s.%s\": %.0f rows, " UINT64_FORMAT
					" deleted rows still needed, %.0f index entries removed",
					get_database_name(MyDatabaseId),
					get_namespace_name(RelationGetNamespace(v->rel)),
					RelationGetRelationName(v->rel),
					v->live, v->found.ghosts, v->entries_removed),
			 errdetail("Looked at " UINT64_FORMAT " of " UINT64_FORMAT " blocks of rows, and "
					   "through %d indexes.",
					   v->found.looked_at, v->found.blocks, v->cleaned)));
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

/* Blocks of which index-only scans fetch no rows. */
static BlockNumber
visible_blocks(const Vacuum *v)
{
	uint64		others = v->found.blocks - (v->complete ? v->found.clean : v->found.visible);

	/* blocks that were passed over have no rows */
	return ls_holds_values(v->rel) || others > v->blocks ? 0 : v->blocks - (BlockNumber) others;
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
	Vacuum		v = {
		.rel = rel,
		.strategy = bstrategy,
		.message_level = (params->options & VACOPT_VERBOSE) ? INFO : DEBUG2,
		.all = (params->options & VACOPT_DISABLE_PAGE_SKIPPING) != 0,
		.bypass = params->index_cleanup == VACOPTVALUE_AUTO,
		.conflicts = ls_conflicts_on_standbys(rel),
		.gone_told = UINT64_MAX,
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

	look_at_rows(&v);
	/* heap's VACUUM warns of this; that other tables get no workers, it does not say either */
	if (clean_indexes && nindexes > 1 && params->nworkers > 0 && RelationUsesLocalBuffers(rel))
		ereport(WARNING,
				(errmsg("disabling parallel option of vacuum on \"%s\" --- cannot vacuum temporary "
						"tables in parallel",
						RelationGetRelationName(rel))));
	if (clean_indexes)
		vacuum_indexes(&v, indexes, nindexes);
	if (params->truncate != VACOPTVALUE_DISABLED)
	{
		pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_TRUNCATE);
		ls_table_cut(rel, indexes, nindexes, v.message_level);
	}
	vac_close_indexes(nindexes, indexes, NoLock);
	if (v.there.bits != NULL)
		pfree(v.there.bits);

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE, PROGRESS_VACUUM_PHASE_FINAL_CLEANUP);
	if (TransactionIdIsNormal(rel->rd_rel->relfrozenxid))
	{
		frozen_xid = GetOldestNonRemovableTransactionId(rel);
		min_multi = GetOldestMultiXactId();
	}
	vac_update_relstats(rel, v.blocks, v.live, visible_blocks(&v), 0, nindexes > 0,
						frozen_xid, min_multi, NULL, NULL, false);
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared,
						 (PgStat_Counter) v.live, (PgStat_Counter) v.found.ghosts, start);
	pgstat_progress_end_command();

	report(&v, params, start);
}
