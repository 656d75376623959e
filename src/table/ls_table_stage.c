/*
 * ls_table_stage.c - rows that are given one by one, and inserted together.
 *
 * CREATE TABLE AS, REFRESH MATERIALIZED VIEW and ALTER TABLE that writes a table anew give row
 * after row to a table that they have made.  COPY gives many at once, which costs the engine
 * half as much.  So rows for a new table wait here until they are as many.
 *
 *	STAGED-1: rows wait only in a table that this subtransaction has made, without an index or a
 *		trigger: no other session can see it, and the caller does not look for the row.
 *	STAGED-2: whatever else this session does with the table (a function in the query may) comes
 *		behind their insertion, for ls_open() sees to it.
 *	STAGED-3: they are inserted before a subtransaction begins or commits and before the
 *		transaction's end, and forgotten when it is rolled back.  So all that wait belong to the
 *		current subtransaction, and are undone with it.
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "lib/stringinfo.h"
#include "utils/memutils.h"

/* So much waits at most, as with COPY; and one row. */
#define LS_STAGE_ROWS 1024
#define LS_STAGE_BYTES (64 * 1024)

typedef struct Stage
{
	RelFileLocator locator;
	ls_rel		file;
	SubTransactionId sub;
	CommandId	cid;
	uint64		first;			/* id of the first row; LS_STAGE_ROWS are drawn */
	uint32		n;
	ls_bytes	rows[LS_STAGE_ROWS];	/* see LsNewRows */
	StringInfoData bytes;
	StringInfoData images;		/* of one row (row/ls_row_image.c) */
} Stage;

static Stage *stage = NULL;		/* kept by the session */

/*
 * Not with ls_writer(): when a subtransaction begins, the rows are of the one around it.
 */
static void
insert_staged(void)
{
	LsNewRows	staged = {
		.first = stage->first,
		.cid = stage->cid,
		.rows = stage->rows,
		.n = stage->n,
		.payloads = stage->bytes.data
	};

	ls_relation_staged.relid = InvalidOid;
	ls_insert_encoded(NULL, &stage->file, &staged);
	ls_row_ids_return(ls_attached_worker, &stage->file, staged.first + staged.n,
					  staged.first + LS_STAGE_ROWS);
}

/* Their transaction is undone. */
static void
forget_staged(void)
{
	ls_relation_staged.relid = InvalidOid;
}

static void
begin_stage(Relation rel, CommandId cid)
{
	if (stage == NULL)
	{
		MemoryContext before = MemoryContextSwitchTo(TopMemoryContext);
		Stage	   *made = palloc0_object(Stage);

		initStringInfoExt(&made->bytes, LS_STAGE_BYTES + LS_MAX_ROW_BYTES);
		initStringInfo(&made->images);
		stage = made;
		ls_relation_staged.insert = insert_staged;
		ls_relation_staged.forget = forget_staged;
		MemoryContextSwitchTo(before);
	}
	(void) ls_writer();
	stage->first = ls_row_id_range(rel, LS_STAGE_ROWS);
	stage->locator = rel->rd_locator;
	stage->sub = GetCurrentSubTransactionId();
	stage->cid = cid;
	stage->n = 0;
	resetStringInfo(&stage->bytes);
	Assert(rel->rd_createSubid == stage->sub && !rel->rd_rel->relhasindex);	/* STAGED-1 */
	ls_relation_stage(rel, &stage->file);
}

bool
ls_stage_takes(Relation rel, int options)
{
	return (options & TABLE_INSERT_SKIP_FSM) != 0 &&
		rel->rd_createSubid == GetCurrentSubTransactionId() &&
		!rel->rd_rel->relhasindex && rel->trigdesc == NULL && !ls_locks(rel);
}

/* The row's id, which it has from now on. */
uint64
ls_stage_row(Relation rel, TupleTableSlot *slot, CommandId cid, bool images)
{
	bool		goes_on = ls_relation_staged.relid == RelationGetRelid(rel) &&
				stage->cid == cid && stage->n < LS_STAGE_ROWS &&
				stage->bytes.len < LS_STAGE_BYTES &&
				RelFileLocatorEquals(stage->locator, rel->rd_locator);

	if (unlikely(!goes_on))
	{
		ls_relation_insert_staged();
		begin_stage(rel, cid);
	}
	Assert(stage->sub == GetCurrentSubTransactionId());	/* STAGED-3 */
	stage->rows[stage->n].len = ls_encode_slot(rel, slot, &stage->bytes,
											   images ? &stage->images : NULL);
	/* at once: later this subtransaction may have given way to one inside it */
	if (images)
		ls_image_insert(rel, &stage->images);
	return stage->first + stage->n++;
}
