// clock.hpp - monotonic time.
#pragma once
#include <ctime>

#include "base/types.hpp"

namespace ls {

inline u64 now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<u64>(t.tv_sec) * 1'000'000'000 + static_cast<u64>(t.tv_nsec);
}
inline u64 now_us() { return now_ns() / 1000; }
inline u64 now_ms() { return now_ns() / 1'000'000; }

}  // namespace ls
