// Transactions in the log and in the table of active ones.
#include <cstring>

#include "unit/txn/txn_fixture.hpp"
#include "wal/log_reader.hpp"

namespace ls::txn_test {
namespace {

class Transaction : public TxnTest {
 protected:
  Session a{engine, host, 0}, b{engine, host, 1};
  // Kinds of the records of slot 0, in order.
  std::vector<RecordKind> records() {
    EXPECT_TRUE(engine.log().wait_hardened(engine.log().last_gsn(), nullptr));
    LogImage image;
    EXPECT_TRUE(ok(read_log((engine.path() + "/wal").c_str(), 4 << 20, 0, 0, image))) << last_error().message;
    std::vector<RecordKind> kinds;
    for (const LogEntry &e : image.entries) {
      RecordHeader header;
      std::memcpy(&header, e.data, sizeof header);
      if (e.slot == 0) kinds.push_back(header.kind);
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
  EXPECT_EQ(records(), (K{RecordKind::kBegin, RecordKind::kRow, RecordKind::kRow, RecordKind::kCommit}));
}

TEST_F(Transaction, abort_logs_compensations_and_its_end) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "x"));
  a.abort();
  EXPECT_EQ(records(), (K{RecordKind::kBegin, RecordKind::kRow, RecordKind::kSystem, RecordKind::kAborted}));
}

TEST_F(Transaction, prepared_commit) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "x"));
  TXN_ASSERT_OK(txn_prepare_commit(a.worker(), 4711));
  EXPECT_EQ(engine.log().hardened(), engine.log().last_gsn());
  EXPECT_TRUE(tn_is_active(engine.txns(), a.tn()));
  host.end(a.tn());
  EXPECT_GT(txn_commit(a.worker()), 0u);
  EXPECT_EQ(records(), (K{RecordKind::kBegin, RecordKind::kRow, RecordKind::kPrepared, RecordKind::kCommit}));
  EXPECT_EQ(b.read(table, 1), "x");
}

TEST_F(Transaction, abort_after_precommit_releases_the_place_in_the_order) {
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "x"));
  txn_precommit(a.worker());
  a.abort();
  EXPECT_EQ(b.read(table, 1), "-");
  EXPECT_TRUE(engine.log().wait_hardened(engine.log().last_gsn(), nullptr)) << "nobody waits for it";
}

TEST_F(Transaction, is_active_until_it_has_ended) {
  a.begin();
  const Tn tn = a.tn();
  EXPECT_TRUE(tn_is_active(engine.txns(), tn));
  EXPECT_FALSE(tn_is_active(engine.txns(), tn + 1));
  EXPECT_FALSE(tn_is_active(engine.txns(), 0));
  TXN_EXPECT_OK(txn_begin(a.worker(), tn));  // idempotent
  EXPECT_EQ(code(txn_begin(a.worker(), tn + 1)), LS_INVALID);
  EXPECT_EQ(code(txn_begin(b.worker(), kFirstTn - 1)), LS_INVALID) << "below the base: committed by definition";
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

TEST_F(Transaction, oldest_active_gsn_is_a_bound_of_its_begin_record) {
  EXPECT_EQ(oldest_active_gsn(engine.txns()), ~Gsn{0});
  a.begin();
  const Gsn before = engine.log().last_gsn();
  TXN_ASSERT_OK(a.insert(table, 1, "x"));
  EXPECT_GT(oldest_active_gsn(engine.txns()), before);
  EXPECT_LT(oldest_active_gsn(engine.txns()), engine.log().last_gsn());
  a.commit();
  EXPECT_EQ(oldest_active_gsn(engine.txns()), ~Gsn{0});
}

}  // namespace
}  // namespace ls::txn_test
