/*
 * ls_error.c - engine status to ereport: the only file that knows ls_status and SQLSTATE both.
 */
#include "postgres.h"

#include "ls_session.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "storage/block.h"
#include "storage/procsignal.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define TELL_AGAIN_MS 30000

static int
sqlstate_of(const ls_error *error)
{
	switch (error->status)
	{
		case LS_NO_SPACE:
			return ERRCODE_DISK_FULL;
		case LS_IO_ERROR:
			return ERRCODE_IO_ERROR;
		case LS_CORRUPT:
			return ERRCODE_DATA_CORRUPTED;
		case LS_FOREIGN:
		case LS_NOT_ADOPTABLE:
			return ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
		case LS_NO_MEMORY:
			return ERRCODE_OUT_OF_MEMORY;
		case LS_NO_FRAMES:
			return ERRCODE_INSUFFICIENT_RESOURCES;
		case LS_LIMIT:
		case LS_MANY_PREPARED:
		case LS_RANGE_MEMORY:
			return ERRCODE_CONFIGURATION_LIMIT_EXCEEDED;
		case LS_TOO_LARGE:
		case LS_NO_ROW_IDS:
		case LS_NO_PAGES:
		case LS_NO_TNS:
		case LS_MANY_CHANGES:
			return ERRCODE_PROGRAM_LIMIT_EXCEEDED;
		case LS_NOT_READY:
			return ERRCODE_CANNOT_CONNECT_NOW;
		case LS_IN_USE:
			return ERRCODE_OBJECT_IN_USE;
		default:
			return ERRCODE_INTERNAL_ERROR;
	}
}

static const char *
hint_of(ls_status status)
{
	switch (status)
	{
		case LS_NO_SPACE:
			return "Free space on the file system that holds the file.";
		case LS_IO_ERROR:
			return "Check the storage; what the operating system logs about it tells more.";
		case LS_NO_MEMORY:
			return "Lower what the server may use (\"work_mem\", connections), "
				   "or give the system more memory.";
		case LS_NOT_READY:
			return "Try again when the engine has recovered; the server's log tells how far it is.";
		case LS_CORRUPT:
			return "The page was left as it is. Check the storage and restore the relation "
				   "from a backup.";
		case LS_FOREIGN:
			return "Stop the server and put back the directory \"leanstore\" that belongs to this "
				"data directory. If it is lost, drop the relation and restore it from a dump, "
				"or take over the rows of a table's file with leanstore_adopt().";
		case LS_NOT_ADOPTABLE:
			return "A table that can be read needs no adoption. One that cannot has lost all "
				   "its rows, and can be emptied by TRUNCATE.";
		case LS_IN_USE:
			return "Try again, or end the prepared transaction (see pg_prepared_xacts) that has "
				   "made or dropped the relation.";
		case LS_NO_FRAMES:
			return "Increase \"leanstore.buffer_pool_size\" or check whether changed pages "
				   "can be written.";
		case LS_LIMIT:
			return "End queries and cursors that use many relations at once, "
				"or increase \"leanstore.max_open_relations\" and restart the server.";
		case LS_MANY_PREPARED:
			return "Increase \"max_prepared_transactions\" and restart the server.";
		case LS_RANGE_MEMORY:
			return "Increase \"leanstore.range_lock_memory\" and restart the server.";
		case LS_NO_ROW_IDS:
			return "Rewrite the table by VACUUM FULL or CLUSTER: its rows get new ids.";
		case LS_NO_PAGES:
			return "Partition the table.";
		case LS_NO_TNS:
			return "Dump the leanstore tables and restore them into a new data directory.";
		case LS_MANY_CHANGES:
			return "Divide the work among several transactions.";
		default:
			return NULL;
	}
}

/* What failed, and what the system says about it. */
const char *
ls_error_text(const ls_error *error)
{
	if (error->status == LS_LIMIT)
		return psprintf("%s (leanstore.max_open_relations)", error->message);
	return error->sys_errno == 0 ? error->message
								 : psprintf("%s: %s", error->message, strerror(error->sys_errno));
}

void
ls_raise(const ls_error *error, Relation rel)
{
	const char *hint = hint_of(error->status);

	/* As the server says it; the startup process need not wait for this snapshot. */
	if (error->status == LS_CONFLICT)
	{
		pgstat_report_recovery_conflict(PROCSIG_RECOVERY_CONFLICT_SNAPSHOT);
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("canceling statement due to conflict with recovery"),
				 errdetail("%s.", error->message)));
	}

	/* An interrupt ended a wait of the engine: let PostgreSQL say what it was. */
	if (error->status == LS_INTERRUPTED)
	{
		CHECK_FOR_INTERRUPTS();
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling statement while waiting for the leanstore engine")));
	}

	if (errstart(ERROR, TEXTDOMAIN))
	{
		errcode(sqlstate_of(error));
		if (rel)
			errmsg("leanstore relation \"%s\": %s", RelationGetRelationName(rel),
				   ls_error_text(error));
		else
			errmsg("leanstore: %s", ls_error_text(error));
		if (error->path[0] != '\0' && error->page_no != UINT32_MAX)
			errdetail("File \"%s\", page %u (offset " UINT64_FORMAT ").", error->path,
					  error->page_no, (uint64) error->page_no * LS_PAGE_BYTES);
		else if (error->path[0] != '\0')
			errdetail("File \"%s\".", error->path);
		if (hint)
			errhint("%s", hint);
		/* VERBOSITY verbose shows which line of the engine has told it */
		errfinish(MemoryContextStrdup(ErrorContext, error->source), (int) error->line, NULL);
	}
	pg_unreachable();
}

void
ls_log_failed_again(TimestampTz *told, const char *what, const ls_error *error)
{
	const TimestampTz now = GetCurrentTimestamp();

	if (!TimestampDifferenceExceeds(*told, now, TELL_AGAIN_MS))
		return;
	*told = now;
	ereport(LOG,
			(errcode(sqlstate_of(error)),
			 errmsg("leanstore could not %s: %s", what, ls_error_text(error)),
			 error->path[0] ? errdetail("File \"%s\".", error->path) : 0,
			 errhint("It is tried again until it succeeds.")));
}
