/*
 * ls_leap_delegate.c - the other way: the call goes to the node that owns the keys.
 *
 * It runs there as a transaction of its own, so only a statement that is a transaction by itself
 * may send it; within a transaction block, or where leap keys are held already, keys come here as
 * ever.  leap.delegation = auto chooses by what keys were worth: ls_leap_shared.c.
 */
#include "ls_leap.h"

#include "libpq-fe.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

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
