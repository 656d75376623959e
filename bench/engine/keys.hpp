// keys.hpp - the keys of a data set and how they are drawn, the same for every store.
#pragma once
#include <random>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "store.hpp"

namespace ls::bench {

// Keys 0 .. most() - 1 in ascending order; `count` of them are loaded, the others are there to be
// inserted later.
class KeySet {
 public:
  static KeySet integers(u64 count, u64 most);
  // Of 63 bytes on average, most of which neighbours share.
  static KeySet urls(u64 count, u64 most);

  bool is_integers() const { return offsets_.empty(); }
  u64 count() const { return count_; }
  u64 most() const { return most_; }
  // buffer: room for an integer key.
  Key key(u64 i, u8 *buffer) const {
    if (is_integers()) {
      const u64 big_endian = __builtin_bswap64(i);
      __builtin_memcpy(buffer, &big_endian, sizeof big_endian);
      return {buffer, sizeof big_endian};
    }
    return {bytes_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]};
  }

 private:
  KeySet(u64 count, u64 most) : count_(count), most_(most) {}
  u64 count_, most_;
  std::vector<u8> bytes_;       // URLs, sorted, one behind the other
  std::vector<u64> offsets_;
};

// All of 0 .. count - 1 in the order in which they are inserted.
std::vector<u32> insertion_order(u64 count, bool random);

// The skewed choice of YCSB: item 0 most often (theta 0.99; "Quickly generating billion-record
// synthetic databases").
class Zipf {
 public:
  explicit Zipf(u64 items);
  u64 draw(u64 &random) const;
  u64 items() const { return items_; }

 private:
  u64 items_;
  double zeta_, eta_, alpha_;
};

inline u64 uniform(u64 &random, u64 below) {
  const u64 bits = u64{next_random(random)} << 32 | next_random(random);
  return static_cast<u64>((static_cast<unsigned __int128>(bits) * below) >> 64);
}
// Spreads neighbours over the whole data set.
inline u64 scramble(u64 i, u64 below) {
  i = (i ^ (i >> 33)) * 0xff51afd7ed558ccd;
  i = (i ^ (i >> 33)) * 0xc4ceb9fe1a85ec53;
  return (i ^ (i >> 33)) % below;
}

}  // namespace ls::bench
