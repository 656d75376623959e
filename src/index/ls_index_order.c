/*
 * ls_index_order.c - do the entries of an index with strings under collations of libc order as the
 * comparison procedures do?
 *
 * That their encodings agree with strcoll() has been tried with strings of all kinds
 * (key/ls_key_libc.c), but not with those of this index: neighbours are compared.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "ls_index_scan.h"

#include "utils/memutils.h"
#include "utils/rel.h"

struct LsIndexOrder
{
	Relation	index;
	MemoryContext scratch;		/* of one comparison */
	FmgrInfo	compare[INDEX_MAX_KEYS];
};

LsIndexOrder *
ls_index_order_begin(Relation index)
{
	const LsIndexShape *shape = ls_index_shape(index);
	LsIndexOrder *order;
	bool		any = false;

	for (int c = 0; c < shape->n_keys; c++)
		any |= shape->keys[c].form.strings != LS_KEY_NO_STRINGS;
	if (!any)
		return NULL;
	order = palloc_object(LsIndexOrder);
	order->index = index;
	order->scratch = AllocSetContextCreate(CurrentMemoryContext, "leanstore index order",
										   ALLOCSET_SMALL_SIZES);
	for (int c = 0; c < shape->n_keys; c++)
		if (shape->keys[c].form.strings != LS_KEY_NO_STRINGS)
			fmgr_info(index_getprocid(index, c + 1, 1), &order->compare[c]);
	return order;
}

/* The whole key of an entry, which may be a long one. */
static ls_bytes
copy_key(LsIndexOrder *order, const ls_index_entry *entry)
{
	StringInfoData copy;
	ls_bytes	whole;

	if (!ls_index_is_long(ls_index_shape(order->index), entry->key.len))
		return entry->key;
	whole = ls_index_whole_key(order->index, entry);
	initStringInfo(&copy);
	appendBinaryStringInfo(&copy, whole.data, whole.len);
	return ls_bytes_of(&copy);
}

static int
first_wrong_column(LsIndexOrder *order, const ls_index_entry *last, const ls_index_entry *entry)
{
	const LsIndexShape *shape = ls_index_shape(order->index);
	ls_bytes	last_key = copy_key(order, last);
	ls_bytes	key = copy_key(order, entry);
	Datum		last_values[INDEX_MAX_KEYS];
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	uint32		at = 0;
	bool		same = true;

	ls_index_deform(order->index, last, last_values, isnull);
	ls_index_deform(order->index, entry, values, isnull);
	for (int c = 0; c < shape->n_keys && same; c++)
	{
		const LsKeyColumn *column = &shape->keys[c];
		Size		last_len = ls_key_column_length(column, last_key.data + at, last_key.len - at);
		Size		len = ls_key_column_length(column, key.data + at, key.len - at);

		if (len == 0 || last_len == 0)
			ls_key_damaged();
		same = len == last_len && memcmp(last_key.data + at, key.data + at, len) == 0;
		if (column->form.strings != LS_KEY_NO_STRINGS &&
			last_key.data[at] == LS_KEY_VALUE && key.data[at] == LS_KEY_VALUE)
		{
			int			by_procedure = ls_key_compare(column, &order->compare[c], last_values[c],
											  values[c]);

			if (same ? by_procedure != 0 : by_procedure >= 0)
				return c + 1;
		}
		at += len;
	}
	return 0;
}

int
ls_index_order_wrong(LsIndexOrder *order, const ls_index_entry *last, const ls_index_entry *entry)
{
	MemoryContext old = MemoryContextSwitchTo(order->scratch);
	int			column = first_wrong_column(order, last, entry);

	MemoryContextSwitchTo(old);
	MemoryContextReset(order->scratch);
	return column;
}

void
ls_index_order_end(LsIndexOrder *order)
{
	MemoryContextDelete(order->scratch);
	pfree(order);
}
