/*
 * ls_table_modify.c - insert and delete.
 *
 * A row goes to the engine as the payload of row/ls_row.c; large values have gone to
 * the TOAST table before (ls_table_toast.c).  Conflicts come back from the
 * engine as a status and are turned into TM_Result here, for update and lock too.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "pgstat.h"
#include "utils/snapmgr.h"

/*
 * Speculative insertions of this backend that are not completed: the completing
 * call is not told the command id.  One is the rule; a function in an index
 * expression may nest another.
 */
#define LS_MAX_SPECULATIVE 8

typedef struct Speculative
{
	Oid			relid;
	uint64		row_id;
	CommandId	cid;
} Speculative;

static Speculative speculative[LS_MAX_SPECULATIVE];
static int	next_speculative = 0;

/* ----------------------------------------------------------------
 * insert
 * ----------------------------------------------------------------
 */

static void
before_insert(Relation rel)
{
	/*
	 * The leader may insert while workers run (CREATE TABLE AS); a worker has
	 * no transaction of its own to write with.
	 */
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot insert tuples in a parallel worker")));
	ls_forget_recent();
}

/*
 * Put a payload into the table under a row id that this backend has drawn.  A row id that
 * is taken means that the range drawn is not this backend's any more; that is never
 * expected, and a second time it is damage.
 */
static uint64
insert_payload(Relation rel, const uint8 *payload, uint32 len, CommandId cid, uint32 flags)
{
	ls_error	error;
	ls_status	status;
	uint64		row_id;

	for (int attempt = 0; attempt < 2; attempt++)
	{
		row_id = ls_next_row_id(rel);
		if (ls_locks(rel))
			ls_lock_row(rel, row_id, LS_RANGE_EXCLUSIVE);
		LS_CALL_ON(rel, status,
				   ls_row_insert(ls_writer(), ls_open(rel), row_id, cid, flags, payload, len,
								 &error));
		if (status == LS_OK)
			return row_id;
		if (status != LS_EXISTS)
			ls_raise(&error, rel);
		ls_forget_row_ids(rel);
	}

	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("new row id " UINT64_FORMAT " of table \"%s\" is in use already",
					row_id, RelationGetRelationName(rel)),
			 errhint("Verify the table with leanstore_check(), and write it anew by "
					 "VACUUM FULL.")));
}

uint64
ls_insert_payload(Relation rel, const uint8 *payload, uint32 len, CommandId cid)
{
	return insert_payload(rel, payload, len, cid, 0);
}

/* What the slot holds after its row was stored. */
static void
set_stored(TupleTableSlot *slot, Relation rel, uint64 row_id, CommandId cid, uint32 flags)
{
	ls_row		row = {
		.row_id = row_id,
		.writer_tn = ls_own_tn(),
		.cid = cid,
		.flags = flags
	};

	ls_slot_set_version(slot, rel, &row);
}

/* How a row is inserted. */
typedef struct Insertion
{
	CommandId	cid;
	uint32		flags;			/* ls_row_flag */
	uint32		token;			/* with LS_ROW_SPECULATIVE */
	bool		images;			/* it goes to WAL, too (row/ls_row_image.c) */
} Insertion;

static bool
images_wanted(Relation rel, int options)
{
	return (options & TABLE_INSERT_NO_LOGICAL) == 0 && ls_images_wanted(rel);
}

static uint64
insert_slot(Relation rel, TupleTableSlot *slot, const Insertion *how)
{
	const bool	is_speculative = (how->flags & LS_ROW_SPECULATIVE) != 0;
	bool		should_free;
	HeapTuple	tuple;
	HeapTuple	stored;
	const uint8 *payload;
	uint32		len;
	uint64		row_id;

	before_insert(rel);
	slot->tts_tableOid = RelationGetRelid(rel);
	tuple = ExecFetchSlotHeapTuple(slot, true, &should_free);
	tuple->t_tableOid = RelationGetRelid(rel);
	stored = ls_toast_tuple(rel, tuple, NULL, how->images);

	payload = ls_row_encode(rel, stored, &len);
	row_id = insert_payload(rel, payload, len, is_speculative ? how->token : how->cid, how->flags);
	if (how->images)
		ls_image_change(rel, NULL, stored, LS_WAL_INSERT);

	if (stored != tuple)
		heap_freetuple(stored);
	if (should_free)
		heap_freetuple(tuple);

	set_stored(slot, rel, row_id, how->cid, how->flags);
	pgstat_count_heap_insert(rel, 1);
	return row_id;
}

void
ls_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
				struct BulkInsertStateData *bistate)
{
	const bool	images = images_wanted(rel, options);

	if (bistate == NULL || !ls_stage_takes(rel, options))
	{
		(void) insert_slot(rel, slot, &(Insertion) {.cid = cid, .images = images});
		return;
	}
	before_insert(rel);
	set_stored(slot, rel, ls_stage_row(rel, slot, cid, images), cid, 0);
	pgstat_count_heap_insert(rel, 1);
}

void
ls_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
							struct BulkInsertStateData *bistate, uint32 token)
{
	/* its image comes when it is confirmed */
	const Insertion how = {.cid = cid, .flags = LS_ROW_SPECULATIVE, .token = token};
	uint64		row_id = insert_slot(rel, slot, &how);

	speculative[next_speculative] = (Speculative)
	{
		.relid = RelationGetRelid(rel), .row_id = row_id, .cid = cid
	};
	next_speculative = (next_speculative + 1) % LS_MAX_SPECULATIVE;
}

/* The command that made a speculative insertion. */
static CommandId
speculative_command(Relation rel, uint64 row_id)
{
	for (int i = 0; i < LS_MAX_SPECULATIVE; i++)
		if (speculative[i].relid == RelationGetRelid(rel) && speculative[i].row_id == row_id)
		{
			speculative[i].relid = InvalidOid;
			return speculative[i].cid;
		}

	/* nested deeper than is remembered: no older command is affected by a later id */
	return GetCurrentCommandId(true);
}

/* The row stays.  Its values go to WAL only now, too: no other row's image is between them. */
static void
image_speculative(Relation rel, uint64 row_id)
{
	ls_row		row;
	HeapTupleData tuple;
	char	   *space;

	if (!ls_fetch_newest(rel, row_id, ls_old_row_buffer(), &row))
		elog(ERROR, "row inserted speculatively is missing");
	space = palloc(ls_row_tuple_len(&row, rel));
	ls_row_decode(&row, rel, &tuple, space);
	ls_image_values_of(rel, &tuple);
	ls_image_change(rel, NULL, &tuple, LS_WAL_INSERT);
	pfree(space);
}

void
ls_tuple_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 token, bool succeeded)
{
	uint64		row_id = ls_tid_to_row(&slot->tts_tid);
	CommandId	cid = speculative_command(rel, row_id);
	ls_error	error;
	ls_status	status;

	if (!succeeded && OidIsValid(rel->rd_rel->reltoastrelid))
	{
		ls_row		row;

		if (ls_fetch_newest(rel, row_id, ls_old_row_buffer(), &row) && ls_row_has_external(&row))
			ls_toast_delete(rel, &row, true);
	}

	LS_CALL(status,
			ls_row_finish_speculative(ls_writer(), ls_open(rel), row_id, cid, succeeded, &error));
	ls_check(status, error, rel);

	if (succeeded)
	{
		if (ls_images_wanted(rel))
			image_speculative(rel, row_id);
		if (!ls_is_slot(slot) || ls_slot_tuple(slot) != NULL)
			set_stored(slot, rel, row_id, cid, 0);
	}
	else
		pgstat_count_heap_delete(rel);	/* the insertion was counted */
}

uint32
ls_encode_slot(Relation rel, TupleTableSlot *slot, StringInfo payloads, StringInfo images)
{
	bool		should_free;
	HeapTuple	tuple;
	HeapTuple	stored;
	const uint8 *payload;
	uint32		len;

	slot->tts_tableOid = RelationGetRelid(rel);
	tuple = ExecFetchSlotHeapTuple(slot, true, &should_free);
	tuple->t_tableOid = RelationGetRelid(rel);
	stored = ls_toast_tuple(rel, tuple, NULL, images != NULL);
	if (images != NULL)
		ls_image_append(images, stored);

	/* the encoder's buffer is used again for the next row */
	payload = ls_row_encode(rel, stored, &len);
	appendBinaryStringInfoNT(payloads, payload, len);

	if (stored != tuple)
		heap_freetuple(stored);
	if (should_free)
		heap_freetuple(tuple);
	return len;
}

void
ls_insert_encoded(Relation rel, ls_rel *file, const LsNewRows *new_rows)
{
	const uint8 *payload = (const uint8 *) new_rows->payloads;
	uint32		done = 0;

	for (uint32 i = 0; i < new_rows->n; i++)
	{
		new_rows->rows[i].data = payload;
		payload += new_rows->rows[i].len;
	}
	while (done < new_rows->n)
	{
		ls_error	error;
		ls_status	status;
		uint32		inserted = 0;

		/* after an interrupt: go on behind what is in */
		ls_interruptible(true);
		status = ls_row_insert_many(ls_attached_worker, file, new_rows->first + done,
									new_rows->n - done, new_rows->cid, new_rows->rows + done,
									&inserted, &error);
		ls_interruptible(false);
		ls_count_pages(rel);
		done += inserted;
		if (status == LS_INTERRUPTED)
			CHECK_FOR_INTERRUPTS();
		else
			ls_check(status, error, rel);
	}
}

void
ls_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid, int options,
				struct BulkInsertStateData *bistate)
{
	uint64		first;
	ls_bytes   *rows;
	ls_rel		file;
	LsNewRows	new_rows;
	StringInfoData payloads;
	StringInfoData images;
	const bool	with_images = images_wanted(rel, options);

	/* COPY flushes the buffers of all partitions, also those that have got nothing since */
	if (nslots == 0)
		return;
	before_insert(rel);
	initStringInfoExt(&payloads, nslots * 128);
	initStringInfo(&images);
	rows = palloc_array(ls_bytes, nslots);
	for (int i = 0; i < nslots; i++)
		rows[i].len = ls_encode_slot(rel, slots[i], &payloads, with_images ? &images : NULL);
	first = ls_row_id_range(rel, nslots);
	if (ls_locks(rel))
		ls_lock_rows(rel, first, first + nslots, LS_RANGE_EXCLUSIVE);
	(void) ls_writer();
	file = *ls_open(rel);
	new_rows = (LsNewRows)
	{
		.first = first, .cid = cid, .rows = rows, .n = nslots, .payloads = payloads.data
	};
	ls_insert_encoded(rel, &file, &new_rows);
	if (with_images)
		ls_image_insert(rel, &images);

	for (int i = 0; i < nslots; i++)
		set_stored(slots[i], rel, first + i, cid, 0);
	pfree(images.data);
	pfree(payloads.data);
	pfree(rows);

	pgstat_count_heap_insert(rel, nslots);
}

/* ----------------------------------------------------------------
 * conflicts
 * ----------------------------------------------------------------
 */

/*
 * TM_Result of an engine call that neither succeeded nor asks to be waited for.
 * tmfd->traversed is the caller's business.
 */
TM_Result
ls_conflict_result(Relation rel, ls_status status, uint64 row_id, const ls_conflict *conflict,
				   const ls_error *error, TM_FailureData *tmfd)
{
	TM_Result	result;

	ls_row_to_tid(row_id, &tmfd->ctid);
	tmfd->xmax = InvalidTransactionId;
	tmfd->cmax = InvalidCommandId;

	switch (status)
	{
		case LS_SELF_MODIFIED:
			result = TM_SelfModified;
			tmfd->cmax = conflict->cid;
			break;
		case LS_UPDATED:
			result = TM_Updated;
			if (conflict->moved)
			{
				if (conflict->moved_to == LS_MOVED_PARTITIONS)
					ItemPointerSetMovedPartitions(&tmfd->ctid);
				else
					ls_row_to_tid(conflict->moved_to, &tmfd->ctid);
			}
			break;
		case LS_DELETED:
			result = TM_Deleted;
			break;
		case LS_NOT_FOUND:
			/* deleted so long ago that nothing is left of it */
			return TM_Deleted;
		case LS_INVISIBLE:
			result = TM_Invisible;
			break;
		case LS_BEING_MODIFIED:
		case LS_LOCKED:
			result = TM_BeingModified;
			break;
		default:
			ls_raise(error, rel);
	}

	tmfd->xmax = ls_tn_to_xid(conflict->tn);
	return result;
}

/*
 * What a change has to see.  The apply worker of a subscription names nothing, as heap
 * does not ask: it has found the newest version and locked it.
 */
Snapshot
ls_change_snapshot(Snapshot snapshot)
{
	if (likely(snapshot != InvalidSnapshot))
		return snapshot;
	ls_pin_withdraw();
	return GetLatestSnapshot();
}

/*
 * The caller changes a version of a row that its transaction has meanwhile locked in a newer
 * one, for another row of its join.  True: fills *tmfd as for TM_Updated.
 */
bool
ls_snapshot_is_behind(Relation rel, ItemPointer tid, Snapshot snapshot, TM_FailureData *tmfd)
{
	ls_row		row;

	if (ls_tid_is_marked(tid) ||
		!ls_is_locked_newer(rel, ls_tid_to_row(tid), snapshot, ls_old_row_buffer(), &row))
		return false;
	tmfd->ctid = *tid;
	tmfd->xmax = ls_tn_to_xid(row.writer_tn);
	tmfd->cmax = InvalidCommandId;
	return true;
}

/* ----------------------------------------------------------------
 * delete
 * ----------------------------------------------------------------
 */

static void
image_deleted(Relation rel, const ls_row *old)
{
	HeapTupleData tuple;
	char	   *space;

	space = palloc(ls_row_tuple_len(old, rel));
	ls_row_decode(old, rel, &tuple, space);
	ls_image_change(rel, ls_image_of_old(rel, &tuple, true), NULL, LS_WAL_DELETE);
	pfree(space);
}

/* The row has been deleted.  Its large values go last: the image may want them. */
static void
finish_delete(Relation rel, const ls_row *old, bool images)
{
	if (images)
		image_deleted(rel, old);
	if (OidIsValid(rel->rd_rel->reltoastrelid) && ls_row_has_external(old))
		ls_toast_delete(rel, old, false);
	pgstat_count_heap_delete(rel);
}

TM_Result
ls_tuple_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot,
				Snapshot crosscheck, bool wait, TM_FailureData *tmfd, bool changingPart)
{
	uint64		row_id = ls_marked_tid_to_row(tid);
	const bool	images = ls_images_wanted(rel);
	const bool	needs_old = images || OidIsValid(rel->rd_rel->reltoastrelid);
	LsRowWait	wait_for;
	TM_Result	result = TM_Ok;
	ls_row		old = {0};

	snapshot = ls_change_snapshot(snapshot);
	ls_forget_recent();
	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot delete tuples during a parallel operation")));
	if (ls_snapshot_is_behind(rel, tid, snapshot, tmfd))
		return TM_Updated;
	if (ls_locks(rel))
		ls_lock_row(rel, row_id, LS_RANGE_EXCLUSIVE);
	ls_row_wait_begin(&wait_for, rel, row_id, XLTW_Delete, LockWaitBlock);

	for (;;)
	{
		ls_worker  *worker = ls_writer();
		ls_snapshot seen = *ls_snapshot_convert(snapshot);
		ls_snapshot checked;
		ls_change	change = {
			.row_id = row_id,
			.snapshot = &seen,
			.cid = cid,
			.mode = LS_LOCK_UPDATE,
			.deleted = needs_old ? &old : NULL,
			.buffer = ls_old_row_buffer()
		};
		ls_conflict conflict = {0};
		ls_error	error;
		ls_status	status;

		if (crosscheck != InvalidSnapshot)
		{
			checked = *ls_snapshot_convert(crosscheck);
			change.crosscheck = &checked;
		}

		LS_CALL_ON(rel, status, ls_row_delete(worker, ls_open(rel), &change,
									  changingPart ? LS_MOVED_PARTITIONS : 0, &conflict, &error));
		if (status == LS_OK)
			break;
		if ((status != LS_BEING_MODIFIED && status != LS_LOCKED) || !wait)
		{
			result = ls_conflict_result(rel, status, row_id, &conflict, &error, tmfd);
			if (result == TM_Updated)
				ls_lock_before_leaving(&wait_for, row_id, snapshot, cid, change.mode, &conflict);
			break;
		}
		(void) ls_row_wait(&wait_for, &conflict, change.mode);
	}
	ls_row_wait_end(&wait_for);
	if (result != TM_Ok)
		return result;

	finish_delete(rel, &old, images);
	return TM_Ok;
}
