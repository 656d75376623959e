/*
 * ls_key_integer.c - integers and what is stored as one: big-endian, with the sign bit
 * flipped where there is a sign.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "catalog/pg_type.h"
#include "storage/itemptr.h"

/* ---- int2, int4, int8, money */

/* The integer in `value`, whichever of the family's types it has. */
static bool
any_integer(Oid type, Datum value, int64 *result)
{
	switch (type)
	{
		case INT2OID:
			*result = DatumGetInt16(value);
			return true;
		case INT4OID:
			*result = DatumGetInt32(value);
			return true;
		case INT8OID:
			*result = DatumGetInt64(value);
			return true;
		default:
			return false;
	}
}

/* Where `value` lies among the integers from min to max. */
static LsKeyFit
fit_integer(int64 value, int64 min, int64 max, int64 *fitted)
{
	*fitted = Min(value, max);
	if (value < min)
		return LS_KEY_BELOW_ALL;
	return value > max ? LS_KEY_BETWEEN : LS_KEY_EXACT;
}

static void
encode_int2(const LsKeyColumn *column, Datum value, StringInfo out)
{
	ls_key_put16(out, (uint16) DatumGetInt16(value) ^ LS_KEY_SIGN16);
}

static Datum
decode_int2(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	return Int16GetDatum((int16) (ls_key_get16(bytes) ^ LS_KEY_SIGN16));
}

static LsKeyFit
convert_int2(const LsKeyColumn *column, Oid type, Datum value, Datum *converted)
{
	int64		integer;
	LsKeyFit	fit;

	*converted = value;
	if (!any_integer(type, value, &integer))
		return LS_KEY_EXACT;
	fit = fit_integer(integer, PG_INT16_MIN, PG_INT16_MAX, &integer);
	*converted = Int16GetDatum((int16) integer);
	return fit;
}

static void
encode_int4(const LsKeyColumn *column, Datum value, StringInfo out)
{
	ls_key_put32(out, (uint32) DatumGetInt32(value) ^ LS_KEY_SIGN32);
}

static Datum
decode_int4(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	return Int32GetDatum((int32) (ls_key_get32(bytes) ^ LS_KEY_SIGN32));
}

static LsKeyFit
convert_int4(const LsKeyColumn *column, Oid type, Datum value, Datum *converted)
{
	int64		integer;
	LsKeyFit	fit;

	*converted = value;
	if (!any_integer(type, value, &integer))
		return LS_KEY_EXACT;
	fit = fit_integer(integer, PG_INT32_MIN, PG_INT32_MAX, &integer);
	*converted = Int32GetDatum((int32) integer);
	return fit;
}

static void
encode_int8(const LsKeyColumn *column, Datum value, StringInfo out)
{
	ls_key_put64(out, (uint64) DatumGetInt64(value) ^ LS_KEY_SIGN64);
}

static Datum
decode_int8(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	return Int64GetDatum((int64) (ls_key_get64(bytes) ^ LS_KEY_SIGN64));
}

static LsKeyFit
convert_int8(const LsKeyColumn *column, Oid type, Datum value, Datum *converted)
{
	int64		integer;

	*converted = any_integer(type, value, &integer) ? Int64GetDatum(integer) : value;
	return LS_KEY_EXACT;
}

const LsKeyEncoding ls_key_int2 = {
	.width = sizeof(int16), .encode = encode_int2, .decode = decode_int2, .convert = convert_int2
};
const LsKeyEncoding ls_key_int4 = {
	.width = sizeof(int32), .encode = encode_int4, .decode = decode_int4, .convert = convert_int4
};
const LsKeyEncoding ls_key_int8 = {
	.width = sizeof(int64), .encode = encode_int8, .decode = decode_int8, .convert = convert_int8
};

/* ---- without a sign: oid; xid8, pg_lsn; bool, "char" */

static void
encode_oid(const LsKeyColumn *column, Datum value, StringInfo out)
{
	ls_key_put32(out, DatumGetObjectId(value));
}

static Datum
decode_oid(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	return ObjectIdGetDatum(ls_key_get32(bytes));
}

static void
encode_uint8(const LsKeyColumn *column, Datum value, StringInfo out)
{
	ls_key_put64(out, DatumGetUInt64(value));
}

static Datum
decode_uint8(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	return UInt64GetDatum(ls_key_get64(bytes));
}

static void
encode_bool(const LsKeyColumn *column, Datum value, StringInfo out)
{
	ls_key_put8(out, DatumGetBool(value));
}

static Datum
decode_bool(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	if (bytes[0] > 1)
		ls_key_damaged();
	return BoolGetDatum(bytes[0]);
}

/* btcharcmp compares as unsigned. */
static void
encode_char(const LsKeyColumn *column, Datum value, StringInfo out)
{
	ls_key_put8(out, (uint8) DatumGetChar(value));
}

static Datum
decode_char(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	return CharGetDatum((char) bytes[0]);
}

const LsKeyEncoding ls_key_oid = {.width = sizeof(Oid), .encode = encode_oid, .decode = decode_oid};
const LsKeyEncoding ls_key_uint8 = {.width = sizeof(uint64),
									.encode = encode_uint8,
									.decode = decode_uint8};
const LsKeyEncoding ls_key_bool = {.width = 1, .encode = encode_bool, .decode = decode_bool};
const LsKeyEncoding ls_key_char = {.width = 1, .encode = encode_char, .decode = decode_char};

/* ---- tid */

static void
encode_tid(const LsKeyColumn *column, Datum value, StringInfo out)
{
	ItemPointer tid = DatumGetItemPointer(value);

	ls_key_put32(out, ItemPointerGetBlockNumberNoCheck(tid));
	ls_key_put16(out, ItemPointerGetOffsetNumberNoCheck(tid));
}

static Datum
decode_tid(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	ItemPointer tid = palloc(sizeof(ItemPointerData));

	ItemPointerSet(tid, ls_key_get32(bytes), ls_key_get16(bytes + 4));
	return ItemPointerGetDatum(tid);
}

const LsKeyEncoding ls_key_tid = {.width = 6, .encode = encode_tid, .decode = decode_tid};
