// Pages of a followed file, four times as many as frames: redo changes them by number while readers
// descend to them and providers take them out.
#include "buffer/followed_pages.hpp"

#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

constexpr u32 kLeaves = 400;
constexpr PageNo kFirstLeaf = kDirs + 2;   // leaf i is page kFirstLeaf + i

class FollowedPagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    register_toy_tree();
    {
      TestWorker worker(test_, 0);
      FileSlot *file;
      LS_ASSERT_OK(ToyTree::open(test_, worker.ctx, 7, true, &file));
      test_.start_providers(1);
      LS_ASSERT_OK(ToyTree(worker.ctx, *file).add_leaves(kLeaves));
      LS_ASSERT_OK(test_.pool().flush(worker.ctx, ~Gsn{0}, true));
    }
    test_.crash();
    test_.pool().shared()->following = true;
    worker_ = std::make_unique<TestWorker>(test_, 0);
    LS_ASSERT_OK(ToyTree::open(test_, worker_->ctx, 7, true, &file_));
    test_.start_providers(2);
  }

  // As redo does of one record: finds the page by number, then latches and changes it.
  Status change(Ctx &ctx, u32 leaf, u64 value, Gsn gsn) {
    for (;;) {
      Frame *frame;
      LS_TRY(find_followed(ctx, *file_, kFirstLeaf + leaf, false, &frame));
      ExclusiveGuard guard =
          try_lock_followed(test_.pool(), *file_, kFirstLeaf + leaf, frame);
      if (!guard) continue;
      reinterpret_cast<ToyLeaf *>(guard.page())->set(leaf, value);
      test_.pool().mark_dirty(frame, gsn);
      values_[leaf].store(value, std::memory_order_release);
      return kOk;
    }
  }
  Gsn next_gsn(TestWorker &worker) {
    EXPECT_TRUE(ok(worker.log.reserve(64, nullptr)));
    worker.log.start(RecordKind::kSystem);
    return worker.log.finish();
  }
  void read(u32 slot, u64 seed) {
    TestWorker worker(test_, slot);
    ToyTree tree(worker.ctx, *file_);
    while (!stop_.load(std::memory_order_relaxed)) {
      const u32 leaf = static_cast<u32>((seed = seed * 6364136223846793005ull + 1) >> 33) % kLeaves;
      const u64 low = values_[leaf].load(std::memory_order_acquire);
      u64 value = 0;
      const Status status = tree.read(leaf, &value);
      EXPECT_TRUE(ok(status)) << last_error().message;
      if (!ok(status)) return;
      EXPECT_GE(value, low);
      reads_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void check_all(Ctx &ctx) {
    ToyTree tree(ctx, *file_);
    for (u32 leaf = 0; leaf < kLeaves; leaf++) {
      u64 value = 0;
      LS_ASSERT_OK(tree.read(leaf, &value));
      EXPECT_EQ(value, values_[leaf].load()) << leaf;
    }
  }

  TestPool test_{100};
  std::unique_ptr<TestWorker> worker_;
  FileSlot *file_ = nullptr;
  std::vector<std::atomic<u64>> values_ = std::vector<std::atomic<u64>>(kLeaves);
  std::atomic<bool> stop_{false};
  std::atomic<u64> reads_{0};
};

TEST_F(FollowedPagesTest, readers_see_what_redo_does_in_a_small_pool) {   // FOLLOWED-1
  std::vector<std::thread> readers;
  for (u32 slot = 1; slot <= 3; slot++)
    readers.emplace_back([this, slot] { read(slot, slot * 7919); });
  u64 seed = 88172645463325252ull;
  for (u64 i = 1; i <= 5000; i++) {
    const u32 leaf = static_cast<u32>((seed = seed * 6364136223846793005ull + 1) >> 33) % kLeaves;
    LS_ASSERT_OK(change(worker_->ctx, leaf, i, next_gsn(*worker_)));
  }
  // Promoted under the readers: from now on workers change pages.
  end_following(test_.pool());
  ToyTree tree(worker_->ctx, *file_);
  for (u32 i = 0; i < 2000; i++) LS_ASSERT_OK(tree.increment(i % kLeaves, &values_[i % kLeaves]));
  stop_ = true;
  for (std::thread &reader : readers) reader.join();
  EXPECT_GT(reads_.load(), 1000u);
  check_all(worker_->ctx);
  const PoolStats stats = test_.pool().stats();
  EXPECT_GT(stats.evictions, kLeaves);
  EXPECT_GT(stats.hits, 0u);
  EXPECT_EQ(test_.provider_failures(), 0u);
  LS_ASSERT_OK(test_.pool().flush(worker_->ctx, ~Gsn{0}, true));
  worker_.reset();
  test_.crash();
  test_.start_providers(1);
  TestWorker again(test_, 0);
  LS_ASSERT_OK(ToyTree::open(test_, again.ctx, 7, true, &file_));
  check_all(again.ctx);
}

TEST_F(FollowedPagesTest, no_reference_is_swizzled_and_a_page_has_one_frame) {
  check_all(worker_->ctx);
  u32 followed = 0;
  for (u32 i = 0; i < test_.pool().frame_count(); i++) {
    const FrameState state = test_.pool().frame(i)->state.load();
    EXPECT_TRUE(state != FrameState::kCool && state != FrameState::kLoaded) << i;
    followed += state == FrameState::kFollowed;
  }
  EXPECT_GT(followed, 10u);
  Frame *frame, *same;
  LS_ASSERT_OK(find_followed(worker_->ctx, *file_, kFirstLeaf, false, &frame));
  LS_ASSERT_OK(find_followed(worker_->ctx, *file_, kFirstLeaf, false, &same));
  EXPECT_EQ(frame, same);
}

TEST_F(FollowedPagesTest, a_page_that_the_file_does_not_have_is_zeros_for_redo_alone) {
  constexpr PageNo kBehind = kFirstLeaf + kLeaves + 1000;
  EXPECT_EQ(code(load_followed(worker_->ctx, *file_, kBehind, Absent::kFails)), LS_CORRUPT);
  Frame *frame;
  LS_ASSERT_OK(find_followed(worker_->ctx, *file_, kBehind, false, &frame));
  const u8 *page = test_.pool().page(frame);
  EXPECT_EQ(std::count(page, page + kPageSize, 0), kPageSize);
}

TEST_F(FollowedPagesTest, pages_behind_a_cut_are_gone) {
  Frame *frame;
  for (PageNo page = kFirstLeaf; page < kFirstLeaf + 20; page++)
    LS_ASSERT_OK(find_followed(worker_->ctx, *file_, page, false, &frame));
  LS_ASSERT_OK(change(worker_->ctx, 15, 4711, next_gsn(*worker_)));
  drop_followed_from(test_.pool(), *file_, kFirstLeaf + 10);
  for (u32 i = 0; i < test_.pool().frame_count(); i++) {
    const Frame *f = test_.pool().frame(i);
    if (f->state.load() == FrameState::kFollowed) EXPECT_LT(f->page_no.load(), kFirstLeaf + 10);
  }
}

}  // namespace
}  // namespace ls::buffer_test
