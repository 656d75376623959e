/*
 * ls_key_text.c - text, varchar, bpchar, name under their collations.
 *
 * Under C, POSIX and the builtin provider strings compare as bytes: they are
 * their own encoding.  Where the provider's sort keys can be trusted (ICU), the
 * sort key comes first, framed, and then the string, which breaks ties under a
 * deterministic collation as the comparison does.  Under a nondeterministic one
 * the sort key is all.  Other collations are libc's: how a column's strings are encoded under
 * these its form says (ls_key_libc.c), as their bytes, or by a sort key that strings can be
 * read from.
 *
 * As for a btree, the keys are good for one version of the collation: after
 * another one is installed, REINDEX.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/pg_locale.h"
#include "varatt.h"

/* ---- what a string is, by type */

typedef struct KeyString
{
	const char *bytes;
	Size		len;
	void	   *copy;			/* to be freed, or NULL */
} KeyString;

static inline KeyString
text_string(Datum value)
{
	struct varlena *v = PG_DETOAST_DATUM_PACKED(value);

	return (KeyString){VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v),
					   v == (struct varlena *) DatumGetPointer(value) ? NULL : v};
}

/* Trailing blanks do not count. */
static inline KeyString
bpchar_string(Datum value)
{
	KeyString		s = text_string(value);

	s.len = bpchartruelen((char *) s.bytes, (int) s.len);
	return s;
}

static inline void
release(KeyString s)
{
	if (s.copy != NULL)
		pfree(s.copy);
}

typedef void (*PutString) (const LsKeyColumn *column, KeyString s, StringInfo out);

static pg_attribute_always_inline void
encode(const LsKeyColumn *column, KeyString s, PutString put, StringInfo out)
{
	put(column, s, out);
	release(s);
}

/* ---- as bytes */

static void
put_bytes(const LsKeyColumn *column, KeyString s, StringInfo out)
{
	ls_key_put(out, s.bytes, s.len);
}

static void
encode_text(const LsKeyColumn *column, Datum value, StringInfo out)
{
	encode(column, text_string(value), put_bytes, out);
}

static void
encode_bpchar(const LsKeyColumn *column, Datum value, StringInfo out)
{
	encode(column, bpchar_string(value), put_bytes, out);
}

static void
encode_name(const LsKeyColumn *column, Datum value, StringInfo out)
{
	const char *name = NameStr(*DatumGetName(value));

	ls_key_put(out, name, strnlen(name, NAMEDATALEN));
}

static Datum
decode_text(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	return PointerGetDatum(cstring_to_text_with_len((const char *) bytes, (int) len));
}

static Datum
decode_name(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	Name		name = palloc0(sizeof(NameData));

	if (len >= NAMEDATALEN || memchr(bytes, 0, len) != NULL)
		ls_key_damaged();
	memcpy(NameStr(*name), bytes, len);
	return NameGetDatum(name);
}

/* ---- by sort key */

static void
put_sort_key(const LsKeyColumn *column, KeyString s, StringInfo out)
{
	ls_key_put_sort_key(column->state, s.bytes, s.len, out);
}

static void
encode_text_sort_key(const LsKeyColumn *column, Datum value, StringInfo out)
{
	encode(column, text_string(value), put_sort_key, out);
}

static void
encode_bpchar_sort_key(const LsKeyColumn *column, Datum value, StringInfo out)
{
	encode(column, bpchar_string(value), put_sort_key, out);
}

static void
put_both(const LsKeyColumn *column, KeyString s, StringInfo out)
{
	int			start = out->len;

	put_sort_key(column, s, out);
	ls_key_frame(out, start);
	ls_key_put(out, s.bytes, s.len);
}

static void
encode_text_both(const LsKeyColumn *column, Datum value, StringInfo out)
{
	encode(column, text_string(value), put_both, out);
}

static void
encode_bpchar_both(const LsKeyColumn *column, Datum value, StringInfo out)
{
	encode(column, bpchar_string(value), put_both, out);
}

static Datum
decode_text_both(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	Size		key = ls_key_frame_length(bytes, len);

	if (key == 0)
		ls_key_damaged();
	return decode_text(column, bytes + key, len - key);
}

/* ---- by sort key of libc */

static void
put_libc(const LsKeyColumn *column, KeyString s, StringInfo out)
{
	if (!ls_key_sort_keys_put(column->state, s.bytes, s.len, out))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("strxfrm() says something of a string under collation \"%s\" that is "
						"not understood", get_collation_name(column->collation)),
				 errhint("Use a btree index.")));
}

static void
encode_text_libc(const LsKeyColumn *column, Datum value, StringInfo out)
{
	encode(column, text_string(value), put_libc, out);
}

static void
encode_bpchar_libc(const LsKeyColumn *column, Datum value, StringInfo out)
{
	encode(column, bpchar_string(value), put_libc, out);
}

static Datum
decode_text_libc(const LsKeyColumn *column, const uint8 *bytes, Size len)
{
	StringInfoData string;

	initStringInfoExt(&string, (int) (VARHDRSZ + len + 1));
	string.len = VARHDRSZ;
	ls_key_sort_keys_read(column->state, bytes, len, &string);
	SET_VARSIZE(string.data, string.len);
	return PointerGetDatum(string.data);
}

static const LsKeyEncoding text_libc = {.encode = encode_text_libc, .decode = decode_text_libc};
static const LsKeyEncoding bpchar_libc = {.encode = encode_bpchar_libc};
static const LsKeyEncoding text_sort_key = {.encode = encode_text_sort_key};
static const LsKeyEncoding text_both = {.encode = encode_text_both, .decode = decode_text_both};
static const LsKeyEncoding bpchar_sort_key = {.encode = encode_bpchar_sort_key};
static const LsKeyEncoding bpchar_both = {.encode = encode_bpchar_both};

/* ---- which of them */

/* NULL: not by sort keys. */
static bool
choose_libc(LsKeyColumn *column, pg_locale_t locale, const LsKeyEncoding *sort_key)
{
	switch (column->form.strings)
	{
		case LS_KEY_CODE_POINTS:
			return ls_key_libc_code_points(column->collation, locale, column->form.thorough);
		case LS_KEY_SORT_KEYS:
		case LS_KEY_TABLE_KEYS:
		case LS_KEY_PLAIN_KEYS:
			if (sort_key == NULL)
				return false;
			column->encoding = sort_key;
			column->state =
				ls_key_libc_sort_keys(column->collation, locale, &column->form);
			return column->state != NULL;
		default:
			return false;
	}
}

static bool
choose(LsKeyColumn *column, const LsKeyEncoding *sort_key, const LsKeyEncoding *both,
	   const LsKeyEncoding *libc)
{
	pg_locale_t locale;

	if (!OidIsValid(column->collation))
		return false;
	locale = pg_newlocale_from_collation(column->collation);
	if (locale->collate_is_c)
		return true;
	if (locale->provider == COLLPROVIDER_LIBC)
		return choose_libc(column, locale, libc);
	if (both == NULL || !pg_strxfrm_enabled(locale))
		return false;
	column->state = ls_key_collation(locale);
	column->encoding = locale->deterministic ? both : sort_key;
	return true;
}

static bool
prepare_text(LsKeyColumn *column)
{
	return choose(column, &text_sort_key, &text_both, &text_libc);
}

static bool
prepare_bpchar(LsKeyColumn *column)
{
	return choose(column, &bpchar_sort_key, &bpchar_both, &bpchar_libc);
}

/*
 * A column of names is compared with text, too.  Where strings compare as bytes,
 * a text that is too long for a name has a place among names; by sort keys, that
 * place could not be told by a name.
 */
static bool
prepare_name(LsKeyColumn *column)
{
	return choose(column, NULL, NULL, NULL);
}

static LsKeyFit
convert_name(const LsKeyColumn *column, Oid type, Datum value, Datum *converted)
{
	KeyString		s = text_string(value);
	Name		name = palloc0(sizeof(NameData));
	bool		fits = s.len < NAMEDATALEN;

	memcpy(NameStr(*name), s.bytes, Min(s.len, NAMEDATALEN - 1));
	release(s);
	*converted = NameGetDatum(name);
	return fits ? LS_KEY_EXACT : LS_KEY_BETWEEN;
}

static LsKeyFit
convert_text(const LsKeyColumn *column, Oid type, Datum value, Datum *converted)
{
	*converted = type == NAMEOID ?
		PointerGetDatum(cstring_to_text(NameStr(*DatumGetName(value)))) : value;
	return LS_KEY_EXACT;
}

const LsKeyEncoding ls_key_text = {
	.prepare = prepare_text, .encode = encode_text, .decode = decode_text, .convert = convert_text
};
const LsKeyEncoding ls_key_bpchar = {.prepare = prepare_bpchar, .encode = encode_bpchar};
const LsKeyEncoding ls_key_name = {
	.prepare = prepare_name, .encode = encode_name, .decode = decode_name, .convert = convert_name
};

/* The pattern operator classes compare bytes, whatever the collation is. */
const LsKeyEncoding ls_key_text_pattern = {.encode = encode_text, .decode = decode_text};
const LsKeyEncoding ls_key_bpchar_pattern = {.encode = encode_bpchar};
