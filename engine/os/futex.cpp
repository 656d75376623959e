// futex.cpp - waits and wake-ups by system call, and the mutex: spin, then sleep.
#include "os/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "base/check.hpp"
#include "base/spin.hpp"
#include "os/clock.hpp"
#include "os/host_watch.hpp"

namespace ls {

namespace {

static_assert(sizeof(std::atomic<u32>) == 4 && std::atomic<u32>::is_always_lock_free);

// Long enough for a short critical section on another core, far below the cost of a sleep.
constexpr int kMutexSpins = 100;

constexpr u32 kFree = 0, kHeld = 1, kContended = 2;

// However long a wait is, the process looks after its host so often.
constexpr u64 kWatchNs = 1'000'000'000;

std::atomic<HostWatch> g_watch{nullptr};

// FUTEX_WAIT_BITSET takes an absolute time, so a retry needs no arithmetic.
long wait_until(std::atomic<u32> *word, u32 expected, const timespec *deadline) {
  return syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, deadline, nullptr,
                 FUTEX_BITSET_MATCH_ANY);
}

bool wait(std::atomic<u32> *word, u32 expected, i64 timeout_us, bool retry_signals) {
  const u64 end = timeout_us >= 0 ? now_ns() + static_cast<u64>(timeout_us) * 1000 : ~u64{0};
  const int saved_errno = errno;
  for (;;) {
    const u64 at = std::min(end, now_ns() + kWatchNs);
    const timespec deadline{static_cast<time_t>(at / 1'000'000'000),
                            static_cast<long>(at % 1'000'000'000)};
    const long result = wait_until(word, expected, &deadline);
    const int error = result == 0 ? 0 : errno;
    errno = saved_errno;
    if (error == EINTR && retry_signals) continue;
    LS_CHECK(error == 0 || error == EAGAIN || error == EINTR || error == ETIMEDOUT, "futex wait");
    if (error != ETIMEDOUT) return true;
    watch_host();
    if (at == end) return false;
  }
}

}  // namespace

void set_host_watch(HostWatch watch) { g_watch.store(watch, std::memory_order_relaxed); }

void watch_host() {
  if (const HostWatch watch = g_watch.load(std::memory_order_relaxed)) watch();
}

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
  // Acquire pairs with futex_unlock's release.  Sequentially consistent, also when it fails: see
  // wal/group_commit.cpp, wake_waiters.
  return word.compare_exchange_strong(expected, kHeld, std::memory_order_seq_cst,
                                      std::memory_order_seq_cst);
}

void futex_lock(std::atomic<u32> &word) {
  for (int i = 0; i < kMutexSpins; i++) {
    if (word.load(std::memory_order_relaxed) == kFree && futex_try_lock(word)) return;
    cpu_relax();
  }
  // From here on this thread holds it as "contended": one that takes it this way cannot know
  // whether others still sleep.
  while (word.exchange(kContended, std::memory_order_acquire) != kFree)
    futex_wait(&word, kContended, -1);
}

void futex_unlock(std::atomic<u32> &word) {
  u32 before = word.exchange(kFree, std::memory_order_seq_cst);  // as in futex_try_lock
  LS_CHECK(before != kFree, "mutex was not held");
  if (before == kContended) futex_wake(&word, 1);
}

}  // namespace ls
