/*
 * ls_worker.c - the engine worker: the process that owns the engine's threads.
 *
 * Its main thread is an ordinary PostgreSQL process: it runs recovery at start,
 * then publishes the version horizon, watches for failures of the threads, and
 * at shutdown stays until the last backend has left, so that the final
 * checkpoint covers everything and a clean restart replays nothing.  When the
 * postmaster has died it stays as long, only without the checkpoint: without its
 * threads the other processes could not finish what they are doing and leave,
 * and whoever is left blocks the next start.
 *
 * The threads never call a PostgreSQL function and block all signals.  A thread
 * that fails (log write, fsync) marks the store failed; this process then
 * PANICs, which makes PostgreSQL restart everything, as it does for its own WAL.
 */
#include "ls.h"

#include <signal.h>

#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "tcop/tcopprot.h"
#include "utils/wait_event.h"

#define HORIZON_INTERVAL_MS 10	/* while somebody uses the engine */
#define IDLE_INTERVAL_MS 200

void
ls_worker_register(void)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "leanstore_am", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "ls_engine_worker_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "leanstore engine worker", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "leanstore engine worker", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

static void
panic_if_failed(void)
{
	ls_error	error = {0};

	if (ls_store_failed(ls_shared->store, &error))
		ereport(PANIC,
				(errcode(error.status == LS_NO_SPACE ? ERRCODE_DISK_FULL : ERRCODE_IO_ERROR),
				 errmsg("leanstore engine failed: %s", ls_error_text(&error)),
				 error.path[0] ? errdetail("File \"%s\".", error.path) : 0));
}

static void
forget_pid(int code, Datum arg)
{
	pg_atomic_write_u32(&ls_shared->engine_pid, 0);
}

/* Whether this process may leave: not when a backend has come just now. */
static bool
stop_store(bool postmaster_is_alive)
{
	ls_error	error = {0};
	ls_status	status;

	if (!ls_store_ready(ls_shared->store))
		return true;
	status = postmaster_is_alive ? ls_store_shutdown(ls_shared->store, &error)
		: ls_store_abandon(ls_shared->store, &error);
	if (status == LS_OK)
		return true;
	if (!ls_store_ready(ls_shared->store))
		ereport(PANIC,
				(errmsg("leanstore shutdown checkpoint failed: %s", ls_error_text(&error))));
	return false;
}

void
ls_engine_worker_main(Datum arg)
{
	uint32		wait_event;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(InvalidOid, InvalidOid, 0);

	wait_event = WaitEventExtensionNew("LeanstoreEngineMain");

	if (pg_atomic_exchange_u32(&ls_shared->engine_pid, MyProcPid) != 0)
		elog(PANIC, "two leanstore engine workers");
	on_shmem_exit(forget_pid, 0);

	/* Started again after somebody terminated it: the arena holds a stopped store. */
	if (ls_store_stopped(ls_shared->store))
		ls_shmem_reset_store();

	if (!ls_shared->from_backup && ls_recover())
		ereport(LOG, (errmsg("leanstore engine is ready")));

	for (;;)
	{
		bool		ready = ls_store_ready(ls_shared->store);
		uint32		attached = ls_store_attached(ls_shared->store);
		bool		postmaster_is_alive = PostmasterIsAlive();
		bool		leaving = ShutdownRequestPending || !postmaster_is_alive;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (ready)
		{
			panic_if_failed();
			ls_twophase_sweep();
			ls_horizon_publish();
			ls_commits_note_progress();
		}

		/* The last to leave: backends may still have changes to make. */
		if (leaving && attached == 0 && stop_store(postmaster_is_alive))
			break;

		/* Once the postmaster is dead no wait for a latch sleeps any more. */
		if (!postmaster_is_alive)
		{
			pg_usleep(HORIZON_INTERVAL_MS * 1000L);
			continue;
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH,
						 attached > 0 || leaving ? HORIZON_INTERVAL_MS : IDLE_INTERVAL_MS,
						 wait_event);
		ResetLatch(MyLatch);
	}

	/* Status 1: if this was no server shutdown, the postmaster starts the worker again. */
	proc_exit(1);
}
