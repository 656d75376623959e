/*
 * ls_rmgr.c - our WAL resource manager: rounds of the engine's log, bytes of values and states to
 * restore from with leanstore.log = wal, and the end of WAL replay.
 *
 * A round that is replayed goes to its place in the relay log, from which the engine worker
 * recovers; bytes of values go to their place in the file.  Places of pages are for tools that read
 * WAL, and rows for logical decoding (ls_decode.c): redo has nothing to do for them.  A state
 * counts in a copy of the data directory only (session/ls_backup.c).  The relay log is synced
 * before a checkpoint's record is replayed, behind which the server may begin next time.
 *
 * After a crash PostgreSQL may have lost the tail of its WAL, and with it transaction
 * ids that were in use.  ls_commits_replay() finds those that the engine's log
 * has; others are handed out again.  Recovery of the engine must tell the
 * two generations apart (is this prepared transaction's id in pg_xact really its
 * own?), so it needs the value of nextXid at the end of WAL replay, before
 * any process can draw a new one.  The one place where an extension runs then is the
 * cleanup callback of a resource manager, called in the startup process.  With
 * leanstore.log = engine it writes no WAL, so the server does not need it to read old WAL.
 */
#include "postgres.h"

#include "ls_server_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "access/transam.h"
#include "access/xlog_internal.h"
#include "access/xlogreader.h"
#include "access/xlogrecovery.h"
#include "catalog/pg_control.h"
#include "common/relpath.h"

/* Another attempt is the server's next start. */
void
ls_raise_replay(const ls_error *error, XLogRecPtr lsn)
{
	ereport(FATAL,
			(errcode(error->status == LS_CORRUPT ? ERRCODE_DATA_CORRUPTED
					 : error->status == LS_NO_SPACE ? ERRCODE_DISK_FULL
					 : error->status == LS_MANY_PREPARED ? ERRCODE_CONFIGURATION_LIMIT_EXCEEDED
					 : ERRCODE_IO_ERROR),
			 errmsg("could not replay the log of leanstore tables up to %X/%X: %s",
					LSN_FORMAT_ARGS(lsn), ls_error_text(error)),
			 error->path[0] ? errdetail("File \"%s\".", error->path) : 0,
			 errhint("Remove the cause and start the server again.")));
}

static uint8
kind_of(XLogReaderState *record)
{
	return XLogRecGetInfo(record) & ~XLR_INFO_MASK;
}

static void
redo_round(XLogReaderState *record)
{
	const char *round = XLogRecGetData(record) + sizeof(LsWalRound);
	const uint32 bytes = XLogRecGetDataLen(record) - sizeof(LsWalRound);
	LsWalRound	head;
	TransactionId last;
	ls_error	error = {0};

	memcpy(&head, XLogRecGetData(record), sizeof(head));
	if (ls_relay_replay(ls_shared->store, round, bytes, head.position, &error) == LS_OK)
	{
		last = (TransactionId) head.next_xid;
		TransactionIdRetreat(last);
		AdvanceNextFullTransactionIdPastXid(last);
		if (ls_follow_redo(round, bytes, &error) != LS_OK)
			ls_raise_replay(&error, record->EndRecPtr);
		return;
	}
	/* The server that this is a copy of has had the other log for a while, or another store. */
	if (error.status == LS_NOT_FOUND && ArchiveRecoveryRequested)
		ls_backup_lost(record->ReadRecPtr);
	else
		ls_raise_replay(&error, record->EndRecPtr);
}

static RelPathStr
path_of(const RelFileLocator *locator, ForkNumber fork)
{
	return GetRelationPath(locator->dbOid, locator->spcOid, locator->relNumber,
						   INVALID_PROC_NUMBER, fork);
}

/* A relation that is dropped later in WAL may have gone. */
static void
redo_values(XLogReaderState *record)
{
	const char *data = XLogRecGetData(record);
	const Size	bytes = XLogRecGetDataLen(record) - sizeof(LsWalValues);
	LsWalValues values;
	RelPathStr	path;
	ls_value_bytes pages;
	bool		there;
	ls_error	error = {0};

	memcpy(&values, data, sizeof(values));
	path = path_of(&values.locator, MAIN_FORKNUM);
	pages = (ls_value_bytes) {path.str, values.page, data + sizeof(values), bytes};
	if (ls_values_replay(ls_shared->store, &pages, &there, &error) != LS_OK)
		ls_raise_replay(&error, record->EndRecPtr);
	if (there)
		ls_host_log_sync_values(&values, bytes);
}

static void
redo_prepared(XLogReaderState *record)
{
	const char *data = XLogRecGetData(record);
	LsWalPrepared head;
	ls_prepared_bytes bytes;
	ls_error	error = {0};

	memcpy(&head, data, sizeof(head));
	bytes = (ls_prepared_bytes) {head.full_xid, head.at, data + sizeof(head),
								 XLogRecGetDataLen(record) - sizeof(head), head.last};
	if (ls_prepared_replay(ls_shared->store, &bytes, &error) != LS_OK)
		ls_raise_replay(&error, record->EndRecPtr);
}

static void
redo_state(XLogReaderState *record)
{
	const char *data = XLogRecGetData(record);
	LsWalState	head;

	memcpy(&head, data, sizeof(head));
	if (!ls_shared->restoring)
	{
		ls_standby_leave_state(head.redo, record->EndRecPtr, data + sizeof(head),
							   XLogRecGetDataLen(record) - sizeof(head));
		return;
	}
	ls_backup_take_state(&head, data + sizeof(head), XLogRecGetDataLen(record) - sizeof(head));
	if (!ls_shared->restoring)
		ls_standby_backup_restored(head.redo);
}

static void
ls_redo(XLogReaderState *record)
{
	const uint8 kind = kind_of(record);
	const uint32 bytes = XLogRecGetDataLen(record);
	const bool	known = kind == LS_WAL_PLACES || kind == LS_WAL_UNNAMED ||
		(kind == LS_WAL_ROUND && bytes > sizeof(LsWalRound)) ||
		(kind == LS_WAL_VALUES && bytes > sizeof(LsWalValues)) ||
		(kind == LS_WAL_PREPARED && bytes > sizeof(LsWalPrepared)) ||
		(kind == LS_WAL_ROWS && bytes >= sizeof(LsWalRows)) ||
		(kind == LS_WAL_STATE && bytes > sizeof(LsWalState));

	if (!known)
		elog(PANIC, "unknown WAL record of leanstore_am, type %u", XLogRecGetInfo(record));
	if (ls_shared == NULL || ls_shared->from_backup)
		return;
	if (kind == LS_WAL_ROUND)
		redo_round(record);
	else if (kind == LS_WAL_VALUES)
		redo_values(record);
	else if (kind == LS_WAL_PREPARED)
		redo_prepared(record);
	else if (kind == LS_WAL_STATE)
		redo_state(record);
}

static void
desc_round(StringInfo buf, const char *data, Size bytes)
{
	LsWalRound	head;

	memcpy(&head, data, sizeof(head));
	appendStringInfo(buf, "position " UINT64_FORMAT ", next xid " UINT64_FORMAT ", %zu bytes",
					 head.position, head.next_xid, bytes - sizeof(head));
}

static void
desc_values(StringInfo buf, const char *data, Size bytes)
{
	LsWalValues values;

	memcpy(&values, data, sizeof(values));
	appendStringInfo(buf, "file %s, page %u, %zu bytes",
					 path_of(&values.locator, FSM_FORKNUM).str, values.page,
					 bytes - sizeof(values));
}

static void
desc_prepared(StringInfo buf, const char *data, Size bytes)
{
	LsWalPrepared head;

	memcpy(&head, data, sizeof(head));
	appendStringInfo(buf, "transaction " UINT64_FORMAT ", bytes " UINT64_FORMAT " to "
					 UINT64_FORMAT "%s",
					 head.full_xid, head.at, head.at + bytes - sizeof(head),
					 head.last ? ", the last ones" : "");
}

static void
desc_state(StringInfo buf, const char *data, Size bytes)
{
	LsWalState	head;

	memcpy(&head, data, sizeof(head));
	appendStringInfo(buf, "redo %X/%X, %zu bytes", LSN_FORMAT_ARGS(head.redo),
					 bytes - sizeof(head));
}

static void
desc_rows(StringInfo buf, const char *data, Size bytes)
{
	static const char *const changes[] = {"INSERT", "UPDATE", "DELETE"};
	LsWalRows	head;

	memcpy(&head, data, sizeof(head));
	appendStringInfo(buf, "%s, file %s%s, %zu bytes",
					 head.change < lengthof(changes) ? changes[head.change] : "?",
					 path_of(&head.locator, MAIN_FORKNUM).str,
					 head.is_chunk ? ", chunk of a value" : "", bytes - sizeof(head));
}

static void
ls_desc(StringInfo buf, XLogReaderState *record)
{
	const uint8 kind = kind_of(record);
	const Size	bytes = XLogRecGetDataLen(record);

	if (kind == LS_WAL_ROUND && bytes >= sizeof(LsWalRound))
		desc_round(buf, XLogRecGetData(record), bytes);
	else if (kind == LS_WAL_VALUES && bytes >= sizeof(LsWalValues))
		desc_values(buf, XLogRecGetData(record), bytes);
	else if (kind == LS_WAL_PREPARED && bytes >= sizeof(LsWalPrepared))
		desc_prepared(buf, XLogRecGetData(record), bytes);
	else if (kind == LS_WAL_ROWS && bytes >= sizeof(LsWalRows))
		desc_rows(buf, XLogRecGetData(record), bytes);
	else if (kind == LS_WAL_STATE && bytes >= sizeof(LsWalState))
		desc_state(buf, XLogRecGetData(record), bytes);
}

static const char *
ls_identify(uint8 info)
{
	switch (info & ~XLR_INFO_MASK)
	{
		case LS_WAL_ROUND:
			return "ROUND";
		case LS_WAL_UNNAMED:
			return "UNNAMED";
		case LS_WAL_PLACES:
			return "PLACES";
		case LS_WAL_VALUES:
			return "VALUES";
		case LS_WAL_STATE:
			return "STATE";
		case LS_WAL_PREPARED:
			return "PREPARED";
		case LS_WAL_ROWS:
			return "ROWS";
	}
	return NULL;
}

/* Called when there is WAL to replay, and when all of it has been. */
static void
ls_replay_begins(void)
{
	if (ls_shared != NULL)
	{
		pg_atomic_write_u32(&ls_shared->replay_pid, MyProcPid);
		ls_relay_replay_begin(ls_shared->store, ls_shared->restoring);
		/* Else the engine may follow, and standbys have states to be redone. */
		if (!ArchiveRecoveryRequested)
			ls_relay_replay_alone(ls_shared->store);
		ls_standby_backup_begin();
	}
}

static void
ls_replay_finished(void)
{
	ls_error	error = {0};

	if (ls_shared == NULL)
		return;
	ls_standby_end();
	ls_backup_replay_ended();
	if (!ls_shared->from_backup && ls_log_is_wal() &&
		ls_relay_replay_end(ls_shared->store, &error) != LS_OK)
		ls_raise_replay(&error, GetXLogReplayRecPtr(NULL));
	if (!ls_log_is_wal())
		ls_commits_replay();
	ls_first_snapshot_end();
	pg_atomic_write_u64(&ls_shared->first_new_xid,
						U64FromFullTransactionId(ReadNextFullTransactionId()));
}

static void (*redo_xlog_below) (XLogReaderState *record) = NULL;

/* The relay log is synced before the server may take this for the place to begin at. */
static void
redo_xlog(XLogReaderState *record)
{
	const uint8 info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;
	const bool	is_checkpoint = info == XLOG_CHECKPOINT_ONLINE || info == XLOG_CHECKPOINT_SHUTDOWN;
	ls_error	error = {0};

	if (is_checkpoint && ls_shared != NULL && !ls_shared->from_backup &&
		ls_relay_replay_sync(ls_shared->store, &error) != LS_OK)
		ls_raise_replay(&error, record->EndRecPtr);
	if (is_checkpoint && ls_shared != NULL && !ls_shared->from_backup)
	{
		const XLogRecPtr redo = ((CheckPoint *) XLogRecGetData(record))->redo;

		if (info == XLOG_CHECKPOINT_SHUTDOWN)
			ls_standby_note_position(redo);
		ls_standby_backup_checkpoint(redo, info == XLOG_CHECKPOINT_SHUTDOWN,
									 ls_standby_left_state(redo));
	}
	redo_xlog_below(record);
}

/*
 * No rm_mask: wal_consistency_checking would compare blocks that records name (LS_WAL_PLACES) by
 * way of PostgreSQL's buffers, which have none of ours, before the engine has recovered.
 */
static const RmgrData ls_rmgr = {
	.rm_name = "leanstore_am",
	.rm_redo = ls_redo,
	.rm_desc = ls_desc,
	.rm_identify = ls_identify,
	.rm_startup = ls_replay_begins,
	.rm_cleanup = ls_replay_finished,
	.rm_decode = ls_decode,
};

void
ls_rmgr_register(void)
{
	RegisterCustomRmgr(LS_RMGR_ID, &ls_rmgr);
	redo_xlog_below = RmgrTable[RM_XLOG_ID].rm_redo;
	RmgrTable[RM_XLOG_ID].rm_redo = redo_xlog;
	ls_follow_hook_redo();
}
