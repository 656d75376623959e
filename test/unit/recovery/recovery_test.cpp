// Recovery's decisions, one at a time: each test crashes a store in a known state (in a child
// process) and looks at what is there after the next start.
#include <filesystem>
#include <thread>

#include "capi/api_call.hpp"
#include "index/index_entry.hpp"
#include "index/index_log.hpp"
#include "os/fault.hpp"
#include "recovery/control_file.hpp"
#include "unit/base/failpoint_actions.hpp"
#include "unit/index/index_fixture.hpp"
#include "unit/recovery/crash_after.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16500, kOther = 16501;

class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    directory_.create_file(kTable);
    directory_.create_file(kOther);
  }
  ~RecoveryTest() override { fault_clear(); }

  bool crash_after(u64 next_xid, const std::function<void(StoreLife &, Host &)> &work) {
    return test::crash_after(config_, next_xid, work);
  }
  std::map<u64, std::string> contents(StoreLife &store, u32 table, u64 next_xid) {
    Host host(store.store(), next_xid);
    Session s(store.store(), &host, 0);
    EXPECT_EQ(s.attach_status(), LS_OK);
    ls_check_result check;
    ls_rel *rel = s.open(table);
    LS_EXPECT_OK(ls_rel_check(s.worker(), rel, &check, &err));
    return s.contents(rel);
  }
  std::string file_of(u32 table) const { return temp_ / HostDirectory::relation_path(table); }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  ls_error err{};
};

std::set<std::string> texts(const std::map<u64, std::string> &rows) {
  std::set<std::string> all;
  for (auto &[id, text] : rows) all.insert(text);
  return all;
}

// Row "<text>" by a transaction that is prepared and never decided.
void prepare_row(Session &s, ls_rel *rel, const std::string &text) {
  ls_error err{};
  ASSERT_EQ(s.begin(), LS_OK);
  insert_row(s, rel, text);
  LS_ASSERT_OK(ls_txn_prepare_commit(s.worker(), s.xid(), &err));
}

TEST_F(RecoveryTest, committed_stays_and_running_goes) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1);
    ls_rel *rel = a.open(kTable);
    commit_row(a, rel, "committed");
    ASSERT_EQ(a.begin(), LS_OK);
    insert_row(a, rel, "running");
    commit_row(b, rel, "committed later");  // hardens what came before, too
    die_at_once();
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(10));
  EXPECT_EQ(texts(contents(store, kTable, 10)),
            (std::set<std::string>{"committed", "committed later"}));
  EXPECT_EQ(store.store()->report.losers, 1u);
  EXPECT_GE(store.store()->report.undo_records, 1u);
  EXPECT_TRUE(store.doubts().empty());
}

TEST_F(RecoveryTest, losers_of_update_and_delete_get_the_old_row_back) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1);
    ls_rel *rel = a.open(kTable);
    ASSERT_EQ(a.begin(), LS_OK);
    u64 one = insert_row(a, rel, "one"), two = insert_row(a, rel, "two"),
        three = insert_row(a, rel, "three");
    a.commit();
    ASSERT_EQ(a.begin(), LS_OK);
    ASSERT_EQ(a.update(rel, one, [](const std::string &) { return std::string(1000, 'x'); }),
              LS_OK);
    ASSERT_EQ(a.update(rel, one, [](const std::string &) { return std::string("y"); }), LS_OK);
    ASSERT_EQ(a.remove(rel, two), LS_OK);
    ASSERT_EQ(a.update(rel, three, [](const std::string &) { return std::string(); }), LS_OK);
    ASSERT_EQ(a.remove(rel, three), LS_OK);
    commit_row(b, rel, "four");
    die_at_once();
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(100));
  EXPECT_EQ(texts(contents(store, kTable, 100)),
            (std::set<std::string>{"one", "two", "three", "four"}));
}

TEST_F(RecoveryTest, prepared_transactions_go_as_the_host_says) {
  u64 *ids = static_cast<u64 *>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1), c(store.store(), &host, 2);
    ls_rel *rel = a.open(kTable);
    prepare_row(a, rel, "the host committed it");
    prepare_row(b, rel, "the host did not commit it");
    LS_ASSERT_OK(([&] {
      ls_status status = c.begin();
      insert_row(c, rel, "both logs have it");
      return status == LS_OK ? c.commit_prepared([](u64) {}) : status;
    })());
    ids[0] = a.xid();
    ids[1] = b.xid();
    die_at_once();
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(1000, [&](const ls_in_doubt &d) { return d.full_xid == ids[0]; }));
  std::set<u64> asked;
  for (const ls_in_doubt &d : store.doubts()) asked.insert(d.full_xid);
  EXPECT_EQ(asked, (std::set<u64>{ids[0], ids[1]}));
  std::set<std::string> expected{"the host committed it", "both logs have it"};
  EXPECT_EQ(texts(contents(store, kTable, 1000)), expected);
  EXPECT_EQ(store.store()->report.losers, 1u);
  munmap(ids, 4096);
}

TEST_F(RecoveryTest, decisions_about_prepared_transactions_outlive_the_next_crash) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1);
    prepare_row(a, a.open(kTable), "committed");
    prepare_row(b, b.open(kTable), "aborted");
    die_at_once();
  }));
  ASSERT_TRUE(in_child([&] {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(100, [&](const ls_in_doubt &d) { return d.full_xid == 10; }));
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(100));
  EXPECT_TRUE(store.doubts().empty());
  EXPECT_EQ(texts(contents(store, kTable, 100)), (std::set<std::string>{"committed"}));
}

// Killed with transaction 60 prepared, of which the host's log then knows nothing.
void lose_prepared_60(StoreLife &store, Host &host) {
  for (int i = 0; i < 10; i++) host.end(host.begin());
  Session a(store.store(), &host, 0);
  prepare_row(a, a.open(kTable), "lost");
  EXPECT_EQ(a.xid(), 60u);
  die_at_once();
}

// The host's log has lost its tail, so it hands the id of the prepared transaction out again, and
// commits.  The first start after the crash knows that; if it crashes, the second must still know.
TEST_F(RecoveryTest, prepared_transaction_unknown_to_the_host_stays_lost_when_its_id_comes_back) {
  ASSERT_TRUE(crash_after(50, lose_prepared_60));
  ASSERT_TRUE(in_child([&] {
    StoreLife store(config_);
    ls_in_doubt *doubts = nullptr;
    size_t n = 0;
    LS_ASSERT_OK(ls_recovery_redo(store.store(), 55, &doubts, &n, &err));
    EXPECT_EQ(n, 0u) << "an id that the host never used";
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(70, [](const ls_in_doubt &) { return true; }));
  EXPECT_TRUE(store.doubts().empty()) << "60 is another transaction by now";
  EXPECT_TRUE(contents(store, kTable, 70).empty());
  ControlFile control;
  bool exists;
  ASSERT_EQ(control_read(config_.data_dir, &control, &exists), kOk);
  EXPECT_EQ(control.xid_limit, 0u) << "recovered: no more doubts of that time";
}

// A start that is refused is a start of the host all the same: it hands ids out.
TEST_F(RecoveryTest, prepared_transaction_unknown_to_the_host_stays_lost_after_a_refused_start) {
  ASSERT_TRUE(crash_after(50, lose_prepared_60));
  fault_add({.op = FaultOp::kRead, .path_part = "/wal/"});
  {
    StoreLife refused(config_);
    EXPECT_EQ(refused.recover(55), LS_IO_ERROR);
    EXPECT_NE(std::strstr(refused.err.path, "/wal/"), nullptr) << refused.err.path;
  }
  fault_clear();
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(70, [](const ls_in_doubt &) { return true; }));
  EXPECT_TRUE(store.doubts().empty()) << "60 is another transaction by now";
  EXPECT_TRUE(contents(store, kTable, 70).empty());
}

TEST_F(RecoveryTest, redo_can_be_cancelled_and_begins_again) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    for (int i = 0; i < 20; i++) commit_row(a, a.open(kTable), "row " + std::to_string(i));
    die_at_once();
  }));
  {
    StoreLife store(config_);
    ls_recovery_cancel(store.store());
    EXPECT_EQ(store.recover(100), LS_INTERRUPTED);
    EXPECT_TRUE(ls_store_stopped(store.store()));
  }
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(100));
  EXPECT_EQ(contents(store, kTable, 100).size(), 20u);
  ls_recovery_progress progress;
  ls_recovery_get_progress(store.store(), &progress);
  EXPECT_GT(progress.log_bytes, 0u);
  EXPECT_EQ(progress.redone_bytes, progress.log_bytes);
  EXPECT_GT(progress.records, 20u);
}

#if LS_FAILPOINTS
// Before undo, in the middle of it, and when all is undone and nothing hardened.
TEST_F(RecoveryTest, undo_can_be_cancelled_and_begins_again) {
  constexpr int kChanges = 400;
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1);
    std::vector<u64> ids;
    EXPECT_EQ(b.begin(), LS_OK);
    for (int i = 0; i < 20; i++)
      ids.push_back(insert_row(b, b.open(kTable), "row " + std::to_string(i)));
    b.commit();
    ASSERT_EQ(a.begin(), LS_OK);
    ls_rel *rel = a.open(kTable);
    for (size_t i = 0; i < kChanges; i++) {
      EXPECT_EQ(a.update(rel, ids[i % 20], [](const std::string &) { return "running"; }), LS_OK)
          << a.err.message;
    }
    commit_row(b, b.open(kOther), "hardens what came before");
    die_at_once();
  }));
  u64 next_xid = 100;
  for (const int after : {0, 1, 20, kChanges}) {
    StoreLife store(config_);
    ls_in_doubt *doubts = nullptr;
    size_t n = 0;
    LS_ASSERT_OK(ls_recovery_redo(store.store(), next_xid += 100, &doubts, &n, &err));
    if (after == 0) ls_recovery_cancel(store.store());
    std::atomic<int> records{0};
    const auto cancel = [&] { ls_recovery_cancel(store.store()); };
    {
      ArmedFailpoint logged(Failpoint::log_before_publish, [&] {
        if (after < kChanges && ++records == after) cancel();
      });
      ArmedFailpoint undone(Failpoint::recovery_before_fate, [&] {
        if (after == kChanges) cancel();
      });
      EXPECT_EQ(ls_recovery_finish(store.store(), nullptr, 0, &err), LS_INTERRUPTED) << after;
    }
    EXPECT_TRUE(ls_store_stopped(store.store())) << after;
  }
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(1000));
  const std::set<std::string> rows = texts(contents(store, kTable, 1000));
  EXPECT_EQ(rows.size(), 20u);
  EXPECT_FALSE(rows.contains("running"));
  EXPECT_EQ(contents(store, kOther, 1100).size(), 1u);
}
#endif

// ---- what the host did not decide

TEST_F(RecoveryTest, undecided_doubt_is_refused) {
  ASSERT_TRUE(crash_after(50, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    prepare_row(a, a.open(kTable), "in doubt");
    die_at_once();
  }));
  ASSERT_TRUE(in_child([&] {
    StoreLife store(config_);
    ls_in_doubt *doubts = nullptr;
    size_t n = 0;
    LS_ASSERT_OK(ls_recovery_redo(store.store(), 70, &doubts, &n, &err));
    EXPECT_EQ(n, 1u);
    EXPECT_EQ(ls_recovery_finish(store.store(), nullptr, 0, &err), LS_INVALID);
    EXPECT_FALSE(ls_store_ready(store.store()));
  }));
}

// Checkpoints must keep the log from the beginning of the oldest transaction that may have to be
// undone.
TEST_F(RecoveryTest, old_transaction_is_undone_after_many_checkpoints) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0), b(store.store(), &host, 1);
    ls_rel *rel = a.open(kTable), *other = a.open(kOther);
    ASSERT_EQ(a.begin(), LS_OK);
    for (int i = 0; i < 20; i++) insert_row(a, rel, "never committed " + std::to_string(i));
    // More log than lies between two positions that the log knows (1 MiB).
    for (int round = 0; round < 4; round++) {
      EXPECT_EQ(b.begin(), LS_OK);
      for (int i = 0; i < 300; i++) insert_row(b, other, std::string(3000, 'o'));
      b.commit();
      LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
    }
    commit_row(b, other, "last");
    die_at_once();
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(5000));
  EXPECT_TRUE(contents(store, kTable, 5000).empty());
  EXPECT_EQ(contents(store, kOther, 5000).size(), 1201u);
  EXPECT_EQ(store.store()->report.losers, 1u);
}

TEST_F(RecoveryTest, unlogged_rows_are_not_in_the_log) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    ASSERT_EQ(a.begin(), LS_OK);
    for (int i = 0; i < 100; i++) insert_row(a, a.open(kOther, false), "unlogged");
    EXPECT_FALSE(ls_txn_has_log(a.worker()));
    a.commit();
    commit_row(a, a.open(kTable), "logged");
    die_at_once();
  }));
  std::filesystem::resize_file(file_of(kOther), 0);  // as the host resets it
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(10));
  EXPECT_EQ(contents(store, kTable, 10).size(), 1u);
  Host host(store.store(), 10);
  Session s(store.store(), &host, 0);
  EXPECT_TRUE(s.contents(s.open(kOther, false)).empty());
}

// ---- files that the host has changed behind the log's back

// Rows before and after a checkpoint, and so much log before it that recovery does not begin with
// an empty file (the log's positions are known by the MiB).
void fill_around_checkpoint(StoreLife &store, Session &s, u32 table) {
  ls_error err{};
  ls_rel *rel = s.open(table);
  EXPECT_EQ(s.begin(), LS_OK);
  for (int i = 0; i < 1200; i++) insert_row(s, rel, std::string(2000, 'a') + std::to_string(i));
  s.commit();
  LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
  for (int i = 0; i < 30; i++) commit_row(s, rel, std::string(500, 'b') + std::to_string(i));
}

// REDO-2
TEST_F(RecoveryTest, removed_and_truncated_files_are_skipped_with_their_losers) {
  for (bool removed : {true, false}) {
    ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
      Session a(store.store(), &host, 0), b(store.store(), &host, 1);
      fill_around_checkpoint(store, a, kTable);
      ASSERT_EQ(a.begin(), LS_OK);
      insert_row(a, a.open(kTable), "loser");
      insert_row(a, a.open(kOther), "loser");
      commit_row(b, b.open(kOther), "other");
      die_at_once();
    }));
    if (removed) {
      std::filesystem::remove(file_of(kTable));
    } else {
      std::filesystem::resize_file(file_of(kTable), 0);
    }
    {
      StoreLife store(config_);
      LS_ASSERT_OK(store.recover(1000));
      EXPECT_GE(store.store()->report.files_missing, 1u) << "removed " << removed;
      EXPECT_GE(contents(store, kOther, 1000).size(), 1u);
      EXPECT_EQ(texts(contents(store, kOther, 1000)), (std::set<std::string>{"other"}));
      directory_.create_file(kTable);
      EXPECT_TRUE(contents(store, kTable, 1000).empty()) << "removed " << removed;
    }
    std::filesystem::remove_all(config_.data_dir);
    for (u32 table : {kTable, kOther}) std::filesystem::resize_file(file_of(table), 0);
    HostDirectory again(temp_.path());
  }
}

TEST_F(RecoveryTest, file_made_anew_under_the_same_name_has_only_its_own_rows) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    fill_around_checkpoint(store, a, kTable);
    ls_rel_key key = relation_key(kTable);
    ls_rel_forget(store.store(), &key);
    std::filesystem::resize_file(file_of(kTable), 0);
    for (int i = 0; i < 5; i++) commit_row(a, a.open(kTable), "new " + std::to_string(i));
    die_at_once();
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(1000));
  EXPECT_EQ(contents(store, kTable, 1000).size(), 5u);
  EXPECT_EQ(texts(contents(store, kTable, 1000)),
            (std::set<std::string>{"new 0", "new 1", "new 2", "new 3", "new 4"}));
}

// ---- what cannot be recovered from is refused, with a reason

TEST_F(RecoveryTest, log_without_control_file_is_refused) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    commit_row(a, a.open(kTable), "row");
    die_at_once();
  }));
  std::filesystem::remove(std::string(config_.data_dir) + "/control");
  StoreLife store(config_);
  EXPECT_EQ(store.recover(10), LS_CORRUPT);
  EXPECT_NE(std::strstr(store.err.message, "control file"), nullptr) << store.err.message;
}

TEST_F(RecoveryTest, control_file_without_log_is_refused) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    commit_row(a, a.open(kTable), "row");
    die_at_once();
  }));
  std::filesystem::remove_all(std::string(config_.data_dir) + "/wal");
  StoreLife store(config_);
  EXPECT_EQ(store.recover(10), LS_CORRUPT);
  EXPECT_NE(std::strstr(store.err.message, "missing"), nullptr) << store.err.message;
}

TEST_F(RecoveryTest, another_segment_size_is_refused) {
  {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(10));
  }
  config_.log_segment_bytes *= 2;
  StoreLife store(config_);
  EXPECT_EQ(store.recover(10), LS_CORRUPT);
  EXPECT_NE(std::strstr(store.err.message, "segments"), nullptr) << store.err.message;
}

TEST_F(RecoveryTest, recovery_runs_once_and_in_order) {
  StoreLife store(config_);
  EXPECT_EQ(ls_recovery_finish(store.store(), nullptr, 0, &err), LS_INVALID);
  LS_ASSERT_OK(store.recover(10));
  ls_in_doubt *doubts = nullptr;
  size_t n = 0;
  EXPECT_EQ(ls_recovery_redo(store.store(), 10, &doubts, &n, &err), LS_INVALID);
  EXPECT_EQ(ls_recovery_finish(store.store(), nullptr, 0, &err), LS_INVALID);
}

// ---- failures while the store runs

TEST_F(RecoveryTest, checkpoint_without_space_is_refused_and_made_up_for) {
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(10));
  Host host(store.store(), 10);
  Session s(store.store(), &host, 0);
  commit_row(s, s.open(kTable), "row");
  FaultRule rule;
  rule.op = FaultOp::kWrite;
  rule.path_part = "control";
  rule.every = true;
  rule.error = ENOSPC;
  fault_add(rule);
  EXPECT_EQ(ls_store_checkpoint(store.store(), &err), LS_NO_SPACE);
  EXPECT_FALSE(ls_store_failed(store.store(), nullptr));
  commit_row(s, s.open(kTable), "another");
  fault_clear();
  LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
}

TEST_F(RecoveryTest, failed_log_write_fails_the_store_and_acknowledges_nothing) {
  ASSERT_TRUE(in_child([&] {
    StoreLife store(config_);
    LS_ASSERT_OK(store.recover(10));
    Host host(store.store(), 10);
    Session s(store.store(), &host, 0);
    commit_row(s, s.open(kTable), "acknowledged");
    FaultRule rule;
    rule.op = FaultOp::kWrite;
    rule.path_part = "/wal/";
    rule.every = true;
    fault_add(rule);
    std::atomic<bool> acknowledged{false};
    std::thread client([&] {
      commit_row(s, s.open(kTable), "not acknowledged");
      acknowledged = true;
    });
    client.detach();
    for (int i = 0; i < 1000 && !ls_store_failed(store.store(), &err); i++) usleep(10'000);
    EXPECT_TRUE(ls_store_failed(store.store(), &err));
    EXPECT_EQ(err.status, LS_IO_ERROR);
    EXPECT_NE(err.message[0], '\0');
    usleep(100'000);
    EXPECT_FALSE(acknowledged);
    EXPECT_NE(ls_store_checkpoint(store.store(), &err), LS_OK);
    if (::testing::Test::HasFailure()) _exit(3);
    die_at_once();
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(10));
  EXPECT_EQ(texts(contents(store, kTable, 10)), (std::set<std::string>{"acknowledged"}));
}

// As builds did it that knew of no kIndexRemoveDated.
void remove_undated(Session &s, ls_rel *index, const ls_index_entry &named) {
  Worker &w = api::worker(s.worker());
  FileSlot &file = *static_cast<FileSlot *>(index->slot);
  const EntryKey entry(bytes_of(named.key), named.row_id);
  ASSERT_TRUE(ok(w.log.reserve(kRemoveRecordRoom, w.ctx.interrupt)));
  ExclusiveGuard leaf;
  ASSERT_TRUE(ok(BTree(w.ctx, file).leaf_exclusive(entry, 0, leaf)));
  Node *node = reinterpret_cast<Node *>(leaf.page());
  bool found;
  const u16 operands[] = {node->count, node->lower_bound(entry, &found)};
  ASSERT_TRUE(found);
  w.log.start(RecordKind::kSystem);
  w.log.op(file.file_no.load(), node->header.page_no, kIndexRemove,
           Bytes(reinterpret_cast<const u8 *>(operands), sizeof operands));
  const Gsn gsn = w.log.finish();
  node->remove(operands[1]);
  w.pool->mark_changed(w.ctx.log, leaf.frame(), gsn);
  leaf.reset();
}

TEST_F(RecoveryTest, entries_that_an_earlier_build_has_removed_stay_away) {
  constexpr u32 kIndex = 16502;
  directory_.create_file(kIndex);
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    ls_rel *rel = a.open(kTable), *index = a.open(kIndex, true, LS_REL_INDEX);
    ASSERT_EQ(a.begin(), LS_OK);
    for (u64 i = 1; i <= 4; i++) {
      LS_ASSERT_OK(ls_index_insert(a.worker(), index, rel, to_bytes(number_key(i)),
                                   insert_row(a, rel, "row"), {}, &err));
    }
    a.commit();
    const std::string second = number_key(2), third = number_key(3);
    remove_undated(a, index, {2, to_bytes(second), {}});
    const ls_index_entry entry{3, to_bytes(third), {}};
    LS_ASSERT_OK(ls_index_remove(a.worker(), index, rel, &entry, &err));
    commit_row(a, rel);  // hardens what came before, too
    die_at_once();
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(20));
  Host host(store.store(), 20);
  Session s(store.store(), &host, 0);
  IndexScanner scan(s.worker(), s.open(kIndex, true, LS_REL_INDEX));
  scan.range({}, std::nullopt);
  EXPECT_EQ(scan.rest(), (std::vector<Entry>{{number_key(1), 1, ""}, {number_key(4), 4, ""}}));
}

#if LS_FAILPOINTS
// CKPT-1
// Checkpointer: finds where redo would begin.  A worker commits.  Checkpointer: writes the control
// file.  Crash.
TEST_F(RecoveryTest, race_checkpoint_vs_commit_has_redo_begin_before_the_commit) {
  ASSERT_TRUE(crash_after(10, [&](StoreLife &store, Host &host) {
    Session a(store.store(), &host, 0);
    ls_rel *rel = a.open(kTable);
    commit_row(a, rel, "before");
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
    OnceAt point(Failpoint::recovery_before_control, [&] { commit_row(a, rel, "meanwhile"); });
    LS_ASSERT_OK(ls_store_checkpoint(store.store(), &err));
    EXPECT_TRUE(point.reached());
  }));
  StoreLife store(config_);
  LS_ASSERT_OK(store.recover(20));
  EXPECT_EQ(texts(contents(store, kTable, 20)), (std::set<std::string>{"before", "meanwhile"}));
}
#endif

}  // namespace
}  // namespace ls::test
