/*
 * ls_index_build_parallel.c - building an index with parallel workers.
 *
 * The workers and the leader share a scan of the table.  Each sorts its rows with its part
 * of maintenance_work_mem, the workers leave theirs in files that all can read, and the
 * leader merges these with its own as it loads the index.  Files and shared memory go with
 * the parallel context, whatever ends it.
 */
#include "postgres.h"

#include "ls_index_build.h"

#include "access/genam.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/proc.h"
#include "storage/spin.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/snapmgr.h"

#define KEY_SHARED			UINT64CONST(0x4C53494200000001)
#define KEY_SCAN			UINT64CONST(0x4C53494200000002)
#define KEY_QUERY			UINT64CONST(0x4C53494200000003)
#define KEY_WAL_USAGE		UINT64CONST(0x4C53494200000004)
#define KEY_BUFFER_USAGE	UINT64CONST(0x4C53494200000005)

typedef struct SharedBuild
{
	Oid			table;
	Oid			index;
	bool		concurrent;
	int			kilobytes;		/* of memory for each process */
	int64		query_id;
	SharedFileSet files;

	/* protects what follows; to be read when the workers have finished */
	slock_t		mutex;
	double		rows;
	double		entries;
	bool		broken_hot_chain;
	int			n_files[FLEXIBLE_ARRAY_MEMBER]; /* by worker */
} SharedBuild;

struct LsIndexBuildTeam
{
	ParallelContext *context;
	SharedBuild *shared;
	Snapshot	snapshot;		/* of the scan */
	WalUsage   *wal_usage;		/* by worker */
	BufferUsage *buffer_usage;
};

/* ---- leader ---------------------------------------------------------------- */

static void
end_parallel(LsIndexBuildTeam *team)
{
	if (IsMVCCSnapshot(team->snapshot))
		UnregisterSnapshot(team->snapshot);
	DestroyParallelContext(team->context);
	ExitParallelMode();
	pfree(team);
}

static void
estimate(LsIndexBuildTeam *team, Relation table)
{
	ParallelContext *context = team->context;

	shm_toc_estimate_chunk(&context->estimator,
						   offsetof(SharedBuild, n_files) + context->nworkers * sizeof(int));
	shm_toc_estimate_chunk(&context->estimator, table_parallelscan_estimate(table, team->snapshot));
	shm_toc_estimate_chunk(&context->estimator, mul_size(sizeof(WalUsage), context->nworkers));
	shm_toc_estimate_chunk(&context->estimator, mul_size(sizeof(BufferUsage), context->nworkers));
	shm_toc_estimate_keys(&context->estimator, 4);
	if (debug_query_string != NULL)
	{
		shm_toc_estimate_chunk(&context->estimator, strlen(debug_query_string) + 1);
		shm_toc_estimate_keys(&context->estimator, 1);
	}
}

static void *
allocate(ParallelContext *context, uint64 key, Size size)
{
	void	   *memory = shm_toc_allocate(context->toc, size);

	shm_toc_insert(context->toc, key, memory);
	return memory;
}

static void
fill_shared(LsIndexBuildTeam *team, Relation table, Relation index, IndexInfo *info)
{
	ParallelContext *context = team->context;
	SharedBuild *shared = allocate(context, KEY_SHARED,
								   offsetof(SharedBuild, n_files) +
									   context->nworkers * sizeof(int));

	memset(shared, 0, offsetof(SharedBuild, n_files) + context->nworkers * sizeof(int));
	shared->table = RelationGetRelid(table);
	shared->index = RelationGetRelid(index);
	shared->concurrent = info->ii_Concurrent;
	shared->kilobytes = maintenance_work_mem / (context->nworkers + 1);
	shared->query_id = pgstat_get_my_query_id();
	SpinLockInit(&shared->mutex);
	SharedFileSetInit(&shared->files, context->seg);
	team->shared = shared;

	table_parallelscan_initialize(table,
								  allocate(context, KEY_SCAN,
										   table_parallelscan_estimate(table, team->snapshot)),
								  team->snapshot);
	team->wal_usage = allocate(context, KEY_WAL_USAGE,
							   mul_size(sizeof(WalUsage), context->nworkers));
	team->buffer_usage = allocate(context, KEY_BUFFER_USAGE,
								  mul_size(sizeof(BufferUsage), context->nworkers));
	if (debug_query_string != NULL)
		strcpy(allocate(context, KEY_QUERY, strlen(debug_query_string) + 1), debug_query_string);
}

LsIndexBuildTeam *
ls_index_build_team(Relation table, Relation index, IndexInfo *info)
{
	LsIndexBuildTeam *team = palloc0_object(LsIndexBuildTeam);

	EnterParallelMode();
	team->context = CreateParallelContext("leanstore_am", "ls_index_build_worker",
										  info->ii_ParallelWorkers);
	/* as a scan by the leader alone would: see ls_table_build.c */
	team->snapshot = info->ii_Concurrent ? RegisterSnapshot(GetTransactionSnapshot()) : SnapshotAny;
	estimate(team, table);
	InitializeParallelDSM(team->context);
	if (team->context->seg != NULL)
	{
		fill_shared(team, table, index, info);
		LaunchParallelWorkers(team->context);
	}
	ereport(DEBUG1,
			(errmsg_internal("building index \"%s\" with %d parallel workers",
							 RelationGetRelationName(index), team->context->nworkers_launched)));
	if (team->context->nworkers_launched == 0)
	{
		end_parallel(team);
		return NULL;
	}
	return team;
}

int
ls_index_build_team_size(const LsIndexBuildTeam *team)
{
	return team == NULL ? 1 : team->context->nworkers_launched + 1;
}

void
ls_index_build_team_scan(LsIndexBuildTeam *team, LsIndexBuild *b)
{
	ParallelContext *context = team->context;
	SharedBuild *shared = team->shared;

	/* the leader has no number among the workers; its files, if it needs any, get the one behind */
	ls_index_sort_share(b->sort, &shared->files, context->nworkers);
	ls_index_build_scan(b, true,
						table_beginscan_parallel(b->table,
												 shm_toc_lookup(context->toc, KEY_SCAN, false)));

	WaitForParallelWorkersToFinish(context);
	for (int i = 0; i < context->nworkers_launched; i++)
	{
		InstrAccumParallelQuery(&team->buffer_usage[i], &team->wal_usage[i]);
		ls_index_sort_import(b->sort, i, shared->n_files[i]);
	}
	b->rows += shared->rows;
	b->entries += shared->entries;
	if (shared->broken_hot_chain)
		b->info->ii_BrokenHotChain = true;
}

void
ls_index_build_team_end(LsIndexBuildTeam *team)
{
	end_parallel(team);
}

/* ---- worker ---------------------------------------------------------------- */

static void
work(SharedBuild *shared, Relation table, Relation index, ParallelTableScanDesc scan)
{
	LsIndexBuild b;
	IndexInfo  *info = BuildIndexInfo(index);
	int			n_files;

	info->ii_Concurrent = shared->concurrent;
	ls_index_build_begin(&b, table, index, info, shared->kilobytes);
	ls_index_sort_share(b.sort, &shared->files, ParallelWorkerNumber);
	ls_index_build_scan(&b, false, table_beginscan_parallel(table, scan));
	n_files = ls_index_sort_export(b.sort);
	ls_index_build_end(&b);

	SpinLockAcquire(&shared->mutex);
	shared->n_files[ParallelWorkerNumber] = n_files;
	shared->rows += b.rows;
	shared->entries += b.entries;
	shared->broken_hot_chain |= info->ii_BrokenHotChain;
	SpinLockRelease(&shared->mutex);
}

void
ls_index_build_worker(dsm_segment *seg, shm_toc *toc)
{
	SharedBuild *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	BufferUsage *buffer_usage = shm_toc_lookup(toc, KEY_BUFFER_USAGE, false);
	WalUsage   *wal_usage = shm_toc_lookup(toc, KEY_WAL_USAGE, false);
	/* the locks that the leader has */
	LOCKMODE	table_lock = shared->concurrent ? ShareUpdateExclusiveLock : ShareLock;
	LOCKMODE	index_lock = shared->concurrent ? RowExclusiveLock : AccessExclusiveLock;
	Relation	table;
	Relation	index;

	debug_query_string = shm_toc_lookup(toc, KEY_QUERY, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	pgstat_report_query_id(shared->query_id, false);

	SharedFileSetAttach(&shared->files, seg);
	table = table_open(shared->table, table_lock);
	index = index_open(shared->index, index_lock);
	InstrStartParallelQuery();
	work(shared, table, index, shm_toc_lookup(toc, KEY_SCAN, false));
	InstrEndParallelQuery(&buffer_usage[ParallelWorkerNumber], &wal_usage[ParallelWorkerNumber]);
	index_close(index, index_lock);
	table_close(table, table_lock);
}
