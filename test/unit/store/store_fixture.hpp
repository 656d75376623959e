// store_fixture.hpp - a store in a directory of the test's own, and a host for it: transaction ids,
// snapshots, horizon.
#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "leanstore/engine.h"
#include "leanstore/standby.h"
#include "store/store.hpp"
#include "unit/os/temp_directory.hpp"

namespace ls::test {

// What the engine says, for assertion messages.
inline std::string to_text(ls_status status, const ls_error &err) {
  return "status " + std::to_string(status) + ": " + err.message +
         (err.path[0] ? " [" + std::string(err.path) + "]" : "");
}

#define LS_EXPECT_OK(call)                                                        \
  do {                                                                            \
    ls_status s_ = (call);                                                        \
    EXPECT_EQ(s_, LS_OK) << ::ls::test::to_text(s_, err) << " in " << #call;      \
  } while (0)
#define LS_ASSERT_OK(call)                                                        \
  do {                                                                            \
    ls_status s_ = (call);                                                        \
    ASSERT_EQ(s_, LS_OK) << ::ls::test::to_text(s_, err) << " in " << #call;      \
  } while (0)

// The directory tree of a host.
class HostDirectory {
 public:
  explicit HostDirectory(const std::string &root) : root_(root) {
    mkdir((root_ + "/leanstore").c_str(), 0700);
    mkdir((root_ + "/base").c_str(), 0700);
    mkdir((root_ + "/base/5").c_str(), 0700);
  }
  const std::string &root() const { return root_; }
  static std::string relation_path(u32 relation) { return "base/5/" + std::to_string(relation); }
  // What the host's storage manager does at CREATE TABLE; harmless when it exists.
  void create_file(u32 relation) const {
    std::ofstream(root_ + "/" + relation_path(relation), std::ios::app);
  }
  void remove_file(u32 relation) const {
    std::remove((root_ + "/" + relation_path(relation)).c_str());
  }

 private:
  std::string root_;
};

inline ls_rel_key relation_key(u32 relation) { return {1663, 5, relation, -1}; }

inline ls_config small_config(const std::string &root) {
  ls_config c{};
  c.buffer_pool_bytes = 512 * 4096;
  c.compressed_cache_percent = 25;
  c.worker_slots = 8;
  c.max_open_files = 24;
  c.log_buffer_bytes = 64 * 1024;
  c.log_segment_bytes = 1 << 20;
  c.max_log_bytes = 8 << 20;
  c.checkpoint_seconds = 300;
  c.page_providers = 1;
  c.version_trees = 2;
  c.fsync = false;
  c.direct_io = false;
  c.page_images = std::getenv("LS_PAGE_IMAGES") != nullptr;   // all of these tests with them
  std::snprintf(c.root_dir, sizeof c.root_dir, "%s", root.c_str());
  std::snprintf(c.data_dir, sizeof c.data_dir, "%s/leanstore", root.c_str());
  return c;
}

// One life of a store: arena, recovery, shutdown.
class StoreLife {
 public:
  explicit StoreLife(const ls_config &config) : config_(config), bytes_(ls_store_size(&config)) {
    arena_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arena_ == MAP_FAILED) throw std::bad_alloc();
    status_ = ls_store_create(arena_, bytes_, &config_, &store_, &err);
  }
  // A store that is still running is shut down.
  ~StoreLife() {
    if (store_ && ls_store_ready(store_)) {
      EXPECT_EQ(ls_store_shutdown(store_, &err), LS_OK) << err.message;
    }
    munmap(arena_, bytes_);
  }
  StoreLife(const StoreLife &) = delete;
  StoreLife &operator=(const StoreLife &) = delete;

  // Whether it is committed; may set `prepared`.
  using Decide = std::function<bool(ls_in_doubt &)>;
  ls_status recover(u64 next_full_xid, const Decide &decide = {}) {
    if (status_ != LS_OK) return status_;
    ls_in_doubt *doubts = nullptr;
    size_t n = 0;
    ls_status status = ls_recovery_redo(store_, next_full_xid, &doubts, &n, &err);
    if (status == LS_OK) {
      for (size_t i = 0; i < n; i++) {
        doubts_.push_back(doubts[i]);
        doubts[i].committed = decide && decide(doubts[i]);
      }
      status = ls_recovery_finish(store_, doubts, n, &err);
    }
    free(doubts);
    return status;
  }
  ls_status shutdown() { return ls_store_shutdown(store_, &err); }

  ls_store *store() const { return store_; }
  void *arena() const { return arena_; }
  const std::vector<ls_in_doubt> &doubts() const { return doubts_; }
  ls_error err{};

 private:
  ls_config config_;
  size_t bytes_;
  void *arena_ = nullptr;
  ls_store *store_ = nullptr;
  ls_status status_ = LS_OK;
  std::vector<ls_in_doubt> doubts_;
};

// A snapshot with its own memory, registered at the host so that the horizon respects it.
struct HostSnapshot {
  ls_snapshot s{};
  std::vector<u64> running;
};

// Names transactions, takes snapshots, publishes the horizon: what PostgreSQL's ProcArray does.
class Host {
 public:
  Host(ls_store *store, u64 next_xid)
      : store_(store), offset_(ls_store_tn_offset(store)), next_xid_(next_xid) {}

  u64 begin() {
    std::lock_guard lock(mutex_);
    running_.insert(next_xid_);
    return next_xid_++;
  }
  // The effects become visible (or the transaction is known to be aborted).
  void end(u64 xid) {
    std::lock_guard lock(mutex_);
    running_.erase(xid);
    publish_horizon();
  }
  // The same around a commit by the worker that ran it: its record has no place in the log before
  // `commit` has returned, so until then no snapshot that sees the effects is worked with, and the
  // horizon stays below (engine.h, ls_txn_commit).
  template <typename Commit>
  u64 end_with(u64 xid, Commit &&commit) {
    {
      std::lock_guard lock(mutex_);
      running_.erase(xid);
      leaving_.insert(xid);
      publish_horizon();
    }
    const u64 gsn = commit();
    std::lock_guard lock(mutex_);
    leaving_.erase(xid);
    publish_horizon();
    left_.notify_all();
    return gsn;
  }
  // A transaction of an earlier start that is prepared still.
  void resume(u64 xid) {
    std::lock_guard lock(mutex_);
    running_.insert(xid);
    publish_horizon();
  }
  u64 tn(u64 xid) const { return xid + offset_; }
  u64 next_xid() const {
    std::lock_guard lock(mutex_);
    return next_xid_;
  }
  // own_xid 0: none.  The caller releases it.  exact: it is published as it is, not only its xmin.
  void take(HostSnapshot *snapshot, u64 own_xid, u32 curcid, bool exact = false) {
    std::unique_lock lock(mutex_);
    snapshot->running.clear();
    for (u64 xid : running_)
      if (xid != own_xid) snapshot->running.push_back(xid + offset_);
    ls_snapshot &s = snapshot->s;
    s.kind = LS_SNAPSHOT_MVCC;
    s.xmax = next_xid_ + offset_;
    s.xmin = (running_.empty() ? next_xid_ : *running_.begin()) + offset_;
    s.running = snapshot->running.data();
    s.n_running = static_cast<u32>(snapshot->running.size());
    s.curcid = curcid;
    s.own_tn = own_xid ? own_xid + offset_ : 0;
    xmins_.insert(s.xmin);
    if (exact) pins_.insert(snapshot);
    const std::set<u64> seen = leaving_;
    left_.wait(lock, [&] {
      return std::none_of(seen.begin(), seen.end(),
                          [&](u64 xid) { return leaving_.contains(xid); });
    });
  }
  void release(const HostSnapshot &snapshot) {
    std::lock_guard lock(mutex_);
    xmins_.erase(xmins_.find(snapshot.s.xmin));
    pins_.erase(&snapshot);
  }

  // The host's engine process does so again and again.
  void publish() {
    std::lock_guard lock(mutex_);
    publish_horizon();
  }

 private:
  void publish_horizon() {
    std::set<u64> not_left = running_;
    not_left.insert(leaving_.begin(), leaving_.end());
    std::vector<u64> running;
    for (u64 xid : not_left) running.push_back(xid + offset_);
    u64 xmax = next_xid_ + offset_;
    ls_plain_snapshot now{running.empty() ? xmax : running.front(), xmax, running.data(),
                          static_cast<u32>(running.size())};
    u64 horizon = xmins_.empty() ? now.xmin : std::min(now.xmin, *xmins_.begin());
    std::multiset<u64> others = xmins_;
    std::vector<ls_plain_snapshot> pins;
    for (const HostSnapshot *pin : pins_) {
      others.erase(others.find(pin->s.xmin));
      pins.push_back({pin->s.xmin, pin->s.xmax, pin->s.running, pin->s.n_running});
    }
    u64 floor = others.empty() ? now.xmin : std::min(now.xmin, *others.begin());
    ls_store_publish_horizon(store_, horizon, floor, &now, pins.data(),
                             static_cast<u32>(pins.size()));
  }

  ls_store *store_;
  u64 offset_;
  mutable std::mutex mutex_;
  u64 next_xid_;
  std::set<u64> running_;
  std::set<u64> leaving_;   // ended, and not yet past the engine's commit
  std::condition_variable left_;
  std::multiset<u64> xmins_;
  std::set<const HostSnapshot *> pins_;
};

// All rows that the snapshot sees.
inline ls_status scan_rows(ls_worker *worker, ls_rel *rel, const ls_snapshot &snapshot,
                           const std::function<void(const ls_row &)> &each, ls_error *err) {
  ls_scan *scan = nullptr;
  ls_status status = ls_scan_open(worker, rel, &snapshot, 0, LS_MAX_ROW_ID, false, &scan, err);
  while (status == LS_OK) {
    const ls_row *rows = nullptr;
    u32 count = 0;
    status = ls_scan_next(scan, &rows, &count, err);
    for (u32 i = 0; i < count; i++) each(rows[i]);
  }
  if (scan) ls_scan_close(scan);
  return status == LS_END ? LS_OK : status;
}

// One backend: a worker and at most one transaction.
class Session {
 public:
  Session(ls_store *store, Host *host, u32 slot) : host_(host) {
    status_ = ls_worker_attach(store, slot, &worker_, &err);
  }
  ~Session() {
    if (!worker_) return;
    if (xid_) abort();
    ls_worker_detach(worker_);
  }
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  ls_status attach_status() const { return status_; }
  ls_worker *worker() const { return worker_; }
  u64 xid() const { return xid_; }
  u64 tn() const { return host_->tn(xid_); }

  ls_rel *open(u32 relation, bool logged = true, ls_rel_kind kind = LS_REL_TABLE) {
    ls_rel_key key = relation_key(relation);
    ls_rel *rel = &handles_.emplace_back();
    const std::string path = HostDirectory::relation_path(relation);
    ls_status status = ls_rel_open(worker_, &key, path.c_str(), kind, logged, rel, &err);
    if (status == LS_END) status = ls_rel_open_empty(worker_, kind, rel, &err);   // on a standby
    EXPECT_EQ(status, LS_OK) << to_text(status, err);
    return rel;
  }

  ls_status begin() {
    xid_ = host_->begin();
    cid_ = 0;
    return ls_txn_begin(worker_, tn(), &err);
  }
  // Engine-only commit as the host does it; returns the GSN to wait for.
  u64 commit_unhardened(const std::string &note = {}) {
    EXPECT_EQ(ls_txn_reserve_commit(worker_, &err), LS_OK);
    return end_with(note);
  }
  void commit(const std::string &note = {}) {
    ls_wait_hardened(worker_, commit_unhardened(note), 0);
  }
  // The host counts a transaction as running until its changes are undone (visibility.hpp, VIS-1).
  void abort() {
    ls_txn_abort(worker_);
    host_->end(xid_);
    xid_ = 0;
  }
  // Mixed commit.  commit_record: the host's own log.
  ls_status commit_prepared(const std::function<void(u64 xid)> &commit_record) {
    ls_status status = ls_txn_prepare_commit(worker_, xid_, &err);
    if (status != LS_OK) return status;
    commit_record(xid_);
    ls_wait_hardened(worker_, end_with({}), 0);
    return LS_OK;
  }

  // Two-phase commit: the transaction goes on without this session; the host has it as running.
  // prepare_record: the host's own log.  ending: files that the host unlinks at the end.
  ls_status hand_over(const std::function<void()> &prepare_record = {},
                      const std::vector<ls_ending_file> &ending = {}) {
    ls_status status = ls_txn_prepare(worker_, xid_, ending.data(), ending.size(), &err);
    if (status != LS_OK) return status;
    if (prepare_record) prepare_record();
    ls_txn_hand_over(worker_);
    xid_ = 0;
    return LS_OK;
  }

  ls_status insert(ls_rel *rel, const std::string &data, u64 *row_id) {
    ls_status status = ls_row_ids(worker_, rel, 1, row_id, &err);
    if (status != LS_OK) return status;
    return ls_row_insert(worker_, rel, *row_id, cid_++, 0, bytes(data),
                         static_cast<u32>(data.size()), &err);
  }
  // One behind the other, as COPY has them.
  ls_status insert_many(ls_rel *rel, const std::vector<std::string> &data, u64 *first) {
    ls_status status = ls_row_ids(worker_, rel, static_cast<u32>(data.size()), first, &err);
    return status == LS_OK ? insert_at(rel, *first, data) : status;
  }
  // A value, in a file of them.
  ls_status insert_value(ls_rel *rel, const std::string &data, u64 *value_id) {
    ls_value_range values{};
    const ls_status status = ls_value_ids(worker_, rel, 1, &values, &err);
    *value_id = values.first;
    if (status != LS_OK) return status;
    const ls_new_value value{values.first, bytes(data), static_cast<u32>(data.size()), true};
    return ls_value_insert(worker_, rel, &value, cid_++, &err);
  }
  ls_status remove_value(ls_rel *rel, u64 value_id, size_t size) {
    const ls_value_slice value{value_id, static_cast<u32>(size), 0, 0};
    return ls_value_delete(worker_, rel, &value, cid_++, &err);
  }
  ls_status read_value(ls_rel *rel, u64 value_id, size_t size, std::string *data) {
    data->resize(size);
    const ls_value_slice all{value_id, static_cast<u32>(size), 0, static_cast<u32>(size)};
    return ls_value_read(worker_, rel, &all, reinterpret_cast<u8 *>(data->data()), &err);
  }
  // All visible values, by number.
  std::map<u64, std::string> value_contents(ls_rel *rel) {
    std::map<u64, std::string> values;
    std::vector<std::pair<u64, std::string>> rows;
    EXPECT_EQ(scan(rel, [&](const ls_row &row) {
      rows.emplace_back(row.row_id,
                        std::string(reinterpret_cast<const char *>(row.data), row.len));
    }), LS_OK) << err.message;
    for (const auto &[row_id, data] : rows) {
      ls_row row{};
      row.row_id = row_id;
      row.data = bytes(data);
      row.len = static_cast<u32>(data.size());
      u32 size = 0;
      const u64 value_id = row_id / LS_ROWS_PER_VALUE;
      EXPECT_EQ(ls_value_check(worker_, rel, &row, &size, &err), LS_OK) << err.message;
      EXPECT_EQ(read_value(rel, value_id, size, &values[value_id]), LS_OK) << err.message;
    }
    return values;
  }
  ls_status fetch(ls_rel *rel, u64 row_id, std::string *data) {
    HostSnapshot snapshot;
    host_->take(&snapshot, xid_, cid_);
    ls_status status = fetch_with(rel, row_id, snapshot.s, data);
    host_->release(snapshot);
    return status;
  }
  // Replace the row by what `change` makes of its visible version; waits are the caller's.
  ls_status update(ls_rel *rel, u64 row_id,
                   const std::function<std::string(const std::string &)> &change) {
    HostSnapshot snapshot;
    host_->take(&snapshot, xid_, cid_);
    std::string data;
    ls_status status = fetch_with(rel, row_id, snapshot.s, &data);
    if (status == LS_OK) {
      data = change(data);
      ls_change c{row_id, &snapshot.s, nullptr, cid_++, LS_LOCK_NO_KEY_UPDATE};
      ls_conflict conflict{};
      status = ls_row_update(worker_, rel, &c, bytes(data), static_cast<u32>(data.size()),
                             &conflict, &err);
    }
    host_->release(snapshot);
    return status;
  }
  ls_status remove(ls_rel *rel, u64 row_id) {
    HostSnapshot snapshot;
    host_->take(&snapshot, xid_, cid_);
    ls_change c{row_id, &snapshot.s, nullptr, cid_++, LS_LOCK_UPDATE};
    ls_conflict conflict{};
    ls_status status = ls_row_delete(worker_, rel, &c, 0, &conflict, &err);
    host_->release(snapshot);
    return status;
  }
  // All visible rows.
  ls_status scan(ls_rel *rel, const std::function<void(const ls_row &)> &each) {
    HostSnapshot snapshot;
    host_->take(&snapshot, xid_, cid_);
    const ls_status status = scan_rows(worker_, rel, snapshot.s, each, &err);
    host_->release(snapshot);
    return status;
  }
  std::map<u64, std::string> contents(ls_rel *rel) {
    std::map<u64, std::string> rows;
    ls_status status = scan(rel, [&](const ls_row &row) {
      rows[row.row_id] = std::string(reinterpret_cast<const char *>(row.data), row.len);
    });
    EXPECT_EQ(status, LS_OK) << to_text(status, err);
    return rows;
  }
  ls_error err{};

 private:
  u64 end_with(const std::string &note) {
    return host_->end_with(std::exchange(xid_, 0), [&] {
      return ls_txn_commit(worker_, note.data(), note.size(), false);
    });
  }
  static const u8 *bytes(const std::string &s) { return reinterpret_cast<const u8 *>(s.data()); }

  ls_status insert_at(ls_rel *rel, u64 first, const std::vector<std::string> &data) {
    std::vector<ls_bytes> rows;
    for (const std::string &row : data) rows.push_back({bytes(row), static_cast<u32>(row.size())});
    u32 inserted = 0;
    return ls_row_insert_many(worker_, rel, first, static_cast<u32>(rows.size()), cid_++,
                              rows.data(), &inserted, &err);
  }
  ls_status fetch_with(ls_rel *rel, u64 row_id, const ls_snapshot &snapshot, std::string *data) {
    alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
    ls_row row{};
    bool dead = false;
    ls_status status = ls_row_fetch(worker_, rel, row_id, &snapshot, buffer, &row, &dead, &err);
    if (status == LS_OK) data->assign(reinterpret_cast<const char *>(row.data), row.len);
    return status;
  }

  Host *host_;
  std::deque<ls_rel> handles_;
  ls_worker *worker_ = nullptr;
  ls_status status_;
  u64 xid_ = 0;
  u32 cid_ = 0;
};

}  // namespace ls::test
