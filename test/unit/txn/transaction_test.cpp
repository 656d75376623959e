// Transactions in the log and in the table of active ones.
#include <cstring>

#include "unit/txn/txn_fixture.hpp"
#include "unit/wal/log_image.hpp"

namespace ls::txn_test {
namespace {

class Transaction : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1};
  LogImage log_image() {
    EXPECT_TRUE(engine.log().wait_hardened(engine.log().last_gsn(), nullptr));
    LogImage image;
    EXPECT_TRUE(ok(read_log((engine.path() + "/wal").c_str(), 4 << 20, 0, 0, image)))
        << last_error().message;
    return image;
  }
  // Kinds of the records of slot 0, in order.
  std::vector<RecordKind> records() {
    const LogImage image = log_image();
    std::vector<RecordKind> kinds;
    for (const LogEntry &e : image.entries) {
      if (e.slot == 0) kinds.push_back(e.record().kind);
    }
    return kinds;
  }
};
using K = std::vector<RecordKind>;

TEST_F(Transaction, logs_begin_lazily_and_commit_once) {
  a.begin();
  a.commit();
  EXPECT_EQ(records(), K{}) << "nothing was changed";
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "x"));
  TXN_ASSERT_OK(a.update(table, 1, "y"));
  a.commit(true);
  EXPECT_EQ(records(), (K{RecordKind::kFirstRow, RecordKind::kRow, RecordKind::kCommit}));
}

// Of the shape of pgbench's tpcb-like: three numbers changed in rows of 100 bytes, a row inserted.
TEST_F(Transaction, a_short_transaction_takes_little_log) {
  std::string row(100, 'r');
  a.begin();
  for (u64 id = 1; id <= 3; id++) TXN_ASSERT_OK(a.insert(table, id, row));
  a.commit(true);
  const Gsn before = engine.log().last_gsn();
  row.replace(10, 4, "1234");
  a.begin();
  for (u64 id = 1; id <= 3; id++) TXN_ASSERT_OK(a.update(table, id, row));
  TXN_ASSERT_OK(a.insert(table, 4, std::string(27, 'h')));
  a.commit(true);
  const LogImage image = log_image();
  u32 bytes = 0, records = 0;
  for (const LogEntry &e : image.entries) {
    if (e.slot != 0 || e.gsn <= before) continue;
    bytes += e.record().bytes;
    records++;
  }
  EXPECT_EQ(records, 5u);
  EXPECT_LE(bytes, 120u) << "200 with numbers of fixed width";
}

TEST_F(Transaction, abort_logs_compensations_and_its_end) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "x"));
  a.abort();
  EXPECT_EQ(records(), (K{RecordKind::kFirstRow, RecordKind::kSystem, RecordKind::kAborted}));
}

TEST_F(Transaction, prepared_commit) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "x"));
  TXN_ASSERT_OK(txn_prepare_commit(a.worker(), 4711));
  EXPECT_EQ(engine.log().hardened(), engine.log().last_gsn());
  EXPECT_TRUE(tn_is_active(engine.txns(), a.tn()));
  host.end(a.tn());
  EXPECT_GT(txn_commit(a.worker()), 0u);
  EXPECT_EQ(records(), (K{RecordKind::kFirstRow, RecordKind::kPrepared, RecordKind::kCommit}));
  EXPECT_EQ(b.read(table, 1), "x");
}

TEST_F(Transaction, a_commit_that_has_begun_holds_no_place_in_the_order) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "x"));
  TXN_ASSERT_OK(txn_reserve_commit(a.worker()));
  b.begin();
  TXN_ASSERT_OK(b.insert(table, 2, "y"));
  b.commit(true);
  a.abort();
  EXPECT_EQ(b.read(table, 1), "-");
}

TEST_F(Transaction, numbers_end_with_an_error) {
  EXPECT_EQ(code(txn_begin(a.worker(), kTnEnd)), LS_NO_TNS);
  EXPECT_EQ(code(txn_begin(a.worker(), kMaxTn + 1)), LS_NO_TNS);
  EXPECT_EQ(a.worker().tn, 0u);
  a.begin();
  TXN_EXPECT_OK(a.insert(table, 1, "x"));
  a.commit();
}

// TXN-1
TEST_F(Transaction, is_active_until_it_has_ended) {
  a.begin();
  const Tn tn = a.tn();
  EXPECT_TRUE(tn_is_active(engine.txns(), tn));
  EXPECT_FALSE(tn_is_active(engine.txns(), tn + 1));
  EXPECT_FALSE(tn_is_active(engine.txns(), 0));
  TXN_EXPECT_OK(txn_begin(a.worker(), tn));  // idempotent
  EXPECT_EQ(code(txn_begin(a.worker(), tn + 1)), LS_INVALID);
  EXPECT_EQ(code(txn_begin(b.worker(), kFirstTn - 1)), LS_INVALID)
      << "below the base: committed by definition";
  b.begin();
  Tn tns[4];
  EXPECT_EQ(active_tns(engine.txns(), tns, 4), 2u);
  EXPECT_EQ(active_tns(engine.txns(), tns, 1), 2u) << "more than there is room for";
  EXPECT_EQ(settled_below(engine.txns()), kFirstTn);
  engine.txns().horizon.store(tn + 100);
  EXPECT_EQ(settled_below(engine.txns()), tn);
  a.commit();
  EXPECT_FALSE(tn_is_active(engine.txns(), tn));
  b.commit();
  EXPECT_EQ(settled_below(engine.txns()), tn + 100);
}

// However many parts there are, each change knows its own, from before others can see it.
TEST_F(Transaction, each_change_knows_the_part_that_made_it) {
  constexpr u32 kParts = 100;
  auto part_of_row = [&](u64 row_id) {
    alignas(8) u8 copy[kPageSize];
    RowParts parts;
    u32 bytes, part = ~u32{0};
    TXN_EXPECT_OK(copy_row(b.worker(), table, row_id, copy, &parts, &bytes));
    TXN_EXPECT_OK(change_part(b.worker(), parts.header.tn(), parts.header.seq, &part));
    return part;
  };
  a.begin();
  for (u64 row_id = 1; row_id <= 3 * kParts; row_id++)
    TXN_ASSERT_OK(a.insert(table, row_id, "before"));
  a.commit();
  a.begin();
  u32 savepoint = 0;
  for (u32 i = 1; i <= kParts; i++) {
    savepoint = txn_savepoint(a.worker());
    txn_set_part(a.worker(), 1000 + i);
    TXN_ASSERT_OK(a.update(table, i, "updated"));
    TXN_ASSERT_OK(a.remove(table, kParts + i));
    TXN_ASSERT_OK(a.insert(table, 1000 + 2 * i, "one"));
    EXPECT_EQ(part_of_row(1000 + 2 * i), 1000 + i) << "a range that goes on";
    TXN_ASSERT_OK(a.insert(table, 1001 + 2 * i, "two"));
  }
  txn_set_part(a.worker(), 0);
  TXN_ASSERT_OK(a.update(table, 3 * kParts, "by the transaction as a whole"));
  for (u32 i = 1; i <= kParts; i++) {
    EXPECT_EQ(part_of_row(i), 1000 + i);
    EXPECT_EQ(part_of_row(kParts + i), 1000 + i);
    EXPECT_EQ(part_of_row(1000 + 2 * i), 1000 + i);
    EXPECT_EQ(part_of_row(1001 + 2 * i), 1000 + i);
  }
  EXPECT_EQ(part_of_row(3 * kParts), 0u);
  txn_rollback_to(a.worker(), savepoint);
  u32 part;
  EXPECT_EQ(code(change_part(b.worker(), a.tn(), savepoint, &part)), LS_NOT_FOUND);
  EXPECT_EQ(part_of_row(kParts - 1), 1000 + kParts - 1);
  a.abort();
  EXPECT_EQ(b.read(table, 1), "before");
}

TEST_F(Transaction, active_transactions_tell_a_bound_of_their_first_record) {
  const auto oldest = [&] {
    std::vector<ActiveTxn> active;
    active_logged(engine.txns(), &active);
    EXPECT_LE(active.size(), 1u);
    return active.empty() ? ~Gsn{0} : active[0].first_gsn;
  };
  EXPECT_EQ(oldest(), ~Gsn{0});
  a.begin();
  const Gsn before = engine.log().last_gsn();
  TXN_ASSERT_OK(a.insert(table, 1, "x"));
  EXPECT_GT(oldest(), before);
  EXPECT_LE(oldest(), engine.log().last_gsn());
  a.commit();
  EXPECT_EQ(oldest(), ~Gsn{0});
}

}  // namespace
}  // namespace ls::txn_test
