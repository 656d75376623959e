/*
 * ls_turn.c - shared row locks give way to a backend that waits for the row.
 *
 * FOR KEY SHARE meets no conflict on a row that others share, so it does not queue (ls_row_wait.c).
 * Such locks may follow each other without a gap, and a backend that wants to change the row
 * would wait for ever.  That backend has the server's tuple lock as the first in line, and notes
 * it in shared memory.  A backend that is about to share the row and finds the note asks for the
 * tuple lock in the mode of its own row lock: once it gets it, the other one has had its turn.
 *
 * It asks and does not wait in the lock manager.  A holder of the row may wait for just this
 * backend, and heap has no such edge: the deadlock detector would see a circle that is none
 * there.  So it asks again after pauses, for deadlock_timeout at most, and withdraws the note
 * then.  The first in line notes it again at its next wait, when a holder has ended.
 *
 * A note only says that asking may be worthwhile.  The tuple lock goes with its backend, however
 * that ends; a note that stays behind costs one attempt to lock.
 */
#include "postgres.h"

#include "ls_row_internal.h"
#include "relation/ls_relation.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/wait_event.h"

#define FIRST_PAUSE_MS 1
#define LAST_PAUSE_MS 16

static uint32 wait_event_turn = 0;

/* Where a row has its note, and what that is: never 0. */
static pg_atomic_uint64 *
place_of(Relation rel, const ItemPointerData *tid, uint64 *note)
{
	uint64		table = (uint64) MyDatabaseId << 32 | RelationGetRelid(rel);

	*note = hash_combine64(murmurhash64(table), murmurhash64(ls_tid_to_row(tid))) | 1;
	return &ls_shared->turns[(*note >> 1) % lengthof(ls_shared->turns)];
}

void
ls_turn_note(Relation rel, const ItemPointerData *tid)
{
	uint64		note;
	pg_atomic_uint64 *place = place_of(rel, tid, &note);

	if (pg_atomic_read_u64(place) != note)
		pg_atomic_write_u64(place, note);
}

/* Has this transaction locked or changed the row?  Then the other one may be waiting for it. */
static bool
is_own(Relation rel, const ItemPointerData *tid)
{
	uint64		row_id = ls_tid_to_row(tid);
	uint64		own = ls_own_tn();
	uint64		tn = 0;
	uint32		seq;
	ls_error	error;
	ls_status	status;
	ls_row		row;

	if (own == 0)
		return false;
	LS_CALL_ON(rel, status, ls_row_locker(ls_reader(), ls_open(rel), row_id, &tn, &seq, &error));
	if (status != LS_NOT_FOUND)
		ls_check(status, error, rel);
	return tn == own ||
		(ls_fetch_newest(rel, row_id, ls_fetch_buffer(), &row) && row.writer_tn == own);
}

static void
pause_for(long ms)
{
	if (wait_event_turn == 0)
		wait_event_turn = WaitEventExtensionNew("LeanstoreRowTurn");
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, wait_event_turn);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

static long
ms_since(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);
	return (long) INSTR_TIME_GET_MILLISEC(now);
}

bool
ls_turn_give_way(Relation rel, ItemPointer tid, LOCKMODE lockmode)
{
	uint64		note;
	pg_atomic_uint64 *place = place_of(rel, tid, &note);
	instr_time	start;
	long		ms = FIRST_PAUSE_MS;
	bool		locked;

	if (pg_atomic_read_u64(place) != note || is_own(rel, tid))
		return false;
	INSTR_TIME_SET_CURRENT(start);
	while (!(locked = ConditionalLockTuple(rel, tid, lockmode, false)) &&
		   ms_since(start) < DeadlockTimeout)
	{
		pause_for(ms);
		if (pg_atomic_read_u64(place) != note)
			return false;
		ms = Min(ms * 2, LAST_PAUSE_MS);
	}
	(void) pg_atomic_compare_exchange_u64(place, &note, 0);
	return locked;
}
