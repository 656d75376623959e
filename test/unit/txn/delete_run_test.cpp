// Deletions that share an undo entry (VER-4): what readers, rollback, the cleaner and savepoints
// make of it.
#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

class DeleteRuns : public TxnTest {
 protected:
  static constexpr u64 kRows = 300;
  Session a{engine, host, 0}, b{engine, host, 1};

  static std::string text_of_row(u64 row_id) { return "row " + std::to_string(row_id); }
  void insert_rows(u64 first, u64 count) {
    std::vector<std::string> data;
    std::vector<ls_bytes> rows;
    for (u64 i = 0; i < count; i++) data.push_back(text_of_row(first + i));
    for (const std::string &d : data)
      rows.push_back({reinterpret_cast<const u8 *>(d.data()), static_cast<u32>(d.size())});
    u32 n = 0;
    TXN_ASSERT_OK(row_insert_many(a.worker(), table, first, a.cid++, rows, &n));
    ASSERT_EQ(n, count);
  }
  void insert_committed() {
    a.begin();
    insert_rows(1, kRows);
    a.commit();
  }
  // As one command does it.
  void remove(u64 first, u64 end, u64 step = 1) {
    for (u64 row_id = first; row_id < end; row_id += step) {
      TXN_ASSERT_OK(a.remove(table, row_id));
      a.cid--;
    }
    a.cid++;
  }
  u64 entries_written() { return engine.txns().versions_written.load(); }
  u64 entries() {
    u64 n = 0;
    for (u32 i = 0; i < engine.txns().version_trees; i++)
      n += engine.verify(engine.pool().file(engine.txns().version_file[i]));
    return n;
  }
  void clean() {
    for (u64 removed = 1; removed > 0;) {
      host.publish_horizon();
      TXN_ASSERT_OK(clean_round(engine.own(), &removed));
    }
  }
};

// VER-4
TEST_F(DeleteRuns, one_entry_stands_for_many_rows) {
  insert_committed();
  auto old = b.snapshot();
  const auto before = b.scan(table, old->s);
  const u64 written = entries_written();
  a.begin();
  remove(1, kRows + 1);
  EXPECT_LE(entries_written() - written, 4 + kRows / kVersionRun + 1);
  EXPECT_TRUE(a.contents(table).empty());
  EXPECT_EQ(b.contents(table), before) << "of a transaction that runs";
  a.commit();
  EXPECT_TRUE(b.contents(table).empty());
  EXPECT_EQ(b.scan(table, old->s), before);
  EXPECT_EQ(b.scan(table, old->s, true), before);
  for (u64 row_id = 1; row_id <= kRows; row_id++)
    EXPECT_EQ(b.read_with(table, row_id, old->s), text_of_row(row_id));
  b.release(old);
  clean();
  EXPECT_EQ(entries(), 0u);
  EXPECT_EQ(engine.verify(table), 0u) << "ghosts are gone";
  EXPECT_EQ(engine.txns().ghosts_removed.load(), kRows);
}

TEST_F(DeleteRuns, rollback_brings_back_each_row) {
  insert_committed();
  const auto before = b.contents(table);
  a.begin();
  remove(1, 150);
  const u32 savepoint = txn_savepoint(a.worker());
  remove(150, 220);
  txn_rollback_to(a.worker(), savepoint);
  EXPECT_EQ(a.contents(table).size(), kRows - 149);
  remove(220, 240);
  EXPECT_EQ(a.contents(table).size(), kRows - 169);
  EXPECT_EQ(b.contents(table), before);
  a.abort();
  EXPECT_EQ(b.contents(table), before);
  EXPECT_EQ(entries(), 0u);
  engine.verify(table);
}

// Numbers of a run are below those of changes that came between its deletions.
TEST_F(DeleteRuns, other_changes_come_between) {
  insert_committed();
  const auto before = b.contents(table);
  auto old = b.snapshot();
  a.begin();
  remove(1, 20);
  for (u64 row_id = 20; row_id < 200; row_id += 6) {
    TXN_ASSERT_OK(a.update(table, row_id + 1, "changed"));
    TXN_ASSERT_OK(a.lock(table, row_id + 2, LS_LOCK_NO_KEY_UPDATE));
    remove(row_id, row_id + 3);   // not changed, changed, locked
    remove(row_id + 4, row_id + 6);
    TXN_ASSERT_OK(a.insert(table, 1000 + row_id, "new"));
    TXN_ASSERT_OK(a.remove(table, 1000 + row_id));
  }
  EXPECT_EQ(b.contents(table), before);
  const u32 savepoint = txn_savepoint(a.worker());
  remove(23, 200, 6);
  txn_rollback_to(a.worker(), savepoint);
  EXPECT_EQ(a.read(table, 23), text_of_row(23));
  a.abort();
  EXPECT_EQ(b.contents(table), before);
  EXPECT_EQ(b.scan(table, old->s), before);
  b.release(old);
}

TEST_F(DeleteRuns, gaps_are_left_alone) {
  insert_committed();
  auto old = b.snapshot();
  const auto before = b.scan(table, old->s);
  a.begin();
  remove(1, kRows + 1, 3);
  a.commit();
  EXPECT_EQ(b.contents(table).size(), kRows - kRows / 3);
  // numbers of the run that no deletion has taken lead nowhere
  a.begin();
  for (u64 row_id = 2; row_id <= kRows; row_id += 3)
    TXN_ASSERT_OK(a.update(table, row_id, "changed"));
  a.commit();
  EXPECT_EQ(b.scan(table, old->s), before);
  b.release(old);
  clean();
  EXPECT_EQ(entries(), 0u);
  EXPECT_EQ(engine.verify(table), kRows - kRows / 3);
}

// GONE-3: rows that came and went beside a reader leave nothing behind, not even the run's entry;
// but that stays as long as its transaction, or one of its rows.
TEST_F(DeleteRuns, go_beside_a_reader_who_does_not_see_them) {
  insert_committed();
  auto old = b.snapshot();
  const auto before = b.scan(table, old->s);
  for (u64 turn = 0; turn < 20; turn++) {
    const u64 first = 10'000 + turn * 1000;
    a.begin();
    insert_rows(first, kRows);
    a.commit(true);
    a.begin();
    remove(first, first + kRows / 2);
    clean();
    EXPECT_EQ(b.contents(table).size(), 2 * kRows) << "of a transaction that runs";
    remove(first + kRows / 2, first + kRows);
    a.commit(true);
    clean();
  }
  EXPECT_EQ(b.scan(table, old->s), before);
  for (u32 i = 0; i < 200 && entries() > 0; i++) clean();   // a pass looks at so many leaves
  EXPECT_EQ(entries(), 0u);
  EXPECT_EQ(engine.verify(table), kRows);
  b.release(old);
}

// A refused deletion of the transaction's own rows has left one, and no ghost yet.
TEST_F(DeleteRuns, stay_while_their_transaction_runs) {
  auto old = b.snapshot();   // bounds the horizon
  insert_committed();
  a.begin();
  VersionEntry run{};
  run.op = VersionOp::kDelete;
  run.file_slot = table.index;
  run.file_no = table.file_no.load();
  run.row_id = 1;
  run.run = kVersionRun;
  run.previous = RowHeader::make(a.tn(), 0, 0, 0, 1);
  TXN_ASSERT_OK(version_store(a.worker(), a.tn()).put({a.tn(), kVersionRun}, run, {}));
  for (u32 i = 0; i < 200; i++) clean();
  EXPECT_EQ(entries(), 1u);
  a.commit(true);
  for (u32 i = 0; i < 200; i++) clean();
  EXPECT_EQ(entries(), 0u);
  b.release(old);
}

TEST_F(DeleteRuns, stay_for_a_reader_who_sees_them) {
  insert_committed();
  auto old = b.snapshot();
  const auto before = b.scan(table, old->s);
  a.begin();
  remove(1, kRows + 1);
  a.commit(true);
  for (u32 i = 0; i < 200; i++) clean();
  EXPECT_EQ(b.scan(table, old->s), before);
  b.release(old);
}

// Each part of a transaction has runs of its own.
TEST_F(DeleteRuns, the_part_is_known_of_each_row) {
  insert_committed();
  a.begin();
  txn_set_part(a.worker(), 7);
  remove(1, 50);
  txn_set_part(a.worker(), 8);
  remove(50, 100);
  for (u64 row_id : {u64{1}, u64{20}, u64{49}, u64{50}, u64{70}, u64{99}}) {
    b.begin();
    EXPECT_EQ(code(b.update(table, row_id, "x")), LS_BEING_MODIFIED);
    u32 part = 0;
    TXN_ASSERT_OK(change_part(b.worker(), b.conflict.tn, b.conflict.seq, &part));
    EXPECT_EQ(part, row_id < 50 ? 7u : 8u) << row_id;
    b.abort();
  }
  a.abort();
}

// Half of the numbers of a transaction are never taken by runs.
TEST_F(DeleteRuns, numbers_do_not_run_out) {
  insert_committed();
  a.begin();
  a.worker().next_seq = (u32{1} << 31) + 1;
  remove(1, 100);
  EXPECT_LT(a.worker().next_seq, (u32{1} << 31) + 101);
  a.abort();
  EXPECT_EQ(b.contents(table).size(), kRows);
}

}  // namespace
}  // namespace ls::txn_test
