// hybrid_latch.hpp - the page latch: optimistic, shared, exclusive (LeanStore paper, section 5.1).
//
// Lives in shared memory, works across processes (futex).  Two words:
//   version_  odd while exclusively held; +1 at lock, +1 at unlock; never reset (frames are never
//   unmapped:
//             that is what replaces epochs, paper section 6.1)
//   word_     reader count, writer bit, waiters bit; the futex
// Fairness: a waiting writer sets a pending bit that holds back new readers; waits are bounded
// spins, then sleep.  The holder may be another process: no owner is recorded; if it dies the host
// resets all shared memory.
#pragma once
#include <atomic>

#include "base/types.hpp"

namespace ls {

class HybridLatch {
 public:
  // -- optimistic: reads no more than version_, writes nothing.  Inline: a descent does this at
  // every level.  Current version; if exclusively held, waits (sleeping) until it is not.
  u64 version_wait() {
    u64 version;
    return __builtin_expect(try_version(version), 1) ? version : wait_for_version();
  }
  // Current version, or false when exclusively held.
  bool try_version(u64 &version) const {
    // Acquire pairs with unlock_exclusive's release: what the last writer wrote is seen.
    version = version_.load(std::memory_order_acquire);
    return !(version & 1);
  }
  // Nothing changed since `version` was taken.
  bool validate(u64 version) const {
    // Keeps the optimistic reads before the load below; pairs with the release fence in
    // mark_locked: a reader that saw a writer's bytes sees its odd version, too.
    std::atomic_thread_fence(std::memory_order_acquire);
    return version_.load(std::memory_order_relaxed) == version;
  }

  // -- pessimistic
  void lock_shared();
  bool try_lock_shared();
  void unlock_shared();
  void lock_exclusive();
  bool try_lock_exclusive();
  // Exclusive, only if the version still is the one read optimistically. Never waits.
  bool try_upgrade(u64 version);
  void unlock_exclusive();
  // Release without advancing the version: the holder changed nothing that an optimistic reader
  // could have seen.
  void unlock_exclusive_unchanged();

  // Of the holder: odd, and two more than the last holder's, if that changed something.
  u64 held_version() const { return version_.load(std::memory_order_relaxed); }
  bool is_exclusive() const { return version_.load(std::memory_order_relaxed) & 1; }

 private:
  u64 wait_for_version();
  void mark_locked();    // version becomes odd; the writer bit is ours
  void release_word();   // give up the writer bit, wake the sleepers

  std::atomic<u64> version_{0};
  std::atomic<u32> word_{0};

 public:
  // Four bytes that alignment leaves over: for what the latch guards.
  std::atomic<u32> guarded_word{0};
};
static_assert(sizeof(HybridLatch) == 16);

// Number of latches the calling thread holds (debug builds; 0 otherwise).  capi/ checks it at the C
// API.
int latches_held();

}  // namespace ls
