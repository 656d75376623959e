// self_test.cpp - what must hold for the figures to mean anything.  Small traces, no clock.
#include "self_test.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>

#include "generators.hpp"
#include "key_history.hpp"
#include "server_trace_test.hpp"
#include "simulate.hpp"
#include "test_file.hpp"
#include "trees_test.hpp"
#include "xgboost.hpp"

namespace ls::values {
namespace {

const char *const kGenerators[] = {"zipf:0.2", "zipf:0.9", "ycsb-a",      "ycsb-b",
                                   "ycsb-f",   "drifting", "insert-only", "deletes"};
const Sharing kSharings[] = {Sharing::kOff, Sharing::kOn, Sharing::kCold};
constexpr u64 kSegmentBytes = 8192;

Recipe recipe_of(const std::string &name, double duplicates, u64 seed = 1) {
  Recipe recipe;
  recipe.name = name;
  recipe.keys = 2000;
  recipe.writes = 20'000;
  recipe.duplicates = duplicates;
  recipe.size_min = recipe.size_max = 100;
  recipe.seed = seed;
  return recipe;
}

Trace make(const Recipe &recipe) {
  Trace trace;
  std::string why;
  if (!generate(recipe, &trace, &why)) printf("# %s\n", why.c_str());
  return trace;
}

bool same(const Trace &a, const Trace &b, bool contents) {
  if (a.keys != b.keys || a.writes.size() != b.writes.size()) return false;
  for (size_t i = 0; i < a.writes.size(); i++) {
    const Write &x = a.writes[i], &y = b.writes[i];
    if (x.time != y.time || x.key != y.key || x.size != y.size || x.operation != y.operation ||
        (contents && !(x.hash == y.hash)))
      return false;
  }
  return true;
}

Setup setup_of(const std::string &policy, double budget, Sharing sharing = Sharing::kOff) {
  Setup setup;
  setup.policy = policy;
  setup.log = {kSegmentBytes, budget, sharing};
  setup.policy_options.samples = 500;
  return setup;
}

Result run(const Trace &trace, const Setup &setup) {
  Result result;
  std::string why;
  if (!simulate(trace, setup, &result, &why)) result.fault = why;
  return result;
}

// The policies that are there: a machine without XGBoost has none of DumpKV's.
std::vector<std::string> policies_here() {
  std::vector<std::string> names;
  for (const std::string &name : policy_names()) {
    std::string why;
    if (make_policy(name, {}, &why)) names.push_back(name);
  }
  return names;
}

// Empty, or what is wrong.
using Test = std::function<std::string()>;

std::string traces_are_read_back() {
  for (const char *name : kGenerators) {
    const TestFile file;
    const Trace trace = make(recipe_of(name, 0.3));
    Trace read;
    std::string why;
    if (!write_trace(file.path(), trace, &why) || !read_trace(file.path(), &read, &why)) return why;
    if (!same(trace, read, true)) return std::string(name) + " is read otherwise";
  }
  return {};
}

std::string damaged_traces_are_refused() {
  const TestFile file;
  const Hash hash = {1, 2};
  Trace read,
      trace = {.writes = {{5, hash, 0, 9, Operation::kPut}, {6, {}, 0, 0, Operation::kDelete}},
               .keys = 1};
  std::string why;
  write_trace(file.path(), trace, &why);
  const std::string good = file.bytes();
  constexpr size_t kFirst = 16, kSecond = 56;
  struct Damage {
    size_t at;
    char byte;
  };
  for (const auto &[at, byte] : std::initializer_list<Damage>{{0, 'x'},            // magic
                                                              {8, 2},              // version
                                                              {12, 41},            // record's bytes
                                                              {kFirst, 7},         // time falls
                                                              {kSecond + 8, 3},    // unknown key
                                                              {kSecond + 16, 1},   // hash
                                                              {kFirst + 32, 0},    // size
                                                              {kFirst + 35, 127},  // 2 GB
                                                              {kFirst + 36, 0},    // operation
                                                              {kFirst + 36, 3},
                                                              {kFirst + 36, 2},     // of a put
                                                              {kFirst + 39, 1}}) {  // zeroes
    std::string bad = good;
    bad[at] = byte;
    file.set(bad);
    if (read_trace(file.path(), &read, &why)) return "byte " + std::to_string(at) + " is believed";
  }
  for (const size_t length : {size_t{0}, size_t{15}, good.size() - 1, good.size() - 39}) {
    file.set(good.substr(0, length));
    if (read_trace(file.path(), &read, &why)) return "cut off at " + std::to_string(length);
  }
  file.set(good);
  return read_trace(file.path(), &read, &why) ? "" : why;
}

std::string generators_are_repeated_by_seed() {
  for (const char *name : kGenerators) {
    const Trace one = make(recipe_of(name, 0.3));
    if (one.writes.size() < 2000) return std::string(name) + " is too short";
    if (!same(one, make(recipe_of(name, 0.3)), true)) return std::string(name) + " differs";
    if (same(one, make(recipe_of(name, 0.3, 2)), true)) return std::string(name) + " has no seed";
    const Trace none = make(recipe_of(name, 0));
    if (!same(one, none, false) || same(one, none, true)) return std::string(name) + ": duplicates";
  }
  return {};
}

// Four values fill a segment.  Budget 1.5 allows 60 bytes to 40 live ones: the third rewrite makes
// 70, and of the first segment one value is moved.
std::string a_small_log_is_as_calculated() {
  const auto policy = make_greedy();
  ValueLog log({.segment_bytes = 40, .budget = 1.5}, 4, policy.get());
  u64 content = 0;
  const auto put = [&](u32 key) { log.apply({0, {++content, 0}, key, 10, Operation::kPut}); };
  for (const u32 key : {0, 1, 2, 3, 0, 1})
    put(key);
  if (log.totals().collections != 0 || log.totals().space != 60) return "collected too early";
  put(2);
  const Totals wanted = {.user = 70,
                         .moved = 10,
                         .written = 80,
                         .freed = 40,
                         .space = 40,
                         .live = 40,
                         .logical = 40,
                         .collections = 1};
  if (!(log.totals() == wanted)) return "other totals";
  log.apply({0, {}, 3, 0, Operation::kDelete});
  return log.totals().live == 30 && log.totals().dead == 10 ? "" : "a delete";
}

// Keys 0 and 1 share a value.  It goes to the cold class when its segment is collected, and dies
// with its second key.
std::string shared_values_are_as_calculated() {
  const auto policy = make_greedy();
  ValueLog log({.segment_bytes = 40, .budget = 1.5, .sharing = Sharing::kCold}, 8, policy.get());
  const auto put = [&](u32 key, u64 content, u32 size = 10) {
    log.apply({0, {content, 0}, key, size, Operation::kPut});
  };
  put(0, 1);
  put(1, 1);
  put(2, 1, 11);  // the same hash, but another size: not the same bytes
  if (log.totals().shared != 10 || log.totals().written != 21) return "sharing";
  put(3, 3, 19);  // seals the first segment
  for (u64 content = 4; content < 14; content++) {
    put(2, content, 11);
    put(3, content, 19);
  }
  const Segment &segment = log.segments()[log.value(0).segment];
  if (segment.place_class != policy->classes()) return "the shared value is not cold";
  put(0, 20);
  if (log.deaths()[0] != kNever) return "died with its first key";
  put(1, 1);  // the same bytes again
  if (log.deaths()[0] != kNever || log.value(0).references != 1) return "the same bytes again";
  put(1, 21);
  return log.deaths()[0] == log.now() ? log.find_fault(log.totals()) : "did not die";
}

std::string accounting_adds_up() {
  for (const char *name : kGenerators) {
    const Trace trace = make(recipe_of(name, 0.3));
    for (const std::string &policy : policies_here()) {
      for (const Sharing sharing : kSharings) {
        const Result result = run(trace, setup_of(policy, 1.2, sharing));
        const std::string where = std::string(name) + ", " + policy + ": ";
        if (!result.fault.empty()) return where + result.fault;
        if (result.late.space > 1.25) return where + "more space than its budget";
      }
    }
  }
  return {};
}

std::string broken_accounting_is_found() {
  const Trace trace = make(recipe_of("zipf:0.9", 0.3));
  const auto policy = make_greedy();
  ValueLog log(setup_of("greedy", 1.2, Sharing::kOn).log, trace.keys, policy.get());
  for (const Write &write : trace.writes)
    log.apply(write);
  if (!log.find_fault(log.totals()).empty()) return "there is one";
  for (u64 Totals::*field :
       {&Totals::user, &Totals::shared, &Totals::moved, &Totals::written, &Totals::freed,
        &Totals::space, &Totals::live, &Totals::dead, &Totals::logical}) {
    Totals wrong = log.totals();
    wrong.*field += 100;
    if (log.find_fault(wrong).empty()) return "a hundred bytes more are not noticed";
  }
  return {};
}

std::string the_oracle_is_never_worse_than_age() {
  for (const char *name : kGenerators) {
    for (const double duplicates : {0.0, 0.3}) {
      const Trace trace = make(recipe_of(name, duplicates));
      for (const double budget : {1.15, 1.3, 1.6}) {
        const Sharing sharing = duplicates > 0 ? Sharing::kOn : Sharing::kOff;
        const Result age = run(trace, setup_of("age", budget, sharing));
        const Result oracle = run(trace, setup_of("oracle", budget, sharing));
        if (!oracle.fault.empty()) return oracle.fault;
        if (oracle.whole.amplification > age.whole.amplification)
          return std::string(name) + ": " + std::to_string(oracle.whole.amplification) + " and " +
                 std::to_string(age.whole.amplification);
      }
    }
  }
  return {};
}

std::string separation_pays_where_keys_are_skewed() {
  const Trace trace = make(recipe_of("zipf:0.9", 0));
  const double age = run(trace, setup_of("age", 1.2)).whole.amplification;
  for (const char *policy : {"sepbit", "cost-benefit-apart", "oracle"})
    if (run(trace, setup_of(policy, 1.2)).whole.amplification > 0.9 * age) return policy;
  return {};
}

std::string policies_are_repeated_by_seed() {
  const Trace trace = make(recipe_of("zipf:0.9", 0.3));
  for (const std::string &policy : policies_here()) {
    const Setup setup = setup_of(policy, 1.2, Sharing::kOn);
    if (!(run(trace, setup).totals == run(trace, setup).totals)) return policy;
  }
  return {};
}

std::string duplicates_count_only_with_sharing() {
  for (const char *name : {"zipf:0.9", "deletes"}) {
    const Trace none = make(recipe_of(name, 0)), some = make(recipe_of(name, 0.3));
    for (const std::string &policy : policies_here()) {
      const Setup off = setup_of(policy, 1.2), on = setup_of(policy, 1.2, Sharing::kOn);
      if (!(run(none, off).totals == run(some, off).totals)) return policy + " looks at contents";
      if (run(none, on).totals.shared != 0) return policy + ": shares different values";
      if (run(some, on).totals.shared < run(some, on).totals.user / 5)
        return policy + ": no sharing";
    }
  }
  return {};
}

std::string a_log_without_garbage_is_left_alone() {
  const Trace trace = make(recipe_of("insert-only", 0));
  for (const std::string &policy : policies_here())
    if (run(trace, setup_of(policy, 1.2)).totals.moved != 0) return policy;
  return {};
}

// Without a budget nothing is collected before its end, and nothing long after it; the ends are
// those of the thresholds, times the factor.
std::string segments_are_collected_when_due() {
  const Trace trace = make(recipe_of("zipf:0.9", 0));
  double last = 0;
  for (const double factor : {0.25, 0.5, 1.0, 4.0}) {
    PolicyOptions options;
    options.writes = trace.writes.size();
    options.lifetime_factor = factor;
    std::string why;
    const auto policy = make_policy("dumpkv-long", options, &why);
    ValueLog log({kSegmentBytes, 0}, trace.keys, policy.get());
    for (const Write &write : trace.writes) {
      log.apply(write);
      const bool early = static_cast<double>(log.now()) < factor * 0.2 * 20'000;
      if (early && log.totals().collections != 0) return "collected before its end";
    }
    for (const Segment &segment : log.segments())
      if (segment.sealed != 0 && segment.end + 64 < log.now()) return "forgotten";
    if (!log.find_fault(log.totals()).empty()) return log.find_fault(log.totals());
    const double space = static_cast<double>(log.totals().space);
    if (space <= last) return "a longer life does not take more space";
    last = space;
  }
  return {};
}

// With 50 million writes the windows are the paper's: 2^20, 2^21 and so on.
std::string histories_are_as_calculated() {
  const Windows exact(50'000'000, false), whole(50'000'000, true);
  const u64 window = 1 << 20;
  if (exact.class_of(1'000'000) != 0 || exact.class_of(3'000'000) != 2) return "classes";
  if (exact.class_of(kNever) != kCounters) return "the last class";
  KeyHistory history;
  history.begin(100);
  history.add(100 + window, exact);
  history.add(100 + 4 * window, exact);  // intervals of one and three windows
  const double counter = 1 + 1.5 / 8;
  if (std::abs(history.counters[0] - counter) > 1e-6) return "count";
  const Features f = history.features(window / 2, 77, exact);
  if (f[0] != 0 || f[1] != 2 || f[2] != 0 || !std::isnan(f[3])) return "intervals";
  if (f[1 + kDeltas] != 77 || f[2 + kDeltas] != 2) return "size, or intervals in memory";
  if (std::abs(f[3 + kDeltas] - counter * std::sqrt(0.5)) > 1e-6) return "exact decay";
  if (history.features(window / 2, 77, whole)[3 + kDeltas] != history.counters[0])
    return "decay by whole windows";
  return {};
}

bool report(const char *name, const Test &test) {
  const std::string wrong = test();
  printf("%sok - value log: %s\n", wrong.empty() ? "" : "not ", name);
  if (!wrong.empty()) printf("# %s\n", wrong.c_str());
  fflush(stdout);
  return wrong.empty();
}

}  // namespace

int self_test() {
  bool good = true;
  good &= report("traces are read back", traces_are_read_back);
  good &= report("damaged traces are refused", damaged_traces_are_refused);
  good &= report("replaced values are one key", replaced_values_are_one_key);
  good &= report("what is rolled back does no harm", what_is_rolled_back_or_copied_does_no_harm);
  good &= report("commands and sessions apart", commands_and_sessions_are_kept_apart);
  good &= report("damaged server traces are refused", damaged_server_traces_are_refused);
  good &= report("any server trace is a trace", any_server_trace_is_a_trace);
  good &= report("generators are repeated by seed", generators_are_repeated_by_seed);
  good &= report("a small log is as calculated", a_small_log_is_as_calculated);
  good &= report("shared values are as calculated", shared_values_are_as_calculated);
  good &= report("accounting adds up", accounting_adds_up);
  good &= report("self-test: broken accounting is found", broken_accounting_is_found);
  good &= report("the oracle is never worse than age", the_oracle_is_never_worse_than_age);
  good &= report("separation pays where keys are skewed", separation_pays_where_keys_are_skewed);
  good &= report("policies are repeated by seed", policies_are_repeated_by_seed);
  good &= report("duplicates count only with sharing", duplicates_count_only_with_sharing);
  good &= report("a log without garbage is left alone", a_log_without_garbage_is_left_alone);
  good &= report("segments are collected when due", segments_are_collected_when_due);
  good &= report("histories are as calculated", histories_are_as_calculated);
  good &= report("trees are walked", trees_are_walked);
  good &= report("damaged trees are refused", damaged_trees_are_refused);
  std::string why;
  if (load_xgboost(&why))
    good &= report("trees predict as XGBoost", trees_predict_as_xgboost);
  else
    printf("# left out, DumpKV and its trees: %s\n", why.c_str());
  return good ? 0 : 1;
}

}  // namespace ls::values
