// Snapshots that want newest versions only (SERIALIZABLE readers).
#include <cstring>

#include "txn/row_read.hpp"
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
  ls_status look(const ls_snapshot &s, u64 row_id) {
    return code(b.fetch(table, row_id, s, nullptr));
  }
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

// What a worker has noted of a leaf that it has changed is so until another one changes that.
TEST_F(RowReadTest, a_changed_leaf_is_known_until_its_frame_changes_again) {
  b.begin();
  TXN_ASSERT_OK(b.update(table, 3, "changed"));
  const BTree::LeafFinger *near = b.worker().last_leaves.of(table, 3);
  ASSERT_NE(near->leaf.frame, nullptr);
  EXPECT_EQ(near->leaf.version, near->leaf.frame->latch.version_wait());
  a.begin();
  TXN_ASSERT_OK(a.update(table, 2, "changed"));
  EXPECT_NE(near->leaf.version, near->leaf.frame->latch.version_wait());
  TXN_ASSERT_OK(a.insert(table, 9, "beside it"));
  a.commit();
  TXN_ASSERT_OK(b.update(table, 3, "again"));
  TXN_ASSERT_OK(b.update(table, 4, "changed"));
  EXPECT_EQ(b.read(table, 3), "again");
  b.commit();
}

// Rows far from each other, in turn.
TEST_F(RowReadTest, two_leaves_of_a_table_are_known) {
  a.begin();
  for (u64 row_id = 10; row_id < 3000; row_id++) TXN_ASSERT_OK(a.insert(table, row_id, "a row"));
  a.commit();
  Worker &w = b.worker();
  alignas(8) u8 copy[kPageSize];
  RowParts parts;
  u32 bytes;
  const auto look = [&](u64 row_id) {
    TXN_EXPECT_OK(copy_row(w, table, row_id, copy, &parts, &bytes));
    return w.last_leaves.of(table, row_id)->leaf.frame;
  };
  Frame *first = look(100), *other = look(2000);
  EXPECT_NE(first, other);
  for (u64 i = 1; i < 4; i++) {
    EXPECT_EQ(w.last_leaves.of(table, 100 + i)->leaf.frame, first);
    look(100 + i);
    EXPECT_EQ(w.last_leaves.of(table, 2000 + i)->leaf.frame, other);
    look(2000 + i);
  }
  look(1000);
  EXPECT_EQ(w.last_leaves.of(table, 2004)->leaf.frame, other) << "the one before the last";
  EXPECT_EQ(w.last_leaves.of(table, 104)->leaf.frame, nullptr);
}

// The frame has got a page of another table since.
TEST_F(RowReadTest, the_frame_of_a_leaf_that_was_changed_is_a_guess_only) {
  FileSlot &other = *engine.open("other");
  a.begin();
  TXN_ASSERT_OK(a.insert(other, 3, "another table's"));
  a.commit();
  EXPECT_EQ(a.read(other, 3), "another table's");
  Frame *frame = a.worker().last_leaves.of(other, 3)->leaf.frame;
  ASSERT_NE(frame, nullptr);
  b.begin();
  TXN_ASSERT_OK(b.update(table, 3, "changed"));
  const auto reuse = [&] {
    b.worker().last_leaves.of(table, 3)->leaf = {frame, frame->latch.version_wait() - 2};
  };
  reuse();
  alignas(8) u8 copy[kPageSize];
  RowParts parts;
  u32 bytes;
  TXN_EXPECT_OK(copy_row(b.worker(), table, 3, copy, &parts, &bytes));
  EXPECT_EQ(parts.payload.size(), std::strlen("changed"));
  reuse();
  RowLeaf leaf;
  TXN_ASSERT_OK(leaf.open(b.worker(), table, 3, 0));
  EXPECT_TRUE(leaf.found());
  EXPECT_EQ(leaf.payload().size(), std::strlen("changed"));
  leaf.close();
  b.commit();
}

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

// A look at the row by a snapshot that asks which transactions are active; each time it does that,
// the row's writer takes its change back and makes another one, `left` times.
struct Restless {
  Session &writer;
  FileSlot &table;
  u32 left;

  static bool is_active(const void *arg, Tn tn) {
    Restless &r = *static_cast<Restless *>(const_cast<void *>(arg));
    if (r.left > 0) {
      r.left--;
      txn_rollback_to(r.writer.worker(), 0);
      TXN_EXPECT_OK(r.writer.update(r.table, 2, "restless"));
    }
    return tn == r.writer.tn();
  }
  ls_status look(Session &reader, std::string *found) {
    auto s = reader.snapshot();
    s->s.kind = LS_SNAPSHOT_SELF;
    Viewer viewer = viewer_of(reader.worker(), s->s);
    viewer.active = {this, is_active};
    alignas(8) u8 copy[kPageSize], older[kPageSize];
    RowVersion version;
    RowHeader newest{};
    bool absent = false;
    const Status status =
        read_version(reader.worker(), table, viewer, 2, {copy, older}, &version, &newest, &absent);
    if (ok(status)) found->assign(version.payload.begin(), version.payload.end());
    reader.release(s);
    return code(status);
  }
};

TEST_F(RowReadTest, a_row_that_does_not_stand_still_is_no_damage) {
  a.begin();
  TXN_ASSERT_OK(a.update(table, 2, "new"));
  Restless restless{a, table, 3000};
  std::string found;
  EXPECT_EQ(restless.look(b, &found), LS_OK) << last_error().message;
  EXPECT_EQ(found, "old");
  EXPECT_EQ(restless.left, 0u);
}

TEST_F(RowReadTest, who_looks_at_a_row_that_does_not_stand_still_can_be_interrupted) {
  a.begin();
  TXN_ASSERT_OK(a.update(table, 2, "new"));
  Restless restless{a, table, ~0u};
  const volatile int interrupt = 1;
  b.worker().ctx.interrupt = &interrupt;
  std::string found;
  EXPECT_EQ(restless.look(b, &found), LS_INTERRUPTED);
  b.worker().ctx.interrupt = nullptr;
}

TEST_F(RowReadTest, a_version_that_is_missing_while_the_row_stands_still_is) {
  a.begin();
  TXN_ASSERT_OK(a.update(table, 2, "new"));
  const u32 seq = a.worker().next_seq - 1;
  alignas(8) u8 leaf[kPageSize];
  const VersionEntry *entry;
  VersionStore versions = version_store(a.worker(), a.tn());
  TXN_ASSERT_OK(versions.get({a.tn(), seq}, leaf, &entry));
  const VersionEntry kept = *entry;
  const std::string payload(reinterpret_cast<const char *>(leaf) + sizeof kept, kept.payload_bytes);
  TXN_ASSERT_OK(versions.remove({a.tn(), seq}));
  Restless standing{a, table, 0};
  std::string found;
  EXPECT_EQ(standing.look(b, &found), LS_CORRUPT);
  TXN_ASSERT_OK(versions.put({a.tn(), seq}, kept,
                             Bytes(reinterpret_cast<const u8 *>(payload.data()), payload.size())));
  EXPECT_EQ(standing.look(b, &found), LS_OK);
  EXPECT_EQ(found, "old");
}

}  // namespace
}  // namespace ls::txn_test
