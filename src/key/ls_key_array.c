/*
 * ls_key_array.c - arrays: the elements, each as a column, then 0x01, then the number of
 * dimensions, their sizes and lower bounds.  So elements decide first, then how
 * many there are, then the shape.
 *
 * The size of the only dimension of most arrays is the number of elements, and
 * not written.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "miscadmin.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

#define END_OF_ELEMENTS 0x01

typedef struct ArrayState
{
	LsKeyColumn element;
	Oid			type;
	int16		typlen;
	bool		typbyval;
	char		typalign;
} ArrayState;

static void
encode_array(const LsKeyColumn *column, Datum value, StringInfo out)
{
	const ArrayState *state = column->state;
	ArrayType  *array = DatumGetArrayTypeP(value);
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	check_stack_depth();
	deconstruct_array(array, state->type, state->typlen, state->typbyval, state->typalign,
					  &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		ls_key_append(&state->element, elements[i], nulls[i], out);
	}
	ls_key_put8(out, END_OF_ELEMENTS);
	ls_key_put_int(out, ARR_NDIM(array));
	if (ARR_NDIM(array) > 1)
		for (int i = 0; i < ARR_NDIM(array); i++)
			ls_key_put_int(out, ARR_DIMS(array)[i]);
	for (int i = 0; i < ARR_NDIM(array); i++)
		ls_key_put_int(out, ARR_LBOUND(array)[i]);

	pfree(elements);
	pfree(nulls);
	if ((Pointer) array != DatumGetPointer(value))
		pfree(array);
}

/* An integer that has to be between min and max. */
static int
read_int(LsKeyReader *reader, int64 min, int64 max)
{
	int64		v = ls_key_read_int(reader);

	if (v < min || v > max)
		ls_key_damaged();
	return (int) v;
}

static Datum
decode_array(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	const ArrayState *state = column->state;
	LsKeyReader reader = {bytes, len};
	int			room = 16;
	Datum	   *elements = palloc_array(Datum, room);
	bool	   *nulls = palloc_array(bool, room);
	int			n = 0;
	int			ndim;
	int			dims[MAXDIM];
	int			lower[MAXDIM];
	int64		product = 1;

	check_stack_depth();
	while (reader.left > 0 && *reader.bytes != END_OF_ELEMENTS)
	{
		CHECK_FOR_INTERRUPTS();
		if (n == room)
		{
			room *= 2;
			elements = repalloc_array(elements, Datum, room);
			nulls = repalloc_array(nulls, bool, room);
		}
		elements[n] = ls_key_read_column(&reader, &state->element, &nulls[n]);
		n++;
	}
	ls_key_read(&reader, 1);

	ndim = read_int(&reader, 0, MAXDIM);
	for (int i = 0; i < ndim; i++)
	{
		dims[i] = ndim == 1 ? n : read_int(&reader, 0, PG_INT32_MAX);
		product *= dims[i];
		if (product > n)
			ls_key_damaged();
	}
	for (int i = 0; i < ndim; i++)
		lower[i] = read_int(&reader, PG_INT32_MIN, (int64) PG_INT32_MAX - dims[i]);
	if (reader.left != 0 || (ndim == 0 ? n != 0 : product != n))
		ls_key_damaged();

	/*
	 * Of no elements, construct_md_array() makes an array without dimensions; an int2vector keeps
	 * its one.
	 */
	if (n == 0 && ndim > 0)
	{
		Size		size = ARR_OVERHEAD_NONULLS(ndim);
		ArrayType  *array = palloc0(size);

		SET_VARSIZE(array, size);
		array->ndim = ndim;
		array->elemtype = state->type;
		memcpy(ARR_DIMS(array), dims, ndim * sizeof(int));
		memcpy(ARR_LBOUND(array), lower, ndim * sizeof(int));
		return PointerGetDatum(array);
	}
	return PointerGetDatum(construct_md_array(elements, nulls, ndim, dims, lower, state->type,
											  state->typlen, state->typbyval, state->typalign));
}

static const LsKeyEncoding array_of_lossy = {.encode = encode_array};

static bool
prepare_array(LsKeyColumn *column)
{
	ArrayState *state = palloc(sizeof(ArrayState));

	column->state = state;
	state->type = get_element_type(column->type);
	if (!OidIsValid(state->type) ||
		!ls_key_element_init(&state->element, &column->form, state->type, column->collation))
		return false;
	get_typlenbyvalalign(state->type, &state->typlen, &state->typbyval, &state->typalign);
	if (!ls_key_is_reversible(&state->element))
		column->encoding = &array_of_lossy;
	return true;
}

const LsKeyEncoding ls_key_array = {.prepare = prepare_array,
									.encode = encode_array,
									.decode = decode_array};
