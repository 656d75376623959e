/*
 * ls_move_changes.c - what happens to a heap table while leanstore_move() copies it: logical
 * decoding of the server's WAL, by a temporary slot of this session and an output plugin that is
 * this library itself.
 *
 * Changes wait in a tuplestore until they are asked for: while decoding runs, catalogs are read as
 * they were, and nothing can be written.
 *
 * MOVE-1: the snapshot sees exactly the transactions of which no change is noted.
 */
#include "postgres.h"

#include "ls_move.h"
#include "pg/ls_pg.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlogreader.h"
#include "access/xlogutils.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "replication/decode.h"
#include "replication/logical.h"
#include "replication/output_plugin.h"
#include "replication/slot.h"
#include "replication/snapbuild.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "varatt.h"

#define PLUGIN "leanstore_am"

struct LsChanges
{
	Oid			table;
	LogicalDecodingContext *ctx;
	MemoryContext memory;
	MemoryContext row_memory;	/* of one change, while it is noted */
	Tuplestorestate *noted;
	TupleDesc	desc;			/* kind, key, row */
	TupleTableSlot *slot;		/* of those */
	XLogRecPtr	decoded;
	bool		reads_wal;		/* the context's reader may have a file open */
	MemoryContextCallback forget;
	MemoryContextCallback close_wal;
};

/* The one that decodes now: an output plugin is given nothing but its slot. */
static LsChanges *decoding = NULL;

/* ---- the output plugin ------------------------------------------------------ */

static void
startup(LogicalDecodingContext *ctx, OutputPluginOptions *options, bool is_init)
{
	if (decoding == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("\"%s\" is not an output plugin for users", PLUGIN),
				 errhint("CALL leanstore_move(...) uses it.")));
	options->output_type = OUTPUT_PLUGIN_BINARY_OUTPUT;
}

static void
ignore_transaction(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
}

static void
ignore_commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr lsn)
{
}

/*
 * The tuple's bytes.  Values that were put together from WAL go in; a pointer stays where the value
 * has not changed, which the copy of the row has.
 */
static Datum
flatten(TupleDesc desc, HeapTuple tuple)
{
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];
	HeapTuple	flat;
	bytea	   *bytes;

	heap_deform_tuple(tuple, desc, values, isnull);
	for (int i = 0; i < desc->natts; i++)
		if (!isnull[i] && TupleDescCompactAttr(desc, i)->attlen == -1 &&
			VARATT_IS_EXTERNAL_INDIRECT(DatumGetPointer(values[i])))
			values[i] = PointerGetDatum(
				detoast_external_attr((struct varlena *) DatumGetPointer(values[i])));
	flat = heap_form_tuple(desc, values, isnull);
	bytes = palloc(VARHDRSZ + flat->t_len);
	SET_VARSIZE(bytes, VARHDRSZ + flat->t_len);
	memcpy(VARDATA(bytes), flat->t_data, flat->t_len);
	return PointerGetDatum(bytes);
}

static LsChangeKind
kind_of(const ReorderBufferChange *change)
{
	switch (change->action)
	{
		case REORDER_BUFFER_CHANGE_INSERT:
			return LS_CHANGE_INSERT;
		case REORDER_BUFFER_CHANGE_UPDATE:
			return LS_CHANGE_UPDATE;
		case REORDER_BUFFER_CHANGE_DELETE:
			return LS_CHANGE_DELETE;
		default:
			elog(ERROR, "unexpected change of a row: %d", change->action);
	}
}

static void
note_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, Relation relation,
			ReorderBufferChange *change)
{
	LsChanges  *changes = decoding;
	Datum		values[3] = {0};
	bool		isnull[3] = {false, true, true};
	MemoryContext before;

	if (RelationGetRelid(relation) != changes->table)
		return;
	before = MemoryContextSwitchTo(changes->row_memory);
	values[0] = Int16GetDatum(kind_of(change));
	if (change->data.tp.oldtuple != NULL)
	{
		values[1] = flatten(RelationGetDescr(relation), change->data.tp.oldtuple);
		isnull[1] = false;
	}
	if (change->data.tp.newtuple != NULL)
	{
		values[2] = flatten(RelationGetDescr(relation), change->data.tp.newtuple);
		isnull[2] = false;
	}
	tuplestore_putvalues(changes->noted, changes->desc, values, isnull);
	MemoryContextSwitchTo(before);
	MemoryContextReset(changes->row_memory);
}

/* Declared by the server, for libraries that are output plugins. */
void
_PG_output_plugin_init(OutputPluginCallbacks *cb)
{
	cb->startup_cb = startup;
	cb->begin_cb = ignore_transaction;
	cb->change_cb = note_change;
	cb->commit_cb = ignore_commit;
}

/* ---- the slot --------------------------------------------------------------- */

static void
make_store(LsChanges *changes)
{
	MemoryContext before = MemoryContextSwitchTo(changes->memory);

	changes->noted = tuplestore_begin_heap(false, false, work_mem);
	MemoryContextSwitchTo(before);
}

/* Newer servers want output plugins to be named in a setting: in this transaction this one is. */
static void
allow_plugin(void)
{
	if (GetConfigOption("output_plugin_libraries", true, false) != NULL)
		(void) set_config_option("output_plugin_libraries", PLUGIN, PGC_SUSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
}

/* The session has given up, maybe with an error. */
static void
forget(void *arg)
{
	decoding = NULL;
}

/* The same: the server does not close a reader's file, which no resource owner knows. */
static void
close_wal(void *arg)
{
	LsChanges  *changes = arg;

	if (changes->reads_wal && changes->ctx->reader->seg.ws_file >= 0)
		wal_segment_close(changes->ctx->reader);
}

LsChanges *
ls_changes_begin(Oid table, Snapshot *snapshot)
{
	LsChanges  *changes = palloc0_object(LsChanges);
	char		name[NAMEDATALEN];

	changes->table = table;
	changes->memory = AllocSetContextCreate(CurrentMemoryContext, "leanstore changes",
											ALLOCSET_DEFAULT_SIZES);
	changes->forget.func = forget;
	MemoryContextRegisterResetCallback(changes->memory, &changes->forget);
	changes->row_memory = AllocSetContextCreate(changes->memory, "leanstore change",
												ALLOCSET_DEFAULT_SIZES);
	changes->desc = CreateTemplateTupleDesc(3);
	TupleDescInitEntry(changes->desc, 1, "kind", INT2OID, -1, 0);
	TupleDescInitEntry(changes->desc, 2, "key", BYTEAOID, -1, 0);
	TupleDescInitEntry(changes->desc, 3, "row", BYTEAOID, -1, 0);
	changes->slot = MakeSingleTupleTableSlot(changes->desc, &TTSOpsMinimalTuple);
	make_store(changes);

	CheckLogicalDecodingRequirements();
	allow_plugin();
	decoding = changes;
	snprintf(name, sizeof(name), "leanstore_move_%d", MyProcPid);
	ReplicationSlotCreate(name, true, RS_TEMPORARY, false, false, false);
	changes->ctx = CreateInitDecodingContext(PLUGIN, NIL, true, InvalidXLogRecPtr,
											 XL_ROUTINE(.page_read = read_local_xlog_page,
														.segment_open = wal_segment_open,
														.segment_close = wal_segment_close),
											 NULL, NULL, NULL);
	changes->close_wal.func = close_wal;
	changes->close_wal.arg = changes;
	MemoryContextRegisterResetCallback(changes->ctx->context, &changes->close_wal);
	changes->reads_wal = true;
	DecodingContextFindStartpoint(changes->ctx);
	changes->decoded = changes->ctx->reader->EndRecPtr;
	XactIsoLevel = XACT_REPEATABLE_READ;	/* as the snapshot wants it */
	*snapshot = SnapBuildInitialSnapshot(changes->ctx->snapshot_builder);
	XactIsoLevel = XACT_READ_COMMITTED;
	return changes;
}

void
ls_changes_decode(LsChanges *changes, XLogRecPtr end)
{
	ResourceOwner owner = CurrentResourceOwner;
	MemoryContext before = MemoryContextSwitchTo(changes->ctx->context);

	tuplestore_end(changes->noted);
	make_store(changes);
	/* catalogs as they were are looked up anew */
	InvalidateSystemCaches();
	while (changes->ctx->reader->EndRecPtr < end)
	{
		char	   *error = NULL;
		XLogRecord *record = XLogReadRecord(changes->ctx->reader, &error);

		if (error != NULL)
			elog(ERROR, "could not read WAL for changes of the table: %s", error);
		if (record != NULL)
			LogicalDecodingProcessRecord(changes->ctx, changes->ctx->reader);
		/* The server decodes in subtransactions, which leave others; the reader's memory stays. */
		CurrentResourceOwner = owner;
		MemoryContextSwitchTo(changes->ctx->context);
		CHECK_FOR_INTERRUPTS();
	}
	changes->decoded = changes->ctx->reader->EndRecPtr;
	InvalidateSystemCaches();
	MemoryContextSwitchTo(before);
	LogicalConfirmReceivedLocation(changes->decoded);
}

static HeapTuple
tuple_of(Datum value)
{
	bytea	   *bytes = DatumGetByteaPP(value);
	HeapTuple	tuple = palloc0(HEAPTUPLESIZE + VARSIZE_ANY_EXHDR(bytes));

	tuple->t_len = VARSIZE_ANY_EXHDR(bytes);
	tuple->t_data = (HeapTupleHeader) ((char *) tuple + HEAPTUPLESIZE);
	memcpy(tuple->t_data, VARDATA_ANY(bytes), tuple->t_len);
	ItemPointerSetInvalid(&tuple->t_self);
	return tuple;
}

bool
ls_changes_next(LsChanges *changes, LsRowChange *change)
{
	if (!tuplestore_gettupleslot(changes->noted, true, false, changes->slot))
		return false;
	slot_getallattrs(changes->slot);
	change->kind = DatumGetInt16(changes->slot->tts_values[0]);
	change->key = changes->slot->tts_isnull[1] ? NULL : tuple_of(changes->slot->tts_values[1]);
	change->row = changes->slot->tts_isnull[2] ? NULL : tuple_of(changes->slot->tts_values[2]);
	/* what it has may be in the context that the caller resets */
	ExecClearTuple(changes->slot);
	return true;
}

uint64
ls_changes_behind(const LsChanges *changes)
{
	const XLogRecPtr end = ls_pg_wal_end();

	return end > changes->decoded ? end - changes->decoded : 0;
}

void
ls_changes_stop(LsChanges *changes)
{
	ExecDropSingleTupleTableSlot(changes->slot);
	tuplestore_end(changes->noted);
	decoding = NULL;
}

/* It takes its time when much was decoded; the table is in use again. */
void
ls_changes_end(LsChanges *changes)
{
	changes->reads_wal = false;
	FreeDecodingContext(changes->ctx);
	ReplicationSlotDropAcquired();
}
