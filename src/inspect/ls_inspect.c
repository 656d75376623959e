/*
 * ls_inspect.c - SQL functions that look inside: statistics and relation facts.
 */
#include "postgres.h"

#include "ls_inspect_internal.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"

#include "access/relation.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/relfilenumbermap.h"

#include "leanstore/values.h"

PG_FUNCTION_INFO_V1(leanstore_stat);
PG_FUNCTION_INFO_V1(leanstore_relation_info);
PG_FUNCTION_INFO_V1(leanstore_value_info);
PG_FUNCTION_INFO_V1(leanstore_progress_values);
PG_FUNCTION_INFO_V1(leanstore_checkpoint);
PG_FUNCTION_INFO_V1(leanstore_wal_inspect);
PG_FUNCTION_INFO_V1(leanstore_version);

static void
require_store(void)
{
	if (ls_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("leanstore_am is not loaded"),
				 errhint("Add leanstore_am to \"shared_preload_libraries\" and "
						 "restart the server.")));
}

Datum
leanstore_version(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	uint32		oldest;
	Datum		values[3];
	bool		nulls[3] = {false, false, false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = CStringGetTextDatum(LS_VERSION);
	values[1] = UInt32GetDatum(ls_file_version(&oldest));
	values[2] = UInt32GetDatum(oldest);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, values, nulls)));
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
		const uint64 counters[] = {s.frames_total,
								   s.frames_free,
								   s.frames_dirty,
								   s.pages_read,
								   s.pages_written,
								   s.pages_evicted,
								   s.log_bytes,
								   s.log_flushes,
								   s.log_fsyncs,
								   s.log_commits,
								   s.log_position,
								   s.log_redo_position,
								   s.checkpoints,
								   s.versions_written,
								   s.versions_removed,
								   s.ghosts_removed,
								   s.row_locks,
								   s.splits,
								   s.merges,
								   s.restarts,
								   s.files_open,
								   s.files_max,
								   s.log_durable_gsn,
								   s.log_commits_held,
								   s.log_segments,
								   s.page_hits,
								   s.log_counted,
								   s.log_remote_by_page,
								   s.log_remote_by_transaction,
								   s.change_buffer_inserts,
								   s.change_buffer_pending,
								   s.compressed_hits,
								   s.compressed_pages,
								   s.compressed_dirty_pages,
								   s.compressed_frames,
								   s.undo_failures,
								   s.files_closed};
		Datum		values[lengthof(counters) + 1];
		bool		nulls[lengthof(counters) + 1] = {0};

		if (desc->natts != lengthof(values))
			elog(ERROR, "leanstore_stat() has %d columns, expected %d", desc->natts,
				 (int) lengthof(values));
		for (int i = 0; i < lengthof(counters); i++)
			values[i] = Int64GetDatum((int64) counters[i]);
		values[lengthof(counters)] = Float8GetDatum(s.log_fsync_ns / 1e6);
		return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
	}
}

/* The relation, if it is a leanstore table that the user owns, or may look at with that role. */
static Relation
open_for(Oid relid, Oid role)
{
	Relation	rel = relation_open(relid, AccessShareLock);

	if (!ls_is_table(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a leanstore table", RelationGetRelationName(rel)),
				 errhint("leanstore tables are those created USING leanstore.")));
	if (!object_ownercheck(RelationRelationId, relid, GetUserId()) &&
		!has_privs_of_role(GetUserId(), role))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(rel->rd_rel->relkind),
					   RelationGetRelationName(rel));
	return rel;
}

/* The relation, if it is a leanstore table that the user may maintain. */
Relation
ls_inspect_open(Oid relid)
{
	return open_for(relid, ROLE_PG_MAINTAIN);
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

/* NULL: a table that is no TOAST table, and an index, have no pages of values. */
Datum
leanstore_value_info(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Relation	rel;
	ls_value_stats stats = {0};
	ls_error	error = {0};
	Datum		values[8];
	bool		nulls[8] = {0};
	bool		has_values;

	require_store();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	/* sizes are statistics */
	rel = open_for(PG_GETARG_OID(0), ROLE_PG_READ_ALL_STATS);
	has_values = ls_holds_values(rel);
	if (has_values)
		ls_check(ls_value_get_stats(ls_reader(), ls_open(rel), &stats, &error), error, rel);
	relation_close(rel, AccessShareLock);
	if (!has_values)
		PG_RETURN_NULL();

	values[0] = Int64GetDatum((int64) stats.pages);
	values[1] = Int64GetDatum((int64) stats.free_pages);
	values[2] = Int64GetDatum((int64) stats.lost_pages);
	values[3] = Int64GetDatum((int64) stats.written_pages);
	values[4] = Int64GetDatum((int64) stats.moved_pages);
	values[5] = BoolGetDatum(stats.counted);
	values[6] = Int64GetDatum((int64) stats.shared_values);
	values[7] = Int64GetDatum((int64) stats.shared_pages);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* What the engine does to which file of values now: a row, or none. */
Datum
leanstore_progress_values(PG_FUNCTION_ARGS)
{
	static const char *const phases[] = {
		[LS_VALUES_COUNTING] = "counting rows",
		[LS_VALUES_MOVING] = "moving values"
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ls_value_progress now;
	Datum		values[6];
	bool		nulls[6] = {0};
	Oid			relid = InvalidOid;

	require_store();
	InitMaterializedSRF(fcinfo, 0);
	ls_value_get_progress(ls_shared->store, &now);
	if (now.phase == LS_VALUES_IDLE)
		return (Datum) 0;
	/* other databases' relations have no names here, and temporary ones none in the map */
	if (now.key.database == MyDatabaseId && now.key.owner == -1)
		relid = RelidByRelfilenumber(now.key.tablespace, now.key.relation);
	values[0] = ObjectIdGetDatum(now.key.database);
	values[1] = ObjectIdGetDatum(relid);
	nulls[1] = !OidIsValid(relid);
	values[2] = CStringGetTextDatum(phases[now.phase]);
	/* rows are added while it goes on */
	values[3] = Float8GetDatum(now.end_row_id == 0 ? 0 :
							   Min(100.0, 100.0 * now.row_id / now.end_row_id));
	values[4] = Int64GetDatum((int64) now.moved_bytes);
	values[5] = Int64GetDatum((int64) now.target_bytes);
	nulls[4] = nulls[5] = now.phase != LS_VALUES_MOVING;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	return (Datum) 0;
}

Datum
leanstore_checkpoint(PG_FUNCTION_ARGS)
{
	ls_error	error = {0};
	ls_status	status;

	require_store();
	if (!has_privs_of_role(GetUserId(), ROLE_PG_CHECKPOINT))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to execute leanstore_checkpoint"),
				 errdetail("Only roles with privileges of the \"%s\" role may execute it.",
						   "pg_checkpoint")));
	LS_CALL(status, ls_worker_checkpoint(ls_shared->store, ls_reader(), &error));
	ls_check(status, error, NULL);
	PG_RETURN_VOID();
}

/* A page operation of the log as a row of leanstore_wal_inspect. */
static void
put_log_item(ReturnSetInfo *rsinfo, const ls_log_item *item)
{
	Datum		values[13];
	bool		nulls[13] = {0};
	Oid			relid = InvalidOid;

	/* Other databases' relations have no names here; nor have those that are gone. */
	if (item->has_file && item->file.database == MyDatabaseId)
		relid = RelidByRelfilenumber(item->file.tablespace, item->file.relation);
	values[0] = Int64GetDatum((int64) item->position);
	values[1] = Int64GetDatum((int64) item->gsn);
	values[2] = Int32GetDatum((int32) item->slot);
	values[3] = CStringGetTextDatum(item->kind);
	values[4] = Int64GetDatum((int64) item->tn);
	nulls[4] = item->tn == 0;
	nulls[5] = item->operation == NULL;
	values[5] = nulls[5] ? (Datum) 0 : CStringGetTextDatum(item->operation);
	values[6] = ObjectIdGetDatum(item->file.tablespace);
	values[7] = ObjectIdGetDatum(item->file.database);
	values[8] = ObjectIdGetDatum(item->file.relation);
	nulls[6] = nulls[7] = nulls[8] = !item->has_file;
	values[9] = ObjectIdGetDatum(relid);
	nulls[9] = !OidIsValid(relid);
	values[10] = Int64GetDatum((int64) item->page);
	nulls[10] = item->page == UINT32_MAX;
	values[11] = Int32GetDatum((int32) item->bytes);
	values[12] = Int32GetDatum((int32) item->operand_bytes);
	nulls[12] = item->operation == NULL;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* What is in the log on disk: one row per page operation, or record without any. */
Datum
leanstore_wal_inspect(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ls_stats	stats;
	ls_log_scan *scan = NULL;
	ls_log_item item;
	ls_error	error = {0};
	uint64		from,
				to;

	require_store();
	InitMaterializedSRF(fcinfo, 0);
	(void) ls_reader();			/* waits for recovery */
	ls_store_stats(ls_shared->store, &stats);
	from = PG_ARGISNULL(0) ? stats.log_redo_position : (uint64) PG_GETARG_INT64(0);
	to = PG_ARGISNULL(1) ? PG_UINT64_MAX : (uint64) PG_GETARG_INT64(1);
	ls_check(ls_log_scan_open(ls_shared->store, from, to, &scan, &error), error, NULL);
	PG_TRY();
	{
		ls_status	status;

		while ((status = ls_log_scan_next(scan, &item, &error)) == LS_OK)
		{
			put_log_item(rsinfo, &item);
			CHECK_FOR_INTERRUPTS();
		}
		if (status != LS_END)
			ls_check(status, error, NULL);
	}
	PG_FINALLY();
	{
		ls_log_scan_close(scan);
	}
	PG_END_TRY();
	return (Datum) 0;
}
