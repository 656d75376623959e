/*
 * ls_inspect_internal.h - what the files of inspect/ share.
 */
#ifndef LS_INSPECT_INTERNAL_H
#define LS_INSPECT_INTERNAL_H

#include "ls_inspect.h"

#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "storage/itemptr.h"
#include "utils/rel.h"
#include "utils/tuplesort.h"

/* ---- ls_inspect.c: a leanstore table the user may inspect, opened with AccessShareLock */
extern Relation ls_inspect_open(Oid relid);

/* ---- leanstore_check(regclass): the files that check the indexes of a table */

/* One index, and what it says. */
typedef struct LsIndexCheck
{
	Relation	table;
	Relation	index;
	IndexInfo  *info;
	EState	   *estate;
	ExprState  *predicate;
	TupleTableSlot *slot;
	Tuplesortstate *noted;		/* row ids of entries, in their order once all are read */
	uint64		next_noted;		/* of these the one to be looked at next; 0: none is left */
} LsIndexCheck;

/* What ls_check_has_entry() knows. */
typedef enum LsEntryFound
{
	LS_ENTRY_MISSING,
	LS_ENTRY_ONCE,
	LS_ENTRY_TWICE,				/* or more often */
	LS_ENTRY_NOT_WANTED			/* such a row needs none, or is no more */
} LsEntryFound;

/* ls_check.c */
extern void ls_check_note_entry(LsIndexCheck *check, ItemPointer tid);

/* Has the row a version that all see?  Then the slot holds it. */
extern bool ls_check_row_lives(LsIndexCheck *check, ItemPointer tid);
pg_noreturn extern void ls_check_raise_different(LsIndexCheck *check, ItemPointer tid, int column);

/*
 * Read all entries and note the rows they are of: of an index of this extension, and of
 * another one.  False: how often a row was noted says nothing.
 */
extern bool ls_check_leanstore_entries(LsIndexCheck *check);
extern bool ls_check_other_can(Relation index);
extern bool ls_check_other_entries(LsIndexCheck *check);

/*
 * Look for the entry of one row, for which reading all of them gave a reason.  Only what is
 * found here is a fault: rows and entries may move while all are read.
 */
extern LsEntryFound ls_check_leanstore_entry(LsIndexCheck *check, ItemPointer tid);
extern LsEntryFound ls_check_other_entry(LsIndexCheck *check, ItemPointer tid, uint64 noted);

/* ---- ls_check_values.c: the values of a table, and the pointers to them */
extern void ls_check_values(Relation table);

#endif							/* LS_INSPECT_INTERNAL_H */
