// Entries with a key that their row has no more: the mark of the index, and removal while the row
// may get the key again.
#include <atomic>
#include <thread>

#include "unit/index/index_fixture.hpp"

namespace ls::test {
namespace {

class IndexStaleTest : public testing::Test {
 protected:
  ls_status look(IndexSession &s, const std::string &key, u64 row_id, ls_index_seen *seen) {
    return ls_index_look(s.worker(), s.index, to_bytes(key), row_id, seen, &err);
  }
  bool remove(IndexSession &s, const std::string &key, u64 row_id, const ls_index_seen &seen) {
    bool removed = false;
    LS_EXPECT_OK(
        ls_index_remove_seen(s.worker(), s.index, to_bytes(key), row_id, &seen, 0, &removed, &err));
    return removed;
  }
  IndexStore store;
  ls_error err{};
};

TEST_F(IndexStaleTest, the_mark_stays_with_the_file) {
  {
    IndexSession s(store, 0);
    EXPECT_FALSE(ls_index_may_be_stale(s.index));
    LS_ASSERT_OK(s.begin());
    LS_ASSERT_OK(ls_index_note_stale(s.worker(), s.index, &err));
    LS_ASSERT_OK(ls_index_note_stale(s.worker(), s.index, &err));
    EXPECT_TRUE(ls_index_may_be_stale(s.index));
    EXPECT_FALSE(ls_index_may_be_stale(s.table));
    // whatever becomes of the transaction
    s.abort();
    EXPECT_TRUE(ls_index_may_be_stale(s.index));
  }
  store.restart();
  IndexSession s(store, 0);
  EXPECT_TRUE(ls_index_may_be_stale(s.index));
}

TEST_F(IndexStaleTest, what_was_seen_is_removed_only_if_nothing_has_changed) {
  IndexSession s(store, 0);
  const std::string key = number_key(5);
  ls_index_seen seen{};
  EXPECT_EQ(look(s, key, 1, &seen), LS_NOT_FOUND);
  LS_ASSERT_OK(s.begin());
  LS_ASSERT_OK(s.add(key, 1));
  EXPECT_EQ(look(s, key, 2, &seen), LS_NOT_FOUND);
  EXPECT_EQ(look(s, number_key(6), 1, &seen), LS_NOT_FOUND);

  // inserted again
  LS_ASSERT_OK(look(s, key, 1, &seen));
  EXPECT_EQ(s.add(key, 1), LS_EXISTS);
  EXPECT_FALSE(remove(s, key, 1, seen));
  // another one
  LS_ASSERT_OK(look(s, key, 1, &seen));
  LS_ASSERT_OK(s.add(number_key(6), 2));
  EXPECT_FALSE(remove(s, key, 1, seen));
  EXPECT_EQ(s.entries(), (std::vector<Entry>{{key, 1, ""}, {number_key(6), 2, ""}}));

  LS_ASSERT_OK(look(s, key, 1, &seen));
  EXPECT_TRUE(remove(s, key, 1, seen));
  EXPECT_FALSE(remove(s, key, 1, seen));
  EXPECT_EQ(s.entries(), (std::vector<Entry>{{number_key(6), 2, ""}}));
  s.commit();
}

// A row gets its key first and its entry then (STALE-1), and loses the key again, while others
// remove the entry when they find that the row has lost it: it is there whenever the row has the
// key and the insertion is over.
TEST_F(IndexStaleTest, an_entry_that_is_inserted_again_stays) {
  constexpr u32 kRounds = 20000, kRow = 7;
  std::atomic<bool> has_key{false}, over{false};
  std::atomic<u64> removals{0};
  const std::string key = number_key(1000);
  {
    IndexSession s(store, 0);
    LS_ASSERT_OK(s.begin());
    for (u64 i = 0; i < 50; i++) LS_ASSERT_OK(s.add(number_key(i * 100), i + 100));
    s.commit();
  }
  auto sweep = [&](u32 slot) {
    IndexSession s(store, slot);
    ls_error e{};
    while (!over.load(std::memory_order_relaxed)) {
      ls_index_seen seen{};
      bool removed = false;
      if (ls_index_look(s.worker(), s.index, to_bytes(key), kRow, &seen, &e) != LS_OK ||
          has_key.load(std::memory_order_acquire))
        continue;
      EXPECT_EQ(ls_index_remove_seen(s.worker(), s.index, to_bytes(key), kRow, &seen, 0, &removed,
                                     &e),
                LS_OK);
      removals += removed;
    }
  };
  std::thread first(sweep, 1), second(sweep, 2);
  {
    IndexSession s(store, 0);
    LS_ASSERT_OK(s.begin());
    for (u32 i = 0; i < kRounds || removals.load() < 10; i++) {
      has_key.store(true, std::memory_order_release);
      const ls_status status = s.add(key, kRow);
      EXPECT_TRUE(status == LS_OK || status == LS_EXISTS);
      for (u32 n = 0; n < 2; n++) {
        ls_index_seen seen{};
        ASSERT_EQ(look(s, key, kRow, &seen), LS_OK) << "round " << i;
      }
      has_key.store(false, std::memory_order_release);
    }
    s.commit();
  }
  over = true;
  first.join();
  second.join();
  IndexSession s(store, 0);
  EXPECT_GE(s.check(), 50u);
}

}  // namespace
}  // namespace ls::test
