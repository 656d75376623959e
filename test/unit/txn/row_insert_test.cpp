// Insertions, their undo by ranges, and speculative ones.
#include "store/relation.hpp"
#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

class RowInsert : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1};
};

TEST_F(RowInsert, is_seen_after_its_commit_and_by_later_own_commands) {
  a.begin();
  auto before = a.snapshot();
  TXN_ASSERT_OK(a.insert(table, 5, "five"));
  EXPECT_EQ(a.read_with(table, 5, before->s), "-");
  EXPECT_EQ(a.read(table, 5), "five");
  EXPECT_EQ(b.read(table, 5), "-");
  a.release(before);
  a.commit();
  EXPECT_EQ(b.read(table, 5), "five");
  a.begin();
  EXPECT_EQ(code(a.insert(table, 5, "again")), LS_EXISTS);
  a.abort();
  EXPECT_EQ(b.read(table, 5), "five");
}

TEST_F(RowInsert, abort_removes_all_ranges) {
  a.begin();
  for (u64 i = 1; i <= 300; i++) TXN_ASSERT_OK(a.insert(table, i, std::string(50, 'a')));
  for (u64 i = 1000; i <= 1300; i++) TXN_ASSERT_OK(a.insert(table, i, std::string(50, 'b')));
  for (u64 i = 500; i < 510; i += 2) TXN_ASSERT_OK(a.insert(table, i, "single"));
  a.abort();
  EXPECT_TRUE(b.contents(table).empty());
  EXPECT_EQ(engine.verify(table), 0u) << "no row is left behind, not even an invisible one";
}

TEST_F(RowInsert, commit_of_one_range_writes_no_undo_entry) {
  const u64 before = engine.txns().versions_written.load();
  a.begin();
  for (u64 i = 1; i <= 300; i++) TXN_ASSERT_OK(a.insert(table, i, "x"));
  a.commit();
  EXPECT_EQ(engine.txns().versions_written.load(), before);
}

TEST_F(RowInsert, savepoint_ends_the_range) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "kept"));
  const u32 savepoint = txn_savepoint(a.worker());
  TXN_ASSERT_OK(a.insert(table, 2, "dropped"));
  TXN_ASSERT_OK(a.insert(table, 3, "dropped"));
  txn_rollback_to(a.worker(), savepoint);
  TXN_ASSERT_OK(a.insert(table, 4, "kept"));
  a.commit();
  EXPECT_EQ(b.contents(table), (std::map<u64, std::string>{{1, "kept"}, {4, "kept"}}));
}

TEST_F(RowInsert, savepoint_without_a_change_behind_it_rolls_back_nothing) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "kept"));
  const u32 savepoint = txn_savepoint(a.worker());
  txn_rollback_to(a.worker(), savepoint);
  TXN_ASSERT_OK(a.insert(table, 2, "kept"));
  a.commit();
  EXPECT_EQ(b.contents(table).size(), 2u);
}

TEST_F(RowInsert, changes_of_inserted_rows_are_undone_with_them) {
  a.begin();
  for (u64 i = 1; i <= 5; i++) TXN_ASSERT_OK(a.insert(table, i, "first"));
  TXN_ASSERT_OK(a.update(table, 2, "second, longer than the first"));
  // joins the range although its seq is older than the update's
  TXN_ASSERT_OK(a.insert(table, 6, "first"));
  TXN_ASSERT_OK(a.remove(table, 3));
  TXN_ASSERT_OK(a.update(table, 6, "second"));
  const u32 savepoint = txn_savepoint(a.worker());
  TXN_ASSERT_OK(a.update(table, 2, "third"));
  txn_rollback_to(a.worker(), savepoint);
  EXPECT_EQ(a.read(table, 2), "second, longer than the first");
  a.abort();
  EXPECT_EQ(engine.verify(table), 0u);
}

TEST_F(RowInsert, speculative_row_is_reported_with_its_token) {
  a.begin();
  TXN_ASSERT_OK(row_insert(a.worker(), table, 1, 4711, LS_ROW_SPECULATIVE, bytes_of("maybe")));
  EXPECT_EQ(a.read(table, 1), "-") << "not before it is confirmed";
  ls_snapshot dirty{};
  dirty.kind = LS_SNAPSHOT_DIRTY;
  std::string data;
  TXN_EXPECT_OK(b.fetch(table, 1, dirty, &data));
  EXPECT_TRUE(b.row.flags & LS_ROW_SPECULATIVE);
  EXPECT_EQ(b.row.cid, 4711u);
  b.begin();
  EXPECT_EQ(code(b.update(table, 1, "x")), LS_BEING_MODIFIED);
  EXPECT_TRUE(b.conflict.speculative);
  EXPECT_EQ(b.conflict.cid, 4711u);
  b.abort();
  TXN_EXPECT_OK(row_finish_speculative(a.worker(), table, 1, 3, true));
  a.cid = 4;
  EXPECT_EQ(a.read(table, 1), "maybe");
  EXPECT_EQ(code(row_finish_speculative(a.worker(), table, 1, 3, true)), LS_INVALID);
  a.commit();
  EXPECT_EQ(b.read(table, 1), "maybe");
}

TEST_F(RowInsert, refused_speculative_row_vanishes) {
  a.begin();
  TXN_ASSERT_OK(row_insert(a.worker(), table, 1, 4711, LS_ROW_SPECULATIVE, bytes_of("maybe")));
  TXN_EXPECT_OK(row_finish_speculative(a.worker(), table, 1, 3, false));
  EXPECT_EQ(engine.verify(table), 0u);
  TXN_EXPECT_OK(a.insert(table, 2, "other"));
  a.abort();
  EXPECT_EQ(engine.verify(table), 0u);
}

TEST_F(RowInsert, copied_row_has_the_writer_given_and_no_undo) {
  a.begin();
  const Tn old_writer = a.tn();
  a.commit();
  a.begin();
  TXN_ASSERT_OK(row_insert_copied(a.worker(), table, 9, copied_row(old_writer, "rewritten")));
  EXPECT_TRUE(a.worker().has_log) << "a commit must harden it";
  EXPECT_EQ(b.read(table, 9), "rewritten");
  a.abort();
  EXPECT_EQ(b.read(table, 9), "rewritten");
}

// What a rewrite into another file does, row by row; here the copy has the same file and another
// row id.
class RowCopy : public RowInsert {
 protected:
  void copy(FileSlot &to, u64 row_id, u64 new_id) {
    alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
    ls_row row{};
    ls_snapshot any{};
    any.kind = LS_SNAPSHOT_ANY;
    TXN_ASSERT_OK(row_fetch(a.worker(), table, row_id, any, buffer, &row, nullptr));
    TXN_ASSERT_OK(row_insert_copied(a.worker(), to, new_id, row));
  }
  FileSlot &other{*engine.open("other")};
};

TEST_F(RowCopy, leads_old_snapshots_to_the_versions_of_its_original) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "first"));
  TXN_ASSERT_OK(a.insert(table, 2, "to be deleted"));
  a.commit();
  auto old = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "second"));
  a.commit();
  auto middle = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "third"));
  TXN_ASSERT_OK(a.remove(table, 2));
  a.commit();

  a.begin();
  copy(other, 1, 11);
  copy(other, 2, 12);
  a.commit();
  EXPECT_EQ(b.scan(other, old->s),
            (std::map<u64, std::string>{{11, "first"}, {12, "to be deleted"}}));
  EXPECT_EQ(b.scan(other, middle->s),
            (std::map<u64, std::string>{{11, "second"}, {12, "to be deleted"}}));
  EXPECT_EQ(b.contents(other), (std::map<u64, std::string>{{11, "third"}}));

  a.begin();
  TXN_ASSERT_OK(a.update(other, 11, "fourth"));
  a.commit();
  EXPECT_EQ(b.read_with(other, 11, old->s), "first")
      << "also behind a version that the copy got later";
  EXPECT_EQ(b.read_with(other, 11, middle->s), "second");
  b.release(old);
  b.release(middle);
}

TEST_F(RowCopy, leads_there_also_when_the_version_that_was_copied_is_gone) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "first"));
  a.commit();
  auto old = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "second"));
  a.commit();
  a.begin();
  copy(other, 1, 11);
  a.commit();
  const u64 removed = engine.txns().versions_removed.load();
  for (int i = 0; i < 100; i++) {
    host.publish_horizon();
    a.begin();
    TXN_ASSERT_OK(a.update(other, 11, "later " + std::to_string(i)));
    a.commit();
  }
  EXPECT_GT(engine.txns().versions_removed.load(), removed + 50)
      << "those between are needed by nobody";
  EXPECT_EQ(b.read_with(other, 11, old->s), "first");
  b.release(old);
}

// GONE-2
TEST_F(RowCopy, ghost_goes_with_a_scan_once_nobody_needs_it) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "row"));
  a.commit();
  auto old = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.remove(table, 1));
  a.commit();
  a.begin();
  copy(other, 1, 11);
  a.commit();
  host.publish_horizon();
  EXPECT_TRUE(b.contents(other).empty());
  EXPECT_EQ(b.read_with(other, 11, old->s), "row");
  b.release(old);
  host.publish_horizon();
  EXPECT_TRUE(b.contents(other).empty());
  EXPECT_EQ(engine.verify(other), 0u) << "the ghost is gone";
}

// Its versions are gone with the row that it was copied from.
TEST_F(RowCopy, a_ghost_that_nobody_needed_when_its_original_went_is_none) {
  auto old = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "row"));
  a.commit();
  a.begin();
  TXN_ASSERT_OK(a.remove(table, 1));
  a.commit();
  a.begin();
  copy(other, 1, 11);
  a.commit();
  host.publish_horizon();
  u64 removed = 0;
  TXN_ASSERT_OK(clean_round(engine.own(), &removed));
  EXPECT_EQ(engine.verify(table), 0u);
  EXPECT_EQ(engine.verify(other), 1u);
  ls_check_result result{};
  TXN_EXPECT_OK(row_ids_skip(a.worker(), other, 12));
  TXN_EXPECT_OK(relation_check(engine.own(), other, &result));
  EXPECT_EQ(result.ghosts, 1u);
  EXPECT_EQ(b.read_with(other, 11, old->s), "-");
  EXPECT_TRUE(b.scan(other, old->s).empty());
  b.release(old);
}

TEST_F(RowInsert, many_at_once_span_leaves_and_roll_back_as_one_range) {
  std::vector<std::string> data;
  for (u32 i = 0; i < 500; i++)
    data.push_back(std::string(1 + i % 300, static_cast<char>('a' + i % 26)));
  std::vector<ls_bytes> rows;
  for (const std::string &d : data)
    rows.push_back({reinterpret_cast<const u8 *>(d.data()), static_cast<u32>(d.size())});
  u32 inserted = 0;
  a.begin();
  TXN_ASSERT_OK(row_insert_many(a.worker(), table, 1000, 0, rows, &inserted));
  EXPECT_EQ(inserted, rows.size());
  a.abort();
  EXPECT_TRUE(b.contents(table).empty());

  a.begin();
  TXN_ASSERT_OK(row_insert_many(a.worker(), table, 1000, 0, rows, &inserted));
  a.commit();
  std::map<u64, std::string> expected;
  for (u32 i = 0; i < data.size(); i++) expected[1000 + i] = data[i];
  EXPECT_EQ(b.contents(table), expected);

  // An occupied row id ends it there; what came before stays.
  a.begin();
  EXPECT_EQ(code(row_insert_many(a.worker(), table, 990, 0, rows, &inserted)), LS_EXISTS);
  EXPECT_EQ(inserted, 10u);
  a.abort();
  EXPECT_EQ(b.contents(table), expected);
  std::vector<u8> wide(LS_MAX_ROW_BYTES + 1);
  rows[3] = {wide.data(), static_cast<u32>(wide.size())};
  a.begin();
  EXPECT_EQ(code(row_insert_many(a.worker(), table, 5000, 0, rows, &inserted)), LS_TOO_LARGE);
  EXPECT_EQ(inserted, 3u);
  a.abort();
  EXPECT_EQ(engine.verify(table), expected.size());
}

TEST_F(RowInsert, unlogged_table_logs_nothing) {
  FileSlot &unlogged = *engine.open("unlogged", LS_REL_TABLE, false);
  a.begin();
  TXN_ASSERT_OK(a.insert(unlogged, 1, "x"));
  TXN_ASSERT_OK(a.update(unlogged, 1, "y"));
  EXPECT_FALSE(a.worker().has_log);
  EXPECT_TRUE(a.worker().wrote_unlogged);
  TXN_ASSERT_OK(txn_reserve_commit(a.worker()));
  host.end(a.tn());
  EXPECT_EQ(txn_commit(a.worker()), 0u);
  EXPECT_EQ(b.read(unlogged, 1), "y");
}

TEST_F(RowInsert, forgotten_file_is_skipped_by_rollback) {
  FileSlot &dropped = *engine.open("dropped");
  a.begin();
  TXN_ASSERT_OK(a.insert(dropped, 1, "x"));
  TXN_ASSERT_OK(a.update(dropped, 1, "y"));
  TXN_ASSERT_OK(a.insert(table, 1, "x"));
  engine.pool().forget_file(engine.key_of("dropped"));
  a.abort();
  EXPECT_EQ(engine.verify(table), 0u);
}

}  // namespace
}  // namespace ls::txn_test
