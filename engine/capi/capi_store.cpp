// The store: arena, start, recovery, stop, statistics.
#include "capi/api_call.hpp"
#include "leanstore/values.h"
#include "os/host_watch.hpp"
#include "store/store_process.hpp"

using namespace ls;

extern "C" {

size_t ls_store_size(const ls_config *config) noexcept { return store_size(*config); }

ls_status ls_store_create(void *arena, size_t size, const ls_config *config, ls_store **store,
                          ls_error *err) noexcept {
  return api::call(err, [&] { return store_create(arena, size, *config, store); });
}

ls_status ls_recovery_redo(ls_store *store, uint64_t next_full_xid, ls_in_doubt **doubts,
                           size_t *n_doubts, ls_error *err) noexcept {
  return api::call(err,
                   [&] { return store_recovery_redo(*store, next_full_xid, doubts, n_doubts); });
}

ls_status ls_recovery_finish(ls_store *store, const ls_in_doubt *doubts, size_t n_doubts,
                             ls_error *err) noexcept {
  return api::call(err, [&] { return store_recovery_finish(*store, doubts, n_doubts); });
}

void ls_set_value_moves(ls_store *store, const ls_value_moves *moves) noexcept {
  store->value_keeping.set(*moves);
}

void ls_value_get_progress(const ls_store *store, ls_value_progress *progress) noexcept {
  *progress = store->value_keeping.progress();
}

void ls_recovery_get_progress(const ls_store *store, ls_recovery_progress *progress) noexcept {
  const bool ready = store_state(*store) == StoreState::kReady;
  progress->log_bytes = store->log_bytes.load(std::memory_order_relaxed);
  progress->redone_bytes = store->redone_bytes.load(std::memory_order_relaxed);
  // Written before the store is ready.
  const RecoveryReport report = ready ? store->report : RecoveryReport{};
  progress->records = report.log_records;
  progress->rolled_back = report.losers;
  progress->analysis_us = report.analysis_us;
  progress->redo_us = report.redo_us;
  progress->undo_us = report.undo_us;
  progress->put_off = report.ops_put_off;
}

void ls_recovery_cancel(ls_store *store) noexcept {
  __atomic_store_n(&store->recovery_cancelled, 1, __ATOMIC_RELAXED);
}

bool ls_store_stopped(const ls_store *store) noexcept {
  return store_state(*store) == StoreState::kStopped;
}

bool ls_store_begun(const ls_store *store) noexcept {
  return store_state(*store) != StoreState::kCreated;
}

bool ls_store_ready(const ls_store *store) noexcept {
  return store_state(*store) == StoreState::kReady;
}

bool ls_store_wait_ready(ls_store *store, uint32_t timeout_ms) noexcept {
  return store_wait_ready(*store, timeout_ms);
}

uint32_t ls_store_attached(const ls_store *store) noexcept { return store_attached(*store); }

bool ls_store_slot_attached(const ls_store *store, uint32_t slot) noexcept {
  return store_slot_attached(*store, slot);
}

ls_status ls_store_shutdown(ls_store *store, ls_error *err) noexcept {
  return api::call(err, [&] { return store_shutdown(*store); });
}

ls_status ls_store_abandon(ls_store *store, ls_error *err) noexcept {
  return api::call(err, [&] { return store_abandon(*store); });
}

ls_status ls_store_checkpoint(ls_store *store, ls_error *err) noexcept {
  return api::call(err, [&] { return store_checkpoint(*store, nullptr); });
}

ls_status ls_worker_checkpoint(ls_store *store, ls_worker *worker, ls_error *err) noexcept {
  return api::call(err,
                   [&] { return store_checkpoint(*store, api::worker(worker).ctx.interrupt); });
}

bool ls_store_failed(const ls_store *store, ls_error *err) noexcept {
  return store_failed(*store, err);
}

uint64_t ls_store_tn_offset(const ls_store *store) noexcept {
  return store->txns->tn_offset.load(std::memory_order_relaxed);
}

uint64_t ls_store_tn_base(const ls_store *store) noexcept {
  return store->txns->tn_base.load(std::memory_order_relaxed);
}

uint64_t ls_store_first_tn(const ls_store *store) noexcept {
  return store->txns->versions_from.load(std::memory_order_relaxed);
}

uint64_t ls_store_full_xid(const ls_store *store, uint64_t tn) noexcept {
  return store->txns->eras.full_xid(tn);
}

void ls_store_publish_horizon(ls_store *store, uint64_t horizon, uint64_t floor,
                              const ls_plain_snapshot *now, ls_plain_snapshot *pins,
                              uint32_t n_pins) noexcept {
  std::atomic<Tn> &shared = store->txns->horizon;
  const Log &log = store_process(*store).log;
  const Tn hardened = store->txns->commits.harden_horizon(horizon, log.last_gsn(), log.hardened());
  Tn seen = shared.load(std::memory_order_relaxed);
  // Release pairs with the readers of the horizon: what the host looked at to compute it comes
  // before.
  while (seen < hardened &&
         !shared.compare_exchange_weak(seen, hardened, std::memory_order_release)) {
  }
  horizon_publish(store->txns->snapshots, floor, *now, pins, n_pins);
}

uint64_t ls_store_horizon(const ls_store *store) noexcept {
  return store->txns->horizon.load(std::memory_order_acquire);
}

static_assert(LS_NO_PIN == kLatestTn);

bool ls_version_needed(const ls_store *store, uint64_t writer, uint64_t next) noexcept {
  return version_needed(store->txns->snapshots, writer, next);
}

uint64_t ls_undo_failures(const ls_store *store, ls_error *last) noexcept {
  return store->undo_failures.get(last);
}

uint32_t ls_file_version(uint32_t *oldest) noexcept {
  *oldest = kOldControlVersion;
  return kControlVersion;
}

void ls_watch_host(void (*watch)(void)) noexcept { set_host_watch(watch); }

void ls_store_stats(const ls_store *store, ls_stats *stats) noexcept {
  api::call_sure([&] { store_stats(*const_cast<ls_store *>(store), stats); });
}

}  // extern "C"
