// peer_rows.cpp - our tables through engine.h: a row id is the key, a look-up takes a snapshot, a
// change is a transaction.  Longer transactions have keys of any kind in an index beside the table,
// as SQL has them.
//
// The host here is the smallest that keeps the contract: it hands out transaction numbers, takes
// snapshots and publishes what they need (PostgreSQL's process array).  Transactions commit without
// waiting for the log (synchronous_commit = off).
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

constexpr ls_rel_key kTable{1663, 5, 16384, -1}, kIndex{1663, 5, 16385, -1};
constexpr char kTablePath[] = "base/16384", kIndexPath[] = "base/16385";

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

  // By a session that has no transaction.
  void wait_for_end_of(u64 tn) const {
    for (const Seat &seat : seats_)
      while (seat.tn == tn) sched_yield();
  }

  void take(u32 thread, u64 own_tn, u64 *running, ls_snapshot *s) {
    seats_[thread].xmin = kMoving;
    *s = ls_snapshot{};
    s->running = running;
    s->own_tn = own_tn;
    look(own_tn, running, &s->n_running, &s->xmin, &s->xmax);
    s->curcid = 1;
    seats_[thread].xmin = s->xmin;
  }
  // For several operations, each transaction's snapshot being taken before its number is drawn.
  // The seats are looked at one after the other: when two looks see the same, no transaction has
  // begun or ended in between, and the snapshot is that of one moment.
  void take_at_once(u32 thread, u64 *running, ls_snapshot *s) {
    u64 before[kMaxThreads];
    ls_snapshot first;
    do {
      take(thread, 0, before, &first);
      take(thread, 0, running, s);
    } while (first.xmax != s->xmax ||
             !std::equal(before, before + first.n_running, running, running + s->n_running));
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
    for (const char *path : {kTablePath, kIndexPath})
      std::ofstream(options.directory + "/" + path, std::ios::app);
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
    arena_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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
    if (options.transactions)
      check(ls_rel_open(worker, &kIndex, kIndexPath, LS_REL_INDEX, true, &index_, &err), err,
            "index");
    else
      check(ls_row_ids(worker, &rel_, static_cast<u32>(options.most_keys), &first_row_, &err), err,
            "row ids");
    ls_worker_detach(worker);
  }
  ~RowsStore() override {
    host_.reset();
    ls_error err;
    check(ls_store_abandon(store_, &err), err, "stop");
    munmap(arena_, bytes_);
  }
  std::unique_ptr<Session> session(u32 thread) override;
  std::unique_ptr<Transactions> transactions(u32 thread) override;
  void settle() override {
    ls_error err;
    check(ls_store_checkpoint(store_, &err), err, "checkpoint");
  }
  u64 data_bytes() override {
    ls_error err;
    ls_worker *worker;
    ls_rel_info info;
    check(ls_worker_attach(store_, kMaxThreads, &worker, &err), err, "attach");
    check(ls_rel_get_info(worker, &rel_, &info, &err), err, "size");
    ls_worker_detach(worker);
    return info.pages * kPageSize;
  }

 private:
  friend class RowsSession;
  friend class RowsTransactions;
  size_t bytes_;
  void *arena_;
  ls_store *store_ = nullptr;
  std::unique_ptr<Host> host_;
  ls_rel rel_{}, index_{};
  u64 first_row_ = 0;
};

class RowsSession : public Session {
 public:
  RowsSession(RowsStore &store, u32 thread)
      : store_(store), rel_(store.rel_), host_(*store.host_), thread_(thread) {
    check(ls_worker_attach(store.store_, thread, &worker_, &err_), err_, "attach");
  }
  ~RowsSession() override { ls_worker_detach(worker_); }

  void insert(Key key, const Value &value) override {
    begin();
    check(ls_row_insert(worker_, &rel_, row_id(key), 0, 0, value.bytes, kValueBytes, &err_), err_,
          "insert");
    commit();
  }
  void update(Key key, const Value &value) override {
    const u64 tn = begin();
    ls_change change{row_id(key), &snapshot_, nullptr, 1, LS_LOCK_NO_KEY_UPDATE};
    for (;;) {
      host_.take(thread_, tn, running_, &snapshot_);
      ls_conflict conflict;
      const ls_status status =
          ls_row_update(worker_, &rel_, &change, value.bytes, kValueBytes, &conflict, &err_);
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
    const ls_status status =
        ls_row_fetch(worker_, &rel_, row_id(key), &snapshot_, buffer_, &row, nullptr, &err_);
    host_.release(thread_);
    if (status == LS_NOT_FOUND) return false;
    check(status, err_, "look-up");
    __builtin_memcpy(value->bytes, row.data, kValueBytes);
    return true;
  }
  u32 scan(Key from, u32 count, u64 *sum) override {
    host_.take(thread_, 0, running_, &snapshot_);
    ls_scan *scan;
    check(
        ls_scan_open(worker_, &rel_, &snapshot_, row_id(from), LS_MAX_ROW_ID, false, &scan, &err_),
        err_, "scan");
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
    check(ls_txn_reserve_commit(worker_, &err_), err_, "commit");
    host_.end(thread_);
    (void)ls_txn_commit(worker_, nullptr, 0, false);
  }

  RowsStore &store_;
  ls_rel rel_;   // a handle of its own
  Host &host_;
  const u32 thread_;
  ls_worker *worker_;
  ls_snapshot snapshot_;
  u64 running_[kMaxThreads];
  ls_error err_;
  alignas(8) u8 buffer_[LS_ROW_BUFFER_BYTES];
};

class RowsTransactions : public Transactions {
 public:
  RowsTransactions(RowsStore &store, u32 thread)
      : rel_(store.rel_), index_(store.index_), host_(*store.host_), thread_(thread) {
    check(ls_worker_attach(store.store_, thread, &worker_, &err_), err_, "attach");
    check(ls_index_scan_open(worker_, &index_, &scan_, &err_), err_, "index scan");
  }
  ~RowsTransactions() override {
    ls_index_scan_close(scan_);
    ls_worker_detach(worker_);
  }

  void begin(bool writes) override {
    host_.take_at_once(thread_, running_, &snapshot_);
    writes_ = writes;
    if (!writes) return;
    snapshot_.own_tn = host_.begin(thread_);
    check(ls_txn_begin(worker_, snapshot_.own_tn, &err_), err_, "begin");
  }
  void commit() override {
    if (writes_) {
      check(ls_txn_reserve_commit(worker_, &err_), err_, "commit");
      host_.end(thread_);
      (void)ls_txn_commit(worker_, nullptr, 0, false);
    }
    host_.release(thread_);
  }
  void rollback() override {
    if (writes_) {
      ls_txn_abort(worker_);
      host_.end(thread_);
    }
    host_.release(thread_);
    // The transaction in the way would be so again.
    if (met_ != 0) host_.wait_for_end_of(met_);
    met_ = 0;
  }

  void insert(Key key, Row row) override {
    if (next_row_ == end_of_rows_) {
      check(ls_row_ids(worker_, &rel_, kRowIds, &next_row_, &err_), err_, "row ids");
      end_of_rows_ = next_row_ + kRowIds;
    }
    const u64 row_id = next_row_++;
    check(ls_row_insert(worker_, &rel_, row_id, command(), 0, row.data(),
                        static_cast<u32>(row.size()), &err_),
          err_, "insert");
    check(ls_index_insert(worker_, &index_, &rel_, bytes(key), row_id, {}, &err_), err_,
          "index entry");
  }
  void remove(Key key) override {
    const ls_change change = change_of(present(key), LS_LOCK_UPDATE);
    ls_conflict conflict;
    check_conflict(ls_row_delete(worker_, &rel_, &change, 0, &conflict, &err_), conflict, "delete");
  }
  bool lookup(Key key, std::span<u8> row) override {
    ls_row found;
    if (!find(key, &found)) return false;
    copy_row(kRows.name, found.data, found.len, row);
    return true;
  }
  void update(Key key, std::span<u8> row, const Transactions::Change &change) override {
    const ls_row found = present(key);
    copy_row(kRows.name, found.data, found.len, row);
    change();
    const ls_change request = change_of(found, LS_LOCK_NO_KEY_UPDATE);
    ls_conflict conflict;
    check_conflict(ls_row_update(worker_, &rel_, &request, row.data(), static_cast<u32>(row.size()),
                                 &conflict, &err_),
                   conflict, "update");
  }
  void scan(Key from, Key to, const Visit &visit) override {
    check(ls_index_scan_range(scan_, bytes(from), bytes(to), false, &err_), err_, "scan");
    ls_index_entry entry;
    ls_row row;
    while (next(&entry, &row) && visit({entry.key.data, entry.key.len}, {row.data, row.len})) {
    }
  }

 private:
  static constexpr u32 kRowIds = 256;   // drawn at a time: what one thread inserts stays together

  static ls_bytes bytes(Key key) { return {key.data(), static_cast<u32>(key.size())}; }
  // What a command changes is seen by those after it.
  u32 command() { return snapshot_.curcid++; }
  ls_change change_of(const ls_row &row, ls_lock_mode mode) {
    return {row.row_id, &snapshot_, nullptr, command(), mode};
  }
  void check_conflict(ls_status status, const ls_conflict &conflict, const char *what) {
    if (status == LS_UPDATED || status == LS_DELETED) throw Conflict{};
    if (status == LS_BEING_MODIFIED) {
      met_ = conflict.tn;
      throw Conflict{};
    }
    check(status, err_, what);
  }
  ls_row present(Key key) {
    ls_row row;
    if (!find(key, &row)) give_up(kRows.name, "the key to be changed is absent");
    return row;
  }
  bool find(Key key, ls_row *row) {
    // behind the key's entries, whatever their row ids
    u8 end[kMaxKeyBytes + LS_ENTRY_ROW_ID_BYTES];
    __builtin_memcpy(end, key.data(), key.size());
    __builtin_memset(end + key.size(), 0xff, LS_ENTRY_ROW_ID_BYTES);
    check(ls_index_scan_range(scan_, bytes(key), bytes({end, key.size() + LS_ENTRY_ROW_ID_BYTES}),
                              false, &err_),
          err_, "search");
    ls_index_entry entry;
    return next(&entry, row);
  }
  // The next entry of the range that leads to a row which the snapshot sees.
  bool next(ls_index_entry *entry, ls_row *row) {
    for (;;) {
      ls_status status = ls_index_scan_next(scan_, entry, &err_);
      if (status == LS_END) return false;
      check(status, err_, "next entry");
      bool all_dead = false;
      status =
          ls_row_fetch(worker_, &rel_, entry->row_id, &snapshot_, buffer_, row, &all_dead, &err_);
      if (status == LS_OK) return true;
      if (status != LS_NOT_FOUND) check(status, err_, "fetch");
      if (all_dead)
        check(ls_index_remove(worker_, &index_, &rel_, entry, &err_), err_, "dead entry");
    }
  }

  ls_rel rel_, index_;   // handles of its own
  Host &host_;
  const u32 thread_;
  ls_worker *worker_;
  ls_index_scan *scan_;
  ls_snapshot snapshot_;
  bool writes_ = false;
  u64 met_ = 0;   // a running transaction that has changed what this one wanted to
  u64 running_[kMaxThreads], next_row_ = 0, end_of_rows_ = 0;
  ls_error err_;
  alignas(8) u8 buffer_[LS_ROW_BUFFER_BYTES];
};

std::unique_ptr<Transactions> RowsStore::transactions(u32 thread) {
  return std::make_unique<RowsTransactions>(*this, thread);
}
std::unique_ptr<Session> RowsStore::session(u32 thread) {
  return std::make_unique<RowsSession>(*this, thread);
}

}  // namespace

const Peer kRows{
    "leanstore rows",
    "a transaction each, commit not waited for: log written by group commit, not synced",
    true,
    true,
    true,
    [](const StoreOptions &options) -> std::unique_ptr<Store> {
      return std::make_unique<RowsStore>(options);
    }};

}  // namespace ls::bench
