/*
 * ls_commit_order.c - a commit does not outlive what it has seen in the other log.
 *
 * ls_shared->visible_lsn: WAL up to here has effects that others can see, and need not have been
 * flushed.  An asynchronous commit is visible before its end in the WAL is known to us; from before
 * its commit record until it has raised visible_lsn it is counted in ls_shared->async_commits, and
 * all WAL there is takes that place.
 */
#include "postgres.h"

#include "ls_txn_internal.h"
#include "pg/ls_pg.h"

#include "access/xact.h"
#include "access/xlog.h"

static bool counted_async = false;

static void
raise_visible(XLogRecPtr lsn)
{
	if (lsn != InvalidXLogRecPtr && XLogNeedsFlush(lsn))
		pg_atomic_monotonic_advance_u64(&ls_shared->visible_lsn, lsn);
}

static XLogRecPtr
visible_lsn(void)
{
	/*
	 * An asynchronous commit with effects that this transaction has seen was counted before; if it
	 * is not any more, its backend had raised visible_lsn first.
	 */
	if (pg_atomic_read_u32(&ls_shared->async_commits) == 0)
	{
		pg_read_barrier();
		return pg_atomic_read_u64(&ls_shared->visible_lsn);
	}
	return ls_pg_wal_end();
}

void
ls_commit_order_before_commit(bool engine_log, bool engine_read)
{
	const bool	has_wal = XactLastRecEnd != 0;

	if (ls_shared == NULL)
		return;
	if (ls_log_is_wal())
	{
		/* In one log it comes behind what it has seen, once that is there (O4). */
		if (!engine_log && engine_read && has_wal &&
			TransactionIdIsValid(GetTopTransactionIdIfAny()))
			ls_write_out_logged();
		return;
	}
	raise_visible(ls_sequences_lsn(engine_log && has_wal));
	if (engine_log && !has_wal)
	{
		XLogRecPtr	lsn = visible_lsn();

		if (XLogNeedsFlush(lsn))
			XLogFlush(lsn);
	}
	if (engine_log || !has_wal || !TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	if (engine_read)
		ls_harden_all();
	if (synchronous_commit == SYNCHRONOUS_COMMIT_OFF)
	{
		pg_atomic_fetch_add_u32(&ls_shared->async_commits, 1);
		counted_async = true;
	}
}

void
ls_commit_order_at_eoxact(bool committed)
{
	if (!counted_async)
		return;
	if (committed)
		raise_visible(XactLastCommitEnd);
	pg_atomic_fetch_sub_u32(&ls_shared->async_commits, 1);
	counted_async = false;
}
