// New entries: what is kept, refused, and which limits there are.
#include "unit/index/index_fixture.hpp"

namespace ls::test {
namespace {

class IndexInsertTest : public testing::Test {
 protected:
  IndexStore store;
  ls_error err{};
};

TEST_F(IndexInsertTest, entries_come_back_in_order) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  LS_ASSERT_OK(s.add(int_key(7), 70, "seven"));
  LS_ASSERT_OK(s.add(int_key(3), 31, "three"));
  LS_ASSERT_OK(s.add(int_key(3), 30));
  s.commit();
  const std::vector<Entry> expected{{int_key(3), 30, ""}, {int_key(3), 31, "three"}, {int_key(7), 70, "seven"}};
  EXPECT_EQ(s.entries(), expected);
  EXPECT_EQ(s.entries(true), std::vector<Entry>(expected.rbegin(), expected.rend()));
  EXPECT_EQ(s.check(), 3u);
}

TEST_F(IndexInsertTest, the_same_entry_twice_is_refused) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  LS_ASSERT_OK(s.add(int_key(1), 5, "a"));
  EXPECT_EQ(s.add(int_key(1), 5, "b"), LS_EXISTS);
  s.commit();
  EXPECT_EQ(s.entries(), (std::vector<Entry>{{int_key(1), 5, "a"}}));
}

TEST_F(IndexInsertTest, needs_a_transaction) {
  IndexSession s(store, 0);
  EXPECT_EQ(s.add(int_key(1), 5), LS_INVALID);
  EXPECT_TRUE(s.entries().empty());
}

TEST_F(IndexInsertTest, unique_finds_the_other) {
  IndexSession s(store, 0);
  u64 other = 0;
  LS_ASSERT_OK(s.begin());
  LS_ASSERT_OK(s.add_unique(int_key(1), 5, {}, &other));
  EXPECT_EQ(s.add_unique(int_key(1), 6, {}, &other), LS_EXISTS);
  EXPECT_EQ(other, 5u);
  LS_EXPECT_OK(s.add_unique(int_key(1), 6, {5}, &other));
  EXPECT_EQ(s.add_unique(int_key(1), 7, {5}, &other), LS_EXISTS);
  EXPECT_EQ(other, 6u);
  EXPECT_EQ(s.add_unique(int_key(1), 6, {5, 6}, &other), LS_EXISTS) << "this very entry, even if it does not count";
  LS_EXPECT_OK(s.add_unique(int_key(2), 7, {}, &other));
  s.commit();
  EXPECT_EQ(s.check(), 3u);
}

TEST_F(IndexInsertTest, removed_entries_are_gone) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  for (u64 i = 0; i < 2000; i++) LS_ASSERT_OK(s.add(int_key(i), i + 1));
  s.commit();
  for (u64 i = 0; i < 2000; i++) {
    if (i % 3 != 0) LS_ASSERT_OK(s.take_away(int_key(i), i + 1));
  }
  LS_EXPECT_OK(s.take_away(int_key(5000), 1));
  const std::vector<Entry> left = s.entries();
  ASSERT_EQ(left.size(), 667u);
  for (u64 i = 0; i < left.size(); i++) EXPECT_EQ(left[i], (Entry{int_key(3 * i), 3 * i + 1, ""}));
  EXPECT_EQ(s.check(), 667u);
  EXPECT_EQ(store.stats().index_entries_removed, 1333u);
}

TEST_F(IndexInsertTest, survives_a_restart) {
  {
    IndexSession s(store, 0);
    LS_ASSERT_OK(s.begin());
    for (u64 i = 0; i < 3000; i++) LS_ASSERT_OK(s.add(int_key(i * 7919 % 3000), i + 1, std::to_string(i)));
    s.commit();
  }
  store.restart();
  IndexSession s(store, 0);
  EXPECT_EQ(s.check(), 3000u);
  EXPECT_EQ(s.entries().size(), 3000u);
}

}  // namespace
}  // namespace ls::test
