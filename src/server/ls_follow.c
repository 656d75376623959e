/*
 * ls_follow.c - the engine worker of a standby: leanstore tables can be read while the startup
 * process replays WAL (engine/store/standby_follow.hpp).
 *
 * It is started when the server lets sessions in.  As soon as it is known where the relay log ends
 * the engine begins to follow, in a thread: what was replayed so far is redone.  From then on the
 * startup process redoes each round itself (ls_follow_redo.c).  This process publishes the horizon
 * of old versions, lets pages be written, and makes restart points of the states that are replayed.
 *
 * A page may be written when the server's recovery, begun anew, would come as far as its last
 * change before it lets sessions in (FLW-5).  That is what minRecoveryPoint says, as for pages of
 * heap tables; XLogFlush() moves it during recovery.
 */
#include "postgres.h"

#include "ls_server_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "leanstore/standby.h"

#define LOOK_INTERVAL_MS 50		/* each cover may sync the control file */

/* static, as the thread may outlive an error here */
static struct
{
	uint64		position;
	ls_status	status;
	ls_error	error;
} beginning;

static struct
{
	ls_standby_state state;
	volatile int stop;
	ls_status	status;
	ls_error	error;
} point;

static void
join(void *arg)
{
	beginning.status = ls_follow_join(ls_shared->store, &beginning.error);
}

static void
begin(void *arg)
{
	beginning.status = ls_follow_begin(ls_shared->store, beginning.position, &beginning.error);
	if (beginning.status == LS_OK)
		join(arg);
}

static void
between_begin(void)
{
	if (ls_engine_worker_leaves())
		ls_recovery_cancel(ls_shared->store);
}

static void
wait_a_moment(void)
{
	static uint32 wait_event = 0;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("LeanstoreEngineMain");
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_POSTMASTER_DEATH, LOOK_INTERVAL_MS,
					 wait_event);
	ResetLatch(MyLatch);
}

static void
run_beginning(void (*step) (void *arg))
{
	if (ls_aside(step, NULL, between_begin, &beginning.error) != LS_OK)
		beginning.status = beginning.error.status;
}

/* False: it is not known yet where the relay log ends. */
static bool
try_begin(void)
{
	/* The startup process unlinks no file of the engine's meanwhile. */
	pg_atomic_write_membarrier_u32(&ls_shared->follow_begins, 1);
	beginning.position = ls_follow_replayed_to(ls_shared->store);
	if (beginning.position == 0)
		beginning.position = ls_standby_noted_position();
	/* Replay will come there again; the record may still be under way. */
	XLogFlush(GetCurrentReplayRecPtr(NULL));
	run_beginning(begin);
	/* Files can be closed when what was redone may be written. */
	while (beginning.status == LS_LIMIT && !ls_engine_worker_leaves())
	{
		XLogFlush(GetCurrentReplayRecPtr(NULL));
		ls_follow_cover(ls_shared->store, ls_follow_reached(ls_shared->store));
		(void) ls_process_look_at_signals();
		run_beginning(join);
	}
	if (beginning.status == LS_LIMIT)
		beginning.status = LS_INTERRUPTED;
	pg_atomic_write_membarrier_u32(&ls_shared->follow_begins, 0);
	return beginning.status != LS_NOT_READY;
}

/*
 * Until it follows, with the log in WAL.  The copy that this standby was made of may have no state
 * to begin from; if that is so will be known when its replay ends.
 */
static bool
begin_to_follow(void)
{
	while (!ls_log_is_wal() || ls_shared->restoring || ls_shared->from_backup || !try_begin())
	{
		if (ls_engine_worker_leaves())
			return false;
		if (!RecoveryInProgress())
			return true;		/* it recovers without having followed */
		(void) ls_process_look_at_signals();
		wait_a_moment();
	}
	if (beginning.status == LS_OK)
	{
		ls_first_snapshot_take();
		ereport(LOG, (errmsg("leanstore tables can be read on this standby")));
		return true;
	}
	if (beginning.status != LS_INTERRUPTED)
		ls_report_recovery_failure(&beginning.error);
	return false;
}

static void
cover(void)
{
	static uint64 covered = 0;
	const uint64 reached = ls_follow_reached(ls_shared->store);

	if (reached == covered)
		return;
	XLogFlush(GetCurrentReplayRecPtr(NULL));
	ls_follow_cover(ls_shared->store, reached);
	covered = reached;
}

void
ls_follow_tend(void)
{
	ls_engine_worker_panic_if_failed();
	ls_horizon_publish_standby();
	cover();
}

static void
make_point(void *arg)
{
	point.status = ls_follow_restart_point(ls_shared->store, &point.state, &point.error);
}

static void
between_point(void)
{
	(void) ls_process_look_at_signals();
	ls_follow_tend();
	if (ls_engine_worker_leaves() || !RecoveryInProgress())
		point.stop = 1;
}

static void
run_point(void (*step) (void *arg))
{
	point.stop = 0;
	if (ls_aside(step, NULL, between_point, &point.error) != LS_OK)
		point.status = point.error.status;
}

static void
restart_point(void)
{
	LsStandbyState head;
	void	   *bytes = ls_standby_take_state(&head, true);
	instr_time	start,
				end;

	if (bytes == NULL)
		return;
	XLogFlush(head.end);
	point.state = (ls_standby_state) {
		.bytes = bytes, .count = head.bytes, .position = head.position, .stop = &point.stop
	};
	INSTR_TIME_SET_CURRENT(start);
	run_point(make_point);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	if (point.status != LS_OK)
		pg_atomic_write_u64(&ls_shared->point_failed, head.end);
	pg_atomic_write_membarrier_u64(&ls_shared->point_done, head.end);
	ls_standby_report(&head, point.status, &point.error, point.state.log_bytes,
					  INSTR_TIME_GET_DOUBLE(end));
	pfree(bytes);
}

static void
write_pages(void *arg)
{
	point.status = ls_follow_flush(ls_shared->store, &point.stop, &point.error);
}

static bool
write_all_pages(void)
{
	run_point(write_pages);
	return point.status == LS_OK;
}

/* For the startup process (ls_standby_backup.c). */
static void
flush_if_asked(void)
{
	const uint64 asked = pg_atomic_read_u64(&ls_shared->flush_asked);

	if (asked == pg_atomic_read_u64(&ls_shared->flush_done))
		return;
	if (!write_all_pages())
		pg_atomic_write_u64(&ls_shared->flush_failed, asked);
	pg_atomic_write_membarrier_u64(&ls_shared->flush_done, asked);
}

bool
ls_follow_until_promoted(void)
{
	ls_standby_end_worker();
	if (!begin_to_follow())
		return false;
	if (RecoveryInProgress())
		ls_standby_backup_follows(write_all_pages);
	while (RecoveryInProgress())
	{
		if (ls_engine_worker_leaves())
			return false;
		(void) ls_process_look_at_signals();
		ls_follow_tend();
		restart_point();
		flush_if_asked();
		wait_a_moment();
	}
	return true;
}
