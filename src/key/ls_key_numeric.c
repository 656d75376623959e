/*
 * ls_key_numeric.c - numeric.
 *
 *	  class (-Infinity, negative, 0, positive, Infinity, NaN; 1 byte)
 *	  positive numbers: weight (ls_key_put_int) | digits
 *	  negative numbers: the complement of these | 0xFF
 *
 * Digits are to base 100, plus one, without leading and trailing zeros: no byte
 * of them is 0x00, and none of their complements 0xFF.  Weight is that of the
 * first digit to base 10000, as in the type's own format.  The display scale
 * does not count, so there is no way back.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "utils/numeric.h"
#include "varatt.h"

enum
{
	CLASS_MINUS_INFINITY = 1, CLASS_NEGATIVE, CLASS_ZERO, CLASS_POSITIVE, CLASS_INFINITY, CLASS_NAN
};

/*
 * The stored format, which numeric.c keeps to itself: 16 bits of header, which
 * hold everything of a short number; a long one has its weight in another 16
 * bits; then the digits to base 10000.
 */
#define KIND_MASK			0xC000
#define KIND_NEGATIVE		0x4000	/* of a long one */
#define KIND_SHORT			0x8000
#define KIND_SPECIAL		0xC000
#define SPECIAL_MASK		0xF000
#define SPECIAL_NAN			0xC000
#define SPECIAL_INFINITY	0xD000
#define SHORT_NEGATIVE		0x2000
#define SHORT_WEIGHT_NEGATIVE 0x0040
#define SHORT_WEIGHT_MASK	0x003F

/* Values with a short varlena header are not aligned. */
static inline uint16
word_at(const char *p)
{
	uint16		word;

	memcpy(&word, p, sizeof(word));
	return word;
}

static void
put_number(bool negative, int weight, const char *digits, int n, StringInfo out)
{
	int			start;

	for (; n > 0 && word_at(digits) == 0; digits += 2, n--)
		weight--;
	while (n > 0 && word_at(digits + 2 * (n - 1)) == 0)
		n--;
	if (n == 0)
	{
		ls_key_put8(out, CLASS_ZERO);
		return;
	}

	ls_key_put8(out, negative ? CLASS_NEGATIVE : CLASS_POSITIVE);
	start = out->len;
	ls_key_put_int(out, weight);
	for (int i = 0; i < n; i++)
	{
		uint16		digit = word_at(digits + 2 * i);
		uint8	   *to = ls_key_extend(out, 2);

		to[0] = (uint8) (digit / 100 + 1);
		to[1] = (uint8) (digit % 100 + 1);
	}
	if (out->data[out->len - 1] == 1)
		out->len--;

	if (negative)
	{
		for (int i = start; i < out->len; i++)
			out->data[i] = ~out->data[i];
		ls_key_put8(out, 0xFF);
	}
}

static void
encode_numeric(const LsKeyColumn *column, Datum value, StringInfo out)
{
	struct varlena *number = PG_DETOAST_DATUM_PACKED(value);
	const char *body = VARDATA_ANY(number);
	int			words = VARSIZE_ANY_EXHDR(number) / sizeof(uint16);
	uint16		head = word_at(body);

	if ((head & KIND_MASK) == KIND_SPECIAL)
		ls_key_put8(out, (head & SPECIAL_MASK) == SPECIAL_NAN		 ? CLASS_NAN
						 : (head & SPECIAL_MASK) == SPECIAL_INFINITY ? CLASS_INFINITY
																	 : CLASS_MINUS_INFINITY);
	else if ((head & KIND_MASK) == KIND_SHORT)
		put_number(head & SHORT_NEGATIVE,
				   (head & SHORT_WEIGHT_MASK) -
					   (head & SHORT_WEIGHT_NEGATIVE ? SHORT_WEIGHT_MASK + 1 : 0),
				   body + 2, words - 1, out);
	else
		put_number((head & KIND_MASK) == KIND_NEGATIVE, (int16) word_at(body + 2), body + 4,
				   words - 2, out);

	if ((Pointer) number != DatumGetPointer(value))
		pfree(number);
}

const LsKeyEncoding ls_key_numeric = {.encode = encode_numeric};
