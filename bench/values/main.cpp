// main.cpp - the simulator's command line: README.md tells the verbs and options.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "generators.hpp"
#include "self_test.hpp"
#include "server_trace.hpp"
#include "simulate.hpp"

namespace ls::values {
namespace {

using Arguments = std::map<std::string, std::string>;

const Arguments kDefaults = {
    {"trace", ""},       {"generate", "zipf:0.9"}, {"keys", "100000"}, {"writes", "1000000"},
    {"duplicates", "0"}, {"size", "2048"},         {"seed", "1"},      {"out", ""},
    {"policy", "age"},   {"sharing", "off"},       {"budget", "1.2"},  {"segment-kib", "1024"},
    {"lifetimes", "1"},  {"samples", "8192"}};

constexpr const char *kHead =
    "trace\tduplicates\tpolicy\tsharing\tbudget\tlifetimes\tseed\tsegment_kib\tlate_space\t"
    "late_amplification\tspace\tamplification\tlate_peak_space\tuser_bytes\tshared_bytes\t"
    "moved_bytes\twritten_bytes\tspace_bytes\tlive_bytes\tlogical_bytes\tcollections\ttrainings\n";

int fail(const std::string &why) {
  fprintf(stderr, "value_log: %s\n", why.c_str());
  return 1;
}

bool parse(int argc, char **argv, Arguments *arguments, std::string *why) {
  *arguments = kDefaults;
  for (int i = 2; i < argc; i += 2) {
    const std::string name = argv[i];
    if (!name.starts_with("--") || !arguments->contains(name.substr(2)) || i + 1 == argc) {
      *why = "an option that is not known or lacks its value: " + name;
      return false;
    }
    (*arguments)[name.substr(2)] = argv[i + 1];
  }
  return true;
}

std::vector<std::string> split(const std::string &text, char at) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);)
    parts.push_back(part);
  return parts;
}

bool number(const std::string &text, double *value) {
  char *end;
  errno = 0;
  *value = strtod(text.c_str(), &end);
  return !text.empty() && *end == 0 && errno == 0 && *value >= 0;
}

// Whether all of these options are numbers in [0, limit].
bool check_numbers(const Arguments &arguments, std::string *why) {
  for (const char *name : {"keys", "writes", "duplicates", "size", "seed", "budget", "segment-kib",
                           "lifetimes", "samples"}) {
    const char at = strcmp(name, "size") == 0 ? '-' : ',';
    double value = 0;
    for (const std::string &part : split(arguments.at(name), at))
      if (!number(part, &value) || value > 2e9) *why = std::string(name) + ": no number " + part;
    if (split(arguments.at(name), at).empty()) *why = std::string(name) + ": a number is missing";
  }
  return why->empty();
}

u32 whole(const Arguments &arguments, const char *name) {
  return static_cast<u32>(strtod(arguments.at(name).c_str(), nullptr));
}

bool make_trace(const Arguments &arguments, Trace *trace, std::string *why) {
  if (!arguments.at("trace").empty()) return read_trace(arguments.at("trace"), trace, why);
  Recipe recipe;
  recipe.name = arguments.at("generate");
  recipe.keys = whole(arguments, "keys");
  recipe.writes = whole(arguments, "writes");
  recipe.duplicates = strtod(arguments.at("duplicates").c_str(), nullptr);
  recipe.seed = whole(arguments, "seed");
  const auto sizes = split(arguments.at("size"), '-');
  recipe.size_min = static_cast<u32>(atol(sizes.front().c_str()));
  recipe.size_max = static_cast<u32>(atol(sizes.back().c_str()));
  return generate(recipe, trace, why);
}

void print(const Arguments &arguments, const Setup &setup, const Result &result) {
  const bool made = arguments.at("trace").empty();
  const Totals &t = result.totals;
  printf("%s\t%s\t%s\t%s\t%g\t%g\t", arguments.at(made ? "generate" : "trace").c_str(),
         made ? arguments.at("duplicates").c_str() : "", setup.policy.c_str(),
         arguments.at("sharing").c_str(), setup.log.budget, setup.policy_options.lifetime_factor);
  printf("%s\t%s\t%.5f\t%.5f\t%.5f\t%.5f\t%.5f", arguments.at("seed").c_str(),
         arguments.at("segment-kib").c_str(), result.late.space, result.late.amplification,
         result.whole.space, result.whole.amplification, result.peak_space);
  for (const u64 value :
       {t.user, t.shared, t.moved, t.written, t.space, t.live, t.logical, t.collections})
    printf("\t%llu", static_cast<unsigned long long>(value));
  printf("\t%u\n", result.trainings);
  fflush(stdout);
}

// A line for each policy and each budget; with budget 0 for each factor of the lifetimes.
int run(const Arguments &arguments) {
  std::string why;
  Trace trace;
  if (!make_trace(arguments, &trace, &why)) return fail(why);
  Setup setup;
  const std::string &sharing = arguments.at("sharing");
  if (sharing != "off" && sharing != "on" && sharing != "cold")
    return fail("sharing is off, on or cold");
  setup.log.sharing = sharing == "off"  ? Sharing::kOff
                      : sharing == "on" ? Sharing::kOn
                                        : Sharing::kCold;
  setup.log.segment_bytes = std::max<u64>(1, whole(arguments, "segment-kib")) << 10;
  setup.policy_options.seed = whole(arguments, "seed");
  setup.policy_options.samples = whole(arguments, "samples");
  printf("%s", kHead);
  for (const std::string &policy : split(arguments.at("policy"), ',')) {
    for (const std::string &budget : split(arguments.at("budget"), ',')) {
      for (const std::string &factor : split(arguments.at("lifetimes"), ',')) {
        setup.policy = policy;
        setup.log.budget = strtod(budget.c_str(), nullptr);
        setup.policy_options.lifetime_factor = strtod(factor.c_str(), nullptr);
        Result result;
        if (!simulate(trace, setup, &result, &why)) return fail(why);
        if (!result.fault.empty()) return fail("the accounting is wrong: " + result.fault);
        print(arguments, setup, result);
      }
    }
  }
  return 0;
}

int write(const Arguments &arguments) {
  std::string why;
  Trace trace;
  if (arguments.at("out").empty()) return fail("--out is missing");
  if (!make_trace(arguments, &trace, &why)) return fail(why);
  return write_trace(arguments.at("out"), trace, &why) ? 0 : fail(why);
}

// A server's file to a trace; the line says what became of its records.
int convert(const Arguments &arguments) {
  std::string why;
  Trace trace;
  Conversion c;
  if (arguments.at("trace").empty() || arguments.at("out").empty())
    return fail("--trace and --out are wanted");
  if (!convert_server_trace(arguments.at("trace"), &trace, &c, &why)) return fail(why);
  if (!write_trace(arguments.at("out"), trace, &why)) return fail(why);
  std::ostringstream line;
  line << "records " << c.records << ", new " << c.fresh << ", replacing " << c.replacing
       << ", deleted " << c.deletes << ", left out " << c.left_out << ", keys " << trace.keys
       << ", sessions " << c.sessions << ", tables " << c.tables;
  puts(line.str().c_str());
  return 0;
}

int list_policies() {
  for (const std::string &name : policy_names()) {
    std::string why;
    const bool there = make_policy(name, {}, &why) != nullptr;
    printf("%s%s%s\n", name.c_str(), there ? "" : ": not here, ", why.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace ls::values

int main(int argc, char **argv) {
  using namespace ls::values;
  Arguments arguments;
  std::string why;
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "self-test") return self_test();
  if (verb == "policies") return list_policies();
  if (verb != "run" && verb != "generate" && verb != "convert")
    return fail("run, generate, convert, policies or self-test; README.md tells more");
  if (!parse(argc, argv, &arguments, &why) || !check_numbers(arguments, &why)) return fail(why);
  if (verb == "convert") return convert(arguments);
  return verb == "run" ? run(arguments) : write(arguments);
}
