/*
 * ls_table_update.c - update: in place, or to a new row id.
 *
 * In place means that TID and index entries stay: right when no index has the
 * columns that change (summarizing indexes are told, they keep ranges and not
 * entries), and also when those that have them can tell entries for the old key from
 * those for the new (index/ls_index_stale.c): the row gets one more entry in each of them.
 * Otherwise the new row gets a row id of its own and index entries of its own, and the old one ends
 * with a pointer to it, as in a heap update.
 *
 * A row that is changed in place has one TID for all its versions.  AFTER ROW
 * triggers are queued with TIDs and fetch the rows when they run, perhaps at the
 * end of the transaction, so an update goes to a new row id, too, if such a trigger may
 * ask for its versions.  Referential integrity and unique constraints are the exception:
 * they ask only whether columns have changed that this file knows, and at once
 * (ls_take_superseded() answers that).
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"
#include "index/ls_index.h"

#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "pgstat.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/reltrigger.h"

typedef struct UpdatePlan
{
	bool		in_place;
	bool		summarized;		/* a column of a summarizing index changes */
	bool		keys;			/* a column that a foreign key may refer to changes */
	/* indexes, opened, in which the row that stays gets another entry */
	List	   *rekeyed;
} UpdatePlan;

static bool
attribute_changes(Relation rel, AttrNumber attnum, HeapTuple old, HeapTuple new)
{
	TupleDesc	desc = RelationGetDescr(rel);
	CompactAttribute *att;
	Datum		old_value;
	Datum		new_value;
	bool		old_null;
	bool		new_null;

	/* a whole-row reference changes with any column; of the system columns all but one do */
	if (attnum <= 0)
		return attnum != TableOidAttributeNumber;

	old_value = heap_getattr(old, attnum, desc, &old_null);
	new_value = heap_getattr(new, attnum, desc, &new_null);
	if (old_null || new_null)
		return old_null != new_null;
	att = TupleDescCompactAttr(desc, attnum - 1);
	return !datumIsEqual(old_value, new_value, att->attbyval, att->attlen);
}

/* Which columns of this kind change? */
static Bitmapset *
changed_attributes(Relation rel, IndexAttrBitmapKind kind, HeapTuple old, HeapTuple new)
{
	Bitmapset  *attrs = RelationGetIndexAttrBitmap(rel, kind);
	int			x = -1;

	while ((x = bms_next_member(attrs, x)) >= 0)
		if (!attribute_changes(rel, x + FirstLowInvalidHeapAttributeNumber, old, new))
			attrs = bms_del_member(attrs, x);
	return attrs;
}

/* Does a column of this kind change? */
static bool
indexed_attribute_changes(Relation rel, IndexAttrBitmapKind kind, HeapTuple old, HeapTuple new)
{
	Bitmapset  *attrs = changed_attributes(rel, kind, old, new);
	bool		any = attrs != NULL;

	bms_free(attrs);
	return any;
}

/* Does a column change that is part of a foreign key of this table? */
static bool
foreign_key_changes(Relation rel, HeapTuple old, HeapTuple new)
{
	ListCell   *lc;

	foreach(lc, RelationGetFKeyList(rel))
	{
		ForeignKeyCacheInfo *fkey = lfirst_node(ForeignKeyCacheInfo, lc);

		for (int i = 0; i < fkey->nkeys; i++)
			if (attribute_changes(rel, fkey->conkey[i], old, new))
				return true;
	}
	return false;
}

/* Does the trigger work from column values that an update in place leaves alone? */
static bool
is_constraint_trigger(const Trigger *trigger)
{
	return RI_FKey_trigger_type(trigger->tgfoid) != RI_TRIGGER_NONE ||
		trigger->tgfoid == F_UNIQUE_KEY_RECHECK;
}

/*
 * May an AFTER ROW trigger ask for one of the two versions by TID?  For a version
 * that this transaction has inserted, an AFTER INSERT trigger may be waiting.
 */
static bool
triggers_need_versions(Relation rel, bool old_is_own, HeapTuple old, HeapTuple new)
{
	const TriggerDesc *desc = rel->trigdesc;

	if (desc == NULL)
		return false;
	if (!desc->trig_update_after_row && !(old_is_own && desc->trig_insert_after_row))
		return false;

	for (int i = 0; i < desc->numtriggers; i++)
	{
		const Trigger *trigger = &desc->triggers[i];

		if (!TRIGGER_FOR_ROW(trigger->tgtype) || !TRIGGER_FOR_AFTER(trigger->tgtype))
			continue;
		if (!TRIGGER_FOR_UPDATE(trigger->tgtype) &&
			!(old_is_own && TRIGGER_FOR_INSERT(trigger->tgtype)))
			continue;
		if (!is_constraint_trigger(trigger))
			return true;
	}

	return foreign_key_changes(rel, old, new);
}

static void
forget_plan(UpdatePlan *plan)
{
	ls_index_close_rekeyed(plan->rekeyed);
	plan->rekeyed = NIL;
}

static void
plan_update(Relation rel, const ls_row *old_row, HeapTuple old, HeapTuple new, UpdatePlan *plan)
{
	*plan = (UpdatePlan) {
		.in_place = !triggers_need_versions(rel, old_row->writer_tn == ls_own_tn(), old, new)
	};

	if (rel->rd_rel->relhasindex)
	{
		Bitmapset  *changed = changed_attributes(rel, INDEX_ATTR_BITMAP_HOT_BLOCKING, old, new);

		/* key columns are columns of an index that blocks updates in place */
		if (changed != NULL)
			plan->keys = indexed_attribute_changes(rel, INDEX_ATTR_BITMAP_KEY, old, new);
		if (plan->in_place && changed != NULL)
			plan->rekeyed = ls_index_open_rekeyed(rel, changed, &plan->in_place);
		if (plan->rekeyed != NIL && !ls_index_can_rekey(plan->rekeyed, rel, old, new))
		{
			forget_plan(plan);
			plan->in_place = false;
		}
		if (plan->in_place)
			plan->summarized = indexed_attribute_changes(rel, INDEX_ATTR_BITMAP_SUMMARIZED, old,
														 new);
		bms_free(changed);
	}
}

/*
 * Insert the new row and end the old one with a pointer to it.  The new row goes
 * first, because the old one needs its id; no other transaction sees it, and no index
 * has it yet.  When the old row cannot be changed after all, it is taken back.
 */
static ls_status
move_row(Relation rel, const ls_change *change, const uint8 *payload, uint32 len,
		 uint64 *new_row_id, ls_conflict *conflict, ls_error *error)
{
	ls_worker  *worker = ls_writer();
	uint32		savepoint = ls_txn_savepoint(worker);
	ls_status	status;

	*new_row_id = ls_insert_payload(rel, payload, len, change->cid);
	LS_CALL_ON(rel, status,
			   ls_row_delete(worker, ls_open(rel), change, *new_row_id, conflict, error));
	if (status != LS_OK)
		ls_txn_rollback_to(worker, savepoint);
	return status;
}

/*
 * Take the row lock that the update needs, before TOAST values of the new version
 * are written and those of the old one deleted: that cannot be taken back when
 * the row turns out to be another one.
 */
static ls_status
lock_for_toasting(Relation rel, const ls_change *change, const ls_row *expected,
				  ls_conflict *conflict, bool *changed, ls_error *error)
{
	ls_row		locked;
	bool		newer;
	ls_status	status;

	LS_CALL_ON(rel, status, ls_row_lock(ls_writer(), ls_open(rel), change, false, ls_fetch_buffer(),
								&locked, &newer, conflict, error));
	*changed = (status == LS_OK &&
				(locked.writer_tn != expected->writer_tn || locked.cid != expected->cid));
	return status;
}

/* One update from its arguments to its outcome. */
typedef struct Update
{
	Relation	rel;
	uint64		row_id;
	HeapTuple	new;			/* as the executor made it */
	CommandId	cid;
	Snapshot	snapshot;
	Snapshot	crosscheck;
	HeapTupleData old;			/* the version to be replaced, in old_space */
	char	   *old_space;
	uint32		old_space_bytes;

	bool		is_conflict_update; /* by ON CONFLICT DO UPDATE */

	UpdatePlan	plan;
	bool		images;			/* what changes goes to WAL, too (row/ls_row_image.c) */
	uint64		new_row_id;
	ls_conflict conflict;
	ls_error	error;
} Update;

/*
 * FOR KEY SHARE locks of others mind only a change of the keys; a row that moves takes them along.
 */
static ls_lock_mode
lock_mode_of(const UpdatePlan *plan)
{
	return plan->keys ? LS_LOCK_UPDATE : LS_LOCK_NO_KEY_UPDATE;
}

/* Read the version that stands, when the plan depends on it; false: there is none. */
static bool
read_old(Update *u, ls_row *row)
{
	uint32		len;

	if (!ls_fetch_committed(u->rel, u->row_id, ls_old_row_buffer(), row))
		return false;
	len = ls_row_tuple_len(row, u->rel);
	if (len > u->old_space_bytes)
	{
		if (u->old_space != NULL)
			pfree(u->old_space);
		u->old_space = palloc(len);
		u->old_space_bytes = len;
	}
	ls_row_decode(row, u->rel, &u->old, u->old_space);
	return true;
}

/* The part of the version to be replaced that its image needs; NULL: none. */
static HeapTuple
image_of_old(Update *u)
{
	return ls_image_of_old(u->rel, &u->old,
						   ls_image_needs_key(u->rel, &u->old, u->new, attribute_changes));
}

static void
write_image(Update *u, HeapTuple old, HeapTuple stored)
{
	ls_image_change(u->rel, old, stored, LS_WAL_UPDATE);
	if (old != NULL && old != &u->old)
		heap_freetuple(old);
}

/*
 * One attempt.  LS_BEING_MODIFIED and LS_LOCKED are for the caller to wait; *again:
 * the row has changed underneath, try once more.
 */
static ls_status
try_update(Update *u, bool *again)
{
	Relation	rel = u->rel;
	ls_worker  *worker = ls_writer();
	ls_snapshot seen = *ls_snapshot_convert(u->snapshot);
	ls_snapshot checked;
	ls_change	change = {
		.row_id = u->row_id,
		.snapshot = &seen,
		.cid = u->cid,
	};
	ls_row		old_row = {0};
	HeapTuple	stored = u->new;
	HeapTuple	old_image = NULL;
	const uint8 *payload;
	uint32		len;
	bool		have_old = false;
	ls_status	status;

	*again = false;
	if (u->crosscheck != InvalidSnapshot)
	{
		checked = *ls_snapshot_convert(u->crosscheck);
		change.crosscheck = &checked;
	}

	forget_plan(&u->plan);
	u->plan = (UpdatePlan) {.in_place = true};
	if (rel->rd_rel->relhasindex || rel->trigdesc != NULL ||
		OidIsValid(rel->rd_rel->reltoastrelid) || u->images)
	{
		have_old = read_old(u, &old_row);
		if (have_old)
			plan_update(rel, &old_row, &u->old, u->new, &u->plan);
	}
	change.mode = lock_mode_of(&u->plan);

	if (u->images && have_old)
		old_image = image_of_old(u);
	if (ls_toast_wanted(rel, u->new) || (have_old && ls_row_has_external(&old_row)))
	{
		if (OidIsValid(rel->rd_rel->reltoastrelid))
		{
			status = lock_for_toasting(rel, &change, &old_row, &u->conflict, again, &u->error);
			if (status != LS_OK || *again)
				return status;
		}
		stored = ls_toast_tuple(rel, u->new, have_old ? &u->old : NULL, u->images);
		if (have_old)
			ls_toast_delete_wide(&old_row, false);
	}

	foreach_ptr(RelationData, index, u->plan.rekeyed)
		ls_index_expect_stale(index);
	payload = ls_row_encode(rel, stored, &len);
	if (u->plan.in_place)
		LS_CALL_ON(rel, status,
				   ls_row_update(worker, ls_open(rel), &change, payload, len, &u->conflict,
								 &u->error));
	else
		status = move_row(rel, &change, payload, len, &u->new_row_id, &u->conflict, &u->error);

	Assert(!u->images || status != LS_OK || have_old);
	if (u->images && status == LS_OK)
		write_image(u, old_image, stored);
	if (stored != u->new)
		heap_freetuple(stored);
	return status;
}

/* The row has another key: an entry for it, and one that is left behind. */
static void
rekey(Update *u, Relation index)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	ls_index_key_columns(index, u->rel, u->new, values, isnull);
	ls_index_insert_entry(index, u->rel, values, isnull, u->row_id);
	/* values that the new version has no more have gone from the TOAST table */
	if (HeapTupleHasExternal(&u->old))
		return;
	ls_index_key_columns(index, u->rel, &u->old, values, isnull);
	ls_index_note_left_behind(index, u->rel, ls_index_form_key(index, values, isnull), u->row_id);
}

/* Tell the executor what was done. */
static void
finish_update(Update *u, TupleTableSlot *slot, TU_UpdateIndexes *update_indexes)
{
	uint64		row_id = u->plan.in_place ? u->row_id : u->new_row_id;
	ls_row		row = {
		.row_id = row_id,
		.writer_tn = ls_own_tn(),
		.cid = u->cid,
	};

	ls_slot_set_version(slot, u->rel, &row);
	if (u->is_conflict_update)
		ls_slot_set_locked(slot);

	if (!u->plan.in_place)
	{
		*update_indexes = TU_All;
		ls_note_moved(u->rel, u->row_id, u->new_row_id, u->cid);
	}
	else
	{
		foreach_ptr(RelationData, index, u->plan.rekeyed)
			rekey(u, index);
		*update_indexes = u->plan.summarized ? TU_Summarizing : TU_None;
		ls_note_superseded(u->rel, row_id, u->cid);
	}
	pgstat_count_heap_update(u->rel, u->plan.in_place && u->plan.rekeyed == NIL, false);
	/* that counts a dead row, for VACUUM to come and get: here is none, but perhaps an entry */
	if (u->plan.in_place && u->plan.rekeyed == NIL)
		pgstat_update_heap_dead_tuples(u->rel, 1);
}

/* Until it is done, or cannot be for what others did. */
static TM_Result
update_row(Update *u, LsRowWait *wait_for, bool wait, TM_FailureData *tmfd,
		   LockTupleMode *lockmode)
{
	for (;;)
	{
		bool		again;
		ls_status	status = try_update(u, &again);
		const ls_lock_mode mode = lock_mode_of(&u->plan);
		TM_Result	result;

		*lockmode = mode == LS_LOCK_UPDATE ? LockTupleExclusive : LockTupleNoKeyExclusive;
		if (again)
		{
			CHECK_FOR_INTERRUPTS();
			continue;
		}
		if (status == LS_OK)
			return TM_Ok;
		if (wait && (status == LS_BEING_MODIFIED || status == LS_LOCKED))
		{
			(void) ls_row_wait(wait_for, &u->conflict, mode);
			continue;
		}
		result = ls_conflict_result(u->rel, status, u->row_id, &u->conflict, &u->error, tmfd);
		if (result == TM_Updated)
			ls_lock_before_leaving(wait_for, u->row_id, u->snapshot, u->cid, mode, &u->conflict);
		return result;
	}
}

TM_Result
ls_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid,
				Snapshot snapshot, Snapshot crosscheck, bool wait, TM_FailureData *tmfd,
				LockTupleMode *lockmode, TU_UpdateIndexes *update_indexes)
{
	Update		u = {
		.rel = rel,
		.row_id = ls_marked_tid_to_row(otid),
		.cid = cid,
		.crosscheck = crosscheck,
		.images = ls_images_wanted(rel),
	};
	TM_Result	result;
	LsRowWait	wait_for;
	bool		should_free;

	*update_indexes = TU_None;
	u.snapshot = snapshot = ls_change_snapshot(snapshot);
	u.is_conflict_update = ls_is_conflict_lock(rel, u.row_id, cid);
	ls_forget_recent();
	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot update tuples during a parallel operation")));
	if (ls_snapshot_is_behind(rel, otid, snapshot, tmfd))
	{
		*lockmode = LockTupleExclusive;
		return TM_Updated;
	}
	if (ls_locks(rel))
		ls_lock_row(rel, u.row_id, LS_RANGE_EXCLUSIVE);
	ls_row_wait_begin(&wait_for, rel, u.row_id, XLTW_Update, LockWaitBlock);

	slot->tts_tableOid = RelationGetRelid(rel);
	u.new = ExecFetchSlotHeapTuple(slot, true, &should_free);
	u.new->t_tableOid = RelationGetRelid(rel);

	result = update_row(&u, &wait_for, wait, tmfd, lockmode);
	ls_row_wait_end(&wait_for);

	if (result == TM_Ok)
		finish_update(&u, slot, update_indexes);
	forget_plan(&u.plan);

	if (u.old_space != NULL)
		pfree(u.old_space);
	if (should_free)
		heap_freetuple(u.new);
	return result;
}
