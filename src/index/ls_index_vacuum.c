/*
 * ls_index_vacuum.c - VACUUM of an index, and the list of all its entries.
 *
 * An entry is dead when its row id has no row that a snapshot could see; the engine finds
 * that out by itself, so VACUUM of a leanstore table only asks for a sweep, if rows have gone since
 * the last one, and then looks for entries that are stale (ls_index_stale.c), if there are any.
 * ambulkdelete is for callers that judge each entry by themselves: the second phase of a
 * concurrent build lists all entries with it, and deletes none.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "relation/ls_relation.h"
#include "row/ls_row.h"

#include "commands/vacuum.h"
#include "storage/bufmgr.h"

/* Leaves swept between two looks at interrupts and the cost limit. */
#define LEAVES_AT_A_TIME 64

/* Entries read between two. */
#define ENTRIES_AT_A_TIME 4096

typedef struct BulkDelete
{
	IndexVacuumInfo *info;
	IndexBulkDeleteResult *stats;
	IndexBulkDeleteCallback callback;
	void	   *state;
} BulkDelete;

static void
delete_entries(BulkDelete *d, ls_index_scan *scan)
{
	Relation	index = d->info->index;
	ls_index_entry entry;
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_index_scan_range(scan, (ls_bytes) {0}, (ls_bytes) {0}, false, &error));
	ls_check(status, error, index);
	for (uint64 n = 0;; n++)
	{
		ItemPointerData tid;

		if (n % ENTRIES_AT_A_TIME == 0)
			vacuum_delay_point(d->info->analyze_only);
		LS_CALL(status, ls_index_scan_next(scan, &entry, &error));
		if (status == LS_END)
			break;
		ls_check(status, error, index);

		ls_row_to_tid(entry.row_id, &tid);
		if (!d->callback(&tid, d->state))
		{
			d->stats->num_index_tuples += 1;
			continue;
		}
		ls_index_remove_dead(index, d->info->heaprel, entry.key, entry.row_id);
		d->stats->tuples_removed += 1;
	}
}

IndexBulkDeleteResult *
ls_index_ambulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
					  IndexBulkDeleteCallback callback, void *state)
{
	BulkDelete	d = {.info = info, .callback = callback, .state = state};
	ls_index_scan *scan;

	if (stats == NULL)
		stats = palloc0_object(IndexBulkDeleteResult);
	d.stats = stats;
	stats->num_index_tuples = 0;	/* counted anew by every pass */

	scan = ls_index_scan_open_owned(info->index, ls_index_tree(info->index));
	delete_entries(&d, scan);
	ls_index_scan_close_owned(scan);
	return stats;
}

static IndexBulkDeleteResult *
sweep(IndexVacuumInfo *info, ls_rows_there *there)
{
	IndexBulkDeleteResult *stats = palloc0_object(IndexBulkDeleteResult);
	ls_index_position position = {.there = there};
	uint64		entries = 0;
	uint64		removed = 0;
	ls_error	error;
	ls_status	status;

	do
	{
		/* copied: to open the index may process invalidations */
		ls_rel		table = *ls_open(info->heaprel);
		uint64		swept_entries = 0;
		uint64		swept_removed = 0;

		vacuum_delay_point(false);
		LS_CALL(status,
				ls_index_sweep(ls_reader(), ls_index_tree(info->index), &table, LEAVES_AT_A_TIME,
							   &position, &swept_entries, &swept_removed, &error));
		if (status != LS_END)
			ls_check(status, error, info->index);
		entries += swept_entries;
		removed += swept_removed;
	} while (status != LS_END);

	stats->num_index_tuples = entries;
	stats->tuples_removed = removed;
	return stats;
}

/* How often to try where the leaf changes just then. */
#define TRIES 3

/* Has the row the key, or is the entry no more?  False: neither, though no snapshot needs it. */
static bool
clear_up(IndexVacuumInfo *info, const ls_index_entry *entry, IndexBulkDeleteResult *stats)
{
	Relation	index = info->index;

	for (int i = 0; i < TRIES; i++)
	{
		if (ls_index_row_has_key(index, info->heaprel, entry->key, entry->row_id))
			return true;
		if (ls_index_remove_stale(index, info->heaprel, entry->key, entry->row_id))
		{
			stats->tuples_removed += 1;
			stats->num_index_tuples -= 1;
			return true;
		}
	}
	return !ls_row_known(ls_shared->store, ls_open(info->heaprel), entry->row_id, LS_ROWS_CLEAN);
}

/*
 * Entries that updates have left behind: here each is held against its row, but for those to rows
 * that have not changed since all entries were found to be right.
 */
static bool
remove_stale(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	bool		complete = true;
	ls_index_scan *scan = ls_index_scan_open_owned(info->index, ls_index_tree(info->index));
	ls_index_entry entry;
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_index_scan_range(scan, (ls_bytes) {0}, (ls_bytes) {0}, false, &error));
	ls_check(status, error, info->index);
	for (uint64 n = 1;; n++)
	{
		if (n % ENTRIES_AT_A_TIME == 0)
			vacuum_delay_point(false);
		LS_CALL(status, ls_index_scan_next(scan, &entry, &error));
		if (status == LS_END)
			break;
		ls_check(status, error, info->index);
		if (!ls_row_known(ls_shared->store, ls_open(info->heaprel), entry.row_id, LS_ROWS_VOUCHED))
			complete &= clear_up(info, &entry, stats);
	}
	ls_index_scan_close_owned(scan);
	return complete;
}

uint64
ls_index_rows_gone_since(Relation index, Relation table)
{
	/* copied: to open the index may process invalidations */
	ls_rel		tree = *ls_open(table);
	uint64		gone;
	ls_error	error;
	ls_status	status;

	LS_CALL(status,
			ls_index_rows_gone(ls_reader(), ls_index_tree(index), &tree, &gone, &error));
	ls_check(status, error, index);
	return gone;
}

IndexBulkDeleteResult *
ls_index_clean(IndexVacuumInfo *info, bool swept, ls_rows_there *there, bool *complete)
{
	IndexBulkDeleteResult *stats =
		swept ? palloc0_object(IndexBulkDeleteResult) : sweep(info, there);

	stats->estimated_count = swept;
	*complete = true;
	if (ls_index_has_stale(info->index))
		*complete = remove_stale(info, stats);
	stats->num_pages = RelationGetNumberOfBlocks(info->index);
	return stats;
}

IndexBulkDeleteResult *
ls_index_amvacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	bool		complete;

	if (info->analyze_only)
		return stats;
	return ls_index_clean(info, false, NULL, &complete);
}
