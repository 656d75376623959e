/*
 * ls_adopt.c - leanstore_adopt(regclass): a table with a file that another store has written
 * becomes one of this store's (docs/decisions/0021-store-identity.md).
 *
 * The rows that are in the old file are inserted into a new one, and all indexes are built anew.
 * The old file is only read, and goes when the transaction commits: until then, and if it does
 * not, everything is as it was.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/index.h"
#include "commands/tablecmds.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/relcache.h"

PG_FUNCTION_INFO_V1(leanstore_adopt);

static void
check_adoptable(Relation rel)
{
	if (!ls_is_table(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a leanstore table", RelationGetRelationName(rel)),
				 errhint("leanstore tables are those created USING leanstore.")));
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a permanent table", RelationGetRelationName(rel)),
				 errhint("TRUNCATE gives the table a new file.")));
	CheckTableNotInUse(rel, "leanstore_adopt");
}

static ls_foreign *
open_old_file(Relation rel)
{
	RelPathStr	path = relpathbackend(rel->rd_locator, rel->rd_backend, MAIN_FORKNUM);
	ls_foreign *old;
	ls_error	error = {0};

	ls_check(ls_foreign_open(ls_reader(), path.str, ls_relation_kind(rel), &old, &error), error,
			 rel);
	return old;
}

static void
insert_payloads(Relation rel, uint64 first, const ls_bytes *payloads, uint32 count, CommandId cid)
{
	uint32		done = 0;

	while (done < count)
	{
		uint32		inserted = 0;
		ls_error	error;
		ls_status	status;

		/* after an interrupt: go on behind what is in */
		ls_interruptible(true);
		status = ls_row_insert_many(ls_writer(), ls_open(rel), first + done, count - done, cid,
									payloads + done, &inserted, &error);
		ls_interruptible(false);
		ls_count_pages(rel);
		done += inserted;
		if (status == LS_INTERRUPTED)
			CHECK_FOR_INTERRUPTS();
		else
			ls_check(status, error, rel);
	}
}

/* Pointers lead to the row ids of values, so these stay. */
static void
insert_values(Relation rel, ls_foreign *old, const ls_row *rows, uint32 count)
{
	CommandId	cid = GetCurrentCommandId(true);
	ls_error	error;
	ls_status	status;

	for (uint32 i = 0; i < count; i++)
	{
		ls_row		row = rows[i];

		row.cid = cid;
		do
		{
			CHECK_FOR_INTERRUPTS();
			ls_interruptible(true);
			status = ls_foreign_value(old, ls_writer(), ls_open(rel), &row, &error);
			ls_interruptible(false);
		} while (status == LS_INTERRUPTED);
		ls_check(status, error, rel);
	}
	LS_CALL(status,
			ls_row_ids_skip(ls_writer(), ls_open(rel), rows[count - 1].row_id + 1, &error));
	ls_check(status, error, rel);
}

/* The rows of one leaf.  What a row says of its attributes is looked at before it is taken over. */
static void
insert_rows(Relation rel, const ls_row *rows, uint32 count, CommandId cid)
{
	ls_bytes   *payloads = palloc_array(ls_bytes, count);

	for (uint32 i = 0; i < count; i++)
	{
		(void) ls_row_tuple_len(&rows[i], rel);
		payloads[i] = (ls_bytes)
		{
			.data = rows[i].data, .len = rows[i].len
		};
	}
	insert_payloads(rel, ls_row_id_range(rel, count), payloads, count, cid);
	pfree(payloads);
}

static int64
copy_rows(Relation rel, ls_foreign *old)
{
	CommandId	cid = GetCurrentCommandId(true);
	int64		copied = 0;

	for (;;)
	{
		const ls_row *rows;
		uint32		count;
		ls_error	error = {0};
		ls_status	status = ls_foreign_next(old, &rows, &count, &error);

		if (status == LS_END)
			return copied;
		ls_check(status, error, rel);
		if (count > 0 && ls_holds_values(rel))
			insert_values(rel, old, rows, count);
		else if (count > 0)
			insert_rows(rel, rows, count, cid);
		copied += count;
		CHECK_FOR_INTERRUPTS();
	}
}

/* The relation's rows into a new file; returns how many there are. */
static int64
adopt(Relation rel, ls_foreign *old)
{
	int64		rows = 0;

	PG_TRY();
	{
		RelationSetNewRelfilenumber(rel, rel->rd_rel->relpersistence);
		rows = copy_rows(rel, old);
	}
	PG_FINALLY();
	{
		ls_foreign_close(old);
	}
	PG_END_TRY();
	return rows;
}

/* Large values: if nothing is to be had of them, they are missing.  A file of this store stays. */
static void
adopt_values(Oid toast_oid)
{
	Relation	toast;
	RelPathStr	path;
	ls_foreign *old;
	ls_rel		tree;
	ls_error	error = {0};
	ls_status	status;

	if (!OidIsValid(toast_oid))
		return;
	toast = table_open(toast_oid, AccessExclusiveLock);
	path = relpathbackend(toast->rd_locator, toast->rd_backend, MAIN_FORKNUM);
	status = ls_foreign_open(ls_reader(), path.str, LS_REL_VALUES, &old, &error);
	if (status == LS_OK)
		(void) adopt(toast, old);
	else if (status != LS_NOT_ADOPTABLE)
		ls_raise(&error, toast);
	else if (ls_try_open(toast, &tree, &error) == LS_FOREIGN)
		RelationSetNewRelfilenumber(toast, toast->rd_rel->relpersistence);
	table_close(toast, NoLock);
}

Datum
leanstore_adopt(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	ReindexParams params = {0};
	Relation	rel;
	ls_foreign *old;
	int64		rows;

	PreventCommandIfReadOnly("leanstore_adopt()");
	PreventCommandIfParallelMode("leanstore_adopt()");
	/* what is in a row is taken for what it says: a file made up by a user could do anything */
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to execute leanstore_adopt"),
				 errdetail("Only superusers may execute it.")));

	rel = relation_open(relid, AccessExclusiveLock);
	check_adoptable(rel);
	old = open_old_file(rel);
	rows = adopt(rel, old);
	adopt_values(rel->rd_rel->reltoastrelid);
	relation_close(rel, NoLock);

	/* the rows satisfied every constraint when they were written, but not all may be here */
	reindex_relation(NULL, relid, REINDEX_REL_SUPPRESS_INDEX_USE | REINDEX_REL_CHECK_CONSTRAINTS,
					 &params);
	CommandCounterIncrement();
	PG_RETURN_INT64(rows);
}
