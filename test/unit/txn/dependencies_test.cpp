// The logs of which workers a commit would have to wait for, were each flushed alone.
#include <optional>

#include "unit/txn/txn_fixture.hpp"
#include "unit/wal/log_fixture.hpp"

namespace ls::txn_test {
namespace {

class DependenciesTest : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1}, third{engine, host, 2};
  FileSlot &other{*engine.open("other")};
  std::optional<test::StalledAppend> stalled;

  DependenciesTest() {
    a.begin();
    for (u64 id = 1; id <= 4; id++) TXN_EXPECT_OK(a.insert(table, id, "first"));
    TXN_EXPECT_OK(a.insert(other, 1, "first"));
    a.commit(true);
    third.begin();
    TXN_EXPECT_OK(third.insert(other, 9, "never"));
    EXPECT_TRUE(engine.log().wait_hardened(engine.log().last_gsn(), nullptr));
    txn_count_dependencies(a.worker(), true);
    txn_count_dependencies(b.worker(), true);
    // Nothing behind a record that has not been written becomes durable.
    stalled.emplace(engine.log(), 3);
  }
  void update(Session &s, u64 row_id, FileSlot &file) {
    s.begin();
    TXN_ASSERT_OK(s.update(file, row_id, "second"));
    s.commit();
  }
  void expect(u64 counted, u64 by_page, u64 by_transaction) {
    const Log::Stats stats = engine.log().stats();
    EXPECT_EQ(stats.counted, counted);
    EXPECT_EQ(stats.remote_by_page, by_page);
    EXPECT_EQ(stats.remote_by_transaction, by_transaction);
  }
};

TEST_F(DependenciesTest, pages_and_rows_of_others_that_are_not_durable) {
  update(a, 1, table);
  expect(1, 0, 0);
  update(a, 1, table);   // its own
  expect(2, 0, 0);
  update(b, 2, table);   // another row of that page
  expect(3, 1, 0);
  update(b, 1, table);   // the row itself
  expect(4, 2, 1);
  update(b, 1, other);   // the page was changed last by one that is durable
  expect(5, 2, 1);
}

TEST_F(DependenciesTest, what_is_durable_is_nothing_to_wait_for) {
  update(a, 1, table);
  stalled.reset();
  ASSERT_TRUE(engine.log().wait_hardened(engine.log().last_gsn(), nullptr));
  update(b, 1, table);
  expect(2, 0, 0);
}

TEST_F(DependenciesTest, reading_counts_until_it_is_forgotten) {
  update(a, 1, table);
  EXPECT_EQ(b.read(table, 1), "second");
  update(b, 1, other);
  expect(2, 1, 1);
  EXPECT_EQ(b.read(table, 1), "second");
  b.worker().dependencies->forget();
  update(b, 1, other);
  expect(3, 1, 1);
  txn_count_dependencies(b.worker(), false);
  update(b, 1, table);
  expect(3, 1, 1);
}

}  // namespace
}  // namespace ls::txn_test
