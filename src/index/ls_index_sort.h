/*
 * ls_index_sort.h - sorting the entries of a new index.
 */
#ifndef LS_INDEX_SORT_H
#define LS_INDEX_SORT_H

#include "ls_index.h"

#include "storage/sharedfileset.h"

typedef struct LsIndexSort LsIndexSort;

/* An entry, and what its row is to a unique index. */
typedef struct LsIndexRecord
{
	ls_bytes	entry;			/* key and row id */
	ls_bytes	payload;
	uint32		key_len;
	uint8		flags;
} LsIndexRecord;

#define LS_RECORD_HAS_NULL	1	/* equal to no other key, unless NULLS NOT DISTINCT */
#define LS_RECORD_IS_DEAD	2	/* but not to all snapshots */

/*
 * Everything lives in the current memory context and resource owner; it takes about `kilobytes` of
 * memory.
 */
extern LsIndexSort *ls_index_sort_begin(const LsIndexShape *shape, int kilobytes);
extern void ls_index_sort_add(LsIndexSort *sort, ls_bytes key, uint64 row_id, ls_bytes payload,
							  uint8 flags);
extern void ls_index_sort_perform(LsIndexSort *sort);

/*
 * Several processes sort for one.  Each begins a sort of its own with its number among them;
 * ls_index_sort_export() leaves its records sorted in files of the set, numbered up to what it
 * returns.  The one that imports these, before it performs its own sort, gets all records in order.
 */
extern void ls_index_sort_share(LsIndexSort *sort, SharedFileSet *files, int participant);
extern int	ls_index_sort_export(LsIndexSort *sort);
extern void ls_index_sort_import(LsIndexSort *sort, int participant, int n_files);

/* The next record in order, valid until the next call; false at the end. */
extern bool ls_index_sort_next(LsIndexSort *sort, LsIndexRecord *record);
extern void ls_index_sort_end(LsIndexSort *sort);

/*
 * ---- ls_order_label_sort.c: the same for an index that has labels
 */
typedef struct LsOrderLabelSort LsOrderLabelSort;

extern LsOrderLabelSort *ls_order_label_sort_begin(Relation table, Relation index, int kilobytes);
extern void ls_order_label_sort_add(LsOrderLabelSort *sort, ItemPointer tid, const Datum *values,
									const bool *isnull, bool alive);
extern void ls_order_label_sort_perform(LsOrderLabelSort *sort);
extern bool ls_order_label_sort_next(LsOrderLabelSort *sort, LsIndexRecord *record);
extern void ls_order_label_sort_end(LsOrderLabelSort *sort);

#endif							/* LS_INDEX_SORT_H */
