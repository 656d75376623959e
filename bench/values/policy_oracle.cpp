// policy_oracle.cpp - a policy that knows when each value will die.
//
// Values that die in the same span of time lie together; the spans double with their distance.  The
// victim is the segment with the largest share of garbage.  Good, not proven to be the best.
#include <algorithm>
#include <cmath>

#include "policy.hpp"

namespace ls::values {
namespace {

constexpr u32 kClasses = 16;

class Oracle : public Policy {
 public:
  explicit Oracle(const PolicyOptions &options) : options_(options) {}
  u32 classes() const override { return kClasses; }
  u32 place_new(const ValueLog &log, u32 value) override { return class_of(log, value); }
  u32 place_moved(const ValueLog &log, u32 value, const Segment &) override {
    return class_of(log, value);
  }
  double score(const ValueLog &, const Segment &segment) const override {
    return greedy_score(segment);
  }

 private:
  u32 class_of(const ValueLog &log, u32 value) const {
    const u64 death = (*options_.deaths)[value];
    if (death == kNever) return kClasses - 1;
    const double spans = static_cast<double>(death - log.now()) /
                         static_cast<double>(std::max<u64>(1, options_.segment_writes));
    return std::min(kClasses - 2, static_cast<u32>(std::log2(1 + spans)));
  }

  PolicyOptions options_;
};

}  // namespace

std::unique_ptr<Policy> make_oracle(const PolicyOptions &options) {
  return std::make_unique<Oracle>(options);
}

}  // namespace ls::values
