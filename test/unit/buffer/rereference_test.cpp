// rereference_test.cpp - cool pages are kept by how often pages of their file are wanted again.
#include "base/random.hpp"
#include "buffer/rereference.hpp"
#include "unit/buffer/pool_fixture.hpp"

namespace ls::buffer_test {
namespace {

void note(RereferenceRate &count, u32 looks, u32 wanted) {
  for (u32 i = 0; i < looks; i++) count.note(i < wanted, ~0u);
}

TEST(RereferenceTest, looks_follow_the_share_that_is_wanted_again) {
  RereferenceRate pool, usual, wanted_often, hardly, unknown, always;
  note(pool, 1000, 100);
  note(usual, 1000, 100);
  note(wanted_often, 1000, 150);
  note(hardly, 1000, 10);
  note(unknown, kLooksKnown - 1, kLooksKnown - 1);
  note(always, 1000, 1000);
  EXPECT_EQ(last_look(usual, pool), kUsualLooks);
  EXPECT_EQ(last_look(wanted_often, pool), 9u);
  EXPECT_EQ(last_look(hardly, pool), 1u);
  EXPECT_EQ(last_look(unknown, pool), kUsualLooks) << "too few looks to tell";
  EXPECT_EQ(last_look(always, pool), kMostLooks);
  EXPECT_EQ(last_look(usual, RereferenceRate{}), kUsualLooks) << "nothing is wanted again anywhere";
}

TEST(RereferenceTest, old_looks_count_less_and_less) {
  RereferenceRate count;
  for (u32 i = 0; i < 4000; i++) count.note(true, 1000);
  for (u32 i = 0; i < 4000; i++) count.note(false, 1000);
  EXPECT_LT(count.looks.load(), 1000u);
  EXPECT_LT(count.wanted.load() * 50, count.looks.load());
  count.reset();
  EXPECT_EQ(count.looks.load() + count.wanted.load(), 0u);
}

// Two files: each step reads a page of the one, which has 60, and a page of the other, which has
// 440.
class RereferenceOfTwoFiles : public ::testing::Test {
 protected:
  static constexpr u32 kFew = 60, kMany = 440;

  void SetUp() override {
    register_toy_tree();
    LS_ASSERT_OK(ToyTree::open(test_, worker_.ctx, 7, false, &few_));
    LS_ASSERT_OK(ToyTree::open(test_, worker_.ctx, 8, false, &many_));
    add(*few_, kFew);
    add(*many_, kMany);
  }
  void make_room() {
    u32 freed;
    while (test_.pool().stats().free < 20) LS_ASSERT_OK(provider_.round(&freed));
  }
  void add(FileSlot &file, u32 leaves) {
    ToyTree tree(worker_.ctx, file);
    for (u32 i = 0; i < leaves; i += 10) {
      make_room();
      for (u32 leaf = i; leaf < i + 10; leaf++) LS_ASSERT_OK(tree.add_leaf(leaf));
    }
  }
  void read(FileSlot &file, u32 leaf) {
    u64 value;
    LS_ASSERT_OK(ToyTree(worker_.ctx, file).read(leaf, &value));
  }
  // Returns how many pages of the smaller file were read.
  u32 steps(u32 count) {
    u32 misses = 0;
    for (u32 i = 0; i < count; i++) {
      make_room();
      const u64 before = test_.pool().stats().reads;
      read(*few_, next_random(random_) % kFew);
      misses += test_.pool().stats().reads != before;
      read(*many_, next_random(random_) % kMany);
    }
    return misses;
  }

  TestPool test_{200};
  TestWorker worker_{test_, 0};
  PageProvider provider_{test_.pool(), 0};
  FileSlot *few_ = nullptr, *many_ = nullptr;
  u64 random_ = 88172645463325252ull;
};

TEST_F(RereferenceOfTwoFiles, pages_of_the_file_that_is_wanted_more_stay) {
  steps(20'000);
  EXPECT_GT(few_->rereference.wanted.load() * u64{many_->rereference.looks.load()},
            2 * many_->rereference.wanted.load() * u64{few_->rereference.looks.load()});
  EXPECT_GT(last_look(few_->rereference, test_.pool().shared()->rereference),
            last_look(many_->rereference, test_.pool().shared()->rereference));
  EXPECT_LT(steps(10'000), 200u) << "a plain second chance misses it 2,200 times";
}

TEST_F(RereferenceOfTwoFiles, pages_of_a_file_that_was_wanted_go_when_it_is_not_any_more) {
  steps(20'000);
  const u32 before = few_->frames.load();
  for (u32 i = 0; i < 4'000; i++) {
    make_room();
    read(*many_, next_random(random_) % kMany);
  }
  EXPECT_GT(before, kFew * 3 / 4);
  EXPECT_LT(few_->frames.load(), before / 4);
}

}  // namespace
}  // namespace ls::buffer_test
