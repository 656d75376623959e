// policies.cpp - the policies by name.
#include "policy.hpp"

namespace ls::values {
namespace {

// The classes of one policy, the victims of another one.
class OtherVictims : public Policy {
 public:
  OtherVictims(std::unique_ptr<Policy> placing, std::unique_ptr<Policy> choosing)
      : placing_(std::move(placing)), choosing_(std::move(choosing)) {}
  u32 classes() const override { return placing_->classes(); }
  u32 place_new(const ValueLog &log, u32 value) override { return placing_->place_new(log, value); }
  u32 place_moved(const ValueLog &log, u32 value, const Segment &from) override {
    return placing_->place_moved(log, value, from);
  }
  double score(const ValueLog &log, const Segment &segment) const override {
    return choosing_->score(log, segment);
  }
  void before_put(const ValueLog &log, u32 key) override { placing_->before_put(log, key); }
  void before_delete(const ValueLog &log, u32 key) override { placing_->before_delete(log, key); }
  u64 end_of(const ValueLog &log, const Segment &segment) override {
    return placing_->end_of(log, segment);
  }
  void before_collection(const ValueLog &log, const Segment &segment) override {
    placing_->before_collection(log, segment);
  }
  void after_collection(const ValueLog &log) override { placing_->after_collection(log); }
  u32 trainings() const override { return placing_->trainings(); }

 private:
  std::unique_ptr<Policy> placing_, choosing_;
};

}  // namespace

std::vector<std::string> policy_names() {
  return {"age",          "greedy",       "cost-benefit", "cost-benefit-apart",
          "sepbit",       "dumpkv-paper", "dumpkv-text",  "dumpkv-code",
          "dumpkv-apart", "dumpkv-long",  "oracle"};
}

std::unique_ptr<Policy> make_policy(const std::string &name, const PolicyOptions &options,
                                    std::string *why) {
  if (const size_t slash = name.find('/'); slash != std::string::npos) {
    auto placing = make_policy(name.substr(0, slash), options, why);
    auto choosing = make_policy(name.substr(slash + 1), options, why);
    if (!placing || !choosing) return nullptr;
    return std::make_unique<OtherVictims>(std::move(placing), std::move(choosing));
  }
  if (name == "age") return make_age();
  if (name == "greedy") return make_greedy();
  if (name == "cost-benefit") return make_cost_benefit(false);
  if (name == "cost-benefit-apart") return make_cost_benefit(true);
  if (name == "sepbit") return make_sepbit();
  if (name == "oracle") return make_oracle(options);
  if (name.starts_with("dumpkv-")) return make_dumpkv(name.substr(7), options, why);
  *why = "no policy " + name;
  return nullptr;
}

}  // namespace ls::values
