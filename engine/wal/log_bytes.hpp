// log_bytes.hpp - how integers stand in the log: seven bits per byte, the lowest first, the top bit
// says that more follow; signed ones zigzag.  Small numbers take one byte.  Everything in a log
// record is packed and read by these two classes.
#pragma once
#include <cstring>
#include <span>

#include "base/check.hpp"
#include "base/types.hpp"

namespace ls {

inline constexpr u32 kMaxVarintBytes = 10;

// How many bytes were stored.
inline u32 put_varint(u8 *out, u64 value) {
  u32 n = 0;
  for (; value >= 0x80; value >>= 7) out[n++] = static_cast<u8>(value | 0x80);
  out[n++] = static_cast<u8>(value);
  return n;
}

inline u64 zigzag(u64 difference) { return difference << 1 ^ (difference >> 63 ? ~u64{0} : 0); }
inline u64 unzigzag(u64 value) { return value >> 1 ^ (value & 1 ? ~u64{0} : 0); }

// Operands of one operation, but for long byte strings.
class LogPacker {
 public:
  LogPacker &number(u64 value) {
    LS_ASSERT(used_ + kMaxVarintBytes <= sizeof buffer_);
    used_ += put_varint(buffer_ + used_, value);
    return *this;
  }
  LogPacker &byte(u8 value) {
    LS_ASSERT(used_ < sizeof buffer_);
    buffer_[used_++] = value;
    return *this;
  }
  operator std::span<const u8>() const { return {buffer_, used_}; }

 private:
  u8 buffer_[96];
  u32 used_ = 0;
};

// Reads them back, trusting no byte.  After a failure everything reads as nothing: good() is looked
// at once, when all has been read.
class LogUnpacker {
 public:
  explicit LogUnpacker(std::span<const u8> bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // At most `limit`.
  u64 number(u64 limit = ~u64{0}) {
    u64 value = 0;
    for (u32 shift = 0; at_ < end_ && shift < 64; shift += 7) {
      const u8 byte = *at_++;
      value |= u64{byte & 0x7fu} << shift;
      if (byte < 0x80) return (shift < 63 || byte <= 1) && value <= limit ? value : refuse();
    }
    return refuse();
  }
  u8 byte() { return at_ < end_ ? *at_++ : static_cast<u8>(refuse()); }
  std::span<const u8> take(u64 bytes) {
    if (bytes > left()) return {at_, refuse()};
    at_ += bytes;
    return {at_ - bytes, static_cast<size_t>(bytes)};
  }
  std::span<const u8> rest() { return take(left()); }
  u64 left() const { return static_cast<u64>(end_ - at_); }
  bool good() const { return good_; }
  // Good, and nothing left over.
  bool done() const { return good_ && at_ == end_; }

 private:
  u64 refuse() {
    good_ = false;
    at_ = end_;
    return 0;
  }

  const u8 *at_;
  const u8 *end_;
  bool good_ = true;
};

}  // namespace ls
