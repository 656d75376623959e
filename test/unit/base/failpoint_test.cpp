// failpoint_test.cpp - arming and disarming, with threads that come by at any time.
#include "base/failpoint.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ls {
namespace {

#if LS_FAILPOINTS

constexpr Failpoint kPoint = Failpoint::log_before_publish, kOther = Failpoint::buffer_before_cool;

TEST(Failpoint, acts_while_it_is_armed_and_no_other_does) {
  int times = 0;
  reach_failpoint(kPoint);
  {
    const ArmedFailpoint armed(kPoint, [&] { times++; });
    reach_failpoint(kOther);
    EXPECT_EQ(times, 0);
    reach_failpoint(kPoint);
    reach_failpoint(kPoint);
    EXPECT_EQ(times, 2);
  }
  reach_failpoint(kPoint);
  EXPECT_EQ(times, 2);
  const ArmedFailpoint again(kPoint, [&] { times = 10; });
  reach_failpoint(kPoint);
  EXPECT_EQ(times, 10);
}

// A thread is in the action.  The point is disarmed.  The thread goes on when that has begun.
TEST(Failpoint, race_disarm_vs_action_waits_for_its_end) {
  const std::atomic<const FailpointAction *> &action =
      failpoint_states[static_cast<u32>(kPoint)].action;
  std::atomic<bool> inside{false};
  bool ended = false;
  std::thread thread;
  {
    const ArmedFailpoint armed(kPoint, [&] {
      inside.store(true);
      while (action.load() != nullptr) std::this_thread::yield();
      for (int i = 0; i < 100; i++) std::this_thread::yield();
      ended = true;
    });
    thread = std::thread([] { reach_failpoint(kPoint); });
    while (!inside.load()) std::this_thread::yield();
  }
  EXPECT_TRUE(ended);
  thread.join();
}

TEST(Failpoint, race_of_many_that_come_by_while_it_is_armed_and_disarmed) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; t++) {
    threads.emplace_back([&] {
      for (; !done.load(); std::this_thread::yield()) reach_failpoint(kPoint);
    });
  }
  for (int i = 0; i < 50; i++) {
    std::atomic<int> times{0};   // its place on the stack is another one's afterwards
    const ArmedFailpoint armed(kPoint, [&] { times.fetch_add(1); });
    while (times.load() == 0) std::this_thread::yield();
  }
  done.store(true);
  for (std::thread &thread : threads) thread.join();
}

TEST(Failpoint, is_armed_by_one_at_a_time) {
  const ArmedFailpoint armed(kPoint, [] {});
  EXPECT_DEATH(ArmedFailpoint(kPoint, [] {}), "armed twice");
  const ArmedFailpoint other(kOther, [] {});
}

#endif

}  // namespace
}  // namespace ls
