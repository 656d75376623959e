/*
 * ls_index_sort.h - sorting the entries of a new index.
 */
#ifndef LS_INDEX_SORT_H
#define LS_INDEX_SORT_H

#include "ls_index.h"

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
#define LS_RECORD_IS_DEAD	2	/* but not for everybody */

/* Everything lives in the current memory context and resource owner; it takes about `kilobytes` of memory. */
extern LsIndexSort *ls_index_sort_begin(const LsIndexShape *shape, int kilobytes);
extern void ls_index_sort_add(LsIndexSort *sort, ls_bytes key, uint64 row_id, ls_bytes payload, uint8 flags);
extern void ls_index_sort_perform(LsIndexSort *sort);

/* The next record in order, valid until the next call; false at the end. */
extern bool ls_index_sort_next(LsIndexSort *sort, LsIndexRecord *record);
extern void ls_index_sort_end(LsIndexSort *sort);

#endif							/* LS_INDEX_SORT_H */
