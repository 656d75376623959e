/*
 * ls_key_range.c - ranges and multiranges.
 *
 * A bound that is not infinite is the value as a column, then whether the bound
 * itself is within: 0x01 for [ and ), 0x02 for ( and ].  An infinite one is 0x01
 * as lower bound and 0x03 as upper bound, where a value would begin with 0x02.
 * A range is its lower and its upper bound; the empty range nothing at all, so
 * that it comes first.  A multirange is the ranges one after the other.
 *
 * The comparison is that of the range type's operator class and collation.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "miscadmin.h"
#include "utils/multirangetypes.h"
#include "utils/rangetypes.h"
#include "utils/typcache.h"

#define LOWER_INFINITE	LS_KEY_NULL_FIRST
#define UPPER_INFINITE	LS_KEY_NULL_LAST

typedef struct RangeState
{
	TypeCacheEntry *range;		/* lives as long as the session */
	LsKeyColumn bound;
} RangeState;

static void
put_bound(const RangeState *state, const RangeBound *bound, StringInfo out)
{
	if (bound->infinite)
	{
		ls_key_put8(out, bound->lower ? LOWER_INFINITE : UPPER_INFINITE);
		return;
	}
	ls_key_append(&state->bound, bound->val, false, out);
	ls_key_put8(out, bound->lower == bound->inclusive ? 1 : 2);
}

static RangeBound
read_bound(const RangeState *state, bool lower, LsKeyReader *reader)
{
	RangeBound	bound = {.lower = lower};
	bool		isnull;
	uint8		side;

	if (reader->left > 0 && *reader->bytes == (lower ? LOWER_INFINITE : UPPER_INFINITE))
	{
		ls_key_read(reader, 1);
		bound.infinite = true;
		return bound;
	}
	bound.val = ls_key_read_column(reader, &state->bound, &isnull);
	side = *ls_key_read(reader, 1);
	if (isnull || side < 1 || side > 2)
		ls_key_damaged();
	bound.inclusive = lower == (side == 1);
	return bound;
}

/* A range that is not empty. */
static RangeType *
read_range(const RangeState *state, LsKeyReader *reader)
{
	RangeBound	lower = read_bound(state, true, reader);
	RangeBound	upper = read_bound(state, false, reader);

	if (range_cmp_bounds(state->range, &lower, &upper) > 0)
		ls_key_damaged();
	return make_range(state->range, &lower, &upper, false, NULL);
}

/*
 * Bounds that no value of the type has, or ranges that touch, would have become others: these are
 * no key.
 */
static void
check_written_so(const LsKeyColumn *column, Datum value, const uint8 *bytes, Size len)
{
	StringInfoData again;

	initStringInfo(&again);
	column->encoding->encode(column, value, &again);
	if ((Size) again.len != len || memcmp(again.data, bytes, len) != 0)
		ls_key_damaged();
	pfree(again.data);
}

static bool
prepare_bounds(LsKeyColumn *column, RangeState *state, TypeCacheEntry *range)
{
	column->state = state;
	if (range->rngelemtype == NULL)
		return false;
	state->range = range;
	check_stack_depth();
	ls_key_form_hand_down(&column->form, &state->bound);
	if (!ls_key_column_init(&state->bound, range->rng_cmp_proc_finfo.fn_oid,
							range->rngelemtype->type_id, range->rng_collation, false, false))
		return false;
	ls_key_form_gather(&column->form, &state->bound);
	return true;
}

/* ---- ranges */

static void
encode_range(const LsKeyColumn *column, Datum value, StringInfo out)
{
	const RangeState *state = column->state;
	RangeType  *range = DatumGetRangeTypeP(value);
	RangeBound	lower;
	RangeBound	upper;
	bool		empty;

	check_stack_depth();
	range_deserialize(state->range, range, &lower, &upper, &empty);
	if (!empty)
	{
		put_bound(state, &lower, out);
		put_bound(state, &upper, out);
	}
	if ((Pointer) range != DatumGetPointer(value))
		pfree(range);
}

static Datum
decode_range(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	const RangeState *state = column->state;
	LsKeyReader reader = {bytes, len};
	Datum		range;

	check_stack_depth();
	if (len == 0)
		return RangeTypePGetDatum(make_empty_range(state->range));
	range = RangeTypePGetDatum(read_range(state, &reader));
	if (reader.left != 0)
		ls_key_damaged();
	check_written_so(column, range, bytes, len);
	return range;
}

static const LsKeyEncoding range_of_lossy = {.encode = encode_range};

static bool
prepare_range(LsKeyColumn *column)
{
	RangeState *state = palloc(sizeof(RangeState));

	if (!prepare_bounds(column, state, lookup_type_cache(column->type, TYPECACHE_RANGE_INFO)))
		return false;
	if (!ls_key_is_reversible(&state->bound))
		column->encoding = &range_of_lossy;
	return true;
}

const LsKeyEncoding ls_key_range = {.prepare = prepare_range,
									.encode = encode_range,
									.decode = decode_range};

/* ---- multiranges */

static void
encode_multirange(const LsKeyColumn *column, Datum value, StringInfo out)
{
	const RangeState *state = column->state;
	MultirangeType *multirange = DatumGetMultirangeTypeP(value);

	check_stack_depth();
	for (uint32 i = 0; i < multirange->rangeCount; i++)
	{
		RangeBound	lower;
		RangeBound	upper;

		CHECK_FOR_INTERRUPTS();
		multirange_get_bounds(state->range, multirange, i, &lower, &upper);
		put_bound(state, &lower, out);
		put_bound(state, &upper, out);
	}
	if ((Pointer) multirange != DatumGetPointer(value))
		pfree(multirange);
}

static Datum
decode_multirange(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	const RangeState *state = column->state;
	LsKeyReader reader = {bytes, len};
	int			room = 16;
	RangeType **ranges = palloc_array(RangeType *, room);
	Datum		multirange;
	int			n = 0;

	check_stack_depth();
	while (reader.left > 0)
	{
		CHECK_FOR_INTERRUPTS();
		if (n == room)
		{
			room *= 2;
			ranges = repalloc_array(ranges, RangeType *, room);
		}
		ranges[n++] = read_range(state, &reader);
	}
	multirange = MultirangeTypePGetDatum(make_multirange(column->type, state->range, n, ranges));
	check_written_so(column, multirange, bytes, len);
	return multirange;
}

static const LsKeyEncoding multirange_of_lossy = {.encode = encode_multirange};

static bool
prepare_multirange(LsKeyColumn *column)
{
	RangeState *state = palloc(sizeof(RangeState));
	TypeCacheEntry *multirange = lookup_type_cache(column->type, TYPECACHE_MULTIRANGE_INFO);

	if (multirange->rngtype == NULL || !prepare_bounds(column, state, multirange->rngtype))
		return false;
	if (!ls_key_is_reversible(&state->bound))
		column->encoding = &multirange_of_lossy;
	return true;
}

const LsKeyEncoding ls_key_multirange = {
	.prepare = prepare_multirange, .encode = encode_multirange, .decode = decode_multirange
};
