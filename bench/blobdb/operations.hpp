// operations.hpp - what is done to a store: the same operations for the same seed, whatever the
// store.  Keys, sizes and contents are those of the simulator's generators (bench/values).
#pragma once
#include <span>
#include <string>
#include <vector>

#include "../values/generators.hpp"

namespace ls::blobdb {

// A value's bytes follow from these two; nothing compresses them.
struct Content {
  u64 seed = 0;
  u32 size = 0;
};

void fill(const Content &content, std::vector<u8> *bytes);
// All of the bytes, or the length and the first bytes.
bool is_equal(const Content &content, std::span<const u8> bytes, bool all);

enum class Kind : u8 { kInsert, kUpdate, kRead };

struct Operation {
  u32 key;
  Kind kind;
  Content content;  // of a read: nothing
};

struct Plan {
  values::Recipe recipe;
  u32 load = 0;      // so many writes come before what is measured
  double reads = 0;  // share of the operations behind them that read the key instead
};

struct Operations {
  std::vector<Operation> load, run;
  u32 keys = 0;
};

bool plan(const Plan &plan, Operations *operations, std::string *why);

}  // namespace ls::blobdb
