// node_verify.cpp - the checker of a single node: every invariant that its bytes alone can show (node.hpp, N1..N3).
// Runs on pages as they come from disk, so it believes nothing before it has checked it.
#include <bitset>
#include <cstring>

#include "btree/node.hpp"
#include "btree/node_entries.hpp"

namespace ls {

const char *Node::verify_layout() const {
  if (header.kind != (is_leaf ? PageKind::kLeaf : PageKind::kInner)) return "page kind and leaf flag differ";
  if (!is_page_format(header.format)) return "unknown page format";
  if (header.zero != 0) return "bytes 14..15 are not zero";
  if (is_leaf > 1 || has_upper > 1) return "flag is neither 0 nor 1";
  if ((level == 0) != (is_leaf == 1)) return "level and leaf flag differ";
  if (uniform > 1 || (uniform && (!is_leaf || header.format != kPageFormat))) return "flag of a uniform leaf is wrong";
  if (!uniform && (uniform_key != 0 || uniform_run != 0)) return "a node that is not uniform says how long its keys are";
  if (uniform && uniform_key > kMaxUniformKeyBytes) return "keys of a uniform leaf too long";
  if (reserved != 0) return "reserved byte is not zero";
  if (count > (uniform ? kMaxEntries : kMaxSlots)) return "too many slots";
  if (lower_bytes > kMaxKeyBytes || upper_bytes > kMaxKeyBytes) return "fence too long";
  if (lower_offset + lower_bytes != static_cast<int>(kPageSize)) return "lower fence misplaced";
  if (upper_offset + upper_bytes != lower_offset) return "upper fence misplaced";
  if (!has_upper && upper_bytes != 0) return "absent upper fence has bytes";
  if (slots_end() > heap_start || heap_start > heap_end()) return "slots and heap overlap";

  if (uniform) {
    if (heap_used != count * UniformEntries(*this).size()) return "heap_used is not the sum of the entries";
    return heap_start + heap_used == static_cast<int>(heap_end()) ? nullptr : "gap in the heap of a uniform leaf";
  }
  std::bitset<kPageSize> taken;
  u32 sum = 0;
  for (u32 i = 0; i < count; i++) {
    const Slot &slot = slots[i];
    u32 bytes = heap_bytes(rest_after_head(slot.key_bytes), slot.value_bytes);
    if (bytes == 0 && slot.offset <= heap_end()) continue;  // nothing there; heap_start may have passed it
    if (slot.offset < heap_start || slot.offset + bytes > heap_end()) return "entry outside of the heap";
    if (!is_leaf && (slot.offset % 8 != 0 || slot.value_bytes != sizeof(Swip))) return "child reference misplaced";
    sum += bytes;
    for (u32 at = slot.offset; at < slot.offset + bytes; at++) {
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
    u32 key_bytes, head;
    with_entries(*this, [&](const auto &entries) {
      key_bytes = entries.key_bytes(i);
      head = entries.head(i);
    });
    if (prefix_bytes + key_bytes > kMaxKeyBytes) return "key too long";
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
  if (is_leaf) return upper_child == 0 ? nullptr : "leaf has a child";
  for (u16 i = 0; i <= count; i++)
    if (const_cast<Node *>(this)->child(i)->is_null()) return "child reference is null";
  return nullptr;
}

}  // namespace ls
