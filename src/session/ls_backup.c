/*
 * ls_backup.c - recognizes a data directory that has leanstore tables which cannot be used.
 *
 * The engine's log is not replicated, and a base backup copies its files each at
 * another moment.  On a standby they stay as they were copied while the server
 * replays its own log beside them; after a restore or a promotion a store made of them would
 * be torn, or belong to tables that are gone.  So the postmaster looks, before the
 * startup process removes the signs, whether this start is one from a backup or of a standby,
 * and leaves a mark in the engine's directory.  A store with that mark is
 * never opened; leanstore tables in such a server begin with an empty one.
 */
#include "postgres.h"

#include "ls_session_internal.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"
#include "common/file_perm.h"
#include "storage/fd.h"

#define DIRECTORY "leanstore"
#define MARK_FILE DIRECTORY "/from_backup"

static bool
file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* Durable before the startup process takes the signs away. */
static void
leave_mark(void)
{
	int			fd = BasicOpenFile(MARK_FILE, O_CREAT | O_WRONLY | PG_BINARY);

	if (fd < 0 || pg_fsync(fd) != 0 || close(fd) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", MARK_FILE)));
	fsync_fname(DIRECTORY, true);
}

bool
ls_backup_look(void)
{
	bool		starts_from_backup = file_exists(BACKUP_LABEL_FILE) ||
		file_exists(STANDBY_SIGNAL_FILE) || file_exists(RECOVERY_SIGNAL_FILE);

	/* even where no store is yet: replay may bring tables without their rows */
	if (starts_from_backup && !file_exists(MARK_FILE))
		leave_mark();
	if (!file_exists(MARK_FILE))
		return false;
	ereport(LOG,
			(errmsg("leanstore tables cannot be used in this server"),
			 errdetail("It was started from a base backup or as a standby; the log of leanstore "
					   "tables is not replicated and not part of base backups.")));
	return true;
}

void
ls_backup_refuse(void)
{
	if (ls_shared->from_backup)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("leanstore tables cannot be used in a server that was started from a base "
						"backup or as a standby"),
				 errdetail("The log of leanstore tables is not replicated and not part of "
						   "base backups."),
				 errhint("Drop them, stop the server, remove the directory \"%s\" in its data "
						 "directory, and restore them from a dump.", DIRECTORY)));
}
