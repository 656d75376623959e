// Files beside the log are synced before the round that has the commits which rely on them.
#include "wal/file_syncs.hpp"

#include "os/fault.hpp"
#include "unit/txn/txn_fixture.hpp"
#include "wal/log_slot.hpp"

namespace ls::txn_test {
namespace {

class FileSyncsTest : public TxnTest {
 protected:
  Session a{engine, host, 0};
  FileSlot &values{*engine.open("values", LS_REL_VALUES)};

  FileSyncsTest() : TxnTest({.fsync = true}) {}
  ~FileSyncsTest() override { fault_clear(); }
  Status insert_large(u64 value) {
    const std::string data(10'000, 'x');
    return value_insert(a.worker(), values,
                        {value, bytes_of(data).data(), static_cast<u32>(data.size())}, a.cid++);
  }
  // Any round of the log writer syncs what has been asked for: none is due behind this.
  void let_log_rest() {
    ASSERT_TRUE(engine.log().wait_hardened(engine.log().last_gsn(), nullptr));
  }
  static FaultRule count_syncs(const char *part) {
    FaultRule rule{.op = FaultOp::kSync, .path_part = part, .every = true};
    rule.outcome = FaultOutcome::kSucceed;
    return rule;
  }
};

TEST_F(FileSyncsTest, one_sync_for_each_file_that_a_commit_relies_on) {
  a.begin();
  TXN_ASSERT_OK(insert_large(1));
  TXN_ASSERT_OK(insert_large(2));
  let_log_rest();
  fault_add(count_syncs("values_fsm"));
  TXN_ASSERT_OK(txn_reserve_commit(a.worker()));
  EXPECT_EQ(fault_hits(), 0u) << "not before its record";
  a.commit(true);
  EXPECT_EQ(fault_hits(), 1u);
  a.begin();
  TXN_ASSERT_OK(a.insert(table, 1, "without a value"));
  TXN_ASSERT_OK(txn_reserve_commit(a.worker()));
  a.commit(true);
  EXPECT_EQ(fault_hits(), 1u);
}

TEST_F(FileSyncsTest, a_file_is_asked_for_until_its_sync_has_succeeded) {
  let_log_rest();
  FileSyncs &syncs = engine.log().shared()->file_syncs;
  ASSERT_TRUE(syncs.ask(FileRef{1000, "values"}));
  ASSERT_TRUE(syncs.ask(FileRef{1001, "gone"}));
  fault_add({.op = FaultOp::kSync, .path_part = "values"});
  u32 synced;
  EXPECT_EQ(code(syncs.run(&synced)), LS_IO_ERROR);
  TXN_EXPECT_OK(syncs.run(&synced));
  EXPECT_EQ(synced, 2u);
  TXN_EXPECT_OK(syncs.run(&synced));
  EXPECT_EQ(synced, 0u);
}

TEST_F(FileSyncsTest, more_files_than_there_is_room_for) {
  let_log_rest();
  FileSyncs &syncs = engine.log().shared()->file_syncs;
  u32 asked = 0;
  while (syncs.ask({u64{1000} + asked, "gone"})) asked++;
  EXPECT_EQ(asked, FileSyncs::kMost);
  EXPECT_TRUE(syncs.ask({1000, "gone"})) << "is asked for already";
  TXN_EXPECT_OK(a.worker().log.sync_first({7777, "gone, too"}));
  u32 synced;
  TXN_EXPECT_OK(syncs.run(&synced));
  EXPECT_LE(synced, 1u) << "the others were looked at before";
}

}  // namespace
}  // namespace ls::txn_test
