/*
 * ls_index_stale.c - rows that get another key and stay where they are, and the entries they leave
 * behind.
 *
 * An update of an indexed column leaves the row its row id, where all indexes on changed
 * columns allow it: the row gets an entry for its new key, and the one for
 * the old key stays, for snapshots that see the old version.  Such an entry is stale for all
 * others.  So in an index that has some (ls_index_may_be_stale) each entry is held against the
 * version that was found through it: of all entries of a row, just one has the key of that version.
 *
 * Where more is asked of entries than to lead to rows that are looked at, there are none: in unique
 * indexes and exclusion constraints, in those with more in an entry than the key (a payload,
 * labels), on expressions or with a predicate, or not yet valid.  Rows with a new key there move,
 * as ls_table_update.c says, and so do rows from and to a long key (ls_index_long.c).
 *
 * A stale entry is removed once no version has its key that a snapshot may see or a rollback bring
 * back:
 *
 * - by the backend that has made it stale, when it next makes others so (note_left_behind);
 * - by index scans that meet it;
 * - by VACUUM.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "ls_index_scan.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"
#include "row/ls_row.h"

#include "catalog/index.h"
#include "optimizer/optimizer.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/*
 * Behind the version that is to be replaced; more than so many are not looked at, the entry stays.
 */
#define MAX_OLDER_VERSIONS 16

/* ----------------------------------------------------------------
 * which indexes may have stale entries
 * ----------------------------------------------------------------
 */

bool
ls_index_can_be_stale(Relation index)
{
	Form_pg_index form = index->rd_index;

	return ls_is_index(index) && !form->indisunique && !form->indisexclusion &&
		RelationGetIndexExpressions(index) == NIL && RelationGetIndexPredicate(index) == NIL &&
		ls_index_shape(index)->n_labels == 0 && ls_index_shape(index)->n_stored == 0;
}

bool
ls_index_has_stale(Relation index)
{
	return ls_index_can_be_stale(index) && ls_index_may_be_stale(ls_index_tree(index));
}

bool
ls_index_scan_has_stale(const LsIndexScan *scan)
{
	return ls_index_may_be_stale(ls_index_tree(scan->filter.index));
}

/* Columns of the table that the index is about, in pull_varattnos()'s numbers. */
static Bitmapset *
columns_of(Relation index)
{
	Bitmapset  *columns = NULL;

	for (int i = 0; i < index->rd_index->indnatts; i++)
		columns = bms_add_member(columns, index->rd_index->indkey.values[i] -
											  FirstLowInvalidHeapAttributeNumber);
	pull_varattnos((Node *) RelationGetIndexExpressions(index), 1, &columns);
	pull_varattnos((Node *) RelationGetIndexPredicate(index), 1, &columns);
	return columns;
}

List *
ls_index_open_rekeyed(Relation table, const Bitmapset *changed, bool *possible)
{
	List	   *rekeyed = NIL;

	*possible = true;
	foreach_oid(oid, RelationGetIndexList(table))
	{
		Relation	index = index_open(oid, RowExclusiveLock);
		Bitmapset  *columns = columns_of(index);
		bool		concerned = !index->rd_indam->amsummarizing && bms_overlap(columns, changed);

		bms_free(columns);
		if (!concerned)
		{
			index_close(index, RowExclusiveLock);
			continue;
		}
		rekeyed = lappend(rekeyed, index);
		/*
		 * one that is being built, or going: its build counts on rows that stay as they are, or
		 * move
		 */
		if (!ls_index_can_be_stale(index) || !index->rd_index->indisvalid ||
			!index->rd_index->indisready)
		{
			ls_index_close_rekeyed(rekeyed);
			*possible = false;
			return NIL;
		}
	}
	return rekeyed;
}

void
ls_index_close_rekeyed(List *rekeyed)
{
	foreach_ptr(RelationData, index, rekeyed)
		index_close(index, RowExclusiveLock);
	list_free(rekeyed);
}

void
ls_index_expect_stale(Relation index)
{
	ls_error	error;
	ls_status	status;

	/* Not only if it may not be: of one that is just being closed that is unknown. */
	LS_CALL_ON(index, status, ls_index_note_stale(ls_writer(), ls_index_tree(index), &error));
	ls_check(status, error, index);
}

/* ----------------------------------------------------------------
 * keys of versions
 * ----------------------------------------------------------------
 */

void
ls_index_key_columns(Relation index, Relation table, HeapTuple tuple, Datum *values, bool *isnull)
{
	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
		values[i] = heap_getattr(tuple, index->rd_index->indkey.values[i], RelationGetDescr(table),
								 &isnull[i]);
}

static bool
tuple_is_long(Relation index, Relation table, HeapTuple tuple)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	ls_index_key_columns(index, table, tuple, values, isnull);
	return ls_index_key_is_long(index, values, isnull);
}

bool
ls_index_can_rekey(const List *rekeyed, Relation table, HeapTuple old, HeapTuple new)
{
	foreach_ptr(RelationData, index, rekeyed)
		if (ls_index_shape(index)->can_be_long &&
			(tuple_is_long(index, table, old) || tuple_is_long(index, table, new)))
			return false;
	return true;
}

static bool
is_key(Relation index, ls_bytes key, const Datum *values, const bool *isnull)
{
	ls_bytes	formed = ls_index_form_key(index, values, isnull);

	/* long keys are not left behind for others, so the row has no other one that begins alike */
	if (ls_index_is_long(ls_index_shape(index), key.len))
		return ls_index_is_long(ls_index_shape(index), formed.len) &&
			memcmp(formed.data, key.data, LS_LONG_KEY_BYTES) == 0;

	return formed.len == key.len && memcmp(formed.data, key.data, key.len) == 0;
}

bool
ls_index_is_key_of(Relation index, ls_bytes key, TupleTableSlot *slot)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
		values[i] = slot_getattr(slot, index->rd_index->indkey.values[i], &isnull[i]);
	return is_key(index, key, values, isnull);
}

/*
 * Does every snapshot see this transaction, which has ended?  The server knows of the last ones,
 * the engine of all that it was told.  One that is active still has no place in the log yet: what
 * is done because of it must not come before it.
 */
static bool
everybody_sees(Relation table, uint64 tn)
{
	return tn < ls_store_horizon(ls_shared->store) ||
		   (GlobalVisCheckRemovableXid(table, ls_tn_to_xid(tn)) &&
			!ls_tn_is_active(ls_shared->store, tn));
}

/* May versions that were superseded by this transaction be garbage? */
static bool
supersedes_garbage(Relation table, uint64 tn)
{
	return everybody_sees(table, tn) || !ls_version_needed(ls_shared->store, LS_NO_PIN, tn);
}

bool
ls_index_entry_is_stale(LsIndexScan *so, Relation table, TupleTableSlot *slot)
{
	Relation	index = so->filter.index;

	Assert(so->can_be_stale);
	if (!ls_index_may_be_stale(ls_index_tree(index)))
		return false;
	ls_index_scan_settle(so);
	if (ls_index_is_key_of(index, so->entry.key, slot))
		return false;
	so->met_stale = supersedes_garbage(table, ls_slot_cast(slot)->writer_tn);
	return true;
}

/* Of a version that the engine has; when in doubt, it has the key. */
static bool
version_has_key(Relation index, Relation table, ls_bytes key, const ls_row *version)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	HeapTupleData tuple;
	char	   *space;
	bool		has;

	/* large values of versions that are on their way out may have gone */
	if (ls_row_has_external(version))
		return true;
	space = palloc(ls_row_tuple_len(version, table));
	ls_row_lay_out(version, table, &tuple, space);
	ls_index_key_columns(index, table, &tuple, values, isnull);
	has = is_key(index, key, values, isnull);
	pfree(space);
	return has;
}

/* ----------------------------------------------------------------
 * removing
 * ----------------------------------------------------------------
 */

/* Behind the newest version: has one the key that some snapshot needs? */
static bool
older_version_needs(Relation index, Relation table, ls_bytes key, const ls_row *newest,
					uint64 horizon)
{
	uint64		next = newest->writer_tn;
	bool		needed = false;
	LsVersionWalk walk;
	ls_row		version;

	ls_versions_begin(&walk, table, newest, horizon);
	for (int n = 0; !needed && ls_versions_next(&walk, ls_fetch_buffer(), &version); n++)
	{
		needed = n == MAX_OLDER_VERSIONS ||
				 (ls_version_needed(ls_shared->store, version.writer_tn, next) &&
				  version_has_key(index, table, key, &version));
		next = version.writer_tn;
	}
	ls_versions_end(&walk);
	return needed;
}

/*
 * For standbys: a snapshot that sees all transactions up to this one as ended sees this version or
 * a later one.  Of a version that a start has put back the writer is not known: it ended before.
 */
static uint64
seen_above(const ls_row *version)
{
	return version->writer_tn != 0 ? version->writer_tn : ls_store_first_tn(ls_shared->store) - 1;
}

/*
 * Has no version of the row the key that a snapshot may see or a rollback bring back?  A row with a
 * change in progress is left alone, for it may go back to any of that transaction's own versions.
 * *newest_tn: as ls_index_remove_seen() wants it.
 */
static bool
nobody_needs(Relation index, Relation table, ls_bytes key, uint64 row_id, uint64 *newest_tn)
{
	uint64		horizon = ls_store_horizon(ls_shared->store);
	ls_row		newest;
	ls_row		again;

	*newest_tn = 0;
	/* the log has said before that the row is gone (IREM-1) */
	if (!ls_fetch_newest(table, row_id, ls_fetch_buffer(), &newest))
		return true;
	/* seen deleted it needs no entry, and seen with this version none of another key */
	*newest_tn = seen_above(&newest);
	/* its entries go all together */
	if (newest.flags & LS_ROW_GHOST)
		return ls_row_is_dead(&newest);
	if (newest.writer_tn < horizon)
		return !version_has_key(index, table, key, &newest);

	if (ls_tn_is_active(ls_shared->store, newest.writer_tn) ||
		version_has_key(index, table, key, &newest))
		return false;
	if (!everybody_sees(table, newest.writer_tn) &&
		older_version_needs(index, table, key, &newest, horizon))
		return false;
	/*
	 * a writer that was found not to be active may have taken its change back before: then it is
	 * not there any more
	 */
	return ls_fetch_newest(table, row_id, ls_fetch_buffer(), &again) &&
		   again.writer_tn == newest.writer_tn && again.seq == newest.seq &&
		   again.flags == newest.flags;
}

bool
ls_index_row_has_key(Relation index, Relation table, ls_bytes key, uint64 row_id)
{
	ls_row		newest;

	return ls_fetch_newest(table, row_id, ls_fetch_buffer(), &newest) &&
		(newest.flags & LS_ROW_GHOST) == 0 && version_has_key(index, table, key, &newest);
}

bool
ls_index_remove_stale(Relation index, Relation table, ls_bytes key, uint64 row_id)
{
	ls_index_seen seen;
	ls_error	error;
	ls_status	status;
	bool		removed;
	uint64		newest_tn;

	LS_CALL_ON(index, status,
			   ls_index_look(ls_reader(), ls_index_tree(index), key, row_id, &seen, &error));
	if (status == LS_NOT_FOUND)
		return false;
	ls_check(status, error, index);
	if (!nobody_needs(index, table, key, row_id, &newest_tn))
		return false;
	LS_CALL_ON(index, status,
			   ls_index_remove_seen(ls_reader(), ls_index_tree(index), key, row_id, &seen,
									newest_tn, &removed, &error));
	ls_check(status, error, index);
	return removed;
}

/* ----------------------------------------------------------------
 * what this backend has left behind
 * ----------------------------------------------------------------
 */

/*
 * They are looked at when the transactions that made them stale are over for all snapshots, and
 * the backend has the index open anyway.  Where there are more, or they have longer keys, scans
 * and VACUUM come across them.
 */
#define LEFT_BEHIND 64
#define LEFT_BEHIND_KEY_BYTES 64

/* For one left behind so many are looked at, so that they do not pile up. */
#define LOOKED_AT 2

typedef struct LeftBehind
{
	RelFileLocator file;		/* of the index; a relNumber of 0: free */
	uint64		tn;
	uint64		row_id;
	uint32		key_len;
	uint8		key[LEFT_BEHIND_KEY_BYTES];
} LeftBehind;

static LeftBehind left_behind[LEFT_BEHIND];
static uint32 next_left = 0;	/* the place to be used next */

static void
clear_away(Relation index, Relation table)
{
	int			looked_at = 0;

	for (int i = 0; i < LEFT_BEHIND && looked_at < LOOKED_AT; i++)
	{
		LeftBehind	entry;

		if (left_behind[i].file.relNumber != index->rd_locator.relNumber ||
			!RelFileLocatorEquals(left_behind[i].file, index->rd_locator) ||
			!supersedes_garbage(table, left_behind[i].tn))
			continue;
		entry = left_behind[i];
		left_behind[i].file.relNumber = InvalidRelFileNumber;
		looked_at++;
		(void) ls_index_remove_stale(index, table, (ls_bytes){entry.key, entry.key_len},
									 entry.row_id);
	}
}

void
ls_index_note_left_behind(Relation index, Relation table, ls_bytes key, uint64 row_id)
{
	LeftBehind *entry;

	if (key.len > LEFT_BEHIND_KEY_BYTES)
		return;
	entry = &left_behind[next_left];
	next_left = (next_left + 1) % LEFT_BEHIND;
	*entry = (LeftBehind)
	{
		.file = index->rd_locator, .tn = ls_own_tn(), .row_id = row_id, .key_len = key.len
	};
	memcpy(entry->key, key.data, key.len);
	clear_away(index, table);
}
