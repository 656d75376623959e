// Random transactions against a tiny MVCC oracle: sessions insert, update, delete, lock, set
// savepoints, roll back and commit in turn on few rows, while snapshots are held and the cleaner
// runs.  Every held snapshot must keep seeing exactly what it saw when it was taken, and every
// refused change must be refused for the reason that the oracle knows.
//
// One thread, so a seed repeats a failure: LS_SEED=<n>.
#include <optional>
#include <random>

#include "model/seeds.hpp"
#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

using Rows = std::map<u64, std::string>;

constexpr u32 kSessions = 5;
constexpr u64 kMaxRows = 60;

constexpr bool kConflict[4][4] = {{0, 0, 0, 1}, {0, 0, 1, 1}, {0, 1, 1, 1}, {1, 1, 1, 1}};

struct OwnChange {
  std::optional<std::string> data;  // none: deleted
  bool key_changed = false;         // or inserted: KEY SHARE must wait
  bool inserted = false;
  u64 moved_to = 0;
  bool updated = false;     // before it was deleted, if it was
};

// What a session has done and may roll back to.
struct OwnState {
  std::map<u64, OwnChange> changes;
  std::map<u64, ls_lock_mode> locks;
};

struct Savepoint {
  u32 seq;
  u32 cid;
  OwnState state;
};

struct Held {
  std::unique_ptr<Snapshot> snapshot;
  Rows expected;
  u32 cid;   // of the session when it was taken
};

struct ModelSession {
  std::unique_ptr<Session> s;
  OwnState own;
  std::vector<Savepoint> savepoints;
  std::vector<Held> held;
  std::unique_ptr<Snapshot> fixed;   // REPEATABLE READ
  // At that time: the last committed writer of each row, and of its last version with data.
  std::map<u64, Tn> fixed_writers, fixed_versions;
};

class Model {
 public:
  explicit Model(u64 seed) : rng_(seed) {
    for (u32 i = 0; i < kSessions; i++)
      sessions_[i].s = std::make_unique<Session>(engine_, host_, i);
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); i++) step();
    for (ModelSession &m : sessions_) {
      if (m.s->tn() != 0) end(m, false);
      while (!m.held.empty()) drop_snapshot(m);
    }
    EXPECT_EQ(sessions_[0].s->contents(table_), committed_);
    engine_.verify(table_);
    u64 removed = 1;
    while (removed > 0) {
      host_.publish_horizon();
      TXN_EXPECT_OK(clean_round(engine_.own(), &removed));
    }
    EXPECT_EQ(engine_.verify(table_), committed_.size()) << "only live rows are left";
    EXPECT_EQ(sessions_[0].s->contents(table_), committed_);
  }
  u64 refused() const { return refused_; }

 private:
  u64 roll(u64 n) { return rng_() % n; }

  std::string random_data() {
    const u64 size = roll(4) == 0 ? roll(1200) : roll(40);
    return std::string(size, static_cast<char>('a' + roll(26))) + std::to_string(rng_() % 1000);
  }

  void step() {
    ModelSession &m = sessions_[roll(kSessions)];
    if (m.s->tn() == 0) {
      begin(m);
      return;
    }
    const u64 row = all_rows_.empty() ? 0 : all_rows_[roll(all_rows_.size())];
    switch (roll(23)) {
      case 0: insert(m); break;
      case 1: insert_many(m); break;
      case 2: case 3: case 4: case 5: case 6: update(m, row); break;
      case 7: remove(m, row); break;
      case 8: case 9: lock(m, row); break;
      case 10: case 11: savepoint(m); break;
      case 12: rollback_to(m); break;
      case 13: end(m, false); break;
      case 14: case 15: end(m, true); break;
      case 16: take_snapshot(m); break;
      case 17: drop_snapshot(m); break;
      case 18: case 19: check_snapshots(m); break;
      case 20: clean(); break;
      case 21: remove_stretch(m, row); break;
      default: check_now(m); break;
    }
  }

  void begin(ModelSession &m) {
    m.s->begin();
    if (roll(3) == 0) {
      m.fixed = m.s->snapshot();
      m.fixed_writers = last_writer_;
      m.fixed_versions = last_version_;
    }
  }

  Rows view(const ModelSession &m) const {
    Rows rows = committed_;
    for (const auto &[row, change] : m.own.changes) {
      if (change.data) {
        rows[row] = *change.data;
      } else {
        rows.erase(row);
      }
    }
    return rows;
  }

  void insert(ModelSession &m) {
    if (all_rows_.size() >= kMaxRows && roll(4) != 0) return;
    const u64 row = next_row_ += roll(3) == 0 ? 7 : 1;
    const std::string data = random_data();
    TXN_EXPECT_OK(m.s->insert(table_, row, data));
    inserted(m, row, data);
  }
  void inserted(ModelSession &m, u64 row, const std::string &data) {
    m.own.changes[row] = {data, true, true, 0, true};
    all_rows_.push_back(row);
    if (all_rows_.size() > kMaxRows) all_rows_.erase(all_rows_.begin());
  }

  void insert_many(ModelSession &m) {
    if (all_rows_.size() >= kMaxRows && roll(4) != 0) return;
    const u64 first = next_row_ + 1 + roll(3);
    std::vector<std::string> data(1 + roll(roll(3) == 0 ? 40 : 12));
    std::vector<ls_bytes> rows;
    for (std::string &d : data) {
      d = random_data();
      rows.push_back({reinterpret_cast<const u8 *>(d.data()), static_cast<u32>(d.size())});
    }
    u32 n = 0;
    TXN_EXPECT_OK(row_insert_many(m.s->worker(), table_, first, m.s->cid++, rows, &n));
    EXPECT_EQ(n, data.size());
    for (u32 i = 0; i < n; i++) inserted(m, first + i, data[i]);
    next_row_ = first + n - 1;
  }

  ModelSession *writer_of(u64 row) {
    for (ModelSession &m : sessions_) {
      if (m.own.changes.contains(row)) return &m;
    }
    return nullptr;
  }

  bool lock_conflict(const ModelSession &m, u64 row, ls_lock_mode mode) const {
    for (const ModelSession &other : sessions_) {
      if (&other == &m) continue;
      const auto held = other.own.locks.find(row);
      if (held != other.own.locks.end() && kConflict[held->second][mode]) return true;
    }
    return false;
  }

  // What the engine must answer to a change or lock of `row`.
  std::vector<ls_status> expected(ModelSession &m, u64 row, ls_lock_mode mode, bool locking) {
    ModelSession *writer = writer_of(row);
    if (writer == &m) {
      if (!m.own.changes[row].data) return {LS_INVISIBLE};
    } else if (writer != nullptr) {
      const OwnChange &change = writer->own.changes[row];
      const bool passes =
          locking && mode == LS_LOCK_KEY_SHARE && !change.key_changed && change.data;
      if (!passes) return {LS_BEING_MODIFIED};
    } else if (!committed_.contains(row)) {
      if (!last_writer_.contains(row)) return {LS_NOT_FOUND};  // rolled back
      // Updated, and then deleted: a lock does not tell that apart.
      const bool updated =
          !locking && m.fixed && differs(m.fixed_versions, last_version_, row);
      return {updated || moved_.contains(row) ? LS_UPDATED : LS_DELETED, LS_NOT_FOUND};
    } else if (m.fixed && differs(m.fixed_writers, last_writer_, row)) {
      return {LS_UPDATED};
    }
    if (lock_conflict(m, row, mode)) return {LS_LOCKED};
    return {LS_OK};
  }
  static bool differs(const std::map<u64, Tn> &then, const std::map<u64, Tn> &now, u64 row) {
    const auto writer = then.find(row);
    return writer == then.end() || writer->second != now.at(row);
  }

  bool check(Status got, const std::vector<ls_status> &want, u64 row, const char *what) {
    EXPECT_TRUE(std::find(want.begin(), want.end(), code(got)) != want.end())
        << what << " of row " << row << ": " << code(got) << " instead of " << want[0] << " "
        << last_error().message;
    refused_ += !ok(got);
    return ok(got);
  }

  // The transaction's own snapshot sees its later commands, too.
  ls_snapshot now_of(ModelSession &m, std::unique_ptr<Snapshot> *fresh) {
    if (m.fixed) {
      ls_snapshot s = m.fixed->s;
      s.own_tn = m.s->tn();
      s.curcid = m.s->cid;
      return s;
    }
    *fresh = m.s->snapshot();
    return (*fresh)->s;
  }
  void done(ModelSession &m, std::unique_ptr<Snapshot> &fresh) {
    if (fresh) m.s->release(fresh);
  }

  void update(ModelSession &m, u64 row) {
    const ls_lock_mode mode = roll(4) == 0 ? LS_LOCK_UPDATE : LS_LOCK_NO_KEY_UPDATE;
    const std::string data = random_data();
    const auto want = expected(m, row, mode, false);
    std::unique_ptr<Snapshot> fresh;
    const ls_snapshot s = now_of(m, &fresh);
    const Status got = m.s->update_with(table_, s, row, data, mode);
    done(m, fresh);
    if (!check(got, want, row, "update")) return;
    OwnChange &change = m.own.changes[row];
    change.data = data;
    change.updated = true;
    change.key_changed |= mode == LS_LOCK_UPDATE;
  }

  void remove(ModelSession &m, u64 row) { remove(m, row, roll(2) ? row + 100000 : 0); }
  void remove(ModelSession &m, u64 row, u64 moved_to) {
    const auto want = expected(m, row, LS_LOCK_UPDATE, false);
    std::unique_ptr<Snapshot> fresh;
    const ls_snapshot s = now_of(m, &fresh);
    const ls_change c{row, &s, nullptr, m.s->cid, LS_LOCK_UPDATE};
    const Status got = row_delete(m.s->worker(), table_, c, moved_to, &m.s->conflict);
    done(m, fresh);
    if (!check(got, want, row, "delete")) return;
    m.s->cid++;
    OwnChange &change = m.own.changes[row];
    change.data.reset();
    change.key_changed = true;
    change.moved_to = moved_to;
  }

  // Rows that one insertion may have written.
  void remove_stretch(ModelSession &m, u64 row) {
    const u64 end = row + roll(30), step = 1 + roll(3);
    for (; row < end && row <= next_row_; row += step) {
      remove(m, row, 0);
      if (roll(20) == 0) savepoint(m);
    }
  }

  void lock(ModelSession &m, u64 row) {
    const ls_lock_mode mode = static_cast<ls_lock_mode>(m.fixed ? 1 + roll(3) : roll(4));
    const auto want = expected(m, row, mode, true);
    std::unique_ptr<Snapshot> fresh;
    const ls_snapshot s = now_of(m, &fresh);
    std::string data;
    const Status got = m.s->lock_with(table_, s, row, mode, &data);
    done(m, fresh);
    if (!check(got, want, row, "lock")) return;
    const auto own = m.own.changes.find(row);
    EXPECT_EQ(data, own != m.own.changes.end() ? *own->second.data : committed_.at(row));
    m.s->cid++;
    // Our own changes lock already; the engine may then leave the lock out, which others cannot
    // tell.
    const auto [held, fresh_lock] = m.own.locks.try_emplace(row, mode);
    if (!fresh_lock && held->second < mode) held->second = mode;
  }

  void savepoint(ModelSession &m) {
    m.savepoints.push_back({txn_savepoint(m.s->worker()), m.s->cid, m.own});
  }

  void rollback_to(ModelSession &m) {
    if (m.savepoints.empty()) return;
    const size_t n = roll(m.savepoints.size());
    const Savepoint &to = m.savepoints[n];
    txn_rollback_to(m.s->worker(), to.seq);
    m.own = to.state;
    // Snapshots that see what was undone end with it; the command counter goes on.
    for (size_t i = m.held.size(); i-- > 0;) {
      if (m.held[i].cid <= to.cid || m.held[i].snapshot->s.own_tn != m.s->tn()) continue;
      m.s->release(m.held[i].snapshot);
      m.held.erase(m.held.begin() + static_cast<std::ptrdiff_t>(i));
    }
    m.savepoints.resize(roll(2) ? n : n + 1);
  }

  void end(ModelSession &m, bool commit) {
    const Tn tn = m.s->tn();
    drop_own_snapshots(m);
    if (commit) {
      m.s->commit();
      for (const auto &[row, change] : m.own.changes) {
        last_writer_[row] = tn;
        if (change.updated) last_version_[row] = tn;
        if (change.data) {
          committed_[row] = *change.data;
        } else {
          committed_.erase(row);
          if (change.moved_to != 0) moved_.insert(row);
        }
      }
    } else {
      m.s->abort();
    }
    m.own = OwnState{};
    m.savepoints.clear();
    if (m.fixed) m.s->release(m.fixed);
    m.fixed_writers.clear();
    m.fixed_versions.clear();
  }

  void take_snapshot(ModelSession &m) {
    if (m.held.size() >= 6) return;
    m.held.push_back({m.s->snapshot(), view(m), m.s->cid});
  }
  void drop_snapshot(ModelSession &m) {
    if (m.held.empty()) return;
    m.s->release(m.held.front().snapshot);
    m.held.erase(m.held.begin());
  }
  // A snapshot taken within a transaction is of no use after it when the transaction's own changes
  // are undone.
  void drop_own_snapshots(ModelSession &m) {
    while (!m.held.empty()) drop_snapshot(m);
  }

  void check_snapshots(ModelSession &m) {
    for (ModelSession &owner : sessions_) {
      for (const Held &h : owner.held) {
        // Parallel workers read with another's snapshot: the session that reads does not matter.
        EXPECT_EQ(m.s->scan(table_, h.snapshot->s, roll(2) == 0), h.expected);
        if (all_rows_.empty()) continue;
        const u64 row = all_rows_[roll(all_rows_.size())];
        const auto it = h.expected.find(row);
        EXPECT_EQ(m.s->read_with(table_, row, h.snapshot->s),
                  it == h.expected.end() ? "-" : it->second);
      }
    }
  }

  void check_now(ModelSession &m) { EXPECT_EQ(m.s->contents(table_), view(m)); }

  void clean() {
    host_.publish_horizon();
    u64 removed;
    TXN_EXPECT_OK(clean_round(engine_.own(), &removed));
  }

  Engine engine_{{.frames = 160}};
  Host host_{engine_};
  FileSlot &table_{*engine_.open("table")};
  std::mt19937_64 rng_;
  ModelSession sessions_[kSessions];
  Rows committed_;
  std::map<u64, Tn> last_writer_, last_version_;
  std::set<u64> moved_;
  std::vector<u64> all_rows_;
  u64 next_row_ = 0;
  u64 refused_ = 0;
};

TEST(RowModel, every_snapshot_keeps_seeing_what_it_saw) {
  test::each_seed(4, [](u64 seed) {
    SCOPED_TRACE("LS_SEED=" + std::to_string(seed));
    Model model(seed);
    model.run(2500);
    EXPECT_GT(model.refused(), 50u) << "without conflicts this test proves little";
    return !HasFailure();
  });
}

}  // namespace
}  // namespace ls::txn_test
