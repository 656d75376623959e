/*
 * ls_index_keys.c - the conditions of an index scan as byte strings.
 *
 * Out of the scan keys come, for each column, the intervals of its slices that
 * match; out of these the range of the index to be read, and for an entry in
 * it that does not match, how far to go until one can.  The same rule serves
 * ranges, IN lists and columns without a condition before one that has some: a
 * column that is outside its intervals is taken to the next interval; when it has
 * none, the column before it is taken to its next value.
 *
 * Notes on byte strings.  Of one column, no slice is a prefix of another.  So the
 * slices that come behind slice s are those at or above the string that follows
 * s and everything that begins with s (`following`), and a string of bytes
 * that is a slice as it stands is only equal to itself.  All slices are below "\x04".
 */
#include "ls_index_scan.h"

#include "access/nbtree.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

static const uint8 first_value[] = {0x02};	/* at or below all values, above NULLS FIRST */
static const uint8 behind_values[] = {0x03};	/* above all values, at NULLS LAST */
static const uint8 behind_all[] = {0x04};

#define BYTES(array) ((ls_bytes) {.data = (array), .len = sizeof(array)})
/* Room for most keys; strings grow. */
#define KEY_BYTES 128

#define NO_BYTES ((ls_bytes) {.data = NULL, .len = 0})

static ls_bytes
greater(ls_bytes a, ls_bytes b)
{
	return ls_bytes_compare(a, b) > 0 ? a : b;
}

static bool
is_empty(const LsInterval *interval)
{
	return ls_bytes_compare(interval->lo, interval->hi) >= 0;
}

/* Make the string into the first one behind everything that begins with it. */
static void
make_following(StringInfo string)
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
append_following(StringInfo string, ls_bytes slice)
{
	append_bytes(string, slice);
	make_following(string);
}

static ls_bytes
slice_of(const LsKeyColumn *column, Datum value)
{
	StringInfoData string;

	initStringInfo(&string);
	ls_key_append(column, value, false, &string);
	return ls_bytes_of(&string);
}

static ls_bytes
following(ls_bytes slice)
{
	StringInfoData string;

	initStringInfo(&string);
	append_following(&string, slice);
	return ls_bytes_of(&string);
}

/* Are these bytes a slice of the column? */
static bool
is_slice(const LsKeyColumn *column, ls_bytes bytes)
{
	return bytes.len > 0 && ls_key_column_length(column, bytes.data, bytes.len) == bytes.len;
}

/* ----------------------------------------------------------------
 * from conditions to intervals
 * ----------------------------------------------------------------
 */

static bool
is_same_type(Relation index, int column, Oid type)
{
	return type == InvalidOid || type == index->rd_opcintype[column];
}

/* The slices equal to a value that may be of another type: *lo <= slice < *hi; others are below *lo or at or above *hi. */
static void
locate(const LsIndexFilter *filter, int c, Oid type, Datum value, ls_bytes *lo, ls_bytes *hi)
{
	const LsKeyColumn *column = &filter->shape->keys[c];
	LsKeyFit	fit = LS_KEY_EXACT;
	Datum		converted = value;

	if (!is_same_type(filter->index, c, type))
		fit = ls_key_convert(column, type, value, &converted);

	switch (fit)
	{
		case LS_KEY_EXACT:
			*lo = slice_of(column, converted);
			*hi = following(*lo);
			break;
		case LS_KEY_BETWEEN:
			*lo = slice_of(column, converted);
			if (!column->descending)
				*lo = following(*lo);
			*hi = *lo;
			break;
		case LS_KEY_BELOW_ALL:
			*lo = *hi = column->descending ? BYTES(behind_values) : BYTES(first_value);
			break;
	}
}

static StrategyNumber
strategy_in_bytes(const LsKeyColumn *column, StrategyNumber strategy)
{
	return column->descending ? BTCommuteStrategyNumber(strategy) : strategy;
}

/* May be empty. */
static LsInterval
interval_of(StrategyNumber strategy, ls_bytes equal_lo, ls_bytes equal_hi)
{
	ls_bytes	equal = ls_bytes_compare(equal_lo, equal_hi) < 0 ? equal_lo : NO_BYTES;

	switch (strategy)
	{
		case BTLessStrategyNumber:
			return (LsInterval) {BYTES(first_value), equal_lo, NO_BYTES};
		case BTLessEqualStrategyNumber:
			return (LsInterval) {BYTES(first_value), equal_hi, equal};
		case BTEqualStrategyNumber:
			return (LsInterval) {equal_lo, equal_hi, equal};
		case BTGreaterEqualStrategyNumber:
			return (LsInterval) {equal_lo, BYTES(behind_values), NO_BYTES};
		case BTGreaterStrategyNumber:
			return (LsInterval) {equal_hi, BYTES(behind_values), NO_BYTES};
	}
	elog(ERROR, "unrecognized strategy number: %d", strategy);
}

static int
compare_intervals(const void *a, const void *b)
{
	return ls_bytes_compare(((const LsInterval *) a)->lo, ((const LsInterval *) b)->lo);
}

/* Sort intervals, join those that overlap, drop empty ones. */
static int
unite(LsInterval *intervals, int n)
{
	int			kept = 0;

	qsort(intervals, n, sizeof(LsInterval), compare_intervals);
	for (int i = 0; i < n; i++)
	{
		LsInterval *before = kept > 0 ? &intervals[kept - 1] : NULL;

		if (is_empty(&intervals[i]))
			continue;
		if (before == NULL || ls_bytes_compare(before->hi, intervals[i].lo) <= 0)
			intervals[kept++] = intervals[i];
		else if (ls_bytes_compare(before->hi, intervals[i].hi) < 0)
		{
			before->hi = intervals[i].hi;
			before->last = intervals[i].last;
		}
	}
	return kept;
}

/* Keep of a column what is in the other intervals, too. */
static void
restrict_column(LsColumnFilter *column, const LsInterval *intervals, int n)
{
	/* the ends of the pieces are ends of either; no two pieces end in the same place */
	LsInterval *pieces = palloc_array(LsInterval, column->n + n);
	int			n_pieces = 0;

	for (int i = 0, j = 0; i < column->n && j < n;)
	{
		const LsInterval *a = &column->intervals[i];
		const LsInterval *b = &intervals[j];
		int			order = ls_bytes_compare(a->hi, b->hi);
		LsInterval	piece = {greater(a->lo, b->lo), a->hi, a->last};

		if (order > 0 || (order == 0 && a->last.data == NULL))
		{
			piece.hi = b->hi;
			piece.last = b->last;
		}
		if (!is_empty(&piece))
			pieces[n_pieces++] = piece;
		if (order <= 0)
			i++;
		if (order >= 0)
			j++;
	}
	column->intervals = pieces;
	column->n = n_pieces;
}

static void
add_array_condition(LsIndexFilter *filter, const ScanKeyData *key)
{
	int			c = key->sk_attno - 1;
	const LsKeyColumn *column = &filter->shape->keys[c];
	StrategyNumber strategy = strategy_in_bytes(column, key->sk_strategy);
	ArrayType  *array = DatumGetArrayTypeP(key->sk_argument);
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Datum	   *elements;
	bool	   *isnull;
	int			n_elements;
	LsInterval *intervals;
	int			n = 0;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval, &typalign);
	deconstruct_array(array, ARR_ELEMTYPE(array), typlen, typbyval, typalign, &elements, &isnull, &n_elements);
	intervals = palloc_array(LsInterval, n_elements);
	for (int i = 0; i < n_elements; i++)
	{
		ls_bytes	lo,
					hi;

		if (isnull[i])
			continue;
		locate(filter, c, key->sk_subtype, elements[i], &lo, &hi);
		intervals[n++] = interval_of(strategy, lo, hi);
	}
	restrict_column(&filter->columns[c], intervals, unite(intervals, n));
}

static void
add_row_comparison(LsIndexFilter *filter, const ScanKeyData *header)
{
	const ScanKeyData *keys = (const ScanKeyData *) DatumGetPointer(header->sk_argument);
	LsRowComparison *row = &filter->rows[filter->n_rows++];

	row->n = 1;
	while ((keys[row->n - 1].sk_flags & SK_ROW_END) == 0)
		row->n++;
	row->members = palloc0_array(LsRowMember, row->n);
	row->n_adjacent = 0;
	row->matched = 0;
	row->or_equal = header->sk_strategy == BTLessEqualStrategyNumber || header->sk_strategy == BTGreaterEqualStrategyNumber;

	for (int i = 0; i < row->n; i++)
	{
		const ScanKeyData *key = &keys[i];
		LsRowMember *member = &row->members[i];
		StrategyNumber strategy;

		member->column = key->sk_attno - 1;
		if (row->n_adjacent == i && member->column == row->members[0].column + i)
			row->n_adjacent++;
		filter->n_columns = Max(filter->n_columns, member->column + 1);
		strategy = strategy_in_bytes(&filter->shape->keys[member->column], header->sk_strategy);
		member->below = strategy == BTLessStrategyNumber || strategy == BTLessEqualStrategyNumber;
		member->isnull = (key->sk_flags & SK_ISNULL) != 0;
		if (member->isnull)
		{
			/* neither true nor false, once it comes to this: an empty interval */
			member->allowed = (LsInterval) {BYTES(behind_all), BYTES(behind_all), NO_BYTES};
			continue;
		}
		locate(filter, member->column, key->sk_subtype, key->sk_argument, &member->equal_lo, &member->equal_hi);
		/* a member that is equal leaves it to those behind it */
		if (i < row->n - 1 || row->or_equal)
			strategy = member->below ? BTLessEqualStrategyNumber : BTGreaterEqualStrategyNumber;
		member->allowed = interval_of(strategy, member->equal_lo, member->equal_hi);
	}
}

/* False: never true. */
static bool
add_condition(LsIndexFilter *filter, const ScanKeyData *key)
{
	int			c = key->sk_attno - 1;
	const LsKeyColumn *column = &filter->shape->keys[c];
	LsInterval	interval;

	if (key->sk_flags & SK_ROW_HEADER)
	{
		add_row_comparison(filter, key);
		return true;
	}

	filter->n_columns = Max(filter->n_columns, c + 1);
	if (key->sk_flags & SK_SEARCHNULL)
	{
		interval.lo = column->nulls_first ? (ls_bytes) {(const uint8_t *) "\x01", 1} : BYTES(behind_values);
		interval.hi = column->nulls_first ? BYTES(first_value) : BYTES(behind_all);
		interval.last = interval.lo;
	}
	else if (key->sk_flags & SK_SEARCHNOTNULL)
		interval = (LsInterval) {BYTES(first_value), BYTES(behind_values), NO_BYTES};
	else if (key->sk_flags & SK_ISNULL)
		return false;
	else if (key->sk_flags & SK_SEARCHARRAY)
	{
		add_array_condition(filter, key);
		return filter->columns[c].n > 0;
	}
	else
	{
		ls_bytes	lo,
					hi;

		locate(filter, c, key->sk_subtype, key->sk_argument, &lo, &hi);
		interval = interval_of(strategy_in_bytes(column, key->sk_strategy), lo, hi);
	}
	restrict_column(&filter->columns[c], &interval, 1);
	return filter->columns[c].n > 0;
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

/* The column has this slice now. */
static void
enter_slice(LsIndexFilter *filter, int c, ls_bytes slice)
{
	for (int i = 0; i < filter->n_rows; i++)
	{
		LsRowComparison *row = &filter->rows[i];

		if (row_is_open(row, c))
		{
			int			at = c - row->members[0].column;
			const LsRowMember *member = &row->members[at];

			row->matched = at;
			if (!member->isnull &&
				ls_bytes_compare(slice, member->equal_lo) >= 0 && ls_bytes_compare(slice, member->equal_hi) < 0)
				row->matched++;
		}
	}
}

/*
 * What column c may be, given those before it: the nearest interval at or above
 * `bound`, cut there; backward: the nearest one below it.
 */
static bool
nearest(LsIndexFilter *filter, int c, ls_bytes bound, bool backward, LsInterval *result)
{
	LsColumnFilter *column = &filter->columns[c];
	ls_bytes	lo = NO_BYTES,
				hi = BYTES(behind_all),
				last = NO_BYTES;
	const LsInterval *recent;
	int			left = 0,
				right = column->n;

	for (int i = 0; i < filter->n_rows; i++)
	{
		const LsRowComparison *row = &filter->rows[i];

		if (row_is_open(row, c))
		{
			const LsInterval *allowed = &row->members[c - row->members[0].column].allowed;

			lo = greater(lo, allowed->lo);
			if (ls_bytes_compare(allowed->hi, hi) < 0)
			{
				hi = allowed->hi;
				last = allowed->last;
			}
		}
	}
	if (!backward)
		lo = greater(lo, bound);
	else if (ls_bytes_compare(bound, hi) < 0)
	{
		hi = bound;
		last = NO_BYTES;
	}

	/* Forward, the first interval that ends above lo; backward, the last one that begins below hi. */
	recent = &column->intervals[column->recent];
	if (backward ? ls_bytes_compare(recent->lo, hi) < 0 && ls_bytes_compare(hi, recent->hi) <= 0 :
		ls_bytes_compare(recent->lo, lo) <= 0 && ls_bytes_compare(lo, recent->hi) < 0)
		left = right = column->recent + (backward ? 1 : 0);
	while (left < right)
	{
		int			middle = (left + right) / 2;
		const LsInterval *interval = &column->intervals[middle];

		if (backward ? ls_bytes_compare(interval->lo, hi) < 0 : ls_bytes_compare(interval->hi, lo) <= 0)
			left = middle + 1;
		else
			right = middle;
	}
	if (backward)
		left--;
	if (left < 0 || left >= column->n)
		return false;
	column->recent = left;

	*result = column->intervals[left];
	result->lo = greater(result->lo, lo);
	if (ls_bytes_compare(hi, result->hi) < 0)
	{
		result->hi = hi;
		result->last = last;
	}
	return !is_empty(result);
}

static void extend(LsIndexFilter *filter, int c, const LsInterval *interval, bool backward, StringInfo place);

/*
 * `place` is where a scan enters the range of entries that have certain slices in the columns before c: go on to where
 * it meets the first one that may match.  False: there is none.
 */
static bool
enter(LsIndexFilter *filter, int c, bool backward, StringInfo place)
{
	LsInterval	interval;

	if (c >= filter->n_columns || !nearest(filter, c, backward ? BYTES(behind_all) : NO_BYTES, backward, &interval))
		return false;
	extend(filter, c, &interval, backward, place);
	return true;
}

/*
 * Column c continues `place` with the near end of the interval.  Where that is a
 * slice, later columns can narrow it further.
 */
static void
extend(LsIndexFilter *filter, int c, const LsInterval *interval, bool backward, StringInfo place)
{
	if (!backward)
	{
		append_bytes(place, interval->lo);
		if (is_slice(&filter->shape->keys[c], interval->lo))
		{
			enter_slice(filter, c, interval->lo);
			(void) enter(filter, c + 1, backward, place);
		}
		return;
	}

	if (interval->last.data != NULL)
	{
		int			before = place->len;

		append_bytes(place, interval->last);
		enter_slice(filter, c, interval->last);
		if (enter(filter, c + 1, backward, place))
			return;
		place->len = before;
	}
	append_bytes(place, interval->hi);
}

static ls_bytes
slice_in_key(const LsIndexFilter *filter, ls_bytes key, int c)
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
		ls_bytes	bound = slice_in_key(filter, key, c);
		LsInterval	interval;

		if (!backward && c < failed)
		{
			/* every entry with this slice is done with */
			resetStringInfo(&filter->bound);
			append_following(&filter->bound, bound);
			bound = ls_bytes_of(&filter->bound);
		}
		if (nearest(filter, c, bound, backward, &interval))
		{
			resetStringInfo(&filter->skip_to);
			append_bytes(&filter->skip_to, (ls_bytes) {key.data, filter->offsets[c]});
			extend(filter, c, &interval, backward, &filter->skip_to);
			return LS_INDEX_SKIP;
		}
	}
	return LS_INDEX_DONE;
}

/* Row comparisons whose columns are not neighbours have to be calculated. */
static bool
row_is_true(const LsIndexFilter *filter, const LsRowComparison *row, ls_bytes key)
{
	for (int i = 0; i < row->n; i++)
	{
		const LsRowMember *member = &row->members[i];
		ls_bytes	slice = slice_in_key(filter, key, member->column);
		bool		is_below,
					is_above;

		if (member->isnull ||
			ls_bytes_compare(slice, BYTES(first_value)) < 0 || ls_bytes_compare(slice, BYTES(behind_values)) >= 0)
			return false;
		is_below = ls_bytes_compare(slice, member->equal_lo) < 0;
		is_above = ls_bytes_compare(slice, member->equal_hi) >= 0;
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
		Size		len = ls_key_column_length(&filter->shape->keys[c], key.data + offset, key.len - offset);
		ls_bytes	slice;
		LsInterval	interval;

		if (len == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("index \"%s\" contains a damaged key", RelationGetRelationName(filter->index)),
					 errhint("Please REINDEX it.")));
		filter->offsets[c + 1] = offset + len;
		slice = slice_in_key(filter, key, c);
		if (!nearest(filter, c, slice, false, &interval) || ls_bytes_compare(interval.lo, slice) != 0)
			return skip_from(filter, key, c, backward);
		enter_slice(filter, c, slice);
	}

	for (int i = 0; i < filter->n_rows; i++)
		if (filter->rows[i].n_adjacent < filter->rows[i].n && !row_is_true(filter, &filter->rows[i], key))
			return LS_INDEX_NO_MATCH;
	return LS_INDEX_MATCH;
}

/* ----------------------------------------------------------------
 * setting up
 * ----------------------------------------------------------------
 */

void
ls_index_filter_init(LsIndexFilter *filter, Relation index)
{
	int			n_columns;

	filter->index = index;
	filter->shape = ls_index_shape(index);
	filter->context = AllocSetContextCreate(CurrentMemoryContext, "leanstore index conditions", ALLOCSET_SMALL_SIZES);
	n_columns = filter->shape->n_keys;
	filter->columns = palloc0_array(LsColumnFilter, n_columns);
	filter->offsets = palloc0_array(uint32, n_columns + 1);
	initStringInfoExt(&filter->from, KEY_BYTES);
	initStringInfoExt(&filter->to, KEY_BYTES);
	initStringInfoExt(&filter->bound, KEY_BYTES);
	initStringInfoExt(&filter->skip_to, KEY_BYTES);
}

/* Just "=" on leading columns? */
static bool
is_lookup(const LsIndexFilter *filter, const ScanKeyData *keys, int n_keys)
{
	for (int i = 0; i < n_keys; i++)
		if ((keys[i].sk_flags & ~SK_ISNULL) != 0 || keys[i].sk_strategy != BTEqualStrategyNumber ||
			keys[i].sk_attno != i + 1 || !is_same_type(filter->index, i, keys[i].sk_subtype))
			return false;
	return n_keys > 0;
}

/* What the general way would come to, without its memory. */
static bool
build_lookup(LsIndexFilter *filter, const ScanKeyData *keys, int n_keys)
{
	for (int i = 0; i < n_keys; i++)
	{
		if (keys[i].sk_flags & SK_ISNULL)
			return false;
		ls_key_append(&filter->shape->keys[i], keys[i].sk_argument, false, &filter->from);
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

		if (column->n > 1 || (!is_point && (first->lo.len > 0 || first->hi.data != behind_all)))
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

	*everything = (LsInterval) {NO_BYTES, BYTES(behind_all), NO_BYTES};
	for (int c = 0; c < filter->shape->n_keys; c++)
		filter->columns[c] = (LsColumnFilter) {1, everything, 0};
	filter->rows = palloc_array(LsRowComparison, n_keys);
	for (int i = 0; i < n_keys; i++)
		if (!add_condition(filter, &keys[i]))
			return false;

	reset_rows(filter);
	if (!enter(filter, 0, false, &filter->from))
		return false;
	reset_rows(filter);
	if (!enter(filter, 0, true, &filter->to))
		return false;
	filter->exact = range_is_exact(filter);
	return ls_bytes_compare(ls_bytes_of(&filter->from), ls_bytes_of(&filter->to)) < 0;
}

bool
ls_index_filter_build(LsIndexFilter *filter, const ScanKeyData *keys, int n_keys)
{
	MemoryContext old_context;
	bool		possible = true;

	resetStringInfo(&filter->from);
	resetStringInfo(&filter->to);
	filter->n_columns = 0;
	filter->n_rows = 0;
	filter->exact = true;

	MemoryContextReset(filter->context);
	old_context = MemoryContextSwitchTo(filter->context);
	if (is_lookup(filter, keys, n_keys))
		possible = build_lookup(filter, keys, n_keys);
	else if (n_keys > 0)
		possible = build_range(filter, keys, n_keys);
	MemoryContextSwitchTo(old_context);
	return possible;
}
