/*
 * ls_order_label_sort.c - sorting the entries of a new index that has labels.
 *
 * The rows are sorted by the operator class' procedures, as those of a btree are; then
 * each value gets a label one step behind that of the one before.  Records come out
 * as those of ls_index_sort.c do.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "ls_index_sort.h"
#include "row/ls_row.h"

#include "access/itup.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

struct LsOrderLabelSort
{
	Relation	index;
	const LsIndexShape *shape;
	Tuplesortstate *state;
	HTAB	   *dead;			/* row ids; NULL: none so far */
	MemoryContext scratch;		/* of one record */

	/*
	 * The record given out, and the one before: its key, where its columns begin, and its values.
	 */
	StringInfoData key;
	StringInfoData last_key;
	uint32		offsets[INDEX_MAX_KEYS + 1];
	uint32		last_offsets[INDEX_MAX_KEYS + 1];
	IndexTuple	last;			/* NULL: none yet */
};

LsOrderLabelSort *
ls_order_label_sort_begin(Relation table, Relation index, int kilobytes)
{
	LsOrderLabelSort *sort = palloc0_object(LsOrderLabelSort);

	sort->index = index;
	sort->shape = ls_index_shape(index);
	sort->state = tuplesort_begin_index_btree(table, index, false, false, kilobytes, NULL,
											  TUPLESORT_NONE);
	sort->scratch = AllocSetContextCreate(CurrentMemoryContext, "leanstore index record",
										  ALLOCSET_DEFAULT_SIZES);
	initStringInfo(&sort->key);
	initStringInfo(&sort->last_key);
	return sort;
}

static void
note_dead(LsOrderLabelSort *sort, uint64 row_id)
{
	if (sort->dead == NULL)
	{
		HASHCTL		control = {
			.keysize = sizeof(uint64),
			.entrysize = sizeof(uint64),
			.hcxt = GetMemoryChunkContext(sort)
		};

		sort->dead = hash_create("leanstore index dead rows", 256, &control,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	(void) hash_search(sort->dead, &row_id, HASH_ENTER, NULL);
}

void
ls_order_label_sort_add(LsOrderLabelSort *sort, ItemPointer tid, const Datum *values,
						const bool *isnull, bool alive)
{
	if (!alive)
		note_dead(sort, ls_tid_to_row(tid));
	tuplesort_putindextuplevalues(sort->state, sort->index, tid, values, isnull);
}

void
ls_order_label_sort_perform(LsOrderLabelSort *sort)
{
	tuplesort_performsort(sort->state);
}

/* Column c of the last record; *known: it has one, and the columns before are those of this one. */
static ls_bytes
last_segment(const LsOrderLabelSort *sort, int c, bool known)
{
	if (!known || (uint8) sort->last_key.data[sort->last_offsets[c]] != LS_KEY_VALUE)
		return (ls_bytes) {0};
	return (ls_bytes){(const uint8_t *) sort->last_key.data + sort->last_offsets[c],
					  sort->last_offsets[c + 1] - sort->last_offsets[c]};
}

static void
append_label(LsOrderLabelSort *sort, int c, Datum value, bool known)
{
	const LsKeyColumn *column = &sort->shape->keys[c];
	ls_bytes	last = last_segment(sort, c, known);

	if (last.len > 0)
	{
		bool		isnull;
		Datum last_value = index_getattr(sort->last, c + 1, RelationGetDescr(sort->index), &isnull);

		if (ls_key_compare(column, column->compare, last_value, value) == 0)
		{
			appendBinaryStringInfo(&sort->key, last.data, last.len);
			return;
		}
	}
	ls_key_append_label(column, last.data, last.len, NULL, 0, &sort->key);
}

/* The key of these values, which come next in order. */
static void
form_key(LsOrderLabelSort *sort, const Datum *values, const bool *isnull)
{
	bool		known = sort->last != NULL;

	resetStringInfo(&sort->key);
	for (int c = 0; c < sort->shape->n_keys; c++)
	{
		uint32		begin = sort->key.len;
		uint32		len;

		sort->offsets[c] = begin;
		if (ls_key_has_labels(&sort->shape->keys[c]) && !isnull[c])
			append_label(sort, c, values[c], known);
		else
			ls_key_append(&sort->shape->keys[c], values[c], isnull[c], &sort->key);
		len = sort->key.len - begin;
		known = known && len == sort->last_offsets[c + 1] - sort->last_offsets[c] &&
			memcmp(sort->key.data + begin, sort->last_key.data + sort->last_offsets[c], len) == 0;
	}
	sort->offsets[sort->shape->n_keys] = sort->key.len;
	ls_index_check_key_size(sort->index, sort->key.len);
}

bool
ls_order_label_sort_next(LsOrderLabelSort *sort, LsIndexRecord *record)
{
	IndexTuple	tuple = tuplesort_getindextuple(sort->state, true);
	MemoryContext old;
	StringInfoData swap;
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	uint64		row_id;
	uint8		row_id_bytes[LS_ENTRY_ROW_ID_BYTES];

	if (tuple == NULL)
		return false;
	row_id = ls_tid_to_row(&tuple->t_tid);
	MemoryContextReset(sort->scratch);
	old = MemoryContextSwitchTo(sort->scratch);
	index_deform_tuple(tuple, RelationGetDescr(sort->index), values, isnull);
	form_key(sort, values, isnull);

	record->key_len = sort->key.len;
	record->payload = ls_index_form_payload(sort->index,
											(ls_bytes){(const uint8_t *) sort->key.data,
													   sort->key.len},
											values, isnull);
	ls_index_put_row_id(row_id, row_id_bytes);
	appendBinaryStringInfo(&sort->key, row_id_bytes, sizeof(row_id_bytes));
	record->entry = (ls_bytes) {(const uint8_t *) sort->key.data, sort->key.len};
	record->flags = sort->dead != NULL && hash_search(sort->dead, &row_id, HASH_FIND, NULL) != NULL
						? LS_RECORD_IS_DEAD
						: 0;
	for (int c = 0; c < sort->shape->n_keys; c++)
		if (isnull[c])
			record->flags |= LS_RECORD_HAS_NULL;
	MemoryContextSwitchTo(old);

	/* the next one is compared with it */
	swap = sort->last_key;
	sort->last_key = sort->key;
	sort->key = swap;
	memcpy(sort->last_offsets, sort->offsets, sizeof(sort->offsets));
	if (sort->last != NULL)
		pfree(sort->last);
	sort->last = CopyIndexTuple(tuple);
	return true;
}

void
ls_order_label_sort_end(LsOrderLabelSort *sort)
{
	tuplesort_end(sort->state);
	if (sort->dead != NULL)
		hash_destroy(sort->dead);
	MemoryContextDelete(sort->scratch);
}
