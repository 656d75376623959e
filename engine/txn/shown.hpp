// shown.hpp - what a worker was shown that a crash could still take back.
//
// A transaction's changes are visible, and its locks gone, before its commit is hardened.  A worker
// that was shown such a change must be able to wait for that before it tells its client.  So a
// commit that its worker is going to wait for leaves a mark with its place in the order.  A worker
// that reads a version, or sees that a row is deleted, looks at the mark of the writer.
//
//   SH1  The mark of a transaction is at least its commit's GSN before it leaves the list of active
//        ones, so before a snapshot that sees it is worked with.  Transactions share marks: a mark
//        may be greater, then a reader waits for a commit that it did not see.
//   SH2  What is marked and not hardened is not removed, or a reader would find no row that names
//        the writer: the horizon follows when all commits below it are hardened
//        (CommitMarks::harden_horizon), and a deletion above it is final only then (row_gone.hpp).
#pragma once
#include <algorithm>
#include <atomic>

#include "base/types.hpp"
#include "wal/log.hpp"

namespace ls {

// In shared memory.  Written by each transaction that commits; read for rows that were written
// lately.
struct CommitMarks {
  static constexpr u32 kMarks = 4096;
  std::atomic<Gsn> of_tn[kMarks];
  // The host's engine process only: a horizon that waits until the commits below it are hardened.
  Tn next_horizon;
  Gsn next_horizon_at;   // 0: there is none

  // Transactions that follow each other do not share a cache line.
  std::atomic<Gsn> &of(Tn tn) {
    constexpr u32 kLines = kMarks / 8;
    return of_tn[tn % kLines * 8 + tn / kLines % 8];
  }
  const std::atomic<Gsn> &of(Tn tn) const { return const_cast<CommitMarks *>(this)->of(tn); }

  void raise(Tn tn, Gsn gsn) {
    std::atomic<Gsn> &mark = of(tn);
    Gsn seen = mark.load(std::memory_order_relaxed);
    while (seen < gsn && !mark.compare_exchange_weak(seen, gsn, std::memory_order_release,
                                                     std::memory_order_relaxed)) {
    }
  }
  // Of a transaction that has committed; hardened: asked before or after.
  bool is_hardened(Tn tn, Gsn hardened) const {
    return of(tn).load(std::memory_order_acquire) <= hardened;
  }

  // The largest horizon given so far below which all has been hardened; 0: none yet.  last_gsn: of
  // all commits below `horizon` at least.
  Tn harden_horizon(Tn horizon, Gsn last_gsn, Gsn hardened) {
    Tn reached = 0;
    if (next_horizon_at != 0 && hardened >= next_horizon_at) {
      reached = next_horizon;
      next_horizon_at = 0;
    }
    if (next_horizon_at == 0) {
      next_horizon = horizon;
      next_horizon_at = last_gsn;
    }
    return last_gsn <= hardened ? horizon : reached;
  }
};

// Private to a worker: what it was shown since the host asked last.
class Shown {
 public:
  // All transactions below have ended, and are hardened: nothing else is asked in the common case.
  Tn hardened_below() const { return hardened_below_; }
  void start_at(Tn base) { hardened_below_ = std::max(hardened_below_, base); }
  // All transactions below xmin have ended, and their commits are in the log.
  void note_ended(Tn xmin, Gsn hardened, const Log &log) {
    if (ended_at_ != 0 && hardened >= ended_at_) {
      hardened_below_ = std::max(hardened_below_, ended_below_);
      ended_at_ = 0;
    }
    if (ended_at_ != 0 || xmin <= hardened_below_) return;
    ended_below_ = xmin;
    ended_at_ = log.last_gsn();
  }

  void commit_at(Gsn gsn) { latest_ = std::max(latest_, gsn); }
  // The latest commit, 0: none.
  Gsn latest() const { return latest_; }
  void forget() { latest_ = 0; }

 private:
  Tn hardened_below_ = 0;
  Tn ended_below_ = 0;   // is to become that when the log is hardened up to
  Gsn ended_at_ = 0;     // 0: no such
  Gsn latest_ = 0;
};

}  // namespace ls
