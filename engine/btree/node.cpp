// node.cpp - changing a node: its entries, one by one.  The caller holds the page exclusively or
// owns the bytes.
//
// The reading half (lower_fence ... value) runs on moving bytes too and clamps; the changing half
// trusts the page.
#include "btree/node.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "btree/node_entries.hpp"
#include "leanstore/engine.h"

namespace ls {

namespace {

// Both fences and one separator, all of the largest size, with alignment losses.
static_assert(sizeof(Node) + 2 * kMaxKeyBytes + 8 + sizeof(Slot) + ((kMaxKeyBytes + 7) & ~7u) +
                  sizeof(Swip) <=
              kPageSize);
// A table row (16 + LS_MAX_ROW_BYTES behind an 8-byte key) fits a leaf with two 8-byte fences.
static_assert(Node::max_value_bytes(8) >= 16 + LS_MAX_ROW_BYTES);

}  // namespace

u32 common_prefix(Bytes a, Bytes b) {
  size_t n = std::min(a.size(), b.size()), i = 0;
  while (i < n && a[i] == b[i]) i++;
  return static_cast<u32>(i);
}

u16 shortest_between(Bytes left, Bytes right, u8 *out) {
  u32 bytes =
      kWithShortSeparators ? common_prefix(left, right) + 1 : static_cast<u32>(right.size());
  LS_CHECK(bytes <= right.size() && bytes <= kMaxKeyBytes,
           "separator of keys that are out of order");
  std::memcpy(out, right.data(), bytes);
  return static_cast<u16>(bytes);
}

// ---------------------------------------------------------------- reading

Bytes Node::lower_fence() const {
  u32 offset = std::min<u32>(load_once(lower_offset), kPageSize);
  return {page_bytes(this) + offset, std::min<u32>(load_once(lower_bytes), kPageSize - offset)};
}

Bytes Node::upper_fence() const {
  u32 offset = std::min<u32>(load_once(upper_offset), kPageSize);
  return {page_bytes(this) + offset, std::min<u32>(load_once(upper_bytes), kPageSize - offset)};
}

Bytes Node::prefix() const {
  Bytes lower = lower_fence();
  return lower.first(std::min<size_t>(load_once(prefix_bytes), lower.size()));
}

bool Node::covers(Bytes key) const {
  return compare_keys(lower_fence(), key) <= 0 &&
         (!has_upper || compare_keys(key, upper_fence()) < 0);
}

Swip *Node::child(u16 index) {
  if (index >= std::min<u32>(load_once(count), kMaxSlots))
    return reinterpret_cast<Swip *>(&upper_child);
  const Slot &slot = slots[index];
  u32 offset = load_once(slot.offset) + align8(rest_after_head(load_once(slot.key_bytes)));
  offset = std::min<u32>(offset, kPageSize - sizeof(Swip)) & ~7u;
  return reinterpret_cast<Swip *>(page_bytes(this) + offset);
}

u16 Node::copy_key(u16 pos, u8 *out) const {
  const Bytes common = prefix();
  if (common.size() > kMaxKeyBytes) return 0;  // torn read
  std::memcpy(out, common.data(), common.size());
  return copy_key_behind(static_cast<u32>(common.size()), pos, out);
}

u16 Node::copy_key_behind_prefix(u16 pos, u8 *out) const {
  return copy_key_behind(static_cast<u32>(prefix().size()), pos, out);
}

u16 Node::copy_key_behind(u32 shared, u16 pos, u8 *out) const {
  return with_entries(
      *this, [&](const auto &entries) { return copy_key_at(*this, entries, shared, pos, out); });
}

Bytes Node::value(u16 pos) const { return value_bytes(*this, pos); }

u8 *Node::value_data(u16 pos) {
  LS_ASSERT(pos < count);
  return const_cast<u8 *>(value(pos).data());
}

namespace {

// [begin, end) of the heap, which moving bytes may have outside of the page.
void copy_heap(const Node *from, u8 *to, u32 begin, u32 end) {
  end = std::min<u32>(end, kPageSize);
  if (begin < end) std::memcpy(to + begin, page_bytes(from) + begin, end - begin);
}

}  // namespace

void Node::copy_slice(u16 begin, u16 end, u8 *out) const {
  constexpr u32 kFewEntries = 16;  // up to so many are copied one by one, else the whole heap
  Node *copy = reinterpret_cast<Node *>(out);
  std::memcpy(out, this, sizeof(Node));
  const u32 fences = copy->heap_end();
  std::memcpy(out + fences, page_bytes(this) + fences, kPageSize - fences);
  // What is looked at is the copy, which does not move.
  with_entries(*copy, [&](const auto &entries) {
    const u32 last = std::min<u32>(end, entries.kMost), n = last > begin ? last - begin : 0;
    if (n == 0) return;
    const size_t first_slot = sizeof(Node) + size_t{begin} * entries.kSlotBytes;
    std::memcpy(out + first_slot, page_bytes(this) + first_slot, size_t{n} * entries.kSlotBytes);
    if constexpr (kIsView<UniformEntries, decltype(entries)>) {
      copy_heap(this, out, entries.offset(last - 1), entries.offset(begin) + entries.size());
    } else if (n > kFewEntries) {
      copy_heap(this, out, copy->heap_start, fences);
    } else {
      for (u32 i = begin; i < last; i++)
        copy_heap(this, out, entries.offset(i), entries.offset(i) + entries.heap_room(i));
    }
  });
}

u32 Node::heap_end() const {
  u32 end = std::min<u32>(load_once(upper_offset), kPageSize);
  return is_leaf ? end : end & ~7u;
}

u32 Node::slots_end() const {
  return with_entries(*this, [&](const auto &entries) {
    return static_cast<u32>(sizeof(Node)) + entry_count(*this, entries) * entries.kSlotBytes;
  });
}

u32 Node::free_bytes() const {
  u32 taken = slots_end() + load_once(heap_used);
  u32 end = heap_end();
  return end > taken ? end - taken : 0;
}

u32 Node::heap_bytes(u32 rest_bytes, u32 value_bytes) const {
  return is_leaf ? rest_bytes + value_bytes : align8(rest_bytes) + align8(value_bytes);
}

u32 Node::slot_bytes() const {
  return with_entries(*this, [](const auto &entries) { return u32{entries.kSlotBytes}; });
}

bool Node::is_near(u64 number) const {
  const DenseEntries entries(*this);
  if (number >= entries.base()) return number - entries.base() <= kMaxDenseDistance;
  return entries.number(std::min<u32>(load_once(count), entries.kMost) - 1) - number <=
         kMaxDenseDistance;
}

NodeLayout Node::layout_with(Bytes rest, u32 value_bytes) const {
  if (!is_leaf) return NodeLayout::kSlots;
  const u32 bytes = static_cast<u32>(rest.size());
  const bool same_length = load_once(key_bytes) == bytes;
  if (load_once(count) == 0) {
    if (kWithDenseLeaves && bytes <= kMaxDenseKeyBytes) return NodeLayout::kDense;
    return fits_uniform(bytes, value_bytes) ? NodeLayout::kUniform : NodeLayout::kSlots;
  }
  switch (load_once(layout)) {
    case NodeLayout::kDense:
      if (same_length && is_near(dense_number(rest))) return NodeLayout::kDense;
      // Its heap has values only.
      return same_length && load_once(heap_used) == 0 && fits_uniform(bytes, value_bytes)
                 ? NodeLayout::kUniform
                 : NodeLayout::kSlots;
    case NodeLayout::kUniform:
      return same_length && value_bytes == 0 ? NodeLayout::kUniform : NodeLayout::kSlots;
    default: return NodeLayout::kSlots;
  }
}

u32 Node::growth_to(NodeLayout to) const {
  const NodeLayout now = load_once(layout);
  if (now == to) return 0;
  u32 each = now == NodeLayout::kDense ? rest_after_head(load_once(key_bytes)) : 0;
  if (to == NodeLayout::kSlots) each += static_cast<u32>(sizeof(Slot)) - kUniformSlotBytes;
  static_assert(kUniformSlotBytes == kDenseSlotBytes);
  return std::min<u32>(load_once(count), kMaxEntries) * each;
}

u32 Node::entry_bytes(Bytes key, u32 value_bytes) const {
  const Bytes rest = key.subspan(std::min<size_t>(load_once(prefix_bytes), key.size()));
  const u32 stored = rest_after_head(static_cast<u32>(rest.size()));
  const NodeLayout with = layout_with(rest, value_bytes);
  switch (with) {
    case NodeLayout::kDense: return kDenseSlotBytes + value_bytes;
    case NodeLayout::kUniform: return kUniformSlotBytes + stored + growth_to(with);
    default:
      return static_cast<u32>(sizeof(Slot)) + heap_bytes(stored, value_bytes) + growth_to(with);
  }
}

u32 Node::stored_bytes(u32 pos) const {
  return with_entries(*this, [&](const auto &entries) {
    return entries.kSlotBytes + entries.heap_room(pos);
  });
}

bool Node::fits(Bytes key, u32 value_bytes) const {
  return entry_bytes(key, value_bytes) <= free_bytes();
}

bool Node::has_room(Bytes key, u32 need) const {
  LS_ASSERT(covers(key));   // NODE-1
  if (need == 0) return true;
  const u32 key_bytes = static_cast<u32>(key.size()), separator = key_bytes + 1;
  const u32 fences = std::max<u32>(lower_bytes, separator) + std::max<u32>(upper_bytes, separator);
  if (need + fences > kNodeSpace) return false;
  if (layout == NodeLayout::kSlots) return free_bytes() >= need;
  const Bytes rest = key.subspan(std::min<u32>(prefix_bytes, key_bytes));
  if (layout_with(rest, 1) == NodeLayout::kDense) return free_bytes() >= need;
  if (need == most_entry_bytes(key_bytes, 0)) return fits(key, 0);
  return free_bytes() >= need + enlarging_bytes();
}

u32 Node::used_bytes() const {
  return slots_end() - static_cast<u32>(sizeof(Node)) + load_once(heap_used);
}

// ---------------------------------------------------------------- changing

void Node::init(bool leaf, u8 new_level, Bytes lower, Bytes upper, bool upper_present) {
  LS_CHECK(lower.size() <= kMaxKeyBytes && upper.size() <= kMaxKeyBytes,
           "fence longer than a key may be");
  LS_ASSERT(!upper_present || compare_keys(lower, upper) < 0);
  LS_ASSERT(leaf == (new_level == 0));
  u8 fences[2 * kMaxKeyBytes];  // the arguments may lie in the page that is about to be cleared
  u32 lower_size = static_cast<u32>(lower.size()),
      upper_size = upper_present ? static_cast<u32>(upper.size()) : 0;
  u32 common = kWithPrefix && upper_present ? common_prefix(lower, upper) : 0;
  if (upper_size != 0) std::memcpy(fences, upper.data(), upper_size);
  if (lower_size != 0) std::memcpy(fences + upper_size, lower.data(), lower_size);

  std::memset(page_bytes(this) + sizeof(PageHeader), 0, kPageSize - sizeof(PageHeader));
  header.kind = leaf ? PageKind::kLeaf : PageKind::kInner;
  header.format = kPageFormat;
  header.zero = 0;
  is_leaf = leaf;
  level = new_level;
  has_upper = upper_present;
  lower_bytes = static_cast<u16>(lower_size);
  upper_bytes = static_cast<u16>(upper_size);
  lower_offset = static_cast<u16>(kPageSize - lower_size);
  upper_offset = static_cast<u16>(kPageSize - lower_size - upper_size);
  prefix_bytes = static_cast<u16>(common);
  std::memcpy(page_bytes(this) + upper_offset, fences, upper_size + lower_size);
  heap_start = static_cast<u16>(heap_end());
}

// Heap room for an entry that has its slot counted already.
u32 Node::allocate(u32 bytes) {
  if (slots_end() + bytes > heap_start) compact();
  LS_CHECK(slots_end() + bytes <= heap_start, "node entry does not fit");
  heap_start = static_cast<u16>(heap_start - bytes);
  heap_used = static_cast<u16>(heap_used + bytes);
  LS_ASSERT(is_leaf || heap_start % alignof(Swip) == 0);   // NODE-3
  return heap_start;
}

// ---- layouts

void Node::prepare_for(Bytes rest, u32 value_bytes) {
  if (!is_leaf) return;
  const NodeLayout with = layout_with(rest, value_bytes);
  const u64 number = with == NodeLayout::kDense ? dense_number(rest) : 0;
  if (count == 0) {
    LS_ASSERT(heap_used == 0);   // NODE-2
    layout = with;
    key_bytes = with == NodeLayout::kSlots ? u8{0} : static_cast<u8>(rest.size());
    uniform_run = 0;
    dense_base = number;
    heap_start = static_cast<u16>(heap_end());
    if (with != NodeLayout::kSlots) header.format = kPageFormat;   // it may have been an older one
  } else if (with != layout) {
    change_layout(with);
  } else if (with == NodeLayout::kDense && number < dense_base) {
    lower_base(number);
  }
}

// The entries are laid anew, in their order.
void Node::change_layout(NodeLayout to) {
  LS_CHECK(free_bytes() >= growth_to(to), "the entries of a node do not fit in another layout");
  LS_ASSERT(is_leaf && to != layout);
  const PageCopy copy(this);
  const Node &old = copy.node();
  layout = to;
  if (to == NodeLayout::kSlots) key_bytes = 0;
  uniform_run = 0;
  dense_base = 0;
  count = heap_used = 0;
  heap_start = static_cast<u16>(heap_end());
  u8 key[kMaxKeyBytes];
  for (u16 i = 0; i < old.count; i++)
    append_rest({key, old.copy_key_behind(0, i, key)}, old.value(i), {});
  rebuild_hints();
}

void Node::put_dense_slot(u32 pos, u32 distance, u32 value_bytes, u32 offset) {
  LS_ASSERT(distance <= kMaxDenseDistance);
  LS_ASSERT(value_bytes < kPageSize && offset + value_bytes <= kPageSize);
  const u32 slot = DenseEntries::make_slot(distance, value_bytes, offset);
  std::memcpy(page_bytes(this) + sizeof(Node) + pos * kDenseSlotBytes, &slot, sizeof slot);
}

void Node::lower_base(u64 number) {
  const DenseEntries entries(*this);
  const u32 by = static_cast<u32>(dense_base - number);
  for (u32 i = 0; i < count; i++)
    put_dense_slot(i, entries.distance(i) + by, entries.value_bytes(i), entries.offset(i));
  dense_base = number;
}

// Not in uniform leaves, as the next one.
void Node::set_slot(u32 pos, u32 offset, Bytes rest, u32 value_bytes) {
  LS_ASSERT(layout != NodeLayout::kUniform && pos < count);
  if (layout == NodeLayout::kDense)
    return put_dense_slot(pos, static_cast<u32>(dense_number(rest) - dense_base), value_bytes,
                          offset);
  Slot &slot = slots[pos];
  slot.offset = static_cast<u16>(offset);
  slot.key_bytes = static_cast<u16>(rest.size());
  slot.value_bytes = static_cast<u16>(value_bytes);
  set_slot_head(slot, make_head(rest));
}

void Node::set_place(u32 pos, u32 offset, u32 value_bytes) {
  LS_ASSERT(layout != NodeLayout::kUniform && pos < count);
  if (layout == NodeLayout::kDense)
    return put_dense_slot(pos, DenseEntries(*this).distance(pos), value_bytes, offset);
  slots[pos].offset = static_cast<u16>(offset);
  slots[pos].value_bytes = static_cast<u16>(value_bytes);
}

// Makes the place for an entry of the leaf's shape, with its head.
u8 *Node::uniform_place(u32 pos, u32 head) {
  const u32 size = UniformEntries(*this).size();
  LS_CHECK(slots_end() + kUniformSlotBytes + size <= heap_start, "node entry does not fit");
  LS_ASSERT(heap_start + heap_used == static_cast<int>(heap_end()));   // NODE-2
  u8 *slot = page_bytes(this) + sizeof(Node) + pos * kUniformSlotBytes,
     *heap = page_bytes(this) + heap_start;
  std::memmove(slot + kUniformSlotBytes, slot, (count - pos) * kUniformSlotBytes);
  std::memcpy(slot, &head, sizeof head);
  if (size != 0) std::memmove(heap - size, heap, (count - pos) * size);
  heap_start = static_cast<u16>(heap_start - size);
  heap_used = static_cast<u16>(heap_used + size);
  count++;
  note_insertions(pos, 1);
  return page_bytes(this) + UniformEntries(*this).offset(pos);
}

// Into a uniform leaf, one behind the other from `pos` on.
void Node::note_insertions(u32 pos, u32 n) {
  const u32 run = uniform_run % kRunUnit;
  const u32 before = run != 0 && uniform_run / kRunUnit + 1 == pos ? run : 0;
  uniform_run =
      static_cast<u16>((pos + n - 1) * kRunUnit + std::min(before + n, kRunUnit - 1));
}

void Node::remove_uniform(u32 pos, u32 n) {
  const u32 behind = count - pos - n, size = UniformEntries(*this).size(), bytes = n * size;
  LS_ASSERT(heap_used == count * size);   // NODE-2
  u8 *slot = page_bytes(this) + sizeof(Node) + pos * kUniformSlotBytes,
     *heap = page_bytes(this) + heap_start;
  std::memmove(slot, slot + n * kUniformSlotBytes, behind * kUniformSlotBytes);
  if (bytes != 0) std::memmove(heap + bytes, heap, behind * size);
  heap_start = static_cast<u16>(heap_start + bytes);
  heap_used = static_cast<u16>(heap_used - bytes);
  count = static_cast<u16>(count - n);
  uniform_run = 0;   // places have moved
}

// ---- entries

u32 Node::stored_of(Bytes rest) const {
  return layout == NodeLayout::kDense ? 0 : rest_after_head(static_cast<u32>(rest.size()));
}

void Node::put_entry(u8 *at, Bytes rest, Bytes value_a, Bytes value_b) const {
  const u32 stored = stored_of(rest);
  const u32 value_bytes = static_cast<u32>(value_a.size() + value_b.size());
  LS_ASSERT(at >= page_bytes(this) + heap_start);   // NODE-2
  LS_ASSERT(at + heap_bytes(stored, value_bytes) <= page_bytes(this) + heap_end());   // NODE-2
  LS_ASSERT(is_leaf || value_bytes == sizeof(Swip));   // NODE-3
  if (stored != 0) std::memcpy(at, rest.data() + kHeadBytes, stored);
  if (!is_leaf) std::memset(at + stored, 0, align8(stored) - stored);
  at += is_leaf ? stored : align8(stored);
  if (!value_a.empty()) std::memcpy(at, value_a.data(), value_a.size());
  if (!value_b.empty()) std::memcpy(at + value_a.size(), value_b.data(), value_b.size());
}

u16 Node::insert(Bytes key, Bytes value_a, Bytes value_b) {
  bool found;
  const u16 pos = lower_bound(key, &found);
  LS_CHECK(!found, "key inserted twice");
  insert_at(pos, key, value_a, value_b);
  return pos;
}

void Node::insert_at(u32 pos, Bytes key, Bytes value_a, Bytes value_b) {
  LS_ASSERT(covers(key) && pos == position_of(key) && (pos == count || !key_is(pos, key)));
  u32 value_bytes = static_cast<u32>(value_a.size() + value_b.size());
  LS_CHECK(fits(key, value_bytes), "node entry does not fit");
  Bytes rest = key.subspan(prefix_bytes);
  prepare_for(rest, value_bytes);
  if (layout == NodeLayout::kUniform) {
    put_entry(uniform_place(pos, make_head(rest)), rest, value_a, value_b);
  } else {
    // Room first, while no slot is half made: compaction looks at all of them.
    const u32 each = slot_bytes(), bytes = heap_bytes(stored_of(rest), value_bytes);
    if (slots_end() + each + bytes > heap_start) compact();
    u8 *slot = page_bytes(this) + sizeof(Node) + pos * each;
    std::memmove(slot + each, slot, (count - pos) * each);
    count++;
    const u32 offset = allocate(bytes);
    set_slot(pos, offset, rest, value_bytes);
    put_entry(page_bytes(this) + offset, rest, value_a, value_b);
  }
  LS_ASSERT(key_is(pos, key));   // NODE-1
  update_hints(pos, count - 1u);
}

void Node::remove(u16 pos) {
  LS_CHECK(pos < count, "node position out of range");
  with_entries(*this, [&](const auto &entries) {
    if constexpr (kIsView<UniformEntries, decltype(entries)>) {
      remove_uniform(pos, 1);
    } else {
      const u32 bytes = entries.heap_room(pos);
      LS_ASSERT(bytes <= heap_used);   // NODE-2
      if (entries.offset(pos) == heap_start) heap_start = static_cast<u16>(heap_start + bytes);
      heap_used = static_cast<u16>(heap_used - bytes);
      count--;
      u8 *slot = page_bytes(this) + sizeof(Node) + pos * entries.kSlotBytes;
      std::memmove(slot, slot + entries.kSlotBytes, (count - pos) * entries.kSlotBytes);
    }
  });
  update_hints(pos, count + 1u);
}

void Node::remove_front(u16 n) {
  LS_CHECK(n <= count, "node position out of range");
  with_entries(*this, [&](const auto &entries) {
    if constexpr (kIsView<UniformEntries, decltype(entries)>) {
      remove_uniform(0, n);
    } else {
      u32 bytes = 0;
      for (u32 i = 0; i < n; i++) bytes += entries.heap_room(i);
      LS_ASSERT(n < count ? bytes <= heap_used : bytes == heap_used);   // NODE-2
      heap_used = static_cast<u16>(heap_used - bytes);
      count = static_cast<u16>(count - n);
      u8 *slots_at = page_bytes(this) + sizeof(Node);
      std::memmove(slots_at, slots_at + n * entries.kSlotBytes, count * entries.kSlotBytes);
      if (count == 0) heap_start = static_cast<u16>(heap_end());
    }
  });
  rebuild_hints();
}

bool Node::resize_value(u16 pos, u32 bytes) {
  LS_CHECK(pos < count && is_leaf, "node position out of range");
  if (layout == NodeLayout::kUniform) {
    if (bytes == 0) return true;
    if (enlarging_bytes() + bytes > free_bytes()) return false;
    change_layout(NodeLayout::kSlots);
  }
  u32 old_offset, old, stored;
  with_entries(*this, [&](const auto &entries) {
    old_offset = entries.offset(pos);
    old = entries.value_bytes(pos);
    stored = entries.key_room(pos);
  });
  if (bytes <= old) {
    set_place(pos, old_offset, bytes);
    heap_used = static_cast<u16>(heap_used - (old - bytes));
    return true;
  }
  if (bytes - old > free_bytes()) return false;
  LS_ASSERT(stored + old <= heap_used);   // NODE-2
  u8 entry[kPageSize];
  std::memcpy(entry, page_bytes(this) + old_offset, stored + old);
  heap_used = static_cast<u16>(heap_used - (stored + old));
  // Of no size while room is made: compaction must not carry it along.
  set_place(pos, old_offset, 0);
  const bool has_key = layout == NodeLayout::kSlots;
  const u16 key_length = has_key ? std::exchange(slots[pos].key_bytes, u16{0}) : u16{0};
  const u32 offset = allocate(stored + bytes);
  set_place(pos, offset, bytes);
  if (has_key) slots[pos].key_bytes = key_length;
  std::memcpy(page_bytes(this) + offset, entry, stored + old);
  std::memset(page_bytes(this) + offset + stored + old, 0, bytes - old);
  return true;
}

void Node::compact() {
  with_entries(*this, [&](const auto &entries) {
    if constexpr (!kIsView<UniformEntries, decltype(entries)>) {
      LS_ASSERT(slots_end() + heap_used <= heap_end());   // NODE-2
      const PageCopy copy(this);
      u32 at = heap_end();
      for (u32 i = 0; i < count; i++) {
        const u32 bytes = entries.heap_room(i);
        at -= bytes;
        std::memcpy(page_bytes(this) + at, copy.bytes + entries.offset(i), bytes);
        set_place(i, at, entries.value_bytes(i));
      }
      LS_ASSERT(at + heap_used == heap_end());   // NODE-2
      heap_start = static_cast<u16>(at);
    }
  });
}

namespace {

// Without hints, which are made when the last entry has come.
[[maybe_unused]] bool is_behind_all(const Node &node, Bytes key) {
  u8 last[kMaxKeyBytes];
  return node.count == 0 ||
         compare_keys({last, node.copy_key(static_cast<u16>(node.count - 1), last)}, key) < 0;
}

}  // namespace

void Node::append(Bytes key, Bytes value_a, Bytes value_b) {
  const Bytes rest = key.subspan(prefix_bytes);
  const u32 value_bytes = static_cast<u32>(value_a.size() + value_b.size());
  LS_ASSERT(covers(key));   // NODE-1
  LS_ASSERT(is_behind_all(*this, key));
  LS_CHECK(fits(key, value_bytes), "node entry does not fit");
  prepare_for(rest, value_bytes);
  append_rest(rest, value_a, value_b);
}

void Node::append_rest(Bytes rest, Bytes value_a, Bytes value_b) {
  if (layout == NodeLayout::kUniform)
    return put_entry(uniform_place(count, make_head(rest)), rest, value_a, value_b);
  const u32 value_bytes = static_cast<u32>(value_a.size() + value_b.size());
  const u32 bytes = heap_bytes(stored_of(rest), value_bytes);
  count++;
  LS_CHECK(slots_end() + bytes <= heap_start, "node entry does not fit");
  heap_start = static_cast<u16>(heap_start - bytes);
  heap_used = static_cast<u16>(heap_used + bytes);
  set_slot(count - 1u, heap_start, rest, value_bytes);
  put_entry(page_bytes(this) + heap_start, rest, value_a, value_b);
}

void Node::append_compacting(Bytes key, Bytes value_a, Bytes value_b) {
  if (slots_end() + entry_bytes(key, static_cast<u32>(value_a.size() + value_b.size())) >
      heap_start)
    compact();
  append(key, value_a, value_b);
}

}  // namespace ls
