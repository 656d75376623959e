/*
 * ls_log_switch.c - starts at which pages change, or have changed, that no WAL names
 * (LS_WAL_PLACES).
 *
 * From WAL to the engine's log, and a copy that recovers: pg_rewind would leave such pages as they
 * are.  A record that claims to change relations in a way of its own makes it refuse.
 *
 * From the engine's log to WAL: what was written to relation files before is named in no WAL, so an
 * incremental backup over that time would lack it.  So WAL gets a record for each file as if it had
 * been made now, which the WAL summarizer takes for a file to be backed up as a whole.  Replay of
 * the record does nothing to a file that exists.
 *
 * That is done before the engine's checkpoints have states in WAL: a backup that begins earlier has
 * no leanstore tables.  A file says that it is to be done:
 *
 *     log_switched	until it is
 */
#include "postgres.h"

#include "ls_session_internal.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_tablespace_d.h"
#include "catalog/storage_xlog.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/reinit.h"

#define SWITCHED_FILE LS_DIRECTORY "/log_switched"

void
ls_log_switch_look(void)
{
	bool		exists = false;
	bool		was_wal = false;
	ls_error	error = {0};

	ls_shared->unnamed_changes = ls_backup_is_restored();
	/* Why it cannot be read recovery will say. */
	if (ls_store_log_kind(ls_shared->store, &exists, &was_wal, &error) != LS_OK || !exists)
		return;
	if (ls_log_is_wal() && !was_wal)
		ls_leave_file(SWITCHED_FILE, "");
	if (!ls_log_is_wal() && was_wal)
		ls_shared->unnamed_changes = true;
}

static void
refuse_rewinds(void)
{
	static const char unused = 0;

	START_CRIT_SECTION();
	XLogBeginInsert();
	XLogRegisterData(&unused, sizeof(unused));
	XLogFlush(XLogInsert(LS_RMGR_ID, LS_WAL_UNNAMED | XLR_SPECIAL_REL_UPDATE));
	END_CRIT_SECTION();
}

static bool
is_ours(const char *path)
{
	PGAlignedBlock page;
	int			fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	ssize_t		got;

	if (fd < 0)
	{
		if (errno == ENOENT)
			return false;		/* dropped meanwhile */
		ereport(ERROR,
				(errcode_for_file_access(), errmsg("could not open file \"%s\": %m", path)));
	}
	got = pg_pread(fd, page.data, LS_PAGE_BYTES, 0);
	if (got < 0)
		ereport(ERROR,
				(errcode_for_file_access(), errmsg("could not read file \"%s\": %m", path)));
	CloseTransientFile(fd);
	return got == LS_PAGE_BYTES && ls_is_relation_file(page.data);
}

static void
log_files_of(Oid tablespace, Oid database, const char *directory)
{
	DIR		   *dir = AllocateDir(directory);
	struct dirent *entry;

	while ((entry = ReadDir(dir, directory)) != NULL)
	{
		RelFileLocator locator = {.spcOid = tablespace, .dbOid = database};
		ForkNumber	fork;
		unsigned	segment;
		char		path[MAXPGPATH];

		if (!parse_filename_for_nontemp_relation(entry->d_name, &locator.relNumber, &fork,
												 &segment) ||
			fork != MAIN_FORKNUM || segment != 0)
			continue;
		CHECK_FOR_INTERRUPTS();
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		if (is_ours(path))
			log_smgrcreate(&locator, MAIN_FORKNUM);
	}
	FreeDir(dir);
}

/* Databases and tablespaces are directories, and links to such, with their numbers for names. */
static void
visit_numbers(const char *directory, void (*visit) (Oid outer, Oid number, const char *path),
			  Oid outer)
{
	DIR		   *dir = AllocateDir(directory);
	struct dirent *entry;

	if (dir == NULL && errno == ENOENT)
		return;					/* a tablespace without a database */
	while ((entry = ReadDir(dir, directory)) != NULL)
	{
		char		path[MAXPGPATH];
		char	   *end;
		const Oid	number = strtoul(entry->d_name, &end, 10);

		if (number == InvalidOid || *end != '\0')
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		visit(outer, number, path);
	}
	FreeDir(dir);
}

static void
visit_tablespace(Oid unused, Oid tablespace, const char *path)
{
	char		databases[MAXPGPATH];

	snprintf(databases, sizeof(databases), "%s/%s", path, TABLESPACE_VERSION_DIRECTORY);
	visit_numbers(databases, log_files_of, tablespace);
}

void
ls_log_switch_finish(void)
{
	if (ls_shared->unnamed_changes)
		refuse_rewinds();
	if (access(SWITCHED_FILE, F_OK) != 0)
		return;
	visit_numbers("base", log_files_of, DEFAULTTABLESPACE_OID);
	visit_numbers(PG_TBLSPC_DIR, visit_tablespace, InvalidOid);
	XLogFlush(XactLastRecEnd);	/* of this process: what was logged above, if anything */
	durable_unlink(SWITCHED_FILE, ERROR);
}
