/*
 * ls_shmem.c - the engine's arena in PostgreSQL's main shared memory.
 *
 * Reserved by the postmaster, inherited by every process at the same address:
 * that is why a swizzled pointer can be a plain pointer.  After a crash of any
 * process PostgreSQL makes the segment anew and this file formats it again.
 */
#include "postgres.h"

#include "ls_server_internal.h"
#include "session/ls_session.h"
#include "txn/ls_txn.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include "access/twophase.h"
#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "common/file_perm.h"
#include "miscadmin.h"
#include "postmaster/bgwriter.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/pg_shmem.h"
#include "storage/proc.h"
#include "storage/shmem.h"

/* a huge page */
#define ARENA_ALIGNMENT ((Size) 2 * 1024 * 1024)

shmem_request_hook_type ls_shmem_below_request = NULL;
shmem_startup_hook_type ls_shmem_below_startup = NULL;

void
ls_fill_config(ls_config *config)
{
	memset(config, 0, sizeof(*config));
	config->buffer_pool_bytes = (uint64) ls_buffer_pool_size_mb * 1024 * 1024;
	config->compressed_cache_percent = ls_compressed_cache_percent;
	config->worker_slots = LS_WORKER_SLOTS;
	config->prepared_slots = max_prepared_xacts;
	config->max_open_files = ls_max_open_relations;
	config->log_buffer_bytes = ls_log_buffer_size_kb * 1024;
	config->log_segment_bytes = (uint64) ls_wal_segment_size_mb * 1024 * 1024;
	config->max_log_bytes = (uint64) ls_max_wal_size_mb * 1024 * 1024;
	config->long_transaction_bytes = config->max_log_bytes / 4;
	config->checkpoint_seconds = ls_checkpoint_timeout_s;
	config->checkpoint_spread = (uint32) (CheckPointCompletionTarget * 100);
	config->page_providers = ls_eviction_threads;
	config->version_trees = ls_version_trees;
	config->range_lock_bytes = (uint64) ls_range_lock_memory_kb * 1024;
	config->fsync = enableFsync;
	config->direct_io = ls_direct_io;
	config->host_log = ls_log_is_wal();
	config->page_images = config->host_log && fullPageWrites;
	config->host_sync_points = !config->host_log;
	strlcpy(config->root_dir, DataDir, sizeof(config->root_dir));
	if (snprintf(config->data_dir, sizeof(config->data_dir), "%s/leanstore", DataDir) >=
		(int) sizeof(config->data_dir))
		ereport(FATAL,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("data directory path is too long for leanstore_am"),
				 errhint("Use a path of at most %d bytes.", (int) sizeof(config->data_dir) - 11)));
}

/* Before WAL is replayed, which the log of the other kind would have no place for. */
static void
check_log(void)
{
	ls_error	error = {0};
	bool		fits = true;

	/* Why it cannot be read recovery will say. */
	if (ls_store_log_fits(ls_shared->store, &fits, &error) != LS_OK || fits)
		return;
	ereport(FATAL,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("\"leanstore.log\" was changed, and leanstore tables were not shut down "
					"cleanly"),
			 errdetail("Recovery needs the log that they had."),
			 errhint("Set \"leanstore.log\" to \"%s\" and start the server.  It can be changed "
					 "when the server was shut down with no prepared transactions.",
					 ls_log_is_wal() ? "engine" : "wal")));
}

static Size
arena_bytes(const ls_config *config)
{
	return TYPEALIGN(ARENA_ALIGNMENT, ls_store_size(config));
}

void
ls_shmem_request(void)
{
	ls_config	config;

	if (ls_shmem_below_request)
		ls_shmem_below_request();
	ls_fill_config(&config);
	RequestAddinShmemSpace(add_size(MAXALIGN(sizeof(LsShared)),
									add_size(arena_bytes(&config), 2 * ARENA_ALIGNMENT)));
	RequestAddinShmemSpace(add_size(ls_pin_shmem_size(), ls_first_snapshot_shmem_size()));
	RequestAddinShmemSpace(add_size(ls_serializable_shmem_size(), ls_mixed_shmem_size()));
}

/*
 * The first transaction id that this start may hand out, as far as pg_control
 * knows.  If there is WAL to replay, the startup process corrects it at the end
 * of replay (ls_rmgr.c).
 */
static uint64
next_xid_in_control_file(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	uint64		result = U64FromFullTransactionId(control->checkPointCopy.nextXid);

	if (!crc_ok)
		ereport(FATAL,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("incorrect checksum in control file")));
	pfree(control);
	return result;
}

/*
 * The kernel backs shared memory with huge pages only where addresses and the places in the mapping
 * agree in their last 21 bits, which in the server's segment is a matter of luck.  So the arena
 * becomes a mapping of its own, in its place there: a process that unmaps the segment unmaps it,
 * too.  Nothing is lost where that is refused.
 */
static bool
map_arena(void *arena, Size bytes)
{
	void	   *own;

	if (huge_pages == HUGE_PAGES_OFF || huge_pages_status == HUGE_PAGES_ON ||
		shared_memory_type != SHMEM_TYPE_MMAP)
		return false;
	own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (own == MAP_FAILED)
		return false;
	if (mremap(own, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, arena) == MAP_FAILED)
		ereport(FATAL,
				(errcode_for_file_access(),
				 errmsg("could not map the leanstore buffer pool: %m"),
				 errhint("Try \"huge_pages = off\".")));
	return true;
}

static void
init_standby(void)
{
	pg_atomic_init_u32(&ls_shared->standby_pid, 0);
	pg_atomic_init_u32(&ls_shared->standby_over, 0);
	pg_atomic_init_u32(&ls_shared->replay_pid, 0);
	pg_atomic_init_u64(&ls_shared->last_redo, 0);
	pg_atomic_init_u32(&ls_shared->backups_begin, 0);
	pg_atomic_init_u64(&ls_shared->point_done, 0);
	pg_atomic_init_u64(&ls_shared->point_failed, 0);
	pg_atomic_init_u64(&ls_shared->flush_asked, 0);
	pg_atomic_init_u64(&ls_shared->flush_done, 0);
	pg_atomic_init_u64(&ls_shared->flush_failed, 0);
	pg_atomic_init_u32(&ls_shared->readable, LS_NOT_READABLE);
	pg_atomic_init_u32(&ls_shared->follow_begins, 0);
}

void
ls_shmem_startup(void)
{
	ls_config	config;
	ls_error	error;
	bool		found;
	Size		arena_size;

	if (ls_shmem_below_startup)
		ls_shmem_below_startup();

	ls_fill_config(&config);
	arena_size = arena_bytes(&config);

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	ls_shared = ShmemInitStruct("leanstore_am", sizeof(LsShared), &found);
	if (!found)
	{
		void	   *raw;
		bool		found_arena;

		memset(ls_shared, 0, sizeof(LsShared));
		init_standby();
		pg_atomic_init_u64(&ls_shared->first_new_xid, next_xid_in_control_file());
		pg_atomic_init_u64(&ls_shared->visible_lsn, 0);
		pg_atomic_init_u32(&ls_shared->async_commits, 0);
		pg_atomic_init_u32(&ls_shared->engine_pid, 0);
		pg_atomic_init_u32(&ls_shared->recovery_failed, 0);
		pg_atomic_init_u32(&ls_shared->first_state, 0);
		for (int i = 0; i < lengthof(ls_shared->turns); i++)
			pg_atomic_init_u64(&ls_shared->turns[i], 0);

		raw = ShmemInitStruct("leanstore_am arena", arena_size + ARENA_ALIGNMENT, &found_arena);
		ls_shared->arena = (void *) TYPEALIGN(ARENA_ALIGNMENT, raw);
		ls_shared->own_mapping = map_arena(ls_shared->arena, arena_size);
		config.huge_pages = ls_shared->own_mapping;

		if (mkdir(config.data_dir, pg_dir_create_mode) != 0 && errno != EEXIST)
			ereport(FATAL,
					(errcode_for_file_access(),
					 errmsg("could not create directory \"%s\": %m", config.data_dir),
					 errhint("The server needs to write to its data directory.")));
		if (ls_store_create(ls_shared->arena, arena_size, &config, &ls_shared->store, &error) !=
			LS_OK)
			ereport(FATAL,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not create the leanstore buffer pool: %s", error.message),
					 errhint("Check \"leanstore.buffer_pool_size\" and the memory that the system"
							 " has.")));
		ls_shared->states = config.page_images;
		ls_upgrade_look();
		ls_backup_look();
		if (!ls_shared->from_backup)
		{
			check_log();
			ls_log_switch_look();
		}
	}
	ls_pin_shmem_init();
	ls_first_snapshot_shmem_init();
	ls_serializable_shmem_init();
	ls_mixed_shmem_init();
	LWLockRelease(AddinShmemInitLock);
}
