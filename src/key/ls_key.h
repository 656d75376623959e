/*
 * ls_key.h - normalized keys: values of any ordered type as byte strings that
 * memcmp compares as the type's btree operator class does.
 *
 * The key of an index entry is the concatenation of its columns.  A column is
 *
 *	  marker (1 byte) | encoding
 *
 * with the marker 0x01 for NULL under NULLS FIRST, 0x02 for a value, 0x03 for
 * NULL under NULLS LAST; a NULL has no encoding.  An encoding has either a fixed
 * width, or it is framed: every 0x00 in it is followed by an added 0xFF, and
 * 0x00 0x00 ends it.  So no column is a prefix of another, and where a column
 * ends can be seen without knowing more of its type than the width.  The encoding
 * of a DESC column is complemented, frame included; the marker is not.
 *
 * Equal values have equal encodings, whatever their bytes are (numeric 1.0 and
 * 1.00): where that loses something, the entry keeps the original value beside
 * the key.
 *
 * Which encoding a column has follows from the comparison procedure (support
 * function 1) of its operator class, not from its type: text_ops and
 * text_pattern_ops order the same type differently.
 *
 * Nothing here knows of trees, and nothing in the engine knows of types.
 * Functions may raise errors and allocate in the current memory context; they are
 * never called with a latch held.
 */
#ifndef LS_KEY_H
#define LS_KEY_H

#include "postgres.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

/* Markers. */
#define LS_KEY_NULL_FIRST	0x01
#define LS_KEY_VALUE		0x02
#define LS_KEY_NULL_LAST	0x03

typedef struct LsKeyColumn LsKeyColumn;

/*
 * How strings are encoded under collations of libc other than C (ls_key_libc.c).  It is chosen when
 * an index is built and recorded with it, for the answer may be another one later: with another
 * version of the C library, or of leanstore_am.
 */
typedef enum LsKeyStrings
{
	LS_KEY_NO_STRINGS,			/* not at all: a column that has some gets labels */
	LS_KEY_CODE_POINTS,			/* their bytes, in the order of code points */
	LS_KEY_SORT_KEYS,			/* what strxfrm() makes of them, shortened */
	LS_KEY_TABLE_KEYS,			/* of what strcoll() goes by: of indexes from before version 1.1 */
	LS_KEY_PLAIN_KEYS			/* the same, shorter where there are no accents */
} LsKeyStrings;

typedef struct LsKeyForm
{
	LsKeyStrings strings;
	bool		thorough;		/* it is being chosen: try the C library at length */
	uint16		fingerprint;	/* of the sort keys that are made: ls_key_column_init() sets it */
} LsKeyForm;

/* A form as a number, to be recorded; it has so many bits. */
#define LS_KEY_FORM_BITS 14
#define LS_KEY_FINGERPRINT_BITS (LS_KEY_FORM_BITS - 3)

/* Two bits of how strings are encoded, the fingerprint, the third bit. */
static inline uint16
ls_key_record_form(const LsKeyForm *form)
{
	return (uint16) ((form->strings & 3) | form->fingerprint << 2 |
					 (form->strings >> 2) << (LS_KEY_FORM_BITS - 1));
}

static inline LsKeyForm
ls_key_recorded_form(uint16 recorded)
{
	return (LsKeyForm) {
		.strings = (LsKeyStrings) ((recorded & 3) | (recorded >> (LS_KEY_FORM_BITS - 1)) << 2)
	};
}

/*
 * Where a value of another type of the operator family (int8 for a column of
 * int4, timestamptz for date) lies among the column's values.  *converted gets
 * the greatest value of the column's type that is not above it, in ascending
 * order.
 */
typedef enum LsKeyFit
{
	LS_KEY_EXACT,				/* equal to *converted */
	LS_KEY_BETWEEN,				/* above *converted, below the next one if any */
	LS_KEY_BELOW_ALL			/* no value is that small */
} LsKeyFit;

/* One way to encode values; const, one per comparison procedure. */
typedef struct LsKeyEncoding
{
	/* Bytes of every encoding; 0: framed. */
	uint16		width;

	/*
	 * May hold state made once per column (element encodings, a locale ...), in
	 * column->state, allocated in the current context.  false: these values can
	 * not be encoded (for instance, a collation that can not be trusted).  NULL:
	 * nothing to prepare.  May put another encoding in its own place, for what it
	 * has found.
	 */
	bool		(*prepare) (LsKeyColumn *column);

	/*
	 * Append the bare encoding of a value that is not NULL (it may be toasted):
	 * ascending, neither framed nor complemented.
	 */
	void		(*encode) (const LsKeyColumn *column, Datum value, StringInfo out);

	/* The value again, from bare bytes; NULL: the encoding loses something. */
	Datum		(*decode) (const LsKeyColumn *column, const uint8 *bytes, Size len);

	/*
	 * ls_key_convert() for a type other than the column's; NULL: there is none but binary
	 * compatible ones.
	 */
	LsKeyFit	(*convert) (const LsKeyColumn *column, Oid type, Datum value, Datum *converted);
} LsKeyEncoding;

struct LsKeyColumn
{
	const LsKeyEncoding *encoding;
	Oid			type;			/* what ls_key_type() says, as its base type */
	Oid			collation;
	bool		descending;
	bool		nulls_first;
	LsKeyForm	form;
	void	   *state;
	FmgrInfo   *compare;		/* of a column with labels: its comparison procedure; else NULL */
};

/*
 * The type that a column has for its keys: what its operator class takes
 * (opcintype), or the column's own type, if the class takes many.
 */
extern Oid	ls_key_type(Oid opcintype, Oid column_type);

/*
 * Set up a column that is compared by `cmp`, a procedure of its operator class.  The caller has
 * set column->form, where 0 means LS_KEY_NO_STRINGS.
 * false: there is no sound encoding.  State is allocated in the current context.
 */
extern bool ls_key_column_init(LsKeyColumn *column, Oid cmp, Oid type, Oid collation,
							   bool descending, bool nulls_first);

/*
 * The form that is best for a column of a new index, to be recorded.  Takes some milliseconds where
 * there are collations that the backend has not tried yet.
 */
extern uint16 ls_key_choose_form(Oid cmp, Oid type, Oid collation);

/* Append a column to a key: marker, framing, complement and all. */
extern void ls_key_append(const LsKeyColumn *column, Datum value, bool isnull, StringInfo out);

/*
 * Bytes of the column that begins at `bytes`, marker included; 0 when these
 * bytes (which come from disk) can not be one.
 */
extern Size ls_key_column_length(const LsKeyColumn *column, const uint8 *bytes, Size available);

/* Can ls_key_decode give back what was encoded? */
extern bool ls_key_is_reversible(const LsKeyColumn *column);

/*
 * Are its values read from the bytes as they stand?  If they are passed by value, too, they can be
 * by ls_key_decode_plain(), which needs no memory: of a value, from behind the marker.
 */
static inline bool
ls_key_is_plain(const LsKeyColumn *column)
{
	return ls_key_is_reversible(column) && column->encoding->width > 0 && !column->descending;
}

static inline Datum
ls_key_decode_plain(const LsKeyColumn *column, const uint8 *bytes)
{
	return column->encoding->decode(column, bytes, column->encoding->width);
}

/* These bytes are no key: ERRCODE_INDEX_CORRUPTED. */
pg_noreturn extern void ls_key_damaged(void);

/*
 * The value of a column given by its bytes, marker included.  Damage is reported as
 * ERRCODE_INDEX_CORRUPTED.
 */
extern Datum ls_key_decode(const LsKeyColumn *column, const uint8 *bytes, Size len, bool *isnull);

/*
 * ---- labels (ls_key_order_label.c)
 *
 * A column with an order that no encoding expresses.  Its keys are labels that order as
 * the values do, and are found by comparing values: ls_key_append() is for its NULLs only.
 */
extern void ls_key_label_init(LsKeyColumn *column, Oid cmp, Oid type, Oid collation,
							  bool descending, bool nulls_first);

/* A label that no value has: of what is behind the beginning of a key. */
extern void ls_key_rest_init(LsKeyColumn *column);

static inline bool
ls_key_has_labels(const LsKeyColumn *column)
{
	return column->compare != NULL;
}

/*
 * Append a column with a new label, between those of two others (markers included; no bytes: there
 * is none).
 */
extern void ls_key_append_label(const LsKeyColumn *column, const uint8 *left, Size left_len,
								const uint8 *right, Size right_len, StringInfo out);

/*
 * Which of two values comes first in the order of keys, by this procedure of the operator family.
 */
extern int	ls_key_compare(const LsKeyColumn *column, FmgrInfo *compare, Datum a, Datum b);

/*
 * The enum types that values of a type contain: their values must not get other
 * sort positions while an index contains the type (ls_key_enum.c).
 */
extern List *ls_key_enums(Oid type);

/* See LsKeyFit. */
extern LsKeyFit ls_key_convert(const LsKeyColumn *column, Oid type, Datum value, Datum *converted);

#endif							/* LS_KEY_H */
