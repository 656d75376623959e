// futex.hpp - sleeping on a 32-bit word in shared memory, and the mutex made of it.
//
// All of it works across processes (no FUTEX_PRIVATE_FLAG).  The words are plain std::atomic<u32>, zero is "free", so
// zeroed shared memory is initialised.  Nothing records an owner: when a process dies with a lock held the host resets
// all shared memory.
#pragma once
#include <atomic>
#include <mutex>

#include "base/types.hpp"

namespace ls {

// Sleep while *word == expected; false when timeout_us passed (negative: no limit).  Returns true on a wake-up and when
// the word differs; wake-ups may be spurious, so callers loop.  A signal handler's interruption is retried with what is
// left of the timeout.
bool futex_wait(std::atomic<u32> *word, u32 expected, i64 timeout_us);
// The same, but a signal handler's run ends the wait (true): for callers that poll an interrupt flag.
bool futex_wait_interruptible(std::atomic<u32> *word, u32 expected, i64 timeout_us);
// Wake up to n sleepers.  Returns how many there were.
int futex_wake(std::atomic<u32> *word, int n);
int futex_wake_all(std::atomic<u32> *word);

// A mutex in a bare word: 0 free, 1 held, 2 held and somebody may sleep.  Not recursive.  lock acquires, unlock
// releases.  Bounded spin, then sleep.
void futex_lock(std::atomic<u32> &word);
bool futex_try_lock(std::atomic<u32> &word);
void futex_unlock(std::atomic<u32> &word);

// The same as a type; usable with std::lock_guard and std::unique_lock.
class FutexMutex {
 public:
  void lock() { futex_lock(word_); }
  bool try_lock() { return futex_try_lock(word_); }
  void unlock() { futex_unlock(word_); }

 private:
  std::atomic<u32> word_{0};
};
static_assert(sizeof(FutexMutex) == 4);

// RAII for the free functions.
class FutexGuard {
 public:
  explicit FutexGuard(std::atomic<u32> &word) : word_(word) { futex_lock(word_); }
  // The caller has locked it.
  FutexGuard(std::atomic<u32> &word, std::adopt_lock_t) : word_(word) {}
  ~FutexGuard() { futex_unlock(word_); }
  FutexGuard(const FutexGuard &) = delete;
  FutexGuard &operator=(const FutexGuard &) = delete;

 private:
  std::atomic<u32> &word_;
};

}  // namespace ls
