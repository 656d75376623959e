// value_keeping.hpp - what the host wants of the keeper of values, and what that does now; in
// shared memory.
#pragma once
#include <atomic>
#include <mutex>

#include "base/types.hpp"
#include "leanstore/values.h"
#include "os/futex.hpp"

namespace ls {

class ValueKeeping {
 public:
  u64 bytes_per_second() const { return bytes_per_second_.load(std::memory_order_relaxed); }
  u32 write_percent() const { return write_percent_.load(std::memory_order_relaxed); }
  u32 free_percent() const { return free_percent_.load(std::memory_order_relaxed); }
  void set(const ls_value_moves &moves) {
    bytes_per_second_.store(moves.bytes_per_second, std::memory_order_relaxed);
    write_percent_.store(moves.write_percent, std::memory_order_relaxed);
    free_percent_.store(moves.free_percent, std::memory_order_relaxed);
  }

  void show(const ls_value_progress &progress) {
    const std::lock_guard guard(mutex_);
    progress_ = progress;
  }
  ls_value_progress progress() const {
    const std::lock_guard guard(mutex_);
    return progress_;
  }

 private:
  static constexpr ls_value_moves kDefaults = LS_DEFAULT_VALUE_MOVES;
  std::atomic<u64> bytes_per_second_{kDefaults.bytes_per_second};
  std::atomic<u32> write_percent_{kDefaults.write_percent}, free_percent_{kDefaults.free_percent};
  mutable FutexMutex<LockRank::kInnermost> mutex_;
  ls_value_progress progress_{};
};

// Work on one file, for others to see while this lives; then what was to be seen before.
class ValueProgress {
 public:
  ValueProgress(ValueKeeping &keeping, const ls_value_progress &begun)
      : keeping_(keeping), before_(keeping.progress()), now_(begun) {
    keeping_.show(now_);
  }
  ~ValueProgress() { keeping_.show(before_); }
  ValueProgress(const ValueProgress &) = delete;
  ValueProgress &operator=(const ValueProgress &) = delete;
  void at_row(u64 row_id) {
    now_.row_id = row_id;
    keeping_.show(now_);
  }
  void moved(u64 bytes) {
    now_.moved_bytes += bytes;
    keeping_.show(now_);
  }

 private:
  ValueKeeping &keeping_;
  const ls_value_progress before_;
  ls_value_progress now_;
};

}  // namespace ls
