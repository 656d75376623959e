/*
 * ls_table_toast.c - large values go to the TOAST table (row/ls_value.c).
 *
 * The same four rounds as heap's toaster, with PostgreSQL's helpers.  Heap's own
 * function cannot be used: it leaves columns with storage MAIN in the row as long as
 * the row fits on an 8 KiB page, and a row of ours has to fit into half of that.
 */
#include "postgres.h"

#include "ls_table_internal.h"

#include "access/heaptoast.h"
#include "access/toast_helper.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"

bool
ls_relation_needs_toast_table(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int32		data_len = 0;
	bool		unlimited = false;
	bool		toastable = false;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || att->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
			continue;
		data_len = att_align_nominal(data_len, att->attalign);
		if (att->attlen > 0)
			data_len += att->attlen;
		else
		{
			int32		max_len = type_maximum_size(att->atttypid, att->atttypmod);

			if (max_len < 0)
				unlimited = true;
			else
				data_len += max_len;
			if (att->attstorage != TYPSTORAGE_PLAIN)
				toastable = true;
		}
	}

	/* what cannot be moved out column by column may have to go as a whole row */
	return unlimited ||
		MAXALIGN(SizeofHeapTupleHeader + BITMAPLEN(desc->natts)) + MAXALIGN(data_len) >
		(toastable ? TOAST_TUPLE_THRESHOLD : LS_MAX_ROW_BYTES);
}

void
ls_toast_delete_wide(const ls_row *row, bool is_speculative)
{
	struct varlena *pointer = ls_row_wide_pointer(row);

	if (pointer != NULL)
		ls_value_drop(pointer, is_speculative);
}

void
ls_toast_delete(Relation rel, const ls_row *row, bool is_speculative)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];
	HeapTupleData tuple;
	char	   *space = palloc(ls_row_tuple_len(row, rel));

	ls_row_decode(row, rel, &tuple, space);
	heap_deform_tuple(&tuple, desc, values, isnull);
	for (int i = 0; i < desc->natts; i++)
		if (TupleDescCompactAttr(desc, i)->attlen == -1 && !isnull[i])
			ls_value_drop((struct varlena *) DatumGetPointer(values[i]), is_speculative);
	ls_toast_delete_wide(row, is_speculative);
	pfree(space);
}

Oid
ls_relation_toast_am(Relation rel)
{
	return rel->rd_rel->relam;
}

void
ls_relation_fetch_toast_slice(Relation toast, Oid value_id, int32 attrsize, int32 offset,
							  int32 length, struct varlena *result)
{
	ls_value_slice slice = {
		.value_id = value_id,
		.value_bytes = (uint32) attrsize,
		.offset = (uint32) offset,
		.bytes = (uint32) length
	};

	ls_value_fetch(toast, &slice, VARDATA(result));
}

static bool
may_toast(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_RELATION || rel->rd_rel->relkind == RELKIND_MATVIEW;
}

bool
ls_toast_wanted(Relation rel, HeapTuple tuple)
{
	return may_toast(rel) &&
		(HeapTupleHasExternal(tuple) || tuple->t_len > TOAST_TUPLE_THRESHOLD);
}

/* What a round of toasting does to the column that it has chosen. */
typedef enum ToastAction
{
	TOAST_COMPRESS,
	TOAST_COMPRESS_OR_MOVE,		/* move out at once what stays too large alone */
	TOAST_MOVE
} ToastAction;

typedef struct Toaster
{
	Relation	rel;
	TupleDesc	desc;
	ToastTupleContext *ttc;
	bool		images;			/* values go to WAL, too (row/ls_row_image.c) */
} Toaster;

static Size
data_size(Toaster *t)
{
	return heap_compute_data_size(t->desc, t->ttc->ttc_values, t->ttc->ttc_isnull);
}

/* toast_tuple_externalize(), to a table of ours */
static void
move_out(Toaster *t, int attno)
{
	ToastAttrInfo *attr = &t->ttc->ttc_attr[attno];
	struct varlena *value = (struct varlena *) DatumGetPointer(t->ttc->ttc_values[attno]);
	struct varlena *pointer;
	bool		stored;

	pointer = ls_value_save(t->rel, value, attr->tai_oldexternal, &stored);
	if (t->images)
		ls_image_value(pointer, value);
	t->ttc->ttc_values[attno] = PointerGetDatum(pointer);
	if (attr->tai_colflags & TOASTCOL_NEEDS_FREE)
		pfree(value);
	attr->tai_colflags |= TOASTCOL_NEEDS_FREE | TOASTCOL_IGNORE;
	t->ttc->ttc_flags |= TOAST_NEEDS_CHANGE | TOAST_NEEDS_FREE;
}

/* toast_tuple_cleanup(), the same */
static void
clean_up(Toaster *t)
{
	ToastTupleContext *ttc = t->ttc;

	for (int i = 0; i < t->desc->natts && (ttc->ttc_flags & TOAST_NEEDS_DELETE_OLD); i++)
		if (ttc->ttc_attr[i].tai_colflags & TOASTCOL_NEEDS_DELETE_OLD)
			ls_value_drop((struct varlena *) DatumGetPointer(ttc->ttc_oldvalues[i]), false);
	ttc->ttc_flags &= ~TOAST_NEEDS_DELETE_OLD;
	toast_tuple_cleanup(ttc);
}

/* Work on the biggest column that qualifies until the data fits or none is left. */
static void
toast_round(Toaster *t, ToastAction action, bool main_columns, Size target)
{
	bool		has_table = OidIsValid(t->rel->rd_rel->reltoastrelid);

	if (action == TOAST_MOVE && !has_table)
		return;

	while (data_size(t) > target)
	{
		int attno = toast_tuple_find_biggest_attribute(t->ttc, action != TOAST_MOVE, main_columns);
		ToastAttrInfo *attr;

		if (attno < 0)
			break;
		attr = &t->ttc->ttc_attr[attno];

		if (action == TOAST_MOVE)
		{
			move_out(t, attno);
			continue;
		}

		if (main_columns || TupleDescAttr(t->desc, attno)->attstorage == TYPSTORAGE_EXTENDED)
			toast_tuple_try_compression(t->ttc, attno);
		else
			attr->tai_colflags |= TOASTCOL_INCOMPRESSIBLE;	/* storage EXTERNAL */

		if (action == TOAST_COMPRESS_OR_MOVE && has_table && attr->tai_size > target)
			move_out(t, attno);
	}
}

/* The changed values as a tuple with the header of the one they came from. */
static HeapTuple
form_toasted(Toaster *t, HeapTuple original)
{
	bool		has_nulls = (t->ttc->ttc_flags & TOAST_HAS_NULLS) != 0;
	Size		hoff = SizeofHeapTupleHeader;
	Size		data_len = data_size(t);
	HeapTuple	tuple;
	HeapTupleHeader header;

	if (has_nulls)
		hoff += BITMAPLEN(t->desc->natts);
	hoff = MAXALIGN(hoff);

	tuple = palloc0(HEAPTUPLESIZE + hoff + data_len);
	tuple->t_len = (uint32) (hoff + data_len);
	tuple->t_self = original->t_self;
	tuple->t_tableOid = original->t_tableOid;
	tuple->t_data = header = (HeapTupleHeader) ((char *) tuple + HEAPTUPLESIZE);

	memcpy(header, original->t_data, SizeofHeapTupleHeader);
	HeapTupleHeaderSetNatts(header, t->desc->natts);
	header->t_hoff = (uint8) hoff;
	heap_fill_tuple(t->desc, t->ttc->ttc_values, t->ttc->ttc_isnull,
					(char *) header + hoff, data_len,
					&header->t_infomask, has_nulls ? header->t_bits : NULL);
	return tuple;
}

/*
 * Bring a tuple's large values into the form in which they are stored, and delete
 * those of oldtup that it no longer uses.  Neither argument is changed.
 */
HeapTuple
ls_toast_tuple(Relation rel, HeapTuple newtup, HeapTuple oldtup, bool images)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];
	Datum		old_values[MaxHeapAttributeNumber];
	bool		old_isnull[MaxHeapAttributeNumber];
	ToastAttrInfo attrs[MaxHeapAttributeNumber];
	ToastTupleContext ttc;
	Toaster		t = {.rel = rel, .desc = desc, .ttc = &ttc, .images = images};
	HeapTuple	result = newtup;
	Size		hoff = SizeofHeapTupleHeader;
	Size		target;
	Size		limit;

	if (!ls_toast_wanted(rel, newtup) &&
		(oldtup == NULL || !HeapTupleHasExternal(oldtup)))
		return newtup;

	heap_deform_tuple(newtup, desc, values, isnull);
	if (oldtup != NULL)
		heap_deform_tuple(oldtup, desc, old_values, old_isnull);

	ttc.ttc_rel = rel;
	ttc.ttc_values = values;
	ttc.ttc_isnull = isnull;
	ttc.ttc_oldvalues = oldtup != NULL ? old_values : NULL;
	ttc.ttc_oldisnull = oldtup != NULL ? old_isnull : NULL;
	ttc.ttc_attr = attrs;
	toast_tuple_init(&ttc);

	if (ttc.ttc_flags & TOAST_HAS_NULLS)
		hoff += BITMAPLEN(desc->natts);
	hoff = MAXALIGN(hoff);
	limit = LS_MAX_ROW_BYTES - LS_HEAD_BYTES - BITMAPLEN(desc->natts);
	/* the user may ask for less (toast_tuple_target), but not for more than fits */
	target = Min((Size) RelationGetToastTupleTarget(rel, TOAST_TUPLE_TARGET) - hoff, limit);

	toast_round(&t, TOAST_COMPRESS_OR_MOVE, false, target);
	toast_round(&t, TOAST_MOVE, false, target);
	toast_round(&t, TOAST_COMPRESS, true, target);
	toast_round(&t, TOAST_MOVE, true, limit);

	if (ttc.ttc_flags & TOAST_NEEDS_CHANGE)
		result = form_toasted(&t, newtup);
	clean_up(&t);
	return result;
}
