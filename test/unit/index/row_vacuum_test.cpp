// VACUUM of a table through engine.h: which blocks are looked at, what is counted, and when the
// entries of an index are known to be right.
#include <thread>

#include "capi/api_call.hpp"
#include "index/index_cleaner.hpp"
#include "unit/index/index_fixture.hpp"

namespace ls::test {
namespace {

class RowVacuumTest : public testing::Test {
 protected:
  std::vector<u64> insert_rows(IndexSession &s, u64 n) {
    std::vector<u64> ids;
    LS_EXPECT_OK(s.begin());
    for (u64 i = 0; i < n; i++) {
      u64 id = 0;
      EXPECT_EQ(s.insert(s.table, "a row", &id), LS_OK) << s.err.message;
      EXPECT_EQ(s.add(number_key(i), id), LS_OK) << s.err.message;
      ids.push_back(id);
    }
    s.commit();
    return ids;
  }
  void remove(IndexSession &s, u64 id) {
    LS_EXPECT_OK(s.begin());
    LS_EXPECT_OK(s.remove(s.table, id));
    s.commit();
  }
  ls_vacuum vacuum(IndexSession &s, bool all = false) {
    store.host().publish();
    ls_rel_info info{};
    LS_EXPECT_OK(ls_rel_get_info(s.worker(), s.table, &info, &err));
    ls_vacuum sum{};
    for (u64 next = 0; next < info.next_row_id;) {
      ls_vacuum part{};
      part.below = ls_store_horizon(store.store());
      part.end_row = info.next_row_id;
      part.all = all;
      part.next_row = next;
      LS_EXPECT_OK(ls_rel_vacuum(s.worker(), s.table, &part, &err));
      EXPECT_GT(part.next_row, next);
      next = part.next_row;
      sum.rows += part.rows;
      sum.ghosts += part.ghosts;
      sum.blocks += part.blocks;
      sum.looked_at += part.looked_at;
      sum.clean += part.clean;
      sum.not_vouched += part.not_vouched;
      sum.visible += part.visible;
    }
    return sum;
  }
  u64 gone(IndexSession &s) {
    u64 rows = 0;
    LS_EXPECT_OK(ls_index_rows_gone(s.worker(), s.index, s.table, &rows, &err));
    return rows;
  }
  void sweep(IndexSession &s, ls_rows_there *there = nullptr) {
    ls_index_position position{};
    position.there = there;
    ls_status status = LS_OK;
    u64 entries, removed;
    for (int calls = 0; status == LS_OK && calls < 1000; calls++)
      status = ls_index_sweep(s.worker(), s.index, s.table, 3, &position, &entries, &removed, &err);
    EXPECT_EQ(status, LS_END) << to_text(status, err);
  }
  // Gone from the table and counted, but not from the index.
  void lose_100_of_1000(IndexSession &s) {
    const std::vector<u64> ids = insert_rows(s, 1000);
    sweep(s);
    for (u64 i = 0; i < 100; i++) remove(s, ids[i * 7]);
    vacuum(s);
  }
  IndexStore store;
  ls_error err{};
};

TEST_F(RowVacuumTest, looks_at_blocks_with_changes_alone) {
  IndexSession s(store, 0);
  const std::vector<u64> ids = insert_rows(s, 2000);
  ls_vacuum v = vacuum(s);
  EXPECT_EQ(v.rows, 2000u);
  EXPECT_EQ(v.looked_at, v.blocks);
  EXPECT_EQ(v.clean, v.blocks);
  v = vacuum(s);
  EXPECT_EQ(v.rows, 2000u);
  EXPECT_EQ(v.looked_at, 0u);
  remove(s, ids[700]);
  v = vacuum(s);
  EXPECT_EQ(v.rows, 1999u);
  EXPECT_EQ(v.looked_at, 1u);
  v = vacuum(s, true);
  EXPECT_EQ(v.rows, 1999u);
  EXPECT_EQ(v.looked_at, v.blocks);
}

// BLK-3: of rows that are rolled back nothing is known before.
TEST_F(RowVacuumTest, what_is_not_over_is_looked_at_again) {
  IndexSession s(store, 0), other(store, 1);
  const std::vector<u64> ids = insert_rows(s, 1000);
  vacuum(s);
  LS_ASSERT_OK(other.begin());
  LS_ASSERT_OK(other.remove(other.table, ids[10]));
  EXPECT_EQ(vacuum(s).looked_at, 1u);
  EXPECT_EQ(vacuum(s).looked_at, 1u);
  EXPECT_EQ(vacuum(s).ghosts, 1u);
  other.abort();
  EXPECT_EQ(vacuum(s).looked_at, 1u);
  EXPECT_EQ(vacuum(s).looked_at, 0u);
  EXPECT_EQ(vacuum(s).rows, 1000u);
}

TEST_F(RowVacuumTest, a_full_block_is_visible_and_one_with_a_gap_when_vouched) {
  IndexSession s(store, 0);
  const std::vector<u64> ids = insert_rows(s, 1000);
  remove(s, ids[300]);
  vacuum(s);
  EXPECT_TRUE(ls_row_known(store.store(), s.table, ids[10], LS_ROWS_VISIBLE));
  EXPECT_FALSE(ls_row_known(store.store(), s.table, ids[10], LS_ROWS_VOUCHED));
  EXPECT_FALSE(ls_row_known(store.store(), s.table, ids[301], LS_ROWS_VISIBLE));
  EXPECT_TRUE(ls_row_known(store.store(), s.table, ids[301], LS_ROWS_CLEAN));
  LS_ASSERT_OK(ls_rel_vouch(s.worker(), s.table, &err));
  EXPECT_TRUE(ls_row_known(store.store(), s.table, ids[301], LS_ROWS_VISIBLE));
  EXPECT_EQ(vacuum(s).not_vouched, 0u);
  remove(s, ids[301]);
  EXPECT_FALSE(ls_row_known(store.store(), s.table, ids[302], LS_ROWS_VISIBLE));
  EXPECT_EQ(vacuum(s).not_vouched, 1u);
}

// GONE-5
TEST_F(RowVacuumTest, rows_gone_since_a_sweep_are_counted) {
  IndexSession s(store, 0);
  const std::vector<u64> ids = insert_rows(s, 1000);
  EXPECT_EQ(gone(s), ~u64{0});
  sweep(s);
  EXPECT_EQ(gone(s), 0u);
  for (u64 i = 0; i < 100; i++) remove(s, ids[i * 7]);
  EXPECT_EQ(vacuum(s).rows, 900u);
  EXPECT_EQ(gone(s), 100u);
  sweep(s);
  EXPECT_EQ(gone(s), 0u);
  EXPECT_EQ(s.check(), 900u);
  LS_ASSERT_OK(s.begin());
  u64 id = 0;
  LS_ASSERT_OK(s.insert(s.table, "a row", &id));
  s.abort();
  EXPECT_EQ(gone(s), 1u);
}

// GONE-5: neither does a sweep pass over what is dead while it is looked whether the table can be
// closed, which it can not, for it is in use.
TEST_F(RowVacuumTest, a_table_that_might_be_closed_is_swept) {
  IndexSession s(store, 0);
  lose_100_of_1000(s);
  FileSlot &table = *static_cast<FileSlot *>(s.table->slot);
  const IndexAt at{*static_cast<FileSlot *>(s.index->slot), table};
  table.state.store(FileState::kClosing);
  ls_index_position position{};
  u64 entries = 0, removed = 0;
  const Status status =
      index_sweep(api::worker(s.worker()), at, 1000, &position, &entries, &removed);
  table.state.store(FileState::kActive);
  EXPECT_EQ(code(status), LS_END);
  EXPECT_EQ(gone(s), 0u);
  EXPECT_EQ(s.check(), 900u);
}

// The rows that another file of the table has lost are no measure for this one.
TEST_F(RowVacuumTest, a_sweep_ends_when_the_table_has_another_file) {
  IndexSession s(store, 0);
  lose_100_of_1000(s);
  const FileSlot &index = *static_cast<FileSlot *>(s.index->slot);
  IndexCleaner cleaner;
  cleaner.sweeping = true;
  cleaner.index_slot = index.index;
  cleaner.index_no = s.index->number;
  cleaner.table_no = s.table->number + 1;
  cleaner.gone = 100;
  u64 removed = 0;
  EXPECT_EQ(code(sweep_some_index(api::worker(s.worker()), cleaner, &removed)), LS_OK);
  EXPECT_FALSE(cleaner.sweeping);
  EXPECT_EQ(gone(s), 100u);
}

// BLK-5
TEST_F(RowVacuumTest, entries_copied_before_are_not_vouched_for) {
  IndexSession s(store, 0);
  const std::vector<u64> ids = insert_rows(s, 100);
  auto is_vouched = [&](const IndexScanner &scan, u64 i) {
    return ls_row_vouched(store.store(), s.table, ids[i], scan.vouches());
  };
  sweep(s);
  vacuum(s);
  LS_ASSERT_OK(ls_rel_vouch(s.worker(), s.table, &err));
  IndexScanner before(s.worker(), s.index), after(s.worker(), s.index);
  before.range({}, std::nullopt);
  ASSERT_TRUE(before.next().has_value());
  EXPECT_TRUE(is_vouched(before, 40));
  remove(s, ids[40]);
  EXPECT_FALSE(is_vouched(before, 40));
  vacuum(s);
  sweep(s);
  LS_ASSERT_OK(ls_rel_vouch(s.worker(), s.table, &err));
  EXPECT_TRUE(ls_row_known(store.store(), s.table, ids[40], LS_ROWS_VOUCHED));
  EXPECT_FALSE(is_vouched(before, 40));
  EXPECT_EQ(before.rest().size(), 99u);
  after.range({}, std::nullopt);
  EXPECT_EQ(after.rest().size(), 99u);
  EXPECT_TRUE(is_vouched(after, 41));
}

// BLK-5, for many entries at once: VACUUM comes between the copy of the leaf and the batch.
TEST_F(RowVacuumTest, a_batch_of_entries_copied_before_is_not_vouched_for) {
  IndexSession s(store, 0);
  const std::vector<u64> ids = insert_rows(s, 100);
  const auto visible = [](const std::vector<IndexScanner::Taken> &taken) {
    return std::count_if(taken.begin(), taken.end(), [](const auto &one) { return one.visible; });
  };
  sweep(s);
  vacuum(s);
  IndexScanner early(s.worker(), s.index);
  early.range({}, std::nullopt);
  EXPECT_EQ(visible(early.take()), 0) << "clean, with a gap: no one has vouched";
  LS_ASSERT_OK(ls_rel_vouch(s.worker(), s.table, &err));
  EXPECT_EQ(visible(early.take()), 0) << "copied before";

  IndexScanner before(s.worker(), s.index), after(s.worker(), s.index);
  before.range({}, std::nullopt);
  after.range({}, std::nullopt);
  EXPECT_EQ(visible(after.take()), LS_BATCH_ENTRIES);
  ASSERT_TRUE(before.next().has_value());
  remove(s, ids[40]);
  EXPECT_EQ(visible(after.take()), 0) << "changed";
  vacuum(s);
  sweep(s);
  LS_ASSERT_OK(ls_rel_vouch(s.worker(), s.table, &err));
  const auto taken = before.take();
  ASSERT_GT(taken.size(), 40u);
  EXPECT_EQ(taken[39].entry.row_id, ids[40]) << "copied before";
  EXPECT_EQ(visible(taken), 0);
  after.range({}, std::nullopt);
  EXPECT_EQ(visible(after.take()), LS_BATCH_ENTRIES);
  EXPECT_EQ(visible(after.take()), 99 - LS_BATCH_ENTRIES);
}

// What is known of rows alone is not of entries, once there may be some with other keys.
TEST_F(RowVacuumTest, full_blocks_are_visible_while_the_index_is_not_marked) {
  IndexSession s(store, 0);
  const std::vector<u64> ids = insert_rows(s, 1000);
  sweep(s);
  vacuum(s);
  IndexScanner scan(s.worker(), s.index);
  u64 visible = 0;
  scan.range({}, std::nullopt);
  for (auto taken = scan.take(); !taken.empty(); taken = scan.take()) {
    for (const auto &one : taken) {
      EXPECT_EQ(one.visible, ls_row_known(store.store(), s.table, one.entry.row_id, LS_ROWS_FULL));
      visible += one.visible;
    }
  }
  EXPECT_GE(visible, 512u);
  LS_ASSERT_OK(s.begin());
  LS_ASSERT_OK(ls_index_note_stale(s.worker(), s.index, &err));
  s.commit();
  scan.range(number_key(300), std::nullopt);
  for (const auto &one : scan.take()) EXPECT_FALSE(one.visible);
  LS_ASSERT_OK(ls_rel_vouch(s.worker(), s.table, &err));
  scan.range(number_key(300), std::nullopt);
  for (const auto &one : scan.take()) EXPECT_TRUE(one.visible);
}

// THERE-1
TEST_F(RowVacuumTest, a_row_that_goes_after_it_was_noted_is_counted) {
  IndexSession s(store, 0);
  const std::vector<u64> ids = insert_rows(s, 1000);
  std::vector<u64> bits(64);
  ls_rows_there there{bits.data(), bits.size() * 64, 0, false};
  remove(s, ids[5]);
  vacuum(s);
  sweep(s, &there);
  EXPECT_EQ(gone(s), 0u);
  EXPECT_EQ(s.check(), 999u);
  u64 noted = 0;
  for (const u64 word : bits) noted += static_cast<u64>(std::popcount(word));
  // Those of blocks without gaps are not asked for.
  EXPECT_GE(noted, 255u);
  EXPECT_LT(noted, 1000u);
  remove(s, ids[6]);
  vacuum(s);
  sweep(s, &there);
  EXPECT_EQ(gone(s), 1u);
  EXPECT_EQ(s.check(), 999u);
  sweep(s);
  EXPECT_EQ(gone(s), 0u);
  EXPECT_EQ(s.check(), 998u);
}

// Memory for some of the rows: the others are looked up.
TEST_F(RowVacuumTest, rows_beyond_the_notes_are_looked_up) {
  IndexSession s(store, 0);
  const std::vector<u64> ids = insert_rows(s, 1000);
  std::vector<u64> bits(3);
  ls_rows_there there{bits.data(), bits.size() * 64, 0, false};
  for (u64 i = 0; i < 1000; i += 3) remove(s, ids[i]);
  vacuum(s);
  sweep(s, &there);
  EXPECT_EQ(gone(s), 0u);
  EXPECT_EQ(s.check(), 666u);
}

TEST_F(RowVacuumTest, a_start_knows_what_a_clean_end_has_kept) {
  {
    IndexSession s(store, 0);
    insert_rows(s, 1000);
    sweep(s);
    vacuum(s);
    EXPECT_EQ(vacuum(s).looked_at, 0u);
  }
  store.restart();
  {
    IndexSession s(store, 0);
    EXPECT_EQ(gone(s), 0u);
    EXPECT_EQ(vacuum(s).looked_at, 0u);
  }
  store.crash();
  IndexSession s(store, 0);
  EXPECT_EQ(gone(s), ~u64{0});
  const ls_vacuum v = vacuum(s);
  EXPECT_EQ(v.rows, 1000u);
  EXPECT_EQ(v.looked_at, v.blocks);
  EXPECT_EQ(vacuum(s).looked_at, 0u);
}

// Rows are deleted and taken back beside VACUUM: what it has found out is so.
TEST_F(RowVacuumTest, beside_changes) {
  IndexSession s(store, 0);
  const std::vector<u64> ids = insert_rows(s, 3000);
  std::atomic<bool> stop{false};
  std::atomic<u64> left{3000};
  std::thread changes([&] {
    IndexSession other(store, 1);
    for (u64 i = 0; i < 600; i++) {
      LS_ASSERT_OK(other.begin());
      LS_ASSERT_OK(other.remove(other.table, ids[i * 5]));
      if (i % 3 == 0) {
        other.abort();
      } else {
        other.commit();
        left--;
      }
    }
    stop = true;
  });
  while (!stop) vacuum(s);
  changes.join();
  // The horizon follows when the last commit is in the log.
  ls_vacuum known = vacuum(s);
  for (int i = 0; i < 1000 && known.looked_at > 0; i++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    known = vacuum(s);
  }
  EXPECT_EQ(known.looked_at, 0u);
  EXPECT_EQ(known.rows, left.load());
  EXPECT_EQ(vacuum(s, true).rows, left.load());
}

}  // namespace
}  // namespace ls::test
