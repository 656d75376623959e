// Concurrent insertions of equal keys: one wins, in one leaf and where the equal keys span several.
#include <barrier>
#include <random>
#include <thread>

#include "unit/base/failpoint_actions.hpp"
#include "unit/index/index_fixture.hpp"

namespace ls::test {
namespace {

constexpr u32 kThreads = 4;

class IndexUniqueTest : public testing::Test {
 protected:
  IndexStore store;
  ls_error err{};
};

TEST_F(IndexUniqueTest, one_wins_each_key) {
  constexpr u64 kKeys = 3000;
  std::vector<std::atomic<u64>> winner(kKeys);
  std::atomic<u64> refused{0};
  std::vector<std::thread> threads;
  for (u32 t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      IndexSession s(store, t);
      ASSERT_EQ(s.begin(), LS_OK);
      for (u64 i = 0; i < kKeys; i++) {
        const u64 key = i * 7919 % kKeys, row_id = i * kThreads + t + 1;
        u64 other = 0;
        const ls_status status = s.add_unique(number_key(key), row_id, {}, &other);
        if (status == LS_OK) {
          EXPECT_EQ(winner[key].exchange(row_id), 0u) << "two have won key " << key;
        } else {
          EXPECT_EQ(status, LS_EXISTS) << to_text(status, s.err);
          EXPECT_NE(other, row_id);
          refused++;
        }
      }
      s.commit();
    });
  }
  for (std::thread &t : threads) t.join();
  EXPECT_EQ(refused.load(), (kThreads - 1) * kKeys);
  IndexSession s(store, 0);
  const std::vector<Entry> entries = s.entries();
  ASSERT_EQ(entries.size(), kKeys);
  for (u64 i = 0; i < kKeys; i++)
    EXPECT_EQ(entries[i], (Entry{number_key(i), winner[i].load(), ""}));
  EXPECT_EQ(s.check(), kKeys);
}

// Each round: one key with so many entries that do not count that they fill several leaves; all
// want to insert it at once, each into another leaf.
// UNIQ-1
TEST_F(IndexUniqueTest, one_wins_a_key_that_spans_leaves) {
  constexpr u64 kRounds = 60, kDead = 1200, kGap = 1000;
  std::vector<u64> ignore;
  for (u64 i = 1; i <= kDead; i++) ignore.push_back(i * kGap);
  {
    IndexSession s(store, 0);
    LS_ASSERT_OK(s.begin());
    for (u64 round = 0; round < kRounds; round++) {
      for (u64 row_id : ignore) LS_ASSERT_OK(s.add(number_key(round), row_id));
    }
    s.commit();
  }
  std::vector<std::atomic<u32>> winners(kRounds);
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (u32 t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      IndexSession s(store, t);
      std::mt19937_64 random(t);
      ASSERT_EQ(s.begin(), LS_OK);
      for (u64 round = 0; round < kRounds; round++) {
        const u64 row_id = (t * kDead / kThreads + random() % (kDead / kThreads)) * kGap + 1 +
                           random() % (kGap - 1);
        u64 other = 0;
        start.arrive_and_wait();
        const ls_status status = s.add_unique(number_key(round), row_id, ignore, &other);
        if (status == LS_OK) winners[round]++;
        else EXPECT_EQ(status, LS_EXISTS) << to_text(status, s.err);
      }
      s.commit();
    });
  }
  for (std::thread &t : threads) t.join();
  for (u64 round = 0; round < kRounds; round++)
    EXPECT_EQ(winners[round].load(), 1u) << "round " << round;
  IndexSession s(store, 0);
  EXPECT_EQ(s.check(), kRounds * (kDead + 1));
}

TEST_F(IndexUniqueTest, an_equal_key_in_another_leaf_is_found) {
  constexpr u64 kEntries = 2000;
  IndexSession s(store, 0);
  std::vector<u64> ignore;
  LS_ASSERT_OK(s.begin());
  for (u64 i = 1; i <= kEntries; i++) {
    LS_ASSERT_OK(s.add(number_key(5), i * 10));
    ignore.push_back(i * 10);
  }
  u64 other = 0;
  for (u64 i = 1; i <= kEntries; i += 111) {
    // Only this one counts.
    std::vector<u64> rest = ignore;
    std::erase(rest, i * 10);
    for (u64 row_id : {u64{1}, u64{kEntries * 5 + 1}, LS_MAX_ROW_ID}) {
      EXPECT_EQ(s.add_unique(number_key(5), row_id, rest, &other), LS_EXISTS);
      EXPECT_EQ(other, i * 10);
    }
  }
  LS_EXPECT_OK(s.add_unique(number_key(5), 777, ignore, &other));
  // Neighbours are no matter.
  LS_EXPECT_OK(s.add_unique(number_key(4), 1, {}, &other));
  LS_EXPECT_OK(s.add_unique(number_key(6), 1, {}, &other));
  s.commit();
  EXPECT_EQ(s.check(), kEntries + 3);
}

#if LS_FAILPOINTS
// UNIQ-1
// First: reads all leaves of the key, and no entry counts.  Second: inserts the key into the last
// of them.  First: latches the first of them.
TEST_F(IndexUniqueTest, race_of_two_that_meet_no_equal_key_has_one_winner) {
  constexpr u64 kDead = 1200, kGap = 1000, kLast = kDead * kGap + 1;
  IndexSession a(store, 0), b(store, 1);
  std::vector<u64> ignore;
  LS_ASSERT_OK(a.begin());
  for (u64 i = 1; i <= kDead; i++) {
    ignore.push_back(i * kGap);
    LS_ASSERT_OK(a.add(number_key(7), i * kGap));
  }
  LS_ASSERT_OK(b.begin());
  u64 other = 0, none = 0;
  OnceAt point(Failpoint::index_before_insert, [&] {
    LS_EXPECT_OK(b.add_unique(number_key(7), kLast, ignore, &none));
  });
  EXPECT_EQ(a.add_unique(number_key(7), 1, ignore, &other), LS_EXISTS);
  EXPECT_TRUE(point.reached());
  EXPECT_EQ(other, kLast);
  a.commit();
  b.commit();
  EXPECT_EQ(a.check(), kDead + 1);
}
#endif

}  // namespace
}  // namespace ls::test
