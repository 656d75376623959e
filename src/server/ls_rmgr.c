/*
 * ls_rmgr.c - the end of WAL replay: lost commits, and the first transaction id of this start of
 * the server.
 *
 * After a crash PostgreSQL may have lost the tail of its WAL, and with it transaction
 * ids that were in use.  ls_commits_replay() finds those that the engine's log
 * has; others are handed out again.  Recovery of the engine must tell the
 * two generations apart (is this prepared transaction's id in pg_xact really its
 * own?), so it needs the value of nextXid at the end of WAL replay, before
 * any process can draw a new one.  The one place where an extension runs then is the
 * cleanup callback of a resource manager, called in the startup process.  The
 * resource manager writes no WAL, so the server does not need it to read old WAL.
 */
#include "postgres.h"

#include "ls_server_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "access/xlog_internal.h"
#include "access/xlogreader.h"

#define LS_RMGR_ID 187

static void
ls_redo(XLogReaderState *record)
{
	elog(PANIC, "leanstore_am writes no WAL records, found one of type %u", XLogRecGetInfo(record));
}

static void
ls_desc(StringInfo buf, XLogReaderState *record)
{
}

static const char *
ls_identify(uint8 info)
{
	return NULL;
}

static void
ls_replay_finished(void)
{
	if (ls_shared == NULL)
		return;
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
