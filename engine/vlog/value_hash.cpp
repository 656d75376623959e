// value_hash.cpp - 64 bytes at a time; the rest as if zeros followed, with the length mixed in.
#include "vlog/value_hash.hpp"

#include <cstring>

namespace ls {

namespace {

constexpr u64 kKeys[] = {0xa0761d6478bd642f, 0xe7037ed1a0b428db, 0x8ebc6af09c88c6e3,
                         0x589965cc75374cc3, 0x1d8e4e27c47d124f};
constexpr size_t kBlock = 64;

u64 fold(u64 a, u64 b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<u64>(product) ^ static_cast<u64>(product >> 64);
}

struct Lanes {
  u64 at[4];
  void add(const u8 *block) {
    u64 words[8];
    std::memcpy(words, block, sizeof words);
    for (int i = 0; i < 4; i++)
      at[i] = fold(words[2 * i] ^ kKeys[i], words[2 * i + 1] ^ at[i]);
  }
};

}  // namespace

u64 value_hash(const u8 *data, size_t bytes) {
  Lanes lanes{{kKeys[4], kKeys[3], kKeys[2], kKeys[1]}};
  size_t done = 0;
  for (; bytes - done >= kBlock; done += kBlock) lanes.add(data + done);
  if (done < bytes) {
    u8 rest[kBlock] = {};
    std::memcpy(rest, data + done, bytes - done);
    lanes.add(rest);
  }
  const u64 hash = fold(fold(lanes.at[0] ^ kKeys[0], lanes.at[1] ^ kKeys[1]) ^ bytes,
                        fold(lanes.at[2] ^ kKeys[2], lanes.at[3] ^ kKeys[3]) ^ kKeys[4]);
  return hash != 0 ? hash : 1;
}

}  // namespace ls
