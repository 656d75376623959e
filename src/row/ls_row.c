/*
 * ls_row.c - heap tuple to row payload and back (format: ls_row_internal.h).
 */
#include "postgres.h"

#include "ls_row_internal.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/toasting.h"

static union
{
	uint8		bytes[LS_ROW_BUFFER_BYTES];
	double		align;
}			fetch_buffer, old_row_buffer, payload_buffer;

uint8 *
ls_fetch_buffer(void)
{
	return fetch_buffer.bytes;
}

uint8 *
ls_old_row_buffer(void)
{
	return old_row_buffer.bytes;
}

static inline uint32
bitmap_bytes(uint16 head)
{
	return (head & LS_HEAD_NULLS) ? BITMAPLEN(head & LS_HEAD_NATTS) : 0;
}

static void
put_payload(uint8 *out, HeapTuple tuple, uint16 head, uint32 bitmap_len)
{
	HeapTupleHeader header = tuple->t_data;

	memcpy(out, &head, LS_HEAD_BYTES);
	out += LS_HEAD_BYTES;
	memcpy(out, header->t_bits, bitmap_len);
	out += bitmap_len;
	memcpy(out, (char *) header + header->t_hoff, tuple->t_len - header->t_hoff);
}

/* The payload without its blanks, if that spares something and fits into a leaf. */
static inline bool
without_blanks(HeapTuple tuple, uint16 head, uint32 *len)
{
	HeapTupleHeader header = tuple->t_data;
	uint32		data_at = LS_HEAD_BYTES + bitmap_bytes(head);
	uint32		data_len = ls_row_padding_compress((uint8 *) header + header->t_hoff,
											  tuple->t_len - header->t_hoff,
											  payload_buffer.bytes + data_at,
											  LS_MAX_ROW_BYTES - data_at);

	if (likely(data_len == 0))
		return false;
	head |= LS_HEAD_PADDING;
	memcpy(payload_buffer.bytes, &head, LS_HEAD_BYTES);
	memcpy(payload_buffer.bytes + LS_HEAD_BYTES, header->t_bits, data_at - LS_HEAD_BYTES);
	*len = data_at + data_len;
	return true;
}

/* Larger than a leaf takes: the TOAST table keeps the payload, a pointer to it takes its place. */
static uint32
move_out(Relation rel, HeapTuple tuple, uint16 head, Size size)
{
	struct varlena *value = palloc(VARHDRSZ + size);
	struct varlena *pointer;
	bool		stored;
	uint16		wide_head = head | LS_HEAD_WIDE;
	uint8	   *out = (uint8 *) VARDATA(value);
	uint32		bitmap_len = bitmap_bytes(head);
	uint32		len;

	SET_VARSIZE(value, VARHDRSZ + size);
	put_payload(out, tuple, head, bitmap_len);
	pointer = ls_value_save(rel, value, NULL, &stored);

	len = VARSIZE_EXTERNAL(pointer);
	memcpy(payload_buffer.bytes, &wide_head, LS_HEAD_BYTES);
	memcpy(payload_buffer.bytes + LS_HEAD_BYTES, pointer, len);
	pfree(pointer);
	pfree(value);
	return LS_HEAD_BYTES + len;
}

/*
 * SET ACCESS METHOD copies rows into a table that has a TOAST table only if the one before had:
 * heap's rows are larger.  Of a table that nothing but this transaction knows.
 */
static bool
has_toast_table(Relation rel)
{
	if (!OidIsValid(rel->rd_rel->reltoastrelid) && rel->rd_createSubid != InvalidSubTransactionId)
		NewHeapCreateToastTable(RelationGetRelid(rel), (Datum) 0, AccessExclusiveLock, InvalidOid);
	return OidIsValid(rel->rd_rel->reltoastrelid);
}

const uint8 *
ls_row_encode(Relation rel, HeapTuple tuple, uint32 *len)
{
	HeapTupleHeader header = tuple->t_data;
	uint16		head = HeapTupleHeaderGetNatts(header);
	Size		size;

	head |= (header->t_infomask & (HEAP_HASNULL | HEAP_HASVARWIDTH | HEAP_HASEXTERNAL))
			<< LS_HEAD_INFOMASK_SHIFT;

	if (without_blanks(tuple, head, len))
		return payload_buffer.bytes;

	size = LS_HEAD_BYTES + bitmap_bytes(head) + (Size) (tuple->t_len - header->t_hoff);
	if (likely(size <= LS_MAX_ROW_BYTES))
	{
		put_payload(payload_buffer.bytes, tuple, head, bitmap_bytes(head));
		*len = (uint32) size;
	}
	else if (!has_toast_table(rel))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big: size %zu, maximum size %zu",
						size, (Size) LS_MAX_ROW_BYTES),
				 errdetail("Table \"%s\" has no TOAST table.", RelationGetRelationName(rel)),
				 errhint("Split the columns over two tables: none of these can be stored "
						 "out of line.")));
	else if (MAXALIGN(tuple->t_len) > MaxHeapTupleSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big: size %zu, maximum size %zu",
						(Size) MAXALIGN(tuple->t_len), (Size) MaxHeapTupleSize)));
	else
		*len = move_out(rel, tuple, head, size);
	return payload_buffer.bytes;
}

#define DAMAGED_ROW_HINT \
	errhint("Check the storage, verify the table with leanstore_check(), and restore it from a" \
			" backup.")

static pg_noinline void
fail_damaged(const ls_row *row, Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("row " UINT64_FORMAT " of table \"%s\" is damaged: %u attributes in %u bytes",
					row->row_id, RelationGetRelationName(rel),
					ls_row_head(row) & LS_HEAD_NATTS, row->len),
			 DAMAGED_ROW_HINT));
}

struct varlena *
ls_row_wide_pointer(const ls_row *row)
{
	if (row->len < LS_HEAD_BYTES || (ls_row_head(row) & LS_HEAD_WIDE) == 0)
		return NULL;
	return (struct varlena *) (row->data + LS_HEAD_BYTES);
}

/* Bytes of the row's data area when it is laid out, wherever it is. */
static inline uint32
data_len(const ls_row *row, Relation rel, uint32 bitmap_len)
{
	struct varlena *pointer = ls_row_wide_pointer(row);
	struct varatt_external external;
	uint16		head = ls_row_head(row);
	uint32		before = LS_HEAD_BYTES + bitmap_len;
	uint32		len;

	if (likely(pointer == NULL))
	{
		if (unlikely(row->len < before))
			fail_damaged(row, rel);
		len = ls_row_data_len(head, row->data + before, row->len - before);
		if (unlikely(len == 0 && row->len > before))
			fail_damaged(row, rel);
		return len;
	}
	if (row->len != LS_HEAD_BYTES + TOAST_POINTER_SIZE || !VARATT_IS_EXTERNAL_ONDISK(pointer))
		fail_damaged(row, rel);
	VARATT_EXTERNAL_GET_POINTER(external, pointer);
	len = external.va_rawsize - VARHDRSZ;
	if (unlikely(len < before))
		fail_damaged(row, rel);
	return len - before;
}

uint32
ls_row_tuple_len(const ls_row *row, Relation rel)
{
	uint16		head;
	uint32		bitmap_len;
	uint32		len;

	if (unlikely(row->len < LS_HEAD_BYTES))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("row " UINT64_FORMAT " of table \"%s\" has only %u bytes",
						row->row_id, RelationGetRelationName(rel), row->len),
				 DAMAGED_ROW_HINT));
	head = ls_row_head(row);
	bitmap_len = bitmap_bytes(head);
	len = data_len(row, rel, bitmap_len);
	if (unlikely((head & LS_HEAD_NATTS) > RelationGetNumberOfAttributes(rel)))
		fail_damaged(row, rel);

	return MAXALIGN(SizeofHeapTupleHeader + bitmap_len) + len;
}

void
ls_row_decode(const ls_row *row, Relation rel, HeapTuple tuple, char *space)
{
	ls_row_lay_out(row, rel, tuple, space);
	ls_row_set_header(tuple, row);
}

void
ls_row_lay_out(const ls_row *row, Relation rel, HeapTuple tuple, char *space)
{
	HeapTupleHeader header = (HeapTupleHeader) space;
	uint16		head = ls_row_head(row);
	uint32		bitmap_len = bitmap_bytes(head);
	uint32		hoff = MAXALIGN(SizeofHeapTupleHeader + bitmap_len);
	uint32		len = data_len(row, rel, bitmap_len);
	struct varlena *pointer = ls_row_wide_pointer(row);
	struct varlena *whole = NULL;
	const uint8 *in = row->data + LS_HEAD_BYTES;

	if (unlikely(pointer != NULL))
	{
		whole = detoast_external_attr(pointer);
		if (VARSIZE(whole) - VARHDRSZ != LS_HEAD_BYTES + bitmap_len + len)
			fail_damaged(row, rel);
		in = (const uint8 *) VARDATA(whole) + LS_HEAD_BYTES;
	}

	/* the gap before the data is compared by suppress_redundant_updates_trigger() */
	memset(space + MAXALIGN_DOWN(SizeofHeapTupleHeader), 0,
		   hoff - MAXALIGN_DOWN(SizeofHeapTupleHeader));
	header->t_infomask = ls_head_infomask(head);
	header->t_infomask2 = head & LS_HEAD_NATTS;
	header->t_hoff = (uint8) hoff;
	memcpy(header->t_bits, in, bitmap_len);
	if (unlikely(whole != NULL))
	{
		memcpy(space + hoff, in + bitmap_len, len);
		pfree(whole);
	}
	else
		ls_row_lay_out_data(head, in + bitmap_len, row->len - LS_HEAD_BYTES - bitmap_len,
							space + hoff);

	tuple->t_len = hoff + len;
	tuple->t_data = header;
	tuple->t_tableOid = RelationGetRelid(rel);
}

/* Rows that are read together often have the same writer. */
static inline TransactionId
writer_xid(uint64 tn)
{
	static uint64 last_tn = 0;
	static TransactionId last_xid = InvalidTransactionId;

	if (tn != last_tn || last_tn == 0)
	{
		last_xid = ls_tn_to_xid(tn);
		last_tn = tn;
	}
	return last_xid;
}

/*
 * The writer of a ghost is the transaction that deleted the row.  The one that wrote the version is
 * then not known any more; it has committed, or is this transaction.
 */
void
ls_row_set_header(HeapTuple tuple, const ls_row *row)
{
	HeapTupleHeader header = tuple->t_data;
	TransactionId writer = writer_xid(row->writer_tn);

	ls_row_to_tid(row->row_id, &tuple->t_self);
	header->t_infomask &= ~HEAP_XACT_MASK;
	if (row->flags & LS_ROW_GHOST)
	{
		header->t_choice.t_heap.t_xmin = FrozenTransactionId;
		header->t_choice.t_heap.t_xmax = writer;
	}
	else
	{
		header->t_choice.t_heap.t_xmin = writer;
		header->t_choice.t_heap.t_xmax = InvalidTransactionId;
		header->t_infomask |= HEAP_XMAX_INVALID;
	}
	header->t_choice.t_heap.t_field3.t_cid = row->cid;

	/*
	 * not copied from t_self: that has just been written in pieces, and a copy has to wait for them
	 */
	if ((row->flags & LS_ROW_MOVED) == 0)
		ls_row_to_tid(row->row_id, &header->t_ctid);
	else if (row->moved_to == LS_MOVED_PARTITIONS)
		HeapTupleHeaderSetMovedPartitions(header);
	else
		ls_row_to_tid(row->moved_to, &header->t_ctid);
}

bool
ls_row_has_external(const ls_row *row)
{
	return row->len >= LS_HEAD_BYTES && (ls_row_head(row) & (LS_HEAD_EXTERNAL | LS_HEAD_WIDE)) != 0;
}
