/*
 * end_engine_worker.c - ways out of the engine worker that its code does not take by itself.
 *
 *	shared_preload_libraries = 'leanstore_am,.../end_engine_worker'
 *	ALTER SYSTEM SET end_engine_worker.by = 'error'; SELECT pg_reload_conf();
 */
#include "postgres.h"

#include "fmgr.h"
#include "postmaster/bgworker.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

static char *by = NULL;

static void
assign_by(const char *newval, void *extra)
{
	if (newval == NULL || MyBgworkerEntry == NULL ||
		strcmp(MyBgworkerEntry->bgw_type, "leanstore engine worker") != 0)
		return;
	if (strcmp(newval, "error") == 0)
		elog(ERROR, "error in the engine worker");
	if (strcmp(newval, "exit") == 0)
		exit(0);
	if (strcmp(newval, "_exit") == 0)
		_exit(1);
}

void		_PG_init(void);

void
_PG_init(void)
{
	DefineCustomStringVariable("end_engine_worker.by",
							   "How the engine worker ends when it reads this.", NULL,
							   &by, "", PGC_SIGHUP, 0, NULL, assign_by, NULL);
}
