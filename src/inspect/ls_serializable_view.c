/*
 * ls_serializable_view.c - the view leanstore_range_locks.
 */
#include "postgres.h"

#include "ls_inspect.h"
#include "pg/ls_pg.h"
#include "session/ls_session.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/relfilenumbermap.h"

PG_FUNCTION_INFO_V1(leanstore_range_locks);

static Datum
bound_datum(const uint8 *bytes, uint8 len)
{
	bytea	   *result = palloc(VARHDRSZ + len);

	SET_VARSIZE(result, VARHDRSZ + len);
	memcpy(VARDATA(result), bytes, len);
	return PointerGetDatum(result);
}

/* What SERIALIZABLE transactions have locked and wait for; the view leanstore_range_locks. */
Datum
leanstore_range_locks(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ls_range_info *locks;
	size_t		capacity;
	size_t		n;
	/* bounds are values of keys, of all databases */
	bool		show_values = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_DATA);

	if (ls_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore_am is not loaded"),
				 errhint("Add leanstore_am to \"shared_preload_libraries\" and "
						 "restart the server.")));
	InitMaterializedSRF(fcinfo, 0);

	/* a few more than there are: other backends may lock meanwhile */
	capacity = ls_range_list(ls_shared->store, NULL, 0) + 100;
	locks = palloc_extended(capacity * sizeof(ls_range_info), MCXT_ALLOC_HUGE);
	n = Min(ls_range_list(ls_shared->store, locks, capacity), capacity);
	for (size_t i = 0; i < n; i++)
	{
		const ls_range_info *lock = &locks[i];
		Datum		values[7];
		bool		nulls[7] = {0};
		Oid			relation = InvalidOid;

		if (lock->tree.database == MyDatabaseId)
			relation = RelidByRelfilenumber(lock->tree.tablespace, lock->tree.relation);
		values[0] = Int32GetDatum(ls_pg_process_pid(lock->owner.slot));
		values[1] = ObjectIdGetDatum(lock->tree.database);
		values[2] = ObjectIdGetDatum(relation);
		nulls[2] = !OidIsValid(relation);
		values[3] = CStringGetTextDatum(lock->mode == LS_RANGE_SHARED ? "shared" : "exclusive");
		values[4] = BoolGetDatum(lock->granted);
		if (show_values)
		{
			values[5] = bound_datum(lock->from, lock->from_len);
			values[6] = bound_datum(lock->to, lock->to_len);
		}
		nulls[5] = !show_values;
		nulls[6] = !show_values || lock->to_end;
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		CHECK_FOR_INTERRUPTS();
	}
	return (Datum) 0;
}
