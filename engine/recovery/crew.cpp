// crew.cpp - the members' threads, and the first error of them.
#include "recovery/crew.hpp"

#include <algorithm>

#include "os/thread.hpp"

namespace ls {

Status Crew::run(const char *name, u32 members, const std::function<Status(u32 member)> &work) {
  const u32 others = std::clamp(members, 1u, kMost) - 1;
  {
    Thread threads[kMost];
    Status started = kOk;
    for (u32 i = 0; i < others && ok(started); i++) {
      started = threads[i].start(name, [this, i, &work] { take_part(i, work); });
    }
    if (!ok(started)) {
      failed_.store(true, std::memory_order_relaxed);
      return started;
    }
    take_part(others, work);
  }
  if (!error_) return kOk;
  set_last_error(*error_);
  return make_status(error_->status);
}

void Crew::take_part(u32 member, const std::function<Status(u32 member)> &work) {
  const Status status = with_memory([&] { return work(member); });
  std::lock_guard guard(mutex_);
  if (ok(status) || error_) return;
  error_ = last_error();
  failed_.store(true, std::memory_order_relaxed);
}

}  // namespace ls
