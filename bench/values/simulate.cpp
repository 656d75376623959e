// simulate.cpp - runs a trace through the model.
#include "simulate.hpp"

#include <algorithm>

namespace ls::values {
namespace {

u64 mean_put_bytes(const Trace &trace) {
  u64 bytes = 0, puts = 0;
  for (const Write &write : trace.writes) {
    bytes += write.size;
    puts += write.operation == Operation::kPut;
  }
  return std::max<u64>(1, bytes / std::max<u64>(1, puts));
}

// Sums over the writes of a part of the trace.
struct Part {
  Totals begin;
  double space = 0, logical = 0, peak = 0;

  void take(const Totals &now) {
    space += static_cast<double>(now.space);
    logical += static_cast<double>(now.logical);
    if (now.logical > 0)
      peak = std::max(peak, static_cast<double>(now.space) / static_cast<double>(now.logical));
  }
  Figures figures(const Totals &end) const {
    const double user = static_cast<double>(end.user - begin.user);
    const double written = static_cast<double>(end.written - begin.written);
    return {user > 0 ? written / user : 0, logical > 0 ? space / logical : 0};
  }
};

}  // namespace

std::vector<u64> find_deaths(const Trace &trace, Sharing sharing) {
  Options options;
  options.sharing = sharing;
  options.budget = std::numeric_limits<double>::infinity();
  const auto policy = make_age();
  ValueLog log(options, trace.keys, policy.get());
  for (const Write &write : trace.writes)
    log.apply(write);
  return log.deaths();
}

bool simulate(const Trace &trace, const Setup &setup, Result *result, std::string *why) {
  PolicyOptions options = setup.policy_options;
  options.writes = trace.writes.size();
  options.segment_writes = std::max<u64>(1, setup.log.segment_bytes / mean_put_bytes(trace));
  std::vector<u64> deaths;
  if (setup.policy.find("oracle") != std::string::npos) {
    deaths = find_deaths(trace, setup.log.sharing);
    options.deaths = &deaths;
  }
  const auto policy = make_policy(setup.policy, options, why);
  if (!policy) return false;
  ValueLog log(setup.log, trace.keys, policy.get());
  Part whole, late;
  for (size_t i = 0; i < trace.writes.size(); i++) {
    if (i == trace.writes.size() / 2) late.begin = log.totals();
    log.apply(trace.writes[i]);
    whole.take(log.totals());
    if (i >= trace.writes.size() / 2) late.take(log.totals());
  }
  const Totals &end = log.totals();
  *result = {whole.figures(end),  late.figures(end),  late.peak, end,
             policy->trainings(), log.find_fault(end)};
  return true;
}

}  // namespace ls::values
