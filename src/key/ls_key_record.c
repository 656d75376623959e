/*
 * ls_key_record.c - rows: composite types under record_ops and record_image_ops.
 *
 * The columns that are not dropped, without trailing NULLs, then 0x04.  NULL is
 * greater than any value (marker 0x03), so the end, which stands for NULLs, is
 * greater still.  This is what makes ALTER TYPE ... ADD ATTRIBUTE harmless: rows
 * from before it read as if they had a NULL there, and their keys say so.
 * (After DROP ATTRIBUTE an index on the type is out of order, a btree as well.)
 *
 * A type that changes is also why there is no way back, and why the encodings
 * of the columns are looked up anew whenever the type has changed.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/typcache.h"
#include "varatt.h"

#define END_OF_ROW 0x04

typedef struct RecordState
{
	bool		image;			/* of record_image_ops? */
	LsKeyForm	form;			/* as the column's */
	uint64		version;		/* of the type, as the type cache counts */
	MemoryContext context;		/* of columns */
	LsKeyColumn *columns;		/* of record_ops; nothing for dropped ones */
} RecordState;

/*
 * The row type, pinned, with state->columns made for it.  NULL: a column has no
 * encoding.
 */
static TupleDesc
pin_columns(const LsKeyColumn *column, RecordState *state)
{
	TypeCacheEntry *entry = lookup_type_cache(column->type, TYPECACHE_TUPDESC);
	TupleDesc	desc = entry->tupDesc;
	uint64		version = entry->tupDesc_identifier;
	MemoryContext caller;
	bool		good = true;

	if (desc == NULL)
		return NULL;
	IncrTupleDescRefCount(desc);
	if (state->version == version)
		return desc;

	/* Looking up what the columns need may change the type cache's entry. */
	state->version = INVALID_TUPLEDESC_IDENTIFIER;
	MemoryContextReset(state->context);
	caller = MemoryContextSwitchTo(state->context);
	state->columns = palloc0_array(LsKeyColumn, desc->natts);
	for (int i = 0; i < desc->natts && good; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		if (attribute->attisdropped)
			continue;
		/* btrecordimagecmp does not take C strings. */
		good = state->image ? attribute->attlen != -2 :
			ls_key_element_init(&state->columns[i], &state->form, attribute->atttypid,
								attribute->attcollation);
	}
	MemoryContextSwitchTo(caller);
	if (!good)
	{
		DecrTupleDescRefCount(desc);
		return NULL;
	}
	state->version = version;
	return desc;
}

/* A value as btrecordimagecmp sees it. */
static void
put_image(Form_pg_attribute attribute, Datum value, StringInfo out)
{
	ls_key_put8(out, LS_KEY_VALUE);
	if (attribute->attbyval)
		ls_key_put64(out, (uint64) value);
	else if (attribute->attlen > 0)
		ls_key_put(out, DatumGetPointer(value), attribute->attlen);
	else
	{
		struct varlena *v = PG_DETOAST_DATUM_PACKED(value);
		int			start = out->len;

		ls_key_put(out, VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v));
		ls_key_frame(out, start);
		if ((Pointer) v != DatumGetPointer(value))
			pfree(v);
	}
}

static void
encode_record(const LsKeyColumn *column, Datum value, StringInfo out)
{
	RecordState *state = column->state;
	HeapTupleHeader row = DatumGetHeapTupleHeader(value);
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(row), .t_data = row};
	TupleDesc	desc;
	Datum	   *values;
	bool	   *nulls;
	int			n;

	check_stack_depth();
	desc = pin_columns(column, state);
	if (desc == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rows of type %s can no longer be kept in a leanstore index",
						format_type_be(column->type)),
				 errhint("Use a btree index.")));

	values = palloc_array(Datum, desc->natts);
	nulls = palloc_array(bool, desc->natts);
	heap_deform_tuple(&tuple, desc, values, nulls);

	for (n = desc->natts; n > 0; n--)
		if (!nulls[n - 1] && !TupleDescAttr(desc, n - 1)->attisdropped)
			break;
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (TupleDescAttr(desc, i)->attisdropped)
			continue;
		if (nulls[i])
			ls_key_put8(out, LS_KEY_NULL_LAST);
		else if (state->image)
			put_image(TupleDescAttr(desc, i), values[i], out);
		else
			ls_key_append(&state->columns[i], values[i], false, out);
	}
	DecrTupleDescRefCount(desc);
	ls_key_put8(out, END_OF_ROW);

	pfree(values);
	pfree(nulls);
	if ((Pointer) row != DatumGetPointer(value))
		pfree(row);
}

static bool
prepare(LsKeyColumn *column, bool image)
{
	RecordState *state = palloc0(sizeof(RecordState));
	TupleDesc	desc;

	column->state = state;
	if (column->type == RECORDOID)
		return false;
	state->image = image;
	state->form = column->form;
	state->context = AllocSetContextCreate(CurrentMemoryContext, "leanstore row key",
										   ALLOCSET_SMALL_SIZES);
	desc = pin_columns(column, state);
	if (desc == NULL)
		return false;
	DecrTupleDescRefCount(desc);
	column->form = state->form;
	return true;
}

static bool
prepare_record(LsKeyColumn *column)
{
	return prepare(column, false);
}

static bool
prepare_record_image(LsKeyColumn *column)
{
	return prepare(column, true);
}

const LsKeyEncoding ls_key_record = {.prepare = prepare_record, .encode = encode_record};
const LsKeyEncoding ls_key_record_image = {.prepare = prepare_record_image,
										   .encode = encode_record};
