/*
 * ls_leap_worker.c - the background worker that settles hand-overs.
 *
 * It calls leap.settle(): homes are told of keys that came, payloads of units that have arrived are
 * cleared, units that no transaction came for are brought to their new owners.  Nothing waits for
 * it: what it has not done yet costs the next request a redirection.  A commit that brought keys
 * wakes it.
 */
#include "ls_leap.h"

#include "access/xact.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/latch.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

/*
 * Commits that come close together are told of together.  A round costs a forced write at each home
 * that is told of something; a home that is told late costs a request a redirection.
 */
#define GATHER_MS 200
#define NAP_MS 20

PGDLLEXPORT void leap_worker_main(Datum argument);

void
leap_worker_install(void)
{
	BackgroundWorker worker = {
		.bgw_name = "leanstore leap worker",
		.bgw_type = "leanstore leap worker",
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = 5,
		.bgw_library_name = "leanstore_leap",
		.bgw_function_name = "leap_worker_main",
	};

	RegisterBackgroundWorker(&worker);
}

static void
gather(void)
{
	for (int ms = 0; ms < Min(GATHER_MS, leap_settle_interval_ms); ms += NAP_MS)
	{
		pg_usleep(NAP_MS * 1000L);
		CHECK_FOR_INTERRUPTS();
	}
}

/* What a round notes here may be lost in a crash, and is found out again: it forces no write. */
static void
settle(void)
{
	StartTransactionCommand();
	(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
	PushActiveSnapshot(GetTransactionSnapshot());
	if (OidIsValid(get_extension_oid("leanstore_leap", true)))
	{
		SPI_connect();
		pgstat_report_activity(STATE_RUNNING, "SELECT leap.settle()");
		(void) SPI_execute("SELECT leap.settle()", false, 0);
		SPI_finish();
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* An error (a node is away) is logged, and the next round tries again. */
static void
settle_or_log(void)
{
	MemoryContext before = CurrentMemoryContext;

	PG_TRY();
	{
		settle();
	}
	PG_CATCH();
	{
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		pgstat_report_activity(STATE_IDLE, NULL);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(before);
}

void
leap_worker_main(Datum argument)
{
	uint32		event;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(leap_database, NULL, 0);
	leap_register_worker_latch();
	event = WaitEventExtensionNew("LeapWorker");
	for (;;)
	{
		int			woken = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
									  leap_settle_interval_ms, event);

		if (woken & WL_LATCH_SET)
			gather();
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		settle_or_log();
	}
}
