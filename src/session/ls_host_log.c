/*
 * ls_host_log.c - PostgreSQL's WAL as the engine's log (leanstore.log = wal): what the engine calls
 * to write to it.
 *
 * Each round of the engine's log is one record of our resource manager (server/ls_rmgr.c).  Any
 * process of the server may write one; the engine's threads may not.
 */
#include "postgres.h"

#include "ls_session_internal.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "executor/instrument.h"

/*
 * Under a mutex of the engine's, so an error would leave it locked: none is possible here but a
 * PANIC.
 *
 * A round gets into the relay log when this returns, without having been flushed.  After a crash it
 * must not count unless WAL has it, and what is replayed tells where WAL ends, if anything is
 * replayed at all.  So the first round behind a redo point is flushed: if none is replayed none is
 * in the relay log.  (A redo point that is newer than the one seen here is no
 * matter: its checkpoint waits for the relay log, which waits for that mutex, so the checkpoint's
 * own record will be behind this round, and flushed.)
 */
static uint64_t
insert_round(const void *bytes, size_t count, uint64_t position)
{
	const XLogRecPtr redo = GetRedoRecPtr();
	const WalUsage before = pgWalUsage;
	XLogRecPtr	end;

	START_CRIT_SECTION();
	XLogBeginInsert();
	XLogRegisterData(&position, sizeof(position));
	XLogRegisterData(bytes, count);
	end = XLogInsert(LS_RMGR_ID, LS_WAL_ROUND);
	/* Each session has counted its own records in it as WAL (ls_pages.c). */
	pgWalUsage.wal_records = before.wal_records;
	pgWalUsage.wal_bytes = before.wal_bytes;
	if (ls_shared->round_behind != redo)
	{
		XLogFlush(end);
		ls_shared->round_behind = redo;
	}
	END_CRIT_SECTION();
	return end;
}

static void
flush_rounds(uint64_t end)
{
	START_CRIT_SECTION();
	XLogFlush(end);
	END_CRIT_SECTION();
}

static uint64_t
rounds_flushed(void)
{
	return GetFlushRecPtr(NULL);
}

void
ls_host_log_begin(void)
{
	static const ls_host_log functions = {
		.insert = insert_round,
		.flush = flush_rounds,
		.flushed = rounds_flushed,
	};

	if (ls_log_is_wal())
		ls_host_log_use(&functions);
}
