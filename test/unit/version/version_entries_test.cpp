// The entries of running transactions and of rows: left alone by all that goes on beside them.
#include "txn/row_read.hpp"
#include "unit/txn/txn_fixture.hpp"
#include "version/version_store.hpp"

namespace ls::txn_test {
namespace {

class VersionEntriesTest : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1};

  void clean() {
    host.publish_horizon();
    for (u64 removed = 1; removed > 0;) TXN_ASSERT_OK(clean_round(engine.own(), &removed));
  }
  // Their operations and bytes, by sequence number.
  std::map<u32, std::string> entries_of(Tn tn) {
    std::map<u32, std::string> found;
    VersionStore store = version_store(engine.own(), tn);
    TXN_EXPECT_OK(store.for_each(
        tn, &found, [](void *arg, u32 seq, const VersionEntry &entry, Bytes payload) {
          std::string all(reinterpret_cast<const char *>(&entry), sizeof entry);
          all.append(reinterpret_cast<const char *>(payload.data()), payload.size());
          (*static_cast<std::map<u32, std::string> *>(arg))[seq] = all;
          return kOk;
        }));
    return found;
  }
  RowHeader header_of(u64 row_id) {
    alignas(8) u8 copy[kPageSize];
    RowParts parts;
    u32 bytes;
    TXN_EXPECT_OK(copy_row(engine.own(), table, row_id, copy, &parts, &bytes));
    return parts.header;
  }
  void expect_entry(const RowHeader &of, const RowHeader &previous, const std::string &text) {
    alignas(8) u8 out[kPageSize];
    const VersionEntry *entry = nullptr;
    VersionStore store = version_store(engine.own(), of.tn());
    TXN_ASSERT_OK(store.get({of.tn(), of.seq}, out, &entry));
    EXPECT_TRUE(entry->previous.same(previous));
    EXPECT_EQ(std::string(reinterpret_cast<const char *>(out + sizeof *entry),
                          entry->payload_bytes),
              text);
  }
};

// VER-1
TEST_F(VersionEntriesTest, those_of_a_running_transaction_are_its_own) {
  constexpr u64 kRows = 10;
  a.begin();
  for (u64 row = 1; row <= kRows; row++) TXN_ASSERT_OK(a.insert(table, row, "first"));
  a.commit();
  const auto before = b.contents(table);

  a.begin();
  const Tn tn = a.tn();
  TXN_ASSERT_OK(a.insert(table, 100, "new"));
  TXN_ASSERT_OK(a.update(table, 1, "second"));
  TXN_ASSERT_OK(a.update(table, 1, "third"));
  TXN_ASSERT_OK(a.remove(table, 2));
  TXN_ASSERT_OK(a.lock(table, 3, LS_LOCK_UPDATE));
  (void)txn_savepoint(a.worker());   // the range of insertions gets its entry
  TXN_ASSERT_OK(a.insert(table, 101, "new"));
  const auto own = entries_of(tn);
  ASSERT_GE(own.size(), 5u);
  for (u64 round = 0; round < 200; round++) {
    b.begin();
    for (u64 row = 4; row <= kRows; row++) TXN_ASSERT_OK(b.update(table, row, "changed"));
    TXN_ASSERT_OK(b.insert(table, 200 + round, "another"));
    TXN_ASSERT_OK(b.remove(table, 200 + round));
    b.abort();
    if (round % 10 == 0) clean();
  }
  EXPECT_EQ(entries_of(tn), own);
  a.abort();
  EXPECT_EQ(b.contents(table), before);
  clean();
  EXPECT_TRUE(entries_of(tn).empty());
}

// VER-2
TEST_F(VersionEntriesTest, what_an_entry_says_stays_while_a_row_points_to_it) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "0"));
  TXN_ASSERT_OK(a.insert(table, 2, "0"));
  a.commit();
  // Keeps the horizon low, so that chains are cut in their middle.
  auto old = a.snapshot();
  std::string text = "0";
  for (u32 i = 1; i <= 300; i++) {
    const RowHeader previous = header_of(1);
    const std::string next = std::to_string(i);
    host.publish_horizon();
    b.begin();
    TXN_ASSERT_OK(b.update(table, 1, next, i % 3 ? LS_LOCK_NO_KEY_UPDATE : LS_LOCK_UPDATE));
    const RowHeader now = header_of(1);
    expect_entry(now, previous, text);
    b.commit();
    b.begin();
    TXN_ASSERT_OK(b.update(table, 2, next));
    b.commit();
    if (i % 20 == 0) clean();
    expect_entry(now, previous, text);
    text = next;
  }
  EXPECT_GT(engine.txns().versions_removed.load(), 200u) << "chains were cut";
  EXPECT_EQ(b.read_with(table, 1, old->s), "0");
  a.release(old);
}

}  // namespace
}  // namespace ls::txn_test
