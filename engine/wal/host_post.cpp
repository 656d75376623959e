// host_post.cpp - one place to post in, for each process.
#include "wal/host_post.hpp"

#include <mutex>

#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "os/futex.hpp"
#include "wal/log_sink.hpp"
#include "wal/log_slot.hpp"

namespace ls {

namespace {

constexpr i64 kPollUs = 20'000;

// What is posted belongs to its thread again when `state` is kDone, or when that has taken it back.
class HostPost {
 public:
  Status post(Log &log, const HostInsert &insert, const volatile int *interrupt) {
    const std::lock_guard guard(whose_);
    insert_ = &insert;
    state_.store(kPosted, std::memory_order_release);   // pairs with insert_posted()
    for (;;) {
      log.drain();
      const u32 state = state_.load(std::memory_order_acquire);   // pairs with insert_posted()
      if (state == kDone) break;
      const bool stops = interrupt_pending(interrupt) ||
                         log.shared()->stopped.load(std::memory_order_acquire) != 0;
      if (state == kPosted && stops && take(kNothing))
        return fail(LS_INTERRUPTED, "interrupted while the host's log was written to");
      futex_wait(&state_, state, kPollUs);
    }
    state_.store(kNothing, std::memory_order_relaxed);
    return kOk;
  }

  void insert_posted() {
    if (state_.load(std::memory_order_relaxed) != kPosted || !take(kTaken)) return;
    (*insert_)(*host_log());
    state_.store(kDone, std::memory_order_release);
    futex_wake_all(&state_);
  }

 private:
  static constexpr u32 kNothing = 0, kPosted = 1, kTaken = 2, kDone = 3;

  bool take(u32 next) {
    u32 posted = kPosted;
    return state_.compare_exchange_strong(posted, next, std::memory_order_acq_rel);
  }

  std::mutex whose_;   // of the engine's threads that post
  std::atomic<u32> state_{kNothing};
  const HostInsert *insert_ = nullptr;
};

HostPost g_post;

}  // namespace

Status post_to_host(Log &log, const HostInsert &insert, const volatile int *interrupt) {
  LS_ASSERT(log.has_host_log());
  if (!host_log()) return g_post.post(log, insert, interrupt);
  insert(*host_log());
  return kOk;
}

void insert_posted() { g_post.insert_posted(); }

}  // namespace ls
