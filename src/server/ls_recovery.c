/*
 * ls_recovery.c - recovery of the engine, as the engine worker runs it.
 *
 * The engine's two steps may take long, so each runs in a thread of its own,
 * which calls no PostgreSQL function and blocks all signals.  The main thread
 * meanwhile reports how far it is, as the server does for its own recovery, and
 * ends it when the server is to stop: the next start simply begins again.
 * Between the steps it tells the engine what pg_xact and the process array know.
 */
#include "postgres.h"

#include "ls_server_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include <math.h>

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "postmaster/startup.h"
#include "storage/procarray.h"

typedef struct RecoveryStep
{
	bool		finish;			/* the second one */
	uint64		next_xid;
	ls_in_doubt *doubts;
	size_t		n_doubts;
	ls_status	status;
	ls_error	error;
} RecoveryStep;

static RecoveryStep step;		/* outlives an error here, as its thread may */
static instr_time start;
static double next_report;		/* seconds behind `start`; 0: never */

static void
take_step(void *arg)
{
	step.status = step.finish ? ls_recovery_finish(ls_shared->store, step.doubts, step.n_doubts,
												   &step.error)
							  : ls_recovery_redo(ls_shared->store, step.next_xid, &step.doubts,
												 &step.n_doubts, &step.error);
}

static double
seconds_since_start(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return INSTR_TIME_GET_DOUBLE(now);
}

static double
gigabytes(uint64 bytes)
{
	return bytes / (1024.0 * 1024.0 * 1024.0);
}

static void
report_progress(double seconds)
{
	ls_recovery_progress progress;

	ls_recovery_get_progress(ls_shared->store, &progress);
	if (progress.log_bytes == 0)
		ereport(LOG, (errmsg("leanstore recovery in progress: reading the log, "
							 "elapsed time: %.2f s", seconds)));
	else
		ereport(LOG, (errmsg("leanstore recovery in progress: %.3f of %.3f GB of log replayed, "
							 "elapsed time: %.2f s",
							 gigabytes(Min(progress.redone_bytes, progress.log_bytes)),
							 gigabytes(progress.log_bytes), seconds)));
}

static double
report_interval(void)
{
	return log_startup_progress_interval / 1000.0;
}

/*
 * Reports as often as the server does for its own recovery (log_startup_progress_interval, every
 * ten seconds if not set otherwise).
 */
static void
between(void)
{
	if (ls_engine_worker_leaves())
		ls_recovery_cancel(ls_shared->store);
	if (report_interval() > 0 && seconds_since_start() >= next_report)
	{
		report_progress(seconds_since_start());
		next_report += report_interval();
	}
}

/* Run a step to its end. */
static void
run_step(void)
{
	const double interval = report_interval();

	next_report = (floor(interval > 0 ? seconds_since_start() / interval : 0) + 1) * interval;
	if (ls_aside(take_step, NULL, between, &step.error) != LS_OK)
		step.status = step.error.status;
}

/*
 * Recovery fails only on damage or missing files.  The server stays up for
 * everything else; a statement that touches a leanstore table gets the reason.
 */
void
ls_report_recovery_failure(const ls_error *error)
{
	ls_shared->recovery_error = *error;
	pg_write_barrier();
	pg_atomic_write_u32(&ls_shared->recovery_failed, 1);
	ereport(LOG,
			(errmsg("leanstore recovery failed: %s", ls_error_text(error)),
			 error->path[0] ? errdetail("File \"%s\".", error->path) : 0,
			 errhint("Leanstore tables cannot be used until the cause is removed and the server "
					 "is restarted.")));
}

/* What was done, if there was anything to do. */
static void
report_success(void)
{
	ls_recovery_progress progress;
	double		seconds = seconds_since_start();

	ls_recovery_get_progress(ls_shared->store, &progress);
	if (progress.log_bytes > 0)
		ereport(
			LOG,
			(errmsg(
				 "leanstore recovery: replayed %.3f GB of log in %.2f s (%.2f GB per minute), "
				 UINT64_FORMAT " records, rolled back " UINT64_FORMAT " transactions",
				 gigabytes(progress.log_bytes), seconds,
				 gigabytes(progress.log_bytes) * 60 / Max(seconds, 1e-3), progress.records,
				 progress.rolled_back),
			 errdetail("Analysis %.3f s, redo %.3f s, undo %.3f s; " UINT64_FORMAT
					   " changes are made when their pages are read.",
					   progress.analysis_us / 1e6, progress.redo_us / 1e6,
					   progress.undo_us / 1e6, progress.put_off)));
}

/*
 * Mixed and prepared transactions: PostgreSQL's own log has the last word.
 *
 * A prepared one may have been committed when sessions could begin already, as apply workers do not
 * wait for the engine.  So there may be snapshots in which it runs, and all that recovery leaves as
 * committed is visible to them.  The engine is told both (TWOPH-5 in
 * engine/recovery/two_phase.hpp).
 */
static void
answer(ls_in_doubt *doubt)
{
	TransactionId xid = XidFromFullTransactionId(FullTransactionIdFromU64(doubt->full_xid));

	/* The process array first: a transaction that has left it has its end in pg_xact. */
	doubt->prepared = doubt->two_phase && TransactionIdIsInProgress(xid);
	doubt->committed = !doubt->prepared && TransactionIdDidCommit(xid);
	ereport(DEBUG1,
			(errmsg("leanstore transaction with XID %u is %s according to the server", xid,
					doubt->prepared	   ? "prepared"
					: doubt->committed ? "committed"
									   : "not committed")));
	if (doubt->two_phase && doubt->committed)
		doubt->prepared = true;
}

bool
ls_recover(void)
{
	step = (RecoveryStep) {.next_xid = pg_atomic_read_u64(&ls_shared->first_new_xid)};
	INSTR_TIME_SET_CURRENT(start);
	run_step();
	if (step.status == LS_INTERRUPTED)
		return false;
	if (step.status != LS_OK)
	{
		ls_report_recovery_failure(&step.error);
		return false;
	}

	for (size_t i = 0; i < step.n_doubts; i++)
		answer(&step.doubts[i]);

	if (!ls_log_is_wal())
		ls_commits_begin();
	step.finish = true;
	run_step();
	free(step.doubts);
	if (step.status == LS_INTERRUPTED)
		return false;
	if (step.status != LS_OK)
	{
		ls_report_recovery_failure(&step.error);
		return false;
	}
	report_success();
	return true;
}
