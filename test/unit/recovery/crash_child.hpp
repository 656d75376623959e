// crash_child.hpp - the child's side of a life: recover, check, work.
#pragma once
#include "os/fault.hpp"
#include "unit/recovery/crash_harness.hpp"

namespace ls::test {

class CrashChild {
 public:
  CrashChild(const LifePlan &plan, const Knowledge &known, const HostDirectory &directory, int pipe)
      : plan_(plan), known_(known), directory_(directory), pipe_(pipe) {}

  [[noreturn]] void run() {
    if (plan_.kill_after_us) {
      std::thread([us = plan_.kill_after_us] {
        std::this_thread::sleep_for(std::chrono::microseconds(us));
        die();
      }).detach();
    }
    signal(SIGABRT, [](int) { wait_if_dying(); });
    if (plan_.before_recovery) plan_.before_recovery();
    StoreLife store(plan_.config);
    next_xid_ = plan_.next_xid ? plan_.next_xid : known_.next_xid;
    check(store.recover(
              next_xid_,
              [this](const ls_in_doubt &d) { return known_.committed_xids.contains(d.full_xid); }),
          store.err, "recovery");
    store_ = store.store();
    Host host(store.store(), next_xid_);
    look(store, host);
    work(store, host);
    if (plan_.end != LifePlan::End::kShutdown) die();
    check(store.shutdown(), store.err, "shutdown");
    _exit(0);
  }

 private:
  [[noreturn]] static void die() {
    kill(getpid(), SIGKILL);
    for (;;) pause();
  }

  // Once a system call was made to kill us, the others fail until it has: that is no finding.
  static void wait_if_dying() {
    if (fault_hits() > 0)
      for (;;) pause();
  }

  [[noreturn]] static void give_up(const std::string &what) {
    wait_if_dying();
    std::fprintf(stderr, "crash test child: %s\n", what.c_str());
    _exit(3);
  }
  static void check(ls_status status, const ls_error &err, const char *what) {
    if (status != LS_OK) give_up(std::string(what) + ": " + to_text(status, err));
  }

  void report(ReportKind kind, const Marker &marker, u64 value) {
    Report r{kind, marker, value};
    if (write(pipe_, &r, sizeof r) != sizeof r) _exit(4);
  }

  struct WorkerState {
    u32 number = 0;
    std::mt19937_64 random;
    std::vector<std::pair<u32, std::vector<u64>>> junk;   // committed: transaction and its rows
    u32 pick(u32 n) { return static_cast<u32>(random() % n); }
  };

  // ---- after recovery

  void look(StoreLife &store, Host &host) {
    built_index_ = kFirstBuiltIndex + known_.life;
    for (u32 relation :
         {kAccountTable, kMarkerTable, kJunkTable, kMarkerIndex, kJunkIndex, built_index_}) {
      directory_.create_file(relation);
    }
    Session s(store.store(), &host, 0);
    check(s.attach_status(), s.err, "attach");
    std::map<u32, i64> balances;
    std::map<MarkerId, Marker> markers;
    std::map<MarkerId, u32> junk;
    Keys marker_keys, junk_keys;
    for (auto &[id, data] : s.contents(s.open(kAccountTable))) {
      Account a = parse<Account>(data);
      balances[a.number] = a.balance;
      account_rows_[a.number] = id;
    }
    for (auto &[id, data] : s.contents(s.open(kMarkerTable))) {
      Marker m = parse<Marker>(data);
      if (!markers.try_emplace(m.id, m).second) give_up("a marker is there twice");
      marker_keys[id] = key_of(m.id);
    }
    for (auto &[id, data] : s.contents(s.open(kJunkTable))) {
      junk[parse<MarkerId>(data)]++;
      junk_keys[id] = key_of(parse<MarkerId>(data));
    }
    compare(balances, markers, junk);
    compare_index(s, kMarkerIndex, marker_keys);
    compare_index(s, kJunkIndex, junk_keys);
    if (known_.built_index != 0) compare_index(s, known_.built_index, marker_keys);
    for (u32 table : {kAccountTable, kMarkerTable, kJunkTable}) {
      ls_check_result result;
      check(ls_rel_check(s.worker(), s.open(table), &result, &s.err), s.err, "ls_rel_check");
    }
    build_index(s, marker_keys);
    for (auto &[id, m] : markers) report(ReportKind::kPresent, m, 0);
    report(ReportKind::kRecovered, {}, store.store()->report.ops_applied);
    if (account_rows_.empty()) create_accounts(s);
  }

  void compare(const std::map<u32, i64> &balances, const std::map<MarkerId, Marker> &markers,
               const std::map<MarkerId, u32> &junk) {
    if (!balances.empty() && balances.size() != kAccounts)
      give_up("the accounts were created in part");
    std::map<u32, i64> expected;
    std::map<MarkerId, u32> expected_junk;
    for (u32 i = 0; i < kAccounts; i++) expected[i] = kInitialBalance;
    for (auto &[id, m] : markers) {
      expected[m.from] -= m.amount;
      expected[m.to] += m.amount;
      if (m.junk_inserted) expected_junk[id] = 3;
    }
    for (auto &[id, m] : markers)
      if (m.junk_deleted) expected_junk.erase({id.life, id.worker, m.junk_deleted});
    if (balances.empty() && !markers.empty()) give_up("the accounts are lost");
    std::string wrong;
    for (auto &[number, balance] : balances) {
      if (balance == expected[number]) continue;
      wrong += " account " + std::to_string(number) + " has " + std::to_string(balance) +
               ", the markers say " + std::to_string(expected[number]) + ";";
    }
    if (!wrong.empty()) give_up("a transaction is there in part:" + wrong);
    if (junk != expected_junk) give_up("a transaction is there in part: junk and markers differ");
  }

  // ---- indexes

  using Keys = std::map<u64, std::string>;   // of rows, by row id

  static std::string key_of(const MarkerId &id) {
    std::string key;
    for (u32 part : {id.life, id.worker, id.number}) {
      for (int shift = 24; shift >= 0; shift -= 8) key.push_back(static_cast<char>(part >> shift));
    }
    return key;
  }
  static ls_bytes as_bytes(const std::string &s) {
    return {reinterpret_cast<const u8 *>(s.data()), static_cast<u32>(s.size())};
  }

  void compare_index(Session &s, u32 relation, Keys rows) {
    ls_rel *index = s.open(relation, true, LS_REL_INDEX);
    const std::string name = "index " + std::to_string(relation) + ": ";
    ls_check_result result;
    check(ls_rel_check(s.worker(), index, &result, &s.err), s.err, "ls_rel_check of an index");
    ls_index_scan *scan = nullptr;
    check(ls_index_scan_open(s.worker(), index, &scan, &s.err), s.err, "open an index scan");
    check(ls_index_scan_range(scan, {nullptr, 0}, {nullptr, 0}, known_.life % 2, &s.err), s.err,
          "index scan");
    const Keys all = rows;
    ls_index_entry entry;
    ls_status status;
    while ((status = ls_index_scan_next(scan, &entry, &s.err)) == LS_OK) {
      auto row = all.find(entry.row_id);
      if (row == all.end()) continue;
      if (row->second !=
          std::string(reinterpret_cast<const char *>(entry.key.data), entry.key.len)) {
        give_up(name + "an entry has another key than its row");
      }
      if (rows.erase(entry.row_id) == 0) give_up(name + "a row has two entries");
    }
    if (status != LS_END) check(status, s.err, "index scan");
    ls_index_scan_close(scan);
    if (!rows.empty())
      give_up(name + "row " + std::to_string(rows.begin()->first) + " has no entry");
  }

  // A new one, then the old one is dropped.
  void build_index(Session &s, const Keys &rows) {
    std::set<std::string> entries;
    for (auto &[id, key] : rows) {
      std::string entry = key;
      for (int shift = 32; shift >= 0; shift -= 8) entry.push_back(static_cast<char>(id >> shift));
      entries.insert(entry);
    }
    ls_index_build *build = nullptr;
    ls_rel *index = s.open(built_index_, true, LS_REL_INDEX);
    check(ls_index_build_open(s.worker(), index, 90, &build, &s.err), s.err, "build an index");
    for (const std::string &entry : entries) {
      check(ls_index_build_add(build, as_bytes(entry), {}, &s.err), s.err, "build an index");
    }
    check(ls_index_build_finish(build, &s.err), s.err, "finish an index");
    check(ls_txn_prepare_commit(s.worker(), 0, &s.err), s.err, "harden an index");
    report(ReportKind::kBuilt, {}, built_index_);
    if (known_.built_index == 0) return;
    ls_rel_key key = relation_key(known_.built_index);
    ls_rel_forget(store_, &key);
    directory_.remove_file(known_.built_index);
  }

  // Where a rollback has left an entry of the same key, it does not count.
  void index_marker(Session &s, u32 relation, const std::string &key, u64 row_id) {
    std::vector<u64> ignore;
    for (;;) {
      u64 other = 0;
      ls_rel *index = s.open(relation, true, LS_REL_INDEX);
      ls_status status =
          ls_index_insert_unique(s.worker(), index, s.open(kMarkerTable), as_bytes(key), row_id, {},
                                 ignore.data(), static_cast<u32>(ignore.size()), &other, &s.err);
      if (status != LS_EXISTS) return check(status, s.err, "insert a unique entry");
      std::string data;
      status = s.fetch(s.open(kMarkerTable), other, &data);
      if (status == LS_OK) give_up("a marker is in its index before it was inserted");
      if (status != LS_NOT_FOUND) check(status, s.err, "fetch");
      ignore.push_back(other);
    }
  }

  u64 insert_marker(Session &s, const Marker &m, size_t filler) {
    u64 row_id;
    check(s.insert(s.open(kMarkerTable), pack(m, filler), &row_id), s.err, "insert marker");
    for (u32 relation : {kMarkerIndex, built_index_})
      index_marker(s, relation, key_of(m.id), row_id);
    return row_id;
  }

  void sweep_junk(Session &s, WorkerState &state) {
    ls_index_position position{};
    const std::string from = key_of({known_.life, state.pick(4), state.pick(1000)});
    position.len = static_cast<u32>(from.size());
    std::memcpy(position.key, from.data(), from.size());
    u64 entries, removed;
    ls_rel *index = s.open(kJunkIndex, true, LS_REL_INDEX);
    ls_status status = ls_index_sweep(s.worker(), index, s.open(kJunkTable), 2, &position, &entries,
                                      &removed, &s.err);
    if (status != LS_END) check(status, s.err, "sweep");
  }

  void create_accounts(Session &s) {
    ls_rel *rel = s.open(kAccountTable);
    use_xids();
    check(s.begin(), s.err, "begin");
    for (u32 i = 0; i < kAccounts; i++) {
      u64 row_id;
      check(s.insert(rel, pack(Account{i, kInitialBalance}, 10), &row_id), s.err, "insert account");
      account_rows_[i] = row_id;
    }
    s.commit();
  }

  // ---- work

  struct Account {
    u32 number;
    i64 balance;
  };
  template <typename T>
  static std::string pack(const T &value, size_t filler) {
    return std::string(reinterpret_cast<const char *>(&value), sizeof value) +
           std::string(filler, 'x');
  }
  template <typename T>
  static T parse(const std::string &data) {
    if (data.size() < sizeof(T)) give_up("a row is too short");
    T value;
    std::memcpy(&value, data.data(), sizeof value);
    return value;
  }

  // Ids are announced in blocks, ahead of use.
  void use_xids() {
    std::lock_guard lock(xid_mutex_);
    if (++next_xid_ < announced_xid_) return;
    announced_xid_ = next_xid_ + 1000;
    report(ReportKind::kXidLimit, {}, announced_xid_);
  }

  void work(StoreLife &store, Host &host) {
    if (plan_.before_work) plan_.before_work();
    std::vector<std::thread> threads;
    for (u32 w = 0; w < plan_.workers; w++)
      threads.emplace_back([&, w] { work_in(store, host, w); });
    if (plan_.checkpoint_every_ms) {
      threads.emplace_back([&] {
        ls_error err{};
        while (!stop_) {
          std::this_thread::sleep_for(std::chrono::milliseconds(plan_.checkpoint_every_ms));
          check(ls_store_checkpoint(store.store(), &err), err, "checkpoint");
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(plan_.work_ms));
    if (plan_.end != LifePlan::End::kShutdown) die();
    stop_ = true;
    for (std::thread &t : threads) t.join();
  }

  void work_in(StoreLife &store, Host &host, u32 w) {
    Session s(store.store(), &host, w);
    check(s.attach_status(), s.err, "attach");
    WorkerState state;
    state.random.seed(plan_.seed * 1000 + w);
    while (!stop_) transaction(s, w, state);
  }

  // False: a conflict, the transaction was rolled back.
  bool change_account(Session &s, ls_rel *rel, u32 number, i64 amount, size_t filler) {
    for (int tries = 0; tries < 50; tries++) {
      ls_status status = s.update(rel, account_rows_.at(number), [&](const std::string &data) {
        Account a = parse<Account>(data);
        a.balance += amount;
        return pack(a, filler);
      });
      if (status == LS_OK) return true;
      if (status != LS_UPDATED && status != LS_BEING_MODIFIED && status != LS_LOCKED &&
          status != LS_INVISIBLE)
        check(status, s.err, "update");
      std::this_thread::yield();
    }
    s.abort();
    return false;
  }

  void insert_junk(Session &s, ls_rel *rel, const MarkerId &id, WorkerState &state,
                   std::vector<u64> *rows) {
    u64 first = 0;
    const bool many = state.pick(2);
    if (many) {
      std::vector<std::string> data;
      for (int i = 0; i < 3; i++) data.push_back(pack(id, state.pick(900)));
      check(s.insert_many(rel, data, &first), s.err, "insert junk");
    }
    for (u64 i = 0; i < 3; i++) {
      u64 row_id = first + i;
      if (!many) check(s.insert(rel, pack(id, state.pick(900)), &row_id), s.err, "insert junk");
      ls_rel *index = s.open(kJunkIndex, true, LS_REL_INDEX);
      check(ls_index_insert(s.worker(), index, rel, as_bytes(key_of(id)), row_id, {}, &s.err),
            s.err, "insert an entry");
      rows->push_back(row_id);
    }
  }

  void transaction(Session &s, u32 w, WorkerState &state) {
    ls_rel *accounts = s.open(kAccountTable), *junk = s.open(kJunkTable);
    Marker m{};
    m.id = {known_.life, w, ++state.number};
    m.from = state.pick(kAccounts);
    m.to = (m.from + 1 + state.pick(kAccounts - 1)) % kAccounts;
    m.amount = state.pick(100);
    u32 way = state.pick(20);
    m.two_phase = way < 3;
    bool roll_back = way == 4, savepoint = way == 5 || way == 6;
    bool remove_junk = !state.junk.empty() && state.pick(3) == 0;
    m.junk_inserted = !remove_junk;
    if (remove_junk) m.junk_deleted = state.junk.front().first;

    use_xids();
    check(s.begin(), s.err, "begin");
    // In order of the accounts: no deadlocks.
    u32 first = std::min(m.from, m.to), second = std::max(m.from, m.to);
    auto amount_of = [&](u32 account) { return account == m.from ? -m.amount : m.amount; };
    if (!change_account(s, accounts, first, amount_of(first), state.pick(120))) return;
    if (savepoint && !spoil_and_roll_back(s, m, state)) return;
    if (!change_account(s, accounts, second, amount_of(second), state.pick(120))) return;
    insert_marker(s, m, state.pick(300));
    std::vector<u64> rows;
    if (m.junk_inserted) insert_junk(s, junk, m.id, state, &rows);
    for (u64 row : remove_junk ? state.junk.front().second : std::vector<u64>{})
      check(s.remove(junk, row), s.err, "delete junk");
    if (roll_back) {
      s.abort();
      return;
    }
    if (state.pick(5) == 0) sweep_junk(s, state);
    finish(s, m, state);
    if (m.junk_inserted) state.junk.emplace_back(m.id.number, rows);
    if (remove_junk) state.junk.erase(state.junk.begin());
  }

  // Changes that a rollback to a savepoint takes back.
  bool spoil_and_roll_back(Session &s, const Marker &m, WorkerState &state) {
    u32 savepoint = ls_txn_savepoint(s.worker());
    Marker wrong = m;
    wrong.amount = 1'000'000;
    insert_marker(s, wrong, 50);
    std::vector<u64> rows;
    insert_junk(s, s.open(kJunkTable), m.id, state, &rows);
    u32 first = std::min(m.from, m.to);
    if (!change_account(s, s.open(kAccountTable), first, 77'777, state.pick(400))) return false;
    ls_txn_rollback_to(s.worker(), savepoint);
    return true;
  }

  void finish(Session &s, const Marker &m, WorkerState &state) {
    if (m.two_phase) {
      check(s.commit_prepared([&](u64 xid) { report(ReportKind::kDecided, m, xid); }), s.err,
            "prepare");
      return;
    }
    u64 gsn = s.commit_unhardened();
    if (state.pick(4) == 0) return;  // asynchronous commit
    ls_wait_hardened(s.worker(), gsn, 0);
    report(ReportKind::kAcknowledged, m, 0);
  }

  const LifePlan &plan_;
  const Knowledge &known_;
  const HostDirectory &directory_;
  int pipe_;
  ls_store *store_ = nullptr;
  u32 built_index_ = 0;   // of this life
  std::atomic<bool> stop_{false};
  std::map<u32, u64> account_rows_;
  std::mutex xid_mutex_;
  u64 next_xid_ = 0, announced_xid_ = 0;
};

}  // namespace ls::test
