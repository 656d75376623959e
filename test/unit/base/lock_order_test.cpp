// lock_order_test.cpp - a wait against the order of ranks ends the process, a try does not.
#include "base/lock_order.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "os/futex.hpp"
#include "sync/hybrid_latch.hpp"

namespace ls {
namespace {

#if defined(LS_DEBUG_CHECKS) && LS_DEBUG_CHECKS && !defined(__SANITIZE_THREAD__)

constexpr const char *kAgainst = "against the order of ranks";

TEST(LockOrder, a_lower_rank_is_not_waited_for_with_a_higher_one) {
  FutexMutex<LockRank::kFileTable> table;
  FutexMutex<LockRank::kFile> file, other_file;
  const std::lock_guard held(file);
  EXPECT_DEATH(table.lock(), kAgainst);
  EXPECT_DEATH(other_file.lock(), kAgainst) << "two of a rank";
  EXPECT_TRUE(table.try_lock());
  table.unlock();
}

TEST(LockOrder, ranks_in_their_order_are_taken_and_given_up) {
  FutexMutex<LockRank::kFileTable> table;
  FutexMutex<LockRank::kFile> file;
  FutexMutex<LockRank::kIoStage> stage;
  for (int times = 0; times < 2; times++) {
    const std::lock_guard first(table);
    const std::lock_guard second(file);
    const std::lock_guard third(stage);
  }
  HybridLatch page;
  {
    const std::lock_guard first(file);
    page.lock_exclusive();
    const std::lock_guard third(stage);
  }
  EXPECT_DEATH(file.lock(), kAgainst) << "with a page latched";
  page.unlock_exclusive();
  const std::lock_guard none(file);
}

TEST(LockOrder, no_page_is_waited_for_with_a_mutex_that_comes_behind) {
  FutexMutex<LockRank::kPartition> partition;
  FutexMutex<LockRank::kIoStage> stage;
  HybridLatch page;
  {
    const std::lock_guard held(partition);   // of a frame that is not in a tree
    page.lock_shared();
    page.unlock_shared();
  }
  const std::lock_guard held(stage);
  EXPECT_DEATH(page.lock_shared(), kAgainst);
  EXPECT_DEATH(page.lock_exclusive(), kAgainst);
  EXPECT_TRUE(page.try_lock_exclusive());
  page.unlock_exclusive();
}

TEST(LockOrder, what_is_taken_alone_comes_before_and_behind_nothing) {
  FutexMutex<LockRank::kAlone> alone;
  FutexMutex<LockRank::kLongAction> first;
  {
    const std::lock_guard held(alone);
    EXPECT_DEATH(first.lock(), kAgainst);
  }
  const std::lock_guard held(first);
  EXPECT_DEATH(alone.lock(), kAgainst);
}

#endif

}  // namespace
}  // namespace ls
