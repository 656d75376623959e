/*
 * ls_value_trace.c - a trace of what sessions store out of line, and delete: input of the simulator
 * in bench/values (`value_log convert`), while leanstore.trace_values names one.
 *
 * A trace is one file, leanstore/traces/NAME.  Each record is appended by one write() under
 * O_APPEND, so sessions need no lock: they lie one behind the other as they were written.
 *
 * A record names a value as a TOAST pointer does, by TOAST table and number, not by a row and its
 * column.  No row id is known here: a value is stored before its row is, and rows move to another
 * id.  What an update replaces is to be read from records side by side: it stores the new values
 * of a row, then deletes the old ones.  Session, transaction and command are noted to tell such
 * records from others.
 *
 * What is rolled back is in the trace, as its bytes were written all the same.  A statement never
 * fails for its trace: the file is opened, written and closed without an error being raised.
 */
#include "postgres.h"

#include "ls_row_internal.h"
#include "session/ls_session.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/detoast.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "storage/proc.h"
#include "utils/timestamp.h"

#define TRACE_DIRECTORY "leanstore/traces"
#define TRACE_MAGIC 0x3156534C	/* "LSV1" in the bytes of a little-endian machine */

typedef enum TraceOperation
{
	TRACE_PUT = 1,
	TRACE_DELETE = 2
} TraceOperation;

/* bench/values/server_trace.hpp describes it, too. */
typedef struct TraceRecord
{
	uint32		magic;
	pg_crc32c	crc;			/* of all that follows */
	int64		time;			/* microseconds */
	uint64		hash;			/* of the stored bytes; 0 of a deletion */
	Oid			database;
	Oid			toast_table;
	Oid			value_id;
	uint32		bytes;			/* as stored: compressed, if it is */
	int32		pid;
	LocalTransactionId transaction;
	CommandId	command;
	uint8		operation;
	uint8		zero[3];
	int64		session_start;	/* with the pid: which session */
} TraceRecord;

StaticAssertDecl(sizeof(TraceRecord) == 64, "a record of a trace has another size");

/* The trace that this session has failed to write; empty: none. */
static char failed_trace[NAMEDATALEN];

static void
give_up(const char *what)
{
	strlcpy(failed_trace, ls_trace_values, sizeof(failed_trace));
	ereport(LOG,
			(errcode_for_file_access(),
			 errmsg("could not %s trace of values \"%s\": %m", what, ls_trace_values),
			 errdetail("This session adds nothing more to it.")));
}

static void
fill_in(TraceRecord *record, const struct varatt_external *pointer, const char *data)
{
	*record = (TraceRecord)
	{
		.magic = TRACE_MAGIC,
			.time = GetCurrentTimestamp(),
			.database = MyDatabaseId,
			.toast_table = pointer->va_toastrelid,
			.value_id = pointer->va_valueid,
			.bytes = VARATT_EXTERNAL_GET_EXTSIZE(*pointer),
			.pid = MyProcPid,
			.transaction = MyProc->vxid.lxid,
			.command = GetCurrentCommandId(false),
			.operation = data != NULL ? TRACE_PUT : TRACE_DELETE,
			.session_start = MyStartTimestamp,
	};
	if (data != NULL)
		record->hash = hash_bytes_extended((const unsigned char *) data, (int) record->bytes, 0);
	INIT_CRC32C(record->crc);
	COMP_CRC32C(record->crc, &record->time, sizeof(*record) - offsetof(TraceRecord, time));
	FIN_CRC32C(record->crc);
}

static int
open_trace(void)
{
	const int	flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | PG_BINARY;
	char		path[MAXPGPATH];
	int			fd;

	snprintf(path, sizeof(path), "%s/%s", TRACE_DIRECTORY, ls_trace_values);
	fd = BasicOpenFile(path, flags);
	if (fd < 0 && errno == ENOENT)
	{
		/* another session may have made it meanwhile */
		(void) MakePGDirectory(TRACE_DIRECTORY);
		fd = BasicOpenFile(path, flags);
	}
	return fd;
}

/* False, with errno: it was not written.  *end: where in the file. */
static bool
append(int fd, const TraceRecord *record, off_t *end)
{
	ssize_t		written;

	errno = 0;
	written = write(fd, record, sizeof(*record));
	if (written == sizeof(*record))
	{
		/* where O_APPEND has put it: other sessions may have written since the size was read */
		*end = lseek(fd, 0, SEEK_CUR);
		return true;
	}
	/* a write that is cut short means so */
	if (written >= 0)
		errno = ENOSPC;
	return false;
}

/* False, with errno: neither written nor full.  *filled: by this record, and by no other. */
static bool
write_record(int fd, const struct varatt_external *pointer, const char *data, bool *filled)
{
	const off_t limit = (off_t) ls_trace_values_size_kb * 1024;
	const off_t bytes = sizeof(TraceRecord);
	TraceRecord record;
	struct stat before;
	off_t		end = 0;

	if (fstat(fd, &before) != 0)
		return false;
	if (before.st_size + bytes > limit)
		return true;
	fill_in(&record, pointer, data);
	if (!append(fd, &record, &end))
		return false;
	*filled = end <= limit && end + bytes > limit;
	return true;
}

/*
 * The file is opened for each record: a session that kept it open would have to learn that the
 * setting was changed, or the file moved away.
 */
void
ls_value_trace_write(const struct varatt_external *pointer, const char *data)
{
	bool		written;
	bool		filled = false;
	int			write_errno;
	int			fd;

	if (strcmp(failed_trace, ls_trace_values) == 0)
		return;
	fd = open_trace();
	if (fd < 0)
	{
		give_up("open");
		return;
	}
	written = write_record(fd, pointer, data, &filled);
	write_errno = errno;
	close(fd);
	if (!written)
	{
		errno = write_errno;
		give_up("write");
	}
	if (filled)
		ereport(LOG,
				(errmsg("trace of values \"%s\" has reached leanstore.trace_values_size (%d kB)",
						ls_trace_values, ls_trace_values_size_kb),
				 errdetail("Nothing more is added to it.")));
}
