// Snapshots that want newest versions only (SERIALIZABLE readers).
#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

class RowReadTest : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1};

  void SetUp() override {
    TxnTest::SetUp();
    a.begin();
    for (u64 i = 1; i <= 5; i++) TXN_ASSERT_OK(a.insert(table, i, "old"));
    a.commit();
  }
  ls_status look(const ls_snapshot &s, u64 row_id) { return code(b.fetch(table, row_id, s, nullptr)); }
  // How a scan of everything ends: LS_END or what is in the way; rows: seen before.
  ls_status scan(const ls_snapshot &s, int *rows) {
    RowScan *scan = nullptr;
    EXPECT_EQ(code(scan_open(b.worker(), table, s, 1, 100, false, &scan)), LS_OK);
    OneByOne one_by_one{scan};
    ls_row row{};
    Status status;
    for (*rows = 0; ok(status = one_by_one.next(&row)); ++*rows) {}
    scan_close(scan);
    return code(status);
  }
};

TEST_F(RowReadTest, what_was_committed_after_the_snapshot_is_told) {
  auto s = b.snapshot();
  s->s.newest_only = true;
  int rows = 0;
  EXPECT_EQ(scan(s->s, &rows), LS_END);
  EXPECT_EQ(rows, 5);

  a.begin();
  TXN_ASSERT_OK(a.update(table, 2, "new"));
  TXN_ASSERT_OK(a.remove(table, 3));
  TXN_ASSERT_OK(a.move(table, 4, 7, "moved"));
  TXN_ASSERT_OK(a.insert(table, 8, "inserted"));
  // In progress: passed over.
  for (const u64 row_id : {1, 2, 3, 4, 5}) EXPECT_EQ(look(s->s, row_id), LS_OK) << row_id;
  for (const u64 row_id : {7, 8}) EXPECT_EQ(look(s->s, row_id), LS_NOT_FOUND) << row_id;
  EXPECT_EQ(scan(s->s, &rows), LS_END);
  EXPECT_EQ(rows, 5);
  a.commit();

  for (const u64 row_id : {1, 5}) EXPECT_EQ(look(s->s, row_id), LS_OK) << row_id;
  for (const u64 row_id : {2, 3, 4, 7, 8}) EXPECT_EQ(look(s->s, row_id), LS_UPDATED) << row_id;
  EXPECT_EQ(scan(s->s, &rows), LS_UPDATED);
  EXPECT_EQ(rows, 1);
  s->s.newest_only = false;
  EXPECT_EQ(scan(s->s, &rows), LS_END);
  EXPECT_EQ(rows, 5);
  b.release(s);
}

TEST_F(RowReadTest, rolled_back_is_not_newer) {
  auto s = b.snapshot();
  s->s.newest_only = true;
  a.begin();
  TXN_ASSERT_OK(a.update(table, 2, "new"));
  TXN_ASSERT_OK(a.remove(table, 3));
  a.abort();
  int rows = 0;
  EXPECT_EQ(scan(s->s, &rows), LS_END);
  EXPECT_EQ(rows, 5);
  b.release(s);
}

TEST_F(RowReadTest, own_later_changes_are_not_newer) {
  b.begin();
  auto s = b.snapshot();
  s->s.newest_only = true;
  TXN_ASSERT_OK(b.update(table, 2, "own"));
  TXN_ASSERT_OK(b.remove(table, 3));
  std::string data;
  TXN_ASSERT_OK(b.fetch(table, 2, s->s, &data));
  EXPECT_EQ(data, "old");
  int rows = 0;
  EXPECT_EQ(scan(s->s, &rows), LS_END);
  EXPECT_EQ(rows, 5);
  b.release(s);
  b.commit();
}

}  // namespace
}  // namespace ls::txn_test
