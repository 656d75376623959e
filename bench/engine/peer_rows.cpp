// peer_rows.cpp - our tables through engine.h: a row id is the key, a look-up takes a snapshot, a change is a transaction.
//
// The host here is the smallest that keeps the contract: it hands out transaction numbers, takes snapshots and publishes what they
// need (PostgreSQL's process array).  Transactions commit without waiting for the log (synchronous_commit = off).
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "leanstore/engine.h"
#include "store.hpp"

namespace ls::bench {

namespace {

constexpr ls_rel_key kTable{1663, 5, 16384, -1};
constexpr char kTablePath[] = "base/16384";

void check(ls_status status, const ls_error &err, const char *what) {
  if (status != LS_OK) give_up(kRows.name, std::string(what) + ": " + err.message);
}

// Running transactions and snapshots of all sessions.
class Host {
 public:
  struct alignas(kCacheLine) Seat {
    std::atomic<u64> tn{0};     // running; kMoving: being drawn
    std::atomic<u64> xmin{0};   // of the snapshot in use; kMoving: being taken
  };
  static constexpr u64 kMoving = ~0ull;

  Host(ls_store *store, u64 next_tn) : store_(store), next_(next_tn) {
    publisher_ = std::thread([this] {
      while (!stop_.load()) {
        publish();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  ~Host() {
    stop_ = true;
    publisher_.join();
  }

  u64 begin(u32 thread) {
    seats_[thread].tn = kMoving;
    const u64 tn = next_.fetch_add(1);
    seats_[thread].tn = tn;
    return tn;
  }
  void end(u32 thread) { seats_[thread].tn = 0; }

  void take(u32 thread, u64 own_tn, u64 *running, ls_snapshot *s) {
    seats_[thread].xmin = kMoving;
    *s = ls_snapshot{};
    s->running = running;
    s->own_tn = own_tn;
    look(own_tn, running, &s->n_running, &s->xmin, &s->xmax);
    s->curcid = 1;
    seats_[thread].xmin = s->xmin;
  }
  void release(u32 thread) { seats_[thread].xmin.store(0, std::memory_order_release); }

 private:
  static u64 settled(const std::atomic<u64> &word) {
    u64 value;
    while ((value = word.load()) == kMoving) sched_yield();
    return value;
  }
  void look(u64 own_tn, u64 *running, u32 *n, u64 *xmin, u64 *xmax) {
    *xmax = next_.load();
    *n = 0;
    for (Seat &seat : seats_) {
      const u64 tn = settled(seat.tn);
      if (tn != 0 && tn != own_tn && tn < *xmax) running[(*n)++] = tn;
    }
    std::sort(running, running + *n);
    *xmin = *n != 0 ? running[0] : *xmax;
    if (own_tn != 0) *xmin = std::min(*xmin, own_tn);
  }
  void publish() {
    u64 running[kMaxThreads];
    ls_plain_snapshot now{0, 0, running, 0};
    look(0, running, &now.n_running, &now.xmin, &now.xmax);
    u64 horizon = now.xmin;
    // A snapshot begun after this look is not older than it.
    for (Seat &seat : seats_)
      if (const u64 xmin = settled(seat.xmin)) horizon = std::min(horizon, xmin);
    ls_store_publish_horizon(store_, horizon, horizon, &now, nullptr, 0);
  }

  ls_store *store_;
  alignas(kCacheLine) std::atomic<u64> next_;
  Seat seats_[kMaxThreads];
  std::atomic<bool> stop_{false};
  std::thread publisher_;
};

class RowsStore : public Store {
 public:
  explicit RowsStore(const StoreOptions &options) {
    mkdir((options.directory + "/leanstore").c_str(), 0700);
    mkdir((options.directory + "/base").c_str(), 0700);
    std::ofstream(options.directory + "/" + kTablePath, std::ios::app);
    ls_config c{};
    c.buffer_pool_bytes = options.memory;
    c.worker_slots = kMaxThreads + 1;
    c.max_open_files = 64;
    c.log_buffer_bytes = 1 << 20;
    c.log_segment_bytes = u64{64} << 20;
    c.max_log_bytes = u64{64} << 30;   // checkpoints between the turns alone: settle()
    c.checkpoint_seconds = 24 * 3600;
    c.page_providers = 1;
    c.version_trees = 16;
    c.direct_io = options.direct_io;
    std::snprintf(c.root_dir, sizeof c.root_dir, "%s", options.directory.c_str());
    std::snprintf(c.data_dir, sizeof c.data_dir, "%s/leanstore", options.directory.c_str());
    bytes_ = ls_store_size(&c);
    arena_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena_ == MAP_FAILED) give_up(kRows.name, "no memory for the arena");
    madvise(arena_, bytes_, MADV_HUGEPAGE);   // as in peer_tree.cpp
    ls_error err;
    check(ls_store_create(arena_, bytes_, &c, &store_, &err), err, "create");
    constexpr u64 kFirstXid = 10;
    ls_in_doubt *doubts = nullptr;
    size_t n = 0;
    check(ls_recovery_redo(store_, kFirstXid, &doubts, &n, &err), err, "start");
    check(ls_recovery_finish(store_, doubts, n, &err), err, "start");
    std::free(doubts);
    host_ = std::make_unique<Host>(store_, kFirstXid + ls_store_tn_offset(store_));
    ls_worker *worker;
    check(ls_worker_attach(store_, kMaxThreads, &worker, &err), err, "attach");
    check(ls_rel_open(worker, &kTable, kTablePath, LS_REL_TABLE, true, &rel_, &err), err, "table");
    check(ls_row_ids(worker, rel_, static_cast<u32>(options.most_keys), &first_row_, &err), err, "row ids");
    ls_worker_detach(worker);
  }
  ~RowsStore() override {
    host_.reset();
    ls_error err;
    check(ls_store_abandon(store_, &err), err, "stop");
    munmap(arena_, bytes_);
  }
  std::unique_ptr<Session> session(u32 thread) override;
  void settle() override {
    ls_error err;
    check(ls_store_checkpoint(store_, &err), err, "checkpoint");
  }

 private:
  friend class RowsSession;
  size_t bytes_;
  void *arena_;
  ls_store *store_ = nullptr;
  std::unique_ptr<Host> host_;
  ls_rel *rel_ = nullptr;
  u64 first_row_ = 0;
};

class RowsSession : public Session {
 public:
  RowsSession(RowsStore &store, u32 thread) : store_(store), host_(*store.host_), thread_(thread) {
    check(ls_worker_attach(store.store_, thread, &worker_, &err_), err_, "attach");
  }
  ~RowsSession() override { ls_worker_detach(worker_); }

  void insert(Key key, const Value &value) override {
    begin();
    check(ls_row_insert(worker_, store_.rel_, row_id(key), 0, 0, value.bytes, kValueBytes, &err_), err_, "insert");
    commit();
  }
  void update(Key key, const Value &value) override {
    const u64 tn = begin();
    ls_change change{row_id(key), &snapshot_, nullptr, 1, LS_LOCK_NO_KEY_UPDATE};
    for (;;) {
      host_.take(thread_, tn, running_, &snapshot_);
      ls_conflict conflict;
      const ls_status status = ls_row_update(worker_, store_.rel_, &change, value.bytes, kValueBytes, &conflict, &err_);
      host_.release(thread_);
      if (status == LS_OK) break;
      if (status == LS_BEING_MODIFIED) {
        sched_yield();
      } else if (status != LS_UPDATED) {
        check(status, err_, "update");
      }
    }
    commit();
  }
  bool lookup(Key key, Value *value) override {
    host_.take(thread_, 0, running_, &snapshot_);
    ls_row row;
    const ls_status status = ls_row_fetch(worker_, store_.rel_, row_id(key), &snapshot_, buffer_, &row, nullptr, &err_);
    host_.release(thread_);
    if (status == LS_NOT_FOUND) return false;
    check(status, err_, "look-up");
    __builtin_memcpy(value->bytes, row.data, kValueBytes);
    return true;
  }
  u32 scan(Key from, u32 count, u64 *sum) override {
    host_.take(thread_, 0, running_, &snapshot_);
    ls_scan *scan;
    check(ls_scan_open(worker_, store_.rel_, &snapshot_, row_id(from), LS_MAX_ROW_ID, false, &scan, &err_), err_, "scan");
    u32 seen = 0;
    while (seen < count) {
      const ls_row *rows;
      u32 n;
      const ls_status status = ls_scan_next(scan, &rows, &n, &err_);
      if (status == LS_END) break;
      check(status, err_, "scan");
      for (u32 i = 0; i < n && seen < count; i++, seen++) *sum += rows[i].data[0];
    }
    ls_scan_close(scan);
    host_.release(thread_);
    return seen;
  }

 private:
  u64 row_id(Key key) const {
    u64 big_endian;
    __builtin_memcpy(&big_endian, key.data(), sizeof big_endian);
    return store_.first_row_ + __builtin_bswap64(big_endian);
  }
  u64 begin() {
    const u64 tn = host_.begin(thread_);
    check(ls_txn_begin(worker_, tn, &err_), err_, "begin");
    return tn;
  }
  void commit() {
    ls_txn_precommit(worker_);
    host_.end(thread_);
    (void)ls_txn_commit(worker_, false);
  }

  RowsStore &store_;
  Host &host_;
  const u32 thread_;
  ls_worker *worker_;
  ls_snapshot snapshot_;
  u64 running_[kMaxThreads];
  ls_error err_;
  alignas(8) u8 buffer_[LS_ROW_BUFFER_BYTES];
};

std::unique_ptr<Session> RowsStore::session(u32 thread) { return std::make_unique<RowsSession>(*this, thread); }

}  // namespace

const Peer kRows{"leanstore rows", "a transaction each, commit not waited for: log written by group commit, not synced", true, true,
                 [](const StoreOptions &options) -> std::unique_ptr<Store> { return std::make_unique<RowsStore>(options); }};

}  // namespace ls::bench
