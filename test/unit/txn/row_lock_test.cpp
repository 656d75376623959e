// Row locks: the matrix, re-entrance, upgrades, savepoints, FOR KEY SHARE through updates.
#include "txn/row_lock_table.hpp"
#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

constexpr ls_lock_mode kModes[] = {LS_LOCK_KEY_SHARE, LS_LOCK_SHARE, LS_LOCK_NO_KEY_UPDATE,
                                   LS_LOCK_UPDATE};
// [held][wanted], from PostgreSQL's documentation, table 13.3.
constexpr bool kConflict[4][4] = {{0, 0, 0, 1}, {0, 0, 1, 1}, {0, 1, 1, 1}, {1, 1, 1, 1}};

class RowLock : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1}, c{engine, host, 2};
  void SetUp() override {
    a.begin();
    TXN_ASSERT_OK(a.insert(table, 1, "one"));
    a.commit();
  }
  void insert_rows(u64 first, u64 n) {
    a.begin();
    for (u64 i = 0; i < n; i++) TXN_ASSERT_OK(a.insert(table, first + i, "x"));
    a.commit();
  }
};

TEST_F(RowLock, matrix) {
  for (const ls_lock_mode held : kModes) {
    for (const ls_lock_mode wanted : kModes) {
      EXPECT_EQ(lock_modes_conflict(held, wanted), kConflict[held][wanted]);
      a.begin();
      b.begin();
      std::string data;
      TXN_ASSERT_OK(a.lock(table, 1, held, &data));
      EXPECT_EQ(data, "one");
      const Status s = b.lock(table, 1, wanted);
      EXPECT_EQ(code(s), kConflict[held][wanted] ? LS_LOCKED : LS_OK)
          << held << " against " << wanted;
      EXPECT_EQ(b.conflict.tn, ok(s) ? b.conflict.tn : a.tn());
      a.commit();
      TXN_EXPECT_OK(b.lock(table, 1, wanted));
      b.abort();
    }
  }
}

// Leaves that a rollback has emptied are merged, and a look-up does not walk through what is left
// of them.
TEST_F(RowLock, what_was_rolled_back_is_not_walked_through) {
  constexpr u64 kRows = 5000;
  a.begin();
  for (u64 row_id = 2; row_id <= kRows; row_id++) TXN_ASSERT_OK(a.insert(table, row_id, "other"));
  a.commit();
  BTree tree(a.worker().ctx, engine.pool().file(engine.txns().lock_file));
  BTree::CheckResult full{}, emptied{};
  a.begin();
  for (u64 row_id = 1; row_id <= kRows; row_id++)
    TXN_ASSERT_OK(a.lock(table, row_id, LS_LOCK_UPDATE));
  TXN_ASSERT_OK(tree.verify(&full, nullptr, nullptr));
  a.abort();
  TXN_ASSERT_OK(tree.verify(&emptied, nullptr, nullptr));
  EXPECT_GT(full.leaf_pages, 20u);
  EXPECT_LT(emptied.leaf_pages, full.leaf_pages / 5);
  EXPECT_EQ(emptied.entries, 0u);

  // Where merging was not possible.
  b.begin();
  for (u64 row_id = 1; row_id <= kRows; row_id++)
    TXN_ASSERT_OK(b.lock(table, row_id, LS_LOCK_UPDATE));
  u8 from[kMaxKeyBytes];
  u32 from_bytes = 0;
  for (bool more = true; more;) {
    ExclusiveGuard leaf;
    TXN_ASSERT_OK(tree.leaf_exclusive(Bytes(from, from_bytes), 0, leaf));
    Node *node = reinterpret_cast<Node *>(leaf.page());
    while (node->count > 0) node->remove(0);
    more = node->has_upper;
    from_bytes = static_cast<u32>(node->upper_fence().size());
    if (more) std::memcpy(from, node->upper_fence().data(), from_bytes);
    engine.pool().mark_dirty(leaf.frame(), 0);
  }
  const u64 before = a.worker().ctx.pages.hit;
  RowLockTable locks(a.worker());
  for (u64 row_id = 1; row_id <= 1000; row_id++) {
    LockView view;
    TXN_ASSERT_OK(locks.look(table.file_no.load(), row_id, LS_LOCK_UPDATE, &view));
    EXPECT_FALSE(view.any_live);
  }
  EXPECT_LE(a.worker().ctx.pages.hit - before, 1050u) << "leaves looked at";
  b.commit();
}

// A lock is put as a tentative entry and goes over it when it is granted: that divides no leaf.
TEST_F(RowLock, locks_of_rows_one_after_the_other_fill_their_leaves) {
  constexpr u64 kRows = 5000;
  a.begin();
  for (u64 row_id = 2; row_id <= kRows; row_id++) TXN_ASSERT_OK(a.insert(table, row_id, "other"));
  a.commit();
  a.begin();
  for (u64 row_id = 1; row_id <= kRows; row_id++)
    TXN_ASSERT_OK(a.lock(table, row_id, LS_LOCK_KEY_SHARE));
  BTree tree(a.worker().ctx, engine.pool().file(engine.txns().lock_file));
  BTree::CheckResult full{};
  TXN_ASSERT_OK(tree.verify(&full, nullptr, nullptr));
  a.commit();
  EXPECT_EQ(full.entries, kRows);
  EXPECT_GT(full.entries / full.leaf_pages, 90u) << "of 104 that a leaf has room for";
}

TEST_F(RowLock, changes_respect_locks) {
  for (const ls_lock_mode held : kModes) {
    a.begin();
    b.begin();
    TXN_ASSERT_OK(a.lock(table, 1, held));
    EXPECT_EQ(code(b.update(table, 1, "x", LS_LOCK_NO_KEY_UPDATE)),
              kConflict[held][LS_LOCK_NO_KEY_UPDATE] ? LS_LOCKED : LS_OK);
    b.abort();
    b.begin();
    EXPECT_EQ(code(b.update(table, 1, "x", LS_LOCK_UPDATE)), LS_LOCKED);
    EXPECT_EQ(code(b.remove(table, 1)), LS_LOCKED);
    TXN_EXPECT_OK(a.update(table, 1, "own locks do not matter", LS_LOCK_UPDATE));
    a.abort();
    b.abort();
  }
  EXPECT_EQ(c.read(table, 1), "one");
}

TEST_F(RowLock, weaker_mode_of_the_holder_takes_no_second_lock) {
  a.begin();
  TXN_ASSERT_OK(a.lock(table, 1, LS_LOCK_NO_KEY_UPDATE));
  const u64 locks = engine.txns().row_locks.load();
  TXN_ASSERT_OK(a.lock(table, 1, LS_LOCK_KEY_SHARE));
  TXN_ASSERT_OK(a.lock(table, 1, LS_LOCK_NO_KEY_UPDATE));
  EXPECT_EQ(engine.txns().row_locks.load(), locks);
  TXN_ASSERT_OK(a.lock(table, 1, LS_LOCK_UPDATE));
  EXPECT_EQ(engine.txns().row_locks.load(), locks + 1);
  b.begin();
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_KEY_SHARE)), LS_LOCKED) << "upgraded";
  b.abort();
  a.commit();
}

TEST_F(RowLock, savepoint_rollback_gives_the_weaker_mode_back) {
  a.begin();
  TXN_ASSERT_OK(a.lock(table, 1, LS_LOCK_KEY_SHARE));
  const u32 savepoint = txn_savepoint(a.worker());
  TXN_ASSERT_OK(a.lock(table, 1, LS_LOCK_UPDATE));
  b.begin();
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_NO_KEY_UPDATE)), LS_LOCKED);
  txn_rollback_to(a.worker(), savepoint);
  TXN_EXPECT_OK(b.lock(table, 1, LS_LOCK_NO_KEY_UPDATE));
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_UPDATE)), LS_LOCKED) << "KEY SHARE is still held";
  txn_rollback_to(a.worker(), 1);
  TXN_EXPECT_OK(b.lock(table, 1, LS_LOCK_UPDATE));
  a.commit();
  b.commit();
}

// With its own more than one look at a leaf takes in.
TEST_F(RowLock, many_share_one_row) {
  constexpr u32 kHolders = 8;
  std::vector<std::unique_ptr<Session>> holders;
  for (u32 i = 0; i < kHolders; i++) {
    holders.push_back(std::make_unique<Session>(engine, host, 3 + i));
    holders.back()->begin();
    TXN_ASSERT_OK(holders.back()->lock(table, 1, LS_LOCK_SHARE));
  }
  a.begin();
  for (u32 i = 0; i < kHolders; i++) {
    EXPECT_EQ(code(a.lock(table, 1, LS_LOCK_UPDATE)), LS_LOCKED) << i << " have left";
    TXN_EXPECT_OK(a.lock(table, 1, LS_LOCK_KEY_SHARE));
    holders[i]->commit();
  }
  TXN_EXPECT_OK(a.lock(table, 1, LS_LOCK_UPDATE));
  a.commit();
}

// RLOCK-5
TEST_F(RowLock, locks_of_a_block_share_an_undo_entry) {
  constexpr u64 kFirst = 2 * kLockBlockRows, kRows = 3 * kLockBlockRows;
  insert_rows(kFirst, kRows);
  a.begin();
  const u64 before = engine.txns().versions_written.load();
  for (u64 i = 0; i < kRows; i++) TXN_ASSERT_OK(a.lock(table, kFirst + i, LS_LOCK_UPDATE));
  EXPECT_EQ(engine.txns().versions_written.load() - before, kRows / kLockBlockRows);
  a.abort();
  b.begin();
  for (u64 i = 0; i < kRows; i++) TXN_EXPECT_OK(b.lock(table, kFirst + i, LS_LOCK_UPDATE));
  b.commit();
}

// RLOCK-5: behind the first lock of the block another transaction has one of the same row.
TEST_F(RowLock, undo_of_a_block_passes_over_locks_of_others) {
  constexpr u64 kFirst = 2 * kLockBlockRows;
  insert_rows(kFirst, 2);
  a.begin();
  b.begin();
  for (u64 row : {kFirst, kFirst + 1}) {
    TXN_ASSERT_OK(a.lock(table, row, LS_LOCK_SHARE));
    TXN_ASSERT_OK(b.lock(table, row, LS_LOCK_SHARE));
  }
  a.abort();
  b.abort();
  c.begin();
  for (u64 row : {kFirst, kFirst + 1}) TXN_EXPECT_OK(c.lock(table, row, LS_LOCK_UPDATE));
  c.commit();
}

// RLOCK-5: what was locked before a savepoint stays, beside it in the same block.
TEST_F(RowLock, savepoint_rollback_takes_its_locks_of_a_block_only) {
  constexpr u64 kFirst = 4 * kLockBlockRows, kRows = 2 * kLockBlockRows;
  insert_rows(kFirst, kRows);
  const auto locked = [&](u64 i) {
    b.begin();
    const Status s = b.lock(table, kFirst + i, LS_LOCK_KEY_SHARE);
    b.abort();
    return code(s) == LS_LOCKED;
  };
  a.begin();
  for (u64 i = 0; i < kRows; i += 4) TXN_ASSERT_OK(a.lock(table, kFirst + i, LS_LOCK_UPDATE));
  TXN_ASSERT_OK(a.lock(table, kFirst + 3, LS_LOCK_KEY_SHARE));
  const u32 savepoint = txn_savepoint(a.worker());
  for (u64 i = 1; i < kRows; i += 4) TXN_ASSERT_OK(a.lock(table, kFirst + i, LS_LOCK_UPDATE));
  TXN_ASSERT_OK(a.lock(table, kFirst + 3, LS_LOCK_UPDATE));
  txn_set_part(a.worker(), 7);
  for (u64 i = 2; i < kRows; i += 4) TXN_ASSERT_OK(a.lock(table, kFirst + i, LS_LOCK_UPDATE));
  for (u64 i = 0; i < kRows; i++) EXPECT_EQ(locked(i), i == 3 || i % 4 != 3) << i;
  u32 part;
  TXN_ASSERT_OK(change_part(a.worker(), a.tn(), a.worker().locks.seq, &part));
  EXPECT_EQ(part, 7u);
  txn_rollback_to(a.worker(), savepoint);
  for (u64 i = 0; i < kRows; i++) EXPECT_EQ(locked(i), i % 4 == 0) << i;
  b.begin();
  EXPECT_EQ(code(b.lock(table, kFirst + 3, LS_LOCK_UPDATE)), LS_LOCKED) << "KEY SHARE is back";
  b.abort();
  // Again: the rollback has taken back the entry of the block.
  for (u64 i = 1; i < kRows; i += 4) TXN_ASSERT_OK(a.lock(table, kFirst + i, LS_LOCK_UPDATE));
  txn_rollback_to(a.worker(), 1);
  for (u64 i = 0; i < kRows; i++) EXPECT_FALSE(locked(i)) << i;
  a.commit();
}

TEST_F(RowLock, key_share_passes_an_update_that_leaves_the_key_alone) {
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "two"));
  b.begin();
  std::string data;
  TXN_EXPECT_OK(b.lock(table, 1, LS_LOCK_KEY_SHARE, &data));
  EXPECT_EQ(data, "one") << "the version that is committed";
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_SHARE)), LS_BEING_MODIFIED);
  EXPECT_EQ(code(a.remove(table, 1)), LS_LOCKED) << "the key must stay";
  TXN_EXPECT_OK(a.update(table, 1, "three"));
  a.abort();
  EXPECT_EQ(c.read(table, 1), "one");
  c.begin();
  EXPECT_EQ(code(c.remove(table, 1)), LS_LOCKED) << "rollback has kept the lock bit";
  b.commit();
  TXN_EXPECT_OK(c.remove(table, 1));
  c.commit();
}

TEST_F(RowLock, key_share_waits_for_key_changes_and_insertions) {
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "two", LS_LOCK_UPDATE));
  TXN_ASSERT_OK(a.insert(table, 2, "new"));
  TXN_ASSERT_OK(a.update(table, 2, "newer"));
  b.begin();
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_KEY_SHARE)), LS_BEING_MODIFIED);
  EXPECT_EQ(code(b.lock(table, 2, LS_LOCK_KEY_SHARE, nullptr, true)), LS_BEING_MODIFIED);
  TXN_ASSERT_OK(a.update(table, 1, "three"));
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_KEY_SHARE)), LS_BEING_MODIFIED)
      << "the key change lies behind the newest version";
  b.abort();
  a.commit();
}

TEST_F(RowLock, key_share_passes_a_committed_update_its_snapshot_does_not_see) {
  b.begin();
  auto old = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "two"));
  a.commit();
  std::string data;
  TXN_EXPECT_OK(b.lock_with(table, old->s, 1, LS_LOCK_KEY_SHARE, &data));
  EXPECT_EQ(data, "one");
  EXPECT_EQ(code(b.lock_with(table, old->s, 1, LS_LOCK_SHARE)), LS_UPDATED);
  b.release(old);
  b.commit();
}

TEST_F(RowLock, any_version_locks_what_the_snapshot_does_not_see) {
  b.begin();
  auto old = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "two"));
  a.commit();
  EXPECT_EQ(code(b.lock_with(table, old->s, 1, LS_LOCK_UPDATE)), LS_UPDATED);
  std::string data;
  TXN_EXPECT_OK(b.lock_with(table, old->s, 1, LS_LOCK_UPDATE, &data, true));
  EXPECT_EQ(data, "two");
  EXPECT_TRUE(b.newer);
  TXN_EXPECT_OK(b.update_with(table, old->s, 1, "three"));  // locked by us after it was written
  b.release(old);
  b.commit();
  EXPECT_EQ(c.read(table, 1), "three");
}

TEST_F(RowLock, own_update_is_a_lock_already) {
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "two"));
  const u64 locks = engine.txns().row_locks.load();
  std::string data;
  TXN_EXPECT_OK(a.lock(table, 1, LS_LOCK_NO_KEY_UPDATE, &data));
  EXPECT_EQ(data, "two");
  EXPECT_FALSE(a.newer);
  EXPECT_EQ(engine.txns().row_locks.load(), locks);
  b.begin();
  TXN_EXPECT_OK(b.lock(table, 1, LS_LOCK_KEY_SHARE));
  EXPECT_EQ(code(a.lock(table, 1, LS_LOCK_UPDATE)), LS_LOCKED);
  b.commit();
  TXN_EXPECT_OK(a.lock(table, 1, LS_LOCK_UPDATE));
  b.begin();
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_KEY_SHARE)), LS_LOCKED);
  b.abort();
  a.commit();
}

TEST_F(RowLock, a_conflict_tells_whether_we_hold_a_lock_ourselves) {
  a.begin();
  b.begin();
  c.begin();
  TXN_ASSERT_OK(a.lock(table, 1, LS_LOCK_KEY_SHARE));
  TXN_ASSERT_OK(b.lock(table, 1, LS_LOCK_KEY_SHARE));
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_UPDATE)), LS_LOCKED);
  EXPECT_TRUE(b.conflict.holds_lock);
  EXPECT_EQ(code(c.lock(table, 1, LS_LOCK_UPDATE)), LS_LOCKED);
  EXPECT_FALSE(c.conflict.holds_lock);
  TXN_ASSERT_OK(a.update(table, 1, "two"));
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_SHARE)), LS_BEING_MODIFIED);
  EXPECT_TRUE(b.conflict.holds_lock);
  EXPECT_EQ(code(c.lock(table, 1, LS_LOCK_SHARE)), LS_BEING_MODIFIED);
  EXPECT_FALSE(c.conflict.holds_lock);
  a.abort();
  b.abort();
  c.abort();
}

// RLOCK-4
TEST_F(RowLock, key_share_moves_along) {
  b.begin();
  TXN_ASSERT_OK(b.lock(table, 1, LS_LOCK_KEY_SHARE));
  a.begin();
  EXPECT_EQ(code(a.move(table, 1, 2, "key changed", LS_LOCK_UPDATE)), LS_LOCKED);
  TXN_ASSERT_OK(a.move(table, 1, 2, "two"));
  EXPECT_EQ(code(a.remove(table, 2)), LS_LOCKED) << "even for who has moved it";
  TXN_ASSERT_OK(a.move(table, 2, 3, "three"));
  TXN_ASSERT_OK(a.update(table, 3, "four"));
  EXPECT_EQ(code(a.lock(table, 3, LS_LOCK_UPDATE)), LS_LOCKED);
  a.commit();
  c.begin();
  EXPECT_EQ(code(c.remove(table, 3)), LS_LOCKED);
  EXPECT_EQ(c.conflict.tn, b.tn());
  EXPECT_EQ(code(c.move(table, 3, 4, "key changed", LS_LOCK_UPDATE)), LS_LOCKED);
  TXN_ASSERT_OK(c.move(table, 3, 5, "five"));
  EXPECT_EQ(code(c.remove(table, 5)), LS_LOCKED);
  b.commit();
  TXN_EXPECT_OK(c.remove(table, 5));
  c.commit();
}

TEST_F(RowLock, key_share_follows_a_row_that_has_moved) {
  c.begin();
  auto old = c.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.move(table, 1, 2, "two"));
  b.begin();
  std::string data;
  for (const bool any_version : {false, true}) {
    TXN_EXPECT_OK(b.lock(table, 1, LS_LOCK_KEY_SHARE, &data, any_version));
    EXPECT_EQ(data, "one") << "the version that is committed";
  }
  EXPECT_EQ(code(a.remove(table, 2)), LS_LOCKED);
  EXPECT_FALSE(a.conflict.holds_lock);
  TXN_ASSERT_OK(a.move(table, 2, 3, "three"));
  a.commit();
  b.commit();
  // committed, but not for this snapshot
  TXN_EXPECT_OK(c.lock_with(table, old->s, 1, LS_LOCK_KEY_SHARE, &data));
  EXPECT_EQ(data, "one");
  EXPECT_FALSE(c.newer);
  EXPECT_EQ(code(c.lock_with(table, old->s, 1, LS_LOCK_KEY_SHARE, nullptr, true)), LS_UPDATED)
      << "any version is the row moved to";
  EXPECT_EQ(c.conflict.moved_to, 2u);
  a.begin();
  EXPECT_EQ(code(a.remove(table, 3)), LS_LOCKED);
  c.release(old);
  c.commit();
  TXN_EXPECT_OK(a.remove(table, 3));
  a.commit();
}

TEST_F(RowLock, key_share_meets_what_was_done_where_the_row_has_moved) {
  c.begin();
  auto old = c.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.move(table, 1, 2, "two"));
  const u32 savepoint = txn_savepoint(a.worker());
  TXN_ASSERT_OK(a.lock(table, 2, LS_LOCK_UPDATE));
  b.begin();
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_KEY_SHARE)), LS_LOCKED)
      << "a row inserted by the mover can be locked by it";
  EXPECT_TRUE(b.conflict.holds_lock);
  txn_rollback_to(a.worker(), savepoint);
  TXN_EXPECT_OK(b.lock(table, 1, LS_LOCK_KEY_SHARE));
  b.abort();
  TXN_ASSERT_OK(a.remove(table, 2));
  b.begin();
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_KEY_SHARE)), LS_BEING_MODIFIED);
  b.abort();
  a.commit();
  EXPECT_EQ(code(c.lock_with(table, old->s, 1, LS_LOCK_KEY_SHARE)), LS_DELETED);
  c.release(old);
  c.commit();
}

TEST_F(RowLock, a_move_rolled_back_leaves_the_locks) {
  a.begin();
  TXN_ASSERT_OK(a.move(table, 1, 2, "two"));
  b.begin();
  TXN_ASSERT_OK(b.lock(table, 1, LS_LOCK_KEY_SHARE));
  a.abort();
  a.begin();
  EXPECT_EQ(code(a.remove(table, 1)), LS_LOCKED);
  TXN_ASSERT_OK(a.move(table, 1, 3, "three"));
  EXPECT_EQ(code(a.remove(table, 3)), LS_LOCKED);
  b.commit();
  TXN_EXPECT_OK(a.remove(table, 3));
  a.commit();
}

TEST_F(RowLock, savepoint_rollback_releases_what_moved_along) {
  b.begin();
  const u32 savepoint = txn_savepoint(b.worker());
  TXN_ASSERT_OK(b.lock(table, 1, LS_LOCK_KEY_SHARE));
  a.begin();
  TXN_ASSERT_OK(a.move(table, 1, 2, "two"));
  TXN_ASSERT_OK(a.move(table, 2, 3, "three"));
  EXPECT_EQ(code(a.lock(table, 3, LS_LOCK_UPDATE)), LS_LOCKED);
  txn_rollback_to(b.worker(), savepoint);
  TXN_EXPECT_OK(a.lock(table, 3, LS_LOCK_UPDATE));
  a.commit();
  b.commit();
}

// RLOCK-3
TEST_F(RowLock, locks_of_ended_transactions_are_swept) {
  insert_rows(100, 300);
  a.begin();
  b.begin();
  for (u64 i = 100; i < 400; i++) TXN_ASSERT_OK((i % 2 ? a : b).lock(table, i, LS_LOCK_UPDATE));
  a.commit();
  RowLockTable locks(engine.own());
  LockSweep sweep;
  u64 removed = 0;
  TXN_ASSERT_OK(locks.sweep(&sweep, 1, &removed));
  EXPECT_TRUE(sweep.running) << "bounded";
  TXN_ASSERT_OK(locks.sweep(&sweep, 1000, &removed));
  EXPECT_FALSE(sweep.running);
  EXPECT_EQ(removed, 150u);
  b.commit();
  TXN_ASSERT_OK(locks.sweep(&sweep, 1000, &removed));
  EXPECT_EQ(removed, 300u);
  TXN_ASSERT_OK(locks.sweep(&sweep, 1000, &removed));
  EXPECT_FALSE(sweep.running) << "nothing new to look for";
}

TEST_F(RowLock, visitor_removes_stale_entries_and_the_flag_goes) {
  a.begin();
  TXN_ASSERT_OK(a.lock(table, 1, LS_LOCK_SHARE));
  a.commit();
  b.begin();
  TXN_ASSERT_OK(b.update(table, 1, "two"));
  b.commit();
  LockView view;
  TXN_EXPECT_OK(RowLockTable(c.worker()).look(table.file_no.load(), 1, LS_LOCK_UPDATE, &view));
  EXPECT_FALSE(view.any_live);
  ls_snapshot any{};
  any.kind = LS_SNAPSHOT_ANY;
  TXN_EXPECT_OK(c.fetch(table, 1, any, nullptr));
  EXPECT_FALSE(c.row.flags & LS_ROW_LOCKED);
}

// RLOCK-1
TEST_F(RowLock, tentative_entry_of_another_is_waited_out) {
  a.begin();
  TXN_ASSERT_OK(a.lock(table, 1, LS_LOCK_UPDATE));
  RowLockTable locks(a.worker());
  const FileNo file = table.file_no.load();
  LockValue value{LS_LOCK_UPDATE, LockState::kTentative, 0, 1};
  TXN_ASSERT_OK(locks.put(file, 1, a.tn(), value));
  b.begin();
  std::thread settle([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    value.state = LockState::kGranted;
    TXN_EXPECT_OK(locks.put(file, 1, a.tn(), value));
  });
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_UPDATE)), LS_LOCKED) << "not before it was known";
  settle.join();
  value.state = LockState::kTentative;
  TXN_ASSERT_OK(locks.put(file, 1, a.tn(), value));
  const int pending = 1;
  b.worker().ctx.interrupt = &pending;
  EXPECT_EQ(code(b.lock(table, 1, LS_LOCK_UPDATE)), LS_INTERRUPTED);
  b.worker().ctx.interrupt = nullptr;
  b.abort();
  a.abort();
}

}  // namespace
}  // namespace ls::txn_test
