// node_verify.cpp - the checker of a single node: every invariant that its bytes alone can show
// (node.hpp, NODE-1 to NODE-3).  Runs on pages as they come from disk, so it believes nothing
// before it has checked it; and on each of them, so it looks at an entry once.
#include <cstring>

#include "base/check.hpp"
#include "btree/node.hpp"
#include "btree/node_entries.hpp"

namespace ls {

namespace {

// Of the pages in which a leaf may have this layout.
u8 oldest_format(NodeLayout layout) {
  switch (layout) {
    case NodeLayout::kDense: return kDenseLeafFormat;
    case NodeLayout::kUniform: return kUniformLeafFormat;
    default: return kOldestPageFormat;
  }
}

// Which bytes of a page entries have.
class TakenBytes {
 public:
  // [begin, end), not empty.  False: another entry has some of them.
  bool take(u32 begin, u32 end) {
    LS_ASSERT(begin < end && end <= kPageSize);
    const u32 last = (end - 1) / kBits;
    for (u32 word = begin / kBits; word <= last; word++) {
      u64 bits = ~u64{0};
      if (word == begin / kBits) bits &= ~u64{0} << (begin % kBits);
      if (word == last) bits &= ~u64{0} >> (kBits - 1 - (end - 1) % kBits);
      if (words_[word] & bits) return false;
      words_[word] |= bits;
    }
    return true;
  }

 private:
  static constexpr u32 kBits = 64;
  u64 words_[kPageSize / kBits]{};
};

// What a head has behind a key of that length: zeros.
constexpr u32 beyond_key(u32 key_bytes) {
  if (kHeadBytes == 0) return ~u32{0};
  return key_bytes >= kHeadBytes ? 0 : ~u32{0} >> (8 * key_bytes);
}

// Is the last number, and so each before it, as long as the keys are, and not beyond the largest
// one?
bool is_short_enough(const DenseEntries &entries, u32 last) {
  const u64 number = entries.number(last);
  const u32 bytes = entries.key_bytes(last);
  return number >= entries.base() && dense_number(dense_word(number, bytes), bytes) == number;
}

}  // namespace

const char *Node::verify_layout() const {
  if (header.kind != (is_leaf ? PageKind::kLeaf : PageKind::kInner))
    return "page kind and leaf flag differ";
  if (!is_page_format(header.format)) return "unknown page format";
  if (header.zero != 0) return "bytes 14..15 are not zero";
  if (is_leaf > 1 || has_upper > 1) return "flag is neither 0 nor 1";
  if ((level == 0) != (is_leaf == 1)) return "level and leaf flag differ";
  if (layout > NodeLayout::kDense || (layout != NodeLayout::kSlots && !is_leaf))
    return "layout of a leaf is wrong";
  if (header.format < oldest_format(layout)) return "layout is newer than the page's format";
  if (layout != NodeLayout::kUniform && uniform_run != 0)
    return "a node that is not uniform notes a run";
  if (layout == NodeLayout::kSlots && key_bytes != 0)
    return "a node with slots says how long its keys are";
  if (layout == NodeLayout::kUniform && key_bytes > kMaxUniformKeyBytes)
    return "keys of a uniform leaf too long";
  if (layout == NodeLayout::kDense && key_bytes > kMaxDenseKeyBytes)
    return "keys of a dense leaf too long";
  if (reserved != 0) return "reserved byte is not zero";
  if (count > with_entries(*this, [](const auto &entries) { return u32{entries.kMost}; }))
    return "too many slots";
  if (lower_bytes > kMaxKeyBytes || upper_bytes > kMaxKeyBytes) return "fence too long";
  if (lower_offset + lower_bytes != static_cast<int>(kPageSize)) return "lower fence misplaced";
  if (upper_offset + upper_bytes != lower_offset) return "upper fence misplaced";
  if (!has_upper && upper_bytes != 0) return "absent upper fence has bytes";
  if (slots_end() > heap_start || heap_start > heap_end()) return "slots and heap overlap";
  // The next child's reference comes in front of it.
  if (!is_leaf && heap_start % alignof(Swip) != 0) return "heap of an inner node misplaced";
  if (has_upper && compare_keys(lower_fence(), upper_fence()) >= 0) return "fences out of order";
  const u32 common = kWithPrefix && has_upper ? common_prefix(lower_fence(), upper_fence()) : 0;
  if (common != prefix_bytes) return "prefix is not the common prefix of the fences";
  return nullptr;
}

// The layout is good.
template <typename View>
const char *Node::verify_entries(const View &entries) const {
  TakenBytes taken;
  u32 used = 0, head_before = 0;
  for (u32 i = 0; i < count; i++) {
    const u32 key = entries.key_bytes(i), room = entries.heap_room(i), offset = entries.offset(i),
              head = entries.head(i);
    if (prefix_bytes + key > kMaxKeyBytes) return "key too long";
    if (head & beyond_key(key)) return "head has bytes beyond the key";
    // What has no bytes may lie anywhere: heap_start may have passed it.
    if (room == 0 ? offset > heap_end() : offset < heap_start || offset + room > heap_end())
      return "entry outside of the heap";
    if (!is_leaf && (offset % 8 != 0 || entries.value_bytes(i) != sizeof(Swip)))
      return "child reference misplaced";
    // Uniform entries lie side by side.
    if (!kIsView<UniformEntries, View> && room != 0 && !taken.take(offset, offset + room))
      return "entries overlap";
    used += room;
    if (i != 0 && !is_behind(entries, i, head_before, head)) return "keys out of order";
    head_before = head;
  }
  if (used != heap_used) return "heap_used is not the sum of the entries";
  if constexpr (kIsView<UniformEntries, View>) {
    if (heap_start + heap_used != heap_end()) return "gap in the heap of a uniform leaf";
  }
  if constexpr (kIsView<DenseEntries, View>) {
    if (count != 0 && !is_short_enough(entries, count - 1u))
      return "number of a dense leaf has more bytes than its keys";
  } else {
    if (!hints_are_heads(entries)) return "hint is not the head of its slot";
  }
  return nullptr;
}

// Is the key at pos greater than the one before it?  Dense numbers in order that are all short
// enough have heads in order, too.
template <typename View>
bool Node::is_behind(const View &entries, u32 pos, u32 head_before, u32 head) const {
  if constexpr (kIsView<DenseEntries, View>)
    return entries.distance(pos - 1) < entries.distance(pos);
  if (head != head_before) return head > head_before;
  const auto rest = [&](u32 at) {
    return Bytes(page_bytes(this) + entries.offset(at), rest_after_head(entries.key_bytes(at)));
  };
  const int order = compare_keys(rest(pos - 1), rest(pos));
  return order < 0 || (order == 0 && entries.key_bytes(pos - 1) < entries.key_bytes(pos));
}

template <typename View>
bool Node::hints_are_heads(const View &entries) const {
  const u32 distance = hint_distance(count);
  for (u32 i = 0; distance != 0 && i < kHintCount; i++) {
    if (hints[i] != entries.head((i + 1) * distance)) return false;
  }
  return true;
}

// They are in order.
const char *Node::verify_ends() const {
  if (count == 0) return nullptr;
  u8 key[kMaxKeyBytes];
  const int order = compare_keys(lower_fence(), {key, copy_key(0, key)});
  if (order > 0) return "key outside of the fences";
  if (!is_leaf && order == 0) return "separator equals the lower fence";
  if (has_upper &&
      compare_keys({key, copy_key(static_cast<u16>(count - 1), key)}, upper_fence()) >= 0)
    return "key outside of the fences";
  return nullptr;
}

const char *Node::verify() const {
  if (const char *wrong = verify_layout()) return wrong;
  if (const char *wrong =
          with_entries(*this, [&](const auto &entries) { return verify_entries(entries); }))
    return wrong;
  if (const char *wrong = verify_ends()) return wrong;
  if (is_leaf)
    return layout == NodeLayout::kDense || upper_child == 0 ? nullptr : "leaf has a child";
  for (u16 i = 0; i <= count; i++)
    if (const_cast<Node *>(this)->child(i)->is_null()) return "child reference is null";
  return nullptr;
}

}  // namespace ls
