// What a decision rests on, and copies of rows that have gone out of date.
#include "txn/row_conflict.hpp"

#include "txn/row_read.hpp"
#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

class RowConflict : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1};
  void SetUp() override {
    a.begin();
    TXN_ASSERT_OK(a.insert(table, 1, "one"));
    a.commit();
  }
  ChangeBasis basis_now() {
    ChangeBasis basis;
    basis.mark(b.worker(), table, 1);
    basis.header = header_now();
    return basis;
  }
  RowHeader header_now() {
    alignas(8) u8 copy[kPageSize];
    RowParts parts;
    u32 bytes;
    TXN_EXPECT_OK(copy_row(b.worker(), table, 1, copy, &parts, &bytes));
    return parts.header;
  }
};

// RLOCK-2
TEST_F(RowConflict, grant_after_the_decision_is_noticed) {
  b.begin();
  TXN_ASSERT_OK(b.lock(table, 1, LS_LOCK_KEY_SHARE));
  const ChangeBasis basis = basis_now();
  EXPECT_TRUE(still_holds(basis, header_now()));
  a.begin();
  TXN_ASSERT_OK(a.lock(table, 1, LS_LOCK_KEY_SHARE));
  EXPECT_FALSE(still_holds(basis, header_now())) << "same version, same flags, another generation";
  a.commit();
  b.commit();
}

TEST_F(RowConflict, generation_that_has_come_round_is_noticed) {
  b.begin();
  TXN_ASSERT_OK(b.lock(table, 1, LS_LOCK_KEY_SHARE));
  const ChangeBasis basis = basis_now();
  for (int i = 0; i < 256; i++) {
    a.begin();
    TXN_ASSERT_OK(a.lock(table, 1, LS_LOCK_KEY_SHARE));
    a.commit();
  }
  EXPECT_TRUE(header_now().same(basis.header)) << "otherwise this test proves nothing";
  EXPECT_FALSE(still_holds(basis, header_now()));
  b.commit();
}

TEST_F(RowConflict, rows_never_locked_are_not_touched_by_grants_elsewhere) {
  const ChangeBasis basis = basis_now();
  for (auto &counter : engine.txns().generation_changes) counter.fetch_add(1000);
  EXPECT_TRUE(still_holds(basis, header_now()));
}

TEST_F(RowConflict, row_that_is_locked_is_not_touched_by_grants_on_other_rows) {
  b.begin();
  TXN_ASSERT_OK(b.lock(table, 1, LS_LOCK_KEY_SHARE));
  const ChangeBasis basis = basis_now();
  a.begin();
  for (u64 row_id = 2; row_id < 2000; row_id++) TXN_ASSERT_OK(a.insert(table, row_id, "other"));
  a.commit();
  u64 grants = 0;
  a.begin();
  for (u64 row_id = 2; row_id < 2000; row_id++) {
    ChangeBasis other;
    other.mark(a.worker(), table, row_id);
    if (other.counter == basis.counter) continue;
    TXN_ASSERT_OK(a.lock(table, row_id, LS_LOCK_KEY_SHARE));
    grants++;
  }
  EXPECT_GT(grants, 1900u) << "rows share counters by chance only";
  EXPECT_TRUE(still_holds(basis, header_now()));
  a.commit();
  b.commit();
}

// A copy taken while the writer was running, judged after it has been undone: "not active" must not
// be taken for "committed".
TEST_F(RowConflict, copy_of_an_undone_version_is_stale) {
  for (const ls_snapshot_kind kind : {LS_SNAPSHOT_SELF, LS_SNAPSHOT_DIRTY}) {
    for (const bool deletes : {false, true}) {
      ls_snapshot s{};
      s.kind = kind;
      const Viewer viewer = viewer_of(b.worker(), s);
      a.begin();
      TXN_ASSERT_OK(deletes ? a.remove(table, 1) : a.update(table, 1, "two"));
      alignas(8) u8 copy[kPageSize], older[kPageSize];
      RowParts parts;
      u32 bytes;
      TXN_ASSERT_OK(copy_row(b.worker(), table, 1, copy, &parts, &bytes));
      a.abort();
      Found found;
      RowVersion version;
      TXN_ASSERT_OK(
          find_version(b.worker(), viewer, table, 1, Bytes(copy, bytes), older, &found, &version));
      EXPECT_EQ(found, Found::kStale) << "kind " << kind << " deleted " << deletes;
    }
  }
}

}  // namespace
}  // namespace ls::txn_test
