// What a host is told about the commits that its own log may have lost.
#include "recovery/host_sync_point.hpp"

#include <filesystem>
#include <map>

#include "os/fault.hpp"
#include "unit/recovery/crash_after.hpp"
#include "wal/log_segments.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16500;

class HostSyncPointTest : public ::testing::Test {
 protected:
  HostSyncPointTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    directory_.create_file(kTable);
    config_.host_sync_points = true;
    config_.prepared_slots = 2;
  }

  ~HostSyncPointTest() override { fault_clear(); }

  bool crash_after(u64 next_xid, const std::function<void(StoreLife &, Host &)> &work) {
    return test::crash_after(config_, next_xid, work);
  }

  struct Behind {
    ls_status status = LS_OK;
    std::vector<u64> xids;
    std::map<u64, std::string> notes;   // those that are not empty
    u64 highest = 0;
  };
  // As the next start would find it.
  Behind behind() {
    StoreLife life(config_);
    Behind found;
    ls_commit_behind *commits = nullptr;
    size_t n = 0;
    found.status = ls_commits_behind(life.store(), &commits, &n, &found.highest, &err);
    for (size_t i = 0; i < n; i++) {
      const ls_commit_behind &commit = commits[i];
      found.xids.push_back(commit.full_xid);
      if (commit.note_bytes > 0)
        found.notes[commit.full_xid] =
            std::string(static_cast<const char *>(commit.note), commit.note_bytes);
    }
    free(commits);
    return found;
  }
  // More log than is kept without a reason.
  void fill_segments(StoreLife &store, Session &s) {
    ls_rel *rel = s.open(kTable);
    while (ls_commits_position(store.store()) < 5 * config_.log_segment_bytes)
      commit_row(s, rel, std::string(3000, 'x'));
  }
  std::string note() const { return temp_ / "leanstore/host_sync_point"; }
  std::set<u64> segments() const {
    std::set<u64> present;
    EXPECT_EQ(log_segments_present((temp_ / "leanstore/wal").c_str(), present), kOk);
    return present;
  }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  ls_error err{};
};

using Xids = std::vector<u64>;

// SYNC-1
TEST_F(HostSyncPointTest, who_has_committed_behind_the_note_is_told) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1), c(store.store(), &host, 2);
    ls_rel *rel = a.open(kTable);
    ASSERT_EQ(a.begin(), LS_OK);  // 10 stays open
    insert_row(a, rel, "open");
    ASSERT_EQ(b.begin(), LS_OK);  // 11 is rolled back
    insert_row(b, rel, "rolled back");
    b.abort();
    commit_row(b, rel);                  // 12
    ASSERT_EQ(b.begin(), LS_OK);  // 13 commits last
    insert_row(b, rel, "late");
    commit_row(c, rel);           // 14
    b.commit();
    ASSERT_EQ(b.begin(), LS_OK);  // 15 has the highest number
    insert_row(b, rel, "open, too");
    commit_row(c, rel);           // 16
    ASSERT_EQ(c.begin(), LS_OK);  // 17 has logged something, and no more
    insert_row(c, rel, "open, the third");
    ls_error error{};
    ASSERT_EQ(ls_txn_prepare_commit(c.worker(), 0, &error), LS_OK);
    die_at_once();
  }));
  EXPECT_EQ(behind().xids, (Xids{12, 13, 14, 16}));
  EXPECT_EQ(behind().highest, 17u);
  EXPECT_EQ(behind().status, LS_OK);
}

TEST_F(HostSyncPointTest, what_the_host_gave_along_is_told) {
  const std::string longest(LS_COMMIT_NOTE_BYTES, 'n');
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1);
    ls_rel *rel = a.open(kTable);
    ASSERT_EQ(a.begin(), LS_OK);  // 10
    insert_row(a, rel, "ends last");
    ASSERT_EQ(b.begin(), LS_OK);  // 11
    insert_row(b, rel, "with a note");
    b.commit("short");
    commit_row(b, rel);           // 12
    a.commit(longest);
    die_at_once();
  }));
  EXPECT_EQ(behind().xids, (Xids{10, 11, 12}));
  EXPECT_EQ(behind().notes, (std::map<u64, std::string>{{10, longest}, {11, "short"}}));
}

TEST_F(HostSyncPointTest, what_lies_before_the_note_is_not_told) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1);
    ls_rel *rel = a.open(kTable);
    ASSERT_EQ(b.begin(), LS_OK);  // 10 begins before, and ends after
    insert_row(b, rel, "spans");
    commit_row(a, rel);           // 11
    const u64 position = ls_commits_position(store.store());
    commit_row(a, rel);           // 12
    ls_error error{};
    ASSERT_EQ(ls_host_sync_point(store.store(), position, &error), LS_OK) << error.message;
    b.commit();
    commit_row(a, rel);           // 13
    die_at_once();
  }));
  EXPECT_EQ(behind().xids, (Xids{10, 12, 13}));
  EXPECT_EQ(behind().highest, 13u);
}

// SYNC-3
TEST_F(HostSyncPointTest, each_start_begins_a_note_of_its_own) {
  EXPECT_TRUE(behind().xids.empty());  // no store yet
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    commit_row(a, a.open(kTable));
    die_at_once();
  }));
  EXPECT_EQ(behind().xids, (Xids{10}));
  ASSERT_TRUE(crash_after(11, [&](StoreLife &, Host &) { die_at_once(); }));
  EXPECT_TRUE(behind().xids.empty());
  ASSERT_TRUE(crash_after(500, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    commit_row(a, a.open(kTable));
    die_at_once();
  }));
  EXPECT_EQ(behind().xids, (Xids{500}));
  {
    StoreLife life(config_);
    LS_ASSERT_OK(life.recover(501));
  }  // clean
  EXPECT_TRUE(behind().xids.empty());
}

// Transactions that stay prepared make a start count from a larger offset.
TEST_F(HostSyncPointTest, ids_are_right_behind_prepared_transactions) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    ls_rel *rel = a.open(kTable);
    ASSERT_EQ(a.begin(), LS_OK);
    insert_row(a, rel, "prepared");
    ASSERT_EQ(a.hand_over(), LS_OK);
    commit_row(a, rel);  // 11
    die_at_once();
  }));
  EXPECT_EQ(behind().xids, (Xids{11}));
  for (u64 next : {u64{12}, u64{20}}) {
    auto work = [&](StoreLife &store, Host &host) {
      Session a(store.store(), &host, 0);
      commit_row(a, a.open(kTable));
    };
    auto stays = [](ls_in_doubt &doubt) {
      doubt.prepared = true;
      return false;
    };
    ASSERT_TRUE(test::crash_after(config_, next, work, stays));
    EXPECT_EQ(behind().xids, (Xids{next}));
    EXPECT_EQ(behind().highest, next);
  }
}

TEST_F(HostSyncPointTest, a_crash_in_recovery_leaves_the_note_of_before) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1);
    ls_rel *rel = a.open(kTable);
    ASSERT_EQ(b.begin(), LS_OK);  // 10 has to be undone
    insert_row(b, rel, "open");
    commit_row(a, rel);           // 11
    die_at_once();
  }));
  // The note cannot be replaced: what recovery has logged before is in the log all the same.
  std::filesystem::create_directory(note() + ".tmp");
  {
    StoreLife life(config_);
    EXPECT_NE(life.recover(12), LS_OK);
  }
  EXPECT_EQ(behind().xids, (Xids{11}));
  EXPECT_EQ(behind().highest, 11u);
  std::filesystem::remove(note() + ".tmp");
  ASSERT_TRUE(crash_after(12, [&](StoreLife &, Host &) { die_at_once(); }));
  EXPECT_TRUE(behind().xids.empty());
}

// SYNC-2
TEST_F(HostSyncPointTest, the_log_is_kept_from_the_note_on) {
  StoreLife life(config_);
  LS_ASSERT_OK(life.recover(10));
  Host host(life.store(), 10);
  {
    Session a(life.store(), &host, 0);
    fill_segments(life, a);
  }
  LS_ASSERT_OK(ls_store_checkpoint(life.store(), &life.err));
  EXPECT_TRUE(segments().contains(0));
  LS_ASSERT_OK(ls_host_sync_point(life.store(), ls_commits_position(life.store()), &life.err));
  {
    Session a(life.store(), &host, 0);
    commit_row(a, a.open(kTable));
  }
  LS_ASSERT_OK(ls_store_checkpoint(life.store(), &life.err));
  EXPECT_FALSE(segments().contains(0));
}

TEST_F(HostSyncPointTest, notes_only_move_forward) {
  StoreLife life(config_);
  LS_ASSERT_OK(life.recover(10));
  Host host(life.store(), 10);
  Session a(life.store(), &host, 0);
  const u64 first = ls_commits_position(life.store());
  commit_row(a, a.open(kTable));
  const u64 second = ls_commits_position(life.store());
  EXPECT_GT(second, first);
  EXPECT_EQ(ls_host_sync_point(life.store(), second + 1, &life.err), LS_INVALID);
  LS_EXPECT_OK(ls_host_sync_point(life.store(), second, &life.err));
  EXPECT_EQ(ls_host_sync_point(life.store(), first, &life.err), LS_INVALID);
}

// SYNC-4
TEST_F(HostSyncPointTest, an_older_note_that_comes_back_finds_more_commits) {
  config_.fsync = true;
  const std::string older = temp_ / "older";
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    ls_rel *rel = a.open(kTable);
    ls_error error{};
    commit_row(a, rel);  // 10
    ASSERT_EQ(ls_host_sync_point(store.store(), ls_commits_position(store.store()), &error), LS_OK)
        << error.message;
    std::filesystem::copy_file(note(), older);
    commit_row(a, rel);  // 11
    // Overwritten in place, and not synced: that is the next checkpoint's.
    for (FaultOp op : {FaultOp::kSync, FaultOp::kRename})
      fault_add({.op = op, .path_part = "host_sync_point", .every = true});
    ASSERT_EQ(ls_host_sync_point(store.store(), ls_commits_position(store.store()), &error), LS_OK)
        << error.message;
    fault_clear();
    commit_row(a, rel);  // 12
    die_at_once();
  }));
  EXPECT_EQ(behind().xids, (Xids{12}));
  std::filesystem::copy_file(older, note(), std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(behind().xids, (Xids{11, 12}));
}

TEST_F(HostSyncPointTest, a_damaged_note_is_named) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    commit_row(a, a.open(kTable));
    die_at_once();
  }));
  std::string bytes(sizeof(HostSyncPoint), '\0');
  std::ifstream(note(), std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  auto write = [&](const std::string &damaged) {
    std::ofstream(note(), std::ios::binary | std::ios::trunc) << damaged;
  };
  for (size_t i = 0; i < bytes.size(); i++) {
    std::string damaged = bytes;
    damaged[i] ^= 4;
    write(damaged);
    EXPECT_EQ(behind().status, LS_CORRUPT) << "byte " << i;
    EXPECT_NE(std::string(err.path).find("host_sync_point"), std::string::npos);
  }
  write(bytes.substr(0, bytes.size() - 1));
  EXPECT_EQ(behind().status, LS_CORRUPT);
  write(bytes);
  EXPECT_EQ(behind().xids, (Xids{10}));
  std::filesystem::remove(note());
  EXPECT_TRUE(behind().xids.empty());
  EXPECT_EQ(behind().status, LS_OK);
}

// A round in the middle is damaged: recovery will refuse the log, and a host that looks before
// recovery sees what is there up to the damage.
TEST_F(HostSyncPointTest, damage_in_the_log_is_an_end) {
  u64 *middle = static_cast<u64 *>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  config_.fsync = true;
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    ls_rel *rel = a.open(kTable);
    commit_row(a, rel);
    *middle = ls_commits_position(store.store());
    for (int i = 0; i < 5; i++) commit_row(a, rel);
    die_at_once();
  }));
  EXPECT_EQ(behind().xids.size(), 6u);
  std::fstream file(log_segment_path((temp_ / "leanstore/wal").c_str(), 0),
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(*middle));
  file << "damage";
  file.close();
  munmap(middle, 4096);
  EXPECT_EQ(behind().xids, (Xids{10}));
  StoreLife life(config_);
  EXPECT_EQ(life.recover(20), LS_CORRUPT);
}

// Whatever fails, the note of before stays right, and the log is kept from there.
TEST_F(HostSyncPointTest, a_note_that_cannot_be_written_changes_nothing) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    ls_rel *rel = a.open(kTable);
    commit_row(a, rel);  // 10
    const u64 first = ls_commits_position(store.store());
    ls_error error{};
    for (FaultOp op : {FaultOp::kOpen, FaultOp::kWrite}) {
      fault_add({.op = op, .path_part = "host_sync_point", .every = true});
      EXPECT_EQ(ls_host_sync_point(store.store(), first, &error), LS_IO_ERROR);
      EXPECT_NE(std::string(error.path).find("host_sync_point"), std::string::npos);
      fault_clear();
    }
    fill_segments(store, a);
    ASSERT_EQ(ls_store_checkpoint(store.store(), &error), LS_OK) << error.message;
    EXPECT_TRUE(segments().contains(0));
    ASSERT_EQ(ls_host_sync_point(store.store(), first, &error), LS_OK) << error.message;
  }));
  EXPECT_EQ(behind().xids.front(), 11u);
}

// A checkpoint that cannot sync the note must not truncate the log: an older note could come back.
TEST_F(HostSyncPointTest, the_log_is_truncated_behind_a_synced_note_only) {
  config_.fsync = true;
  ASSERT_TRUE(in_child([&] {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(10));
    Host host(store.store(), 10);
    Session a(store.store(), &host, 0);
    fill_segments(store, a);
    ls_error error{};
    ASSERT_EQ(ls_host_sync_point(store.store(), ls_commits_position(store.store()), &error), LS_OK)
        << error.message;
    fault_add({.op = FaultOp::kSync, .path_part = "host_sync_point", .every = true});
    EXPECT_NE(ls_store_checkpoint(store.store(), &error), LS_OK);
    EXPECT_TRUE(ls_store_failed(store.store(), &error)) << "as after any failed sync";
    EXPECT_TRUE(segments().contains(0));
    if (::testing::Test::HasFailure()) _exit(3);
    die_at_once();
  }));
}

TEST_F(HostSyncPointTest, without_notes_there_is_no_file) {
  config_.host_sync_points = false;
  StoreLife life(config_);
  LS_ASSERT_OK(life.recover(10));
  EXPECT_FALSE(std::filesystem::exists(note()));
  EXPECT_EQ(ls_host_sync_point(life.store(), ls_commits_position(life.store()), &life.err),
            LS_INVALID);
}

}  // namespace
}  // namespace ls::test
