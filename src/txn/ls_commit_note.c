/*
 * ls_commit_note.c - pg_xact after a crash, for transactions that wrote leanstore tables only.
 *
 * Such a transaction is durable with the engine's log; PostgreSQL's commit record is
 * written and not flushed (ls_xact.c).  A crash takes the last of these records with it:
 * pg_xact would not know the transactions, and their ids would be given once more.  So
 *
 *	- the engine worker notes how far the server's log has come, in positions of the
 *	  engine's log;
 *	- the startup process, when WAL has been replayed, enters what the engine's log has
 *	  behind that into pg_xact, and moves nextXid behind it.
 *
 * Only there no process can have drawn an id yet, and the checkpoint at the end of recovery
 * makes durable what is entered.  What else the commit record held, the ids of subtransactions and
 * the time of the commit, the engine's record carries as a note.  Files dropped, invalidations and
 * statistics come with changes of catalogs, as an origin's position comes with what it sent: the
 * commit record of such a transaction is flushed (ls_xact.c).
 */
#include "postgres.h"

#include "ls_txn_internal.h"
#include "pg/ls_pg.h"

#include "access/commit_ts.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_control.h"
#include "miscadmin.h"
#include "replication/origin.h"
#include "utils/timestamp.h"

#define NOTE_INTERVAL_MS 1000
/* The WAL writer is expected to be faster.  The engine keeps its log from the last note on. */
#define FLUSH_AFTER_MS 10000
/*
 * More transactions than can run until WAL is flushed: then something is wrong with what was read.
 */
#define MAX_LOST_XIDS (UINT64CONST(1) << 26)

/* ---- the note ------------------------------------------------------------- */

typedef struct CommitNote
{
	TimestampTz time;			/* 0: commit timestamps were not kept */
	RepOriginId origin;
} CommitNote;					/* and the ids of its subtransactions behind it */

size_t
ls_commit_note_fill(char *note)
{
	TransactionId *children;
	const int	n = xactGetCommittedChildren(&children);
	CommitNote	head = {0};

	if (n == 0 && !track_commit_timestamp)
		return 0;
	if (n > (LS_COMMIT_NOTE_BYTES - sizeof(head)) / sizeof(TransactionId))
	{
		/* Then the server's own record does it. */
		XLogFlush(XactLastCommitEnd);
		return 0;
	}
	if (track_commit_timestamp)
	{
		/* As RecordTransactionCommit() has set it. */
		head.time = replorigin_session_origin_timestamp;
		head.origin = replorigin_session_origin;
	}
	memcpy(note, &head, sizeof(head));
	if (n > 0)
		memcpy(note + sizeof(head), children, n * sizeof(TransactionId));
	return sizeof(head) + n * sizeof(TransactionId);
}

/* ---- the engine worker ---------------------------------------------------- */

/*
 * All that PostgreSQL has recorded is on disk, and there is a record behind the last
 * checkpoint: without one to replay the startup process would not call ls_commits_replay().
 */
void
ls_commits_begin(void)
{
	char		nothing = 0;

	XLogBeginInsert();
	XLogSetRecordFlags(XLOG_MARK_UNIMPORTANT);
	XLogRegisterData(&nothing, sizeof(nothing));
	XLogFlush(XLogInsert(RM_XLOG_ID, XLOG_NOOP));
}

/* Called every few milliseconds. */
void
ls_host_sync_point_advance(void)
{
	static uint64 noted = 0;
	static uint64 position = 0;
	static XLogRecPtr lsn = InvalidXLogRecPtr;	/* of everything recorded before `position` */
	static TimestampTz since = 0;	/* `lsn` was taken, or the last note */
	static bool failing = false;
	ls_error	error = {0};
	TimestampTz now = GetCurrentTimestamp();

	if (lsn == InvalidXLogRecPtr)
	{
		if (!TimestampDifferenceExceeds(since, now, NOTE_INTERVAL_MS))
			return;
		position = ls_commits_position(ls_shared->store);
		since = now;
		if (position != noted)
			lsn = ls_pg_wal_end();
		return;
	}
	if (XLogNeedsFlush(lsn))
	{
		if (!TimestampDifferenceExceeds(since, now, FLUSH_AFTER_MS))
			return;
		XLogFlush(lsn);
	}
	lsn = InvalidXLogRecPtr;
	since = now;
	if (ls_host_sync_point(ls_shared->store, position, &error) == LS_OK)
	{
		noted = position;
		failing = false;
	}
	else if (!failing)
	{
		/* The last note stays right, only the log grows. */
		failing = true;
		ereport(LOG,
				(errmsg("could not note the position of the last commit: %s",
						ls_error_text(&error)),
				 error.path[0] ? errdetail("File \"%s\".", error.path) : 0,
				 errhint("It is tried again each second; until then the leanstore log is "
						 "not truncated.")));
	}
}

/* ---- the startup process -------------------------------------------------- */

static void
advance_next_xid(FullTransactionId last)
{
	while (FullTransactionIdPrecedesOrEquals(ReadNextFullTransactionId(), last))
		ls_pg_pass_next_xid();
}

/* The same for the id of a subtransaction. */
static void
advance_behind(TransactionId xid)
{
	const FullTransactionId next = ReadNextFullTransactionId();
	const int32 ahead = (int32) (xid - XidFromFullTransactionId(next));

	if (ahead >= 0 && ahead < MAX_LOST_XIDS)
		advance_next_xid(FullTransactionIdFromU64(U64FromFullTransactionId(next) + ahead));
}

static void
enter_commit(TransactionId xid, const ls_commit_behind *commit)
{
	CommitNote	head = {0};
	int			n = 0;
	TransactionId *children = NULL;

	if (commit->note_bytes >= sizeof(head))
	{
		n = (commit->note_bytes - sizeof(head)) / sizeof(TransactionId);
		children = palloc(n * sizeof(TransactionId));
		memcpy(&head, commit->note, sizeof(head));
		memcpy(children, (const char *) commit->note + sizeof(head), n * sizeof(TransactionId));
	}
	for (int i = 0; i < n; i++)
		advance_behind(children[i]);
	if (head.time != 0 && track_commit_timestamp)
		TransactionTreeSetCommitTsData(xid, n, children, head.time, head.origin);
	TransactionIdCommitTree(xid, n, children);
	if (children != NULL)
		pfree(children);
}

void
ls_commits_replay(void)
{
	const uint64 next = U64FromFullTransactionId(ReadNextFullTransactionId());
	ls_commit_behind *committed;
	size_t		n;
	uint64		highest;
	size_t		entered = 0;
	ls_error	error = {0};

	if (ls_shared->from_backup)
		return;
	if (ls_commits_behind(ls_shared->store, &committed, &n, &highest, &error) != LS_OK)
	{
		/* The engine's recovery will say what is wrong with its log, and whether it can go on. */
		ereport(LOG,
				(errmsg("could not look for the last commits in the leanstore log: %s",
						ls_error_text(&error)),
				 error.path[0] ? errdetail("File \"%s\".", error.path) : 0,
				 errhint("Transactions that have written leanstore tables only may be "
						 "missing in pg_xact.")));
		return;
	}
	if (highest >= next + MAX_LOST_XIDS)
		ereport(LOG,
				(errmsg("the leanstore log has transactions that the server cannot have begun"),
				 errdetail("The next transaction id is " UINT64_FORMAT ", there is one of "
						   UINT64_FORMAT ".", next, highest)));
	else
	{
		if (highest >= next)
			advance_next_xid(FullTransactionIdFromU64(highest));
		for (size_t i = 0; i < n; i++)
		{
			TransactionId xid = XidFromFullTransactionId(
				FullTransactionIdFromU64(committed[i].full_xid));

			if (ls_pg_is_cut_from_pg_xact(xid) || TransactionIdDidCommit(xid))
				continue;
			enter_commit(xid, &committed[i]);
			entered++;
		}
		if (entered > 0)
			ereport(LOG,
					(errmsg("leanstore: entered %zu commits into pg_xact that the server's "
							"log has lost", entered),
					 errdetail("The next transaction id is " UINT64_FORMAT ", it would have been "
							   UINT64_FORMAT ".",
							   U64FromFullTransactionId(ReadNextFullTransactionId()), next)));
	}
	free(committed);
}
