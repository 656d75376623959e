/*
 * ls_order_label.h - columns that have labels for keys: finding, giving, relying on them.
 *
 * What holds: among the entries that are in the index at one moment, with equal keys in
 * the columns before, labels order as the operator class' comparison procedure orders
 * the values beside them, and equal values have equal labels.  ls_order_label.c says
 * how that is kept, and what may be concluded from entries that were seen at
 * different times.
 */
#ifndef LS_ORDER_LABEL_H
#define LS_ORDER_LABEL_H

#include "ls_index.h"

#include "lib/stringinfo.h"

/* An entry that was seen: key | row id, and where in it the column's segment lies. */
typedef struct LsOrderLabelEntry
{
	StringInfoData position;	/* no bytes: there is none */
	uint32		segment_begin;
	uint32		segment_end;
} LsOrderLabelEntry;

/* Where a value belongs. */
typedef struct LsOrderLabelPlace
{
	bool		found;			/* left's value is equal; else it is the last before it */
	LsOrderLabelEntry left;
	LsOrderLabelEntry right;			/* the first behind it */
} LsOrderLabelPlace;

typedef struct LsOrderLabelSearch
{
	Relation	index;
	const LsIndexShape *shape;
	ls_index_scan *scan;		/* NULL until it is needed */
	MemoryContext scratch;		/* of one comparison */
	StringInfoData from;
	StringInfoData to;
} LsOrderLabelSearch;

/* Everything lives in the current memory context and resource owner. */
extern void ls_order_label_search_init(LsOrderLabelSearch *search, Relation index);
extern void ls_order_label_search_end(LsOrderLabelSearch *search);
extern void ls_order_label_place_init(LsOrderLabelPlace *place);

/*
 * Look for a value in column c (0-based) of the entries that have `prefix` before it.
 * `compare` compares the column's values with the type of this one.  Calls that procedure:
 * it may do and raise what it likes.
 */
extern void ls_order_label_find(LsOrderLabelSearch *search, int c, ls_bytes prefix,
								FmgrInfo *compare, Datum value, LsOrderLabelPlace *place);

/*
 * Look for a long key among the entries that begin as it does; c is then the number of key columns.
 */
extern void ls_order_label_find_rest(LsOrderLabelSearch *search, ls_bytes whole,
									 LsOrderLabelPlace *place);

/*
 * The same for a transaction that shall cover the place with its locks to its end: neighbours
 * that stay as long as it runs, for its snapshot sees their rows.  There may be other
 * entries between them.
 */
extern void ls_order_label_find_pinned(LsOrderLabelSearch *search, int c, ls_bytes prefix,
									   FmgrInfo *compare, Datum value, LsOrderLabelPlace *place);

/* Is the entry at this place (key | row id) in the index? */
extern bool ls_order_label_still_there(LsOrderLabelSearch *search, ls_bytes position);

static inline bool
ls_order_label_is_entry(const LsOrderLabelEntry *entry)
{
	return entry->position.len > 0;
}

static inline ls_bytes
ls_order_label_segment(const LsOrderLabelEntry *entry)
{
	return (ls_bytes){(const uint8_t *) entry->position.data + entry->segment_begin,
					  entry->segment_end - entry->segment_begin};
}

/*
 * ---- the key of an entry that is to be inserted
 */
typedef struct LsOrderLabelKey
{
	LsOrderLabelSearch search;
	MemoryContext context;		/* of everything here */
	StringInfoData key;
	StringInfoData whole;		/* of a long key, where `key` has a label for its rest */
	bool		is_new;			/* it has a new label */
	int			n_places;		/* columns with labels up to the new one */
	LsOrderLabelPlace *places;
	int			new_column;
	BlockNumber page;			/* locked when it is claimed, */
	LOCKMODE	lock;			/* in this mode */
} LsOrderLabelKey;

extern LsOrderLabelKey *ls_order_label_key_begin(Relation index);
extern void ls_order_label_key_end(LsOrderLabelKey *key);

/* Find the key for these values.  It is right until others insert. */
extern void ls_order_label_key_form(LsOrderLabelKey *key, const Datum *values, const bool *isnull);

/*
 * Keep others from giving labels, and see whether the key still is right.  True: it stays
 * so until ls_order_label_key_release(), and the entry can be inserted.  False: it has to be formed
 * again.
 */
extern bool ls_order_label_key_claim(LsOrderLabelKey *key);

/* Keep others away first and form the key then, when it was in vain too often. */
extern void ls_order_label_key_form_claimed(LsOrderLabelKey *key, const Datum *values,
											const bool *isnull);
extern void ls_order_label_key_release(LsOrderLabelKey *key);

/* Are the columns with labels of an entry equal to these values? */
extern bool ls_order_label_key_equals(LsOrderLabelKey *key, const ls_index_entry *entry,
									  const Datum *values, const bool *isnull);

#endif							/* LS_ORDER_LABEL_H */
