// Rounds written by the workers that wait for them.  Without a committer thread, unless a test says
// so: then a wait that no other worker ends lasts kUninterruptedSleepUs.
#include <thread>

#include "os/clock.hpp"
#include "os/thread.hpp"
#include "unit/wal/log_fixture.hpp"
#include "wal/log_writer.hpp"

namespace ls {
namespace {

using test::TestLog;

class WorkerRoundTest : public testing::Test {
 protected:
  WorkerRoundTest() { EXPECT_TRUE(ok(t_.log().open_for_append(0, 0, 1))); }

  Gsn commit(LogAppender &a, u64 seed) {
    test::reserve_append(a, seed, 50);
    EXPECT_TRUE(ok(a.reserve(64, nullptr)));
    return test::append_commit(a, seed);
  }

  // Until a worker that is about to write a round waits for others.
  void await_gathering() {
    while (t_.log().shared()->commit_group_wanted.load() == 0) std::this_thread::yield();
  }

  TestLog t_;
};

constexpr u32 kVeryLongUs = 600'000'000;

TEST_F(WorkerRoundTest, a_worker_hardens_its_commit) {
  LogAppender a(t_.log(), 0);
  for (u64 i = 1; i <= 3; i++) {
    Gsn gsn = commit(a, i);
    EXPECT_LT(t_.log().hardened(), gsn);
    ASSERT_TRUE(a.wait_hardened(gsn, nullptr));
    EXPECT_GE(t_.log().hardened(), gsn);
    EXPECT_EQ(t_.read().entries.size(), 2 * i);
  }
  EXPECT_EQ(t_.log().stats().rounds, 3u);
  EXPECT_EQ(t_.log().stats().fsyncs, 3u);
}

// Rounds of workers and of the committing process continue each other.
TEST_F(WorkerRoundTest, rounds_are_one_stream_whoever_writes_them) {
  LogAppender a(t_.log(), 0), b(t_.log(), 1);
  for (u64 i = 1; i <= 6; i++) {
    LogAppender &x = i % 2 ? a : b;
    Gsn gsn = commit(x, i);
    if (i % 3 == 0) {
      t_.round();
    } else {
      ASSERT_TRUE(x.wait_hardened(gsn, nullptr));
    }
  }
  EXPECT_EQ(t_.read().entries.size(), 12u);
  EXPECT_EQ(t_.log().stats().rounds, 6u);
}

TEST_F(WorkerRoundTest, workers_wake_each_other) {
  constexpr u32 kWorkers = 8, kCommits = 300;
  const u64 begin = now_ms();
  std::vector<std::thread> threads;
  for (u32 slot = 0; slot < kWorkers; slot++) {
    threads.emplace_back([this, slot] {
      LogAppender a(t_.log(), slot);
      for (u64 i = 0; i < kCommits; i++) {
        const Gsn gsn = commit(a, u64{slot} << 20 | i);
        ASSERT_TRUE(a.wait_hardened(gsn, nullptr));
        ASSERT_GE(t_.log().hardened(), gsn);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  EXPECT_EQ(t_.read().entries.size(), 2u * kWorkers * kCommits);
  EXPECT_EQ(t_.log().stats().commits, u64{kWorkers} * kCommits);
  // A twentieth of the waits that sleep until their limit would take longer.
  EXPECT_LT(now_ms() - begin, 120'000u);
}

TEST_F(WorkerRoundTest, who_comes_in_time_shares_the_round) {
  LogAppender a(t_.log(), 0), b(t_.log(), 1);
  for (u64 i = 1; i <= 3; i++) {
    const Gsn first = commit(a, 2 * i);
    std::thread waiter([&] { EXPECT_TRUE(a.wait_hardened(first, nullptr, kVeryLongUs)); });
    await_gathering();
    EXPECT_LT(t_.log().hardened(), first);
    EXPECT_TRUE(b.wait_hardened(commit(b, 2 * i + 1), nullptr));
    waiter.join();
    EXPECT_EQ(t_.log().stats().rounds, i);
    EXPECT_EQ(t_.log().stats().commits, 2 * i);
  }
  EXPECT_EQ(t_.log().shared()->in_line.load(), 0u);
}

TEST_F(WorkerRoundTest, the_committer_waits_for_no_commit_group) {
  LogAppender a(t_.log(), 0);
  const Gsn gsn = commit(a, 1);
  std::thread waiter([&] { EXPECT_TRUE(a.wait_hardened(gsn, nullptr, kVeryLongUs)); });
  await_gathering();
  t_.round();
  waiter.join();
  EXPECT_GE(t_.log().hardened(), gsn);
}

// Workers that have committed lately are waited for; not for ever, when they have gone, and not by
// a worker that commits alone.
TEST(WorkerRoundCommitGroup, is_who_has_waited_lately) {
  // So many that a quarter of them is more than one.
  constexpr u32 kCommitGroup = 8;
  TestLog t(kCommitGroup, test::kBuffer, false);
  ASSERT_TRUE(ok(t.log().open_for_append(0, 0, 1)));
  std::vector<std::unique_ptr<LogAppender>> workers;
  for (u32 i = 0; i < kCommitGroup; i++)
    workers.push_back(std::make_unique<LogAppender>(t.log(), i));
  auto commit_ns = [&](LogAppender &a) {
    test::reserve_append(a, 1, 50);
    EXPECT_TRUE(ok(a.reserve(64, nullptr)));
    const Gsn gsn = test::append_commit(a, 1);
    t.log().shared()->round.lately_ns = 1'000'000'000;
    const u64 begin = now_ns();
    EXPECT_TRUE(a.wait_hardened(gsn, nullptr));
    return now_ns() - begin;
  };
  u32 &joined = t.log().shared()->round.joined;
  for (auto &w : workers) commit_ns(*w);
  joined = 1000;
  EXPECT_GE(commit_ns(*workers[0]), 1'000'000u) << "the others do not come";
  EXPECT_LT(joined, 1000u);
  for (u32 i = 0; i < 20; i++) commit_ns(*workers[0]);
  joined = 1000;
  u64 least = ~u64{0};
  for (u32 i = 0; i < 200; i++) least = std::min(least, commit_ns(*workers[0]));
  EXPECT_LT(least, 1'000'000u) << "the others have gone";
  EXPECT_EQ(joined, 1000u);
  joined = 0;
  least = ~u64{0};
  for (u32 i = 0; i < 200; i++) least = std::min(least, commit_ns(*workers[i % kCommitGroup]));
  EXPECT_LT(least, 1'000'000u) << "the others are there, but nobody joins";
}

TEST_F(WorkerRoundTest, the_end_of_an_append_wakes_who_was_passed_over) {
  LogAppender b(t_.log(), 1);
  const u64 begin = now_ms();
  for (u64 i = 0; i < 20; i++) {
    test::StalledAppend stalled(t_.log(), 0);
    Gsn behind = test::reserve_append(b, i, 10);
    std::thread waiter([&] { EXPECT_TRUE(b.wait_hardened(behind, nullptr)); });
    if (i % 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_LT(t_.log().hardened(), stalled.gsn());
    stalled.end();
    waiter.join();
  }
  EXPECT_LT(now_ms() - begin, 15'000u);
}

TEST_F(WorkerRoundTest, room_is_made_by_the_committer) {
  LogAppender a(t_.log(), 0);
  // Up to less than what comes now before the end of the only segment.
  u64 seed = 0;
  while (t_.log().end() + 20'000 < test::kSegment) {
    test::reserve_append(a, ++seed, 10'000);
    t_.round();
  }
  ASSERT_EQ(t_.log().shared()->ready_until.load(), test::kSegment);
  const Lsn end = t_.log().end();
  std::atomic<bool> back{false};
  Gsn gsn = 0;
  for (int i = 0; i < 3; i++) gsn = test::reserve_append(a, ++seed, 10'000);
  std::thread waiter([&] {
    EXPECT_TRUE(a.wait_hardened(gsn, nullptr));
    back = true;
  });
  while (t_.log().shared()->kick.load() != kCommitterKicked) std::this_thread::yield();
  EXPECT_FALSE(back);
  EXPECT_EQ(t_.log().end(), end);
  t_.round();
  waiter.join();
  EXPECT_EQ(t_.log().shared()->ready_until.load(), 2 * test::kSegment);
  EXPECT_EQ(t_.read().entries.size(), seed);
}

TEST_F(WorkerRoundTest, a_failed_sync_is_final_and_reported_by_the_committer) {
  LogAppender a(t_.log(), 0), b(t_.log(), 1);
  ASSERT_TRUE(a.wait_hardened(commit(a, 1), nullptr));
  const Gsn hardened = t_.log().hardened();
  fault_add({.op = FaultOp::kSync, .path_part = t_.segment_path(0), .error = EIO});
  const Gsn lost = commit(a, 2);
  volatile int interrupt = 0;
  std::thread waiter([&] { EXPECT_FALSE(a.wait_hardened(lost, &interrupt)); });
  while (!t_.log().failed()) std::this_thread::yield();
  fault_clear();
  Status result = kOk;
  ls_error error{};
  Thread committer;
  ASSERT_TRUE(ok(committer.start("committer", [&] {
    result = t_.log().run_committer(5);
    error = last_error();
  })));
  committer.join();
  EXPECT_EQ(code(result), LS_IO_ERROR);
  EXPECT_EQ(error.sys_errno, EIO) << "the first failure, not that there was one";
  EXPECT_STREQ(error.path, t_.segment_path(0).c_str());
  EXPECT_EQ(t_.log().hardened(), hardened);
  __atomic_store_n(&interrupt, 1, __ATOMIC_RELAXED);
  waiter.join();
}

}  // namespace
}  // namespace ls
