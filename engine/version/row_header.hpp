// row_header.hpp - the 16 bytes in front of every row in a table leaf: the writer of the newest
// version, and where the one before it is.
//
// The newest version is in the leaf, changed in place.  Its predecessor is in the version store
// under (writer, seq) when LS_ROW_HAS_PREV is set.  A row with a writer below the snapshot's xmin
// is visible without any look-up.
#pragma once
#include <cstring>

#include "base/types.hpp"
#include "leanstore/engine.h"

namespace ls {

struct RowHeader {
  // tn: 48 bits | flags: 8 bits (ls_row_flag) | lock generation: 8 bits (changes with every row
  // lock granted, so that a worker that looked at the lock tree before notices)
  u64 word;
  u32 cid;
  u32 seq;  // the writer's sequence number of this change: key of the undo entry, unique within tn

  Tn tn() const { return word & ((u64{1} << 48) - 1); }
  u8 flags() const { return static_cast<u8>(word >> 48); }
  u8 generation() const { return static_cast<u8>(word >> 56); }
  bool has(ls_row_flag f) const { return flags() & f; }
  static RowHeader make(Tn tn, u8 flags, u8 generation, u32 cid, u32 seq) {
    return {tn | u64{flags} << 48 | u64{generation} << 56, cid, seq};
  }
  bool same(const RowHeader &o) const { return word == o.word && cid == o.cid && seq == o.seq; }
  static RowHeader load(const u8 *p) { RowHeader h; std::memcpy(&h, p, sizeof h); return h; }
  void store(u8 *p) const { std::memcpy(p, this, sizeof *this); }
};
static_assert(sizeof(RowHeader) == 16);

// Row key in a table's tree: 8 bytes big endian (prefix truncation makes it 1-2 bytes in a leaf).
inline constexpr u32 kRowKeyBytes = 8;
inline void encode_row_key(u64 row_id, u8 *out) {
  u64 be = __builtin_bswap64(row_id);
  std::memcpy(out, &be, 8);
}
inline u64 decode_row_key(const u8 *in) {
  u64 be;
  std::memcpy(&be, in, 8);
  return __builtin_bswap64(be);
}

}  // namespace ls
