// Row ids: distinct among threads, reserved ahead, never again after a crash.
#include "txn/row_ids.hpp"

#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

class RowIds : public TxnTest {
 protected:
  Session a{engine, host, 0};
  u64 high() {
    Frame *meta = table.meta.load();
    SharedGuard guard = SharedGuard::lock(engine.pool(), meta);
    return reinterpret_cast<const MetaPage *>(guard.page())->row_id_high;
  }
  // As if the file had been opened by another run that finds `row_id_high`.
  void reopen(u64 row_id_high) {
    table.next_row_id.store(row_id_high);
    table.row_id_reserved_gsn.store(0);
    ExclusiveGuard guard = ExclusiveGuard::lock(engine.pool(), table.meta.load());
    reinterpret_cast<MetaPage *>(guard.page())->row_id_high = row_id_high;
  }
};

TEST_F(RowIds, start_at_one_and_follow_each_other) {
  u64 first = 0, next = 0;
  next = row_ids_next(table);
  EXPECT_EQ(next, 1u);
  TXN_ASSERT_OK(row_ids(a.worker(), table, 10, &first));
  EXPECT_EQ(first, 1u) << "0 stands for no row";
  TXN_ASSERT_OK(row_ids(a.worker(), table, 5, &first));
  EXPECT_EQ(first, 11u);
  next = row_ids_next(table);
  EXPECT_EQ(next, 16u);
  EXPECT_EQ(high(), 1 + kRowIdStep);
  EXPECT_GE(engine.log().hardened(), table.row_id_reserved_gsn.load())
      << "RID-1: the first draw waits";
}

// RID-2
TEST_F(RowIds, reservation_keeps_ahead) {
  u64 first = 0;
  for (int i = 0; i < 400; i++) {
    TXN_ASSERT_OK(row_ids(a.worker(), table, 1000, &first));
    ASSERT_EQ(first, 1u + static_cast<u64>(i) * 1000);
    ASSERT_GE(high(), first + 1000);
    ASSERT_LE(first + 1000, table.row_id_durable.load() + kRowIdStep) << "RID-2";
  }
  TXN_ASSERT_OK(row_ids(a.worker(), table, 10 * kRowIdStep, &first));
  EXPECT_EQ(first, 400001u);
  EXPECT_GE(high(), first + 10 * kRowIdStep);
}

TEST_F(RowIds, distinct_among_threads) {
  std::vector<std::vector<u64>> drawn(4);
  std::vector<std::thread> threads;
  for (u32 t = 0; t < 4; t++) {
    threads.emplace_back([&, t] {
      auto worker = engine.worker(t + 1);
      for (int i = 0; i < 300; i++) {
        u64 first = 0;
        TXN_EXPECT_OK(row_ids(*worker, table, 256, &first));
        drawn[t].push_back(first);
      }
    });
  }
  for (auto &t : threads) t.join();
  std::set<u64> all;
  for (const auto &one : drawn) all.insert(one.begin(), one.end());
  EXPECT_EQ(all.size(), 1200u);
  EXPECT_EQ(*all.rbegin() + 256, table.next_row_id.load());
}

// RID-3, GONE-1
TEST_F(RowIds, continue_a_step_later_after_a_crash_and_exactly_after_a_shutdown) {
  u64 first = 0, next = 0;
  TXN_ASSERT_OK(row_ids(a.worker(), table, 100, &first));
  const u64 crashed = high();
  reopen(crashed);
  next = row_ids_next(table);
  EXPECT_EQ(next, crashed + kRowIdStep);
  TXN_ASSERT_OK(row_ids(a.worker(), table, 1, &first));
  EXPECT_EQ(first, crashed + kRowIdStep);
  TXN_ASSERT_OK(row_ids_seal(a.worker(), table));
  EXPECT_EQ(high(), (first + 1) | kRowIdExact);
  reopen(high());
  next = row_ids_next(table);
  EXPECT_EQ(next, first + 1);
  TXN_ASSERT_OK(row_ids_seal(a.worker(), table));
  EXPECT_EQ(high(), next | kRowIdExact) << "nothing was drawn";
  u64 again = 0;
  TXN_ASSERT_OK(row_ids(a.worker(), table, 1, &again));
  EXPECT_EQ(again, first + 1);
  EXPECT_EQ(high(), again + kRowIdStep) << "not exact any more before the first id is used";
}

TEST_F(RowIds, what_was_not_used_goes_back_if_it_was_drawn_last) {
  u64 first = 0, other = 0, next = 0;
  TXN_ASSERT_OK(row_ids(a.worker(), table, 100, &first));
  row_ids_return(table, first + 40, first + 100);
  TXN_ASSERT_OK(row_ids(a.worker(), table, 5, &next));
  EXPECT_EQ(next, first + 40);
  TXN_ASSERT_OK(row_ids(a.worker(), table, 10, &first));
  TXN_ASSERT_OK(row_ids(a.worker(), table, 1, &other));
  row_ids_return(table, first, first + 10);
  TXN_ASSERT_OK(row_ids(a.worker(), table, 1, &next));
  EXPECT_EQ(next, other + 1) << "somebody has drawn since";
  TXN_ASSERT_OK(row_ids_seal(a.worker(), table));
  const u64 sealed = table.next_row_id.load();
  row_ids_return(table, next, next + 1);
  EXPECT_EQ(table.next_row_id.load(), sealed);
}

TEST_F(RowIds, running_out_is_an_error) {
  reopen((LS_ROW_IDS_END - 10) | kRowIdExact);
  u64 first = 0;
  EXPECT_EQ(code(row_ids(a.worker(), table, 11, &first)), LS_NO_ROW_IDS);
  TXN_ASSERT_OK(row_ids(a.worker(), table, 10, &first));
  EXPECT_EQ(first + 10, LS_ROW_IDS_END);
  EXPECT_EQ(code(row_ids(a.worker(), table, 1, &first)), LS_NO_ROW_IDS);
  // However often a start finds a table that has run out.
  for (u32 crash = 0; crash < 1000; crash++) {
    reopen(high());
    EXPECT_EQ(code(row_ids(a.worker(), table, 1, &first)), LS_NO_ROW_IDS);
    u64 next = 0;
    next = row_ids_next(table);
    ASSERT_EQ(next, LS_ROW_IDS_END) << "blocks of row ids are counted up to here";
  }
  EXPECT_LE(high(), LS_ROW_IDS_END + kRowIdStep);
}

TEST_F(RowIds, unlogged_table_needs_no_reservation) {
  FileSlot &unlogged = *engine.open("unlogged", LS_REL_TABLE, false);
  const Gsn before = engine.log().last_gsn();
  u64 first = 0;
  for (int i = 0; i < 5; i++) TXN_ASSERT_OK(row_ids(a.worker(), unlogged, 100000, &first));
  EXPECT_EQ(first, 400001u);
  TXN_ASSERT_OK(row_ids_seal(a.worker(), unlogged));
  EXPECT_EQ(engine.log().last_gsn(), before);
  TXN_ASSERT_OK(row_ids(a.worker(), unlogged, 1, &first));
  EXPECT_EQ(first, 500001u);
}

}  // namespace
}  // namespace ls::txn_test
