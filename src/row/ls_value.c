/*
 * ls_value.c - values out of line: rows of a TOAST table that is a leanstore table
 * (docs/decisions/0036-values-in-the-engine.md, 0037-pages-for-values.md).
 *
 * A row has an ordinary TOAST pointer (varatt_external), so that the server's own code reads
 * the value.  The value has one row in the TOAST table, found by its number without an index.  That
 * has the value's bytes, as a chunk of heap's has them; or, of a large value, a chunk with the
 * number -1 that says in which pages of the TOAST table's further file they are.
 *
 * VALUE-1: a value has one owner, a row.  It is inserted and deleted by the transaction that stores
 *	the pointer and takes it away, under a lock of that row: so one MVCC snapshot sees a row with
 *	a pointer exactly if it sees the value's row (leanstore_check() looks at that).
 *	Values with the same bytes may have the same pages, which the engine sees to
 *	(docs/decisions/0040-equal-values.md): each has its number and its row.
 * VALUE-2: a pointer is followed without a snapshot.  The value stays until the deletion is below
 *	the horizon, as rows of heap do, whatever the engine knows of single snapshots (GONE-4 in
 *	engine/txn/row_gone.hpp).
 */
#include "postgres.h"

#include "ls_row_internal.h"
#include "relation/ls_relation.h"
#include "txn/ls_txn.h"

#include "access/detoast.h"
#include "access/table.h"
#include "access/toast_compression.h"
#include "access/xact.h"
#include "pgstat.h"
#include "utils/injection_point.h"

#define LAST_VALUE_ID ((uint32) (LS_ROW_IDS_END / LS_ROWS_PER_VALUE - 1))

/* What a value's row has first: the row's head, chunk_id, chunk_seq, length of chunk_data. */
typedef struct ValueHead
{
	Oid			value_id;
	int32		seq;
	char		length[VARHDRSZ];
} ValueHead;

#define VALUE_ATTRIBUTES 3
/* Bytes of a value between two looks at interrupts; whole chunks of the engine's. */
#define READ_AT_ONCE (8 * 1024 * 1024)
/* chunk_seq of what says where a value is. */
#define SEQ_OF_PLACE (-1)

StaticAssertDecl(LS_HEAD_BYTES + sizeof(ValueHead) == LS_VALUE_HEAD_BYTES,
				 "the engine leaves another room for the head");

void
ls_value_head(uint64 value_id, bool in_row, uint32 bytes, uint8 *out)
{
	const uint16 row_head = VALUE_ATTRIBUTES | LS_HEAD_VARWIDTH;
	ValueHead	head = {.value_id = (Oid) value_id, .seq = in_row ? 0 : SEQ_OF_PLACE};
	varattrib_4b length;

	SET_VARSIZE(&length, VARHDRSZ + bytes);
	memcpy(head.length, &length, VARHDRSZ);
	memcpy(out, &row_head, LS_HEAD_BYTES);
	memcpy(out + LS_HEAD_BYTES, &head, sizeof(head));
}

/* ----------------------------------------------------------------
 * reading
 * ----------------------------------------------------------------
 */

#define CHECK_HINT errhint("Verify the table with leanstore_check(), and restore it from a backup.")

/* False: there is none. */
static bool
read_value(Relation toast, const ls_value_slice *slice, char *out)
{
	ls_error	error;
	ls_status	status;

	LS_CALL_ON(toast, status,
			   ls_value_read(ls_reader(), ls_open(toast), slice, (uint8 *) out, &error));
	if (status == LS_NOT_FOUND)
		return false;
	ls_check(status, error, toast);
	return true;
}

void
ls_value_fetch(Relation toast, const ls_value_slice *slice, char *out)
{
	uint32		done = 0;

	do
	{
		ls_value_slice part = *slice;

		CHECK_FOR_INTERRUPTS();
		part.offset += done;
		part.bytes = Min(slice->bytes - done, READ_AT_ONCE - part.offset % READ_AT_ONCE);
		if (!read_value(toast, &part, out + done))
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("missing chunk number %d for toast value %u in %s", 0,
							(Oid) slice->value_id, RelationGetRelationName(toast)),
					 CHECK_HINT));
		done += part.bytes;
	} while (done < slice->bytes);
}

/* ----------------------------------------------------------------
 * numbers
 * ----------------------------------------------------------------
 */

static ls_value_range
draw(Relation toast, uint32 count)
{
	ls_value_range values;
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_value_ids(ls_writer(), ls_open(toast), count, &values, &error));
	ls_check(status, error, toast);
	return values;
}

/*
 * The first number from `value_id` on that has no row: of a value, or of a ghost that a pointer may
 * still lead to.  LAST_VALUE_ID + 1: none before the end.
 */
static uint64
find_gap(Relation toast, uint64 value_id)
{
	ls_snapshot any = {.kind = LS_SNAPSHOT_ANY};
	ls_scan    *scan = ls_scan_open_owned(toast, &any, value_id * LS_ROWS_PER_VALUE,
											 LS_ROW_IDS_END, false);
	uint64		gap = value_id;
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
		ls_check(status, error, toast);
		if (rows[0].row_id / LS_ROWS_PER_VALUE > gap)
			break;
		for (uint32 i = 0; i < n && rows[i].row_id / LS_ROWS_PER_VALUE <= gap; i++)
			gap = rows[i].row_id / LS_ROWS_PER_VALUE + 1;
	}
	ls_scan_close_owned(scan);
	return gap;
}

static void
skip(Relation toast, uint64 count)
{
	while (count > 0)
	{
		uint32		n = (uint32) Min(count, LAST_VALUE_ID / 3);

		(void) draw(toast, n);
		count -= n;
	}
}

/*
 * After 2^32 values numbers come round; those that are in use then are passed over, once round at
 * most.
 */
static Oid
draw_value_id(Relation toast)
{
	uint64		passed = 0;

	while (passed <= LAST_VALUE_ID)
	{
		ls_value_range values;
		uint64		gap;

		if (IS_INJECTION_POINT_ATTACHED("leanstore-value-ids-come-round"))
			(void) draw(toast, LAST_VALUE_ID / 3);
		values = draw(toast, 1);
		if (!values.used)
			return (Oid) values.first;
		gap = find_gap(toast, values.first);
		if (gap == values.first)
			return (Oid) gap;
		passed += gap - values.first;
		if (gap > values.first + 1)
			skip(toast, gap - values.first - 1);
	}
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("toast table \"%s\" has no room for another value",
					RelationGetRelationName(toast)),
			 errdetail("Its values have numbers of 32 bits, and all are in use."),
			 errhint("Divide the table into partitions.")));
}

/* ----------------------------------------------------------------
 * writing
 * ----------------------------------------------------------------
 */

/* For writing.  The lock is kept: REINDEX and the like of the TOAST table alone wait for it. */
static Relation
open_toast(Oid relid)
{
	Relation	toast = table_open(relid, RowExclusiveLock);

	if (!ls_is_table(toast))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("toast table \"%s\" is not a leanstore table",
						RelationGetRelationName(toast)),
				 errhint("VACUUM FULL gives the table another one.")));
	return toast;
}

static void
insert(Relation toast, const ls_new_value *value)
{
	CommandId	cid = GetCurrentCommandId(true);
	ls_error	error;
	ls_status	status;

	do
	{
		CHECK_FOR_INTERRUPTS();
		ls_interruptible(true);
		status = ls_value_insert(ls_writer(), ls_open(toast), value, cid, &error);
		ls_interruptible(false);
	} while (status == LS_INTERRUPTED);
	ls_count_pages(toast);
	ls_check(status, error, toast);
	pgstat_count_heap_insert(toast, 1);
}

/* The bytes to store, and what the pointer says of them. */
static const char *
describe(const struct varlena *value, struct varatt_external *pointer, uint32 *bytes)
{
	if (VARATT_IS_SHORT(value))
	{
		*bytes = VARSIZE_SHORT(value) - VARHDRSZ_SHORT;
		pointer->va_rawsize = (int32) *bytes + VARHDRSZ;
		pointer->va_extinfo = *bytes;
		return VARDATA_SHORT(value);
	}
	*bytes = VARSIZE(value) - VARHDRSZ;
	if (VARATT_IS_COMPRESSED(value))
	{
		pointer->va_rawsize = (int32) VARDATA_COMPRESSED_GET_EXTSIZE(value) + VARHDRSZ;
		VARATT_EXTERNAL_SET_SIZE_AND_COMPRESS_METHOD(
			*pointer, *bytes, VARDATA_COMPRESSED_GET_COMPRESS_METHOD(value));
	}
	else
	{
		pointer->va_rawsize = (int32) VARSIZE(value);
		pointer->va_extinfo = *bytes;
	}
	return VARDATA(value);
}

/*
 * While a table is written anew its TOAST table keeps its name, and values keep their numbers:
 * InvalidOid if this is none of them.
 */
static Oid
kept_value_id(Relation rel, const struct varlena *old_pointer)
{
	struct varatt_external old;

	if (old_pointer == NULL || !OidIsValid(rel->rd_toastoid))
		return InvalidOid;
	VARATT_EXTERNAL_GET_POINTER(old, old_pointer);
	return old.va_toastrelid == rel->rd_toastoid ? old.va_valueid : InvalidOid;
}

struct varlena *
ls_value_save(Relation rel, const struct varlena *value, const struct varlena *old_pointer,
			  bool *stored)
{
	Relation	toast = open_toast(rel->rd_rel->reltoastrelid);
	struct varatt_external pointer;
	struct varlena *result;
	ls_new_value new;

	new.data = (const uint8 *) describe(value, &pointer, &new.bytes);
	new.share = ls_share_values;
	new.value_id = kept_value_id(rel, old_pointer);
	/* versions of a row share a value */
	*stored = new.value_id == InvalidOid ||
		!read_value(toast, &(ls_value_slice) {.value_id = new.value_id, .value_bytes = new.bytes},
					NULL);
	if (new.value_id == InvalidOid)
		new.value_id = draw_value_id(toast);
	if (*stored)
		insert(toast, &new);
	pointer.va_valueid = (Oid) new.value_id;
	pointer.va_toastrelid = OidIsValid(rel->rd_toastoid) ? rel->rd_toastoid
		: RelationGetRelid(toast);
	if (*stored)
		ls_value_trace(&pointer, (const char *) new.data);
	table_close(toast, NoLock);

	result = palloc(TOAST_POINTER_SIZE);
	SET_VARTAG_EXTERNAL(result, VARTAG_ONDISK);
	memcpy(VARDATA_EXTERNAL(result), &pointer, sizeof(pointer));
	return result;
}

/*
 * One that this command has inserted (is_own: a speculative insertion is given up, say) can only be
 * deleted by a later one, so that is told to the engine.  A value that is missing is no reason to
 * keep the row: reading it is an error, as with heap.
 */
static void
delete(Relation toast, Oid value_id, uint32 bytes, bool is_own)
{
	const ls_value_slice value = {.value_id = value_id, .value_bytes = bytes};
	CommandId	cid = GetCurrentCommandId(true) + (is_own ? 1 : 0);
	ls_error	error;
	ls_status	status;

	LS_CALL_ON(toast, status,
			   ls_value_delete(ls_writer(), ls_open(toast), &value, cid, &error));
	if (status == LS_NOT_FOUND)
		return;
	if (status == LS_DELETED || status == LS_BEING_MODIFIED || status == LS_SELF_MODIFIED ||
		status == LS_INVISIBLE)
		/* VALUE-1 */
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("toast value %u in %s is deleted twice", value_id,
						RelationGetRelationName(toast)),
				 CHECK_HINT));
	ls_check(status, error, toast);
	pgstat_count_heap_delete(toast);
}

static void
delete_from(Oid toast_oid, const struct varlena *pointer, bool is_own)
{
	struct varatt_external external;
	Relation	toast = open_toast(toast_oid);

	VARATT_EXTERNAL_GET_POINTER(external, pointer);
	delete(toast, external.va_valueid, VARATT_EXTERNAL_GET_EXTSIZE(external), is_own);
	ls_value_trace(&external, NULL);
	table_close(toast, NoLock);
}

void
ls_value_drop(const struct varlena *pointer, bool is_own)
{
	struct varatt_external external;

	if (!VARATT_IS_EXTERNAL_ONDISK(pointer))
		return;
	VARATT_EXTERNAL_GET_POINTER(external, pointer);
	delete_from(external.va_toastrelid, pointer, is_own);
}

void
ls_value_drop_copy(Relation rel, const struct varlena *pointer)
{
	delete_from(rel->rd_rel->reltoastrelid, pointer, true);
}
