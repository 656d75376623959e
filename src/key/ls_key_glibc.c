/*
 * ls_key_glibc.c - sort keys that agree with glibc's strcoll(), where its strxfrm() does not.
 *
 * Both see a string as elements, each with weights for each level, and compare level by level. In
 * some sections of a collation (digits and signs, since glibc 2.28) elements are taken backward on
 * a level.  strcoll() does that in its own way: of a run that is followed by an element taken
 * forward it leaves out the last but one; and where elements without weights are before the run it
 * takes the run to begin with them.  So "77H" and "7-7H" have other numbers of weights, and other
 * places, than for strxfrm().  Both are orders without contradiction.  PostgreSQL's is strcoll()'s.
 *
 * So the weights are read here from the tables of the locale, which nl_langinfo_l() gives, and are
 * written as strxfrm() would: levels with 0x01 between them, on a level with positions the
 * distance from the element before as a number.  Whether what is made of the tables agrees with
 * strcoll() is tried before it is used (ls_key_libc.c).
 *
 * Tables: `first` has for each byte an element, or (negative) where in `longer` the sequences are
 * that begin with this byte.  There each entry has an element and the bytes that follow; or
 * (negative) two such sequences and where in `ranges` the elements are of all between them. Entries
 * are padded to four bytes.  The last one has no more bytes.  An element is eight bits for its
 * section, and where its weights are: for each level their number, and they.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "mb/pg_wchar.h"

#if defined(__GLIBC__)

#include <langinfo.h>

#define MAX_LEVELS 8
#define SEPARATOR 0x01
#define ACCENTS_LEVEL 1

/* An element: its section, and where its weights are. */
#define SECTION_SHIFT 24
#define WEIGHTS_MASK 0xFFFFFF

/* Of a section and level. */
#define TAKEN_BACKWARD 2
#define WITH_POSITIONS 4

struct LsKeyGlibc
{
	int			n_levels;
	const uint8 *rules;
	const int32 *first;
	const uint8 *weights;
	const uint8 *longer;
	const int32 *ranges;
	StringInfoData string;		/* the string at hand, with 0x00 behind it, */
	StringInfoData elements;	/* and its elements */
};

typedef struct Element
{
	const uint8 *weights;		/* of the level at hand: their number, and they */
	uint8		section;
	uint8		backward;		/* a bit for each level: it is taken so */
} Element;

StaticAssertDecl(MAX_LEVELS <= 8, "a bit for each level");

LsKeyGlibc *
ls_key_glibc_open(pg_locale_t locale)
{
	locale_t	libc = locale->info.lt;
	uintptr_t	n_levels = (uintptr_t) nl_langinfo_l(_NL_COLLATE_NRULES, libc);
	LsKeyGlibc *g;

	if ((uint32) n_levels == 0 || (uint32) n_levels > MAX_LEVELS)
		return NULL;
	g = palloc0_object(LsKeyGlibc);
	g->n_levels = (int) n_levels;
	g->rules = (const uint8 *) nl_langinfo_l(_NL_COLLATE_RULESETS, libc);
	g->first = (const int32 *) nl_langinfo_l(_NL_COLLATE_TABLEMB, libc);
	g->weights = (const uint8 *) nl_langinfo_l(_NL_COLLATE_WEIGHTMB, libc);
	g->longer = (const uint8 *) nl_langinfo_l(_NL_COLLATE_EXTRAMB, libc);
	g->ranges = (const int32 *) nl_langinfo_l(_NL_COLLATE_INDIRECTMB, libc);
	if (g->rules == NULL || g->first == NULL || g->weights == NULL || g->longer == NULL ||
		g->ranges == NULL)
		return NULL;
	initStringInfo(&g->string);
	initStringInfo(&g->elements);
	return g;
}

/* ---- elements -------------------------------------------------------------- */

/* In a table of bytes. */
static inline int32
number_at(const uint8 *at)
{
	int32		number;

	memcpy(&number, at, sizeof(number));
	return number;
}

/* The bytes of an entry behind its first number: how many there are with their padding. */
static inline Size
padded(Size n)
{
	return TYPEALIGN(sizeof(int32), 1 + n) - 1;
}

/* What the string has less these bytes, as a number of so many bytes; < 0: it is less. */
static int64
distance(const uint8 *string, const uint8 *from, int n)
{
	int64		result = 0;

	for (int i = 0; i < n; i++)
	{
		if (string[i] == 0)
			return -1;
		result = result * 256 + string[i] - from[i];
		if (result < 0)
			return -1;
	}
	return result;
}

/* The element that begins with this byte; *at: behind it. */
static int32
read_element(const LsKeyGlibc *g, const uint8 **at)
{
	int32		element = g->first[*(*at)++];
	const uint8 *entry;

	if (element >= 0)
		return element;
	for (entry = g->longer - element;;)
	{
		int			n = entry[sizeof(int32)];
		const uint8 *bytes = entry + sizeof(int32) + 1;

		element = number_at(entry);
		if (element >= 0)
		{
			if (strncmp((const char *) bytes, (const char *) *at, n) == 0)
			{
				*at += n;
				return element;
			}
			entry = bytes + padded(n);
		}
		else
		{
			const uint8 *last = bytes + n;
			int64		from = distance(*at, bytes, n);

			if (from >= 0 && memcmp(*at, last, n) <= 0)
			{
				*at += n;
				return g->ranges[-element + from];
			}
			entry = bytes + padded(2 * (Size) n);
		}
	}
}

/* ---- levels ---------------------------------------------------------------- */

static inline int
rule_of(const LsKeyGlibc *g, int section, int level)
{
	return g->rules[section * g->n_levels + level];
}

static uint8
backward_levels(const LsKeyGlibc *g, int section)
{
	uint8		levels = 0;

	for (int level = 0; level < g->n_levels; level++)
		if (rule_of(g, section, level) & TAKEN_BACKWARD)
			levels |= 1 << level;
	return levels;
}

/* A position: few are above 1. */
static void
put_number(StringInfo out, uint32 n)
{
	pg_wchar	c = (pg_wchar) Min(n, 0x10FFFF);
	unsigned char bytes[4];

	unicode_to_utf8(c, bytes);
	ls_key_put(out, bytes, unicode_utf8len(c));
}

/* false: it has none. */
static inline bool
put_weights(const Element *element, uint32 *position, StringInfo out)
{
	int			n = *element->weights;

	if (position != NULL && n > 0)
	{
		put_number(out, *position);
		*position = 1;
	}
	else if (position != NULL)
		(*position)++;
	ls_key_put(out, element->weights + 1, n);
	return n > 0;
}

/* Where strcoll() is on a level. */
typedef struct Walk
{
	int			n;				/* elements */
	int			at;				/* of these the next one */
	int			seen;			/* behind the last one that had weights, or the last run */
	bool		in_run;
	int			run;			/* where strcoll() takes the run to begin */
	int			left;			/* of it, the first ones */
	int			forward;		/* what comes behind it; n: nothing */
} Walk;

/* < 0: there is none. */
static int
next_element(const LsKeyGlibc *g, int level, Walk *walk)
{
	const Element *elements = (const Element *) g->elements.data;
	const uint8 backward = 1 << level;
	int			start = walk->at;

	if (walk->in_run && walk->left > 0)
		return walk->run + --walk->left;
	if (walk->in_run)
	{
		walk->in_run = false;
		return walk->forward < walk->n ? walk->forward : -1;
	}

	while (walk->at < walk->n && (elements[walk->at].backward & backward))
		walk->at++;
	if (walk->at == start)
		return start < walk->n ? walk->at++ : -1;
	walk->left = Max(walk->at - start - (walk->at < walk->n ? 2 : 1), 0);
	walk->forward = walk->at;
	walk->run = walk->seen;
	walk->in_run = true;
	start = walk->at - 1;
	if (walk->at < walk->n)
		walk->at++;
	walk->seen = walk->at;
	return start;
}

static void
put_level(const LsKeyGlibc *g, int level, StringInfo out)
{
	Element    *elements = (Element *) g->elements.data;
	int			n = g->elements.len / (int) sizeof(Element);
	uint32		count = 1;
	uint32	   *position = rule_of(g, elements[0].section, level) & WITH_POSITIONS ? &count : NULL;
	Walk		walk = {.n = n};

	for (int next = next_element(g, level, &walk); next >= 0; next = next_element(g, level, &walk))
		if (put_weights(&elements[next], position, out))
			walk.seen = walk.at;
	for (int i = 0; i < n; i++)
		elements[i].weights += 1 + *elements[i].weights;
}

/* Of a string that is not empty. */
static void
read_elements(LsKeyGlibc *g, const char *bytes, Size len)
{
	const uint8 *at;

	resetStringInfo(&g->string);
	resetStringInfo(&g->elements);
	ls_key_put(&g->string, bytes, len);
	ls_key_put8(&g->string, 0);
	at = (const uint8 *) g->string.data;
	while (*at != 0)
	{
		int32		element = read_element(g, &at);
		uint8		section = (uint8) ((uint32) element >> SECTION_SHIFT);

		*(Element *) ls_key_extend(&g->elements, sizeof(Element)) = (Element)
		{
			.weights = g->weights + (element & WEIGHTS_MASK), .section = section,
			.backward = backward_levels(g, section)
		};
	}
}

void
ls_key_glibc_put(LsKeyGlibc *g, const char *bytes, Size len, StringInfo out)
{
	if (len == 0)
		return;					/* before all others, whatever these are */
	read_elements(g, bytes, len);
	for (int level = 0; level < g->n_levels; level++)
	{
		if (level > 0)
			ls_key_put8(out, SEPARATOR);
		put_level(g, level, out);
	}
}

int
ls_key_glibc_accents(LsKeyGlibc *g, const char *bytes, Size len)
{
	Element    *elements;
	Walk		walk;
	int			n = 0;

	if (len == 0)
		return 0;
	read_elements(g, bytes, len);
	elements = (Element *) g->elements.data;
	walk = (Walk) {.n = g->elements.len / (int) sizeof(Element)};
	for (int i = 0; i < walk.n; i++)
		elements[i].weights += 1 + *elements[i].weights;
	for (int next = next_element(g, ACCENTS_LEVEL, &walk); next >= 0;
		 next = next_element(g, ACCENTS_LEVEL, &walk))
		if (*elements[next].weights > 0)
		{
			n += *elements[next].weights;
			walk.seen = walk.at;
		}
	return n;
}

bool
ls_key_glibc_is_alone(const LsKeyGlibc *g, uint8 byte, bool *backward)
{
	int32		element = g->first[byte];
	int			section = (int) ((uint32) element >> SECTION_SHIFT);

	if (element < 0 || g->n_levels != LS_KEY_GLIBC_LEVELS)
		return false;
	*backward = (backward_levels(g, section) & 1 << ACCENTS_LEVEL) != 0;
	for (int level = 0; level < g->n_levels; level++)
		if (((rule_of(g, section, level) & WITH_POSITIONS) != 0) != (level == g->n_levels - 1))
			return false;
	return (backward_levels(g, section) & ~(1 << ACCENTS_LEVEL)) == 0;
}

#else							/* no glibc */

LsKeyGlibc *
ls_key_glibc_open(pg_locale_t locale)
{
	return NULL;
}

void
ls_key_glibc_put(LsKeyGlibc *g, const char *bytes, Size len, StringInfo out)
{
	pg_unreachable();
}

int
ls_key_glibc_accents(LsKeyGlibc *g, const char *bytes, Size len)
{
	pg_unreachable();
}

bool
ls_key_glibc_is_alone(const LsKeyGlibc *g, uint8 byte, bool *backward)
{
	pg_unreachable();
}

#endif
