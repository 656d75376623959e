/*
 * ls_standby.c - restart points of leanstore tables on a standby (engine/store/standby_apply.hpp).
 *
 * The startup process replays states of the primary's engine (LS_WAL_STATE).  It leaves the latest
 * one in a file, with the place in the engine's log behind which it came.  The standby worker takes
 * it from there, redoes the log up to that place in memory of its own, and makes the state the one
 * from which recovery will begin.  It has to be gone before the engine worker recovers: the startup
 * process sees to that when replay has ended.  Where sessions are let in before, the engine worker
 * follows the log and makes restart points itself (ls_follow.c).
 */
#include "postgres.h"

#include "ls_server_internal.h"
#include "session/ls_session.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogrecovery.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "postmaster/startup.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#define STATE_FILE "leanstore/standby_state"
#define POSITION_FILE "leanstore/standby_position"
#define LOOK_INTERVAL_MS 1000
#define STOP_POLL_US 1000

void
ls_standby_register(void)
{
	/* So it is there with hot_standby = off, too. */
	ls_process_register("leanstore standby worker", "ls_standby_worker_main", 0,
						BgWorkerStart_PostmasterStart);
}

/* ---- in the startup process ---------------------------------------------- */

/* A file that cannot be written costs a restart point, which the next state makes up for. */
static bool
write_file(const char *path, const LsStandbyState *head, const void *bytes)
{
	int			fd = BasicOpenFile(path, O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);
	bool		written;

	if (fd < 0)
		return false;
	written = write(fd, head, sizeof(*head)) == sizeof(*head) &&
		write(fd, bytes, head->bytes) == (ssize_t) head->bytes;
	return close(fd) == 0 && written;
}

static struct
{
	XLogRecPtr	redo;
	XLogRecPtr	end;
} left;							/* the last one */

void
ls_standby_leave_state(XLogRecPtr redo, XLogRecPtr end, const void *bytes, Size count)
{
	LsStandbyState head = {.end = end, .bytes = count, .consistent = reachedConsistency};
	ls_error	error = {0};

	if (ls_relay_replay_state(ls_shared->store, bytes, count, &error) != LS_OK)
		ls_raise_replay(&error, end);
	head.position = ls_relay_replay_position(ls_shared->store);
	if (!ArchiveRecoveryRequested || head.position == 0)
		return;
	if (!write_file(STATE_FILE ".new", &head, bytes) ||
		rename(STATE_FILE ".new", STATE_FILE) != 0)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", STATE_FILE)));
	else
	{
		left.redo = redo;
		left.end = end;
	}
}

XLogRecPtr
ls_standby_left_state(XLogRecPtr redo)
{
	return left.redo == redo ? left.end : InvalidXLogRecPtr;
}

/*
 * Behind a shutdown checkpoint there is no state until the primary is started again, nor any round.
 * Durable, as the checkpoint is going to be this standby's restart point.
 */
void
ls_standby_note_position(XLogRecPtr redo)
{
	const uint64 position = ls_relay_replay_position(ls_shared->store);
	char		text[64];

	if (!ArchiveRecoveryRequested || position == 0)
		return;
	snprintf(text, sizeof(text), "%X/%X " UINT64_FORMAT "\n", LSN_FORMAT_ARGS(redo), position);
	ls_leave_file(POSITION_FILE, text);
}

uint64
ls_standby_noted_position(void)
{
	FILE	   *file = AllocateFile(POSITION_FILE, "r");
	bool		crc_ok;
	ControlFileData *control;
	uint32		high;
	uint32		low;
	uint64		position = 0;

	if (file == NULL)
		return 0;
	control = get_controlfile(DataDir, &crc_ok);
	if (fscanf(file, "%X/%X " UINT64_FORMAT, &high, &low, &position) != 3 || !crc_ok ||
		control->checkPoint != control->checkPointCopy.redo ||
		control->checkPoint != (((uint64) high) << 32 | low))
		position = 0;
	FreeFile(file);
	pfree(control);
	return position;
}

static void
end_worker(void (*meanwhile) (void))
{
	uint32		pid;

	pg_atomic_write_u32(&ls_shared->standby_over, 1);
	pg_memory_barrier();		/* pairs with the worker's, which looks the other way round */
	while ((pid = pg_atomic_read_u32(&ls_shared->standby_pid)) != 0)
	{
		kill(pid, SIGTERM);
		pg_usleep(STOP_POLL_US);
		meanwhile();
	}
}

void
ls_standby_end(void)
{
	end_worker(ProcessStartupProcInterrupts);
	unlink(STATE_FILE);
	unlink(POSITION_FILE);
	ls_backup_forget_points();
}

/* ---- the worker ----------------------------------------------------------- */

static volatile int stop = 0;

static void
handle_stop(SIGNAL_ARGS)
{
	stop = 1;
	SetLatch(MyLatch);
}

static void
at_exit(int code, Datum arg)
{
	pg_atomic_write_u32(&ls_shared->standby_pid, 0);
}

static void
process_interrupts(void)
{
	CHECK_FOR_INTERRUPTS();
}

void
ls_standby_end_worker(void)
{
	end_worker(process_interrupts);
}

/* Damage is found by the engine. */
void *
ls_standby_take_state(LsStandbyState *head, bool follows)
{
	int			fd = OpenTransientFile(STATE_FILE, O_RDONLY | PG_BINARY);
	void	   *bytes = NULL;

	if (fd < 0)
		return NULL;
	if (read(fd, head, sizeof(*head)) == sizeof(*head) && AllocHugeSizeIsValid(head->bytes) &&
		(follows || head->consistent))
	{
		bytes = MemoryContextAllocHuge(CurrentMemoryContext, head->bytes + 1);
		if (read(fd, bytes, head->bytes) != (ssize_t) head->bytes)
		{
			pfree(bytes);
			bytes = NULL;
		}
	}
	CloseTransientFile(fd);
	if (bytes != NULL)
		unlink(STATE_FILE);
	return bytes;
}

/* The same memory each time; in between the system has it. */
static ls_store *
make_store(Size *bytes)
{
	static void *arena = MAP_FAILED;
	ls_config	config;
	ls_store   *store;
	ls_error	error = {0};

	ls_fill_config(&config);
	config.host_log = config.page_images = false;
	config.huge_pages = false;
	*bytes = ls_store_size(&config);
	if (arena == MAP_FAILED)
		arena = mmap(NULL, *bytes, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("no memory for restart points of leanstore tables")));
	if (ls_store_create(arena, *bytes, &config, &store, &error) != LS_OK)
		elog(ERROR, "could not set up memory for restart points: %s", error.message);
	return store;
}

void
ls_standby_report(const LsStandbyState *head, ls_status status, const ls_error *error,
				  uint64 log_bytes, double seconds)
{
	const XLogRecPtr at = head->end;

	if (status == LS_INTERRUPTED)
		return;
	if (status != LS_OK)
		ereport(LOG,
				(errcode(status == LS_NO_SPACE ? ERRCODE_DISK_FULL : ERRCODE_IO_ERROR),
				 errmsg("leanstore restart point failed: %s", ls_error_text(error)),
				 error->path[0] ? errdetail("File \"%s\".", error->path) : 0,
				 errhint("The engine's log is kept until a later one succeeds.")));
	else if (log_checkpoints && log_bytes > 0)
		ereport(LOG,
				(errmsg("leanstore restart point at %X/%X: %.1f MB of log replayed in %.3f s",
						LSN_FORMAT_ARGS(at), log_bytes / (1024.0 * 1024.0), seconds)));
	else if (log_checkpoints)	/* replayed once more */
		ereport(DEBUG1,
				(errmsg_internal("leanstore restart point at %X/%X is older than the last one",
								 LSN_FORMAT_ARGS(at))));
}

static void
apply(const LsStandbyState *head, const void *bytes)
{
	Size		arena_bytes;
	ls_store   *store = make_store(&arena_bytes);
	ls_standby_state state = {
		.bytes = bytes,
		.count = head->bytes,
		.position = head->position,
		.stop = &stop
	};
	ls_error	error = {0};
	ls_status	status;
	instr_time	start,
				end;

	XLogFlush(head->end);		/* during recovery: replay does not end before that (APPLY-1) */
	INSTR_TIME_SET_CURRENT(start);
	status = ls_standby_apply(store, &state, &error);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	madvise(store, arena_bytes, MADV_DONTNEED);
	ls_standby_report(head, status, &error, state.log_bytes, INSTR_TIME_GET_DOUBLE(end));
}

void
ls_standby_worker_main(Datum arg)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, SIG_IGN);
	pqsignal(SIGTERM, handle_stop);
	BackgroundWorkerUnblockSignals();
	if (!ls_log_is_wal() || !RecoveryInProgress())
		proc_exit(0);
	on_shmem_exit(at_exit, 0);
	pg_atomic_write_u32(&ls_shared->standby_pid, MyProcPid);
	pg_memory_barrier();		/* pairs with ls_standby_end() */
	while (!stop && pg_atomic_read_u32(&ls_shared->standby_over) == 0 && RecoveryInProgress() &&
		   !ls_shared->from_backup)
	{
		LsStandbyState	head;
		void	   *bytes = ls_standby_take_state(&head, false);

		if (bytes != NULL)
		{
			apply(&head, bytes);
			pfree(bytes);
			continue;
		}
		(void) ls_process_look_at_signals();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LOOK_INTERVAL_MS, WaitEventExtensionNew("LeanstoreStandbyMain"));
		ResetLatch(MyLatch);
	}
	/* Status 0: it is not started again. */
	proc_exit(0);
}
