// node.cpp - changing a node: entries, splitting, merging.  The caller holds the page exclusively or owns the bytes.
//
// The reading half (lower_fence ... value) runs on moving bytes too and clamps; the changing half trusts the page.
#include "btree/node.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "btree/node_bytes.hpp"
#include "leanstore/engine.h"

namespace ls {

namespace {

// Both fences and one separator, all of the largest size, with alignment losses.
static_assert(sizeof(Node) + 2 * kMaxKeyBytes + 8 + sizeof(Slot) + ((kMaxKeyBytes + 7) & ~7u) + sizeof(Swip) <= kPageSize);
// A table row (16 + LS_MAX_ROW_BYTES behind an 8-byte key) fits a leaf with two 8-byte fences.
static_assert(Node::max_value_bytes(8) >= 16 + LS_MAX_ROW_BYTES);

// Room on the stack for a whole page; aligned like one.
struct alignas(64) PageCopy {
  u8 bytes[kPageSize];
  explicit PageCopy(const Node *node) { std::memcpy(bytes, node, kPageSize); }
  const Node &node() const { return *reinterpret_cast<const Node *>(bytes); }
};

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
  const Slot &slot = slots[std::min<u32>(pos, kMaxSlots - 1)];
  u32 bytes = load_once(slot.key_bytes);
  u32 offset = load_once(slot.offset);
  u32 stored = rest_after_head(bytes);
  if (shared + bytes > kMaxKeyBytes || offset + stored > kPageSize) return 0;  // torn read
  out += shared;
  u32 head = __builtin_bswap32(slot_head(slot));
  if (bytes < kHeadBytes) {
    std::memcpy(out, &head, bytes);
  } else {
    std::memcpy(out, &head, kHeadBytes);
    if (stored != 0) std::memcpy(out + kHeadBytes, page_bytes(this) + offset, stored);
  }
  return static_cast<u16>(shared + bytes);
}

Bytes Node::value(u16 pos) const { return value_bytes(*this, pos); }

u8 *Node::value_data(u16 pos) { return const_cast<u8 *>(value(pos).data()); }

void Node::copy_slice(u16 begin, u16 end, u8 *out) const {
  constexpr u32 kFewEntries = 16;  // up to so many are copied one by one, else the whole heap
  Node *copy = reinterpret_cast<Node *>(out);
  std::memcpy(out, this, sizeof(Node));
  const u32 heap_low = std::min<u32>(copy->heap_start, kPageSize);
  const u32 fences = copy->heap_end();
  const u32 last = std::min<u32>(end, kMaxSlots), n = last > begin ? last - begin : 0;
  std::memcpy(out + fences, page_bytes(this) + fences, kPageSize - fences);
  if (n != 0) std::memcpy(copy->slots + begin, slots + begin, n * sizeof(Slot));
  if (n > kFewEntries) {
    if (heap_low < fences) std::memcpy(out + heap_low, page_bytes(this) + heap_low, fences - heap_low);
    return;
  }
  for (u32 i = 0; i < n; i++) {
    const Slot slot = copy->slots[begin + i];
    const u32 offset = std::min<u32>(slot.offset, kPageSize);
    const u32 bytes = std::min(heap_bytes(rest_after_head(slot.key_bytes), slot.value_bytes), kPageSize - offset);
    if (bytes != 0) std::memcpy(out + offset, page_bytes(this) + offset, bytes);
  }
}

u32 Node::heap_end() const {
  u32 end = std::min<u32>(load_once(upper_offset), kPageSize);
  return is_leaf ? end : end & ~7u;
}

u32 Node::slots_end() const { return sizeof(Node) + std::min<u32>(load_once(count), kMaxSlots) * sizeof(Slot); }

u32 Node::free_bytes() const {
  u32 taken = slots_end() + load_once(heap_used);
  u32 end = heap_end();
  return end > taken ? end - taken : 0;
}

u32 Node::heap_bytes(u32 rest_bytes, u32 value_bytes) const {
  return is_leaf ? rest_bytes + value_bytes : align8(rest_bytes) + align8(value_bytes);
}

u32 Node::entry_bytes(Bytes key, u32 value_bytes) const {
  u32 common = std::min<u32>(load_once(prefix_bytes), static_cast<u32>(key.size()));
  return sizeof(Slot) + heap_bytes(rest_after_head(static_cast<u32>(key.size()) - common), value_bytes);
}

bool Node::fits(Bytes key, u32 value_bytes) const { return entry_bytes(key, value_bytes) <= free_bytes(); }

bool Node::has_room(Bytes key, u32 need) const {
  u32 separator = static_cast<u32>(key.size()) + 1;
  u32 fences = std::max<u32>(lower_bytes, separator) + std::max<u32>(upper_bytes, separator);
  return free_bytes() >= need && need + fences <= kNodeSpace;
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

u16 Node::insert(Bytes key, Bytes value_a, Bytes value_b) {
  LS_ASSERT(covers(key));
  bool found;
  u32 pos = lower_bound(key, &found);
  LS_CHECK(!found, "key inserted twice");
  u32 value_bytes = static_cast<u32>(value_a.size() + value_b.size());
  LS_CHECK(fits(key, value_bytes), "node entry does not fit");
  Bytes rest = key.subspan(prefix_bytes);
  u32 stored = rest_after_head(static_cast<u32>(rest.size()));

  // Room first, while no slot is half made: compaction looks at all of them.
  u32 bytes = heap_bytes(stored, value_bytes);
  if (slots_end() + sizeof(Slot) + bytes > heap_start) compact();
  std::memmove(slots + pos + 1, slots + pos, (count - pos) * sizeof(Slot));
  count++;
  Slot &slot = slots[pos];
  slot.offset = static_cast<u16>(allocate(bytes));
  slot.key_bytes = static_cast<u16>(rest.size());
  slot.value_bytes = static_cast<u16>(value_bytes);
  set_slot_head(slot, make_head(rest));
  u8 *at = page_bytes(this) + slot.offset;
  if (stored != 0) std::memcpy(at, rest.data() + kHeadBytes, stored);
  if (!is_leaf) std::memset(at + stored, 0, align8(stored) - stored);
  at += is_leaf ? stored : align8(stored);
  if (!value_a.empty()) std::memcpy(at, value_a.data(), value_a.size());
  if (!value_b.empty()) std::memcpy(at + value_a.size(), value_b.data(), value_b.size());
  update_hints(pos, count - 1u);
  return static_cast<u16>(pos);
}

void Node::remove(u16 pos) {
  LS_CHECK(pos < count, "node position out of range");
  u32 bytes = heap_bytes(rest_after_head(slots[pos].key_bytes), slots[pos].value_bytes);
  if (slots[pos].offset == heap_start) heap_start = static_cast<u16>(heap_start + bytes);
  heap_used = static_cast<u16>(heap_used - bytes);
  count--;
  std::memmove(slots + pos, slots + pos + 1, (count - pos) * sizeof(Slot));
  update_hints(pos, count + 1u);
}

void Node::remove_front(u16 n) {
  LS_CHECK(n <= count, "node position out of range");
  u32 bytes = 0;
  for (u32 i = 0; i < n; i++) bytes += heap_bytes(rest_after_head(slots[i].key_bytes), slots[i].value_bytes);
  heap_used = static_cast<u16>(heap_used - bytes);
  count = static_cast<u16>(count - n);
  std::memmove(slots, slots + n, count * sizeof(Slot));
  if (count == 0) heap_start = static_cast<u16>(heap_end());
  rebuild_hints();
}

bool Node::resize_value(u16 pos, u32 bytes) {
  LS_CHECK(pos < count && is_leaf, "node position out of range");
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
  u32 stored = rest_after_head(static_cast<u32>(rest.size()));
  u32 value_bytes = static_cast<u32>(value_a.size() + value_b.size());
  Slot &slot = slots[count++];
  slot.key_bytes = static_cast<u16>(rest.size());
  slot.value_bytes = static_cast<u16>(value_bytes);
  set_slot_head(slot, make_head(rest));
  u32 bytes = heap_bytes(stored, value_bytes);
  LS_CHECK(slots_end() + bytes <= heap_start, "node entry does not fit");
  heap_start = static_cast<u16>(heap_start - bytes);
  heap_used = static_cast<u16>(heap_used + bytes);
  slot.offset = heap_start;
  u8 *at = page_bytes(this) + heap_start;
  if (stored != 0) std::memcpy(at, rest.data() + kHeadBytes, stored);
  at += is_leaf ? stored : align8(stored);
  if (!value_a.empty()) std::memcpy(at, value_a.data(), value_a.size());
  if (!value_b.empty()) std::memcpy(at + value_a.size(), value_b.data(), value_b.size());
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

// ---------------------------------------------------------------- structure

namespace {

// Looks for the place to split one node.  Sizes are taken without what longer prefixes save, so an answer always fits.
class SplitChooser {
 public:
  SplitChooser(const Node &node, Bytes new_key, u8 *separator) : node_(node), new_key_(new_key), separator_(separator) {
    sum_[0] = 0;
    for (u32 i = 0; i < node.count; i++) {
      u8 key[kMaxKeyBytes];
      Bytes whole{key, node.copy_key(static_cast<u16>(i), key)};
      sum_[i + 1] = sum_[i] + node.entry_bytes(whole, node.slots[i].value_bytes);
    }
  }

  // The separator for pos, its length returned; 0: there is none, or a half would not fit its page with it as a fence.
  u16 separator_at(u32 pos) {
    u16 bytes = 0;
    if (!node_.is_leaf) {
      bytes = node_.copy_key(static_cast<u16>(pos), separator_);
    } else {
      u8 a[kMaxKeyBytes], b[kMaxKeyBytes];
      Bytes left = pos == 0 ? new_key_ : Bytes{a, node_.copy_key(static_cast<u16>(pos - 1), a)};
      Bytes right = pos == node_.count ? new_key_ : Bytes{b, node_.copy_key(static_cast<u16>(pos), b)};
      if (compare_keys(left, right) >= 0) return 0;
      bytes = shortest_between(left, right, separator_);
    }
    return halves_fit(pos, bytes) ? bytes : 0;
  }

  // Leaf: the same for the new key at the end of the left half, 0 < pos < count.  Such a fence may be longer than the entry
  // before it would have led to (N4).
  u16 separator_behind_new_key(u32 pos) {
    u8 key[kMaxKeyBytes];
    const u16 bytes = shortest_between(new_key_, {key, node_.copy_key(static_cast<u16>(pos), key)}, separator_);
    return halves_fit(pos, bytes) && node_.fits_beside_fence(pos - 1, bytes) ? bytes : u16{0};
  }

  bool halves_fit(u32 pos, u32 separator_bytes) const {
    u32 room = kNodeSpace - (node_.is_leaf ? 0 : 7);
    u32 left = sum_[pos] + node_.lower_bytes + separator_bytes;
    u32 right = sum_[node_.count] - sum_[node_.is_leaf ? pos : pos + 1] + separator_bytes + node_.upper_bytes;
    return left <= room && right <= room;
  }

  // Half of the bytes to each side, between low and high.
  u32 middle(u32 low, u32 high) const {
    u32 pos = low;
    while (pos < high && sum_[pos] < sum_[node_.count] / 2) pos++;
    return pos;
  }

  // Around the middle the shortest separator is worth a little imbalance: it is copied into every fence and parent.
  u32 shortest_near(u32 pos, u32 low, u32 high) {
    u32 window = node_.count / 16, best = pos, best_bytes = kMaxKeyBytes + 1;
    for (u32 distance = 0; distance <= window; distance++) {
      for (u32 at : {pos - distance, pos + distance}) {
        if (at < low || at > high) continue;  // below zero wraps to above high
        u32 bytes = separator_at(at);
        if (bytes == 0 || bytes >= best_bytes) continue;
        best = at;
        best_bytes = bytes;
      }
    }
    return best;
  }

 private:
  const Node &node_;
  Bytes new_key_;
  u8 *separator_;
  u32 sum_[kMaxSlots + 1];
};

}  // namespace

// Does a run of ascending insertions go on before the entry at `pos`?  Entries are laid into the heap from its end to its start, so their
// offsets tell which came later, as far as they came since the page was last put in order: those before `pos` one after the other, and
// all of them after the one at `pos`.
bool Node::continues_run(u32 pos) const {
  constexpr u32 kRun = 3;
  if (pos < kRun || pos >= count) return false;
  for (u32 i = 1; i < kRun; i++) {
    if (slots[pos - i].offset >= slots[pos - i - 1].offset) return false;
  }
  return slots[pos - kRun].offset < slots[pos].offset;
}

void Node::choose_split(Bytes new_key, u16 *pos, u8 *separator, u16 *separator_bytes) const {
  *separator_bytes = 0;
  *pos = 0;
  if (count == 0) {
    if (is_leaf) *separator_bytes = cut_beside(new_key, separator);
    return;
  }
  SplitChooser chooser(*this, new_key, separator);
  u8 key[kMaxKeyBytes];
  int order = compare_keys({key, copy_key(static_cast<u16>(count - 1), key)}, new_key);  // of the last key
  // A leaf keeps at least one entry in either half, unless the new key makes a half of its own.
  u32 low = is_leaf ? 1 : 0, high = count - 1u, wanted;
  if (is_leaf && order < 0) high = count;
  if (is_leaf && order > 0 && count == 1) low = 0;
  if (low > high) return;
  if (is_leaf && order > 0) {
    bool found;
    const u16 at = lower_bound(new_key, &found);
    if (!found && continues_run(at)) *separator_bytes = chooser.separator_behind_new_key(at);
    if (*separator_bytes != 0) {
      *pos = at;
      return;
    }
  }
  if (order < 0) wanted = high;
  else wanted = chooser.shortest_near(chooser.middle(low, high), low, high);

  for (u32 distance = 0; distance <= count; distance++) {
    for (u32 at : {wanted - distance, wanted + distance}) {
      if (at < low || at > high) continue;
      *separator_bytes = chooser.separator_at(at);
      *pos = static_cast<u16>(at);
      if (*separator_bytes != 0) return;
    }
  }
}

u16 Node::separator_at(u16 pos, u8 *separator) const {
  LS_ASSERT(is_leaf && pos > 0 && pos < count);
  return SplitChooser(*this, {}, separator).separator_at(pos);
}

// A separator for an empty leaf that leaves new_key with a shorter fence on one side; 0: both are as short as they get.
u16 Node::cut_beside(Bytes new_key, u8 *separator) const {
  if (lower_bytes > new_key.size()) return shortest_between(lower_fence(), new_key, separator);
  if (upper_bytes > new_key.size() + 1) return shortest_between(new_key, upper_fence(), separator);
  return 0;
}

void Node::truncate_right(u16 pos, Bytes separator) {
  PageCopy copy(this);
  const Node &old = copy.node();
  init(old.is_leaf, old.level, old.lower_fence(), separator, true);
  append_range(old, 0, pos);
  if (!is_leaf) std::memcpy(&upper_child, old.value(pos).data(), sizeof upper_child);
  rebuild_hints();
}

void Node::copy_right(u16 pos, Bytes separator, Node *right) const {
  right->init(is_leaf, level, separator, upper_fence(), has_upper);
  right->append_range(*this, is_leaf ? pos : pos + 1u, count);
  right->upper_child = upper_child;
  right->rebuild_hints();
}

// N4 for a leaf made of two.
bool Node::ends_fit() const {
  if (!is_leaf || count == 0) return true;
  return fits_beside_fence(0, lower_bytes) && fits_beside_fence(count - 1u, upper_bytes);
}

bool Node::fits_beside_fence(u32 pos, u32 fence_bytes) const {
  const u32 key_bytes = u32{prefix_bytes} + slots[pos].key_bytes;
  return most_entry_bytes(key_bytes, slots[pos].value_bytes) + fence_bytes + key_bytes + 1 <= kNodeSpace;
}

bool Node::merge(const Node *right, Bytes separator, Node *out) const {
  std::memcpy(&out->header, &header, sizeof header);
  out->init(is_leaf, level, lower_fence(), right->upper_fence(), right->has_upper);
  if (!out->append_if_fits(*this, 0, count)) return false;
  if (!is_leaf) {
    if (!out->fits(separator, sizeof(Swip))) return false;
    out->append(separator, Bytes{reinterpret_cast<const u8 *>(&upper_child), sizeof upper_child});
  }
  if (!out->append_if_fits(*right, 0, right->count)) return false;
  if (!out->ends_fit()) return false;
  out->upper_child = right->upper_child;
  out->rebuild_hints();
  return true;
}

}  // namespace ls
