/*
 * ls_key_libc.c - may strings be encoded under a collation of libc?
 *
 * The C library promises that strxfrm() agrees with strcoll(), and some have not kept it;
 * PostgreSQL therefore uses strcoll() alone.  And which collations order by code point no name
 * tells. So both is tried here, by comparing strings in both ways: when an index is built
 * thoroughly, and otherwise, as a backend uses the collation for the first time, briefly.  What is
 * compared are encodings, so a mistake in these would show, too.
 *
 * The strings are made by a generator with a fixed seed: single characters of all planes, strings
 * of several scripts, punctuation, digits, marks that combine, and their neighbours: one character
 * more, less, another one, two exchanged.
 *
 * An encoding by sort keys is only good as long as the C library makes the same ones.  The
 * fingerprint, a hash of many, tells whether it does; it is recorded with the index.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/varlena.h"

/* Pairs of strings that are compared. */
#define THOROUGH_PAIRS 6000
#define BRIEF_PAIRS 100

#define MAX_LETTERS 14			/* of a string */
#define MAX_STRING_BYTES (2 * (MAX_LETTERS + 2) * MAX_MULTIBYTE_CHAR_LEN)

typedef enum Verdict
{
	UNKNOWN, AGREES_BRIEFLY, AGREES, DIFFERS
} Verdict;

typedef struct Libc
{
	pg_locale_t locale;
	struct Libc *next;
	Verdict		code_points;
	struct Source
	{
		Verdict		verdict;
		LsKeySortKeys *keys;
		uint16		fingerprint;
	}			sources[LS_KEY_SOURCES];
} Libc;

/* ---- strings --------------------------------------------------------------- */

/* Characters as numbers: code points, or bytes in an encoding of single bytes. */
typedef struct String
{
	int			n;
	uint32		c[MAX_LETTERS + 2];
} String;

typedef struct Generator
{
	uint64		state;
	bool		utf8;
} Generator;

static uint32
random_below(Generator *g, uint32 n)
{
	/* splitmix64 */
	uint64		z = (g->state += UINT64CONST(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64CONST(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64CONST(0x94D049BB133111EB);
	return (uint32) ((z ^ (z >> 31)) % n);
}

static const struct
{
	uint32		first;
	uint32		last;
}			scripts[] = {
	{'a', 'z'}, {'A', 'z'}, {' ', '~'}, {'0', '9'}, {0x01, 0x1F}, {0x7F, 0xFF},
	/* what follows is for UTF-8 */
	{0xC0, 0x17F}, {0x180, 0x24F}, {0x1E00, 0x1EFF}, {0x250, 0x2FF}, {0x300, 0x36F},
	{0x370, 0x3FF}, {0x400, 0x52F}, {0x530, 0x58F}, {0x590, 0x5FF}, {0x600, 0x6FF},
	{0x900, 0x97F}, {0x980, 0xDFF}, {0xE00, 0xEFF}, {0x1100, 0x11FF}, {0x1200, 0x137F},
	{0x1780, 0x17FF}, {0x2000, 0x206F}, {0x2070, 0x2BFF}, {0x3000, 0x303F}, {0x3040, 0x30FF},
	{0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0xE000, 0xF8FF}, {0xFB00, 0xFFFF}, {0x10000, 0x10FFF},
	{0x16A00, 0x1BCFF}, {0x1D100, 0x1D7FF}, {0x1F300, 0x1FAFF}, {0x20000, 0x2FFFF},
	{0x30000, 0xDFFFF}, {0xE0000, 0xE01FF}, {0xE0200, 0x10FFFF}
};

#define N_BYTE_SCRIPTS 6

static uint32
random_character(Generator *g, int script)
{
	uint32		first = scripts[script].first;

	return first + random_below(g, scripts[script].last - first + 1);
}

static int
random_script(Generator *g)
{
	/* half of all is Latin */
	int			n = g->utf8 && random_below(g, 2) ? lengthof(scripts) : N_BYTE_SCRIPTS;

	return (int) random_below(g, n);
}

/* Of two scripts, few characters of each, so that there are many that are alike. */
static void
random_string(Generator *g, String *s)
{
	uint32		some[4];
	int			two[2] = {random_script(g), random_script(g)};
	bool		narrow = random_below(g, 3) == 0;

	for (int i = 0; i < lengthof(some); i++)
		some[i] = random_character(g, two[i % 2]);
	s->n = (int) random_below(g, MAX_LETTERS + 1);
	for (int i = 0; i < s->n; i++)
		s->c[i] = narrow ? some[random_below(g, lengthof(some))]
			: random_character(g, two[random_below(g, 4) == 0]);
}

/* A string that differs from another one in a place. */
static void
neighbour(Generator *g, const String *s, String *other)
{
	int			at = s->n > 0 ? (int) random_below(g, s->n) : 0;
	uint32		c = random_character(g, random_script(g));

	*other = *s;
	switch (s->n == 0 ? 0 : random_below(g, 6))
	{
		case 0:					/* longer */
			other->c[other->n++] = c;
			break;
		case 1:					/* one more within */
			memmove(&other->c[at + 1], &other->c[at], (s->n - at) * sizeof(uint32));
			other->c[at] = c;
			other->n++;
			break;
		case 2:
			other->c[at] = c;
			break;
		case 3:					/* the other case, in most scripts */
			other->c[at] ^= s->c[at] < 0x80 ? 0x20 : 1;
			break;
		case 4:
			other->c[at] = s->c[s->n - 1];
			other->c[s->n - 1] = s->c[at];
			break;
		default:				/* shorter */
			other->n = at;
			break;
	}
}

static int
string_bytes(const Generator *g, const String *s, char *bytes)
{
	char	   *to = bytes;

	for (int i = 0; i < s->n; i++)
	{
		uint32		c = s->c[i];

		if (!g->utf8)
			*to++ = (char) (c & 0xFF ? c : 1);
		else
		{
			if (c == 0 || (c >= 0xD800 && c <= 0xDFFF) || c > 0x10FFFF)
				c = 1;
			unicode_to_utf8(c, (unsigned char *) to);
			to += unicode_utf8len(c);
		}
	}
	return (int) (to - bytes);
}

/* ---- trying ---------------------------------------------------------------- */

/* Encode a string; false: that is not possible, or does not lead back. */
static bool
encode(LsKeySortKeys *keys, const char *bytes, int len, StringInfo out, StringInfo scratch)
{
	resetStringInfo(out);
	if (keys == NULL)
	{
		appendBinaryStringInfo(out, bytes, len);
		return true;
	}
	if (!ls_key_sort_keys_put(keys, bytes, len, out))
		return false;
	resetStringInfo(scratch);
	ls_key_sort_keys_read(keys, (const uint8 *) out->data, out->len, scratch);
	return scratch->len == len && memcmp(scratch->data, bytes, len) == 0;
}

typedef struct Trial
{
	Generator	g;
	Oid			collation;
	LsKeySortKeys *keys;		/* NULL: code points */
	StringInfoData a;
	StringInfoData b;
	StringInfoData scratch;
} Trial;

static const char *
in_hex(const char *bytes, int len)
{
	char	   *hex = palloc0(2 * len + 1);

	(void) hex_encode(bytes, len, hex);
	return hex;
}

static bool
agrees(Trial *t, const String *a, const String *b)
{
	char		a_bytes[MAX_STRING_BYTES];
	char		b_bytes[MAX_STRING_BYTES];
	int			a_len = string_bytes(&t->g, a, a_bytes);
	int			b_len = string_bytes(&t->g, b, b_bytes);
	int			order = varstr_cmp(a_bytes, a_len, b_bytes, b_len, t->collation);
	int			encoded = 0;
	bool		possible = encode(t->keys, a_bytes, a_len, &t->a, &t->scratch) &&
		encode(t->keys, b_bytes, b_len, &t->b, &t->scratch);

	if (possible)
	{
		/* as they will be in a frame */
		encoded = memcmp(t->a.data, t->b.data, Min(t->a.len, t->b.len));
		if (encoded == 0)
			encoded = t->a.len - t->b.len;
		if ((order > 0) - (order < 0) == (encoded > 0) - (encoded < 0))
			return true;
	}
	ereport(DEBUG1,
			(errmsg_internal("%s under collation %u not as by strcoll(), %d: %s, %s",
							 !possible ? "no encoding" : t->keys != NULL ? "sort keys"
							 : "code points", t->collation, order,
							 in_hex(a_bytes, a_len), in_hex(b_bytes, b_len))));
	return false;
}

/* Characters of a range, each with the next one and with a random one. */
static bool
characters_agree(Trial *t, uint32 last, uint32 step)
{
	uint32		from = 1;
	String		a = {.n = 1};
	String		b = {.n = 1};

	for (uint32 c = from; c <= last; c += 1 + random_below(&t->g, 2 * step - 1))
	{
		a.c[0] = from;
		b.c[0] = c;
		if (!agrees(t, &a, &b))
			return false;
		a.c[0] = 1 + random_below(&t->g, c);
		if (!agrees(t, &a, &b))
			return false;
		from = c;
	}
	return true;
}

static bool
strings_agree(Trial *t, int64 pairs)
{
	String		last = {0};

	for (int64 i = 0; i < pairs; i++)
	{
		String		s;
		String		other;

		CHECK_FOR_INTERRUPTS();
		random_string(&t->g, &s);
		if (i % 2 == 0)
			neighbour(&t->g, &s, &other);
		else
			other = last;
		if (!agrees(t, &s, &other))
			return false;
		last = s;
	}
	return true;
}

static bool
all_agree(Trial *t, bool thorough)
{
	return characters_agree(t, t->g.utf8 ? 0x24F : 0xFF, thorough ? 1 : 8) &&
		(!t->g.utf8 || (characters_agree(t, 0xFFFF, thorough ? 100 : 2000) &&
						characters_agree(t, 0x10FFFF, thorough ? 3000 : 50000))) &&
		strings_agree(t, thorough ? THOROUGH_PAIRS : BRIEF_PAIRS);
}

/* Sizes of characters are known, and all bytes but 0x00 may be in a string. */
static bool
encoding_fits(bool *utf8)
{
	int			encoding = GetDatabaseEncoding();

	*utf8 = encoding == PG_UTF8;
	return *utf8 || (encoding != PG_SQL_ASCII && pg_encoding_max_length(encoding) == 1);
}

/* pairs: so many strings from this seed on; 0: as usual. */
static bool
try_more(Trial *t, bool thorough, int64 pairs)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "leanstore collation trial",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	bool		result;

	initStringInfo(&t->a);
	initStringInfo(&t->b);
	initStringInfo(&t->scratch);
	result = encoding_fits(&t->g.utf8) &&
		(pairs > 0 ? strings_agree(t, pairs) : all_agree(t, thorough));
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(context);
	return result;
}

static bool
try(Oid collation, LsKeySortKeys *keys, bool thorough)
{
	Trial		t = {.collation = collation, .keys = keys};

	return try_more(&t, thorough, 0);
}

/* ---- what is known --------------------------------------------------------- */

/* Locales live as long as the process, and so does what was found. */
static Libc *
libc_of(pg_locale_t locale)
{
	static Libc *all = NULL;
	Libc	   *libc;

	for (libc = all; libc != NULL; libc = libc->next)
		if (libc->locale == locale)
			return libc;
	libc = MemoryContextAllocZero(TopMemoryContext, sizeof(Libc));
	libc->locale = locale;
	libc->next = all;
	all = libc;
	return libc;
}

static bool
is_known(Verdict verdict, bool thorough)
{
	return verdict >= (thorough ? AGREES : AGREES_BRIEFLY);
}

static Verdict
verdict_of(bool agreed, bool thorough)
{
	return !agreed ? DIFFERS : thorough ? AGREES : AGREES_BRIEFLY;
}

bool
ls_key_libc_code_points(Oid collation, pg_locale_t locale, bool thorough)
{
	Libc	   *libc = libc_of(locale);

	if (!is_known(libc->code_points, thorough))
		libc->code_points = verdict_of(try(collation, NULL, thorough), thorough);
	return libc->code_points != DIFFERS;
}

/* Of sort keys, as far as random strings and the characters of Latin tell. */
static uint16
fingerprint_of(LsKeySortKeys *keys)
{
	Generator	g = {0};
	uint32		hash = 0;

	(void) encoding_fits(&g.utf8);
	for (int i = 1; i < 700; i++)
	{
		String		s = {.n = 1, .c = {i}};
		char		bytes[MAX_STRING_BYTES];
		const StringInfoData *sort_key;

		if (i > (g.utf8 ? 0x24F : 0xFF))
			random_string(&g, &s);
		sort_key = ls_key_sort_keys_ask(keys, bytes, string_bytes(&g, &s, bytes));
		hash = hash_combine(hash, hash_bytes((unsigned char *) sort_key->data, sort_key->len));
	}
	hash ^= hash >> LS_KEY_FINGERPRINT_BITS ^ hash >> 2 * LS_KEY_FINGERPRINT_BITS;
	return (uint16) (hash & ((1 << LS_KEY_FINGERPRINT_BITS) - 1));
}

static LsKeySource
source_of(LsKeyStrings strings)
{
	return strings == LS_KEY_SORT_KEYS ? LS_KEY_STRXFRM
		: strings == LS_KEY_TABLE_KEYS ? LS_KEY_GLIBC : LS_KEY_GLIBC_PLAIN;
}

LsKeySortKeys *
ls_key_libc_sort_keys(Oid collation, pg_locale_t locale, LsKeyForm *form)
{
	const LsKeySource source = source_of(form->strings);
	struct Source *from = &libc_of(locale)->sources[source];
	bool		utf8;

	if (!is_known(from->verdict, form->thorough))
	{
		/* what has been learned stays, for it may be in use */
		if (from->keys == NULL && encoding_fits(&utf8))
			from->keys = ls_key_sort_keys_learn(locale, source);
		if (from->verdict == UNKNOWN && from->keys != NULL)
			from->fingerprint = fingerprint_of(from->keys);
		from->verdict = verdict_of(from->keys != NULL &&
								   try(collation, from->keys, form->thorough), form->thorough);
	}
	form->fingerprint = from->fingerprint;
	return from->verdict == DIFFERS ? NULL : from->keys;
}

bool
ls_key_libc_try(Oid collation, LsKeyStrings strings, int64 pairs, uint64 seed)
{
	Trial		t = {.g = {.state = seed}, .collation = collation};

	if (strings != LS_KEY_CODE_POINTS)
	{
		LsKeyForm	form = {.strings = strings};

		t.keys = ls_key_libc_sort_keys(collation, pg_newlocale_from_collation(collation), &form);
		if (t.keys == NULL)
			return false;
	}
	return try_more(&t, true, pairs);
}
