/*
 * ls_twophase.c - PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED.
 *
 * The engine prepares before PostgreSQL does, and ends the transaction after it; in
 * between and after a crash, pg_xact and the process array have the last word:
 *
 *	PRE_PREPARE callback	 everything hardened as prepared(xid).  A crash from here on: not
 *							 in progress and not committed, so the engine undoes it
 *	EndPrepare				 PostgreSQL's state of the transaction is durable; its
 *							 stand-in in the process array runs on
 *	PREPARE callback		 the transaction leaves this backend's worker
 *	...
 *	pg_xact, WAL flushed	 it has committed or aborted for good
 *	ProcArrayRemove			 committed: its effects are visible, all at once.  Aborted: the
 *							 engine's list of active transactions hides them (ls_snapshot.c)
 *	locks are released		 transactions that waited go on
 *	the engine's end		 after the command, in ProcessUtility
 *
 * No callback tells of the last steps, and the locks go before the engine knows:
 * so a backend that meets a prepared transaction that PostgreSQL has ended, ends it in the engine
 * (ls_twophase_settle).  Which backend does it does not matter, the answer is in pg_xact.  The
 * engine worker looks, too, for when the backend of the command died or did not come by here.
 */
#include "postgres.h"

#include "ls_txn_internal.h"

#include "access/twophase.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/procarray.h"
#include "utils/memutils.h"

/*
 * Has the server ended it, and how?  In pg_xact first; visible to all when it has left the process
 * array.
 */
static bool
has_ended(uint64 tn, bool *committed)
{
	TransactionId xid = ls_tn_to_xid(tn);

	*committed = TransactionIdDidCommit(xid);
	return (*committed || TransactionIdDidAbort(xid)) && !TransactionIdIsInProgress(xid);
}

/* Prepared transactions of the engine, in memory of this process; *n: how many. */
static const uint64 *
prepared_tns(size_t *n)
{
	static uint64 *tns = NULL;

	*n = 0;
	if (max_prepared_xacts == 0 || ls_shared == NULL || !ls_store_ready(ls_shared->store))
		return NULL;
	if (tns == NULL)
		tns = MemoryContextAlloc(TopMemoryContext, max_prepared_xacts * sizeof(uint64));
	*n = Min(ls_prepared_tns(ls_shared->store, tns, max_prepared_xacts), max_prepared_xacts);
	return tns;
}

bool
ls_twophase_settle(uint64 tn)
{
	bool		committed;
	ls_error	error = {0};
	ls_status	status;

	if (likely(!ls_prepared_has(ls_shared->store, tn)) || !has_ended(tn, &committed))
		return false;
	LS_CALL(status, ls_prepared_finish(ls_reader(), tn, committed, &error));
	ls_check(status, error, NULL);
	return true;
}

/*
 * The server is about to end one and to unlink its files.  Recovery may have some of them open, and
 * when it is done they are closed.  Where the engine does not run there is nothing to wait for, and
 * what the server refuses gets its own message.
 */
void
ls_twophase_before_end(void)
{
	const bool	runs = ls_shared != NULL && IsUnderPostmaster && !ls_shared->from_backup &&
		!RecoveryInProgress();

	if (runs && !ls_store_ready(ls_shared->store))
		(void) ls_reader();
}

void
ls_twophase_settle_all(void)
{
	size_t		n;
	const uint64 *tns = prepared_tns(&n);

	for (size_t i = 0; i < n; i++)
		(void) ls_twophase_settle(tns[i]);
}

typedef struct PreparedEnd
{
	ls_worker  *worker;
	uint64		tn;
	bool		committed;
	ls_status	status;
	ls_error	error;
} PreparedEnd;

static void
end_prepared(void *arg)
{
	PreparedEnd *end = arg;

	end->status = ls_prepared_finish(end->worker, end->tn, end->committed, &end->error);
}

/*
 * Aside: it waits for the log.
 *
 * The engine worker is attached only while it has something to do: its own attachment would keep it
 * from stopping the store.
 */
void
ls_twophase_sweep(void)
{
	static PreparedEnd end;
	static TimestampTz told = 0;
	ls_worker  *worker = NULL;
	ls_status	status = LS_OK;
	ls_error	error = {0};
	size_t		n;
	const uint64 *tns = prepared_tns(&n);

	for (size_t i = 0; i < n; i++)
	{
		bool		committed;

		if (!has_ended(tns[i], &committed))
			continue;
		if (worker == NULL)
			status = ls_worker_attach(ls_shared->store, MyProcNumber, &worker, &error);
		end = (PreparedEnd) {.worker = worker, .tn = tns[i], .committed = committed};
		if (status == LS_OK)
			status = ls_aside(end_prepared, &end, NULL, &error);
		if (status != LS_OK || end.status != LS_OK)
			ls_log_failed_again(&told, "finish a prepared transaction",
								status != LS_OK ? &error : &end.error);
		if (status != LS_OK)
			break;
	}
	if (worker != NULL)
		ls_worker_detach(worker);
}

void
ls_twophase_prepare(ls_worker *worker, uint64 tn, const ls_ending_file *files, size_t n_files)
{
	uint64		full_xid = tn - ls_store_tn_offset(ls_shared->store);
	ls_error	error = {0};
	ls_status	status = ls_txn_prepare(worker, full_xid, files, n_files, &error);

	/* The server may have ended some that the engine has not heard of. */
	if (status == LS_MANY_PREPARED)
	{
		ls_twophase_settle_all();
		status = ls_txn_prepare(worker, full_xid, files, n_files, &error);
	}
	if (status == LS_MANY_PREPARED)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("maximum number of prepared transactions reached"),
				 errhint("Increase \"max_prepared_transactions\" (currently %d).",
						 max_prepared_xacts)));
	ls_check(status, error, NULL);
}
