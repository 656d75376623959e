// policy_cost_benefit.cpp - garbage that is won for each byte moved, times the segment's age
// (Rosenblum and Ousterhout, SOSP 1991, in the form of the SepBIT paper: only writes are a cost).
#include <limits>

#include "policy.hpp"

namespace ls::values {
namespace {

class CostBenefit : public Policy {
 public:
  explicit CostBenefit(bool moved_apart) : moved_apart_(moved_apart) {}
  u32 classes() const override { return moved_apart_ ? 2 : 1; }
  u32 place_moved(const ValueLog &, u32, const Segment &) override { return moved_apart_ ? 1 : 0; }
  double score(const ValueLog &log, const Segment &segment) const override {
    return cost_benefit_score(log, segment);
  }

 private:
  bool moved_apart_;
};

}  // namespace

double cost_benefit_score(const ValueLog &log, const Segment &segment) {
  if (segment.live == 0) return std::numeric_limits<double>::infinity();
  const u64 dead = segment.used - segment.live;
  if (dead == 0) return -1;
  return static_cast<double>(dead) / static_cast<double>(segment.live) *
         static_cast<double>(log.now() - segment.sealed);
}

std::unique_ptr<Policy> make_cost_benefit(bool moved_apart) {
  return std::make_unique<CostBenefit>(moved_apart);
}

}  // namespace ls::values
