/*
 * ls_index_keys.c - where a scan has to look: the range of the index, and the next place that may
 * match.
 *
 * Out of the scan keys come, for each column, the intervals of its segments that
 * match (ls_index_conditions.c); out of these the range of the index to be read, and for an entry
 * in it that does not match, how far to go until one can.  The same rule serves ranges, IN lists
 * and columns without a condition before one that has some: a column that is outside its intervals
 * is taken to the next interval; when it has none, the column before it is taken to its next value.
 *
 * Notes on byte strings.  Of one column, no segment is a prefix of another.  So the
 * segments that come behind segment s are those at or above the string that follows
 * s and everything that begins with s (`following`), and a string of bytes
 * that is a segment as it stands is only equal to itself.  All segments are below "\x04".
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "ls_index_scan.h"

#include "access/stratnum.h"
#include "utils/memutils.h"

/* Room for most keys; strings grow. */
#define KEY_BYTES 128

void
ls_index_make_following(StringInfo string)
{
	/* a marker is the first byte, so there is one to count up */
	while ((uint8) string->data[string->len - 1] == 0xFF)
		string->len--;
	string->data[string->len - 1]++;
}

static void
append_bytes(StringInfo string, ls_bytes bytes)
{
	if (bytes.len > 0)
		appendBinaryStringInfo(string, bytes.data, bytes.len);
}

static void
append_following(StringInfo string, ls_bytes segment)
{
	append_bytes(string, segment);
	ls_index_make_following(string);
}

/* Are these bytes a segment of the column? */
static bool
is_segment(const LsKeyColumn *column, ls_bytes bytes)
{
	return bytes.len > 0 && ls_key_column_length(column, bytes.data, bytes.len) == bytes.len;
}

/* ----------------------------------------------------------------
 * looking for the next place that may match
 * ----------------------------------------------------------------
 */

/* Start over with row comparisons: nothing is known to be equal. */
static void
reset_rows(LsIndexFilter *filter)
{
	for (int i = 0; i < filter->n_rows; i++)
		filter->rows[i].matched = 0;
}

/* Is the row comparison undecided when it comes to this column? */
static bool
row_is_open(const LsRowComparison *row, int c)
{
	int			member = c - row->members[0].column;

	return member >= 0 && member < row->n_adjacent && row->matched >= member;
}

/* The column has this segment now. */
static void
enter_segment(LsIndexFilter *filter, int c, ls_bytes segment)
{
	for (int i = 0; i < filter->n_rows; i++)
	{
		LsRowComparison *row = &filter->rows[i];

		if (row_is_open(row, c))
		{
			int			at = c - row->members[0].column;
			const LsRowMember *member = &row->members[at];

			row->matched = at;
			if (!member->isnull && ls_bytes_compare(segment, member->equal_lo) >= 0 &&
				ls_bytes_compare(segment, member->equal_hi) < 0)
				row->matched++;
		}
	}
}

/* Cut it to what the row comparisons that are undecided allow for column c. */
static void
cut_by_rows(const LsIndexFilter *filter, int c, LsInterval *range)
{
	for (int i = 0; i < filter->n_rows; i++)
	{
		const LsRowComparison *row = &filter->rows[i];

		if (row_is_open(row, c))
		{
			const LsInterval *allowed = &row->members[c - row->members[0].column].allowed;

			range->lo = ls_bytes_greater(range->lo, allowed->lo);
			if (ls_bytes_compare(allowed->hi, range->hi) < 0)
			{
				range->hi = allowed->hi;
				range->last = allowed->last;
			}
		}
	}
}

/*
 * Forward, the first interval that ends above range->lo; backward, the last one that begins below
 * range->hi.  It may be outside of the column's.
 */
static int
find_interval(const LsColumnFilter *column, const LsInterval *range, bool backward)
{
	const LsInterval *recent = &column->intervals[column->recent];
	int			left = 0,
				right = column->n;

	if (backward ? ls_bytes_compare(recent->lo, range->hi) < 0 &&
		ls_bytes_compare(range->hi, recent->hi) <= 0 :
		ls_bytes_compare(recent->lo, range->lo) <= 0 &&
		ls_bytes_compare(range->lo, recent->hi) < 0)
		return column->recent;
	while (left < right)
	{
		int			middle = (left + right) / 2;
		const LsInterval *interval = &column->intervals[middle];

		if (backward ? ls_bytes_compare(interval->lo, range->hi) < 0
					 : ls_bytes_compare(interval->hi, range->lo) <= 0)
			left = middle + 1;
		else
			right = middle;
	}
	return backward ? left - 1 : left;
}

/*
 * What column c may be, given those before it (`prefix`): the nearest interval at or
 * above `bound`, cut there; backward: the nearest one below it.
 */
static bool
nearest(LsIndexFilter *filter, int c, ls_bytes prefix, ls_bytes bound, bool backward,
		LsInterval *result)
{
	LsColumnFilter *column = &filter->columns[c];
	LsInterval	range = {.lo = LS_NO_BYTES, .hi = LS_BYTES(ls_behind_all), .last = LS_NO_BYTES};
	int			found;

	if (column->is_searched)
		ls_index_filter_search(filter, c, prefix);
	if (column->n == 0)
		return false;
	cut_by_rows(filter, c, &range);
	if (!backward)
		range.lo = ls_bytes_greater(range.lo, bound);
	else if (ls_bytes_compare(bound, range.hi) < 0)
	{
		range.hi = bound;
		range.last = LS_NO_BYTES;
	}

	found = find_interval(column, &range, backward);
	if (found < 0 || found >= column->n)
		return false;
	column->recent = found;

	*result = column->intervals[found];
	result->lo = ls_bytes_greater(result->lo, range.lo);
	if (ls_bytes_compare(range.hi, result->hi) < 0)
	{
		result->hi = range.hi;
		result->last = range.last;
	}
	return ls_bytes_compare(result->lo, result->hi) < 0;
}

static void extend(LsIndexFilter *filter, int c, const LsInterval *interval, bool backward,
				   StringInfo place);

/*
 * `place` is where a scan enters the range of entries that have certain segments in the columns
 * before c: go on to where it meets the first one that may match.  False: there is none.
 */
static bool
enter(LsIndexFilter *filter, int c, bool backward, StringInfo place)
{
	LsInterval	interval;

	if (c >= filter->n_columns ||
		!nearest(filter, c, ls_bytes_of(place), backward ? LS_BYTES(ls_behind_all) : LS_NO_BYTES,
				 backward, &interval))
		return false;
	extend(filter, c, &interval, backward, place);
	return true;
}

/*
 * Column c continues `place` with the near end of the interval.  Where that is a
 * segment, later columns can narrow it further.
 */
static void
extend(LsIndexFilter *filter, int c, const LsInterval *interval, bool backward, StringInfo place)
{
	if (!backward)
	{
		append_bytes(place, interval->lo);
		if (is_segment(&filter->shape->keys[c], interval->lo))
		{
			enter_segment(filter, c, interval->lo);
			(void) enter(filter, c + 1, backward, place);
		}
		return;
	}

	if (interval->last.data != NULL)
	{
		int			before = place->len;

		append_bytes(place, interval->last);
		enter_segment(filter, c, interval->last);
		if (enter(filter, c + 1, backward, place))
			return;
		place->len = before;
	}
	append_bytes(place, interval->hi);
}

static ls_bytes
segment_in_key(const LsIndexFilter *filter, ls_bytes key, int c)
{
	return (ls_bytes)
	{
		.data = key.data + filter->offsets[c],
			.len = filter->offsets[c + 1] - filter->offsets[c]
	};
}

/*
 * Column c of the entry is not what it may be: find the next place, in the scan's
 * direction, that may match.
 */
static LsIndexVerdict
skip_from(LsIndexFilter *filter, ls_bytes key, int c, bool backward)
{
	for (int failed = c; c >= 0; c--)
	{
		ls_bytes	prefix = {key.data, filter->offsets[c]};
		ls_bytes	bound = segment_in_key(filter, key, c);
		LsInterval	interval;

		if (!backward && c < failed)
		{
			/* every entry with this segment is done with */
			resetStringInfo(&filter->bound);
			append_following(&filter->bound, bound);
			bound = ls_bytes_of(&filter->bound);
		}
		if (nearest(filter, c, prefix, bound, backward, &interval))
		{
			resetStringInfo(&filter->skip_to);
			append_bytes(&filter->skip_to, prefix);
			extend(filter, c, &interval, backward, &filter->skip_to);
			return LS_INDEX_SKIP;
		}
	}
	return LS_INDEX_DONE;
}

/* Row comparisons over columns that are not neighbours have to be calculated. */
static bool
row_is_true(const LsIndexFilter *filter, const LsRowComparison *row, ls_bytes key)
{
	for (int i = 0; i < row->n; i++)
	{
		const LsRowMember *member = &row->members[i];
		ls_bytes	segment = segment_in_key(filter, key, member->column);
		bool		is_below,
					is_above;

		if (member->isnull || ls_bytes_compare(segment, LS_BYTES(ls_first_value)) < 0 ||
			ls_bytes_compare(segment, LS_BYTES(ls_behind_values)) >= 0)
			return false;
		is_below = ls_bytes_compare(segment, member->equal_lo) < 0;
		is_above = ls_bytes_compare(segment, member->equal_hi) >= 0;
		if (is_below || is_above)
			return is_below == member->below;
	}
	return row->or_equal;
}

LsIndexVerdict
ls_index_filter_check(LsIndexFilter *filter, ls_bytes key, bool backward)
{
	reset_rows(filter);
	for (int c = 0; c < filter->n_columns; c++)
	{
		uint32		offset = filter->offsets[c];
		Size		len = ls_key_column_length(&filter->shape->keys[c], key.data + offset,
										key.len - offset);
		ls_bytes	segment;
		LsInterval	interval;

		if (len == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("index \"%s\" contains a damaged key",
							RelationGetRelationName(filter->index)),
					 errhint("Please REINDEX it.")));
		filter->offsets[c + 1] = offset + len;
		segment = segment_in_key(filter, key, c);
		if (!nearest(filter, c, (ls_bytes){key.data, offset}, segment, false, &interval) ||
			ls_bytes_compare(interval.lo, segment) != 0)
			return skip_from(filter, key, c, backward);
		enter_segment(filter, c, segment);
	}

	for (int i = 0; i < filter->n_rows; i++)
		if (filter->rows[i].n_adjacent < filter->rows[i].n &&
			!row_is_true(filter, &filter->rows[i], key))
			return LS_INDEX_NO_MATCH;
	return LS_INDEX_MATCH;
}

/* ----------------------------------------------------------------
 * setting up
 * ----------------------------------------------------------------
 */

static void
begin_search(LsIndexFilter *filter)
{
	MemoryContext old_context = MemoryContextSwitchTo(MemoryContextGetParent(filter->context));

	ls_order_label_search_init(&filter->labels, filter->index);
	ls_order_label_place_init(&filter->place);
	filter->has_search = true;
	MemoryContextSwitchTo(old_context);
}

void
ls_index_filter_init(LsIndexFilter *filter, Relation index)
{
	int			n_columns;

	filter->index = index;
	filter->shape = ls_index_shape(index);
	filter->context = AllocSetContextCreate(CurrentMemoryContext, "leanstore index conditions",
											ALLOCSET_SMALL_SIZES);
	n_columns = filter->shape->n_keys;
	filter->columns = palloc0_array(LsColumnFilter, n_columns);
	filter->offsets = palloc0_array(uint32, n_columns + 1);
	initStringInfoExt(&filter->from, KEY_BYTES);
	initStringInfoExt(&filter->to, KEY_BYTES);
	initStringInfoExt(&filter->bound, KEY_BYTES);
	initStringInfoExt(&filter->skip_to, KEY_BYTES);
	if (filter->shape->n_labels > 0)
		begin_search(filter);
}

void
ls_index_filter_end(LsIndexFilter *filter)
{
	if (filter->has_search)
		ls_order_label_search_end(&filter->labels);
}

bool
ls_index_filter_is_lookup(const LsIndexFilter *filter, const ScanKeyData *keys, int n_keys)
{
	if (filter->pinned)
		return false;			/* a place in an index with labels, too, when nothing is there */
	for (int i = 0; i < n_keys; i++)
		if ((keys[i].sk_flags & ~SK_ISNULL) != 0 || keys[i].sk_strategy != BTEqualStrategyNumber ||
			keys[i].sk_attno != i + 1 ||
			(ls_key_has_labels(&filter->shape->keys[i]) &&
			 !ls_index_is_same_type(filter->index, i, keys[i].sk_subtype)))
			return false;
	return n_keys > 0;
}

bool
ls_index_filter_append_equal(LsIndexFilter *filter, const ScanKeyData *key)
{
	int			i = key->sk_attno - 1;
	const LsKeyColumn *column = &filter->shape->keys[i];
	Datum		value = key->sk_argument;

	if (key->sk_flags & SK_ISNULL)
		return false;
	/*
	 * Drivers like to send 8 bytes for an int4.  No value of the column is equal to what its type
	 * can not hold.
	 */
	if (!ls_index_is_same_type(filter->index, i, key->sk_subtype) &&
		ls_key_convert(column, key->sk_subtype, value, &value) != LS_KEY_EXACT)
		return false;
	ls_key_append(column, value, false, &filter->from);
	return true;
}

/* What the general way would come to, without its memory. */
static bool
build_lookup(LsIndexFilter *filter, const ScanKeyData *keys, int n_keys)
{
	for (int i = 0; i < n_keys; i++)
	{
		const LsKeyColumn *column = &filter->shape->keys[i];

		if (!ls_key_has_labels(column))
		{
			if (!ls_index_filter_append_equal(filter, &keys[i]))
				return false;
			continue;
		}
		if (keys[i].sk_flags & SK_ISNULL)
			return false;
		filter->searches = true;
		ls_order_label_find(&filter->labels, i, ls_bytes_of(&filter->from), column->compare,
							keys[i].sk_argument, &filter->place);
		if (!filter->place.found)
			return false;
		append_bytes(&filter->from, ls_order_label_segment(&filter->place.left));
	}
	append_following(&filter->to, ls_bytes_of(&filter->from));
	return true;
}

/* Does the range from .. to hold all the conditions? */
static bool
range_is_exact(const LsIndexFilter *filter)
{
	bool		is_point = true;

	if (filter->n_rows > 0)
		return false;
	for (int c = 0; c < filter->n_columns; c++)
	{
		const LsColumnFilter *column = &filter->columns[c];
		const LsInterval *first = &column->intervals[0];

		/* intervals that are others elsewhere */
		if (column->is_searched && !is_point)
			return false;
		if (column->n != 1 || (!is_point && (first->lo.len > 0 || first->hi.data != ls_behind_all)))
			return false;
		if (first->last.data == NULL || ls_bytes_compare(first->lo, first->last) != 0)
			is_point = false;
	}
	return true;
}

static bool
build_range(LsIndexFilter *filter, const ScanKeyData *keys, int n_keys)
{
	LsInterval *everything = palloc_object(LsInterval);

	*everything = (LsInterval) {LS_NO_BYTES, LS_BYTES(ls_behind_all), LS_NO_BYTES};
	for (int c = 0; c < filter->shape->n_keys; c++)
		filter->columns[c] = (LsColumnFilter) {.n = 1, .intervals = everything};
	filter->rows = palloc_array(LsRowComparison, n_keys);
	for (int i = 0; i < n_keys; i++)
		if (!ls_index_filter_add(filter, &keys[i]))
			return false;
	for (int c = 0; c < filter->n_columns; c++)
		filter->searches |= filter->columns[c].is_searched;

	reset_rows(filter);
	if (!enter(filter, 0, false, &filter->from))
		return false;
	reset_rows(filter);
	if (!enter(filter, 0, true, &filter->to))
		return false;
	filter->exact = range_is_exact(filter);
	return ls_bytes_compare(ls_bytes_of(&filter->from), ls_bytes_of(&filter->to)) < 0;
}

/*
 * An end of the range is among long keys that begin alike: where among them?  What is inserted
 * there later may be on the wrong side, but no snapshot that was taken before sees it.
 */
static void
find_end(LsIndexFilter *filter, StringInfo end, bool behind)
{
	LsOrderLabelPlace *place = &filter->place;
	const LsOrderLabelEntry *entry;

	if (!filter->has_search)
		begin_search(filter);
	ls_order_label_find_rest(&filter->labels, ls_bytes_of(end), place);
	entry = behind && !place->found ? &place->right : &place->left;
	if (!ls_order_label_is_entry(entry))
	{
		ls_index_clip_place(filter->shape, end, behind);
		return;
	}
	resetStringInfo(end);
	appendBinaryStringInfo(end, entry->position.data, entry->segment_end);
	if (!behind && !place->found)
		ls_index_make_following(end);
}

/*
 * The range among entries that holds all of the range of whole keys, and perhaps others.  A
 * transaction that locks it takes all that begin alike, for it does not know where others will be.
 */
static void
clip_range(LsIndexFilter *filter, bool locks)
{
	StringInfo	ends[] = {&filter->from, &filter->to};

	for (int i = 0; i < lengthof(ends); i++)
	{
		if (!ls_index_is_long(filter->shape, ends[i]->len))
			continue;
		filter->exact = false;
		if (locks)
			ls_index_clip_place(filter->shape, ends[i], i == 1);
		else
			find_end(filter, ends[i], i == 1);
	}
}

void
ls_index_filter_reset(LsIndexFilter *filter, bool locks)
{
	resetStringInfo(&filter->from);
	resetStringInfo(&filter->to);
	filter->n_columns = 0;
	filter->n_rows = 0;
	filter->exact = true;
	filter->is_point = false;
	filter->searches = false;
	filter->pinned = locks && filter->shape->n_labels > 0;
	MemoryContextReset(filter->context);
}

bool
ls_index_filter_build(LsIndexFilter *filter, const ScanKeyData *keys, int n_keys, bool locks)
{
	MemoryContext old_context;
	bool		possible = true;

	ls_index_filter_reset(filter, locks);
	old_context = MemoryContextSwitchTo(filter->context);
	if (ls_index_filter_is_lookup(filter, keys, n_keys))
	{
		possible = build_lookup(filter, keys, n_keys);
		filter->is_point = n_keys == filter->shape->n_keys;
		/* entries have to be checked */
		if (unlikely(possible && ls_index_is_long(filter->shape, filter->from.len)))
		{
			resetStringInfo(&filter->from);
			resetStringInfo(&filter->to);
			possible = build_range(filter, keys, n_keys);
		}
	}
	else if (n_keys > 0)
		possible = build_range(filter, keys, n_keys);
	if (possible)
		clip_range(filter, locks);
	MemoryContextSwitchTo(old_context);
	return possible;
}
