/*
 * ls_row.c - heap tuple to row payload and back (format: ls_row.h).
 */
#include "postgres.h"

#include "ls_row.h"
#include "ls_table.h"

#include "access/transam.h"

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

const uint8 *
ls_row_encode(Relation rel, HeapTuple tuple, uint32 *len)
{
	HeapTupleHeader header = tuple->t_data;
	uint8	   *out = payload_buffer.bytes;
	uint32		data_len = tuple->t_len - header->t_hoff;
	uint32		bitmap_len = 0;
	uint16		head = HeapTupleHeaderGetNatts(header);
	Size		size;

	if (header->t_infomask & HEAP_HASNULL)
	{
		head |= LS_HEAD_NULLS;
		bitmap_len = BITMAPLEN(HeapTupleHeaderGetNatts(header));
	}
	if (header->t_infomask & HEAP_HASVARWIDTH)
		head |= LS_HEAD_VARWIDTH;
	if (header->t_infomask & HEAP_HASEXTERNAL)
		head |= LS_HEAD_EXTERNAL;

	size = LS_HEAD_BYTES + bitmap_len + (Size) data_len;
	if (size > LS_MAX_ROW_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big: size %zu, maximum size %zu",
						size, (Size) LS_MAX_ROW_BYTES),
				 errhint("Values of toastable types are moved out of the row when the table \"%s\" allows it; columns of other types have to fit into it.",
						 RelationGetRelationName(rel))));

	memcpy(out, &head, sizeof(head));
	out += sizeof(head);
	memcpy(out, header->t_bits, bitmap_len);
	out += bitmap_len;
	memcpy(out, (char *) header + header->t_hoff, data_len);

	*len = (uint32) size;
	return payload_buffer.bytes;
}

static inline uint32
bitmap_bytes(uint16 head)
{
	return (head & LS_HEAD_NULLS) ? BITMAPLEN(head & LS_HEAD_NATTS) : 0;
}

uint32
ls_row_tuple_len(const ls_row *row, Relation rel)
{
	uint16		head;
	uint32		bitmap_len;

	if (unlikely(row->len < LS_HEAD_BYTES))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("row " UINT64_FORMAT " of table \"%s\" has only %u bytes",
						row->row_id, RelationGetRelationName(rel), row->len)));
	head = ls_row_head(row);
	bitmap_len = bitmap_bytes(head);
	if (unlikely(row->len < LS_HEAD_BYTES + bitmap_len ||
				 (head & LS_HEAD_NATTS) > RelationGetNumberOfAttributes(rel)))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("row " UINT64_FORMAT " of table \"%s\" is damaged: %u attributes in %u bytes",
						row->row_id, RelationGetRelationName(rel),
						head & LS_HEAD_NATTS, row->len)));

	return MAXALIGN(SizeofHeapTupleHeader + bitmap_len) +
		(row->len - LS_HEAD_BYTES - bitmap_len);
}

void
ls_row_decode(const ls_row *row, Relation rel, HeapTuple tuple, char *space)
{
	HeapTupleHeader header = (HeapTupleHeader) space;
	uint16		head = ls_row_head(row);
	uint32		bitmap_len = bitmap_bytes(head);
	uint32		hoff = MAXALIGN(SizeofHeapTupleHeader + bitmap_len);
	uint32		data_len = row->len - LS_HEAD_BYTES - bitmap_len;
	const uint8 *in = row->data + LS_HEAD_BYTES;
	uint16		infomask = 0;

	if (head & LS_HEAD_NULLS)
		infomask |= HEAP_HASNULL;
	if (head & LS_HEAD_VARWIDTH)
		infomask |= HEAP_HASVARWIDTH;
	if (head & LS_HEAD_EXTERNAL)
		infomask |= HEAP_HASEXTERNAL;

	/* the gap before the data is compared by suppress_redundant_updates_trigger() */
	memset(space + MAXALIGN_DOWN(SizeofHeapTupleHeader), 0, hoff - MAXALIGN_DOWN(SizeofHeapTupleHeader));
	header->t_infomask = infomask;
	header->t_infomask2 = head & LS_HEAD_NATTS;
	header->t_hoff = (uint8) hoff;
	memcpy(header->t_bits, in, bitmap_len);
	memcpy(space + hoff, in + bitmap_len, data_len);

	tuple->t_len = hoff + data_len;
	tuple->t_data = header;
	tuple->t_tableOid = RelationGetRelid(rel);
	ls_row_set_header(tuple, row);
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
 * The writer of a ghost is who deleted the row; who wrote the version is then
 * not known any more, and committed or us in any case.
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

	if ((row->flags & LS_ROW_MOVED) == 0)
		header->t_ctid = tuple->t_self;
	else if (row->moved_to == LS_MOVED_PARTITIONS)
		HeapTupleHeaderSetMovedPartitions(header);
	else
		ls_row_to_tid(row->moved_to, &header->t_ctid);
}

bool
ls_row_has_external(const ls_row *row)
{
	return row->len >= LS_HEAD_BYTES && (ls_row_head(row) & LS_HEAD_EXTERNAL) != 0;
}
