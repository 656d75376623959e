/*
 * ls_table_ids.c - row ids for new rows.
 *
 * A backend draws consecutive row ids from the relation's meta page: one at
 * first, twice as many each time it comes back, up to sixteen logical blocks.  So
 * concurrent sessions insert into different leaves, and a table that gets a row
 * now and then wastes none.  Where the rows of two backends meet, about one leaf's
 * room stays empty, so that shall not be often: a million rows of two integers by
 * eight sessions took 53 MB with one block, which is two and a half leaves of
 * them, and 41 with sixteen.  What a backend has drawn and not used is lost when
 * it forgets it (end of the session, change of the relation): nothing relies on
 * row ids being dense.
 *
 *	IDS-1: a cached range belongs to one file (locator and engine handle) and was
 *		handed out to this backend alone.
 *	IDS-2: it is forgotten whenever the relation's relcache entry is invalidated,
 *		which covers every way in which a file can become another table.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "utils/inval.h"

#define LS_ID_CACHE_ENTRIES 64	/* a power of two */
#define LS_ID_MAX_DRAW (16 * LS_ROWS_PER_BLOCK)

typedef struct IdRange
{
	Oid			relid;			/* InvalidOid: free */
	RelFileLocator locator;
	uint64		file;			/* ls_rel's number */
	uint64		next;			/* [next, end) is ours */
	uint64		end;
	uint32		draw;			/* ids to draw next time */
} IdRange;

static IdRange ranges[LS_ID_CACHE_ENTRIES];
static bool callback_registered = false;

static void
relcache_callback(Datum arg, Oid relid)
{
	for (int i = 0; i < LS_ID_CACHE_ENTRIES; i++)
		if (!OidIsValid(relid) || ranges[i].relid == relid)
			ranges[i].relid = InvalidOid;
}

static inline IdRange *
find_range(Relation rel)
{
	return &ranges[RelationGetRelid(rel) & (LS_ID_CACHE_ENTRIES - 1)];
}

/* IDS-1 */
static inline bool
range_is_of(const IdRange *range, Relation rel, const ls_rel *tree)
{
	return range->relid == RelationGetRelid(rel) && range->file == tree->number &&
		RelFileLocatorEquals(range->locator, rel->rd_locator);
}

void
ls_forget_row_ids(Relation rel)
{
	IdRange    *range = find_range(rel);

	if (range->relid == RelationGetRelid(rel))
		range->relid = InvalidOid;
}

/*
 * The end of a load or a rewrite.  What was drawn for rows that did not come goes
 * back: until ANALYZE the planner takes the number of ids for the number of rows.
 */
void
ls_finish_bulk_insert(Relation rel, int options)
{
	IdRange    *range = find_range(rel);
	ls_rel	   *tree;

	if (ls_relation_staged.relid == RelationGetRelid(rel))
		ls_relation_insert_staged();

	/* COPY has drawn none here: do not look for the file. */
	if (range->relid != RelationGetRelid(rel))
		return;
	tree = ls_open(rel);
	if (!range_is_of(range, rel, tree))
		return;
	ls_row_ids_return(ls_writer(), tree, range->next, range->end);
	range->relid = InvalidOid;
}

uint64
ls_row_id_range(Relation rel, uint32 count)
{
	ls_error	error;
	ls_status	status;
	uint64		first;

	LS_CALL(status, ls_row_ids(ls_writer(), ls_open(rel), count, &first, &error));
	ls_check(status, error, rel);
	return first;
}

uint64
ls_next_row_id(Relation rel)
{
	IdRange    *range = find_range(rel);
	ls_rel	   *tree = ls_open(rel);

	Assert(callback_registered || !OidIsValid(range->relid));	/* IDS-2 */
	if (unlikely(!range_is_of(range, rel, tree)))
	{
		if (!callback_registered)
		{
			CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
			callback_registered = true;
		}
		range->relid = InvalidOid;
		range->locator = rel->rd_locator;
		range->file = tree->number;
		range->next = range->end = 0;
		range->draw = 1;
		range->relid = RelationGetRelid(rel);
	}

	if (range->next == range->end)
	{
		uint32		draw = range->draw;
		uint64		first = ls_row_id_range(rel, draw);

		/* the draw may have processed an invalidation: then they are used once */
		if (range->relid != RelationGetRelid(rel))
			return first;
		range->next = first;
		range->end = first + draw;
		range->draw = Min(draw * 2, LS_ID_MAX_DRAW);
	}
	Assert(range->next < range->end &&	/* IDS-1 */
		   RelFileLocatorEquals(range->locator, rel->rd_locator));
	return range->next++;
}
