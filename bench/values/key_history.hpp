// key_history.hpp - what DumpKV keeps of each key, and the features that it makes of that.
//
// Times are counted in writes.  The paper's windows are made for 50 million of them: they shrink
// with the trace.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/types.hpp"

namespace ls::values {

inline constexpr u32 kDeltas = 31;    // intervals between writes that are kept
inline constexpr u32 kCounters = 10;  // exponentially decayed write counts
// The age, the intervals, the size, how many intervals lie in the memory window, the counts.
inline constexpr u32 kFeatures = 1 + kDeltas + 2 + kCounters;
using Features = std::array<float, kFeatures>;

class Windows {
 public:
  // `whole`: a count is halved at the end of each whole window, 63 times at most, as in the code of
  // the paper's authors; otherwise it decays continuously, as in the paper.
  Windows(u64 writes, bool whole)
      : base_(std::max(1.0, kBase * static_cast<double>(writes) / kPaperWrites)), whole_(whole) {}

  double window(u32 i) const { return base_ * static_cast<double>(u64{1} << i); }
  // The first window that is as long as the interval; kCounters if none is.
  u32 class_of(u64 interval) const {
    u32 i = 0;
    while (i < kCounters && window(i) < static_cast<double>(interval))
      i++;
    return i;
  }
  u32 counter_of(u64 interval) const { return std::min(class_of(interval), kCounters - 1); }
  float decay(u32 i, u64 interval) const {
    const double windows = static_cast<double>(interval) / window(i);
    return static_cast<float>(std::exp2(-(whole_ ? std::min(std::floor(windows), 63.0) : windows)));
  }
  double memory() const { return base_ * kMemory; }

 private:
  static constexpr double kBase = 1 << 20, kPaperWrites = 50e6, kMemory = 64;
  double base_;
  bool whole_;
};

struct KeyHistory {
  u64 written = 0;                  // time of the last write; 0: there is none
  u32 count = 0;                    // of intervals
  std::array<u32, kDeltas> deltas;  // the newest first
  std::array<float, kCounters> counters;

  void begin(u64 now) {
    written = now;
    count = 0;
    counters.fill(1);
  }
  void add(u64 now, const Windows &windows) {
    const u64 interval = now - written;
    for (u32 i = 0; i < kCounters; i++)
      counters[i] = 1 + counters[i] * windows.decay(i, interval);
    std::copy_backward(deltas.begin(), deltas.end() - 1, deltas.end());
    deltas[0] = static_cast<u32>(std::min<u64>(interval, std::numeric_limits<u32>::max()));
    count = std::min(count + 1, kDeltas);
    written = now;
  }

  // As they are when the value is `age` writes old.
  Features features(u64 age, u32 size, const Windows &windows) const {
    Features f;
    f.fill(std::numeric_limits<float>::quiet_NaN());
    f[0] = static_cast<float>(windows.class_of(age));
    double past = 0;
    u32 within = 0;
    for (u32 i = 0; i < count; i++) {
      f[1 + i] = static_cast<float>(windows.class_of(deltas[i]));
      past += deltas[i];
      within += past < windows.memory();
    }
    f[1 + kDeltas] = static_cast<float>(size);
    f[2 + kDeltas] = static_cast<float>(within);
    for (u32 i = 0; i < kCounters; i++)
      f[3 + kDeltas + i] = counters[i] * windows.decay(i, age);
    return f;
  }
};

// A distribution of lifetimes, eight steps to each doubling.
class Lifetimes {
 public:
  void add(u64 lifetime) {
    steps_[step_of(lifetime)]++;
    count_++;
  }
  u64 count() const { return count_; }
  // The lifetime that `percent` of those seen do not exceed.
  u64 percentile(double percent) const {
    const double wanted = static_cast<double>(count_) * percent / 100;
    double seen = 0;
    for (u32 i = 0; i < kSteps; i++) {
      seen += static_cast<double>(steps_[i]);
      if (seen >= wanted) return static_cast<u64>(std::exp2((i + 1) / kStepsEach)) - 1;
    }
    return 0;
  }

 private:
  static constexpr u32 kSteps = 320;
  static constexpr double kStepsEach = 8;
  static u32 step_of(u64 x) {
    const double step = std::log2(static_cast<double>(x) + 1) * kStepsEach;
    return std::min(kSteps - 1, static_cast<u32>(step));
  }
  std::array<u64, kSteps> steps_{};
  u64 count_ = 0;
};

}  // namespace ls::values
