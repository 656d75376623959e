/*
 * ls_order_label_check.c - leanstore_check: do labels, and strings under collations of libc, order
 * as the values do?
 *
 * Neighbours are compared by the procedure that the operator class has now.  After
 * another version of a collation was installed, for one, it may say something else
 * than when the labels were given.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "ls_index_scan.h"
#include "row/ls_row.h"

#include "utils/memutils.h"

struct LsOrderLabelCheck
{
	LsOrderLabelSearch search;
	LsIndexOrder *order;		/* NULL: it depends on no collation of libc */
	MemoryContext scratch;

	/* The entry before: key | row id, and what is beside it. */
	uint64		row_id;			/* 0: there is none */
	StringInfoData position;
	StringInfoData payload;
};

LsOrderLabelCheck *
ls_order_label_check_begin(Relation index)
{
	LsOrderLabelCheck *check = palloc0_object(LsOrderLabelCheck);

	ls_order_label_search_init(&check->search, index);
	check->order = ls_index_order_begin(index);
	check->scratch = AllocSetContextCreate(CurrentMemoryContext, "leanstore label check",
										   ALLOCSET_SMALL_SIZES);
	initStringInfo(&check->position);
	initStringInfo(&check->payload);
	return check;
}

/* Is one of the columns with labels, up to the first that differs, not as it has to be? */
static bool
differs_from_procedure(const LsOrderLabelCheck *check, const ls_index_entry *last,
					   const ls_index_entry *entry)
{
	const LsIndexShape *shape = check->search.shape;
	bool		same = true;
	Size		at = 0;

	for (int c = 0; c < shape->n_keys && same; c++)
	{
		const LsKeyColumn *column = &shape->keys[c];
		Size last_len = ls_key_column_length(column, last->key.data + at, last->key.len - at);
		Size		len = ls_key_column_length(column, entry->key.data + at, entry->key.len - at);

		if (len == 0 || last_len == 0)
			ls_key_damaged();
		same = len == last_len && memcmp(last->key.data + at, entry->key.data + at, len) == 0;
		if (ls_key_has_labels(column) && last->key.data[at] == LS_KEY_VALUE &&
			entry->key.data[at] == LS_KEY_VALUE)
		{
			int			order = ls_key_compare(column, column->compare,
									   ls_index_stored_value(check->search.index, last, c),
									   ls_index_stored_value(check->search.index, entry, c));

			if (same ? order != 0 : order >= 0)
				return true;
		}
		at += len;
	}
	return false;
}

/* Two long keys that begin alike: their labels and they themselves. */
static bool
rests_differ(const LsOrderLabelCheck *check, const ls_index_entry *last,
			 const ls_index_entry *entry)
{
	ls_bytes	last_key;
	StringInfoData whole;
	int			order;

	if (last->key.len <= LS_LONG_KEY_BYTES ||
		memcmp(last->key.data, entry->key.data, LS_LONG_KEY_BYTES) != 0)
		return false;
	initStringInfo(&whole);
	last_key = ls_index_whole_key(check->search.index, last);
	appendBinaryStringInfo(&whole, last_key.data, last_key.len);
	order = ls_bytes_compare(ls_bytes_of(&whole), ls_index_whole_key(check->search.index, entry));
	return ls_bytes_compare(last->key, entry->key) == 0 ? order != 0 : order >= 0;
}

void
ls_order_label_check_entry(LsOrderLabelCheck *check, const ls_index_entry *entry)
{
	Relation	index = check->search.index;
	bool		is_long = ls_index_is_long(check->search.shape, entry->key.len);

	if (check->search.shape->n_labels == 0 && !is_long && check->order == NULL)
	{
		check->row_id = 0;
		return;
	}
	if (check->row_id != 0)
	{
		ls_index_entry last = {.row_id = check->row_id,
							   .key = {(const uint8_t *) check->position.data,
									   check->position.len - LS_ENTRY_ROW_ID_BYTES},
							   .payload = {(const uint8_t *) check->payload.data,
										   check->payload.len}};
		MemoryContext old = MemoryContextSwitchTo(check->scratch);
		bool		differs = is_long ? rests_differ(check, &last, entry)
			: check->search.shape->n_labels > 0 && differs_from_procedure(check, &last, entry);

		if (!differs && check->order != NULL)
			differs = ls_index_order_wrong(check->order, &last, entry) != 0;

		MemoryContextSwitchTo(old);
		MemoryContextReset(check->scratch);

		/*
		 * an entry that is removed says nothing of labels given afterwards; one that is not was
		 * there with this one
		 */
		if (differs && ls_order_label_still_there(&check->search, ls_bytes_of(&check->position)))
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("index \"%s\" has the entries for rows (%u,%u) and (%u,%u) in another "
							"order than its comparison function",
							RelationGetRelationName(index),
							ls_row_to_block(last.row_id), ls_row_to_offset(last.row_id),
							ls_row_to_block(entry->row_id), ls_row_to_offset(entry->row_id)),
					 errdetail("The function, or the collation, may have changed since the "
							   "index was built."),
					 errhint("REINDEX the index.")));
	}
	check->row_id = entry->row_id;
	ls_index_entry_position(entry, &check->position);
	resetStringInfo(&check->payload);
	appendBinaryStringInfo(&check->payload, entry->payload.data, entry->payload.len);
}

void
ls_order_label_check_end(LsOrderLabelCheck *check)
{
	ls_order_label_search_end(&check->search);
	if (check->order != NULL)
		ls_index_order_end(check->order);
	MemoryContextDelete(check->scratch);
}
