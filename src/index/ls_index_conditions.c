/*
 * ls_index_conditions.c - what the conditions of a scan allow in a column, as intervals of its
 * segments.
 *
 * Where a column's keys are encoded values, a value of a condition is encoded as well.  Where
 * they are labels, its place is searched for among the entries that have the same keys in
 * the columns before: such intervals are made when the scan comes to these entries, and
 * again when it comes to others.
 *
 * For a transaction that locks what it reads the search says between which entries a
 * value is that do not go away (ls_order_label.h).  An interval then holds all that may
 * match, now and later, and the executor looks at the values again.
 */
#include "postgres.h"

#include "ls_index_scan.h"

#include "access/nbtree.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

const uint8 ls_first_value[] = {0x02};
const uint8 ls_behind_values[] = {0x03};
const uint8 ls_behind_all[] = {0x04};

/* The segments equal to a value: lo <= segment < hi; others are below lo or at or above hi. */
typedef struct Location
{
	ls_bytes	lo;
	ls_bytes	hi;
	bool		blurred;		/* the segments that may be equal, among others */
} Location;

static ls_bytes
copy_bytes(ls_bytes bytes)
{
	uint8	   *copy = palloc(bytes.len);

	memcpy(copy, bytes.data, bytes.len);
	return (ls_bytes) {copy, bytes.len};
}

static ls_bytes
segment_of(const LsKeyColumn *column, Datum value)
{
	StringInfoData string;

	initStringInfo(&string);
	ls_key_append(column, value, false, &string);
	return ls_bytes_of(&string);
}

static ls_bytes
following(ls_bytes segment)
{
	StringInfoData string;

	initStringInfo(&string);
	appendBinaryStringInfo(&string, segment.data, segment.len);
	ls_index_make_following(&string);
	return ls_bytes_of(&string);
}

/* ----------------------------------------------------------------
 * from values to places
 * ----------------------------------------------------------------
 */

/* The procedure that compares a column with labels with values of a type. */
static FmgrInfo *
comparison(const LsIndexFilter *filter, int c, Oid type)
{
	Relation	index = filter->index;
	FmgrInfo   *result;
	Oid			procedure;

	if (ls_index_is_same_type(index, c, type))
		return filter->shape->keys[c].compare;
	procedure = get_opfamily_proc(index->rd_opfamily[c], index->rd_opcintype[c], type, 1);
	if (!OidIsValid(procedure))
		ereport(
			ERROR,
			(errcode(ERRCODE_UNDEFINED_FUNCTION),
			 errmsg(
				 "operator family \"%s\" of index \"%s\" has no comparison function for "
				 "types %s and %s",
				 get_opfamily_name(index->rd_opfamily[c], false), RelationGetRelationName(index),
				 format_type_be(index->rd_opcintype[c]), format_type_be(type)),
			 errhint("Add it with ALTER OPERATOR FAMILY ... ADD FUNCTION 1.")));
	result = palloc_object(FmgrInfo);
	fmgr_info(procedure, result);
	return result;
}

static Location
locate_label(LsIndexFilter *filter, int c, ls_bytes prefix, Oid type, Datum value)
{
	LsOrderLabelPlace *place = &filter->place;
	Location	result = {LS_BYTES(ls_first_value), LS_BYTES(ls_first_value)};

	if (filter->pinned)
		ls_order_label_find_pinned(&filter->labels, c, prefix, comparison(filter, c, type), value,
								   place);
	else
		ls_order_label_find(&filter->labels, c, prefix, comparison(filter, c, type), value, place);

	if (place->found)
		result.lo = copy_bytes(ls_order_label_segment(&place->left));
	else if (ls_order_label_is_entry(&place->left))
		result.lo = following(ls_order_label_segment(&place->left));

	if (place->found)
		result.hi = following(result.lo);
	else if (!filter->pinned)
		result.hi = result.lo;
	else
	{
		result.blurred = true;
		result.hi = ls_order_label_is_entry(&place->right)
						? copy_bytes(ls_order_label_segment(&place->right))
						: LS_BYTES(ls_behind_values);
	}
	return result;
}

/*
 * A value that may be of another type.  prefix: the keys of the columns before, if this one has
 * labels.
 */
static Location
locate(LsIndexFilter *filter, int c, ls_bytes prefix, Oid type, Datum value)
{
	const LsKeyColumn *column = &filter->shape->keys[c];
	LsKeyFit	fit = LS_KEY_EXACT;
	Datum		converted = value;
	Location	result = {0};

	if (ls_key_has_labels(column))
		return locate_label(filter, c, prefix, type, value);
	if (!ls_index_is_same_type(filter->index, c, type))
		fit = ls_key_convert(column, type, value, &converted);

	switch (fit)
	{
		case LS_KEY_EXACT:
			result.lo = segment_of(column, converted);
			result.hi = following(result.lo);
			break;
		case LS_KEY_BETWEEN:
			result.lo = segment_of(column, converted);
			if (!column->descending)
				result.lo = following(result.lo);
			result.hi = result.lo;
			break;
		case LS_KEY_BELOW_ALL:
			result.lo = result.hi = column->descending ? LS_BYTES(ls_behind_values)
													   : LS_BYTES(ls_first_value);
			break;
	}
	return result;
}

static StrategyNumber
strategy_in_bytes(const LsKeyColumn *column, StrategyNumber strategy)
{
	return column->descending ? BTCommuteStrategyNumber(strategy) : strategy;
}

/* May be empty. */
static LsInterval
interval_of(StrategyNumber strategy, const Location *at)
{
	ls_bytes	equal = !at->blurred && ls_bytes_compare(at->lo, at->hi) < 0 ? at->lo : LS_NO_BYTES;

	switch (strategy)
	{
		case BTLessStrategyNumber:
			if (!at->blurred)
				return (LsInterval) {LS_BYTES(ls_first_value), at->lo, LS_NO_BYTES};
			/* FALLTHROUGH */
		case BTLessEqualStrategyNumber:
			return (LsInterval) {LS_BYTES(ls_first_value), at->hi, equal};
		case BTEqualStrategyNumber:
			return (LsInterval) {at->lo, at->hi, equal};
		case BTGreaterStrategyNumber:
			if (!at->blurred)
				return (LsInterval) {at->hi, LS_BYTES(ls_behind_values), LS_NO_BYTES};
			/* FALLTHROUGH */
		case BTGreaterEqualStrategyNumber:
			return (LsInterval) {at->lo, LS_BYTES(ls_behind_values), LS_NO_BYTES};
	}
	elog(ERROR, "unrecognized strategy number: %d", strategy);
}

/* ----------------------------------------------------------------
 * sets of intervals
 * ----------------------------------------------------------------
 */

static bool
is_empty(const LsInterval *interval)
{
	return ls_bytes_compare(interval->lo, interval->hi) >= 0;
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
		LsInterval	piece = {ls_bytes_greater(a->lo, b->lo), a->hi, a->last};

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

/* ----------------------------------------------------------------
 * conditions
 * ----------------------------------------------------------------
 */

static void
apply_array(LsIndexFilter *filter, const ScanKeyData *key, ls_bytes prefix)
{
	int			c = key->sk_attno - 1;
	StrategyNumber strategy = strategy_in_bytes(&filter->shape->keys[c], key->sk_strategy);
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
	deconstruct_array(array, ARR_ELEMTYPE(array), typlen, typbyval, typalign, &elements, &isnull,
					  &n_elements);
	intervals = palloc_array(LsInterval, n_elements);
	for (int i = 0; i < n_elements; i++)
	{
		Location	at;

		if (isnull[i])
			continue;
		at = locate(filter, c, prefix, key->sk_subtype, elements[i]);
		intervals[n++] = interval_of(strategy, &at);
	}
	restrict_column(&filter->columns[c], intervals, unite(intervals, n));
}

/* A condition on one column that compares it with something. */
static void
apply_comparison(LsIndexFilter *filter, const ScanKeyData *key, ls_bytes prefix)
{
	int			c = key->sk_attno - 1;

	if (key->sk_flags & SK_SEARCHARRAY)
		apply_array(filter, key, prefix);
	else
	{
		Location	at = locate(filter, c, prefix, key->sk_subtype, key->sk_argument);
		LsInterval	interval =
			interval_of(strategy_in_bytes(&filter->shape->keys[c], key->sk_strategy), &at);

		restrict_column(&filter->columns[c], &interval, 1);
	}
}

static void
apply_row_member(LsIndexFilter *filter, const LsRowComparison *row, LsRowMember *member,
				 ls_bytes prefix)
{
	StrategyNumber strategy = strategy_in_bytes(&filter->shape->keys[member->column],
												row->strategy);
	Location	at = locate(filter, member->column, prefix, member->key->sk_subtype,
						 member->key->sk_argument);

	member->equal_lo = at.lo;
	member->equal_hi = at.hi;
	/* a member that is equal leaves it to those behind it */
	if (member != &row->members[row->n - 1] || row->or_equal)
		strategy = member->below ? BTLessEqualStrategyNumber : BTGreaterEqualStrategyNumber;
	member->allowed = interval_of(strategy, &at);
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
	row->strategy = header->sk_strategy;
	row->or_equal = header->sk_strategy == BTLessEqualStrategyNumber ||
					header->sk_strategy == BTGreaterEqualStrategyNumber;

	for (int i = 0; i < row->n; i++)
	{
		LsRowMember *member = &row->members[i];
		const LsKeyColumn *column;
		StrategyNumber strategy;

		member->key = &keys[i];
		member->column = keys[i].sk_attno - 1;
		column = &filter->shape->keys[member->column];
		if (row->n_adjacent == i && member->column == row->members[0].column + i)
			row->n_adjacent++;
		filter->n_columns = Max(filter->n_columns, member->column + 1);
		strategy = strategy_in_bytes(column, header->sk_strategy);
		member->below = strategy == BTLessStrategyNumber || strategy == BTLessEqualStrategyNumber;
		member->isnull = (keys[i].sk_flags & SK_ISNULL) != 0;
		if (member->isnull)
		{
			/* neither true nor false, once it comes to this: an empty interval */
			member->allowed = (LsInterval){LS_BYTES(ls_behind_all), LS_BYTES(ls_behind_all),
										   LS_NO_BYTES};
			continue;
		}
		if (ls_key_has_labels(column))
		{
			filter->columns[member->column].is_searched = true;
			if (filter->pinned)
			{
				/*
				 * which segments are equal is not known: what may match by the columns so far does
				 */
				row->n = i + 1;
				row->or_equal = true;
			}
		}
	}
	for (int i = 0; i < row->n; i++)
		if (!row->members[i].isnull &&
			!ls_key_has_labels(&filter->shape->keys[row->members[i].column]))
			apply_row_member(filter, row, &row->members[i], LS_NO_BYTES);
}

bool
ls_index_filter_add(LsIndexFilter *filter, const ScanKeyData *key)
{
	int			c = key->sk_attno - 1;
	LsColumnFilter *column;
	bool		nulls_first;
	LsInterval	interval;

	if (key->sk_flags & SK_ROW_HEADER)
	{
		add_row_comparison(filter, key);
		return true;
	}

	column = &filter->columns[c];
	nulls_first = filter->shape->keys[c].nulls_first;
	filter->n_columns = Max(filter->n_columns, c + 1);
	if (key->sk_flags & SK_SEARCHNULL)
	{
		interval.lo = nulls_first ? (ls_bytes){(const uint8_t *) "\x01", 1}
								  : LS_BYTES(ls_behind_values);
		interval.hi = nulls_first ? LS_BYTES(ls_first_value) : LS_BYTES(ls_behind_all);
		interval.last = interval.lo;
		restrict_column(column, &interval, 1);
	}
	else if (key->sk_flags & SK_SEARCHNOTNULL)
	{
		interval = (LsInterval) {LS_BYTES(ls_first_value), LS_BYTES(ls_behind_values), LS_NO_BYTES};
		restrict_column(column, &interval, 1);
	}
	else if (key->sk_flags & SK_ISNULL)
		return false;
	else if (ls_key_has_labels(&filter->shape->keys[c]))
	{
		column->is_searched = true;
		column->searched = lappend(column->searched, unconstify(ScanKeyData *, key));
	}
	else
		apply_comparison(filter, key, LS_NO_BYTES);
	return column->n > 0;
}

void
ls_index_filter_search(LsIndexFilter *filter, int c, ls_bytes prefix)
{
	LsColumnFilter *column = &filter->columns[c];
	MemoryContext old_context;

	if (column->context == NULL)
	{
		/* what holds under every prefix is kept beside */
		column->context = AllocSetContextCreate(filter->context, "leanstore index column",
												ALLOCSET_SMALL_SIZES);
		column->always = column->intervals;
		column->n_always = column->n;
	}
	else if (column->has_prefix && ls_bytes_compare(ls_bytes_of(&column->prefix), prefix) == 0)
		return;

	column->has_prefix = false;
	MemoryContextReset(column->context);
	old_context = MemoryContextSwitchTo(column->context);
	initStringInfo(&column->prefix);
	if (prefix.len > 0)
		appendBinaryStringInfo(&column->prefix, prefix.data, prefix.len);
	column->intervals = column->always;
	column->n = column->n_always;
	column->recent = 0;
	prefix = ls_bytes_of(&column->prefix);
	foreach_ptr(ScanKeyData, key, column->searched)
		apply_comparison(filter, key, prefix);
	for (int i = 0; i < filter->n_rows; i++)
		for (int m = 0; m < filter->rows[i].n; m++)
		{
			LsRowMember *member = &filter->rows[i].members[m];

			if (member->column == c && !member->isnull)
				apply_row_member(filter, &filter->rows[i], member, prefix);
		}
	MemoryContextSwitchTo(old_context);
	column->has_prefix = true;
}
