// node_verify.cpp - the checker of a single node: every invariant that its bytes alone can show (node.hpp, N1..N3).
// Runs on pages as they come from disk, so it believes nothing before it has checked it.
#include <bitset>
#include <cstring>

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

// Is the number at pos as long as the keys are?
bool is_short_enough(const DenseEntries &entries, u32 pos) {
  const u64 number = entries.number(pos);
  const u32 bytes = entries.key_bytes(pos);
  return number >= entries.base() && dense_number(dense_word(number, bytes), bytes) == number;
}

}  // namespace

const char *Node::verify_layout() const {
  if (header.kind != (is_leaf ? PageKind::kLeaf : PageKind::kInner)) return "page kind and leaf flag differ";
  if (!is_page_format(header.format)) return "unknown page format";
  if (header.zero != 0) return "bytes 14..15 are not zero";
  if (is_leaf > 1 || has_upper > 1) return "flag is neither 0 nor 1";
  if ((level == 0) != (is_leaf == 1)) return "level and leaf flag differ";
  if (layout > NodeLayout::kDense || (layout != NodeLayout::kSlots && !is_leaf)) return "layout of a leaf is wrong";
  if (header.format < oldest_format(layout)) return "layout is newer than the page's format";
  if (layout != NodeLayout::kUniform && uniform_run != 0) return "a node that is not uniform notes a run";
  if (layout == NodeLayout::kSlots && key_bytes != 0) return "a node with slots says how long its keys are";
  if (layout == NodeLayout::kUniform && key_bytes > kMaxUniformKeyBytes) return "keys of a uniform leaf too long";
  if (layout == NodeLayout::kDense && key_bytes > kMaxDenseKeyBytes) return "keys of a dense leaf too long";
  if (reserved != 0) return "reserved byte is not zero";
  if (count > with_entries(*this, [](const auto &entries) { return u32{entries.kMost}; })) return "too many slots";
  if (lower_bytes > kMaxKeyBytes || upper_bytes > kMaxKeyBytes) return "fence too long";
  if (lower_offset + lower_bytes != static_cast<int>(kPageSize)) return "lower fence misplaced";
  if (upper_offset + upper_bytes != lower_offset) return "upper fence misplaced";
  if (!has_upper && upper_bytes != 0) return "absent upper fence has bytes";
  if (slots_end() > heap_start || heap_start > heap_end()) return "slots and heap overlap";

  if (layout == NodeLayout::kUniform) {
    if (heap_used != count * UniformEntries(*this).size()) return "heap_used is not the sum of the entries";
    return heap_start + heap_used == static_cast<int>(heap_end()) ? nullptr : "gap in the heap of a uniform leaf";
  }
  return with_entries(*this, [&](const auto &entries) { return verify_heap(entries); });
}

template <typename View>
const char *Node::verify_heap(const View &entries) const {
  std::bitset<kPageSize> taken;
  u32 sum = 0;
  for (u32 i = 0; i < count; i++) {
    const u32 bytes = entries.heap_room(i), offset = entries.offset(i);
    if (bytes == 0 && offset <= heap_end()) continue;  // nothing there; heap_start may have passed it
    if (offset < heap_start || offset + bytes > heap_end()) return "entry outside of the heap";
    if (!is_leaf && (offset % 8 != 0 || entries.value_bytes(i) != sizeof(Swip))) return "child reference misplaced";
    sum += bytes;
    for (u32 at = offset; at < offset + bytes; at++) {
      if (taken[at]) return "entries overlap";
      taken[at] = true;
    }
  }
  if (sum != heap_used) return "heap_used is not the sum of the entries";
  return nullptr;
}

const char *Node::verify_keys() const {
  if (has_upper && compare_keys(lower_fence(), upper_fence()) >= 0) return "fences out of order";
  u32 common = 0;
  if (has_upper)
    while (common < lower_bytes && common < upper_bytes && lower_fence()[common] == upper_fence()[common]) common++;
  if (common != prefix_bytes) return "prefix is not the common prefix of the fences";
  u8 buffers[2][kMaxKeyBytes];
  Bytes previous;
  for (u16 i = 0; i < count; i++) {
    u32 bytes, head;
    with_entries(*this, [&](const auto &entries) {
      bytes = entries.key_bytes(i);
      head = entries.head(i);
    });
    if (prefix_bytes + bytes > kMaxKeyBytes) return "key too long";
    if (layout == NodeLayout::kDense && !is_short_enough(DenseEntries(*this), i)) return "number of a dense leaf has more bytes than its keys";
    u8 *buffer = buffers[i % 2];
    Bytes key{buffer, copy_key(i, buffer)};
    if (head != make_head(key.subspan(prefix_bytes))) return "head has bytes beyond the key";
    if (!covers(key)) return "key outside of the fences";
    if (i != 0 && compare_keys(previous, key) >= 0) return "keys out of order";
    if (!is_leaf && i == 0 && compare_keys(lower_fence(), key) == 0) return "separator equals the lower fence";
    bool found;
    if (lower_bound(key, &found) != i || !found) return "key is not found by searching (hints)";
    previous = key;
  }
  return nullptr;
}

const char *Node::verify() const {
  if (const char *wrong = verify_layout()) return wrong;
  if (const char *wrong = verify_keys()) return wrong;
  if (is_leaf) return layout == NodeLayout::kDense || upper_child == 0 ? nullptr : "leaf has a child";
  for (u16 i = 0; i <= count; i++)
    if (const_cast<Node *>(this)->child(i)->is_null()) return "child reference is null";
  return nullptr;
}

}  // namespace ls
