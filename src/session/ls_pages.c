/*
 * ls_pages.c - the engine's pages and log in the server's counters: EXPLAIN (BUFFERS,
 * WAL), pg_stat_statements, pg_statio_*, pg_stat_io, pg_stat_wal.
 *
 * The engine counts for each worker the leaves that it finds in memory, the pages that it
 * reads or adds to files, and what it writes to the log.  After each call the difference is added
 * to what the server counts for shared buffers, the cost of VACUUM and ANALYZE included
 * (vacuum_cost_delay).  The unit is the engine's page of 4 KiB.  Its log is added to the server's.
 */
#include "postgres.h"

#include "ls_session_internal.h"

#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"

static const ls_page_counts no_pages = {0};
static const ls_log_counts no_log = {0};

const ls_page_counts *ls_pages = &no_pages;
ls_page_counts ls_pages_counted;
const ls_log_counts *ls_log = &no_log;
ls_log_counts ls_log_counted;

/* worker == NULL: this backend is none any more. */
void
ls_pages_attach(const ls_worker *worker)
{
	ls_pages = worker == NULL ? &no_pages : ls_worker_page_counts(worker);
	ls_pages_counted = *ls_pages;
	ls_log = worker == NULL ? &no_log : ls_worker_log_counts(worker);
	ls_log_counted = *ls_log;
}

static void
count_io(IOOp op, uint64 count, uint64 bytes)
{
	if (count > 0 && pgstat_tracks_io_op(MyBackendType, IOOBJECT_RELATION, IOCONTEXT_NORMAL, op))
		pgstat_count_io_op(IOOBJECT_RELATION, IOCONTEXT_NORMAL, op, count, bytes);
}

void
ls_pages_note(Relation rel)
{
	uint64		hit = ls_pages->hit - ls_pages_counted.hit;
	uint64		read = ls_pages->read - ls_pages_counted.read;
	uint64		extended = ls_pages->extended - ls_pages_counted.extended;

	pgWalUsage.wal_records += ls_log->records - ls_log_counted.records;
	pgWalUsage.wal_bytes += ls_log->bytes - ls_log_counted.bytes;
	ls_log_counted = *ls_log;
	ls_pages_counted = *ls_pages;
	pgBufferUsage.shared_blks_hit += hit;
	pgBufferUsage.shared_blks_read += read;
	if (VacuumCostActive)
		VacuumCostBalance += (int) (hit * VacuumCostPageHit + read * VacuumCostPageMiss);
	if (rel != NULL && pgstat_should_count_relation(rel))
	{
		rel->pgstat_info->counts.blocks_fetched += hit + read;
		rel->pgstat_info->counts.blocks_hit += hit;
	}
	count_io(IOOP_HIT, hit, 0);
	count_io(IOOP_READ, read, read * LS_PAGE_BYTES);
	count_io(IOOP_EXTEND, extended, extended * LS_PAGE_BYTES);
}
