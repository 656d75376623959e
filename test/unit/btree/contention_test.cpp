// Contention splits: writers that wait for the same leaf, but for different entries of it, get a
// leaf each; no other writers do.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "btree/contention.hpp"
#include "unit/btree/tree_helpers.hpp"
#include "unit/engine_fixture.hpp"

namespace ls {
namespace {

using test::EngineFixture;
using test::int_key;
using test::TreeUser;

constexpr u64 kKeys = 20;   // even numbers below twice that

class ContentionTest : public ::testing::Test {
 protected:
  ContentionTest() {
    file_ = engine_.open(worker_.ctx, 7, true);
    TreeUser user(worker_.ctx, *file_);
    for (u64 i = 0; i < kKeys; i++) EXPECT_TRUE(user.insert(int_key(2 * i), "value"));
  }
  u64 leaves() {
    BTree::CheckResult result{};
    EXPECT_EQ(code(BTree(worker_.ctx, *file_).verify(&result, nullptr, nullptr)), LS_OK)
        << last_error().message;
    EXPECT_EQ(result.entries, kKeys);
    return result.leaf_pages;
  }
  // Two writers wait for the leaf while this thread has it, again and again, for these entries.
  void contend(u64 one, u64 other) {
    for (u32 i = 0; i < Contention::kWaits; i++) {
      ExclusiveGuard mine;
      ASSERT_EQ(
          code(BTree(worker_.ctx, *file_).leaf_exclusive(test::as_bytes(int_key(0)), 0, mine)),
          LS_OK);
      std::thread a([&] { latch(one, 1); }), b([&] { latch(other, 2); });
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      mine.reset_unchanged();
      a.join();
      b.join();
    }
  }
  void latch(u64 key, u32 slot) {
    EngineFixture::Worker worker(engine_, slot);
    BTree tree(worker.ctx, *file_);
    ExclusiveGuard leaf;
    EXPECT_EQ(code(tree.leaf_exclusive(test::as_bytes(int_key(key)), 0, leaf)), LS_OK)
        << last_error().message;
    leaf.reset_unchanged();
  }

  EngineFixture engine_;
  EngineFixture::Worker worker_{engine_, 0};
  FileSlot *file_ = nullptr;
};

TEST_F(ContentionTest, different_entries_part) {
  ASSERT_EQ(leaves(), 1u);
  contend(10, 30);
  EXPECT_EQ(leaves(), 2u);
  alignas(8) u8 page[kPageSize];
  const Node *node = reinterpret_cast<const Node *>(page);
  ASSERT_EQ(code(BTree(worker_.ctx, *file_).leaf_copy(test::as_bytes(int_key(10)), page)), LS_OK);
  EXPECT_TRUE(node->covers(test::as_bytes(int_key(28))));
  EXPECT_FALSE(node->covers(test::as_bytes(int_key(30))))
      << "the later of the two begins the right half";
}

TEST_F(ContentionTest, one_entry_stays_where_it_is) {
  contend(10, 10);
  EXPECT_EQ(leaves(), 1u);
}

TEST_F(ContentionTest, entries_to_come_have_no_place) {
  contend(11, 31);
  EXPECT_EQ(leaves(), 1u);
}

// One in a hundred has to wait, or more.
TEST(ContentionCountTest, waits_that_are_seldom_do_not_count) {
  Frame often, seldom;
  u16 cut_often = 0, cut_seldom = 0;
  for (u64 i = 0; i < 4 * Contention::kWaits; i++) {
    cut_often = std::max(cut_often, note_wait(often, 1 + i * 2 * 50, i % 2 ? 7 : 12));
    cut_seldom = std::max(cut_seldom, note_wait(seldom, 1 + i * 2 * 500, i % 2 ? 7 : 12));
  }
  EXPECT_EQ(cut_often, 12);
  EXPECT_EQ(cut_seldom, 0);
}

}  // namespace
}  // namespace ls
