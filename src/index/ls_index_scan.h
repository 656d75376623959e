/*
 * ls_index_scan.h - what the files of the scan side of the index access method share.
 */
#ifndef LS_INDEX_SCAN_H
#define LS_INDEX_SCAN_H

#include "ls_index.h"
#include "ls_order_label.h"

#include "access/skey.h"
#include "lib/stringinfo.h"

/*
 * ---- ls_index_conditions.c, ls_index_keys.c: scan keys as byte strings
 *
 * What the conditions allow in one column is a set of intervals lo <= segment < hi
 * of byte strings, where a segment is the column's part of a key, marker included.
 * NULLs are segments, too, so every condition of nbtree's is such a set, and a
 * conjunction of conditions is an intersection.
 */
typedef struct LsInterval
{
	ls_bytes	lo;
	ls_bytes	hi;
	/* the segment that hi comes right behind, if known (else data is NULL) */
	ls_bytes	last;
} LsInterval;

typedef struct LsColumnFilter
{
	int			n;
	LsInterval *intervals;		/* ascending, disjoint */
	int			recent;			/* the one last found */

	/*
	 * A column with labels that is compared with values: its intervals are those under one
	 * prefix, made by searching.
	 */
	bool		is_searched;
	List	   *searched;		/* the conditions */
	LsInterval *always;			/* what others leave */
	int			n_always;
	bool		has_prefix;
	StringInfoData prefix;
	MemoryContext context;		/* of what one prefix needs; NULL: not searched yet */
} LsColumnFilter;

typedef struct LsRowMember
{
	const ScanKeyData *key;
	int			column;			/* 0-based */
	/* the comparison wants segments below the argument's (else above) */
	bool		below;
	bool		isnull;
	ls_bytes	equal_lo;		/* segments equal to the argument: equal_lo <= segment < equal_hi */
	ls_bytes	equal_hi;
	LsInterval	allowed;		/* if all members before are equal */
} LsRowMember;

/* (a, b, ...) < (x, y, ...) and the like. */
typedef struct LsRowComparison
{
	int			n;
	int			n_adjacent;		/* leading members that are neighbours in the index, in its order */
	bool		or_equal;
	StrategyNumber strategy;
	LsRowMember *members;
	int			matched;		/* leading members that the place being looked at is equal in */
} LsRowComparison;

typedef struct LsIndexFilter
{
	Relation	index;
	const LsIndexShape *shape;
	MemoryContext context;		/* of what one set of arguments needs */

	/* Entries that may match: from <= key < to (empty: to the end). */
	StringInfoData from;
	StringInfoData to;
	bool		exact;			/* they all do */
	bool		is_point;		/* and are equal in all key columns */

	bool		has_search;
	LsOrderLabelSearch labels;		/* in an index that has some, or for long keys */
	LsOrderLabelPlace place;			/* scratch */
	/* the range holds what may match at any time until the transaction ends */
	bool		pinned;
	bool		searches;		/* values were searched for */

	int			n_columns;		/* leading columns that a check looks at */
	LsColumnFilter *columns;
	uint32	   *offsets;		/* of the columns in the key being checked, and of its end */
	int			n_rows;
	LsRowComparison *rows;
	StringInfoData bound;		/* scratch */
	StringInfoData skip_to;		/* where the next match can be, after LS_INDEX_SKIP */
} LsIndexFilter;

typedef enum LsIndexVerdict
{
	LS_INDEX_MATCH,
	LS_INDEX_NO_MATCH,
	LS_INDEX_SKIP,				/* no match, nor any before skip_to in the direction of the scan */
	LS_INDEX_DONE				/* no match, nor any behind it */
} LsIndexVerdict;

extern void ls_index_filter_init(LsIndexFilter *filter, Relation index);
extern void ls_index_filter_end(LsIndexFilter *filter);

/*
 * Take the present arguments of the conditions.  locks: the range will be locked (SERIALIZABLE).
 * False: nothing can match.
 */
extern bool ls_index_filter_build(LsIndexFilter *filter, const ScanKeyData *keys, int n_keys,
								  bool locks);

/* Just "=" on leading columns? */
extern bool ls_index_filter_is_lookup(const LsIndexFilter *filter, const ScanKeyData *keys,
									  int n_keys);

/* The first steps of a build; the range is empty. */
extern void ls_index_filter_reset(LsIndexFilter *filter, bool locks);

/* Append to `from` the value that a column without labels shall be equal to.  False: none is. */
extern bool ls_index_filter_append_equal(LsIndexFilter *filter, const ScanKeyData *key);

extern LsIndexVerdict ls_index_filter_check(LsIndexFilter *filter, ls_bytes key, bool backward);

/* Add a condition.  False: it is never true together with those before. */
extern bool ls_index_filter_add(LsIndexFilter *filter, const ScanKeyData *key);

/* Is the argument of a condition of the type that the operator class takes? */
static inline bool
ls_index_is_same_type(Relation index, int column, Oid type)
{
	return type == InvalidOid || type == index->rd_opcintype[column];
}

/* Make the intervals of a column that is searched, under a prefix. */
extern void ls_index_filter_search(LsIndexFilter *filter, int c, ls_bytes prefix);

/* Make the string into the first one behind everything that begins with it. */
extern void ls_index_make_following(StringInfo string);

extern const uint8 ls_first_value[1];	/* at or below all values, above NULLS FIRST */
extern const uint8 ls_behind_values[1]; /* above all values, at NULLS LAST */
extern const uint8 ls_behind_all[1];

#define LS_BYTES(array) ((ls_bytes) {.data = (array), .len = sizeof(array)})
#define LS_NO_BYTES ((ls_bytes) {.data = NULL, .len = 0})

static inline ls_bytes
ls_bytes_of(const StringInfoData *string)
{
	return (ls_bytes)
	{
		.data = string->len > 0 ? (const uint8_t *) string->data : NULL,
			.len = string->len
	};
}

/* memcmp order, a prefix first */
static inline int
ls_bytes_compare(ls_bytes a, ls_bytes b)
{
	uint32		common = Min(a.len, b.len);
	int			order = common > 0 ? memcmp(a.data, b.data, common) : 0;

	return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static inline ls_bytes
ls_bytes_greater(ls_bytes a, ls_bytes b)
{
	return ls_bytes_compare(a, b) > 0 ? a : b;
}

/*
 * ---- ls_index_lock.c: what a scan locks (SERIALIZABLE)
 */
typedef struct LsIndexLock
{
	bool		on;
	/* something is locked: from <= key | row id < to (empty: to the end) */
	bool		any;
	StringInfoData from;
	StringInfoData to;
	int			ahead;			/* entries to lock at a time */

	/*
	 * Where the engine's scan goes on: behind a place, or at the end of its range that it has come
	 * from.
	 */
	bool		has_place;
	StringInfoData place;
	StringInfoData position;	/* scratch: of the entry read last */
} LsIndexLock;

/* ---- ls_index_scan.c */
typedef struct LsIndexParallelBatch LsIndexParallelBatch;

/* Entries to be removed. */
typedef struct LsEntryList
{
	int			n;
	uint64	   *rows;
	uint32	   *ends;			/* of their keys in `keys` */
	StringInfoData keys;
} LsEntryList;

/* A column that is a number in the key, and its place in the fixed tuple. */
typedef struct LsPlainColumn
{
	const LsKeyColumn *key;
	int			len;			/* in the key, with the marker */
	int			value_len;
	char	   *value;
} LsPlainColumn;

typedef struct LsIndexScan
{
	MemoryContext context;		/* of this struct and everything it points to */
	LsIndexFilter filter;
	ls_index_scan *engine;		/* NULL until the first entry is wanted */

	bool		started;		/* the engine's scan is on the range of the present arguments */
	bool		nothing;		/* they are contradictory */
	bool		recheck;		/* an entry that matches may have another value */
	bool		backward;
	bool		at_end;			/* in that direction */

	bool		moved;			/* to another place, by other means than the next entry */
	bool		coming_back;	/* ... where the scan has been */
	uint64		searches;		/* of the engine's scan, counted so far */

	MemoryContext long_context; /* of one long key; NULL until there is one */

	bool		on_entry;
	/* returned last; valid if on_entry and ls_index_scan_settle() was called */
	ls_index_entry entry;
	int			entry_no;		/* its place in `entries`, from 1; 0: it is not of those */
	bool		same_key;		/* as the one before it there */
	bool		visible;		/* its row, to all snapshots */

	/*
	 * Entries taken from the engine together: its scan stands on the last of them.  The first
	 * n_given have been looked at.
	 */
	ls_index_batch *entries;
	int			n_entries;
	int			n_given;
	bool		all_match;		/* and are returned one after the other, by this process */
	int			n_run;			/* entries read one after the other since the scan came here */

	/*
	 * Rows of the entries behind `entry`, which is where the engine's scan stands.  The first
	 * n_taken have been returned since.
	 */
	uint64	   *ahead;
	int			n_ahead;
	int			n_taken;
	int			n_steps;		/* entries returned one by one since the scan began on its range */

	LsIndexLock lock;

	bool		marked;
	StringInfoData mark;		/* key | row id of the marked entry */

	LsEntryList dead;			/* entries found dead, not yet removed */

	bool		can_be_stale;	/* the index may have stale entries */
	bool		fetch_told;		/* the table's fetch knows of this scan */
	struct LsIndexFetch *fetch; /* the same, if it wants to be told of rows that are visible */
	bool		met_stale;		/* the entry returned last is one, and may go */
	LsEntryList stale;			/* entries found stale, not yet removed */
	uint32		n_passed;		/* stale entries passed over since one was noted, */
	uint32		passes;			/* and how many shall be: others need them */

	/* index-only scans */
	MemoryContext tuple_context;
	TupleDesc	tuple_desc;
	StringInfoData tuple_key;	/* of the entry that xs_itup was made of, if that is all of it */
	int			tuple_no;		/* entry_no of that entry */
	LsPlainColumn *plain;		/* where all columns are numbers in the key; or NULL */
	IndexTuple	fixed_tuple;	/* where all columns have fixed lengths, formed in place; or NULL */
	uint16	   *fixed_offsets;	/* of their values there */
	Datum	   *values;
	bool	   *isnull;

	LsIndexParallelBatch *batch;
} LsIndexScan;

/* The next matching entry, in so->entry. */
extern bool ls_index_scan_advance(IndexScanDesc scan, bool backward);

/* The same, beginning behind `position` (key | row id), or at the beginning if it is empty. */
extern void ls_index_scan_resume(IndexScanDesc scan, ls_bytes position, bool backward);

/* The engine's scan is about to be told to go somewhere else. */
static inline void
ls_index_scan_leave(LsIndexScan *so)
{
	so->n_entries = so->n_given = so->n_run = 0;
	so->n_ahead = so->n_taken = 0;
}

/* Bring the engine's scan, and so->entry, to the entry returned last. */
extern void ls_index_scan_settle(LsIndexScan *so);

/* Tell the server's counters of the searches since the last call. */
extern void ls_index_scan_count_searches(IndexScanDesc scan);

/* The engine's string for an entry: key | row id. */
extern void ls_index_entry_position(const ls_index_entry *entry, StringInfo position);

/* ---- ls_index_lookup.c */

/* A scan that is about to begin on its range: is it a look-up by a whole key? */
extern bool ls_index_is_look_up(IndexScanDesc scan);

/* The first entry with the key, in so->entry, and its TID.  False: there is none. */
extern bool ls_index_look_up(IndexScanDesc scan, bool backward);

/* ---- ls_index_lock.c */

/* The scan is about to begin on its range; all: it will read all of it. */
extern void ls_index_lock_start(IndexScanDesc scan, bool backward, bool all);

/*
 * The engine's scan is told to go on behind a place, anywhere in the range: nothing in between
 * matches, or it has been there.
 */
extern void ls_index_lock_jump(LsIndexLock *lock, ls_bytes place);

/* The next entry, in so->entry, from a locked part of the index. */
extern ls_status ls_index_lock_next(IndexScanDesc scan, ls_error *error);

/* ---- ls_index_parallel.c */
extern bool ls_index_parallel_advance(IndexScanDesc scan, bool backward);

/* ls_index_scan_vouches() before the entries that are being returned were read. */
extern uint64 ls_index_parallel_vouched(const LsIndexScan *so);

/* Rescan: what was read and not returned is void. */
extern void ls_index_parallel_forget(LsIndexScan *so);

#endif							/* LS_INDEX_SCAN_H */
