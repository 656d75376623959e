// value_log.hpp - the model of a value log and of its garbage collection.
//
// Values are appended to the open segment of a class.  A full segment is sealed.  A collection
// takes a sealed segment, appends the values that live in it to open segments of classes that the
// policy names, and frees it.  The clock counts writes: puts and deletes.
//
// A value is a stored run of bytes; its id is its place in the order of first writing, so it does
// not depend on the policy.  With sharing, a put of bytes that a live value has refers to that
// value.
//
// What always holds (find_fault() counts it anew):
//   user - shared + moved = written;  written - freed = space = live + dead
#pragma once
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "trace.hpp"

namespace ls::values {

class Policy;

inline constexpr u32 kNone = std::numeric_limits<u32>::max();
inline constexpr u64 kNever = std::numeric_limits<u64>::max();

enum class Sharing { kOff, kOn, kCold };

struct Options {
  u64 segment_bytes = u64{1} << 20;
  // Collect while space is more than this times the live bytes; 0: only what the policy calls due.
  double budget = 1.2;
  Sharing sharing = Sharing::kOff;
};

struct Totals {
  u64 user = 0;     // bytes of all puts
  u64 shared = 0;   // of these not written, for a live value has them
  u64 moved = 0;    // bytes that collections have appended
  u64 written = 0;  // all bytes appended
  u64 freed = 0;    // bytes of collected segments
  u64 space = 0;    // bytes in segments
  u64 live = 0;     // of these, bytes of values that a key refers to
  u64 dead = 0;
  u64 logical = 0;  // bytes of all keys' values; more than live where values are shared
  u64 collections = 0;
  bool operator==(const Totals &) const = default;
};

struct Segment {
  u32 place_class = 0;
  u64 opened = 0, sealed = 0;  // times; sealed is 0 while open
  u64 end = kNever;            // when the policy expects it to be worth a collection
  u64 used = 0, live = 0;      // bytes
  u32 live_values = 0;
  std::vector<u32> values;  // all that were appended

  double garbage_share() const {
    return used == 0 ? 0 : 1 - static_cast<double>(live) / static_cast<double>(used);
  }
};

struct Value {
  u32 key;  // the last one that was given it
  u32 size;
  u32 references = 0;
  u32 segment = kNone;
  u64 written = 0;  // time of the last put of it
};

struct Key {
  u32 value = kNone;
  u64 written = 0;  // time of its last put
};

class ValueLog {
 public:
  ValueLog(const Options &options, u32 keys, Policy *policy);

  void apply(const Write &write);

  u64 now() const { return now_; }
  const Options &options() const { return options_; }
  const Totals &totals() const { return totals_; }
  const Value &value(u32 id) const { return values_[id]; }
  u32 values() const { return static_cast<u32>(values_.size()); }
  const Key &key(u32 number) const { return keys_[number]; }
  const std::vector<Segment> &segments() const { return segments_; }
  // Time at which the value's last reference went, or kNever.
  const std::vector<u64> &deaths() const { return deaths_; }

  // Counts everything anew; empty where `told` is what there is.
  std::string find_fault(const Totals &told) const;

 private:
  struct Content {
    Hash hash;
    u32 size;
    bool operator==(const Content &) const = default;
  };
  struct ContentHash {
    size_t operator()(const Content &c) const { return c.hash.low ^ (c.hash.high * 3) ^ c.size; }
  };

  u32 find_shared(const Write &write) const;
  void refer(u32 key, u32 value);
  void drop(u32 key);
  void append(u32 value, u32 place_class);
  void seal(u32 segment);
  u32 new_segment(u32 place_class);
  u32 best_victim() const;
  u32 due_victim() const;
  void collect(u32 segment);
  void collect_to_budget();
  bool over_budget() const;
  std::string find_wrong_segment() const;

  Options options_;
  Policy *policy_;
  u64 now_ = 0;
  Totals totals_;
  std::vector<Key> keys_;
  std::vector<Value> values_;
  std::vector<Hash> hashes_;  // of values, with sharing
  std::vector<u64> deaths_;
  std::vector<Segment> segments_;  // places; those of freed segments are used again
  std::vector<u32> sealed_, free_;
  std::vector<u32> open_;  // by class; the last class is the cold one
  std::unordered_map<Content, u32, ContentHash> contents_;
};

}  // namespace ls::values
