// seeds.hpp - which seeds a model test runs: LS_SEED=n only that one; LS_MODEL_SECONDS=n new ones
// until the time is over; else 1 to `usual`.
#pragma once
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>

#include "base/types.hpp"

namespace ls::test {

// run: one seed; false ends it all.
inline void each_seed(u64 usual, const std::function<bool(u64)> &run) {
  using Clock = std::chrono::steady_clock;
  if (const char *seed = std::getenv("LS_SEED")) {
    run(std::strtoull(seed, nullptr, 10));
    return;
  }
  u64 first = 1, seed = 1;
  if (const char *seconds = std::getenv("LS_MODEL_SECONDS")) {
    const auto end = Clock::now() + std::chrono::seconds(std::strtoull(seconds, nullptr, 10));
    first = seed = static_cast<u64>(std::chrono::system_clock::now().time_since_epoch().count()) %
                   1'000'000'000;
    while (Clock::now() < end && run(seed)) seed++;
  } else {
    while (seed <= usual && run(seed)) seed++;
  }
  std::cout << "seeds " << first << " to " << seed - 1 << "\n";
}

}  // namespace ls::test
