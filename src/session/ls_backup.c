/*
 * ls_backup.c - a data directory that was copied while its server worked: a base backup, or a
 * standby.
 *
 * What has been copied of the engine's directory is of many moments.  With leanstore.log = wal
 * everything that is needed is in WAL: replay from the backup's redo point comes by a state of the
 * engine that belongs to it (LS_WAL_STATE), and by all that it has logged since.  So the postmaster
 * looks, before the startup process removes the signs, whether this start is one from a backup,
 * forgets what does not count, and leaves a file that says which state to take:
 *
 *     restoring   the state is to come; its text is the redo point, and whether pg_rewind was here
 *     restored    it has come; replay goes on, perhaps over several starts
 *
 * Both are gone when the engine has recovered.  Where there can be no such state - the engine's own
 * log is not replicated - a third file is left, from_backup.  A store with that mark is never
 * opened; leanstore tables of such a server can only be dropped.
 *
 * pg_rewind copies single blocks of a server that was promoted, and replay begins at the last
 * checkpoint that both had: what the source had replayed by then has to be in its files.
 * PostgreSQL's checkpoint behind a promotion sees to that, but it may have ended before the engine
 * was ready.  So a server that replays leaves a fourth file, unwritten, until a state of its own
 * has been made.
 */
#include "postgres.h"

#include "ls_session_internal.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "access/xlog.h"
#include "common/file_perm.h"
#include "pgtime.h"
#include "storage/fd.h"

#define MARK_FILE LS_DIRECTORY "/from_backup"
#define RESTORING_FILE LS_DIRECTORY "/restoring"
#define RESTORED_FILE LS_DIRECTORY "/restored"
#define UNWRITTEN_FILE LS_DIRECTORY "/unwritten"
#define START_TIME "START TIME: "
#define POINTS_FILE LS_DIRECTORY "/backup_points"

typedef struct Label
{
	XLogRecPtr	redo;
	bool		rewound;		/* pg_rewind has written it, which always names a standby */
	bool		from_standby;
	int64		started;		/* as time() has it */
} Label;

static bool
file_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

void
ls_leave_file(const char *path, const char *text)
{
	const int	length = strlen(text);
	int			fd = BasicOpenFile(path, O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);

	if (fd < 0 || write(fd, text, length) != length || pg_fsync(fd) != 0 || close(fd) != 0)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", path)));
	fsync_fname(LS_DIRECTORY, true);
}

bool
ls_backup_read_points(LsBackupPoints *points)
{
	FILE	   *file = AllocateFile(POINTS_FILE, "r");
	uint32		high[2];
	uint32		low[2];
	int			n;

	if (file == NULL)
		return false;
	n = fscanf(file, "%X/%X %X/%X " INT64_FORMAT, &high[0], &low[0], &high[1], &low[1],
			   &points->since);
	FreeFile(file);
	points->first = ((uint64) high[0]) << 32 | low[0];
	points->last = ((uint64) high[1]) << 32 | low[1];
	return n == 5;
}

/* Before the last one counts. */
void
ls_backup_leave_points(const LsBackupPoints *points)
{
	char		text[80];

	snprintf(text, sizeof(text), "%X/%X %X/%X " INT64_FORMAT "\n", LSN_FORMAT_ARGS(points->first),
			 LSN_FORMAT_ARGS(points->last), points->since);
	ls_leave_file(POINTS_FILE, text);
}

void
ls_backup_forget_points(void)
{
	unlink(POINTS_FILE);
}

/* In the time zone of the log.  0: it cannot be read. */
static int64
time_of(const char *text)
{
	pg_time_t	now = (pg_time_t) time(NULL);
	struct pg_tm *zone = pg_localtime(&now, log_timezone);
	struct tm	fields = {0};

	if (zone == NULL || strptime(text, "%Y-%m-%d %H:%M:%S", &fields) == NULL)
		return 0;
	return timegm(&fields) - zone->tm_gmtoff;
}

static Label
read_label(void)
{
	Label		label = {0};
	FILE	   *file = AllocateFile(BACKUP_LABEL_FILE, "r");
	char		line[MAXPGPATH];
	uint32		high;
	uint32		low;

	if (file == NULL)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", BACKUP_LABEL_FILE)));
	while (fgets(line, sizeof(line), file) != NULL)
	{
		if (sscanf(line, "START WAL LOCATION: %X/%X", &high, &low) == 2)
			label.redo = ((uint64) high) << 32 | low;
		if (strncmp(line, START_TIME, strlen(START_TIME)) == 0)
			label.started = time_of(line + strlen(START_TIME));
		if (strcmp(line, "BACKUP METHOD: pg_rewind\n") == 0)
			label.rewound = true;
		if (strcmp(line, "BACKUP FROM: standby\n") == 0)
			label.from_standby = true;
	}
	FreeFile(file);
	return label;
}

/* As it was left by begin_restore(). */
static Label
read_restoring(void)
{
	FILE	   *file = AllocateFile(RESTORING_FILE, "r");
	uint32		high;
	uint32		low;
	int			rewound;

	if (file == NULL || fscanf(file, "%X/%X %d", &high, &low, &rewound) != 3)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not read file \"%s\"", RESTORING_FILE),
				 errhint("Restore the base backup once more.")));
	FreeFile(file);
	return (Label) {.redo = ((uint64) high) << 32 | low, .rewound = rewound != 0};
}

/* Nothing of it has been opened yet; repeated when this start ends before the label is taken. */
static void
begin_restore(const Label *label)
{
	char		text[32];
	ls_error	error = {0};

	snprintf(text, sizeof(text), "%X/%X %d\n", LSN_FORMAT_ARGS(label->redo), label->rewound);
	ls_leave_file(RESTORING_FILE, text);
	durable_unlink(RESTORED_FILE, DEBUG1);
	durable_unlink(UNWRITTEN_FILE, DEBUG1);
	if (ls_restore_forget(ls_shared->store, &error) != LS_OK)
		ereport(FATAL,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("could not begin to restore leanstore tables: %s", ls_error_text(&error)),
				 error.path[0] ? errdetail("File \"%s\".", error.path) : 0));
}

/* Its control file says so; one that cannot be read is no better than none. */
static bool
has_wal_log(void)
{
	bool		exists = false;
	bool		was_wal = false;
	ls_error	error = {0};

	return ls_store_log_kind(ls_shared->store, &exists, &was_wal, &error) == LS_OK && exists &&
		   was_wal;
}

static bool
begins_with_point(const Label *label)
{
	LsBackupPoints points;

	return ls_backup_read_points(&points) && points.first <= label->redo &&
		label->redo <= points.last && label->started >= points.since;
}

static bool
source_was_unwritten(const Label *label)
{
	return label->rewound && file_exists(UNWRITTEN_FILE);
}

/*
 * Does the copy come from a server with the log in WAL that had recovered its engine, or from a
 * standby at one of the points from which it can be recovered?  pg_rewind copies files like ours
 * before it copies blocks, so it sees no younger sign than it has blocks.
 */
static bool
is_usable(const Label *label)
{
	if (file_exists(MARK_FILE) || source_was_unwritten(label))
		return false;
	if (label->from_standby && !label->rewound)
		return has_wal_log() && begins_with_point(label);
	if (file_exists(RESTORING_FILE) || file_exists(RESTORED_FILE))
	{
		/* This start's own, before the startup process had taken the label? */
		if (label->rewound && file_exists(RESTORING_FILE))
		{
			const Label begun = read_restoring();

			return begun.rewound && begun.redo == label->redo;
		}
		return !label->rewound; /* or a copy's, of another backup */
	}
	return has_wal_log();
}

static void
take_label(void)
{
	const Label label = read_label();

	if (!is_usable(&label))
	{
		if (source_was_unwritten(&label))
			ereport(LOG,
					(errmsg("pg_rewind has copied from a server that had not written all leanstore "
							"tables since it was promoted"),
					 errhint("Make a new base backup, or next time run CHECKPOINT on the source "
							 "before pg_rewind.")));
		if (!file_exists(MARK_FILE))
			ls_leave_file(MARK_FILE, "");
		return;
	}
	if (!ls_log_is_wal())
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("\"leanstore.log\" must be \"wal\" to restore a base backup of a server "
						"that had it so"),
				 errhint("Set it, start the server, and change it when the server has been shut "
						 "down.")));
	begin_restore(&label);
}

void
ls_backup_look(void)
{
	if (file_exists(BACKUP_LABEL_FILE))
		take_label();
	else if (file_exists(STANDBY_SIGNAL_FILE) || file_exists(RECOVERY_SIGNAL_FILE))
	{
		if (has_wal_log())
			ls_leave_file(UNWRITTEN_FILE, "");
		else if (!ls_backup_is_restored() && !file_exists(MARK_FILE))
			ls_leave_file(MARK_FILE, "");	/* no store is yet, maybe: replay may bring tables */
	}

	ls_shared->from_backup = file_exists(MARK_FILE);
	ls_shared->restoring = !ls_shared->from_backup && file_exists(RESTORING_FILE);
	if (ls_shared->restoring)
		ls_shared->restore_redo = read_restoring().redo;
	if (ls_shared->from_backup)
		ereport(LOG,
				(errmsg("leanstore tables cannot be used in this server"),
				 errdetail("It was started from a base backup or as a standby, and what it was "
						   "made of has no state of them to start from.")));
}

void
ls_backup_take_state(const LsWalState *head, const void *state, Size bytes)
{
	ls_error	error = {0};

	if (!ls_shared->restoring || head->redo != ls_shared->restore_redo)
		return;
	if (ls_relay_replay_state(ls_shared->store, state, bytes, &error) != LS_OK)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("could not restore leanstore tables: %s", ls_error_text(&error)),
				 error.path[0] ? errdetail("File \"%s\".", error.path) : 0,
				 errhint("Restore the base backup once more.")));
	ls_leave_file(UNWRITTEN_FILE, "");
	durable_rename(RESTORING_FILE, RESTORED_FILE, FATAL);
	ls_shared->restoring = false;
}

static void
take_away(const char *path)
{
	if (file_exists(path))
		durable_unlink(path, LOG);
}

void
ls_backup_written(void)
{
	take_away(UNWRITTEN_FILE);
}

void
ls_backup_replay_ended(void)
{
	if (!ls_shared->restoring)
		return;
	ls_leave_file(MARK_FILE, "");
	ls_shared->from_backup = true;
	ereport(LOG,
			(errmsg("leanstore tables cannot be used in this server"),
			 errdetail("WAL from %X/%X on has no state of them to start from.",
					   LSN_FORMAT_ARGS(ls_shared->restore_redo)),
			 errhint("The log of the server that was backed up says why, at the checkpoint with "
					 "which the backup began.")));
}

void
ls_backup_lost(XLogRecPtr lsn)
{
	ls_leave_file(MARK_FILE, "");
	ls_shared->from_backup = true;
	ls_shared->restoring = false;
	ereport(LOG,
			(errmsg("leanstore tables cannot be used in this server"),
			 errdetail("WAL before %X/%X lacks changes of them, which were made with "
					   "\"leanstore.log = engine\" or in another directory \"%s\".",
					   LSN_FORMAT_ARGS(lsn), LS_DIRECTORY),
			 errhint("Make a new base backup, or recover to a point before that.")));
}

bool
ls_backup_is_restored(void)
{
	return file_exists(RESTORING_FILE) || file_exists(RESTORED_FILE);
}

void
ls_backup_recovered(void)
{
	take_away(RESTORED_FILE);
}

void
ls_backup_refuse(void)
{
	/* On a standby that lets sessions in no state is to come any more. */
	if (ls_shared->from_backup || (ls_shared->restoring && RecoveryInProgress()))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("leanstore tables cannot be used in a server that was started from a base "
						"backup or as a standby"),
				 errdetail("What it was made of has no state of them to start from: base backups "
						   "need \"leanstore.log = wal\", and are made of a primary, or of a "
						   "standby that shows leanstore tables for some seconds."),
				 errhint("Drop them, stop the server, remove the directory \"%s\" in its data "
						 "directory, and restore them from a dump.", LS_DIRECTORY)));
}
