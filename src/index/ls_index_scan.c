/*
 * ls_index_scan.c - index scans: plain, bitmap, index-only, marked and restored.
 *
 * ls_index_keys.c says what range of the index to read and which entries in it
 * match.  Where one does not, the scan seeks to the next place that can match
 * instead of reading on.  The engine's scan is opened by the first entry wanted: EXPLAIN
 * and plan nodes that are never run cost nothing, and what it holds belongs to the
 * resource owner of the execution.  A rescan keeps it.
 *
 * From the third on, entries are taken from the engine many at a time (take_entries).  Where all
 * of the range match and their keys are of no interest, only their rows are (take_ahead): the
 * engine's scan stays where it was, and is moved over what has been returned when more than the row
 * of an entry is asked for (ls_index_scan_settle).
 *
 * Entries never lie about the keys that rows had when they were inserted, so nothing is rechecked
 * but what labels leave open; whether an entry counts is asked of its row by the executor, and in
 * an index with stale entries (ls_index_stale.c) so is whether the row still has the key.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "ls_index_scan.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"
#include "row/ls_row.h"

#include "access/htup_details.h"
#include "access/itup.h"
#include "pgstat.h"
#include "utils/memutils.h"

/* Dead and stale entries are removed this many at a time. */
#define NOTED_ENTRIES 64

/* Of stale entries that others need not all are looked at: at least one of so many and one. */
#define MAX_PASSES 255

/*
 * A place that lies further than this many entries ahead is sought; a nearer one is cheaper to
 * reach by reading on.
 */
#define STEPS_BEFORE_SEEK 2

/* Rows taken from the engine at a time, by a scan that has read some entries one by one. */
#define AHEAD_ROWS 64
#define STEPS_BEFORE_AHEAD 2

IndexScanDesc
ls_index_ambeginscan(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc scan = RelationGetIndexScan(index, nkeys, norderbys);
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "leanstore index scan",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	LsIndexScan *so = palloc0_object(LsIndexScan);

	so->context = context;
	ls_index_filter_init(&so->filter, index);
	so->can_be_stale = ls_index_can_be_stale(index);
	initStringInfoExt(&so->mark, 128);
	scan->opaque = so;
	MemoryContextSwitchTo(old_context);
	return scan;
}

/* ----------------------------------------------------------------
 * dead entries
 * ----------------------------------------------------------------
 */

void
ls_index_scan_settle(LsIndexScan *so)
{
	if (so->n_taken > 0)
	{
		ls_error	error;
		ls_status	status;

		LS_CALL(status, ls_index_scan_skip(so->engine, so->n_taken, &so->entry, &error));
		ls_check(status, error, so->filter.index);
	}
	so->n_taken = so->n_ahead = 0;
}

/* Add the entry returned last. */
static void
note_entry(LsIndexScan *so, LsEntryList *list)
{
	ls_index_scan_settle(so);
	if (list->rows == NULL)
	{
		MemoryContext old_context = MemoryContextSwitchTo(so->context);

		list->rows = palloc_array(uint64, NOTED_ENTRIES);
		list->ends = palloc_array(uint32, NOTED_ENTRIES);
		initStringInfo(&list->keys);
		MemoryContextSwitchTo(old_context);
	}
	appendBinaryStringInfo(&list->keys, so->entry.key.data, so->entry.key.len);
	list->rows[list->n] = so->entry.row_id;
	list->ends[list->n] = list->keys.len;
	list->n++;
}

static ls_bytes
noted_key(const LsEntryList *list, int i)
{
	uint32		begin = i > 0 ? list->ends[i - 1] : 0;

	return (ls_bytes)
	{
		(const uint8_t *) list->keys.data + begin, list->ends[i] - begin
	};
}

static void
forget_noted(LsEntryList *list)
{
	if (list->n == 0)
		return;
	list->n = 0;
	resetStringInfo(&list->keys);
}

/* The engine looks at the row again: it tells standbys since when that is dead. */
void
ls_index_remove_dead(Relation index, Relation table, ls_bytes key, uint64 row_id)
{
	const ls_index_entry entry = {.key = key, .row_id = row_id};
	/* copied: to open the index may process invalidations */
	ls_rel		rows = *ls_open(table);
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_index_remove(ls_reader(), ls_index_tree(index), &rows, &entry, &error));
	ls_check(status, error, index);
}

static void
remove_dead(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;

	for (int i = 0; i < so->dead.n; i++)
		ls_index_remove_dead(scan->indexRelation, scan->heapRelation, noted_key(&so->dead, i),
							 so->dead.rows[i]);
	forget_noted(&so->dead);
}

/*
 * The row of the entry returned last is dead to all snapshots, and stays so: row ids
 * are not used again.  So the entry can be removed at any time.
 */
static void
note_dead(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;

	if (!so->on_entry)
		return;
	note_entry(so, &so->dead);
	if (so->dead.n == NOTED_ENTRIES)
		remove_dead(scan);
}

/* Where others need them, fewer and fewer are looked at. */
static void
remove_stale(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;
	int			removed = 0;

	if (so->stale.n == 0)
		return;
	for (int i = 0; i < so->stale.n; i++)
		if (ls_index_remove_stale(scan->indexRelation, scan->heapRelation, noted_key(&so->stale, i),
								  so->stale.rows[i]))
			removed++;
	so->passes = removed > 0 ? 0 : Min(2 * so->passes + 1, MAX_PASSES);
	forget_noted(&so->stale);
}

/* The entry returned last is stale to this scan. */
static void
note_stale(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;

	so->met_stale = false;
	if (!so->on_entry || scan->xactStartedInRecovery || so->n_passed++ < so->passes)
		return;
	so->n_passed = 0;
	note_entry(so, &so->stale);
	if (so->stale.n == NOTED_ENTRIES)
		remove_stale(scan);
}

/* The scan comes to an end, or begins anew. */
static void
remove_noted(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;

	if (so->met_stale)
		note_stale(scan);
	remove_dead(scan);
	remove_stale(scan);
}

/* ----------------------------------------------------------------
 * entries
 * ----------------------------------------------------------------
 */

void
ls_index_entry_position(const ls_index_entry *entry, StringInfo position)
{
	uint8		row_id[LS_ENTRY_ROW_ID_BYTES];

	ls_index_put_row_id(entry->row_id, row_id);
	resetStringInfo(position);
	appendBinaryStringInfo(position, entry->key.data, entry->key.len);
	appendBinaryStringInfo(position, row_id, sizeof(row_id));
}

/*
 * Coming back to a place where the scan has been (a mark, another process' place) is none that the
 * user has to know of.
 */
void
ls_index_scan_count_searches(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;
	uint64		searches = ls_index_scan_searches(so->engine);

	for (; so->searches < searches && !so->coming_back; so->searches++)
	{
		pgstat_count_index_scan(scan->indexRelation);
		if (scan->instrument)
			scan->instrument->nsearches++;
	}
	so->searches = searches;
	so->moved = false;
	so->coming_back = false;
}

/* Go to the range of the present arguments; all: to read all of it. */
static void
start(IndexScanDesc scan, bool backward, bool all)
{
	LsIndexScan *so = scan->opaque;
	ls_error	error;
	ls_status	status;

	ls_index_scan_leave(so);
	so->started = true;
	so->backward = backward;
	so->at_end = false;
	so->nothing = false;
	so->n_steps = 0;
	so->lock.on = ls_locks_reads(scan->indexRelation, scan->xs_snapshot);
	if (!ls_index_filter_build(&so->filter, scan->keyData, scan->numberOfKeys, so->lock.on))
	{
		so->nothing = true;
		return;
	}
	if (so->engine == NULL)
		so->engine = ls_index_scan_open_owned(scan->indexRelation,
											  ls_index_tree(scan->indexRelation));
	/* labels of entries that the snapshot does not see prove nothing (ls_order_label.c) */
	so->recheck = so->filter.searches &&
		(so->lock.on || scan->xs_snapshot == NULL || !IsMVCCSnapshot(scan->xs_snapshot));
	if (unlikely(so->lock.on))
		ls_index_lock_start(scan, backward, all);
	so->moved = true;
	LS_CALL_ON(scan->indexRelation, status,
			   ls_index_scan_range(so->engine, ls_bytes_of(&so->filter.from),
								   ls_bytes_of(&so->filter.to), backward, &error));
	ls_check(status, error, scan->indexRelation);
}

static void
seek(IndexScanDesc scan, ls_bytes position)
{
	LsIndexScan *so = scan->opaque;
	ls_error	error;
	ls_status	status;

	ls_index_scan_leave(so);
	so->moved = true;
	if (unlikely(so->lock.on))
		ls_index_lock_jump(&so->lock, position);
	LS_CALL_ON(scan->indexRelation, status, ls_index_scan_seek(so->engine, position, &error));
	ls_check(status, error, scan->indexRelation);
}

/* Go on with the next of those that were taken. */
static inline void
give_entry(LsIndexScan *so)
{
	const ls_batch_entry *next = &so->entries->entries[so->n_given++];

	so->entry = next->entry;
	so->entry_no = so->n_given;
	so->same_key = next->same_key;
	so->visible = next->visible;
}

/* Those that were not looked at are the engine's again. */
static void
give_back_entries(LsIndexScan *so)
{
	if (so->n_given < so->n_entries)
		ls_index_scan_give_back(so->engine, so->n_entries - so->n_given);
	so->n_entries = so->n_given = so->n_run = 0;
}

/*
 * Take the entries that come next.  They are of the leaf that the engine's scan has copied when it
 * came there, as they would be one by one.  What is said of visibility is so for the scan's
 * snapshot, which is there already.
 */
static ls_status
take_entries(IndexScanDesc scan, ls_error *error)
{
	LsIndexScan *so = scan->opaque;
	ls_status	status;

	if (so->entries == NULL)
		so->entries = MemoryContextAlloc(so->context, sizeof(ls_index_batch));
	LS_CALL_ON(scan->indexRelation, status, ls_index_scan_take(so->engine, so->entries, error));
	if (status == LS_OK)
	{
		so->n_entries = so->entries->count;
		so->all_match = scan->xs_want_itup && so->filter.exact && scan->parallel_scan == NULL;
		so->tuple_no = 0;
		give_entry(so);
	}
	return status;
}

/* Where rows are all that is wanted, they are taken ahead instead. */
static inline bool
wants_entries(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;

	return (scan->xs_want_itup || !so->filter.exact || scan->parallel_scan != NULL) &&
		so->n_run++ >= STEPS_BEFORE_AHEAD;
}

static bool
read_entry(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;
	ls_error	error;
	ls_status	status;

	so->n_entries = so->n_given = so->entry_no = 0;
	so->same_key = so->visible = false;
	if (unlikely(so->lock.on))
		status = ls_index_lock_next(scan, &error);
	else if (wants_entries(scan))
		status = take_entries(scan, &error);
	else
		LS_CALL_ON(scan->indexRelation, status, ls_index_scan_next(so->engine, &so->entry, &error));
	if (so->moved)
		ls_index_scan_count_searches(scan);
	if (status == LS_END)
	{
		so->at_end = true;
		return false;
	}
	ls_check(status, error, scan->indexRelation);
	return true;
}

static inline bool
next_entry(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;

	if (so->n_given == so->n_entries)
		return read_entry(scan);
	give_entry(so);
	return true;
}

/* Read the first entry that is not before filter.skip_to. */
static bool
skip(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;
	ls_bytes	place = ls_bytes_of(&so->filter.skip_to);

	/* what is read on the way would have to be locked */
	int			steps = so->lock.on ? 0 : STEPS_BEFORE_SEEK;

	for (int i = 0; i < steps; i++)
	{
		if (!next_entry(scan))
			return false;
		if ((ls_bytes_compare(so->entry.key, place) < 0) == so->backward)
			return true;
	}
	seek(scan, place);
	return next_entry(scan);
}

/*
 * Does the entry match?  Places that the check comes to are among whole keys.  One that is between
 * long keys that begin as this one is not sought, they are read one by one.
 */
static LsIndexVerdict
check_entry(LsIndexScan *so, bool backward)
{
	LsIndexFilter *filter = &so->filter;
	ls_bytes	key = so->entry.key;
	LsIndexVerdict verdict;

	if (unlikely(ls_index_is_long(filter->shape, key.len)))
	{
		MemoryContext old_context;

		if (so->long_context == NULL)
			so->long_context = AllocSetContextCreate(so->context, "leanstore long key",
													 ALLOCSET_SMALL_SIZES);
		MemoryContextReset(so->long_context);
		old_context = MemoryContextSwitchTo(so->long_context);
		key = ls_index_whole_key(filter->index, &so->entry);
		MemoryContextSwitchTo(old_context);
	}
	verdict = ls_index_filter_check(filter, key, backward);
	if (verdict == LS_INDEX_SKIP && ls_index_is_long(filter->shape, filter->skip_to.len))
	{
		if (so->entry.key.len >= LS_LONG_KEY_BYTES &&
			memcmp(so->entry.key.data, filter->skip_to.data, LS_LONG_KEY_BYTES) == 0)
			return LS_INDEX_NO_MATCH;
		ls_index_clip_place(filter->shape, &filter->skip_to, backward);
	}
	return verdict;
}

bool
ls_index_scan_advance(IndexScanDesc scan, bool backward)
{
	LsIndexScan *so = scan->opaque;
	bool		matched = so->on_entry;

	if (so->n_ahead > 0)
		ls_index_scan_settle(so);
	so->on_entry = false;
	if (!so->started)
		start(scan, backward, false);
	if (so->nothing)
		return false;
	if (backward != so->backward)
	{
		give_back_entries(so);
		ls_index_scan_set_backward(so->engine, backward);
		so->backward = backward;
		so->at_end = false;
	}
	if (so->at_end || !next_entry(scan))
		return false;
	/* of many rows with one key that is asked once: the entry before in the batch matched */
	while (!so->filter.exact && !(matched && so->same_key))
	{
		LsIndexVerdict verdict = check_entry(so, backward);

		if (verdict == LS_INDEX_MATCH)
			break;
		matched = false;
		CHECK_FOR_INTERRUPTS();
		if (verdict == LS_INDEX_DONE)
		{
			so->at_end = true;
			return false;
		}
		if (!(verdict == LS_INDEX_SKIP ? skip(scan) : next_entry(scan)))
			return false;
	}
	so->on_entry = true;
	return true;
}

void
ls_index_scan_resume(IndexScanDesc scan, ls_bytes position, bool backward)
{
	LsIndexScan *so = scan->opaque;

	so->on_entry = false;
	ls_index_scan_leave(so);
	if (position.len == 0)
	{
		so->started = false;
		return;
	}
	if (!so->started)
		start(scan, backward, false);
	so->at_end = false;
	so->coming_back = true;
	if (so->nothing)
		return;
	seek(scan, position);
}

/* ----------------------------------------------------------------
 * callbacks
 * ----------------------------------------------------------------
 */

void
ls_index_amrescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	LsIndexScan *so = scan->opaque;

	remove_noted(scan);
	ls_index_scan_leave(so);
	if (keys != NULL && scan->numberOfKeys > 0)
		memcpy(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
	so->started = false;
	so->on_entry = false;
	so->marked = false;
	ls_index_parallel_forget(so);
}

/* A tuple without nulls, for columns of fixed lengths: its values have their places. */
static void
make_fixed_tuple(LsIndexScan *so)
{
	uint16		offsets[INDEX_MAX_KEYS];
	Size		size = MAXALIGN(sizeof(IndexTupleData));
	int			n = so->tuple_desc->natts;

	for (int i = 0; i < n; i++)
	{
		CompactAttribute *column = TupleDescCompactAttr(so->tuple_desc, i);

		if (column->attlen <= 0)
			return;
		offsets[i] = (uint16) att_nominal_alignby(size, column->attalignby);
		size = offsets[i] + column->attlen;
		if (size > LS_MAX_ROW_BYTES)
			return;
	}
	size = MAXALIGN(size);
	so->fixed_tuple = palloc0(size);
	so->fixed_tuple->t_info = (unsigned short) size;
	so->fixed_offsets = palloc_array(uint16, n);
	memcpy(so->fixed_offsets, offsets, n * sizeof(uint16));
}

/* False: a value is null. */
static bool
fill_fixed_tuple(LsIndexScan *so)
{
	for (int i = 0; i < so->tuple_desc->natts; i++)
	{
		CompactAttribute *column = TupleDescCompactAttr(so->tuple_desc, i);
		char	   *place = (char *) so->fixed_tuple + so->fixed_offsets[i];

		if (so->isnull[i])
			return false;
		if (column->attbyval)
			store_att_byval(place, so->values[i], column->attlen);
		else
			memcpy(place, DatumGetPointer(so->values[i]), column->attlen);
	}
	return true;
}

/* All columns are numbers in the key: values can be read and stored without any memory. */
static void
find_plain_columns(LsIndexScan *so)
{
	const LsIndexShape *shape = so->filter.shape;
	int			n = so->tuple_desc->natts;

	if (so->fixed_tuple == NULL)
		return;
	for (int i = 0; i < n; i++)
		if (i >= shape->n_keys || !ls_key_is_plain(&shape->keys[i]) ||
			!TupleDescCompactAttr(so->tuple_desc, i)->attbyval)
			return;
	so->plain = palloc_array(LsPlainColumn, n);
	for (int i = 0; i < n; i++)
		so->plain[i] = (LsPlainColumn)
	{
		.key = &shape->keys[i], .len = 1 + shape->keys[i].encoding->width,
		.value = (char *) so->fixed_tuple + so->fixed_offsets[i],
		.value_len = TupleDescCompactAttr(so->tuple_desc, i)->attlen
	};
}

/* False: a value is null, or the key is damaged. */
static bool
fill_plain_tuple(LsIndexScan *so)
{
	const uint8 *at = so->entry.key.data;
	const uint8 *end = at + so->entry.key.len;
	const LsPlainColumn *column = so->plain;

	for (int i = so->tuple_desc->natts; i > 0; i--, column++)
	{
		if (end - at < column->len || at[0] != LS_KEY_VALUE)
			return false;
		store_att_byval(column->value, ls_key_decode_plain(column->key, at + 1), column->value_len);
		at += column->len;
	}
	return at == end;
}

static void
prepare_tuples(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;
	TupleDesc	columns = RelationGetDescr(scan->indexRelation);
	MemoryContext old_context = MemoryContextSwitchTo(so->context);

	so->tuple_context = AllocSetContextCreate(CurrentMemoryContext, "leanstore index tuple",
											  ALLOCSET_SMALL_SIZES);
	so->values = palloc_array(Datum, columns->natts);
	so->isnull = palloc_array(bool, columns->natts);

	/* the tuple lives for one row: nothing in it shall be compressed */
	so->tuple_desc = CreateTupleDescCopy(columns);
	for (int i = 0; i < columns->natts; i++)
	{
		TupleDescAttr(so->tuple_desc, i)->attstorage = TYPSTORAGE_PLAIN;
		populate_compact_attribute(so->tuple_desc, i);
	}
	scan->xs_itupdesc = so->tuple_desc;
	initStringInfo(&so->tuple_key);
	make_fixed_tuple(so);
	find_plain_columns(so);
	MemoryContextSwitchTo(old_context);
}

/*
 * index_form_tuple() for values that are not stored elsewhere, and shall not be compressed: without
 * what it does about such ones.
 */
static IndexTuple
make_tuple(LsIndexScan *so)
{
	TupleDesc	desc = so->tuple_desc;
	Size		header = IndexInfoFindDataOffset(0);
	uint16		flags = 0;
	Size		data_size;
	Size		size;
	IndexTuple	tuple;

	for (int i = 0; i < desc->natts; i++)
		if (so->isnull[i])
			return index_form_tuple(desc, so->values, so->isnull);
	data_size = heap_compute_data_size(desc, so->values, so->isnull);
	size = MAXALIGN(header + data_size);
	if (size > INDEX_SIZE_MASK)
		return index_form_tuple(desc, so->values, so->isnull);
	tuple = palloc0(size);
	heap_fill_tuple(desc, so->values, so->isnull, (char *) tuple + header, data_size, &flags, NULL);
	Assert((flags & HEAP_HASEXTERNAL) == 0);
	tuple->t_info = (unsigned short) (size | (flags & HEAP_HASVARWIDTH ? INDEX_VAR_MASK : 0));
	return tuple;
}

/* Is xs_itup what the entry returned last gives?  Of a batch that is known without a look. */
static inline bool
has_key_of_tuple(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;

	if (so->entry.payload.len > 0)
		return false;
	if (so->entry_no > 0)
	{
		if (!so->same_key || so->tuple_no != so->entry_no - 1)
			return false;
		so->tuple_no = so->entry_no;
		return true;
	}
	return scan->xs_itup != NULL && so->tuple_key.len > 0 &&
		so->entry.key.len == so->tuple_key.len &&
		memcmp(so->entry.key.data, so->tuple_key.data, so->entry.key.len) == 0;
}

/* Index-only scan: the columns of the entry. */
static void
form_tuple(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;
	MemoryContext old_context;

	if (so->tuple_context == NULL)
		prepare_tuples(scan);
	/* many rows have the key of the one before */
	if (has_key_of_tuple(scan))
		return;
	so->tuple_no = so->entry_no;
	so->tuple_key.len = 0;
	if (so->plain != NULL && so->entry_no > 0 && fill_plain_tuple(so))
	{
		scan->xs_itup = so->fixed_tuple;
		return;
	}
	/* those of a batch go together */
	if (so->entry_no <= 1)
		MemoryContextReset(so->tuple_context);
	old_context = MemoryContextSwitchTo(so->tuple_context);
	ls_index_deform(scan->indexRelation, &so->entry, so->values, so->isnull);
	if (so->fixed_tuple != NULL && fill_fixed_tuple(so))
		scan->xs_itup = so->fixed_tuple;
	else
		scan->xs_itup = make_tuple(so);
	MemoryContextSwitchTo(old_context);
	if (so->entry.payload.len == 0 && so->entry_no == 0)
		appendBinaryStringInfo(&so->tuple_key, so->entry.key.data, so->entry.key.len);
}

static inline bool
has_stale(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;

	return so->can_be_stale && ls_index_may_be_stale(ls_index_tree(scan->indexRelation));
}

/*
 * The rows of the entries that come next, without their keys.  False: one has to go on entry by
 * entry.
 */
static bool
look_ahead(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;
	uint32		count;
	ls_error	error;
	ls_status	status;

	if (!so->on_entry || !so->filter.exact || so->lock.on || has_stale(scan))
		return false;
	ls_index_scan_settle(so);
	Assert(so->n_given == so->n_entries);
	if (so->ahead == NULL)
		so->ahead = MemoryContextAlloc(so->context, AHEAD_ROWS * sizeof(uint64));
	LS_CALL(status, ls_index_scan_ahead(so->engine, so->ahead, AHEAD_ROWS, &count, &error));
	ls_check(status, error, scan->indexRelation);
	so->n_ahead = (int) count;
	return count > 0;
}

/* The next entry is one that was taken ahead, or shall be. */
static bool
take_ahead(IndexScanDesc scan, bool backward)
{
	LsIndexScan *so = scan->opaque;

	if (so->n_taken == so->n_ahead)
	{
		if (so->n_taken == 0 && so->n_steps++ < STEPS_BEFORE_AHEAD)
			return false;
		if (backward != so->backward || scan->xs_want_itup || scan->parallel_scan != NULL ||
			!look_ahead(scan))
			return false;
	}
	else if (backward != so->backward)
		return false;
	ls_row_to_tid(so->ahead[so->n_taken++], &scan->xs_heaptid);
	return true;
}

/* The scan's first entry is asked for: what it is about is known by now. */
static void
tell_fetch(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;
	LsIndexFetch *fetch = (LsIndexFetch *) scan->xs_heapfetch;

	fetch->index_only = scan->xs_want_itup;
	fetch->scan = so;
	if (so->can_be_stale)
		fetch->entries = so;
	/* what all snapshots see: of an MVCC snapshot that is so when the fetch comes to the row */
	if (scan->xs_want_itup && IsMVCCSnapshot(scan->xs_snapshot) &&
		XactIsoLevel != XACT_SERIALIZABLE)
		so->fetch = fetch;
	so->fetch_told = true;
}

uint64
ls_index_scan_vouched(const LsIndexScan *so)
{
	return so->batch != NULL ? ls_index_parallel_vouched(so) : ls_index_scan_vouches(so->engine);
}

bool
ls_index_amgettuple(IndexScanDesc scan, ScanDirection direction)
{
	LsIndexScan *so = scan->opaque;
	bool		backward = ScanDirectionIsBackward(direction);

	if (scan->kill_prior_tuple)
		note_dead(scan);
	if (unlikely(so->met_stale))
		note_stale(scan);
	if (!so->fetch_told && scan->xs_heapfetch != NULL)
		tell_fetch(scan);

	/* the usual step of an index-only scan */
	if (so->n_given < so->n_entries && so->all_match && backward == so->backward)
	{
		give_entry(so);
		ls_row_to_tid(so->entry.row_id, &scan->xs_heaptid);
	}
	else if (!so->started && ls_index_is_look_up(scan))
	{
		so->visible = false;
		if (!ls_index_look_up(scan, backward))
			return false;
	}
	else
	{
		if (take_ahead(scan, backward))
			return true;
		if (!(scan->parallel_scan != NULL ? ls_index_parallel_advance(scan, backward)
										  : ls_index_scan_advance(scan, backward)))
			return false;
		ls_row_to_tid(so->entry.row_id, &scan->xs_heaptid);
	}
	scan->xs_recheck = so->recheck;
	if (scan->xs_want_itup)
		form_tuple(scan);
	if (so->fetch != NULL)
		so->fetch->visible = so->visible;
	return true;
}

int64
ls_index_amgetbitmap(IndexScanDesc scan, TIDBitmap *bitmap)
{
	LsIndexScan *so = scan->opaque;
	ItemPointerData tids[256];
	int			n = 0;
	int64		total = 0;

	if (!so->started)
		start(scan, false, true);
	while (ls_index_scan_advance(scan, false))
	{
		ls_row_to_tid(so->entry.row_id, &tids[n++]);
		total++;
		if (look_ahead(scan))
		{
			for (; so->n_taken < so->n_ahead; so->n_taken++)
				ls_row_to_tid(so->ahead[so->n_taken], &tids[n++]);
			total += so->n_taken;
		}
		if (n + AHEAD_ROWS >= (int) lengthof(tids))
		{
			CHECK_FOR_INTERRUPTS();
			tbm_add_tuples(bitmap, tids, n, so->recheck || has_stale(scan));
			n = 0;
		}
	}
	if (n > 0)
		tbm_add_tuples(bitmap, tids, n, so->recheck || has_stale(scan));
	return total;
}

void
ls_index_amendscan(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;

	remove_noted(scan);
	if (so->engine != NULL)
		ls_index_scan_close_owned(so->engine);
	ls_index_filter_end(&so->filter);
	MemoryContextDelete(so->context);
}

void
ls_index_ammarkpos(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;

	ls_index_scan_settle(so);
	so->marked = so->on_entry;
	if (so->marked)
		ls_index_entry_position(&so->entry, &so->mark);
}

/* The next entry is the one behind the marked one. */
void
ls_index_amrestrpos(IndexScanDesc scan)
{
	LsIndexScan *so = scan->opaque;

	if (!so->marked)
		resetStringInfo(&so->mark);
	ls_index_scan_resume(scan, ls_bytes_of(&so->mark), so->backward);
}

/* What the key does not give back is in the payload. */
bool
ls_index_amcanreturn(Relation index, int column)
{
	return true;
}
