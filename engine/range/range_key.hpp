// range_key.hpp - the places in the order of all ranges: a tree, and a byte string in it.
//
// Byte strings are compared as memcmp does, the shorter first when one begins with the other.  The
// first 24 bytes are kept as three big-endian words padded with zeros, so that most comparisons
// look at no byte string at all.
#pragma once
#include <cstring>

#include "base/types.hpp"

namespace ls {

struct RangeTree {
  u64 high = 0, low = 0;
  bool operator==(const RangeTree &) const = default;
};

inline int compare(const RangeTree &a, const RangeTree &b) {
  if (a.high != b.high) return a.high < b.high ? -1 : 1;
  if (a.low != b.low) return a.low < b.low ? -1 : 1;
  return 0;
}

inline constexpr u32 kRangeWords = 3;
inline constexpr u32 kRangeWordBytes = kRangeWords * 8;
// Longer bounds are rounded away from the range (range_locks.cpp): a whole index key with its row
// id fits.
inline constexpr u32 kMaxRangeKeyBytes = 1000;

// A view of a byte string; `tail` are the bytes behind the words.
struct RangeKey {
  u64 word[kRangeWords]{};
  u32 len = 0;
  const u8 *tail = nullptr;

  u32 tail_len() const { return len > kRangeWordBytes ? len - kRangeWordBytes : 0; }
};

// One to seven bytes as the upper ones of a word.
inline u64 big_endian_head(const u8 *data, u32 len) {
  if (len < 4)
    return u64{data[0]} << 56 | u64{data[len / 2]} << (56 - len / 2 * 8) |
           u64{data[len - 1]} << (64 - len * 8);
  u32 first, last;   // may overlap
  std::memcpy(&first, data, 4);
  std::memcpy(&last, data + len - 4, 4);
  return u64{__builtin_bswap32(first)} << 32 | u64{__builtin_bswap32(last)} << (64 - len * 8);
}

inline void set_range_key(RangeKey &key, const u8 *data, u32 len) {
  key.len = len;
  u32 word = 0;
  for (; word < kRangeWords && len >= 8; word++, data += 8, len -= 8) {
    std::memcpy(&key.word[word], data, 8);
    key.word[word] = __builtin_bswap64(key.word[word]);
  }
  if (word < kRangeWords && len > 0) {
    key.word[word] = big_endian_head(data, len);
    data += len;
  }
  key.tail = data;
}
inline RangeKey range_key(const u8 *data, u32 len) {
  RangeKey key;
  set_range_key(key, data, len);
  return key;
}

// The first `len` bytes (at most kRangeWordBytes) of a key.
inline void range_key_head(const RangeKey &key, u8 *out, u32 len) {
  for (u32 i = 0; i < len; i++) out[i] = static_cast<u8>(key.word[i / 8] >> (56 - 8 * (i % 8)));
}

inline int compare_lengths(u32 a, u32 b) { return a == b ? 0 : a < b ? -1 : 1; }

inline int compare(const RangeKey &a, const RangeKey &b) {
  for (u32 i = 0; i < kRangeWords; i++)
    if (a.word[i] != b.word[i]) return a.word[i] < b.word[i] ? -1 : 1;
  const u32 common = a.tail_len() < b.tail_len() ? a.tail_len() : b.tail_len();
  if (common)
    if (int c = std::memcmp(a.tail, b.tail, common)) return c;
  return compare_lengths(a.len, b.len);
}

// from <= key < to in one tree; to_end: `to` does not count, there is no upper bound.
struct RangeBounds {
  RangeTree tree;
  RangeKey from, to;
  bool to_end = false;

  bool empty() const { return !to_end && compare(from, to) >= 0; }
};

}  // namespace ls
