// undo_failures.hpp - checkpoints that could not write an undo file: how many there were, and why
// the last one failed.  In shared memory.
#pragma once
#include <mutex>

#include "base/status.hpp"
#include "os/futex.hpp"

namespace ls {

class UndoFailures {
 public:
  // The calling thread's last_error() is the reason.
  void note() {
    const std::lock_guard lock(mutex_);
    count_++;
    last_ = last_error();
  }
  // *last, which may be null, is left alone when there were none.
  u64 get(ls_error *last) const {
    const std::lock_guard lock(mutex_);
    if (last && count_ > 0) *last = last_;
    return count_;
  }

 private:
  mutable FutexMutex<LockRank::kAlone> mutex_;
  u64 count_ = 0;
  ls_error last_{};
};

}  // namespace ls
