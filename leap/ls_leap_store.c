/*
 * ls_leap_store.c - what a node keeps of keys (leap.key), and a unit's rows, taken and put.
 *
 * LEAP-1: a node owns a key if its row of leap.key says so, or if it is the key's home and has no
 * row.  That row and the unit's rows change in one local transaction, in the hand-over and in the
 * arrival.
 *
 * Statements are prepared once a session.  Those that take and put rows run as the table's owner,
 * and fire no trigger (ls_leap_module.c): the unit moves, it does not change.
 */
#include "ls_leap.h"

#include "access/xact.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "access/relation.h"
#include "access/htup_details.h"
#include "utils/syscache.h"

/* --- Prepared statements, by their text --- */

#define SQL_LENGTH 64

typedef struct Prepared
{
	uint64		hash;			/* hash key: of the text */
	SPIPlanPtr	plan;
} Prepared;

static HTAB *prepared = NULL;

static SPIPlanPtr
prepare(const char *sql, int arguments, Oid *types)
{
	HASHCTL		control = {.keysize = sizeof(uint64),.entrysize = sizeof(Prepared)};
	uint64		hash = hash_bytes_extended((const unsigned char *) sql, (int) strlen(sql), 0);
	Prepared   *entry;

	if (prepared == NULL)
		prepared = hash_create("leap statements", SQL_LENGTH, &control, HASH_ELEM | HASH_BLOBS);
	entry = hash_search(prepared, &hash, HASH_FIND, NULL);
	if (entry == NULL)
	{
		/* For its array a plan for known values would be thought cheaper, and made each time. */
		SPIPlanPtr	plan = SPI_prepare_cursor(sql, arguments, types, CURSOR_OPT_GENERIC_PLAN);

		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "leap: cannot prepare %s", sql);
		entry = hash_search(prepared, &hash, HASH_ENTER, NULL);
		entry->plan = plan;
	}
	return entry->plan;
}

/* --- Reading --- */

static ArrayType *
keys_of(LeapWanted *wanted, int n)
{
	Datum	   *key = palloc(sizeof(Datum) * n);

	for (int i = 0; i < n; i++)
		key[i] = CStringGetTextDatum(wanted[i].key);
	return construct_array(key, n, TEXTOID, -1, false, TYPALIGN_INT);
}

static void
fill_state(LeapState *state, HeapTuple row, TupleDesc desc, MemoryContext into)
{
	bool		null;
	Datum		value;

	state->known = true;
	state->owner = DatumGetInt32(SPI_getbinval(row, desc, 2, &null));
	state->epoch = DatumGetInt64(SPI_getbinval(row, desc, 3, &null));
	state->since = DatumGetTimestampTz(SPI_getbinval(row, desc, 4, &null));
	state->has_payload = DatumGetBool(SPI_getbinval(row, desc, 5, &null));
	value = SPI_getbinval(row, desc, 6, &null);
	if (!null)
		state->payload = MemoryContextStrdup(into, TextDatumGetCString(value));
}

/* Reads the rows of leap.key of wanted keys, all of one family, as a snapshot shows them. */
static void
read_family_keys(LeapWanted *wanted, int n, bool payload, Snapshot snapshot)
{
	static const char *const sql =
		"SELECT key, owner, epoch, since, payload IS NOT NULL,"
		" CASE WHEN $3 THEN payload::text END"
		" FROM leap.key WHERE family = $1 AND key = ANY ($2)";
	Oid			types[3] = {INT4OID, TEXTARRAYOID, BOOLOID};
	Datum		values[3] = {Int32GetDatum(wanted[0].family->id),
	PointerGetDatum(keys_of(wanted, n)), BoolGetDatum(payload)};
	MemoryContext into = CurrentMemoryContext;
	LeapInside	inside;

	leap_enter(&inside);
	if (SPI_execute_snapshot(prepare(sql, 3, types), values, NULL, snapshot, InvalidSnapshot,
							 true, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "leap: cannot read leap.key");
	for (uint64 row = 0; row < SPI_processed; row++)
	{
		char	   *key = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, 1);

		for (int i = 0; i < n; i++)
			if (strcmp(wanted[i].key, key) == 0)
				fill_state(&wanted[i].state, SPI_tuptable->vals[row], SPI_tuptable->tupdesc,
						   into);
	}
	leap_leave(&inside);
}

static void
read_with(LeapWanted *wanted, int n, bool payload, Snapshot snapshot)
{
	int			begin = 0;

	for (int i = 0; i < n; i++)
		memset(&wanted[i].state, 0, sizeof(LeapState));
	for (int end = 1; end <= n; end++)
		if (end == n || wanted[end].family != wanted[begin].family)
		{
			read_family_keys(&wanted[begin], end - begin, payload, snapshot);
			begin = end;
		}
	for (int i = 0; i < n; i++)
		if (!wanted[i].state.known && leap_home(wanted[i].family, wanted[i].key) == leap_self())
			wanted[i].state.owner = leap_self();
}

/* The newest state of each key; wanted keys of one family are beside each other. */
void
leap_read(LeapWanted *wanted, int n, bool payload)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	read_with(wanted, n, payload, snapshot);
	UnregisterSnapshot(snapshot);
}

/* Does a snapshot show the keys as they are: has none of them come or gone since? */
bool
leap_snapshot_agrees(LeapWanted *wanted, int n, Snapshot snapshot)
{
	LeapWanted *then = palloc(sizeof(LeapWanted) * n);

	memcpy(then, wanted, sizeof(LeapWanted) * n);
	read_with(then, n, false, snapshot);
	for (int i = 0; i < n; i++)
		if (then[i].state.owner != wanted[i].state.owner ||
			then[i].state.epoch != wanted[i].state.epoch)
			return false;
	return true;
}

/* --- Writing --- */

/*
 * LEAP-2: the epoch of a key's row only grows.  A row that is not older than what is written is an
 * error, as the lock of the key should have kept it away.
 */
void
leap_write(LeapWanted *wanted, int owner, int64 epoch, const char *payload)
{
	static const char *const sql =
		"INSERT INTO leap.key AS k (family, key, owner, epoch, told, since, payload)"
		" VALUES ($1, $2, $3, $4, $5, pg_catalog.clock_timestamp(), $6::text[])"
		" ON CONFLICT (family, key) DO UPDATE SET owner = excluded.owner,"
		" epoch = excluded.epoch, told = excluded.told, since = excluded.since,"
		" payload = excluded.payload WHERE k.epoch < excluded.epoch";
#ifdef LS_DEBUG_CHECKS
	static const char *const unchecked =
		"INSERT INTO leap.key AS k (family, key, owner, epoch, told, since, payload)"
		" VALUES ($1, $2, $3, $4, $5, pg_catalog.clock_timestamp(), $6::text[])"
		" ON CONFLICT (family, key) DO UPDATE SET owner = excluded.owner,"
		" epoch = excluded.epoch, told = excluded.told, since = excluded.since,"
		" payload = excluded.payload";
#else
	static const char *const unchecked = NULL;
#endif
	Oid			types[6] = {INT4OID, TEXTOID, INT4OID, INT8OID, BOOLOID, TEXTOID};
	bool		told = owner != leap_self() || leap_home(wanted->family, wanted->key) == owner;
	Datum		values[6] = {Int32GetDatum(wanted->family->id),
		CStringGetTextDatum(wanted->key), Int32GetDatum(owner), Int64GetDatum(epoch),
	BoolGetDatum(told), payload ? CStringGetTextDatum(payload) : (Datum) 0};
	char		nulls[6] = {' ', ' ', ' ', ' ', ' ', payload ? ' ' : 'n'};
	LeapInside	inside;

	leap_enter(&inside);
	if (SPI_execute_plan(prepare(LEAP_IS_PLANTED(IGNORE_EPOCHS) ||
								 LEAP_IS_PLANTED(SAME_EPOCH) ? unchecked : sql, 6, types),
						 values, nulls, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "leap: cannot write leap.key");
	if (SPI_processed != 1)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("leap key \"%s\" of epoch %lld has come twice", wanted->key,
						(long long) epoch)));
	leap_leave(&inside);
}

/* --- Rows --- */

static void
append_key_conditions(StringInfo sql, LeapMember *member)
{
	for (int i = 0; i < member->columns; i++)
		appendStringInfo(sql, "%st.%s = $1[%d]::%s", i > 0 ? " AND " : "",
						 quote_identifier(get_attname(member->relation, member->attnum[i], false)),
						 i + 1, format_type_be_qualified(member->type[i]));
}

static char *
qualified_name(Oid relation)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)),
									  get_rel_name(relation));
}

static const char *
take_statement(LeapMember *member)
{
	StringInfoData sql;

	if (member->take)
		return member->take;
	initStringInfo(&sql);
	if (LEAP_IS_PLANTED(KEEP_ROWS))
		appendStringInfo(&sql, "SELECT (t.*)::text FROM ONLY %s t WHERE ",
						 qualified_name(member->relation));
	else
		appendStringInfo(&sql, "DELETE FROM ONLY %s t WHERE ", qualified_name(member->relation));
	append_key_conditions(&sql, member);
	if (!LEAP_IS_PLANTED(KEEP_ROWS))
		appendStringInfoString(&sql, " RETURNING (t.*)::text");
	member->take = MemoryContextStrdup(GetMemoryChunkContext(member->family), sql.data);
	return member->take;
}

static const char *
put_statement(LeapMember *member)
{
	StringInfoData into;
	StringInfoData from;
	Relation	rel = relation_open(member->relation, AccessShareLock);
	char	   *name = qualified_name(member->relation);

	if (member->put == NULL)
	{
		initStringInfo(&into);
		initStringInfo(&from);
		for (int i = 0; i < rel->rd_att->natts; i++)
		{
			Form_pg_attribute column = TupleDescAttr(rel->rd_att, i);

			if (column->attisdropped || column->attgenerated)
				continue;
			appendStringInfo(&into, "%s%s", into.len ? ", " : "",
							 quote_identifier(NameStr(column->attname)));
			appendStringInfo(&from, "%s(r.t).%s", from.len ? ", " : "",
							 quote_identifier(NameStr(column->attname)));
		}
		member->put = MemoryContextStrdup(GetMemoryChunkContext(member->family),
										  psprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE"
												   " SELECT %s FROM (SELECT u::%s AS t FROM"
												   " pg_catalog.unnest($1) u OFFSET 0) r",
												   name, into.data, from.data, name));
	}
	relation_close(rel, AccessShareLock);
	return member->put;
}

/* Runs a statement on a member's rows, as the table's owner. */
static void
run_on_rows(LeapMember *member, const char *sql, ArrayType *argument)
{
	Oid			type = TEXTARRAYOID;
	Datum		value = PointerGetDatum(argument);
	Oid			user;
	int			security;
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(member->relation));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "leap: no table %u", member->relation);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(owner, security | SECURITY_RESTRICTED_OPERATION |
						   SECURITY_NOFORCE_RLS);
	if (SPI_execute_plan(prepare(sql, 1, &type), &value, NULL, false, 0) < 0)
		elog(ERROR, "leap: %s failed", sql);
	SetUserIdAndSecContext(user, security);
}

/* The columns of a key as a text[]. */
static ArrayType *
columns_of(LeapMember *member, const char *key)
{
	Datum		part[LEAP_MAX_COLUMNS];
	const char *at = key;

	if (member->columns == 1)
		part[0] = CStringGetTextDatum(key);
	else
		for (int i = 0; i < member->columns; i++)
		{
			StringInfoData text;

			initStringInfo(&text);
			for (; *at && *at != ','; at++)
			{
				if (*at == '\\' && at[1])
					at++;
				appendStringInfoChar(&text, *at);
			}
			if (*at == ',')
				at++;
			part[i] = CStringGetTextDatum(text.data);
		}
	return construct_array(part, member->columns, TEXTOID, -1, false, TYPALIGN_INT);
}

/* Deletes a unit's rows, children first; returns them as text of a text[], "ordinal:row" each. */
char *
leap_take_rows(LeapWanted *wanted)
{
	LeapFamily *family = wanted->family;
	MemoryContext into = CurrentMemoryContext;
	ArrayBuildState *rows = NULL;
	LeapInside	inside;
	Oid			output;
	bool		varlena;

	leap_enter(&inside);
	for (int m = family->members - 1; m >= 0; m--)
	{
		LeapMember *member = &family->member[m];

		if (LEAP_IS_PLANTED(LOSE_CHILDREN) && m > 0)
			continue;
		run_on_rows(member, take_statement(member), columns_of(member, wanted->key));
		for (uint64 i = 0; i < SPI_processed; i++)
		{
			char	   *row = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);

			rows = accumArrayResult(rows, CStringGetTextDatum(psprintf("%d:%s", m, row)),
									false, TEXTOID, into);
		}
	}
	leap_leave(&inside);
	if (rows == NULL)
		return pstrdup("{}");
	getTypeOutputInfo(TEXTARRAYOID, &output, &varlena);
	return OidOutputFunctionCall(output, makeArrayResult(rows, into));
}

/* Inserts a unit's rows, as they were fetched, parents first. */
void
leap_put_rows(LeapWanted *wanted)
{
	LeapFamily *family = wanted->family;
	Oid			input;
	Oid			parameter;
	Datum	   *row;
	int			count;
	LeapInside	inside;

	if (strcmp(wanted->payload, "{}") == 0)
		return;
	getTypeInputInfo(TEXTARRAYOID, &input, &parameter);
	deconstruct_array(DatumGetArrayTypeP(OidInputFunctionCall(input, wanted->payload, parameter,
															  -1)),
					  TEXTOID, -1, false, TYPALIGN_INT, &row, NULL, &count);
	leap_enter(&inside);
	for (int m = 0; m < family->members; m++)
	{
		Datum	   *ours = palloc(sizeof(Datum) * count);
		int			n = 0;

		for (int i = 0; i < count; i++)
		{
			char	   *entry = TextDatumGetCString(row[i]);

			if (atoi(entry) == m)
				ours[n++] = CStringGetTextDatum(strchr(entry, ':') + 1);
		}
		if (n > 0)
			run_on_rows(&family->member[m], put_statement(&family->member[m]),
						construct_array(ours, n, TEXTOID, -1, false, TYPALIGN_INT));
	}
	leap_leave(&inside);
}
