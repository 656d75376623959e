// Random transactions on the rows of an index, and everything that removes entries: whatever a
// standby's snapshot may be, it needs no entry of a removal that is dated below it (IREM-2).
//
// The snapshots are all that there can be: one behind each end of a transaction in the log.  The
// primary knows none of them.  One ends when a row that it sees is removed, as a standby would see
// to (IREM-1).  One thread, so a seed repeats a failure: LS_SEED=<n>.
#include <optional>
#include <random>

#include "model/seeds.hpp"
#include "txn/row_gone.hpp"
#include "unit/index/removal_log.hpp"

namespace ls::txn_test {
namespace {

using Rows = std::map<u64, u64>;  // row id to key

class RemovalModel : IndexedTable {
 public:
  explicit RemovalModel(u64 seed) : random_(seed) {
    for (u32 slot = 0; slot < kSessions; slot++) clients_.emplace_back(engine, host, slot);
  }
  ~RemovalModel() { release_all(); }

  void run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFailure(); i++) step();
    for (Client &c : clients_)
      if (c.session.tn() != 0) end(c, true);
    check();
  }

 private:
  static constexpr u32 kSessions = 3, kMostRows = 30, kMostEntries = 100;

  struct Client {
    Client(Engine &engine, Host &host, u32 slot) : session(engine, host, slot) {}
    Session session;
    std::map<u64, std::optional<u64>> changes;  // nothing: deleted
  };

  u64 roll(u64 n) { return random_() % n; }

  void step() {
    Client &c = clients_[roll(kSessions)];
    if (entries() > kMostEntries) make_room();
    switch (roll(16)) {
      case 0: case 1: case 2: insert(c); break;
      case 3: case 4: case 5: rekey(c); break;
      case 6: case 7: remove(c); break;
      case 8: case 9: if (c.session.tn() != 0) end(c, roll(4) != 0); break;
      case 10: hold_or_release(); break;
      case 11: host.publish_horizon(); sweep(cleaner_); break;
      case 12: host.publish_horizon(); purge(cleaner_, 1 + roll(next_row_), roll(2)); break;
      case 13: host.publish_horizon(); remove_dead_entry(); break;
      default: host.publish_horizon(); remove_stale_entry(); break;
    }
  }
  u64 entries() { return engine.verify(index); }
  void make_room() {
    release_all();
    for (Client &c : clients_)
      if (c.session.tn() != 0) end(c, true);
    host.publish_horizon();
    for (const IndexedRow &e : written_) remove_stale(cleaner_, e.key, e.row_id);
    sweep(cleaner_);
  }

  // Every transaction writes: its end is in the log then.
  static void begin(Client &c) {
    if (c.session.tn() == 0) c.session.begin();
  }
  void insert(Client &c) {
    if (rows_.size() >= kMostRows) return;
    begin(c);
    const u64 row = next_row_++, key = roll(50);
    IndexedTable::insert(c.session, key, row);
    changed(c, row, key);
  }
  // The row of a change by this client: not one that another one has changed.
  std::optional<u64> any_row(Client &c) {
    if (rows_.empty()) return {};
    auto at = rows_.lower_bound(roll(next_row_));
    if (at == rows_.end()) at = rows_.begin();
    const u64 row = at->first;
    for (const Client &other : clients_)
      if (&other != &c && other.changes.contains(row)) return {};
    const auto own = c.changes.find(row);
    return own != c.changes.end() && !own->second ? std::nullopt : std::optional(row);
  }
  void rekey(Client &c) {
    const std::optional<u64> row = any_row(c);
    if (!row) return;
    begin(c);
    // back to one that it had, too
    const u64 key = roll(50) / (roll(2) ? 1 : 10);
    IndexedTable::rekey(c.session, key, *row);
    changed(c, *row, key);
  }
  void remove(Client &c) {
    const std::optional<u64> row = any_row(c);
    if (!row) return;
    begin(c);
    TXN_EXPECT_OK(c.session.remove(table, *row));
    changed(c, *row, {});
  }
  void changed(Client &c, u64 row, std::optional<u64> key) {
    c.changes[row] = key;
    rows_.try_emplace(row, 0);
    if (key) written_.insert({*key, row});
  }
  void end(Client &c, bool commits) {
    const Tn tn = c.session.tn();
    if (commits) {
      history_[tn] = c.changes;
      apply(c.changes, &committed_);
      c.session.commit();
    } else {
      c.session.abort();
    }
    for (const auto &[row, key] : c.changes)
      if (!committed_.contains(row)) rows_.erase(row);
    c.changes.clear();
  }
  static void apply(const std::map<u64, std::optional<u64>> &changes, Rows *rows) {
    for (const auto &[row, key] : changes) {
      if (key) (*rows)[row] = *key;
      else rows->erase(row);
    }
  }

  void hold_or_release() {
    if (held_.size() < 3 && roll(2)) {
      held_.push_back(host.take(0, 0));
    } else if (!held_.empty()) {
      const size_t at = roll(held_.size());
      host.release(*held_[at]);
      held_.erase(held_.begin() + static_cast<long>(at));
    }
  }
  void release_all() {
    for (auto &s : held_) host.release(*s);
    held_.clear();
  }
  IndexedRow any_entry() {
    auto at = written_.lower_bound({roll(50), roll(next_row_)});
    return at == written_.end() ? *written_.begin() : *at;
  }
  void remove_dead_entry() {
    if (written_.empty()) return;
    const IndexedRow e = any_entry();
    RowGone row;
    TXN_EXPECT_OK(
        row_gone(cleaner_.worker(), table, e.row_id, settled_below(engine.txns()), &row));
    if (row.gone) remove_entry(cleaner_, e.key, e.row_id);
  }
  void remove_stale_entry() {
    if (written_.empty()) return;
    const IndexedRow e = any_entry();
    remove_stale(cleaner_, e.key, e.row_id);
  }

  struct StandbySnapshot {
    Tn xmin;
    Rows rows;
    bool ended = false;
  };

  void check() {
    const RemovalLog log(engine, table, index);
    std::vector<StandbySnapshot> snapshots{{kFirstTn, {}}};
    std::set<Tn> ended;
    Rows rows;
    Tn xmin = kFirstTn;
    for (const LogEvent &e : log.events()) {
      switch (e.kind) {
        case LogEvent::Kind::kEnd:
          ended.insert(e.tn);
          if (e.committed) apply(history_.at(e.tn), &rows);
          while (ended.contains(xmin)) xmin++;
          snapshots.push_back({xmin, rows});
          break;
        case LogEvent::Kind::kRowsRemoved:
          for (StandbySnapshot &s : snapshots)
            for (u64 row : e.rows) s.ended |= s.rows.contains(row);
          break;
        case LogEvent::Kind::kEntriesRemoved: look_at(e, snapshots); break;
      }
    }
    // So that it is not for nothing.
    EXPECT_GT(dated_, 10u);
    EXPECT_GT(undated_, 10u);
    EXPECT_GT(conflicts_, 10u);
  }
  void look_at(const LogEvent &e, const std::vector<StandbySnapshot> &snapshots) {
    EXPECT_NE(e.tn, kMaxTn);
    (e.tn == 0 ? undated_ : dated_)++;
    for (const StandbySnapshot &s : snapshots) {
      if (s.ended) continue;
      const bool needed = std::any_of(e.entries.begin(), e.entries.end(), [&](const IndexedRow &r) {
        const auto at = s.rows.find(r.row_id);
        return at != s.rows.end() && at->second == r.key;
      });
      if (s.xmin > e.tn) EXPECT_FALSE(needed) << "xmin " << s.xmin << ", newest " << e.tn;
      else
        conflicts_ += needed;
    }
  }

  std::mt19937_64 random_;
  std::deque<Client> clients_;
  Session cleaner_{engine, host, kSessions};
  std::vector<std::unique_ptr<Snapshot>> held_;
  u64 next_row_ = 1;
  Rows rows_;                     // there, or changed by a transaction that runs; no keys
  Rows committed_;
  std::set<IndexedRow> written_;  // entries that were ever
  std::map<Tn, std::map<u64, std::optional<u64>>> history_;  // of those committed
  u32 dated_ = 0, undated_ = 0, conflicts_ = 0;
};

TEST(IndexRemovalModelTest, no_snapshot_above_the_date_needs_an_entry) {
  test::each_seed(6, [](u64 seed) {
    SCOPED_TRACE("LS_SEED=" + std::to_string(seed));
    RemovalModel(seed).run(2500);
    return !testing::Test::HasFailure();
  });
}

}  // namespace
}  // namespace ls::txn_test
