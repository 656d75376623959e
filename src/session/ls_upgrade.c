/*
 * ls_upgrade.c - leanstore tables under pg_upgrade.
 *
 * pg_upgrade gives the old cluster's relation files to the new one, and the old cluster's store
 * belongs to them.  It copies no other directory of the data directory than some of the server's
 * own; pg_xact is one that it copies whole, with all that is in it.  So the old server leaves there
 * what the new one needs,
 *
 *     pg_xact/leanstore_am/store	the store (engine/recovery/handover.hpp)
 *     pg_xact/leanstore_am/OID		of a database: what its dump does not tell of indexes and enums
 *
 * and the new server takes the store over when pg_upgrade starts it next, before it makes any
 * relation.  The server itself passes over a name there that is none of a segment.
 *
 * pg_upgrade starts both servers in a mode of its own (IsBinaryUpgrade), each several times.  They
 * tell themselves apart by what they find: a store that is their own, or none, or another one.  All
 * of this goes with the next start in another mode.
 */
#include "postgres.h"

#include "ls_session_internal.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "common/file_utils.h"
#include "storage/fd.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#define HANDOVER_DIRECTORY "pg_xact/leanstore_am"
#define STORE_FILE HANDOVER_DIRECTORY "/store"

/* The last line of a database's notes: they are whole. */
#define NOTES_END "end\n"

static void
make_directory(int elevel)
{
	if (mkdir(HANDOVER_DIRECTORY, pg_dir_create_mode) == 0)
		fsync_fname("pg_xact", true);
	else if (errno != EEXIST)
		ereport(elevel,
				(errcode_for_file_access(),
				 errmsg("could not create directory \"%s\": %m", HANDOVER_DIRECTORY)));
}

/* ---- the store -------------------------------------------------------------- */

void
ls_upgrade_look(void)
{
	ls_error   *error = &ls_shared->upgrade_error;

	if (IsBinaryUpgrade && access(STORE_FILE, F_OK) == 0 &&
		(ls_store_take(ls_shared->store, STORE_FILE, &ls_shared->upgrade_taken, error) != LS_OK ||
		 ls_shared->upgrade_taken))
	{
		if (ls_shared->upgrade_taken)
			ereport(LOG, (errmsg("leanstore tables of the old cluster are taken over")));
		return;
	}
	if (access(HANDOVER_DIRECTORY, F_OK) == 0)
		(void) rmtree(HANDOVER_DIRECTORY, true);
}

void
ls_upgrade_leave(void)
{
	ls_error	error = {0};

	if (!IsBinaryUpgrade || ls_shared->upgrade_taken)
		return;
	make_directory(LOG);
	if (ls_store_leave(ls_shared->store, STORE_FILE, &error) != LS_OK)
		ereport(LOG,
				(errmsg("pg_upgrade cannot take over leanstore tables: %s", ls_error_text(&error)),
				 error.path[0] ? errdetail("File \"%s\".", error.path) : 0));
}

void
ls_upgrade_refuse(const char *table)
{
	const ls_error *error = &ls_shared->upgrade_error;

	if (!IsBinaryUpgrade || ls_shared->upgrade_taken)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot use leanstore table \"%s\" in a server that pg_upgrade has started",
					table),
			 error->status != LS_OK
			 ? errdetail("The store of the old cluster cannot be taken over: %s.",
						 ls_error_text(error))
			 : errdetail("It has no store of an old cluster."),
			 errhint("Let both clusters have this version of leanstore_am, see the logs of their "
					 "servers, and run pg_upgrade again with a new cluster.")));
}

/* ---- notes on a database ---------------------------------------------------- */

static const char *
notes_path(void)
{
	return psprintf("%s/%u", HANDOVER_DIRECTORY, MyDatabaseId);
}

bool
ls_upgrade_wants_notes(void)
{
	return IsBinaryUpgrade && !ls_shared->upgrade_taken && access(notes_path(), F_OK) != 0;
}

void
ls_upgrade_note_index(StringInfo notes, Oid index, const uint16 *forms, int n)
{
	appendStringInfo(notes, "index %u", index);
	for (int i = 0; i < n; i++)
		appendStringInfo(notes, " %u", forms[i]);
	appendStringInfoChar(notes, '\n');
}

void
ls_upgrade_note_enum(StringInfo notes, Oid value, float4 position)
{
	appendStringInfo(notes, "enum %u %.9g\n", value, position);
}

void
ls_upgrade_leave_notes(StringInfo notes)
{
	const char *path = notes_path();
	char	   *temporary = psprintf("%s.%d", path, MyProcPid);

	appendStringInfoString(notes, NOTES_END);
	make_directory(ERROR);
	ls_leave_file(temporary, notes->data);
	durable_rename(temporary, path, ERROR);
}

/* What was noted of an object of this database, in the new cluster. */
typedef struct Note
{
	Oid			object;			/* hash key */
	bool		is_index;
	uint16		forms[INDEX_MAX_KEYS];
	float4		position;
} Note;

static HTAB *known_notes = NULL;

static void
read_line(HTAB *notes, char *line)
{
	const bool	is_index = strncmp(line, "index ", 6) == 0;
	char	   *at = line + strlen(is_index ? "index " : "enum ");
	const Oid	object = strtoul(at, &at, 10);
	Note	   *note = hash_search(notes, &object, HASH_ENTER, NULL);

	memset(note, 0, sizeof(*note));
	note->object = object;
	note->is_index = is_index;
	if (!is_index)
		note->position = strtof(at, NULL);
	for (int i = 0; is_index && i < INDEX_MAX_KEYS && *at == ' '; i++)
		note->forms[i] = strtoul(at, &at, 10);
}

/* None: the old cluster has noted nothing of this database. */
static HTAB *
read_notes(void)
{
	HASHCTL		control = {.keysize = sizeof(Oid),
					   .entrysize = sizeof(Note),
					   .hcxt = TopMemoryContext};
	HTAB	   *notes = hash_create("leanstore notes", 64, &control,
									HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	const char *path = notes_path();
	FILE	   *file = AllocateFile(path, "r");
	char		line[1024];
	bool		whole = false;

	if (file == NULL && errno == ENOENT)
		return notes;
	if (file == NULL)
		ereport(ERROR,
				(errcode_for_file_access(), errmsg("could not open file \"%s\": %m", path)));
	while (!whole && fgets(line, sizeof(line), file) != NULL)
	{
		whole = strcmp(line, NOTES_END) == 0;
		if (!whole)
			read_line(notes, line);
	}
	FreeFile(file);
	if (!whole)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED), errmsg("file \"%s\" is not whole", path)));
	return notes;
}

static const Note *
find_note(Oid object, bool is_index)
{
	const Note *note;

	if (!IsBinaryUpgrade || !ls_shared->upgrade_taken)
		return NULL;
	if (known_notes == NULL)
		known_notes = read_notes();
	note = hash_search(known_notes, &object, HASH_FIND, NULL);
	return note != NULL && note->is_index == is_index ? note : NULL;
}

const uint16 *
ls_upgrade_forms(Oid index)
{
	const Note *note = find_note(index, true);

	return note == NULL ? NULL : note->forms;
}

const float4 *
ls_upgrade_position(Oid enum_value)
{
	const Note *note = find_note(enum_value, false);

	return note == NULL ? NULL : &note->position;
}
