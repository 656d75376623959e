/*
 * ls_row.h - rows and their versions: their TIDs, bytes and slots, and waiting for them.
 */
#ifndef LS_ROW_H
#define LS_ROW_H

#include "session/ls_session.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "executor/tuptable.h"
#include "lib/stringinfo.h"
#include "nodes/lockoptions.h"
#include "storage/itemptr.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

/*
 * ---- row id <-> TID (design: 256 offsets per block, below every limit of PostgreSQL's bitmap
 * code)
 *
 * Row ids and offsets both begin with 1, so the first row of a table is (0,1) and
 * block b holds the row ids (256 b, 256 b + 256].
 */
#define LS_ROWS_PER_BLOCK 256

/* A TID from a user may be any: can it be the TID of a row? */
static inline bool
ls_tid_names_row(const ItemPointerData *tid)
{
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);

	return offset >= FirstOffsetNumber && offset <= LS_ROWS_PER_BLOCK;
}

static inline uint64
ls_tid_to_row(const ItemPointerData *tid)
{
	return (uint64) ItemPointerGetBlockNumberNoCheck(tid) * LS_ROWS_PER_BLOCK +
		ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline BlockNumber
ls_row_to_block(uint64 row_id)
{
	return (BlockNumber) ((row_id - 1) / LS_ROWS_PER_BLOCK);
}

static inline OffsetNumber
ls_row_to_offset(uint64 row_id)
{
	return (OffsetNumber) ((row_id - 1) % LS_ROWS_PER_BLOCK + 1);
}

static inline void
ls_row_to_tid(uint64 row_id, ItemPointer tid)
{
	ItemPointerSet(tid, ls_row_to_block(row_id), ls_row_to_offset(row_id));
}

/* The row id that says "moved to another partition" in place of a row. */
#define LS_MOVED_PARTITIONS LS_MAX_ROW_ID

#define LS_FIRST_ROW_ID 1

/* Row ids with a TID in InvalidBlockNumber are never handed out. */
#define LS_LAST_ROW_ID ((uint64) InvalidBlockNumber * LS_ROWS_PER_BLOCK)
StaticAssertDecl(LS_ROW_IDS_END <= LS_LAST_ROW_ID, "row ids without a TID are drawn");

/* Blocks of the row ids below end_row: a table that never had a row has none. */
static inline uint64
ls_end_row_to_blocks(uint64 end_row)
{
	return (end_row - 1 + LS_ROWS_PER_BLOCK - 1) / LS_ROWS_PER_BLOCK;
}

/* The first row of a logical block; also one past the last of the block before. */
static inline uint64
ls_block_to_row(BlockNumber block)
{
	return (uint64) block * LS_ROWS_PER_BLOCK + 1;
}

/*
 * A mark in the TIDs that the executor holds while it changes a row: it has locked
 * the newest version and works on that (ls_versions.c).  Never stored, never
 * seen by a user.
 */
#define LS_NEWEST_MARK 0x0400

static inline bool
ls_tid_is_marked(const ItemPointerData *tid)
{
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);

	return offset > LS_NEWEST_MARK && offset <= LS_NEWEST_MARK + LS_ROWS_PER_BLOCK;
}

static inline void
ls_tid_mark_newest(uint64 row_id, ItemPointer tid)
{
	ls_row_to_tid(row_id, tid);
	ItemPointerSetOffsetNumber(tid, ItemPointerGetOffsetNumberNoCheck(tid) + LS_NEWEST_MARK);
}

static inline uint64
ls_marked_tid_to_row(const ItemPointerData *tid)
{
	return ls_tid_to_row(tid) - (ls_tid_is_marked(tid) ? LS_NEWEST_MARK : 0);
}

/* ---- ls_fetch.c: one version of a row */
extern bool ls_fetch(Relation rel, uint64 row_id, const ls_snapshot *snapshot, uint8 *buffer,
					 ls_row *row, bool *all_dead);

/*
 * The one that an MVCC snapshot sees, in ls_fetch_buffer(), of a row locked as the transaction
 * needs it.
 */
extern bool ls_fetch_visible(Relation rel, uint64 row_id, Snapshot snapshot,
							 ls_row *row, bool *all_dead);

/* The newest, ghosts too; the one that stands at this moment. */
extern bool ls_fetch_newest(Relation rel, uint64 row_id, uint8 *buffer, ls_row *row);
extern bool ls_fetch_committed(Relation rel, uint64 row_id, uint8 *buffer, ls_row *row);

/* As a dirty snapshot sees it: what unique checks and subscriptions look with. */
extern bool ls_fetch_dirty(Relation rel, uint64 row_id, Snapshot snapshot, uint64 *newer_due,
						   uint8 *buffer, ls_row *row, bool *all_dead);

/* Is a row that the engine still has gone for all snapshots? */
extern bool ls_row_is_dead(const ls_row *row);

/*
 * ---- ls_recent.c: what this backend did to rows a moment ago
 *
 * Four notes.  What sets and asks each, and how long it holds, is one table in ls_recent.c.
 */
typedef struct LsRecent
{
	struct
	{
		Oid			relid;		/* InvalidOid: none */
		CommandId	cid;
		uint64		row_id;
	}			superseded;
	struct
	{
		Oid			relid;		/* InvalidOid: none */
		uint64		row_id;
	}			dirty_match;
	struct
	{
		Oid			relid;
		CommandId	cid;
		uint64		own_tn;		/* 0: none */
		uint64		row_id;
	}			conflict_lock;
	struct
	{
		Oid			relid;		/* InvalidOid: none */
		CommandId	cid;
		uint64		own_tn;
		uint64		from;
		uint64		to;
	}			moved;
} LsRecent;

extern LsRecent ls_recent;

/* Called by whatever else is done to a table. */
static inline void
ls_forget_recent(void)
{
	ls_recent.superseded.relid = InvalidOid;
	ls_recent.dirty_match.relid = InvalidOid;
}

extern void ls_note_superseded(Relation rel, uint64 row_id, CommandId cid);

/* Asked once; *cid: of the command that has updated the row. */
extern bool ls_take_superseded(Relation rel, uint64 row_id, CommandId *cid);

extern void ls_note_dirty_match(Relation rel, uint64 row_id);
extern bool ls_is_dirty_match(Relation rel, uint64 row_id);

extern void ls_note_conflict_lock(Relation rel, uint64 row_id, CommandId cid);
extern bool ls_is_conflict_lock(Relation rel, uint64 row_id, CommandId cid);

extern void ls_note_moved(Relation rel, uint64 from, uint64 to, CommandId cid);

/* The row that has moved to this one in this command; 0: none. */
extern uint64 ls_moved_from(Relation rel, uint64 to, CommandId cid);

/* ---- ls_versions.c: which version the executor means */

/* A walk over a row's versions behind the newest. */
typedef struct LsVersionWalk
{
	Relation	rel;
	uint64		row_id;
	uint64		horizon;
	ls_row		at;				/* the version last met; its data may be gone */
	uint64	   *writers;		/* of it and those before, ascending */
	uint32		n;
	uint32		capacity;
} LsVersionWalk;

extern void ls_versions_begin(LsVersionWalk *walk, Relation rel, const ls_row *newest,
							  uint64 horizon);
extern bool ls_versions_next(LsVersionWalk *walk, uint8 *buffer, ls_row *version);
extern void ls_versions_end(LsVersionWalk *walk);

/* Rows locked by this transaction in a version that the query's snapshot does not see. */
extern void ls_note_locked_newer(Relation rel, const ls_row *row);
extern bool ls_is_locked_newer(Relation rel, uint64 row_id, Snapshot snapshot, uint8 *buffer,
							   ls_row *row);

/* The version that a fetch with SnapshotAny means; *deleted: by us, since. */
extern bool ls_fetch_any(Relation rel, const ItemPointerData *tid, uint8 *buffer, ls_row *row,
						 bool *deleted);

/*
 * ---- ls_row.c: the bytes of a row in the engine (ls_row_internal.h)
 *
 * Buffers of this backend for one row each.  No PostgreSQL code that could come
 * back to a leanstore table runs while one is in use.
 */
extern uint8 *ls_fetch_buffer(void);	/* for a row that goes to a slot at once */
extern uint8 *ls_old_row_buffer(void);	/* for the version that is being replaced */

/* Bytes of a row before its null bitmap and its data. */
#define LS_HEAD_BYTES	2

/*
 * The tuple's payload, in a buffer that stays valid until the next call.  May write to the TOAST
 * table.
 */
extern const uint8 *ls_row_encode(Relation rel, HeapTuple tuple, uint32 *len);

/* Bytes that the row takes as a heap tuple (header included). */
extern uint32 ls_row_tuple_len(const ls_row *row, Relation rel);

/*
 * Lay the row out as a heap tuple at `space`, which has ls_row_tuple_len()
 * bytes and is MAXALIGNed: all but the system columns.
 */
extern void ls_row_lay_out(const ls_row *row, Relation rel, HeapTuple tuple, char *space);

/* The same with them. */
extern void ls_row_decode(const ls_row *row, Relation rel, HeapTuple tuple, char *space);

/* Does the row need values of the TOAST table? */
extern bool ls_row_has_external(const ls_row *row);

/* The TOAST pointer of a row that is there as a whole; NULL for others. */
extern struct varlena *ls_row_wide_pointer(const ls_row *row);

/*
 * ---- ls_value.c: values out of line
 *
 * Store a value, which is in memory, in the TOAST table of `rel`, and return the pointer to it.
 * old_pointer: where it was stored before, or NULL: a table that is written anew keeps the numbers
 * of its values, and *stored is false for one that is there already.
 */
extern struct varlena *ls_value_save(Relation rel, const struct varlena *value,
									 const struct varlena *old_pointer, bool *stored);

/*
 * Delete the value that a pointer leads to; of other values, nothing.  is_own: this command has
 * stored it.
 */
extern void ls_value_drop(const struct varlena *pointer, bool is_own);

/* The same, of one just stored in a table that is written anew: nothing leads to that yet. */
extern void ls_value_drop_copy(Relation rel, const struct varlena *pointer);

/* Bytes of a value, as it is stored. */
extern void ls_value_fetch(Relation toast, const ls_value_slice *slice, char *out);

/* ls_set_value_head() */
extern void ls_value_head(uint64 value_id, bool in_row, uint32 bytes, uint8 *out);

/*
 * ---- ls_row_image.c: changes of rows for logical decoding
 *
 * With wal_level = logical each change of a row of such a table is followed by its image: of
 * insertions those of several rows, with their order, can be one record.
 */
static inline bool
ls_images_wanted(Relation rel)
{
	return unlikely(XLogLogicalInfoActive()) && RelationIsLogicallyLogged(rel);
}

/* A new row as it is stored: with pointers to large values. */
extern void ls_image_append(StringInfo images, HeapTuple tuple);

/* What was appended has been inserted into the table. */
extern void ls_image_insert(Relation rel, StringInfo images);

/* A row was changed.  old: NULL, or from ls_image_of_old() before its values were dropped. */
extern void ls_image_change(Relation rel, HeapTuple old, HeapTuple new, LsWalChange change);

/*
 * What REPLICA IDENTITY asks to know of the old row, or NULL.  needs_key: it is deleted, or
 * ls_image_needs_key().
 */
extern HeapTuple ls_image_of_old(Relation rel, HeapTuple old, bool needs_key);

/* Does an update change the key that REPLICA IDENTITY names, as `changes` compares columns? */
extern bool ls_image_needs_key(Relation rel, HeapTuple old, HeapTuple new,
							   bool (*changes) (Relation rel, AttrNumber attnum, HeapTuple old,
												HeapTuple new));

/* A value was stored, and this is the pointer to it: before the image of the row. */
extern void ls_image_value(const struct varlena *pointer, const struct varlena *value);

/* All values that a row that was stored has out of line. */
extern void ls_image_values_of(Relation rel, HeapTuple tuple);

/*
 * ---- ls_slot.c: the slot of leanstore tables
 *
 * A HeapTupleTableSlot with its tuple in a buffer that the slot owns and
 * reuses for the next row: storing a row allocates nothing, and it stays valid
 * when the scan goes on.  TTS_FLAG_SHOULDFREE is never set: what the slot holds
 * is its own at all times.  The tuple's system columns are filled in when
 * they are asked for.
 */
typedef struct LsLoan LsLoan;

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

	/* a row that is not laid out as a tuple yet */
	const uint8 *lent;			/* its data, in a scan's memory; NULL: none */
	uint32		lent_bytes;
	uint16		lent_head;		/* ls_row_internal.h */
	int16		n_in_place;		/* of its first columns can be read there */
	LsLoan	   *loan;			/* of the scan that has lent last */
} LsSlot;

extern const TupleTableSlotOps *ls_slot_callbacks(Relation rel);
extern bool ls_is_slot(const TupleTableSlot *slot);

/* The slot as ours; an error when it is of another kind. */
extern LsSlot *ls_slot_cast(TupleTableSlot *slot);

/*
 * ---- ls_slot_loan.c: slots that read a row where a scan has it
 *
 * Between a scan and the slot that it puts rows into.
 */
struct LsLoan
{
	LsSlot	   *slot;			/* NULL: it is gone, or another scan's */
};

/* Store a row of the engine that stays where it is until the loan is settled. */
extern void ls_slot_lend(TupleTableSlot *slot, Relation rel, const ls_row *row, LsLoan **loan);

/* Before the row goes. */
extern void ls_loan_settle(LsLoan *loan);

/* The scan ends. */
extern void ls_loan_end(LsLoan **loan);

/* Copy a row of the engine into the slot. */
extern void ls_slot_store(TupleTableSlot *slot, Relation rel, const ls_row *row);

/* The tuple in the slot has become this version of this row. */
extern void ls_slot_set_version(TupleTableSlot *slot, Relation rel, const ls_row *row);

/* DELETE ... RETURNING xmax. */
extern void ls_slot_set_deleted(TupleTableSlot *slot);

/* The tuple in the slot was locked by this transaction before it was updated. */
extern void ls_slot_set_locked(TupleTableSlot *slot);

/*
 * The tuple in one of our slots that is not empty, with its system columns; NULL: the slot holds
 * values.
 */
extern HeapTuple ls_slot_tuple(TupleTableSlot *slot);

/* ---- ls_row_wait.c: waiting for the transaction that holds a row */

/* One call's waits for a row: begin, wait as often as there is a conflict, end. */
typedef struct LsRowWait
{
	Relation	rel;
	ItemPointerData tid;
	XLTW_Oper	oper;
	LockWaitPolicy policy;
	LOCKMODE	queued;			/* tuple lock held, NoLock: none */
	ItemPointerData queued_tid; /* of which row */
	uint64		gone_tn;		/* the change that was in the way last, if it had gone */
	uint32		gone_seq;
} LsRowWait;

/*
 * Before a shared lock of this mode is asked for: the first in line for the row goes first, for a
 * while.  NOWAIT and SKIP LOCKED do not wait for it.
 */
extern void ls_row_wait_for_turn(LsRowWait *wait, ls_lock_mode mode);

extern void ls_row_wait_begin(LsRowWait *wait, Relation rel, uint64 row_id, XLTW_Oper oper,
							  LockWaitPolicy policy);

/*
 * Wait until a lock of this mode may be tried again.  False when it would block and
 * the policy is SKIP LOCKED; NOWAIT raises 55P03.
 */
extern bool ls_row_wait(LsRowWait *wait, const ls_conflict *conflict, ls_lock_mode mode);
extern void ls_row_wait_end(LsRowWait *wait);

/* The row goes on under another id: the place in line is kept until there is need to wait there. */
static inline void
ls_row_wait_follow(LsRowWait *wait, uint64 row_id)
{
	ls_row_to_tid(row_id, &wait->tid);
}

#endif							/* LS_ROW_H */
