// node.cpp - changing a node: its entries, one by one.  The caller holds the page exclusively or owns the bytes.
//
// The reading half (lower_fence ... value) runs on moving bytes too and clamps; the changing half trusts the page.
#include "btree/node.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "btree/node_entries.hpp"
#include "leanstore/engine.h"

namespace ls {

namespace {

// Both fences and one separator, all of the largest size, with alignment losses.
static_assert(sizeof(Node) + 2 * kMaxKeyBytes + 8 + sizeof(Slot) + ((kMaxKeyBytes + 7) & ~7u) + sizeof(Swip) <= kPageSize);
// A table row (16 + LS_MAX_ROW_BYTES behind an 8-byte key) fits a leaf with two 8-byte fences.
static_assert(Node::max_value_bytes(8) >= 16 + LS_MAX_ROW_BYTES);

}  // namespace

u32 common_prefix(Bytes a, Bytes b) {
  size_t n = std::min(a.size(), b.size()), i = 0;
  while (i < n && a[i] == b[i]) i++;
  return static_cast<u32>(i);
}

u16 shortest_between(Bytes left, Bytes right, u8 *out) {
  u32 bytes = kWithShortSeparators ? common_prefix(left, right) + 1 : static_cast<u32>(right.size());
  LS_CHECK(bytes <= right.size() && bytes <= kMaxKeyBytes, "separator of keys that are out of order");
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
  return compare_keys(lower_fence(), key) <= 0 && (!has_upper || compare_keys(key, upper_fence()) < 0);
}

Swip *Node::child(u16 index) {
  if (index >= std::min<u32>(load_once(count), kMaxSlots)) return reinterpret_cast<Swip *>(&upper_child);
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

u16 Node::copy_key_behind_prefix(u16 pos, u8 *out) const { return copy_key_behind(static_cast<u32>(prefix().size()), pos, out); }

u16 Node::copy_key_behind(u32 shared, u16 pos, u8 *out) const {
  return with_entries(*this, [&](const auto &entries) {
    const u32 at = std::min<u32>(pos, entries.kMost - 1);
    const u32 bytes = entries.key_bytes(at), offset = entries.offset(at), stored = rest_after_head(bytes);
    if (shared + bytes > kMaxKeyBytes || offset + stored > kPageSize) return u16{0};  // torn read
    u8 *to = out + shared;
    const u32 head = __builtin_bswap32(entries.head(at));
    if (bytes < kHeadBytes) {
      std::memcpy(to, &head, bytes);
    } else {
      std::memcpy(to, &head, kHeadBytes);
      if (stored != 0) std::memcpy(to + kHeadBytes, page_bytes(this) + offset, stored);
    }
    return static_cast<u16>(shared + bytes);
  });
}

Bytes Node::value(u16 pos) const { return value_bytes(*this, pos); }

u8 *Node::value_data(u16 pos) { return const_cast<u8 *>(value(pos).data()); }

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
  if (copy->uniform) {
    const UniformEntries entries(*copy);
    const u32 last = std::min<u32>(end, entries.kMost), n = last > begin ? last - begin : 0;
    if (n == 0) return;
    const size_t first_slot = sizeof(Node) + size_t{begin} * kUniformSlotBytes;
    std::memcpy(out + first_slot, page_bytes(this) + first_slot, size_t{n} * kUniformSlotBytes);
    copy_heap(this, out, entries.offset(last - 1), entries.offset(begin) + entries.size());
    return;
  }
  const u32 last = std::min<u32>(end, kMaxSlots), n = last > begin ? last - begin : 0;
  if (n != 0) std::memcpy(copy->slots + begin, slots + begin, n * sizeof(Slot));
  if (n > kFewEntries) return copy_heap(this, out, copy->heap_start, fences);
  for (u32 i = 0; i < n; i++) {
    const Slot slot = copy->slots[begin + i];
    copy_heap(this, out, slot.offset, slot.offset + heap_bytes(rest_after_head(slot.key_bytes), slot.value_bytes));
  }
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

bool Node::has_shape(u32 key_bytes, u32 value_bytes) const { return key_bytes == load_once(uniform_key) && value_bytes == 0; }

u32 Node::enlarging_bytes() const {
  return load_once(uniform) ? std::min<u32>(load_once(count), kMaxEntries) * static_cast<u32>(sizeof(Slot) - kUniformSlotBytes) : 0;
}

u32 Node::entry_bytes(Bytes key, u32 value_bytes) const {
  const u32 common = std::min<u32>(load_once(prefix_bytes), static_cast<u32>(key.size()));
  const u32 key_bytes = static_cast<u32>(key.size()) - common;
  const u32 heap = heap_bytes(rest_after_head(key_bytes), value_bytes);
  const bool first = load_once(count) == 0;
  const bool small = is_leaf && (first ? fits_uniform(key_bytes, value_bytes) : load_once(uniform) && has_shape(key_bytes, value_bytes));
  if (small) return kUniformSlotBytes + heap;
  return static_cast<u32>(sizeof(Slot)) + heap + enlarging_bytes();
}

u32 Node::stored_bytes(u32 pos) const {
  return with_entries(*this, [&](const auto &entries) {
    return entries.kSlotBytes + heap_bytes(rest_after_head(entries.key_bytes(pos)), entries.value_bytes(pos));
  });
}

bool Node::fits(Bytes key, u32 value_bytes) const { return entry_bytes(key, value_bytes) <= free_bytes(); }

bool Node::has_room(Bytes key, u32 need) const {
  const u32 key_bytes = static_cast<u32>(key.size()), separator = key_bytes + 1;
  const u32 fences = std::max<u32>(lower_bytes, separator) + std::max<u32>(upper_bytes, separator);
  if (need + fences > kNodeSpace) return false;
  if (!uniform || need == 0) return free_bytes() >= need;
  if (need == most_entry_bytes(key_bytes, 0)) return fits(key, 0);
  return free_bytes() >= need + enlarging_bytes();
}

u32 Node::used_bytes() const { return slots_end() - static_cast<u32>(sizeof(Node)) + load_once(heap_used); }

// ---------------------------------------------------------------- changing

void Node::init(bool leaf, u8 new_level, Bytes lower, Bytes upper, bool upper_present) {
  LS_CHECK(lower.size() <= kMaxKeyBytes && upper.size() <= kMaxKeyBytes, "fence longer than a key may be");
  u8 fences[2 * kMaxKeyBytes];  // the arguments may lie in the page that is about to be cleared
  u32 lower_size = static_cast<u32>(lower.size()), upper_size = upper_present ? static_cast<u32>(upper.size()) : 0;
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

// Heap room for an entry whose slot is counted already.
u32 Node::allocate(u32 bytes) {
  if (slots_end() + bytes > heap_start) compact();
  LS_CHECK(slots_end() + bytes <= heap_start, "node entry does not fit");
  heap_start = static_cast<u16>(heap_start - bytes);
  heap_used = static_cast<u16>(heap_used + bytes);
  return heap_start;
}

// ---- uniform leaves

void Node::take_shape(u32 key_bytes, u32 value_bytes) {
  if (!is_leaf) return;
  if (count != 0) {
    if (uniform && !has_shape(key_bytes, value_bytes)) enlarge_slots();
    return;
  }
  uniform = fits_uniform(key_bytes, value_bytes);
  uniform_key = uniform ? static_cast<u8>(key_bytes) : 0;
  uniform_run = 0;
  if (uniform) header.format = kPageFormat;   // it may have been the older one
  heap_start = static_cast<u16>(heap_end());
}

// What is in the heap stays where it is.  From the last on, no slot is written over a head that is still wanted.
void Node::enlarge_slots() {
  LS_CHECK(free_bytes() >= enlarging_bytes(), "the slots of a node do not fit");
  const UniformEntries entries(*this);
  for (u32 i = count; i-- > 0;) {
    const u32 head = entries.head(i);
    slots[i].offset = static_cast<u16>(entries.offset(i));
    slots[i].key_bytes = uniform_key;
    slots[i].value_bytes = 0;
    set_slot_head(slots[i], head);
  }
  uniform = uniform_key = 0;
  uniform_run = 0;
}

// Makes the place for an entry of the leaf's shape, with its head.
u8 *Node::uniform_place(u32 pos, u32 head) {
  const u32 size = UniformEntries(*this).size();
  u8 *slot = page_bytes(this) + sizeof(Node) + pos * kUniformSlotBytes, *heap = page_bytes(this) + heap_start;
  std::memmove(slot + kUniformSlotBytes, slot, (count - pos) * kUniformSlotBytes);
  std::memcpy(slot, &head, sizeof head);
  if (size != 0) std::memmove(heap - size, heap, (count - pos) * size);
  heap_start = static_cast<u16>(heap_start - size);
  heap_used = static_cast<u16>(heap_used + size);
  count++;
  const u32 run = uniform_run % kRunUnit;
  const bool continues = run != 0 && uniform_run / kRunUnit + 1 == pos;
  uniform_run = static_cast<u16>(pos * kRunUnit + (continues ? std::min(run + 1, kRunUnit - 1) : 1));
  return page_bytes(this) + UniformEntries(*this).offset(pos);
}

void Node::remove_uniform(u32 pos, u32 n) {
  const u32 behind = count - pos - n, size = UniformEntries(*this).size(), bytes = n * size;
  u8 *slot = page_bytes(this) + sizeof(Node) + pos * kUniformSlotBytes, *heap = page_bytes(this) + heap_start;
  std::memmove(slot, slot + n * kUniformSlotBytes, behind * kUniformSlotBytes);
  if (bytes != 0) std::memmove(heap + bytes, heap, behind * size);
  heap_start = static_cast<u16>(heap_start + bytes);
  heap_used = static_cast<u16>(heap_used - bytes);
  count = static_cast<u16>(count - n);
  uniform_run = 0;   // places have moved
}

// ---- entries

void Node::put_entry(u8 *at, Bytes rest, Bytes value_a, Bytes value_b) const {
  const u32 stored = rest_after_head(static_cast<u32>(rest.size()));
  if (stored != 0) std::memcpy(at, rest.data() + kHeadBytes, stored);
  if (!is_leaf) std::memset(at + stored, 0, align8(stored) - stored);
  at += is_leaf ? stored : align8(stored);
  if (!value_a.empty()) std::memcpy(at, value_a.data(), value_a.size());
  if (!value_b.empty()) std::memcpy(at + value_a.size(), value_b.data(), value_b.size());
}

u16 Node::insert(Bytes key, Bytes value_a, Bytes value_b) {
  LS_ASSERT(covers(key));
  bool found;
  u32 pos = lower_bound(key, &found);
  LS_CHECK(!found, "key inserted twice");
  u32 value_bytes = static_cast<u32>(value_a.size() + value_b.size());
  LS_CHECK(fits(key, value_bytes), "node entry does not fit");
  Bytes rest = key.subspan(prefix_bytes);
  take_shape(static_cast<u32>(rest.size()), value_bytes);
  if (uniform) {
    put_entry(uniform_place(pos, make_head(rest)), rest, value_a, value_b);
  } else {
    // Room first, while no slot is half made: compaction looks at all of them.
    u32 bytes = heap_bytes(rest_after_head(static_cast<u32>(rest.size())), value_bytes);
    if (slots_end() + sizeof(Slot) + bytes > heap_start) compact();
    std::memmove(slots + pos + 1, slots + pos, (count - pos) * sizeof(Slot));
    count++;
    Slot &slot = slots[pos];
    slot.offset = static_cast<u16>(allocate(bytes));
    slot.key_bytes = static_cast<u16>(rest.size());
    slot.value_bytes = static_cast<u16>(value_bytes);
    set_slot_head(slot, make_head(rest));
    put_entry(page_bytes(this) + slot.offset, rest, value_a, value_b);
  }
  update_hints(pos, count - 1u);
  return static_cast<u16>(pos);
}

void Node::remove(u16 pos) {
  LS_CHECK(pos < count, "node position out of range");
  if (uniform) {
    remove_uniform(pos, 1);
  } else {
    u32 bytes = heap_bytes(rest_after_head(slots[pos].key_bytes), slots[pos].value_bytes);
    if (slots[pos].offset == heap_start) heap_start = static_cast<u16>(heap_start + bytes);
    heap_used = static_cast<u16>(heap_used - bytes);
    count--;
    std::memmove(slots + pos, slots + pos + 1, (count - pos) * sizeof(Slot));
  }
  update_hints(pos, count + 1u);
}

void Node::remove_front(u16 n) {
  LS_CHECK(n <= count, "node position out of range");
  if (uniform) {
    remove_uniform(0, n);
  } else {
    u32 bytes = 0;
    for (u32 i = 0; i < n; i++) bytes += heap_bytes(rest_after_head(slots[i].key_bytes), slots[i].value_bytes);
    heap_used = static_cast<u16>(heap_used - bytes);
    count = static_cast<u16>(count - n);
    std::memmove(slots, slots + n, count * sizeof(Slot));
    if (count == 0) heap_start = static_cast<u16>(heap_end());
  }
  rebuild_hints();
}

bool Node::resize_value(u16 pos, u32 bytes) {
  LS_CHECK(pos < count && is_leaf, "node position out of range");
  if (uniform) {
    if (bytes == 0) return true;
    if (enlarging_bytes() + bytes > free_bytes()) return false;
    enlarge_slots();
  }
  Slot &slot = slots[pos];
  u32 old = slot.value_bytes, stored = rest_after_head(slot.key_bytes);
  if (bytes <= old) {
    slot.value_bytes = static_cast<u16>(bytes);
    heap_used = static_cast<u16>(heap_used - (old - bytes));
    return true;
  }
  if (bytes - old > free_bytes()) return false;
  u8 entry[kPageSize];
  std::memcpy(entry, page_bytes(this) + slot.offset, stored + old);
  heap_used = static_cast<u16>(heap_used - (stored + old));
  // Of no size while room is made: compaction must not carry it along.
  u16 key_bytes = slot.key_bytes;
  slot.key_bytes = slot.value_bytes = 0;
  slot.offset = static_cast<u16>(allocate(stored + bytes));
  slot.key_bytes = key_bytes;
  slot.value_bytes = static_cast<u16>(bytes);
  std::memcpy(page_bytes(this) + slot.offset, entry, stored + old);
  std::memset(page_bytes(this) + slot.offset + stored + old, 0, bytes - old);
  return true;
}

void Node::compact() {
  if (uniform) return;
  PageCopy copy(this);
  u32 at = heap_end();
  for (u32 i = 0; i < count; i++) {
    u32 bytes = heap_bytes(rest_after_head(slots[i].key_bytes), slots[i].value_bytes);
    at -= bytes;
    std::memcpy(page_bytes(this) + at, copy.bytes + slots[i].offset, bytes);
    slots[i].offset = static_cast<u16>(at);
  }
  heap_start = static_cast<u16>(at);
}

void Node::append(Bytes key, Bytes value_a, Bytes value_b) {
  Bytes rest = key.subspan(prefix_bytes);
  u32 value_bytes = static_cast<u32>(value_a.size() + value_b.size());
  LS_CHECK(fits(key, value_bytes), "node entry does not fit");
  take_shape(static_cast<u32>(rest.size()), value_bytes);
  if (uniform) return put_entry(uniform_place(count, make_head(rest)), rest, value_a, value_b);
  Slot &slot = slots[count++];
  slot.key_bytes = static_cast<u16>(rest.size());
  slot.value_bytes = static_cast<u16>(value_bytes);
  set_slot_head(slot, make_head(rest));
  u32 bytes = heap_bytes(rest_after_head(static_cast<u32>(rest.size())), value_bytes);
  LS_CHECK(slots_end() + bytes <= heap_start, "node entry does not fit");
  heap_start = static_cast<u16>(heap_start - bytes);
  heap_used = static_cast<u16>(heap_used + bytes);
  slot.offset = heap_start;
  put_entry(page_bytes(this) + heap_start, rest, value_a, value_b);
}

void Node::append_compacting(Bytes key, Bytes value_a, Bytes value_b) {
  if (slots_end() + entry_bytes(key, static_cast<u32>(value_a.size() + value_b.size())) > heap_start) compact();
  append(key, value_a, value_b);
}

// Entries of another node that all lie within this one's fences and after its present keys.  Hints are left to the caller.
void Node::append_range(const Node &from, u32 begin, u32 end) {
  LS_CHECK(append_if_fits(from, begin, end), "node entries do not fit");
}

bool Node::append_if_fits(const Node &from, u32 begin, u32 end) {
  u8 key[kMaxKeyBytes];
  for (u32 i = begin; i < end; i++) {
    Bytes whole{key, from.copy_key(static_cast<u16>(i), key)};
    Bytes value = from.value(static_cast<u16>(i));
    if (!fits(whole, static_cast<u32>(value.size()))) return false;
    append(whole, value);
  }
  return true;
}

}  // namespace ls
