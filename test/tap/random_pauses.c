/*
 * random_pauses.c - every transaction pauses here and there, for up to two milliseconds, where
 * another one may come in between:
 *
 *	- at each event of a transaction or subtransaction, among them the one after others can see it
 *	- between a query's snapshot and its execution
 *
 * Callbacks are called in the opposite order of their registration, so one copy before and one
 * behind leanstore_am in shared_preload_libraries pause on both sides of its own.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/pg_prng.h"
#include "executor/executor.h"
#include "fmgr.h"

#define ONE_IN 12
#define MAX_PAUSE_US 2000

PG_MODULE_MAGIC;

static ExecutorStart_hook_type previous_start = NULL;
static ExecutorRun_hook_type previous_run = NULL;

static void
pause_perhaps(void)
{
	if (pg_prng_uint64_range(&pg_global_prng_state, 1, ONE_IN) == 1)
		pg_usleep(pg_prng_uint64_range(&pg_global_prng_state, 1, MAX_PAUSE_US));
}

static void
at_event(XactEvent event, void *arg)
{
	pause_perhaps();
}

static void
at_subxact_event(SubXactEvent event, SubTransactionId mine, SubTransactionId parent, void *arg)
{
	pause_perhaps();
}

static void
start(QueryDesc *query, int flags)
{
	pause_perhaps();
	if (previous_start)
		previous_start(query, flags);
	else
		standard_ExecutorStart(query, flags);
}

static void
run(QueryDesc *query, ScanDirection direction, uint64 count)
{
	pause_perhaps();
	if (previous_run)
		previous_run(query, direction, count);
	else
		standard_ExecutorRun(query, direction, count);
}

void		_PG_init(void);

void
_PG_init(void)
{
	RegisterXactCallback(at_event, NULL);
	RegisterSubXactCallback(at_subxact_event, NULL);
	previous_start = ExecutorStart_hook;
	ExecutorStart_hook = start;
	previous_run = ExecutorRun_hook;
	ExecutorRun_hook = run;
}
