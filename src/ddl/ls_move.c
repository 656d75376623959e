/*
 * ls_move.c - leanstore_move(): a heap table becomes a leanstore table while it is used
 * (docs/decisions/0052-move-while-used.md).
 *
 * All in one transaction, so that a cancel or a crash leaves what was there:
 *
 *	1. a slot for logical decoding, and the snapshot that its changes go on from
 *	2. another table of the same columns, with the rows of that snapshot, and its indexes
 *	3. what was changed meanwhile is decoded and done there, until little is left
 *	4. the table is locked exclusively, the rest is done, files are swapped in the catalogs
 *
 * The table stays what it is to the catalogs: privileges, foreign keys, triggers, publications and
 * what depends on it do not notice.  Until step 4 it is locked as by VACUUM.
 */
#include "postgres.h"

#include "ls_ddl_internal.h"
#include "ls_move.h"
#include "relation/ls_relation.h"
#include "index/ls_index.h"
#include "pg/ls_pg.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "access/toast_internals.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/heap.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "commands/cluster.h"
#include "commands/defrem.h"
#include "commands/progress.h"
#include "commands/tablecmds.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/backend_progress.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

/* So much WAL is decoded while the table is locked: a few milliseconds' work. */
#define LAST_WAL_BYTES (256 * 1024)
/* The lock is asked for so often and so long before it is waited for in line. */
#define LOCK_ATTEMPTS 50
#define LOCK_ATTEMPT_MS 20
/* Rows between two reports of progress. */
#define REPORT_ROWS 1024

typedef struct IndexPair
{
	Oid			kept;
	Oid			made;
	bool		is_replaced;	/* a leanstore index for a btree index */
} IndexPair;

typedef struct Move
{
	Oid			relid;
	Relation	table;			/* its entry, while it is locked as by VACUUM */
	Relation	copy;
	Oid			identity;		/* index of the table; */
	Oid			copy_identity;	/* of the copy */
	List	   *pairs;			/* of IndexPair */
	LsChanges  *changes;
	EState	   *estate;
	ResultRelInfo *target;		/* the copy, with its indexes */
	TupleTableSlot *found;		/* a row of the copy */
	TupleTableSlot *row;		/* to be stored there, or the key to look for */
	MemoryContext memory;		/* of one change */
} Move;

/* ---- what can not be moved ---------------------------------------------------- */

pg_noreturn static void
refuse(Relation table, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot move table \"%s\" while it is used", RelationGetRelationName(table)),
			 errdetail_internal("%s", why),
			 errhint("%s", hint)));
}

#define ALTER_HINT "ALTER TABLE ... SET ACCESS METHOD leanstore moves it, and locks it meanwhile."

static void
check_indexes(Relation table)
{
	foreach_oid(oid, RelationGetIndexList(table))
	{
		Relation	index = index_open(oid, AccessShareLock);
		const Form_pg_index form = index->rd_index;

		if (!form->indisvalid || !form->indisready)
			refuse(table, "It has an index that is not valid.", "REINDEX or drop the index.");
		if (!form->indimmediate)
			refuse(table, "It has a deferrable constraint.", ALTER_HINT);
		if (form->indisexclusion)
			refuse(table, "It has an exclusion constraint.", ALTER_HINT);
		index_close(index, NoLock);
	}
}

static void
check_table(Relation table)
{
	if (ls_is_table(table))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" is a leanstore table already",
						RelationGetRelationName(table))));
	if (table->rd_rel->relkind != RELKIND_RELATION || table->rd_rel->relam != HEAP_TABLE_AM_OID ||
		IsCatalogRelation(table) || RelationIsUsedAsCatalogTable(table))
		refuse(table, "Only heap tables of users are.",
			   "A partitioned table is moved partition by partition.");
	if (table->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		refuse(table, "Changes of temporary and unlogged tables are not decoded.", ALTER_HINT);
	if (table->rd_rel->relreplident == REPLICA_IDENTITY_NOTHING ||
		table->rd_rel->relreplident == REPLICA_IDENTITY_FULL ||
		!OidIsValid(RelationGetReplicaIndex(table)))
		refuse(table, "It has no key by which changed rows are found.",
			   "Give it a primary key, or a REPLICA IDENTITY that is an index.");
	check_indexes(table);
}

static void
check_server(void)
{
	if (wal_level < WAL_LEVEL_LOGICAL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore_move() follows changes of the table by logical decoding"),
				 errhint("Set \"wal_level\" to logical and restart the server.")));
	PreventCommandDuringRecovery("leanstore_move()");
}

/* ---- the copy ------------------------------------------------------------------ */

static void
make_copy(Move *move)
{
	const Oid	copy = make_new_heap(move->relid, move->table->rd_rel->reltablespace,
									 ls_table_am_oid(), RELPERSISTENCE_PERMANENT,
									 ShareUpdateExclusiveLock);

	CommandCounterIncrement();
	move->copy = table_open(copy, AccessExclusiveLock);
}

/* Values of columns that were dropped are left behind. */
static void
set_values(TupleTableSlot *slot, const Datum *values, const bool *isnull)
{
	ExecClearTuple(slot);
	for (int i = 0; i < slot->tts_tupleDescriptor->natts; i++)
	{
		slot->tts_values[i] = values[i];
		slot->tts_isnull[i] = isnull[i] ||
			TupleDescCompactAttr(slot->tts_tupleDescriptor, i)->attisdropped;
	}
	ExecStoreVirtualTuple(slot);
}

static void
copy_rows(Move *move, Snapshot snapshot)
{
	TableScanDesc scan;
	TupleTableSlot *from = table_slot_create(move->table, NULL);
	TupleTableSlot *row = MakeSingleTupleTableSlot(RelationGetDescr(move->copy), &TTSOpsVirtual);
	TupleTableSlot *to = table_slot_create(move->copy, NULL);
	BulkInsertState bulk = GetBulkInsertState();
	const CommandId cid = GetCurrentCommandId(true);
	int64		rows = 0;

	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP);
	PushActiveSnapshot(snapshot);
	scan = table_beginscan(move->table, snapshot, 0, NULL);
	while (table_scan_getnextslot(scan, ForwardScanDirection, from))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(from);
		set_values(row, from->tts_values, from->tts_isnull);
		ExecCopySlot(to, row);
		table_tuple_insert(move->copy, to, cid,
						   TABLE_INSERT_SKIP_FSM | TABLE_INSERT_NO_LOGICAL, bulk);
		if (++rows % REPORT_ROWS == 0)
			pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, rows);
	}
	table_endscan(scan);
	PopActiveSnapshot();
	FreeBulkInsertState(bulk);
	table_finish_bulk_insert(move->copy, TABLE_INSERT_SKIP_FSM);
	ExecDropSingleTupleTableSlot(from);
	ExecDropSingleTupleTableSlot(row);
	ExecDropSingleTupleTableSlot(to);
	CommandCounterIncrement();
}

/* Of the same access method as the table's. */
static Oid
copy_index(Move *move, Oid kept)
{
	Relation	index = index_open(kept, AccessShareLock);
	char	   *name = ChooseRelationName(RelationGetRelationName(index), NULL, "moved",
										  RelationGetNamespace(index), false);
	const Oid	made = index_concurrently_create_copy(move->copy, kept,
													  index->rd_rel->reltablespace, name);

	index_close(index, NoLock);
	CommandCounterIncrement();
	index = index_open(made, AccessExclusiveLock);
	index_build(move->copy, index, BuildIndexInfo(index), false, true);
	index_close(index, NoLock);
	index_set_state_flags(made, INDEX_CREATE_SET_READY);
	return made;
}

/* RelationFindReplTupleByIndex() takes the first row with a key only if that is the table's own. */
static void
make_key(Oid index)
{
	Relation	pg_index = table_open(IndexRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(INDEXRELID, ObjectIdGetDatum(index));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", index);
	((Form_pg_index) GETSTRUCT(tuple))->indisprimary = true;
	((Form_pg_index) GETSTRUCT(tuple))->indisvalid = true;
	CatalogTupleUpdate(pg_index, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(pg_index, RowExclusiveLock);
}

static void
make_indexes(Move *move)
{
	int64		done = 0;

	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_REBUILD_INDEX);
	PushActiveSnapshot(GetLatestSnapshot());
	foreach_oid(kept, RelationGetIndexList(move->table))
	{
		IndexPair  *pair = palloc_object(IndexPair);

		pair->kept = kept;
		pair->made = ls_index_make_like(kept, move->copy);
		pair->is_replaced = OidIsValid(pair->made);
		if (!pair->is_replaced)
			pair->made = copy_index(move, kept);
		CommandCounterIncrement();
		if (kept == move->identity)
		{
			make_key(pair->made);
			CacheInvalidateRelcache(move->copy);
			CommandCounterIncrement();
			move->copy_identity = pair->made;
		}
		move->pairs = lappend(move->pairs, pair);
		pgstat_progress_update_param(PROGRESS_CLUSTER_INDEX_REBUILD_COUNT, ++done);
	}
	PopActiveSnapshot();
}

/* ---- changes made meanwhile ----------------------------------------------------- */

static void
begin_changes(Move *move)
{
	move->estate = CreateExecutorState();
	move->target = makeNode(ResultRelInfo);
	InitResultRelInfo(move->target, move->copy, 1, NULL, 0);
	ExecOpenIndices(move->target, false);
	move->found = table_slot_create(move->copy, NULL);
	move->row = MakeSingleTupleTableSlot(RelationGetDescr(move->copy), &TTSOpsVirtual);
	move->memory = AllocSetContextCreate(CurrentMemoryContext, "leanstore move",
										 ALLOCSET_DEFAULT_SIZES);
}

static void
end_changes(Move *move)
{
	ExecCloseIndices(move->target);
	ExecDropSingleTupleTableSlot(move->found);
	ExecDropSingleTupleTableSlot(move->row);
	FreeExecutorState(move->estate);
}

static void
set_row(TupleTableSlot *slot, HeapTuple tuple)
{
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];

	heap_deform_tuple(tuple, slot->tts_tupleDescriptor, values, isnull);
	set_values(slot, values, isnull);
}

static void
find_row(Move *move, HeapTuple key)
{
	set_row(move->row, key);
	if (!RelationFindReplTupleByIndex(move->copy, move->copy_identity, LockTupleExclusive,
									  move->row, move->found))
		elog(ERROR, "a changed row of table \"%s\" is not in its copy",
			 RelationGetRelationName(move->table));
}

/* Values that have not changed are the copy's. */
static void
take_kept_values(Move *move)
{
	TupleTableSlot *row = move->row;

	slot_getallattrs(move->found);
	for (int i = 0; i < row->tts_tupleDescriptor->natts; i++)
		if (!row->tts_isnull[i] &&
			TupleDescCompactAttr(row->tts_tupleDescriptor, i)->attlen == -1 &&
			VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(row->tts_values[i])))
			row->tts_values[i] = move->found->tts_values[i];
}

/* Never as for an update: the hint that a key has not changed wants the statement's columns. */
static void
insert_entries(Move *move, TupleTableSlot *slot, bool only_summarizing)
{
	if (move->target->ri_NumIndices > 0)
		(void) ExecInsertIndexTuples(move->target, slot, move->estate, false, false, NULL, NIL,
									 only_summarizing);
}

static void
insert_row(Move *move, HeapTuple row)
{
	set_row(move->row, row);
	ExecCopySlot(move->found, move->row);
	table_tuple_insert(move->copy, move->found, GetCurrentCommandId(true), TABLE_INSERT_NO_LOGICAL,
					   NULL);
	insert_entries(move, move->found, false);
}

static void
update_row(Move *move, const LsRowChange *change)
{
	ItemPointerData tid;
	TU_UpdateIndexes indexes;

	find_row(move, change->key != NULL ? change->key : change->row);
	tid = move->found->tts_tid;
	set_row(move->row, change->row);
	take_kept_values(move);
	ExecMaterializeSlot(move->row);
	ExecCopySlot(move->found, move->row);
	simple_table_tuple_update(move->copy, &tid, move->found, GetActiveSnapshot(), &indexes);
	if (indexes != TU_None)
		insert_entries(move, move->found, indexes == TU_Summarizing);
}

static void
do_change(Move *move, const LsRowChange *change)
{
	PushActiveSnapshot(GetLatestSnapshot());
	switch (change->kind)
	{
		case LS_CHANGE_INSERT:
			insert_row(move, change->row);
			break;
		case LS_CHANGE_UPDATE:
			update_row(move, change);
			break;
		case LS_CHANGE_DELETE:
			find_row(move, change->key);
			simple_table_tuple_delete(move->copy, &move->found->tts_tid, GetActiveSnapshot());
			break;
	}
	PopActiveSnapshot();
	CommandCounterIncrement();
	ResetPerTupleExprContext(move->estate);
}

/* Everything that has been committed by now. */
static void
catch_up(Move *move)
{
	const XLogRecPtr end = ls_pg_wal_end();
	MemoryContext before;
	LsRowChange change;

	XLogFlush(end);
	ls_changes_decode(move->changes, end);
	before = MemoryContextSwitchTo(move->memory);
	while (ls_changes_next(move->changes, &change))
	{
		CHECK_FOR_INTERRUPTS();
		do_change(move, &change);
		ExecClearTuple(move->row);
		MemoryContextReset(move->memory);
	}
	MemoryContextSwitchTo(before);
}

/* ---- the swap --------------------------------------------------------------------- */

/* False: others have had it all the time. */
static bool
lock_soon(const Move *move)
{
	const TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), LOCK_ATTEMPT_MS);

	for (;;)
	{
		if (ConditionalLockRelationOid(move->relid, AccessExclusiveLock))
			return true;
		CHECK_FOR_INTERRUPTS();
		if (GetCurrentTimestamp() >= until)
			return false;
		pg_usleep(500);
	}
}

/*
 * Others are not held up by a lock that is waited for, nor by changes that have come together
 * meanwhile.  Where the table is never free for a moment it is waited for in line, as by any ALTER
 * TABLE.
 */
static void
lock_exclusively(Move *move)
{
	for (int i = 0; i < LOCK_ATTEMPTS; i++)
	{
		if (lock_soon(move))
			return;
		catch_up(move);
	}
	LockRelationOid(move->relid, AccessExclusiveLock);
}

static void
swap_indexes(const Move *move)
{
	foreach_ptr(IndexPair, pair, move->pairs)
	{
		const Oid	kept = pair->is_replaced ? ls_index_replace_empty(pair->kept) : pair->kept;

		if (!OidIsValid(kept))
			elog(ERROR, "index %u was not replaced", pair->kept);
		LockRelationOid(kept, AccessExclusiveLock);
		LockRelationOid(pair->made, AccessExclusiveLock);
		if (pair->is_replaced)
			ls_index_copy_forms(pair->made, kept);
		ls_swap_files(kept, pair->made);
	}
}

/* As CLUSTER does with that of its own. */
static void
name_toast(Oid relid)
{
	Relation	table = table_open(relid, NoLock);
	const Oid	toast = table->rd_rel->reltoastrelid;

	if (OidIsValid(toast))
	{
		char		name[NAMEDATALEN];

		snprintf(name, sizeof(name), "pg_toast_%u", relid);
		RenameRelationInternal(toast, name, true, false);
		snprintf(name, sizeof(name), "pg_toast_%u_index", relid);
		RenameRelationInternal(toast_get_valid_index(toast, NoLock), name, true, true);
		CommandCounterIncrement();
		ResetRelRewrite(toast);
	}
	RelationClearMissing(table);
	table_close(table, NoLock);
}

static void
swap(Move *move)
{
	ObjectAddress dropped = {RelationRelationId, RelationGetRelid(move->copy), 0};

	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_SWAP_REL_FILES);
	ls_relation_insert_staged();
	table_close(move->copy, NoLock);
	table_close(move->table, NoLock);
	PushActiveSnapshot(GetLatestSnapshot());
	swap_indexes(move);
	ls_swap_files(move->relid, dropped.objectId);
	ls_swap_toast(move->relid, dropped.objectId);
	performDeletion(&dropped, DROP_RESTRICT, PERFORM_DELETION_INTERNAL);
	name_toast(move->relid);
	PopActiveSnapshot();
}

/* ---- the procedure ------------------------------------------------------------------ */

static void
copy_table(Move *move)
{
	Snapshot	snapshot;

	InvalidateCatalogSnapshot();
	move->changes = ls_changes_begin(move->relid, &snapshot);
	snapshot = RegisterSnapshot(snapshot);
	make_copy(move);
	copy_rows(move, snapshot);
	UnregisterSnapshot(snapshot);
	make_indexes(move);
}

/*
 * Functions in indexes run as the table's owner, as in every maintenance of it.  The changes are to
 * be ended behind the commit.
 */
static LsChanges *
move_table(Oid relid)
{
	Move		move = {.relid = relid};
	TimestampTz locked;
	Oid			user;
	int			context;
	int			settings;

	move.table = table_open(relid, ShareUpdateExclusiveLock);
	check_table(move.table);
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(move.table->rd_rel->relowner, context | SECURITY_RESTRICTED_OPERATION);
	settings = NewGUCNestLevel();
	RestrictSearchPath();

	move.identity = RelationGetReplicaIndex(move.table);
	pgstat_progress_start_command(PROGRESS_COMMAND_CLUSTER, relid);
	copy_table(&move);
	begin_changes(&move);
	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE, PROGRESS_CLUSTER_PHASE_WRITE_NEW_HEAP);
	do
	{
		catch_up(&move);
	} while (ls_changes_behind(move.changes) > LAST_WAL_BYTES);
	lock_exclusively(&move);
	locked = GetCurrentTimestamp();
	catch_up(&move);
	end_changes(&move);
	ls_changes_stop(move.changes);
	swap(&move);
	pgstat_progress_end_command();
	AtEOXact_GUC(false, settings);
	SetUserIdAndSecContext(user, context);
	ereport(DEBUG1,
			(errmsg_internal("the table was locked for " INT64_FORMAT " us before its commit",
							 GetCurrentTimestamp() - locked)));
	return move.changes;
}

PG_FUNCTION_INFO_V1(leanstore_move);

Datum
leanstore_move(PG_FUNCTION_ARGS)
{
	const Oid	relid = PG_ARGISNULL(0) ? InvalidOid : PG_GETARG_OID(0);
	LsChanges  *changes;
	const bool	is_call = fcinfo->context != NULL && IsA(fcinfo->context, CallContext) &&
		!castNode(CallContext, fcinfo->context)->atomic;

	if (!is_call)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("leanstore_move() cannot run inside a transaction block"),
				 errhint("CALL it by itself.")));
	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("leanstore_move() is to be told of a table")));
	if (!object_ownercheck(RelationRelationId, relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(get_rel_relkind(relid)),
					   get_rel_name(relid));
	check_server();
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	/* a transaction that has no snapshot and no id */
	SPI_commit();
	changes = move_table(relid);
	SPI_commit();
	ls_changes_end(changes);
	SPI_finish();
	PG_RETURN_VOID();
}
