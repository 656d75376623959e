// crew.hpp - a piece of recovery's work, done by several threads.  The first error of one is that
// of all.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>

#include "base/status.hpp"

namespace ls {

class Crew {
 public:
  static constexpr u32 kMost = 8;
  // work(i) by each of `members` threads, of which the caller is the last one; at least one and at
  // most kMost.  Returns when all have come back.
  Status run(const char *name, u32 members, const std::function<Status(u32 member)> &work);
  // One has failed: the others need not go on.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

 private:
  void take_part(u32 member, const std::function<Status(u32 member)> &work);

  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::optional<ls_error> error_;   // under mutex_
};

}  // namespace ls
