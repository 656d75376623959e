// The cleaner removes what is below the horizon, and nothing that a snapshot needs.
#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

class Cleaner : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1};
  u64 clean() {
    u64 removed = 0, all = 0;
    host.publish_horizon();
    do {
      TXN_EXPECT_OK(clean_round(engine.own(), &removed));
      all += removed;
    } while (removed > 0);
    return all;
  }
  u64 version_entries() {
    u64 entries = 0;
    for (u32 i = 0; i < engine.txns().version_trees; i++)
      entries += engine.verify(engine.pool().file(engine.txns().version_file[i]));
    return entries;
  }
};

TEST_F(Cleaner, keeps_what_an_old_snapshot_needs_and_then_removes_it) {
  a.begin();
  for (u64 i = 1; i <= 300; i++) TXN_ASSERT_OK(a.insert(table, i, "first"));
  a.commit();
  auto old = b.snapshot();
  const auto before = b.scan(table, old->s);
  a.begin();
  for (u64 i = 1; i <= 300; i++)
    TXN_ASSERT_OK(i % 2 ? a.update(table, i, "second") : a.remove(table, i, i));
  a.commit();
  EXPECT_EQ(clean(), 0u);
  EXPECT_EQ(b.scan(table, old->s), before);
  b.release(old);
  EXPECT_EQ(clean(), 300u);
  EXPECT_EQ(version_entries(), 0u);
  EXPECT_EQ(engine.verify(table), 150u) << "ghosts are gone";
  EXPECT_EQ(engine.txns().ghosts_removed.load(), 150u);
  EXPECT_EQ(b.contents(table).size(), 150u);
}

// A transaction has made all rows of a table shorter, and the page providers name every leaf of it.
// The cleaner merges leaves only when no rollback can make the rows long again.
class CleanerOfSparseLeaves : public Cleaner {
 protected:
  static constexpr u64 kRows = 1000;

  void SetUp() override {
    Cleaner::SetUp();
    a.begin();
    for (u64 i = 1; i <= kRows; i++) TXN_ASSERT_OK(a.insert(table, i, std::string(300, 'l')));
    a.commit();
  }
  void shorten() {
    a.begin();
    for (u64 i = 1; i <= kRows; i++) TXN_ASSERT_OK(a.update(table, i, "short"));
  }
  // Leaves given back by it.
  u64 merge() {
    BufferPool &pool = engine.pool();
    const u64 before = pool.stats().merges;
    for (u32 i = 0; i < EngineConfig().frames; i++) {
      const Frame &frame = *pool.frame(i);
      if (frame.file_slot.load() == table.index) pool.shared()->sparse_leaves.put(i);
    }
    u64 removed;
    TXN_EXPECT_OK(clean_round(engine.own(), &removed));
    return pool.stats().merges - before;
  }
};

TEST_F(CleanerOfSparseLeaves, waits_for_a_commit) {
  shorten();
  EXPECT_EQ(merge(), 0u);
  a.commit();
  EXPECT_GT(merge(), 10u);
  EXPECT_EQ(b.contents(table).size(), kRows);
}

TEST_F(CleanerOfSparseLeaves, leaves_their_room_to_a_rollback) {
  shorten();
  EXPECT_EQ(merge(), 0u);
  const u64 splits = engine.pool().stats().splits;
  a.abort();
  EXPECT_EQ(engine.pool().stats().splits, splits);
  EXPECT_EQ(b.contents(table).size(), kRows);
}

// Old readers make a hot row keep the versions that they see and a few more, however often it
// changes.
TEST_F(Cleaner, the_middle_of_a_hot_rows_chain_goes_while_readers_are_open) {
  a.begin();
  for (u64 i = 1; i <= 20; i++) TXN_ASSERT_OK(a.insert(table, i, "first"));
  a.commit();
  std::vector<decltype(b.snapshot())> readers;
  std::vector<std::map<u64, std::string>> seen;
  constexpr int kReaders = 3, kChanges = 1000;
  for (int reader = 0; reader < kReaders; reader++) {
    readers.push_back(b.snapshot());
    seen.push_back(b.scan(table, readers.back()->s));
    for (int change = 0; change < kChanges; change++) {
      host.publish_horizon();
      a.begin();
      TXN_ASSERT_OK(a.update(table, 7, "change " + std::to_string(reader * kChanges + change)));
      if (change % 10 == 9) {
        a.abort();
      } else {
        a.commit();
      }
    }
  }
  EXPECT_LT(version_entries(), 100u);
  for (int reader = 0; reader < kReaders; reader++) {
    EXPECT_EQ(b.scan(table, readers[reader]->s), seen[reader]);
    EXPECT_EQ(b.scan(table, readers[reader]->s, true), seen[reader]);
    b.release(readers[reader]);
  }
  (void)clean();
  EXPECT_EQ(version_entries(), 0u);
  EXPECT_EQ(b.contents(table).at(7), "change " + std::to_string(kReaders * kChanges - 2));
}

// A queue under old readers: what has come and gone between them leaves nothing behind.
// GONE-3
TEST_F(Cleaner, rows_born_and_deleted_while_readers_are_open_go) {
  constexpr u64 kLength = 40, kTurns = 400;
  u64 first = 1, next = 1;
  auto put = [&] { TXN_ASSERT_OK(a.insert(table, next++, "job")); };
  a.begin();
  while (next <= kLength) put();
  a.commit();
  std::vector<decltype(b.snapshot())> readers;
  std::vector<std::map<u64, std::string>> seen;
  for (int reader = 0; reader < 2; reader++) {
    readers.push_back(b.snapshot());
    seen.push_back(b.scan(table, readers.back()->s));
    for (u64 turn = 0; turn < kTurns; turn++) {
      a.begin();
      put();
      if (turn % 3 == 0) TXN_ASSERT_OK(a.update(table, next - 1, "changed"));
      TXN_ASSERT_OK(a.remove(table, first++));
      if (turn % 7 == 0) {
        a.abort();
        first--;
        next--;
      } else {
        a.commit();
      }
      if (turn % 20 == 0) clean();
    }
    clean();
  }
  EXPECT_EQ(engine.verify(table), 3 * kLength) << "those of the readers, and the queue";
  EXPECT_LE(version_entries(), 3 * kLength)
      << "a deletion for each that is seen, and updates of what is still there";
  for (size_t i = 0; i < readers.size(); i++) {
    EXPECT_EQ(b.scan(table, readers[i]->s), seen[i]);
    EXPECT_EQ(b.scan(table, readers[i]->s, true), seen[i]);
    b.release(readers[i]);
  }
  clean();
  EXPECT_EQ(engine.verify(table), kLength);
  EXPECT_EQ(version_entries(), 0u);
  EXPECT_EQ(b.contents(table).size(), kLength);
}

TEST_F(Cleaner, a_row_that_one_of_the_readers_sees_stays) {
  auto before = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "first"));
  a.commit();
  auto between = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.update(table, 1, "second"));
  a.commit();
  a.begin();
  TXN_ASSERT_OK(a.remove(table, 1));
  a.commit();
  EXPECT_EQ(clean(), 0u);
  bool dead = true;
  auto now = b.snapshot();
  std::string data;
  EXPECT_EQ(code(b.fetch(table, 1, now->s, &data, &dead)), LS_NOT_FOUND);
  EXPECT_FALSE(dead);
  b.release(now);
  EXPECT_EQ(b.read_with(table, 1, between->s), "first");
  EXPECT_EQ(b.read_with(table, 1, before->s), "-");
  b.release(between);
  host.publish_horizon();
  EXPECT_EQ(code(b.fetch(table, 1, before->s, &data, &dead)), LS_NOT_FOUND);
  EXPECT_TRUE(dead);
  clean();
  EXPECT_EQ(engine.verify(table), 0u);
  EXPECT_EQ(version_entries(), 0u);
  b.release(before);
}

// The reader's row has moved: what it has moved to may be gone, but not what leads on.
TEST_F(Cleaner, a_row_on_the_way_from_one_that_a_reader_sees_stays) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "one"));
  a.commit();
  auto reader = b.snapshot();
  for (u64 id = 1; id < 3; id++) {
    a.begin();
    TXN_ASSERT_OK(a.move(table, id, id + 1, "next"));
    a.commit();
  }
  clean();
  EXPECT_EQ(engine.verify(table), 3u);
  b.begin();
  TXN_EXPECT_OK(b.lock_with(table, reader->s, 1, LS_LOCK_KEY_SHARE));
  EXPECT_EQ(code(a.remove(table, 3)), LS_INVALID) << "no transaction";
  a.begin();
  EXPECT_EQ(code(a.remove(table, 3)), LS_LOCKED);
  a.abort();
  b.commit();
  a.begin();
  TXN_ASSERT_OK(a.remove(table, 3));
  a.commit();
  clean();
  EXPECT_EQ(engine.verify(table), 2u) << "the end has gone";
  b.begin();
  EXPECT_EQ(code(b.lock_with(table, reader->s, 1, LS_LOCK_KEY_SHARE)), LS_DELETED);
  b.abort();
  EXPECT_EQ(b.read_with(table, 1, reader->s), "one");
  b.release(reader);
  clean();
  EXPECT_EQ(engine.verify(table), 0u);
}

// The host does not list it any more, and what it has deleted is not back yet.
TEST_F(Cleaner, a_deletion_being_undone_is_none) {
  auto reader = b.snapshot();
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "row"));
  a.commit();
  a.begin();
  TXN_ASSERT_OK(a.remove(table, 1));
  host.abort(a.tn());
  EXPECT_EQ(clean(), 0u);
  txn_abort(a.worker());
  clean();
  EXPECT_EQ(b.contents(table), (std::map<u64, std::string>{{1, "row"}}));
  b.release(reader);
}

TEST_F(Cleaner, undo_of_transactions_that_have_ended_goes_while_a_reader_is_open) {
  auto reader = b.snapshot();
  a.begin();
  for (u64 i = 1; i <= 200; i++) TXN_ASSERT_OK(a.insert(table, i * 2, "apart"));
  Session c{engine, host, 2};
  c.begin();
  for (u64 i = 1; i <= 50; i++) TXN_ASSERT_OK(c.insert(table, 1000 + i * 2, "apart"));
  a.commit();
  clean();
  EXPECT_GE(version_entries(), 49u) << "of the one that is running";
  EXPECT_LE(version_entries(), 50u);
  c.abort();
  clean();
  EXPECT_EQ(version_entries(), 0u);
  EXPECT_EQ(b.contents(table).size(), 200u);
  b.release(reader);
}

TEST_F(Cleaner, leaves_running_and_aborting_transactions_alone) {
  a.begin();
  for (u64 i = 1; i <= 50; i++) TXN_ASSERT_OK(a.insert(table, i, "first"));
  a.commit();
  a.begin();
  for (u64 i = 1; i <= 50; i++) TXN_ASSERT_OK(a.remove(table, i));
  // The host has forgotten it, the engine has not undone it yet.
  engine.txns().horizon.store(a.tn() + 10);
  u64 removed = 0;
  TXN_ASSERT_OK(clean_round(engine.own(), &removed));
  EXPECT_EQ(removed, 0u);
  a.abort();
  EXPECT_EQ(b.contents(table).size(), 50u);
}

TEST_F(Cleaner, does_nothing_while_it_is_paused) {
  a.begin();
  for (u64 i = 1; i <= 50; i++) TXN_ASSERT_OK(a.insert(table, i, "first"));
  a.commit();
  a.begin();
  for (u64 i = 1; i <= 50; i++) TXN_ASSERT_OK(a.remove(table, i));
  a.commit();
  {
    CleanerPause pause(engine.txns());
    TXN_ASSERT_OK(pause.wait(nullptr));
    EXPECT_EQ(clean(), 0u);
    CleanerPause second(engine.txns());
    TXN_ASSERT_OK(second.wait(nullptr));
  }
  engine.txns().cleaner_busy.store(1);
  {
    CleanerPause pause(engine.txns());
    const volatile int interrupt = 1;
    EXPECT_EQ(code(pause.wait(&interrupt)), LS_INTERRUPTED) << "a round is under way";
  }
  engine.txns().cleaner_busy.store(0);
  EXPECT_EQ(clean(), 50u);
  EXPECT_EQ(engine.verify(table), 0u);
}

TEST_F(Cleaner, empties_the_version_trees_over_many_transactions) {
  a.begin();
  for (u64 i = 1; i <= 20; i++) TXN_ASSERT_OK(a.insert(table, i, std::string(200, 'x')));
  a.commit();
  for (int round = 0; round < 300; round++) {
    a.begin();
    for (u64 i = 1; i <= 20; i++)
      TXN_ASSERT_OK(a.update(table, i, std::string(200, static_cast<char>('a' + round % 26))));
    round % 3 == 0 ? a.abort() : a.commit();
    if (round % 10 == 0) clean();
  }
  clean();
  EXPECT_EQ(version_entries(), 0u);
  for (u32 i = 0; i < engine.txns().version_trees; i++) {
    BTree tree(engine.own().ctx, engine.pool().file(engine.txns().version_file[i]));
    BTree::CheckResult result{};
    TXN_EXPECT_OK(tree.verify(&result, nullptr, nullptr));
    EXPECT_LT(result.leaf_pages, 4u) << "pages are given back, those emptied by rollback too";
  }
}

TEST_F(Cleaner, entries_of_a_dropped_table_are_skipped) {
  FileSlot &dropped = *engine.open("dropped");
  a.begin();
  for (u64 i = 1; i <= 10; i++) TXN_ASSERT_OK(a.insert(dropped, i, "x"));
  a.commit();
  a.begin();
  for (u64 i = 1; i <= 10; i++) TXN_ASSERT_OK(a.remove(dropped, i));
  a.commit();
  engine.pool().forget_file(engine.key_of("dropped"));
  clean();
  EXPECT_EQ(version_entries(), 0u);
}

}  // namespace
}  // namespace ls::txn_test
