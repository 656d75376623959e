/*
 * ls_table_cut.c - VACUUM's last step: free pages at the end of files go back.
 *
 * As for a heap table: when it is worth while, under a lock that is taken only when it is free,
 * and not with TRUNCATE off.  The indexes of the table follow, which btree's do not.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/wait_event.h"

/* heap's (vacuumlazy.c), in blocks and milliseconds */
#define CUT_MINIMUM 1000
#define CUT_FRACTION 16
#define LOCK_WAIT_INTERVAL 50
#define LOCK_TIMEOUT 5000

/* The engine's pages in a block. */
#define PAGES_PER_BLOCK (BLCKSZ / 4096)

typedef struct Length
{
	uint64		before;			/* blocks */
	uint64		after;
} Length;

static Length
cut(Relation rel, bool look)
{
	Length		length = {0};
	ls_error	error;
	ls_status	status;

	LS_CALL(status,
			ls_rel_cut(ls_reader(), ls_open(rel), look, &length.before, &length.after, &error));
	ls_check(status, error, rel);
	length.before /= PAGES_PER_BLOCK;
	length.after /= PAGES_PER_BLOCK;
	return length;
}

static bool
is_worth_while(Relation rel)
{
	Length		length = cut(rel, true);
	uint64		blocks = length.before - length.after;

	return blocks > 0 && (blocks >= CUT_MINIMUM || blocks >= length.before / CUT_FRACTION);
}

static bool
lock_at_once(Relation rel)
{
	for (int waited = 0; !ConditionalLockRelation(rel, AccessExclusiveLock);
		 waited += LOCK_WAIT_INTERVAL)
	{
		CHECK_FOR_INTERRUPTS();
		if (waited >= LOCK_TIMEOUT)
			return false;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 LOCK_WAIT_INTERVAL, WAIT_EVENT_VACUUM_TRUNCATE);
		ResetLatch(MyLatch);
	}
	return true;
}

static void
cut_one(Relation rel, int message_level)
{
	Length		length = cut(rel, false);

	if (length.after == length.before)
		return;
	/* a process that has segments of the file open would count what they had */
	CacheInvalidateSmgr(RelationGetSmgr(rel)->smgr_rlocator);
	ereport(message_level,
			(errmsg("%s \"%s\": truncated " UINT64_FORMAT " to " UINT64_FORMAT " pages",
					rel->rd_rel->relkind == RELKIND_INDEX ? "index" : "table",
					RelationGetRelationName(rel), length.before, length.after)));
}

void
ls_table_cut(Relation rel, Relation *indexes, int nindexes, int message_level)
{
	bool		wanted = is_worth_while(rel);

	for (int i = 0; i < nindexes && !wanted; i++)
		wanted = ls_is_index(indexes[i]) && is_worth_while(indexes[i]);
	if (!wanted)
		return;

	/* a session that uses an index has locked its table */
	if (!lock_at_once(rel))
	{
		ereport(message_level,
				(errmsg("\"%s\": stopping truncate due to conflicting lock request",
						RelationGetRelationName(rel))));
		return;
	}
	cut_one(rel, message_level);
	for (int i = 0; i < nindexes; i++)
	{
		if (LockHasWaitersRelation(rel, AccessExclusiveLock))
			break;
		if (ls_is_index(indexes[i]) && is_worth_while(indexes[i]))
			cut_one(indexes[i], message_level);
	}
	UnlockRelation(rel, AccessExclusiveLock);
}
