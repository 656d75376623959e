/*
 * ls_row_padding.c - rows without their long runs of blanks (ls_row_padding.h).
 */
#include "postgres.h"

#include "ls_row_padding.h"

#include "access/htup_details.h"

/* Shorter runs stay: a pair takes two bytes, and pieces take time to be put together. */
#define LEAST_RUN 16
/* What has to be spared by all of them. */
#define LEAST_GAIN 12

/* A run that is looked for has an aligned word of nothing else. */
#define BLANK_WORD UINT64CONST(0x2020202020202020)
StaticAssertDecl(LEAST_RUN >= 2 * sizeof(uint64) - 1, "a run may have no word of its own");

/* Where the next long run begins, or `len`; *end is where it ends. */
static inline uint32
next_run(const uint8 *data, uint32 from, uint32 len, uint32 *end)
{
	for (uint32 at = from; at + sizeof(uint64) <= len; at += sizeof(uint64))
	{
		uint64		word;
		uint32		begin = at;
		uint32		behind = at + sizeof(uint64);

		memcpy(&word, data + at, sizeof(word));
		if (likely(word != BLANK_WORD))
			continue;
		while (begin > from && data[begin - 1] == ' ')
			begin--;
		while (behind < len && data[behind] == ' ')
			behind++;
		if (behind - begin >= LEAST_RUN)
		{
			*end = behind;
			return begin;
		}
		/* the rest of a short run has been seen */
		at = behind - sizeof(uint64);
	}
	*end = len;
	return len;
}

uint32
ls_row_padding_compress(const uint8 *data, uint32 len, uint8 *out, uint32 room)
{
	uint32		end;
	uint32		run = next_run(data, 0, len, &end);
	uint32		from = 0;
	uint32		used = 0;

	if (likely(run == len))
		return 0;
	while (from < len)
	{
		uint32		as_is = Min(run - from, PG_UINT8_MAX);
		uint32		blanks = from + as_is == run ? Min(end - run, PG_UINT8_MAX) : 0;

		if (used + 2 + as_is > room)
			return 0;
		out[used] = (uint8) as_is;
		out[used + 1] = (uint8) blanks;
		memcpy(out + used + 2, data + from, as_is);
		used += 2 + as_is;
		from += as_is + blanks;
		if (from == end)
			run = next_run(data, from, len, &end);
		else if (from > run)
			run = from;			/* there are more than fit into a pair */
	}
	return used + LEAST_GAIN <= len ? used : 0;
}

uint32
ls_row_padding_whole_len(const uint8 *in, uint32 len)
{
	uint32		whole = 0;

	while (len >= 2 && len - 2 >= in[0])
	{
		whole += in[0] + in[1];
		len -= 2 + in[0];
		in += 2 + in[0];
	}
	return len == 0 && whole <= MaxHeapTupleSize ? whole : 0;
}

/*
 * In pieces of a fixed size, the last of which may lie over the one before: most rows
 * are so short that a library call for each part takes longer.
 */
#define PIECE 16

static inline void
put_bytes(uint8 *out, const uint8 *in, uint32 n)
{
	if (n > 4 * PIECE)
		memcpy(out, in, n);
	else if (n >= PIECE)
	{
		for (uint32 i = 0; i + PIECE < n; i += PIECE)
			memcpy(out + i, in + i, PIECE);
		memcpy(out + n - PIECE, in + n - PIECE, PIECE);
	}
	else if (n >= sizeof(uint64))
	{
		memcpy(out, in, sizeof(uint64));
		memcpy(out + n - sizeof(uint64), in + n - sizeof(uint64), sizeof(uint64));
	}
	else if (n >= sizeof(uint32))
	{
		memcpy(out, in, sizeof(uint32));
		memcpy(out + n - sizeof(uint32), in + n - sizeof(uint32), sizeof(uint32));
	}
	else
	{
		while (n-- > 0)
			*out++ = *in++;
	}
}

static inline void
put_blanks(uint8 *out, uint32 n)
{
	if (n < PIECE)
	{
		memset(out, ' ', n);
		return;
	}
	for (uint32 i = 0; i + PIECE < n; i += PIECE)
		memset(out + i, ' ', PIECE);
	memset(out + n - PIECE, ' ', PIECE);
}

void
ls_row_padding_decompress(const uint8 *in, uint32 len, uint8 *out)
{
	const uint8 *end = in + len;

	while (in < end)
	{
		uint32		as_is = in[0];
		uint32		blanks = in[1];

		put_bytes(out, in + 2, as_is);
		put_blanks(out + as_is, blanks);
		in += 2 + as_is;
		out += as_is + blanks;
	}
}
