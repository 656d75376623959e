// txn_fixture.hpp - log, pool and transaction table without a store around them, with the threads
// that they need, and a small host: it numbers transactions, takes snapshots and publishes the
// horizon.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "btree/tree.hpp"
#include "buffer/page_provider.hpp"
#include "txn/row.hpp"
#include "txn/row_log.hpp"
#include "txn/row_scan.hpp"
#include "unit/os/temp_directory.hpp"

namespace ls::txn_test {

inline constexpr Tn kFirstTn = 1000;
inline constexpr u32 kPins = 16, kPinRunning = 128;

#define TXN_EXPECT_OK(call)                                                                  \
  do {                                                                                       \
    ::ls::Status s_ = (call);                                                                \
    EXPECT_TRUE(::ls::ok(s_)) << "status " << code(s_) << ": " << last_error().message       \
                              << " in " << #call;                                            \
  } while (0)
#define TXN_ASSERT_OK(call)                                                                  \
  do {                                                                                       \
    ::ls::Status s_ = (call);                                                                \
    ASSERT_TRUE(::ls::ok(s_)) << "status " << code(s_) << ": " << last_error().message       \
                              << " in " << #call;                                            \
  } while (0)

inline Bytes bytes_of(const std::string &s) {
  return Bytes(reinterpret_cast<const u8 *>(s.data()), s.size());
}
// A row as another file has it, for row_insert_copied.
inline ls_row copied_row(Tn writer, const char *data, u32 flags = 0, u64 moved_to = 0) {
  ls_row row{};
  row.writer_tn = writer;
  row.seq = 1;
  row.flags = flags;
  row.moved_to = moved_to;
  row.data = reinterpret_cast<const u8 *>(data);
  row.len = static_cast<u32>(std::strlen(data));
  return row;
}

inline std::string text_of(const ls_row &row) {
  return std::string(reinterpret_cast<const char *>(row.data), row.len);
}

// The rows of a scan one by one, as a host takes them.
class OneByOne {
 public:
  explicit OneByOne(RowScan *scan) : scan_(scan) {}
  Status next(ls_row *row) {
    if (at_ + 1 >= rows_.size()) {
      rows_ = {};
      LS_TRY(scan_->next(&rows_));
      at_ = 0;
    } else {
      at_++;
    }
    *row = rows_[at_];
    return kOk;
  }
  void set_backward(bool backward) {
    scan_->set_backward(backward, rows_.empty() ? 0 : rows_[at_].row_id);
    rows_ = {};
  }
  void rescan(u64 lo, u64 hi, bool backward) {
    scan_->rescan(lo, hi, backward);
    rows_ = {};
  }

 private:
  RowScan *scan_;
  std::span<const ls_row> rows_;
  size_t at_ = 0;
};

struct EngineConfig {
  u32 slots = 12;
  u32 frames = 512;
  u32 version_trees = 2;
  bool fsync = false;
};

// The last slot is the engine's own.
class Engine {
 public:
  explicit Engine(const EngineConfig &config = {}) : config_(config) {
    file_setup(directory_.path().c_str(), false, config.fsync, 64);
    register_tree_ops(BTree::ops());
    std::filesystem::create_directory(directory_ / "wal");
    create_log();
    create_pool();
    create_txns();
    committer_ = std::thread([this] { committed_ = log().run_committer(2); });
    provider_ = std::thread([this] { provided_ = PageProvider(*pool_, 0).run(stop_); });
    own_ = std::make_unique<Worker>(pool_.get(), log(), txns_.get(), config_.slots - 1);
    for (u32 i = 0; i < config_.version_trees; i++) {
      txns_->version_file[i] = open("versions" + std::to_string(i), LS_REL_VERSIONS, false)->index;
    }
    txns_->lock_file = open("locks", LS_REL_VERSIONS, false)->index;
    pool_->shared()->value_tree.store(open("free", LS_REL_VERSIONS, false)->index + 1);
  }
  ~Engine() {
    own_.reset();
    stop_.store(1);
    wake_providers(*pool_->shared());
    provider_.join();
    log().stop();
    committer_.join();
    EXPECT_TRUE(ok(committed_) && ok(provided_));
  }
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  FileSlot *open(const std::string &name, ls_rel_kind kind = LS_REL_TABLE, bool logged = true) {
    std::ofstream(directory_ / name, std::ios::app);
    FileSlot *slot = nullptr;
    const ls_rel_key key{1, 1, relation_of(name), -1};
    const Status s =
        pool_->open_file(own_->ctx, key, name.c_str(), kind, logged, 0, BTree::format, &slot);
    EXPECT_TRUE(ok(s)) << last_error().message;
    return slot;
  }
  ls_rel_key key_of(const std::string &name) { return {1, 1, relation_of(name), -1}; }

  Log log() { return Log::attach(log_arena_.get()); }
  BufferPool &pool() { return *pool_; }
  TxnShared &txns() { return *txns_; }
  Worker &own() { return *own_; }
  const std::string &path() const { return directory_.path(); }
  std::unique_ptr<Worker> worker(u32 slot) {
    return std::make_unique<Worker>(pool_.get(), log(), txns_.get(), slot);
  }
  // Invariants of a table's tree, and that its rows can be read.
  u64 verify(FileSlot &file) {
    BTree tree(own_->ctx, file);
    BTree::CheckResult result{};
    const Status s = tree.verify(&result, nullptr, nullptr);
    EXPECT_TRUE(ok(s)) << last_error().message;
    return result.entries;
  }

 private:
  struct Free {
    void operator()(void *p) const { std::free(p); }
  };
  using Arena = std::unique_ptr<void, Free>;
  static Arena arena(size_t bytes) {
    const size_t size = (bytes + 4095) / 4096 * 4096;
    Arena a(std::aligned_alloc(4096, size));
    std::memset(a.get(), 0, size);
    return a;
  }
  void create_log() {
    LogConfig c{};
    c.slots = config_.slots;
    c.buffer_bytes = 4 * kMaxRecordBytes;
    c.segment_bytes = 4 << 20;
    c.fsync = false;
    std::snprintf(c.dir, sizeof c.dir, "%s/wal", directory_.path().c_str());
    log_arena_ = arena(Log::arena_bytes(c));
    Log::create(log_arena_.get(), c);
    EXPECT_TRUE(ok(log().open_for_append(0, 0, 1))) << last_error().message;
  }
  void create_pool() {
    PoolConfig c{};
    c.bytes = u64{config_.frames} * kPageSize;
    c.max_files = 32;
    c.io_partitions = 16;
    c.compressed_cache_percent = 25;
    pool_arena_ = arena(BufferPool::arena_bytes(c));
    BufferPool::create(pool_arena_.get(), c);
    pool_ = std::make_unique<BufferPool>(BufferPool::attach(pool_arena_.get(), log()));
    pool_->set_next_file_no(1);
  }
  void create_txns() {
    txns_ = std::make_unique<TxnShared>();
    txns_->slots = config_.slots;
    txns_->version_trees = config_.version_trees;
    version_leaves_ = arena(VersionLeaves::bytes_for(config_.frames));
    row_blocks_ = arena(RowBlocks::bytes_for(config_.frames));
    txns_->row_blocks.init(row_blocks_.get(), config_.frames);
    horizon_ = arena(horizon_bytes(kPins, kPinRunning));
    horizon_init(txns_->snapshots, horizon_.get(), kPins, kPinRunning);
    txns_->version_leaves.init(version_leaves_.get(), config_.frames, config_.version_trees);
    active_ = std::make_unique<TxnShared::Active[]>(config_.slots);
    attached_ = std::make_unique<std::atomic<u32>[]>(config_.slots);
    txns_->active = active_.get();
    txns_->attached = attached_.get();
    txns_->tn_base.store(kFirstTn);
    txns_->horizon.store(kFirstTn);
  }
  u32 relation_of(const std::string &name) {
    return names_.try_emplace(name, static_cast<u32>(names_.size()) + 1).first->second;
  }

  EngineConfig config_;
  test::TempDirectory directory_;
  Arena log_arena_, pool_arena_, version_leaves_, row_blocks_, horizon_;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<TxnShared> txns_;
  std::unique_ptr<TxnShared::Active[]> active_;
  std::unique_ptr<std::atomic<u32>[]> attached_;
  std::unique_ptr<Worker> own_;
  std::map<std::string, u32> names_;
  std::atomic<u32> stop_{0};
  Status committed_ = kOk, provided_ = kOk;
  std::thread committer_, provider_;
};

struct Snapshot {
  ls_snapshot s{};
  std::vector<u64> running;
};

// What the server's array of processes does.
class Host {
 public:
  explicit Host(Engine &engine) : engine_(engine) {}

  Tn begin() {
    std::lock_guard lock(mutex_);
    running_.insert(next_);
    return next_++;
  }
  void end(Tn tn) {
    std::lock_guard lock(mutex_);
    running_.erase(tn);
  }
  // Aborting transactions count as running until the engine has undone them.
  std::unique_ptr<Snapshot> take(Tn own, u32 curcid) {
    std::lock_guard lock(mutex_);
    auto snapshot = std::make_unique<Snapshot>();
    std::set<Tn> running = running_;
    Tn active[64];
    const size_t n = active_tns(engine_.txns(), active, 64);
    for (size_t i = 0; i < n; i++) {
      if (aborting_.contains(active[i])) running.insert(active[i]);
    }
    running.erase(own);
    snapshot->running.assign(running.begin(), running.end());
    ls_snapshot &s = snapshot->s;
    s.kind = LS_SNAPSHOT_MVCC;
    s.xmax = next_;
    s.xmin = std::min({next_, running_.empty() ? next_ : *running_.begin(),
                       running.empty() ? next_ : *running.begin()});
    s.running = snapshot->running.data();
    s.n_running = static_cast<u32>(snapshot->running.size());
    s.curcid = curcid;
    s.own_tn = own;
    held_.insert(snapshot.get());
    return snapshot;
  }
  void release(const Snapshot &snapshot) {
    std::lock_guard lock(mutex_);
    held_.erase(const_cast<Snapshot *>(&snapshot));
  }
  // Both forms: the plain bound, and which versions above it are needed.
  void publish_horizon() {
    std::lock_guard lock(mutex_);
    std::vector<Tn> running(running_.begin(), running_.end());
    for (const Tn tn : aborting_) {
      if (tn_is_active(engine_.txns(), tn)) running.push_back(tn);
    }
    std::sort(running.begin(), running.end());
    const Tn oldest_running = running.empty() ? next_ : running.front();
    Tn horizon = oldest_running;
    for (const Snapshot *s : held_) horizon = std::min(horizon, s->s.xmin);
    std::atomic<Tn> &word = engine_.txns().horizon;
    if (word.load() < horizon) word.store(horizon);
    publish_exactly(
        PlainSnapshot{oldest_running, next_, running.data(), static_cast<u32>(running.size())});
  }
  // Before the engine undoes it: it is not running any more, but not undone either.
  void abort(Tn tn) {
    std::lock_guard lock(mutex_);
    running_.erase(tn);
    aborting_.insert(tn);
  }
  void undone(Tn tn) {
    std::lock_guard lock(mutex_);
    aborting_.erase(tn);
  }
  Tn next() {
    std::lock_guard lock(mutex_);
    return next_;
  }

 private:
  // The oldest snapshots by name, the others by a bound.  A pin does not see its own transaction:
  // of that it sees some.
  void publish_exactly(const PlainSnapshot &now) {
    std::vector<Snapshot *> held(held_.begin(), held_.end());
    std::sort(held.begin(), held.end(),
              [](const Snapshot *a, const Snapshot *b) { return a->s.xmin < b->s.xmin; });
    const size_t n = std::min<size_t>(held.size(), kPins / 2);
    std::vector<std::vector<Tn>> running(n);
    std::vector<PlainSnapshot> pins(n);
    for (size_t i = 0; i < n; i++) {
      running[i] = held[i]->running;
      if (held[i]->s.own_tn != 0) running[i].push_back(held[i]->s.own_tn);
      std::sort(running[i].begin(), running[i].end());
      pins[i] = {held[i]->s.xmin, held[i]->s.xmax, running[i].data(),
                 static_cast<u32>(running[i].size())};
    }
    const Tn floor = n < held.size() ? held[n]->s.xmin : next_;
    horizon_publish(engine_.txns().snapshots, floor, now, pins.data(), static_cast<u32>(n));
  }

  Engine &engine_;
  std::mutex mutex_;
  Tn next_ = kFirstTn;
  std::set<Tn> running_, aborting_;
  std::set<Snapshot *> held_;
};

// One backend with at most one transaction.
class Session {
 public:
  Session(Engine &engine, Host &host, u32 slot) : host_(host), worker_(engine.worker(slot)) {}
  ~Session() {
    if (worker_->tn != 0) abort();
  }
  Worker &worker() { return *worker_; }
  Tn tn() const { return worker_->tn; }
  u32 cid = 0;

  void begin() {
    cid = 0;
    TXN_EXPECT_OK(txn_begin(*worker_, host_.begin()));
  }
  void commit(bool wait = false) {
    TXN_EXPECT_OK(txn_reserve_commit(*worker_));
    const Tn tn = worker_->tn;
    host_.end(tn);
    const Gsn gsn = txn_commit(*worker_);
    if (!wait || gsn == 0) return;
    EXPECT_TRUE(worker_->log.log().wait_hardened(gsn, nullptr));
  }
  void abort() {
    const Tn tn = worker_->tn;
    host_.abort(tn);
    txn_abort(*worker_);
    host_.undone(tn);
  }
  std::unique_ptr<Snapshot> snapshot() { return host_.take(worker_->tn, cid); }
  void release(std::unique_ptr<Snapshot> &snapshot) {
    host_.release(*snapshot);
    snapshot.reset();
  }

  Status insert(FileSlot &file, u64 row_id, const std::string &data) {
    return row_insert(*worker_, file, row_id, cid++, 0, bytes_of(data));
  }
  // With a snapshot of now.
  Status update(FileSlot &file, u64 row_id, const std::string &data,
                ls_lock_mode mode = LS_LOCK_NO_KEY_UPDATE) {
    auto s = snapshot();
    const Status status = update_with(file, s->s, row_id, data, mode);
    release(s);
    return status;
  }
  Status update_with(FileSlot &file, const ls_snapshot &s, u64 row_id, const std::string &data,
                     ls_lock_mode mode = LS_LOCK_NO_KEY_UPDATE) {
    const ls_change c{row_id, &s, nullptr, cid, mode};
    const Status status = row_update(*worker_, file, c, bytes_of(data), &conflict);
    if (ok(status)) cid++;
    return status;
  }
  Status remove(FileSlot &file, u64 row_id, u64 moved_to = 0, ls_lock_mode mode = LS_LOCK_UPDATE) {
    auto s = snapshot();
    const ls_change c{row_id, &s->s, nullptr, cid, mode};
    const Status status = row_delete(*worker_, file, c, moved_to, &conflict);
    if (ok(status)) cid++;
    release(s);
    return status;
  }
  // An update to a new row id, as the host makes it.
  Status move(FileSlot &file, u64 row_id, u64 to, const std::string &data,
              ls_lock_mode mode = LS_LOCK_NO_KEY_UPDATE) {
    const u32 savepoint = txn_savepoint(*worker_);
    LS_TRY(insert(file, to, data));
    cid--;
    const Status status = remove(file, row_id, to, mode);
    if (!ok(status)) txn_rollback_to(*worker_, savepoint);
    return status;
  }
  Status lock(FileSlot &file, u64 row_id, ls_lock_mode mode, std::string *data = nullptr,
              bool any_version = false) {
    auto s = snapshot();
    const Status status = lock_with(file, s->s, row_id, mode, data, any_version);
    release(s);
    return status;
  }
  Status lock_with(FileSlot &file, const ls_snapshot &s, u64 row_id, ls_lock_mode mode,
                   std::string *data = nullptr, bool any_version = false) {
    const ls_change c{row_id, &s, nullptr, cid, mode};
    alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
    ls_row row{};
    const Status status = row_lock(*worker_, file, c, any_version, buffer, &row, &newer, &conflict);
    if (ok(status) && data != nullptr) *data = text_of(row);
    return status;
  }
  Status fetch(FileSlot &file, u64 row_id, const ls_snapshot &s, std::string *data,
               bool *all_dead = nullptr) {
    alignas(8) u8 buffer[LS_ROW_BUFFER_BYTES];
    row = ls_row{};
    const Status status = row_fetch(*worker_, file, row_id, s, buffer, &row, all_dead);
    if (ok(status) && data != nullptr) *data = text_of(row);
    return status;
  }
  // What a snapshot of now sees; "-" when nothing.
  std::string read(FileSlot &file, u64 row_id) {
    auto s = snapshot();
    std::string data = read_with(file, row_id, s->s);
    release(s);
    return data;
  }
  std::string read_with(FileSlot &file, u64 row_id, const ls_snapshot &s) {
    std::string data;
    const Status status = fetch(file, row_id, s, &data);
    if (code(status) == LS_NOT_FOUND) return "-";
    return ok(status) ? data
                      : "status " + std::to_string(code(status)) + ": " + last_error().message;
  }
  std::map<u64, std::string> scan(FileSlot &file, const ls_snapshot &s, bool backward = false,
                                  u64 lo = 0, u64 hi = LS_MAX_ROW_ID + 1) {
    std::map<u64, std::string> rows;
    RowScan *scan = nullptr;
    TXN_EXPECT_OK(scan_open(*worker_, file, s, lo, hi, backward, &scan));
    ls_row r{};
    Status status;
    u64 last = backward ? ~u64{0} : 0;
    OneByOne rows_of{scan};
    while (ok(status = rows_of.next(&r))) {
      EXPECT_TRUE(rows.empty() || (backward ? r.row_id < last : r.row_id > last))
          << "out of order at " << r.row_id;
      last = r.row_id;
      rows[r.row_id] = text_of(r);
    }
    EXPECT_EQ(code(status), LS_END) << last_error().message;
    scan_close(scan);
    return rows;
  }
  std::map<u64, std::string> contents(FileSlot &file) {
    auto s = snapshot();
    auto rows = scan(file, s->s);
    release(s);
    return rows;
  }

  ls_conflict conflict{};
  ls_row row{};   // of the last fetch; data is gone
  bool newer = false;

 private:
  Host &host_;
  std::unique_ptr<Worker> worker_;
};

class TxnTest : public ::testing::Test {
 protected:
  explicit TxnTest(const EngineConfig &config = {}) : engine(config) {}

  Engine engine;
  Host host{engine};
  FileSlot &table{*engine.open("table")};
};

}  // namespace ls::txn_test
