/*
 * ls_index_shape.c - from index columns to the bytes of an entry and back.
 *
 * The shape of an index follows from what can not change while it exists: operator
 * classes, collations, ordering.  It is made once for a relcache entry and stays as
 * long as that, so a caller may keep it while it has the index open.  The server throws rd_amcache
 * away when it likes; the shape is then found again with the first column's comparison
 * procedure, which no other code calls through the relcache.  Only a build may change what was
 * recorded of an index (ls_index_form.c), and then the shape is another one.
 *
 * Columns that the key can not give back are in the payload: an index tuple without
 * its TID.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "relation/ls_relation.h"

#include "access/itup.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* A payload is an index tuple from here on. */
#define PAYLOAD_OFFSET offsetof(IndexTupleData, t_info)

/* ---- making the shape ------------------------------------------------------ */

Oid
ls_index_key_type(Relation index, int column)
{
	return ls_key_type(index->rd_opcintype[column],
					   TupleDescAttr(RelationGetDescr(index), column)->atttypid);
}

/* The keys that are there are of no use any more. */
pg_noreturn static void
raise_other_keys(Relation index, const LsKeyColumn *key)
{
	const char *collation = OidIsValid(key->collation) ? get_collation_name(key->collation) : NULL;

	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" was built with another version of its collation",
					RelationGetRelationName(index)),
			 collation != NULL && strcmp(collation, "default") != 0
			 ? errdetail("The sort keys that the C library makes for collation \"%s\", or its "
						 "order, have changed since.", collation)
			 : errdetail("The sort keys that the C library makes, or its order, have changed "
						 "since."),
			 errhint("REINDEX the index.")));
}

/* A key column as it was when the index was built. */
static void
init_key(Relation index, LsIndexShape *shape, int i)
{
	LsKeyColumn *key = &shape->keys[i];
	Oid			cmp = index_getprocid(index, i + 1, 1);
	Oid			type = ls_index_key_type(index, i);
	Oid			collation = index->rd_indcollation[i];
	bool		descending = (index->rd_indoption[i] & INDOPTION_DESC) != 0;
	bool		nulls_first = (index->rd_indoption[i] & INDOPTION_NULLS_FIRST) != 0;
	bool		encoded;

	key->form = ls_key_recorded_form(shape->forms[i]);
	encoded = ls_key_column_init(key, cmp, type, collation, descending, nulls_first);
	if (shape->forms[i] != 0 && (!encoded || ls_key_record_form(&key->form) != shape->forms[i]))
		raise_other_keys(index, key);
	if (!encoded)
	{
		ls_key_label_init(key, cmp, type, collation, descending, nulls_first);
		shape->n_labels++;
	}
}

static Size
max_key_bytes(const LsIndexShape *shape)
{
	Size		bytes = 0;

	for (int i = 0; i < shape->n_keys; i++)
	{
		if (shape->keys[i].encoding->width == 0)
			return MaxAllocSize;
		bytes += 1 + shape->keys[i].encoding->width;
	}
	return bytes;
}

static LsIndexShape *
make_shape(Relation index, const uint16 *forms)
{
	TupleDesc	desc = RelationGetDescr(index);
	LsIndexShape *shape = palloc0_object(LsIndexShape);

	shape->n_columns = IndexRelationGetNumberOfAttributes(index);
	shape->n_keys = IndexRelationGetNumberOfKeyAttributes(index);
	shape->keys = palloc0_array(LsKeyColumn, shape->n_keys + 1);
	shape->forms = palloc_array(uint16, shape->n_keys);
	memcpy(shape->forms, forms, shape->n_keys * sizeof(uint16));
	shape->stored = palloc_array(AttrNumber, shape->n_columns);

	for (int i = 0; i < shape->n_columns; i++)
	{
		if (i < shape->n_keys)
		{
			init_key(index, shape, i);
			if (ls_key_is_reversible(&shape->keys[i]))
				continue;
		}
		shape->stored[shape->n_stored++] = i + 1;
	}

	shape->can_be_long = shape->n_labels == 0 && max_key_bytes(shape) > LS_LONG_KEY_BYTES;
	if (shape->can_be_long)
		ls_key_rest_init(&shape->keys[shape->n_keys]);
	if (shape->n_stored > 0)
	{
		shape->payload = CreateTemplateTupleDesc(shape->n_stored);
		for (int i = 0; i < shape->n_stored; i++)
			TupleDescCopyEntry(shape->payload, i + 1, desc, shape->stored[i]);
	}
	return shape;
}

const LsIndexShape *
ls_index_shape(Relation index)
{
	LsRelCache *cache = ls_relation_cache(index);

	if (unlikely(cache->shape == NULL))
	{
		FmgrInfo   *keeper = index_getprocinfo(index, 1, 1);
		const LsIndexShape *known = keeper->fn_extra;
		uint16		forms[INDEX_MAX_KEYS];

		ls_index_recorded_forms(index, forms);
		if (known == NULL || memcmp(known->forms, forms, known->n_keys * sizeof(uint16)) != 0)
		{
			MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
														  "leanstore index shape",
														  ALLOCSET_SMALL_SIZES);
			MemoryContext old = MemoryContextSwitchTo(context);
			LsIndexShape *shape = make_shape(index, forms);

			MemoryContextSwitchTo(old);
			/* only now, so that an error leaves nothing behind */
			MemoryContextSetParent(context, index->rd_indexcxt);
			keeper->fn_extra = shape;
		}
		cache = ls_relation_cache(index);
		cache->shape = keeper->fn_extra;
	}
	return cache->shape;
}

/* ---- forming entries ------------------------------------------------------- */

/*
 * One key is needed at a time, and most are short: they are made in this buffer.
 * Longer ones may turn up on the way (what is too long for an index is seen when it
 * is there), so it grows, and is given back when it has grown much.
 */
static StringInfoData key_buffer;

#define KEY_BUFFER_KEPT 8192

static void
reset_key_buffer(void)
{
	if (key_buffer.data != NULL && key_buffer.maxlen <= KEY_BUFFER_KEPT)
	{
		key_buffer.len = 0;
		return;
	}
	if (key_buffer.data != NULL)
	{
		pfree(key_buffer.data);
		key_buffer.data = NULL;
	}
	key_buffer.data = MemoryContextAlloc(TopMemoryContext, 1024);
	key_buffer.maxlen = 1024;
	key_buffer.len = 0;
}

ls_bytes
ls_index_form_key(Relation index, const Datum *values, const bool *isnull)
{
	const LsIndexShape *shape = ls_index_shape(index);

	Assert(shape->n_labels == 0);
	reset_key_buffer();
	for (int i = 0; i < shape->n_keys; i++)
		ls_key_append(&shape->keys[i], values[i], isnull[i], &key_buffer);
	return (ls_bytes)
	{
		(const uint8 *) key_buffer.data, (uint32) key_buffer.len
	};
}

bool
ls_index_key_is_long(Relation index, const Datum *values, const bool *isnull)
{
	const LsIndexShape *shape = ls_index_shape(index);

	return shape->can_be_long &&
		ls_index_is_long(shape, ls_index_form_key(index, values, isnull).len);
}

void
ls_index_check_key_size(Relation index, uint32 len)
{
	if (unlikely(len > LS_MAX_KEY_BYTES))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index key of %u bytes exceeds maximum %u for index \"%s\"",
						len, LS_MAX_KEY_BYTES, RelationGetRelationName(index)),
				 errhint("Consider an index on an expression that is shorter, "
						 "such as a hash of the value, or a btree or hash index.")));
}

/* As btree's: detoasts, and compresses what is long. */
static IndexTuple
form_stored(Relation index, bool all, const Datum *values, const bool *isnull)
{
	const LsIndexShape *shape = ls_index_shape(index);
	Datum		stored_values[INDEX_MAX_KEYS];
	bool		stored_isnull[INDEX_MAX_KEYS];

	if (all)
		return index_form_tuple(RelationGetDescr(index), values, isnull);
	for (int i = 0; i < shape->n_stored; i++)
	{
		stored_values[i] = values[shape->stored[i] - 1];
		stored_isnull[i] = isnull[shape->stored[i] - 1];
	}
	return index_form_tuple(shape->payload, stored_values, stored_isnull);
}

ls_bytes
ls_index_form_payload(Relation index, ls_bytes key, const Datum *values, const bool *isnull)
{
	const LsIndexShape *shape = ls_index_shape(index);
	bool		is_long = ls_index_is_long(shape, key.len);
	IndexTuple	tuple;
	Size		len;

	if (shape->n_stored == 0 && !is_long)
		return (ls_bytes)
	{
		NULL, 0
	};

	tuple = form_stored(index, is_long, values, isnull);
	len = IndexTupleSize(tuple) - PAYLOAD_OFFSET;
	if (len > ls_index_max_payload(key.len))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index row of %zu bytes exceeds maximum %zu for index \"%s\"",
						key.len + len, (Size) key.len + ls_index_max_payload(key.len),
						RelationGetRelationName(index)),
				 errdetail("The key takes %u bytes, the columns stored beside it %zu.", key.len,
						   len),
				 (shape->n_labels > 0 && key.len > LS_MAX_KEY_BYTES / 4) ||
						 (is_long && key.len > LS_LONG_ENTRY_BYTES)
					 ? errhint("REINDEX the index: it gives new, short labels to its values.")
					 : errhint(
						   "Consider an index on an expression that is shorter, such as a hash of"
						   " the value, and leave long columns out of the INCLUDE list.")));
	return (ls_bytes)
	{
		(const uint8 *) tuple + PAYLOAD_OFFSET, (uint32) len
	};
}

/* ---- and back -------------------------------------------------------------- */

pg_noreturn static void
raise_damaged(Relation index, uint64 row_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("entry of row " UINT64_FORMAT " in index \"%s\" is damaged",
					row_id, RelationGetRelationName(index)),
			 errhint("REINDEX the index.")));
}

static IndexTuple
copy_payload(Relation index, const ls_index_entry *entry)
{
	IndexTuple	tuple;

	if (entry->payload.len < sizeof(IndexTupleData) - PAYLOAD_OFFSET)
		raise_damaged(index, entry->row_id);
	tuple = palloc(PAYLOAD_OFFSET + entry->payload.len);
	memcpy((char *) tuple + PAYLOAD_OFFSET, entry->payload.data, entry->payload.len);
	if (IndexTupleSize(tuple) != PAYLOAD_OFFSET + entry->payload.len)
		raise_damaged(index, entry->row_id);
	return tuple;
}

static void
deform_payload(Relation index, const LsIndexShape *shape, const ls_index_entry *entry,
			   Datum *values, bool *isnull)
{
	Datum		stored_values[INDEX_MAX_KEYS];
	bool		stored_isnull[INDEX_MAX_KEYS];

	index_deform_tuple(copy_payload(index, entry), shape->payload, stored_values, stored_isnull);
	for (int i = 0; i < shape->n_stored; i++)
	{
		values[shape->stored[i] - 1] = stored_values[i];
		isnull[shape->stored[i] - 1] = stored_isnull[i];
	}
}

void
ls_index_deform(Relation index, const ls_index_entry *entry, Datum *values, bool *isnull)
{
	const LsIndexShape *shape = ls_index_shape(index);
	const uint8 *at = entry->key.data;
	Size		left = entry->key.len;

	if (ls_index_is_long(shape, entry->key.len))
	{
		index_deform_tuple(copy_payload(index, entry), RelationGetDescr(index), values, isnull);
		return;
	}
	for (int i = 0; i < shape->n_keys; i++)
	{
		Size		len = ls_key_column_length(&shape->keys[i], at, left);

		if (unlikely(len == 0))
			raise_damaged(index, entry->row_id);
		if (ls_key_is_reversible(&shape->keys[i]))
			values[i] = ls_key_decode(&shape->keys[i], at, len, &isnull[i]);
		at += len;
		left -= len;
	}
	if (unlikely(left != 0))
		raise_damaged(index, entry->row_id);
	if (shape->n_stored > 0)
		deform_payload(index, shape, entry, values, isnull);
}

Datum
ls_index_stored_value(Relation index, const ls_index_entry *entry, int column)
{
	const LsIndexShape *shape = ls_index_shape(index);
	AttrNumber	attno = 1;
	bool		isnull;
	Datum		value;

	while (shape->stored[attno - 1] != column + 1)
		attno++;
	value = index_getattr(copy_payload(index, entry), attno, shape->payload, &isnull);
	if (isnull)
		raise_damaged(index, entry->row_id);
	return value;
}

ls_rel *
ls_index_tree(Relation index)
{
	return ls_open(index);
}
