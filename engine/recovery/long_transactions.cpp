// long_transactions.cpp - which transactions are long, and their undo gathered and listed.
#include "recovery/long_transactions.hpp"

#include <algorithm>
#include <new>

#include "base/interrupt.hpp"
#include "recovery/checkpoint.hpp"
#include "recovery/undo_collector.hpp"
#include "wal/log_slot.hpp"

namespace ls {

namespace {

std::string directory_of(const CheckpointEnv &env) { return std::string(env.data_dir) + "/undo"; }

}  // namespace

void LongTransactions::begin(const Log &log) {
  published_.resize(log.shared()->config.slots);
  for (u32 i = 0; i < published_.size(); i++)
    published_[i] = log.slot(i)->published.load(std::memory_order_acquire);
}

Status LongTransactions::collect(Ctx &ctx, const CheckpointEnv &env, Gsn hardened, Lsn end,
                                 Gsn *bound) {
  *bound = find(env, ctx.pool->log(), end);
  next_ = {};
  next_published_ = published_;
  if (old_.empty() && list_.empty()) return kOk;
  Status status = kOk;
  try {
    status = make_list(ctx, env, hardened, end);
  } catch (const std::bad_alloc &) {
    status = fail(LS_NO_MEMORY, "no memory for the undo of long transactions");
  }
  if (ok(status) || code(status) == LS_INTERRUPTED) return status;
  env.undo_failures->note();
  next_ = list_;
  next_published_ = at_list_;
  if (!list_.empty()) *bound = std::min(*bound, list_.gsn + 1);
  for (const ActiveTxn &txn : old_) {
    if (!list_.txns.contains(txn.tn)) *bound = std::min(*bound, txn.first_gsn);
  }
  return kOk;
}

// The old ones; how far back the log is needed for the others.
Gsn LongTransactions::find(const CheckpointEnv &env, const Log &log, Lsn end) {
  Gsn bound = ~Gsn{0};
  old_.clear();
  std::vector<ActiveTxn> active;
  active_logged(*env.txns, &active);
  for (const ActiveTxn &txn : active) {
    // One that is leaving its slot has no name any more; its end may lie behind G.
    const bool is_old = txn.tn != 0 && env.redo_run == env.run &&
                        (list_.txns.contains(txn.tn) ||
                         log.position_of(txn.first_gsn) + env.long_transaction_bytes <= end);
    if (is_old) {
      old_.push_back(txn);
    } else {
      bound = std::min(bound, txn.first_gsn);
    }
  }
  return bound;
}

bool LongTransactions::nothing_logged() const {
  return std::all_of(old_.begin(), old_.end(), [this](const ActiveTxn &txn) {
    return list_.txns.contains(txn.tn) && published_[txn.slot] == at_list_[txn.slot];
  });
}

Status LongTransactions::make_list(Ctx &ctx, const CheckpointEnv &env, Gsn hardened, Lsn end) {
  UndoCollector collector(directory_of(env), list_, &next_);
  next_.gsn = hardened;
  if (nothing_logged()) {
    if (!old_.empty()) next_.files = list_.files;
    for (const ActiveTxn &txn : old_) next_.txns[txn.tn] = list_.txns.at(txn.tn);
  } else {
    for (const ActiveTxn &txn : old_) {
      const auto listed = list_.txns.find(txn.tn);
      const LongTransaction fresh{.place = {txn.slot, static_cast<u32>(env.run)},
                                  .first_gsn = txn.first_gsn};
      collector.want(txn.tn, listed != list_.txns.end() ? listed->second : fresh);
    }
    LS_TRY(ctx.pool->log().complete_relay());
    LogReader log((std::string(env.data_dir) + "/wal").c_str(), env.segment_bytes, env.redo_lsn,
                  env.redo_run, end);
    LS_TRY(collector.run(log, hardened, ctx.interrupt));
  }
  for (auto &[tn, txn] : next_.txns) txn.txn.in_files_to = hardened;
  return next_.empty() ? kOk : undo_list_write(directory_of(env).c_str(), next_);
}

void LongTransactions::confirm(const CheckpointEnv &env) {
  list_ = std::move(next_);
  at_list_ = std::move(next_published_);
  next_ = {};
  // What stays although it is not needed takes space only, and the next checkpoint tries again.
  [[maybe_unused]] const Status ignored = undo_files_clean(directory_of(env).c_str(), list_);
}

}  // namespace ls
