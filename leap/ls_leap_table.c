/*
 * ls_leap_table.c - what a session knows of nodes, families and their tables; keys as text.
 *
 * A table is one of a family if it has the trigger ~leap_guard, which its relcache entry tells; the
 * rest is read from leap.member and leap.bucket, and dropped when any of these relations changes
 * (leap.changed() says so for their contents).
 */
#include "ls_leap.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "common/hashfn.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

typedef struct MemberEntry
{
	Oid			relation;		/* hash key */
	int			family;			/* 0: no table of a family */
	int			member;
} MemberEntry;

static HTAB *members = NULL;
static MemoryContext context = NULL;	/* of families */
static List *families = NIL;
static List *retired = NIL;		/* contexts of stale ones: a transaction may still point to them */
static bool stale = true;
static Oid	watched = InvalidOid;	/* leap.member: its invalidation stands for all */
static int	self = 0;
static int	other_nodes = -1;	/* how many there are; -1: not read */
static int *other_node = NULL;
static uint32 version = 0;		/* counts how often they were read anew */
static uint32 changes = 0;		/* counts what may be reasons for that */

static void
invalidate(Datum arg, Oid relation)
{
	if (relation != InvalidOid && watched != InvalidOid && relation != watched &&
		(members == NULL || hash_search(members, &relation, HASH_FIND, NULL) == NULL))
		return;
	stale = true;
	changes++;
}

/* Another value than before: the module's own tables may have changed. */
uint32
leap_changes(void)
{
	return changes;
}

void
leap_table_install(void)
{
	CacheRegisterRelcacheCallback(invalidate, (Datum) 0);
}

static void
begin_anew(void)
{
	HASHCTL		control = {.keysize = sizeof(Oid),.entrysize = sizeof(MemberEntry)};
	MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);

	if (context)
		retired = lappend(retired, context);
	context = AllocSetContextCreate(TopMemoryContext, "leap families", ALLOCSET_SMALL_SIZES);
	list_free(families);
	families = NIL;
	if (members)
		hash_destroy(members);
	members = hash_create("leap tables", 64, &control, HASH_ELEM | HASH_BLOBS);
	watched = get_relname_relid("member", get_namespace_oid("leap", false));
	self = 0;
	other_nodes = -1;
	stale = false;
	version++;
	MemoryContextSwitchTo(before);
}

/* At the end of a transaction: nothing points to families that were stale. */
void
leap_table_at_end(void)
{
	ListCell   *cell;

	foreach(cell, retired)
		MemoryContextDelete(lfirst(cell));
	list_free(retired);
	retired = NIL;
}

uint32
leap_families_version(void)
{
	return version;
}

/*
 * Runs a SELECT of the module's own tables; the caller has entered.  It sees what is committed now,
 * whatever the transaction's snapshot is: what it finds is kept until the next invalidation, and
 * that of a change which a snapshot does not show yet may have come already.
 */
void
leap_select_own(const char *sql, int argument)
{
	Oid			type = INT4OID;
	Datum		value = Int32GetDatum(argument);
	int			result;

	CommandCounterIncrement();
	PushActiveSnapshot(IsInParallelMode() ? GetTransactionSnapshot() : GetLatestSnapshot());
	result = SPI_execute_with_args(sql, 1, &type, &value, NULL, true, 0);
	PopActiveSnapshot();
	if (result != SPI_OK_SELECT)
		elog(ERROR, "leap: %s failed", sql);
}

static int
int_at(uint64 row, int column)
{
	bool		null;
	Datum		value = SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column,
									  &null);

	return null ? 0 : DatumGetInt32(value);
}

/* This node's number. */
int
leap_self(void)
{
	LeapInside	inside;

	if (self != 0)
		return self;
	leap_enter(&inside);
	leap_select_own("SELECT id FROM leap.self WHERE $1 = 0", 0);
	if (SPI_processed == 1)
		self = int_at(0, 1);
	leap_leave(&inside);
	if (self == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this database is no node of a leap cluster"),
				 errhint("Call leap.init() here, or leap.add_node() on a node of the cluster.")));
	return self;
}

/* The other nodes, and how many they are; the array lasts as long as the transaction. */
int
leap_other_nodes(int **nodes)
{
	LeapInside	inside;

	if (stale && !leap_is_inside())
		begin_anew();
	if (other_nodes < 0)
	{
		int			me = leap_self();
		int			n;

		leap_enter(&inside);
		leap_select_own("SELECT id FROM leap.node WHERE id <> $1 ORDER BY id", me);
		n = (int) SPI_processed;
		other_node = MemoryContextAlloc(context, sizeof(int) * Max(n, 1));
		for (int i = 0; i < n; i++)
			other_node[i] = int_at(i, 1);
		leap_leave(&inside);
		other_nodes = n;
	}
	*nodes = other_node;
	return other_nodes;
}

/* --- Families --- */

/* The key's columns from their names. */
static void
find_columns(LeapMember *member, ArrayType *names)
{
	Datum	   *name;
	int			count;

	deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &name, NULL, &count);
	if (count < 1 || count > LEAP_MAX_COLUMNS)
		elog(ERROR, "leap: a key of %d columns", count);
	member->columns = count;
	for (int i = 0; i < count; i++)
	{
		char	   *column = TextDatumGetCString(name[i]);

		member->attnum[i] = get_attnum(member->relation, column);
		if (member->attnum[i] == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("column \"%s\" of the key of leap table \"%s\" does not exist",
							column, get_rel_name(member->relation))));
		member->type[i] = get_atttype(member->relation, member->attnum[i]);
	}
}

static LeapFamily *
read_family(int id)
{
	LeapFamily *family = MemoryContextAllocZero(context, sizeof(LeapFamily));

	family->id = id;
	leap_select_own("SELECT (frozen_since IS NOT NULL)::int, home_columns FROM leap.family"
					" WHERE id = $1", id);
	if (SPI_processed == 1)
	{
		family->is_frozen = int_at(0, 1) != 0;
		family->home_columns = int_at(0, 2);
	}
	leap_select_own("SELECT node FROM leap.bucket WHERE family = $1 ORDER BY bucket", id);
	family->buckets = (int) SPI_processed;
	if (family->buckets == 0)
		elog(ERROR, "leap: family %d has no buckets", id);
	family->home = MemoryContextAlloc(context, sizeof(int) * family->buckets);
	for (int i = 0; i < family->buckets; i++)
		family->home[i] = int_at(i, 1);

	leap_select_own("SELECT relation::oid, columns FROM leap.member WHERE family = $1"
			   " ORDER BY ordinal", id);
	family->members = (int) SPI_processed;
	family->member = MemoryContextAllocZero(context, sizeof(LeapMember) * family->members);
	for (int i = 0; i < family->members; i++)
	{
		LeapMember *member = &family->member[i];
		bool		null;

		member->family = family;
		member->ordinal = i;
		member->relation = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[i],
														  SPI_tuptable->tupdesc, 1, &null));
		find_columns(member, DatumGetArrayTypeP(SPI_getbinval(SPI_tuptable->vals[i],
															  SPI_tuptable->tupdesc, 2, &null)));
	}
	return family;
}

LeapFamily *
leap_family(int id)
{
	ListCell   *cell;
	LeapInside	inside;
	LeapFamily *family;
	MemoryContext before;

	if (stale && !leap_is_inside())
		begin_anew();
	Assert(context != NULL);
	foreach(cell, families)
	{
		family = lfirst(cell);
		if (family->id == id)
			return family;
	}
	leap_enter(&inside);
	family = read_family(id);
	before = MemoryContextSwitchTo(context);
	families = lappend(families, family);
	MemoryContextSwitchTo(before);
	leap_leave(&inside);
	return family;
}

/*
 * Looks at families anew, of keys that are locked now.  True: one of them is frozen.  Freezing
 * waits for transactions that have locks of keys, so one that has them and sees none frozen may go
 * on.
 */
bool
leap_refresh_families(LeapWanted *wanted, int n)
{
	bool		is_frozen = false;

	AcceptInvalidationMessages();
	for (int i = 0; i < n; i++)
	{
		wanted[i].family = leap_family(wanted[i].family->id);
		is_frozen |= wanted[i].family->is_frozen;
	}
	return is_frozen;
}

/* Has the relation the trigger that leap.create() makes? */
static bool
has_guard(Oid relation)
{
	Relation	rel = try_relation_open(relation, AccessShareLock);
	bool		found = false;

	if (rel == NULL)
		return false;
	if (rel->trigdesc)
		for (int i = 0; i < rel->trigdesc->numtriggers && !found; i++)
			found = strcmp(rel->trigdesc->triggers[i].tgname, "~leap_guard") == 0;
	relation_close(rel, AccessShareLock);
	return found;
}

/* The family's table that this relation is, or NULL.  The caller has it locked. */
LeapMember *
leap_member_of(Oid relation)
{
	MemberEntry *entry;
	bool		found;

	if (relation < FirstNormalObjectId)
		return NULL;
	if (stale && !leap_is_inside())
	{
		if (!OidIsValid(get_namespace_oid("leap", true)))
			return NULL;
		begin_anew();
	}
	entry = hash_search(members, &relation, HASH_FIND, NULL);
	if (entry == NULL)
	{
		int			family = 0;
		int			ordinal = 0;

		if (has_guard(relation))
		{
			LeapInside	inside;

			leap_enter(&inside);
			leap_select_own("SELECT family, (SELECT count(*)::int FROM leap.member o"
					   " WHERE o.family = m.family AND o.ordinal < m.ordinal)"
					   " FROM leap.member m WHERE relation = $1::oid", (int) relation);
			if (SPI_processed == 1)
			{
				family = int_at(0, 1);
				ordinal = int_at(0, 2);
			}
			leap_leave(&inside);
		}
		entry = hash_search(members, &relation, HASH_ENTER, &found);
		entry->family = family;
		entry->member = ordinal;
	}
	if (entry->family == 0)
		return NULL;
	return &leap_family(entry->family)->member[entry->member];
}

/* --- Keys --- */

uint64
leap_hash(LeapFamily *family, const char *key)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) key, (int) strlen(key),
										   (uint64) family->id);

	return hash == 0 ? 1 : hash;
}

/*
 * The hash that names a key's home.  By some columns it is the same for all families that have the
 * same number of those, so that their rows have one home; one column counts as it is, whether or
 * not there are others behind it.
 */
static uint64
place_of(LeapFamily *family, const char *key)
{
	StringInfoData part;
	int			left = family->home_columns;

	if (left == 0)
		return leap_hash(family, key);
	initStringInfo(&part);
	for (const char *at = key; *at; at++)
	{
		if (family->member[0].columns > 1 && *at == ',' && --left == 0)
			break;
		if (family->member[0].columns > 1 && *at == '\\' && at[1])
		{
			if (family->home_columns > 1)
				appendStringInfoChar(&part, *at);
			at++;
		}
		appendStringInfoChar(&part, *at);
	}
	return hash_bytes_extended((const unsigned char *) part.data, part.len, 0);
}

static int
bucket_of(LeapFamily *family, const char *key)
{
	return (int) ((place_of(family, key) >> 7) % family->buckets);
}

/* The node that keeps the directory entry of a key, and owns it as long as there is none. */
int
leap_home(LeapFamily *family, const char *key)
{
	return family->home[bucket_of(family, key)];
}

static void
append_column(StringInfo text, const char *value)
{
	for (const char *c = value; *c; c++)
	{
		if (*c == ',' || *c == '\\')
			appendStringInfoChar(text, '\\');
		appendStringInfoChar(text, *c);
	}
}

/* Values of the key's columns as one text; equal keys give equal text, for leap.create(). */
char *
leap_key_text(LeapMember *member, char **parts)
{
	StringInfoData text;

	if (member->columns == 1)
		return parts[0];
	initStringInfo(&text);
	for (int i = 0; i < member->columns; i++)
	{
		if (i > 0)
			appendStringInfoChar(&text, ',');
		append_column(&text, parts[i]);
	}
	return text.data;
}

/* A key as a user wrote it, as leap_key_text() would: '07' of an integer is '7'. */
char *
leap_canonical_key(LeapMember *member, const char *text)
{
	char	   *values[LEAP_MAX_COLUMNS];
	const char *at = text;

	for (int i = 0; i < member->columns; i++)
	{
		StringInfoData part;
		Oid			input;
		Oid			output;
		Oid			parameter;
		bool		varlena;

		initStringInfo(&part);
		for (; *at && (*at != ',' || member->columns == 1); at++)
		{
			if (*at == '\\' && member->columns > 1 && at[1])
				at++;
			appendStringInfoChar(&part, *at);
		}
		if ((*at == ',') != (i < member->columns - 1))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"%s\" is no key of leap table \"%s\"", text,
							get_rel_name(member->relation)),
					 errhint("A key of several columns is written as 1,2.")));
		if (*at == ',')
			at++;
		getTypeInputInfo(member->type[i], &input, &parameter);
		getTypeOutputInfo(member->type[i], &output, &varlena);
		values[i] = OidOutputFunctionCall(output, OidInputFunctionCall(input, part.data,
																	   parameter, -1));
	}
	return leap_key_text(member, values);
}

/* --- SQL --- */

PG_FUNCTION_INFO_V1(leap_changed);
PG_FUNCTION_INFO_V1(leap_home_of);
PG_FUNCTION_INFO_V1(leap_bucket_of);

/* leap.changed(): tells all sessions that the contents of the module's tables have changed. */
Datum
leap_changed(PG_FUNCTION_ARGS)
{
	CacheInvalidateRelcacheByRelid(get_relname_relid("member", get_namespace_oid("leap", false)));
	CommandCounterIncrement();
	PG_RETURN_VOID();
}

/* leap.home(family, key): the node that keeps the directory entry of a key. */
Datum
leap_home_of(PG_FUNCTION_ARGS)
{
	LeapFamily *family = leap_family(PG_GETARG_INT32(0));

	PG_RETURN_INT32(leap_home(family, text_to_cstring(PG_GETARG_TEXT_PP(1))));
}

Datum
leap_bucket_of(PG_FUNCTION_ARGS)
{
	LeapFamily *family = leap_family(PG_GETARG_INT32(0));

	PG_RETURN_INT32(bucket_of(family, text_to_cstring(PG_GETARG_TEXT_PP(1))));
}
