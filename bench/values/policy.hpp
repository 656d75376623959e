// policy.hpp - what a policy of garbage collection decides: where a value goes, what is collected.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "value_log.hpp"

namespace ls::values {

class Policy {
 public:
  virtual ~Policy() = default;
  virtual u32 classes() const { return 1; }
  // The class of a value that a user writes, and of one that lives in a collected segment.
  virtual u32 place_new(const ValueLog &, u32 /*value*/) { return 0; }
  virtual u32 place_moved(const ValueLog &, u32 /*value*/, const Segment & /*from*/) { return 0; }
  // Of the sealed segments the one with the highest score is collected; none below 0.
  virtual double score(const ValueLog &, const Segment &) const = 0;

  // A key is about to get another value, or to go; the log has what was there.
  virtual void before_put(const ValueLog &, u32 /*key*/) {}
  virtual void before_delete(const ValueLog &, u32 /*key*/) {}
  // A segment is full: its expected end.
  virtual u64 end_of(const ValueLog &, const Segment &) { return kNever; }
  virtual void before_collection(const ValueLog &, const Segment &) {}
  virtual void after_collection(const ValueLog &) {}
  virtual u32 trainings() const { return 0; }
};

struct PolicyOptions {
  u64 writes = 0;  // of the whole trace: scales DumpKV's windows
  u64 seed = 1;
  double lifetime_factor = 1;                // of DumpKV's times to live
  u32 samples = 8192;                        // of a training of DumpKV's model
  const std::vector<u64> *deaths = nullptr;  // for the oracle
  u64 segment_writes = 1;                    // about how many puts fill a segment
};

// NAME, or NAME/SELECTION with another policy's choice of victims.  Null, and *why, for a name that
// is not known or a policy that lacks its library here.
std::unique_ptr<Policy> make_policy(const std::string &name, const PolicyOptions &options,
                                    std::string *why);
std::vector<std::string> policy_names();

// Scores that several policies use.
double greedy_score(const Segment &segment);
double cost_benefit_score(const ValueLog &log, const Segment &segment);

std::unique_ptr<Policy> make_age();
std::unique_ptr<Policy> make_greedy();
std::unique_ptr<Policy> make_cost_benefit(bool moved_apart);
std::unique_ptr<Policy> make_sepbit();
std::unique_ptr<Policy> make_oracle(const PolicyOptions &options);
std::unique_ptr<Policy> make_dumpkv(const std::string &reading, const PolicyOptions &options,
                                    std::string *why);

}  // namespace ls::values
