// Threads on few rows: nothing is lost, no snapshot sees half a transaction, locks exclude each
// other.
#include <random>

#include "unit/txn/txn_fixture.hpp"

namespace ls::txn_test {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int kScale = 1;
#else
constexpr int kScale = 4;
#endif

class Background {
 public:
  template <class Body>
  explicit Background(Body body) : thread_([this, body] {
    while (!stop_.load()) body();
  }) {}
  ~Background() {
    stop_.store(true);
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void clean_once(Engine &engine, Host &host) {
  host.publish_horizon();
  u64 removed = 0;
  TXN_EXPECT_OK(clean_round(engine.own(), &removed));
  if (removed == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

int value_of(const std::string &s) { return std::atoi(s.c_str()); }
// Of varying length, so that rows move within and between leaves.
std::string account(int value, std::mt19937_64 &rng) {
  return std::to_string(value) + " " + std::string(rng() % 400, '.');
}

void transfers(Engine &engine, Host &host, FileSlot &table, u64 accounts, u32 slot, int n) {
  Session s(engine, host, slot);
  std::mt19937_64 rng(slot);
  for (int done = 0; done < n;) {
    const u64 from = 1 + rng() % accounts, to = 1 + rng() % accounts;
    if (from == to) continue;
    s.begin();
    auto snapshot = s.snapshot();
    const int amount = static_cast<int>(rng() % 100);
    const int old_from = value_of(s.read_with(table, from, snapshot->s));
    const int old_to = value_of(s.read_with(table, to, snapshot->s));
    Status status = s.update_with(table, snapshot->s, from, account(old_from - amount, rng));
    if (ok(status)) status = s.update_with(table, snapshot->s, to, account(old_to + amount, rng));
    s.release(snapshot);
    const bool give_up = rng() % 8 == 0;
    if (ok(status) && !give_up) {
      s.commit();
      done++;
    } else {
      ASSERT_TRUE(ok(status) || code(status) == LS_BEING_MODIFIED || code(status) == LS_UPDATED)
          << code(status) << last_error().message;
      s.abort();
    }
  }
}

void transfer_test(const EngineConfig &config, u64 accounts, int n) {
  Engine engine(config);
  Host host(engine);
  FileSlot &table = *engine.open("table");
  std::mt19937_64 rng(1);
  {
    Session s(engine, host, 0);
    s.begin();
    for (u64 i = 1; i <= accounts; i++) TXN_ASSERT_OK(s.insert(table, i, account(1000, rng)));
    s.commit();
  }
  std::atomic<int> scans{0};
  {
    Background cleaner([&] { clean_once(engine, host); });
    Session reader(engine, host, 8);
    Background reading([&] {
      auto snapshot = reader.snapshot();
      long sum = 0;
      const auto rows = reader.scan(table, snapshot->s, scans % 2 == 0);
      for (const auto &[row, data] : rows) sum += value_of(data);
      EXPECT_EQ(rows.size(), accounts);
      EXPECT_EQ(sum, static_cast<long>(accounts) * 1000);
      reader.release(snapshot);
      scans++;
    });
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 4; t++)
      threads.emplace_back([&, t] { transfers(engine, host, table, accounts, t, n); });
    for (auto &t : threads) t.join();
  }
  EXPECT_GT(scans.load(), 0);
  engine.verify(table);
}

TEST(RowRace, transfers_keep_the_sum_under_every_snapshot) { transfer_test({}, 20, 150 * kScale); }

TEST(RowRace, transfers_with_a_tiny_pool) { transfer_test({.frames = 128}, 1500, 60 * kScale); }

TEST(RowRace, no_increment_is_lost) {
  Engine engine;
  Host host(engine);
  FileSlot &table = *engine.open("table");
  Session first(engine, host, 0);
  first.begin();
  TXN_ASSERT_OK(first.insert(table, 1, "0"));
  first.commit();
  constexpr int kThreads = 4, kEach = 60 * kScale;
  std::vector<std::thread> threads;
  for (u32 t = 1; t <= kThreads; t++) {
    threads.emplace_back([&, t] {
      Session s(engine, host, t);
      for (int done = 0; done < kEach;) {
        s.begin();
        auto snapshot = s.snapshot();
        const int value = value_of(s.read_with(table, 1, snapshot->s));
        const Status status = s.update_with(table, snapshot->s, 1, std::to_string(value + 1));
        s.release(snapshot);
        if (ok(status)) {
          s.commit();
          done++;
        } else {
          s.abort();
        }
      }
    });
  }
  for (auto &t : threads) t.join();
  EXPECT_EQ(first.read(table, 1), std::to_string(kThreads * kEach));
}

// How many transactions hold the row in each mode, by the host's own count: raised after the
// engine's grant, lowered before the end of the transaction.
class Shadow {
 public:
  void enter(ls_lock_mode mode) {
    counts_[mode]++;
    for (int other = 0; other < 4; other++) {
      const bool conflict = kConflict[mode][other];
      const int allowed = other == mode ? 1 : 0;
      EXPECT_TRUE(!conflict || counts_[other].load() <= allowed)
          << "holding " << mode << " beside " << other;
    }
  }
  void leave(ls_lock_mode mode) { counts_[mode]--; }

 private:
  static constexpr bool kConflict[4][4] = {{0, 0, 0, 1}, {0, 0, 1, 1}, {0, 1, 1, 1}, {1, 1, 1, 1}};
  std::atomic<int> counts_[4]{};
};

// One transaction: a lock or a change of the row; sometimes within a savepoint that is rolled back.
bool lock_once(Session &s, FileSlot &table, Shadow &shadow, std::mt19937_64 &rng) {
  const ls_lock_mode mode = static_cast<ls_lock_mode>(rng() % 4);
  const bool change = mode >= LS_LOCK_NO_KEY_UPDATE && rng() % 2;
  s.begin();
  const u32 savepoint = txn_savepoint(s.worker());
  const Status status =
      change ? s.update(table, 1, std::string(rng() % 50, 'u'), mode) : s.lock(table, 1, mode);
  const bool granted = ok(status);
  if (granted) {
    shadow.enter(mode);
    if (rng() % 4 == 0) std::this_thread::yield();
    shadow.leave(mode);
    if (rng() % 3 == 0) txn_rollback_to(s.worker(), savepoint);
  } else {
    EXPECT_TRUE(code(status) == LS_LOCKED || code(status) == LS_BEING_MODIFIED ||
                code(status) == LS_UPDATED)
        << code(status) << last_error().message;
  }
  rng() % 4 == 0 ? s.abort() : s.commit();
  return granted;
}

TEST(RowRace, lockers_and_updaters_of_one_row_exclude_each_other) {
  Engine engine;
  Host host(engine);
  FileSlot &table = *engine.open("table");
  {
    Session s(engine, host, 0);
    s.begin();
    TXN_ASSERT_OK(s.insert(table, 1, "row"));
    s.commit();
  }
  Shadow shadow;
  std::atomic<int> granted{0};
  {
    Background cleaner([&] { clean_once(engine, host); });
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 6; t++) {
      threads.emplace_back([&, t] {
        Session s(engine, host, t);
        std::mt19937_64 rng(100 + t);
        for (int i = 0; i < 150 * kScale; i++) granted += lock_once(s, table, shadow, rng);
      });
    }
    for (auto &t : threads) t.join();
  }
  EXPECT_GT(granted.load(), 100 * kScale);
}

TEST(RowRace, upgrades_from_key_share_exclude_each_other) {
  Engine engine;
  Host host(engine);
  FileSlot &table = *engine.open("table");
  Session first(engine, host, 0);
  first.begin();
  TXN_ASSERT_OK(first.insert(table, 1, "row"));
  first.commit();
  Shadow shadow;
  std::atomic<int> upgraded{0};
  std::vector<std::thread> threads;
  for (u32 t = 1; t <= 4; t++) {
    threads.emplace_back([&, t] {
      Session s(engine, host, t);
      for (int i = 0; i < 100 * kScale; i++) {
        s.begin();
        if (ok(s.lock(table, 1, LS_LOCK_KEY_SHARE)) &&
            ok(s.lock(table, 1, LS_LOCK_NO_KEY_UPDATE))) {
          shadow.enter(LS_LOCK_NO_KEY_UPDATE);
          upgraded++;
          shadow.leave(LS_LOCK_NO_KEY_UPDATE);
        }
        s.commit();
      }
    });
  }
  for (auto &t : threads) t.join();
  EXPECT_GT(upgraded.load(), 0);
}

// One row that moves from id to id; `at` is where it was last committed.
struct Moving {
  FileSlot &table;
  std::atomic<u64> at{1}, next{2};
  std::atomic<int> moves{0}, shared{0}, exclusive{0};
  Shadow shadow;
};

void move_once(Moving &m, Session &s, std::mt19937_64 &rng) {
  s.begin();
  u64 row = m.at.load();
  bool moved = true;
  for (u64 hops = 1 + rng() % 2; moved && hops > 0; hops--) {
    const u64 to = m.next.fetch_add(1);
    moved = ok(s.move(m.table, row, to, "row"));
    if (moved) row = to;
  }
  if (!moved || rng() % 4 == 0) {
    s.abort();
    return;
  }
  s.commit();
  m.at.store(row);
  m.moves++;
}

// In a snapshot that may be older than the last moves.
void share_once(Moving &m, Session &s, std::mt19937_64 &rng) {
  s.begin();
  const u64 row = m.at.load();
  auto snapshot = s.snapshot();
  if (rng() % 2) std::this_thread::sleep_for(std::chrono::microseconds(rng() % 300));
  const u32 savepoint = txn_savepoint(s.worker());
  if (ok(s.lock_with(m.table, snapshot->s, row, LS_LOCK_KEY_SHARE))) {
    m.shadow.enter(LS_LOCK_KEY_SHARE);
    m.shared++;
    if (rng() % 2) std::this_thread::sleep_for(std::chrono::microseconds(rng() % 300));
    m.shadow.leave(LS_LOCK_KEY_SHARE);
    if (rng() % 4 == 0) txn_rollback_to(s.worker(), savepoint);
  }
  s.release(snapshot);
  s.commit();
}

void own_once(Moving &m, Session &s) {
  s.begin();
  if (ok(s.lock(m.table, m.at.load(), LS_LOCK_UPDATE))) {
    m.shadow.enter(LS_LOCK_UPDATE);
    m.exclusive++;
    m.shadow.leave(LS_LOCK_UPDATE);
  }
  s.commit();
}

TEST(RowRace, key_share_keeps_a_row_that_moves) {
  Engine engine;
  Host host(engine);
  Moving m{*engine.open("table")};
  {
    Session s(engine, host, 0);
    s.begin();
    TXN_ASSERT_OK(s.insert(m.table, 1, "row"));
    s.commit();
  }
  {
    Background cleaner([&] { clean_once(engine, host); });
    Session owner(engine, host, 3);
    Background owning([&] { own_once(m, owner); });
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 3; t++) {
      threads.emplace_back([&, t] {
        Session s(engine, host, t);
        std::mt19937_64 rng(200 + t);
        for (int i = 0; i < 200 * kScale; i++)
          t == 0 ? move_once(m, s, rng) : share_once(m, s, rng);
      });
    }
    for (auto &t : threads) t.join();
  }
  EXPECT_GT(m.moves.load(), 10);
  EXPECT_GT(m.shared.load(), 10);
  EXPECT_GT(m.exclusive.load(), 0);
}

// Inserts stretches of rows, and deletes some of them, and then the others.
void come_and_go(Engine &engine, Host &host, FileSlot &table, u32 slot) {
  Session s(engine, host, slot);
  std::mt19937_64 rng(slot);
  for (int turn = 0; turn < 150 * kScale; turn++) {
    const u64 first = (1 + rng() % 49) * 1000 + slot * 100 + 1, count = 1 + rng() % 90;
    const std::vector<ls_bytes> rows(count, {reinterpret_cast<const u8 *>("goes"), 4});
    u32 n = 0;
    s.begin();
    const Status status = row_insert_many(s.worker(), table, first, s.cid++, rows, &n);
    ASSERT_TRUE(ok(status) || code(status) == LS_EXISTS) << last_error().message;
    if (!ok(status)) {
      s.abort();
      continue;
    }
    if (rng() % 2) {
      s.commit(rng() % 2);
      s.begin();
    }
    const u32 step = 1 + rng() % 3;
    for (u64 row = first; row < first + count; row += step) TXN_ASSERT_OK(s.remove(table, row));
    if (rng() % 4 == 0) s.abort();
    else s.commit(rng() % 2);
    s.begin();
    for (u64 row = first; row < first + count; row++) {
      const Status removed = s.remove(table, row);
      ASSERT_TRUE(ok(removed) || code(removed) == LS_DELETED || code(removed) == LS_NOT_FOUND)
          << code(removed) << last_error().message;
    }
    s.commit();
  }
}

// Deletions of a row's neighbours share an undo entry (VER-4), which the cleaner takes away behind
// the last of their ghosts.
TEST(RowRace, stretches_come_and_go_beside_a_reader) {
  Engine engine;
  Host host(engine);
  FileSlot &table = *engine.open("table");
  Session reader(engine, host, 0);
  reader.begin();
  for (u64 i = 1; i <= 50; i++) TXN_ASSERT_OK(reader.insert(table, i * 1000, "stays"));
  reader.commit(true);
  auto old = reader.snapshot();
  const auto before = reader.scan(table, old->s);
  {
    const Background publisher([&] { host.publish_horizon(); });   // also while it cleans
    const Background cleaner([&] {
      u64 removed = 0;
      TXN_EXPECT_OK(clean_round(engine.own(), &removed));
    });
    std::vector<std::thread> writers;
    for (u32 slot = 1; slot <= 3; slot++)
      writers.emplace_back([&, slot] { come_and_go(engine, host, table, slot); });
    for (int i = 0; i < 100 * kScale; i++) EXPECT_EQ(reader.scan(table, old->s), before) << i;
    for (std::thread &writer : writers) writer.join();
  }
  EXPECT_EQ(reader.scan(table, old->s), before);
  EXPECT_EQ(reader.contents(table), before);
  reader.release(old);
  engine.verify(table);
}

TEST(RowRace, inserters_of_one_table_with_rollbacks) {
  Engine engine;
  Host host(engine);
  FileSlot &table = *engine.open("table");
  std::atomic<u64> kept{0};
  {
    Session reader(engine, host, 8);
    Background reading([&] {
      u64 rows = reader.contents(table).size();
      EXPECT_EQ(rows % 20, 0u) << "a transaction inserts twenty rows or none";
    });
    std::vector<std::thread> threads;
    for (u32 t = 0; t < 4; t++) {
      threads.emplace_back([&, t] {
        Session s(engine, host, t);
        for (int i = 0; i < 25 * kScale; i++) {
          u64 id = 0;
          TXN_ASSERT_OK(row_ids(s.worker(), table, 20, &id));
          s.begin();
          for (u64 r = id; r < id + 20; r++)
            TXN_ASSERT_OK(s.insert(table, r, std::string(60, 'i')));
          if (i % 3 == 0) {
            s.abort();
          } else {
            s.commit();
            kept += 20;
          }
        }
      });
    }
    for (auto &t : threads) t.join();
  }
  EXPECT_EQ(engine.verify(table), kept.load());
}

}  // namespace
}  // namespace ls::txn_test
