/*
 * ls_follow_redo.c - on a standby with tables that can be read: what the startup process does for
 * them (engine/store/standby_follow.hpp).
 *
 * Each round of the engine's log is redone when it is replayed.  What it removes may be needed by
 * snapshots of sessions; these are cancelled as those are that need what VACUUM has removed from a
 * heap table.  And files are forgotten by the engine before PostgreSQL's own redo unlinks them.
 */
#include "postgres.h"

#include "ls_server_internal.h"
#include "relation/ls_relation.h"
#include "session/ls_session.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog_internal.h"
#include "access/xlogreader.h"
#include "access/xlogrecovery.h"
#include "access/xlogutils.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands_xlog.h"
#include "postmaster/startup.h"
#include "storage/lmgr.h"
#include "storage/standby.h"

#include "leanstore/standby.h"

#define BEGIN_POLL_US 1000

/* ---- rounds ---------------------------------------------------------------- */

static TransactionId
xid_of(uint64 tn)
{
	return (TransactionId) ls_store_full_xid(ls_shared->store, tn);
}

/* Snapshots that are taken from now on show it as one that has ended. */
static bool
is_known_as_aborted(uint64 tn)
{
	const TransactionId xid = xid_of(tn);
	const TransactionId next = XidFromFullTransactionId(ReadNextFullTransactionId());

	return TransactionIdIsNormal(xid) && TransactionIdPrecedes(xid, next) &&
		TransactionIdDidAbort(xid);
}

/* Snapshots with an xmin at or below that transaction, of that database, are no more. */
static void
cancel_snapshots(TransactionId newest, Oid database)
{
	const RelFileLocator locator = {.dbOid = database};

	if (InHotStandby)
		ResolveRecoveryConflictWithSnapshot(newest, false, locator);
}

ls_status
ls_follow_redo(const void *round, Size bytes, ls_error *error)
{
	ls_follow	follow = {.round = round, .bytes = bytes};

	for (;;)
	{
		const ls_status status = ls_follow_apply(ls_shared->store, &follow, error);

		if (status == LS_LIMIT)
		{
			/* Files can be closed when what was redone of the round may be written. */
			XLogFlush(GetCurrentReplayRecPtr(NULL));
			ls_follow_cover(ls_shared->store, follow.reached);
			ProcessStartupProcInterrupts();
			follow = (ls_follow) {0};
			continue;
		}
		if (status != LS_CONFLICT)
			return status;
		if (follow.asked != 0)
			follow = (ls_follow) {.aborted = is_known_as_aborted(follow.asked)};
		else
		{
			cancel_snapshots(xid_of(follow.conflict), follow.database);
			follow = (ls_follow) {.resolved = follow.conflict};
		}
	}
}

/* ---- files that go ----------------------------------------------------------- */

/*
 * While the engine worker begins it has the store's pages and files to itself.  It may begin at any
 * time, so this is asked before a file goes and again behind it.
 */
static bool
engine_has_files(void)
{
	while (pg_atomic_read_u32(&ls_shared->follow_begins) != 0)
	{
		pg_usleep(BEGIN_POLL_US);
		ProcessStartupProcInterrupts();
	}
	return ls_store_follows(ls_shared->store);
}

static void
forget_database(Oid database)
{
	ls_error	error = {0};

	if (engine_has_files() &&
		ls_follow_forget_database(ls_shared->store, database, &error) != LS_OK)
		ls_raise_replay(&error, GetCurrentReplayRecPtr(NULL));
}

static void
forget_files(int n, const RelFileLocator *locators)
{
	if (n == 0 || !engine_has_files())
		return;
	for (int i = 0; i < n; i++)
		ls_relation_forget(&locators[i], INVALID_PROC_NUMBER);
}

static void (*redo_xact_below) (XLogReaderState *record) = NULL;

/* A transaction's end unlinks what it has dropped, or made. */
static void
redo_xact(XLogReaderState *record)
{
	const uint8 info = XLogRecGetInfo(record) & XLOG_XACT_OPMASK;
	int			n = 0;
	RelFileLocator *locators = NULL;

	if (ls_shared != NULL && (info == XLOG_XACT_COMMIT || info == XLOG_XACT_COMMIT_PREPARED))
	{
		xl_xact_parsed_commit parsed;

		ParseCommitRecord(XLogRecGetInfo(record), (xl_xact_commit *) XLogRecGetData(record),
						  &parsed);
		n = parsed.nrels;
		locators = parsed.xlocators;
	}
	else if (ls_shared != NULL && (info == XLOG_XACT_ABORT || info == XLOG_XACT_ABORT_PREPARED))
	{
		xl_xact_parsed_abort parsed;

		ParseAbortRecord(XLogRecGetInfo(record), (xl_xact_abort *) XLogRecGetData(record),
						 &parsed);
		n = parsed.nrels;
		locators = parsed.xlocators;
	}
	forget_files(n, locators);
	redo_xact_below(record);
	forget_files(n, locators);
}

static void (*redo_dbase_below) (XLogReaderState *record) = NULL;

/* As dbase_redo() does it, which is too late: sessions leave before files are forgotten. */
static void
redo_dbase(XLogReaderState *record)
{
	const uint8 info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;
	Oid			database = InvalidOid;

	if (info == XLOG_DBASE_DROP && ls_shared != NULL)
		database = ((xl_dbase_drop_rec *) XLogRecGetData(record))->db_id;
	if (!OidIsValid(database))
	{
		redo_dbase_below(record);
		return;
	}
	if (InHotStandby)
	{
		LockSharedObjectForSession(DatabaseRelationId, database, 0, AccessExclusiveLock);
		ResolveRecoveryConflictWithDatabase(database);
	}
	forget_database(database);
	redo_dbase_below(record);
	forget_database(database);
	if (InHotStandby)
		UnlockSharedObjectForSession(DatabaseRelationId, database, 0, AccessExclusiveLock);
}

void
ls_follow_hook_redo(void)
{
	redo_xact_below = RmgrTable[RM_XACT_ID].rm_redo;
	RmgrTable[RM_XACT_ID].rm_redo = redo_xact;
	redo_dbase_below = RmgrTable[RM_DBASE_ID].rm_redo;
	RmgrTable[RM_DBASE_ID].rm_redo = redo_dbase;
}
