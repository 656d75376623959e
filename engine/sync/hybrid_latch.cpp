// word_:  bit 31 writer | bit 30 pending | bit 29 sleepers | bits 0..28 readers
//   pending   a writer waits; new readers stay out.  Set together with `sleepers` by that writer,
//             cleared by whichever writer gets the latch and by every exclusive release.  A writer
//             that finds it gone sets it again.
//   sleepers  a thread sleeps or is about to; the holder that makes the latch free clears it and
//             wakes all.
// LATCH-1  version_ is odd  =>  the writer bit is set.
// LATCH-2  the writer bit is set  =>  no readers.
// LATCH-3  pending  =>  some writer is in lock_exclusive and will be woken by the next release.
#include "sync/hybrid_latch.hpp"

#include <sched.h>

#include "base/check.hpp"
#include "base/lock_order.hpp"
#include "base/spin.hpp"
#include "os/futex.hpp"

namespace ls {

namespace {

constexpr u32 kWriter = 1u << 31;
constexpr u32 kPending = 1u << 30;
constexpr u32 kSleepers = 1u << 29;
constexpr u32 kReaders = kSleepers - 1;

// Page latches are held for well under a microsecond: spin about that long before sleeping.
constexpr int kSpins = 128;

#if defined(LS_DEBUG_CHECKS) && LS_DEBUG_CHECKS
thread_local int tls_held = 0;
void count_taken() {
  tls_held++;
  lock_taken(LockRank::kPage);
}
void count_left() {
  tls_held--;
  lock_left(LockRank::kPage);
}
#else
void count_taken() {}
void count_left() {}
#endif

// Set `bits` in addition to `seen` and sleep until the word changes; returns at once when it has
// changed already.
void sleep_on(std::atomic<u32> &word, u32 seen, u32 bits) {
  u32 wanted = seen | bits;
  if (wanted != seen && !word.compare_exchange_strong(seen, wanted, std::memory_order_relaxed,
                                                      std::memory_order_relaxed)) {
    return;
  }
  futex_wait(&word, wanted, -1);
}

}  // namespace

int latches_held() {
#if defined(LS_DEBUG_CHECKS) && LS_DEBUG_CHECKS
  return tls_held;
#else
  return 0;
#endif
}

u64 HybridLatch::wait_for_version() {
  page_latch_wanted();
  u64 version;
  for (;;) {
    for (int i = 0; i < kSpins; i++) {
      if (try_version(version)) return version;
      cpu_relax();
    }
    u32 word = word_.load(std::memory_order_relaxed);
    if (word & kWriter) {
      sleep_on(word_, word, kSleepers);
    } else {
      sched_yield();  // the writer is between its two stores
    }
  }
}

void HybridLatch::mark_locked() {
  version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // Keeps the page writes that follow behind the odd version; pairs with the acquire fence in
  // validate.
  std::atomic_thread_fence(std::memory_order_release);
  count_taken();
}

bool HybridLatch::try_lock_exclusive() {
  u32 word = word_.load(std::memory_order_relaxed);
  while (!(word & (kWriter | kReaders))) {
    // Acquire pairs with the releases in unlock_exclusive and unlock_shared.
    if (word_.compare_exchange_weak(word, (word & ~kPending) | kWriter, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      mark_locked();
      return true;
    }
  }
  return false;
}

void HybridLatch::lock_exclusive() {
  page_latch_wanted();
  for (;;) {
    for (int i = 0; i < kSpins; i++) {
      if (try_lock_exclusive()) return;
      cpu_relax();
    }
    u32 word = word_.load(std::memory_order_relaxed);
    if (word & (kWriter | kReaders)) sleep_on(word_, word, kPending | kSleepers);
  }
}

bool HybridLatch::try_upgrade(u64 version) {
  LS_ASSERT(!(version & 1));
  if (version_.load(std::memory_order_relaxed) != version) return false;
  u32 word = word_.load(std::memory_order_relaxed);
  do {
    if (word & (kWriter | kReaders)) return false;
  } while (!word_.compare_exchange_weak(word, (word & ~kPending) | kWriter,
                                        std::memory_order_acquire, std::memory_order_relaxed));
  // Only the holder changes version_, so from here it stands still.
  if (version_.load(std::memory_order_relaxed) != version) {
    release_word();
    return false;
  }
  mark_locked();
  return true;
}

void HybridLatch::release_word() {
  u32 before = word_.exchange(0, std::memory_order_release);
  LS_ASSERT(before & kWriter);   // LATCH-1
  if (before & kSleepers) futex_wake_all(&word_);
}

void HybridLatch::unlock_exclusive() {
  u64 version = version_.load(std::memory_order_relaxed);
  LS_ASSERT(version & 1);
  count_left();
  // Release pairs with try_version's acquire.
  version_.store(version + 1, std::memory_order_release);
  release_word();
}

void HybridLatch::unlock_exclusive_unchanged() {
  u64 version = version_.load(std::memory_order_relaxed);
  LS_ASSERT(version & 1);
  count_left();
  version_.store(version - 1, std::memory_order_release);
  release_word();
}

bool HybridLatch::try_lock_shared() {
  u32 word = word_.load(std::memory_order_relaxed);
  while (!(word & (kWriter | kPending))) {
    LS_ASSERT((word & kReaders) != kReaders);
    if (word_.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      count_taken();
      return true;
    }
  }
  return false;
}

void HybridLatch::lock_shared() {
  page_latch_wanted();
  for (;;) {
    for (int i = 0; i < kSpins; i++) {
      if (try_lock_shared()) return;
      cpu_relax();
    }
    u32 word = word_.load(std::memory_order_relaxed);
    if (word & (kWriter | kPending)) sleep_on(word_, word, kSleepers);
  }
}

void HybridLatch::unlock_shared() {
  count_left();
  u32 word = word_.load(std::memory_order_relaxed);
  for (;;) {
    LS_ASSERT(word & kReaders);
    bool last = (word & kReaders) == 1;
    u32 after = word - 1;
    if (last) after &= ~kSleepers;  // `pending` stays: the writer comes before new readers
    if (word_.compare_exchange_weak(word, after, std::memory_order_release,
                                    std::memory_order_relaxed)) {
      if (last && (word & kSleepers)) futex_wake_all(&word_);
      return;
    }
  }
}

}  // namespace ls
