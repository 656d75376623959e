/*
 * ls_index_lookup.c - a look-up by a whole key, `WHERE id = $1`: from the scan key to the row.
 *
 * This is the way of most short statements, without what other scans need besides.  Indented is
 * what is called by the line above:
 *
 *	IndexNext()					the executor asks for a row (nodeIndexscan.c)
 *	  ls_index_amgettuple()		the first call since the scan began or was given other values
 *		ls_index_look_up()		values to key, key to entry, entry to row id: the TID
 *	  ls_index_fetch_tuple()	TID to row (table/ls_table_fetch.c)
 *		ls_fetch_visible()		the engine finds the version that the snapshot sees
 *		ls_slot_store()			its bytes become the slot's tuple
 *
 * The server asks for the TID first and for its row then: there are two functions.  Nothing is
 * latched in between, and the entry may go: it is the row that counts.
 *
 * The executor asks once more, for the key may be there again: of a row that was deleted, or in an
 * index that is not unique.  That call goes on behind the entry as any scan does
 * (ls_index_scan_advance).
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "ls_index_scan.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"
#include "row/ls_row.h"

/*
 * Other scans search for their keys (labels), cut them (long keys), lock what they read
 * (SERIALIZABLE), or take turns with other processes.
 */
bool
ls_index_is_look_up(IndexScanDesc scan)
{
	const LsIndexScan *so = scan->opaque;
	const LsIndexShape *shape = so->filter.shape;

	return scan->parallel_scan == NULL && shape->n_labels == 0 && !shape->can_be_long &&
		scan->numberOfKeys == shape->n_keys &&
		!ls_locks_reads(scan->indexRelation, scan->xs_snapshot) &&
		ls_index_filter_is_lookup(&so->filter, scan->keyData, scan->numberOfKeys);
}

bool
ls_index_look_up(IndexScanDesc scan, bool backward)
{
	Relation	index = scan->indexRelation;
	LsIndexScan *so = scan->opaque;
	LsIndexFilter *filter = &so->filter;
	MemoryContext old_context;
	ls_error	error;
	ls_status	status;

	ls_index_scan_leave(so);
	so->entry_no = 0;
	so->started = true;
	so->backward = backward;
	so->at_end = so->nothing = so->recheck = so->lock.on = false;
	so->n_steps = 0;

	/* The key: the values as bytes, column by column.  Nothing is equal to NULL. */
	ls_index_filter_reset(filter, false);
	filter->is_point = true;
	old_context = MemoryContextSwitchTo(filter->context);
	for (int i = 0; i < scan->numberOfKeys && !so->nothing; i++)
		so->nothing = !ls_index_filter_append_equal(filter, &scan->keyData[i]);
	MemoryContextSwitchTo(old_context);
	if (so->nothing)
		return false;

	/* The entries of the key: from it to what follows it and all that begins with it. */
	appendBinaryStringInfo(&filter->to, filter->from.data, filter->from.len);
	ls_index_make_following(&filter->to);

	/* The engine's scan of that range; a rescan (nested loop) finds it open.  Nothing is read. */
	if (so->engine == NULL)
		so->engine = ls_index_scan_open_owned(index, ls_index_tree(index));
	so->moved = true;
	LS_CALL_ON(index, status,
			   ls_index_scan_range(so->engine, ls_bytes_of(&filter->from),
								   ls_bytes_of(&filter->to), backward, &error));
	ls_check(status, error, index);

	/* The first entry: the engine descends to its leaf, and copies what is of the range. */
	LS_CALL_ON(index, status, ls_index_scan_next(so->engine, &so->entry, &error));
	ls_index_scan_count_searches(scan);
	so->at_end = status == LS_END;
	if (so->at_end)
		return false;
	ls_check(status, error, index);

	/* Its row id is the TID. */
	ls_row_to_tid(so->entry.row_id, &scan->xs_heaptid);
	so->on_entry = true;
	return true;
}
