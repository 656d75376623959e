// index_entry.hpp - the bytes of an index entry: key in its leaf = normalized key | row id (5
// bytes, big endian), value = payload.
//
// ENTRY-1  The keys of one index are prefix-free.  So entries with equal keys lie side by side,
//          ordered by row id, everything that is compared with  key | 00 00 00 00 00  and  key | ff
//          ff ff ff ff falls outside of them, and a separator between two different keys leaves all
//          entries of either on one side.
#pragma once
#include <cstring>

#include "btree/node.hpp"
#include "leanstore/engine.h"

namespace ls {

inline constexpr u32 kEntryRowIdBytes = LS_ENTRY_ROW_ID_BYTES;
inline constexpr u32 kMaxEntryKeyBytes = LS_MAX_KEY_BYTES + kEntryRowIdBytes;
static_assert(kMaxEntryKeyBytes <= kMaxKeyBytes && LS_MAX_ROW_ID >> (8 * kEntryRowIdBytes) == 0);

inline Bytes bytes_of(const ls_bytes &b) { return Bytes(b.data, b.len); }

inline constexpr u32 max_payload_bytes(u32 key_bytes) {
  return Node::max_value_bytes(key_bytes + kEntryRowIdBytes);
}

class EntryKey {
 public:
  // key: at most LS_MAX_KEY_BYTES
  EntryKey(Bytes key, u64 row_id) : bytes_(static_cast<u32>(key.size()) + kEntryRowIdBytes) {
    if (!key.empty()) std::memcpy(data_, key.data(), key.size());
    const u64 be = __builtin_bswap64(row_id);
    std::memcpy(data_ + key.size(),
                reinterpret_cast<const u8 *>(&be) + sizeof be - kEntryRowIdBytes, kEntryRowIdBytes);
  }
  operator Bytes() const { return Bytes(data_, bytes_); }

 private:
  u32 bytes_;
  u8 data_[kMaxEntryKeyBytes];
};

// entry: at least kEntryRowIdBytes
inline u64 entry_row_id(Bytes entry) {
  const u8 *row_id = entry.data() + entry.size() - kEntryRowIdBytes;
  u32 be;
  static_assert(kEntryRowIdBytes == 1 + sizeof be);
  std::memcpy(&be, row_id + 1, sizeof be);
  return u64{*row_id} << 32 | __builtin_bswap32(be);
}
inline Bytes entry_key(Bytes entry) { return entry.first(entry.size() - kEntryRowIdBytes); }

}  // namespace ls
