/*
 * ls_index_sort_items.c - sorting the entries of a new index that are in memory.
 *
 * By their bytes: eight of them as one integer, radix sorted; then the next eight of those that are
 * equal so far.
 */
#include "postgres.h"

#include "ls_index_sort_items.h"

#include "miscadmin.h"

/* Fewer are sorted by comparing them. */
#define RADIX_SORT_ITEMS 256

#define ST_SORT sort_records
#define ST_ELEMENT_TYPE LsSortItem
#define ST_COMPARE(a, b) \
	ls_sort_compare_records((const LsSortRecord *) (a)->rest, (const LsSortRecord *) (b)->rest)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

#define ST_SORT sort_packed
#define ST_ELEMENT_TYPE LsSortItem
#define ST_COMPARE(a, b) ((a)->rest < (b)->rest ? -1 : (a)->rest > (b)->rest)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * By prefix, least significant byte first: every pass is stable.  A byte that is the
 * same in all of them takes no pass.
 */
static void
radix_sort(LsSortItem *items, LsSortItem *scratch, Size n)
{
	Size		counts[LS_SORT_PREFIX_BYTES][256];
	LsSortItem   *from = items;
	LsSortItem   *to = scratch;

	memset(counts, 0, sizeof(counts));
	for (Size i = 0; i < n; i++)
		for (int byte = 0; byte < LS_SORT_PREFIX_BYTES; byte++)
			counts[byte][(from[i].prefix >> (8 * byte)) & 0xFF]++;

	for (int byte = 0; byte < LS_SORT_PREFIX_BYTES; byte++)
	{
		Size	   *count = counts[byte];
		Size		start = 0;
		LsSortItem   *swap = from;

		CHECK_FOR_INTERRUPTS();
		if (count[(from[0].prefix >> (8 * byte)) & 0xFF] == n)
			continue;
		for (int value = 0; value < 256; value++)
		{
			Size		here = count[value];

			count[value] = start;
			start += here;
		}
		for (Size i = 0; i < n; i++)
			to[count[(from[i].prefix >> (8 * byte)) & 0xFF]++] = from[i];
		from = to;
		to = swap;
	}
	if (from != items)
		memcpy(items, from, n * sizeof(LsSortItem));
}

/*
 * Sort records that are equal in their first `offset` bytes.  Many of them by the next
 * eight, and so on with those that are equal in these, too.
 */
static void
sort_records_behind(LsSortItem *items, LsSortItem *scratch, Size n, uint32 offset)
{
	bool		all_equal;

	if (n < RADIX_SORT_ITEMS)
	{
		sort_records(items, n);
		return;
	}
	check_stack_depth();
	/* long keys may be equal for long */
	do
	{
		all_equal = true;
		for (Size i = 0; i < n; i++)
		{
			const LsSortRecord *head = (const LsSortRecord *) items[i].rest;
			uint32		len = head->key_len + LS_ENTRY_ROW_ID_BYTES;

			items[i].prefix = ls_sort_prefix((const uint8 *) (head + 1) + Min(offset, len),
											 len - Min(offset, len));
			all_equal &= items[i].prefix == items[0].prefix;
		}
		if (all_equal)
			offset += LS_SORT_PREFIX_BYTES;
	} while (all_equal);
	radix_sort(items, scratch, n);
	for (Size from = 0, to; from < n; from = to)
	{
		for (to = from + 1; to < n && items[to].prefix == items[from].prefix; to++)
			;
		if (to - from > 1)
			sort_records_behind(items + from, scratch + from, to - from,
								offset + LS_SORT_PREFIX_BYTES);
	}
}

void
ls_sort_items(LsSortItem *items, LsSortItem *scratch, Size n, bool packed)
{
	if (!packed)
	{
		sort_records_behind(items, scratch, n, 0);
		return;
	}
	if (n < 2)
		return;
	radix_sort(items, scratch, n);
	for (Size from = 0, to; from < n; from = to)
	{
		for (to = from + 1; to < n && items[to].prefix == items[from].prefix; to++)
			;
		if (to - from > 1)
			sort_packed(items + from, to - from);
	}
}
