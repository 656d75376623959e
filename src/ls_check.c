/*
 * ls_check.c - leanstore_check(regclass): the table's tree, and each index against its rows, both ways.
 *
 * Of a leanstore index the tree is checked, and every entry: its bytes must be those that the row gives, labels must
 * order as the comparison procedure does, and of equal keys of a unique index one row at most may live.  A btree is read by an index scan, so that the keys of its
 * entries are compared as well.  Other kinds show their entries only to VACUUM: they are asked to "delete" what a
 * callback chooses, which notes every row and chooses none.  BRIN has no entries.
 *
 * Rows may change meanwhile, so each difference is decided on the row again
 * under the newest state.  Index against table: an entry whose row lives must carry
 * the key that the row has now; in an index that is marked for stale entries (index/ls_index_stale.c) one that
 * does not is left aside.  Table against index: every committed
 * row that satisfies the predicate must be found, by its present key.
 */
#include "ls.h"
#include "index/ls_index_label.h"
#include "ls_pin.h"
#include "ls_table.h"

#include "access/genam.h"
#include "access/itup.h"
#include "access/relation.h"
#include "access/relscan.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(leanstore_check);

/* What an index says: row id -> seen, how often. */
typedef struct SeenRow
{
	uint64		row_id;			/* hash key */
	uint64		entries;
} SeenRow;

typedef struct IndexCheck
{
	Relation	table;
	Relation	index;
	IndexInfo  *info;
	EState	   *estate;
	ExprState  *predicate;
	TupleTableSlot *slot;
	HTAB	   *seen;
} IndexCheck;

static bool
satisfies_predicate(IndexCheck *check)
{
	ExprContext *econtext = GetPerTupleExprContext(check->estate);

	econtext->ecxt_scantuple = check->slot;
	return check->predicate == NULL || ExecQual(check->predicate, econtext);
}

pg_noreturn static void
raise_different(IndexCheck *check, ItemPointer tid, int column)
{
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg("index \"%s\" has an entry for row (%u,%u) whose column %d differs from the row",
					RelationGetRelationName(check->index),
					ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid), column),
			 errhint("REINDEX the index.")));
}

/* Entry's key columns against what the row gives now. */
static void
check_entry(IndexCheck *check, IndexTuple itup, TupleDesc itup_desc, ItemPointer tid)
{
	Datum		row_values[INDEX_MAX_KEYS];
	bool		row_nulls[INDEX_MAX_KEYS];

	FormIndexDatum(check->info, check->slot, check->estate, row_values, row_nulls);
	for (int i = 0; i < check->info->ii_NumIndexAttrs; i++)
	{
		CompactAttribute *att = TupleDescCompactAttr(itup_desc, i);
		bool		isnull;
		Datum		value = index_getattr(itup, i + 1, itup_desc, &isnull);
		bool		equal;

		/* An opclass may store another type (name as cstring): images do not compare then. */
		if (OidIsValid(check->index->rd_opcintype[i]) &&
			TupleDescAttr(RelationGetDescr(check->index), i)->atttypid == CSTRINGOID)
			continue;
		if (isnull || row_nulls[i])
			equal = isnull == row_nulls[i];
		else
			equal = datum_image_eq(value, row_values[i], att->attbyval, att->attlen);
		if (!equal)
			raise_different(check, tid, i + 1);
	}
}

static void
note_entry(HTAB *seen, ItemPointer tid)
{
	bool		found;
	SeenRow		key = {ls_tid_to_row(tid)};
	SeenRow    *row = hash_search(seen, &key, HASH_ENTER, &found);

	row->entries = found ? row->entries + 1 : 1;
}

static void
btree_entries_against_rows(IndexCheck *check)
{
	IndexScanDesc scan = index_beginscan(check->table, check->index, SnapshotAny, NULL, 0, 0);
	ItemPointer tid;

	scan->xs_want_itup = true;
	index_rescan(scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		note_entry(check->seen, tid);
		if (!table_tuple_fetch_row_version(check->table, tid, SnapshotSelf, check->slot))
			continue;			/* dead: the entry waits for cleaning */
		ResetPerTupleExprContext(check->estate);
		check_entry(check, scan->xs_itup, scan->xs_itupdesc, tid);
	}
	index_endscan(scan);
}

/* ---- leanstore indexes */

/* A column of the key against the row's value: its bytes, or that there is a label. */
static bool
slice_is_right(const LsKeyColumn *column, const uint8 *slice, Size len, Datum value, bool isnull)
{
	StringInfoData expected;

	if (ls_key_has_labels(column) && !isnull)
		return len > 1;
	initStringInfo(&expected);
	ls_key_append(column, value, isnull, &expected);
	return expected.len == len && memcmp(expected.data, slice, len) == 0;
}

/* Of a long key: the bytes that the entry has of it, and a label for the others. */
static bool
beginning_is_right(Relation index, const ls_index_entry *entry,
				   const Datum *values, const bool *isnull)
{
	const LsKeyColumn *rest = ls_index_rest(ls_index_shape(index));
	ls_bytes	whole = ls_index_form_key(index, values, isnull);
	Size		left = entry->key.len - LS_LONG_KEY_BYTES;

	return whole.len > LS_LONG_KEY_BYTES &&
		memcmp(whole.data, entry->key.data, LS_LONG_KEY_BYTES) == 0 &&
		ls_key_column_length(rest, entry->key.data + LS_LONG_KEY_BYTES, left) == left;
}

/*
 * The key must be the one that the row gives, byte for byte but for labels; of what is stored
 * beside it the values count, for they may have been compressed in another way.  *has_null:
 * a key column is NULL.
 */
static void
check_leanstore_entry(IndexCheck *check, const ls_index_entry *entry, ItemPointer tid, bool *has_null)
{
	const LsIndexShape *shape = ls_index_shape(check->index);
	Datum		row_values[INDEX_MAX_KEYS];
	bool		row_nulls[INDEX_MAX_KEYS];
	Datum		values[INDEX_MAX_KEYS];
	bool		nulls[INDEX_MAX_KEYS];
	const uint8 *at = entry->key.data;
	Size		left = entry->key.len;
	bool		is_long = ls_index_is_long(shape, entry->key.len);
	int			n_stored = is_long ? shape->n_columns : shape->n_stored;

	FormIndexDatum(check->info, check->slot, check->estate, row_values, row_nulls);
	if (is_long && !beginning_is_right(check->index, entry, row_values, row_nulls))
		raise_different(check, tid, 1);
	for (int i = 0; i < shape->n_keys && !is_long; i++)
	{
		Size		len = ls_key_column_length(&shape->keys[i], at, left);

		if (len == 0 || !slice_is_right(&shape->keys[i], at, len, row_values[i], row_nulls[i]) ||
			(i == shape->n_keys - 1 && len != left))
			raise_different(check, tid, i + 1);
		at += len;
		left -= len;
	}

	*has_null = false;
	for (int i = 0; i < shape->n_keys; i++)
		*has_null |= row_nulls[i];

	ls_index_deform(check->index, entry, values, nulls);
	for (int i = 0; i < n_stored; i++)
	{
		int			column = is_long ? i : shape->stored[i] - 1;
		CompactAttribute *att = TupleDescCompactAttr(RelationGetDescr(check->index), column);

		if (nulls[column] != row_nulls[column] ||
			(!nulls[column] && !datum_image_eq(values[column], row_values[column], att->attbyval, att->attlen)))
			raise_different(check, tid, column + 1);
	}
}

static bool
lives(IndexCheck *check, uint64 row_id)
{
	ItemPointerData tid;

	ls_row_to_tid(row_id, &tid);
	return table_tuple_fetch_row_version(check->table, &tid, SnapshotSelf, check->slot);
}

/* The last row seen that lives, and its key. */
typedef struct LastRow
{
	uint64		row_id;			/* 0: none */
	StringInfoData key;
} LastRow;

/*
 * This row lives and was the last to be found so.  If the one before has the same key,
 * and still lives, both did at this moment: rows do not come back.
 */
static void
check_unique(IndexCheck *check, LastRow *last, const ls_index_entry *entry)
{
	bool		equal = last->row_id != 0 && last->key.len == entry->key.len &&
		memcmp(last->key.data, entry->key.data, entry->key.len) == 0;

	if (equal && lives(check, last->row_id))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("unique index \"%s\" has two rows with the same key: (%u,%u) and (%u,%u)",
						RelationGetRelationName(check->index),
						ls_row_to_block(last->row_id), ls_row_to_offset(last->row_id),
						ls_row_to_block(entry->row_id), ls_row_to_offset(entry->row_id)),
				 errhint("Delete one of them and REINDEX the index.")));
	last->row_id = entry->row_id;
	resetStringInfo(&last->key);
	appendBinaryStringInfo(&last->key, entry->key.data, entry->key.len);
}

static void
leanstore_entries_against_rows(IndexCheck *check)
{
	Form_pg_index form = check->index->rd_index;
	bool		can_be_stale = ls_index_can_be_stale(check->index);
	ls_index_scan *scan;
	LsLabelCheck *labels = NULL;
	LastRow		last = {0};
	ls_check_result result;
	ls_index_entry entry;
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_rel_check(ls_reader(), ls_index_tree(check->index), &result, &error));
	ls_check(status, error, check->index);

	initStringInfo(&last.key);
	if (ls_index_shape(check->index)->n_labels > 0 || ls_index_shape(check->index)->can_be_long)
		labels = ls_label_check_begin(check->index);
	scan = ls_index_scan_open_owned(check->index, ls_index_tree(check->index));
	LS_CALL(status, ls_index_scan_range(scan, (ls_bytes) {0}, (ls_bytes) {0}, false, &error));
	ls_check(status, error, check->index);
	for (;;)
	{
		ItemPointerData tid;
		MemoryContext old;
		bool		has_null;

		CHECK_FOR_INTERRUPTS();
		LS_CALL(status, ls_index_scan_next(scan, &entry, &error));
		if (status == LS_END)
			break;
		ls_check(status, error, check->index);

		ls_row_to_tid(entry.row_id, &tid);
		if (!can_be_stale)
			note_entry(check->seen, &tid);
		if (labels != NULL)
			ls_label_check_entry(labels, &entry);
		if (!lives(check, entry.row_id))
			continue;			/* dead: the entry waits for cleaning */
		if (can_be_stale)
		{
			if (ls_index_has_stale(check->index) && !ls_index_is_key_of(check->index, entry.key, check->slot))
				continue;		/* stale, and waits for cleaning as well */
			note_entry(check->seen, &tid);
		}
		ResetPerTupleExprContext(check->estate);
		old = MemoryContextSwitchTo(GetPerTupleMemoryContext(check->estate));
		check_leanstore_entry(check, &entry, &tid, &has_null);
		MemoryContextSwitchTo(old);
		if (form->indisunique && form->indimmediate && (!has_null || form->indnullsnotdistinct))
			check_unique(check, &last, &entry);
	}
	ls_index_scan_close_owned(scan);
	if (labels != NULL)
		ls_label_check_end(labels);
	pfree(last.key.data);
}

/* ---- other kinds */

static bool
note_entry_keep_it(ItemPointer tid, void *seen)
{
	note_entry(seen, tid);
	return false;
}

static void
note_all_entries(IndexCheck *check)
{
	IndexVacuumInfo info = {
		.index = check->index,
		.heaprel = check->table,
		.message_level = DEBUG2,
		.num_heap_tuples = check->table->rd_rel->reltuples,
		.estimated_count = true,
	};

	/* As VACUUM: one at a time. */
	LockRelation(check->table, ShareUpdateExclusiveLock);
	index_bulk_delete(&info, NULL, note_entry_keep_it, check->seen);
}

/* For the kinds that have one entry for a row. */
static void
no_entry_twice(IndexCheck *check)
{
	HASH_SEQ_STATUS rows;
	SeenRow    *row;

	hash_seq_init(&rows, check->seen);
	while ((row = hash_seq_search(&rows)) != NULL)
	{
		ItemPointerData tid;

		CHECK_FOR_INTERRUPTS();
		if (row->entries == 1)
			continue;
		ls_row_to_tid(row->row_id, &tid);
		if (!table_tuple_fetch_row_version(check->table, &tid, SnapshotSelf, check->slot))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" has " UINT64_FORMAT " entries for row (%u,%u)",
						RelationGetRelationName(check->index), row->entries,
						ItemPointerGetBlockNumber(&tid), ItemPointerGetOffsetNumber(&tid)),
				 errhint("REINDEX the index.")));
	}
}

/*
 * Is there an entry for the row as it is?  That the index was read and none was met means nothing where rows get other
 * keys meanwhile.
 */
static bool
has_entry_now(IndexCheck *check, ItemPointer tid)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	/* it has to have changed again for each look in vain */
	for (int looks = 0; looks < 10; looks++)
	{
		ls_index_seen seen;
		ls_bytes	key;
		ls_error	error;
		ls_status	status;

		CHECK_FOR_INTERRUPTS();
		if (!table_tuple_fetch_row_version(check->table, tid, SnapshotSelf, check->slot))
			return true;		/* it needs none any more */
		FormIndexDatum(check->info, check->slot, check->estate, values, isnull);
		key = ls_index_form_key(check->index, values, isnull);
		/* a row that has got it has moved: its entry was there when the index was read */
		if (ls_index_is_long(ls_index_shape(check->index), key.len))
			return false;
		LS_CALL(status, ls_index_look(ls_reader(), ls_index_tree(check->index), key,
									  ls_tid_to_row(tid), &seen, &error));
		if (status == LS_OK)
			return true;
		if (status != LS_NOT_FOUND)
			ls_check(status, error, check->index);
	}
	return false;
}

static void
rows_against_entries(IndexCheck *check, Snapshot snapshot)
{
	TableScanDesc scan = table_beginscan(check->table, snapshot, 0, NULL);

	while (table_scan_getnextslot(scan, ForwardScanDirection, check->slot))
	{
		ItemPointerData tid = check->slot->tts_tid;
		SeenRow		key = {ls_tid_to_row(&tid)};

		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(check->estate);
		if (hash_search(check->seen, &key, HASH_FIND, NULL) != NULL)
			continue;
		if (!satisfies_predicate(check))
			continue;
		/* Deleted since, or moved to another row id: then the index is right. */
		if (!table_tuple_fetch_row_version(check->table, &tid, SnapshotSelf, check->slot))
			continue;
		if (!satisfies_predicate(check))
			continue;
		if (ls_index_has_stale(check->index) && has_entry_now(check, &tid))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("row (%u,%u) of table \"%s\" is missing in index \"%s\"",
						ItemPointerGetBlockNumber(&tid), ItemPointerGetOffsetNumber(&tid),
						RelationGetRelationName(check->table), RelationGetRelationName(check->index)),
				 errhint("REINDEX the index.")));
	}
	table_endscan(scan);
}

static void
check_index(Relation table, Oid index_oid)
{
	IndexCheck	check = {0};
	HASHCTL		control = {.keysize = sizeof(uint64), .entrysize = sizeof(SeenRow)};
	Snapshot	snapshot;

	check.index = index_open(index_oid, AccessShareLock);
	if (check.index->rd_rel->relam != BRIN_AM_OID && check.index->rd_index->indisvalid)
	{
		/* Rows committed before the index is read must be in it. */
		ls_pin_withdraw();
		snapshot = RegisterSnapshot(GetLatestSnapshot());
		check.table = table;
		check.info = BuildIndexInfo(check.index);
		check.estate = CreateExecutorState();
		check.predicate = ExecPrepareQual(check.info->ii_Predicate, check.estate);
		check.slot = table_slot_create(table, NULL);
		check.seen = hash_create("leanstore_check rows", 1024, &control, HASH_ELEM | HASH_BLOBS);
		GetPerTupleExprContext(check.estate)->ecxt_scantuple = check.slot;

		if (ls_is_index(check.index))
			leanstore_entries_against_rows(&check);
		else if (check.index->rd_rel->relam == BTREE_AM_OID)
			btree_entries_against_rows(&check);
		else
			note_all_entries(&check);
		/* a row that has got another key meanwhile has been met with both */
		if (check.index->rd_rel->relam != GIN_AM_OID && !ls_index_has_stale(check.index))
			no_entry_twice(&check);
		rows_against_entries(&check, snapshot);

		hash_destroy(check.seen);
		ExecDropSingleTupleTableSlot(check.slot);
		FreeExecutorState(check.estate);
		UnregisterSnapshot(snapshot);
	}
	index_close(check.index, AccessShareLock);
}

Datum
leanstore_check(PG_FUNCTION_ARGS)
{
	Relation	rel = ls_inspect_open(PG_GETARG_OID(0));
	ls_check_result result;
	ls_error	error = {0};

	ls_check(ls_rel_check(ls_reader(), ls_open(rel), &result, &error), error, rel);
	ereport(DEBUG1,
			(errmsg("leanstore table \"%s\": " UINT64_FORMAT " pages, " UINT64_FORMAT " rows, " UINT64_FORMAT " ghosts",
					RelationGetRelationName(rel), result.pages, result.rows, result.ghosts)));
	foreach_oid(index_oid, RelationGetIndexList(rel))
		check_index(rel, index_oid);
	relation_close(rel, AccessShareLock);
	PG_RETURN_VOID();
}
