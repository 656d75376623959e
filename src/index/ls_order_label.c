/*
 * ls_order_label.c - labels: columns that are compared by their operator class' procedure.
 *
 * The engine orders bytes and calls no procedure.  Where no bytes order as one does, a value
 * gets a label when it is first inserted (key/ls_key_order_label.c), between those of its
 * neighbours, and is kept beside the key.  Neighbours are found by a binary search
 * that asks the engine for an entry in the middle and compares its value: no latch, no
 * lock and nothing of the engine but a scan is held while a procedure runs, so
 * it may fail, be cancelled, or take its time.
 *
 * Giving labels.  An insertion finds its key first.  Then it takes the index' label
 * lock (a heavyweight lock on "page" 0: shared to insert under labels that are there,
 * exclusive to insert a new one), looks whether what it relies on is still so, inserts and
 * lets go.  That is, for a label that is there: the entry it was read from.  For a new
 * one: both neighbours are there, and nothing is between them.  An entry seen again
 * is the same, with the same value: row ids are not used again.  What is relied on cannot
 * be undone by removals of dead entries after the look: no label is given while the
 * lock is held, so what is left agrees with all that was there.
 *
 * Reading needs no lock.  The entries that a snapshot sees were there before the search
 * and stay, so their labels agree with every entry that the search has met, whenever
 * that was: each bound from the search divides them correctly.  What is inserted meanwhile
 * may fall on the wrong side, and the snapshot does not see it.  A caller that looks with
 * another kind of snapshot checks the values that it finds.
 *
 * Locking (SERIALIZABLE).  A locked range has to hold all new labels of values in the
 * condition, for as long as the transaction runs.  Its ends are therefore entries of rows that
 * its snapshot sees, and that are not its own: they are not removed before its end,
 * so every value behind one gets a label behind it.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "ls_index_scan.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"
#include "row/ls_row.h"

#include "access/table.h"
#include "common/hashfn.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* What is locked while labels are given. */
#define LABEL_LOCK_PAGE 0

/* Long keys with other beginnings have other pages, most of them. */
#define REST_LOCK_PAGES 1024

/*
 * For a pinned neighbour so many entries are looked at; the range is as wide as can be when it is
 * not found.
 */
#define PINNED_STEPS 256

void
ls_order_label_search_init(LsOrderLabelSearch *search, Relation index)
{
	search->index = index;
	search->shape = ls_index_shape(index);
	search->scan = NULL;
	search->scratch = AllocSetContextCreate(CurrentMemoryContext, "leanstore label comparison",
											ALLOCSET_SMALL_SIZES);
	initStringInfo(&search->from);
	initStringInfo(&search->to);
}

void
ls_order_label_search_end(LsOrderLabelSearch *search)
{
	if (search->scan != NULL)
		ls_index_scan_close_owned(search->scan);
	search->scan = NULL;
	MemoryContextDelete(search->scratch);
}

void
ls_order_label_place_init(LsOrderLabelPlace *place)
{
	initStringInfo(&place->left.position);
	initStringInfo(&place->right.position);
}

static ls_index_scan *
scan_of(LsOrderLabelSearch *search)
{
	if (search->scan == NULL)
		search->scan = ls_index_scan_open_owned(search->index, ls_index_tree(search->index));
	return search->scan;
}

/* ----------------------------------------------------------------
 * entries
 * ----------------------------------------------------------------
 */

static void
set_bytes(StringInfo string, ls_bytes bytes)
{
	resetStringInfo(string);
	if (bytes.len > 0)
		appendBinaryStringInfo(string, bytes.data, bytes.len);
}

/* prefix | marker: the beginning or the end of the values of a column. */
static void
set_edge(StringInfo string, ls_bytes prefix, uint8 marker)
{
	set_bytes(string, prefix);
	appendStringInfoChar(string, (char) marker);
}

static void
note_entry(const LsOrderLabelSearch *search, int c, uint32 prefix_len, const ls_index_entry *entry,
		   LsOrderLabelEntry *noted)
{
	Size		len = ls_key_column_length(&search->shape->keys[c], entry->key.data + prefix_len,
									entry->key.len - prefix_len);

	if (len <= 1)
		ls_key_damaged();
	ls_index_entry_position(entry, &noted->position);
	noted->segment_begin = prefix_len;
	noted->segment_end = prefix_len + (uint32) len;
}

/* The key of a noted entry up to and with the column. */
static ls_bytes
key_to_segment(const LsOrderLabelEntry *entry)
{
	return (ls_bytes)
	{
		(const uint8_t *) entry->position.data, entry->segment_end
	};
}

static int
compare_with_entry(LsOrderLabelSearch *search, int c, FmgrInfo *compare,
				   const ls_index_entry *entry, Datum value)
{
	MemoryContext old_context = MemoryContextSwitchTo(search->scratch);
	int			order;

	if (c == search->shape->n_keys)
		order = ls_bytes_compare(ls_index_whole_key(search->index, entry),
								 *(const ls_bytes *) DatumGetPointer(value));
	else
		order = ls_key_compare(&search->shape->keys[c], compare,
							   ls_index_stored_value(search->index, entry, c), value);

	MemoryContextSwitchTo(old_context);
	MemoryContextReset(search->scratch);
	return order;
}

/* Begin to read a range; the first entry of it in that direction.  False: it is empty. */
static bool
first_entry(LsOrderLabelSearch *search, ls_bytes from, ls_bytes to, bool backward,
			ls_index_entry *entry)
{
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_index_scan_range(scan_of(search), from, to, backward, &error));
	ls_check(status, error, search->index);
	LS_CALL_ON(search->index, status, ls_index_scan_next(search->scan, entry, &error));
	if (status == LS_END)
		return false;
	ls_check(status, error, search->index);
	return true;
}

/* ----------------------------------------------------------------
 * finding
 * ----------------------------------------------------------------
 */

void
ls_order_label_find(LsOrderLabelSearch *search, int c, ls_bytes prefix, FmgrInfo *compare,
					Datum value, LsOrderLabelPlace *place)
{
	place->found = false;
	resetStringInfo(&place->left.position);
	resetStringInfo(&place->right.position);
	set_edge(&search->from, prefix, LS_KEY_VALUE);
	set_edge(&search->to, prefix, LS_KEY_VALUE + 1);
	(void) scan_of(search);

	for (;;)
	{
		LsOrderLabelEntry *noted;
		ls_index_entry entry;
		ls_error	error;
		ls_status	status;
		int			order;

		CHECK_FOR_INTERRUPTS();
		LS_CALL_ON(search->index, status,
				   ls_index_scan_middle(search->scan, ls_bytes_of(&search->from),
										ls_bytes_of(&search->to), &entry, &error));
		if (status == LS_END)
			return;
		ls_check(status, error, search->index);

		order = compare_with_entry(search, c, compare, &entry, value);
		noted = order <= 0 ? &place->left : &place->right;
		note_entry(search, c, prefix.len, &entry, noted);
		if (order == 0)
		{
			place->found = true;
			return;
		}
		if (order < 0)
		{
			set_bytes(&search->from, key_to_segment(noted));
			ls_index_make_following(&search->from);
		}
		else
			set_bytes(&search->to, key_to_segment(noted));
	}
}

void
ls_order_label_find_rest(LsOrderLabelSearch *search, ls_bytes whole, LsOrderLabelPlace *place)
{
	ls_order_label_find(search, search->shape->n_keys, (ls_bytes) {whole.data, LS_LONG_KEY_BYTES},
						NULL, PointerGetDatum(&whole), place);
}

/* Does the transaction's snapshot see the row, as one of others? */
static bool
is_pinned(Relation table, uint64 row_id, uint8 *buffer)
{
	ls_snapshot snapshot = *ls_snapshot_convert(GetTransactionSnapshot());
	ls_row		row;

	snapshot.own_tn = 0;
	return ls_fetch(table, row_id, &snapshot, buffer, &row, NULL) && row.writer_tn != ls_own_tn();
}

/* The first pinned entry of a range; none is noted when there is no such, or it is far away. */
static void
note_pinned(LsOrderLabelSearch *search, int c, uint32 prefix_len, ls_bytes from, ls_bytes to,
			bool backward, LsOrderLabelEntry *noted)
{
	Relation	table = table_open(search->index->rd_index->indrelid, NoLock);
	uint8	   *buffer = palloc(LS_ROW_BUFFER_BYTES);
	ls_index_entry entry;
	bool		more = first_entry(search, from, to, backward, &entry);

	for (int steps = 0; more && steps < PINNED_STEPS; steps++)
	{
		ls_error	error;
		ls_status	status;

		CHECK_FOR_INTERRUPTS();
		if (is_pinned(table, entry.row_id, buffer))
		{
			note_entry(search, c, prefix_len, &entry, noted);
			break;
		}
		LS_CALL_ON(search->index, status, ls_index_scan_next(search->scan, &entry, &error));
		more = status != LS_END;
		if (more)
			ls_check(status, error, search->index);
	}
	pfree(buffer);
	table_close(table, NoLock);
}

void
ls_order_label_find_pinned(LsOrderLabelSearch *search, int c, ls_bytes prefix, FmgrInfo *compare,
						   Datum value, LsOrderLabelPlace *place)
{
	LsOrderLabelPlace seen;
	StringInfoData from;
	StringInfoData to;

	ls_order_label_place_init(&seen);
	initStringInfo(&from);
	initStringInfo(&to);
	place->found = false;
	resetStringInfo(&place->left.position);
	resetStringInfo(&place->right.position);
	ls_order_label_find(search, c, prefix, compare, value, &seen);

	if (seen.found)
	{
		/* one of those with an equal value will do */
		set_bytes(&from, key_to_segment(&seen.left));
		set_bytes(&to, key_to_segment(&seen.left));
		ls_index_make_following(&to);
		note_pinned(search, c, prefix.len, ls_bytes_of(&from), ls_bytes_of(&to), false,
					&place->left);
		place->found = ls_order_label_is_entry(&place->left);
	}
	if (!place->found)
	{
		/* the label of an equal value may vanish and come back elsewhere */
		set_edge(&from, prefix, LS_KEY_VALUE);
		set_edge(&to, prefix, LS_KEY_VALUE + 1);
		if (ls_order_label_is_entry(&seen.left))
		{
			StringInfoData here;

			initStringInfo(&here);
			set_bytes(&here, key_to_segment(&seen.left));
			if (!seen.found)
				ls_index_make_following(&here);
			note_pinned(search, c, prefix.len, ls_bytes_of(&from), ls_bytes_of(&here), true,
						&place->left);
			if (seen.found)
				ls_index_make_following(&here);
			note_pinned(search, c, prefix.len, ls_bytes_of(&here), ls_bytes_of(&to), false,
						&place->right);
		}
		else
			note_pinned(search, c, prefix.len, ls_bytes_of(&from), ls_bytes_of(&to), false,
						&place->right);
	}
}

/* ----------------------------------------------------------------
 * the key of an entry to be inserted
 * ----------------------------------------------------------------
 */

LsOrderLabelKey *
ls_order_label_key_begin(Relation index)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "leanstore label key",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext old_context = MemoryContextSwitchTo(context);
	LsOrderLabelKey *key = palloc0_object(LsOrderLabelKey);
	int			n_places;

	key->context = context;
	ls_order_label_search_init(&key->search, index);
	initStringInfo(&key->key);
	initStringInfo(&key->whole);
	key->page = LABEL_LOCK_PAGE;
	n_places = Max(key->search.shape->n_labels, 1);
	key->places = palloc0_array(LsOrderLabelPlace, n_places);
	for (int i = 0; i < n_places; i++)
		ls_order_label_place_init(&key->places[i]);
	MemoryContextSwitchTo(old_context);
	return key;
}

void
ls_order_label_key_end(LsOrderLabelKey *key)
{
	ls_order_label_search_end(&key->search);
	MemoryContextDelete(key->context);
}

static void
append_new_label(LsOrderLabelKey *key, int c, const LsOrderLabelPlace *place)
{
	ls_bytes	left = {0};
	ls_bytes	right = {0};

	if (place != NULL && ls_order_label_is_entry(&place->left))
		left = ls_order_label_segment(&place->left);
	if (place != NULL && ls_order_label_is_entry(&place->right))
		right = ls_order_label_segment(&place->right);
	ls_key_append_label(&key->search.shape->keys[c], left.data, left.len, right.data, right.len,
						&key->key);
}

/* Labels that have grown are a reason that goes away. */
static void
check_size(const LsOrderLabelKey *key, uint32 label_bytes)
{
	if (unlikely(key->key.len > LS_MAX_KEY_BYTES && label_bytes > (uint32) key->key.len / 2))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index key of %d bytes exceeds maximum %u for index \"%s\"",
						key->key.len, LS_MAX_KEY_BYTES, RelationGetRelationName(key->search.index)),
				 errdetail("%u bytes of it are labels: too many values were inserted, "
						   "each between the last ones.", label_bytes),
				 errhint("REINDEX the index: it gives new, short labels to its values.")));
	ls_index_check_key_size(key->search.index, key->key.len);
}

/* The label where the value belongs. */
static void
append_label(LsOrderLabelKey *key, int c, const LsOrderLabelPlace *place)
{
	if (place->found)
	{
		ls_bytes	segment = ls_order_label_segment(&place->left);

		appendBinaryStringInfo(&key->key, segment.data, segment.len);
	}
	else
	{
		key->is_new = true;
		key->new_column = c;
		append_new_label(key, c, place);
	}
}

static void
form_long(LsOrderLabelKey *key, const Datum *values, const bool *isnull)
{
	set_bytes(&key->whole, ls_index_form_key(key->search.index, values, isnull));
	appendBinaryStringInfo(&key->key, key->whole.data, LS_LONG_KEY_BYTES);
	key->page = LABEL_LOCK_PAGE + 1 +
		hash_bytes((const unsigned char *) key->whole.data, LS_LONG_KEY_BYTES) % REST_LOCK_PAGES;
	key->n_places = 1;
	ls_order_label_find_rest(&key->search, ls_bytes_of(&key->whole), &key->places[0]);
	append_label(key, key->search.shape->n_keys, &key->places[0]);
}

void
ls_order_label_key_form(LsOrderLabelKey *key, const Datum *values, const bool *isnull)
{
	const LsIndexShape *shape = key->search.shape;
	MemoryContext old_context = MemoryContextSwitchTo(key->context);
	uint32		label_bytes = 0;

	resetStringInfo(&key->key);
	key->is_new = false;
	if (shape->n_labels == 0)
	{
		form_long(key, values, isnull);
		MemoryContextSwitchTo(old_context);
		return;
	}
	key->n_places = 0;
	for (int c = 0; c < shape->n_keys; c++)
	{
		const LsKeyColumn *column = &shape->keys[c];
		uint32		begin = key->key.len;
		LsOrderLabelPlace *place;

		if (!ls_key_has_labels(column) || isnull[c])
		{
			ls_key_append(column, values[c], isnull[c], &key->key);
			continue;
		}
		if (key->is_new)
			append_new_label(key, c, NULL); /* the first behind a new label */
		else
		{
			Datum		value = values[c];

			/* once, and not for each comparison */
			if (TupleDescCompactAttr(RelationGetDescr(key->search.index), c)->attlen == -1)
				value = PointerGetDatum(PG_DETOAST_DATUM_PACKED(value));
			place = &key->places[key->n_places++];
			ls_order_label_find(&key->search, c, ls_bytes_of(&key->key), column->compare, value,
								place);
			append_label(key, c, place);
		}
		label_bytes += key->key.len - begin;
	}
	MemoryContextSwitchTo(old_context);
	check_size(key, label_bytes);
}

/* ----------------------------------------------------------------
 * the label lock
 * ----------------------------------------------------------------
 */

bool
ls_order_label_still_there(LsOrderLabelSearch *search, ls_bytes position)
{
	ls_index_entry seen;

	set_bytes(&search->to, position);
	appendStringInfoChar(&search->to, '\0');
	return first_entry(search, position, ls_bytes_of(&search->to), false, &seen);
}

/* So is none. */
static bool
still_there(LsOrderLabelSearch *search, const LsOrderLabelEntry *entry)
{
	return !ls_order_label_is_entry(entry) ||
		   ls_order_label_still_there(search, ls_bytes_of(&entry->position));
}

static bool
nothing_between(LsOrderLabelKey *key, const LsOrderLabelPlace *place)
{
	LsOrderLabelSearch *search = &key->search;
	const LsOrderLabelEntry *any = ls_order_label_is_entry(&place->left) ? &place->left
																		 : &place->right;
	ls_bytes	prefix = {(const uint8_t *) key->key.data, 0};
	ls_index_entry seen;

	if (ls_order_label_is_entry(any))
		prefix.len = any->segment_begin;
	else if (key->new_column == search->shape->n_keys)
		prefix.len = LS_LONG_KEY_BYTES;
	else
	{
		/* the columns before the new label */
		for (int c = 0; c < key->new_column; c++)
			prefix.len += ls_key_column_length(&search->shape->keys[c], prefix.data + prefix.len,
											   key->key.len - prefix.len);
	}
	set_edge(&search->from, prefix, LS_KEY_VALUE);
	set_edge(&search->to, prefix, LS_KEY_VALUE + 1);
	if (ls_order_label_is_entry(&place->left))
	{
		set_bytes(&search->from, key_to_segment(&place->left));
		ls_index_make_following(&search->from);
	}
	if (ls_order_label_is_entry(&place->right))
		set_bytes(&search->to, key_to_segment(&place->right));
	return !first_entry(search, ls_bytes_of(&search->from), ls_bytes_of(&search->to), false, &seen);
}

static bool
still_right(LsOrderLabelKey *key)
{
	for (int i = 0; i < key->n_places; i++)
	{
		const LsOrderLabelPlace *place = &key->places[i];

		if (!still_there(&key->search, &place->left) ||
			(!place->found &&
			 (!still_there(&key->search, &place->right) || !nothing_between(key, place))))
			return false;
	}
	return true;
}

bool
ls_order_label_key_claim(LsOrderLabelKey *key)
{
	key->lock = key->is_new ? ExclusiveLock : ShareLock;
	LockPage(key->search.index, key->page, key->lock);
	if (still_right(key))
		return true;
	ls_order_label_key_release(key);
	return false;
}

void
ls_order_label_key_form_claimed(LsOrderLabelKey *key, const Datum *values, const bool *isnull)
{
	key->lock = ExclusiveLock;
	LockPage(key->search.index, key->page, key->lock);
	do
		ls_order_label_key_form(key, values, isnull);
	while (!still_right(key));	/* a procedure of ours may have inserted, too */
}

void
ls_order_label_key_release(LsOrderLabelKey *key)
{
	UnlockPage(key->search.index, key->page, key->lock);
}

bool
ls_order_label_key_equals(LsOrderLabelKey *key, const ls_index_entry *entry, const Datum *values,
						  const bool *isnull)
{
	if (key->search.shape->n_labels == 0)
	{
		ls_bytes	whole = ls_bytes_of(&key->whole);

		return compare_with_entry(&key->search, key->search.shape->n_keys, NULL, entry,
								  PointerGetDatum(&whole)) == 0;
	}
	for (int c = 0; c < key->search.shape->n_keys; c++)
	{
		const LsKeyColumn *column = &key->search.shape->keys[c];

		if (ls_key_has_labels(column) && !isnull[c] &&
			compare_with_entry(&key->search, c, column->compare, entry, values[c]) != 0)
			return false;
	}
	return true;
}
