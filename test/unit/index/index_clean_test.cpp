// Entries of rows that are gone for good: removed before a leaf is split, and by sweeping; all
// others stay.
#include <thread>

#include "unit/index/index_fixture.hpp"

namespace ls::test {
namespace {

class IndexCleanTest : public testing::Test {
 protected:
  // Rows with entries; the row of number i has the key i * step.
  std::vector<u64> insert_rows(IndexSession &s, u64 n, u64 step, u64 offset = 0) {
    std::vector<u64> ids;
    for (u64 i = 0; i < n; i++) {
      u64 id = 0;
      EXPECT_EQ(s.insert(s.table, "row", &id), LS_OK) << s.err.message;
      EXPECT_EQ(s.add(number_key(i * step + offset), id), LS_OK) << s.err.message;
      ids.push_back(id);
    }
    return ids;
  }
  void wait_until_purged(IndexSession &s) {
    for (int i = 0; i < 2000; i++) {
      ls_check_result result{};
      LS_ASSERT_OK(ls_rel_check(s.worker(), s.table, &result, &err));
      if (result.ghosts == 0) return;
      store.host().publish();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL() << "ghosts stay";
  }
  u64 leaves(IndexSession &s) {
    ls_check_result result{};
    LS_EXPECT_OK(ls_rel_check(s.worker(), s.index, &result, &err));
    return result.leaf_pages;
  }
  // The whole index, `max_leaves` at a time.
  void sweep(IndexSession &s, u32 max_leaves, u64 *entries, u64 *removed) {
    ls_index_position position{};
    *entries = *removed = 0;
    ls_status status = LS_OK;
    for (int calls = 0; status == LS_OK; calls++) {
      u64 e = 0, r = 0;
      status = ls_index_sweep(s.worker(), s.index, s.table, max_leaves, &position, &e, &r, &err);
      *entries += e;
      *removed += r;
      ASSERT_LT(calls, 1000);
    }
    EXPECT_EQ(status, LS_END) << to_text(status, err);
  }
  IndexStore store;
  ls_error err{};
};

TEST_F(IndexCleanTest, sweep_takes_the_dead_and_nothing_else) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  std::vector<u64> ids = insert_rows(s, 2000, 1);
  s.commit();
  LS_ASSERT_OK(s.begin());
  for (u64 i = 0; i < 2000; i += 2) LS_ASSERT_OK(s.remove(s.table, ids[i]));
  s.commit();
  // Deleted by a transaction that is still running.
  IndexSession running(store, 1);
  LS_ASSERT_OK(running.begin());
  for (u64 i = 1; i < 2000; i += 4) LS_ASSERT_OK(running.remove(running.table, ids[i]));
  u64 entries, removed;
  sweep(s, 3, &entries, &removed);
  EXPECT_EQ(removed, 1000u);
  EXPECT_EQ(entries, 1000u);
  running.abort();
  sweep(s, 100, &entries, &removed);
  EXPECT_EQ(removed, 0u);
  std::vector<Entry> expected;
  for (u64 i = 1; i < 2000; i += 2) expected.push_back({number_key(i), ids[i], ""});
  EXPECT_EQ(s.entries(), expected);
  EXPECT_EQ(s.check(), 1000u);
}

TEST_F(IndexCleanTest, what_a_snapshot_sees_stays) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  std::vector<u64> ids = insert_rows(s, 500, 1);
  s.commit();
  HostSnapshot old;
  store.host().take(&old, 0, 0);
  LS_ASSERT_OK(s.begin());
  for (u64 id : ids) LS_ASSERT_OK(s.remove(s.table, id));
  s.commit();
  u64 entries, removed;
  sweep(s, 10, &entries, &removed);
  EXPECT_EQ(removed, 0u);
  EXPECT_EQ(entries, 500u);
  store.host().release(old);
  LS_ASSERT_OK(s.begin());  // its end publishes a horizon
  s.commit();
  sweep(s, 10, &entries, &removed);
  EXPECT_EQ(removed, 500u);
  EXPECT_EQ(s.check(), 0u);
}

TEST_F(IndexCleanTest, entries_of_rows_that_came_and_went_under_a_reader_are_dead) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  std::vector<u64> seen = insert_rows(s, 100, 1);
  s.commit();
  HostSnapshot reader;
  store.host().take(&reader, 0, 0, true);
  std::vector<u64> ids = seen;
  for (u64 round = 1; round <= 5; round++) {
    LS_ASSERT_OK(s.begin());
    for (u64 id : ids) LS_ASSERT_OK(s.remove(s.table, id));
    ids = insert_rows(s, 100, 1, round * 1000);
    s.commit();
  }
  LS_ASSERT_OK(s.begin());  // its end publishes what has ended
  s.commit();
  // The cleaner takes ghosts and their versions away at the same time: a row met in the middle of
  // that is left to the next sweep.
  u64 entries = 0, removed = 0, all = 0;
  for (int i = 0; i < 2000 && all < 400; i++) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    sweep(s, 10, &entries, &removed);
    all += removed;
  }
  EXPECT_EQ(all, 400u);
  EXPECT_EQ(entries, 200u);
  for (int i = 0; i < 2000; i++) {
    ls_check_result result{};
    LS_ASSERT_OK(ls_rel_check(s.worker(), s.table, &result, &err));
    if (result.ghosts == 100) break;
    EXPECT_GE(result.ghosts, 100u);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  for (u64 id : seen) {
    alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
    ls_row row;
    LS_EXPECT_OK(ls_row_fetch(s.worker(), s.table, id, &reader.s, buffer, &row, nullptr, &err));
  }
  store.host().release(reader);
  LS_ASSERT_OK(s.begin());
  s.commit();
  wait_until_purged(s);
  sweep(s, 10, &entries, &removed);
  EXPECT_EQ(entries, 100u);
}

TEST_F(IndexCleanTest, entries_of_insertions_rolled_back_are_dead) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  insert_rows(s, 300, 2);
  const u32 savepoint = ls_txn_savepoint(s.worker());
  insert_rows(s, 300, 2, 1);
  ls_txn_rollback_to(s.worker(), savepoint);
  s.commit();
  LS_ASSERT_OK(s.begin());
  insert_rows(s, 300, 2, 1000);
  s.abort();
  EXPECT_EQ(s.entries().size(), 900u) << "nothing undoes them";
  u64 entries, removed;
  sweep(s, 2, &entries, &removed);
  EXPECT_EQ(removed, 600u);
  EXPECT_EQ(entries, 300u);
}

TEST_F(IndexCleanTest, swept_leaves_melt_together) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  std::vector<u64> ids = insert_rows(s, 6000, 1);
  s.commit();
  const u64 before = leaves(s);
  LS_ASSERT_OK(s.begin());
  for (u64 i = 0; i < ids.size(); i++) {
    if (i % 10 != 0) LS_ASSERT_OK(s.remove(s.table, ids[i]));
  }
  s.commit();
  u64 entries, removed;
  sweep(s, 1, &entries, &removed);
  // What the cleaner was at work on is left to the next one.
  for (int i = 0; i < 2000 && s.check() > 600; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    sweep(s, 1, &entries, &removed);
  }
  EXPECT_LT(leaves(s), before / 3);
  EXPECT_EQ(s.check(), 600u);
}

TEST_F(IndexCleanTest, the_cleaner_sweeps_when_many_rows_are_gone) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  std::vector<u64> ids = insert_rows(s, 12000, 1);
  s.commit();
  LS_ASSERT_OK(s.begin());
  for (u64 i = 0; i < ids.size(); i++) {
    if (i % 8 != 0) LS_ASSERT_OK(s.remove(s.table, ids[i]));
  }
  s.commit();
  for (int i = 0; i < 4000 && s.check() > 1500; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::vector<Entry> expected;
  for (u64 i = 0; i < ids.size(); i += 8) expected.push_back({number_key(i), ids[i], ""});
  EXPECT_EQ(s.entries(), expected);
}

// Its table's file was replaced by another one: what is missing there says nothing.
TEST_F(IndexCleanTest, entries_of_another_table_are_left_alone) {
  IndexSession s(store, 0);
  LS_ASSERT_OK(s.begin());
  insert_rows(s, 300, 1);
  s.commit();
  const ls_rel_key key = relation_key(kTableRelation);
  ls_rel_forget(store.store(), &key);
  u64 entries = 0, removed = 0;
  ls_index_position position{};
  const ls_status status =
      ls_index_sweep(s.worker(), s.index, s.table, 100, &position, &entries, &removed, &err);
  EXPECT_TRUE(status == LS_END || status == LS_NOT_FOUND);
  EXPECT_EQ(removed, 0u);
  EXPECT_EQ(s.check(), 300u);
}

// The same keys come and go, ten times: the index stays small although no cleaner sweeps it.
TEST_F(IndexCleanTest, full_leaves_are_cleaned_before_they_are_split) {
  constexpr u64 kKeys = 2000;
  IndexSession s(store, 0);
  std::vector<u64> ids;
  for (int round = 0; round < 10; round++) {
    LS_ASSERT_OK(s.begin());
    for (u64 id : ids) LS_ASSERT_OK(s.remove(s.table, id));
    s.commit();
    wait_until_purged(s);
    LS_ASSERT_OK(s.begin());
    ids = insert_rows(s, kKeys, 1);
    s.commit();
  }
  EXPECT_LT(s.check(), 4 * kKeys);
  EXPECT_GT(store.stats().index_entries_removed, 6 * kKeys);
  const std::vector<Entry> entries = s.entries();
  for (u64 i = 0; i < kKeys; i++) {
    EXPECT_NE(std::find(entries.begin(), entries.end(), Entry{number_key(i), ids[i], ""}),
              entries.end())
        << i;
  }
}

}  // namespace
}  // namespace ls::test
