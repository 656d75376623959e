/*
 * ls_database_files.c - the files of a database that is copied: are some of them the engine's?
 *
 * With leanstore.log = wal a database with leanstore tables cannot be copied file by file.
 * PostgreSQL logs such a copy as "copy the directory", and replays it so.  In a base backup that is
 * being restored the files of leanstore tables are still as they were copied then, for the engine
 * recovers behind the end of replay: their copies would stay like that for ever.
 */
#include "postgres.h"

#include "ls_ddl_internal.h"
#include "session/ls_session.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_tablespace.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "storage/bufpage.h"
#include "storage/fd.h"

/*
 * Has it been written by the engine?  Its pages have zeros where those of the server have the end
 * of free space, which is never 0 (docs/file-format.md).  A page of zeros is either's: EMPTY says
 * what it counts as.
 */
static bool
is_ours(const char *path, bool empty)
{
	PGAlignedBlock block;
	const int	fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	ssize_t		got;

	if (fd < 0 && errno == ENOENT)
		return false;
	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(), errmsg("could not open file \"%s\": %m", path)));
	got = read(fd, block.data, LS_PAGE_BYTES);
	if (got < 0)
		ereport(ERROR,
				(errcode_for_file_access(), errmsg("could not read file \"%s\": %m", path)));
	CloseTransientFile(fd);
	if (got < LS_PAGE_BYTES)
		return empty && got > 0;
	return ((PageHeader) block.data)->pd_upper == 0 &&
		   (empty || !pg_memory_is_all_zeros(block.data, LS_PAGE_BYTES));
}

static bool
directory_has_ours(const char *path, bool empty)
{
	DIR		   *directory = AllocateDir(path);
	struct dirent *entry;
	bool		found = false;

	if (directory == NULL && errno == ENOENT)
		return false;
	while (!found && (entry = ReadDir(directory, path)) != NULL)
	{
		char		file[MAXPGPATH];

		CHECK_FOR_INTERRUPTS();
		/* main forks, their first segments */
		if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name))
			continue;
		snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		found = is_ours(file, empty);
	}
	FreeDir(directory);
	return found;
}

/* Nothing of it is in memory only. */
static bool
database_has_ours(Oid database, bool empty)
{
	Relation	tablespaces = table_open(TableSpaceRelationId, AccessShareLock);
	TableScanDesc scan = table_beginscan_catalog(tablespaces, 0, NULL);
	HeapTuple	tuple;
	bool		found = false;

	while (!found && (tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		const Oid	tablespace = ((Form_pg_tablespace) GETSTRUCT(tuple))->oid;
		char	   *path;

		if (tablespace == GLOBALTABLESPACE_OID)
			continue;
		path = GetDatabasePath(database, tablespace);
		found = directory_has_ours(path, empty);
		pfree(path);
	}
	table_endscan(scan);
	table_close(tablespaces, AccessShareLock);
	return found;
}

void
ls_database_check_copy(Oid database, const char *name)
{
	if (!ls_log_is_wal() || !database_has_ours(database, false))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot copy the files of database \"%s\", which has leanstore tables, while "
					"\"leanstore.log\" is \"wal\"",
					name),
			 errdetail("The copy would not be in WAL, of which base backups are restored."),
			 errhint("Create the database from template0, and copy the tables with pg_dump.")));
}

bool
ls_database_may_have_ours(Oid database)
{
	return database_has_ours(database, true);
}
