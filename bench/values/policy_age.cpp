// policy_age.cpp - the segment that was sealed first, as in a log that is a ring (WiscKey).
#include "policy.hpp"

namespace ls::values {
namespace {

class Age : public Policy {
 public:
  double score(const ValueLog &log, const Segment &segment) const override {
    return static_cast<double>(log.now() - segment.sealed);
  }
};

}  // namespace

std::unique_ptr<Policy> make_age() {
  return std::make_unique<Age>();
}

}  // namespace ls::values
