/*
 * ls_row_internal.h - the bytes of a row in the engine, and what else the files of row/ share.
 *
 *	head, 2 bytes little endian: number of attributes | LS_HEAD_*
 *	null bitmap, only with LS_HEAD_NULLS: (attributes + 7) / 8 bytes
 *	the data area of the heap tuple, as it is; with LS_HEAD_PADDING without its
 *	long runs of blanks (ls_row_padding.h)
 *
 * A row that is too large for a leaf even after TOAST is moved to the TOAST table as
 * a whole: these bytes are one value there, and the row is its head, with
 * LS_HEAD_WIDE, and a TOAST pointer.
 *
 * The data area was laid out from a MAXALIGNed start and is copied to one before
 * it is read.
 */
#ifndef LS_ROW_INTERNAL_H
#define LS_ROW_INTERNAL_H

#include "ls_row.h"
#include "ls_row_padding.h"
#include "session/ls_session.h"

#define LS_HEAD_NATTS	0x07FF
#define LS_HEAD_NULLS	0x0800
#define LS_HEAD_VARWIDTH	0x1000
#define LS_HEAD_EXTERNAL	0x2000
#define LS_HEAD_WIDE	0x4000
#define LS_HEAD_PADDING	0x8000

/* The flags that a heap tuple has, too, in the same order. */
#define LS_HEAD_INFOMASK_SHIFT	11
StaticAssertDecl(LS_HEAD_NULLS >> LS_HEAD_INFOMASK_SHIFT == HEAP_HASNULL &&
					 LS_HEAD_VARWIDTH >> LS_HEAD_INFOMASK_SHIFT == HEAP_HASVARWIDTH &&
					 LS_HEAD_EXTERNAL >> LS_HEAD_INFOMASK_SHIFT == HEAP_HASEXTERNAL,
				 "flags of a row and a heap tuple differ");

static inline uint16
ls_head_infomask(uint16 head)
{
	return (head >> LS_HEAD_INFOMASK_SHIFT) & (HEAP_HASNULL | HEAP_HASVARWIDTH | HEAP_HASEXTERNAL);
}

StaticAssertDecl(MaxHeapAttributeNumber <= LS_HEAD_NATTS, "number of attributes does not fit");

static inline uint16
ls_row_head(const ls_row *row)
{
	uint16		head;

	memcpy(&head, row->data, sizeof(head));
	return head;
}

/*
 * Bytes of the row's data area when it is laid out, of a row that lies in the leaf:
 * `data` is what follows the bitmap.  0, if there are any: it is damaged.
 */
static inline uint32
ls_row_data_len(uint16 head, const uint8 *data, uint32 len)
{
	return likely((head & LS_HEAD_PADDING) == 0) ? len : ls_row_padding_whole_len(data, len);
}

static inline void
ls_row_lay_out_data(uint16 head, const uint8 *data, uint32 len, char *out)
{
	if (likely((head & LS_HEAD_PADDING) == 0))
		memcpy(out, data, len);
	else
		ls_row_padding_decompress(data, len, (uint8 *) out);
}

/*
 * A row without nulls, which lies in the leaf and has no column that the table has not: nearly all
 * are.
 */
static inline bool
ls_row_is_plain(const ls_row *row, Relation rel, uint16 *head)
{
	if (unlikely(row->len <= LS_HEAD_BYTES))
		return false;
	*head = ls_row_head(row);
	return (*head & (LS_HEAD_NULLS | LS_HEAD_WIDE)) == 0 && (row->flags & LS_ROW_MOVED) == 0 &&
		(*head & LS_HEAD_NATTS) <= RelationGetNumberOfAttributes(rel);
}

/* ---- ls_slot.c */

/* The slot holds this version, its bytes apart. */
static inline void
ls_slot_set_row(LsSlot *ls, Relation rel, const ls_row *row)
{
	TupleTableSlot *slot = &ls->base.base;

	ls->base.off = 0;
	ls->writer_tn = row->writer_tn;
	ls->row_id = row->row_id;
	ls->cid = row->cid;
	ls->flags = row->flags;
	ls->header_due = true;
	slot->tts_nvalid = 0;
	slot->tts_flags &= ~(TTS_FLAG_EMPTY | TTS_FLAG_SLOW);
	ls_row_to_tid(row->row_id, &slot->tts_tid);
	slot->tts_tableOid = RelationGetRelid(rel);
}

/* A row on loan becomes a tuple of the slot's own. */
extern void ls_slot_lay_out(LsSlot *ls);

/* ---- ls_slot_loan.c: the first columns of a row on loan; false: it has to be laid out for them */
extern bool ls_loan_read(LsSlot *ls, int natts);

/* System columns of a version. */
extern void ls_row_set_header(HeapTuple tuple, const ls_row *row);

/* ---- ls_row_wait.c: the transaction that holds a lock on the row, for its xmax */
extern TransactionId ls_row_locker_xid(Oid relid, uint64 row_id);

/* ---- ls_turn.c */

/* This backend has the tuple lock, and waits for the transactions that share the row. */
extern void ls_turn_note(Relation rel, const ItemPointerData *tid);

/* Let such a backend go first; true: the tuple lock was taken meanwhile, in this mode. */
extern bool ls_turn_give_way(Relation rel, ItemPointer tid, LOCKMODE lockmode);

/* ---- ls_value_trace.c */
extern void ls_value_trace_write(const struct varatt_external *pointer, const char *data);

/* A value was stored, its bytes are `data`, or (NULL) deleted.  Raises no error. */
static inline void
ls_value_trace(const struct varatt_external *pointer, const char *data)
{
	if (unlikely(ls_trace_values[0] != '\0'))
		ls_value_trace_write(pointer, data);
}

#endif							/* LS_ROW_INTERNAL_H */
