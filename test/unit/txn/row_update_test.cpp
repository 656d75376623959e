// Changing rows in place: what each snapshot sees, what a conflict says, what rollback restores.
#include "unit/base/failpoint_actions.hpp"
#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

class RowUpdate : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1}, c{engine, host, 2};
  void insert_committed(u64 row_id, const std::string &data) {
    a.begin();
    TXN_ASSERT_OK(a.insert(table, row_id, data));
    a.commit();
  }
};

TEST_F(RowUpdate, snapshot_sees_the_version_of_its_time) {
  insert_committed(1, "one");
  auto old = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "two, which is longer"));
  EXPECT_EQ(b.read_with(table, 1, old->s), "one");
  EXPECT_EQ(b.read(table, 1), "one") << "uncommitted";
  EXPECT_EQ(a.read(table, 1), "two, which is longer") << "own, earlier command";
  a.commit();
  EXPECT_EQ(b.read_with(table, 1, old->s), "one");
  EXPECT_EQ(b.read(table, 1), "two, which is longer");
  b.release(old);
}

TEST_F(RowUpdate, own_change_is_invisible_to_the_command_that_made_it) {
  insert_committed(1, "one");
  a.begin();
  auto before = a.snapshot();
  TXN_ASSERT_OK(a.update(table, 1, "two"));
  EXPECT_EQ(a.read_with(table, 1, before->s), "one");
  EXPECT_EQ(a.read(table, 1), "two");
  TXN_ASSERT_OK(a.update(table, 1, "three"));
  EXPECT_EQ(a.read_with(table, 1, before->s), "one");
  a.release(before);
  a.commit();
}

TEST_F(RowUpdate, long_chain_is_read_by_every_snapshot_on_it) {
  insert_committed(1, "0");
  std::vector<std::unique_ptr<Snapshot>> snapshots;
  for (int i = 1; i <= 40; i++) {
    snapshots.push_back(c.snapshot());
    a.begin();
    TXN_ASSERT_OK(a.update(
        table, 1, std::string(static_cast<size_t>(i) * 31 % 700, 'x') + std::to_string(i)));
    a.commit();
  }
  for (int i = 0; i < 40; i++) {
    const std::string expected =
        i == 0 ? "0" : std::string(static_cast<size_t>(i) * 31 % 700, 'x') + std::to_string(i);
    EXPECT_EQ(c.read_with(table, 1, snapshots[static_cast<size_t>(i)]->s), expected) << i;
  }
  for (auto &s : snapshots) c.release(s);
}

TEST_F(RowUpdate, running_writer_is_reported_and_waited_for) {
  insert_committed(1, "one");
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "two"));
  b.begin();
  EXPECT_EQ(code(b.update(table, 1, "three")), LS_BEING_MODIFIED);
  EXPECT_EQ(b.conflict.tn, a.tn());
  EXPECT_FALSE(b.conflict.speculative);
  a.commit();
  TXN_EXPECT_OK(b.update(table, 1, "three"));
  b.commit();
  EXPECT_EQ(c.read(table, 1), "three");
}

TEST_F(RowUpdate, version_newer_than_the_snapshot_is_updated_in_place) {
  insert_committed(1, "one");
  b.begin();
  auto old = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "two"));
  const Tn writer = a.tn();
  a.commit();
  EXPECT_EQ(code(b.update_with(table, old->s, 1, "three")), LS_UPDATED);
  EXPECT_FALSE(b.conflict.moved);
  EXPECT_EQ(b.conflict.tn, writer);
  b.release(old);
  b.abort();
}

TEST_F(RowUpdate, crosscheck_refuses_what_it_does_not_see) {
  insert_committed(1, "one");
  b.begin();
  auto old = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "two"));
  a.commit();
  auto now = b.snapshot();
  ls_change change{1, &now->s, &old->s, b.cid, LS_LOCK_NO_KEY_UPDATE};
  EXPECT_EQ(code(row_update(b.worker(), table, change, bytes_of("x"), &b.conflict)), LS_UPDATED);
  change.crosscheck = nullptr;
  TXN_EXPECT_OK(row_update(b.worker(), table, change, bytes_of("x"), &b.conflict));
  b.release(old);
  b.release(now);
  b.commit();
}

TEST_F(RowUpdate, own_change_of_this_command_is_self_modified) {
  insert_committed(1, "one");
  a.begin();
  auto s = a.snapshot();
  const ls_change change{1, &s->s, nullptr, 7, LS_LOCK_NO_KEY_UPDATE};
  TXN_ASSERT_OK(row_update(a.worker(), table, change, bytes_of("two"), &a.conflict));
  EXPECT_EQ(code(row_update(a.worker(), table, change, bytes_of("three"), &a.conflict)),
            LS_SELF_MODIFIED);
  EXPECT_EQ(a.conflict.cid, 7u);
  EXPECT_EQ(a.conflict.tn, a.tn());
  a.release(s);
  a.commit();
}

TEST_F(RowUpdate, deleted_row_is_gone_for_new_snapshots_only) {
  insert_committed(1, "one");
  auto old = c.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.remove(table, 1));
  EXPECT_EQ(a.read(table, 1), "-");
  EXPECT_EQ(b.read(table, 1), "one");
  a.commit();
  EXPECT_EQ(b.read(table, 1), "-");
  EXPECT_EQ(b.read_with(table, 1, old->s), "one");
  b.begin();
  EXPECT_EQ(code(b.update(table, 1, "x")), LS_DELETED);
  b.abort();
  c.release(old);
}

TEST_F(RowUpdate, moved_row_names_its_successor) {
  insert_committed(1, "one");
  auto old = c.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 9, "one, moved"));
  TXN_ASSERT_OK(a.remove(table, 1, 9));
  a.commit();
  b.begin();
  EXPECT_EQ(code(b.update(table, 1, "x")), LS_UPDATED);
  EXPECT_TRUE(b.conflict.moved);
  EXPECT_EQ(b.conflict.moved_to, 9u);
  b.abort();
  EXPECT_EQ(b.read_with(table, 1, old->s), "one") << "the payload is cut from the ghost";
  ls_snapshot any{};
  any.kind = LS_SNAPSHOT_ANY;
  std::string data;
  TXN_EXPECT_OK(b.fetch(table, 1, any, &data));
  EXPECT_EQ(data, "one");
  EXPECT_EQ(b.row.moved_to, 9u);
  EXPECT_EQ(b.row.flags & (LS_ROW_GHOST | LS_ROW_MOVED), u32{LS_ROW_GHOST | LS_ROW_MOVED});
  c.release(old);
}

TEST_F(RowUpdate, dirty_and_self_snapshots_report_running_writers) {
  insert_committed(1, "one");
  ls_snapshot dirty{}, self{};
  dirty.kind = LS_SNAPSHOT_DIRTY;
  self.kind = LS_SNAPSHOT_SELF;
  std::string data;
  a.begin();
  self.own_tn = 0;
  TXN_ASSERT_OK(a.update(table, 1, "two"));
  TXN_EXPECT_OK(b.fetch(table, 1, dirty, &data));
  EXPECT_EQ(data, "two");
  EXPECT_EQ(b.row.writer_tn, a.tn());
  TXN_EXPECT_OK(b.fetch(table, 1, self, &data));
  EXPECT_EQ(data, "one") << "another's change does not count before its commit";
  self.own_tn = dirty.own_tn = a.tn();
  TXN_EXPECT_OK(a.fetch(table, 1, self, &data));
  EXPECT_EQ(data, "two");
  TXN_ASSERT_OK(a.remove(table, 1));
  EXPECT_EQ(code(a.fetch(table, 1, self, &data)), LS_NOT_FOUND);
  EXPECT_EQ(code(a.fetch(table, 1, dirty, &data)), LS_NOT_FOUND);
  self.own_tn = dirty.own_tn = 0;
  TXN_EXPECT_OK(b.fetch(table, 1, self, &data));
  EXPECT_EQ(data, "one");
  TXN_EXPECT_OK(b.fetch(table, 1, dirty, &data));
  EXPECT_TRUE(b.row.flags & LS_ROW_GHOST) << "being deleted";
  a.commit();
  EXPECT_EQ(code(b.fetch(table, 1, self, &data)), LS_NOT_FOUND);
  EXPECT_EQ(code(b.fetch(table, 1, dirty, &data)), LS_NOT_FOUND);
}

// GONE-1, GONE-2
TEST_F(RowUpdate, all_dead_only_when_no_snapshot_can_see_the_row) {
  insert_committed(1, "one");
  auto old = c.snapshot();
  ls_snapshot s = old->s;
  bool dead = false;
  EXPECT_EQ(code(b.fetch(table, 77, s, nullptr, &dead)), LS_NOT_FOUND);
  EXPECT_TRUE(dead) << "no such row";
  a.begin();
  TXN_ASSERT_OK(a.remove(table, 1));
  a.commit();
  auto now = b.snapshot();
  EXPECT_EQ(code(b.fetch(table, 1, now->s, nullptr, &dead)), LS_NOT_FOUND);
  EXPECT_FALSE(dead) << "an old snapshot sees it";
  TXN_EXPECT_OK(b.fetch(table, 1, old->s, nullptr, &dead));
  b.release(now);
  c.release(old);
  host.publish_horizon();
  now = b.snapshot();
  EXPECT_EQ(code(b.fetch(table, 1, now->s, nullptr, &dead)), LS_NOT_FOUND);
  EXPECT_TRUE(dead);
  b.release(now);
}

TEST_F(RowUpdate, limits_and_misuse_are_refused) {
  insert_committed(1, "one");
  EXPECT_EQ(code(b.update(table, 1, "x")), LS_INVALID) << "outside a transaction";
  a.begin();
  EXPECT_EQ(code(a.update(table, 1, std::string(LS_MAX_ROW_BYTES + 1, 'x'))), LS_TOO_LARGE);
  TXN_EXPECT_OK(a.update(table, 1, std::string(LS_MAX_ROW_BYTES, 'x')));
  TXN_EXPECT_OK(a.remove(table, 1, 5));  // the largest row has room for its successor
  EXPECT_EQ(code(a.update(table, 2, "x")), LS_NOT_FOUND);
  a.abort();
  EXPECT_EQ(b.read(table, 1), "one");
}

TEST_F(RowUpdate, growing_rows_split_their_leaf) {
  a.begin();
  for (u64 i = 1; i <= 60; i++) TXN_ASSERT_OK(a.insert(table, i, std::to_string(i)));
  for (u64 i = 1; i <= 60; i++)
    TXN_ASSERT_OK(a.update(table, i, std::string(1000 + i, 'y') + std::to_string(i)));
  a.commit();
  for (u64 i = 1; i <= 60; i++)
    EXPECT_EQ(b.read(table, i), std::string(1000 + i, 'y') + std::to_string(i));
  EXPECT_EQ(engine.verify(table), 60u);
}

#if LS_FAILPOINTS
// First: copies the row, decides, keeps its undo entry.  Second: changes the row and commits.
// First: latches the leaf.
TEST_F(RowUpdate, race_update_vs_committed_update_is_decided_again) {
  insert_committed(1, "one");
  a.begin();
  auto before = a.snapshot();
  test::OnceAt point(Failpoint::txn_before_change, [&] {
    b.begin();
    TXN_EXPECT_OK(b.update(table, 1, "second's"));
    b.commit();
  });
  EXPECT_EQ(code(a.update_with(table, before->s, 1, "first's")), LS_UPDATED);
  EXPECT_TRUE(point.reached());
  a.release(before);
  a.abort();
  EXPECT_EQ(c.read(table, 1), "second's");
}
#endif

}  // namespace
}  // namespace ls::txn_test
