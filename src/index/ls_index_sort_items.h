/*
 * ls_index_sort_items.h - entries of a new index as items that are sorted.
 *
 * Where one integer and the row id say everything, that is in an index of one column of
 * eight bytes at most and nothing beside it, there is no record.  The first byte
 * of a key is the marker of its first column (ls_key.h); the integer is made of those
 * behind it, and for NULL it is the least or the greatest.
 *
 *	packed		prefix = the column; rest = marker (8 bits) | row id (40) | flags (8)
 *	otherwise	prefix = what it is sorted by just now;
 *				rest = address of the record: head, key, row id, payload
 */
#ifndef LS_INDEX_SORT_ITEMS_H
#define LS_INDEX_SORT_ITEMS_H

#include "ls_index.h"

#include "port/pg_bswap.h"

#define LS_SORT_PREFIX_BYTES 8

typedef struct LsSortItem
{
	uint64		prefix;
	uint64		rest;
} LsSortItem;

/* Key, row id and payload lie behind it. */
typedef struct LsSortRecord
{
	uint32		key_len;
	uint16		payload_len;
	uint8		flags;
} LsSortRecord;

static inline Size
ls_sort_record_bytes(const LsSortRecord *record)
{
	return sizeof(LsSortRecord) + record->key_len + LS_ENTRY_ROW_ID_BYTES + record->payload_len;
}

static inline int
ls_sort_compare_records(const LsSortRecord *a, const LsSortRecord *b)
{
	/* no entry is a prefix of another */
	return memcmp(a + 1, b + 1, Min(a->key_len, b->key_len) + LS_ENTRY_ROW_ID_BYTES);
}

static inline bool
ls_sort_item_less(bool packed, const LsSortItem *a, const LsSortItem *b)
{
	if (packed)
		return a->prefix != b->prefix ? a->prefix < b->prefix : a->rest < b->rest;
	return ls_sort_compare_records((const LsSortRecord *) a->rest, (const LsSortRecord *) b->rest) <
		   0;
}

/* Up to eight bytes as an integer that orders like them. */
static inline uint64
ls_sort_prefix(const uint8 *bytes, uint32 len)
{
	uint64		prefix = 0;

	memcpy(&prefix, bytes, Min(len, LS_SORT_PREFIX_BYTES));
	return pg_ntoh64(prefix);
}

/* scratch: as large as items. */
extern void ls_sort_items(LsSortItem *items, LsSortItem *scratch, Size n, bool packed);

#endif							/* LS_INDEX_SORT_ITEMS_H */
