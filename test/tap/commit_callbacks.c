/*
 * commit_callbacks.c - a library, for shared_preload_libraries, that does what the session asks for
 * when its transaction commits: runs commit_callbacks.sql at PRE_COMMIT, and writes a logical
 * message with its text into the WAL.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "replication/message.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

static char *sql = NULL;

static void
run_at_pre_commit(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_PRE_COMMIT || sql == NULL || sql[0] == '\0')
		return;
	LogLogicalMessage("commit_callbacks", sql, strlen(sql), true, false);
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	SPI_execute(sql, false, 0);
	SPI_finish();
	PopActiveSnapshot();
}

void		_PG_init(void);

void
_PG_init(void)
{
	DefineCustomStringVariable("commit_callbacks.sql", "What to run at PRE_COMMIT.", NULL,
							   &sql, "", PGC_USERSET, 0, NULL, NULL, NULL);
	RegisterXactCallback(run_at_pre_commit, NULL);
}
