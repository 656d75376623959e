// node_copy.cpp - entries of one node laid into another, by splits, merges and XMerge.  One at a
// time an entry costs as much as an insertion.  Where both nodes are laid out alike, and the new
// one has at least the old one's prefix, the bytes of all are taken over as they lie.
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "btree/node_entries.hpp"

namespace ls {

namespace {

// The head of a key without its first `cut` bytes; what is not in its old head lies at `heap`.
u32 head_behind(u32 head, u32 key_bytes, const u8 *heap, u32 cut) {
  if (cut == 0) return head;
  if (cut >= kHeadBytes) return make_head({heap + (cut - kHeadBytes), key_bytes - cut});
  u8 bytes[2 * sizeof head];
  const u32 be = __builtin_bswap32(head), known = std::min<u32>(key_bytes, sizeof bytes);
  std::memcpy(bytes, &be, sizeof be);
  if (known > kHeadBytes) std::memcpy(bytes + kHeadBytes, heap, known - kHeadBytes);
  return make_head({bytes + cut, known - cut});
}

}  // namespace

// The entries all lie within this node's fences, and behind its present keys.  Hints are left to
// the caller.
void Node::append_range(const Node &from, u32 begin, u32 end) {
  LS_CHECK(append_if_fits(from, begin, end), "node entries do not fit");
}

bool Node::append_if_fits(const Node &from, u32 begin, u32 end) {
  LS_ASSERT(end <= from.count);
  u8 key[kMaxKeyBytes];
  for (u32 i = begin; i < end; i++) {
    // The first entry has decided about the layout.
    if (i > begin && is_laid_out_like(from, end)) return append_alike(from, i, end);
    const Bytes whole{key, from.copy_key(static_cast<u16>(i), key)};
    const Bytes value = from.value(static_cast<u16>(i));
    if (!fits(whole, static_cast<u32>(value.size()))) return false;
    append(whole, value);
  }
  return true;
}

// Are entries before `end` of the other node laid out here as they are there?
bool Node::is_laid_out_like(const Node &from, u32 end) const {
  if (layout != from.layout || prefix_bytes < from.prefix_bytes) return false;
  const u32 cut = prefix_bytes - from.prefix_bytes;
  if (layout == NodeLayout::kSlots) return is_leaf || cut == 0;   // aligned in the heap
  if (key_bytes + cut != from.key_bytes) return false;
  if (layout == NodeLayout::kUniform) return true;
  return number_without(cut, DenseEntries(from).number(end - 1)) - dense_base <= kMaxDenseDistance;
}

// In this dense leaf, of a key of one with a prefix that is shorter by `cut`.
u64 Node::number_without(u32 cut, u64 number) const {
  return cut == 0 ? number : dense_number(dense_word(number, key_bytes), key_bytes);
}

bool Node::append_alike(const Node &from, u32 begin, u32 end) {
  const u32 cut = prefix_bytes - from.prefix_bytes;
  return with_entries(from, [&](const auto &entries) {
    u32 room = 0;
    for (u32 i = begin; i < end; i++) room += room_without(cut, entries, i);
    if (slots_end() + (end - begin) * entries.kSlotBytes + room > heap_start) return false;
    const u32 first = count;
    for (u32 i = begin; i < end; i++) take_entry(from, entries, i, cut);
    if constexpr (kIsView<UniformEntries, decltype(entries)>) note_insertions(first, end - begin);
    LS_ASSERT(slots_end() <= heap_start);   // NODE-2
    return true;
  });
}

// What the entry has in the heap when its key is shorter by `cut`.
template <typename View>
u32 Node::room_without(u32 cut, const View &entries, u32 pos) const {
  const u32 room = entries.heap_room(pos);
  if constexpr (kIsView<DenseEntries, View>) return room;
  if (cut == 0) return room;
  const u32 bytes = entries.key_bytes(pos);
  return room - (rest_after_head(bytes) - rest_after_head(bytes - cut));
}

// The next one.  In the heap the end of its key and its value lie beside each other.
template <typename View>
void Node::take_entry(const Node &from, const View &entries, u32 pos, u32 cut) {
  const u32 room = room_without(cut, entries, pos), old_room = entries.heap_room(pos);
  const u32 bytes = entries.key_bytes(pos) - cut, value_bytes = entries.value_bytes(pos);
  const u8 *heap = page_bytes(&from) + entries.offset(pos);
  heap_start = static_cast<u16>(heap_start - room);
  heap_used = static_cast<u16>(heap_used + room);
  copy_few(page_bytes(this) + heap_start, heap + (old_room - room), room);
  const u32 at = count++;
  if constexpr (kIsView<DenseEntries, View>) {
    const u64 number = number_without(cut, entries.number(pos));
    put_dense_slot(at, static_cast<u32>(number - dense_base), value_bytes, heap_start);
  } else {
    const u32 head = head_behind(entries.head(pos), bytes + cut, heap, cut);
    if constexpr (kIsView<UniformEntries, View>) {
      std::memcpy(page_bytes(this) + sizeof(Node) + at * kUniformSlotBytes, &head, sizeof head);
    } else {
      Slot &slot = slots[at];
      slot.offset = heap_start;
      slot.key_bytes = static_cast<u16>(bytes);
      slot.value_bytes = static_cast<u16>(value_bytes);
      set_slot_head(slot, head);
    }
  }
}

}  // namespace ls
