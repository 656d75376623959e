/*
 * ls_rmgr.c - our WAL resource manager: rounds of the engine's log with leanstore.log = wal, and
 * the end of WAL replay.
 *
 * A round that is replayed goes to its place in the relay log, from which the engine worker
 * recovers.
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

#include "access/xlog_internal.h"
#include "access/xlogreader.h"
#include "access/xlogrecovery.h"

/* Another attempt is the server's next start. */
static void
raise_replay(const ls_error *error, XLogRecPtr lsn)
{
	ereport(FATAL,
			(errcode(error->status == LS_CORRUPT ? ERRCODE_DATA_CORRUPTED
					 : error->status == LS_NO_SPACE ? ERRCODE_DISK_FULL : ERRCODE_IO_ERROR),
			 errmsg("could not replay the log of leanstore tables up to %X/%X: %s",
					LSN_FORMAT_ARGS(lsn), ls_error_text(error)),
			 error->path[0] ? errdetail("File \"%s\".", error->path) : 0,
			 errhint("Remove the cause and start the server again.")));
}

static void
ls_redo(XLogReaderState *record)
{
	const char *data = XLogRecGetData(record);
	const uint32 bytes = XLogRecGetDataLen(record);
	uint64		position;
	ls_error	error = {0};

	if ((XLogRecGetInfo(record) & ~XLR_INFO_MASK) != LS_WAL_ROUND || bytes < sizeof(position))
		elog(PANIC, "unknown WAL record of leanstore_am, type %u", XLogRecGetInfo(record));
	if (ls_shared == NULL || ls_shared->from_backup)
		return;
	memcpy(&position, data, sizeof(position));
	if (ls_relay_replay(ls_shared->store, data + sizeof(position), bytes - sizeof(position),
						position, &error) != LS_OK)
		raise_replay(&error, record->EndRecPtr);
}

static void
ls_desc(StringInfo buf, XLogReaderState *record)
{
	uint64		position;

	if (XLogRecGetDataLen(record) < sizeof(position))
		return;
	memcpy(&position, XLogRecGetData(record), sizeof(position));
	appendStringInfo(buf, "position " UINT64_FORMAT ", %zu bytes", position,
					 XLogRecGetDataLen(record) - sizeof(position));
}

static const char *
ls_identify(uint8 info)
{
	return (info & ~XLR_INFO_MASK) == LS_WAL_ROUND ? "ROUND" : NULL;
}

/* Called when there was WAL to replay. */
static void
ls_replay_finished(void)
{
	ls_error	error = {0};

	if (ls_shared == NULL)
		return;
	if (!ls_shared->from_backup && ls_log_is_wal() &&
		ls_relay_replay_end(ls_shared->store, &error) != LS_OK)
		raise_replay(&error, GetXLogReplayRecPtr(NULL));
	if (!ls_log_is_wal())
		ls_commits_replay();
	pg_atomic_write_u64(&ls_shared->first_new_xid,
						U64FromFullTransactionId(ReadNextFullTransactionId()));
}

static const RmgrData ls_rmgr = {
	.rm_name = "leanstore_am",
	.rm_redo = ls_redo,
	.rm_desc = ls_desc,
	.rm_identify = ls_identify,
	.rm_cleanup = ls_replay_finished,
};

void
ls_rmgr_register(void)
{
	RegisterCustomRmgr(LS_RMGR_ID, &ls_rmgr);
}
