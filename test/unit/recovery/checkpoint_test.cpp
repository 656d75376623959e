// What a checkpoint leaves for the next start: numbers, names of files, pages, and the log.
#include <atomic>
#include <filesystem>
#include <thread>

#include "os/fault.hpp"
#include "recovery/control_file.hpp"
#include "unit/recovery/crash_after.hpp"
#include "wal/log_segments.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16500, kOther = 16501;
constexpr u64 kNextXid = 1000;

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    directory_.create_file(kTable);
    directory_.create_file(kOther);
    config_.long_transaction_bytes = u64{1} << 30;   // no transaction is
  }
  ~CheckpointTest() override { fault_clear(); }

  ControlFile control() const {
    ControlFile found{};
    bool exists;
    EXPECT_EQ(control_read(config_.data_dir, &found, &exists), kOk);
    return found;
  }
  void checkpoint(StoreLife &store) { LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err)); }
  ls_stats stats(StoreLife &store) const {
    ls_stats found;
    ls_store_stats(store.store(), &found);
    return found;
  }
  std::set<u64> segments() const {
    std::set<u64> present;
    EXPECT_EQ(log_segments_present((temp_ / "leanstore/wal").c_str(), present), kOk);
    return present;
  }
  // More log than lies between two positions that the log knows (1 MiB).
  void fill(Session &s, u32 table, u32 kilobytes) {
    ls_rel *rel = s.open(table);
    for (u32 i = 0; i < kilobytes / 50; i++) {
      ASSERT_EQ(s.begin(), LS_OK);
      for (u32 n = 0; n < 50; n++) insert_row(s, rel, std::string(1000, 'f'));
      s.commit();
    }
  }
  // After a start; without the rows that fill() made.
  std::multiset<std::string> texts(u32 table) {
    StoreLife store(config_);
    EXPECT_EQ(store.recover(kNextXid + 1000), LS_OK) << store.err.message;
    Host host(store.store(), kNextXid + 1000);
    Session s(store.store(), &host, 0);
    std::multiset<std::string> all;
    filled_ = 0;
    for (auto &[id, text] : s.contents(s.open(table))) {
      if (text.size() < 1000) all.insert(text);
      filled_ += text.size() == 1000;
    }
    return all;
  }
  bool crash(const std::function<void(StoreLife &, Host &)> &work) {
    return crash_after(config_, kNextXid, work);
  }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  u64 filled_ = 0;
  ls_error err{};
};

using Texts = std::multiset<std::string>;

// CKPT-1
TEST_F(CheckpointTest, its_numbers_are_above_all_that_were_logged_before) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kNextXid));
  Host host(store.store(), kNextXid);
  std::atomic<u64> hardened_tn{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> writers;
  for (u32 slot = 1; slot <= 3; slot++) {
    writers.emplace_back([&, slot] {
      Session s(store.store(), &host, slot);
      ls_rel *rel = s.open(kTable);
      while (!over.load()) {
        ASSERT_EQ(s.begin(), LS_OK);
        insert_row(s, rel, "row");
        const u64 tn = s.tn();
        s.commit();
        for (u64 seen = hardened_tn; seen < tn && !hardened_tn.compare_exchange_weak(seen, tn);) {
        }
      }
    });
  }
  Session s(store.store(), &host, 0);
  for (u32 round = 0; round < 8; round++) {
    directory_.create_file(kOther + round);
    ls_rel *rel = s.open(kOther + round);
    commit_row(s, rel);
    const u64 tn = hardened_tn.load(), gsn = stats(store).log_durable_gsn;
    checkpoint(store);
    const ControlFile now = control();
    EXPECT_GT(now.tn_floor, tn);
    EXPECT_GE(now.gsn, gsn);
    EXPECT_GT(now.next_file_no, rel->number);
  }
  over = true;
  for (std::thread &writer : writers) writer.join();
  EXPECT_GT(hardened_tn.load(), 0u);
}

// CKPT-2
TEST_F(CheckpointTest, the_log_is_kept_from_the_oldest_transaction_on) {
  ASSERT_TRUE(crash([&](StoreLife &store, Host &host) {
    Session loser(store.store(), &host, 0), other(store.store(), &host, 1);
    ASSERT_EQ(loser.begin(), LS_OK);
    insert_row(loser, loser.open(kTable), "lost");
    commit_row(other, other.open(kTable), "kept");
    const u64 behind_first = stats(store).log_durable_gsn;
    fill(other, kOther, 3000);
    for (int i = 0; i < 2; i++) {
      checkpoint(store);
      EXPECT_LE(control().redo_gsn, behind_first);
    }
    crash_now();
  }));
  EXPECT_EQ(texts(kTable), (Texts{"kept"}));
}

// CKPT-3
TEST_F(CheckpointTest, the_log_from_there_on_names_the_open_files) {
  ASSERT_TRUE(crash([&](StoreLife &store, Host &host) {
    Session s(store.store(), &host, 0);
    ls_rel *rel = s.open(kTable);
    commit_row(s, rel, "before");
    const u64 named = stats(store).log_position;
    fill(s, kOther, 3000);
    checkpoint(store);
    EXPECT_GT(control().redo_lsn, named) << "where the file was named first";
    commit_row(s, rel, "behind");
    crash_now();
  }));
  EXPECT_EQ(texts(kTable), (Texts{"before", "behind"}));
}

// CKPT-4
TEST_F(CheckpointTest, pages_that_were_dirty_are_in_their_files) {
  ASSERT_TRUE(crash([&](StoreLife &store, Host &host) {
    Session s(store.store(), &host, 0);
    fill(s, kOther, 500);
    const u64 hardened = stats(store).log_durable_gsn;
    checkpoint(store);
    EXPECT_GT(control().redo_gsn, hardened) << "no change up to there is missing on disk";
    crash_now();
  }));
  EXPECT_TRUE(texts(kOther).empty());
  EXPECT_EQ(filled_, 500u);
}

// CKPT-5
TEST_F(CheckpointTest, the_log_goes_when_the_control_file_says_so) {
  ASSERT_TRUE(crash([&](StoreLife &store, Host &host) {
    Session s(store.store(), &host, 0);
    commit_row(s, s.open(kTable), "kept");
    fill(s, kOther, 3000);
    const std::set<u64> before = segments();
    const Lsn redo_lsn = control().redo_lsn;
    fault_add({.op = FaultOp::kWrite, .path_part = "control", .every = true, .error = ENOSPC});
    EXPECT_EQ(ls_store_checkpoint(store.store(), &err), LS_NO_SPACE);
    EXPECT_EQ(control().redo_lsn, redo_lsn);
    const std::set<u64> now = segments();
    EXPECT_TRUE(std::includes(now.begin(), now.end(), before.begin(), before.end()));
    fault_clear();
    checkpoint(store);
    EXPECT_GT(control().redo_lsn, redo_lsn);
    EXPECT_FALSE(segments().contains(*before.begin()));
    commit_row(s, s.open(kTable), "behind");
    crash_now();
  }));
  EXPECT_EQ(texts(kTable), (Texts{"behind", "kept"}));
}

}  // namespace
}  // namespace ls::test
