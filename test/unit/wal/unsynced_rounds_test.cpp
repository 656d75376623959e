// Rounds that only make room in the log buffers: written, and synced with the next round that a
// worker waits for.
#include <random>
#include <thread>

#include "os/clock.hpp"
#include "os/thread.hpp"
#include "unit/wal/log_fixture.hpp"
#include "wal/log_writer.hpp"

namespace ls {
namespace {

using test::TestLog;

class UnsyncedRounds : public testing::Test {
 protected:
  UnsyncedRounds() { EXPECT_TRUE(ok(t_.log().open_for_append(0, 0, 1))); }

  u64 drain() {
    u64 wrote = 0;
    const auto writer = log_writer_of(t_.log().shared());
    EXPECT_TRUE(ok(writer->round(RoundFor::kRoom, &wrote))) << last_error().message;
    return wrote;
  }
  // A round of its own; returns where it begins.
  Lsn load(LogAppender &a, size_t bytes = 10'000) {
    const Lsn begin = t_.log().shared()->round.end.load();
    test::reserve_append(a, ++seed_, bytes);
    drain();
    return begin;
  }
  Gsn commit(LogAppender &a) {
    EXPECT_TRUE(ok(a.reserve(64, nullptr)));
    return test::append_commit(a, ++seed_);
  }

  TestLog t_;
  u64 seed_ = 0;
};

// WAL-4
TEST_F(UnsyncedRounds, are_durable_with_the_next_that_is_waited_for) {
  LogAppender a(t_.log(), 0), b(t_.log(), 1);
  while (t_.log().shared()->round.end.load() < 2 * test::kSegment) load(a);
  Log::Stats stats = t_.log().stats();
  EXPECT_EQ(stats.fsyncs, 0u);
  EXPECT_EQ(t_.log().hardened(), 0u);
  EXPECT_EQ(t_.log().end(), 0u);
  EXPECT_EQ(t_.log().position_of(seed_), 0u) << "what is not durable has no position yet";
  EXPECT_EQ(t_.read().entries.size(), seed_)
      << "a crash of the process alone loses nothing of them";
  // A worker syncs what the committer has written, in segments that it has never opened.
  const Gsn gsn = commit(b);
  ASSERT_TRUE(b.wait_hardened(gsn, nullptr));
  EXPECT_GE(t_.log().hardened(), gsn);
  EXPECT_EQ(t_.log().end(), t_.log().shared()->round.end.load());
  EXPECT_EQ(t_.log().stats().fsyncs, 3u) << "each segment once";
  EXPECT_EQ(t_.read().entries.size(), seed_);
  EXPECT_EQ(drain(), 0u);
  EXPECT_EQ(t_.log().stats().fsyncs, 3u);
}

TEST_F(UnsyncedRounds, a_round_without_anything_new_syncs_them) {
  LogAppender a(t_.log(), 0);
  load(a);
  EXPECT_EQ(drain(), 0u);
  EXPECT_EQ(t_.log().hardened(), 0u);
  EXPECT_EQ(t_.round(), 0u);
  EXPECT_EQ(t_.log().hardened(), seed_);
  EXPECT_EQ(t_.log().stats().fsyncs, 1u);
}

TEST_F(UnsyncedRounds, commits_are_synced_though_nobody_waits) {
  LogAppender a(t_.log(), 0);
  load(a);
  const Gsn gsn = commit(a);
  drain();
  EXPECT_EQ(t_.log().hardened(), gsn);
}

TEST_F(UnsyncedRounds, do_not_become_too_many) {
  LogAppender a(t_.log(), 0);
  while (t_.log().shared()->round.end.load() < 40u << 20) load(a, 14'000);
  EXPECT_EQ(t_.log().stats().fsyncs / 17, 2u) << "16 MiB at a time, in segments of one";
  EXPECT_GE(t_.log().end(), 32u << 20);
  EXPECT_GT(t_.log().hardened(), 0u);
}

// Each may reach the disk without the one before; none is acknowledged, so that is no damage.
TEST_F(UnsyncedRounds, a_crash_cuts_at_the_first_that_is_torn) {
  LogAppender a(t_.log(), 0);
  test::reserve_append(a, ++seed_, 100);
  t_.round();
  std::vector<Lsn> begins;
  for (int i = 0; i < 5; i++) begins.push_back(load(a, 1000));
  const Lsn end = t_.log().shared()->round.end.load();
  const std::vector<u8> good = test::load(t_.segment_path(0), 0, end);
  for (size_t torn = 0; torn < begins.size(); torn++) {
    test::store(t_.segment_path(0), begins[torn] + 500, std::vector<u8>(100, 0));
    EXPECT_EQ(t_.read().entries.size(), 1 + torn);
    EXPECT_EQ(t_.read().end, begins[torn]);
    test::store(t_.segment_path(0), 0, good);
  }
  // The next run overwrites the torn one with one of the same size; the whole ones behind it do not
  // come back.
  test::store(t_.segment_path(0), begins[2] + 500, std::vector<u8>(100, 0));
  EXPECT_EQ(t_.recover().end, begins[2]);
  LogAppender again(t_.log(), 0);
  seed_ = 3;
  EXPECT_EQ(load(again, 1000), begins[2]);
  EXPECT_EQ(t_.read().entries.size(), 4u);
  test::reserve_append(again, ++seed_, 10);
  t_.round();
  LogImage image = t_.read();
  ASSERT_EQ(image.entries.size(), 5u);
  for (u64 i = 0; i < 4; i++)
    EXPECT_TRUE(test::holds(image.entries[i], i + 1, i == 0 ? 100 : 1000));
  // Now that it was synced, a hole in what lies before is damage.
  load(again);
  t_.round();
  test::store(t_.segment_path(0), begins[1] + 500, std::vector<u8>(100, 0));
  EXPECT_EQ(code(read_log(t_.dir().c_str(), test::kSegment, 0, 0, image)), LS_CORRUPT);
}

TEST_F(UnsyncedRounds, a_failed_sync_of_them_is_final) {
  LogAppender a(t_.log(), 0);
  load(a);
  fault_add({.op = FaultOp::kSync, .path_part = t_.segment_path(0), .error = EIO});
  u64 wrote;
  EXPECT_EQ(code(t_.log().commit_round(&wrote)), LS_IO_ERROR);
  EXPECT_TRUE(t_.log().failed());
  EXPECT_EQ(t_.log().hardened(), 0u);
}

TEST_F(UnsyncedRounds, are_synced_when_there_is_no_room_for_more) {
  LogAppender a(t_.log(), 0);
  while (t_.log().shared()->round.end.load() + 12'000 < test::kSegment) load(a);
  fault_add({.op = FaultOp::kWrite, .path_part = ".new", .nth = 1, .every = true, .error = ENOSPC});
  const Gsn written = seed_;
  test::reserve_append(a, ++seed_, 14'000);
  u64 wrote;
  EXPECT_EQ(code(t_.log().commit_round(&wrote)), LS_NO_SPACE);
  EXPECT_EQ(t_.log().hardened(), written);
  fault_clear();
  t_.round();
  EXPECT_EQ(t_.log().hardened(), seed_);
}

// Loads beside commits, that are waited for in both ways, with a committer that nothing but kicks
// can wake.
TEST_F(UnsyncedRounds, keep_nobody_waiting) {
  constexpr u32 kLoaders = 2, kCommitters = 3, kCommits = 100, kLoads = 4000;
  const u64 begin = now_ms();
  Status result{LS_INVALID};
  Thread committer;
  ASSERT_TRUE(ok(committer.start("committer", [&] { result = t_.log().run_committer(60'000); })));
  std::atomic<u32> left{kCommitters};
  std::atomic<u64> records{0};
  std::vector<std::thread> threads;
  for (u32 slot = 0; slot < kLoaders; slot++) {
    threads.emplace_back([&, slot] {
      LogAppender a(t_.log(), slot);
      std::mt19937_64 random(slot);
      for (u32 i = 0; i < kLoads && left > 0; i++) {
        test::reserve_append(a, ++records, random() % 12'000);
        if (random() % 8 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
      }
    });
  }
  for (u32 slot = kLoaders; slot < kLoaders + kCommitters; slot++) {
    threads.emplace_back([&, slot] {
      LogAppender a(t_.log(), slot);
      for (u32 i = 0; i < kCommits; i++) {
        EXPECT_TRUE(ok(a.reserve(64, nullptr)));
        const Gsn gsn = test::append_commit(a, ++records);
        EXPECT_TRUE(i % 2 == 0 ? a.wait_hardened(gsn, nullptr)
                               : t_.log().wait_hardened(gsn, nullptr));
        EXPECT_GE(t_.log().hardened(), gsn);
      }
      left--;
    });
  }
  for (std::thread &thread : threads) thread.join();
  t_.log().stop();
  committer.join();
  EXPECT_TRUE(ok(result));
  EXPECT_EQ(t_.log().hardened(), records.load());
  EXPECT_EQ(t_.read().entries.size(), records.load());
  // A twentieth of the waits that sleep until their limit would take longer.
  EXPECT_LT(now_ms() - begin, 120'000u);
}

}  // namespace
}  // namespace ls
