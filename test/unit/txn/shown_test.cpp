// What a worker was shown of transactions with commits that a crash could still take back.
#include "txn/shown.hpp"

#include <optional>
#include <set>

#include "txn/row_gone.hpp"
#include "unit/txn/txn_fixture.hpp"
#include "unit/wal/log_fixture.hpp"

namespace ls::txn_test {
namespace {

class ShownTest : public TxnTest {
 protected:
  Session writer{engine, host, 0}, reader{engine, host, 1}, third{engine, host, 2};

  ShownTest() {
    writer.begin();
    for (u64 id = 1; id <= 3; id++) TXN_EXPECT_OK(writer.insert(table, id, "first"));
    writer.commit(true);
    // Nothing behind a record that has not been written becomes durable.
    stalled_.emplace(engine.log(), 3);
  }
  ~ShownTest() override { release(); }
  void release() {
    stalled_.reset();
    EXPECT_TRUE(engine.log().wait_hardened(engine.log().last_gsn(), nullptr));
  }
  Gsn end(Session &s, bool awaited) {
    const Tn tn = s.tn();
    host.end(tn);
    return txn_commit(s.worker(), {}, awaited);
  }
  Gsn update(Session &s, u64 row_id, bool awaited = true) {
    s.begin();
    TXN_EXPECT_OK(s.update(table, row_id, "second"));
    return end(s, awaited);
  }
  Gsn shown(Session &s) {
    const Gsn latest = s.worker().shown.latest();
    s.worker().shown.forget();
    return latest;
  }

 private:
  std::optional<test::StalledAppend> stalled_;
};

TEST_F(ShownTest, a_row_of_an_awaited_commit_by_its_reader_only) {
  const Gsn commit = update(writer, 1);
  EXPECT_EQ(reader.read(table, 2), "first");
  EXPECT_EQ(shown(reader), 0u);
  EXPECT_EQ(reader.read(table, 1), "second");
  EXPECT_EQ(shown(reader), commit);
  reader.contents(table);
  EXPECT_EQ(shown(reader), commit);
  release();
  EXPECT_EQ(reader.read(table, 1), "second");
  EXPECT_EQ(shown(reader), 0u);
}

TEST_F(ShownTest, neither_an_asynchronous_commit_nor_the_own_transaction) {
  update(writer, 1, false);
  EXPECT_EQ(reader.read(table, 1), "second");
  EXPECT_EQ(shown(reader), 0u);
  reader.begin();
  TXN_EXPECT_OK(reader.update(table, 2, "own"));
  EXPECT_EQ(reader.read(table, 2), "own");
  EXPECT_EQ(shown(reader), 0u);
}

TEST_F(ShownTest, that_a_row_is_gone) {
  writer.begin();
  TXN_EXPECT_OK(writer.remove(table, 3));
  const Gsn commit = end(writer, true);
  EXPECT_EQ(reader.read(table, 3), "-");
  EXPECT_EQ(shown(reader), commit);
  // No reader sees the row, but one that finds nothing could not know why.
  bool final = true;
  const RowHeader ghost =
      RowHeader::make(writer.worker().txns->highest_tn.load(), LS_ROW_GHOST, 0, 0, 1);
  TXN_EXPECT_OK(deletion_final(writer.worker(), ghost, &final));
  EXPECT_FALSE(final);
}

TEST_F(ShownTest, an_older_version_below_one_that_is_not_seen) {
  const Gsn commit = update(writer, 1);
  third.begin();
  TXN_EXPECT_OK(third.update(table, 1, "third"));
  EXPECT_EQ(reader.read(table, 1), "second");
  EXPECT_EQ(shown(reader), commit);
  third.abort();
}

TEST_F(ShownTest, the_horizon_follows_the_log) {
  CommitMarks marks{};
  EXPECT_EQ(marks.harden_horizon(10, 100, 100), 10u) << "all is hardened";
  EXPECT_EQ(marks.harden_horizon(20, 200, 150), 10u);
  EXPECT_EQ(marks.harden_horizon(30, 300, 199), 0u);
  EXPECT_EQ(marks.harden_horizon(40, 400, 200), 20u);
  EXPECT_EQ(marks.harden_horizon(50, 500, 400), 40u);
}

TEST_F(ShownTest, transactions_in_turn_have_marks_of_their_own) {
  std::set<const void *> marks, lines;
  CommitMarks all{};
  for (Tn tn = 1000; tn < 1000 + CommitMarks::kMarks; tn++) marks.insert(&all.of(tn));
  for (Tn tn = 1000; tn < 1000 + CommitMarks::kMarks / 8; tn++)
    lines.insert(reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(&all.of(tn)) / kCacheLine));
  EXPECT_EQ(marks.size(), CommitMarks::kMarks);
  EXPECT_GE(lines.size(), CommitMarks::kMarks / 8 - 1) << "one may lie across a boundary";
  all.raise(7, 70);
  all.raise(7 + CommitMarks::kMarks, 60);
  EXPECT_FALSE(all.is_hardened(7, 69));
  EXPECT_TRUE(all.is_hardened(7, 70));
}

}  // namespace
}  // namespace ls::txn_test
