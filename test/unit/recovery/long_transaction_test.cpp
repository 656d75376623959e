// Transactions that are older than a checkpoint: their undo lies in files, the log goes on without
// them, and a crash at any time undoes all of them and nothing else.
#include <filesystem>

#include "os/fault.hpp"
#include "recovery/control_file.hpp"
#include "recovery/undo_list.hpp"
#include "recovery/undo_spool.hpp"
#include "unit/recovery/crash_after.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16500, kOther = 16501;
constexpr u64 kNextXid = 1000;

class LongTransactionTest : public ::testing::Test {
 protected:
  LongTransactionTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    directory_.create_file(kTable);
    directory_.create_file(kOther);
  }
  ~LongTransactionTest() override { fault_clear(); }

  std::string undo_directory() const { return temp_ / "leanstore/undo"; }
  std::map<std::string, size_t> undo_files() const {
    std::map<std::string, size_t> files;
    for (const auto &file : std::filesystem::directory_iterator(undo_directory()))
      files[file.path().filename()] = file.file_size();
    return files;
  }
  ControlFile control() const {
    ControlFile found;
    bool exists;
    EXPECT_EQ(control_read(config_.data_dir, &found, &exists), kOk);
    return found;
  }
  void checkpoint(StoreLife &store) { LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err)); }

  // Committed rows one, two, three and "rows" more that are large.
  std::vector<u64> fill(Session &s, u32 more = 0) {
    std::vector<u64> ids;
    EXPECT_EQ(s.begin(), LS_OK);
    for (const char *text : {"one", "two", "three"})
      ids.push_back(insert_row(s, s.open(kTable), text));
    for (u32 i = 0; i < more; i++)
      ids.push_back(insert_row(s, s.open(kTable), std::string(500, 'a')));
    s.commit();
    return ids;
  }
  // Everything that a transaction does, about some rows.
  void change(Session &s, const std::vector<u64> &ids, char with) {
    ls_rel *rel = s.open(kTable);
    for (u64 id : ids)
      ASSERT_EQ(
          s.update(rel, id, [&](const std::string &old) { return old + std::string(40, with); }),
          LS_OK);
    for (u32 i = 0; i < 20; i++) insert_row(s, rel, "of the loser");
  }
  void other_work(Session &s, u32 kilobytes) {
    for (u32 i = 0; i < kilobytes / 50; i++) {
      ASSERT_EQ(s.begin(), LS_OK);
      for (u32 n = 0; n < 50; n++) insert_row(s, s.open(kOther), std::string(1000, 'o'));
      s.commit();
    }
  }

  std::set<std::string> texts() {
    StoreLife store(config_);
    EXPECT_EQ(store.recover(kNextXid), LS_OK) << store.err.message;
    Host host(store.store(), kNextXid);
    Session s(store.store(), &host, 0);
    std::set<std::string> all;
    ls_check_result check;
    LS_EXPECT_OK(ls_rel_check(s.worker(), s.open(kTable), &check, &err));
    for (auto &[id, text] : s.contents(s.open(kTable))) all.insert(text);
    losers_ = store.store()->report.losers;
    checkpoint(store);
    EXPECT_TRUE(undo_files().empty()) << "of transactions that have ended";
    return all;
  }
  bool crash(const std::function<void(StoreLife &, Host &)> &work) {
    return crash_after(config_, 10, work);
  }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  u64 losers_ = 0;
  ls_error err{};
};

const std::set<std::string> kBefore{"one", "two", "three"};

TEST_F(LongTransactionTest, the_log_goes_on_without_them) {
  ASSERT_TRUE(crash([&](StoreLife &store, Host &host) {
    Session loser(store.store(), &host, 0), idle(store.store(), &host, 1),
        other(store.store(), &host, 2);
    const auto ids = fill(other);
    ASSERT_EQ(loser.begin(), LS_OK);
    change(loser, ids, 'x');
    ASSERT_EQ(idle.begin(), LS_OK);
    insert_row(idle, idle.open(kTable), "idle");
    size_t before = 0;
    for (int round = 0; round < 5; round++) {
      if (round == 2) change(loser, {ids[1]}, 'y');
      other_work(other, 1500);
      checkpoint(store);
      const ControlFile now = control();
      EXPECT_NE(now.undo_gsn, 0u);
      EXPECT_LT(now.log_end + (1 << 20), now.redo_lsn + (3 << 20))
          << "the log is kept from about the last checkpoint on";
      const auto files = undo_files();
      EXPECT_EQ(files.size(), 3u) << "a list, and a file each";
      const size_t bytes = files.at(undo_file_name(loser.tn()));
      EXPECT_EQ(bytes > before, round == 0 || round == 2) << "each change is written once";
      EXPECT_LT(bytes, 2000u) << "insertions without their bytes";
      before = bytes;
    }
    EXPECT_EQ(store.store()->undo_failures.get(nullptr), 0u);
    change(loser, ids, 'z');   // in the log only
    other_work(other, 50);
    crash_now();
  }));
  EXPECT_EQ(texts(), kBefore);
  EXPECT_EQ(losers_, 2u);
}

// The file was closed before the log that is left begins: nothing there names it.
// ULIST-3
TEST_F(LongTransactionTest, the_list_names_a_file_that_was_closed) {
  constexpr u32 kIdle = 17000, kIdleFiles = 40;
  config_.max_open_files = 8;
  for (u32 i = 0; i < kIdleFiles; i++) directory_.create_file(kIdle + i);
  ASSERT_TRUE(crash([&](StoreLife &store, Host &host) {
    Session loser(store.store(), &host, 0), other(store.store(), &host, 1);
    const auto ids = fill(other);
    ASSERT_EQ(loser.begin(), LS_OK);
    change(loser, ids, 'x');
    const ls_rel handle = *other.open(kTable);
    for (u32 i = 0; ls_rel_is_open(&handle) && i < 10 * kIdleFiles; i++)
      (void)other.contents(other.open(kIdle + i % kIdleFiles));
    ASSERT_FALSE(ls_rel_is_open(&handle));
    ls_stats closed;
    ls_store_stats(store.store(), &closed);
    for (int round = 0; round < 2; round++) {
      other_work(other, 1500);
      checkpoint(store);
    }
    EXPECT_GT(control().redo_lsn, closed.log_position);
    crash_now();
  }));
  EXPECT_EQ(texts(), kBefore);
  EXPECT_EQ(losers_, 1u);
}

// ULIST-2
TEST_F(LongTransactionTest, its_end_counts_wherever_it_is) {
  for (const bool commit : {true, false}) {
    for (const bool checkpoint_behind : {true, false}) {
      SCOPED_TRACE(std::string(commit ? "committed" : "rolled back") +
                   (checkpoint_behind ? ", checkpoint" : ""));
      for (u32 table : {kTable, kOther})
        std::filesystem::resize_file(temp_ / HostDirectory::relation_path(table), 0);
      std::filesystem::remove_all(temp_ / "leanstore");
      std::filesystem::create_directory(temp_ / "leanstore");
      ASSERT_TRUE(crash([&](StoreLife &store, Host &host) {
        Session s(store.store(), &host, 0), other(store.store(), &host, 1);
        const auto ids = fill(other);
        ASSERT_EQ(s.begin(), LS_OK);
        change(s, ids, 'x');
        checkpoint(store);
        checkpoint(store);
        ASSERT_EQ(s.update(s.open(kTable), ids[0], [](const std::string &) { return "changed"; }),
                  LS_OK);
        commit ? s.commit() : s.abort();
        if (checkpoint_behind) {
          checkpoint(store);
          EXPECT_TRUE(undo_files().empty());
        }
        commit_row(other, other.open(kTable), "four");
        crash_now();
      }));
      const auto found = texts();
      EXPECT_EQ(found.contains("changed"), commit);
      EXPECT_EQ(found.contains("one"), !commit);
      EXPECT_EQ(found.contains("of the loser"), commit);
      EXPECT_TRUE(found.contains("four"));
      EXPECT_EQ(losers_, 0u);
    }
  }
}

// What a rollback to a savepoint has undone is undone no second time, on whichever side of the
// checkpoint it lies; others have changed the rows since.
TEST_F(LongTransactionTest, savepoints_before_and_behind_a_checkpoint) {
  ASSERT_TRUE(crash([&](StoreLife &store, Host &host) {
    Session s(store.store(), &host, 0), other(store.store(), &host, 1);
    const auto ids = fill(other);
    ASSERT_EQ(s.begin(), LS_OK);
    insert_row(s, s.open(kTable), "first");
    const u32 one = ls_txn_savepoint(s.worker());
    change(s, {ids[0]}, 'x');
    ls_txn_rollback_to(s.worker(), one);
    const u32 two = ls_txn_savepoint(s.worker());
    change(s, {ids[1]}, 'y');
    checkpoint(store);
    ls_txn_rollback_to(s.worker(), two);
    for (u64 id : {ids[0], ids[1]}) {
      ASSERT_EQ(other.begin(), LS_OK);
      ASSERT_EQ(other.update(other.open(kTable), id,
                             [](const std::string &old) { return old + " of another"; }),
                LS_OK);
      other.commit();
    }
    checkpoint(store);
    change(s, {ids[2]}, 'z');
    commit_row(other, other.open(kTable), "four");
    crash_now();
  }));
  EXPECT_EQ(texts(), (std::set<std::string>{"one of another", "two of another", "three", "four"}));
}

TEST_F(LongTransactionTest, a_recovery_that_crashes_is_made_again) {
  ASSERT_TRUE(crash([&](StoreLife &store, Host &host) {
    Session s(store.store(), &host, 0), other(store.store(), &host, 1);
    const auto ids = fill(other, 200);
    ASSERT_EQ(s.begin(), LS_OK);
    change(s, ids, 'x');
    checkpoint(store);
    change(s, ids, 'y');
    checkpoint(store);
    change(s, ids, 'z');
    commit_row(other, other.open(kTable), "four");
    crash_now();
  }));
  // behind its end, as a rule before its first checkpoint's
  for (int round = 0; round < 2; round++) {
    ASSERT_TRUE(in_child([&] {
      StoreLife store(config_);
      ASSERT_EQ(store.recover(kNextXid), LS_OK) << "round " << round << ": " << store.err.message;
      die_at_once();
    }));
  }
  const auto found = texts();
  std::set<std::string> expected = kBefore;
  expected.insert({"four", std::string(500, 'a')});
  EXPECT_EQ(found, expected);
}

// No write of an undo file that fails stops anything: the log is kept until one succeeds, and the
// control file names no list that is not durable (ULIST-1).
TEST_F(LongTransactionTest, files_that_cannot_be_written_keep_the_log) {
  struct Case {
    FaultOp op;
    int error;
    u64 first_bytes;
  };
  config_.fsync = true;
  for (const Case &c :
       {Case{FaultOp::kWrite, 28, 0}, Case{FaultOp::kWrite, 5, 17}, Case{FaultOp::kSync, 5, 0},
        Case{FaultOp::kOpen, 13, 0}, Case{FaultOp::kRename, 28, 0}}) {
    for (const bool mended : {true, false}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(c.op)) + " fails with " +
                   std::to_string(c.error) + (mended ? ", then not" : ""));
      for (u32 table : {kTable, kOther})
        std::filesystem::resize_file(temp_ / HostDirectory::relation_path(table), 0);
      std::filesystem::remove_all(temp_ / "leanstore");
      std::filesystem::create_directory(temp_ / "leanstore");
      ASSERT_TRUE(crash([&](StoreLife &store, Host &host) {
        Session s(store.store(), &host, 0), young(store.store(), &host, 1),
            other(store.store(), &host, 2);
        const auto ids = fill(other);
        ASSERT_EQ(s.begin(), LS_OK);
        change(s, ids, 'x');
        checkpoint(store);
        const Gsn first_list = control().undo_gsn;
        ASSERT_NE(first_list, 0u);
        change(s, {ids[0]}, 'y');
        ASSERT_EQ(young.begin(), LS_OK);
        insert_row(young, young.open(kTable), "young");
        fault_add({c.op, "/undo/", 1, true, FaultOutcome::kFail, c.error, c.first_bytes});
        for (int i = 0; i < 2; i++) {
          other_work(other, 100);
          const Lsn kept = control().redo_lsn;
          checkpoint(store);
          EXPECT_EQ(control().undo_gsn, first_list);
          EXPECT_TRUE(i == 0 || control().redo_lsn == kept);
        }
        EXPECT_EQ(store.store()->undo_failures.get(nullptr), 2u);
        fault_clear();
        change(s, {ids[1]}, 'z');
        if (mended) {
          checkpoint(store);
          EXPECT_GT(control().undo_gsn, first_list);
        }
        change(s, {ids[2]}, 'u');
        commit_row(other, other.open(kTable), "four");
        crash_now();
      }));
      std::set<std::string> expected = kBefore;
      expected.insert("four");
      EXPECT_EQ(texts(), expected);
    }
  }
}

TEST_F(LongTransactionTest, damaged_files_are_named_and_not_used) {
  ASSERT_TRUE(crash([&](StoreLife &store, Host &host) {
    Session s(store.store(), &host, 0), other(store.store(), &host, 1);
    const auto ids = fill(other);
    ASSERT_EQ(s.begin(), LS_OK);
    change(s, ids, 'x');
    checkpoint(store);
    commit_row(other, other.open(kTable), "four");
    crash_now();
  }));
  const std::string whole = temp_ / "whole";
  const auto files = undo_files();
  ASSERT_EQ(files.size(), 2u);
  std::filesystem::copy(temp_ / "leanstore", whole, std::filesystem::copy_options::recursive);
  const auto restore = [&] {
    std::filesystem::copy(whole, temp_ / "leanstore",
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
  };
  const auto refused = [&](const std::string &name) {
    EXPECT_TRUE(in_child([&] {
      StoreLife store(config_);
      EXPECT_EQ(store.recover(kNextXid), LS_CORRUPT);
      EXPECT_NE(std::strstr(store.err.path, name.c_str()), nullptr) << store.err.path;
      EXPECT_NE(std::strstr(store.err.message, "restore it from a backup"), nullptr)
          << store.err.message;
    })) << name;
    restore();
  };
  for (const auto &[name, bytes] : files) {
    const std::string path = undo_directory() + "/" + name;
    for (size_t at : {size_t{1}, size_t{9}, size_t{20}, bytes / 2, bytes - 1}) {
      SCOPED_TRACE(name + ", byte " + std::to_string(at));
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<long>(at));
      const char was = static_cast<char>(file.get());
      file.seekp(static_cast<long>(at));
      file.put(static_cast<char>(was ^ 0x10));
      file.close();
      refused(name);
    }
    std::filesystem::resize_file(path, bytes - 3);
    refused(name);
  }
  std::filesystem::remove(undo_directory() + "/" + undo_list_name(control().undo_gsn));
  refused("list");
  std::set<std::string> expected = kBefore;
  expected.insert("four");
  EXPECT_EQ(texts(), expected);
}

// However much they have changed and however many they are: what is in memory is bounded, the rest
// is in the files.
TEST(UndoSpoolTest, memory_is_bounded_and_the_order_kept) {
  TempDirectory temp;
  UndoSpool spool(temp.path(), 64 << 10);
  std::map<Tn, std::vector<std::pair<u64, std::string>>> all;
  const auto size = [&] {
    size_t bytes = 0;
    for (const auto &file : std::filesystem::directory_iterator(temp.path()))
      bytes += file.file_size();
    return bytes;
  };
  size_t given = 0;
  for (u32 i = 0; i < 30'000; i++) {
    const Tn tn = 1 + i % 7 % 3;
    const std::string old(i % 90, static_cast<char>('a' + i % 26));
    RowUndo undo{.code = kRowUpdate, .file = 3, .row_id = i, .seq = i};
    undo.patch = {1, 2, Bytes(reinterpret_cast<const u8 *>(old.data()), old.size())};
    if (i % 10 < 5) undo = {.code = kRowInsert, .file = 3, .row_id = i, .seq = i / 10};
    ASSERT_EQ(spool.add(tn, undo), kOk);
    if (undo.code == kRowUpdate) all[tn].emplace_back(i, old);
    given += undo.code == kRowUpdate ? old.size() : 0;
    ASSERT_LE(given, size() + (80 << 10)) << "what is not in memory is in files";
  }
  for (auto &[tn, changes] : all) {
    u64 inserted = 0;
    ASSERT_EQ(spool.backward(tn, [&](const RowUndo &undo) {
      if (undo.code == kRowInsert) {
        inserted += undo.count;
        return kOk;
      }
      EXPECT_FALSE(changes.empty());
      EXPECT_EQ(undo.row_id, changes.back().first);
      EXPECT_EQ(std::string(undo.patch.fresh.begin(), undo.patch.fresh.end()),
                changes.back().second);
      changes.pop_back();
      return kOk;
    }), kOk);
    EXPECT_TRUE(changes.empty());
    EXPECT_GT(inserted, 0u);
  }
}

}  // namespace
}  // namespace ls::test
