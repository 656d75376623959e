// Scans: order, bounds, turning around, and what changes under them.
#include <random>

#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

class RowScanTest : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1};
  static std::string data(u64 i) { return std::string(40 + i % 100, 'd') + std::to_string(i); }
  void fill(u64 n, u64 step = 1) {
    a.begin();
    for (u64 i = 1; i <= n; i++) TXN_ASSERT_OK(a.insert(table, i * step, data(i)));
    a.commit();
  }
};

TEST_F(RowScanTest, empty_table_and_empty_range) {
  auto s = b.snapshot();
  EXPECT_TRUE(b.scan(table, s->s).empty());
  EXPECT_TRUE(b.scan(table, s->s, true).empty());
  fill(10);
  b.release(s);
  s = b.snapshot();
  EXPECT_TRUE(b.scan(table, s->s, false, 5, 5).empty());
  EXPECT_TRUE(b.scan(table, s->s, true, 11, 100).empty());
  b.release(s);
}

TEST_F(RowScanTest, bounds_in_both_directions_over_many_leaves) {
  fill(1000, 3);
  auto s = b.snapshot();
  for (const bool backward : {false, true}) {
    EXPECT_EQ(b.scan(table, s->s, backward).size(), 1000u);
    const auto rows = b.scan(table, s->s, backward, 300, 601);
    ASSERT_EQ(rows.size(), 101u);
    EXPECT_EQ(rows.begin()->first, 300u);
    EXPECT_EQ(rows.rbegin()->first, 600u);
    EXPECT_EQ(rows.at(303), data(101));
    EXPECT_EQ(b.scan(table, s->s, backward, 301, 303).size(), 0u);
  }
  b.release(s);
}

TEST_F(RowScanTest, turning_around_returns_the_neighbour) {
  fill(500);
  auto s = b.snapshot();
  RowScan *scan = nullptr;
  TXN_ASSERT_OK(scan_open(b.worker(), table, s->s, 10, 491, false, &scan));
  OneByOne rows{scan};
  ls_row row{};
  for (u64 i = 10; i <= 200; i++) {
    TXN_ASSERT_OK(rows.next(&row));
    ASSERT_EQ(row.row_id, i);
  }
  rows.set_backward(true);
  for (u64 i = 199; i >= 10; i--) {
    TXN_ASSERT_OK(rows.next(&row));
    ASSERT_EQ(row.row_id, i);
  }
  EXPECT_EQ(code(rows.next(&row)), LS_END);
  EXPECT_EQ(code(rows.next(&row)), LS_END);
  rows.set_backward(false);
  TXN_ASSERT_OK(rows.next(&row));
  EXPECT_EQ(row.row_id, 10u) << "from the end that was reached";
  rows.rescan(400, 500, true);
  TXN_ASSERT_OK(rows.next(&row));
  EXPECT_EQ(row.row_id, 499u);
  scan_close(scan);
  b.release(s);
}

TEST_F(RowScanTest, split_and_merge_under_a_scan_neither_hide_nor_repeat_rows) {
  fill(400, 10);
  auto s = b.snapshot();
  RowScan *scan = nullptr;
  TXN_ASSERT_OK(scan_open(b.worker(), table, s->s, 0, LS_MAX_ROW_ID, false, &scan));
  OneByOne rows{scan};
  ls_row row{};
  u64 expected = 0;
  for (int i = 0; i < 200; i++) {
    TXN_ASSERT_OK(rows.next(&row));
    ASSERT_EQ(row.row_id, expected += 10);
  }
  a.begin();
  for (u64 i = 1; i < 4000; i++) {
    if (i % 10 != 0) TXN_ASSERT_OK(a.insert(table, i, std::string(100, 'n')));
  }
  a.abort();  // and merge again
  while (ok(rows.next(&row))) ASSERT_EQ(row.row_id, expected += 10);
  EXPECT_EQ(expected, 4000u);
  scan_close(scan);
  b.release(s);
}

TEST_F(RowScanTest, older_versions_and_deleted_rows_come_from_the_version_store) {
  fill(200);
  auto old = b.snapshot();
  const auto before = b.scan(table, old->s);
  a.begin();
  for (u64 i = 1; i <= 200; i++) {
    if (i % 3 == 0) TXN_ASSERT_OK(a.remove(table, i, i % 2 ? 0 : 7777));
    if (i % 3 == 1) TXN_ASSERT_OK(a.update(table, i, "new"));
  }
  EXPECT_EQ(b.scan(table, old->s), before);
  EXPECT_EQ(b.scan(table, old->s, true), before);
  a.commit();
  EXPECT_EQ(b.scan(table, old->s), before);
  const auto after = b.contents(table);
  EXPECT_EQ(after.size(), 200u - 66u);
  EXPECT_EQ(after.at(1), "new");
  EXPECT_EQ(after.at(2), data(2));
  b.release(old);
}

// Chains of every length in one leaf, small rows so that a leaf has more of them than are looked up
// together.
TEST_F(RowScanTest, each_snapshot_finds_its_link_of_the_chain_whichever_way_it_goes) {
  constexpr u64 kRows = 700;
  constexpr u64 kChanges = 6;
  a.begin();
  for (u64 i = 1; i <= kRows; i++) TXN_ASSERT_OK(a.insert(table, i, "v0"));
  a.commit();
  std::vector<decltype(b.snapshot())> snapshots;
  snapshots.push_back(b.snapshot());
  std::vector<std::map<u64, std::string>> expected{b.scan(table, snapshots[0]->s)};
  for (u64 change = 1; change <= kChanges; change++) {
    a.begin();
    expected.push_back(expected.back());
    for (u64 i = 1; i <= kRows; i++) {
      if (i % (kChanges + 1) < change) continue;  // row i changes i % 7 times
      const std::string value = "v" + std::to_string(change);
      TXN_ASSERT_OK(a.update(table, i, value));
      expected.back()[i] = value;
    }
    a.commit();
    snapshots.push_back(b.snapshot());
  }
  for (size_t k = 0; k < snapshots.size(); k++) {
    EXPECT_EQ(b.scan(table, snapshots[k]->s), expected[k]) << k;
    EXPECT_EQ(b.scan(table, snapshots[k]->s, true), expected[k]) << k;
    // To and fro within a leaf and across its ends.
    RowScan *scan = nullptr;
    TXN_ASSERT_OK(scan_open(b.worker(), table, snapshots[k]->s, 0, LS_MAX_ROW_ID, false, &scan));
    OneByOne rows{scan};
    u64 at = 0;
    for (const i64 steps : {40, -17, 300, -200, 500, -90}) {
      rows.set_backward(steps < 0);
      for (i64 n = 0; n < std::abs(steps); n++) {
        ls_row row{};
        TXN_ASSERT_OK(rows.next(&row));
        at = steps < 0 ? at - 1 : at + 1;
        ASSERT_EQ(row.row_id, at);
        ASSERT_EQ(text_of(row), expected[k].at(at)) << k;
      }
    }
    scan_close(scan);
  }
  for (auto &snapshot : snapshots) b.release(snapshot);
}

// More than there is room for at a time, some in two pieces of a chain, and rows that the snapshot
// does not know in between.
TEST_F(RowScanTest, older_versions_of_all_sizes_between_rows_that_came_later) {
  constexpr u64 kRows = 300;
  std::mt19937 random(5);
  const auto big = [&](char c) { return std::string(1 + random() % 1500, c); };
  a.begin();
  for (u64 i = 1; i <= kRows; i++) TXN_ASSERT_OK(a.insert(table, 3 * i, big('o')));
  a.commit();
  auto old = b.snapshot();
  const auto before = b.scan(table, old->s);
  ASSERT_EQ(before.size(), kRows);
  for (int round = 0; round < 3; round++) {
    a.begin();
    for (u64 i = 1; i <= kRows; i++) {
      if (round == 0) TXN_ASSERT_OK(a.insert(table, 3 * i + 1, big('n')));
      if (i % 4 != 0) TXN_ASSERT_OK(a.update(table, 3 * i, big('p')));
      TXN_ASSERT_OK(a.update(table, 3 * i + 1, big('q')));
    }
    a.commit();
    for (const bool backward : {false, true})
      EXPECT_EQ(b.scan(table, old->s, backward), before) << round;
  }
  EXPECT_EQ(b.contents(table).size(), 2 * kRows);
  b.release(old);
}

TEST_F(RowScanTest, rows_rolled_back_under_a_scan_are_read_again) {
  fill(60);
  auto s = b.snapshot();
  const auto before = b.scan(table, s->s);
  a.begin();
  for (u64 i = 1; i <= 60; i++) TXN_ASSERT_OK(a.update(table, i, "uncommitted"));
  RowScan *scan = nullptr;
  TXN_ASSERT_OK(scan_open(b.worker(), table, s->s, 0, LS_MAX_ROW_ID, false, &scan));
  OneByOne rows{scan};
  ls_row row{};
  TXN_ASSERT_OK(rows.next(&row));  // the leaf is copied with the uncommitted rows
  std::map<u64, std::string> seen{{row.row_id, text_of(row)}};
  a.abort();
  while (ok(rows.next(&row))) seen[row.row_id] = text_of(row);
  EXPECT_EQ(seen, before);
  scan_close(scan);
  b.release(s);
}

// What index scans do: rows by their ids, nearly in order, while others change and split what has
// been copied.
TEST_F(RowScanTest, rows_fetched_one_by_one_are_those_of_the_snapshot_whatever_happens_meanwhile) {
  constexpr u64 kRows = 600;
  fill(kRows, 2);
  auto old = b.snapshot();
  const auto expected = b.scan(table, old->s);
  RowScan *scan = nullptr;
  TXN_ASSERT_OK(scan_open(b.worker(), table, old->s, 0, LS_MAX_ROW_ID, false, &scan));
  std::mt19937_64 random(7);
  u64 at = 1, in_runs = 0;
  bool open = false;
  for (int step = 0; step < 6000; step++) {
    switch (random() % 40) {
      case 0: at = random() % (2 * kRows + 50); break;
      case 1: case 2: case 3: case 4: case 5: case 6: at -= at > 0; break;
      default: at += 1 + random() % 2;
    }
    std::span<const ls_row> rows;
    const bool run = random() % 3 == 0, backward = random() % 2;
    const Status s = scan->fetch(at, !run ? 0 : backward ? -1 : 1, &rows);
    auto found = expected.find(at);
    ASSERT_EQ(code(s), found == expected.end() ? LS_NOT_FOUND : LS_OK) << at;
    for (size_t i = 0; found != expected.end() && i < rows.size(); i++) {
      ASSERT_EQ(rows[i].row_id, found->first) << at;
      ASSERT_EQ(text_of(rows[i]), found->second) << at;
      found = backward ? (found == expected.begin() ? expected.end() : std::prev(found))
                       : std::next(found);
      ASSERT_TRUE(found != expected.end() || i + 1 == rows.size());
    }
    ASSERT_TRUE(!ok(s) || run || rows.size() == 1);
    if (ok(s)) in_runs += rows.size() - 1;
    if (random() % 4 != 0) continue;
    if (!open) a.begin();
    open = true;
    const u64 near = std::min(at + random() % 4, 2 * kRows);
    const u64 even = std::max<u64>(near / 2 * 2, 2);
    switch (random() % 8) {
      // perhaps gone already
      case 0: (void)a.remove(table, even); break;
      // splits
      case 1: (void)a.insert(table, near | 1, std::string(200 + random() % 1000, 'n')); break;
      case 2: case 3: a.abort(); open = false; break;
      case 4: a.commit(); open = false; break;
      default: (void)a.update(table, even, "new");
    }
  }
  EXPECT_GT(in_runs, 1000u);
  if (open) a.abort();
  scan_close(scan);
  b.release(old);
}

TEST_F(RowScanTest, ghosts_of_an_earlier_run_are_purged_in_passing) {
  fill(300);
  a.begin();
  for (u64 i = 1; i <= 300; i++) TXN_ASSERT_OK(a.remove(table, i));
  a.commit();
  EXPECT_EQ(engine.verify(table), 300u);
  // A new run: what was written before is committed and no undo entry leads to it.
  engine.txns().tn_base.store(host.next());
  EXPECT_TRUE(b.contents(table).empty());
  EXPECT_EQ(engine.verify(table), 0u);
}

}  // namespace
}  // namespace ls::txn_test
