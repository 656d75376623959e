// Workers and transactions.
#include <unistd.h>

#include <algorithm>

#include "base/check.hpp"
#include "capi/api_call.hpp"
#include "os/host_watch.hpp"
#include "store/file_closer.hpp"
#include "txn/prepared.hpp"

using namespace ls;

namespace {

// Between two looks of a commit that the log can not harden any more: the host is about to end this
// process.
constexpr unsigned kFailedPollUs = 100'000;

}  // namespace

extern "C" {

ls_status ls_worker_attach(ls_store *store, uint32_t slot, ls_worker **worker,
                           ls_error *err) noexcept {
  *worker = nullptr;
  return api::call(err, [&] {
    Worker *made = nullptr;
    LS_TRY(store_attach(*store, slot, &made));
    *worker = reinterpret_cast<ls_worker *>(made);
    return kOk;
  });
}

void ls_worker_detach(ls_worker *worker) noexcept {
  api::call_sure([&] { store_detach(&api::worker(worker)); });
}

const volatile int **ls_worker_interrupt(ls_worker *worker) noexcept {
  return &api::worker(worker).ctx.interrupt;
}

void ls_worker_report_waits(ls_worker *worker, volatile uint32_t *word,
                            const uint32_t codes[LS_WAITS]) noexcept {
  HostWaits &waits = api::worker(worker).ctx.waits;
  waits.word = word;
  std::copy(codes, codes + LS_WAITS, waits.codes);
}

bool ls_worker_count_dependencies(ls_worker *worker, bool count) noexcept {
  return api::call(nullptr, [&] {
           txn_count_dependencies(api::worker(worker), count);
           return kOk;
         }) == LS_OK;
}

void ls_worker_forget_dependencies(ls_worker *worker) noexcept {
  if (api::worker(worker).dependencies) api::worker(worker).dependencies->forget();
}

const ls_page_counts *ls_worker_page_counts(const ls_worker *worker) noexcept {
  return &api::worker(worker).ctx.pages;
}

const ls_log_counts *ls_worker_log_counts(const ls_worker *worker) noexcept {
  return &api::worker(worker).ctx.log->counts();
}

ls_status ls_txn_begin(ls_worker *worker, uint64_t tn, ls_error *err) noexcept {
  return api::call(err, [&] { return txn_begin(api::worker(worker), tn); });
}

uint64_t ls_txn_active(const ls_worker *worker) noexcept { return api::worker(worker).tn; }

bool ls_txn_has_log(const ls_worker *worker) noexcept { return api::worker(worker).has_log; }

uint32_t ls_txn_savepoint(const ls_worker *worker) noexcept {
  // Closes a range of insertions that would otherwise go on across the savepoint; nothing the host
  // could see changes.
  return txn_savepoint(api::worker(const_cast<ls_worker *>(worker)));
}

void ls_txn_set_part(ls_worker *worker, uint32_t part) noexcept {
  txn_set_part(api::worker(worker), part);
}

ls_status ls_change_part(ls_worker *worker, uint64_t tn, uint32_t seq, uint32_t *part,
                         ls_error *err) noexcept {
  return api::call(err, [&] { return change_part(api::worker(worker), tn, seq, part); });
}

void ls_txn_rollback_to(ls_worker *worker, uint32_t savepoint) noexcept {
  api::call_sure([&] { txn_rollback_to(api::worker(worker), savepoint); });
}

ls_status ls_txn_reserve_commit(ls_worker *worker, ls_error *err) noexcept {
  return api::call(err, [&] { return txn_reserve_commit(api::worker(worker)); });
}

ls_status ls_txn_prepare_commit(ls_worker *worker, uint64_t full_xid, ls_error *err) noexcept {
  return api::call(err, [&] { return txn_prepare_commit(api::worker(worker), full_xid); });
}

uint64_t ls_txn_commit(ls_worker *worker, const void *note, size_t note_bytes,
                       bool awaited) noexcept {
  return api::call_sure([&] {
    return txn_commit(api::worker(worker), {static_cast<const u8 *>(note), note_bytes}, awaited);
  });
}

bool ls_shown_unhardened(ls_worker *worker) noexcept {
  Worker &w = api::worker(worker);
  if (w.shown.latest() <= w.log.log().hardened()) w.shown.forget();
  return w.shown.latest() != 0;
}

ls_status ls_wait_shown(ls_worker *worker, ls_error *err) noexcept {
  return api::call(err, [&] {
    Worker &w = api::worker(worker);
    if (!w.log.wait_hardened(w.shown.latest(), w.ctx.interrupt))
      return fail(LS_INTERRUPTED, "interrupted while a commit was hardened");
    w.shown.forget();
    return Status(kOk);
  });
}

void ls_wait_hardened(ls_worker *worker, uint64_t gsn, uint32_t delay_us) noexcept {
  api::call_sure([&] {
    LogAppender &log = api::worker(worker).log;
    // Not interruptible: returning early would acknowledge what is not durable.  When the log has
    // stopped under us the engine has failed and the host ends us.
    while (!log.wait_hardened(gsn, nullptr, delay_us)) {
      usleep(kFailedPollUs);
      watch_host();
    }
  });
}

void ls_txn_abort(ls_worker *worker) noexcept {
  api::call_sure([&] { txn_abort(api::worker(worker)); });
}

ls_status ls_txn_prepare(ls_worker *worker, uint64_t full_xid, const ls_ending_file *files,
                         size_t n_files, ls_error *err) noexcept {
  return api::call(err, [&]() -> Status {
    Worker &w = api::worker(worker);
    const std::span<const ls_ending_file> ending(files, n_files);
    LS_TRY(txn_prepare(w, full_xid, ending));
    return ending.empty() ? kOk : seal_and_close_files(w, w.tn, ending);
  });
}

void ls_txn_hand_over(ls_worker *worker) noexcept {
  api::call_sure([&] { txn_hand_over(api::worker(worker)); });
}

ls_status ls_prepared_finish(ls_worker *worker, uint64_t tn, bool committed,
                             ls_error *err) noexcept {
  return api::call(err, [&] { return prepared_finish(api::worker(worker), tn, committed); });
}

size_t ls_prepared_tns(const ls_store *store, uint64_t *out, size_t cap) noexcept {
  return prepared_tns(*store->txns, out, cap);
}

bool ls_prepared_has(const ls_store *store, uint64_t tn) noexcept {
  return prepared_contains(*store->txns, tn);
}

bool ls_tn_is_active(const ls_store *store, uint64_t tn) noexcept {
  return tn_is_active(*store->txns, tn);
}

size_t ls_active_tns(const ls_store *store, uint64_t *out, size_t cap) noexcept {
  return active_tns(*store->txns, out, cap);
}

}  // extern "C"
