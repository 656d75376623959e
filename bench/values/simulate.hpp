// simulate.hpp - one run of a trace through the model, and its figures.
#pragma once
#include <memory>
#include <string>

#include "policy.hpp"

namespace ls::values {

struct Setup {
  std::string policy = "age";
  Options log;
  PolicyOptions policy_options;  // writes, deaths and segment_writes are set by simulate()
};

// Of a part of the trace.
struct Figures {
  double amplification = 0;  // bytes written for each byte that users put
  double space = 0;  // mean over all writes: bytes in segments for each byte of keys' values
};

struct Result {
  Figures whole, late;    // late: the second half of the writes, when the log is full and known
  double peak_space = 0;  // of the second half
  Totals totals;
  u32 trainings = 0;
  std::string fault;  // of the accounting; empty
};

// Deaths of all values of a trace; they depend on whether values are shared.
std::vector<u64> find_deaths(const Trace &trace, Sharing sharing);

// Whether the policy is known and there.
bool simulate(const Trace &trace, const Setup &setup, Result *result, std::string *why);

}  // namespace ls::values
