/*
 * ls_value.c - values out of line: rows of a TOAST table that is a leanstore table
 * (docs/decisions/0036-values-in-the-engine.md).
 *
 * A row has an ordinary TOAST pointer (varatt_external), so that the server's own code reads
 * the value.  The value's pieces are rows as in a TOAST table of heap, but there is no index:
 * piece n of value v has the row id v * 256 + n.
 *
 * VALUE-1: a value has one owner, a row.  Its pieces are inserted and deleted by the transaction
 *	that stores the pointer and takes it away, under a lock of that row: so one MVCC snapshot sees
 *	a row with a pointer exactly if it sees the pieces (leanstore_check() looks at that).
 * VALUE-2: a pointer is followed without a snapshot.  The pieces stay until the deletion is below
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

/* Pieces that are inserted by one call of the engine. */
#define PIECES_AT_ONCE 64

#define LAST_VALUE_ID ((uint32) (LS_ROW_IDS_END / LS_ROWS_PER_VALUE - 1))

/* What a piece has before its bytes: the row's head, chunk_id, chunk_seq, length of chunk_data. */
typedef struct PieceHead
{
	Oid			value_id;
	int32		seq;
	char		length[VARHDRSZ];
} PieceHead;

#define PIECE_HEAD_BYTES (LS_HEAD_BYTES + sizeof(PieceHead))
#define PIECE_ATTRIBUTES 3

/* A value to be stored. */
typedef struct NewValue
{
	Oid			value_id;
	const char *data;
	uint32		bytes;
} NewValue;

StaticAssertDecl(PIECE_HEAD_BYTES + LS_LARGE_PIECE_BYTES <= LS_MAX_ROW_BYTES,
				 "a piece is larger than a row");

static inline uint64
row_of(Oid value_id, uint32 piece)
{
	return (uint64) value_id * LS_ROWS_PER_VALUE + piece;
}

static inline uint32
pieces_of(uint32 bytes)
{
	const uint32 piece = ls_value_piece_bytes(bytes);

	return (bytes + piece - 1) / piece;
}

static inline uint32
bytes_of_piece(uint32 bytes, uint32 piece)
{
	const uint32 most = ls_value_piece_bytes(bytes);

	return Min(most, bytes - piece * most);
}

/* ----------------------------------------------------------------
 * reading
 * ----------------------------------------------------------------
 */

pg_noreturn static void
fail_piece(Relation toast, Oid value_id, uint32 piece, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("%s chunk number %u for toast value %u in %s", what, piece, value_id,
					RelationGetRelationName(toast)),
			 errhint("Verify the table with leanstore_check(), and restore it from a backup.")));
}

bool
ls_value_parse_piece(const uint8 *data, uint32 len, LsPiece *piece)
{
	PieceHead	head;
	varattrib_4b length;
	uint16		row_head;

	if (len < PIECE_HEAD_BYTES)
		return false;
	memcpy(&row_head, data, LS_HEAD_BYTES);
	memcpy(&head, data + LS_HEAD_BYTES, sizeof(head));
	memcpy(&length, head.length, VARHDRSZ);
	piece->value_id = head.value_id;
	piece->seq = head.seq;
	piece->data = data + PIECE_HEAD_BYTES;
	piece->bytes = len - PIECE_HEAD_BYTES;
	return row_head == (PIECE_ATTRIBUTES | LS_HEAD_VARWIDTH) &&
		VARSIZE(&length) == VARHDRSZ + piece->bytes;
}

/* False: there is none. */
static bool
fetch_piece(Relation toast, Oid value_id, uint32 seq, ls_piece *row, LsPiece *piece)
{
	ls_error	error;
	ls_status	status;

	LS_CALL_ON(toast, status,
			   ls_value_fetch_piece(ls_reader(), ls_open(toast), row_of(value_id, seq), row,
									&error));
	if (status == LS_NOT_FOUND)
		return false;
	ls_check(status, error, toast);
	if (!ls_value_parse_piece(row->data.data, row->data.len, piece) ||
		piece->value_id != value_id || piece->seq != seq)
		fail_piece(toast, value_id, seq, "damaged");
	return true;
}

void
ls_value_read(Relation toast, Oid value_id, const LsSlice *slice, char *out)
{
	const uint32 step = ls_value_piece_bytes(slice->value_bytes);
	uint32		end = slice->offset + slice->bytes;
	uint32		seq = slice->offset / step;

	for (uint32 at = seq * step; at < end; at += step, seq++)
	{
		uint32		from = Max(at, slice->offset) - at;
		uint32		to;
		ls_piece	row;
		LsPiece		piece;

		CHECK_FOR_INTERRUPTS();
		if (!fetch_piece(toast, value_id, seq, &row, &piece))
			fail_piece(toast, value_id, seq, "missing");
		if (piece.bytes != bytes_of_piece(slice->value_bytes, seq))
			fail_piece(toast, value_id, seq, "unexpected size of");
		to = Min(piece.bytes, end - at);
		memcpy(out, piece.data + from, to - from);
		out += to - from;
	}
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
 * Where, from `value_id` on, `count` numbers lie together that have no piece: of values, and of
 * ghosts that a pointer may still lead to.  LAST_VALUE_ID + 1: nowhere before the end.
 */
static uint64
find_gap(Relation toast, uint64 value_id, uint32 count)
{
	ls_snapshot any = {.kind = LS_SNAPSHOT_ANY};
	ls_scan    *scan = ls_scan_open_owned(toast, &any, row_of(value_id, 0), LS_ROW_IDS_END, false);
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
		if (rows[0].row_id / LS_ROWS_PER_VALUE >= gap + count)
			break;
		for (uint32 i = 0; i < n && rows[i].row_id / LS_ROWS_PER_VALUE < gap + count; i++)
			gap = rows[i].row_id / LS_ROWS_PER_VALUE + 1;
	}
	ls_scan_close_owned(scan);
	return gap + count - 1 <= LAST_VALUE_ID ? gap : (uint64) LAST_VALUE_ID + 1;
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
 * `count` numbers that follow each other.  After 2^32 values they come round; those that are in use
 * then are passed over, once round at most.
 */
static Oid
draw_value_ids(Relation toast, uint32 count)
{
	uint64		passed = 0;

	while (passed <= LAST_VALUE_ID)
	{
		ls_value_range values;
		uint64		gap;

		if (IS_INJECTION_POINT_ATTACHED("leanstore-value-ids-come-round"))
			(void) draw(toast, LAST_VALUE_ID / 3);
		values = draw(toast, count);
		if (!values.used)
			return (Oid) values.first;
		gap = find_gap(toast, values.first, count);
		if (gap == values.first)
			return (Oid) gap;
		passed += gap - values.first;
		if (gap > values.first + count)
			skip(toast, gap - values.first - count);
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

/* The pieces from `first` on, as rows one behind the other in `space`. */
static void
lay_out_pieces(ls_bytes *rows, uint8 *space, const NewValue *value, uint32 first, uint32 n)
{
	const uint16 row_head = PIECE_ATTRIBUTES | LS_HEAD_VARWIDTH;

	for (uint32 i = 0; i < n; i++)
	{
		uint32		len = bytes_of_piece(value->bytes, first + i);
		PieceHead	head = {.value_id = value->value_id, .seq = (int32) (first + i)};
		varattrib_4b length;

		SET_VARSIZE(&length, VARHDRSZ + len);
		memcpy(head.length, &length, VARHDRSZ);
		memcpy(space, &row_head, LS_HEAD_BYTES);
		memcpy(space + LS_HEAD_BYTES, &head, sizeof(head));
		memcpy(space + PIECE_HEAD_BYTES,
			   value->data + (Size) (first + i) * ls_value_piece_bytes(value->bytes), len);
		rows[i] = (ls_bytes)
		{
			.data = space, .len = PIECE_HEAD_BYTES + len
		};
		space += PIECE_HEAD_BYTES + len;
	}
}

static void
insert_rows(Relation toast, uint64 row_id, const ls_bytes *rows, uint32 n)
{
	CommandId	cid = GetCurrentCommandId(true);
	uint32		done = 0;

	while (done < n)
	{
		ls_error	error;
		ls_status	status;
		uint32		inserted = 0;

		/* after an interrupt: go on behind what is in */
		ls_interruptible(true);
		status = ls_row_insert_many(ls_writer(), ls_open(toast), row_id + done, n - done, cid,
									rows + done, &inserted, &error);
		ls_interruptible(false);
		ls_count_pages(toast);
		done += inserted;
		if (status == LS_INTERRUPTED)
			CHECK_FOR_INTERRUPTS();
		else
			ls_check(status, error, toast);
	}
	pgstat_count_heap_insert(toast, n);
}

static void
insert_pieces(Relation toast, const NewValue *value)
{
	uint32		pieces = pieces_of(value->bytes);
	uint8	   *space = palloc(Min(pieces, PIECES_AT_ONCE) *
							   (PIECE_HEAD_BYTES + ls_value_piece_bytes(value->bytes)));

	for (uint32 first = 0; first < pieces; first += PIECES_AT_ONCE)
	{
		ls_bytes	rows[PIECES_AT_ONCE];
		uint32		n = Min(pieces - first, PIECES_AT_ONCE);

		lay_out_pieces(rows, space, value, first, n);
		insert_rows(toast, row_of(value->value_id, first), rows, n);
		CHECK_FOR_INTERRUPTS();
	}
	pfree(space);
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
	NewValue	new;
	ls_piece	row;
	LsPiece		piece;

	new.data = describe(value, &pointer, &new.bytes);
	new.value_id = kept_value_id(rel, old_pointer);
	/* versions of a row share a value */
	*stored = !OidIsValid(new.value_id) || !fetch_piece(toast, new.value_id, 0, &row, &piece);
	if (!OidIsValid(new.value_id))
		new.value_id = draw_value_ids(toast,
									  pieces_of(new.bytes) / LS_ROWS_PER_VALUE + 1);
	if (*stored)
		insert_pieces(toast, &new);
	pointer.va_valueid = new.value_id;
	pointer.va_toastrelid = OidIsValid(rel->rd_toastoid) ? rel->rd_toastoid
		: RelationGetRelid(toast);
	if (*stored)
		ls_value_trace(&pointer, new.data);
	table_close(toast, NoLock);

	result = palloc(TOAST_POINTER_SIZE);
	SET_VARTAG_EXTERNAL(result, VARTAG_ONDISK);
	memcpy(VARDATA_EXTERNAL(result), &pointer, sizeof(pointer));
	return result;
}

/*
 * One that this command has inserted (is_own: a speculative insertion is given up, say) can only be
 * deleted by a later one, so that is told to the engine.  Pieces that are missing are no reason to
 * keep the row: reading it is an error, as with heap.
 */
static void
delete_pieces(Relation toast, Oid value_id, uint32 pieces, bool is_own)
{
	CommandId	cid = GetCurrentCommandId(true) + (is_own ? 1 : 0);

	for (uint32 i = 0; i < pieces; i++)
	{
		ls_error	error;
		ls_status	status;

		CHECK_FOR_INTERRUPTS();
		LS_CALL_ON(toast, status,
				   ls_value_delete_piece(ls_writer(), ls_open(toast), row_of(value_id, i), cid,
										 &error));
		if (status == LS_NOT_FOUND)
			continue;
		if (status == LS_DELETED || status == LS_BEING_MODIFIED || status == LS_SELF_MODIFIED ||
			status == LS_INVISIBLE)
			fail_piece(toast, value_id, i, "deleted twice:");	/* VALUE-1 */
		ls_check(status, error, toast);
		pgstat_count_heap_delete(toast);
	}
}

static void
delete_from(Oid toast_oid, const struct varlena *pointer, bool is_own)
{
	struct varatt_external external;
	Relation	toast = open_toast(toast_oid);

	VARATT_EXTERNAL_GET_POINTER(external, pointer);
	delete_pieces(toast, external.va_valueid, pieces_of(VARATT_EXTERNAL_GET_EXTSIZE(external)),
				  is_own);
	ls_value_trace(&external, NULL);
	table_close(toast, NoLock);
}

void
ls_value_delete(const struct varlena *pointer, bool is_own)
{
	struct varatt_external external;

	if (!VARATT_IS_EXTERNAL_ONDISK(pointer))
		return;
	VARATT_EXTERNAL_GET_POINTER(external, pointer);
	delete_from(external.va_toastrelid, pointer, is_own);
}

void
ls_value_delete_copy(Relation rel, const struct varlena *pointer)
{
	delete_from(rel->rd_rel->reltoastrelid, pointer, true);
}
