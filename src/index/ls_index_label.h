/*
 * ls_index_label.h - columns whose keys are labels: finding, giving, relying on them.
 *
 * What holds: among the entries that are in the index at one moment, with equal keys in
 * the columns before, labels order as the operator class' comparison procedure orders
 * the values beside them, and equal values have equal labels.  ls_index_label.c says
 * how that is kept, and what may be concluded from entries that were seen at
 * different times.
 */
#ifndef LS_INDEX_LABEL_H
#define LS_INDEX_LABEL_H

#include "ls_index.h"

#include "lib/stringinfo.h"

/* An entry that was seen: key | row id, and where in it the column's slice lies. */
typedef struct LsLabelEntry
{
	StringInfoData position;	/* no bytes: there is none */
	uint32		slice_begin;
	uint32		slice_end;
} LsLabelEntry;

/* Where a value belongs. */
typedef struct LsLabelPlace
{
	bool		found;			/* left's value is equal; else it is the last before it */
	LsLabelEntry left;
	LsLabelEntry right;			/* the first behind it */
} LsLabelPlace;

typedef struct LsLabelSearch
{
	Relation	index;
	const LsIndexShape *shape;
	ls_index_scan *scan;		/* NULL until it is needed */
	MemoryContext scratch;		/* of one comparison */
	StringInfoData from;
	StringInfoData to;
} LsLabelSearch;

/* Everything lives in the current memory context and resource owner. */
extern void ls_label_search_init(LsLabelSearch *search, Relation index);
extern void ls_label_search_end(LsLabelSearch *search);
extern void ls_label_place_init(LsLabelPlace *place);

/*
 * Look for a value in column c (0-based) of the entries whose keys begin with `prefix`.
 * `compare` compares the column's values with the type of this one.  Calls that procedure:
 * it may do and raise what it likes.
 */
extern void ls_label_find(LsLabelSearch *search, int c, ls_bytes prefix, FmgrInfo *compare, Datum value, LsLabelPlace *place);

/*
 * Look for a long key among the entries that begin as it does; c is then the number of key columns.
 */
extern void ls_label_find_rest(LsLabelSearch *search, ls_bytes whole, LsLabelPlace *place);

/*
 * The same for a transaction whose locks shall cover the place to its end: neighbours
 * that stay as long as it runs, for its snapshot sees their rows.  There may be other
 * entries between them.
 */
extern void ls_label_find_lasting(LsLabelSearch *search, int c, ls_bytes prefix, FmgrInfo *compare, Datum value,
								  LsLabelPlace *place);

/* Is the entry at this place (key | row id) in the index? */
extern bool ls_label_still_there(LsLabelSearch *search, ls_bytes position);

static inline bool
ls_label_is_entry(const LsLabelEntry *entry)
{
	return entry->position.len > 0;
}

static inline ls_bytes
ls_label_slice(const LsLabelEntry *entry)
{
	return (ls_bytes)
	{
		(const uint8_t *) entry->position.data + entry->slice_begin, entry->slice_end - entry->slice_begin
	};
}

/*
 * ---- the key of an entry that is to be inserted
 */
typedef struct LsLabelKey
{
	LsLabelSearch search;
	MemoryContext context;		/* of everything here */
	StringInfoData key;
	StringInfoData whole;		/* of a long key, where `key` has a label for its rest */
	bool		is_new;			/* it has a new label */
	int			n_places;		/* columns with labels up to the new one */
	LsLabelPlace *places;
	int			new_column;
	BlockNumber page;			/* locked when it is claimed, */
	LOCKMODE	lock;			/* in this mode */
} LsLabelKey;

extern LsLabelKey *ls_label_key_begin(Relation index);
extern void ls_label_key_end(LsLabelKey *key);

/* Find the key for these values.  It is right until others insert. */
extern void ls_label_key_form(LsLabelKey *key, const Datum *values, const bool *isnull);

/*
 * Keep others from giving labels, and see whether the key still is right.  True: it stays
 * so until ls_label_key_release(), and the entry can be inserted.  False: it has to be formed again.
 */
extern bool ls_label_key_claim(LsLabelKey *key);

/* Keep others away first and form the key then, when it was in vain too often. */
extern void ls_label_key_form_claimed(LsLabelKey *key, const Datum *values, const bool *isnull);
extern void ls_label_key_release(LsLabelKey *key);

/* Are the columns with labels of an entry equal to these values? */
extern bool ls_label_key_equals(LsLabelKey *key, const ls_index_entry *entry, const Datum *values, const bool *isnull);

#endif							/* LS_INDEX_LABEL_H */
