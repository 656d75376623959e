// Guards: what invalidates what, and which latch is released when.
#include "buffer/page_guard.hpp"

#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

class PageGuardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    register_toy_tree();
    LS_ASSERT_OK(ToyTree::open(test_, worker_.ctx, 7, false, &file_));
    LS_ASSERT_OK(ToyTree(worker_.ctx, *file_).add_leaf(0));
    frame_ = ToyTree(worker_.ctx, *file_).frame_of(0);
    ASSERT_EQ(latches_held(), 0);
  }
  void TearDown() override { EXPECT_EQ(latches_held(), 0); }
  BufferPool &pool() { return test_.pool(); }

  TestPool test_{50};
  TestWorker worker_{test_, 0};
  FileSlot *file_ = nullptr;
  Frame *frame_ = nullptr;
};

TEST_F(PageGuardTest, an_upgrade_after_a_change_is_empty) {
  u64 version;
  {
    OptimisticGuard guard(pool(), frame_);
    EXPECT_TRUE(guard.valid());
    guard.release(&version);
    EXPECT_FALSE(guard.valid());
  }
  { ExclusiveGuard change = ExclusiveGuard::lock(pool(), frame_); }
  EXPECT_FALSE(lock_exclusive_at(frame_->latch, version));
  if (kOptimisticIsShared) return;  // no worker can change a page under such a guard
  OptimisticGuard exclusive_try(pool(), frame_), shared_try(pool(), frame_);
  { ExclusiveGuard change = ExclusiveGuard::lock(pool(), frame_); }
  EXPECT_FALSE(exclusive_try.valid());
  EXPECT_FALSE(ExclusiveGuard(pool(), std::move(exclusive_try)));
  EXPECT_FALSE(SharedGuard(pool(), std::move(shared_try)));
}

TEST_F(PageGuardTest, an_unchanged_release_keeps_optimistic_readers_valid) {
  u64 version;
  OptimisticGuard(pool(), frame_).release(&version);
  ExclusiveGuard unchanged = ExclusiveGuard::lock(pool(), frame_);
  EXPECT_FALSE(frame_->latch.validate(version));
  unchanged.reset_unchanged();
  EXPECT_TRUE(frame_->latch.validate(version));
  ASSERT_TRUE(lock_exclusive_at(frame_->latch, version));
  frame_->latch.unlock_exclusive();
  EXPECT_FALSE(frame_->latch.validate(version));
}

TEST_F(PageGuardTest, upgrades_hold_what_they_say) {
  {
    ExclusiveGuard exclusive(pool(), OptimisticGuard(pool(), frame_));
    ASSERT_TRUE(exclusive);
    EXPECT_EQ(exclusive.page(), pool().page(frame_));
    EXPECT_FALSE(frame_->latch.try_lock_shared());
    EXPECT_FALSE(ExclusiveGuard::try_lock(pool(), frame_));
  }
  SharedGuard shared(pool(), OptimisticGuard(pool(), frame_));
  ASSERT_TRUE(shared);
  SharedGuard second = SharedGuard::lock(pool(), frame_);
  EXPECT_FALSE(ExclusiveGuard::try_lock(pool(), frame_));
  shared.reset();
  SharedGuard moved = std::move(second);
  EXPECT_FALSE(second);
  EXPECT_FALSE(ExclusiveGuard::try_lock(pool(), frame_));
  moved.reset();
  EXPECT_TRUE(ExclusiveGuard::try_lock(pool(), frame_));
}

TEST_F(PageGuardTest, moves_release_what_was_held_and_detach_does_not) {
  Frame *other = file_->meta.load();
  ExclusiveGuard a = ExclusiveGuard::lock(pool(), frame_);
  ExclusiveGuard b = ExclusiveGuard::lock(pool(), other);
  a = std::move(b);
  EXPECT_FALSE(b);
  EXPECT_FALSE(frame_->latch.is_exclusive());
  EXPECT_TRUE(other->latch.is_exclusive());
  EXPECT_EQ(a.detach(), other);
  EXPECT_FALSE(a);
  a.reset();
  EXPECT_TRUE(other->latch.is_exclusive());
  ExclusiveGuard::adopt(pool(), other).reset();
  EXPECT_FALSE(other->latch.is_exclusive());
}

TEST_F(PageGuardTest, a_hidden_change_leaves_the_guard_as_it_was) {
  OptimisticGuard guard(pool(), frame_);
  u64 version = guard.version();
  ASSERT_TRUE(guard.begin_change());
  EXPECT_TRUE(frame_->latch.is_exclusive());
  guard.end_change();
  EXPECT_TRUE(guard.still_same());
  EXPECT_TRUE(guard.valid());
  EXPECT_EQ(guard.version(), version);
}

}  // namespace
}  // namespace ls::buffer_test
