// tree_race_test.cpp - a change of the tree's structure is planned, and another worker is faster.
#include <gtest/gtest.h>

#include <thread>

#include "unit/base/failpoint_actions.hpp"
#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

#if LS_FAILPOINTS

using test::as_bytes;
using test::as_string;
using test::EngineFixture;
using test::int_key;
using test::Model;
using test::OnceAt;
using test::TreeUser;

const std::string kSmall(60, 's');

class TreeRace : public ::testing::TestWithParam<bool> {
 protected:
  void insert(TreeUser &user, const std::string &key, const std::string &value) {
    ASSERT_TRUE(user.insert(key, value)) << last_error().message;
    model_[key] = value;
  }
  void remove(TreeUser &user, const std::string &key) {
    ASSERT_TRUE(user.remove(key)) << last_error().message;
    model_.erase(key);
  }
  u64 splits() { return engine_.pool().stats().splits; }
  const Node &leaf_of(const std::string &key) {
    EXPECT_TRUE(ok(second_.tree.leaf_copy(as_bytes(key), page_)));
    return *reinterpret_cast<const Node *>(page_);
  }
  // Of the second worker, right behind `key`, until the leaf there is two.
  void split_behind(const std::string &key) {
    for (const u64 before = splits(); splits() == before;)
      ASSERT_NO_FATAL_FAILURE(insert(second_, key + int_key(fresh_++), kSmall));
  }
  // Of the second worker, which merges nothing.
  void shrink(const std::string &key, u32 most_bytes) {
    ExclusiveGuard leaf;
    ASSERT_TRUE(ok(second_.tree.leaf_exclusive(as_bytes(key), 0, leaf))) << last_error().message;
    Node *node = reinterpret_cast<Node *>(leaf.page());
    while (node->used_bytes() > most_bytes) {
      u8 first[kMaxKeyBytes];
      model_.erase(as_string({first, node->copy_key(0, first)}));
      node->remove(0);
    }
    engine_.pool().mark_dirty(leaf.frame(), 0);
  }
  void expect_whole() {
    BTree::CheckResult result;
    ASSERT_TRUE(first_.verify(&result)) << "a scan may not end";
    EXPECT_EQ(result.entries, model_.size());
    EXPECT_TRUE(test::same(first_.scan(), model_));
  }

  EngineFixture engine_;
  EngineFixture::Worker a_{engine_, 0}, b_{engine_, 1};
  FileSlot *file_ = engine_.open(a_.ctx, 1, GetParam());
  TreeUser first_{a_.ctx, *file_}, second_{b_.ctx, *file_};
  Model model_;
  u64 fresh_ = 0;
  alignas(8) u8 page_[kPageSize];
};

// First: is going to split the root, which is a leaf.  Second: splits it and fills its left half.
// First: latches the root's meta page and the leaf, which is full and has the key, but is no root.
TEST_P(TreeRace, race_split_vs_split_of_the_same_leaf) {
  constexpr u32 kLarge = 1200, kFull = kNodeSpace - kLarge;
  const std::string low = int_key(1);
  for (u64 i = 2; leaf_of(low).used_bytes() < kFull; i++) insert(first_, int_key(i), kSmall);
  ASSERT_EQ(splits(), 0u);
  // The first one has latched the frames of its new pages, so the second is a thread of its own.
  OnceAt point(Failpoint::btree_before_split, [&] {
    std::thread([&] {
      split_behind(int_key(2));
      while (leaf_of(low).used_bytes() < kFull)
        ASSERT_NO_FATAL_FAILURE(insert(second_, low + int_key(fresh_++), kSmall));
    }).join();
    EXPECT_EQ(splits(), 1u);
  });
  insert(first_, low, std::string(kLarge, 'l'));
  EXPECT_TRUE(point.reached());
  EXPECT_GT(splits(), 1u);
  expect_whole();
}

// First: is going to merge two leaves beside each other.  Second: splits the left one, of which so
// little is left that the two would fit.  First: latches them, and there is another one between.
TEST_P(TreeRace, race_merge_vs_split_of_a_neighbour) {
  constexpr u64 kKeys = 400;
  for (u64 i = 0; i < kKeys; i++) insert(first_, int_key(i), kSmall);
  const std::string low = int_key(0);
  OnceAt point(Failpoint::btree_before_merge, [&] {
    const std::string right = as_string(leaf_of(low).upper_fence());
    split_behind(low);
    shrink(low, kNodeSpace * 60 / 100 - leaf_of(right).used_bytes());
  });
  for (u64 i = 0; i < kKeys && !point.reached(); i++) {
    if (i % 3 != 0) remove(first_, int_key(i));
  }
  EXPECT_TRUE(point.reached());
  expect_whole();
}

// First: chooses some leaves beside each other.  Second: splits one of them.  First: latches them,
// and they are not beside each other any more.
TEST_P(TreeRace, race_x_merge_vs_split_of_a_leaf_chosen) {
  constexpr u64 kKeys = 1500;
  for (u64 i = 0; i < kKeys; i++) insert(first_, int_key(i), kSmall);
  for (u64 i = 0; i < kKeys; i++) {
    // Too much is left for two to be merged.
    if (i % 9 % 2 == 1) remove(first_, int_key(i));
  }
  ASSERT_EQ(engine_.pool().stats().merges, 0u);
  u32 reached = 0;
  for (std::string position = as_string(leaf_of("").upper_fence()); !position.empty();) {
    OnceAt point(Failpoint::btree_before_xmerge, [&] { split_behind(position); });
    bool merged;
    ASSERT_TRUE(ok(first_.tree.x_merge(as_bytes(position), test::any_leaf, &merged)))
        << last_error().message;
    reached += point.reached();
    position = as_string(leaf_of(position).upper_fence());
  }
  EXPECT_GT(reached, 3u);
  expect_whole();
}

INSTANTIATE_TEST_SUITE_P(Trees, TreeRace, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "logged" : "unlogged"; });

#endif

}  // namespace
}  // namespace ls
