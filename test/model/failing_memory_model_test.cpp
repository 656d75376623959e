// Each allocation fails once, the n-th for every n: in every function of engine.h that may need
// memory, and in the engine's threads.
// Afterwards the store is healthy: its trees verify, nothing is locked, the work of all sessions
// goes on, and the rows are those of a model.
//
// A step is a whole piece of a session's work; where a call has failed for want of memory the
// session rolls back, as a host does.
#include <deque>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "buffer/page.hpp"
#include "unit/base/failing_memory.hpp"
#include "unit/recovery/child_process.hpp"
#include "unit/store/store_fixture.hpp"

namespace ls::test {
namespace {

constexpr u32 kTable = 16800, kIndex = 16801, kOther = 16802, kBuilt = 16803, kForeign = 16804;
constexpr u64 kNextXid = 10;
constexpr u64 kMostAllocations = 50'000;

// In continuous integration each of the first ones, but not each of hundreds.
u64 next(u64 n, u64 each) {
  static const bool all = std::getenv("LS_ALL_ALLOCATIONS") != nullptr;
  return all || n < each ? n + 1 : n + n / 4;
}

template <typename Call>
auto engine(Call &&call) {
  const FailingMemory::Counted counted;
  return call();
}

#define LS_STEP(call)                                                     \
  do {                                                                    \
    if (ls_status s_ = engine([&] { return (call); }); s_ != LS_OK) return s_; \
  } while (0)

class FailingMemoryModelTest : public ::testing::Test {
 protected:
  FailingMemoryModelTest() : directory_(temp_.path()), config_(small_config(temp_.path())) {
    config_.prepared_slots = 2;
    config_.range_lock_bytes = 1 << 16;
    config_.host_sync_points = true;
    for (u32 relation : {kTable, kIndex, kOther, kBuilt}) directory_.create_file(relation);
  }
  ~FailingMemoryModelTest() override { FailingMemory::disarm(); }

  void start() {
    life_ = std::make_unique<StoreLife>(config_);
    ASSERT_EQ(life_->recover(next_xid_), LS_OK) << life_->err.message;
    connect();
  }
  void connect() {
    next_xid_ += 1'000'000;
    host_ = std::make_unique<Host>(store(), next_xid_ - 1'000'000);
    ASSERT_EQ(ls_worker_attach(store(), 0, &worker_, &err_), LS_OK) << err_.message;
    other_ = std::make_unique<Session>(store(), host_.get(), 1);
    ASSERT_EQ(other_->attach_status(), LS_OK);
    ASSERT_EQ(open_all(), LS_OK) << err_.message;
  }
  void disconnect() {
    other_.reset();
    ls_worker_detach(worker_);
    host_.reset();
  }
  void stop() {
    disconnect();
    life_.reset();
  }
  ls_store *store() const { return life_->store(); }

  ls_status open(u32 relation, ls_rel_kind kind, ls_rel **rel) {
    *rel = &handles_.emplace_back();
    const ls_rel_key key = relation_key(relation);
    const std::string path = HostDirectory::relation_path(relation);
    return engine([&] {
      return ls_rel_open(worker_, &key, path.c_str(), kind, true, *rel, &err_);
    });
  }
  ls_status open_all() {
    if (ls_status s = open(kTable, LS_REL_TABLE, &table_); s != LS_OK) return s;
    if (ls_status s = open(kOther, LS_REL_TABLE, &other_table_); s != LS_OK) return s;
    return open(kIndex, LS_REL_INDEX, &index_);
  }
  void forget(u32 relation) {
    const ls_rel_key key = relation_key(relation);
    engine([&] {
      ls_rel_forget(store(), &key);
      return 0;
    });
  }
  // What is used next comes from the disk.
  void cool() {
    ASSERT_EQ(ls_store_checkpoint(store(), &err_), LS_OK) << err_.message;
    for (u32 relation : {kTable, kOther, kIndex}) forget(relation);
    ASSERT_EQ(open_all(), LS_OK) << err_.message;
  }

  // The table's file as if another store had written it.
  void make_foreign() {
    cool();
    const std::string from = temp_ / HostDirectory::relation_path(kTable),
                      to = temp_ / HostDirectory::relation_path(kForeign);
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
    alignas(kPageSize) u8 page[kPageSize];
    std::fstream file(to, std::ios::binary | std::ios::in | std::ios::out);
    file.read(reinterpret_cast<char *>(page), sizeof page);
    reinterpret_cast<MetaPage *>(page)->store = {1, 2};
    page_seal(page);
    file.seekp(0);
    file.write(reinterpret_cast<const char *>(page), sizeof page);
  }

  // ---- a transaction; all that it does is in `pending_` until it commits
  ls_status begin() {
    xid_ = host_->begin();
    cid_ = 0;
    pending_ = rows_;
    return engine([&] { return ls_txn_begin(worker_, host_->tn(xid_), &err_); });
  }
  // Room for it has been made.
  void commit() {
    host_->end(xid_);
    xid_ = 0;
    const u64 gsn = engine([&] { return ls_txn_commit(worker_, nullptr, 0, false); });
    engine([&] {
      ls_wait_hardened(worker_, gsn, 0);
      return 0;
    });
    rows_ = pending_;
  }
  void abort() {
    engine([&] {
      ls_txn_abort(worker_);
      return 0;
    });
    host_->end(xid_);
    xid_ = 0;
  }
  // In a transaction, which is committed unless `work` fails.
  ls_status transaction(const std::function<ls_status()> &work) {
    ls_status status = begin();
    if (status == LS_OK) status = work();
    if (status == LS_OK) status = engine([&] { return ls_txn_reserve_commit(worker_, &err_); });
    if (status == LS_OK) {
      commit();
    } else {
      abort();
    }
    return status;
  }

  static const u8 *bytes(const std::string &s) { return reinterpret_cast<const u8 *>(s.data()); }
  static ls_bytes as_bytes(const std::string &s) { return {bytes(s), static_cast<u32>(s.size())}; }
  static std::string key_of(u64 row) {
    char key[24];
    std::snprintf(key, sizeof key, "%020llu", static_cast<unsigned long long>(row));
    return std::string(key) + std::string(150, 'k');
  }
  ls_status insert(const std::string &data, u64 *row) {
    LS_STEP(ls_row_ids(worker_, table_, 1, row, &err_));
    LS_STEP(ls_row_insert(worker_, table_, *row, cid_++, 0, bytes(data),
                          static_cast<u32>(data.size()), &err_));
    const std::string key = key_of(*row);
    LS_STEP(ls_index_insert(worker_, index_, table_, as_bytes(key), *row, {}, &err_));
    pending_[*row] = data;
    return LS_OK;
  }
  ls_status insert_some(u32 n) {
    for (u32 i = 0; i < n; i++) {
      u64 row = 0;
      if (ls_status s = insert(std::string(700, static_cast<char>('a' + i % 26)), &row); s != LS_OK)
        return s;
    }
    return LS_OK;
  }
  // With a snapshot of now.
  ls_status with_snapshot(const std::function<ls_status(const ls_snapshot &)> &work) {
    HostSnapshot snapshot;
    host_->take(&snapshot, xid_, cid_);
    const ls_status status = work(snapshot.s);
    host_->release(snapshot);
    return status;
  }
  u64 some_row(u64 n) const {
    auto it = pending_.begin();
    std::advance(it, n % pending_.size());
    return it->first;
  }
  ls_status update(u64 row, const std::string &data) {
    return with_snapshot([&](const ls_snapshot &snapshot) {
      const ls_change change{row, &snapshot, nullptr, cid_++, LS_LOCK_NO_KEY_UPDATE};
      ls_conflict conflict{};
      LS_STEP(ls_row_update(worker_, table_, &change, bytes(data), static_cast<u32>(data.size()),
                            &conflict, &err_));
      pending_[row] = data;
      return LS_OK;
    });
  }
  ls_status remove(u64 row) {
    return with_snapshot([&](const ls_snapshot &snapshot) {
      const ls_change change{row, &snapshot, nullptr, cid_++, LS_LOCK_UPDATE};
      ls_conflict conflict{};
      LS_STEP(ls_row_delete(worker_, table_, &change, 0, &conflict, &err_));
      pending_.erase(row);
      return LS_OK;
    });
  }
  ls_status lock(u64 row, ls_lock_mode mode) {
    return with_snapshot([&](const ls_snapshot &snapshot) {
      const ls_change change{row, &snapshot, nullptr, cid_++, mode};
      ls_conflict conflict{};
      alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
      ls_row got{};
      bool newer = false;
      LS_STEP(ls_row_lock(worker_, table_, &change, false, buffer, &got, &newer, &conflict, &err_));
      return LS_OK;
    });
  }

  // ---- afterwards
  void expect_rows(bool all) {
    EXPECT_EQ(other_->contents(table_), rows_);
    EXPECT_FALSE(ls_store_failed(store(), &err_)) << err_.message;
    // Nothing is locked: another session changes a row of each leaf that was worked on, and leaves
    // it as it was.
    ASSERT_EQ(other_->begin(), LS_OK) << other_->err.message;
    u64 n = 0;
    for (auto &[row, data] : rows_) {
      if (n++ % 16 != 0 && !all) continue;
      ASSERT_EQ(other_->update(table_, row, [](const std::string &old) { return old; }), LS_OK)
          << other_->err.message;
    }
    other_->abort();
    if (!all) return;
    ls_check_result result{};
    for (ls_rel *rel : {table_, index_, other_table_})
      EXPECT_EQ(ls_rel_check(worker_, rel, &result, &err_), LS_OK) << err_.message;
  }
  void sweep(const char *name, const std::function<ls_status()> &step,
             const std::function<void()> &before = {}) {
    SCOPED_TRACE(name);
    u64 n = 1;
    for (bool fired = true; fired && n < kMostAllocations && !::testing::Test::HasFatalFailure();
         n = next(n, 64)) {
      if (before) before();
      FailingMemory::arm(n);
      const ls_status status = step();
      fired = FailingMemory::disarm();
      // Some can do without: then it may succeed.
      EXPECT_TRUE(status == LS_OK || (fired && status == LS_NO_MEMORY))
          << "allocation " << n << ": " << to_text(status, err_);
      SCOPED_TRACE(n);
      expect_rows(false);
    }
    EXPECT_LT(n, kMostAllocations);
    expect_rows(true);
  }

  TempDirectory temp_;
  HostDirectory directory_;
  ls_config config_;
  std::unique_ptr<StoreLife> life_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<Session> other_;
  ls_worker *worker_ = nullptr;
  std::deque<ls_rel> handles_;
  ls_rel *table_ = nullptr, *index_ = nullptr, *other_table_ = nullptr;
  std::map<u64, std::string> rows_, pending_;
  u64 xid_ = 0, next_xid_ = kNextXid;
  u32 cid_ = 0;
  ls_error err_{};
};

// ---- steps: rows and transactions

class FailingMemoryRowsModelTest : public FailingMemoryModelTest {
 protected:
  ls_status insert_many() {
    const std::string row(600, 'm');
    const std::vector<ls_bytes> many(40, as_bytes(row));
    u64 first = 0;
    u32 inserted = 0;
    LS_STEP(ls_row_ids(worker_, table_, 40, &first, &err_));
    LS_STEP(ls_row_insert_many(worker_, table_, first, 40, cid_++, many.data(), &inserted, &err_));
    for (u64 i = 0; i < 40; i++) pending_[first + i] = row;
    return LS_OK;
  }
  ls_status change_rows() {
    turn_++;
    for (u64 i = 0; i < 4; i++) {
      if (ls_status s = update(some_row(turn_ * 37 + i * 11), std::string(650 + turn_ % 50, 'u'));
          s != LS_OK)
        return s;
      if (ls_status s = lock(some_row(turn_ * 5 + i), static_cast<ls_lock_mode>(i)); s != LS_OK)
        return s;
    }
    return remove(some_row(turn_ * 3));
  }
  // LS_END: all is done, and to be rolled back.
  ls_status roll_back_to_savepoint() {
    if (ls_status s = insert_some(2); s != LS_OK) return s;
    const u32 savepoint = engine([&] { return ls_txn_savepoint(worker_); });
    const auto kept = pending_;
    for (u64 i = 0; i < 5; i++) {
      if (ls_status s = update(some_row(i * 13), std::string(800, 's')); s != LS_OK) return s;
    }
    engine([&] {
      ls_txn_rollback_to(worker_, savepoint);
      return 0;
    });
    pending_ = kept;
    if (ls_status s = update(some_row(7), std::string(300, 'a')); s != LS_OK) return s;
    return LS_END;
  }
  ls_status insert_speculative(const std::string &data, bool keep) {
    u64 row = 0;
    LS_STEP(ls_row_ids(worker_, table_, 1, &row, &err_));
    LS_STEP(ls_row_insert(worker_, table_, row, 1, LS_ROW_SPECULATIVE, bytes(data),
                          static_cast<u32>(data.size()), &err_));
    LS_STEP(ls_row_finish_speculative(worker_, table_, row, cid_++, keep, &err_));
    if (keep) pending_[row] = data;
    return LS_OK;
  }
  ls_status insert_copied(const std::string &data) {
    u64 row = 0;
    LS_STEP(ls_row_ids(worker_, other_table_, 1, &row, &err_));
    ls_row raw{};
    raw.data = bytes(data);
    raw.len = static_cast<u32>(data.size());
    LS_STEP(ls_row_insert_copied(worker_, other_table_, row, &raw, &err_));
    return LS_OK;
  }
  ls_status commit_in_both_logs() {
    ls_status status = begin();
    if (status == LS_OK) status = insert_some(1);
    if (status == LS_OK)
      status = engine([&] { return ls_txn_prepare_commit(worker_, xid_, &err_); });
    if (status == LS_OK) {
      commit();
    } else {
      abort();
    }
    return status;
  }
  // Committed and rolled back by turns.
  ls_status end_in_two_phases() {
    ls_status status = begin();
    if (status == LS_OK) status = insert_some(2);
    if (status == LS_OK) status = update(some_row(3), std::string(200, '2'));
    if (status == LS_OK)
      status = engine([&] { return ls_txn_prepare(worker_, xid_, nullptr, 0, &err_); });
    if (status != LS_OK) {
      abort();
      return status;
    }
    engine([&] {
      ls_txn_hand_over(worker_);
      return 0;
    });
    const u64 xid = xid_;
    xid_ = 0;
    committed_ = !committed_;
    for (;;) {   // a host comes back to it
      status =
          engine([&] { return ls_prepared_finish(worker_, host_->tn(xid), committed_, &err_); });
      if (status != LS_NO_MEMORY) break;
    }
    host_->end(xid);
    if (status == LS_OK && committed_) rows_ = pending_;
    return status;
  }

  u64 turn_ = 0;
  bool committed_ = true;
};

TEST_F(FailingMemoryRowsModelTest, rows_and_transactions) {
  start();
  ASSERT_EQ(transaction([&] { return insert_some(200); }), LS_OK) << err_.message;
  sweep("insert", [&] { return transaction([&] { return insert_some(3); }); }, [&] { cool(); });
  sweep("insert many", [&] { return transaction([&] { return insert_many(); }); },
        [&] { cool(); });
  sweep("update, delete, lock", [&] { return transaction([&] { return change_rows(); }); },
        [&] { cool(); });
  sweep("savepoint and rollback", [&] {
    const ls_status status = transaction([&] { return roll_back_to_savepoint(); });
    return status == LS_END ? LS_OK : status;
  }, [&] { cool(); });
  sweep("speculative, raw", [&] {
    return transaction([&] {
      const std::string data(100, 'p');
      for (bool keep : {true, false}) {
        if (ls_status s = insert_speculative(data, keep); s != LS_OK) return s;
      }
      return insert_copied(data);
    });
  }, [&] { cool(); });
  sweep("both logs", [&] { return commit_in_both_logs(); });
  sweep("two phases", [&] { return end_in_two_phases(); });
  stop();
}

// ---- steps: scans, indexes and the rest

class FailingMemoryIndexModelTest : public FailingMemoryModelTest {
 protected:
  ls_status scan_table(const ls_snapshot &snapshot) {
    ls_snapshot with_others = snapshot;
    const u64 running[] = {snapshot.xmin};
    with_others.running = running;
    with_others.n_running = 1;
    ls_scan *scan = nullptr;
    LS_STEP(ls_scan_open(worker_, table_, &with_others, 0, LS_MAX_ROW_ID, false, &scan, &err_));
    ls_status status = LS_OK;
    const ls_row *rows = nullptr;
    u32 count = 0;
    while (status == LS_OK)
      status = engine([&] { return ls_scan_next(scan, &rows, &count, &err_); });
    if (status == LS_END) {
      engine([&] {
        ls_scan_rescan(scan, 0, LS_MAX_ROW_ID, true);
        return 0;
      });
      status = engine(
          [&] { return ls_scan_fetch(scan, rows_.begin()->first, 1, &rows, &count, &err_); });
    }
    ls_scan_close(scan);
    return status;
  }
  ls_status scan_index() {
    ls_index_scan *scan = nullptr;
    LS_STEP(ls_index_scan_open(worker_, index_, &scan, &err_));
    ls_index_entry entry{};
    const std::string middle = key_of(rows_.rbegin()->first / 2);
    ls_status status =
        engine([&] { return ls_index_scan_range(scan, {}, {nullptr, 0}, false, &err_); });
    u64 entries = 0;
    while (status == LS_OK) {
      status = engine([&] { return ls_index_scan_next(scan, &entry, &err_); });
      entries += status == LS_OK;
    }
    if (status == LS_END) {
      EXPECT_EQ(entries, rows_.size());
      status = engine([&] { return ls_index_scan_seek(scan, as_bytes(middle), &err_); });
    }
    if (status == LS_OK)
      status = engine([&] { return ls_index_scan_middle(scan, {}, {nullptr, 0}, &entry, &err_); });
    ls_index_scan_close(scan);
    return status;
  }
  ls_status insert_and_remove_unique() {
    u64 row = 0, other = 0;
    if (ls_status s = insert(std::string(50, 'q'), &row); s != LS_OK) return s;
    const std::string taken = key_of(row);
    const ls_status status = engine([&] {
      return ls_index_insert_unique(worker_, index_, table_, as_bytes(taken), row + 1, {}, nullptr,
                                    0, &other, &err_);
    });
    if (status != LS_EXISTS) return status == LS_OK ? LS_INVALID : status;
    const std::string key = key_of(1'000'000'000 + turn_++);
    LS_STEP(ls_index_insert_unique(worker_, index_, table_, as_bytes(key), row, {}, nullptr, 0,
                                   &other, &err_));
    LS_STEP(ls_index_note_stale(worker_, index_, &err_));
    ls_index_seen seen{};
    bool removed = false;
    LS_STEP(ls_index_look(worker_, index_, as_bytes(key), row, &seen, &err_));
    LS_STEP(ls_index_remove_seen(worker_, index_, as_bytes(key), row, &seen, 0, &removed, &err_));
    const ls_index_entry entry{row, as_bytes(key), {}};
    LS_STEP(ls_index_remove(worker_, index_, table_, &entry, &err_));
    return LS_OK;
  }
  ls_status sweep_index() {
    ls_index_position position{};
    u64 entries = 0, removed = 0;
    ls_status status = LS_OK;
    while (status == LS_OK)
      status = engine([&] {
        return ls_index_sweep(worker_, index_, table_, 8, &position, &entries, &removed, &err_);
      });
    return status == LS_END ? LS_OK : status;
  }
  ls_status build_index() {
    forget(kBuilt);
    directory_.remove_file(kBuilt);
    directory_.create_file(kBuilt);
    ls_rel *built = nullptr;
    if (ls_status s = open(kBuilt, LS_REL_INDEX, &built); s != LS_OK) return s;
    ls_index_build *build = nullptr;
    LS_STEP(ls_index_build_open(worker_, built, 90, &build, &err_));
    for (u64 i = 1; i < 300; i++) {
      const std::string entry = key_of(i) + std::string(5, '\0');
      const ls_status status =
          engine([&] { return ls_index_build_add(build, as_bytes(entry), {}, &err_); });
      if (status == LS_OK) continue;
      ls_index_build_abandon(build);
      return status;
    }
    LS_STEP(ls_index_build_finish(build, &err_));
    ls_check_result result{};
    EXPECT_EQ(ls_rel_check(worker_, built, &result, &err_), LS_OK) << err_.message;
    return LS_OK;
  }

  u64 turn_ = 0;
};

TEST_F(FailingMemoryIndexModelTest, scans_and_indexes) {
  start();
  ASSERT_EQ(transaction([&] { return insert_some(200); }), LS_OK) << err_.message;
  sweep("scan", [&] {
    return with_snapshot([&](const ls_snapshot &snapshot) { return scan_table(snapshot); });
  }, [&] { cool(); });
  sweep("index scan", [&] { return scan_index(); }, [&] { cool(); });
  sweep("unique entries", [&] { return transaction([&] { return insert_and_remove_unique(); }); },
        [&] { cool(); });
  sweep("sweep", [&] { return sweep_index(); }, [&] { cool(); });
  sweep("build", [&] { return build_index(); });
  stop();
}

class FailingMemoryRestModelTest : public FailingMemoryModelTest {
 protected:
  ls_status read_foreign() {
    ls_foreign *foreign = nullptr;
    const std::string path = HostDirectory::relation_path(kForeign);
    LS_STEP(ls_foreign_open(worker_, path.c_str(), LS_REL_TABLE, &foreign, &err_));
    ls_status status = LS_OK;
    const ls_row *rows = nullptr;
    u32 count = 0;
    while (status == LS_OK) {
      status = engine([&] { return ls_foreign_next(foreign, &rows, &count, &err_); });
    }
    ls_foreign_close(foreign);
    return status == LS_END ? LS_OK : status;
  }
  ls_status lock_ranges() {
    const ls_rel_key tree = relation_key(kIndex);
    ls_range_owner me{0, ++owner_}, holder{};
    ls_status status = LS_OK;
    for (u64 i = 0; i < 20 && status == LS_OK; i++) {
      const std::string from = key_of(i * 10), to = key_of(i * 10 + 5);
      status = engine([&] {
        return ls_range_lock(worker_, &tree, as_bytes(from), as_bytes(to), LS_RANGE_SHARED, me,
                             &holder, &err_);
      });
    }
    ls_range_info locked[32];
    EXPECT_LE(engine([&] { return ls_range_list(store(), locked, 32); }), 20u);
    engine([&] {
      ls_range_withdraw(worker_);
      ls_range_unlock_all(worker_, me);
      return 0;
    });
    return status;
  }
  ls_status attach() {
    ls_worker *worker = nullptr;
    LS_STEP(ls_worker_attach(store(), 3, &worker, &err_));
    engine([&] {
      (void)ls_worker_count_dependencies(worker, true);
      ls_worker_detach(worker);
      return 0;
    });
    return LS_OK;
  }
  ls_status scan_log(const ls_stats &stats) {
    ls_log_scan *log = nullptr;
    LS_STEP(ls_log_scan_open(store(), stats.log_redo_position, stats.log_position, &log, &err_));
    ls_log_item item{};
    ls_status status = LS_OK;
    while (status == LS_OK) status = engine([&] { return ls_log_scan_next(log, &item, &err_); });
    ls_log_scan_close(log);
    // Truncated meanwhile: no round begins there any more.
    return status == LS_END || status == LS_CORRUPT ? LS_OK : status;
  }
  ls_status inspect() {
    ls_rel_info info{};
    LS_STEP(ls_rel_get_info(worker_, table_, &info, &err_));
    ls_check_result result{};
    for (ls_rel *rel : {table_, index_}) LS_STEP(ls_rel_check(worker_, rel, &result, &err_));
    LS_STEP(ls_worker_checkpoint(store(), worker_, &err_));
    ls_stats stats{};
    engine([&] {
      ls_store_stats(store(), &stats);
      return 0;
    });
    const u64 position = engine([&] { return ls_commits_position(store()); });
    LS_STEP(ls_host_sync_point(store(), position, &err_));
    return scan_log(stats);
  }
  ls_status close_database() {
    const ls_status status = engine([&] { return ls_database_close(worker_, 5, &err_); });
    FailingMemory::disarm();
    EXPECT_EQ(open_all(), LS_OK) << err_.message;
    return status;
  }

  u32 owner_ = 0;
};

TEST_F(FailingMemoryRestModelTest, foreign_rows_range_locks_and_the_rest) {
  start();
  ASSERT_EQ(transaction([&] { return insert_some(200); }), LS_OK) << err_.message;
  sweep("rows of another store", [&] { return read_foreign(); }, [&] { make_foreign(); });
  sweep("range locks", [&] { return lock_ranges(); });
  sweep("attach", [&] { return attach(); });
  sweep("information", [&] { return inspect(); });
  sweep("close the database", [&] { return close_database(); },
        [&] { ASSERT_EQ(transaction([&] { return insert_some(2); }), LS_OK) << err_.message; });
  stop();
}

// What a start that failed leaves is what it has found: the next one begins again.
TEST_F(FailingMemoryModelTest, starts_and_stops) {
  u64 rows = 0;
  for (bool clean : {false, true}) {
    SCOPED_TRACE(clean);
    u64 n = 1;
    for (bool fired = true; fired && n < kMostAllocations; n = next(n, 8)) {
      const u64 xid = next_xid_;
      next_xid_ += 1000;
      ASSERT_TRUE(in_child([&] {
        StoreLife life(config_);
        ASSERT_EQ(life.recover(xid), LS_OK) << life.err.message;
        {
          Host host(life.store(), xid);
          Session a(life.store(), &host, 0), b(life.store(), &host, 1);
          u64 row = 0;
          for (Session *s : {&b, &a}) ASSERT_EQ(s->begin(), LS_OK);
          ASSERT_EQ(b.insert_many(b.open(kTable),
                                  std::vector<std::string>(30, std::string(500, 'b')), &row),
                    LS_OK);
          ASSERT_EQ(a.insert_many(a.open(kTable),
                                  std::vector<std::string>(20, std::string(500, 'a')), &row),
                    LS_OK);
          a.commit();
          if (!clean) die_at_once();
        }
        ASSERT_EQ(life.shutdown(), LS_OK) << life.err.message;
        die_at_once();
      }));
      rows += 20;
      FailingMemory::arm(n);
      {
        StoreLife life(config_);
        const ls_status status = engine([&] { return life.recover(next_xid_); });
        if (status == LS_OK) {
          const ls_status stopped = engine([&] { return life.shutdown(); });
          EXPECT_TRUE(stopped == LS_OK || (FailingMemory::fired() && stopped == LS_NO_MEMORY))
              << to_text(stopped, life.err);
        }
        fired = FailingMemory::disarm();
        EXPECT_TRUE(status == LS_OK || (fired && status == LS_NO_MEMORY))
            << n << ": " << to_text(status, life.err);
      }
      next_xid_ += 1000;
    }
    EXPECT_LT(n, kMostAllocations);
  }
  StoreLife life(config_);
  ASSERT_EQ(life.recover(next_xid_), LS_OK) << life.err.message;
  Host host(life.store(), next_xid_);
  Session s(life.store(), &host, 0);
  EXPECT_EQ(s.contents(s.open(kTable)).size(), rows);
  ls_check_result result{};
  EXPECT_EQ(ls_rel_check(s.worker(), s.open(kTable), &result, &s.err), LS_OK) << s.err.message;
}

// A thread that has no memory tries again, or does without.
TEST_F(FailingMemoryModelTest, the_threads_of_the_engine) {
  config_.buffer_pool_bytes = 128 * 4096;
  start();
  ASSERT_EQ(transaction([&] { return insert_some(300); }), LS_OK) << err_.message;
  for (const char *thread :
       {"ls committer", "ls log segment", "ls provider", "ls checkpointer", "ls cleaner"}) {
    SCOPED_TRACE(thread);
    u64 n = 1;
    for (bool fired = true; fired && n < kMostAllocations; n = next(n, 8)) {
      FailingMemory::arm_threads(thread, n);
      for (int i = 0; i < 6 && !FailingMemory::fired(); i++) {
        ASSERT_EQ(transaction([&] { return insert_some(4); }), LS_OK) << err_.message;
        ASSERT_EQ(transaction([&] {
          for (u64 k = 0; k < 10; k++) {
            if (ls_status s =
                    update(some_row(k * 31 + n), std::string(600, static_cast<char>('A' + i)));
                s != LS_OK)
              return s;
          }
          return remove(some_row(n * 7));
        }), LS_OK) << err_.message;
        const ls_status status = ls_store_checkpoint(store(), &err_);
        EXPECT_TRUE(status == LS_OK || status == LS_NO_MEMORY) << to_text(status, err_);
        (void)other_->contents(table_);
      }
      fired = FailingMemory::disarm();
      SCOPED_TRACE(n);
      expect_rows(false);
      if (::testing::Test::HasFailure()) break;
    }
    EXPECT_LT(n, kMostAllocations);
    expect_rows(true);
    EXPECT_EQ(ls_store_checkpoint(store(), &err_), LS_OK) << err_.message;
  }
  stop();
}

}  // namespace
}  // namespace ls::test
