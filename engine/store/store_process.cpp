// store_process.cpp - the views of one process, made and forgotten.
#include "store/store_process.hpp"

#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <vector>

#include "btree/tree.hpp"
#include "os/file.hpp"
#include "recovery/checkpoint.hpp"
#include "recovery/redo_page.hpp"
#include "store/standby_follow.hpp"
#include "store/store_start.hpp"
#include "store/store_threads.hpp"

namespace ls {

namespace {

// Of relation segments, per process.  The host counts them among its own, with those of
// PageReads::kMostRings (src/session/ls_descriptors.c).
constexpr u32 kMaxDescriptors = 64;
constexpr u32 kIoPartitions = 64;

// Never destroyed: engine threads may outlive static destruction, and after fork() the parent's
// entries must not be touched.
struct Registry {
  std::mutex mutex;
  pid_t pid = getpid();
  std::vector<StoreProcess *> processes;
};

std::atomic<Registry *> g_registry{nullptr};

// The parent's mutex may be held by a thread that does not exist here: a child begins with a
// registry of its own.
Registry &registry() {
  Registry *r = g_registry.load(std::memory_order_acquire);
  while (!r || r->pid != getpid()) {
    Registry *fresh = new Registry;
    if (g_registry.compare_exchange_strong(r, fresh, std::memory_order_acq_rel,
                                           std::memory_order_acquire))
      return *fresh;
    delete fresh;
  }
  return *r;
}

}  // namespace

StoreProcess::StoreProcess(ls_store &store_)
    : store(store_),
      log(Log::attach(store_.log_arena)),
      pool(BufferPool::attach(store_.pool_arena, log)),
      file_names(pool) {
  log.use_file_names(&file_names);
}

StoreProcess::~StoreProcess() { log.use_file_names(nullptr); }

StoreProcess &store_process(ls_store &store) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  for (StoreProcess *process : r.processes)
    if (&process->store == &store) return *process;
  file_setup(store.config.root_dir, store.config.direct_io, store.config.fsync, kMaxDescriptors);
  register_tree_ops(redo_tree_ops());
  auto process = std::make_unique<StoreProcess>(store);
  r.processes.push_back(process.get());
  return *process.release();
}

void store_process_forget(const void *arena) {
  Registry &r = registry();
  std::lock_guard lock(r.mutex);
  std::erase_if(r.processes, [&](StoreProcess *process) {
    if (&process->store != arena) return false;
    delete process;
    return true;
  });
}

CheckpointEnv checkpoint_env(const ls_store &store) {
  return {store.config.data_dir,
          store.txns,
          store.run,
          store.config.log_segment_bytes,
          store.redo_lsn.load(std::memory_order_relaxed),
          store.redo_run,
          store.undo_gsn,
          store.config.long_transaction_bytes,
          &store.undo_failures,
          kNoRedoFloor,
          &store.noted};
}

LogConfig log_config(const ls_config &config) {
  LogConfig log{};
  log.slots = config.worker_slots + kEngineSlots;
  log.buffer_bytes = config.log_buffer_bytes;
  log.segment_bytes = config.log_segment_bytes;
  log.fsync = config.fsync;
  log.host_log = config.host_log;
  log.page_images = config.page_images;
  std::snprintf(log.dir, sizeof log.dir, "%.500s/wal", config.data_dir);
  return log;
}

PoolConfig pool_config(const ls_config &config) {
  PoolConfig pool{};
  pool.bytes = config.buffer_pool_bytes;
  pool.max_files = config.max_open_files;
  pool.own_files = config.version_trees + kFurtherTrees + kEmptyTrees;
  pool.workers = config.worker_slots + kEngineSlots;
  pool.io_partitions = kIoPartitions;
  pool.compressed_cache_percent = config.compressed_cache_percent;
  std::snprintf(pool.doublewrite_path, sizeof pool.doublewrite_path, "%s/doublewrite",
                config.data_dir);
  return pool;
}

}  // namespace ls
