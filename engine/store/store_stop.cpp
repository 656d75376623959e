// store_stop.cpp - checkpoints on request, and the clean end.
#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "os/futex.hpp"
#include "recovery/checkpoint.hpp"
#include "store/kept_blocks.hpp"
#include "store/store_process.hpp"
#include "store/store_threads.hpp"
#include "txn/row.hpp"

namespace ls {

namespace {

// How long a waiter may overlook that the store has failed or stopped.
constexpr i64 kCheckpointPollUs = 100'000;

// Numbers wrap around.
bool reached(u32 counter, u32 target) { return static_cast<i32>(counter - target) >= 0; }

Status report_failure(const ls_store &store) {
  ls_error error;
  if (!store_failed(store, &error)) return kOk;
  set_last_error(error);
  return make_status(error.status);
}

Status seal_row_ids(Worker &w) {
  for (u32 i = 0; i < w.pool->shared()->max_files; i++) {
    FileSlot &file = w.pool->file(i);
    if (file.state.load(std::memory_order_acquire) != FileState::kActive ||
        !has_rows(file.kind))
      continue;
    Status status = row_ids_seal(w, file);
    if (code(status) != LS_NOT_FOUND) LS_TRY(status);  // forgotten meanwhile: nothing to seal
  }
  return kOk;
}

Status write_everything(ls_store &store, StoreProcess &process) {
  Worker w(&process.pool, process.log, store.txns, store.config.worker_slots + kSlotCheckpoint);
  w.ctx.interrupt = process.threads->interrupt();
  LS_TRY(seal_row_ids(w));
  keep_blocks(w, store);   // KEPT-1
  CheckpointResult result;
  return checkpoint_clean(w.ctx, checkpoint_env(store), &result);
}

// Sequentially consistent on both sides: either this thread sees a worker that attaches, or the
// worker sees that the store is not ready.
Status begin_stop(ls_store &store, StoreProcess &process, StoreState from) {
  u32 expected = static_cast<u32>(from);
  if (!store.state.compare_exchange_strong(expected, static_cast<u32>(StoreState::kStopping),
                                           std::memory_order_seq_cst))
    return fail(LS_INVALID, "the store is not running");
  LS_CHECK(process.threads, "the store is stopped by the process that has started it");
  if (u32 attached = store_attached(store); attached != 0) {
    store.state.store(expected, std::memory_order_release);
    return fail(LS_INVALID, "%u workers are attached still", attached);
  }
  futex_wake_all(&store.state);
  process.threads->stop_keepers();
  return kOk;
}

void end_stop(ls_store &store, StoreProcess &process) {
  process.threads->stop_writers();
  process.threads.reset();
  process.log.close_for_append();
  store.state.store(static_cast<u32>(StoreState::kStopped), std::memory_order_release);
  futex_wake_all(&store.state);
}

}  // namespace

Status store_checkpoint(ls_store &store, const volatile int *interrupt) {
  const u32 mine = store.checkpoint_requested.fetch_add(1, std::memory_order_acq_rel) + 1;
  futex_wake_all(&store.checkpoint_requested);
  for (;;) {
    u32 done = store.checkpoint_done.load(std::memory_order_acquire);
    if (reached(done, mine)) break;
    LS_TRY(report_failure(store));
    if (store_state(store) != StoreState::kReady)
      return fail(LS_NOT_READY, "the storage engine takes no checkpoints now");
    if (interrupt_pending(interrupt))
      return fail(LS_INTERRUPTED, "interrupted while waiting for a checkpoint");
    futex_wait_interruptible(&store.checkpoint_done, done, kCheckpointPollUs);
  }
  if (reached(store.checkpoint_refused.load(std::memory_order_acquire), mine)) {
    const auto lacked =
        static_cast<ls_status>(store.checkpoint_lacked.load(std::memory_order_relaxed));
    return fail(lacked, "no %s for the checkpoint", lacked == LS_NO_MEMORY ? "memory" : "space");
  }
  return kOk;
}

Status store_shutdown(ls_store &store) {
  StoreProcess &process = store_process(store);
  LS_TRY(begin_stop(store, process, StoreState::kReady));
  Status status = report_failure(store);
  if (ok(status)) status = with_memory([&] { return write_everything(store, process); });
  const ls_error error = last_error();
  end_stop(store, process);
  if (ok(status)) return report_failure(store);
  set_last_error(error);
  return status;
}

Status store_abandon(ls_store &store) {
  StoreProcess &process = store_process(store);
  const bool follows = store_state(store) == StoreState::kFollowing;
  {
    // The host's replay redoes nothing then, nor will it.
    std::unique_lock<decltype(store.follow_mutex)> lock(store.follow_mutex, std::defer_lock);
    if (follows) lock.lock();
    LS_TRY(begin_stop(store, process, follows ? StoreState::kFollowing : StoreState::kReady));
  }
  end_stop(store, process);
  return kOk;
}

}  // namespace ls
