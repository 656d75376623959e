/*
 * ls_sequence.c - sequences that a transaction has asked.
 *
 * nextval() writes a WAL record for 32 values at a time and has the transaction
 * that did so flush it.  A transaction that is given one of the others relies on that: a
 * heap row would take the record along, being behind it in the same log, a leanstore row
 * does not (ls_commit_order.c).  So every transaction looks, before it commits, at the
 * pages of the sequences it has asked.  PostgreSQL has no list of them and no hook,
 * but nextval() keeps a RowExclusiveLock until the transaction ends.
 *
 * And a transaction that writes leanstore rows and has written such a record waits
 * for both logs: here the sequence is logged further ahead, so that few do.
 */
#include "postgres.h"

#include "ls_txn_internal.h"
#include "pg/ls_pg.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "catalog/pg_sequence.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/*
 * Of a sequence no more is logged ahead, and lost in a crash, than this part of what it can still
 * give.
 */
#define LEAST_PARTS_LEFT 1000

/* ---- which of the relations locked are sequences */

typedef struct KnownRelation
{
	Oid			relid;
	bool		is_sequence;
} KnownRelation;

static KnownRelation known[64];
static bool callback_registered = false;

static void
forget_relation(Datum arg, Oid relid)
{
	KnownRelation *entry = &known[relid % lengthof(known)];

	if (!OidIsValid(relid))
		memset(known, 0, sizeof(known));
	else if (entry->relid == relid)
		entry->relid = InvalidOid;
}

static bool
is_sequence(Oid relid)
{
	KnownRelation *entry = &known[relid % lengthof(known)];

	if (entry->relid != relid)
	{
		bool		answer;

		if (!callback_registered)
		{
			CacheRegisterRelcacheCallback(forget_relation, (Datum) 0);
			callback_registered = true;
		}
		/*
		 * An invalidation may come in between, but not one of this relation: it is locked, or the
		 * answer does not matter.
		 */
		answer = get_rel_relkind(relid) == RELKIND_SEQUENCE;
		*entry = (KnownRelation) {relid, answer};
	}
	return entry->is_sequence;
}

/* ---- logging ahead */

/* How many values; 0: no more than nextval() has done. */
static int64
values_ahead(Oid relid, const FormData_pg_sequence_data *now, int64 *increment)
{
	HeapTuple	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(relid));
	const FormData_pg_sequence *sequence;
	uint64		left,
				step;

	if (!HeapTupleIsValid(tuple))
		return 0;
	sequence = (const FormData_pg_sequence *) GETSTRUCT(tuple);
	*increment = sequence->seqincrement;
	left = *increment > 0 ? (uint64) sequence->seqmax - (uint64) now->last_value
						  : (uint64) now->last_value - (uint64) sequence->seqmin;
	step = *increment > 0 ? (uint64) *increment : -(uint64) *increment;
	ReleaseSysCache(tuple);
	return Min((uint64) ls_sequence_log_values, left / step / LEAST_PARTS_LEFT);
}

/*
 * The page is locked exclusively.  The record is nextval()'s own: the state after so many values.
 */
static void
log_ahead(Relation rel, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	ItemId		item = PageGetItemId(page, FirstOffsetNumber);
	HeapTupleData tuple = {.t_len = ItemIdGetLength(item),
						   .t_data = (HeapTupleHeader) PageGetItem(page, item)};
	Form_pg_sequence_data now = (Form_pg_sequence_data) GETSTRUCT(&tuple);
	int64		increment = 0;
	int64		ahead;

	if (!now->is_called)
		return;
	ahead = values_ahead(RelationGetRelid(rel), now, &increment);
	if (ahead > now->log_cnt * 2)
		ls_pg_log_sequence(rel, buffer, &tuple, ahead, increment);
}

static XLogRecPtr
page_lsn(Relation rel, bool may_log_ahead)
{
	Buffer		buffer = ReadBuffer(rel, 0);
	XLogRecPtr	lsn;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	lsn = PageGetLSN(BufferGetPage(buffer));
	if (may_log_ahead && XLogNeedsFlush(lsn))
	{
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		log_ahead(rel, buffer);
		lsn = PageGetLSN(BufferGetPage(buffer));
	}
	UnlockReleaseBuffer(buffer);
	return lsn;
}

XLogRecPtr
ls_sequences_lsn(bool log_ahead)
{
	XLogRecPtr	newest = InvalidXLogRecPtr;

	foreach_oid(relid, ls_pg_maybe_locked(is_sequence))
	{
		Relation	rel;

		if (!CheckRelationOidLockedByMe(relid, RowExclusiveLock, true))
			continue;
		rel = try_relation_open(relid, NoLock);
		if (rel == NULL)		/* dropped since */
			continue;
		if (RelationNeedsWAL(rel))
			newest = Max(newest, page_lsn(rel, log_ahead));
		relation_close(rel, NoLock);
	}
	return newest;
}
