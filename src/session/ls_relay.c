/*
 * ls_relay.c - the engine worker's main thread with leanstore.log = wal: it inserts into WAL what
 * the engine's threads log, and lets PostgreSQL's checkpoints wait for the relay log
 * (engine/wal/relay_files.hpp) and for a state to restore from (engine/recovery/restore_state.hpp).
 *
 * Both have to go on whatever this process does.  So all that waits in the engine is done aside, in
 * a thread (ls_aside()), and this one tends the log meanwhile.
 *
 * Checkpoints: when one has written its pages it looks, in the process array, for virtual
 * transaction ids with DELAY_CHKPT_COMPLETE, and waits until none of those it has found is there
 * any more.  This process has the flag all the time, and an id of no transaction, which it changes
 * again and again while the relay log is synced up to the redo point; and not while that has moved
 * and the sync has not ended.  That nothing has moved it sees with the process array locked, so no
 * checkpoint looks in between: one that has found an id waits for the sync that began behind its
 * redo point (RELAY-1), and for the record of a state that did (RESTORE-1).  The engine spreads
 * the writes of its checkpoint until PostgreSQL has come to the end of its own.
 */
#include "postgres.h"

#include "ls_session_internal.h"

#include <pthread.h>
#include <signal.h>

#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/sinvaladt.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#define REPORT_AFTER_MS 30000
#define CHANGE_AFTER_MS 10
#define LOOK_FOR_RECORD_MS 100
#define ASIDE_POLL_MIN_US 200	/* a store that was shut down cleanly takes a few milliseconds */
#define ASIDE_POLL_MAX_US 20000

/* What a clean start may replay: transactions that stay prepared leave a bit. */
#define CLEAN_START_BYTES 65536
#define AWAITED_TEND_US 1000

static bool keeping = false;
static XLogRecPtr kept = InvalidXLogRecPtr; /* the redo point for which all is done */

/*
 * RESTORE-4 wants redo to begin at what was durable at a moment before the redo point, and that is
 * seen here a while after it has moved.  So the engine gets the oldest of some samples: what was
 * durable before WAL ended there.
 */
static struct
{
	uint64		gsn;
	XLogRecPtr	end;
} samples[8];						/* the oldest first */

static void
take_sample(void)
{
	if (!ls_shared->states || !ls_store_ready(ls_shared->store))
		return;
	memmove(samples, samples + 1, sizeof(samples) - sizeof(samples[0]));
	samples[lengthof(samples) - 1].gsn = ls_log_hardened(ls_shared->store);
	samples[lengthof(samples) - 1].end = GetXLogInsertRecPtr();
	/* The first ones are of the beginning: recovery has left a floor that fits. */
	if (samples[0].gsn != 0)
		ls_restore_floor(ls_shared->store, samples[0].gsn);
}

/* Checkpoints that have found the last one need not wait any more, if all is synced. */
static void
take_next_id(void)
{
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	if (GetRedoRecPtr() == kept)
		MyProc->vxid.lxid = GetNextLocalTransactionId();
	LWLockRelease(ProcArrayLock);
}

/* What is done for the redo point `redo`; InvalidXLogRecPtr: nothing. */
static struct
{
	XLogRecPtr	redo;
	uint32		sync;			/* requests to the engine */
	uint32		state;
	bool		state_wanted;
	TimestampTz since;
} keeper;

static void
report_no_state(const char *why, const char *path)
{
	ereport(LOG,
			(errmsg("a base backup that begins with the checkpoint at %X/%X will have no "
					"leanstore tables: %s", LSN_FORMAT_ARGS(keeper.redo), why),
			 path[0] ? errdetail("File \"%s\".", path) : 0,
			 errhint("A later checkpoint tries again.")));
}

static ControlFileData
read_control_file(void)
{
	for (;;)
	{
		bool		crc_ok;		/* else it is being written */
		ControlFileData *file = get_controlfile(DataDir, &crc_ok);
		const ControlFileData control = *file;

		pfree(file);
		if (crc_ok)
			return control;
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Has WAL of this start a checkpoint of its own, with which PostgreSQL has ended recovery, or the
 * shutdown before it?  Behind its redo point there are no rounds yet, so it gets a state as soon as
 * the engine can make one: pg_rewind may go back to it.  Behind a promotion there is none.
 */
static bool
begins_with_checkpoint(void)
{
	const ControlFileData control = read_control_file();
	const CheckPoint *last = &control.checkPointCopy;

	return control.checkPoint == last->redo && last->redo == GetRedoRecPtr() &&
		last->ThisTimeLineID == GetWALInsertionTimeLine();
}

/*
 * A checkpoint that has begun before this process could hold it up.  Its state counts if it is made
 * before the checkpoint has ended: no copy has begun then that is replayed from there (RESTORE-1).
 */
static XLogRecPtr not_held_up = InvalidXLogRecPtr;

static bool
control_file_names(XLogRecPtr redo)
{
	return read_control_file().checkPointCopy.redo >= redo;
}

/* One of this start that has ended before this process could do anything. */
static void
report_checkpoint_before(void)
{
	const CheckPoint last = read_control_file().checkPointCopy;

	if (!ls_shared->states || last.time < timestamptz_to_time_t(PgStartTime) ||
		last.ThisTimeLineID != GetWALInsertionTimeLine())
		return;
	keeper.redo = last.redo;
	report_no_state("it ended before the engine was ready", "");
	keeper.redo = InvalidXLogRecPtr;
}

/*
 * Behind a clean shutdown nothing has to be written for that state, so sessions wait for it: were a
 * standby promoted before it is in WAL, this server could not be rewound to the shutdown.
 * Behind a crash it takes as long as writing all that was redone, and sessions do not wait.
 */
static bool first_is_awaited = false;

static void
end_awaiting_first(void)
{
	first_is_awaited = false;
	pg_atomic_write_u32(&ls_shared->first_state, 0);
}

void
ls_relay_recovered(void)
{
	ls_recovery_progress progress;

	if (!first_is_awaited)
		return;
	ls_recovery_get_progress(ls_shared->store, &progress);
	if (progress.log_bytes > CLEAN_START_BYTES)
		end_awaiting_first();
}

void
ls_relay_begin(void)
{
	XLogRecPtr	redo;
	bool		begins;

	if (!ls_log_is_wal())
		return;
	ls_host_log_begin_writer();
	begins = begins_with_checkpoint();
	redo = GetRedoRecPtr();
	not_held_up = begins || control_file_names(redo) ? InvalidXLogRecPtr : redo;
	if (!begins && not_held_up == InvalidXLogRecPtr)
		report_checkpoint_before();
	first_is_awaited = begins && ls_shared->states;
	pg_atomic_write_u32(&ls_shared->first_state, first_is_awaited);
	for (int i = 0; i < lengthof(samples); i++)
		samples[i].end = begins || not_held_up != InvalidXLogRecPtr ? redo : GetXLogInsertRecPtr();
	/* Nothing of this start is in the relay log yet, and what is older has been synced. */
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	MyProc->vxid.lxid = GetNextLocalTransactionId();
	MyProc->delayChkptFlags |= DELAY_CHKPT_COMPLETE;
	kept = begins || not_held_up != InvalidXLogRecPtr ? InvalidXLogRecPtr : GetRedoRecPtr();
	LWLockRelease(ProcArrayLock);
	keeping = true;
}

void
ls_relay_end(void)
{
	end_awaiting_first();
	if (!keeping)
		return;
	keeping = false;
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	MyProc->delayChkptFlags &= ~DELAY_CHKPT_COMPLETE;
	MyProc->vxid.lxid = InvalidLocalTransactionId;
	LWLockRelease(ProcArrayLock);
}

/*
 * pg_rewind looks for places behind the record of a checkpoint.  When that is inserted is not seen
 * here, only that the control file names it; between the end of what it waited for and that moment
 * pages are named with each round.
 */
static bool naming_each_time = true;

static void
look_for_record(TimestampTz now)
{
	static TimestampTz looked = 0;

	if (!naming_each_time || !TimestampDifferenceExceeds(looked, now, LOOK_FOR_RECORD_MS))
		return;
	looked = now;
	if (control_file_names(kept))
	{
		naming_each_time = false;
		ls_name_places(ls_shared->store, false);
	}
}

static void
name_each_time(void)
{
	naming_each_time = true;
	ls_name_places(ls_shared->store, true);
}

static void
begin_keeping(XLogRecPtr redo)
{
	keeper.redo = redo;
	naming_each_time = false;
	ls_name_places(ls_shared->store, false);
	keeper.sync = ls_relay_sync(ls_shared->store);
	keeper.state_wanted = ls_shared->states && samples[0].end <= redo;
	if (ls_shared->states && !keeper.state_wanted)
		report_no_state("it began before the engine could prepare for it", "");
	if (keeper.state_wanted)
		keeper.state = ls_restore_state_ask(ls_shared->store);
	keeper.since = GetCurrentTimestamp();
}

/* Has the checkpointer written its pages, and waits for the last processes? */
static bool
checkpointer_waits(void)
{
	const ProcNumber checkpointer = ProcGlobal->checkpointerProc;

	return checkpointer != INVALID_PROC_NUMBER &&
		   GetPGProcByNumber(checkpointer)->wait_event_info == WAIT_EVENT_CHECKPOINT_DELAY_COMPLETE;
}

/* Is there one in WAL by now, or will there be none? */
static bool
state_is_inserted(void)
{
	ls_restore_state state;
	ls_error	error = {0};
	ls_status	status;

	if (!keeper.state_wanted)
		return true;
	if (first_is_awaited || keeper.redo == not_held_up || checkpointer_waits())
		ls_restore_state_hurry(ls_shared->store, keeper.state);
	status = ls_restore_state_take(ls_shared->store, keeper.state, &state, &error);
	if (!state.done)
		return false;
	if (status == LS_OK)
		ls_backup_written();
	if (status == LS_OK && keeper.redo == not_held_up && control_file_names(keeper.redo))
		report_no_state("it ended before the engine was ready", "");
	else if (status == LS_OK)
		ls_host_log_insert_state(keeper.redo, state.bytes, state.count);
	else
		report_no_state(ls_error_text(&error), error.path);
	keeper.state_wanted = false;
	return true;
}

static void
report_slow_checkpoint(TimestampTz now)
{
	if (!checkpointer_waits())
		keeper.since = now;
	if (!TimestampDifferenceExceeds(keeper.since, now, REPORT_AFTER_MS))
		return;
	keeper.since = now;
	ereport(LOG,
			(errmsg("a checkpoint waits for leanstore tables to be written"),
			 errdetail("The redo point is %X/%X.", LSN_FORMAT_ARGS(keeper.redo)),
			 errhint("The file system of the data directory may be overloaded.")));
}

static void
keep_checkpoints(void)
{
	static TimestampTz changed = 0;
	const TimestampTz now = GetCurrentTimestamp();

	if (keeper.redo == InvalidXLogRecPtr)
	{
		const XLogRecPtr redo = GetRedoRecPtr();

		if (redo == kept)
		{
			if (!TimestampDifferenceExceeds(changed, now, CHANGE_AFTER_MS))
				return;
			changed = now;
			look_for_record(now);
			take_sample();
			take_next_id();
			return;
		}
		begin_keeping(redo);
	}
	if (ls_relay_is_synced(ls_shared->store, keeper.sync) && state_is_inserted())
	{
		kept = keeper.redo;
		keeper.redo = InvalidXLogRecPtr;
		if (first_is_awaited)
			end_awaiting_first();
		name_each_time();
		take_next_id();
	}
	else
		report_slow_checkpoint(now);
}

static void
raise_failure(const ls_error *error)
{
	ereport(PANIC,
			(errcode(error->status == LS_NO_SPACE ? ERRCODE_DISK_FULL : ERRCODE_IO_ERROR),
			 errmsg("leanstore engine failed: %s", ls_error_text(error)),
			 error->path[0] ? errdetail("File \"%s\".", error->path) : 0,
			 errhint("Committed changes are recovered by the restart, once the file system can"
					 " be written again.")));
}

void
ls_relay_tend(long wait_us)
{
	ls_error	error = {0};

	if (first_is_awaited)
		wait_us = Min(wait_us, AWAITED_TEND_US);
	if (ls_host_log_pump(ls_shared->store, wait_us, &error) != LS_OK)
		raise_failure(&error);
	if (keeping)
		keep_checkpoints();
}

/* ---- aside ---------------------------------------------------------------- */

typedef struct Aside
{
	void		(*call) (void *arg);
	void	   *arg;
	pg_atomic_uint32 done;
} Aside;

static void *
aside_thread(void *arg)
{
	Aside	   *aside = arg;

	aside->call(aside->arg);
	pg_atomic_write_membarrier_u32(&aside->done, 1);
	return NULL;
}

/* static, as it outlives an error of `meanwhile`, and so does the thread */
static Aside aside;

ls_status
ls_aside(void (*call) (void *arg), void *arg, void (*meanwhile) (void), ls_error *error)
{
	pthread_t	thread;
	sigset_t	all,
				before;
	int			failure;
	long		pause_us = ASIDE_POLL_MIN_US;

	aside.call = call;
	aside.arg = arg;
	pg_atomic_init_u32(&aside.done, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failure = pthread_create(&thread, NULL, aside_thread, &aside);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failure != 0)
	{
		*error = (ls_error) {.status = LS_NO_MEMORY, .page_no = UINT32_MAX};
		snprintf(error->message, sizeof(error->message), "could not start a thread: %s",
				 strerror(failure));
		return LS_NO_MEMORY;
	}
	while (pg_atomic_read_u32(&aside.done) == 0)
	{
		/* Not WaitLatch: the thread must not touch the latch. */
		if (ls_log_is_wal())
			ls_relay_tend(pause_us);
		else
			pg_usleep(pause_us);
		pause_us = Min(pause_us * 2, ASIDE_POLL_MAX_US);
		/* No other process may have to wait for this one to answer a barrier. */
		CHECK_FOR_INTERRUPTS();
		if (meanwhile != NULL)
			meanwhile();
	}
	pthread_join(thread, NULL);
	return LS_OK;
}
