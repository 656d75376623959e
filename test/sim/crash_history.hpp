// crash_history.hpp - a short history of everything a store can do, recorded call by call
// (recorded_disk.hpp), with what a client knows at each moment: which commits were acknowledged,
// which had begun.
//
// One thread makes all transactions, so they stand in one order: what a recovery may leave is the
// state after some commit that is not before the last one acknowledged and not behind the last one
// begun.  The store's own threads work beside it as they do.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "sim/recorded_disk.hpp"
#include "unit/store/store_fixture.hpp"

namespace ls::test {

inline constexpr u32 kRows = 16600, kWide = 16601, kDropped = 16602, kRowIndex = 16603,
                     kBuiltIndex = 16604, kValues = 16605;
// In a row; a page and a part that is in the row, another that has a page; more runs of pages; with
// pages of notes.
inline constexpr u32 kValueBytes[] = {700, 4096 + 1000, 3000, 9000, 70'000, 600'000};
inline constexpr u32 kTables[] = {kRows, kWide, kDropped, kValues};
inline ls_rel *open_table(Session &s, u32 table) {
  return s.open(table, true, table == kValues ? LS_REL_VALUES : LS_REL_TABLE);
}

inline ls_config history_config(const std::string &root) {
  ls_config c = small_config(root);
  c.buffer_pool_bytes = 96 * 4096;
  c.max_log_bytes = 2 << 20;
  c.prepared_slots = 3;
  c.fsync = true;
  c.host_sync_points = true;
  return c;
}

// Rows of all tables after a commit.
using TableRows = std::map<u32, std::map<u64, std::string>>;

// What a transaction has changed: rows by table and id; nothing: removed.
using RowChanges = std::map<std::pair<u32, u64>, std::optional<std::string>>;
inline void apply_changes(const RowChanges &changes, TableRows *tables) {
  for (auto &[place, data] : changes) {
    auto &rows = (*tables)[place.first];
    if (data) {
      rows[place.second] = *data;
    } else {
      rows.erase(place.second);
    }
  }
}

// A transaction that PREPARE TRANSACTION has left to the host, which has known it since `from`, and
// its end since `to`.
struct PreparedInHistory {
  u64 xid;
  RowChanges changes;
  size_t from, to = ~size_t{0};
  bool held(size_t position) const { return from <= position && position < to; }
};

// Key of a row in the indexes.
inline std::string key_of_row(const std::string &data) { return data.substr(0, 6); }

class CrashHistory {
 public:
  CrashHistory(const std::string &root, DiskRecorder &disk) : root_(root), disk_(disk), states_(1) {
    for (u32 table : kTables) states_[0][table];
  }

  // Run it.  The store is left as a crash would leave it: the recorder is stopped first.
  void run();

  // ---- what a client knows when so many calls have been made

  size_t acknowledged(size_t position) const { return last_before(acknowledged_, position); }
  size_t begun(size_t position) const { return last_before(begun_, position); }
  const TableRows &state(size_t n) const { return states_.at(n); }
  bool dropped(size_t position) const { return dropped_ < position; }
  bool built(size_t position) const { return built_ <= position; }
  // What the index built has entries for.
  const std::map<u64, std::string> &built_rows() const {
    return states_.at(built_state_).at(kRows);
  }
  // The host's own log has the commit of this transaction.
  bool host_committed(u64 xid, size_t position) const {
    auto found = host_commits_.find(xid);
    return found != host_commits_.end() && found->second <= position;
  }
  const std::vector<PreparedInHistory> &prepared() const { return prepared_; }
  // Commits that are in the store's log only, with the state after each; and up to which state the
  // host had noted, at most, when so many calls had been made.
  const std::map<u64, size_t> &own_commits() const { return own_commits_; }
  size_t noted(size_t position) const { return last_before(noted_, position); }
  static constexpr u64 kFirstXid = 10;
  // The id that the host hands out next after a crash: no gap behind those it has handed out.
  u64 next_xid(size_t position) const {
    return std::max<u64>(kFirstXid, last_before(next_xid_, position));
  }

 private:
  // position, number of the state or the transaction; ascending
  using Marks = std::vector<std::pair<size_t, size_t>>;
  static size_t last_before(const Marks &marks, size_t position) {
    size_t last = 0;
    for (auto &[at, state] : marks) {
      if (at <= position) last = state;
    }
    return last;
  }

  // One session and what its transaction has changed.
  struct Client {
    Client(StoreLife &store, Host &host, u32 slot) : session(store.store(), &host, slot) {}
    Session session;
    RowChanges changes{};
  };

  static std::string text(u32 number, size_t bytes) {
    char key[16];
    std::snprintf(key, sizeof key, "%06u", number);
    std::string data = key;
    for (u32 x = number * 2654435761u + static_cast<u32>(bytes); data.size() < bytes;
         x = x * 1664525u + 1013904223u) {
      data.push_back(static_cast<char>('a' + x % 26));
    }
    return data;
  }

  u64 insert(Client &c, u32 table, const std::string &data);
  void load(Client &c, u32 from, u32 count);
  void update(Client &c, u32 table, u64 row, const std::string &data);
  void add_entry(Client &c, u64 row, const std::string &data);
  // The same with another key: the old entry becomes stale.  remove_stale() removes it when every
  // snapshot sees the row with another key.
  void rekey(Client &c, u64 row, const std::string &data);
  void remove_stale(Client &c, u64 row, const std::string &key);
  void remove(Client &c, u32 table, u64 row);
  // A value of so many bytes, and its end.
  u64 insert_value(Client &c, u32 number, u32 bytes);
  void remove_value(Client &c, u64 value);
  // The new value first, as an update of the row does it.
  void replace_value(Client &c, size_t which, u32 number, u32 bytes) {
    const u64 fresh = insert_value(c, number, bytes);
    remove_value(c, values_[which]);
    values_[which] = fresh;
  }
  void begin(Client &c) {
    const size_t position = disk_.position();
    ASSERT_EQ(c.session.begin(), LS_OK);
    next_xid_.emplace_back(position, c.session.xid() + 1);
  }
  void commit(Client &c, bool wait = true);
  void commit_two_phase(Client &c, const std::function<void()> &while_in_doubt);
  void abort(Client &c);
  // PREPARE TRANSACTION, and its end by any session.
  void prepare(Client &c);
  void finish_prepared(Client &c, Host &host, size_t which, bool committed);
  // State number of what is committed with this transaction.
  size_t add_state(Client &c);

  void fill(Client &c);
  void change(Client &c, Client &other);
  void change_keys(Client &c, Client &other);
  void wide_rows(Client &c, StoreLife &store);
  void empty_out(Client &c);
  // VACUUM's last step.
  void cut(Client &c);
  void build_index(Client &c);
  void drop(Client &c, StoreLife &store);
  // Two transactions, prepared over checkpoints: one is committed, one rolled back.
  void prepare_two(Client &c);
  // What is not finished when the crash comes.
  void leave_unfinished(Client &loser, Client &other, StoreLife &store);
  // The host notes what it had before the last commits, then makes a checkpoint.
  void note(StoreLife &store) {
    position_ = ls_commits_position(store.store());
    noted_state_ = states_.size() - 1;
  }
  void checkpoint(StoreLife &store) {
    ls_error err{};
    if (position_ != 0) {
      noted_.emplace_back(disk_.position(), noted_state_);
      LS_EXPECT_OK(ls_host_sync_point(store.store(), position_, &err));
    }
    LS_EXPECT_OK(ls_store_checkpoint(store.store(), &err));
  }

  const std::string root_;
  DiskRecorder &disk_;
  std::vector<TableRows> states_;
  Marks acknowledged_, begun_, noted_, next_xid_;
  std::map<u64, size_t> own_commits_;
  std::map<u64, size_t> host_commits_;
  std::vector<PreparedInHistory> prepared_;
  u64 position_ = 0;
  size_t noted_state_ = 0;
  size_t dropped_ = ~size_t{0}, built_ = ~size_t{0}, built_state_ = 0;
  std::vector<u64> rows_, wide_, values_;
  std::map<u64, u32> sizes_;   // of values
};

// ---- operations

inline u64 CrashHistory::insert(Client &c, u32 table, const std::string &data) {
  u64 row = 0;
  EXPECT_EQ(c.session.insert(open_table(c.session, table), data, &row), LS_OK)
      << c.session.err.message;
  c.changes[{table, row}] = data;
  if (table == kRows) add_entry(c, row, data);
  return row;
}

inline void CrashHistory::add_entry(Client &c, u64 row, const std::string &data) {
  const std::string key = key_of_row(data);
  ls_bytes bytes{reinterpret_cast<const u8 *>(key.data()), static_cast<u32>(key.size())};
  ls_rel *index = c.session.open(kRowIndex, true, LS_REL_INDEX);
  const ls_status status = ls_index_insert(c.session.worker(), index, c.session.open(kRows), bytes,
                                           row, {}, &c.session.err);
  EXPECT_TRUE(status == LS_OK || status == LS_EXISTS) << c.session.err.message;
}

inline void CrashHistory::rekey(Client &c, u64 row, const std::string &data) {
  EXPECT_EQ(ls_index_note_stale(c.session.worker(), c.session.open(kRowIndex, true, LS_REL_INDEX),
                                &c.session.err),
            LS_OK);
  update(c, kRows, row, data);
  add_entry(c, row, data);
}

inline void CrashHistory::remove_stale(Client &c, u64 row, const std::string &key) {
  ls_bytes bytes{reinterpret_cast<const u8 *>(key.data()), static_cast<u32>(key.size())};
  ls_rel *index = c.session.open(kRowIndex, true, LS_REL_INDEX);
  ls_error &err = c.session.err;
  ls_index_seen seen;
  bool removed = false;
  LS_EXPECT_OK(ls_index_look(c.session.worker(), index, bytes, row, &seen, &err));
  LS_EXPECT_OK(
      ls_index_remove_seen(c.session.worker(), index, bytes, row, &seen, 0, &removed, &err));
  EXPECT_TRUE(removed);
}

inline void CrashHistory::load(Client &c, u32 from, u32 count) {
  std::vector<std::string> data;
  for (u32 i = 0; i < count; i++) data.push_back(text(from + i, 10 + i * 97 % 700));
  u64 first = 0;
  EXPECT_EQ(c.session.insert_many(c.session.open(kWide), data, &first), LS_OK)
      << c.session.err.message;
  for (u32 i = 0; i < count; i++) c.changes[{kWide, first + i}] = data[i];
}

inline void CrashHistory::update(Client &c, u32 table, u64 row, const std::string &data) {
  EXPECT_EQ(c.session.update(c.session.open(table), row, [&](const std::string &) { return data; }),
            LS_OK)
      << c.session.err.message;
  c.changes[{table, row}] = data;
}

inline void CrashHistory::remove(Client &c, u32 table, u64 row) {
  EXPECT_EQ(c.session.remove(c.session.open(table), row), LS_OK) << c.session.err.message;
  c.changes[{table, row}].reset();
}

inline u64 CrashHistory::insert_value(Client &c, u32 number, u32 bytes) {
  // Half of those in pages, but for the largest, have one of two contents.
  const bool is_equal = number % 200 != 0 && bytes > LS_VALUE_IN_ROW_BYTES && bytes < 100'000;
  const std::string data =
      is_equal ? text(1, bytes > 9000 ? 70'000 : 9000) : text(number, bytes);
  u64 value_id = 0;
  EXPECT_EQ(c.session.insert_value(open_table(c.session, kValues), data, &value_id), LS_OK)
      << c.session.err.message;
  c.changes[{kValues, value_id}] = data;
  sizes_[value_id] = static_cast<u32>(data.size());
  return value_id;
}

inline void CrashHistory::remove_value(Client &c, u64 value_id) {
  EXPECT_EQ(c.session.remove_value(open_table(c.session, kValues), value_id, sizes_.at(value_id)),
            LS_OK)
      << c.session.err.message;
  c.changes[{kValues, value_id}].reset();
}

inline size_t CrashHistory::add_state(Client &c) {
  states_.push_back(states_.back());
  apply_changes(c.changes, &states_.back());
  c.changes.clear();
  return states_.size() - 1;
}

inline void CrashHistory::commit(Client &c, bool wait) {
  size_t state = add_state(c);
  begun_.emplace_back(disk_.position(), state);
  own_commits_[c.session.xid()] = state;
  u64 gsn = c.session.commit_unhardened();
  if (!wait) return;
  ls_wait_hardened(c.session.worker(), gsn, 0);
  acknowledged_.emplace_back(disk_.position(), state);
}

inline void CrashHistory::commit_two_phase(Client &c, const std::function<void()> &while_in_doubt) {
  ls_status status = c.session.commit_prepared([&](u64 xid) {
    while_in_doubt();
    size_t state = add_state(c);
    size_t position = disk_.position();
    begun_.emplace_back(position, state);
    host_commits_[xid] = position;
    acknowledged_.emplace_back(position, state);
  });
  EXPECT_EQ(status, LS_OK) << c.session.err.message;
}

inline void CrashHistory::abort(Client &c) {
  c.session.abort();
  c.changes.clear();
}

inline void CrashHistory::prepare(Client &c) {
  const u64 xid = c.session.xid();
  ASSERT_EQ(c.session.hand_over([&] {
    prepared_.push_back({xid, std::exchange(c.changes, {}), disk_.position()});
  }),
            LS_OK)
      << c.session.err.message;
}

inline void CrashHistory::finish_prepared(Client &c, Host &host, size_t which, bool committed) {
  PreparedInHistory &p = prepared_[which];
  p.to = disk_.position();
  if (committed) {
    c.changes = p.changes;
    const size_t state = add_state(c);
    begun_.emplace_back(p.to, state);
    acknowledged_.emplace_back(p.to, state);
    host_commits_[p.xid] = p.to;
    host.end(p.xid);
  }
  EXPECT_EQ(ls_prepared_finish(c.session.worker(), host.tn(p.xid), committed, &c.session.err),
            LS_OK)
      << c.session.err.message;
  if (!committed) host.end(p.xid);
}

// ---- the history

inline void CrashHistory::fill(Client &c) {
  for (u32 t = 0; t < 6; t++) {
    begin(c);
    for (u32 i = 0; i < 9; i++)
      rows_.push_back(insert(c, kRows, text(t * 9 + i, 80 + (t * i * 37) % 500)));
    if (t % 3 == 0) insert(c, kDropped, text(t, 200));
    values_.push_back(insert_value(c, 100 * t, kValueBytes[t]));
    commit(c, t % 3 != 1);
  }
}

// Two transactions at a time, savepoints, rollbacks, two phases, updates that keep, shrink and
// widen rows.
inline void CrashHistory::change(Client &c, Client &other) {
  begin(c);
  begin(other);
  update(c, kRows, rows_[0], text(0, 80));
  update(other, kRows, rows_[1], text(1, 900));
  remove(c, kRows, rows_[2]);
  commit(other);
  update(c, kRows, rows_[3], text(3, 10));
  replace_value(c, 0, 1100, 6200);
  auto before = c.changes;
  auto values = values_;
  u32 savepoint = ls_txn_savepoint(c.session.worker());
  for (u32 i = 4; i < 12; i++) update(c, kRows, rows_[i], text(i, 700));
  insert(c, kRows, text(900, 300));
  remove(c, kRows, rows_[0]);
  replace_value(c, 0, 1200, 1800);
  replace_value(c, 1, 1300, 4096);
  ls_txn_rollback_to(c.session.worker(), savepoint);
  c.changes = before;
  values_ = values;
  insert(c, kRows, text(901, 50));
  commit(c);
  begin(other);
  for (u32 i = 12; i < 20; i++) update(other, kRows, rows_[i], text(i, 20 + 90 * (i - 12)));
  remove(other, kRows, rows_[21]);
  replace_value(other, 2, 1400, 12'000);
  abort(other);
  values_ = values;
  begin(c);
  update(c, kRows, rows_[22], text(22, 333));
  insert(c, kWide, text(22, 100));
  replace_value(c, 2, 1500, 3800);
  commit_two_phase(c, [&] {
    begin(other);
    update(other, kRows, rows_[23], text(23, 444));
    commit(other);
  });
}

// Rows get other keys: one of them back again, one for a transaction that is rolled back.
inline void CrashHistory::change_keys(Client &c, Client &other) {
  begin(c);
  rekey(c, rows_[6], text(806, 120));
  rekey(c, rows_[7], text(807, 400));
  begin(other);
  rekey(other, rows_[8], text(808, 90));
  commit(c, false);
  abort(other);
  remove_stale(c, rows_[7], "000007");
  begin(other);
  rekey(other, rows_[6], text(6, 140));
  commit(other);
  remove_stale(c, rows_[8], "000808");
  remove_stale(c, rows_[6], "000806");
}

// A transaction of several log buffers; more pages than the pool has frames; log over more than a
// segment; two phases with much in them.
inline void CrashHistory::wide_rows(Client &c, StoreLife &store) {
  begin(c);
  for (u32 i = 0; i < 60; i++) wide_.push_back(insert(c, kWide, text(1000 + i, 3000)));
  commit(c);
  checkpoint(store);
  begin(c);
  for (u32 i = 0; i < 40; i++) wide_.push_back(insert(c, kWide, text(2000 + i, 2500)));
  commit_two_phase(c, [] {});
  begin(c);
  load(c, 7100, 90);
  commit(c);
  begin(c);
  load(c, 7200, 25);
  abort(c);
  for (u32 round = 0; round < 5; round++) {
    begin(c);
    for (u32 i = 0; i < 30; i++)
      update(c, kWide, wide_[i], text(3000 + 100 * round + i, 3000 - round));
    const auto values = values_;
    replace_value(c, 3, 1600 + 100 * round, 40'000);
    if (round == 3) {
      abort(c);
      values_ = values;
    } else {
      commit(c, round != 1);
    }
  }
}

// Leaves become empty and are merged, by the cleaner.
inline void CrashHistory::empty_out(Client &c) {
  for (u32 part = 0; part < 4; part++) {
    begin(c);
    for (size_t i = part; i < wide_.size(); i += 4) {
      if (i % 16 != part) remove(c, kWide, wide_[i]);
    }
    commit(c);
  }
  begin(c);
  for (u32 i = 24; i < 50; i++) remove(c, kRows, rows_[i]);
  commit(c);
  ls_index_position position{};
  u64 entries, removed;
  ls_status status =
      ls_index_sweep(c.session.worker(), c.session.open(kRowIndex, true, LS_REL_INDEX),
                     c.session.open(kRows), 100, &position, &entries, &removed, &c.session.err);
  EXPECT_TRUE(status == LS_OK || status == LS_END) << c.session.err.message;
}

// Of the file that has most free pages at its end; then it grows again.
inline void CrashHistory::cut(Client &c) {
  begin(c);
  for (auto &[row, data] : c.session.contents(c.session.open(kWide))) remove(c, kWide, row);
  commit(c);
  ls_error &err = c.session.err;
  ls_rel *rel = c.session.open(kWide);
  const auto vacuum = [&] {
    for (u64 row = 0, end; row < LS_MAX_ROW_ID; row = end)
      LS_EXPECT_OK(ls_rel_purge(c.session.worker(), rel, row, &end, &err));
    u64 before = 0, after = 0;
    LS_EXPECT_OK(ls_rel_cut(c.session.worker(), rel, false, &before, &after, &err));
    return before - after;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  u64 pages = 0;
  while (pages < 20 && std::chrono::steady_clock::now() < deadline) pages += vacuum();
  EXPECT_GE(pages, 20u);
  begin(c);
  for (u32 i = 0; i < 12; i++) insert(c, kWide, text(8000 + i, 3000));
  commit(c);
}

inline void CrashHistory::build_index(Client &c) {
  disk_.host_create(HostDirectory::relation_path(kBuiltIndex));
  std::set<std::string> entries;
  for (auto &[row, data] : states_.back().at(kRows)) {
    std::string entry = key_of_row(data);
    for (int shift = 32; shift >= 0; shift -= 8) entry.push_back(static_cast<char>(row >> shift));
    entries.insert(entry);
  }
  ls_error &err = c.session.err;
  ls_index_build *build = nullptr;
  LS_ASSERT_OK(ls_index_build_open(
      c.session.worker(), c.session.open(kBuiltIndex, true, LS_REL_INDEX), 90, &build, &err));
  for (const std::string &entry : entries) {
    LS_EXPECT_OK(ls_index_build_add(
        build, {reinterpret_cast<const u8 *>(entry.data()), static_cast<u32>(entry.size())}, {},
        &err));
  }
  LS_EXPECT_OK(ls_index_build_finish(build, &err));
  LS_EXPECT_OK(ls_txn_prepare_commit(c.session.worker(), 0, &err));
  built_ = disk_.position();
  built_state_ = states_.size() - 1;
}

// As the host does it: forgotten, emptied, and some time later unlinked.
inline void CrashHistory::drop(Client &c, StoreLife &store) {
  dropped_ = disk_.position();
  ls_rel_key key = relation_key(kDropped);
  ls_rel_forget(store.store(), &key);
  disk_.host_empty(HostDirectory::relation_path(kDropped));
  begin(c);
  insert(c, kWide, text(5000, 60));
  commit(c);
  disk_.host_unlink(HostDirectory::relation_path(kDropped));
}

inline void CrashHistory::prepare_two(Client &c) {
  begin(c);
  update(c, kRows, rows_[50], text(50, 800));
  remove(c, kRows, rows_[51]);
  insert(c, kRows, text(902, 120));
  update(c, kRows, rows_[50], text(50, 30));
  replace_value(c, 4, 2200, 8192);
  prepare(c);
  begin(c);
  update(c, kRows, rows_[20], text(20, 250));
  insert(c, kWide, text(7000, 2000));
  remove_value(c, values_[5]);
  prepare(c);
}

// One prepared, a loser, and a commit that no client has waited for.
inline void CrashHistory::leave_unfinished(Client &loser, Client &other, StoreLife &store) {
  begin(other);
  update(other, kRows, rows_[20], text(20, 500));
  remove(other, kRows, rows_[23]);
  insert(other, kRows, text(903, 40));
  prepare(other);
  begin(loser);
  begin(other);
  update(loser, kRows, rows_[1], text(1, 77));
  insert(loser, kWide, text(6000, 1000));
  load(loser, 7300, 40);
  replace_value(loser, 0, 2300, 100'000);
  checkpoint(store);
  update(loser, kRows, rows_[1], text(1, 99));
  rekey(loser, rows_[9], text(809, 60));
  insert(other, kRows, text(950, 70));
  replace_value(other, 1, 2400, 2000);
  rekey(other, rows_[10], text(810, 60));
  commit(other, false);
  insert(loser, kRows, text(951, 70));
  begin(other);
  update(other, kRows, rows_[5], text(5, 55));
  commit(other);
}

inline void CrashHistory::run() {
  ls_config config = history_config(root_);
  StoreLife store(config);
  disk_.start();
  ls_error err{};
  ASSERT_EQ(store.recover(kFirstXid), LS_OK) << store.err.message;
  Host host(store.store(), kFirstXid);
  {
    Client a(store, host, 0), b(store, host, 1), old(store, host, 2), aged(store, host, 3);
    fill(a);
    checkpoint(store);
    note(store);
    change(a, b);
    change_keys(a, b);
    prepare_two(b);
    // A transaction that is older than several checkpoints, changes rows between them, and ends;
    // its undo file is appended to and removed.
    begin(aged);
    for (u32 i = 30; i < 40; i++) update(aged, kRows, rows_[i], text(i, 60));
    load(aged, 7500, 20);
    const u64 own = insert(aged, kRows, text(904, 90));
    u32 kept = ls_txn_savepoint(aged.session.worker());
    auto before = aged.changes;
    remove(aged, kRows, rows_[40]);
    // Open over a checkpoint with more log than lies between two positions that the log knows (1
    // MiB).
    begin(old);
    update(old, kRows, rows_[52], text(52, 99));
    remove(old, kRows, rows_[53]);
    wide_rows(a, store);
    checkpoint(store);
    ls_txn_rollback_to(aged.session.worker(), kept);
    aged.changes = before;
    remove(aged, kRows, own);
    begin(a);
    insert(a, kWide, text(4000, 100));
    commit(a);
    checkpoint(store);
    abort(old);
    update(aged, kRows, rows_[41], text(41, 700));
    commit(aged);
    note(store);
    finish_prepared(a, host, 0, true);
    empty_out(a);
    build_index(a);
    finish_prepared(b, host, 1, false);
    cut(a);
    drop(b, store);
    checkpoint(store);
    leave_unfinished(a, b, store);
    disk_.stop();
    abort(a);
  }
  file_observer.store(nullptr);
  LS_EXPECT_OK(ls_store_abandon(store.store(), &err));
}

}  // namespace ls::test
