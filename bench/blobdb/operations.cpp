// operations.cpp - operations of a generated trace, and the bytes of values.
#include "operations.hpp"

#include <algorithm>
#include <cstring>

namespace ls::blobdb {
namespace {

constexpr u64 kReadsStream = 4;  // the generators have 1 to 3
constexpr u64 kGolden = 0x9e3779b97f4a7c15ULL;

// The finalizer of splitmix64.
u64 word(u64 seed, u64 number) {
  u64 x = seed + number * kGolden;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

void fill(const Content &content, std::vector<u8> *bytes) {
  bytes->resize(content.size);
  for (u32 at = 0; at < content.size; at += sizeof(u64)) {
    const u64 next = word(content.seed, at);
    memcpy(bytes->data() + at, &next, std::min<size_t>(sizeof(next), content.size - at));
  }
}

bool is_equal(const Content &content, std::span<const u8> bytes, bool all) {
  if (bytes.size() != content.size) return false;
  const u32 end = all ? content.size : std::min<u32>(content.size, sizeof(u64));
  for (u32 at = 0; at < end; at += sizeof(u64)) {
    const u64 next = word(content.seed, at);
    if (memcmp(bytes.data() + at, &next, std::min<size_t>(sizeof(next), end - at)) != 0)
      return false;
  }
  return true;
}

bool plan(const Plan &plan, Operations *operations, std::string *why) {
  values::Trace trace;
  if (!generate(plan.recipe, &trace, why)) return false;
  operations->keys = trace.keys;
  std::vector<bool> is_there(trace.keys);
  u64 reads = values::stream(plan.recipe.seed, kReadsStream);
  for (size_t i = 0; i < trace.writes.size(); i++) {
    const values::Write &write = trace.writes[i];
    if (write.operation != values::Operation::kPut) {
      *why = "a trace with deletes";
      return false;
    }
    const bool is_loaded = i < plan.load;
    Operation operation{write.key, is_there[write.key] ? Kind::kUpdate : Kind::kInsert,
                        Content{write.hash.low, write.size}};
    if (!is_loaded && operation.kind == Kind::kUpdate && values::next_share(&reads) < plan.reads)
      operation = {write.key, Kind::kRead, {}};
    is_there[write.key] = true;
    (is_loaded ? operations->load : operations->run).push_back(operation);
  }
  return true;
}

}  // namespace ls::blobdb
