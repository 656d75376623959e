/*
 * ls_index_long.c - keys that are too long for an entry.
 *
 * btree takes what fits a third of its page when it is compressed. Compressed bytes do not order
 * as the values do, and a normalized key may be several times as long as its value (ICU). So an
 * entry has the first LS_LONG_KEY_BYTES of such a key, then a label (ls_order_label.h) that says
 * where the rest is among those of equal beginnings, and all columns in its payload, as an index
 * tuple that PostgreSQL has compressed.
 *
 *	  beginning of the key | label | row id -> index tuple
 *
 * No key is a prefix of another, so the beginning decides between a long key and any that is not.
 * What orders the rests is memcmp of whole keys: they are made again of the columns in the
 * payload.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "ls_index_scan.h"

ls_bytes
ls_index_whole_key(Relation index, const ls_index_entry *entry)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	if (!ls_index_is_long(ls_index_shape(index), entry->key.len))
		return entry->key;
	ls_index_deform(index, entry, values, isnull);
	return ls_index_form_key(index, values, isnull);
}

/* True: it is clipped, so that entries on the wrong side of it may be on the right side of this. */
bool
ls_index_clip_place(const LsIndexShape *shape, StringInfo place, bool behind)
{
	if (!ls_index_is_long(shape, place->len))
		return false;
	place->len = LS_LONG_KEY_BYTES;
	if (behind)
		ls_index_make_following(place);
	return true;
}
