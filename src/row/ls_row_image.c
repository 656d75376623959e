/*
 * ls_row_image.c - changes of rows in PostgreSQL's WAL, for logical decoding
 * (docs/decisions/0050-row-images.md).
 *
 * With wal_level = logical a session writes what it has changed, right behind the change: the new
 * row, and of the old one what REPLICA IDENTITY asks for.  server/ls_decode.c reads them.  Redo has
 * nothing to do for them, whatever leanstore.log is: rows come back from the engine's log.
 *
 * IMAGE-1: they stand in WAL before the commit record of their transaction, and in the order of the
 *	changes; those of a row that several transactions change in the order of their commits, for each
 *	waits for the end of the one before.
 * IMAGE-2: chunks of a value stand before the row with the first pointer to it, with no other row
 *	between.  A pointer without chunks is a value that was kept from the version before.
 *
 * They are heap tuples, as a reader of WAL has no other.  The server's reorder buffer puts large
 * values together from chunks, which are those that heap's TOAST table would have got.
 */
#include "postgres.h"

#include "ls_row_internal.h"

#include "access/detoast.h"
#include "access/heaptoast.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/xloginsert.h"
#include "varatt.h"

/* So many bytes of a large value's chunks go to one record. */
#define CHUNKS_BYTES (64 * 1024)

static void
append_image(StringInfo images, HeapTuple tuple, bool is_old)
{
	const LsWalImage image = {
		.bytes = tuple->t_len - SizeofHeapTupleHeader,
		.infomask2 = tuple->t_data->t_infomask2,
		.infomask = tuple->t_data->t_infomask,
		.hoff = tuple->t_data->t_hoff,
		.is_old = is_old
	};

	appendBinaryStringInfoNT(images, &image, sizeof(image));
	appendBinaryStringInfoNT(images, (char *) tuple->t_data + SizeofHeapTupleHeader,
							 (int) image.bytes);
}

/* With the id of the current subtransaction, which it has as it has changed the row. */
static void
insert_record(const LsWalRows *head, const char *images, Size bytes)
{
	XLogBeginInsert();
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
	XLogRegisterData(head, sizeof(*head));
	if (bytes > 0)
		XLogRegisterData(images, bytes);
	(void) XLogInsert(LS_RMGR_ID, LS_WAL_ROWS);
}

void
ls_image_append(StringInfo images, HeapTuple tuple)
{
	append_image(images, tuple, false);
}

void
ls_image_insert(Relation rel, StringInfo images)
{
	const LsWalRows head = {.locator = rel->rd_locator, .change = LS_WAL_INSERT};

	insert_record(&head, images->data, images->len);
	resetStringInfo(images);
}

void
ls_image_change(Relation rel, HeapTuple old, HeapTuple new, LsWalChange change)
{
	const LsWalRows head = {.locator = rel->rd_locator, .change = change};
	StringInfoData images;

	initStringInfoExt(&images, (old != NULL ? old->t_len : 0) + (new != NULL ? new->t_len : 0) +
					  2 * sizeof(LsWalImage));
	if (old != NULL)
		append_image(&images, old, true);
	if (new != NULL)
		append_image(&images, new, false);
	insert_record(&head, images.data, images.len);
	pfree(images.data);
}

/* With its values, which may have gone when the image is read. */
static HeapTuple
with_values(Relation rel, HeapTuple tuple)
{
	return HeapTupleHasExternal(tuple) ? toast_flatten_tuple(tuple, RelationGetDescr(rel)) : tuple;
}

bool
ls_image_needs_key(Relation rel, HeapTuple old, HeapTuple new,
				   bool (*changes) (Relation rel, AttrNumber attnum, HeapTuple old, HeapTuple new))
{
	Bitmapset  *key = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_IDENTITY_KEY);
	bool		needed = false;
	int			x = -1;

	while (!needed && (x = bms_next_member(key, x)) >= 0)
	{
		const AttrNumber attnum = x + FirstLowInvalidHeapAttributeNumber;

		needed = changes(rel, attnum, old, new);
		/* the new version has a pointer then, which says nothing to a subscriber */
		if (!needed && TupleDescCompactAttr(RelationGetDescr(rel), attnum - 1)->attlen == -1)
		{
			bool		isnull;
			Datum		value = heap_getattr(old, attnum, RelationGetDescr(rel), &isnull);

			needed = !isnull && VARATT_IS_EXTERNAL(DatumGetPointer(value));
		}
	}
	bms_free(key);
	return needed;
}

/* Columns of the key, the others null; NULL: the table has none. */
static HeapTuple
key_of(Relation rel, HeapTuple old)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *key = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_IDENTITY_KEY);
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];

	if (bms_is_empty(key))
		return NULL;
	heap_deform_tuple(old, desc, values, isnull);
	for (int i = 0; i < desc->natts; i++)
		if (!bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, key))
			isnull[i] = true;
	bms_free(key);
	return with_values(rel, heap_form_tuple(desc, values, isnull));
}

HeapTuple
ls_image_of_old(Relation rel, HeapTuple old, bool needs_key)
{
	switch (rel->rd_rel->relreplident)
	{
		case REPLICA_IDENTITY_NOTHING:
			return NULL;
		case REPLICA_IDENTITY_FULL:
			return with_values(rel, old);
		default:
			return needs_key ? key_of(rel, old) : NULL;
	}
}

static void
append_chunk(StringInfo images, TupleDesc desc, Oid value_id, int32 seq, struct varlena *chunk)
{
	Datum		values[] = {
		ObjectIdGetDatum(value_id), Int32GetDatum(seq), PointerGetDatum(chunk)
	};
	bool		isnull[] = {false, false, false};
	HeapTuple	tuple = heap_form_tuple(desc, values, isnull);

	append_image(images, tuple, false);
	heap_freetuple(tuple);
}

void
ls_image_value(const struct varlena *pointer, const struct varlena *value)
{
	struct varatt_external external;
	const Size	bytes = VARSIZE_ANY_EXHDR(value);
	const Size	head_bytes = VARATT_IS_SHORT(value) ? VARHDRSZ_SHORT : VARHDRSZ;
	LsWalRows	head = {.change = LS_WAL_INSERT, .is_chunk = true};
	union
	{
		struct varlena head;
		char		bytes[VARHDRSZ + TOAST_MAX_CHUNK_SIZE];
	}			chunk;
	StringInfoData images;
	Relation	toast;
	int32		seq = 0;

	VARATT_EXTERNAL_GET_POINTER(external, pointer);
	toast = table_open(external.va_toastrelid, NoLock);
	head.locator = toast->rd_locator;
	initStringInfoExt(&images, Min(bytes, CHUNKS_BYTES) + 4 * TOAST_MAX_CHUNK_SIZE);
	for (Size done = 0; done < bytes; done += TOAST_MAX_CHUNK_SIZE)
	{
		const Size	part = Min(bytes - done, TOAST_MAX_CHUNK_SIZE);

		SET_VARSIZE(&chunk, VARHDRSZ + part);
		memcpy(VARDATA(&chunk), (const char *) value + head_bytes + done, part);
		append_chunk(&images, RelationGetDescr(toast), external.va_valueid, seq++, &chunk.head);
		if (images.len >= CHUNKS_BYTES || done + part == bytes)
		{
			CHECK_FOR_INTERRUPTS();
			insert_record(&head, images.data, images.len);
			resetStringInfo(&images);
		}
	}
	table_close(toast, NoLock);
	pfree(images.data);
}

void
ls_image_values_of(Relation rel, HeapTuple tuple)
{
	TupleDesc	desc = RelationGetDescr(rel);

	if (!HeapTupleHasExternal(tuple))
		return;
	for (int i = 0; i < desc->natts; i++)
	{
		bool		isnull;
		Datum		value;
		struct varlena *stored;

		if (TupleDescCompactAttr(desc, i)->attlen != -1)
			continue;
		value = heap_getattr(tuple, i + 1, desc, &isnull);
		if (isnull || !VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value)))
			continue;
		stored = detoast_external_attr((struct varlena *) DatumGetPointer(value));
		ls_image_value((struct varlena *) DatumGetPointer(value), stored);
		pfree(stored);
	}
}
