// policy_sepbit.cpp - SepBIT (Wang et al., FAST 2022): a user's write is expected to live as long
// as the value that it replaces, a moved value to live on as long as it has lived.
//
// Six classes: new values by the replaced value's lifetime, below and above the threshold; moved
// ones that come from the first class; other moved ones by age, with borders of 4 and 16 times the
// threshold.  The threshold is the mean time from opening to collection of the last 16 segments of
// the first class.  Lifetimes are exact here: the paper's queue of recent writes saves memory.
#include "policy.hpp"

namespace ls::values {
namespace {

constexpr u32 kShort = 0, kLong = 1, kMovedShort = 2, kYoung = 3, kOld = 4, kOldest = 5;
constexpr u32 kClasses = 6, kSegmentsForMean = 16;
constexpr double kYoungAge = 4, kOldAge = 16;

class SepBit : public Policy {
 public:
  u32 classes() const override { return kClasses; }

  void before_put(const ValueLog &log, u32 key) override {
    const u64 written = log.key(key).written;
    replaced_lifetime_ = written == 0 ? kNever : log.now() - written;
  }

  u32 place_new(const ValueLog &, u32) override {
    const bool is_short =
        replaced_lifetime_ != kNever && static_cast<double>(replaced_lifetime_) < threshold_;
    return is_short ? kShort : kLong;
  }

  u32 place_moved(const ValueLog &log, u32 value, const Segment &from) override {
    if (from.place_class == kShort) return kMovedShort;
    const double age = static_cast<double>(log.now() - log.value(value).written);
    return age < kYoungAge * threshold_ ? kYoung : age < kOldAge * threshold_ ? kOld : kOldest;
  }

  double score(const ValueLog &log, const Segment &segment) const override {
    return cost_benefit_score(log, segment);
  }

  void before_collection(const ValueLog &log, const Segment &segment) override {
    if (segment.place_class != kShort) return;
    sum_ += static_cast<double>(log.now() - segment.opened);
    if (++counted_ < kSegmentsForMean) return;
    threshold_ = sum_ / kSegmentsForMean;
    sum_ = 0;
    counted_ = 0;
  }

 private:
  double threshold_ = std::numeric_limits<double>::infinity(), sum_ = 0;
  u32 counted_ = 0;
  u64 replaced_lifetime_ = kNever;
};

}  // namespace

std::unique_ptr<Policy> make_sepbit() {
  return std::make_unique<SepBit>();
}

}  // namespace ls::values
