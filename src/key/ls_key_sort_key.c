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
 * Strings of ASCII characters are mostly written and read without all that (ls_key_plain.c).
 *
 * Which characters are learned, and what their weights are, is part of the encoding: it may not
 * change while an index exists (the fingerprint of ls_key_libc.c).
 */
#include "postgres.h"

#include "ls_key_sort_key.h"

#include "mb/pg_wchar.h"

#define KEPT_BUFFER_BYTES 16384

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

static void
put_unit(StringInfo out, Unit unit)
{
	uint8		bytes[4];

	ls_key_put(out, bytes, ls_key_unit_bytes(unit, bytes));
}

int
ls_key_place_of(const Learned *learned, Unit unit, bool *found)
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
	int			place = ls_key_place_of(learned, unit, &found);

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
			weights->accented |= level == ACCENTS;
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

const Character *
ls_key_unaccented(const LsKeySortKeys *keys, int letter, const Unit *units, int n)
{
	const Character *best = NULL;

	if (letter >= keys->letters.n)
		ls_key_damaged();
	if (n > 0 && units[0] == COMMON_UNIT && keys->plain[letter] != NULL)
		return keys->plain[letter];
	for (int i = keys->letters.first[letter]; i >= 0; i = keys->characters[i].next)
	{
		const Character *c = &keys->characters[i];
		bool		fits = c->n[CASE] <= n;

		for (int k = 0; k < c->n[ACCENTS]; k++)
			fits &= c->units[ACCENTS][k] == COMMON_UNIT;
		for (int k = 0; fits && k < c->n[CASE]; k++)
			fits = c->units[CASE][k] == units[k];
		if (fits && (best == NULL || c->n[CASE] > best->n[CASE]))
			best = c;
	}
	return best;
}

/*
 * How many accents there are depends on signs, too, where some are taken backward: without accents
 * case alone tells the characters.
 */
static bool
guess_unaccented(LsKeySortKeys *keys)
{
	const Weights *weights = &keys->weights;
	int			at = 0;

	for (int i = 0; i < weights->n_letters; i++)
	{
		const Character *c = ls_key_unaccented(keys, weights->letters[i],
											   &weights->units[CASE][at], weights->n[CASE] - at);

		if (c == NULL)
			return false;
		at += c->n[CASE];
		keys->guess[i] = c;
	}
	return at == weights->n[CASE];
}

/* Read the first three levels, and guess the last one; false: there is no guess. */
static bool
guess_last(LsKeySortKeys *keys, LsKeyReader *reader)
{
	Weights    *weights = &keys->weights;
	int			at[RUN_LEVELS] = {0};
	bool		more;

	weights->n_letters = weights->n[ACCENTS] = weights->n[CASE] = 0;
	weights->accented = weights->unknown = false;
	read_letters(reader, weights, &more);
	for (int level = 0; level < RUN_LEVELS && more; level++)
		read_runs(reader, weights, level, &more);
	if (weights->unknown)
		return false;

	keys->n_guessed = weights->n_letters;
	if (keys->source == LS_KEY_GLIBC_PLAIN && !weights->accented)
		return guess_unaccented(keys);
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
	int			place = ls_key_place_of(learned, unit, &found);

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
		int			place = ls_key_place_of(&keys->letters, unit, &found);

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
	keys->source = source;
	keys->context = context;
	initStringInfo(&keys->raw);
	initStringInfo(&keys->taken_for);
	if (source != LS_KEY_STRXFRM)
		keys->glibc = ls_key_glibc_open(locale);
	MemoryContextSwitchTo(caller);
	if (source != LS_KEY_STRXFRM && keys->glibc == NULL)
	{
		ls_key_sort_keys_free(keys);
		return NULL;
	}
	learn(keys);
	if (source == LS_KEY_GLIBC_PLAIN)
		ls_key_plain_learn(keys);
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
		place = ls_key_place_of(&keys->last, (Unit) token, &known);
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

static bool
put(LsKeySortKeys *keys, const char *bytes, Size len, StringInfo out)
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

#ifdef USE_ASSERT_CHECKING
/* What was written the short way from `start` on is what the long one writes. */
static bool
is_same(LsKeySortKeys *keys, const char *bytes, Size len, const StringInfoData *out, int start)
{
	StringInfoData other;
	bool		same;

	initStringInfo(&other);
	same = put(keys, bytes, len, &other) && other.len == out->len - start &&
		memcmp(other.data, out->data + start, other.len) == 0;
	pfree(other.data);
	return same;
}
#endif

bool
ls_key_sort_keys_put(LsKeySortKeys *keys, const char *bytes, Size len, StringInfo out)
{
	int			start PG_USED_FOR_ASSERTS_ONLY = out->len;

	if (!ls_key_plain_put(keys, bytes, len, out))
		return put(keys, bytes, len, out);
	Assert(is_same(keys, bytes, len, out, start));
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
	int			start = out->len;

	if (ls_key_plain_read(keys, bytes, len, out))
		return;
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
	if (keys->source == LS_KEY_GLIBC_PLAIN && !keys->weights.accented && !keys->weights.unknown &&
		ls_key_glibc_accents(keys->glibc, out->data + start, out->len - start) !=
		keys->weights.n[ACCENTS])
		ls_key_damaged();
}
