/*
 * ls_standby_backup.c - restart points of a standby of which base backups can be made.
 *
 * A copy of a standby is replayed from the standby's restart point, and comes by the state that the
 * primary's engine has left for that checkpoint.  It can begin with that state if each page was in
 * its file with all changes from before the checkpoint when the copy began: a page that is written
 * later has its image in WAL (RESTORE-1 in engine/recovery/restore_state.hpp).
 *
 * So the startup process lets a checkpoint's record become a restart point only when the engine
 * worker has made one of the state, or, behind a shutdown checkpoint, which has none yet, has
 * written all pages.  What the restart point is when the worker begins to follow, it writes all
 * pages for then: backups that begin later can use it.  Of which restart points that is so stands
 * in a file, which the copy has too (session/ls_backup.c).
 *
 * The worker writes that file before ls_shared->backups_begin is set, the startup process behind.
 */
#include "postgres.h"

#include "ls_server_internal.h"
#include "session/ls_session.h"

#include <time.h>

#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "access/xlogrecovery.h"
#include "pgstat.h"
#include "postmaster/startup.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "leanstore/standby.h"

#define POLL_US 1000
#define WORKER_ABSENT_MS 10000

static XLogRecPtr
last_redo(void)
{
	return pg_atomic_read_u64(&ls_shared->last_redo);
}

/* ---- in the startup process ---------------------------------------------- */

void
ls_standby_backup_begin(void)
{
	pg_atomic_write_u64(&ls_shared->last_redo, GetRedoRecPtr());
}

/* Its pages are what the copy had, or have images behind the state. */
void
ls_standby_backup_restored(XLogRecPtr redo)
{
	const LsBackupPoints points = {.first = redo, .last = redo};

	ls_backup_leave_points(&points);
}

static void
add_point(XLogRecPtr redo)
{
	LsBackupPoints points;

	if (!ls_backup_read_points(&points) || points.last != last_redo())
		points = (LsBackupPoints) {.first = redo};
	points.last = redo;
	ls_backup_leave_points(&points);
}

static void
wait_a_moment(void)
{
	static uint32 wait_event = 0;

	if (wait_event == 0)
		wait_event = WaitEventExtensionNew("LeanstoreRestartPoint");
	pgstat_report_wait_start(wait_event);
	pg_usleep(POLL_US);
	pgstat_report_wait_end();
	ProcessStartupProcInterrupts();
}

/* False: it follows no more. */
static bool
wait_for_worker(pg_atomic_uint64 *done, uint64 wanted)
{
	while (pg_atomic_read_u64(done) < wanted)
	{
		if (!ls_store_follows(ls_shared->store))
			return false;
		wait_a_moment();
	}
	return true;
}

static bool
pages_are_written(void)
{
	const uint64 wanted = pg_atomic_add_fetch_u64(&ls_shared->flush_asked, 1);

	return wait_for_worker(&ls_shared->flush_done, wanted) &&
		pg_atomic_read_u64(&ls_shared->flush_failed) != wanted;
}

static bool
point_is_made(XLogRecPtr state_end)
{
	return state_end != InvalidXLogRecPtr &&
		wait_for_worker(&ls_shared->point_done, state_end) &&
		pg_atomic_read_u64(&ls_shared->point_failed) != state_end;
}

/* The engine worker has begun to follow, or is not going to. */
static bool
follows(void)
{
	TimestampTz seen = GetCurrentTimestamp();

	if (!reachedConsistency || !EnableHotStandby || !ls_log_is_wal() ||
		ls_follow_replayed_to(ls_shared->store) == 0)
		return false;
	while (pg_atomic_read_u32(&ls_shared->backups_begin) == 0)
	{
		if (pg_atomic_read_u32(&ls_shared->engine_pid) != 0)
			seen = GetCurrentTimestamp();
		if (pg_atomic_read_u32(&ls_shared->recovery_failed) != 0 ||
			TimestampDifferenceExceeds(seen, GetCurrentTimestamp(), WORKER_ABSENT_MS))
			return false;
		wait_a_moment();
	}
	return ls_store_follows(ls_shared->store);
}

/* A checkpoint is about to be replayed.  state_end: of the state for it, if one was left. */
void
ls_standby_backup_checkpoint(XLogRecPtr redo, bool is_shutdown, XLogRecPtr state_end)
{
	if (!ArchiveRecoveryRequested || ls_shared->restoring)
		return;
	if (follows() && (is_shutdown ? pages_are_written() : point_is_made(state_end)))
		add_point(redo);
	pg_atomic_write_u64(&ls_shared->last_redo, redo);
}

/* ---- in the engine worker -------------------------------------------------- */

/* It follows, and no checkpoint is replayed before this has returned. */
void
ls_standby_backup_follows(bool (*write_pages) (void))
{
	LsBackupPoints points;

	/* Its start counts in seconds. */
	if ((!ls_backup_read_points(&points) || points.last != last_redo()) && write_pages())
	{
		points = (LsBackupPoints) {
			.first = last_redo(), .last = last_redo(), .since = time(NULL) + 1
		};
		ls_backup_leave_points(&points);
		ereport(LOG,
				(errmsg("leanstore tables are in base backups of this standby that begin from "
						"the next second on")));
	}
	pg_atomic_write_membarrier_u32(&ls_shared->backups_begin, 1);
}
