/*
 * ls_key_plain.c - sort keys of strings of plain bytes, written and read without the tables of the
 * C library.
 *
 * A byte is plain if it is a character, of which all is learned, that no longer sequence begins
 * with, and that is what its weights are guessed for.  Or it is a sign: it has a weight on the last
 * level alone.  So of each level of a string of such ones it is known what ls_key_sort_key.c would
 * write, but how many accents there are: where some are taken backward, strcoll() leaves out one of
 * them (ls_key_glibc.c).
 */
#include "postgres.h"

#include "ls_key_sort_key.h"

#include "port/pg_bitutils.h"

/* ---- learning -------------------------------------------------------------- */

/* A learned character of this byte alone; NULL: there is none. */
static const Character *
character_of(const LsKeySortKeys *keys, int byte)
{
	for (int i = 0; i < keys->n_characters; i++)
		if (keys->characters[i].len == 1 && (uint8) keys->characters[i].bytes[0] == byte)
			return &keys->characters[i];
	return NULL;
}

static bool
learn_letter(const LsKeySortKeys *keys, const Character *c, PlainByte *plain)
{
	bool		found;
	int			letter = ls_key_place_of(&keys->letters, c->letter, &found);

	if (!found || c->n[ACCENTS] != 1 || c->units[ACCENTS][0] != COMMON_UNIT || c->n[CASE] != 1)
		return false;
	plain->letter = CODE(letter);
	plain->case_unit = c->units[CASE][0];
	return ls_key_unaccented(keys, letter, &plain->case_unit, 1) == c;
}

void
ls_key_plain_learn(LsKeySortKeys *keys)
{
	for (int byte = 1; byte < PLAIN_BYTES; byte++)
	{
		PlainByte  *plain = &keys->plain_bytes[byte];
		const Character *c = character_of(keys, byte);
		bool		found;
		int			last;

		if (c == NULL || !ls_key_glibc_is_alone(keys->glibc, byte, &plain->backward))
			continue;
		last = ls_key_place_of(&keys->last, c->last, &found);
		if (!found || &keys->characters[keys->last.first[last]] != c)
			continue;
		plain->last = c->last;
		plain->last_code = CODE(last);
		plain->is_plain = c->letter != 0 ? learn_letter(keys, c, plain)
			: c->n[ACCENTS] == 0 && c->n[CASE] == 0;
		if (plain->is_plain && c->letter != 0 && plain->case_unit == COMMON_UNIT)
			keys->plain_codes[plain->letter] = (PlainCode) {(char) byte, plain->backward};
	}
}

/* ---- writing --------------------------------------------------------------- */

/*
 * strcoll() goes through a run of characters that are taken backward from its end, and leaves out
 * the last but one if one comes that is taken forward: of letters alone it sees so many accents
 * less.
 */
typedef struct Runs
{
	uint64		backward[(MAX_PLAIN_BYTES + 64) / 64];	/* a bit for each character */
} Runs;

static inline void
note_run(Runs *runs, int at, bool backward)
{
	runs->backward[at / 64] |= (uint64) backward << at % 64;
}

static int
left_out(const Runs *runs, int n)
{
	uint64		before = 0;
	int			result = 0;

	for (int i = 0; i * 64 < n; i++)
	{
		const uint64 backward = runs->backward[i];
		uint64		ends = ~backward & (backward << 1 | before >> 63) &
			(backward << 2 | before >> 62);

		if (n - i * 64 < 64)
			ends &= (UINT64CONST(1) << (n - i * 64)) - 1;
		result += pg_popcount64(ends);
		before = backward;
	}
	return result;
}

/* A string at hand. */
typedef struct PlainString
{
	int			n;
	int			n_letters;
	Runs		runs;
	const PlainByte *bytes[MAX_PLAIN_BYTES];
	const PlainByte *letters[MAX_PLAIN_BYTES + 1];
} PlainString;

/* false: it has other bytes, or too many. */
static bool
find_plain(const LsKeySortKeys *keys, const char *bytes, Size len, PlainString *string)
{
	if (len == 0 || len > MAX_PLAIN_BYTES)
		return false;
	string->n = (int) len;
	string->n_letters = 0;
	string->runs = (Runs) {0};
	for (int i = 0; i < string->n; i++)
	{
		uint8		byte = (uint8) bytes[i];
		const PlainByte *plain = &keys->plain_bytes[byte & (PLAIN_BYTES - 1)];

		if (byte >= PLAIN_BYTES || !plain->is_plain)
			return false;
		string->bytes[i] = plain;
		string->letters[string->n_letters] = plain;
		string->n_letters += plain->letter != 0;
		note_run(&string->runs, i, plain->backward);
	}
	return true;
}

/*
 * How many accents strcoll() sees.  Where a run begins is for it where it was last: behind what
 * came after the run before, or the last letter.
 */
static int
count_accents(const PlainString *string)
{
	int			n_accents = 0;
	int			seen = 0;

	if (string->n_letters == string->n)
		return string->n - left_out(&string->runs, string->n);

	for (int at = 0; at < string->n;)
	{
		int			begin = at;
		int			left;

		while (at < string->n && string->bytes[at]->backward)
			at++;
		if (at == begin)
		{
			if (string->bytes[at++]->letter != 0)
			{
				n_accents++;
				seen = at;
			}
			continue;
		}
		left = Max(at - begin - (at < string->n ? 2 : 1), 0);
		n_accents += string->bytes[at - 1]->letter != 0;
		for (int i = 0; i < left; i++)
			n_accents += string->bytes[seen + i]->letter != 0;
		if (at < string->n)
			n_accents += string->bytes[at++]->letter != 0;
		seen = at;
	}
	return n_accents;
}

static inline uint8 *
put_long(uint8 *to, int *n, int most, uint8 code)
{
	for (; *n >= most; *n -= most)
		*to++ = code;
	return to;
}

static uint8 *
put_accents(uint8 *to, int n)
{
	to = put_long(to, &n, MAX_RUN, LONG_RUN_LESS);
	*to++ = RUN_NEXT(n);
	return to;
}

static uint8 *
put_case(uint8 *to, const PlainString *string)
{
	int			run = 0;

	for (int i = 0; i < string->n_letters; i++)
	{
		Unit		unit = string->letters[i]->case_unit;

		if (unit == COMMON_UNIT)
		{
			run++;
			continue;
		}
		to = put_long(to, &run, MAX_RUN, LONG_RUN_GREATER);
		*to++ = RUN_GREATER(run);
		to += ls_key_unit_bytes(unit, to);
		run = 0;
	}
	to = put_long(to, &run, MAX_RUN, LONG_RUN_LESS);
	*to++ = RUN_NEXT(run);
	return to;
}

/* Signs are not as guessed: that is the next letter, or the end. */
static uint8 *
put_last(uint8 *to, const PlainString *string)
{
	int			right = 0;
	int			letter = 0;

	for (int i = 0; string->n > string->n_letters && i < string->n; i++)
	{
		const PlainByte *plain = string->bytes[i];
		bool		less;

		if (plain->letter != 0)
		{
			right++;
			letter++;
			continue;
		}
		less = letter < string->n_letters && plain->last < string->letters[letter]->last;
		to = put_long(to, &right, MAX_RIGHT, less ? LONG_RIGHT_LESS : LONG_RIGHT_GREATER);
		*to++ = less ? RIGHT_LESS(right) : RIGHT_GREATER(right);
		*to++ = plain->last_code;
		right = 0;
	}
	*to++ = ALL_RIGHT(0);
	return to;
}

/* A letter takes one byte, and up to five of case; a sign two.  The rest are ends and long runs. */
#define PLAIN_KEY_BYTES(len) (6 * (len) + 32)

bool
ls_key_plain_put(const LsKeySortKeys *keys, const char *bytes, Size len, StringInfo out)
{
	PlainString string;
	uint8	   *begin;
	uint8	   *to;

	if (!find_plain(keys, bytes, len, &string))
		return false;
	begin = to = ls_key_extend(out, PLAIN_KEY_BYTES(len));
	for (int i = 0; i < string.n_letters; i++)
		*to++ = string.letters[i]->letter;
	*to++ = NEXT_LEVEL;
	to = put_accents(to, count_accents(&string));
	to = put_case(to, &string);
	to = put_last(to, &string);
	Assert(to - begin <= PLAIN_KEY_BYTES(len));
	out->len -= (int) (PLAIN_KEY_BYTES(len) - (to - begin));
	return true;
}

/* ---- reading --------------------------------------------------------------- */

/* The length of a run to the end of its level; < 0: it is none. */
static int
read_run(const uint8 **at, const uint8 *end)
{
	int			n = 0;

	for (; *at < end && **at == LONG_RUN_LESS; (*at)++)
		n += MAX_RUN;
	if (*at == end || **at < RUN_NEXT(0) || **at >= RUN_NEXT(MAX_RUN) || !IS_GAP(**at + 1))
		return -1;
	return n + (*(*at)++ - RUN_NEXT(0)) / 2;
}

/* Of letters in the usual case, and as guessed. */
bool
ls_key_plain_read(const LsKeySortKeys *keys, const uint8 *bytes, Size len, StringInfo out)
{
	const uint8 *level_end = memchr(bytes, NEXT_LEVEL, len);
	const uint8 *at = level_end;
	const uint8 *end = bytes + len;
	Runs		runs = {0};
	bool		all = true;
	char	   *letters;
	int			n;

	if (level_end == NULL || level_end == bytes || level_end - bytes > MAX_PLAIN_BYTES)
		return false;
	n = (int) (level_end - bytes);
	letters = (char *) ls_key_extend(out, n);
	for (int i = 0; i < n; i++)
	{
		const PlainCode code = keys->plain_codes[bytes[i]];

		letters[i] = code.byte;
		all &= code.byte != 0;
		note_run(&runs, i, code.backward);
	}
	at++;
	if (!all || read_run(&at, end) != n - left_out(&runs, n) || read_run(&at, end) != n ||
		end - at != 1 || *at != ALL_RIGHT(0))
	{
		out->len -= n;
		return false;
	}
	return true;
}
