/*
 * ls_key_sql.c - keys for SQL: what sql/key_*.sql needs to compare keys with the
 * comparison procedures.
 *
 * The extension declares none of these functions: a superuser can, with
 * CREATE FUNCTION ... LANGUAGE C.  A column is described by (column of any type,
 * cmp regproc, descending bool, nulls_first bool), the first four arguments
 * of each; its collation is that of the call.
 */
#include "postgres.h"

#include "ls_key_internal.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "varatt.h"

PG_FUNCTION_INFO_V1(ls_key_sql_kind);
PG_FUNCTION_INFO_V1(ls_key_sql_encode);
PG_FUNCTION_INFO_V1(ls_key_sql_decode);
PG_FUNCTION_INFO_V1(ls_key_sql_length);
PG_FUNCTION_INFO_V1(ls_key_sql_fit);
PG_FUNCTION_INFO_V1(ls_key_sql_converted);
PG_FUNCTION_INFO_V1(ls_key_sql_learned);
PG_FUNCTION_INFO_V1(ls_key_sql_strings);
PG_FUNCTION_INFO_V1(ls_key_sql_agree);

/* What fn_extra holds. */
typedef struct CallState
{
	LsKeyColumn column;
	Oid			cmp;
	bool		usable;
} CallState;

/* The column that the arguments describe; NULL when there is no encoding. */
static const LsKeyColumn *
get_column(FunctionCallInfo fcinfo)
{
	CallState  *state = fcinfo->flinfo->fn_extra;
	Oid			cmp;
	bool		descending;
	bool		nulls_first;

	if (PG_ARGISNULL(1) || PG_ARGISNULL(2) || PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the description of a column must not be NULL")));
	cmp = PG_GETARG_OID(1);
	descending = PG_GETARG_BOOL(2);
	nulls_first = PG_GETARG_BOOL(3);

	if (state == NULL || state->cmp != cmp ||
		state->column.descending != descending || state->column.nulls_first != nulls_first)
	{
		MemoryContext caller = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

		fcinfo->flinfo->fn_extra = state = palloc0(sizeof(CallState));
		state->cmp = cmp;
		state->column.form = ls_key_recorded_form(
			ls_key_choose_form(cmp, get_fn_expr_argtype(fcinfo->flinfo, 0), PG_GET_COLLATION()));
		state->column.form.thorough = true;
		state->usable = ls_key_column_init(&state->column, cmp,
										   get_fn_expr_argtype(fcinfo->flinfo, 0),
										   PG_GET_COLLATION(), descending, nulls_first);
		MemoryContextSwitchTo(caller);
	}
	return state->usable ? &state->column : NULL;
}

static const LsKeyColumn *
need_column(FunctionCallInfo fcinfo)
{
	const LsKeyColumn *column = get_column(fcinfo);

	if (column == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("there is no encoding for these values")));
	return column;
}

/* (column) -> bool: can it be decoded?  NULL: there is no encoding. */
Datum
ls_key_sql_kind(PG_FUNCTION_ARGS)
{
	const LsKeyColumn *column = get_column(fcinfo);

	if (column == NULL)
		PG_RETURN_NULL();
	PG_RETURN_BOOL(ls_key_is_reversible(column));
}

/* (column: the value itself) -> bytea */
Datum
ls_key_sql_encode(PG_FUNCTION_ARGS)
{
	StringInfoData key;

	initStringInfo(&key);
	appendStringInfoSpaces(&key, VARHDRSZ);
	ls_key_append(need_column(fcinfo), PG_GETARG_DATUM(0), PG_ARGISNULL(0), &key);
	SET_VARSIZE(key.data, key.len);
	PG_RETURN_BYTEA_P(key.data);
}

/* (column, bytea) -> value, of the column's type */
Datum
ls_key_sql_decode(PG_FUNCTION_ARGS)
{
	const LsKeyColumn *column = need_column(fcinfo);
	bytea	   *key;
	bool		isnull;
	Datum		value;

	if (PG_ARGISNULL(4) || !ls_key_is_reversible(column))
		PG_RETURN_NULL();
	key = PG_GETARG_BYTEA_PP(4);
	value = ls_key_decode(column, (uint8 *) VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), &isnull);
	if (isnull)
		PG_RETURN_NULL();
	return value;
}

/* (column, bytea) -> bytes of the column that begins there */
Datum
ls_key_sql_length(PG_FUNCTION_ARGS)
{
	const LsKeyColumn *column = need_column(fcinfo);
	bytea	   *key;

	if (PG_ARGISNULL(4))
		PG_RETURN_NULL();
	key = PG_GETARG_BYTEA_PP(4);
	PG_RETURN_INT32(
		(int32) ls_key_column_length(column, (uint8 *) VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key)));
}

/* (column, value of another type) -> LsKeyFit, and what goes with it */
Datum
ls_key_sql_fit(PG_FUNCTION_ARGS)
{
	Datum		converted;

	if (PG_ARGISNULL(4))
		PG_RETURN_NULL();
	PG_RETURN_INT32(ls_key_convert(need_column(fcinfo), get_fn_expr_argtype(fcinfo->flinfo, 4),
								   PG_GETARG_DATUM(4), &converted));
}

Datum
ls_key_sql_converted(PG_FUNCTION_ARGS)
{
	Datum		converted;

	if (PG_ARGISNULL(4) ||
		ls_key_convert(need_column(fcinfo), get_fn_expr_argtype(fcinfo->flinfo, 4),
					   PG_GETARG_DATUM(4), &converted) == LS_KEY_BELOW_ALL)
		PG_RETURN_NULL();
	return converted;
}

/*
 * (text): of the argument's characters those for which ICU is not asked again, under its collation.
 */
Datum
ls_key_sql_learned(PG_FUNCTION_ARGS)
{
	LsKeyCollation *collation = ls_key_collation(pg_newlocale_from_collation(PG_GET_COLLATION()));
	text	   *string = PG_GETARG_TEXT_PP(0);
	StringInfoData out;
	StringInfoData ignored;

	/* The first strings are ICU's. */
	initStringInfo(&ignored);
	for (int i = 0; i < 20000 && !ls_key_is_learned(collation, 'x'); i++)
	{
		resetStringInfo(&ignored);
		ls_key_put_sort_key(collation, "x", 1, &ignored);
	}
	initStringInfo(&out);
	for (int i = 0; i < VARSIZE_ANY_EXHDR(string); i++)
		if (ls_key_is_learned(collation, VARDATA_ANY(string)[i]))
			appendStringInfoChar(&out, VARDATA_ANY(string)[i]);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(out.data, out.len));
}

/* (column) -> how strings are encoded, a number of LsKeyStrings; NULL: there is no encoding */
Datum
ls_key_sql_strings(PG_FUNCTION_ARGS)
{
	const LsKeyColumn *column = get_column(fcinfo);

	if (column == NULL)
		PG_RETURN_NULL();
	PG_RETURN_INT32(column->form.strings);
}

/* (text, strings int, pairs int8, seed int8): ls_key_libc_try() under the argument's collation */
Datum
ls_key_sql_agree(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(ls_key_libc_try(PG_GET_COLLATION(), (LsKeyStrings) PG_GETARG_INT32(1),
								   PG_GETARG_INT64(2), (uint64) PG_GETARG_INT64(3)));
}
