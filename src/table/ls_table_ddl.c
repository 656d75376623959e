/*
 * ls_table_ddl.c - files of a table: new, emptied, moved; and its size.
 *
 * PostgreSQL's storage manager creates the files and unlinks them when the
 * transaction has decided; the engine opens an empty file as an empty tree and is
 * told to forget a file before it goes (ls_relation_note_dropped).
 */
#include "postgres.h"

#include "ls_table_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include "access/multixact.h"
#include "access/xlog.h"
#include "access/xlogutils.h"
#include "catalog/storage.h"
#include "catalog/storage_xlog.h"
#include "common/relpath.h"
#include "storage/procarray.h"
#include "storage/procnumber.h"
#include "storage/smgr.h"
#include "utils/snapmgr.h"

/*
 * Create the file(s) of a table.  The engine writes the main fork by itself and its
 * own log makes it durable.
 */
static void
create_files(const RelFileLocator *locator, char persistence)
{
	SMgrRelation srel = RelationCreateStorage(*locator, persistence, true);

	/* an empty init fork is what an unlogged table is reset to: an empty tree */
	if (persistence == RELPERSISTENCE_UNLOGGED)
	{
		smgrcreate(srel, INIT_FORKNUM, false);
		log_smgrcreate(locator, INIT_FORKNUM);
	}
	smgrclose(srel);

	/*
	 * With wal_level = minimal the server would at commit copy small new files,
	 * page by page through its own buffers, to its WAL.  Ours have no pages of
	 * its kind; a file that was truncated is synced instead, which is harmless.
	 */
	if (persistence == RELPERSISTENCE_PERMANENT && !XLogIsNeeded())
	{
		Relation	fake = CreateFakeRelcacheEntry(*locator);

		RelationPreTruncate(fake);
		FreeFakeRelcacheEntry(fake);
	}

	ls_relation_note_dropped(locator,
							 persistence == RELPERSISTENCE_TEMP ? ProcNumberForTempRelations()
																: INVALID_PROC_NUMBER,
							 false);
}

/* The tree in a file that no relcache entry names yet. */
static ls_rel
open_file(Relation rel, const RelFileLocator *locator, char persistence)
{
	const ls_rel_key key = ls_relation_key(locator, rel->rd_backend);
	RelPathStr	path = relpathbackend(*locator, rel->rd_backend, MAIN_FORKNUM);
	ls_rel		tree;
	ls_error	error;
	ls_status	status;

	LS_CALL(status,
			ls_rel_open(ls_reader(), &key, path.str, ls_relation_kind(rel),
						persistence == RELPERSISTENCE_PERMANENT, &tree, &error));
	ls_check(status, error, rel);
	return tree;
}

/* The next row id, or place, to be drawn. */
static uint64
place_of(Relation rel)
{
	ls_rel_info info;
	ls_error	error;
	ls_status	status;

	LS_CALL(status, ls_rel_get_info(ls_reader(), ls_open(rel), &info, &error));
	ls_check(status, error, rel);
	return info.next_place;
}

static void
skip_ids_of(Relation rel, ls_rel *tree, uint64 place)
{
	ls_error	error;
	ls_status	status;

	/* the server empties temporary tables at commit, when nothing is written any more */
	LS_CALL(status, ls_row_ids_skip(ls_reader(), tree, place, &error));
	ls_check(status, error, rel);
}

ls_status
ls_try_open(Relation rel, ls_rel *tree, ls_error *error)
{
	RelPathStr	path = relpathbackend(rel->rd_locator, rel->rd_backend, MAIN_FORKNUM);
	const ls_rel_key key = ls_relation_key(&rel->rd_locator, rel->rd_backend);
	ls_status	status;

	LS_CALL(status,
			ls_rel_open(ls_reader(), &key, path.str, ls_relation_kind(rel),
						rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT, tree, error));
	return status;
}

/*
 * A TOAST table that is emptied keeps its name, and this transaction may have a pointer to one of
 * its values still, in a variable: that must not lead to another one.  So in the new file numbers
 * go on.  0: the old one never had a page, and opened it would get its first, which this
 * transaction's commit would wait for; or it is not to be read, for it is another store's, or
 * damaged.
 */
static uint64
place_of_values(Relation rel)
{
	const ls_rel_key key = ls_relation_key(&rel->rd_locator, rel->rd_backend);
	ls_rel		tree;
	ls_rel_info info;
	ls_error	error;
	ls_status	status;

	/* first: redo may still have to give the file its pages */
	(void) ls_reader();
	if (smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM) == 0 &&
		!ls_rel_is_known(ls_shared->store, &key))
		return 0;
	status = ls_try_open(rel, &tree, &error);
	if (status == LS_FOREIGN || status == LS_CORRUPT)
		return 0;
	ls_check(status, error, rel);
	LS_CALL(status, ls_rel_get_info(ls_reader(), &tree, &info, &error));
	ls_check(status, error, rel);
	return info.next_place;
}

/* Of a file that was just made.  One that never had a value stays as it is. */
static void
skip_ids(Relation rel, const RelFileLocator *locator, char persistence, uint64 place)
{
	ls_rel		tree;

	if (place <= LS_ROWS_PER_VALUE)
		return;
	tree = open_file(rel, locator, persistence);
	skip_ids_of(rel, &tree, place);
}

void
ls_relation_set_new_filelocator(Relation rel, const RelFileLocator *newrlocator, char persistence,
								TransactionId *freezeXid, MultiXactId *minmulti)
{
	ls_upgrade_refuse(RelationGetRelationName(rel));

	/* nothing in the table ever needs freezing */
	*freezeXid = InvalidTransactionId;
	*minmulti = InvalidMultiXactId;

	create_files(newrlocator, persistence);

	/* a file that is replaced goes when the transaction commits */
	if (RelFileNumberIsValid(rel->rd_locator.relNumber) &&
		!RelFileLocatorEquals(rel->rd_locator, *newrlocator))
	{
		if (ls_holds_values(rel))
			skip_ids(rel, newrlocator, persistence, place_of_values(rel));
		ls_relation_note_dropped(&rel->rd_locator, rel->rd_backend, true);
	}
}

void
ls_relation_nontransactional_truncate(Relation rel)
{
	uint64		place = ls_holds_values(rel) ? place_of_values(rel) : 0;

	ls_forget_row_ids(rel);
	ls_relation_empty(rel);
	if (ls_holds_values(rel))
		skip_ids(rel, &rel->rd_locator, rel->rd_rel->relpersistence, place);
}

void
ls_continue_ids(Relation rel, ls_rel *tree)
{
	skip_ids_of(rel, tree, place_of(rel));
}

/*
 * Deleted rows that a snapshot may still see go along, older versions stay where they are.  The
 * pages themselves cannot be copied, the engine's cleaner may be at work on them.
 */
LsCopied
ls_copy_rows_as_they_are(Relation rel, ls_rel *tree)
{
	LsScanDesc *scan;
	LsCopied	copied = {0};
	uint64		horizon = ls_tn_from_xid(GetOldestNonRemovableTransactionId(rel));
	ls_row		row;

	ls_continue_ids(rel, tree);
	scan = ls_scan_create(rel, SnapshotAny, 0);
	while (ls_scan_row(scan, false, &row))
	{
		bool		is_ghost = (row.flags & LS_ROW_GHOST) != 0;
		ls_error	error;
		ls_status	status;

		CHECK_FOR_INTERRUPTS();
		if (row.writer_tn < horizon)
		{
			if (is_ghost)
			{
				copied.dead += 1;
				continue;
			}
			row.flags = 0;
		}
		if (ls_holds_values(rel))
		{
			LS_CALL(status,
					ls_value_insert_copied(ls_writer(), tree, ls_open(rel), &row, &error));
			if (status == LS_NOT_FOUND && is_ghost)
			{
				copied.dead += 1;
				continue;
			}
		}
		else
			LS_CALL(status, ls_row_insert_copied(ls_writer(), tree, row.row_id, &row, &error));
		ls_check(status, error, rel);
		if (is_ghost)
			copied.ghosts += 1;
		else
			copied.rows += 1;
	}
	ls_scan_end(&scan->base);
	return copied;
}

/* ALTER TABLE SET TABLESPACE.  Row ids stay, and so do indexes. */
void
ls_relation_copy_data(Relation rel, const RelFileLocator *newrlocator)
{
	ls_rel		tree;

	/* as before every copy of a whole table */
	ls_twophase_settle_all();
	create_files(newrlocator, rel->rd_rel->relpersistence);
	tree = open_file(rel, newrlocator, rel->rd_rel->relpersistence);
	(void) ls_copy_rows_as_they_are(rel, &tree);
	ls_relation_note_dropped(&rel->rd_locator, rel->rd_backend, true);
	RelationDropStorage(rel);
}

/*
 * The main fork has as many blocks as there are logical blocks of row ids: ANALYZE,
 * BRIN, TID range scans and parallel scans ask to know which block numbers TIDs may
 * have.  pg_relation_size() looks at the files.
 */
uint64
ls_relation_size(Relation rel, ForkNumber forkNumber)
{
	uint64		blocks = 0;

	for (ForkNumber fork = MAIN_FORKNUM; fork <= MAX_FORKNUM; fork++)
	{
		if (forkNumber != InvalidForkNumber && forkNumber != fork)
			continue;
		if (fork == MAIN_FORKNUM)
			blocks += ls_end_row_to_blocks(ls_end_row(rel));
		else if (smgrexists(RelationGetSmgr(rel), fork))
			blocks += smgrnblocks(RelationGetSmgr(rel), fork);
	}
	return blocks * BLCKSZ;
}
