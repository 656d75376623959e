/*
 * ls_move.h - what the files of leanstore_move() share.
 */
#ifndef LS_MOVE_H
#define LS_MOVE_H

#include "postgres.h"

#include "access/xlogdefs.h"
#include "utils/rel.h"
#include "utils/snapshot.h"
#include "utils/tuplestore.h"

/* ---- ls_move_changes.c: what happens to the table meanwhile, by logical decoding */
typedef struct LsChanges LsChanges;

typedef enum LsChangeKind
{
	LS_CHANGE_INSERT,
	LS_CHANGE_UPDATE,
	LS_CHANGE_DELETE
} LsChangeKind;

typedef struct LsRowChange
{
	LsChangeKind kind;
	HeapTuple	key;			/* the old row, or columns of its key; NULL: as in `row` */
	HeapTuple	row;			/* the new one; a pointer in it: the value has stayed the same */
} LsRowChange;

/*
 * In a transaction that has done nothing, and in a memory context that outlives it.  The table's
 * changes are noted from those on that *snapshot does not see.  Waits for transactions that are
 * running now.
 */
extern LsChanges *ls_changes_begin(Oid table, Snapshot *snapshot);

/* Decode up to `end`, which is flushed: changes are to be had by ls_changes_next(). */
extern void ls_changes_decode(LsChanges *changes, XLogRecPtr end);

/* The next one in the order of commits, in the current memory context; false: none. */
extern bool ls_changes_next(LsChanges *changes, LsRowChange *change);

/* How much WAL there is behind what was decoded. */
extern uint64 ls_changes_behind(const LsChanges *changes);

/* No more of them: before the transaction ends.  Then, and behind that, the slot goes. */
extern void ls_changes_stop(LsChanges *changes);
extern void ls_changes_end(LsChanges *changes);

/* ---- ls_move_swap.c */

/* Two tables, or two indexes, change files, and so access methods and sizes. */
extern void ls_swap_files(Oid kept, Oid other);

/* Of tables: large values belong to the other one as well. */
extern void ls_swap_toast(Oid kept, Oid other);

#endif							/* LS_MOVE_H */
