/*
 * ls_key_sort_key.c - sort keys of strings under collations of libc: as strxfrm() makes them,
 * shorter, and what tells strings apart that have equal ones.
 *
 * glibc writes a sort key as levels with 0x01 between them: weights of letters, of accents, of
 * case, and of everything again.  A weight is a *unit*: a number as UTF-8 writes it, so its first
 * byte tells its length.  Nine letters have about 80 bytes.  What is written here of each level
 * orders as the level does, and tells where it ends:
 *
 * - Letters: the units of common letters are learned, and written as one byte each, their rank.
 *	 Others have an odd byte, which says between which of those they lie, and the unit.
 * - Accents and case: all but a few units are 0x02, the least one.  A run of these is
 *	 written as its length: the longer one is the greater where a run is followed by the end,
 *	 and the less where a greater unit follows.
 * - What follows has a unit for each character, signs and blanks included.  Most of them can be
 *	 guessed from the first levels, so what is written is how many of the next ones are as
 *	 guessed, and then one that is not: again the more the greater, if it is less than the one that
 *	 was guessed, and the more the less, if it is greater.  It is taken for one that stands before
 *	 that.  Without a guess all units are written as the letters are.
 *
 * Behind that come the bytes of the string, which break ties as the comparison does; but most
 * strings can be read from their sort keys, too.  So the bytes are compared with those of the
 * characters that were guessed, or learned with their units.  One byte says "they are these"; all
 * that is other goes before that or behind, and is written.
 *
 * Whatever the guesses are: the order is right as long as they depend on nothing but what stands
 * before.
 *
 * Which characters are learned, and what their weights are, is part of the encoding: it may not
 * change while an index exists (the fingerprint of ls_key_libc.c).
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "mb/pg_wchar.h"

/* Between levels, in a sort key, and what is written for it and for the end of the sort key. */
#define SEPARATOR 0x01
#define END 0x01
#define NEXT_LEVEL 0x02

/* Codes of the first and of the last level: CODE(i) is the i-th learned unit, GAP(i) before it. */
#define MAX_LEARNED 124
#define GAP(i) (0x03 + 2 * (i))
#define CODE(i) (0x04 + 2 * (i))
#define IS_GAP(code) (((code) & 1) != 0)
#define RANK(code) (((code) - 0x04) / 2)

/* Of the last level: an 0x01 with nothing behind it; a unit with no 0x01 before. */
#define CODE_SEPARATOR 0x02
#define CODE_UNIT 0xFE

/*
 * Of the last level with a guess: so many units are as guessed, then comes one that is less, or
 * greater.  Or all are as guessed to the end, and here is how the bytes compare with theirs.
 */
#define MAX_RIGHT 120
#define RIGHT_LESS(n) (0x02 + (n))
#define LONG_RIGHT_LESS 0x7A
#define ALL_RIGHT(order) (0x7C + (order))
#define LONG_RIGHT_GREATER 0x80
#define RIGHT_GREATER(n) (0xFE - (n))

/* Runs: their length with the end behind them, the next level, or a greater unit. */
#define COMMON_UNIT 0x02
#define MAX_RUN 60
#define RUN_END(n) (0x03 + 2 * (n))
#define RUN_NEXT(n) (0x04 + 2 * (n))
#define LONG_RUN_LESS 0x7D
#define LONG_RUN_GREATER 0xB9
#define RUN_GREATER(n) (0xF7 - (n))

/* How the bytes compare with what they were taken for: -1, 0, 1. */
#define ORDER(order) (0x02 + (order))

#define MAX_CHARACTER_UNITS 3	/* of a learned character, on the levels of accents and case */
#define MAX_CHARACTERS 512

/* Strings of more letters, or units, are not guessed. */
#define MAX_GUESSED_LETTERS 255
#define MAX_GUESSED_UNITS 512

#define KEPT_BUFFER_BYTES 16384

/* Units of one byte and of two, numbered. */
#define SHORT_UNITS (0x80 + 0x20 * 0x40)
#define IS_SHORT(unit) ((unit) < 0x10000)
#define SHORT_NUMBER(unit) \
	((unit) < 0x80 ? (unit) : 0x80 + (((unit) >> 8 & 0x1F) << 6 | ((unit) & 0x3F)))

typedef uint32 Unit;			/* its bytes, the first one highest; 0: none */

/* What the last level consists of; in their order as numbers. */
typedef uint64 Token;
#define END_TOKEN UINT64CONST(0)
#define SEPARATOR_TOKEN (UINT64CONST(1) << 32)
#define SEPARATED_TOKEN(unit) (UINT64CONST(2) << 32 | (unit))
#define UNIT_TOKEN(unit) (UINT64CONST(3) << 32 | (unit))

/* Accents and case of a character, or of a string. */
enum
{
	ACCENTS, CASE, RUN_LEVELS
};

typedef struct Character
{
	uint8		len;
	char		bytes[MAX_MULTIBYTE_CHAR_LEN];
	Unit		letter;			/* 0: none, or too many */
	Unit		last;			/* as above */
	int			n[RUN_LEVELS];
	Unit		units[RUN_LEVELS][MAX_CHARACTER_UNITS];
	int			next;			/* with the same letter; -1: none */
} Character;

/* Units that are learned, in their order, and of each the first character that has it. */
typedef struct Learned
{
	int			n;
	Unit		units[MAX_LEARNED];
	int			first[MAX_LEARNED];
} Learned;

/* What a string's first levels are, to guess it. */
typedef struct Weights
{
	int			n_letters;
	uint8		letters[MAX_GUESSED_LETTERS];	/* their ranks */
	int			n[RUN_LEVELS];
	Unit		units[RUN_LEVELS][MAX_GUESSED_UNITS];
	bool		unknown;		/* there is a letter that is not learned, or too much */
} Weights;

struct LsKeySortKeys
{
	pg_locale_t locale;
	LsKeyGlibc *glibc;			/* NULL: strxfrm() is asked */
	MemoryContext context;		/* of this */
	int			n_characters;
	Character	characters[MAX_CHARACTERS];
	Learned		letters;
	Learned		last;
	const Character *plain[MAX_LEARNED];	/* of a letter: with COMMON_UNITs only, one each */
	uint8		letter_codes[SHORT_UNITS];	/* of units of one byte and of two */

	/* Of the string at hand: what the C library says, what its first levels are, ... */
	StringInfoData raw;
	Weights		weights;

	/* ... what they are taken for, and what the bytes are taken for after the last level. */
	int			n_guessed;
	const Character *guess[MAX_GUESSED_LETTERS];
	StringInfoData taken_for;
};

/* ---- units ----------------------------------------------------------------- */

/* The unit that begins here; 0: what is here is none. */
static Unit
read_unit(const uint8 **at, const uint8 *end)
{
	const uint8 *p = *at;
	Unit		unit;
	int			more;

	if (p >= end)
		return 0;
	unit = *p++;
	more = unit < 0x80 ? 0 : unit < 0xC0 ? -1 : unit < 0xE0 ? 1 : unit < 0xF0 ? 2
		: unit < 0xF8 ? 3 : -1;
	if (more < 0 || more > end - p)
		return 0;
	for (; more > 0; more--)
	{
		if ((*p & 0xC0) != 0x80)
			return 0;
		unit = unit << 8 | *p++;
	}
	*at = p;
	return unit;
}

/* Into 4 bytes; how many there are. */
static int
unit_bytes(Unit unit, uint8 *to)
{
	int			n = unit < 1 << 8 ? 1 : unit < 1 << 16 ? 2 : unit < 1 << 24 ? 3 : 4;

	for (int i = 0; i < n; i++)
		to[i] = (uint8) (unit >> 8 * (n - 1 - i));
	return n;
}

static void
put_unit(StringInfo out, Unit unit)
{
	uint8		bytes[4];

	ls_key_put(out, bytes, unit_bytes(unit, bytes));
}

/* Units compare as their bytes do: what is longer begins with a greater byte. */
static int
place_of(const Learned *learned, Unit unit, bool *found)
{
	int			low = 0;
	int			high = learned->n;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (learned->units[middle] < unit)
			low = middle + 1;
		else
			high = middle;
	}
	*found = low < learned->n && learned->units[low] == unit;
	return low;
}

static void
put_learned(const Learned *learned, Unit unit, StringInfo out)
{
	bool		found;
	int			place = place_of(learned, unit, &found);

	ls_key_put8(out, (uint8) (found ? CODE(place) : GAP(place)));
	if (!found)
		put_unit(out, unit);
}

/* ---- levels, written ------------------------------------------------------- */

/* The rest of a sort key. */
typedef struct Raw
{
	const uint8 *at;
	const uint8 *end;
} Raw;

static inline bool
at_level_end(const Raw *raw)
{
	return raw->at == raw->end || *raw->at == SEPARATOR;
}

/* false, here and below: there are bytes that are no units.  *more: another level comes. */
static bool
put_letters(const LsKeySortKeys *keys, Raw *raw, bool *more, StringInfo out)
{
	while (!at_level_end(raw))
	{
		Unit		unit = read_unit(&raw->at, raw->end);

		if (unit == 0)
			return false;
		if (IS_SHORT(unit))
		{
			uint8		code = keys->letter_codes[SHORT_NUMBER(unit)];

			ls_key_put8(out, code);
			if (IS_GAP(code))
				put_unit(out, unit);
		}
		else
			put_learned(&keys->letters, unit, out);
	}
	*more = raw->at < raw->end;
	if (*more)
		raw->at++;
	ls_key_put8(out, *more ? NEXT_LEVEL : END);
	return true;
}

static bool
put_runs(Raw *raw, bool *more, StringInfo out)
{
	for (;;)
	{
		int			run = 0;
		bool		at_end;

		while (raw->at < raw->end && *raw->at == COMMON_UNIT)
		{
			raw->at++;
			run++;
		}
		at_end = at_level_end(raw);
		for (; run >= MAX_RUN; run -= MAX_RUN)
			ls_key_put8(out, at_end ? LONG_RUN_LESS : LONG_RUN_GREATER);
		if (!at_end)
		{
			Unit		unit = read_unit(&raw->at, raw->end);

			if (unit == 0)
				return false;
			ls_key_put8(out, (uint8) RUN_GREATER(run));
			put_unit(out, unit);
			continue;
		}
		*more = raw->at < raw->end;
		if (*more)
			raw->at++;
		ls_key_put8(out, (uint8) (*more ? RUN_NEXT(run) : RUN_END(run)));
		return true;
	}
}

/* false: it has bytes that are no units. */
static bool
next_token(Raw *raw, Token *token)
{
	bool		separated = raw->at < raw->end && *raw->at == SEPARATOR;
	Unit		unit;

	*token = separated ? SEPARATOR_TOKEN : END_TOKEN;
	raw->at += separated;
	if (raw->at == raw->end)
		return true;
	unit = read_unit(&raw->at, raw->end);
	*token = separated ? SEPARATED_TOKEN(unit) : UNIT_TOKEN(unit);
	return unit != 0;
}

static void
put_token(const LsKeySortKeys *keys, Token token, StringInfo out)
{
	if (token == END_TOKEN)
		ls_key_put8(out, END);
	else if (token == SEPARATOR_TOKEN)
		ls_key_put8(out, CODE_SEPARATOR);
	else if (token < UNIT_TOKEN(0))
		put_learned(&keys->last, (Unit) token, out);
	else
	{
		ls_key_put8(out, CODE_UNIT);
		put_unit(out, (Unit) token);
	}
}

/* ---- levels, read ---------------------------------------------------------- */

/* A unit that was written; damage ends in an error. */
static Unit
read_written_unit(LsKeyReader *reader)
{
	const uint8 *at = reader->bytes;
	Unit		unit = read_unit(&at, reader->bytes + reader->left);

	if (unit == 0)
		ls_key_damaged();
	(void) ls_key_read(reader, at - reader->bytes);
	return unit;
}

/* *more: another level comes. */
static void
read_letters(LsKeyReader *reader, Weights *weights, bool *more)
{
	uint8		code;

	while ((code = *ls_key_read(reader, 1)) > NEXT_LEVEL)
	{
		if (IS_GAP(code))
			(void) read_written_unit(reader);
		if (IS_GAP(code) || weights->n_letters == MAX_GUESSED_LETTERS)
			weights->unknown = true;
		else
			weights->letters[weights->n_letters++] = RANK(code);
	}
	*more = code == NEXT_LEVEL;
}

static void
add_units(Weights *weights, int level, Unit unit, int n)
{
	if (n > MAX_GUESSED_UNITS - weights->n[level])
	{
		weights->unknown = true;
		return;
	}
	while (n-- > 0)
		weights->units[level][weights->n[level]++] = unit;
}

static void
read_runs(LsKeyReader *reader, Weights *weights, int level, bool *more)
{
	for (;;)
	{
		uint8		code = *ls_key_read(reader, 1);

		if (code == LONG_RUN_LESS || code == LONG_RUN_GREATER)
			add_units(weights, level, COMMON_UNIT, MAX_RUN);
		else if (code > RUN_GREATER(MAX_RUN) && code <= RUN_GREATER(0))
		{
			add_units(weights, level, COMMON_UNIT, RUN_GREATER(0) - code);
			add_units(weights, level, read_written_unit(reader), 1);
		}
		else if (code >= RUN_END(0) && code < RUN_END(MAX_RUN))
		{
			add_units(weights, level, COMMON_UNIT, (code - RUN_END(0)) / 2);
			*more = (code - RUN_END(0)) % 2 == 1;
			return;
		}
		else
			ls_key_damaged();
	}
}

static Token
read_token(const LsKeySortKeys *keys, LsKeyReader *reader)
{
	uint8		code = *ls_key_read(reader, 1);

	switch (code)
	{
		case END:
			return END_TOKEN;
		case CODE_SEPARATOR:
			return SEPARATOR_TOKEN;
		case CODE_UNIT:
			return UNIT_TOKEN(read_written_unit(reader));
		default:
			if (IS_GAP(code))
				return SEPARATED_TOKEN(read_written_unit(reader));
			if (RANK(code) < 0 || RANK(code) >= keys->last.n)
				ls_key_damaged();
			return SEPARATED_TOKEN(keys->last.units[RANK(code)]);
	}
}

/* ---- guesses --------------------------------------------------------------- */

static void
reset(StringInfo buffer, MemoryContext context)
{
	if (buffer->maxlen > KEPT_BUFFER_BYTES)
	{
		pfree(buffer->data);
		buffer->data = MemoryContextAlloc(context, KEPT_BUFFER_BYTES);
		buffer->maxlen = KEPT_BUFFER_BYTES;
	}
	resetStringInfo(buffer);
}

static inline bool
fits(const Character *c, const Weights *weights, const int *at)
{
	for (int level = 0; level < RUN_LEVELS; level++)
	{
		if (c->n[level] > weights->n[level] - at[level])
			return false;
		for (int i = 0; i < c->n[level]; i++)
			if (c->units[level][i] != weights->units[level][at[level] + i])
				return false;
	}
	return true;
}

/*
 * The character with this letter: the one without accent in lower case, if there is a sign of
 * nothing else; or the one that explains most.
 */
static inline const Character *
best_character(const LsKeySortKeys *keys, int letter, const int *at)
{
	const Weights *weights = &keys->weights;
	const Unit *accent = &weights->units[ACCENTS][at[ACCENTS]];
	const Character *best = NULL;

	if (letter >= keys->letters.n)
		ls_key_damaged();
	if (keys->plain[letter] != NULL &&
		at[ACCENTS] < weights->n[ACCENTS] && accent[0] == COMMON_UNIT &&
		(at[ACCENTS] + 1 == weights->n[ACCENTS] || accent[1] == COMMON_UNIT) &&
		at[CASE] < weights->n[CASE] && weights->units[CASE][at[CASE]] == COMMON_UNIT)
		return keys->plain[letter];
	for (int i = keys->letters.first[letter]; i >= 0; i = keys->characters[i].next)
	{
		const Character *c = &keys->characters[i];

		if (fits(c, &keys->weights, at) &&
			(best == NULL || c->n[ACCENTS] + c->n[CASE] > best->n[ACCENTS] + best->n[CASE]))
			best = c;
	}
	return best;
}

/* Read the first three levels, and guess the last one; false: there is no guess. */
static bool
guess_last(LsKeySortKeys *keys, LsKeyReader *reader)
{
	Weights    *weights = &keys->weights;
	int			at[RUN_LEVELS] = {0};
	bool		more;

	weights->n_letters = weights->n[ACCENTS] = weights->n[CASE] = 0;
	weights->unknown = false;
	read_letters(reader, weights, &more);
	for (int level = 0; level < RUN_LEVELS && more; level++)
		read_runs(reader, weights, level, &more);
	if (weights->unknown)
		return false;

	keys->n_guessed = weights->n_letters;
	for (int i = 0; i < weights->n_letters; i++)
	{
		const Character *c = best_character(keys, weights->letters[i], at);

		if (c == NULL)
			return false;
		for (int level = 0; level < RUN_LEVELS; level++)
			at[level] += c->n[level];
		keys->guess[i] = c;
	}
	return at[ACCENTS] == weights->n[ACCENTS] && at[CASE] == weights->n[CASE];
}

/* ---- learning -------------------------------------------------------------- */

static void
ask(LsKeySortKeys *keys, const char *bytes, Size len)
{
	Size		room = 10 * len + 32;

	reset(&keys->raw, keys->context);
	if (keys->glibc != NULL)
	{
		ls_key_glibc_put(keys->glibc, bytes, len, &keys->raw);
		return;
	}
	for (;;)
	{
		char	   *to = (char *) ls_key_extend(&keys->raw, room);
		Size		n = pg_strnxfrm(to, room, bytes, (ssize_t) len, keys->locale);

		if (n < room)
		{
			keys->raw.len = (int) n;
			return;
		}
		keys->raw.len = 0;
		room = n + 1;
	}
}

const StringInfoData *
ls_key_sort_keys_ask(LsKeySortKeys *keys, const char *bytes, Size len)
{
	ask(keys, bytes, len);
	return &keys->raw;
}

/* The units of a level, if there are at most so many; -1: there are more, or none are there. */
static int
learn_level(Raw *raw, Unit *units, int most)
{
	int			n = 0;

	while (!at_level_end(raw))
	{
		Unit		unit = read_unit(&raw->at, raw->end);

		if (unit == 0 || n == most)
			return -1;
		units[n++] = unit;
	}
	if (raw->at < raw->end)
		raw->at++;
	return n;
}

/*
 * A candidate.  Those with a letter are for guesses by weights, all of them for guesses by the last
 * level.
 */
static void
learn_character(LsKeySortKeys *keys, const char *bytes, int len)
{
	Character  *c = &keys->characters[keys->n_characters];
	Raw			raw;
	int			n_letters;

	if (keys->n_characters == MAX_CHARACTERS)
		return;
	ask(keys, bytes, len);
	raw = (Raw) {(const uint8 *) keys->raw.data, (const uint8 *) keys->raw.data + keys->raw.len};
	n_letters = learn_level(&raw, &c->letter, 1);
	if (n_letters < 0)
		return;
	for (int level = 0; level < RUN_LEVELS; level++)
	{
		c->n[level] = learn_level(&raw, c->units[level], MAX_CHARACTER_UNITS);
		if (c->n[level] < 0)
			return;
	}
	if (raw.at == raw.end || *raw.at++ != SEPARATOR)
		return;
	c->last = read_unit(&raw.at, raw.end);
	if (c->last == 0 || raw.at != raw.end)
		return;
	if (n_letters == 0)
		c->letter = 0;
	c->len = (uint8) len;
	memcpy(c->bytes, bytes, len);
	keys->n_characters++;
}

/* Keep one more unit in its place, unless there are too many; its first character. */
static int *
learn_unit(Learned *learned, Unit unit, int character)
{
	bool		found;
	int			place = place_of(learned, unit, &found);

	if (found)
		return &learned->first[place];
	if (learned->n == MAX_LEARNED)
		return NULL;
	memmove(learned->units + place + 1, learned->units + place,
			(learned->n - place) * sizeof(Unit));
	memmove(learned->first + place + 1, learned->first + place,
			(learned->n - place) * sizeof(int));
	learned->units[place] = unit;
	learned->first[place] = character;
	learned->n++;
	return &learned->first[place];
}

/* Common ones first: of the first level and of the last one there is room for so many units. */
static const uint32 ranges[][2] = {
	{'a', 'z'}, {'0', '9'}, {'A', 'Z'}, {' ', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'},
	{0xC0, 0xFF}, {0x100, 0x17F}, {0x430, 0x44F}, {0x410, 0x42F}, {0x450, 0x45F}, {0x400, 0x40F},
	{0x3AC, 0x3CE}, {0x386, 0x3AB}
};

static void
learn(LsKeySortKeys *keys)
{
	for (int i = 0; i < lengthof(ranges); i++)
		for (uint32 c = ranges[i][0]; c <= ranges[i][1]; c++)
		{
			unsigned char bytes[MAX_MULTIBYTE_CHAR_LEN] = {(unsigned char) c};

			if (GetDatabaseEncoding() == PG_UTF8)
				learn_character(keys, (char *) unicode_to_utf8(c, bytes), unicode_utf8len(c));
			else if (c <= 0xFF)
				learn_character(keys, (char *) bytes, 1);
		}
	for (int i = 0; i < keys->n_characters; i++)
	{
		Character  *c = &keys->characters[i];
		int		   *first = c->letter == 0 ? NULL : learn_unit(&keys->letters, c->letter, i);

		c->next = -1;
		if (first != NULL && *first != i)
		{
			c->next = keys->characters[*first].next;
			keys->characters[*first].next = i;
		}
		(void) learn_unit(&keys->last, c->last, i);
	}
	for (int i = 0; i < keys->letters.n; i++)
		for (int k = keys->letters.first[i]; k >= 0; k = keys->characters[k].next)
		{
			const Character *c = &keys->characters[k];

			if (c->n[ACCENTS] == 1 && c->units[ACCENTS][0] == COMMON_UNIT &&
				c->n[CASE] == 1 && c->units[CASE][0] == COMMON_UNIT && keys->plain[i] == NULL)
				keys->plain[i] = c;
		}
	for (Unit number = 0; number < SHORT_UNITS; number++)
	{
		Unit		rest = number - 0x80;
		Unit		unit = number < 0x80 ? number
			: (0xC0 | rest >> 6) << 8 | 0x80 | (rest & 0x3F);
		bool		found;
		int			place = place_of(&keys->letters, unit, &found);

		keys->letter_codes[number] = (uint8) (found ? CODE(place) : GAP(place));
	}
}

LsKeySortKeys *
ls_key_sort_keys_learn(pg_locale_t locale, LsKeySource source)
{
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "leanstore sort keys",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext caller = MemoryContextSwitchTo(context);
	LsKeySortKeys *keys = palloc0_object(LsKeySortKeys);

	keys->locale = locale;
	keys->context = context;
	initStringInfo(&keys->raw);
	initStringInfo(&keys->taken_for);
	if (source == LS_KEY_GLIBC)
		keys->glibc = ls_key_glibc_open(locale);
	MemoryContextSwitchTo(caller);
	if (source == LS_KEY_GLIBC && keys->glibc == NULL)
	{
		ls_key_sort_keys_free(keys);
		return NULL;
	}
	learn(keys);
	return keys;
}

void
ls_key_sort_keys_free(LsKeySortKeys *keys)
{
	MemoryContextDelete(keys->context);
}

/* ---- the last level, and strings -------------------------------------------- */

/* What the bytes are taken for, token by token; false: they can not be told any more. */
static bool
take_token(LsKeySortKeys *keys, Token token)
{
	bool		known = false;
	int			place = 0;

	if (token == END_TOKEN)
		return true;
	if (token >= SEPARATED_TOKEN(0) && token < UNIT_TOKEN(0))
		place = place_of(&keys->last, (Unit) token, &known);
	if (known)
	{
		const Character *c = &keys->characters[keys->last.first[place]];

		ls_key_put(&keys->taken_for, c->bytes, c->len);
	}
	return known;
}

static void
take_guessed(LsKeySortKeys *keys, int from, int n)
{
	uint8	   *to = ls_key_extend(&keys->taken_for, (Size) n * MAX_MULTIBYTE_CHAR_LEN);

	for (int i = from; i < from + n; i++)
	{
		memcpy(to, keys->guess[i]->bytes, MAX_MULTIBYTE_CHAR_LEN);
		to += keys->guess[i]->len;
	}
	keys->taken_for.len = (int) (to - (uint8 *) keys->taken_for.data);
}

/*
 * Write the last level.  *known: what the bytes are taken for is known.  false: it has bytes that
 * are no units.
 */
static bool
put_last(LsKeySortKeys *keys, Raw *raw, bool *known, StringInfo out)
{
	Token		token;

	do
	{
		if (!next_token(raw, &token))
			return false;
		put_token(keys, token, out);
		*known &= take_token(keys, token);
	} while (token != END_TOKEN);
	return true;
}

static inline Token
guessed_token(const LsKeySortKeys *keys, int at)
{
	return at < keys->n_guessed ? SEPARATED_TOKEN(keys->guess[at]->last) : END_TOKEN;
}

/* The same with a guess.  *all_right: the code of that is still to be written. */
static bool
put_guessed_last(LsKeySortKeys *keys, Raw *raw, bool *known, bool *all_right, StringInfo out)
{
	int			at = 0;
	Token		token;

	do
	{
		int			right = 0;
		bool		less;

		for (;;)
		{
			if (!next_token(raw, &token))
				return false;
			if (token != guessed_token(keys, at))
				break;
			*all_right = token == END_TOKEN;
			if (*all_right)
				return true;
			take_guessed(keys, at++, 1);
			right++;
		}
		less = token < guessed_token(keys, at);
		for (; right >= MAX_RIGHT; right -= MAX_RIGHT)
			ls_key_put8(out, less ? LONG_RIGHT_LESS : LONG_RIGHT_GREATER);
		ls_key_put8(out, (uint8) (less ? RIGHT_LESS(right) : RIGHT_GREATER(right)));
		put_token(keys, token, out);
		*known &= take_token(keys, token);
	} while (token != END_TOKEN);
	return true;
}

/* How the bytes compare with what they are taken for. */
static int
order_of(const LsKeySortKeys *keys, const char *bytes, Size len)
{
	Size		other = keys->taken_for.len;
	int			order = memcmp(bytes, keys->taken_for.data, Min(len, other));

	if (order == 0)
		order = (len > other) - (len < other);
	return (order > 0) - (order < 0);
}

bool
ls_key_sort_keys_put(LsKeySortKeys *keys, const char *bytes, Size len, StringInfo out)
{
	int			start = out->len;
	bool		known = true;
	bool		all_right = false;
	LsKeyReader reader;
	Raw			raw;
	bool		more;
	int			order;

	ask(keys, bytes, len);
	raw = (Raw) {(const uint8 *) keys->raw.data, (const uint8 *) keys->raw.data + keys->raw.len};
	if (!put_letters(keys, &raw, &more, out))
		return false;
	for (int level = 0; level < RUN_LEVELS && more; level++)
		if (!put_runs(&raw, &more, out))
			return false;

	reset(&keys->taken_for, keys->context);
	reader = (LsKeyReader) {(const uint8 *) out->data + start, out->len - start};
	if (guess_last(keys, &reader)
		? !put_guessed_last(keys, &raw, &known, &all_right, out)
		: !put_last(keys, &raw, &known, out))
		return false;
	order = known ? order_of(keys, bytes, len) : 0;
	if (all_right)
		ls_key_put8(out, (uint8) ALL_RIGHT(order));
	else if (known)
		ls_key_put8(out, (uint8) ORDER(order));
	if (order != 0 || !known)
		ls_key_put(out, bytes, len);
	return true;
}

static bool
read_last(LsKeySortKeys *keys, LsKeyReader *reader)
{
	bool		known = true;
	Token		token;

	do
	{
		token = read_token(keys, reader);
		known &= take_token(keys, token);
	} while (token != END_TOKEN);
	return known;
}

/* *order: that of the bytes, if all was as guessed. */
static bool
read_guessed_last(LsKeySortKeys *keys, LsKeyReader *reader, bool *all_right, int *order)
{
	bool		known = true;
	int			at = 0;
	Token		token = SEPARATOR_TOKEN;

	while (token != END_TOKEN)
	{
		uint8		code = *ls_key_read(reader, 1);
		bool		is_long = code == LONG_RIGHT_LESS || code == LONG_RIGHT_GREATER;
		int			right = is_long ? MAX_RIGHT
			: code < LONG_RIGHT_LESS ? code - RIGHT_LESS(0) : RIGHT_GREATER(0) - code;

		*all_right = code >= ALL_RIGHT(-1) && code <= ALL_RIGHT(1);
		if (*all_right)
		{
			take_guessed(keys, at, keys->n_guessed - at);
			*order = code - ALL_RIGHT(0);
			return known;
		}
		if (right < 0 || right > MAX_RIGHT || right > keys->n_guessed - at)
			ls_key_damaged();
		take_guessed(keys, at, right);
		at += right;
		if (!is_long)
		{
			token = read_token(keys, reader);
			known &= take_token(keys, token);
		}
	}
	return known;
}

void
ls_key_sort_keys_read(LsKeySortKeys *keys, const uint8 *bytes, Size len, StringInfo out)
{
	LsKeyReader reader = {bytes, len};
	bool		known;
	bool		all_right = false;
	int			order = 0;

	reset(&keys->taken_for, keys->context);
	if (guess_last(keys, &reader))
		known = read_guessed_last(keys, &reader, &all_right, &order);
	else
		known = read_last(keys, &reader);
	if (!all_right && known)
		order = *ls_key_read(&reader, 1) - ORDER(0);
	if (order < -1 || order > 1 || (known && order == 0 && reader.left > 0))
		ls_key_damaged();
	if (known && order == 0)
		ls_key_put(out, keys->taken_for.data, keys->taken_for.len);
	else
		ls_key_put(out, reader.bytes, reader.left);
}
