/*
 * ls_key_icu.c - sort keys of strings, under collations that have them (ICU).
 *
 * ICU takes about 25 ns per character, which is half of what building an index takes.
 * But for most ASCII strings the answer can be put together from earlier ones.  A sort
 * key of the usual strength is three levels, with 0x01 between them: the primary weights of the
 * characters; their secondary weights; their tertiary ones (case).  Of characters without
 * contractions (as Czech "ch")
 *
 * - the first level is the primary weights, one behind the other;
 * - the second, where all have the weight that most have, depends on their number alone;
 * - in the third, a run of characters with the weight that most have is written as its
 *	 length, in one way before a capital and in another at the end.
 *
 * All of these bytes are learned by asking for the sort keys of characters, pairs and runs, once
 * per collation and process; and whether they explain others is tried before they are used.  A
 * character that does not fit (by contractions, compression of primary weights, other weights) is
 * left to ICU, and so is every string that has one, or is long, and every collation with other
 * settings.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "catalog/pg_collation.h"

#ifdef USE_ICU
#include <unicode/ucol.h>
#include <unicode/uset.h>
#endif

/* Longer strings are ICU's. */
#define MAX_CHARACTERS 128
#define MAX_WEIGHT_BYTES 4		/* of a character at one level */
#define MAX_RUN_BYTES 8			/* MAX_CHARACTERS equal weights, at one level */

/*
 * Learning takes some milliseconds, most of them to find contractions: as long as ICU takes for
 * so many short strings.
 */
#ifdef LS_DEBUG_CHECKS
#define LEARN_AFTER 50
#else
#define LEARN_AFTER 10000
#endif

typedef struct Bytes
{
	uint8		len;
	uint8		bytes[MAX_RUN_BYTES];
} Bytes;

/* What ICU has answered. */
typedef struct Learned
{
	struct
	{
		uint8		len;		/* 0: left to ICU */
		uint8		weight[MAX_WEIGHT_BYTES];
		bool		capital;
	}			primary[256];	/* by byte; 128 and above are left to ICU */
	Bytes		capital;		/* tertiary weight */
	Bytes		secondary[MAX_CHARACTERS + 1];	/* by the number of characters */
	Bytes		before_capital[MAX_CHARACTERS + 1]; /* tertiary, by the length of the run */
	Bytes		at_end[MAX_CHARACTERS + 1];
} Learned;

struct LsKeyCollation
{
	pg_locale_t locale;
	LsKeyCollation *next;
	int			seen;			/* strings that are short enough; LEARN_AFTER: it has been tried */
	Learned    *learned;
};

/* ---- asking */

static void
ask(pg_locale_t locale, const char *bytes, Size len, StringInfo out)
{
	/* Sort keys of short strings are rarely longer than this. */
	Size		room = 4 * len + 32;

	for (;;)
	{
		int			start = out->len;
		char	   *to = (char *) ls_key_extend(out, room);
		Size		n = pg_strnxfrm(to, room, bytes, (ssize_t) len, locale);

		if (n < room)
		{
			out->len = start + (int) n;
			return;
		}
		out->len = start;
		room = n + 1;
	}
}

/* ---- as learned */

static inline uint8 *
put(uint8 *to, const Bytes *b)
{
	memcpy(to, b->bytes, MAX_RUN_BYTES);
	return to + b->len;
}

/* false: this string is for ICU, and nothing has been written. */
static bool
put_learned(const Learned *learned, const char *bytes, Size len, StringInfo out)
{
	uint8		tertiary[MAX_CHARACTERS * MAX_WEIGHT_BYTES + 2 * MAX_RUN_BYTES];
	uint8	   *t = tertiary;
	uint8	   *first,
			   *to;
	int			run = 0;
	int			start = out->len;

	if (len == 0 || len > MAX_CHARACTERS)
		return false;
	first = to = ls_key_extend(out, 2 * len * MAX_WEIGHT_BYTES + 4 * MAX_RUN_BYTES);
	for (Size i = 0; i < len; i++)
	{
		uint8		c = (uint8) bytes[i];

		if (learned->primary[c].len == 0)
		{
			out->len = start;
			return false;
		}
		memcpy(to, learned->primary[c].weight, MAX_WEIGHT_BYTES);
		to += learned->primary[c].len;
		if (!learned->primary[c].capital)
			run++;
		else
		{
			t = put(put(t, &learned->before_capital[run]), &learned->capital);
			run = 0;
		}
	}
	t = put(t, &learned->at_end[run]);
	*to++ = 0x01;
	to = put(to, &learned->secondary[len]);
	*to++ = 0x01;
	memcpy(to, tertiary, t - tertiary);
	to += t - tertiary;
	out->len = start + (int) (to - first);
	return true;
}

/* ---- learning */

#ifdef USE_ICU

typedef struct Levels
{
	const uint8 *bytes[3];
	Size		len[3];
} Levels;

/* The levels of the sort key of a string; false: there are not three. */
static bool
ask_levels(pg_locale_t locale, const char *string, Size len, StringInfo buffer, Levels *levels)
{
	const uint8 *from,
			   *end;

	resetStringInfo(buffer);
	ask(locale, string, len, buffer);
	from = (const uint8 *) buffer->data;
	end = from + buffer->len;
	for (int i = 0; i < 3; i++)
	{
		const uint8 *separator = memchr(from, 0x01, end - from);
		const uint8 *behind = separator != NULL ? separator : end;

		if ((separator == NULL) != (i == 2))
			return false;
		levels->bytes[i] = from;
		levels->len[i] = behind - from;
		from = behind + 1;
	}
	return true;
}

static bool
keep(Bytes *b, const uint8 *bytes, Size len)
{
	/* half: a string's tertiary weights fit into the buffer above */
	if (len > MAX_RUN_BYTES / 2)
		return false;
	b->len = (uint8) len;
	memcpy(b->bytes, bytes, len);
	return true;
}

static bool
is(const Bytes *b, const Levels *levels, int level)
{
	return b->len == levels->len[level] && memcmp(b->bytes, levels->bytes[level], b->len) == 0;
}

/* The settings under which the above holds. */
static bool
has_usual_settings(UCollator *collator)
{
	static const struct
	{
		UColAttribute attribute;
		UColAttributeValue value;
	}			wanted[] = {
		{UCOL_STRENGTH, UCOL_TERTIARY},
		{UCOL_ALTERNATE_HANDLING, UCOL_NON_IGNORABLE},
		{UCOL_CASE_LEVEL, UCOL_OFF},
		{UCOL_FRENCH_COLLATION, UCOL_OFF},
		{UCOL_NUMERIC_COLLATION, UCOL_OFF}
	};

	for (int i = 0; i < lengthof(wanted); i++)
	{
		UErrorCode	error = U_ZERO_ERROR;

		if (ucol_getAttribute(collator, wanted[i].attribute, &error) != wanted[i].value ||
			U_FAILURE(error))
			return false;
	}
	return true;
}

/*
 * Mark the ASCII characters that contract with one another, or are changed by what is before them.
 */
static bool
find_contractions(UCollator *collator, bool *contracts)
{
	UErrorCode	error = U_ZERO_ERROR;
	USet	   *set = uset_openEmpty();
	int			n;

	ucol_getContractionsAndExpansions(collator, set, NULL, true, &error);
	n = U_SUCCESS(error) ? uset_getItemCount(set) : 0;
	for (int i = 0; i < n && U_SUCCESS(error); i++)
	{
		UChar		string[64];
		UChar32		first,
					last;
		int			len = uset_getItem(set, i, &first, &last, string, lengthof(string), &error);
		bool		ascii = true;

		for (int k = 0; k < len && ascii; k++)
			ascii = string[k] < 128;
		for (int k = 0; k < len && ascii; k++)
			contracts[string[k]] = true;
	}
	uset_close(set);
	return U_SUCCESS(error);
}

/* Runs of the small letter `small`, with and without its capital behind them. */
static bool
learn_runs(Learned *learned, pg_locale_t locale, char small, StringInfo buffer)
{
	char		string[MAX_CHARACTERS + 1];
	char		capital = pg_toupper(small);
	Levels		levels;

	memset(string, small, sizeof(string));
	if (!ask_levels(locale, &capital, 1, buffer, &levels) ||
		!keep(&learned->capital, levels.bytes[2], levels.len[2]))
		return false;
	for (int n = 1; n <= MAX_CHARACTERS; n++)
	{
		if (!ask_levels(locale, string, n, buffer, &levels) ||
			!keep(&learned->secondary[n], levels.bytes[1], levels.len[1]) ||
			!keep(&learned->at_end[n], levels.bytes[2], levels.len[2]))
			return false;
		string[n] = capital;
		if (!ask_levels(locale, string, n + 1, buffer, &levels) ||
			levels.len[2] < learned->capital.len ||
			!keep(&learned->before_capital[n], levels.bytes[2],
				  levels.len[2] - learned->capital.len))
			return false;
		string[n] = small;
	}
	return true;
}

static void
learn_character(Learned *learned, pg_locale_t locale, uint8 c, StringInfo buffer)
{
	char		twice[2] = {(char) c, (char) c};
	uint8		weight[MAX_WEIGHT_BYTES];
	Size		len;
	bool		capital;
	Levels		levels;

	if (!ask_levels(locale, twice, 1, buffer, &levels))
		return;
	len = levels.len[0];
	capital = is(&learned->capital, &levels, 2);
	if (len == 0 || len > sizeof(weight) || !is(&learned->secondary[1], &levels, 1) ||
		!(capital || is(&learned->at_end[1], &levels, 2)))
		return;
	memcpy(weight, levels.bytes[0], len);

	/* Weights that begin alike are compressed in some scripts. */
	if (!ask_levels(locale, twice, 2, buffer, &levels) || levels.len[0] != 2 * len ||
		memcmp(levels.bytes[0], weight, len) != 0 ||
		memcmp(levels.bytes[0] + len, weight, len) != 0)
		return;
	memcpy(learned->primary[c].weight, weight, len);
	learned->primary[c].capital = capital;
	learned->primary[c].len = (uint8) len;
}

/* Do the answers explain those for other strings? */
static bool
explains(const Learned *learned, pg_locale_t locale, StringInfo buffer)
{
	char		known[128];
	char		string[MAX_CHARACTERS];
	uint32		n_known = 0;
	uint32		random = 1;
	StringInfoData own;

	for (int c = 1; c < 128; c++)
		if (learned->primary[c].len > 0)
			known[n_known++] = (char) c;
	if (n_known == 0)
		return false;
	initStringInfo(&own);
	for (int i = 0; i < 200; i++)
	{
		Size		len = i % MAX_CHARACTERS + 1;

		for (Size k = 0; k < len; k++)
		{
			random = random * 1664525 + 1013904223;
			string[k] = known[(random >> 8) % n_known];
		}
		resetStringInfo(buffer);
		ask(locale, string, len, buffer);
		resetStringInfo(&own);
		if (!put_learned(learned, string, len, &own) ||
			own.len != buffer->len || memcmp(own.data, buffer->data, own.len) != 0)
			return false;
	}
	return true;
}

static Learned *
learn(pg_locale_t locale)
{
	Learned    *learned = palloc0(sizeof(Learned));
	bool		contracts[128] = {0};
	char		small = 'a';
	StringInfoData buffer;

	if (locale->provider != COLLPROVIDER_ICU || !has_usual_settings(locale->info.icu.ucol) ||
		!find_contractions(locale->info.icu.ucol, contracts))
		return NULL;
	while (small <= 'z' && (contracts[(int) small] || contracts[pg_toupper((unsigned char) small)]))
		small++;
	initStringInfo(&buffer);
	if (small > 'z' || !learn_runs(learned, locale, small, &buffer))
		return NULL;
	for (int c = 1; c < 128; c++)
		if (!contracts[c])
			learn_character(learned, locale, (uint8) c, &buffer);
	return explains(learned, locale, &buffer) ? learned : NULL;
}

#else							/* !USE_ICU */

static Learned *
learn(pg_locale_t locale)
{
	return NULL;
}

#endif

static void
try_to_learn(LsKeyCollation *collation)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "leanstore collation",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	Learned    *learned = learn(collation->locale);

	MemoryContextSwitchTo(caller);
	if (learned != NULL)
	{
		collation->learned = MemoryContextAlloc(TopMemoryContext, sizeof(Learned));
		*collation->learned = *learned;
	}
	MemoryContextDelete(context);
}

/* ---- for the encodings */

/* Locales live as long as the process, and so do these. */
LsKeyCollation *
ls_key_collation(pg_locale_t locale)
{
	static LsKeyCollation *all = NULL;
	LsKeyCollation *collation;

	for (collation = all; collation != NULL; collation = collation->next)
		if (collation->locale == locale)
			return collation;
	collation = MemoryContextAllocZero(TopMemoryContext, sizeof(LsKeyCollation));
	collation->locale = locale;
	collation->next = all;
	all = collation;
	return collation;
}

void
ls_key_put_sort_key(LsKeyCollation *collation, const char *bytes, Size len, StringInfo out)
{
#ifdef USE_ASSERT_CHECKING
	int			start = out->len;
#endif

	if (collation->learned == NULL || !put_learned(collation->learned, bytes, len, out))
	{
		if (collation->seen < LEARN_AFTER && len <= MAX_CHARACTERS &&
			++collation->seen == LEARN_AFTER)
			try_to_learn(collation);
		ask(collation->locale, bytes, len, out);
		return;
	}

#ifdef USE_ASSERT_CHECKING
	{
		StringInfoData other;

		initStringInfo(&other);
		ask(collation->locale, bytes, len, &other);
		Assert(out->len - start == other.len &&
			   memcmp(out->data + start, other.data, other.len) == 0);
		pfree(other.data);
	}
#endif
}

bool
ls_key_is_learned(const LsKeyCollation *collation, char c)
{
	return collation->learned != NULL && collation->learned->primary[(uint8) c].len > 0;
}
