/*
 * ls_session.c - this process as a worker of the engine.
 *
 * A backend attaches when it first needs the engine, and waits until that has recovered.  It
 * detaches when it leaves.
 */
#include "postgres.h"

#include "ls_session_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/pmsignal.h"
#include "storage/proc.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "leanstore/standby.h"

ls_worker  *ls_attached_worker = NULL;
bool		ls_engine_was_read = false;
const volatile int **ls_interrupt = NULL;
uint32		ls_wait_event_commit = 0;

static uint32 wait_event_recovery = 0;
static uint32 engine_wait_events[LS_WAITS];

/*
 * Attached on a standby.  When that is promoted the process attaches anew, with its next
 * transaction: so one has no worker in between.
 */
static bool attached_to_read = false;
static ls_worker *parked = NULL;

static void
detach_worker(ls_worker *worker)
{
	ls_pages_attach(NULL);
	ls_worker_detach(worker);
	ls_attached_worker = parked = NULL;
	ls_interrupt = NULL;
	attached_to_read = false;
}

static void
detach(int code, Datum arg)
{
	/* An exit in the middle of a transaction has gone through abort already. */
	if (ls_attached_worker != NULL)
		detach_worker(ls_attached_worker);
	else if (parked != NULL)
		detach_worker(parked);
}

void
ls_session_at_eoxact(void)
{
	ls_engine_was_read = false;
	if (!attached_to_read || ls_attached_worker == NULL)
		return;
	parked = ls_attached_worker;
	ls_attached_worker = NULL;
	ls_interrupt = NULL;
}

/* True: the process is still what it was. */
static bool
take_parked(void)
{
	if (parked == NULL)
		return false;
	if (!RecoveryInProgress())
	{
		detach_worker(parked);
		return false;
	}
	ls_attached_worker = parked;
	parked = NULL;
	ls_interrupt = ls_worker_interrupt(ls_attached_worker);
	return true;
}

/*
 * The server starts the engine worker within a second or two.  When there is none for much longer
 * there will be none: the worker needs one of max_worker_processes, and other libraries may have
 * taken all.
 */
#define ENGINE_WORKER_ABSENT_MS 10000
#define STATE_POLL_US 1000

static void
raise_if_worker_absent(TimestampTz *seen)
{
	TimestampTz now = GetCurrentTimestamp();

	if (pg_atomic_read_u32(&ls_shared->engine_pid) != 0)
		*seen = now;
	else if (TimestampDifferenceExceeds(*seen, now, ENGINE_WORKER_ABSENT_MS))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore tables cannot be used: the leanstore engine worker "
						"is not running"),
				 errhint("It needs a background worker: increase \"max_worker_processes\" "
						 "(currently %d) and restart the server, or see the server log for "
						 "another reason.", max_worker_processes)));
}

static bool
engine_lets_in(void)
{
	if (RecoveryInProgress())
		return ls_store_follows(ls_shared->store) &&
			   pg_atomic_read_u32(&ls_shared->readable) == LS_READABLE;
	return ls_store_ready(ls_shared->store) && pg_atomic_read_u32(&ls_shared->first_state) == 0;
}

static void
wait_for_recovery(void)
{
	TimestampTz seen = GetCurrentTimestamp();

	if (!wait_event_recovery)
		wait_event_recovery = WaitEventExtensionNew("LeanstoreRecovery");

	while (!engine_lets_in())
	{
		if (pg_atomic_read_u32(&ls_shared->recovery_failed))
		{
			pg_read_barrier();
			ereport(ERROR,
					(errcode(ls_shared->recovery_error.status == LS_CORRUPT ? ERRCODE_DATA_CORRUPTED
																			: ERRCODE_IO_ERROR),
					 errmsg("leanstore tables cannot be used: recovery failed: %s",
							ls_error_text(&ls_shared->recovery_error)),
					 ls_shared->recovery_error.path[0]
						 ? errdetail("File \"%s\".", ls_shared->recovery_error.path)
						 : 0,
					 errhint("See the server log; remove the cause and restart the server.")));
		}
		pgstat_report_wait_start(wait_event_recovery);
		if (ls_store_wait_ready(ls_shared->store, 100))
			pg_usleep(STATE_POLL_US);
		pgstat_report_wait_end();
		CHECK_FOR_INTERRUPTS();
		if (!PostmasterIsAlive())
			ereport(FATAL,
					(errcode(ERRCODE_ADMIN_SHUTDOWN),
					 errmsg("terminating connection due to unexpected postmaster exit")));
		raise_if_worker_absent(&seen);
	}
}

/* kill() finds a process also when it has ended and its new parent does not reap it. */
bool
ls_process_is_gone(pid_t pid)
{
	struct pollfd ended = {.events = POLLIN};
	bool		gone;

	if (pid == 0)
		return true;
	ended.fd = (int) syscall(SYS_pidfd_open, pid, 0);
	if (ended.fd < 0)
		return kill(pid, 0) != 0 && errno == ESRCH;
	gone = poll(&ended, 1, 0) > 0;
	close(ended.fd);
	return gone;
}

/*
 * A wait in the engine has no end any more when the engine worker has died with the
 * postmaster.  At once: the callbacks of proc_exit() would wait in the engine, too.  While
 * the worker lives it waits for this session to detach.
 */
static void
leave_without_server(void)
{
	if (!PostmasterIsAlive() && ls_process_is_gone(pg_atomic_read_u32(&ls_shared->engine_pid)))
		_exit(1);
}

static void
count_dependencies(bool count)
{
	if (!ls_worker_count_dependencies(ls_attached_worker, count))
		ereport(WARNING,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("no memory to count remote waits: this session counts none")));
}

/* Apart from ls_reader(), which is called for every row. */
static pg_noinline void
attach(void)
{
	static bool detaches = false;
	ls_error	error = {0};

	if (ls_shared == NULL || !IsUnderPostmaster)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("leanstore tables cannot be used in single-user mode"),
				 errhint("Start the server normally.")));
	if (RecoveryInProgress() && !ls_log_is_wal())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("leanstore tables cannot be read on a standby server"),
				 errhint("With \"leanstore.log = engine\" changes of them are not replicated; "
						 "connect to the primary.")));
	ls_backup_refuse();
	if (take_parked())
		return;
	wait_for_recovery();
	if (!ls_wait_event_commit)
		ls_wait_event_commit = WaitEventExtensionNew("LeanstoreCommit");
	engine_wait_events[LS_WAIT_LOG_SPACE] = WaitEventExtensionNew("LeanstoreLogSpace");
	engine_wait_events[LS_WAIT_PAGE_READ] = WaitEventExtensionNew("LeanstorePageRead");
	engine_wait_events[LS_WAIT_OPEN_RELATION] = WaitEventExtensionNew("LeanstoreOpenRelation");
	engine_wait_events[LS_WAIT_PAGE_FRAME] = WaitEventExtensionNew("LeanstorePageFrame");
	ls_descriptors_reserve();
	attached_to_read = RecoveryInProgress();
	ls_host_log_begin();		/* it may be used over a promotion */
	if (ls_worker_attach(ls_shared->store, MyProcNumber, &ls_attached_worker, &error) != LS_OK)
		ls_raise(&error, NULL);
	ls_watch_host(leave_without_server);
	ls_pages_attach(ls_attached_worker);
	ls_worker_report_waits(ls_attached_worker, my_wait_event_info, engine_wait_events);
	count_dependencies(ls_count_remote_waits);
	ls_interrupt = ls_worker_interrupt(ls_attached_worker);
	if (!detaches)
		on_shmem_exit(detach, 0);
	detaches = true;
}

void
ls_assign_count_remote_waits(bool newval, void *extra)
{
	if (ls_attached_worker != NULL)
		count_dependencies(newval);
}

ls_worker *
ls_reader(void)
{
	if (unlikely(ls_attached_worker == NULL))
		attach();
	ls_engine_was_read = true;
	return ls_attached_worker;
}

uint64
ls_own_tn(void)
{
	FullTransactionId full = GetTopFullTransactionIdIfAny();

	if (!FullTransactionIdIsValid(full))
		return 0;
	return U64FromFullTransactionId(full) + ls_store_tn_offset(ls_shared->store);
}
