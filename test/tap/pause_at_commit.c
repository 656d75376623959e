/*
 * pause_at_commit.c - a transaction that pauses when others can see it and the
 * callbacks of modules loaded earlier have not been called yet.
 *
 *	LOAD '.../pause_at_commit';
 *	BEGIN; ...; SET LOCAL pause_at_commit.milliseconds = 1000; COMMIT;
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

static int	milliseconds = 0;

static void
pause_at_commit(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT)
		pg_usleep(milliseconds * 1000L);
}

void		_PG_init(void);

void
_PG_init(void)
{
	DefineCustomIntVariable("pause_at_commit.milliseconds", "How long to pause.", NULL,
							&milliseconds, 0, 0, 60 * 1000, PGC_USERSET, 0, NULL, NULL, NULL);
	RegisterXactCallback(pause_at_commit, NULL);
}
