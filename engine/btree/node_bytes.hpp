// node_bytes.hpp - reading the raw bytes of a node; for the node's source files.
#pragma once
#include <bit>
#include <cstring>

#include "base/copy_page.hpp"
#include "btree/node.hpp"

namespace ls {

static_assert(std::endian::native == std::endian::little, "pages are little endian");

// One load, never repeated by the compiler: a value that was clamped stays the value that is used.
inline u16 load_once(const u16 &field) { return __atomic_load_n(&field, __ATOMIC_RELAXED); }
inline u8 load_once(const u8 &field) { return __atomic_load_n(&field, __ATOMIC_RELAXED); }
inline NodeLayout load_once(const NodeLayout &field) {
  NodeLayout layout;
  __atomic_load(&field, &layout, __ATOMIC_RELAXED);
  return layout;
}

inline const u8 *page_bytes(const Node *node) { return reinterpret_cast<const u8 *>(node); }
inline u8 *page_bytes(Node *node) { return reinterpret_cast<u8 *>(node); }

// Room on the stack for a whole page; aligned like one.
struct alignas(64) PageCopy {
  u8 bytes[kPageSize];
  explicit PageCopy(const Node *node) { copy_page(bytes, node); }
  const Node &node() const { return *reinterpret_cast<const Node *>(bytes); }
};

// One load of both halves.
inline u32 slot_head(const Slot &slot) {
  static_assert(offsetof(Slot, head_low) == offsetof(Slot, head_high) + sizeof slot.head_high);
  u32 halves;
  std::memcpy(&halves, reinterpret_cast<const u8 *>(&slot) + offsetof(Slot, head_high),
              sizeof halves);
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

// Keys of dense leaves: as many bytes (at most eight) as a big-endian number, and that number's
// bytes in front of a word of zeros.
inline u64 dense_word(u64 number, u32 key_bytes) {
  return key_bytes == 0 ? 0 : number << (64 - 8 * key_bytes);
}
inline u64 dense_number(u64 word, u32 key_bytes) {
  return key_bytes == 0 ? 0 : word >> (64 - 8 * key_bytes);
}
inline u64 dense_number(Bytes rest) {
  u64 number = 0;
  for (u8 byte : rest) number = number << 8 | byte;
  return number;
}

// One to two words of bytes, as the first word of them and the last.
template <typename Word>
inline void copy_ends(u8 *to, const u8 *from, u32 n) {
  Word first, last;
  std::memcpy(&first, from, sizeof first);
  std::memcpy(&last, from + n - sizeof last, sizeof last);
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + n - sizeof last, &last, sizeof last);
}

// A few bytes, mostly: shorter than a call.
inline void copy_few(u8 *to, const u8 *from, u32 n) {
  if (n > 2 * sizeof(u64)) {
    std::memcpy(to, from, n);
  } else if (n >= sizeof(u64)) {
    copy_ends<u64>(to, from, n);
  } else if (n >= sizeof(u32)) {
    copy_ends<u32>(to, from, n);
  } else {
    for (u32 i = 0; i < n; i++) to[i] = from[i];
  }
}

inline u32 rest_after_head(u32 key_bytes) {
  return key_bytes > kHeadBytes ? key_bytes - kHeadBytes : 0;
}
inline u32 align8(u32 bytes) { return (bytes + 7) & ~7u; }

}  // namespace ls
