/*
 * ls_shown.c - no statement completes with what a crash could still take back.
 *
 * Locks are released, and changes visible, before the commit is in the log on disk.  So
 * a statement that was shown changes of another transaction waits, if that one's commit
 * is still on its way, before its own completion is reported, as the reader of a heap
 * table would have waited for a lock, or not seen them.  The engine knows which commits those
 * are (engine/txn/shown.hpp); commits with synchronous_commit = off are not among them.
 *
 * The wait comes at the end of what the client has sent: a query, a FETCH, a COPY,
 * a CALL; not at the end of queries that functions run.  A client that has changed rows, and
 * is told no more than how many, need not wait yet: those changes are not durable either, and
 * their COMMIT waits for both.  So a row that many sessions update goes from one to the
 * next without a wait for the disk in between.
 */
#include "postgres.h"

#include "ls_txn_internal.h"

#include "access/parallel.h"
#include "executor/executor.h"

ExecutorRun_hook_type ls_shown_below_run = NULL;

/*
 * Queries and utility statements under way, one within another.  Each keeps what it was before
 * itself, so an error may leave it too large within the statement that catches it; a utility
 * statement puts it back, also in a transaction that has failed before and so has no abort.
 */
static int	depth = 0;

int
ls_shown_enter(void)
{
	return depth++;
}

void
ls_shown_leave(int outer)
{
	depth = outer;
	if (outer == 0)
		ls_wait_for_shown();
}

/* An error ends the statement, or it has shown nothing. */
void
ls_shown_put_back(int outer)
{
	depth = outer;
}

/*
 * The error may have ended statements that have not left.  In a function that catches it a query
 * may wait too early then.
 */
void
ls_shown_at_abort(void)
{
	depth = 0;
}

static bool
is_left_to_commit(QueryDesc *query, uint64 count)
{
	if (query->operation != CMD_SELECT && !query->plannedstmt->hasReturning &&
		query->estate->es_processed > 0)
		return true;
	/* Run to its end: nothing comes between this statement and its commit. */
	return count == 0 && !IsTransactionBlock() && !IsParallelWorker() && ls_commit_is_awaited();
}

void
ls_shown_executor_run(QueryDesc *query, ScanDirection direction, uint64 count)
{
	const int	outer = ls_shown_enter();

	if (ls_shown_below_run)
		ls_shown_below_run(query, direction, count);
	else
		standard_ExecutorRun(query, direction, count);
	if (outer == 0 && is_left_to_commit(query, count))
		depth = 0;
	else
		ls_shown_leave(outer);
}
