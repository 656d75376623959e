/*
 * ls_inspect.c - SQL functions that look inside: statistics and relation facts.
 */
#include "ls.h"

#include "access/relation.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(leanstore_stat);
PG_FUNCTION_INFO_V1(leanstore_relation_info);
PG_FUNCTION_INFO_V1(leanstore_checkpoint);

static void
require_store(void)
{
	if (ls_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore_am is not loaded"),
				 errhint("Add leanstore_am to \"shared_preload_libraries\" and restart the server.")));
}

/* One row of every counter of the engine; the views leanstore_stat_* cut it up. */
Datum
leanstore_stat(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	ls_stats	s;

	require_store();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	ls_store_stats(ls_shared->store, &s);

	{
		const uint64 counters[] = {
			s.frames_total, s.frames_free, s.frames_dirty, s.pages_read, s.pages_written, s.pages_evicted,
			s.log_bytes, s.log_rounds, s.log_fsyncs, s.log_commits, s.log_position, s.log_redo_position,
			s.checkpoints,
			s.versions_written, s.versions_removed, s.ghosts_removed, s.row_locks,
			s.splits, s.merges, s.restarts, s.files_open, s.files_max
		};
		Datum		values[lengthof(counters) + 1];
		bool		nulls[lengthof(counters) + 1] = {0};

		if (desc->natts != lengthof(values))
			elog(ERROR, "leanstore_stat() has %d columns, expected %d", desc->natts, (int) lengthof(values));
		for (int i = 0; i < lengthof(counters); i++)
			values[i] = Int64GetDatum((int64) counters[i]);
		values[lengthof(counters)] = Float8GetDatum(s.log_fsync_ns / 1e6);
		return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
	}
}

/* The relation, if it is a leanstore table that the user may read or maintain. */
Relation
ls_inspect_open(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);

	if (!ls_is_table(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a leanstore table", RelationGetRelationName(rel))));
	if (!object_ownercheck(RelationRelationId, relid, GetUserId()) &&
		!has_privs_of_role(GetUserId(), ROLE_PG_MAINTAIN))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(rel->rd_rel->relkind),
					   RelationGetRelationName(rel));
	return rel;
}

Datum
leanstore_relation_info(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Relation	rel;
	ls_rel_info info;
	ls_error	error = {0};
	Datum		values[4];
	bool		nulls[4] = {0};

	require_store();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	rel = ls_inspect_open(PG_GETARG_OID(0));
	ls_check(ls_rel_get_info(ls_reader(), ls_open(rel), &info, &error), error, rel);
	relation_close(rel, AccessShareLock);

	values[0] = Int64GetDatum((int64) info.pages);
	values[1] = Int64GetDatum((int64) info.free_pages);
	values[2] = Int32GetDatum((int32) info.height);
	values[3] = Int64GetDatum((int64) info.next_row_id);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

Datum
leanstore_checkpoint(PG_FUNCTION_ARGS)
{
	ls_error	error = {0};

	require_store();
	if (!has_privs_of_role(GetUserId(), ROLE_PG_CHECKPOINT))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to execute leanstore_checkpoint"),
				 errdetail("Only roles with privileges of the \"%s\" role may execute it.", "pg_checkpoint")));
	(void) ls_reader();
	ls_check(ls_store_checkpoint(ls_shared->store, &error), error, NULL);
	PG_RETURN_VOID();
}
