// A store that was shut down goes on in another directory, with the relation files and without the
// log.
#include "recovery/handover.hpp"

#include <filesystem>
#include <fstream>

#include "os/fault.hpp"
#include "unit/recovery/crash_after.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16500;

class HandoverTest : public ::testing::Test {
 protected:
  HandoverTest()
      : directory_(temp_.path()), other_directory_(other_.path()),
        config_(small_config(temp_.path())), other_config_(small_config(other_.path())) {
    directory_.create_file(kTable);
    other_directory_.create_file(kTable);
    config_.prepared_slots = 2;
    other_config_.log_segment_bytes = 2 * config_.log_segment_bytes;
  }
  ~HandoverTest() override { fault_clear(); }

  std::string state() const { return temp_ / "state"; }

  void live(const ls_config &config, u64 xid, u32 rows) {
    StoreLife store(config);
    ASSERT_EQ(store.recover(xid), LS_OK) << store.err.message;
    Host host(store.store(), xid);
    Session s(store.store(), &host, 0);
    ls_rel *rel = s.open(kTable);
    for (u32 i = 0; i < rows; i++) commit_row(s, rel, std::string(500, 'r'));
  }
  u64 rows(const ls_config &config, u64 xid) {
    StoreLife store(config);
    EXPECT_EQ(store.recover(xid), LS_OK) << store.err.message;
    Host host(store.store(), xid);
    Session s(store.store(), &host, 0);
    u64 rows = 0;
    EXPECT_EQ(s.scan(s.open(kTable), [&](const ls_row &) { rows++; }), LS_OK);
    return rows;
  }
  void copy_file() {
    std::filesystem::copy_file(temp_ / HostDirectory::relation_path(kTable),
                               other_ / HostDirectory::relation_path(kTable),
                               std::filesystem::copy_options::overwrite_existing);
  }
  ls_status leave() {
    StoreLife store(config_);
    return ls_store_leave(store.store(), state().c_str(), &err);
  }
  ls_status take(const ls_config &config, bool *taken) {
    StoreLife store(config);
    return ls_store_take(store.store(), state().c_str(), taken, &err);
  }
  ControlFile control_of(const TempDirectory &root) {
    ControlFile control{};
    bool exists = false;
    EXPECT_EQ(control_read((root / "leanstore").c_str(), &control, &exists), kOk);
    EXPECT_TRUE(exists);
    return control;
  }

  TempDirectory temp_, other_;
  HostDirectory directory_, other_directory_;
  ls_config config_, other_config_;
  ls_error err{};
  bool taken = false;
};

TEST_F(HandoverTest, rows_and_numbers_go_on_over_crashes) {
  live(config_, 100, 400);
  live(other_config_, 10, 3);   // HAND-2: what it has is the host's to know
  ASSERT_EQ(leave(), LS_OK) << err.message;
  ASSERT_EQ(take(other_config_, &taken), LS_OK) << err.message;
  EXPECT_TRUE(taken);
  copy_file();
  EXPECT_EQ(rows(other_config_, 600), 400u);
  for (u64 life = 0; life < 3; life++) {
    ASSERT_TRUE(crash_after(other_config_, 1000 * (life + 1), [&](StoreLife &store, Host &host) {
      Session s(store.store(), &host, 0);
      ls_rel *rel = s.open(kTable);
      for (u32 i = 0; i < 100; i++) commit_row(s, rel, std::string(500, 'n'));
      EXPECT_EQ(s.begin(), LS_OK);
      insert_row(s, rel, "open");
      die_at_once();
    }));
    EXPECT_EQ(rows(other_config_, 1000 * (life + 1) + 500), 400 + 100 * (life + 1));
  }
  const ControlFile mine = control_of(temp_), theirs = control_of(other_);
  EXPECT_EQ(std::memcmp(&mine.store, &theirs.store, sizeof mine.store), 0);
  EXPECT_GT(theirs.gsn, mine.gsn);
  EXPECT_GT(theirs.redo_lsn, mine.redo_lsn);
  EXPECT_GT(theirs.tn_floor, mine.tn_floor);
  EXPECT_EQ(theirs.segment_bytes, other_config_.log_segment_bytes);
}

TEST_F(HandoverTest, the_store_itself_is_told_from_another_one) {
  live(config_, 100, 10);
  ASSERT_EQ(leave(), LS_OK) << err.message;
  taken = true;
  ASSERT_EQ(take(config_, &taken), LS_OK) << err.message;
  EXPECT_FALSE(taken);
  EXPECT_EQ(rows(config_, 200), 10u);
}

// HAND-1
TEST_F(HandoverTest, only_a_store_that_was_shut_down_leaves_a_state) {
  EXPECT_EQ(leave(), LS_INVALID) << "there is none";
  ASSERT_TRUE(crash_after(config_, 100, [&](StoreLife &store, Host &host) {
    Session s(store.store(), &host, 0);
    commit_row(s, s.open(kTable));
    die_at_once();
  }));
  EXPECT_EQ(leave(), LS_INVALID);
  EXPECT_FALSE(std::filesystem::exists(state()));
}

// HAND-2
TEST_F(HandoverTest, a_store_that_needs_its_log_stays) {
  live(config_, 100, 10);
  ASSERT_EQ(leave(), LS_OK) << err.message;
  ASSERT_TRUE(crash_after(other_config_, 100, [&](StoreLife &store, Host &host) {
    Session s(store.store(), &host, 0);
    commit_row(s, s.open(kTable));
    die_at_once();
  }));
  EXPECT_EQ(take(other_config_, &taken), LS_INVALID);
  EXPECT_FALSE(taken);
  EXPECT_EQ(rows(other_config_, 200), 1u);
}

TEST_F(HandoverTest, no_byte_of_a_state_may_be_wrong) {
  live(config_, 100, 10);
  ASSERT_EQ(leave(), LS_OK) << err.message;
  std::ifstream in(state(), std::ios::binary);
  const std::string whole(std::istreambuf_iterator<char>(in), {});
  const ControlFile before = control_of(temp_);
  for (size_t i = 0; i < whole.size(); i++) {
    std::string damaged = whole;
    damaged[i] ^= 0x10;
    std::ofstream(state(), std::ios::binary | std::ios::trunc) << damaged;
    ASSERT_EQ(take(other_config_, &taken), LS_CORRUPT) << "byte " << i;
  }
  for (size_t length : {size_t{0}, size_t{7}, whole.size() - 1}) {
    std::ofstream(state(), std::ios::binary | std::ios::trunc) << whole.substr(0, length);
    ASSERT_EQ(take(other_config_, &taken), LS_CORRUPT) << length << " bytes";
  }
  EXPECT_FALSE(std::filesystem::exists(other_ / "leanstore/control"));
  EXPECT_EQ(control_of(temp_).run, before.run);
}

// HAND-3
TEST_F(HandoverTest, what_fails_on_the_way_is_made_again) {
  live(config_, 100, 50);
  ASSERT_EQ(leave(), LS_OK) << err.message;
  u32 failures = 0;
  for (FaultOp op : {FaultOp::kOpen, FaultOp::kRead, FaultOp::kWrite, FaultOp::kSync,
                     FaultOp::kRename, FaultOp::kUnlink}) {
    std::filesystem::remove_all(other_ / "leanstore");
    std::filesystem::create_directory(other_ / "leanstore");
    live(other_config_, 100, 5);
    taken = false;
    for (u32 call = 1; !taken; call++) {
      ASSERT_LT(call, 50u);
      fault_add({op, "", call});
      const ls_status status = take(other_config_, &taken);
      failures += status != LS_OK;
      fault_clear();
      ASSERT_EQ(status == LS_OK, taken) << "call " << call;
    }
    copy_file();
    EXPECT_EQ(rows(other_config_, 300), 50u);
    std::filesystem::remove(other_ / HostDirectory::relation_path(kTable));
    other_directory_.create_file(kTable);
  }
  EXPECT_GT(failures, 6u);
}

}  // namespace
}  // namespace ls::test
