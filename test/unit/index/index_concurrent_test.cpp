// Scans in both directions, look-ups and sweeps among insertions and removals: what is always there
// is met exactly once, in order, while leaves split and melt together underneath.
#include <random>
#include <thread>

#include "unit/index/index_fixture.hpp"

namespace ls::test {
namespace {

constexpr u64 kNumbers = 4000;
constexpr u64 kStable = 10;  // every tenth number's entry stays

class IndexConcurrentTest : public testing::Test {
 protected:
  static std::string payload_of(u64 number) { return std::string(number % 200, 'p'); }

  void fill() {
    IndexSession s(store, 0);
    LS_ASSERT_OK(s.begin());
    for (u64 n = 0; n < kNumbers; n += kStable)
      LS_ASSERT_OK(s.add(number_key(n), n + 1, payload_of(n)));
    s.commit();
  }

  // Numbers congruent to `own` come and go, in runs: leaves split and become empty.
  void churn(IndexSession &s, u64 own) {
    std::mt19937_64 random(own);
    for (int round = 0; round < 300; round++) {
      const u64 first = random() % kNumbers, count = 1000;
      ASSERT_EQ(s.begin(), LS_OK);
      for (bool add : {true, false}) {
        for (u64 i = 0; i < count; i += kStable) {
          const u64 n = (first + i) % kNumbers / kStable * kStable + own;
          const ls_status status =
              add ? s.add(number_key(n), n + 1, payload_of(n)) : s.take_away(number_key(n), n + 1);
          ASSERT_TRUE(status == LS_OK || status == LS_EXISTS) << to_text(status, s.err);
        }
      }
      s.commit();
    }
  }

  // From one end to the other.
  void scan_all(IndexSession &s, std::mt19937_64 &random) {
    IndexScanner scan(s.worker(), s.index);
    const bool backward = random() % 2;
    scan.range({}, std::nullopt, backward);
    u64 next_stable = backward ? kNumbers - kStable : 0;
    std::string last;
    while (auto e = scan.next()) {
      const std::string whole = entry_of(e->key, e->row_id);
      ASSERT_TRUE(last.empty() || (backward ? whole < last : whole > last)) << "out of order";
      last = whole;
      const u64 n = e->row_id - 1;
      ASSERT_EQ(e->key, number_key(n));
      ASSERT_EQ(e->payload, payload_of(n));
      if (n % kStable != 0) continue;
      ASSERT_EQ(n, next_stable) << (backward ? "backward" : "forward");
      next_stable += backward ? -kStable : kStable;
    }
    ASSERT_EQ(next_stable, backward ? 0 - kStable : kNumbers);
  }

  // Jumps and turns among the stable entries.
  void jump(IndexSession &s, std::mt19937_64 &random) {
    IndexScanner scan(s.worker(), s.index);
    scan.range({}, std::nullopt, false);
    for (int i = 0; i < 200; i++) {
      const u64 n = random() % (kNumbers / kStable) * kStable;
      const bool backward = random() % 2;
      scan.set_backward(backward);
      scan.seek(entry_of(number_key(n), n + 1));
      // The next stable one in that direction.
      const u64 wanted = backward ? n - kStable : n + kStable;
      std::optional<Entry> e;
      do e = scan.next();
      while (e && (e->row_id - 1) % kStable != 0);
      if (wanted >= kNumbers) {
        ASSERT_EQ(e, std::nullopt);
      } else {
        ASSERT_TRUE(e) << n;
        ASSERT_EQ(e->row_id - 1, wanted);
      }
    }
  }

  void look_up(IndexSession &s, std::mt19937_64 &random) {
    IndexScanner scan(s.worker(), s.index);
    for (int i = 0; i < 500; i++) {
      const u64 n = random() % (kNumbers / kStable) * kStable;
      scan.range(number_key(n), number_key(n + 1), random() % 2);
      ASSERT_EQ(scan.next(), (Entry{number_key(n), n + 1, payload_of(n)}));
      ASSERT_EQ(scan.next(), std::nullopt);
    }
  }

  IndexStore store;
  ls_error err{};
};

TEST_F(IndexConcurrentTest, scans_among_changes) {
  fill();
  std::atomic<u32> churning{2};
  std::vector<std::thread> threads;
  for (u32 t = 0; t < 2; t++) {
    threads.emplace_back([&, t] {
      IndexSession s(store, t);
      churn(s, t + 1);
      churning--;
    });
  }
  for (u32 t = 2; t < 5; t++) {
    threads.emplace_back([&, t] {
      IndexSession s(store, t);
      std::mt19937_64 random(t);
      while (churning > 0 && !HasFatalFailure()) {
        scan_all(s, random);
        jump(s, random);
        look_up(s, random);
      }
    });
  }
  for (std::thread &t : threads) t.join();
  EXPECT_GT(store.stats().splits, 50u);
  EXPECT_GT(store.stats().merges, 20u);
  IndexSession s(store, 0);
  EXPECT_EQ(s.check(), s.entries().size());
}

// A session that appends remembers where.  Others take away what lies behind, so that the leaf
// melts into another one, and its frame becomes that of another page.
TEST_F(IndexConcurrentTest, appending_where_others_take_away) {
  constexpr u64 kAppended = 15'000, kApart = 1 << 20;
  std::atomic<u64> appended[2] = {0, 0};
  std::vector<std::thread> threads;
  for (u32 t = 0; t < 2; t++) {
    threads.emplace_back([&, t] {
      IndexSession s(store, t);
      std::mt19937_64 random(t);
      for (u64 n = 0; n < kAppended;) {
        ASSERT_EQ(s.begin(), LS_OK);
        for (u64 end = std::min(kAppended, n + 1 + random() % 60); n < end; n++) {
          const u64 number = t * kApart + n;
          ASSERT_EQ(s.add(number_key(number), number + 1, payload_of(n)), LS_OK) << s.err.message;
        }
        s.commit();
        appended[t] = n;
      }
    });
    threads.emplace_back([&, t] {
      IndexSession s(store, 2 + t);
      for (u64 n = 0; n < kAppended && !HasFatalFailure();) {
        const u64 end = appended[t];
        if (n == end) std::this_thread::yield();
        ASSERT_EQ(s.begin(), LS_OK);
        for (; n < end; n++) {
          const u64 number = t * kApart + n;
          if (n % kStable == 0) continue;
          ASSERT_EQ(s.take_away(number_key(number), number + 1), LS_OK) << s.err.message;
        }
        s.commit();
      }
    });
  }
  for (std::thread &t : threads) t.join();
  EXPECT_GT(store.stats().merges, 20u);
  IndexSession s(store, 0);
  EXPECT_EQ(s.check(), 2 * kAppended / kStable);
  u64 at = 0;
  for (const Entry &e : s.entries()) {
    const u64 n = at % (kAppended / kStable) * kStable,
              number = at / (kAppended / kStable) * kApart + n;
    ASSERT_EQ(e, (Entry{number_key(number), number + 1, payload_of(n)}));
    at++;
  }
}

// Rows come and go with their entries; others sweep and clean at the same time.  No entry of a row
// that is there is ever lost.
TEST_F(IndexConcurrentTest, sweeping_among_changes) {
  std::atomic<u32> working{3};
  std::vector<std::map<u64, u64>> rows(3);  // of each worker: row id to number
  std::vector<std::thread> threads;
  for (u32 t = 0; t < 3; t++) {
    threads.emplace_back([&, t] {
      IndexSession s(store, t);
      std::mt19937_64 random(t);
      for (int round = 0; round < 60; round++) {
        std::map<u64, u64> mine = rows[t];
        ASSERT_EQ(s.begin(), LS_OK);
        for (int i = 0; i < 60; i++) {
          const u64 n = random() % kNumbers;
          u64 id = 0;
          ASSERT_EQ(s.insert(s.table, "row", &id), LS_OK) << s.err.message;
          ASSERT_EQ(s.add(number_key(n), id), LS_OK) << s.err.message;
          mine[id] = n;
          if (mine.size() > 400) {
            ASSERT_EQ(s.remove(s.table, mine.begin()->first), LS_OK);
            mine.erase(mine.begin());
          }
        }
        if (random() % 5 == 0) {
          s.abort();
        } else {
          s.commit();
          rows[t] = std::move(mine);
        }
      }
      working--;
    });
  }
  std::atomic<u64> swept{0};
  threads.emplace_back([&] {
    IndexSession s(store, 3);
    ls_index_position position{};
    while (working > 0) {
      u64 entries = 0, removed = 0;
      const ls_status status =
          ls_index_sweep(s.worker(), s.index, s.table, 2, &position, &entries, &removed, &s.err);
      ASSERT_TRUE(status == LS_OK || status == LS_END) << to_text(status, s.err);
      if (status == LS_END) position.len = 0;
      swept += removed;
    }
  });
  for (std::thread &t : threads) t.join();
  EXPECT_GT(swept.load(), 100u);
  IndexSession s(store, 0);
  std::set<std::string> entries;
  for (const Entry &e : s.entries()) entries.insert(entry_of(e.key, e.row_id));
  for (const auto &mine : rows) {
    for (const auto &[id, n] : mine)
      EXPECT_TRUE(entries.contains(entry_of(number_key(n), id))) << "row " << id;
  }
  // The cleaner goes on by itself: entries of rows that are gone become fewer at any moment, and
  // none comes.
  const u64 checked = s.check();
  EXPECT_LE(checked, entries.size());
  EXPECT_GE(checked, s.entries().size());
}

}  // namespace
}  // namespace ls::test
