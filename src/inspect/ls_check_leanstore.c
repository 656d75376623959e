/*
 * ls_check_leanstore.c - leanstore_check: a leanstore index against its table.
 *
 * The tree is checked, and every entry: its bytes must be those that the row gives, labels must
 * order as the comparison procedure does, and of equal keys of a unique index one row at most
 * may live.  In an index that is marked for stale entries (index/ls_index_stale.c) an entry
 * with another key than its row has now is left aside.
 */
#include "postgres.h"

#include "ls_inspect_internal.h"
#include "key/ls_key.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"
#include "row/ls_row.h"
#include "index/ls_index.h"

#include "catalog/index.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/datum.h"

/* A column of the key against the row's value: its bytes, or that there is a label. */
static bool
segment_is_right(const LsKeyColumn *column, const uint8 *segment, Size len, Datum value,
				 bool isnull)
{
	StringInfoData expected;

	if (ls_key_has_labels(column) && !isnull)
		return len > 1;
	initStringInfo(&expected);
	ls_key_append(column, value, isnull, &expected);
	return expected.len == len && memcmp(expected.data, segment, len) == 0;
}

/* Of a long key: the bytes that the entry has of it, and a label for the others. */
static bool
beginning_is_right(Relation index, const ls_index_entry *entry,
				   const Datum *values, const bool *isnull)
{
	const LsKeyColumn *rest = ls_index_rest(ls_index_shape(index));
	ls_bytes	whole = ls_index_form_key(index, values, isnull);
	Size		left = entry->key.len - LS_LONG_KEY_BYTES;

	return whole.len > LS_LONG_KEY_BYTES &&
		memcmp(whole.data, entry->key.data, LS_LONG_KEY_BYTES) == 0 &&
		ls_key_column_length(rest, entry->key.data + LS_LONG_KEY_BYTES, left) == left;
}

/*
 * The key must be the one that the row gives, byte for byte but for labels; of what is stored
 * beside it the values count, for they may have been compressed in another way.  *has_null:
 * a key column is NULL.
 */
static void
check_key(LsIndexCheck *check, const ls_index_entry *entry, ItemPointer tid, bool *has_null)
{
	const LsIndexShape *shape = ls_index_shape(check->index);
	Datum		row_values[INDEX_MAX_KEYS];
	bool		row_nulls[INDEX_MAX_KEYS];
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	const uint8 *at = entry->key.data;
	Size		left = entry->key.len;
	bool		is_long = ls_index_is_long(shape, entry->key.len);
	int			n_stored = is_long ? shape->n_columns : shape->n_stored;

	FormIndexDatum(check->info, check->slot, check->estate, row_values, row_nulls);
	if (is_long && !beginning_is_right(check->index, entry, row_values, row_nulls))
		ls_check_raise_different(check, tid, 1);
	for (int i = 0; i < shape->n_keys && !is_long; i++)
	{
		Size		len = ls_key_column_length(&shape->keys[i], at, left);

		if (len == 0 || !segment_is_right(&shape->keys[i], at, len, row_values[i], row_nulls[i]) ||
			(i == shape->n_keys - 1 && len != left))
			ls_check_raise_different(check, tid, i + 1);
		at += len;
		left -= len;
	}

	*has_null = false;
	for (int i = 0; i < shape->n_keys; i++)
		*has_null |= row_nulls[i];

	ls_index_deform(check->index, entry, values, nulls);
	for (int i = 0; i < n_stored; i++)
	{
		int			column = is_long ? i : shape->stored[i] - 1;
		CompactAttribute *att = TupleDescCompactAttr(RelationGetDescr(check->index), column);

		if (nulls[column] != row_nulls[column] ||
			(!nulls[column] && !datum_image_eq(values[column], row_values[column],
											   att->attbyval, att->attlen)))
			ls_check_raise_different(check, tid, column + 1);
	}
}

static bool
row_lives(LsIndexCheck *check, uint64 row_id)
{
	ItemPointerData tid;

	ls_row_to_tid(row_id, &tid);
	return ls_check_row_lives(check, &tid);
}

/* The last row seen that lives, and its key. */
typedef struct LastRow
{
	uint64		row_id;			/* 0: none */
	StringInfoData key;
} LastRow;

/*
 * This row lives and was the last to be found so.  If the one before has the same key,
 * and still lives, both did at this moment: rows do not come back.
 */
static void
check_unique(LsIndexCheck *check, LastRow *last, const ls_index_entry *entry)
{
	bool		equal = last->row_id != 0 && last->key.len == entry->key.len &&
		memcmp(last->key.data, entry->key.data, entry->key.len) == 0;

	if (equal && row_lives(check, last->row_id))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("unique index \"%s\" has two rows with the same key: (%u,%u) and (%u,%u)",
						RelationGetRelationName(check->index),
						ls_row_to_block(last->row_id), ls_row_to_offset(last->row_id),
						ls_row_to_block(entry->row_id), ls_row_to_offset(entry->row_id)),
				 errhint("Delete one of them and REINDEX the index.")));
	last->row_id = entry->row_id;
	resetStringInfo(&last->key);
	appendBinaryStringInfo(&last->key, entry->key.data, entry->key.len);
}

/* last: where at most one row that lives may have a key, else NULL. */
static void
check_one_entry(LsIndexCheck *check, const ls_index_entry *entry, bool can_be_stale, LastRow *last)
{
	ItemPointerData tid;
	bool		has_null;

	ls_row_to_tid(entry->row_id, &tid);
	if (!can_be_stale)
		ls_check_note_entry(check, &tid);
	if (!ls_check_row_lives(check, &tid))
		return;					/* dead: the entry waits for cleaning */
	if (can_be_stale)
	{
		if (ls_index_has_stale(check->index) &&
			!ls_index_is_key_of(check->index, entry->key, check->slot))
			return;				/* stale, and waits for cleaning as well */
		ls_check_note_entry(check, &tid);
	}
	check_key(check, entry, &tid, &has_null);
	if (last != NULL && (!has_null || check->index->rd_index->indnullsnotdistinct))
		check_unique(check, last, entry);
}

bool
ls_check_leanstore_entries(LsIndexCheck *check)
{
	Form_pg_index form = check->index->rd_index;
	bool		can_be_stale = ls_index_can_be_stale(check->index);
	ls_index_scan *scan;
	LsOrderLabelCheck *labels = NULL;
	LastRow		last = {0};
	ls_check_result result;
	ls_index_entry entry;
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_rel_check(ls_reader(), ls_index_tree(check->index), &result, &error));
	ls_check(status, error, check->index);

	initStringInfo(&last.key);
	if (ls_index_shape(check->index)->n_labels > 0 || ls_index_shape(check->index)->can_be_long)
		labels = ls_order_label_check_begin(check->index);
	scan = ls_index_scan_open_owned(check->index, ls_index_tree(check->index));
	LS_CALL(status, ls_index_scan_range(scan, (ls_bytes) {0}, (ls_bytes) {0}, false, &error));
	ls_check(status, error, check->index);
	for (;;)
	{
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		LS_CALL(status, ls_index_scan_next(scan, &entry, &error));
		if (status == LS_END)
			break;
		ls_check(status, error, check->index);

		if (labels != NULL)
			ls_order_label_check_entry(labels, &entry);
		ResetPerTupleExprContext(check->estate);
		old = MemoryContextSwitchTo(GetPerTupleMemoryContext(check->estate));
		check_one_entry(check, &entry, can_be_stale,
						form->indisunique && form->indimmediate ? &last : NULL);
		MemoryContextSwitchTo(old);
	}
	ls_index_scan_close_owned(scan);
	if (labels != NULL)
		ls_order_label_check_end(labels);
	pfree(last.key.data);
	/* a row that has got another key meanwhile has been met with both */
	return !ls_index_has_stale(check->index);
}

/* Of a row that lives: has the index the entry that this version needs? */
static bool
has_entry(LsIndexCheck *check, ItemPointer tid)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	ls_index_seen seen;
	ls_bytes	key;
	ls_error	error;
	ls_status	status;

	FormIndexDatum(check->info, check->slot, check->estate, values, isnull);
	key = ls_index_form_key(check->index, values, isnull);
	/* a row that has got it has moved: its entry was there when the index was read */
	if (ls_index_is_long(ls_index_shape(check->index), key.len))
		return false;
	LS_CALL(status, ls_index_look(ls_reader(), ls_index_tree(check->index), key,
								  ls_tid_to_row(tid), &seen, &error));
	if (status == LS_NOT_FOUND)
		return false;
	ls_check(status, error, check->index);
	return true;
}

/*
 * A version that all see has its entry until another one is in its place: so an entry is
 * missing only if the version is still there after the look in vain.
 */
LsEntryFound
ls_check_leanstore_entry(LsIndexCheck *check, ItemPointer tid)
{
	if (ls_index_shape(check->index)->n_labels > 0)
		return LS_ENTRY_MISSING;	/* such entries do not move */
	while (ls_check_row_lives(check, tid))
	{
		const LsSlot *slot = ls_slot_cast(check->slot);
		const uint64 writer_tn = slot->writer_tn;
		const uint32 cid = slot->cid;

		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(check->estate);
		if (has_entry(check, tid))
			return LS_ENTRY_ONCE;
		if (ls_check_row_lives(check, tid) && slot->writer_tn == writer_tn && slot->cid == cid)
			return LS_ENTRY_MISSING;
	}
	return LS_ENTRY_NOT_WANTED;
}
