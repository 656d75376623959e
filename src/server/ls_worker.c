/*
 * ls_worker.c - the engine worker: the process that owns the engine's threads.
 *
 * Its main thread is an ordinary PostgreSQL process: on a standby it follows what is replayed
 * (ls_follow.c); then it runs recovery, publishes the version horizon, watches for failures of the
 * threads, and at shutdown stays until the last backend has left, so that the final checkpoint
 * covers everything and a clean restart replays nothing.  When the postmaster has died it stays as
 * long, only without the checkpoint: without its threads the other processes could not finish what
 * they are doing and leave, and a process that is left blocks the next start.
 *
 * The threads never call a PostgreSQL function and block all signals.  A thread
 * that fails (log write, fsync) marks the store failed; this process then
 * PANICs, which makes PostgreSQL restart everything, as it does for its own WAL.
 *
 * The process fails as a whole or not at all: backends depend on its threads, which
 * a successor cannot take over.  So it ends only with the server.  A request to
 * cancel or to terminate it alone is ignored, and any other way out while the store
 * is open (an ERROR, a FATAL, exit()) is a PANIC.
 */
#include "postgres.h"

#include "ls_server_internal.h"
#include "pg/ls_pg.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include <signal.h>
#include <unistd.h>

#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "tcop/tcopprot.h"
#include "utils/pidfile.h"
#include "utils/wait_event.h"

#include "leanstore/standby.h"
#include "leanstore/values.h"

#define HORIZON_INTERVAL_MS 10	/* while a process uses the engine */
#define IDLE_INTERVAL_MS 200
#define TEND_INTERVAL_MS 50		/* with leanstore.log = wal: checkpoints wait for it */
#define LOCK_FILE "postmaster.pid"	/* in the data directory, where the server's processes run */

void
ls_process_register(const char *name, const char *function, int flags, BgWorkerStartTime start)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | flags;
	worker.bgw_start_time = start;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "leanstore_am", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, function, sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, name, sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, name, sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

bool
ls_process_look_at_signals(void)
{
	CHECK_FOR_INTERRUPTS();
	if (!ConfigReloadPending)
		return false;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	return true;
}

void
ls_worker_register(void)
{
	ls_process_register("leanstore engine worker", "ls_engine_worker_main",
						BGWORKER_BACKEND_DATABASE_CONNECTION, BgWorkerStart_ConsistentState);
}

void
ls_engine_worker_panic_if_failed(void)
{
	ls_error	error = {0};

	if (ls_store_failed(ls_shared->store, &error))
		ereport(PANIC,
				(errcode(error.status == LS_NO_SPACE ? ERRCODE_DISK_FULL : ERRCODE_IO_ERROR),
				 errmsg("leanstore engine failed: %s", ls_error_text(&error)),
				 error.path[0] ? errdetail("File \"%s\".", error.path) : 0,
				 errhint("Committed changes are recovered by the restart, once the file system can"
						 " be written again.")));
}

/*
 * A checkpoint that cannot write undo files goes on without: the administrator has to be told why
 * the log is kept.
 */
static void
report_undo_failures(void)
{
	static uint64 reported = 0;
	ls_error	error = {0};
	uint64		failures = ls_undo_failures(ls_shared->store, &error);

	if (failures == reported)
		return;
	reported = failures;
	ereport(LOG,
			(errcode(error.status == LS_NO_SPACE ? ERRCODE_DISK_FULL : ERRCODE_IO_ERROR),
			 errmsg("leanstore checkpoint could not write the undo of long transactions: %s",
					ls_error_text(&error)),
			 error.path[0] ? errdetail("File \"%s\".", error.path) : 0,
			 errhint("The engine's log is kept until that succeeds or these transactions end.")));
}

/*
 * Before the engine's threads are there, and after each reload: the engine looks at them before its
 * next piece of work.
 */
static void
pass_on_settings(void)
{
	ls_value_moves moves = {
		.bytes_per_second = (uint64) ls_value_move_rate_kb * 1024,
		.write_percent = ls_value_move_percent,
		.free_percent = ls_value_free_percent
	};

	ls_set_value_moves(ls_shared->store, &moves);
}

/* The main loop has ended because it was to. */
static bool may_end = false;

/*
 * On every way out but _exit(): that the postmaster takes for a crash, for the process has not left
 * shared memory.
 */
static void
at_exit(int code, Datum arg)
{
	if (!may_end && ls_store_begun(ls_shared->store))
		ereport(PANIC,
				(errcode(ERRCODE_CRASH_SHUTDOWN),
				 errmsg("leanstore engine worker ended while the store was open"),
				 errdetail("Backends depend on its threads, so the server restarts."),
				 errhint("Do not end this process by itself: stop the server instead.")));
	pg_atomic_write_u32(&ls_shared->engine_pid, 0);
}

/*
 * Does the postmaster stop the server?  It says so in its lock file before it sends
 * any signal.  When the file cannot be read the answer is yes: a worker that goes on
 * would keep the server from ending.
 */
static bool
server_is_stopping(void)
{
	FILE	   *file = AllocateFile(LOCK_FILE, "r");
	char		line[MAXPGPATH];
	int			number = 0;
	bool		stopping = true;

	if (file == NULL)
		return true;
	while (fgets(line, sizeof(line), file) != NULL)
		if (++number == LOCK_FILE_LINE_PM_STATUS)
			stopping = strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0;
	FreeFile(file);
	return stopping;
}

bool
ls_engine_worker_leaves(void)
{
	static bool leaves = false;

	if (leaves || !PostmasterIsAlive())
		return true;
	if (!ShutdownRequestPending)
		return false;
	/*
	 * In this order: a signal that comes after the look at the file is looked at in the next turn.
	 */
	ShutdownRequestPending = false;
	leaves = server_is_stopping();
	if (!leaves)
		ereport(LOG,
				(errmsg("leanstore engine worker ignores a request to terminate"),
				 errdetail("It ends when the server is stopped.")));
	return leaves;
}

/* A session that has died with the postmaster never detaches. */
static bool
a_session_is_lost(void)
{
	for (int slot = 0; slot < LS_WORKER_SLOTS; slot++)
		if (ls_store_slot_attached(ls_shared->store, slot) &&
			ls_process_is_gone(ls_pg_process_pid(slot)))
			return true;
	return false;
}

typedef struct StoreEnd
{
	bool		abandon;
	ls_status	status;
	ls_error	error;
} StoreEnd;

/* Aside: with leanstore.log = wal the last rounds are this process' main thread's to insert. */
static void
end_store(void *arg)
{
	StoreEnd   *end = arg;

	end->status = end->abandon ? ls_store_abandon(ls_shared->store, &end->error)
		: ls_store_shutdown(ls_shared->store, &end->error);
}

/*
 * Stop the store if no backend needs it any more: one may still have changes to make.  A smart
 * shutdown waits for all sessions, also for those that have not used the engine yet.  Without a
 * postmaster a lost session makes it a crash: the worker leaves, then the other sessions do, and
 * the next start recovers.
 */
static bool
stop_store(void)
{
	static StoreEnd end;
	static TimestampTz told = 0;
	bool		postmaster_is_alive = PostmasterIsAlive();
	bool		follows = ls_store_follows(ls_shared->store);

	if (!postmaster_is_alive && a_session_is_lost())
		return true;
	/* The startup process uses the threads as sessions do. */
	if (!postmaster_is_alive && follows)
		return ls_process_is_gone(pg_atomic_read_u32(&ls_shared->replay_pid)) &&
			ls_store_attached(ls_shared->store) == 0;
	if (ls_store_attached(ls_shared->store) > 0 ||
		(postmaster_is_alive && CountDBConnections(InvalidOid) > 0))
		return false;
	if (!ls_store_ready(ls_shared->store) && !follows)
		return true;
	end = (StoreEnd) {.abandon = !postmaster_is_alive || follows};
	if (ls_aside(end_store, &end, follows ? ls_follow_tend : NULL, &end.error) != LS_OK)
	{
		ls_log_failed_again(&told, "stop its store", &end.error);
		return false;
	}
	if (end.status == LS_OK)
		return true;
	if (!ls_store_ready(ls_shared->store))
		ereport(PANIC,
				(errcode(end.error.status == LS_NO_SPACE ? ERRCODE_DISK_FULL : ERRCODE_IO_ERROR),
				 errmsg("leanstore shutdown checkpoint failed: %s", ls_error_text(&end.error)),
				 end.error.path[0] ? errdetail("File \"%s\".", end.error.path) : 0,
				 errhint("Nothing committed is lost: the next start recovers it from the log.")));
	return false;
}

/* With leanstore.log = wal until the engine's threads have logged something, too. */
static void
wait_for_work(long most_ms)
{
	static uint32 wait_event = 0;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("LeanstoreEngineMain");
	if (ls_log_is_wal())
	{
		pgstat_report_wait_start(wait_event);
		ls_relay_tend(Min(most_ms, TEND_INTERVAL_MS) * 1000);
		pgstat_report_wait_end();
		return;
	}
	/* Once the postmaster is dead no wait for a latch sleeps any more. */
	if (!PostmasterIsAlive())
	{
		pg_usleep(HORIZON_INTERVAL_MS * 1000L);
		return;
	}
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH, most_ms, wait_event);
	ResetLatch(MyLatch);
}

static void
recover(void)
{
	if (ls_shared->from_backup)
		return;
	pass_on_settings();
	ls_log_switch_finish();
	ls_relay_begin();
	if (ls_recover())
	{
		ls_relay_recovered();
		ls_backup_recovered();
		ereport(LOG, (errmsg("leanstore engine is ready")));
	}
	else
		ls_relay_end();
}

void
ls_engine_worker_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, SIG_IGN);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(InvalidOid, InvalidOid, 0);

	if (pg_atomic_exchange_u32(&ls_shared->engine_pid, MyProcPid) != 0)
		elog(PANIC, "two leanstore engine workers");
	on_shmem_exit(at_exit, 0);

	/* An earlier worker was gone before it could say so; other processes have used what it left. */
	if (ls_store_begun(ls_shared->store))
		elog(PANIC, "leanstore engine worker found a store that has been in use");

	if (!RecoveryInProgress() || ls_follow_until_promoted())
		recover();
	for (;;)
	{
		bool		ready = ls_store_ready(ls_shared->store);
		bool		leaving = ls_engine_worker_leaves();

		if (ls_process_look_at_signals())
			pass_on_settings();
		if (ready)
		{
			ls_engine_worker_panic_if_failed();
			report_undo_failures();
			ls_twophase_sweep();
			ls_horizon_publish();
			if (!ls_log_is_wal())
				ls_host_sync_point_advance();
		}
		else if (ls_store_follows(ls_shared->store))
			ls_follow_tend();

		if (leaving && stop_store())
			break;

		wait_for_work(leaving || ls_store_attached(ls_shared->store) > 0 ? HORIZON_INTERVAL_MS
																		 : IDLE_INTERVAL_MS);
	}
	ls_relay_end();
	if (!ls_shared->from_backup)
		ls_upgrade_leave();

	/*
	 * Status 1: if the server goes on after all, the next worker finds the store used, and the
	 * server restarts.
	 */
	may_end = true;
	proc_exit(1);
}
