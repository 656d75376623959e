/*
 * ls_index_insert.c - insertion of an entry, and what makes an index unique.
 *
 * The engine decides in one step whether an entry with an equal key is there and
 * inserts if not.  What it meets is an entry, not a row: whether the row counts is
 * found out here, with the table's dirty snapshot, as btree does.  A row that counts is
 * a conflict; one in doubt is waited for; one that does not count is passed over from
 * then on (row ids are not used again, and nobody takes back that a row is gone).
 */
#include "ls_index.h"
#include "ls_table.h"

#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/index.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"

typedef struct Insertion
{
	Relation	index;
	Relation	table;
	ls_bytes	key;
	ls_bytes	payload;
	uint64		row_id;
	const Datum *values;
	const bool *isnull;

	/* rows with an equal key that do not count */
	uint64	   *ignore;
	uint32		n_ignore;
	uint32		max_ignore;
} Insertion;

/* What a row with an equal key means to us. */
typedef enum Rival
{
	RIVAL_GONE,					/* nothing */
	RIVAL_IN_DOUBT,				/* depends on how a transaction ends */
	RIVAL_LIVES
} Rival;

static Rival
look_at_rival(Insertion *in, uint64 row_id, SnapshotData *dirty)
{
	ItemPointerData tid;
	bool		all_dead = false;

	ls_row_to_tid(row_id, &tid);
	if (!table_index_fetch_tuple_check(in->table, &tid, dirty, &all_dead))
	{
		if (all_dead)
		{
			ls_error	error;
			ls_status	status;

			LS_CALL(status, ls_index_remove(ls_writer(), ls_index_tree(in->index), in->key, row_id, &error));
			ls_check(status, error, in->index);
		}
		return RIVAL_GONE;
	}
	return TransactionIdIsValid(dirty->xmin) || TransactionIdIsValid(dirty->xmax) ? RIVAL_IN_DOUBT : RIVAL_LIVES;
}

static void
wait_for_rival(Insertion *in, const SnapshotData *dirty)
{
	TransactionId xid = TransactionIdIsValid(dirty->xmin) ? dirty->xmin : dirty->xmax;
	ItemPointerData tid;

	if (dirty->speculativeToken != 0)
		SpeculativeInsertionWait(xid, dirty->speculativeToken);
	else
	{
		ls_row_to_tid(in->row_id, &tid);
		XactLockTableWait(xid, in->table, &tid, XLTW_InsertIndex);
	}
}

/* Is the row that we insert for still there?  A concurrent build may come too late. */
static bool
own_row_lives(Insertion *in)
{
	ItemPointerData tid;

	ls_row_to_tid(in->row_id, &tid);
	return table_index_fetch_tuple_check(in->table, &tid, SnapshotSelf, NULL);
}

pg_noreturn static void
raise_duplicate(Insertion *in)
{
	char	   *key = BuildIndexValueDescription(in->index, in->values, in->isnull);

	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates unique constraint \"%s\"", RelationGetRelationName(in->index)),
			 key ? errdetail("Key %s already exists.", key) : 0,
			 errtableconstraint(in->table, RelationGetRelationName(in->index))));
}

static void
ignore_rival(Insertion *in, uint64 row_id)
{
	if (in->n_ignore == in->max_ignore)
	{
		in->max_ignore = Max(8, in->max_ignore * 2);
		in->ignore = in->ignore == NULL ? palloc_array(uint64, in->max_ignore)
			: repalloc_array(in->ignore, uint64, in->max_ignore);
	}
	in->ignore[in->n_ignore++] = row_id;
}

static void
insert_any(Insertion *in)
{
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_index_insert(ls_writer(), ls_index_tree(in->index), ls_open(in->table), in->key, in->row_id,
									in->payload, &error));
	/* LS_EXISTS: this very entry is there already */
	if (status != LS_EXISTS)
		ls_check(status, error, in->index);
}

/* Insert if no row with an equal key lives.  False: for this check (UNIQUE_CHECK_PARTIAL) there may be one; nothing is inserted. */
static bool
insert_unique(Insertion *in, IndexUniqueCheck check)
{
	SnapshotData dirty;

	InitDirtySnapshot(dirty);
	for (;;)
	{
		uint64		rival;
		ls_error	error;
		ls_status	status;

		LS_CALL(status, ls_index_insert_unique(ls_writer(), ls_index_tree(in->index), ls_open(in->table), in->key,
											   in->row_id, in->payload, in->ignore, in->n_ignore, &rival, &error));
		if (status == LS_OK)
			return true;
		if (status != LS_EXISTS)
			ls_check(status, error, in->index);
		if (rival == in->row_id)
			return true;		/* this very entry is there already */

		switch (look_at_rival(in, rival, &dirty))
		{
			case RIVAL_GONE:
				ignore_rival(in, rival);
				break;
			case RIVAL_IN_DOUBT:
				if (check == UNIQUE_CHECK_PARTIAL)
					return false;
				wait_for_rival(in, &dirty);
				break;
			case RIVAL_LIVES:
				if (check == UNIQUE_CHECK_PARTIAL)
					return false;
				if (own_row_lives(in))
					raise_duplicate(in);
				ignore_rival(in, rival);
				break;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

/* ---- the second look of a deferred constraint ------------------------------ */

/* All rows with an equal key, into `ignore`: these are the ones that are there now. */
static void
collect_rivals(Insertion *in)
{
	uint8		end[LS_MAX_KEY_BYTES + 6];
	ls_index_scan *scan = NULL;
	ls_index_entry entry;
	ls_error	error;
	ls_status	status;

	/* behind the greatest row id */
	memcpy(end, in->key.data, in->key.len);
	memset(end + in->key.len, 0xFF, 6);

	in->n_ignore = 0;
	ls_check(ls_index_scan_open(ls_reader(), ls_index_tree(in->index), &scan, &error), error, in->index);
	PG_TRY();
	{
		LS_CALL(status, ls_index_scan_range(scan, in->key, (ls_bytes) {end, in->key.len + 6}, false, &error));
		ls_check(status, error, in->index);
		for (;;)
		{
			LS_CALL(status, ls_index_scan_next(scan, &entry, &error));
			if (status == LS_END)
				break;
			ls_check(status, error, in->index);
			ignore_rival(in, entry.row_id);
		}
	}
	PG_FINALLY();
	{
		ls_index_scan_close(scan);
	}
	PG_END_TRY();
}

/* Look at the rivals collected; false when one was waited for and the list is out of date. */
static bool
check_rivals(Insertion *in)
{
	SnapshotData dirty;
	bool		found = false;

	InitDirtySnapshot(dirty);
	for (uint32 i = 0; i < in->n_ignore; i++)
	{
		if (in->ignore[i] == in->row_id)
		{
			found = true;
			continue;
		}
		switch (look_at_rival(in, in->ignore[i], &dirty))
		{
			case RIVAL_GONE:
				break;
			case RIVAL_IN_DOUBT:
				wait_for_rival(in, &dirty);
				return false;
			case RIVAL_LIVES:
				if (!own_row_lives(in))
					return true;
				raise_duplicate(in);
		}
	}
	if (!found)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("failed to re-find entry within index \"%s\"", RelationGetRelationName(in->index)),
				 errhint("This may be because of a non-immutable index expression."),
				 errtableconstraint(in->table, RelationGetRelationName(in->index))));
	return true;
}

/* ---- aminsert -------------------------------------------------------------- */

static bool
has_null_key(const LsIndexShape *shape, const bool *isnull)
{
	for (int i = 0; i < shape->n_keys; i++)
		if (isnull[i])
			return true;
	return false;
}

bool
ls_index_aminsert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation table,
				  IndexUniqueCheck check, bool unchanged, IndexInfo *info)
{
	Insertion	in = {.index = index, .table = table, .values = values, .isnull = isnull, .row_id = ls_tid_to_row(tid)};
	bool		unique = true;

	Assert(ls_tid_names_row(tid));
	in.key = ls_index_form_key(index, values, isnull);

	if (check != UNIQUE_CHECK_NO && !index->rd_index->indnullsnotdistinct &&
		has_null_key(ls_index_shape(index), isnull))
	{
		/* equal to none, then; a second look finds what the first has inserted */
		if (check == UNIQUE_CHECK_EXISTING)
			return true;
		check = UNIQUE_CHECK_NO;
	}

	if (check == UNIQUE_CHECK_EXISTING)
		do
			collect_rivals(&in);
		while (!check_rivals(&in));
	else
	{
		in.payload = ls_index_form_payload(index, in.key, values, isnull);
		if (check != UNIQUE_CHECK_NO)
			unique = insert_unique(&in, check);
		if (check == UNIQUE_CHECK_NO || !unique)
			insert_any(&in);
	}
	if (in.ignore != NULL)
		pfree(in.ignore);
	return unique;
}
