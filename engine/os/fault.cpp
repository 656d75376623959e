// fault.cpp - the rules, and which of them a call meets.
#include "os/fault.hpp"

#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace ls {

namespace {

struct State {
  std::mutex mutex;
  struct Entry {
    FaultRule rule;
    u64 matched = 0;
  };
  std::vector<Entry> entries;
  bool crashed = false;
  u64 hits = 0;
};

State &state() {
  static State *instance = new State;  // never destroyed: threads may outlive static destruction
  return *instance;
}

}  // namespace

void fault_add(FaultRule rule) {
  State &s = state();
  std::lock_guard lock(s.mutex);
  s.entries.push_back({std::move(rule), 0});
  fault_rules_exist.store(true, std::memory_order_relaxed);
}

void fault_clear() {
  State &s = state();
  std::lock_guard lock(s.mutex);
  s.entries.clear();
  s.crashed = false;
  s.hits = 0;
  fault_rules_exist.store(false, std::memory_order_relaxed);
}

u64 fault_hits() {
  State &s = state();
  std::lock_guard lock(s.mutex);
  return s.hits;
}

FaultDecision fault_decide(FaultOp op, const char *path) {
  State &s = state();
  std::lock_guard lock(s.mutex);
  FaultDecision decision;
  if (s.crashed) {
    decision.hit = true;
    decision.error = EIO;
    return decision;
  }
  for (State::Entry &entry : s.entries) {
    const FaultRule &rule = entry.rule;
    if (rule.op != op || !std::strstr(path, rule.path_part.c_str())) continue;
    u64 call = ++entry.matched;
    if (decision.hit || !(call == rule.nth || (rule.every && call > rule.nth))) continue;
    decision = {true, rule.outcome, rule.error, rule.first_bytes, rule.on_crash};
    s.hits++;
    if (rule.outcome == FaultOutcome::kCrash) s.crashed = true;
  }
  return decision;
}

}  // namespace ls
