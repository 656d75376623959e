/*
 * ls_slot.c - the slot of leanstore tables (ls_row.h).
 *
 * Reading attributes and system columns is TTSOpsHeapTuple's own code: the slot
 * begins with its struct.  What differs is the tuple's owner.
 *
 *	VSLOT-1: base.tuple is NULL (empty, virtual, or a row on loan) or &base.tupdata, and
 *		then base.tupdata.t_data == space.
 *	VSLOT-2: TTS_FLAG_SHOULDFREE is never set.
 *	VSLOT-3: header_due: the tuple is the version that writer_tn, row_id, cid and flags
 *		tell of, and flags have no LS_ROW_MOVED.
 */
#include "postgres.h"

#include "ls_row_internal.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/sysattr.h"
#include "port/pg_bitutils.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"

static TupleTableSlotOps ls_slot_ops;

/* Room for small rows from the start; grows in powers of two. */
#define LS_SLOT_MIN_BYTES 256

static inline void
reserve(LsSlot *slot, Size bytes)
{
	Size		want;

	if (likely(bytes <= slot->space_bytes))
		return;

	if (bytes > MaxAllocSize)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row of %zu bytes exceeds maximum %zu", bytes, MaxAllocSize),
				 errhint("Large values can be stored in rows of their own, or as large objects.")));
	want = Min(Max(pg_nextpower2_size_t(bytes), LS_SLOT_MIN_BYTES), MaxAllocSize);
	/* the contents are about to be replaced: no repalloc, it would copy them */
	if (slot->space != NULL)
		pfree(slot->space);
	slot->space = NULL;
	slot->space_bytes = 0;
	slot->space = MemoryContextAlloc(slot->base.base.tts_mcxt, want);
	slot->space_bytes = want;
}

static void
ls_slot_init(TupleTableSlot *slot)
{
	LsSlot	   *ls = (LsSlot *) slot;

	ls->space = NULL;
	ls->space_bytes = 0;
	ls->header_due = false;
	ls->writer_tn = 0;
	ls->lent = NULL;
	ls->loan = NULL;
}

static void
ls_slot_release(TupleTableSlot *slot)
{
	LsSlot	   *ls = (LsSlot *) slot;

	if (ls->loan != NULL)
		ls->loan->slot = NULL;
	ls->loan = NULL;
	if (ls->space != NULL)
		pfree(ls->space);
	ls->space = NULL;
	ls->space_bytes = 0;
}

static void
ls_slot_clear(TupleTableSlot *slot)
{
	LsSlot	   *ls = (LsSlot *) slot;

	Assert(!TTS_SHOULDFREE(slot));	/* VSLOT-2 */
	slot->tts_nvalid = 0;
	slot->tts_flags |= TTS_FLAG_EMPTY;
	ItemPointerSetInvalid(&slot->tts_tid);
	ls->base.off = 0;
	ls->base.tuple = NULL;
	ls->lent = NULL;
	ls->header_due = false;
	ls->writer_tn = 0;
}

/* Lay the data of a plain row out. */
static inline void
lay_out(LsSlot *ls, uint16 head, const uint8 *data, uint32 stored_len, uint32 data_len)
{
	const uint32 hoff = MAXALIGN(SizeofHeapTupleHeader);
	HeapTupleHeader header;

	reserve(ls, hoff + data_len);
	header = (HeapTupleHeader) ls->space;
	header->t_infomask2 = head & LS_HEAD_NATTS;
	header->t_infomask = ls_head_infomask(head);
	header->t_hoff = (uint8) hoff;
	header->t_bits[0] = 0;
	ls_row_lay_out_data(head, data, stored_len, ls->space + hoff);
	ls->base.tupdata.t_len = hoff + data_len;
	ls->base.tupdata.t_data = header;
}

void
ls_slot_lay_out(LsSlot *ls)
{
	TupleTableSlot *slot = &ls->base.base;
	const AttrNumber n = slot->tts_nvalid;

	lay_out(ls, ls->lent_head, ls->lent, ls->lent_bytes, ls->lent_bytes);
	ls->base.tupdata.t_tableOid = slot->tts_tableOid;
	ls->base.tuple = &ls->base.tupdata;
	ls->lent = NULL;
	/* columns that were read stay so, but not as pointers into the scan's memory */
	slot->tts_nvalid = 0;
	ls->base.off = 0;
	if (n > 0)
		TTSOpsHeapTuple.getsomeattrs(slot, n);
	slot->tts_nvalid = n;
}

static void
ls_slot_getsomeattrs(TupleTableSlot *slot, int natts)
{
	LsSlot	   *ls = (LsSlot *) slot;

	if (ls->lent != NULL)
	{
		if (ls_loan_read(ls, natts))
			return;
		ls_slot_lay_out(ls);
	}
	TTSOpsHeapTuple.getsomeattrs(slot, natts);
}

/* The tuple with its system columns. */
static inline HeapTuple
whole_tuple(LsSlot *ls)
{
	if (ls->lent != NULL)
		ls_slot_lay_out(ls);
	Assert(ls->base.tuple == NULL ||	/* VSLOT-1 */
		   (ls->base.tuple == &ls->base.tupdata &&
			(char *) ls->base.tupdata.t_data == ls->space));
	if (ls->header_due)
	{
		ls_row		row = {
			.row_id = ls->row_id,
			.writer_tn = ls->writer_tn,
			.cid = ls->cid,
			.flags = ls->flags
		};

		Assert(ls->base.tuple != NULL && !(ls->flags & LS_ROW_MOVED));	/* VSLOT-3 */
		ls_row_set_header(ls->base.tuple, &row);
		ls->header_due = false;
	}
	return ls->base.tuple;
}

HeapTuple
ls_slot_tuple(TupleTableSlot *slot)
{
	Assert(ls_is_slot(slot));
	return whole_tuple((LsSlot *) slot);
}

/*
 * Lay values out as a heap tuple in the slot's buffer.  The values must not point
 * into that buffer; nothing in the server lets a virtual tuple depend on what its
 * own slot held before, because other slots free that when they are cleared.
 */
static void
form(LsSlot *ls, TupleDesc desc, const Datum *values, const bool *isnull)
{
	HeapTupleHeader header;
	bool		hasnull = false;
	Size		hoff = SizeofHeapTupleHeader;
	Size		data_len;

	for (int i = 0; i < desc->natts; i++)
		hasnull |= isnull[i];
	if (hasnull)
		hoff += BITMAPLEN(desc->natts);
	hoff = MAXALIGN(hoff);
	data_len = heap_compute_data_size(desc, values, isnull);

	reserve(ls, hoff + data_len);
	memset(ls->space, 0, hoff + data_len);
	header = (HeapTupleHeader) ls->space;
	ItemPointerSetInvalid(&header->t_ctid);
	HeapTupleHeaderSetNatts(header, desc->natts);
	header->t_hoff = (uint8) hoff;
	heap_fill_tuple(desc, values, isnull, ls->space + hoff, data_len,
					&header->t_infomask, hasnull ? header->t_bits : NULL);

	ls->base.tupdata.t_len = (uint32) (hoff + data_len);
	ls->base.tupdata.t_data = header;
	ls->base.tupdata.t_self = ls->base.base.tts_tid;
	ls->base.tupdata.t_tableOid = ls->base.base.tts_tableOid;
	ls->base.tuple = &ls->base.tupdata;
	ls->header_due = false;
	/* attributes are to be read from the tuple from now on */
	ls->base.base.tts_nvalid = 0;
	ls->base.off = 0;
}

static void
ls_slot_materialize(TupleTableSlot *slot)
{
	LsSlot	   *ls = (LsSlot *) slot;

	Assert(!TTS_EMPTY(slot));
	if (ls->lent != NULL)
		ls_slot_lay_out(ls);
	else if (ls->base.tuple == NULL)
		form(ls, slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull);
}

static Datum
ls_slot_getsysattr(TupleTableSlot *slot, int attnum, bool *isnull)
{
	LsSlot	   *ls = (LsSlot *) slot;

	(void) whole_tuple(ls);
	/* row locks are not in the row */
	if (attnum == MaxTransactionIdAttributeNumber && ls->base.tuple != NULL && ls->writer_tn != 0 &&
		(ls->flags & (LS_ROW_LOCKED | LS_ROW_GHOST)) == LS_ROW_LOCKED &&
		!TransactionIdIsValid(HeapTupleHeaderGetRawXmax(ls->base.tuple->t_data)))
	{
		*isnull = false;
		return TransactionIdGetDatum(ls_row_locker_xid(slot->tts_tableOid, ls->row_id));
	}
	return TTSOpsHeapTuple.getsysattr(slot, attnum, isnull);
}

static bool
ls_slot_is_current_xact_tuple(TupleTableSlot *slot)
{
	(void) whole_tuple((LsSlot *) slot);
	return TTSOpsHeapTuple.is_current_xact_tuple(slot);
}

/* Take over a heap tuple's bytes. */
static void
copy_tuple(LsSlot *ls, HeapTuple tuple)
{
	TupleTableSlot *slot = &ls->base.base;

	reserve(ls, tuple->t_len);
	memcpy(ls->space, tuple->t_data, tuple->t_len);
	ls->base.tupdata = *tuple;
	ls->base.tupdata.t_data = (HeapTupleHeader) ls->space;
	ls->base.tuple = &ls->base.tupdata;
	ls->lent = NULL;
	ls->header_due = false;
	ls->base.off = 0;
	slot->tts_nvalid = 0;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_tid = tuple->t_self;
	slot->tts_tableOid = tuple->t_tableOid;
}

static void
ls_slot_copyslot(TupleTableSlot *dstslot, TupleTableSlot *srcslot)
{
	LsSlot	   *dst = (LsSlot *) dstslot;

	ls_slot_clear(dstslot);

	if (ls_is_slot(srcslot) && ls_slot_tuple(srcslot) != NULL)
	{
		LsSlot	   *src = (LsSlot *) srcslot;

		copy_tuple(dst, src->base.tuple);
		dst->writer_tn = src->writer_tn;
		dst->row_id = src->row_id;
		dst->cid = src->cid;
		dst->flags = src->flags;
	}
	else if ((TTS_IS_HEAPTUPLE(srcslot) || TTS_IS_BUFFERTUPLE(srcslot)) &&
			 ((HeapTupleTableSlot *) srcslot)->tuple != NULL)
		copy_tuple(dst, ((HeapTupleTableSlot *) srcslot)->tuple);
	else
	{
		slot_getallattrs(srcslot);
		dstslot->tts_flags &= ~TTS_FLAG_EMPTY;
		form(dst, srcslot->tts_tupleDescriptor, srcslot->tts_values, srcslot->tts_isnull);
	}
}

static HeapTuple
ls_slot_get_heap_tuple(TupleTableSlot *slot)
{
	ls_slot_materialize(slot);
	return ls_slot_tuple(slot);
}

static HeapTuple
ls_slot_copy_heap_tuple(TupleTableSlot *slot)
{
	ls_slot_materialize(slot);
	return heap_copytuple(ls_slot_tuple(slot));
}

static MinimalTuple
ls_slot_copy_minimal_tuple(TupleTableSlot *slot, Size extra)
{
	ls_slot_materialize(slot);
	/* which has no system columns */
	return minimal_tuple_from_heap_tuple(((LsSlot *) slot)->base.tuple, extra);
}

/*
 * The operations, completed on first use: the functions shared with
 * TTSOpsHeapTuple are static in the server and only reachable through it.
 */
const TupleTableSlotOps *
ls_slot_callbacks(Relation rel)
{
	if (unlikely(ls_slot_ops.base_slot_size == 0))
	{
		TupleTableSlotOps ops = TTSOpsHeapTuple;

		ops.base_slot_size = sizeof(LsSlot);
		ops.init = ls_slot_init;
		ops.release = ls_slot_release;
		ops.clear = ls_slot_clear;
		ops.getsomeattrs = ls_slot_getsomeattrs;
		ops.getsysattr = ls_slot_getsysattr;
		ops.is_current_xact_tuple = ls_slot_is_current_xact_tuple;
		ops.materialize = ls_slot_materialize;
		ops.copyslot = ls_slot_copyslot;
		ops.get_heap_tuple = ls_slot_get_heap_tuple;
		ops.get_minimal_tuple = NULL;
		ops.copy_heap_tuple = ls_slot_copy_heap_tuple;
		ops.copy_minimal_tuple = ls_slot_copy_minimal_tuple;
		ls_slot_ops = ops;
	}
	return &ls_slot_ops;
}

bool
ls_is_slot(const TupleTableSlot *slot)
{
	return slot->tts_ops == &ls_slot_ops;
}

LsSlot *
ls_slot_cast(TupleTableSlot *slot)
{
	if (unlikely(!ls_is_slot(slot)))
		elog(ERROR, "a row of a leanstore table cannot be stored in a slot of another kind");
	return (LsSlot *) slot;
}

static inline bool
store_plain(LsSlot *ls, Relation rel, const ls_row *row)
{
	const uint8 *data = row->data + LS_HEAD_BYTES;
	const uint32 stored_len = row->len - LS_HEAD_BYTES;
	uint32		data_len;
	uint16		head;

	if (!ls_row_is_plain(row, rel, &head))
		return false;
	data_len = ls_row_data_len(head, data, stored_len);
	if (unlikely(data_len == 0))
		return false;
	lay_out(ls, head, data, stored_len, data_len);
	ls->base.tupdata.t_tableOid = RelationGetRelid(rel);
	return true;
}

void
ls_slot_store(TupleTableSlot *slot, Relation rel, const ls_row *row)
{
	LsSlot	   *ls = ls_slot_cast(slot);

	if (!store_plain(ls, rel, row))
	{
		reserve(ls, ls_row_tuple_len(row, rel));
		ls_row_lay_out(row, rel, &ls->base.tupdata, ls->space);
	}
	ls->base.tuple = &ls->base.tupdata;
	ls->lent = NULL;
	ls_slot_set_row(ls, rel, row);
	if (unlikely(row->flags & LS_ROW_MOVED))
	{
		ls_row_set_header(ls->base.tuple, row);
		ls->header_due = false;
	}
}

void
ls_slot_set_version(TupleTableSlot *slot, Relation rel, const ls_row *row)
{
	slot->tts_tableOid = RelationGetRelid(rel);
	ls_row_to_tid(row->row_id, &slot->tts_tid);
	if (ls_is_slot(slot))
	{
		LsSlot	   *ls = (LsSlot *) slot;

		if (ls->lent != NULL)
			ls_slot_lay_out(ls);
		Assert(ls->base.tuple != NULL && (row->flags & LS_ROW_MOVED) == 0);
		ls->base.tuple->t_tableOid = RelationGetRelid(rel);
		ls->writer_tn = row->writer_tn;
		ls->row_id = row->row_id;
		ls->cid = row->cid;
		ls->flags = row->flags;
		ls->header_due = true;
	}
}

/* The version in the slot is one that this transaction has deleted since. */
void
ls_slot_set_deleted(TupleTableSlot *slot)
{
	HeapTupleHeader header = ls_slot_tuple(slot)->t_data;

	HeapTupleHeaderSetXmax(header, ls_tn_to_xid(ls_own_tn()));
	header->t_infomask &= ~HEAP_XMAX_INVALID;
}

/*
 * As in heap, xmax is then the updating transaction itself: INSERT ... ON CONFLICT
 * DO UPDATE ... RETURNING xmax is a known way to tell updated rows from new ones.
 */
void
ls_slot_set_locked(TupleTableSlot *slot)
{
	if (ls_is_slot(slot))
	{
		HeapTupleHeader header = ls_slot_tuple(slot)->t_data;

		HeapTupleHeaderSetXmax(header, HeapTupleHeaderGetRawXmin(header));
		header->t_infomask &= ~HEAP_XMAX_INVALID;
		header->t_infomask |= HEAP_XMAX_LOCK_ONLY | HEAP_XMAX_EXCL_LOCK;
	}
}
