/*
 * ls_index_insert.c - insertion of an entry, and what makes an index unique.
 *
 * The engine decides in one step whether an entry with an equal key is there and
 * inserts if not.  What it meets is an entry, not a row: whether the row counts is
 * found out here, with the table's dirty snapshot, as btree does.  A row that counts is
 * a conflict; one in doubt is waited for; those that do not count are passed over when
 * the insertion is tried again (row ids are not used again, and a row that is gone does
 * not come back).
 *
 * In an index with labels (ls_order_label.h), and for a long key, the key has to be found first,
 * and again for each try: what it was found by may be gone after a wait for another transaction.
 */
#include "postgres.h"

#include "ls_index_internal.h"
#include "ls_index_scan.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"
#include "row/ls_row.h"

#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
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
	LsOrderLabelKey *labels;			/* NULL: the key has none */

	/*
	 * Rows with an equal key: all that were met; and, moved to the front, those that do not count.
	 */
	uint64	   *conflicts;
	uint32		n_conflicts;
	uint32		n_ignored;
	uint32		max_conflicts;
} Insertion;

/* What a row with an equal key means to us. */
typedef enum Conflict
{
	CONFLICT_GONE,					/* nothing */
	CONFLICT_IN_DOUBT,				/* depends on how a transaction ends */
	CONFLICT_LIVES
} Conflict;

static Conflict
look_at_conflict(Insertion *in, uint64 row_id, SnapshotData *dirty)
{
	ItemPointerData tid;
	bool		all_dead = false;

	ls_row_to_tid(row_id, &tid);
	if (!table_index_fetch_tuple_check(in->table, &tid, dirty, &all_dead))
	{
		if (all_dead)
			ls_index_remove_dead(in->index, in->table, in->key, row_id);
		return CONFLICT_GONE;
	}
	return TransactionIdIsValid(dirty->xmin) || TransactionIdIsValid(dirty->xmax)
			   ? CONFLICT_IN_DOUBT
			   : CONFLICT_LIVES;
}

static void
wait_for_conflict(Insertion *in, const SnapshotData *dirty)
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

/*
 * A transaction may go on after the error, knowing that there is such a row: lock it
 * as it would be if it had been read.  False: it was changed while the backend waited.
 */
static bool
lock_conflict(Insertion *in, uint64 row_id, SnapshotData *dirty)
{
	if (!ls_locks(in->table))
		return true;
	ls_lock_row(in->table, row_id, LS_RANGE_SHARED);
	return look_at_conflict(in, row_id, dirty) == CONFLICT_LIVES;
}

/*
 * Is the row that the entry leads to still there?  A concurrent build, or a deferred check, may
 * come too late.
 */
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
			 errmsg("duplicate key value violates unique constraint \"%s\"",
					RelationGetRelationName(in->index)),
			 key ? errdetail("Key %s already exists.", key) : 0,
			 errtableconstraint(in->table, RelationGetRelationName(in->index))));
}

/* Find all entries with an equal key, as they are now. */
static void
find_conflicts(Insertion *in)
{
	uint8		end[LS_MAX_KEY_BYTES + 6];
	ls_index_scan *scan = ls_index_scan_open_owned(in->index, ls_index_tree(in->index));
	ls_index_entry entry;
	ls_error	error;
	ls_status	status;

	/* behind the greatest row id */
	memcpy(end, in->key.data, in->key.len);
	memset(end + in->key.len, 0xFF, 6);

	in->n_conflicts = 0;
	in->n_ignored = 0;
	LS_CALL(status,
			ls_index_scan_range(scan, in->key, (ls_bytes){end, in->key.len + 6}, false, &error));
	ls_check(status, error, in->index);
	for (;;)
	{
		LS_CALL(status, ls_index_scan_next(scan, &entry, &error));
		if (status == LS_END)
			break;
		ls_check(status, error, in->index);
		/* a label may have become another value's since */
		if (in->labels != NULL &&
			!ls_order_label_key_equals(in->labels, &entry, in->values, in->isnull))
			continue;
		if (in->n_conflicts == in->max_conflicts)
		{
			in->max_conflicts = Max(8, in->max_conflicts * 2);
			in->conflicts = in->conflicts == NULL ? palloc_array(uint64, in->max_conflicts)
				: repalloc_array(in->conflicts, uint64, in->max_conflicts);
		}
		in->conflicts[in->n_conflicts++] = entry.row_id;
	}
	ls_index_scan_close_owned(scan);
}

typedef enum Verdict
{
	UNIQUE,						/* no row found that counts */
	MAYBE_NOT,					/* UNIQUE_CHECK_PARTIAL does not want to know more */
	WAITED						/* a transaction has ended: look again */
} Verdict;

/* Look at the conflicts found.  *found_own: our entry is among them. */
static Verdict
check_conflicts(Insertion *in, IndexUniqueCheck check, bool *found_own)
{
	SnapshotData dirty;

	InitDirtySnapshot(dirty);
	*found_own = false;
	for (uint32 i = 0; i < in->n_conflicts; i++)
	{
		uint64		row_id = in->conflicts[i];
		Conflict		conflict;

		CHECK_FOR_INTERRUPTS();
		if (row_id == in->row_id)
		{
			*found_own = true;
			continue;
		}
		conflict = look_at_conflict(in, row_id, &dirty);
		if (conflict != CONFLICT_GONE && check == UNIQUE_CHECK_PARTIAL)
			return MAYBE_NOT;
		if (conflict == CONFLICT_IN_DOUBT)
		{
			wait_for_conflict(in, &dirty);
			return WAITED;
		}
		if (conflict == CONFLICT_LIVES && own_row_lives(in))
		{
			if (!lock_conflict(in, row_id, &dirty))
				return WAITED;
			raise_duplicate(in);
		}
		in->conflicts[in->n_ignored++] = row_id;
	}
	return UNIQUE;
}

/* Transactions that have read where the entry is going to be are in the way (SERIALIZABLE). */
static void
lock_entry(Insertion *in)
{
	ls_index_entry entry = {.row_id = in->row_id, .key = in->key};
	StringInfoData position;

	initStringInfo(&position);
	ls_index_entry_position(&entry, &position);
	appendStringInfoChar(&position, '\0');
	ls_lock_entries(in->index, (ls_bytes) {(const uint8_t *) position.data, position.len - 1},
					(ls_bytes) {(const uint8_t *) position.data, position.len}, LS_RANGE_EXCLUSIVE);
	pfree(position.data);
}

/* The key for the entry, and what goes with it. */
static void
take_key(Insertion *in, ls_bytes key)
{
	in->key = key;
	in->payload = ls_index_form_payload(in->index, key, in->values, in->isnull);
	if (ls_locks(in->index))
		lock_entry(in);
}

/*
 * A key found with others inserting may be in vain so often; then they have to wait for the search.
 */
#define TRIES_BEFORE_LOCK 3

/* Find the key in an index with labels; it stays right until it is released. */
static void
claim_key(Insertion *in)
{
	/* no waiting for range locks with the label lock held */
	bool		patient = ls_locks(in->index);

	for (int tries = 0; patient || tries < TRIES_BEFORE_LOCK; tries++)
	{
		CHECK_FOR_INTERRUPTS();
		ls_order_label_key_form(in->labels, in->values, in->isnull);
		take_key(in, ls_bytes_of(&in->labels->key));
		if (ls_order_label_key_claim(in->labels))
			return;
	}
	ls_order_label_key_form_claimed(in->labels, in->values, in->isnull);
	take_key(in, ls_bytes_of(&in->labels->key));
}

static void
begin_insertion(Insertion *in)
{
	if (in->labels != NULL)
		claim_key(in);
}

static void
end_insertion(Insertion *in)
{
	if (in->labels != NULL)
		ls_order_label_key_release(in->labels);
}

static void
insert_any(Insertion *in)
{
	/* copied: to open the index may process invalidations */
	ls_rel		table = *ls_open(in->table);
	ls_error	error;
	ls_status	status;

	begin_insertion(in);
	LS_CALL_ON(in->index, status,
			   ls_index_insert(ls_writer(), ls_index_tree(in->index), &table, in->key, in->row_id,
							   in->payload, &error));
	/* LS_EXISTS: so is this very entry */
	if (status != LS_EXISTS)
		ls_check(status, error, in->index);
	end_insertion(in);
}

/*
 * The old row of an update does not count: most often it has the same key, and to find that out
 * takes two searches.
 */
static void
ignore_old_row(Insertion *in)
{
	uint64		old = ls_moved_from(in->table, in->row_id, GetCurrentCommandId(false));

	if (old == 0)
		return;
	in->max_conflicts = 8;
	in->conflicts = palloc_array(uint64, in->max_conflicts);
	in->conflicts[in->n_ignored++] = old;
}

/* Insert if no row with an equal key lives.  False: there may be one, and nothing is inserted. */
static bool
insert_unique(Insertion *in, IndexUniqueCheck check)
{
	ignore_old_row(in);
	for (;;)
	{
		ls_rel		table = *ls_open(in->table);	/* copied, as above */
		bool		found_own;
		uint64		conflict;
		ls_error	error;
		ls_status	status;

		CHECK_FOR_INTERRUPTS();
		begin_insertion(in);
		LS_CALL_ON(in->index, status,
				   ls_index_insert_unique(ls_writer(), ls_index_tree(in->index), &table, in->key,
										  in->row_id, in->payload, in->conflicts, in->n_ignored,
										  &conflict, &error));
		if (status != LS_OK && status != LS_EXISTS)
			ls_check(status, error, in->index);
		end_insertion(in);
		if (status == LS_OK)
			return true;

		find_conflicts(in);
		switch (check_conflicts(in, check, &found_own))
		{
			case MAYBE_NOT:
				return false;
			case UNIQUE:
				if (found_own)
					return true;	/* this very entry is there already */
				break;
			case WAITED:
				break;
		}
	}
}

/* The second look of a deferred constraint: the entry is there already. */
static void
check_existing(Insertion *in)
{
	bool		found_own;

	do
		find_conflicts(in);
	while (check_conflicts(in, UNIQUE_CHECK_EXISTING, &found_own) == WAITED);

	if (!found_own)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("failed to re-find entry within index \"%s\"",
						RelationGetRelationName(in->index)),
				 errhint("This may be because of a non-immutable index expression."),
				 errtableconstraint(in->table, RelationGetRelationName(in->index))));
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

void
ls_index_insert_entry(Relation index, Relation table, const Datum *values, const bool *isnull,
					  uint64 row_id)
{
	Insertion	in = {.index = index,
					.table = table,
					.values = values,
					.isnull = isnull,
					.row_id = row_id};

	Assert(!ls_index_key_is_long(index, values, isnull) && ls_index_shape(index)->n_labels == 0);
	take_key(&in, ls_index_form_key(index, values, isnull));
	insert_any(&in);
}

bool
ls_index_aminsert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation table,
				  IndexUniqueCheck check, bool unchanged, IndexInfo *info)
{
	Insertion	in = {.index = index,
					.table = table,
					.values = values,
					.isnull = isnull,
					.row_id = ls_tid_to_row(tid)};
	bool		unique = true;

	const LsIndexShape *shape = ls_index_shape(index);

	Assert(ls_tid_names_row(tid));

	if (check != UNIQUE_CHECK_NO && !index->rd_index->indnullsnotdistinct &&
		has_null_key(shape, isnull))
	{
		/* equal to none, then; a second look finds what the first has inserted */
		if (check == UNIQUE_CHECK_EXISTING)
			return true;
		check = UNIQUE_CHECK_NO;
	}

	if (shape->n_labels == 0)
		in.key = ls_index_form_key(index, values, isnull);
	if (shape->n_labels > 0 || ls_index_is_long(shape, in.key.len))
		in.labels = ls_order_label_key_begin(index);
	if (check == UNIQUE_CHECK_EXISTING)
	{
		if (in.labels != NULL)
		{
			ls_order_label_key_form(in.labels, values, isnull);
			in.key = ls_bytes_of(&in.labels->key);
		}
		check_existing(&in);
	}
	else
	{
		if (in.labels == NULL)
			take_key(&in, in.key);
		if (check != UNIQUE_CHECK_NO)
			unique = insert_unique(&in, check);
		if (check == UNIQUE_CHECK_NO || !unique)
			insert_any(&in);
	}
	if (in.labels != NULL)
		ls_order_label_key_end(in.labels);
	if (in.conflicts != NULL)
		pfree(in.conflicts);
	return unique;
}
