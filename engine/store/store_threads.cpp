// store_threads.cpp - starting and stopping the threads; when a checkpoint is due and how fast it
// writes.
#include "store/store_threads.hpp"

#include <algorithm>

#include "buffer/change_buffer.hpp"
#include "buffer/huge_pages.hpp"
#include "buffer/insist.hpp"
#include "buffer/page_provider.hpp"
#include "index/index_cleaner.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"
#include "recovery/checkpoint.hpp"
#include "recovery/restore_state.hpp"
#include "store/file_closer.hpp"
#include "store/store_process.hpp"
#include "txn/prepared.hpp"
#include "txn/value_keeper.hpp"

namespace ls {

namespace {

constexpr u32 kCommitterIdleMs = 50;
// How often the checkpointer looks at the log's volume, and the bound on how long it takes to stop.
constexpr i64 kCheckpointerPollUs = 100'000;
// Pages for which recovery has put changes off are read so many at a time.
constexpr size_t kRedoBatch = 256;
constexpr i64 kCleanerMinUs = 10'000, kCleanerMaxUs = 1'000'000;
constexpr i64 kRefusedRetryUs = 1'000'000;
constexpr i64 kCloserRetryUs = 10'000;
constexpr u32 kMostClosed = 256;   // at a time
constexpr i64 kValuesPollUs = 200'000;

}  // namespace

StoreThreads::~StoreThreads() {
  stop_keepers();
  stop_writers();
}

Status StoreThreads::start(const char *name, std::vector<std::unique_ptr<Thread>> *group,
                           std::function<Status()> body) {
  group->push_back(std::make_unique<Thread>());
  return group->back()->start(name, [this, body = std::move(body)] {
    if (const Status status = with_memory(body); !ok(status)) {
      store_fail(process_.store, status);
      // carries no data, see base/interrupt.hpp
      __atomic_store_n(&interrupt_, 1, __ATOMIC_RELAXED);
      __atomic_store_n(&process_.store.recovery_cancelled, 1, __ATOMIC_RELAXED);
      process_.log.stop();
    }
  });
}

Status StoreThreads::start_writers() {
  LS_TRY(start_committer());
  return start_providers();
}

Status StoreThreads::start_committer() {
  return start("ls committer", &writers_, [this] {
    return process_.log.run_committer(kCommitterIdleMs,
                                      [this] { return prepared_sync(*process_.store.txns); });
  });
}

Status StoreThreads::start_followers() {
  LS_TRY(start_providers());
  LS_TRY(start_closer());
  return start("ls cleaner", &keepers_, [this] { return run_version_cleaner(); });
}

Status StoreThreads::start_providers() {
  for (u32 i = 0; i < process_.store.config.page_providers; i++) {
    LS_TRY(start("ls provider", &writers_,
                 [this, i] { return PageProvider(process_.pool, i).run(stop_providers_); }));
  }
  return kOk;
}

// has_closer before the thread runs: undo, which is next, may find the file table full.
Status StoreThreads::start_closer() {
  process_.pool.shared()->has_closer.store(1, std::memory_order_release);
  stop_keepers_.store(0, std::memory_order_relaxed);   // those of a standby have been stopped
  return start("ls closer", &keepers_, [this] { return run_closer(); });
}

Status StoreThreads::start_keepers() {
  LS_TRY(start("ls checkpointer", &keepers_, [this] { return run_checkpointer(); }));
  LS_TRY(start("ls values", &keepers_, [this] { return run_value_keeper(); }));
  return start("ls cleaner", &keepers_, [this] { return run_cleaner(); });
}

void StoreThreads::stop_keepers() {
  stop_followers();
  process_.pool.shared()->has_closer.store(0, std::memory_order_release);
}

void StoreThreads::stop_followers() {
  stop_keepers_.store(1, std::memory_order_release);
  futex_wake_all(&stop_keepers_);
  // A request that no worker waits for: ends the checkpointer's sleep, also one that is just about
  // to begin.
  process_.store.checkpoint_requested.fetch_add(1, std::memory_order_release);
  futex_wake_all(&process_.store.checkpoint_requested);
  wake_closer(*process_.pool.shared());
  keepers_.clear();  // joins
}

void StoreThreads::stop_writers() {
  // pairs with PageProvider::run, which looks after it has announced its sleep
  stop_providers_.store(1, std::memory_order_seq_cst);
  wake_providers(*process_.pool.shared());
  process_.log.stop();
  writers_.clear();  // joins
}

bool StoreThreads::checkpoint_due(u64 last_ns, Lsn last_end, Gsn last_gsn, u32 *serving) const {
  const ls_store &store = process_.store;
  *serving = store.checkpoint_requested.load(std::memory_order_acquire);
  if (process_.restore_states.waiting() != 0) return true;
  if (*serving != store.checkpoint_done.load(std::memory_order_relaxed)) return true;
  if (process_.log.last_gsn() == last_gsn) return false;  // nothing was logged since
  if (process_.log.end() - last_end > store.config.max_log_bytes / 2) return true;
  return now_ns() - last_ns >= u64{store.config.checkpoint_seconds} * 1'000'000'000;
}

// Spreads the writes of a checkpoint that no worker waits for over the time, or the log, until the
// next one is due: a burst of them is felt by every commit.
void StoreThreads::pace_checkpoint(const CheckpointStart &start, size_t done, size_t total) {
  ls_store &store = process_.store;
  const double spread = store.config.checkpoint_spread / 100.0;
  const double seconds = spread * store.config.checkpoint_seconds,
               bytes = spread * static_cast<double>(store.config.max_log_bytes) / 2;
  const double part = static_cast<double>(done) / static_cast<double>(total);
  while (stop_keepers_.load(std::memory_order_acquire) == 0 &&
         !process_.restore_states.hurried() &&
         store.checkpoint_requested.load(std::memory_order_acquire) == start.serving) {
    const double left = part * seconds - static_cast<double>(now_ns() - start.ns) / 1e9;
    if (left <= 0 || static_cast<double>(process_.log.end() - start.end) >= part * bytes) return;
    futex_wait(&store.checkpoint_requested, start.serving,
               std::min(static_cast<i64>(left * 1e6) + 1, kCheckpointerPollUs));
  }
}

// REDO-6.
Status StoreThreads::redo_put_off(Ctx &ctx) {
  BufferPool &pool = process_.pool;
  const std::vector<ChangeBufferPage> pages = change_buffer_pages(*pool.shared(), ~Gsn{0});
  for (size_t done = 0; done < pages.size(); done += kRedoBatch) {
    if (stop_keepers_.load(std::memory_order_acquire) != 0) break;
    const std::span<const ChangeBufferPage> left = std::span(pages).subspan(done);
    LS_TRY(pool.make_buffered_changes(ctx,
                                      left.first(std::min<size_t>(left.size(), kRedoBatch))));
  }
  return kOk;
}

Status StoreThreads::run_checkpointer() {
  ls_store &store = process_.store;
  Worker w(&process_.pool, process_.log, store.txns, store.config.worker_slots + kSlotCheckpoint);
  w.ctx.interrupt = &interrupt_;
  w.log.set_urgent(true);  // a full log disk must not refuse what would free it
  LongTransactions long_txns;
  CheckpointResult result;
  result.redo_lsn = store.redo_lsn.load(std::memory_order_relaxed);
  result.redo_run = store.redo_run;
  result.undo_gsn = store.undo_gsn;
  result.end_lsn = process_.log.end();
  result.gsn = process_.log.last_gsn();
  u64 last_ns = now_ns();
  // What recovery has redone, of earlier runs, is in memory only.
  if (store.redo_run != store.run) {
    result.gsn = last_ns = 0;
    // What it cannot read now waits for a reader, or a checkpoint.
    const Status status = with_memory([&] { return redo_put_off(w.ctx); });
    if (!may_pass(status)) LS_TRY(status);
  }
  while (stop_keepers_.load(std::memory_order_acquire) == 0) {
    u32 serving = 0;
    if (!checkpoint_due(last_ns, result.end_lsn, result.gsn, &serving)) {
      futex_wait(&store.checkpoint_requested, serving, kCheckpointerPollUs);
      continue;
    }
    last_ns = now_ns();
    const CheckpointStart started{last_ns, process_.log.end(), serving};
    const bool requested = serving != store.checkpoint_done.load(std::memory_order_relaxed);
    CheckpointEnv env = checkpoint_env(store);
    env.redo_floor = process_.restore_states.floor();
    const u32 restorable = process_.restore_states.waiting();
    if (restorable != 0)
      env.long_transaction_bytes = std::min(env.long_transaction_bytes, kMaxStateLogBytes / 4);
    if (!requested)
      env.pace = [&](size_t done, size_t total) { pace_checkpoint(started, done, total); };
    const Status status =
        with_memory([&] { return checkpoint_fuzzy(w.ctx, env, long_txns, &result); });
    store.redo_run = result.redo_run;
    store.undo_gsn = result.undo_gsn;
    store.redo_lsn.store(result.redo_lsn, std::memory_order_relaxed);
    // A state has some of the log: Log::truncate has completed its files (RELAY-3).
    if (restorable != 0)
      process_.restore_states.checkpoint_ended({restorable, store.run}, store.config.data_dir,
                                               status, result);
    if (ok(status)) {
      store.checkpoints.fetch_add(1, std::memory_order_relaxed);
    } else if (code(status) == LS_NO_SPACE || code(status) == LS_NO_MEMORY) {
      // The previous checkpoint stays valid; the log grows until there is room.
      store.checkpoint_lacked.store(code(status), std::memory_order_relaxed);
      store.checkpoint_refused.store(serving, std::memory_order_release);
    } else {
      return status;
    }
    store.checkpoint_done.store(serving, std::memory_order_release);
    futex_wake_all(&store.checkpoint_done);
    if (!ok(status)) futex_wait(&stop_keepers_, 0, kRefusedRetryUs);
  }
  return kOk;
}

Status StoreThreads::run_closer() {
  ls_store &store = process_.store;
  PoolShared &pool = *process_.pool.shared();
  Worker w(&process_.pool, process_.log, store.txns, store.config.worker_slots + kSlotCloser);
  w.ctx.interrupt = &interrupt_;
  while (stop_keepers_.load(std::memory_order_acquire) == 0) {
    const u32 event = pool.closer_event.load(std::memory_order_acquire);
    const u32 kept = places_kept_free(pool), free = free_places(pool);
    u32 closed = 0;
    if (free < kept) {
      const u32 most = std::min(kept - free + kept / 2, kMostClosed);
      const Status status = with_memory([&] { return close_idle_files(w, most, &closed); });
      if (!may_pass(status)) LS_TRY(status);
    }
    // None is idle, or none can be written: soon, perhaps.
    const i64 pause_us = free < kept ? kCloserRetryUs : kCleanerMaxUs;
    if (closed == 0) futex_wait(&pool.closer_event, event, pause_us);
  }
  return kOk;
}

Status StoreThreads::run_value_keeper() {
  ls_store &store = process_.store;
  Worker w(&process_.pool, process_.log, store.txns, store.config.worker_slots + kSlotValues);
  w.ctx.interrupt = &interrupt_;
  const auto stops = [this] { return stop_keepers_.load(std::memory_order_acquire) != 0; };
  const auto sleep = [&](i64 us) {
    futex_wait(&stop_keepers_, 0, us);
    return !stops();
  };
  ValueKeeper keeper{w, stops, sleep, store.value_keeping};
  while (!stops()) {
    bool did = false;
    // As of the cleaner: what it cannot do is no reason to stop the store.
    const Status status = with_memory([&] { return keep_values(keeper, &did); });
    const i64 pause_us = did ? kCleanerMinUs : kValuesPollUs;
    futex_wait(&stop_keepers_, 0, ok(status) ? pause_us : kCleanerMaxUs);
  }
  return kOk;
}

Status StoreThreads::run_version_cleaner() {
  Worker w(&process_.pool, process_.log, process_.store.txns,
           process_.store.config.worker_slots + kSlotCleaner);
  w.ctx.interrupt = &interrupt_;
  i64 pause_us = kCleanerMinUs;
  while (stop_keepers_.load(std::memory_order_acquire) == 0) {
    u64 removed = 0;
    const Status status = with_memory([&] { return clean_versions(w, &removed); });
    pause_us = !ok(status)   ? kCleanerMaxUs
               : removed > 0 ? kCleanerMinUs
                             : std::min(pause_us * 2, kCleanerMaxUs);
    futex_wait(&stop_keepers_, 0, pause_us);
  }
  return kOk;
}

Status StoreThreads::run_cleaner() {
  ls_store &store = process_.store;
  Worker w(&process_.pool, process_.log, store.txns, store.config.worker_slots + kSlotCleaner);
  w.ctx.interrupt = &interrupt_;
  IndexCleaner indexes;
  const CleanMore more{&indexes, [](void *arg, Worker &worker, u64 *n) {
    return sweep_some_index(worker, *static_cast<IndexCleaner *>(arg), n);
  }};
  HugePages huge_pages(process_.pool);
  i64 pause_us = kCleanerMinUs;
  while (stop_keepers_.load(std::memory_order_acquire) == 0) {
    u64 removed = 0;
    // What it cannot clean (a damaged page, no space) it meets again later; that is no reason to
    // stop the store.  A worker that needs that page gets the error.
    const Status status = with_memory([&] { return clean_round(w, &removed, more); });
    pause_us = !ok(status)                       ? kCleanerMaxUs
               : removed > 0 || indexes.sweeping ? kCleanerMinUs
                                                 : std::min(pause_us * 2, kCleanerMaxUs);
    const bool more_pages = store.config.huge_pages && huge_pages.advance();
    futex_wait(&stop_keepers_, 0, more_pages ? kCleanerMinUs : pause_us);
  }
  return kOk;
}

}  // namespace ls
