/*
 * ls_slot.h - the slot of leanstore tables.
 *
 * A HeapTupleTableSlot whose tuple lies in a buffer that the slot owns and
 * reuses for the next row: storing a row allocates nothing, and it stays valid
 * when the scan goes on.  TTS_FLAG_SHOULDFREE is never set: what the slot holds
 * is its own at all times.  The tuple's system columns are filled in when
 * somebody wants them.
 */
#ifndef LS_SLOT_H
#define LS_SLOT_H

#include "ls.h"

#include "executor/tuptable.h"

typedef struct LsSlot
{
	HeapTupleTableSlot base;	/* base.tuple: NULL or &base.tupdata */
	char	   *space;			/* the tuple; MAXALIGNed */
	Size		space_bytes;
	bool		header_due;		/* system columns of the tuple are not filled in yet */

	/* which version the slot holds; writer_tn is 0 when it is not a stored one */
	uint64		writer_tn;
	uint64		row_id;
	uint32		cid;
	uint32		flags;			/* ls_row_flag */
} LsSlot;

extern const TupleTableSlotOps *ls_slot_callbacks(Relation rel);
extern bool ls_is_slot(const TupleTableSlot *slot);

/* The slot as ours; an error when it is of another kind. */
extern LsSlot *ls_slot_cast(TupleTableSlot *slot);

/* Copy a row of the engine into the slot. */
extern void ls_slot_store(TupleTableSlot *slot, Relation rel, const ls_row *row);

/* The tuple in the slot has become this version of this row. */
extern void ls_slot_set_version(TupleTableSlot *slot, Relation rel, const ls_row *row);

/* DELETE ... RETURNING xmax. */
extern void ls_slot_set_deleted(TupleTableSlot *slot);

/* The tuple in the slot was locked by this transaction before it was updated. */
extern void ls_slot_set_locked(TupleTableSlot *slot);

/* The tuple in one of our slots that is not empty, with its system columns; NULL: the slot holds values. */
extern HeapTuple ls_slot_tuple(TupleTableSlot *slot);

#endif							/* LS_SLOT_H */
