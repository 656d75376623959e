// Short memory: ranges become fewer and wider, nothing is lost, and what is given back can be had
// again.
#include <atomic>
#include <random>
#include <thread>

#include "unit/range/range_fixture.hpp"

namespace ls::test {
namespace {

std::string number_key(u32 n) {
  char text[16];
  std::snprintf(text, sizeof text, "%08u", n);
  return text;
}

constexpr u64 kSmall = 4096 * kRangeCellBytes;

// RANGE-3
TEST(RangeMemory, an_owner_with_very_many_ranges_trades_them_for_wider_ones) {
  RangeArena arena(4);
  RangeWorker a(arena, 0), b(arena, 1);
  constexpr u32 kRanges = 10'000;
  for (u32 i = 0; i < kRanges; i++)
    ASSERT_EQ(a.exclusive(number_key(2 * i), number_key(2 * i + 1)), LS_OK);
  EXPECT_LT(arena.held(), 8192u);
  for (u32 i = 0; i < kRanges; i += 97)
    ASSERT_EQ(b.shared(number_key(2 * i), number_key(2 * i + 1)), LS_LOCKED) << i;
  EXPECT_EQ(b.shared(number_key(2 * kRanges), number_key(2 * kRanges + 1)), LS_OK);
  a.end();
  EXPECT_EQ(b.exclusive("", "$"), LS_OK);
}

TEST(RangeMemory, a_full_arena_makes_ranges_wider_but_not_over_those_of_others) {
  RangeArena arena(4, kSmall);
  RangeWorker a(arena, 0), b(arena, 1), c(arena, 2);
  ASSERT_EQ(b.exclusive(number_key(50'001), number_key(50'002)), LS_OK);
  constexpr u32 kRanges = 30'000;
  for (u32 i = 0; i < kRanges; i++)
    ASSERT_EQ(a.shared(number_key(4 * i), number_key(4 * i + 1)), LS_OK) << i;
  EXPECT_LT(arena.held(), 4096u);
  for (u32 i = 0; i < kRanges; i += 97)
    ASSERT_EQ(c.exclusive(number_key(4 * i), number_key(4 * i + 1)), LS_LOCKED) << i;
  c.withdraw();
  EXPECT_EQ(b.exclusive(number_key(50'001), number_key(50'002)), LS_OK) << "still b's";
  EXPECT_EQ(a.exclusive(number_key(50'001), number_key(50'002)), LS_LOCKED);
  a.end();
  b.end();
  EXPECT_EQ(c.exclusive("", "$"), LS_OK);
}

TEST(RangeMemory, who_cannot_have_less_is_told_that_memory_is_out) {
  RangeArena arena(4, kSmall);
  RangeWorker a(arena, 0), b(arena, 1);
  // Taking turns, so that nothing can be joined.
  ls_status status = LS_OK;
  u32 n = 0;
  for (; n < 100'000 && status == LS_OK; n++)
    status = (n % 2 ? a : b).exclusive(number_key(n), number_key(n + 1));
  EXPECT_EQ(status, LS_RANGE_MEMORY);
  EXPECT_GT(n, 1500u);
  RangeWorker c(arena, 2);
  for (u32 i = 0; i + 1 < n; i += 31)
    EXPECT_NE(c.exclusive(number_key(i), number_key(i + 1)), LS_OK) << i;
  c.end();
  a.end();
  for (u32 i = 0; i + 1 < n; i += 2)
    ASSERT_EQ(c.exclusive(number_key(i) + "x", number_key(i) + "y"), LS_LOCKED) << i << " of " << n;
  c.end();
  b.end();
  EXPECT_EQ(arena.list().size(), 0u);
  EXPECT_EQ(arena.cells_in_use(), 0u);
  EXPECT_EQ(c.exclusive("", "$"), LS_OK);
}

TEST(RangeMemory, ranges_with_long_keys_come_and_go_for_ever) {
  RangeArena arena(2, kSmall);
  RangeWorker a(arena, 0);
  const std::string pad(900, 'p');
  for (u32 i = 0; i < 20'000; i++) {
    ASSERT_EQ(a.exclusive(number_key(i * 7919 % 10'000) + pad, number_key(20'000) + pad), LS_OK)
        << i;
    a.end();
  }
}

TEST(RangeMemory, wide_ranges_over_many_points_are_seen_from_each) {
  RangeArena arena(16);
  std::mt19937 random(7);
  std::vector<std::unique_ptr<RangeWorker>> wide;
  RangeWorker points(arena, 0);
  // empty: nothing
  for (u32 i = 0; i < 2000; i++)
    ASSERT_EQ(points.lock(number_key(random() % 100'000), "", kRangeShared), LS_OK);
  for (u32 i = 0; i < 2000; i++) {
    u32 at = random() % 100'000;
    ASSERT_EQ(points.shared(number_key(at), number_key(at) + '\0'), LS_OK);
  }
  for (u32 i = 1; i < 12; i++) {   // more than an index node has entries
    wide.push_back(std::make_unique<RangeWorker>(arena, i));
    ASSERT_EQ(wide.back()->shared(number_key(i), i % 2 ? "$" : number_key(100'000 - i)), LS_OK);
  }
  RangeWorker c(arena, 12);
  for (u32 round = 0; round < 12; round++) {
    for (u32 i = 0; i < 300; i++) {
      u32 at = 20 + random() % 99'000;
      ASSERT_EQ(c.exclusive(number_key(at) + "x", number_key(at) + "y"),
                wide.empty() ? LS_OK : LS_LOCKED)
          << at;
      c.end();
    }
    if (wide.empty()) break;
    wide.back()->end();
    wide.pop_back();
  }
}

// Threads in an arena that is always short: everything conflicts in the end, no thread is granted
// what another holds.
TEST(RangeMemory, threads_in_a_short_arena_keep_their_ranges) {
  constexpr u32 kThreads = 4, kKeys = 4000;
  RangeArena arena(kThreads, 1024 * kRangeCellBytes);
  const u32 seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::vector<std::atomic<u32>> held(kKeys);   // thread + 1
  std::atomic<u32> granted{0}, out{0};
  std::vector<std::thread> threads;
  for (u32 t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      std::mt19937 random(seed + t);
      RangeWorker worker(arena, t);
      for (u32 turn = 0; turn < 25; turn++) {
        std::vector<u32> mine;
        for (u32 i = 0; i < 500; i++) {
          u32 key =
              (random() % (kKeys / kThreads)) +
              (random() % 20 ? t * (kKeys / kThreads) : random() % kThreads * (kKeys / kThreads));
          ls_status status = worker.exclusive(number_key(key), number_key(key) + '\0');
          if (status == LS_LOCKED) {
            worker.withdraw();
            continue;
          }
          if (status != LS_OK) {
            out++;
            break;
          }
          granted++;
          u32 before = held[key].exchange(t + 1);
          ASSERT_TRUE(before == 0 || before == t + 1) << key << ": " << before - 1 << " and " << t;
          mine.push_back(key);
        }
        for (u32 key : mine) held[key] = 0;
        worker.end();
      }
    });
  for (auto &t : threads) t.join();
  std::printf("%u granted, %u times out of memory\n", granted.load(), out.load());
  EXPECT_EQ(arena.list().size(), 0u);
  EXPECT_EQ(arena.cells_in_use(), 0u);
}

}  // namespace
}  // namespace ls::test
