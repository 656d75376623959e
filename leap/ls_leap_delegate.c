/*
 * ls_leap_delegate.c - the other way: the call goes to the node that owns the keys; and all rows of
 * a table, which each node tells.
 *
 * It runs there as a transaction of its own, so only a statement that is a transaction by itself
 * may send it; within a transaction block, or where leap keys are held already, keys come here as
 * ever.  leap.delegation = auto chooses by what keys were worth: ls_leap_shared.c.
 *
 * The connection is the nodes' own, with more rights than the caller's.  So the function runs
 * there as the caller's role, within a local change of user, as a security-definer function does:
 * SET ROLE is refused.
 */
#include "ls_leap.h"

#include "libpq-fe.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/regproc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

static bool
should_call(LeapWanted *wanted, int n)
{
	int			missing = 0;
	int			calls = 0;

	if (leap_delegation == LEAP_DELEGATION_NEVER || n == 0 || IsTransactionBlock() ||
		leap_holds_keys())
		return false;
	leap_read(wanted, n, false);
	for (int i = 0; i < n; i++)
		if (wanted[i].state.owner != leap_self())
		{
			missing++;
			calls += leap_delegation == LEAP_DELEGATION_ALWAYS ||
				leap_should_call(wanted[i].hash);
		}
	return missing > 0 && 2 * calls > missing;
}

PG_FUNCTION_INFO_V1(leap_missing);
PG_FUNCTION_INFO_V1(leap_delegate);
PG_FUNCTION_INFO_V1(leap_peer_run);
PG_FUNCTION_INFO_V1(leap_peer_rows);
PG_FUNCTION_INFO_V1(leap_rows_of);

/* leap.missing(table, keys): the family, the keys in canonical form, should the call go to them? */
Datum
leap_missing(PG_FUNCTION_ARGS)
{
	int			n;
	LeapWanted *wanted = leap_read_keys(PG_GETARG_OID(0), PG_GETARG_ARRAYTYPE_P(1), &n);
	ArrayBuildState *keys = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3] = {false, false, false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "leap: no record is expected");
	for (int i = 0; i < n; i++)
		keys = accumArrayResult(keys, CStringGetTextDatum(wanted[i].key), false, TEXTOID,
								CurrentMemoryContext);
	values[0] = Int32GetDatum(n > 0 ? wanted[0].family->id : 0);
	values[1] = makeArrayResult(keys, CurrentMemoryContext);
	values[2] = BoolGetDatum(should_call(wanted, n));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

static char *
as_text(FunctionCallInfo fcinfo, int argument, Oid type)
{
	Oid			output;
	bool		varlena;

	getTypeOutputInfo(type, &output, &varlena);
	return OidOutputFunctionCall(output, PG_GETARG_DATUM(argument));
}

/* leap.delegate(target, function, args, family, keys): the other node takes this session's role. */
Datum
leap_delegate(PG_FUNCTION_ARGS)
{
	LeapCall	call = {.node = PG_GETARG_INT32(0),
		.sql = "SELECT leap.peer_run($1, $2::text[], $3::int, $4::text[], $5)",
	.params = 5};

	if (IsTransactionBlock())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("leap.delegate() runs outside of transaction blocks")));
	call.param[0] = text_to_cstring(PG_GETARG_TEXT_PP(1));
	call.param[1] = as_text(fcinfo, 2, TEXTARRAYOID);
	call.param[2] = psprintf("%d", PG_GETARG_INT32(3));
	call.param[3] = as_text(fcinfo, 4, TEXTARRAYOID);
	call.param[4] = GetUserNameFromId(GetUserId(), false);
	leap_count(LEAP_CALLED, 1);
	leap_call_all(&call, 1);
	if (PQntuples(call.result) != 1 || PQgetisnull(call.result, 0, 0))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(PQgetvalue(call.result, 0, 0)));
}

/* The function's call, of which nothing is taken from the other node as it is. */
static char *
make_call(const char *name, ArrayType *args)
{
	Oid			function = DatumGetObjectId(DirectFunctionCall1(regprocin,
																CStringGetDatum(name)));
	StringInfoData sql;
	Datum	   *arg;
	bool	   *null;
	int			n;

	deconstruct_array(args, TEXTOID, -1, false, TYPALIGN_INT, &arg, &null, &n);
	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT %s(",
					 quote_qualified_identifier(get_namespace_name(get_func_namespace(function)),
												get_func_name(function)));
	for (int i = 0; i < n; i++)
		appendStringInfo(&sql, "%s%s", i > 0 ? ", " : "",
						 null[i] ? "NULL" : quote_literal_cstr(TextDatumGetCString(arg[i])));
	appendStringInfoString(&sql, ")::pg_catalog.text");
	return sql.data;
}

/* Runs a statement as a role, which it cannot leave; the first column of its only row. */
static char *
run_as(Oid role, const char *sql)
{
	MemoryContext into = CurrentMemoryContext;
	Oid			user;
	int			security;
	char	   *result = NULL;

	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(role, security | SECURITY_LOCAL_USERID_CHANGE);
	SPI_connect();
	if (SPI_execute(sql, false, 0) != SPI_OK_SELECT || SPI_processed != 1)
		ereport(ERROR,
				(errcode(ERRCODE_CARDINALITY_VIOLATION),
				 errmsg("a function that leap.run() calls returns one value")));
	result = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	if (result)
		result = MemoryContextStrdup(into, result);
	SPI_finish();
	SetUserIdAndSecContext(user, security);
	return result;
}

/* leap.peer_run(function, args, family, keys, role) */
Datum
leap_peer_run(PG_FUNCTION_ARGS)
{
	Oid			role = get_role_oid(text_to_cstring(PG_GETARG_TEXT_PP(4)), false);
	char	   *sql;
	char	   *result;

	check_can_set_role(GetUserId(), role);
	sql = make_call(text_to_cstring(PG_GETARG_TEXT_PP(0)), PG_GETARG_ARRAYTYPE_P(1));
	leap_own_texts(leap_family(PG_GETARG_INT32(2)), PG_GETARG_ARRAYTYPE_P(3));
	result = run_as(role, sql);
	if (result == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(result));
}

/* leap.peer_rows(table, role): the rows that are here, as text of an array. */
Datum
leap_peer_rows(PG_FUNCTION_ARGS)
{
	Oid			role = get_role_oid(text_to_cstring(PG_GETARG_TEXT_PP(1)), false);
	Oid			relation = DatumGetObjectId(DirectFunctionCall1(regclassin,
										CStringGetDatum(text_to_cstring(PG_GETARG_TEXT_PP(0)))));
	int			level = NewGUCNestLevel();
	char	   *rows;

	check_can_set_role(GetUserId(), role);
	if (leap_member_of(relation) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is no leap table", get_rel_name(relation))));
	(void) set_config_option("leap.scans", "local", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	rows = run_as(role, psprintf("SELECT pg_catalog.array_agg((t.*)::pg_catalog.text) FROM ONLY"
								 " %s t",
								 quote_qualified_identifier(
									 get_namespace_name(get_rel_namespace(relation)),
									 get_rel_name(relation))));
	AtEOXact_GUC(false, level);
	if (rows == NULL)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(OidFunctionCall3(F_ARRAY_IN, CStringGetDatum(rows),
									 ObjectIdGetDatum(TEXTOID), Int32GetDatum(-1)));
}

/* leap.rows_of(node, table): in this session's role. */
Datum
leap_rows_of(PG_FUNCTION_ARGS)
{
	LeapCall	call = {.node = PG_GETARG_INT32(0),
	.sql = "SELECT leap.peer_rows($1, $2)",.params = 2};
	Oid			relation = PG_GETARG_OID(1);
	char	   *rows;

	call.param[0] = quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)),
											   get_rel_name(relation));
	call.param[1] = GetUserNameFromId(GetUserId(), false);
	leap_call_all(&call, 1);
	if (PQntuples(call.result) != 1 || PQgetisnull(call.result, 0, 0))
		PG_RETURN_NULL();
	rows = PQgetvalue(call.result, 0, 0);
	PG_RETURN_DATUM(OidFunctionCall3(F_ARRAY_IN, CStringGetDatum(rows),
									 ObjectIdGetDatum(TEXTOID), Int32GetDatum(-1)));
}
