/*
 * ls_decode.c - logical decoding of leanstore tables: what sessions have written of the rows that
 * they changed (row/ls_row_image.c) goes to the server's reorder buffer.
 *
 * From there on a leanstore table is like any: output plugins get heap tuples, in the order of
 * commits.
 */
#include "postgres.h"

#include "ls_server_internal.h"
#include "session/ls_session.h"

#include "access/htup_details.h"
#include "replication/decode.h"
#include "replication/logical.h"
#include "replication/reorderbuffer.h"
#include "replication/snapbuild.h"

/* What is left to read of a record. */
typedef struct Images
{
	const char *at;
	Size		bytes;
} Images;

pg_noreturn static void
raise_damaged(XLogRecordBuffer *buf)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("WAL record of leanstore rows at %X/%X cannot be decoded",
					LSN_FORMAT_ARGS(buf->origptr)),
			 errhint("The server that wrote it has another version of leanstore_am.")));
}

static LsWalImage
peek(const Images *images, XLogRecordBuffer *buf)
{
	LsWalImage	image;

	if (images->bytes < sizeof(image))
		raise_damaged(buf);
	memcpy(&image, images->at, sizeof(image));
	if (images->bytes - sizeof(image) < image.bytes)
		raise_damaged(buf);
	return image;
}

static uint32
bitmap_bytes(const LsWalImage *image)
{
	return image->infomask & HEAP_HASNULL ? BITMAPLEN(image->infomask2 & HEAP_NATTS_MASK) : 0;
}

/* The next image as a tuple; NULL if that is none of an old, or of a new, row. */
static HeapTuple
take(ReorderBuffer *reorder, Images *images, bool old, XLogRecordBuffer *buf)
{
	LsWalImage	image;
	HeapTuple	tuple;
	HeapTupleHeader header;

	if (images->bytes == 0)
		return NULL;
	image = peek(images, buf);
	if (image.is_old != old)
		return NULL;
	if (image.hoff < SizeofHeapTupleHeader + bitmap_bytes(&image) ||
		image.hoff - SizeofHeapTupleHeader > image.bytes)
		raise_damaged(buf);

	tuple = ReorderBufferAllocTupleBuf(reorder, image.bytes);
	tuple->t_len = SizeofHeapTupleHeader + image.bytes;
	ItemPointerSetInvalid(&tuple->t_self);
	tuple->t_tableOid = InvalidOid;
	header = tuple->t_data;
	memset(header, 0, SizeofHeapTupleHeader);
	header->t_infomask2 = image.infomask2;
	header->t_infomask = image.infomask;
	header->t_hoff = image.hoff;
	memcpy((char *) header + SizeofHeapTupleHeader, images->at + sizeof(image), image.bytes);

	images->at += sizeof(image) + image.bytes;
	images->bytes -= sizeof(image) + image.bytes;
	return tuple;
}

static const ReorderBufferChangeType action_of[] = {
	[LS_WAL_INSERT] = REORDER_BUFFER_CHANGE_INSERT,
	[LS_WAL_UPDATE] = REORDER_BUFFER_CHANGE_UPDATE,
	[LS_WAL_DELETE] = REORDER_BUFFER_CHANGE_DELETE
};

/* Rows that were inserted together are changes of their own. */
static void
queue_changes(LogicalDecodingContext *ctx, XLogRecordBuffer *buf, const LsWalRows *head,
			  Images *images)
{
	do
	{
		ReorderBufferChange *change = ReorderBufferAllocChange(ctx->reorder);

		change->action = action_of[head->change];
		change->origin_id = XLogRecGetOrigin(buf->record);
		change->data.tp.rlocator = head->locator;
		change->data.tp.oldtuple = take(ctx->reorder, images, true, buf);
		change->data.tp.newtuple = take(ctx->reorder, images, false, buf);
		/* chunks before the first row may be of any of them */
		change->data.tp.clear_toast_afterwards = !head->is_chunk && images->bytes == 0;
		if ((head->change != LS_WAL_DELETE) != (change->data.tp.newtuple != NULL))
			raise_damaged(buf);
		ReorderBufferQueueChange(ctx->reorder, XLogRecGetXid(buf->record), buf->origptr, change,
								 head->is_chunk);
	} while (images->bytes > 0);
}

static void
decode_rows(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	const char *data = XLogRecGetData(buf->record);
	const Size	bytes = XLogRecGetDataLen(buf->record);
	LsWalRows	head;
	Images		images = {data + sizeof(head), bytes - sizeof(head)};

	if (bytes < sizeof(head))
		raise_damaged(buf);
	memcpy(&head, data, sizeof(head));
	if (head.change >= lengthof(action_of))
		raise_damaged(buf);
	/* a slot is of one database */
	if (head.locator.dbOid != ctx->slot->data.database)
		return;
	if (ctx->callbacks.filter_by_origin_cb != NULL &&
		filter_by_origin_cb_wrapper(ctx, XLogRecGetOrigin(buf->record)))
		return;
	queue_changes(ctx, buf, &head, &images);
}

void
ls_decode(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	const uint8 kind = XLogRecGetInfo(buf->record) & ~XLR_INFO_MASK;
	const TransactionId xid = XLogRecGetXid(buf->record);

	ReorderBufferProcessXid(ctx->reorder, xid, buf->origptr);
	if (kind != LS_WAL_ROWS ||
		SnapBuildCurrentState(ctx->snapshot_builder) < SNAPBUILD_FULL_SNAPSHOT)
		return;
	/* a slot that is only moved forward needs the snapshot, too */
	if (SnapBuildProcessChange(ctx->snapshot_builder, xid, buf->origptr) && !ctx->fast_forward)
		decode_rows(ctx, buf);
}
