/*
 * ls_key_float.c - float4 and float8: the bits of the IEEE format, all of them inverted for
 * negative numbers and only the sign for others.  -0 equals 0, NaN equals NaN
 * and is the greatest; so there is no way back.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "catalog/pg_type.h"

#include <math.h>

static void
encode_float4(const LsKeyColumn *column, Datum value, StringInfo out)
{
	float4		number = DatumGetFloat4(value);
	uint32		bits;

	if (isnan(number))
		bits = PG_UINT32_MAX;
	else
	{
		number += 0.0f;			/* -0 becomes 0 */
		memcpy(&bits, &number, sizeof(bits));
		bits ^= (bits & LS_KEY_SIGN32) ? PG_UINT32_MAX : LS_KEY_SIGN32;
	}
	ls_key_put32(out, bits);
}

static void
encode_float8(const LsKeyColumn *column, Datum value, StringInfo out)
{
	float8		number = DatumGetFloat8(value);
	uint64		bits;

	if (isnan(number))
		bits = PG_UINT64_MAX;
	else
	{
		number += 0.0;			/* -0 becomes 0 */
		memcpy(&bits, &number, sizeof(bits));
		bits ^= (bits & LS_KEY_SIGN64) ? PG_UINT64_MAX : LS_KEY_SIGN64;
	}
	ls_key_put64(out, bits);
}

static LsKeyFit
convert_float4(const LsKeyColumn *column, Oid type, Datum value, Datum *converted)
{
	float8		wanted;
	float4		number;

	*converted = value;
	if (type != FLOAT8OID)
		return LS_KEY_EXACT;

	wanted = DatumGetFloat8(value);
	number = (float4) wanted;
	if ((float8) number > wanted)
		number = nextafterf(number, -INFINITY);
	*converted = Float4GetDatum(number);
	return (float8) number < wanted ? LS_KEY_BETWEEN : LS_KEY_EXACT;
}

static LsKeyFit
convert_float8(const LsKeyColumn *column, Oid type, Datum value, Datum *converted)
{
	*converted = type == FLOAT4OID ? Float8GetDatum((float8) DatumGetFloat4(value)) : value;
	return LS_KEY_EXACT;
}

const LsKeyEncoding ls_key_float4 = {.width = sizeof(float4),
									 .encode = encode_float4,
									 .convert = convert_float4};
const LsKeyEncoding ls_key_float8 = {.width = sizeof(float8),
									 .encode = encode_float8,
									 .convert = convert_float8};
