// node_copy.cpp - entries of one node laid into another, by splits, merges and XMerge.  One at a
// time an entry costs as much as an insertion.  Where both nodes are laid out alike the bytes of
// all are taken over as they lie, but for what the prefixes have more or less.
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "btree/node_entries.hpp"

namespace ls {

namespace {

// The head of a key without its first `cut` bytes; what is not in its old head lies at `heap`.
u32 head_behind(u32 head, u32 key_bytes, const u8 *heap, u32 cut) {
  if (cut >= kHeadBytes) return make_head({heap + (cut - kHeadBytes), key_bytes - cut});
  u8 bytes[2 * sizeof head];
  const u32 be = __builtin_bswap32(head), known = std::min<u32>(key_bytes, sizeof bytes);
  std::memcpy(bytes, &be, sizeof be);
  if (known > kHeadBytes) std::memcpy(bytes + kHeadBytes, heap, known - kHeadBytes);
  return make_head({bytes + cut, known - cut});
}

}  // namespace

// What keys behind the new node's prefix have less than behind the old one's, or more.
struct Node::PrefixChange {
  u32 cut = 0;
  Bytes added;
  PrefixChange(const Node &to, const Node &from) {
    if (to.prefix_bytes >= from.prefix_bytes) cut = to.prefix_bytes - from.prefix_bytes;
    else added = from.prefix().subspan(to.prefix_bytes);
  }
  bool none() const { return cut == 0 && added.empty(); }
  u32 bytes(u32 key_bytes) const { return key_bytes + static_cast<u32>(added.size()) - cut; }
};

// The entries all lie within this node's fences, and behind its present keys.  Hints are left to
// the caller.
void Node::append_range(const Node &from, u32 begin, u32 end) {
  LS_CHECK(append_if_fits(from, begin, end), "node entries do not fit");
}

bool Node::append_if_fits(const Node &from, u32 begin, u32 end) {
  LS_ASSERT(end <= from.count);
  const PrefixChange change(*this, from);
  u8 key[kMaxKeyBytes];
  for (u32 i = begin; i < end; i++) {
    // The first entry has decided about the layout.
    if (i > begin && is_laid_out_like(from, end, change)) return append_alike(from, i, end, change);
    const Bytes whole{key, from.copy_key(static_cast<u16>(i), key)};
    const Bytes value = from.value(static_cast<u16>(i));
    if (!fits(whole, static_cast<u32>(value.size()))) return false;
    append(whole, value);
  }
  return true;
}

// Are entries before `end` of the other node laid out here as they are there?
bool Node::is_laid_out_like(const Node &from, u32 end, const PrefixChange &change) const {
  if (layout != from.layout) return false;
  if (layout == NodeLayout::kSlots) return is_leaf || change.none();   // aligned in the heap
  if (key_bytes != change.bytes(from.key_bytes)) return false;
  if (layout == NodeLayout::kUniform) return true;
  return number_here(change, from, end - 1) - dense_base <= kMaxDenseDistance;
}

// The key of an entry of the other dense leaf, in this one.
u64 Node::number_here(const PrefixChange &change, const Node &from, u32 pos) const {
  const u64 number = DenseEntries(from).number(pos);
  if (change.added.empty()) return dense_number(dense_word(number, key_bytes), key_bytes);
  return dense_number(change.added) << (8 * from.key_bytes) | number;
}

bool Node::append_alike(const Node &from, u32 begin, u32 end, const PrefixChange &change) {
  return with_entries(from, [&](const auto &entries) {
    u32 room = 0;
    for (u32 i = begin; i < end; i++) room += room_here(change, entries, i);
    if (slots_end() + (end - begin) * entries.kSlotBytes + room > heap_start) return false;
    const u32 first = count;
    for (u32 i = begin; i < end; i++) take_entry(from, entries, i, change);
    if constexpr (kIsView<UniformEntries, decltype(entries)>) note_insertions(first, end - begin);
    LS_ASSERT(slots_end() <= heap_start);   // NODE-2
    return true;
  });
}

// What the entry has in the heap here.
template <typename View>
u32 Node::room_here(const PrefixChange &change, const View &entries, u32 pos) const {
  const u32 room = entries.heap_room(pos);
  if (kIsView<DenseEntries, View> || change.none()) return room;
  const u32 bytes = entries.key_bytes(pos);
  return room - rest_after_head(bytes) + rest_after_head(change.bytes(bytes));
}

// The next one.  In the heap the end of its key and its value lie beside each other.
template <typename View>
void Node::take_entry(const Node &from, const View &entries, u32 pos, const PrefixChange &change) {
  const u32 room = room_here(change, entries, pos), old_room = entries.heap_room(pos);
  const u8 *old = page_bytes(&from) + entries.offset(pos);
  heap_start = static_cast<u16>(heap_start - room);
  heap_used = static_cast<u16>(heap_used + room);
  u8 *heap = page_bytes(this) + heap_start;
  const u32 at = count++;
  if constexpr (kIsView<DenseEntries, View>) {
    copy_few(heap, old, room);
    put_dense_slot(at, static_cast<u32>(number_here(change, from, pos) - dense_base),
                   entries.value_bytes(pos), heap_start);
  } else {
    const u32 bytes = entries.key_bytes(pos);
    u32 head = entries.head(pos);
    if (!change.added.empty()) {
      u8 key[kMaxKeyBytes];
      std::memcpy(key, change.added.data(), change.added.size());
      const u32 whole =
          copy_key_at(from, entries, static_cast<u32>(change.added.size()), pos, key);
      const u32 stored = rest_after_head(whole);
      head = make_head({key, whole});
      copy_few(heap, key + kHeadBytes, stored);
      copy_few(heap + stored, old + rest_after_head(bytes), room - stored);
    } else {
      if (change.cut != 0) head = head_behind(head, bytes, old, change.cut);
      copy_few(heap, old + (old_room - room), room);
    }
    if constexpr (kIsView<UniformEntries, View>) {
      std::memcpy(page_bytes(this) + sizeof(Node) + at * kUniformSlotBytes, &head, sizeof head);
    } else {
      Slot &slot = slots[at];
      slot.offset = heap_start;
      slot.key_bytes = static_cast<u16>(change.bytes(bytes));
      slot.value_bytes = static_cast<u16>(entries.value_bytes(pos));
      set_slot_head(slot, head);
    }
  }
}

}  // namespace ls
