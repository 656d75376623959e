// Log records of removed entries: both forms, and the transaction that dates them for standbys.
#include <random>

#include "unit/index/removal_log.hpp"

namespace ls::txn_test {
namespace {

class RemovalRecord : public ::testing::Test {
 protected:
  RemovalRecord() { fill(); }
  void fill() {
    std::memset(page_, 0, sizeof page_);
    node()->header.kind = PageKind::kLeaf;
    node()->init(true, 0, {}, {}, false);
    for (u64 i = 0; i < 5; i++) {
      const std::string key = key_bytes(i);
      node()->insert(EntryKey(bytes_of(key), 100 + i), {});
    }
  }
  Node *node() { return reinterpret_cast<Node *>(page_); }
  std::vector<u64> rows() {
    std::vector<u64> found;
    for (u16 pos = 0; pos < node()->count; pos++) {
      u8 key[kMaxKeyBytes];
      found.push_back(entry_row_id(Bytes(key, node()->copy_key(pos, key))));
    }
    return found;
  }
  static std::vector<u8> operands(std::initializer_list<u16> numbers, std::vector<u8> front = {}) {
    for (u16 n : numbers) {
      front.push_back(static_cast<u8>(n));
      front.push_back(static_cast<u8>(n >> 8));
    }
    return front;
  }
  static std::vector<u8> number(u64 n) {
    std::vector<u8> bytes(kMaxVarintBytes);
    bytes.resize(put_varint(bytes.data(), n));
    return bytes;
  }
  ls_status redo(u8 op, const std::vector<u8> &bytes) {
    return code(index_redo(op, Bytes(bytes), page_));
  }

  alignas(8) u8 page_[kPageSize];
};

TEST_F(RemovalRecord, both_forms_are_redone) {
  EXPECT_EQ(redo(kIndexRemove, operands({5, 1, 4})), LS_OK);
  EXPECT_EQ(rows(), (std::vector<u64>{100, 102, 103}));
  fill();
  for (const Tn tn : {Tn{0}, Tn{127}, Tn{128}, kMaxTn}) {
    EXPECT_EQ(redo(kIndexRemoveDated, operands({node()->count, 0}, number(tn))), LS_OK) << tn;
  }
  EXPECT_EQ(rows(), (std::vector<u64>{104}));
}

TEST_F(RemovalRecord, damaged_ones_are_refused) {
  for (const u8 op : {u8{kIndexRemove}, u8{kIndexRemoveDated}}) {
    const std::vector<u8> front = op == kIndexRemove ? std::vector<u8>{} : number(300);
    EXPECT_EQ(redo(op, {}), LS_CORRUPT);
    EXPECT_EQ(redo(op, front), LS_CORRUPT);
    EXPECT_EQ(redo(op, operands({4, 1}, front)), LS_CORRUPT) << "of another leaf";
    EXPECT_EQ(redo(op, operands({5, 5}, front)), LS_CORRUPT);
    EXPECT_EQ(redo(op, operands({5, 2, 2}, front)), LS_CORRUPT);
  }
  EXPECT_EQ(redo(kIndexRemoveDated, operands({5, 1}, number(kMaxTn + 1))), LS_CORRUPT);
  EXPECT_EQ(redo(kIndexRemoveDated, {0x80, 0x80}), LS_CORRUPT);
  EXPECT_EQ(rows().size(), 5u);
}

TEST_F(RemovalRecord, tells_its_date) {
  Tn newest = 1;
  EXPECT_TRUE(index_removal_newest(kIndexRemove, Bytes(operands({5, 1})), &newest));
  EXPECT_EQ(newest, kMaxTn) << "an earlier build has not written it";
  for (const Tn tn : {Tn{0}, Tn{5000}, kMaxTn}) {
    EXPECT_TRUE(index_removal_newest(kIndexRemoveDated, Bytes(operands({5, 1}, number(tn))),
                                     &newest));
    EXPECT_EQ(newest, tn);
  }
  EXPECT_FALSE(index_removal_newest(kIndexInsert, Bytes(operands({5, 1})), &newest));
  EXPECT_FALSE(index_removal_newest(kIndexStale, {}, &newest));
  EXPECT_FALSE(index_removal_newest(kIndexRemoveDated, Bytes(number(kMaxTn + 1)), &newest));
  EXPECT_FALSE(index_removal_newest(kIndexRemoveDated, {}, &newest));
}

// Whatever the bytes: an error, or a change; the page stays one.
TEST_F(RemovalRecord, random_operands_do_no_harm) {
  std::mt19937_64 random{19};
  for (int round = 0; round < 20000; round++) {
    if (node()->count < 2) fill();
    std::vector<u8> bytes = operands({node()->count, static_cast<u16>(random() % 6)},
                                     number(random() >> random() % 64));
    if (random() % 2) bytes[random() % bytes.size()] = static_cast<u8>(random());
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    (void)redo(random() % 2 ? kIndexRemove : kIndexRemoveDated, bytes);
    ASSERT_EQ(node()->verify(), nullptr) << "round " << round;
  }
}

class IndexRemovalTest : public ::testing::Test, protected IndexedTable {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1};

  void fill(u64 n) {
    a.begin();
    for (u64 i = 1; i <= n; i++) insert(a, i, i);
    a.commit(true);
  }
  Tn in_transaction(Session &s, const std::function<void()> &work) {
    s.begin();
    work();
    const Tn tn = s.tn();
    s.commit(true);
    host.publish_horizon();
    return tn;
  }
  Tn delete_rows(Session &s, const std::vector<u64> &rows) {
    return in_transaction(s, [&] {
      for (u64 row : rows) TXN_EXPECT_OK(s.remove(table, row));
    });
  }
  // Of each record, in their order.
  std::vector<Tn> dates() {
    std::vector<Tn> found;
    for (const LogEvent &e : RemovalLog(engine, table, index).removals()) found.push_back(e.tn);
    return found;
  }
};

TEST_F(IndexRemovalTest, ghosts_of_one_transaction_are_dated_by_it) {
  fill(3);
  const Tn deleter = delete_rows(b, {1, 3});
  in_transaction(a, [&] { insert(a, 9, 9); });
  sweep(a);
  EXPECT_EQ(dates(), (std::vector<Tn>{deleter}));
}

TEST_F(IndexRemovalTest, ghosts_of_several_are_dated_by_the_greatest) {
  fill(4);
  a.begin();
  b.begin();
  const Tn first = a.tn(), second = b.tn();
  // the smaller number ends last, and comes last in the leaf
  TXN_EXPECT_OK(b.remove(table, 1));
  b.commit(true);
  TXN_EXPECT_OK(a.remove(table, 4));
  a.commit(true);
  host.publish_horizon();
  sweep(a);
  EXPECT_LT(first, second);
  EXPECT_EQ(dates(), (std::vector<Tn>{second}));
}

TEST_F(IndexRemovalTest, an_entry_named_by_the_host_is_dated_by_its_row) {
  fill(3);
  const Tn first = delete_rows(a, {1});
  const Tn second = delete_rows(b, {2});
  remove_entry(a, 2, 2);
  remove_entry(a, 1, 1);
  // of a row that is there the host alone knows why
  remove_entry(a, 3, 3);
  EXPECT_EQ(dates(), (std::vector<Tn>{second, first, kMaxTn}));
}

// IREM-1
TEST_F(IndexRemovalTest, a_row_that_is_gone_is_logged_before_its_entries) {
  fill(4);
  delete_rows(a, {1, 2});
  purge(a, 1);
  b.begin();
  insert(b, 5, 5);
  b.abort();
  host.publish_horizon();
  remove_entry(a, 2, 2);
  sweep(a);
  const RemovalLog log(engine, table, index);
  std::set<u64> gone;
  u32 entries = 0;
  for (const LogEvent &e : log.events()) {
    if (e.kind == LogEvent::Kind::kRowsRemoved) gone.insert(e.rows.begin(), e.rows.end());
    if (e.kind != LogEvent::Kind::kEntriesRemoved) continue;
    EXPECT_EQ(e.tn, 0u);
    for (const IndexedRow &entry : e.entries) EXPECT_TRUE(gone.contains(entry.row_id));
    entries += static_cast<u32>(e.entries.size());
  }
  EXPECT_EQ(entries, 3u);
}

TEST_F(IndexRemovalTest, of_ghosts_and_rows_that_are_gone_the_ghosts_count) {
  fill(3);
  delete_rows(a, {1});
  purge(a, 1);
  const Tn deleter = delete_rows(b, {3});
  sweep(a);
  EXPECT_EQ(dates(), (std::vector<Tn>{deleter}));
}

TEST_F(IndexRemovalTest, a_stale_entry_is_dated_by_the_newest_version) {
  fill(1);
  in_transaction(a, [&] { rekey(a, 20, 1); });
  const Tn newest = in_transaction(b, [&] { rekey(b, 30, 1); });
  EXPECT_FALSE(remove_stale(a, 30, 1));
  EXPECT_TRUE(remove_stale(a, 1, 1));
  const Tn deleter = delete_rows(a, {1});
  EXPECT_TRUE(remove_stale(a, 20, 1));
  purge(a, 1);
  EXPECT_TRUE(remove_stale(a, 30, 1));
  EXPECT_EQ(dates(), (std::vector<Tn>{newest, deleter, 0}));
}

// What cannot be read back is not written.
TEST_F(IndexRemovalTest, there_are_no_greater_numbers) {
  fill(1);
  const std::string key = key_bytes(1);
  BTree::PageStamp seen;
  TXN_ASSERT_OK(index_look(a.worker(), index, bytes_of(key), 1, &seen));
  bool removed = true;
  EXPECT_EQ(code(index_remove_seen(a.worker(), index, {bytes_of(key), 1, seen, kMaxTn + 1},
                                   &removed)),
            LS_INVALID);
  EXPECT_FALSE(removed);
  TXN_EXPECT_OK(index_remove_seen(a.worker(), index, {bytes_of(key), 1, seen, kMaxTn}, &removed));
  EXPECT_TRUE(removed);
}

}  // namespace
}  // namespace ls::txn_test
