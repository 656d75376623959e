// futex.hpp - sleeping on a 32-bit word in shared memory, and the mutex made of it.
//
// All of it works across processes (no FUTEX_PRIVATE_FLAG).  The words are plain std::atomic<u32>,
// zero is "free", so zeroed shared memory is initialised.  Nothing records an owner: when a process
// dies with a lock held the host resets all shared memory.
#pragma once
#include <atomic>
#include <mutex>

#include "base/lock_order.hpp"
#include "base/types.hpp"

namespace ls {

// Sleep while *word == expected; false when timeout_us passed (negative: no limit).  Returns true
// on a wake-up and when the word differs; wake-ups may be spurious, so callers loop.  A signal
// handler's interruption is retried with what is left of the timeout.
bool futex_wait(std::atomic<u32> *word, u32 expected, i64 timeout_us);
// The same, but a signal handler's run ends the wait (true): for callers that poll an interrupt
// flag.
bool futex_wait_interruptible(std::atomic<u32> *word, u32 expected, i64 timeout_us);
// Wake up to n sleepers.  Returns how many there were.
int futex_wake(std::atomic<u32> *word, int n);
int futex_wake_all(std::atomic<u32> *word);

// A mutex in a bare word: 0 free, 1 held, 2 held and a thread may sleep on it.  Not recursive.
// lock acquires, unlock releases.  Bounded spin, then sleep.
void futex_lock(std::atomic<u32> &word);
bool futex_try_lock(std::atomic<u32> &word);
void futex_unlock(std::atomic<u32> &word);

// The same as a type with its place in the order of locks; for std::lock_guard, std::unique_lock.
template <LockRank kRank>
class FutexMutex {
 public:
  void lock() {
    lock_wanted(kRank);
    futex_lock(word_);
    lock_taken(kRank);
  }
  bool try_lock() {
    if (!futex_try_lock(word_)) return false;
    lock_taken(kRank);
    return true;
  }
  void unlock() {
    lock_left(kRank);
    futex_unlock(word_);
  }
  // By any thread, in the one order of sequentially consistent operations.
  bool is_locked() const { return word_.load(std::memory_order_seq_cst) != 0; }

 private:
  std::atomic<u32> word_{0};
};
static_assert(sizeof(FutexMutex<LockRank::kInnermost>) == 4);

}  // namespace ls
