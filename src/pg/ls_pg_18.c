/*
 * ls_pg_18.c - ls_pg.h for PostgreSQL 18.
 *
 * What each function relies on stands above it.  What the server's headers say of that is asserted:
 * a release with another layout does not compile here.  The numbers are those of 64-bit platforms.
 * What only a file of the server says (constants of clog.c, the list of xact.c) no compiler can
 * check: look there first when the major version changes.
 */
#include "postgres.h"

#include "ls_pg.h"

#include "access/clog.h"
#include "access/commit_ts.h"
#include "access/htup_details.h"
#include "access/rmgr.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xloginsert.h"
#include "access/xlogreader.h"
#include "miscadmin.h"
#include "storage/bufpage.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/predicate_internals.h"
#include "storage/proc.h"
#include "utils/memutils.h"

StaticAssertDecl(PG_VERSION_NUM / 10000 == 18, "ls_pg_18.c is for PostgreSQL 18");
StaticAssertDecl(SIZEOF_VOID_P == 8, "sizes of structs are those of 64-bit platforms");

/* ---- WAL ------------------------------------------------------------------- */

StaticAssertDecl(SizeOfXLogShortPHD == 24 && SizeOfXLogLongPHD == 40, "headers of WAL pages");

/*
 * Where the next record will begin.  When that is right behind a page's header, the last record
 * ends before the page, and that far can be flushed.
 */
XLogRecPtr
ls_pg_wal_end(void)
{
	XLogRecPtr	lsn = GetXLogInsertRecPtr();

	return lsn % XLOG_BLCKSZ <= SizeOfXLogLongPHD ? lsn - lsn % XLOG_BLCKSZ : lsn;
}

/* ---- transaction ids ------------------------------------------------------- */

/* Of clog.c and commit_ts.c. */
#define CLOG_XACTS_PER_PAGE (BLCKSZ * 4)
#define COMMIT_TS_XACTS_PER_PAGE (BLCKSZ / (sizeof(TimestampTz) + sizeof(RepOriginId)))

StaticAssertDecl(sizeof(TimestampTz) + sizeof(RepOriginId) == 10, "entries of commit_ts");
StaticAssertDecl(offsetof(TransamVariablesData, nextXid) == 8 &&
				 offsetof(TransamVariablesData, latestCompletedXid) == 48 &&
				 offsetof(TransamVariablesData, oldestClogXid) == 64, "TransamVariablesData");
StaticAssertDecl(CLOG_ZEROPAGE == 0 && COMMIT_TS_ZEROPAGE == 0, "WAL of the SLRUs");
StaticAssertDecl(sizeof(XLogReaderState) == 1320 &&
				 offsetof(XLogReaderState, record) == 104, "XLogReaderState");
StaticAssertDecl(offsetof(DecodedXLogRecord, header) == 40 &&
				 offsetof(DecodedXLogRecord, main_data) == 72 &&
				 offsetof(DecodedXLogRecord, max_block_id) == 84 &&
				 offsetof(DecodedXLogRecord, blocks) == 88, "DecodedXLogRecord");

/*
 * Make an SLRU's page as the resource manager does when it replays the WAL that said so; it was
 * lost.  Its redo function reads the record's info and data, and the page's number is all of that.
 */
static void
zero_page(RmgrId rmgr, uint8 info, int64 page)
{
	DecodedXLogRecord decoded = {0};
	XLogReaderState record = {0};

	decoded.header.xl_rmid = rmgr;
	decoded.header.xl_info = info;
	decoded.main_data = (char *) &page;
	decoded.main_data_len = sizeof(page);
	decoded.max_block_id = -1;
	record.record = &decoded;
	GetRmgr(rmgr).rm_redo(&record);
}

/* As GetNewTransactionId() would have gone through it: ExtendCLOG(), ExtendCommitTs(). */
void
ls_pg_pass_next_xid(void)
{
	TransactionId xid = XidFromFullTransactionId(TransamVariables->nextXid);

	if (xid % CLOG_XACTS_PER_PAGE == 0 || xid == FirstNormalTransactionId)
		zero_page(RM_CLOG_ID, CLOG_ZEROPAGE, xid / CLOG_XACTS_PER_PAGE);
	if (track_commit_timestamp &&
		(xid % COMMIT_TS_XACTS_PER_PAGE == 0 || xid == FirstNormalTransactionId))
		zero_page(RM_COMMIT_TS_ID, COMMIT_TS_ZEROPAGE, xid / COMMIT_TS_XACTS_PER_PAGE);
	AdvanceNextFullTransactionIdPastXid(xid);
}

/* Moved under XactTruncationLock before pg_xact is cut; the startup process cuts it itself. */
bool
ls_pg_is_cut_from_pg_xact(TransactionId xid)
{
	return TransactionIdPrecedes(xid, TransamVariables->oldestClogXid);
}

/* ---- processes ------------------------------------------------------------- */

StaticAssertDecl(sizeof(PGPROC) == 832 &&
				 offsetof(PGPROC, xid) == 52 &&
				 offsetof(PGPROC, xmin) == 56 &&
				 offsetof(PGPROC, pid) == 60 &&
				 offsetof(PGPROC, vxid.lxid) == 72 &&
				 offsetof(PGPROC, statusFlags) == 148, "PGPROC");
StaticAssertDecl(offsetof(PROC_HDR, allProcs) == 0 &&
				 offsetof(PROC_HDR, allProcCount) == 32, "PROC_HDR");
StaticAssertDecl(PROC_IN_VACUUM == 0x02, "flags of PGPROC");

/* The dummies of prepared transactions lie behind them. */
uint32
ls_pg_process_count(void)
{
	return ProcGlobal->allProcCount;
}

int
ls_pg_process_pid(ProcNumber proc)
{
	return GetPGProcByNumber(proc)->pid;
}

LocalTransactionId
ls_pg_process_lxid(ProcNumber proc)
{
	return GetPGProcByNumber(proc)->vxid.lxid;
}

/*
 * GetSnapshotData() and ProcArrayEndTransaction() exclude each other by this lock, and under it
 * latestCompletedXid moves with what leaves the array.
 */
TransactionId
ls_pg_lock_processes(void)
{
	LWLockAcquire(ProcArrayLock, LW_SHARED);
	return XidFromFullTransactionId(TransamVariables->latestCompletedXid);
}

void
ls_pg_unlock_processes(void)
{
	LWLockRelease(ProcArrayLock);
}

/* Processes set their own ids and xmins without the exclusive lock: each is read once. */
TransactionId
ls_pg_process_xid(ProcNumber proc)
{
	return *((volatile TransactionId *) &GetPGProcByNumber(proc)->xid);
}

/* As ComputeXidHorizons() takes them. */
TransactionId
ls_pg_process_xmin(ProcNumber proc)
{
	PGPROC	   *process = GetPGProcByNumber(proc);
	TransactionId xmin = *((volatile TransactionId *) &process->xmin);

	return (process->statusFlags & PROC_IN_VACUUM) != 0 ? InvalidTransactionId : xmin;
}

/* ---- the relation cache ---------------------------------------------------- */

StaticAssertDecl(sizeof(RelationData) == 488 &&
				 offsetof(RelationData, rd_indexcxt) == 344 &&
				 offsetof(RelationData, rd_amcache) == 456, "RelationData");

/*
 * RelationRebuildRelation() completes the entry of an index by the full procedure only as long as
 * it has no memory of its own: that is taken away.
 */
void
ls_pg_rebuild_index_entry(Relation index)
{
	Assert(index->rd_amcache == NULL);
	MemoryContextDelete(index->rd_indexcxt);
	index->rd_indexcxt = NULL;
}

/* ---- callbacks of transactions --------------------------------------------- */

/* XactCallbackItem of xact.c: a list, the newest first. */
typedef struct CallbackItem
{
	struct CallbackItem *next;
	XactCallback callback;
	void	   *arg;
} CallbackItem;

/*
 * PostgreSQL calls first the callback that was registered last, and has no function that puts one
 * behind those that there are.  But a chunk that is freed is what the next allocation of its size
 * gets, and that is the server's list entry, which leads to the end of the list.  Where it is not,
 * or looks different, the list is left alone.
 */
bool
ls_pg_register_xact_callbacks(XactCallback first, XactCallback last)
{
	static CallbackItem at_end;
	CallbackItem *entry = MemoryContextAlloc(TopMemoryContext, sizeof(CallbackItem));

	pfree(entry);
	RegisterXactCallback(first, NULL);
	if (entry->callback != first || entry->arg != NULL)
		return false;
	while (entry->next != NULL)
		entry = entry->next;
	at_end.callback = last;
	entry->next = &at_end;
	return true;
}

/* ---- the lock manager ------------------------------------------------------ */

StaticAssertDecl(FP_LOCK_SLOTS_PER_GROUP == 16 &&
				 sizeof(*((PGPROC *) NULL)->fpLockBits) == 8 &&
				 sizeof(*((PGPROC *) NULL)->fpRelId) == sizeof(Oid), "fast-path locks");
StaticAssertDecl(sizeof(PROCLOCK) == 64 && offsetof(PROCLOCK, procLink) == 48, "PROCLOCK");

/* Relations of which this backend has a lock in the shared table instead of its own array. */
static List *
locked_in_table(void)
{
	List	   *relations = NIL;

	for (int i = 0; i < NUM_LOCK_PARTITIONS; i++)
	{
		LWLock	   *partition = LockHashPartitionLockByIndex(i);
		dlist_iter	iter;

		/*
		 * Only this backend takes its locks; others may move them here, from the array, when they
		 * have been looked at there.
		 */
		if (dlist_is_empty(&MyProc->myProcLocks[i]))
			continue;
		LWLockAcquire(partition, LW_SHARED);
		dlist_foreach(iter, &MyProc->myProcLocks[i])
		{
			const LOCKTAG *tag = &dlist_container(PROCLOCK, procLink, iter.cur)->tag.myLock->tag;

			if (tag->locktag_type == LOCKTAG_RELATION && tag->locktag_field1 == MyDatabaseId)
				relations = lappend_oid(relations, tag->locktag_field2);
		}
		LWLockRelease(partition);
	}
	return relations;
}

/*
 * What an entry of the array says without its bits, which are the lock manager's own, can be left
 * from an earlier lock.
 */
List *
ls_pg_maybe_locked(bool (*wanted) (Oid relid))
{
	List	   *relations = NIL;

	for (int group = 0; group < FastPathLockGroupsPerBackend; group++)
	{
		if (MyProc->fpLockBits[group] == 0)
			continue;
		for (int i = 0; i < FP_LOCK_SLOTS_PER_GROUP; i++)
		{
			Oid			relid = MyProc->fpRelId[group * FP_LOCK_SLOTS_PER_GROUP + i];

			if (OidIsValid(relid) && wanted(relid))
				relations = list_append_unique_oid(relations, relid);
		}
	}
	foreach_oid(relid, locked_in_table())
	{
		if (wanted(relid))
			relations = list_append_unique_oid(relations, relid);
	}
	return relations;
}

/* ---- sequences ------------------------------------------------------------- */

StaticAssertDecl(sizeof(xl_seq_rec) == 12 && XLOG_SEQ_LOG == 0, "WAL of sequences");
StaticAssertDecl(sizeof(FormData_pg_sequence_data) == 24, "FormData_pg_sequence_data");

/* The record of nextval_internal(): seq_redo() makes the page anew, of this one row. */
void
ls_pg_log_sequence(Relation rel, Buffer buffer, HeapTuple now, int64 ahead, int64 increment)
{
	Page		page = BufferGetPage(buffer);
	Form_pg_sequence_data form = (Form_pg_sequence_data) GETSTRUCT(now);
	const int64 last = form->last_value;
	xl_seq_rec	record = {.locator = rel->rd_locator};
	XLogRecPtr	end;

	START_CRIT_SECTION();
	MarkBufferDirty(buffer);
	form->last_value = last + ahead * increment;
	form->log_cnt = 0;
	XLogBeginInsert();
	XLogRegisterBuffer(0, buffer, REGBUF_WILL_INIT);
	XLogRegisterData(&record, sizeof(record));
	XLogRegisterData(now->t_data, now->t_len);
	end = XLogInsert(RM_SEQ_ID, XLOG_SEQ_LOG);
	PageSetLSN(page, end);
	form->last_value = last;
	form->log_cnt = ahead;
	END_CRIT_SECTION();
}

/* ---- read/write dependencies ----------------------------------------------- */

StaticAssertDecl(sizeof(SERIALIZABLEXACT) == 168 &&
				 offsetof(SERIALIZABLEXACT, outConflicts) == 32 &&
				 offsetof(SERIALIZABLEXACT, inConflicts) == 48 &&
				 offsetof(SERIALIZABLEXACT, topXid) == 144 &&
				 offsetof(SERIALIZABLEXACT, flags) == 156 &&
				 offsetof(SERIALIZABLEXACT, pid) == 160 &&
				 offsetof(SERIALIZABLEXACT, pgprocno) == 164, "SERIALIZABLEXACT");
StaticAssertDecl(sizeof(RWConflictData) == 48 &&
				 offsetof(RWConflictData, outLink) == 0 &&
				 offsetof(RWConflictData, inLink) == 16 &&
				 offsetof(RWConflictData, sxactOut) == 32 &&
				 offsetof(RWConflictData, sxactIn) == 40, "RWConflictData");
StaticAssertDecl(SXACT_FLAG_COMMITTED == 0x0001 && SXACT_FLAG_PREPARED == 0x0002 &&
				 SXACT_FLAG_SUMMARY_CONFLICT_OUT == 0x0400, "flags of SERIALIZABLEXACT");

/* The handle is the struct's address. */
static dlist_head *
conflicts_of(SerializableXactHandle xact, LsPgConflicts which)
{
	SERIALIZABLEXACT *own = (SERIALIZABLEXACT *) xact;

	return which == LS_PG_CONFLICTS_OUT ? &own->outConflicts : &own->inConflicts;
}

/* To spare memory the server takes committed ones from the list and leaves a flag. */
static bool
are_summarized(SerializableXactHandle xact, LsPgConflicts which)
{
	return which == LS_PG_CONFLICTS_OUT &&
		(((SERIALIZABLEXACT *) xact)->flags & SXACT_FLAG_SUMMARY_CONFLICT_OUT) != 0;
}

bool
ls_pg_has_conflicts(SerializableXactHandle xact, LsPgConflicts which)
{
	return !dlist_is_empty(conflicts_of(xact, which)) || are_summarized(xact, which);
}

/* A prepared transaction has no backend, and says that it is prepared by a flag. */
static LsPgConflict
rival_of(const SERIALIZABLEXACT *sxact)
{
	return (LsPgConflict)
	{
		.proc = sxact->pid == 0 ? INVALID_PROC_NUMBER : sxact->pgprocno,
			.prepared = (sxact->flags & SXACT_FLAG_PREPARED) != 0,
			.committed = (sxact->flags & SXACT_FLAG_COMMITTED) != 0,
			.xid = sxact->topXid
	};
}

/* The lists are SerializableXactHashLock's. */
bool
ls_pg_find_conflict(SerializableXactHandle xact, LsPgConflicts which,
					bool (*wanted) (const LsPgConflict *conflict), LsPgConflict *found)
{
	bool		result = false;
	dlist_iter	iter;

	LWLockAcquire(SerializableXactHashLock, LW_SHARED);
	if (are_summarized(xact, which))
	{
		*found = (LsPgConflict)
		{
			.proc = INVALID_PROC_NUMBER, .committed = true
		};
		result = wanted(found);
	}
	dlist_foreach(iter, conflicts_of(xact, which))
	{
		if (result)
			break;
		*found = rival_of(which == LS_PG_CONFLICTS_OUT
						  ? dlist_container(RWConflictData, outLink, iter.cur)->sxactIn
						  : dlist_container(RWConflictData, inLink, iter.cur)->sxactOut);
		result = wanted(found);
	}
	LWLockRelease(SerializableXactHashLock);
	return result;
}
