// crew.hpp - threads that begin together.
#pragma once
#include <sched.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "base/types.hpp"

namespace ls::bench {

// What a run is divided by (setting CLOCK).  On a machine that others use, too, time on the wall
// says little: then the processor time of the whole process, background threads and all, or that of
// the threads that play alone.
enum class Clock { kWall, kProcess, kWorkers };
inline Clock chosen_clock() {
  const char *name = std::getenv("CLOCK");
  const std::string_view clock = name ? name : "";
  return clock == "cpu" ? Clock::kProcess : clock == "workers" ? Clock::kWorkers : Clock::kWall;
}
inline u64 read_clock_us(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<u64>(t.tv_sec) * 1'000'000 + static_cast<u64>(t.tv_nsec) / 1000;
}

// body(thread, stop, begin) on each, which calls begin() when it is prepared; duration_us 0: until
// all have come to their end by themselves.  Returns the microseconds, by the clock chosen, from
// the common begin to the end.
template <typename Body>
u64 run_crew(u32 threads, u64 duration_us, const Body &body) {
  const Clock clock = chosen_clock();
  std::atomic<u32> ready{0};
  std::atomic<bool> go{false}, stop{false};
  std::atomic<u64> worked{0};
  std::vector<std::thread> crew;
  for (u32 t = 0; t < threads; t++)
    crew.emplace_back([&, t] {
      u64 since = 0;
      body(t, stop, [&] {
        ready++;
        while (!go.load()) sched_yield();
        since = read_clock_us(CLOCK_THREAD_CPUTIME_ID);
      });
      worked += read_clock_us(CLOCK_THREAD_CPUTIME_ID) - since;
    });
  while (ready.load() < threads) sched_yield();
  const clockid_t id = clock == Clock::kProcess ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  const u64 begin = read_clock_us(id);
  go = true;
  if (duration_us != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(duration_us));
    stop = true;
  }
  u64 end = read_clock_us(id);
  for (auto &thread : crew) thread.join();
  if (duration_us == 0) end = read_clock_us(id);
  return clock == Clock::kWorkers ? worked.load() : end - begin;
}

}  // namespace ls::bench
