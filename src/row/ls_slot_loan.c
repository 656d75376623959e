/*
 * ls_slot_loan.c - slots that read a row where a scan has it.
 *
 * To lay a row out as a tuple is to copy it, and most statements look at a few of its columns.  So
 * a scan lends its slot the bytes of the row, in its copy of the leaf, and the slot reads columns
 * there, as far as they need no alignment: values that are passed by value, and short varlenas.
 * For all else the row is laid out first (ls_slot_lay_out).
 *
 *	LOAN-1: the row on loan is in the scan's memory.  Before the scan goes on to other rows, or
 *		ends, it settles its loan: the slot has a tuple of its own from then on.
 *	LOAN-2: a scan has lent to one slot at most.
 *
 * The note that connects them lives as long as the transaction: where an error ends the scan, the
 * slot may still be released, and the other way round.
 */
#include "postgres.h"

#include "ls_row_internal.h"

#include "utils/memutils.h"
#include "varatt.h"

/* How many of the first columns can be in a row that needs no alignment. */
static int16
columns_in_place(TupleDesc desc)
{
	int16		n = 0;

	while (n < desc->natts)
	{
		const CompactAttribute *column = TupleDescCompactAttr(desc, n);

		if (column->attlen != -1 && !(column->attlen > 0 && column->attbyval))
			break;
		n++;
	}
	return n;
}

/* From now on the slot is the one that the scan lends to. */
static pg_noinline void
connect(LsSlot *ls, LsLoan **loan)
{
	if (*loan == NULL)
		*loan = MemoryContextAllocZero(TopTransactionContext, sizeof(LsLoan));
	ls_loan_settle(*loan);
	if ((*loan)->slot != NULL)
		(*loan)->slot->loan = NULL;
	if (ls->loan != NULL)
		ls->loan->slot = NULL;
	ls->loan = *loan;
	ls->n_in_place = columns_in_place(ls->base.base.tts_tupleDescriptor);
	(*loan)->slot = ls;
}

void
ls_slot_lend(TupleTableSlot *slot, Relation rel, const ls_row *row, LsLoan **loan)
{
	LsSlot	   *ls = ls_slot_cast(slot);
	uint16		head;

	if (unlikely(ls->loan == NULL || ls->loan != *loan))
		connect(ls, loan);
	Assert((*loan)->slot == ls);	/* LOAN-2 */
	if (unlikely(!ls_row_is_plain(row, rel, &head) || (head & LS_HEAD_PADDING) != 0))
	{
		ls_slot_store(slot, rel, row);
		return;
	}
	ls->lent = row->data + LS_HEAD_BYTES;
	ls->lent_bytes = row->len - LS_HEAD_BYTES;
	ls->lent_head = head;
	ls->base.tuple = NULL;
	ls_slot_set_row(ls, rel, row);
}

static inline Datum
value_at(const uint8 *at, int16 len)
{
	switch (len)
	{
		case sizeof(int32):
			{
				int32		value;

				memcpy(&value, at, sizeof(value));
				return Int32GetDatum(value);
			}
		case sizeof(int64):
			{
				int64		value;

				memcpy(&value, at, sizeof(value));
				return Int64GetDatum(value);
			}
		case sizeof(int16):
			{
				int16		value;

				memcpy(&value, at, sizeof(value));
				return Int16GetDatum(value);
			}
		default:
			Assert(len == sizeof(char));
			return CharGetDatum((char) *at);
	}
}

bool
ls_loan_read(LsSlot *ls, int natts)
{
	TupleTableSlot *slot = &ls->base.base;
	const uint8 *data = ls->lent;
	const int	most = Min(natts, ls->lent_head & LS_HEAD_NATTS);
	int			n = slot->tts_nvalid;
	uint32		at = n == 0 ? 0 : ls->base.off;

	Assert(ls->loan != NULL && ls->loan->slot == ls);	/* LOAN-1: else the scan could not settle */
	if (most > ls->n_in_place)
		return false;
	for (; n < most; n++)
	{
		const CompactAttribute *column = TupleDescCompactAttr(slot->tts_tupleDescriptor, n);

		if (column->attlen > 0)
		{
			at = TYPEALIGN(column->attalignby, at);
			slot->tts_values[n] = value_at(data + at, column->attlen);
			at += column->attlen;
		}
		else if (VARATT_IS_1B(data + at) && !VARATT_IS_1B_E(data + at))
		{
			slot->tts_values[n] = PointerGetDatum(data + at);
			at += VARSIZE_1B(data + at);
		}
		else
			return false;
		slot->tts_isnull[n] = false;
	}
	slot->tts_nvalid = (AttrNumber) n;
	ls->base.off = at;
	return true;
}

void
ls_loan_settle(LsLoan *loan)
{
	if (loan != NULL && loan->slot != NULL && loan->slot->lent != NULL)
		ls_slot_lay_out(loan->slot);
}

void
ls_loan_end(LsLoan **loan)
{
	if (*loan == NULL)
		return;
	ls_loan_settle(*loan);
	if ((*loan)->slot != NULL)
		(*loan)->slot->loan = NULL;
	pfree(*loan);
	*loan = NULL;
}
