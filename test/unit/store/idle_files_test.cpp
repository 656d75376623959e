// A few places for open relations and many relations: idle ones are closed, and what refers to them
// finds them again.
#include <atomic>
#include <filesystem>
#include <random>
#include <thread>

#include "os/fault.hpp"
#include "store/store_process.hpp"
#include "unit/base/failpoint_actions.hpp"
#include "unit/recovery/crash_after.hpp"

namespace ls::test {
namespace {

constexpr u64 kNextXid = 1000;
constexpr u32 kFirst = 20000, kRelations = 60, kUnlogged = 21000;
using Rows = std::map<u64, std::string>;

class IdleFilesTest : public ::testing::Test {
 protected:
  IdleFilesTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    config_.max_open_files = 8;
    config_.prepared_slots = 4;
    for (u32 i = 0; i < kRelations; i++) directory_.create_file(kFirst + i);
    for (u32 i = 0; i < 10; i++) directory_.create_file(kUnlogged + i);
  }
  ~IdleFilesTest() override { fault_clear(); }

  static std::string text(u32 i, u32 n) {
    return "relation " + std::to_string(i) + " row " + std::to_string(n);
  }
  static BufferPool &pool(StoreLife &store) { return store_process(*store.store()).pool; }
  static u64 closed(StoreLife &store) { return pool(store).files_closed(); }
  ls_rel *rel(Session &s, u32 i) { return s.open(kFirst + i); }

  // Three rows in each relation.
  void fill(Session &s) {
    for (u32 i = 0; i < kRelations; i++) {
      ASSERT_EQ(s.begin(), LS_OK);
      for (u32 n = 0; n < 3; n++) expected_[i][insert_row(s, rel(s, i), text(i, n))] = text(i, n);
      s.commit();
    }
  }
  void check(Session &s) {
    for (u32 i = 0; i < kRelations; i++) {
      EXPECT_EQ(s.contents(rel(s, i)), expected_[i]) << i;
      ls_check_result result;
      LS_EXPECT_OK(ls_rel_check(s.worker(), rel(s, i), &result, &err));
    }
  }
  // Others are opened until the file with this handle is closed.
  void push_out(Session &s, const ls_rel &handle) {
    for (u32 i = 0; ls_rel_is_open(&handle) && i < 10 * kRelations; i++) {
      (void)s.contents(rel(s, 20 + i % 40));
    }
    ASSERT_FALSE(ls_rel_is_open(&handle));
  }
  // Row `id` of each of the first `n` relations, by a handle that was got long ago.
  void change_all(Session &s, std::vector<ls_rel> &handles, char with) {
    for (ls_rel &handle : handles) {
      const auto longer = [&](const std::string &old) { return old + with; };
      ASSERT_EQ(s.update(&handle, 1, longer), LS_OK) << s.err.message;
      u64 id = insert_row(s, &handle, "new");
      ASSERT_GT(id, 3u);
      ASSERT_EQ(s.remove(&handle, 2), LS_OK) << s.err.message;
    }
  }
  std::vector<ls_rel> handles(Session &s) {
    std::vector<ls_rel> all;
    for (u32 i = 0; i < kRelations; i++) all.push_back(*rel(s, i));
    return all;
  }
  ls_status lock(Host &host, Session &s, ls_rel *rel, u64 row_id, ls_lock_mode mode) {
    HostSnapshot snapshot;
    host.take(&snapshot, s.xid(), 1000);
    alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
    ls_row row{};
    bool newer = false;
    ls_conflict conflict{};
    ls_change c{row_id, &snapshot.s, nullptr, 1000, mode};
    const ls_status status =
        ls_row_lock(s.worker(), rel, &c, false, buffer, &row, &newer, &conflict, &s.err);
    host.release(snapshot);
    return status;
  }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  std::map<u32, Rows> expected_;
  ls_error err{};
};

TEST_F(IdleFilesTest, relations_take_turns_and_no_row_id_comes_twice) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kNextXid));
  Host host(store.store(), kNextXid);
  Session s(store.store(), &host, 0);
  fill(s);
  check(s);
  EXPECT_GT(closed(store), kRelations);
  for (u32 i = 0; i < kRelations; i++) {
    ASSERT_EQ(s.begin(), LS_OK);
    const u64 id = insert_row(s, rel(s, i), "later");
    EXPECT_EQ(id, 4u) << "and none is lost";
    expected_[i][id] = "later";
    s.commit();
  }
  check(s);
  ls_stats stats;
  ls_store_stats(store.store(), &stats);
  EXPECT_LE(stats.files_open, 8u);
  EXPECT_EQ(stats.files_max, 8u);
  EXPECT_EQ(stats.files_closed, closed(store));
}

TEST_F(IdleFilesTest, rollback_versions_and_locks_find_files_that_were_closed) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kNextXid));
  Host host(store.store(), kNextXid);
  Session writer(store.store(), &host, 0), locker(store.store(), &host, 1);
  Session other(store.store(), &host, 2);
  fill(other);
  std::vector<ls_rel> all = handles(other);
  for (const bool commit : {false, true}) {
    ASSERT_EQ(writer.begin(), LS_OK);
    ASSERT_EQ(locker.begin(), LS_OK);
    change_all(writer, all, commit ? 'c' : 'x');
    for (ls_rel &handle : all) {
      ASSERT_EQ(lock(host, locker, &handle, 3, LS_LOCK_SHARE), LS_OK) << locker.err.message;
    }
    check(other);   // sees the versions before
    ASSERT_EQ(other.begin(), LS_OK);
    for (ls_rel &handle : all) {
      EXPECT_EQ(lock(host, other, &handle, 3, LS_LOCK_SHARE), LS_OK);
      EXPECT_EQ(lock(host, other, &handle, 3, LS_LOCK_UPDATE), LS_LOCKED) << "the file was closed";
      EXPECT_EQ(lock(host, other, &handle, 1, LS_LOCK_UPDATE), LS_BEING_MODIFIED);
    }
    other.abort();
    locker.abort();
    if (commit) {
      writer.commit();
      for (u32 i = 0; i < kRelations; i++) {
        expected_[i][1] += 'c';
        expected_[i].erase(2);
        expected_[i][5] = "new";
      }
    } else {
      writer.abort();
    }
    check(other);
  }
  EXPECT_GT(closed(store), 4 * kRelations);
}

TEST_F(IdleFilesTest, unlogged_rows_and_what_is_counted_come_back) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kNextXid));
  Host host(store.store(), kNextXid);
  Session s(store.store(), &host, 0);
  fill(s);
  ls_rel *unlogged = s.open(kUnlogged, false);
  ASSERT_EQ(s.begin(), LS_OK);
  for (u32 n = 0; n < 400; n++) insert_row(s, unlogged, text(0, n));
  s.commit();
  const Rows before = s.contents(unlogged);
  FileSlot &slot = *static_cast<FileSlot *>(unlogged->slot);
  const u64 number = unlogged->number;
  slot.rows_gone.store(77);
  slot.rows_gone_swept.store(55);
  slot.table_no.store(99);
  push_out(s, *unlogged);
  // The handle is an old one.
  EXPECT_EQ(s.contents(unlogged), before);
  EXPECT_EQ(unlogged->number, number);
  const FileSlot &again = *static_cast<FileSlot *>(unlogged->slot);
  EXPECT_EQ(again.rows_gone.load(), 77u);
  EXPECT_EQ(again.rows_gone_swept.load(), 55u);
  EXPECT_EQ(again.table_no.load(), 99u);
  ASSERT_EQ(s.begin(), LS_OK);
  EXPECT_EQ(insert_row(s, unlogged, "more"), 401u);
  s.commit();
}

// CLOSED-1
TEST_F(IdleFilesTest, a_closed_relation_is_dropped_and_its_name_used_again) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kNextXid));
  Host host(store.store(), kNextXid);
  Session s(store.store(), &host, 0), writer(store.store(), &host, 1);
  fill(s);
  ASSERT_EQ(writer.begin(), LS_OK);
  ls_rel handle = *rel(s, 1), kept = *rel(s, 2);
  ASSERT_EQ(writer.update(&handle, 1, [](const std::string &) { return "lost"; }), LS_OK);
  ASSERT_EQ(writer.update(&kept, 1, [](const std::string &) { return "lost"; }), LS_OK);
  push_out(s, handle);
  const ls_rel_key key = relation_key(kFirst + 1);
  ls_rel_forget(store.store(), &key);
  ls_rel_forget(store.store(), &key);
  std::string found;
  EXPECT_EQ(s.fetch(&handle, 1, &found), LS_NOT_FOUND) << "though the host has the file still";
  std::filesystem::resize_file(temp_ / HostDirectory::relation_path(kFirst + 1), 0);
  ls_rel *fresh = rel(s, 1);
  EXPECT_NE(fresh->number, handle.number);
  EXPECT_TRUE(s.contents(fresh).empty());
  ASSERT_EQ(s.begin(), LS_OK);
  EXPECT_EQ(insert_row(s, fresh, "first"), 1u);
  s.commit();
  push_out(s, *fresh);
  writer.abort();   // skips the one, finds the other
  expected_[1] = {{1, "first"}};
  check(s);
}

// A backend with an old handle comes by in the middle of the drop.
// CLOSED-2
TEST_F(IdleFilesTest, a_drop_takes_the_name_before_the_slot) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kNextXid));
  Host host(store.store(), kNextXid);
  Session s(store.store(), &host, 0), late(store.store(), &host, 1);
  fill(s);
  ls_rel handle = *rel(late, 1);
  push_out(s, handle);
  const ls_rel_key key = relation_key(kFirst + 1);
  std::string found;
  {
    OnceAt opener(Failpoint::buffer_before_forget, [&] {
      EXPECT_EQ(late.fetch(&handle, 1, &found), LS_NOT_FOUND) << "opened it as it was dropped";
    });
    ls_rel_forget(store.store(), &key);
    EXPECT_TRUE(opener.reached());
  }
  EXPECT_EQ(late.fetch(&handle, 1, &found), LS_NOT_FOUND);
}

TEST_F(IdleFilesTest, who_finds_all_in_use_is_told_so) {
  config_.max_open_files = 8;
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kNextXid));
  Host host(store.store(), kNextXid);
  Session s(store.store(), &host, 0), writer(store.store(), &host, 1);
  fill(s);
  std::vector<ls_rel> all = handles(s);
  ASSERT_EQ(writer.begin(), LS_OK);
  change_all(writer, all, 'x');
  HostSnapshot snapshot;
  host.take(&snapshot, 0, 0);
  std::vector<ls_scan *> scans;
  ls_status status = LS_OK;
  for (u32 i = 0; i < 9 && status == LS_OK; i++) {
    ls_scan *scan = nullptr;
    status = ls_scan_open(s.worker(), &all[i], &snapshot.s, 0, LS_MAX_ROW_ID, false, &scan, &err);
    if (status == LS_OK) scans.push_back(scan);
  }
  EXPECT_EQ(status, LS_LIMIT);
  EXPECT_EQ(scans.size(), 7u) << "one is for rollbacks";
  EXPECT_STREQ(err.message, "7 of at most 8 relations are open, 7 of them in use");
  writer.abort();   // is not refused
  u32 rows = 0;
  for (ls_scan *scan : scans) {
    const ls_row *found = nullptr;
    u32 count = 0;
    LS_EXPECT_OK(ls_scan_next(scan, &found, &count, &err));
    rows += count;
    ls_scan_close(scan);
  }
  EXPECT_EQ(rows, 3 * scans.size());
  host.release(snapshot);
  check(s);
}

// Each thread has rows of its own in every relation, and knows what they are.
TEST_F(IdleFilesTest, many_sessions_at_once) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kNextXid));
  Host host(store.store(), kNextXid);
  constexpr u32 kThreads = 4, kRounds = 150;
  std::map<u32, Rows> mine[kThreads];
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (u32 t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      Session s(store.store(), &host, t);
      std::mt19937_64 random(t);
      for (u32 round = 0; round < kRounds; round++) {
        std::map<u32, Rows> changed = mine[t];
        ASSERT_EQ(s.begin(), LS_OK);
        for (u32 n = 0; n < 4; n++) {
          const u32 i = random() % kRelations;
          ls_rel *table = rel(s, i);
          for (auto &[id, was] : changed[i]) {
            std::string found;
            ASSERT_EQ(s.fetch(table, id, &found), LS_OK) << s.err.message;
            ASSERT_EQ(found, was);
          }
          const std::string now = text(i, t * kRounds + round);
          const u64 id = insert_row(s, table, now);
          ASSERT_TRUE(changed[i].emplace(id, now).second) << "row id twice";
          const u64 first = changed[i].begin()->first;
          const auto to_now = [&](const std::string &) { return now; };
          ASSERT_EQ(s.update(table, first, to_now), LS_OK) << s.err.message;
          changed[i][first] = now;
        }
        if (random() % 3 == 0) {
          s.abort();
        } else {
          s.commit();
          mine[t] = std::move(changed);
        }
      }
    });
  }
  std::thread checkpoints([&] {
    while (!done) {
      ls_error e{};
      EXPECT_EQ(ls_store_checkpoint(store.store(), &e), LS_OK) << e.message;
      host.publish();
    }
  });
  for (std::thread &thread : threads) thread.join();
  done = true;
  checkpoints.join();
  for (const auto &each : mine) {
    for (const auto &[i, rows] : each) {
      for (const auto &[id, row] : rows) {
        ASSERT_TRUE(expected_[i].emplace(id, row).second) << "row id twice";
      }
    }
  }
  Session s(store.store(), &host, 0);
  check(s);
  EXPECT_GT(closed(store), kRelations);
}

TEST_F(IdleFilesTest, recovery_has_as_few_places) {
  ASSERT_TRUE(crash_after(config_, kNextXid, [&](StoreLife &store, Host &host) {
    Session s(store.store(), &host, 0), loser(store.store(), &host, 1);
    Session prepared(store.store(), &host, 2);
    fill(s);
    std::vector<ls_rel> all = handles(s);
    ASSERT_EQ(prepared.begin(), LS_OK);
    for (ls_rel &handle : all) {
      const auto longer = [](const std::string &old) { return old + "p"; };
      ASSERT_EQ(prepared.update(&handle, 3, longer), LS_OK) << prepared.err.message;
    }
    ASSERT_EQ(loser.begin(), LS_OK);
    change_all(loser, all, 'x');
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));   // only few of these files are open
    ASSERT_EQ(prepared.hand_over(), LS_OK) << prepared.err.message;
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
    for (u32 i = 0; i < kRelations; i++) commit_row(s, rel(s, i), "last");
    crash_now();
  }));
  for (u32 i = 0; i < kRelations; i++) {
    for (u32 n = 0; n < 3; n++) expected_[i][n + 1] = text(i, n);
  }
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kNextXid + 100, [](ls_in_doubt &) { return false; }));
  EXPECT_EQ(store.store()->report.losers, 2u);
  EXPECT_GT(store.store()->report.ops_applied + store.store()->report.ops_skipped, kRelations);
  Host host(store.store(), kNextXid + 100);
  Session s(store.store(), &host, 0);
  for (u32 i = 0; i < kRelations; i++) {
    const Rows rows = s.contents(rel(s, i));
    ASSERT_EQ(rows.size(), 4u);
    EXPECT_EQ(rows.rbegin()->second, "last");
    expected_[i][rows.rbegin()->first] = "last";
    ASSERT_EQ(s.begin(), LS_OK);
    const u64 id = insert_row(s, rel(s, i), "after");
    EXPECT_GT(id, rows.rbegin()->first);
    expected_[i][id] = "after";
    s.commit();
  }
  check(s);
}

// The log is kept from the loser's first change on, behind where the file was named last but for
// its closing.
TEST_F(IdleFilesTest, undo_finds_a_file_that_was_closed_before_the_checkpoint) {
  config_.long_transaction_bytes = u64{1} << 30;
  ASSERT_TRUE(crash_after(config_, kNextXid, [&](StoreLife &store, Host &host) {
    Session s(store.store(), &host, 0), loser(store.store(), &host, 1);
    fill(s);
    ls_rel handle = *rel(s, 1);
    (void)s.contents(&handle);
    ASSERT_TRUE(ls_rel_is_open(&handle));
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
    // The log's positions are not known more closely than this.
    ls_rel *other = rel(s, 2);
    for (u32 i = 0; i < 3000; i++) commit_row(s, other, std::string(1000, 'o'));
    ASSERT_TRUE(ls_rel_is_open(&handle));
    ASSERT_EQ(loser.begin(), LS_OK);
    ASSERT_EQ(loser.update(&handle, 1, [](const std::string &) { return "lost"; }), LS_OK);
    push_out(s, handle);
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
    crash_now();
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(kNextXid + 100));
  EXPECT_EQ(store.store()->report.losers, 1u);
  Host host(store.store(), kNextXid + 100);
  Session s(store.store(), &host, 0);
  EXPECT_EQ(s.contents(rel(s, 1)).at(1), text(1, 0));
}

// Wherever in the writes to relation files, the log, the names of closed files.
TEST_F(IdleFilesTest, a_crash_while_files_are_being_closed) {
  for (const char *part : {"base/5/", "leanstore/wal", "leanstore/doublewrite"}) {
    for (u32 nth = 3; nth < 40; nth += 7) {
      SCOPED_TRACE(std::string(part) + " " + std::to_string(nth));
      for (u32 i = 0; i < kRelations; i++) {
        std::filesystem::resize_file(temp_ / HostDirectory::relation_path(kFirst + i), 0);
      }
      std::filesystem::remove_all(temp_ / "leanstore");
      std::filesystem::create_directory(temp_ / "leanstore");
      crash_after(config_, kNextXid, [&](StoreLife &store, Host &host) {
        Session s(store.store(), &host, 0), loser(store.store(), &host, 1);
        fill(s);
        std::vector<ls_rel> all = handles(s);
        EXPECT_EQ(loser.begin(), LS_OK);
        fault_add({.op = FaultOp::kWrite,
                   .path_part = part,
                   .nth = nth,
                   .outcome = FaultOutcome::kCrash,
                   .on_crash = [] { die_at_once(); }});
        change_all(loser, all, 'x');
        for (u32 i = 0; i < kRelations; i++) (void)s.contents(&all[i]);
        (void)ls_store_checkpoint(store.store(), &err);
        crash_now();
      });
      for (u32 i = 0; i < kRelations; i++) {
        expected_[i].clear();
        for (u32 n = 0; n < 3; n++) expected_[i][n + 1] = text(i, n);
      }
      StoreLife store(config_);
      ASSERT_EQ(store.recover(kNextXid + 100), LS_OK) << store.err.message;
      Host host(store.store(), kNextXid + 100);
      Session s(store.store(), &host, 0);
      check(s);
    }
  }
}

}  // namespace
}  // namespace ls::test
