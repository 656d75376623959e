/*
 * ls_leap_cache.c - keys that this node was seen to own, so that it need not be looked up again.
 *
 * A hand-over changes the key's generation, in shared memory, while it has the key's exclusive
 * lock.  A session that has the key locked for use, and finds the generation of before, knows that
 * the key has not left.  Kept are only keys that were owned by what other transactions had
 * committed: what a transaction itself has accepted may roll back.
 */
#include "ls_leap.h"

#include "access/xact.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#define MAX_ENTRIES 8192

typedef struct Entry
{
	uint64		hash;			/* hash key */
	int			family;
	uint32		generation;		/* of the key, in shared memory */
	uint32		families;		/* of what the session knew of families */
	char		key[48];		/* longer ones are looked up each time */
} Entry;

static HTAB *entries = NULL;

static bool
is_cacheable(LeapWanted *wanted)
{
	return strlen(wanted->key) < sizeof(((Entry *) NULL)->key) && !IsolationUsesXactSnapshot();
}

/* The key is locked.  Does this node own it, as it did when it was added? */
bool
leap_cache_has(LeapWanted *wanted)
{
	Entry	   *entry = entries && is_cacheable(wanted) ?
		hash_search(entries, &wanted->hash, HASH_FIND, NULL) : NULL;

	return entry && entry->family == wanted->family->id &&
		entry->families == leap_families_version() &&
		entry->generation == leap_generation(wanted->hash) &&
		strcmp(entry->key, wanted->key) == 0;
}

/* The key is locked, and owned by what others have committed. */
void
leap_cache_add(LeapWanted *wanted)
{
	HASHCTL		control = {.keysize = sizeof(uint64),.entrysize = sizeof(Entry)};
	Entry	   *entry;

	if (!is_cacheable(wanted) || leap_has_accepted())
		return;
	if (entries && hash_get_num_entries(entries) >= MAX_ENTRIES)
	{
		hash_destroy(entries);
		entries = NULL;
	}
	if (entries == NULL)
		entries = hash_create("leap keys owned", 256, &control, HASH_ELEM | HASH_BLOBS);
	entry = hash_search(entries, &wanted->hash, HASH_ENTER, NULL);
	entry->family = wanted->family->id;
	entry->families = leap_families_version();
	entry->generation = leap_generation(wanted->hash);
	strlcpy(entry->key, wanted->key, sizeof(entry->key));
}
