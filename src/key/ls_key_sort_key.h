/*
 * ls_key_sort_key.h - sort keys of libc, as they are written: ls_key_sort_key.c says what they are.
 */
#ifndef LS_KEY_SORT_KEY_H
#define LS_KEY_SORT_KEY_H

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
	bool		accented;		/* there is an accent that is no COMMON_UNIT */
	bool		unknown;		/* there is a letter that is not learned, or too much */
} Weights;

/* What is known of a byte that is a character, so that strings of such ones can be written. */
typedef struct PlainByte
{
	bool		is_plain;
	bool		backward;		/* its accents are taken so */
	uint8		letter;			/* its code; 0: it has none, nor accents and case */
	uint8		last_code;
	Unit		case_unit;
	Unit		last;
} PlainByte;

typedef struct PlainCode
{
	char		byte;			/* 0: it is not that of a plain byte */
	bool		backward;
} PlainCode;

/* Longer strings are not written so. */
#define MAX_PLAIN_BYTES 255
#define PLAIN_BYTES 0x80

struct LsKeySortKeys
{
	pg_locale_t locale;
	LsKeySource source;
	LsKeyGlibc *glibc;			/* NULL: strxfrm() is asked */
	MemoryContext context;		/* of this */
	int			n_characters;
	Character	characters[MAX_CHARACTERS];
	Learned		letters;
	Learned		last;
	const Character *plain[MAX_LEARNED];	/* of a letter: with COMMON_UNITs only, one each */
	uint8		letter_codes[SHORT_UNITS];	/* of units of one byte and of two */
	PlainByte	plain_bytes[PLAIN_BYTES];
	PlainCode	plain_codes[0x100]; /* of a letter in the usual case */

	/* Of the string at hand: what the C library says, what its first levels are, ... */
	StringInfoData raw;
	Weights		weights;

	/* ... what they are taken for, and what the bytes are taken for after the last level. */
	int			n_guessed;
	const Character *guess[MAX_GUESSED_LETTERS];
	StringInfoData taken_for;
};

/* ---- ls_key_plain.c */

/* Finds out which bytes are plain: characters are learned. */
extern void ls_key_plain_learn(LsKeySortKeys *keys);

/* ls_key_sort_keys_put() and ls_key_sort_keys_read(); false: it is not so simple. */
extern bool ls_key_plain_put(const LsKeySortKeys *keys, const char *bytes, Size len,
							 StringInfo out);
extern bool ls_key_plain_read(const LsKeySortKeys *keys, const uint8 *bytes, Size len,
							  StringInfo out);

/* ---- ls_key_sort_key.c */

/* Into 4 bytes; how many there are. */
static inline int
ls_key_unit_bytes(Unit unit, uint8 *to)
{
	int			n = unit < 1 << 8 ? 1 : unit < 1 << 16 ? 2 : unit < 1 << 24 ? 3 : 4;

	for (int i = 0; i < n; i++)
		to[i] = (uint8) (unit >> 8 * (n - 1 - i));
	return n;
}

/* Units compare as their bytes do: what is longer begins with a greater byte. */
extern int	ls_key_place_of(const Learned *learned, Unit unit, bool *found);

/*
 * Of a string without accents: the character with this letter that explains most of the units of
 * case from here on; NULL: none does.
 */
extern const Character *ls_key_unaccented(const LsKeySortKeys *keys, int letter, const Unit *units,
										  int n);

#endif							/* LS_KEY_SORT_KEY_H */
