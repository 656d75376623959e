#include "os/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "base/check.hpp"
#include "base/spin.hpp"
#include "os/clock.hpp"

namespace ls {

namespace {

static_assert(sizeof(std::atomic<u32>) == 4 && std::atomic<u32>::is_always_lock_free);

// Long enough for a short critical section on another core, far below the cost of a sleep.
constexpr int kMutexSpins = 100;

constexpr u32 kFree = 0, kHeld = 1, kContended = 2;

// FUTEX_WAIT_BITSET takes an absolute time, so a retry needs no arithmetic.
long wait_until(std::atomic<u32> *word, u32 expected, const timespec *deadline) {
  return syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
}

bool wait(std::atomic<u32> *word, u32 expected, i64 timeout_us, bool retry_signals) {
  timespec deadline{};
  if (timeout_us >= 0) {
    u64 at = now_ns() + static_cast<u64>(timeout_us) * 1000;
    deadline.tv_sec = static_cast<time_t>(at / 1'000'000'000);
    deadline.tv_nsec = static_cast<long>(at % 1'000'000'000);
  }
  int saved_errno = errno;
  for (;;) {
    long result = wait_until(word, expected, timeout_us >= 0 ? &deadline : nullptr);
    int error = result == 0 ? 0 : errno;
    if (error == EINTR && retry_signals) continue;
    errno = saved_errno;
    LS_CHECK(error == 0 || error == EAGAIN || error == EINTR || error == ETIMEDOUT, "futex wait");
    return error != ETIMEDOUT;
  }
}

}  // namespace

bool futex_wait(std::atomic<u32> *word, u32 expected, i64 timeout_us) {
  return wait(word, expected, timeout_us, true);
}

bool futex_wait_interruptible(std::atomic<u32> *word, u32 expected, i64 timeout_us) {
  return wait(word, expected, timeout_us, false);
}

int futex_wake(std::atomic<u32> *word, int n) {
  long woken = syscall(SYS_futex, word, FUTEX_WAKE, n, nullptr, nullptr, 0);
  LS_CHECK(woken >= 0, "futex wake");
  return static_cast<int>(woken);
}

int futex_wake_all(std::atomic<u32> *word) { return futex_wake(word, INT_MAX); }

bool futex_try_lock(std::atomic<u32> &word) {
  u32 expected = kFree;
  // Acquire pairs with futex_unlock's release.  Sequentially consistent, also when it fails: see wal/group_commit.cpp, wake_waiters.
  return word.compare_exchange_strong(expected, kHeld, std::memory_order_seq_cst, std::memory_order_seq_cst);
}

void futex_lock(std::atomic<u32> &word) {
  for (int i = 0; i < kMutexSpins; i++) {
    if (word.load(std::memory_order_relaxed) == kFree && futex_try_lock(word)) return;
    cpu_relax();
  }
  // From here on we hold it as "contended": whoever takes it this way cannot know whether others still sleep.
  while (word.exchange(kContended, std::memory_order_acquire) != kFree) futex_wait(&word, kContended, -1);
}

void futex_unlock(std::atomic<u32> &word) {
  u32 before = word.exchange(kFree, std::memory_order_seq_cst);  // as in futex_try_lock
  LS_CHECK(before != kFree, "mutex was not held");
  if (before == kContended) futex_wake(&word, 1);
}

}  // namespace ls
