/*
 * ls_key_order_label.c - labels: the keys of columns with an order that no encoding expresses.
 *
 * A label is given to a value when it is first inserted, somewhere between those of its
 * neighbours (index/ls_order_label.c), and says nothing else of it.
 *
 * It is a path of integers, ordered as such paths are: (1) < (1, -5) < (1, 7) < (2).  So there
 * is always one between two others, and the choice follows from these two alone:
 * half way, where integers are left between them; otherwise one level deeper.  Where
 * only one side has a neighbour on the level, the new label is a step away from that
 * one.  Insertion in ascending or descending order, at the ends or into any gap, thus
 * takes steps and not halves after a while, and labels grow with the logarithm of
 * the number of values.  Each new value between the last two, again and again,
 * costs a bit each time: the worst case.
 *
 * The bytes are those of the integers (ls_key_put_int), framed.  For a DESC column
 * they are complemented like all others, so labels go down where keys go up.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "common/int.h"

/*
 * Room for eight values between neighbours; no multiple of 256, because a zero byte takes two in a
 * frame.
 */
#define STEP 255

typedef struct Label
{
	int			n;
	int64	   *path;
} Label;

/* "Values" of the encoding are labels. */
static void
encode_label(const LsKeyColumn *column, Datum value, StringInfo out)
{
	const Label *label = (const Label *) DatumGetPointer(value);

	for (int i = 0; i < label->n; i++)
		ls_key_put_int(out, label->path[i]);
}

static Datum
decode_label(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	LsKeyReader reader = {bytes, len};
	Label	   *label = palloc_object(Label);

	if (len == 0)
		ls_key_damaged();
	label->n = 0;
	label->path = palloc_array(int64, len);
	while (reader.left > 0)
		label->path[label->n++] = ls_key_read_int(&reader);
	return PointerGetDatum(label);
}

static const LsKeyEncoding label_encoding = {.encode = encode_label, .decode = decode_label};

/*
 * A step from a label's integer; at the end of the integers (damage may lead there) there is no
 * room.
 */
static int64
step_from(int64 from, int64 step)
{
	int64		result;

	if (pg_add_s64_overflow(from, step, &result))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("there is no label left for a new value of an index column"),
				 errhint("REINDEX the index: it gives new labels to its values.")));
	return result;
}

/* lower < result < upper; NULL: there is none on that side. */
static Label
label_between(const Label *lower, const Label *upper)
{
	const Label *base = lower != NULL ? lower : upper;
	int			shared = 0;
	int			deepest = base != NULL ? base->n : 0;
	Label		result = {.path = palloc_array(int64, deepest + 1)};
	int64	   *last;

	if (lower != NULL && upper != NULL)
		while (shared < lower->n && shared < upper->n && lower->path[shared] == upper->path[shared])
			shared++;
	if (shared > 0)
		memcpy(result.path, lower->path, shared * sizeof(int64));
	result.n = shared + 1;
	last = &result.path[shared];

	if (base == NULL)
		*last = 0;
	else if (upper == NULL)
		*last = step_from(lower->path[0], STEP);
	else if (lower == NULL || shared == lower->n)
	{
		/* everything below `lower` on this level is free */
		if (shared == upper->n)
			ls_key_damaged();
		*last = step_from(upper->path[shared], -STEP);
	}
	else
	{
		int64		low = lower->path[shared];
		uint64		distance;

		if (shared == upper->n || low > upper->path[shared])
			ls_key_damaged();
		distance = (uint64) upper->path[shared] - (uint64) low;
		*last = low;
		if (distance > 1)
			*last = (int64) ((uint64) low + distance / 2);
		else if (upper->n > shared + 1)
			*last = upper->path[shared];	/* it has no label yet: `upper` goes on behind it */
		else
		{
			/* below `low`: behind what is there */
			result.path[result.n++] = lower->n > shared + 1
										  ? step_from(lower->path[shared + 1], STEP)
										  : 0;
		}
	}
	return result;
}

void
ls_key_label_init(LsKeyColumn *column, Oid cmp, Oid type, Oid collation, bool descending,
				  bool nulls_first)
{
	*column = (LsKeyColumn)
	{
		.encoding = &label_encoding,
			.type = type,
			.collation = collation,
			.descending = descending,
			.nulls_first = nulls_first,
			.compare = palloc_object(FmgrInfo)
	};
	fmgr_info_cxt(cmp, column->compare, CurrentMemoryContext);
}

void
ls_key_rest_init(LsKeyColumn *column)
{
	*column = (LsKeyColumn) {.encoding = &label_encoding};
}

static const Label *
read_label(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	bool		isnull;
	const Label *label;

	if (len == 0)
		return NULL;
	label = (const Label *) DatumGetPointer(ls_key_decode(column, bytes, len, &isnull));
	if (isnull)
		ls_key_damaged();
	return label;
}

void
ls_key_append_label(const LsKeyColumn *column, const uint8 *left, Size left_len, const uint8 *right,
					Size right_len, StringInfo out)
{
	const Label *lower = read_label(column, left, left_len);
	const Label *upper = read_label(column, right, right_len);
	Label label = column->descending ? label_between(upper, lower) : label_between(lower, upper);

	ls_key_append(column, PointerGetDatum(&label), false, out);
}

int
ls_key_compare(const LsKeyColumn *column, FmgrInfo *compare, Datum a, Datum b)
{
	int32		order = DatumGetInt32(FunctionCall2Coll(compare, column->collation, a, b));

	return column->descending ? (order < 0) - (order > 0) : (order > 0) - (order < 0);
}
