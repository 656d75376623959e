// store.cpp - the configuration checked, the arena laid out, workers attached.
#include "store/store.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/check.hpp"
#include "buffer/file_use.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "range/range_locks.hpp"
#include "store/store_process.hpp"
#include "txn/row.hpp"
#include "wal/log_segments.hpp"

namespace ls {

namespace {

constexpr size_t kPartAlignment = 4096;

size_t aligned(size_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

u32 total_slots(const ls_config &config) { return config.worker_slots + kEngineSlots; }

// Transactions that a snapshot does not see, though they have begun: one that is being prepared is
// found twice.
u32 max_running(const ls_config &config) { return total_slots(config) + 2 * config.prepared_slots; }

struct Layout {
  size_t log, pool, txns, active, attached, followed, ranges, prepared, horizon, version_leaves,
      row_blocks, end;
};

Layout layout_of(const ls_config &config) {
  Layout l{};
  l.log = aligned(sizeof(ls_store));
  l.pool = l.log + aligned(Log::arena_bytes(log_config(config)));
  l.txns = l.pool + aligned(BufferPool::arena_bytes(pool_config(config)));
  l.active = l.txns + aligned(sizeof(TxnShared));
  l.attached = l.active + aligned(sizeof(TxnShared::Active) * total_slots(config));
  l.followed = l.attached + aligned(sizeof(std::atomic<u32>) * total_slots(config));
  l.ranges = l.followed + aligned(sizeof(std::atomic<Tn>) * max_running(config));
  l.prepared =
      l.ranges + aligned(RangeLocks::arena_bytes(config.range_lock_bytes, config.worker_slots));
  l.horizon = l.prepared + aligned(sizeof(PreparedSlot) * config.prepared_slots);
  l.version_leaves = l.horizon + aligned(horizon_bytes(config.worker_slots, max_running(config)));
  const u64 frames = config.buffer_pool_bytes / kPageSize;
  l.row_blocks = l.version_leaves + aligned(VersionLeaves::bytes_for(frames));
  l.end = l.row_blocks + aligned(RowBlocks::bytes_for(frames));
  return l;
}

bool power_of_two(u64 n) { return n != 0 && (n & (n - 1)) == 0; }

Status check_config(const ls_config &config) {
  if (config.worker_slots == 0 || config.max_open_files == 0 || config.page_providers == 0)
    return fail(LS_INVALID, "configuration: a count is zero");
  if (!power_of_two(config.log_buffer_bytes) || config.log_buffer_bytes < 4 * kMaxRecordBytes)
    return fail(LS_INVALID, "configuration: log_buffer_bytes must be a power of two of at least %u",
                4 * kMaxRecordBytes);
  if (config.log_segment_bytes == 0 || config.log_segment_bytes % (1 << 20) != 0)
    return fail(LS_INVALID, "configuration: log_segment_bytes must be a multiple of 1 MiB");
  if (!power_of_two(config.version_trees) || config.version_trees > kMaxVersionTrees)
    return fail(LS_INVALID, "configuration: version_trees must be a power of two up to %u",
                kMaxVersionTrees);
  size_t root = strnlen(config.root_dir, sizeof config.root_dir);
  size_t data = strnlen(config.data_dir, sizeof config.data_dir);
  constexpr size_t kLongestName = 32;  // "/prepared/<16 digits>.new"
  if (root == sizeof config.root_dir || data + kLongestName > sizeof config.data_dir ||
      data <= root + 1 || std::memcmp(config.root_dir, config.data_dir, root) != 0 ||
      config.data_dir[root] != '/')
    return fail(LS_INVALID, "configuration: data_dir must lie directly under root_dir");
  return kOk;
}

TxnShared *create_txns(u8 *arena, const Layout &l, const ls_config &config) {
  auto *txns = new (arena + l.txns) TxnShared;
  txns->slots = total_slots(config);
  txns->version_trees = config.version_trees;
  txns->active = reinterpret_cast<TxnShared::Active *>(arena + l.active);
  txns->attached = reinterpret_cast<std::atomic<u32> *>(arena + l.attached);
  for (u32 i = 0; i < txns->slots; i++) {
    new (&txns->active[i]) TxnShared::Active{};
    new (&txns->attached[i]) std::atomic<u32>{0};
  }
  txns->followed_places = max_running(config);
  txns->followed = reinterpret_cast<std::atomic<Tn> *>(arena + l.followed);
  for (u32 i = 0; i < txns->followed_places; i++) new (&txns->followed[i]) std::atomic<Tn>{0};
  txns->prepared_slots = config.prepared_slots;
  txns->prepared = reinterpret_cast<PreparedSlot *>(arena + l.prepared);
  for (u32 i = 0; i < config.prepared_slots; i++) new (&txns->prepared[i]) PreparedSlot{};
  horizon_init(txns->snapshots, arena + l.horizon, config.worker_slots, max_running(config));
  txns->version_leaves.init(arena + l.version_leaves, config.buffer_pool_bytes / kPageSize,
                            config.version_trees);
  txns->row_blocks.init(arena + l.row_blocks, config.buffer_pool_bytes / kPageSize);
  std::snprintf(txns->prepared_dir, sizeof txns->prepared_dir, "%s/prepared", config.data_dir);
  return txns;
}

}  // namespace

size_t store_size(const ls_config &config) { return layout_of(config).end; }

Status store_create(void *arena, size_t size, const ls_config &config, ls_store **out) {
  LS_TRY(check_config(config));
  if (reinterpret_cast<uintptr_t>(arena) % kPartAlignment != 0)
    return fail(LS_INVALID, "arena is not aligned to 4 KiB");
  Layout l = layout_of(config);
  if (size < l.end)
    return fail(LS_INVALID, "arena has %zu bytes, the configuration needs %zu", size, l.end);
  store_process_forget(arena);
  u8 *base = static_cast<u8 *>(arena);
  auto *store = new (arena) ls_store;
  store->config = config;
  store->bytes = l.end;
  store->log_arena = base + l.log;
  store->pool_arena = base + l.pool;
  Log::create(store->log_arena, log_config(config));
  BufferPool::create(store->pool_arena, pool_config(config));
  store->txns = create_txns(base, l, config);
  store->ranges = RangeLocks::create(base + l.ranges, config.range_lock_bytes, config.worker_slots);
  *out = store;
  return kOk;
}

bool store_wait_ready(ls_store &store, u32 timeout_ms) {
  const u64 deadline = now_us() + u64{timeout_ms} * 1000;
  for (;;) {
    u32 state = store.state.load(std::memory_order_acquire);
    if (state == static_cast<u32>(StoreState::kReady)) return true;
    u64 now = now_us();
    if (now >= deadline) return false;
    futex_wait(&store.state, state, static_cast<i64>(deadline - now));
  }
}

void store_fail(ls_store &store, Status status) { store.failure.note(status); }

bool store_failed(const ls_store &store, ls_error *error) {
  return store.failure.noted(error) ||
         static_cast<const PoolShared *>(store.pool_arena)->failure.noted(error);
}

void store_stats(ls_store &store, ls_stats *stats) {
  StoreProcess &process = store_process(store);
  PoolStats pool = process.pool.stats();
  Log::Stats log = process.log.stats();
  const TxnShared &txns = *store.txns;
  *stats = {};
  stats->pages_read = pool.reads;
  stats->pages_written = pool.writes;
  stats->pages_evicted = pool.evictions;
  stats->frames_total = pool.frames;
  stats->frames_free = pool.free;
  stats->frames_dirty = pool.dirty;
  stats->page_hits = pool.hits;
  stats->change_buffer_inserts = pool.change_buffer_inserts;
  stats->compressed_hits = pool.decompressed;
  stats->compressed_pages = pool.compressed;
  stats->compressed_dirty_pages = pool.compressed_dirty;
  stats->compressed_frames = pool.compressed_frames;
  stats->change_buffer_pending = pool.change_buffer_pending;
  stats->restarts = pool.restarts;
  stats->splits = pool.splits;
  stats->merges = pool.merges;
  stats->log_bytes = log.bytes;
  stats->log_flushes = log.rounds;
  stats->log_fsyncs = log.fsyncs;
  stats->log_fsync_ns = log.fsync_ns;
  stats->log_commits = log.commits;
  stats->log_commits_held = log.commits_held;
  stats->log_counted = log.counted;
  stats->log_remote_by_page = log.remote_by_page;
  stats->log_remote_by_transaction = log.remote_by_transaction;
  if (u64 segments; ok(log_segments_count(log_config(store.config).dir, &segments)))
    stats->log_segments = segments;
  stats->log_position = process.log.end();
  stats->log_durable_gsn = process.log.hardened();
  stats->checkpoints = store.checkpoints.load(std::memory_order_relaxed);
  stats->undo_failures = store.undo_failures.get(nullptr);
  stats->log_redo_position = store.redo_lsn.load(std::memory_order_relaxed);
  stats->versions_written = txns.versions_written.load(std::memory_order_relaxed);
  stats->versions_removed = txns.versions_removed.load(std::memory_order_relaxed);
  stats->ghosts_removed = txns.ghosts_removed.load(std::memory_order_relaxed);
  stats->index_entries_removed = txns.index_entries_removed.load(std::memory_order_relaxed);
  stats->row_locks = txns.row_locks.load(std::memory_order_relaxed);
  stats->files_open = process.pool.open_relations();
  stats->files_closed = process.pool.files_closed();
  stats->files_max = store.config.max_open_files;
}

Status store_attach(ls_store &store, u32 slot, Worker **worker) {
  if (slot >= store.config.worker_slots)
    return fail(LS_INVALID, "worker slot %u does not exist, there are %u", slot,
                store.config.worker_slots);
  const auto lets_in = [](u32 state) {
    return state == static_cast<u32>(StoreState::kReady) ||
           state == static_cast<u32>(StoreState::kFollowing);
  };
  if (!lets_in(store.state.load(std::memory_order_acquire)))
    return fail(LS_NOT_READY, "the storage engine has not finished recovery");
  StoreProcess &process = store_process(store);
  std::atomic<u32> &attached = store.txns->attached[slot];
  u32 expected = 0;
  // Acquire pairs with store_detach: the slot's log buffer is as the last owner left it.
  // Sequentially consistent with begin_stop.
  if (!attached.compare_exchange_strong(expected, 1, std::memory_order_seq_cst))
    return fail(LS_INVALID, "worker slot %u is in use", slot);
  if (!lets_in(store.state.load(std::memory_order_seq_cst))) {
    attached.store(0, std::memory_order_release);
    return fail(LS_NOT_READY, "the storage engine is being stopped");
  }
  const Status status = with_memory([&] {
    *worker = new Worker(&process.pool, process.log, store.txns, slot);
    (*worker)->ranges = store.ranges;
    if (store_state(store) != StoreState::kReady) (*worker)->log.come_early();
    return kOk;
  });
  if (!ok(status)) attached.store(0, std::memory_order_release);
  return status;
}

void store_detach(Worker *worker) {
  LS_CHECK(worker->tn == 0, "a worker is detached with a transaction open");
  TxnShared *txns = worker->txns;
  u32 slot = worker->slot;
  delete worker;
  txns->attached[slot].store(0, std::memory_order_release);
}

u32 store_attached(const ls_store &store) {
  u32 n = 0;
  for (u32 i = 0; i < store.config.worker_slots; i++) n += store_slot_attached(store, i);
  return n;
}

bool store_slot_attached(const ls_store &store, u32 slot) {
  return store.txns->attached[slot].load(std::memory_order_seq_cst) != 0;
}

// Seal first: an unlogged table's meta page otherwise does not tell which row ids are in use.
Status store_close_database(Worker &w, u32 database) {
  BufferPool &pool = *w.pool;
  CleanerPause pause(*w.txns);
  LS_TRY(pause.wait(w.ctx.interrupt));
  for (const ls_rel_key &key : pool.keys_of(database)) {
    FileSlot *file = pool.find_file(key);
    if (!file) continue;
    FileUse use;
    // The closer seals what it closes.
    const FileHandle open{file, file->file_no.load(std::memory_order_acquire)};
    if (!use.begin_open(w.ctx, open)) continue;
    if (has_rows(use.file().kind)) LS_TRY(row_ids_seal(w, use.file()));
  }
  if (!pool.log().wait_hardened(pool.log().last_gsn(), w.ctx.interrupt))
    return fail(LS_INTERRUPTED, "interrupted while a flush waited for the log");
  LS_TRY(pool.flush_database(w.ctx, database));
  return pool.forget_database(w.ctx, database);
}

}  // namespace ls
