// generators.hpp - traces made by chance, the same for the same seed.
#pragma once
#include <string>

#include "trace.hpp"

namespace ls::values {

struct Recipe {
  std::string name = "zipf:0.9";
  u32 keys = 100'000;
  u32 writes = 1'000'000;  // of all records, those that fill the log included
  double duplicates = 0;   // share of puts with one of the common contents
  u32 size_min = 2048, size_max = 2048;
  u64 seed = 1;
};

// A number in [0, 1), and one below a limit.
double next_share(u64 *state);
u64 next_below(u64 *state, u64 limit);
// Seeds that lie side by side give streams that have nothing in common.
u64 stream(u64 seed, u64 number);

// Names: "zipf:SKEW", "ycsb-a", "ycsb-b", "ycsb-f", "drifting", "insert-only", "deletes".
bool generate(const Recipe &recipe, Trace *trace, std::string *why);

}  // namespace ls::values
