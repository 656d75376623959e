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

/* What a comparison procedure compares is encoded so. */
static const struct
{
	Oid			cmp;
	const LsKeyEncoding *encoding;
}			encodings[] = {
	{F_BTINT2CMP, &ls_key_int2},
	{F_BTINT4CMP, &ls_key_int4},
	{F_BTINT8CMP, &ls_key_int8},
	{F_CASH_CMP, &ls_key_int8},
	{F_BTOIDCMP, &ls_key_oid},
	{F_XID8CMP, &ls_key_uint8},
	{F_PG_LSN_CMP, &ls_key_uint8},
	{F_BTBOOLCMP, &ls_key_bool},
	{F_BTCHARCMP, &ls_key_char},
	{F_BTTIDCMP, &ls_key_tid},
	{F_BTFLOAT4CMP, &ls_key_float4},
	{F_BTFLOAT8CMP, &ls_key_float8},
	{F_NUMERIC_CMP, &ls_key_numeric},
	{F_BTTEXTCMP, &ls_key_text},
	{F_BTTEXT_PATTERN_CMP, &ls_key_text_pattern},
	{F_BPCHARCMP, &ls_key_bpchar},
	{F_BTBPCHAR_PATTERN_CMP, &ls_key_bpchar_pattern},
	{F_BTNAMECMP, &ls_key_name},
	{F_DATE_CMP, &ls_key_date},
	{F_TIME_CMP, &ls_key_time},
	{F_TIMESTAMP_CMP, &ls_key_timestamp},
	{F_TIMESTAMPTZ_CMP, &ls_key_timestamptz},
	{F_TIMETZ_CMP, &ls_key_timetz},
	{F_INTERVAL_CMP, &ls_key_interval},
	{F_UUID_CMP, &ls_key_uuid},
	{F_MACADDR_CMP, &ls_key_macaddr},
	{F_MACADDR8_CMP, &ls_key_macaddr8},
	{F_BYTEACMP, &ls_key_bytea},
	{F_BITCMP, &ls_key_bits},
	{F_VARBITCMP, &ls_key_bits},
	{F_BTOIDVECTORCMP, &ls_key_oidvector},
	{F_NETWORK_CMP, &ls_key_inet},
	{F_ENUM_CMP, &ls_key_enum},
	{F_BTARRAYCMP, &ls_key_array},
	{F_RANGE_CMP, &ls_key_range},
	{F_MULTIRANGE_CMP, &ls_key_multirange},
	{F_BTRECORDCMP, &ls_key_record},
	{F_BTRECORDIMAGECMP, &ls_key_record_image},
	{F_JSONB_CMP, &ls_key_jsonb},
	{F_TSVECTOR_CMP, &ls_key_tsvector},
	{F_TSQUERY_CMP, &ls_key_tsquery},
};

/* NULL: none. */
static const LsKeyEncoding *
encoding_of(Oid cmp)
{
	for (int i = 0; i < lengthof(encodings); i++)
		if (encodings[i].cmp == cmp)
			return encodings[i].encoding;
	return NULL;
}

Oid
ls_key_type(Oid opcintype, Oid column_type)
{
	/* Any row type is coercible to record, which is no polymorphic type. */
	return IsPolymorphicType(opcintype) || opcintype == RECORDOID ? column_type : opcintype;
}

bool
ls_key_column_init(LsKeyColumn *column, Oid cmp, Oid type, Oid collation, bool descending,
				   bool nulls_first)
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
ls_key_element_init(LsKeyColumn *column, LsKeyForm *form, Oid type, Oid collation)
{
	Oid			cmp = lookup_type_cache(type, TYPECACHE_CMP_PROC)->cmp_proc;

	/* Containers contain containers. */
	check_stack_depth();
	ls_key_form_hand_down(form, column);
	if (!OidIsValid(cmp) || !ls_key_column_init(column, cmp, type, collation, false, false))
		return false;
	ls_key_form_gather(form, column);
	return true;
}

uint16
ls_key_choose_form(Oid cmp, Oid type, Oid collation)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "leanstore key form",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	static const LsKeyStrings tried[] = {
		LS_KEY_NO_STRINGS, LS_KEY_CODE_POINTS, LS_KEY_SORT_KEYS, LS_KEY_PLAIN_KEYS
	};
	uint16		recorded = LS_KEY_NO_STRINGS;

	for (int i = 0; i < lengthof(tried); i++)
	{
		LsKeyColumn column = {.form = {.strings = tried[i], .thorough = true}};

		if (ls_key_column_init(&column, cmp, type, collation, false, false))
		{
			recorded = ls_key_record_form(&column.form);
			break;
		}
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	return recorded;
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
	uint64		magnitude;

	if (first >= INT_NEGATIVE && first <= INT_POSITIVE)
		return first - INT_BASE;
	if (n > 8)
		ls_key_damaged();
	for (int i = 0; i < n; i++)
		v = v << 8 | *ls_key_read(reader, 1);
	/* not in fewer bytes, and of its sign */
	magnitude = negative ? ~v : v;
	if (magnitude < INT_SMALL || magnitude >> (8 * (n - 1)) == 0 || magnitude > PG_INT64_MAX)
		ls_key_damaged();
	return (int64) v;
}

/* Length of a frame that has `zero` for each 0x00, and ~zero for each 0xFF. */
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
