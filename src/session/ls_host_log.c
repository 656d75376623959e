/*
 * ls_host_log.c - PostgreSQL's WAL as the engine's log (leanstore.log = wal): what the engine calls
 * to write to it.
 *
 * Each round of the engine's log is one record of our resource manager (server/ls_rmgr.c), and so
 * is each piece of a value; places of pages that a round changes stand before it.  Any process of
 * the server may write one; the engine's threads may not.
 *
 * Files of values are forks of relations, so their syncs are the checkpointer's: it gets the
 * request when the bytes are in the file and before they are in WAL.  So a checkpoint finds the
 * request if its redo point lies behind the bytes.
 */
#include "postgres.h"

#include "ls_session_internal.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/transam.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "access/xlogrecord.h"
#include "common/relpath.h"
#include "executor/instrument.h"
#include "storage/fd.h"
#include "storage/sync.h"
#include "utils/wait_event.h"

/* of the engine's files, whatever those of the server have */
#define SEGMENT_BYTES (UINT64CONST(1) << 30)

/*
 * Under a mutex of the engine's, so an error would leave it locked: none is possible here but a
 * PANIC.
 *
 * A round gets into the relay log when this returns, without having been flushed.  After a crash it
 * must not count unless WAL has it, and what is replayed tells where WAL ends, if anything is
 * replayed at all.  So the first round behind a redo point is flushed: if none is replayed none is
 * in the relay log.  (A redo point that is newer than the one seen here is no
 * matter: its checkpoint waits for the relay log, which waits for that mutex, so the checkpoint's
 * own record will be behind this round, and flushed.)
 */
static uint64_t
insert_round(const void *bytes, size_t count, uint64_t position)
{
	const XLogRecPtr redo = GetRedoRecPtr();
	const WalUsage before = pgWalUsage;
	LsWalRound	head;
	XLogRecPtr	end;

	START_CRIT_SECTION();
	head = (LsWalRound) {position, U64FromFullTransactionId(ReadNextFullTransactionId())};
	XLogBeginInsert();
	XLogRegisterData(&head, sizeof(head));
	XLogRegisterData(bytes, count);
	end = XLogInsert(LS_RMGR_ID, LS_WAL_ROUND);
	/* Each session has counted its own records in it as WAL (ls_pages.c). */
	pgWalUsage.wal_records = before.wal_records;
	pgWalUsage.wal_bytes = before.wal_bytes;
	if (ls_shared->round_behind != redo)
	{
		XLogFlush(end);
		ls_shared->round_behind = redo;
	}
	END_CRIT_SECTION();
	return end;
}

static void
flush_rounds(uint64_t end)
{
	START_CRIT_SECTION();
	XLogFlush(end);
	END_CRIT_SECTION();
}

static uint64_t
rounds_flushed(void)
{
	return GetFlushRecPtr(NULL);
}

/* The checkpointer's queue is full, or there is no checkpointer yet. */
static void
sync_now(const FileTag *tag)
{
	const RelPathStr path = GetRelationPath(tag->rlocator.dbOid, tag->rlocator.spcOid,
											tag->rlocator.relNumber, INVALID_PROC_NUMBER,
											FSM_FORKNUM);
	char		segment[MAXPGPATH];
	int			fd;

	if (tag->segno == 0)
		strlcpy(segment, path.str, sizeof(segment));
	else
		snprintf(segment, sizeof(segment), "%s." UINT64_FORMAT, path.str, tag->segno);
	pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_IMMEDIATE_SYNC);
	fd = open(segment, O_RDWR | PG_BINARY | O_CLOEXEC, 0);
	if (fd < 0 || pg_fsync(fd) != 0)
		ereport(data_sync_elevel(ERROR),
				(errcode_for_file_access(),
				 errmsg("could not fsync file \"%s\": %m", segment)));
	close(fd);
	pgstat_report_wait_end();
}

void
ls_host_log_sync_values(const LsWalValues *values, Size bytes)
{
	const uint64 begin = (uint64) values->page * LS_PAGE_BYTES;
	FileTag		tag = {
		.handler = SYNC_HANDLER_MD,
		.forknum = FSM_FORKNUM,
		.rlocator = values->locator
	};

	for (tag.segno = begin / SEGMENT_BYTES; tag.segno <= (begin + bytes - 1) / SEGMENT_BYTES;
		 tag.segno++)
	{
		if (!RegisterSyncRequest(&tag, SYNC_REQUEST, false))
			sync_now(&tag);
	}
}

/* Between functions of the engine, so that an error would lose what they hold: a PANIC, too. */
static void
insert_values(const ls_rel_key *relation, uint32_t page, const void *bytes, size_t count)
{
	LsWalValues values = {
		.locator = {
			.spcOid = relation->tablespace,
			.dbOid = relation->database,
			.relNumber = relation->relation
		},
		.page = page
	};

	START_CRIT_SECTION();
	ls_host_log_sync_values(&values, count);
	XLogBeginInsert();
	XLogRegisterData(&values, sizeof(values));
	XLogRegisterData(bytes, count);
	XLogInsert(LS_RMGR_ID, LS_WAL_VALUES);
	END_CRIT_SECTION();
}

static void
insert_prepared(const ls_prepared_bytes *bytes)
{
	LsWalPrepared head = {
		.full_xid = bytes->full_xid,
		.at = bytes->at,
		.last = bytes->last
	};

	START_CRIT_SECTION();
	XLogBeginInsert();
	XLogRegisterData(&head, sizeof(head));
	XLogRegisterData(bytes->bytes, bytes->count);
	XLogInsert(LS_RMGR_ID, LS_WAL_PREPARED);
	END_CRIT_SECTION();
}

/* PostgreSQL has room for each, and for its image, in every process. */
static int	blocks_of_record = XLR_NORMAL_MAX_BLOCK_ID;

static BlockNumber
block_of(const ls_page_place *place)
{
	return place->page / (BLCKSZ / LS_PAGE_BYTES);
}

static bool
is_same_block(const ls_page_place *a, const ls_page_place *b)
{
	return memcmp(&a->relation, &b->relation, sizeof(a->relation)) == 0 &&
		   block_of(a) == block_of(b);
}

/*
 * Pages as block references: what tools know that read WAL without this library (the WAL
 * summarizer, pg_rewind).  Two pages of 4 KiB are a block.
 *
 * Blocks that "will be initialized" have no image, and are not read ahead by a standby.
 */
static void
insert_places(const ls_page_place *places, size_t count, bool durable)
{
	static const PGAlignedBlock unused;
	XLogRecPtr	end = InvalidXLogRecPtr;
	size_t		done = 0;

	START_CRIT_SECTION();
	while (done < count)
	{
		int			blocks = 0;

		XLogBeginInsert();
		for (; done < count && blocks < blocks_of_record; done++)
		{
			const ls_page_place *place = &places[done];
			RelFileLocator locator = {
				.spcOid = place->relation.tablespace,
				.dbOid = place->relation.database,
				.relNumber = place->relation.relation
			};

			if (done > 0 && is_same_block(place, place - 1))
				continue;
			XLogRegisterBlock(blocks++, &locator, MAIN_FORKNUM, block_of(place), unused.data,
							  REGBUF_WILL_INIT);
		}
		if (blocks > 0)
			end = XLogInsert(LS_RMGR_ID, LS_WAL_PLACES);
		else
			XLogResetInsertion();
	}
	if (durable)
		XLogFlush(end);
	END_CRIT_SECTION();
}

/* The checkpoint that it is for flushes it. */
void
ls_host_log_insert_state(XLogRecPtr redo, const void *state, Size bytes)
{
	LsWalState	head = {.redo = redo};

	START_CRIT_SECTION();
	XLogBeginInsert();
	XLogRegisterData(&head, sizeof(head));
	XLogRegisterData(state, bytes);
	XLogInsert(LS_RMGR_ID, LS_WAL_STATE);
	END_CRIT_SECTION();
}

void
ls_host_log_begin(void)
{
	static const ls_host_log functions = {
		.insert = insert_round,
		.flush = flush_rounds,
		.flushed = rounds_flushed,
		.insert_values = insert_values,
		.insert_prepared = insert_prepared,
		.insert_places = insert_places,
	};

	if (ls_log_is_wal())
		ls_host_log_use(&functions);
}

void
ls_host_log_begin_writer(void)
{
	XLogEnsureRecordSpace(XLR_MAX_BLOCK_ID, 0);
	blocks_of_record = XLR_MAX_BLOCK_ID;
	ls_host_log_begin();
}
