// node_entries.hpp - where the entries of a node are, in each layout (node.hpp).  Each view looks
// at the header once, so that on moving bytes all that is computed from it is bounded alike: any
// position below kMost may be asked for.
#pragma once
#include <algorithm>
#include <type_traits>

#include "btree/node_bytes.hpp"

namespace ls {

class SlotEntries {
 public:
  static constexpr u32 kMost = kMaxSlots, kSlotBytes = sizeof(Slot);

  explicit SlotEntries(const Node &node) : slots_(node.slots), is_leaf_(node.is_leaf) {}
  u32 head(u32 pos) const { return slot_head(slots_[pos]); }
  u32 key_bytes(u32 pos) const { return load_once(slots_[pos].key_bytes); }
  u32 value_bytes(u32 pos) const { return load_once(slots_[pos].value_bytes); }
  u32 offset(u32 pos) const { return load_once(slots_[pos].offset); }
  // What its key has in the heap, before the value; and all that the entry has there.
  u32 key_room(u32 pos) const {
    return is_leaf_ ? rest_after_head(key_bytes(pos)) : align8(rest_after_head(key_bytes(pos)));
  }
  u32 heap_room(u32 pos) const {
    return key_room(pos) + (is_leaf_ ? value_bytes(pos) : align8(value_bytes(pos)));
  }
  const u8 *slot(u32 pos) const { return reinterpret_cast<const u8 *>(slots_ + pos); }

 private:
  const Slot *slots_;
  const bool is_leaf_;
};

class UniformEntries {
 public:
  static constexpr u32 kMost = kMaxEntries, kSlotBytes = kUniformSlotBytes;

  explicit UniformEntries(const Node &node)
      : heads_(reinterpret_cast<const u8 *>(node.slots)),
        key_bytes_(load_once(node.key_bytes)),
        size_(rest_after_head(key_bytes_)),
        end_(std::min<u32>(load_once(node.upper_offset), kPageSize)) {}
  u32 head(u32 pos) const {
    u32 head;
    std::memcpy(&head, slot(pos), sizeof head);
    return head;
  }
  u32 key_bytes(u32) const { return key_bytes_; }
  static u32 value_bytes(u32) { return 0; }
  u32 size() const { return size_; }
  u32 offset(u32 pos) const {
    const u32 below_end = (pos + 1) * size_;
    return below_end <= end_ ? end_ - below_end : kPageSize;   // moving bytes: nothing is there
  }
  u32 key_room(u32) const { return size_; }
  u32 heap_room(u32) const { return size_; }
  const u8 *slot(u32 pos) const { return heads_ + size_t{pos} * kSlotBytes; }

 private:
  const u8 *heads_;
  const u32 key_bytes_, size_, end_;
};

// A slot: distance from the base (8 bits) | length of the value (12) | its offset (12).
class DenseEntries {
 public:
  static constexpr u32 kMost = kMaxDenseDistance + 1, kSlotBytes = kDenseSlotBytes;

  explicit DenseEntries(const Node &node)
      : slots_(reinterpret_cast<const u8 *>(node.slots)),
        base_(__atomic_load_n(&node.dense_base, __ATOMIC_RELAXED)),
        key_bytes_(std::min<u32>(load_once(node.key_bytes), kMaxDenseKeyBytes)) {}
  u64 base() const { return base_; }
  u32 distance(u32 pos) const { return word(pos) >> 24; }
  u64 number(u32 pos) const { return base_ + distance(pos); }
  u32 head(u32 pos) const { return static_cast<u32>(dense_word(number(pos), key_bytes_) >> 32); }
  u32 key_bytes(u32) const { return key_bytes_; }
  u32 value_bytes(u32 pos) const { return word(pos) >> 12 & kMask; }
  u32 offset(u32 pos) const { return word(pos) & kMask; }
  static u32 key_room(u32) { return 0; }
  u32 heap_room(u32 pos) const { return value_bytes(pos); }
  const u8 *slot(u32 pos) const { return slots_ + size_t{pos} * kSlotBytes; }

  // What has no bytes may lie at the end of the page.
  static u32 make_slot(u32 distance, u32 value_bytes, u32 offset) {
    return distance << 24 | value_bytes << 12 | (offset & kMask);
  }

 private:
  static constexpr u32 kMask = (1u << 12) - 1;
  static_assert(kMask == kPageSize - 1);

  u32 word(u32 pos) const {
    u32 word;
    std::memcpy(&word, slot(pos), sizeof word);
    return word;
  }

  const u8 *slots_;
  const u64 base_;
  const u32 key_bytes_;
};

// In a visit: is it this view?
template <typename View, typename Entries>
inline constexpr bool kIsView = std::is_same_v<View, std::remove_cvref_t<Entries>>;

// visit(view) with the node's view.
template <typename Visit>
inline auto with_entries(const Node &node, Visit &&visit) {
  const NodeLayout layout = load_once(node.layout);
  if (layout == NodeLayout::kDense) return visit(DenseEntries(node));
  return layout == NodeLayout::kUniform ? visit(UniformEntries(node)) : visit(SlotEntries(node));
}

// Distance of hinted slots; 0: too few slots for hints.
constexpr u32 hint_distance(u32 count) {
  return !kWithHints || count < 2 * kHintCount ? 0 : count / (kHintCount + 1);
}

// How many entries may be looked at.
template <typename View>
inline u32 entry_count(const Node &node, const View &) {
  return std::min<u32>(load_once(node.count), View::kMost);
}

template <typename Entries>
inline Bytes value_at(const Node &node, const Entries &entries, u32 pos) {
  const u32 at = std::min(pos, entries.kMost - 1);
  const u32 offset = std::min<u32>(entries.offset(at) + entries.key_room(at), kPageSize);
  return {page_bytes(&node) + offset, std::min<u32>(entries.value_bytes(at), kPageSize - offset)};
}

inline Bytes value_bytes(const Node &node, u32 pos) {
  return with_entries(node, [&](const auto &entries) { return value_at(node, entries, pos); });
}

// The key at pos to `out`, where its first `shared` bytes, the node's prefix, are already.  Its
// length; 0: moving bytes.
template <typename Entries>
inline u16 copy_key_at(const Node &node, const Entries &entries, u32 shared, u32 pos, u8 *out) {
  const u32 at = std::min(pos, entries.kMost - 1);
  const u32 bytes = entries.key_bytes(at), offset = entries.offset(at),
            stored = entries.key_room(at);
  if (shared + bytes > kMaxKeyBytes || offset + stored > kPageSize) return 0;
  u8 *to = out + shared;
  if constexpr (kIsView<DenseEntries, Entries>) {
    const u64 word = __builtin_bswap64(dense_word(entries.number(at), bytes));
    std::memcpy(to, &word, bytes);
    return static_cast<u16>(shared + bytes);
  }
  const u32 head = __builtin_bswap32(entries.head(at));
  if (bytes < kHeadBytes) {
    std::memcpy(to, &head, bytes);
  } else {
    std::memcpy(to, &head, kHeadBytes);
    copy_few(to + kHeadBytes, page_bytes(&node) + offset, bytes - kHeadBytes);
  }
  return static_cast<u16>(shared + bytes);
}

// The key at pos behind the node's prefix as a big-endian number.  False: it has more than eight
// bytes.
template <typename Entries>
inline bool rest_number(const Node &node, const Entries &entries, u32 pos, u64 *number) {
  const u32 bytes = entries.key_bytes(pos);
  if constexpr (kIsView<DenseEntries, Entries>) {
    *number = entries.number(pos);
    return true;
  }
  const u64 head = entries.head(pos);
  if (bytes <= kHeadBytes) {
    *number = head >> (8 * (kHeadBytes - bytes));
    return true;
  }
  const u32 behind = bytes - kHeadBytes, end = entries.offset(pos) + behind;
  u32 last;   // ends where the key does
  if (behind > sizeof last || end > kPageSize || end < sizeof(Node)) return false;
  std::memcpy(&last, page_bytes(&node) + end - sizeof last, sizeof last);
  *number = head << (8 * behind) | (__builtin_bswap32(last) & (~0u >> (32 - 8 * behind)));
  return true;
}

}  // namespace ls
