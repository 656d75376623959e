// node_bytes.hpp - reading the raw bytes of a node; for the node's source files, and for who reads all of a leaf.
#pragma once
#include <bit>
#include <cstring>

#include "btree/node.hpp"

namespace ls {

static_assert(std::endian::native == std::endian::little, "pages are little endian");

// One load, never repeated by the compiler: a value that was clamped stays the value that is used.
inline u16 load_once(const u16 &field) { return __atomic_load_n(&field, __ATOMIC_RELAXED); }

inline const u8 *page_bytes(const Node *node) { return reinterpret_cast<const u8 *>(node); }
inline u8 *page_bytes(Node *node) { return reinterpret_cast<u8 *>(node); }

// One load of both halves.
inline u32 slot_head(const Slot &slot) {
  static_assert(offsetof(Slot, head_low) == offsetof(Slot, head_high) + sizeof slot.head_high);
  u32 halves;
  std::memcpy(&halves, reinterpret_cast<const u8 *>(&slot) + offsetof(Slot, head_high), sizeof halves);
  return std::rotl(halves, 16);
}
inline void set_slot_head(Slot &slot, u32 head) {
  slot.head_high = static_cast<u16>(head >> 16);
  slot.head_low = static_cast<u16>(head);
}

// The first four bytes as a big-endian integer, zero padded: orders like memcmp.
inline u32 make_head(Bytes rest) {
  if constexpr (!kWithHeads) return 0;
  if (rest.size() >= kHeadBytes) {
    u32 raw;
    std::memcpy(&raw, rest.data(), sizeof raw);
    return __builtin_bswap32(raw);
  }
  u32 head = 0;
  for (size_t i = 0; i < rest.size(); i++) head |= u32{rest[i]} << (24 - 8 * i);
  return head;
}

inline u32 rest_after_head(u32 key_bytes) { return key_bytes > kHeadBytes ? key_bytes - kHeadBytes : 0; }
inline u32 align8(u32 bytes) { return (bytes + 7) & ~7u; }

inline Bytes value_bytes(const Node &node, u32 pos) {
  const Slot &slot = node.slots[pos < kMaxSlots ? pos : kMaxSlots - 1];
  const u32 rest = rest_after_head(load_once(slot.key_bytes));
  const u32 end = load_once(slot.offset) + (node.is_leaf ? rest : align8(rest));
  const u32 offset = end < kPageSize ? end : kPageSize;
  const u32 bytes = load_once(slot.value_bytes);
  return {page_bytes(&node) + offset, bytes < kPageSize - offset ? bytes : kPageSize - offset};
}

// The key at pos behind the node's prefix as a big-endian number, where that has one to four bytes.
inline u32 short_rest(const Node &node, u32 pos) {
  const Slot &slot = node.slots[pos];
  return slot_head(slot) >> (8 * (kHeadBytes - slot.key_bytes));
}

}  // namespace ls
