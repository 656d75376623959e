// policy_greedy.cpp - the segment with the largest share of garbage.
#include "policy.hpp"

namespace ls::values {
namespace {

class Greedy : public Policy {
 public:
  double score(const ValueLog &, const Segment &segment) const override {
    return greedy_score(segment);
  }
};

}  // namespace

double greedy_score(const Segment &segment) {
  const double garbage = segment.garbage_share();
  return garbage > 0 ? garbage : -1;
}

std::unique_ptr<Policy> make_greedy() {
  return std::make_unique<Greedy>();
}

}  // namespace ls::values
