// retry.hpp - the retry loop of an optimistic operation: counts restarts and backs off.
//
//   for (Retry retry(ctx);; retry.again()) { ... continue to restart ... }
#pragma once
#include <sched.h>
#include <time.h>

#include "base/spin.hpp"
#include "buffer/pool.hpp"

namespace ls {

class Retry {
 public:
  explicit Retry(Ctx &ctx) : ctx_(ctx) {}

  // Restarted so often that optimism does not pay: take latches and wait for them.
  bool persistent() const { return restarts_ >= kPatience; }

  void again() {
    ctx_.pool->count_restart(ctx_.slot);
    restarts_++;
    if (restarts_ < kPatience) {
      for (u32 i = 0; i < 4u << restarts_; i++) cpu_relax();
    } else if (restarts_ < kYields) {
      sched_yield();
    } else {
      timespec pause{0, 20'000};
      nanosleep(&pause, nullptr);
    }
  }

 private:
  // 4 + 8 + ... + 128 pauses: about as long as a page latch is held
  static constexpr u32 kPatience = 6;
  static constexpr u32 kYields = 64;
  Ctx &ctx_;
  u32 restarts_ = 0;
};

}  // namespace ls
