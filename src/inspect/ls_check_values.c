/*
 * ls_check_values.c - leanstore_check: the values of a table's TOAST table against the pointers in
 * its rows.
 *
 * One MVCC snapshot sees a row with a pointer exactly if it sees the value's (VALUE-1 in
 * row/ls_value.c), so under one the two sets are equal: each pointer leads to a value, whole and of
 * the size that it says, and to each value leads one pointer.  Which pages the values have is
 * compared with what the engine has noted of these: which are free, and how many values share some.
 */
#include "postgres.h"

#include "ls_inspect_internal.h"
#include "session/ls_session.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"
#include "row/ls_row.h"

#include "access/detoast.h"
#include "access/table.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "leanstore/values.h"

typedef struct ValueCheck
{
	Relation	table;
	Relation	toast;
	Tuplesortstate *pointers;	/* see note_pointer() */
	Oid			wanted;			/* the value that the next pointer leads to, and its bytes */
	uint32		wanted_bytes;
	bool		at_end;			/* there is no next pointer */
} ValueCheck;

#define CHECK_HINT errhint("Restore the table from a backup.")

pg_noreturn static void
raise_value(const ValueCheck *check, Oid value_id, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("value %u in toast table \"%s\" of table \"%s\" %s", value_id,
					RelationGetRelationName(check->toast), RelationGetRelationName(check->table),
					what),
			 CHECK_HINT));
}

/* In the order of values, as numbers with a sign. */
#define SIGN ((uint64) 1 << 63)

static void
note_pointer(ValueCheck *check, const struct varlena *pointer)
{
	struct varatt_external external;

	VARATT_EXTERNAL_GET_POINTER(external, pointer);
	if (external.va_toastrelid != RelationGetRelid(check->toast))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("table \"%s\" has a pointer to a value of another table",
						RelationGetRelationName(check->table)),
				 CHECK_HINT));
	tuplesort_putdatum(check->pointers,
					   Int64GetDatum((int64) (((uint64) external.va_valueid << 32 |
											   VARATT_EXTERNAL_GET_EXTSIZE(external)) ^ SIGN)),
					   false);
}

static void
next_pointer(ValueCheck *check)
{
	Datum		noted;
	bool		isnull;

	check->at_end = !tuplesort_getdatum(check->pointers, true, false, &noted, &isnull, NULL);
	if (!check->at_end)
	{
		uint64		pointer = (uint64) DatumGetInt64(noted) ^ SIGN;

		check->wanted = (Oid) (pointer >> 32);
		check->wanted_bytes = (uint32) pointer;
	}
}

static void
note_pointers_of(ValueCheck *check, const ls_row *row)
{
	TupleDesc	desc = RelationGetDescr(check->table);
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];
	HeapTupleData tuple;
	char	   *space;

	if (!ls_row_has_external(row))
		return;
	if (ls_row_wide_pointer(row) != NULL)
		note_pointer(check, ls_row_wide_pointer(row));
	space = palloc(ls_row_tuple_len(row, check->table));
	ls_row_decode(row, check->table, &tuple, space);
	heap_deform_tuple(&tuple, desc, values, isnull);
	for (int i = 0; i < desc->natts; i++)
		if (TupleDescCompactAttr(desc, i)->attlen == -1 && !isnull[i] &&
			VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(values[i])))
			note_pointer(check, (struct varlena *) DatumGetPointer(values[i]));
	pfree(space);
}

/* A value: the next pointer has to lead to it. */
static void
check_value(ValueCheck *check, const ls_row *row)
{
	Oid			value_id = (Oid) (row->row_id / LS_ROWS_PER_VALUE);
	uint32		bytes;
	ls_error	error;
	ls_status	status;

	if (check->at_end || check->wanted > value_id)
		raise_value(check, value_id, "belongs to no row");
	if (check->wanted < value_id)
		raise_value(check, check->wanted, "is missing");
	LS_CALL(status, ls_value_check(ls_reader(), ls_open(check->toast), row, &bytes, &error));
	ls_check(status, error, check->toast);
	if (check->wanted_bytes != bytes)
		raise_value(check, value_id, "has another size than the pointer to it says");
	next_pointer(check);
	if (!check->at_end && check->wanted == value_id)
		raise_value(check, value_id, "belongs to two rows");
}

/* All rows of a relation that the snapshot sees, in the order of their ids. */
static void
scan_rows(ValueCheck *check, Relation rel, Snapshot snapshot)
{
	ls_scan    *scan = ls_scan_open_owned(rel, ls_snapshot_convert(snapshot), 0, LS_ROWS_END,
										  false);
	const ls_row *rows;
	uint32		n;
	ls_error	error;
	ls_status	status;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		LS_CALL(status, ls_scan_next(scan, &rows, &n, &error));
		if (status == LS_END)
			break;
		ls_check(status, error, rel);
		for (uint32 i = 0; i < n; i++)
		{
			if (rel == check->toast)
				check_value(check, &rows[i]);
			else
				note_pointers_of(check, &rows[i]);
		}
	}
	ls_scan_close_owned(scan);
}

static void
check_pages(const ValueCheck *check)
{
	ls_value_stats stats;
	bool		compared;
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_value_check_pages(ls_reader(), ls_open(check->toast), &compared, &error));
	ls_check(status, error, check->toast);
	if (compared)
		return;
	LS_CALL(status, ls_value_get_stats(ls_reader(), ls_open(check->toast), &stats, &error));
	ls_check(status, error, check->toast);
	/* nothing is noted of a file before its rows are counted */
	if (stats.counted)
		ereport(NOTICE,
				(errmsg("pages of large values of table \"%s\" were not compared",
						RelationGetRelationName(check->table)),
				 errdetail("Other sessions changed values all the time."),
				 errhint("Check the table again when it is at rest.")));
}

void
ls_check_values(Relation table)
{
	ValueCheck	check = {.table = table};
	Snapshot	snapshot;
	ls_check_result result;
	ls_error	error;
	ls_status	status;

	if (!OidIsValid(table->rd_rel->reltoastrelid))
		return;
	check.toast = table_open(table->rd_rel->reltoastrelid, AccessShareLock);
	LS_CALL(status, ls_rel_check(ls_reader(), ls_open(check.toast), &result, &error));
	ls_check(status, error, check.toast);

	ls_pin_withdraw();
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	check.pointers = tuplesort_begin_datum(INT8OID, Int8LessOperator, InvalidOid, false,
										   maintenance_work_mem, NULL, TUPLESORT_NONE);
	scan_rows(&check, table, snapshot);
	tuplesort_performsort(check.pointers);
	next_pointer(&check);
	scan_rows(&check, check.toast, snapshot);
	if (!check.at_end)
		raise_value(&check, check.wanted, "is missing");
	tuplesort_end(check.pointers);
	UnregisterSnapshot(snapshot);
	check_pages(&check);
	table_close(check.toast, AccessShareLock);
}
