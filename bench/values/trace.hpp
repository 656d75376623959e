// trace.hpp - what was written to a value log, in order: the simulator's input.
//
// A file of little-endian words: a head of 16 bytes, then records of 40 bytes to its end.
//
//   head    8  "LSVALUES"
//           4  version, 1
//           4  bytes of a record, 40
//   record  8  time in microseconds; never smaller than the record's before
//           8  key: any number that stands for one value of one row
//          16  content hash; two puts of the same hash and size have the same bytes; 0 for a delete
//           4  stored bytes, 1 to 1 GiB; 0 for a delete
//           1  operation: 1 put (insertion or update), 2 delete of a key that is there
//           3  zero
#pragma once
#include <string>
#include <vector>

#include "base/types.hpp"

namespace ls::values {

struct Hash {
  u64 low = 0, high = 0;
  bool operator==(const Hash &) const = default;
};

enum class Operation : u8 { kPut = 1, kDelete = 2 };

// A record; its key is an index, in the order of first appearance, so that tables are arrays.
struct Write {
  u64 time;
  Hash hash;
  u32 key;
  u32 size;
  Operation operation;
};

struct Trace {
  std::vector<Write> writes;
  u32 keys = 0;
};

inline constexpr u32 kMaxValueBytes = u32{1} << 30;

// Whether the file was read; else *why says what is wrong with it, and where.  Nothing in the file
// is believed: neither its length nor that a deleted key is there.
bool read_trace(const std::string &path, Trace *trace, std::string *why);
bool write_trace(const std::string &path, const Trace &trace, std::string *why);

}  // namespace ls::values
