/*
 * ls_row.h - the bytes of a row in the engine.
 *
 *	head, 2 bytes little endian: number of attributes | LS_HEAD_*
 *	null bitmap, only with LS_HEAD_NULLS: (attributes + 7) / 8 bytes
 *	the data area of the heap tuple, as it is; with LS_HEAD_BLANKS without its
 *	long runs of blanks (ls_blanks.h)
 *
 * A row that is too large for a leaf even after TOAST is moved to the TOAST table as
 * a whole: these bytes are one value there, and the row is its head, with
 * LS_HEAD_WIDE, and a TOAST pointer.
 *
 * The data area was laid out from a MAXALIGNed start and is copied to one before
 * it is read.
 */
#ifndef LS_ROW_H
#define LS_ROW_H

#include "ls.h"
#include "ls_blanks.h"

#include "access/htup_details.h"

#define LS_HEAD_NATTS	0x07FF
#define LS_HEAD_NULLS	0x0800
#define LS_HEAD_VARWIDTH	0x1000
#define LS_HEAD_EXTERNAL	0x2000
#define LS_HEAD_WIDE	0x4000
#define LS_HEAD_BLANKS	0x8000

#define LS_HEAD_BYTES	2

/* The flags that a heap tuple has, too, in the same order. */
#define LS_HEAD_INFOMASK_SHIFT	11
StaticAssertDecl(LS_HEAD_NULLS >> LS_HEAD_INFOMASK_SHIFT == HEAP_HASNULL &&
				 LS_HEAD_VARWIDTH >> LS_HEAD_INFOMASK_SHIFT == HEAP_HASVARWIDTH &&
				 LS_HEAD_EXTERNAL >> LS_HEAD_INFOMASK_SHIFT == HEAP_HASEXTERNAL, "flags of a row and a heap tuple differ");

static inline uint16
ls_head_infomask(uint16 head)
{
	return (head >> LS_HEAD_INFOMASK_SHIFT) & (HEAP_HASNULL | HEAP_HASVARWIDTH | HEAP_HASEXTERNAL);
}

StaticAssertDecl(MaxHeapAttributeNumber <= LS_HEAD_NATTS, "number of attributes does not fit");

/*
 * Buffers of this backend for one row each.  No PostgreSQL code that could come
 * back to a leanstore table runs while one is in use.
 */
extern uint8 *ls_fetch_buffer(void);	/* for a row that goes to a slot at once */
extern uint8 *ls_old_row_buffer(void);	/* for the version that is being replaced */

static inline uint16
ls_row_head(const ls_row *row)
{
	uint16		head;

	memcpy(&head, row->data, sizeof(head));
	return head;
}

/* The tuple's payload, in a buffer that stays valid until the next call.  May write to the TOAST table. */
extern const uint8 *ls_row_encode(Relation rel, HeapTuple tuple, uint32 *len);

/*
 * Bytes of the row's data area when it is laid out, of a row that lies in the leaf:
 * `data` is what follows the bitmap.  0, if there are any: it is damaged.
 */
static inline uint32
ls_row_data_len(uint16 head, const uint8 *data, uint32 len)
{
	return likely((head & LS_HEAD_BLANKS) == 0) ? len : ls_blanks_whole_len(data, len);
}

static inline void
ls_row_lay_out_data(uint16 head, const uint8 *data, uint32 len, char *out)
{
	if (likely((head & LS_HEAD_BLANKS) == 0))
		memcpy(out, data, len);
	else
		ls_blanks_put_back(data, len, (uint8 *) out);
}

/* Bytes that the row takes as a heap tuple (header included). */
extern uint32 ls_row_tuple_len(const ls_row *row, Relation rel);

/*
 * Lay the row out as a heap tuple at `space`, which has ls_row_tuple_len()
 * bytes and is MAXALIGNed: all but the system columns.
 */
extern void ls_row_lay_out(const ls_row *row, Relation rel, HeapTuple tuple, char *space);

/* The same with them. */
extern void ls_row_decode(const ls_row *row, Relation rel, HeapTuple tuple, char *space);

/* System columns of a version. */
extern void ls_row_set_header(HeapTuple tuple, const ls_row *row);

/* Does the row need values of the TOAST table? */
extern bool ls_row_has_external(const ls_row *row);

/* The TOAST pointer of a row that is there as a whole; NULL for others. */
extern struct varlena *ls_row_wide_pointer(const ls_row *row);

#endif							/* LS_ROW_H */
