/*
 * ls_key.c - columns of normalized keys: which encoding, marker, frame, complement.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "access/transam.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

/* Fixed-width encodings are decoded in a buffer of this size. */
#define MAX_WIDTH 16

/* The encoding of what a comparison procedure compares; NULL: none. */
static const LsKeyEncoding *
encoding_of(Oid cmp)
{
	switch (cmp)
	{
		case F_BTINT2CMP:
			return &ls_key_int2;
		case F_BTINT4CMP:
			return &ls_key_int4;
		case F_BTINT8CMP:
		case F_CASH_CMP:
			return &ls_key_int8;
		case F_BTOIDCMP:
			return &ls_key_oid;
		case F_XID8CMP:
		case F_PG_LSN_CMP:
			return &ls_key_uint8;
		case F_BTBOOLCMP:
			return &ls_key_bool;
		case F_BTCHARCMP:
			return &ls_key_char;
		case F_BTTIDCMP:
			return &ls_key_tid;
		case F_BTFLOAT4CMP:
			return &ls_key_float4;
		case F_BTFLOAT8CMP:
			return &ls_key_float8;
		case F_NUMERIC_CMP:
			return &ls_key_numeric;
		case F_BTTEXTCMP:
			return &ls_key_text;
		case F_BTTEXT_PATTERN_CMP:
			return &ls_key_text_pattern;
		case F_BPCHARCMP:
			return &ls_key_bpchar;
		case F_BTBPCHAR_PATTERN_CMP:
			return &ls_key_bpchar_pattern;
		case F_BTNAMECMP:
			return &ls_key_name;
		case F_DATE_CMP:
			return &ls_key_date;
		case F_TIME_CMP:
			return &ls_key_time;
		case F_TIMESTAMP_CMP:
			return &ls_key_timestamp;
		case F_TIMESTAMPTZ_CMP:
			return &ls_key_timestamptz;
		case F_TIMETZ_CMP:
			return &ls_key_timetz;
		case F_INTERVAL_CMP:
			return &ls_key_interval;
		case F_UUID_CMP:
			return &ls_key_uuid;
		case F_MACADDR_CMP:
			return &ls_key_macaddr;
		case F_MACADDR8_CMP:
			return &ls_key_macaddr8;
		case F_BYTEACMP:
			return &ls_key_bytea;
		case F_BITCMP:
		case F_VARBITCMP:
			return &ls_key_bits;
		case F_BTOIDVECTORCMP:
			return &ls_key_oidvector;
		case F_NETWORK_CMP:
			return &ls_key_inet;
		case F_ENUM_CMP:
			return &ls_key_enum;
		case F_BTARRAYCMP:
			return &ls_key_array;
		case F_RANGE_CMP:
			return &ls_key_range;
		case F_MULTIRANGE_CMP:
			return &ls_key_multirange;
		case F_BTRECORDCMP:
			return &ls_key_record;
		case F_BTRECORDIMAGECMP:
			return &ls_key_record_image;
		case F_JSONB_CMP:
			return &ls_key_jsonb;
		case F_TSVECTOR_CMP:
			return &ls_key_tsvector;
		case F_TSQUERY_CMP:
			return &ls_key_tsquery;
		default:
			return NULL;
	}
}

Oid
ls_key_type(Oid opcintype, Oid column_type)
{
	/* Any row type is coercible to record, which is no polymorphic type. */
	return IsPolymorphicType(opcintype) || opcintype == RECORDOID ? column_type : opcintype;
}

bool
ls_key_column_init(LsKeyColumn *column, Oid cmp, Oid type, Oid collation, bool descending, bool nulls_first)
{
	Oid		   *argtypes;
	int			nargs;
	bool		compared;

	column->encoding = encoding_of(cmp);
	column->type = getBaseType(type);
	column->collation = collation;
	column->descending = descending;
	column->nulls_first = nulls_first;
	column->state = NULL;
	column->compare = NULL;
	if (column->encoding == NULL)
		return false;

	/* An operator class may be declared for other types than its procedure's. */
	get_func_signature(cmp, &argtypes, &nargs);
	compared = nargs == 2 && IsBinaryCoercible(column->type, argtypes[0]);
	pfree(argtypes);
	if (!compared)
		return false;

	return column->encoding->prepare == NULL || column->encoding->prepare(column);
}

bool
ls_key_element_init(LsKeyColumn *column, Oid type, Oid collation)
{
	Oid			cmp = lookup_type_cache(type, TYPECACHE_CMP_PROC)->cmp_proc;

	/* Containers contain containers. */
	check_stack_depth();
	return OidIsValid(cmp) && ls_key_column_init(column, cmp, type, collation, false, false);
}

bool
ls_key_is_reversible(const LsKeyColumn *column)
{
	return column->encoding->decode != NULL && !ls_key_has_labels(column);
}

void
ls_key_damaged(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("the bytes of an index key are no encoded value"),
			 errhint("Run REINDEX on the index.")));
}

static uint8
null_marker(const LsKeyColumn *column)
{
	return column->nulls_first ? LS_KEY_NULL_FIRST : LS_KEY_NULL_LAST;
}

void
ls_key_frame(StringInfo out, int start)
{
	const uint8 *from = (const uint8 *) out->data + start;
	Size		len = out->len - start;
	Size		zeros = 0;
	uint8	   *to;

	for (const uint8 *p = from, *end = from + len; (p = memchr(p, 0, end - p)) != NULL; p++)
		zeros++;

	to = ls_key_extend(out, zeros + 2) + zeros;
	to[0] = to[1] = 0;

	/* Backwards, until there is nothing left to move. */
	from = (const uint8 *) out->data + start + len;
	while (zeros > 0)
	{
		uint8		c = *--from;

		if (c == 0)
		{
			*--to = 0xFF;
			zeros--;
		}
		*--to = c;
	}
}

/*
 * One byte for -96 .. 95.  Others: a byte that tells sign and size, and the bytes
 * of v, or of its complement's complement for a negative one.
 */
#define INT_BASE 0x80
#define INT_SMALL 96
#define INT_POSITIVE (INT_BASE + INT_SMALL - 1)	/* + number of bytes */
#define INT_NEGATIVE (INT_BASE - INT_SMALL)	/* - number of bytes */

void
ls_key_put_int(StringInfo out, int64 v)
{
	uint64		magnitude = v < 0 ? ~(uint64) v : (uint64) v;
	int			n = 0;

	if (v >= -INT_SMALL && v < INT_SMALL)
	{
		ls_key_put8(out, (uint8) (INT_BASE + v));
		return;
	}
	while (n < 8 && magnitude >> (8 * n) != 0)
		n++;
	ls_key_put8(out, (uint8) (v < 0 ? INT_NEGATIVE - n : INT_POSITIVE + n));
	while (n-- > 0)
		ls_key_put8(out, (uint8) ((uint64) v >> (8 * n)));
}

int64
ls_key_read_int(LsKeyReader *reader)
{
	uint8		first = *ls_key_read(reader, 1);
	bool		negative = first < INT_NEGATIVE;
	int			n = negative ? INT_NEGATIVE - first : first - INT_POSITIVE;
	uint64		v = negative ? PG_UINT64_MAX : 0;

	if (first >= INT_NEGATIVE && first <= INT_POSITIVE)
		return first - INT_BASE;
	if (n > 8)
		ls_key_damaged();
	while (n-- > 0)
		v = v << 8 | *ls_key_read(reader, 1);
	return (int64) v;
}

/* Length of a frame whose zeros are written as `zero` and whose 0xFF as ~zero. */
static Size
framed_length(const uint8 *bytes, Size available, uint8 zero)
{
	const uint8 *end = bytes + available;

	for (const uint8 *p = bytes; (p = memchr(p, zero, end - p)) != NULL && end - p >= 2; p += 2)
	{
		if (p[1] == zero)
			return p + 2 - bytes;
		if (p[1] != (uint8) ~zero)
			return 0;
	}
	return 0;
}

Size
ls_key_frame_length(const uint8 *bytes, Size available)
{
	return framed_length(bytes, available, 0);
}

Size
ls_key_unframe(const uint8 *bytes, Size len, uint8 *to)
{
	const uint8 *end = bytes + len - 2;
	const uint8 *zero;
	uint8	   *start = to;

	Assert(ls_key_frame_length(bytes, len) == len);
	while (bytes < end && (zero = memchr(bytes, 0, end - bytes)) != NULL)
	{
		memmove(to, bytes, zero + 1 - bytes);
		to += zero + 1 - bytes;
		bytes = zero + 2;
	}
	if (bytes < end)
	{
		memmove(to, bytes, end - bytes);
		to += end - bytes;
	}
	return to - start;
}

static void
complement(uint8 *to, const uint8 *from, Size len)
{
	for (Size i = 0; i < len; i++)
		to[i] = (uint8) ~from[i];
}

void
ls_key_append(const LsKeyColumn *column, Datum value, bool isnull, StringInfo out)
{
	int			start;

	if (isnull)
	{
		ls_key_put8(out, null_marker(column));
		return;
	}
	ls_key_put8(out, LS_KEY_VALUE);
	start = out->len;
	column->encoding->encode(column, value, out);
	if (column->encoding->width == 0)
		ls_key_frame(out, start);
	else
		Assert(out->len - start == column->encoding->width);
	if (column->descending)
		complement((uint8 *) out->data + start, (uint8 *) out->data + start, out->len - start);
}

Size
ls_key_column_length(const LsKeyColumn *column, const uint8 *bytes, Size available)
{
	Size		len;

	if (available == 0)
		return 0;
	if (bytes[0] != LS_KEY_VALUE)
		return bytes[0] == null_marker(column) ? 1 : 0;
	len = column->encoding->width;
	if (len != 0)
		return 1 + len <= available ? 1 + len : 0;
	len = framed_length(bytes + 1, available - 1, column->descending ? 0xFF : 0);
	return len != 0 ? 1 + len : 0;
}

Datum
ls_key_decode(const LsKeyColumn *column, const uint8 *bytes, Size len, bool *isnull)
{
	const LsKeyEncoding *encoding = column->encoding;
	Datum		value;

	Assert(encoding->decode != NULL);
	if (len == 0 || ls_key_column_length(column, bytes, len) != len)
		ls_key_damaged();
	*isnull = bytes[0] != LS_KEY_VALUE;
	if (*isnull)
		return (Datum) 0;
	bytes++;
	len--;

	if (encoding->width != 0)
	{
		uint8		buffer[MAX_WIDTH];

		Assert(encoding->width <= MAX_WIDTH);
		if (column->descending)
		{
			complement(buffer, bytes, len);
			bytes = buffer;
		}
		value = encoding->decode(column, bytes, len);
	}
	else if (!column->descending && memchr(bytes, 0, len) == bytes + len - 2)
		value = encoding->decode(column, bytes, len - 2);
	else
	{
		uint8	   *buffer = palloc(len);

		if (column->descending)
		{
			complement(buffer, bytes, len);
			bytes = buffer;
		}
		len = ls_key_unframe(bytes, len, buffer);
		value = encoding->decode(column, buffer, len);
		pfree(buffer);
	}
	return value;
}

Datum
ls_key_read_column(LsKeyReader *reader, const LsKeyColumn *column, bool *isnull)
{
	Size		len = ls_key_column_length(column, reader->bytes, reader->left);

	return ls_key_decode(column, ls_key_read(reader, len), len, isnull);
}

LsKeyFit
ls_key_convert(const LsKeyColumn *column, Oid type, Datum value, Datum *converted)
{
	/* none of the server's own types is a domain */
	if (type >= FirstUnpinnedObjectId)
		type = getBaseType(type);
	if (column->encoding->convert != NULL && type != column->type)
		return column->encoding->convert(column, type, value, converted);
	*converted = value;
	return LS_KEY_EXACT;
}
