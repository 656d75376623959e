/*
 * ls_key_internal.h - shared by the files of src/key: the encodings, and what
 * they are made of.
 *
 * An encode function writes bare bytes to the end of `out`.  Encodings that
 * contain values of other types (arrays, ranges, rows) write those as columns,
 * with ls_key_append(): marker and frame make them self-delimiting, and the
 * marker 0x03 puts NULL behind every value, as the comparison of all containers
 * does.
 *
 * A decode function gets bytes that come from disk: it reads through LsKeyReader,
 * or checks the length itself, and calls ls_key_damaged() for anything that its
 * encode function does not write.
 */
#ifndef LS_KEY_INTERNAL_H
#define LS_KEY_INTERNAL_H

#include "ls_key.h"

#include "port/pg_bswap.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"

/* Room for n more bytes, which the caller fills. */
static inline uint8 *
ls_key_extend(StringInfo out, Size n)
{
	uint8	   *p;

	if (unlikely(n >= (Size) (out->maxlen - out->len)))
	{
		if (n > MaxAllocSize)
			ereport(ERROR,
					(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
					 errmsg("value is too long for an index key")));
		enlargeStringInfo(out, (int) n);
	}
	p = (uint8 *) out->data + out->len;
	out->len += (int) n;
	return p;
}

static inline void
ls_key_put(StringInfo out, const void *bytes, Size n)
{
	memcpy(ls_key_extend(out, n), bytes, n);
}

static inline void
ls_key_put8(StringInfo out, uint8 v)
{
	*ls_key_extend(out, 1) = v;
}

static inline void
ls_key_put16(StringInfo out, uint16 v)
{
	v = pg_hton16(v);
	memcpy(ls_key_extend(out, sizeof(v)), &v, sizeof(v));
}

static inline void
ls_key_put32(StringInfo out, uint32 v)
{
	v = pg_hton32(v);
	memcpy(ls_key_extend(out, sizeof(v)), &v, sizeof(v));
}

static inline void
ls_key_put64(StringInfo out, uint64 v)
{
	v = pg_hton64(v);
	memcpy(ls_key_extend(out, sizeof(v)), &v, sizeof(v));
}

static inline uint16
ls_key_get16(const uint8 *p)
{
	uint16		v;

	memcpy(&v, p, sizeof(v));
	return pg_ntoh16(v);
}

static inline uint32
ls_key_get32(const uint8 *p)
{
	uint32		v;

	memcpy(&v, p, sizeof(v));
	return pg_ntoh32(v);
}

static inline uint64
ls_key_get64(const uint8 *p)
{
	uint64		v;

	memcpy(&v, p, sizeof(v));
	return pg_ntoh64(v);
}

/* Signed integers in the order of unsigned ones, and back. */
#define LS_KEY_SIGN16	((uint16) 1 << 15)
#define LS_KEY_SIGN32	((uint32) 1 << 31)
#define LS_KEY_SIGN64	((uint64) 1 << 63)

/* ---- ls_key.c */

/* Frame what has been appended since out->len was `start`. */
extern void ls_key_frame(StringInfo out, int start);

/*
 * An integer of any size, small ones in one byte; never writes 0x00 or 0xFF as
 * its first byte.
 */
extern void ls_key_put_int(StringInfo out, int64 v);

/* Bytes of the frame, end included, that begins at `bytes`; 0: it has no end, or is damaged. */
extern Size ls_key_frame_length(const uint8 *bytes, Size available);

/* The framed bytes, into `to` (as long as the frame is enough); how many there are. */
extern Size ls_key_unframe(const uint8 *bytes, Size len, uint8 *to);

/*
 * Set up a column for the elements of a container with that form, by the default comparison
 * procedure of their type.  false: it can not be encoded.
 */
extern bool ls_key_element_init(LsKeyColumn *column, LsKeyForm *form, Oid type, Oid collation);

/* Before and after the elements' column is set up in another way. */
static inline void
ls_key_form_hand_down(const LsKeyForm *form, LsKeyColumn *element)
{
	element->form = *form;
	element->form.fingerprint = 0;
}

static inline void
ls_key_form_gather(LsKeyForm *form, const LsKeyColumn *element)
{
	/* the first one's: an attribute that is added to a row type changes nothing */
	if (form->fingerprint == 0)
		form->fingerprint = element->form.fingerprint;
}

/* What is left of an encoding that is being decoded. */
typedef struct LsKeyReader
{
	const uint8 *bytes;
	Size		left;
} LsKeyReader;

static inline const uint8 *
ls_key_read(LsKeyReader *reader, Size n)
{
	const uint8 *p = reader->bytes;

	if (n > reader->left)
		ls_key_damaged();
	reader->bytes += n;
	reader->left -= n;
	return p;
}

/* What ls_key_put_int() wrote. */
extern int64 ls_key_read_int(LsKeyReader *reader);

/* The value of an element that was written by ls_key_append(). */
extern Datum ls_key_read_column(LsKeyReader *reader, const LsKeyColumn *column, bool *isnull);

/* ---- the encodings */
extern const LsKeyEncoding ls_key_int2;
extern const LsKeyEncoding ls_key_int4;
extern const LsKeyEncoding ls_key_int8;
extern const LsKeyEncoding ls_key_oid;
extern const LsKeyEncoding ls_key_uint8;
extern const LsKeyEncoding ls_key_bool;
extern const LsKeyEncoding ls_key_char;
extern const LsKeyEncoding ls_key_tid;
extern const LsKeyEncoding ls_key_float4;
extern const LsKeyEncoding ls_key_float8;
extern const LsKeyEncoding ls_key_numeric;
extern const LsKeyEncoding ls_key_text;
extern const LsKeyEncoding ls_key_text_pattern;
extern const LsKeyEncoding ls_key_bpchar;
extern const LsKeyEncoding ls_key_bpchar_pattern;
extern const LsKeyEncoding ls_key_name;
extern const LsKeyEncoding ls_key_date;
extern const LsKeyEncoding ls_key_time;
extern const LsKeyEncoding ls_key_timestamp;
extern const LsKeyEncoding ls_key_timestamptz;
extern const LsKeyEncoding ls_key_timetz;
extern const LsKeyEncoding ls_key_interval;
extern const LsKeyEncoding ls_key_uuid;
extern const LsKeyEncoding ls_key_macaddr;
extern const LsKeyEncoding ls_key_macaddr8;
extern const LsKeyEncoding ls_key_bytea;
extern const LsKeyEncoding ls_key_bits;
extern const LsKeyEncoding ls_key_oidvector;
extern const LsKeyEncoding ls_key_inet;
extern const LsKeyEncoding ls_key_enum;
extern const LsKeyEncoding ls_key_array;
extern const LsKeyEncoding ls_key_range;
extern const LsKeyEncoding ls_key_multirange;
extern const LsKeyEncoding ls_key_record;
extern const LsKeyEncoding ls_key_record_image;
extern const LsKeyEncoding ls_key_jsonb;
extern const LsKeyEncoding ls_key_tsvector;
extern const LsKeyEncoding ls_key_tsquery;

/*
 * Sort keys of strings (ls_key_icu.c): what pg_strnxfrm() says.  What belongs to a locale lives as
 * long as the process.
 */
typedef struct LsKeyCollation LsKeyCollation;

extern LsKeyCollation *ls_key_collation(pg_locale_t locale);
extern void ls_key_put_sort_key(LsKeyCollation *collation, const char *bytes, Size len,
								StringInfo out);
extern bool ls_key_is_learned(const LsKeyCollation *collation, char c);

/*
 * Collations of libc (ls_key_libc.c): does the order of strings agree with that of their bytes, of
 * their sort keys?  It is tried once per collation and process.
 */
typedef struct LsKeySortKeys LsKeySortKeys;

extern bool ls_key_libc_code_points(Oid collation, pg_locale_t locale, bool thorough);

/*
 * Sort keys of libc, shortened, with what tells strings apart that have equal ones
 * (ls_key_sort_key.c).  NULL: the C library's have a form that is not known.
 */
typedef enum LsKeySource
{
	LS_KEY_STRXFRM,				/* strxfrm() */
	LS_KEY_GLIBC,				/* the tables of glibc (ls_key_glibc.c) */
	LS_KEY_GLIBC_PLAIN,			/* the same, and other guesses */
	LS_KEY_SOURCES
} LsKeySource;

extern LsKeySortKeys *ls_key_sort_keys_learn(pg_locale_t locale, LsKeySource source);
extern void ls_key_sort_keys_free(LsKeySortKeys *keys);

/*
 * Of the form's kind.  NULL: they do not agree.  Sets the form's fingerprint: of what the source
 * says.
 */
extern LsKeySortKeys *ls_key_libc_sort_keys(Oid collation, pg_locale_t locale, LsKeyForm *form);

/* Do so many pairs of strings more agree, too?  For tests. */
extern bool ls_key_libc_try(Oid collation, LsKeyStrings strings, int64 pairs, uint64 seed);

/* A sort key as the source makes it; valid until the next one. */
extern const StringInfoData *ls_key_sort_keys_ask(LsKeySortKeys *keys, const char *bytes, Size len);

/* false: the sort key of this string has such a form. */
extern bool ls_key_sort_keys_put(LsKeySortKeys *keys, const char *bytes, Size len, StringInfo out);

/* Sort keys as strxfrm()'s, made of what strcoll() of glibc goes by.  NULL: there are none. */
typedef struct LsKeyGlibc LsKeyGlibc;

extern LsKeyGlibc *ls_key_glibc_open(pg_locale_t locale);
extern void ls_key_glibc_put(LsKeyGlibc *g, const char *bytes, Size len, StringInfo out);

/* Bytes of the level of accents. */
extern int	ls_key_glibc_accents(LsKeyGlibc *g, const char *bytes, Size len);

/*
 * Is the byte an element, whatever follows, in a collation with the usual levels, of which only
 * that of accents may take it backward and the last one alone has positions?
 */
#define LS_KEY_GLIBC_LEVELS 4
extern bool ls_key_glibc_is_alone(const LsKeyGlibc *g, uint8 byte, bool *backward);

/* The string again; calls ls_key_damaged(). */
extern void ls_key_sort_keys_read(LsKeySortKeys *keys, const uint8 *bytes, Size len,
								  StringInfo out);

#endif							/* LS_KEY_INTERNAL_H */
