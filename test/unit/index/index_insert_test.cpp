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
  LS_ASSERT_OK(s.add(number_key(7), 70, "seven"));
  LS_ASSERT_OK(s.add(number_key(3), 31, "three"));
  LS_ASSERT_OK(s.add(number_key(3), 30));
  s.commit();
  const std::vector<Entry> expected{
      {number_key(3), 30, ""}, {number_key(3), 31, "three"}, {number_key(7), 70, "seven"}};
  EXPECT_EQ(s.entries(), expected);
  EXPECT_EQ(s.entries(true), std::vector<Entry>(expected.rbegin(), expected.rend()));
  EXPECT_EQ(s.check(), 3u);
}

TEST_F(IndexInsertTest, the_same_entry_twice_is_refused) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  LS_ASSERT_OK(s.add(number_key(1), 5, "a"));
  EXPECT_EQ(s.add(number_key(1), 5, "b"), LS_EXISTS);
  s.commit();
  EXPECT_EQ(s.entries(), (std::vector<Entry>{{number_key(1), 5, "a"}}));
}

TEST_F(IndexInsertTest, needs_a_transaction) {
  IndexSession s(store, 0);
  EXPECT_EQ(s.add(number_key(1), 5), LS_INVALID);
  EXPECT_TRUE(s.entries().empty());
}

TEST_F(IndexInsertTest, unique_finds_the_other) {
  IndexSession s(store, 0);
  u64 other = 0;
  LS_ASSERT_OK(s.begin());
  LS_ASSERT_OK(s.add_unique(number_key(1), 5, {}, &other));
  EXPECT_EQ(s.add_unique(number_key(1), 6, {}, &other), LS_EXISTS);
  EXPECT_EQ(other, 5u);
  LS_EXPECT_OK(s.add_unique(number_key(1), 6, {5}, &other));
  EXPECT_EQ(s.add_unique(number_key(1), 7, {5}, &other), LS_EXISTS);
  EXPECT_EQ(other, 6u);
  EXPECT_EQ(s.add_unique(number_key(1), 6, {5, 6}, &other), LS_EXISTS)
      << "this very entry, even if it does not count";
  LS_EXPECT_OK(s.add_unique(number_key(2), 7, {}, &other));
  s.commit();
  EXPECT_EQ(s.check(), 3u);
}

TEST_F(IndexInsertTest, removed_entries_are_gone) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  for (u64 i = 0; i < 2000; i++) LS_ASSERT_OK(s.add(number_key(i), i + 1));
  s.commit();
  for (u64 i = 0; i < 2000; i++) {
    if (i % 3 != 0) LS_ASSERT_OK(s.take_away(number_key(i), i + 1));
  }
  LS_EXPECT_OK(s.take_away(number_key(5000), 1));
  const std::vector<Entry> left = s.entries();
  ASSERT_EQ(left.size(), 667u);
  for (u64 i = 0; i < left.size(); i++)
    EXPECT_EQ(left[i], (Entry{number_key(3 * i), 3 * i + 1, ""}));
  EXPECT_EQ(s.check(), 667u);
  EXPECT_EQ(store.stats().index_entries_removed, 1333u);
}

TEST_F(IndexInsertTest, survives_a_restart) {
  {
    IndexSession s(store, 0);
    LS_ASSERT_OK(s.begin());
    for (u64 i = 0; i < 3000; i++)
      LS_ASSERT_OK(s.add(number_key(i * 7919 % 3000), i + 1, std::to_string(i)));
    s.commit();
  }
  store.restart();
  IndexSession s(store, 0);
  EXPECT_EQ(s.check(), 3000u);
  EXPECT_EQ(s.entries().size(), 3000u);
}

TEST_F(IndexInsertTest, limits_of_keys_payloads_and_row_ids) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  u64 expected = 0;
  for (u32 bytes : {1u, 8u, 100u, 700u, LS_MAX_KEY_BYTES}) {
    const u32 most = ls_index_max_payload(bytes);
    const std::string key(bytes, static_cast<char>(bytes % 251 + 1));
    LS_EXPECT_OK(s.add(key, LS_MAX_ROW_ID, std::string(most, 'p')));
    EXPECT_EQ(s.add(key, 1, std::string(most + 1, 'p')), LS_TOO_LARGE);
    EXPECT_NE(std::string(s.err.message).find(std::to_string(most)), std::string::npos)
        << s.err.message;
    EXPECT_EQ(s.add(key, LS_MAX_ROW_ID + 1), LS_NO_ROW_IDS);
    expected++;
  }
  EXPECT_GE(ls_index_max_payload(8), 3900u);
  EXPECT_EQ(ls_index_max_payload(LS_MAX_KEY_BYTES + 1), 0u);
  EXPECT_EQ(s.add(std::string(LS_MAX_KEY_BYTES + 1, 'x'), 1), LS_TOO_LARGE);
  EXPECT_NE(std::string(s.err.message).find(std::to_string(LS_MAX_KEY_BYTES)), std::string::npos)
      << s.err.message;
  u64 other = 0;
  EXPECT_EQ(s.add_unique(std::string(LS_MAX_KEY_BYTES + 1, 'x'), 1, {}, &other), LS_TOO_LARGE);
  LS_EXPECT_OK(s.take_away(std::string(LS_MAX_KEY_BYTES + 1, 'x'), 1));
  s.commit();
  EXPECT_EQ(s.check(), expected);
}

// Long keys leave long fences behind; the largest entries with short keys must still find a place
// between them.
TEST_F(IndexInsertTest, the_largest_payloads_among_long_fences) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  auto long_key = [](char first, int i) {
    std::string key(LS_MAX_KEY_BYTES, first);
    key[key.size() - 2] = static_cast<char>(1 + i / 100);
    key[key.size() - 1] = static_cast<char>(1 + i % 100);
    return key;
  };
  for (char first = 'b'; first < 'm'; first++) {
    for (int i = 0; i < 40; i++) LS_ASSERT_OK(s.add(long_key(first, i), 7));
  }
  for (char first = 'b'; first < 'm'; first++) {
    for (int i = 0; i < 40; i++) {
      if (i % 13 != 5) LS_ASSERT_OK(s.take_away(long_key(first, i), 7));
    }
  }
  u64 added = 0;
  for (char first = 'a'; first < 'n'; first++) {
    for (const std::string &rest :
         {std::string("\1"), std::string(1, static_cast<char>(first + 1)), std::string("\xff")}) {
      const std::string key = std::string(1, first) + rest;
      if (rest[0] == first) continue;
      LS_ASSERT_OK(s.add(key, 9, std::string(ls_index_max_payload(2), 'p')));
      added++;
    }
  }
  s.commit();
  EXPECT_EQ(s.check(), added + 11u * 3);
}

}  // namespace
}  // namespace ls::test
