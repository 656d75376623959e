/*
 * ls_index_build.c - CREATE INDEX and REINDEX: read the table, sort the entries, fill pages from
 * left to right.
 *
 * Of equal keys that meet in the sorted order one row at most may live, if the index is
 * unique.  A row that is dead, but not to all snapshots, gets its entry and counts for
 * nothing.
 */
#include "postgres.h"

#include "ls_index_build.h"
#include "ls_index_internal.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"
#include "row/ls_row.h"

#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/storage.h"
#include "commands/progress.h"
#include "pgstat.h"
#include "storage/smgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Subphases of "building index". */
#define PHASE_SCAN 2
#define PHASE_SORT 3
#define PHASE_LOAD 4

/* Progress is reported after so many entries. */
#define REPORTED_ENTRIES 1024

/*
 * So many entries are compared with the one before, if that depends on a collation of libc. For all
 * of a million words that takes nearly as long as the rest of the build.
 */
#define ORDER_CHECKED_ENTRIES 100000

static void
add_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
	LsIndexBuild *b = state;
	uint64		row_id = ls_tid_to_row(tid);
	MemoryContext old = MemoryContextSwitchTo(b->row_context);

	if (b->labels != NULL)
		ls_order_label_sort_add(b->labels, tid, values, isnull, alive);
	else
	{
		ls_bytes	key = ls_index_form_key(index, values, isnull);
		ls_bytes	cut = {key.data, Min(key.len, LS_LONG_ENTRY_BYTES)};
		ls_bytes	payload = ls_index_form_payload(index, cut, values, isnull);
		uint8		flags = alive ? 0 : LS_RECORD_IS_DEAD;

		for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
			if (isnull[i])
				flags |= LS_RECORD_HAS_NULL;
		ls_index_sort_add(b->sort, key, row_id, payload, flags);
	}
	b->entries += 1;
	MemoryContextSwitchTo(old);
	MemoryContextReset(b->row_context);
}

void
ls_index_build_begin(LsIndexBuild *b, Relation table, Relation index, IndexInfo *info,
					 int kilobytes)
{
	*b = (LsIndexBuild) {.table = table, .index = index, .info = info};
	initStringInfo(&b->last_long);
	initStringInfo(&b->long_entry);
	initStringInfo(&b->last_entry);
	initStringInfo(&b->last_payload);
	b->row_context = AllocSetContextCreate(CurrentMemoryContext, "leanstore index row",
										   ALLOCSET_DEFAULT_SIZES);
	if (ls_index_shape(index)->n_labels > 0)
		b->labels = ls_order_label_sort_begin(table, index, kilobytes);
	else
		b->sort = ls_index_sort_begin(ls_index_shape(index), kilobytes);
}

void
ls_index_build_scan(LsIndexBuild *b, bool progress, TableScanDesc scan)
{
	b->rows = table_index_build_scan(b->table, b->index, b->info, true, progress, add_row, b, scan);
}

void
ls_index_build_end(LsIndexBuild *b)
{
	if (b->labels != NULL)
		ls_order_label_sort_end(b->labels);
	else
		ls_index_sort_end(b->sort);
	if (b->order != NULL)
		ls_index_order_end(b->order);
	MemoryContextDelete(b->row_context);
}

/* ---- the file -------------------------------------------------------------- */

/*
 * Begin with an empty file.  The file is new, or the server has just truncated it
 * (TRUNCATE in the transaction that made the table, ON COMMIT DELETE ROWS): then the
 * engine had it open, and may have written to it since.
 */
static void
begin_file(Relation index)
{
	ls_relation_empty(index);
	ls_relation_note_index(index);	/* without entries it is not opened */
	if (index->rd_createSubid != InvalidSubTransactionId ||
		index->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
		ls_relation_note_dropped(&index->rd_locator, index->rd_backend, false);
}

/* ---- loading --------------------------------------------------------------- */

pg_noreturn static void
raise_duplicate(LsIndexBuild *b, const LsIndexRecord *record)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	ls_index_entry entry = {.key = {record->entry.data, record->key_len},
							.payload = record->payload};
	char	   *description;

	ls_index_deform(b->index, &entry, values, isnull);
	description = BuildIndexValueDescription(b->index, values, isnull);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("could not create unique index \"%s\"", RelationGetRelationName(b->index)),
			 description ? errdetail("Key %s is duplicated.", description)
						 : errdetail("Duplicate keys exist."),
			 errtableconstraint(b->table, RelationGetRelationName(b->index))));
}

/* Complain when the key is that of the last row that lives; else this row is the last. */
static void
check_unique(LsIndexBuild *b, const LsIndexRecord *record, StringInfo last_key)
{
	if ((record->flags & LS_RECORD_IS_DEAD) ||
		((record->flags & LS_RECORD_HAS_NULL) && !b->info->ii_NullsNotDistinct))
		return;
	if (last_key->len == record->key_len &&
		memcmp(last_key->data, record->entry.data, record->key_len) == 0)
		raise_duplicate(b, record);
	resetStringInfo(last_key);
	appendBinaryStringInfo(last_key, record->entry.data, record->key_len);
}

/*
 * Of a long key the entry has the beginning, and a label: one step behind that of the last key, if
 * that begins alike.
 */
static void
cut_key(LsIndexBuild *b, LsIndexRecord *record)
{
	const LsKeyColumn *rest = ls_index_rest(ls_index_shape(b->index));
	StringInfo	last = &b->last_long;
	StringInfo	entry = &b->long_entry;
	bool		alike = last->len > 0 &&
		memcmp(last->data, record->entry.data, LS_LONG_KEY_BYTES) == 0;

	if (!alike || last->len != record->key_len ||
		memcmp(last->data, record->entry.data, record->key_len) != 0)
	{
		const uint8 *label = (const uint8 *) entry->data + LS_LONG_KEY_BYTES;
		int			label_len = alike ? entry->len - LS_LONG_KEY_BYTES - LS_ENTRY_ROW_ID_BYTES : 0;
		MemoryContext old = MemoryContextSwitchTo(b->row_context);

		label = label_len > 0 ? memcpy(palloc(label_len), label, label_len) : NULL;
		resetStringInfo(entry);
		appendBinaryStringInfo(entry, record->entry.data, LS_LONG_KEY_BYTES);
		ls_key_append_label(rest, label, label_len, NULL, 0, entry);
		MemoryContextSwitchTo(old);
		MemoryContextReset(b->row_context);
		resetStringInfo(last);
		appendBinaryStringInfo(last, record->entry.data, record->key_len);
	}
	else
		entry->len -= LS_ENTRY_ROW_ID_BYTES;
	appendBinaryStringInfo(entry, record->entry.data + record->key_len, LS_ENTRY_ROW_ID_BYTES);
	record->entry = (ls_bytes) {(const uint8_t *) entry->data, entry->len};
	record->key_len = entry->len - LS_ENTRY_ROW_ID_BYTES;
}

pg_noreturn static void
raise_disorder(LsIndexBuild *b, int column)
{
	Oid			collation = ls_index_shape(b->index)->keys[column - 1].collation;
	const char *name = OidIsValid(collation) ? get_collation_name(collation) : "default";

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("could not create index \"%s\": keys under collation \"%s\" do not order as "
					"strcoll() does", RelationGetRelationName(b->index), name),
			 errdetail("That shows in column %d. The C library contradicts itself.", column),
			 errhint("Make a btree index, or give the column a collation of another provider.")));
}

/*
 * Encodings of strings under collations of libc were tried with strings of all kinds; that they are
 * right for these, neighbours tell.  Of few entries all are compared, of many each eighth with the
 * next one.
 */
static void
check_order(LsIndexBuild *b, const LsIndexRecord *record, int64 loaded)
{
	if (b->last_entry.len > 0)
	{
		ls_index_entry last = {.key = {(const uint8_t *) b->last_entry.data, b->last_entry.len},
							   .payload = {(const uint8_t *) b->last_payload.data,
										   b->last_payload.len}};
		ls_index_entry entry = {.key = {record->entry.data, record->key_len},
								.payload = record->payload};
		int			column;

		/* it calls procedures, which may do anything */
		ls_interruptible(false);
		column = ls_index_order_wrong(b->order, &last, &entry);
		if (column > 0)
			raise_disorder(b, column);
		ls_interruptible(true);
	}
	resetStringInfo(&b->last_entry);
	resetStringInfo(&b->last_payload);
	if (loaded < ORDER_CHECKED_ENTRIES || loaded % 8 == 0)
	{
		appendBinaryStringInfo(&b->last_entry, record->entry.data, record->key_len);
		appendBinaryStringInfo(&b->last_payload, record->payload.data, record->payload.len);
	}
}

static bool
next_record(LsIndexBuild *b, LsIndexRecord *record)
{
	bool		result;

	if (b->labels == NULL)
	{
		if (!ls_index_sort_next(b->sort, record))
			return false;
		if (unlikely(ls_index_is_long(ls_index_shape(b->index), record->key_len)))
			cut_key(b, record);
		return true;
	}
	/* it calls procedures, which may do anything */
	ls_interruptible(false);
	result = ls_order_label_sort_next(b->labels, record);
	ls_interruptible(true);
	return result;
}

static void
load_entries(LsIndexBuild *b, ls_index_build *build)
{
	StringInfoData last_key;
	int64		loaded = 0;
	LsIndexRecord record;
	ls_error	error;
	ls_status	status;

	initStringInfo(&last_key);
	ls_interruptible(true);		/* once for all of them */
	while (next_record(b, &record))
	{
		if (b->order != NULL)
			check_order(b, &record, loaded);
		if (b->info->ii_Unique)
			check_unique(b, &record, &last_key);
		do
		{
			CHECK_FOR_INTERRUPTS();
			status = ls_index_build_add(build, record.entry, record.payload, &error);
		} while (status == LS_INTERRUPTED);
		ls_check(status, error, b->index);
		if (++loaded % REPORTED_ENTRIES == 0)
			pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, loaded);
	}
	ls_interruptible(false);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, loaded);
	pfree(last_key.data);
}

/*
 * What makes the pages of an index durable is its transaction; others are not logged, and need
 * none.
 */
static ls_worker *
index_writer(Relation index)
{
	return index->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT ? ls_writer() : ls_reader();
}

static void
load(LsIndexBuild *b)
{
	LsIndexOptions *options = (LsIndexOptions *) b->index->rd_options;
	ls_index_build *volatile build = NULL;
	ls_index_build *opened;
	ls_error	error;
	ls_status	status;

	LS_CALL(status,
			ls_index_build_open(index_writer(b->index), ls_index_tree(b->index),
								options != NULL ? options->fillfactor : LS_INDEX_DEFAULT_FILLFACTOR,
								&opened, &error));
	ls_check(status, error, b->index);
	build = opened;
	PG_TRY();
	{
		load_entries(b, opened);
		/* durable with the commit, before which all that was logged is (ls_commit_order.c) */
		LS_CALL(status, ls_index_build_finish(opened, &error));
		build = NULL;			/* it is gone, whatever finish says */
		ls_check(status, error, b->index);
	}
	PG_CATCH();
	{
		ls_interruptible(false);
		if (build != NULL)
			ls_index_build_abandon(build);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/* ---- callbacks ------------------------------------------------------------- */

/*
 * Entries have no versions: only a table that never uses a row id again can tell what they are
 * worth.
 */
void
ls_index_require_table(Relation table)
{
	if (!RELKIND_HAS_PARTITIONS(table->rd_rel->relkind) && !ls_is_table(table))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" can only index leanstore tables", LS_INDEX_AM),
				 errdetail("\"%s\" is not a leanstore table.", RelationGetRelationName(table)),
				 table->rd_rel->relispartition
				 ? errhint("Make the indexes of its partitioned table with "
						   "\"leanstore.default_index\" set to btree, or the partition USING "
						   "leanstore.")
				 : errhint("Use a btree index, or ALTER TABLE ... SET ACCESS METHOD leanstore.")));
}

/* The enums in the keys of an index that is being built stay as they are (ddl/ls_index_enum.c). */
static void
lock_enums(Relation index)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
		foreach_oid(type, ls_key_enums(TupleDescAttr(RelationGetDescr(index), i)->atttypid))
			LockDatabaseObject(TypeRelationId, type, 0, RowShareLock);
}

IndexBuildResult *
ls_index_ambuild(Relation table, Relation index, IndexInfo *info)
{
	LsIndexBuild b;
	LsIndexBuildTeam *team = NULL;
	IndexBuildResult *result = palloc0_object(IndexBuildResult);

	ls_index_require_table(table);
	lock_enums(index);
	begin_file(index);
	ls_index_choose_forms(index);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PHASE_SCAN);
	/* the procedures of an index with labels are called by one process */
	if (info->ii_ParallelWorkers > 0 && ls_index_shape(index)->n_labels == 0)
	{
		/* a transaction id can not be had any more among parallel workers */
		(void) index_writer(index);
		team = ls_index_build_team(table, index, info);
	}
	ls_index_build_begin(&b, table, index, info,
						 maintenance_work_mem / ls_index_build_team_size(team));
	if (team != NULL)
		ls_index_build_team_scan(team, &b);
	else
		ls_index_build_scan(&b, true, NULL);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, (int64) b.entries);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PHASE_SORT);
	if (b.labels != NULL)
		ls_order_label_sort_perform(b.labels);
	else
		ls_index_sort_perform(b.sort);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, PHASE_LOAD);
	b.order = ls_index_order_begin(index);
	if (b.entries > 0)			/* an empty file is an empty tree */
		load(&b);

	result->heap_tuples = b.rows;
	result->index_tuples = b.entries;
	ls_index_build_end(&b);
	if (team != NULL)
		ls_index_build_team_end(team);
	return result;
}

/* What an unlogged index is reset to. */
void
ls_index_ambuildempty(Relation index)
{
}

char *
ls_index_ambuildphasename(int64 phase)
{
	switch (phase)
	{
		case PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE:
			return "initializing";
		case PHASE_SCAN:
			return "scanning table";
		case PHASE_SORT:
			return "sorting entries";
		case PHASE_LOAD:
			return "loading entries in index";
		default:
			return NULL;
	}
}
