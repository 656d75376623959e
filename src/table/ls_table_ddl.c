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
		ls_relation_note_dropped(&rel->rd_locator, rel->rd_backend, true);
}

void
ls_relation_nontransactional_truncate(Relation rel)
{
	ls_rel_key	key = {
		.tablespace = rel->rd_locator.spcOid,
		.database = rel->rd_locator.dbOid,
		.relation = rel->rd_locator.relNumber,
		.owner = rel->rd_backend
	};

	/* forget first: no page of the old tree may be written to the emptied file */
	(void) ls_reader();
	ls_rel_forget(ls_shared->store, &key);
	ls_forget_row_ids(rel);
	RelationTruncate(rel, 0);
}

/* The tree in a file that no relcache entry names yet. */
static ls_rel
open_file(Relation rel, const RelFileLocator *locator)
{
	ls_rel_key	key = {
		.tablespace = locator->spcOid,
		.database = locator->dbOid,
		.relation = locator->relNumber,
		.owner = rel->rd_backend
	};
	RelPathStr	path = relpathbackend(*locator, rel->rd_backend, MAIN_FORKNUM);
	ls_rel		tree;
	ls_error	error;
	ls_status	status;

	LS_CALL(status,
			ls_rel_open(ls_writer(), &key, path.str, LS_REL_TABLE,
						rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT, &tree, &error));
	ls_check(status, error, rel);
	return tree;
}

/* Draw row ids until `end` is the next one, so that a copy goes on where its original stopped. */
static void
draw_row_ids(Relation rel, ls_rel *tree, uint64 end)
{
	uint64		next = 0;

	while (next < end)
	{
		uint32		count = (uint32) Min(end - next, (uint64) 1 << 30);
		uint64		first;
		ls_error	error;
		ls_status	status;

		/* the first id of a new tree is the engine's choice: ask for one to learn it */
		LS_CALL(status, ls_row_ids(ls_writer(), tree, next == 0 ? 1 : count, &first, &error));
		ls_check(status, error, rel);
		next = first + (next == 0 ? 1 : count);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * ALTER TABLE SET TABLESPACE.  The rows are copied one by one under their row ids
 * (indexes stay as they are): the pages themselves cannot be copied, the engine's
 * cleaner may be at work on them.  Deleted rows that a snapshot may still see go
 * along, older versions stay where they are.
 */
void
ls_relation_copy_data(Relation rel, const RelFileLocator *newrlocator)
{
	LsScanDesc *scan;
	ls_rel		tree;
	uint64		horizon = ls_tn_from_xid(GetOldestNonRemovableTransactionId(rel));
	ls_row		row;

	/* as before every copy of a whole table */
	ls_twophase_settle_all();
	create_files(newrlocator, rel->rd_rel->relpersistence);

	tree = open_file(rel, newrlocator);
	draw_row_ids(rel, &tree, ls_end_row(rel));

	scan = ls_scan_create(rel, SnapshotAny, 0);
	while (ls_scan_row(scan, false, &row))
	{
		ls_error	error;
		ls_status	status;

		CHECK_FOR_INTERRUPTS();
		if (row.writer_tn < horizon)
		{
			if (row.flags & LS_ROW_GHOST)
				continue;
			row.flags = 0;
		}
		LS_CALL(status, ls_row_insert_copied(ls_writer(), &tree, row.row_id, &row, &error));
		ls_check(status, error, rel);
	}
	ls_scan_end(&scan->base);

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
