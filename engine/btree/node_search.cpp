// node_search.cpp - finding a key in a node: heads first, hints to narrow the range, rests only between equal heads.
//
// Everything here may run on bytes that change underneath: each field that bounds a loop or an address is loaded once and
// clamped.  Integer keys (row ids) differ in their heads as a rule: then the search is a loop of conditional moves.
#include <algorithm>
#include <cstring>

#include "btree/node.hpp"
#include "btree/node_bytes.hpp"

namespace ls {

int compare_keys(Bytes a, Bytes b) {
  size_t common = std::min(a.size(), b.size());
  int order = common == 0 ? 0 : std::memcmp(a.data(), b.data(), common);
  if (order != 0) return order;
  return a.size() < b.size() ? -1 : a.size() > b.size();
}

namespace {

// Slots of one node and how many of them may be looked at.
struct Heads {
  const Slot *slots;
  u32 at(u32 pos) const { return slot_head(slots[pos]); }
};

// Distance of hinted slots; 0: too few slots for hints.
constexpr u32 hint_distance(u32 count) { return count < 2 * kHintCount ? 0 : count / (kHintCount + 1); }

struct Range {
  u32 low, high;
};

// Where the first slot whose head is not below `head` is among n.
Range hinted_range(const u32 *hints, u32 n, u32 head) {
  Range range{0, n};
  if (u32 distance = hint_distance(n)) {
    u32 below = 0, not_above = 0;
    for (u32 i = 0; i < kHintCount; i++) {
      below += hints[i] < head;
      not_above += hints[i] <= head;
    }
    // hints[i] is the head of slot (i + 1) * distance
    if (not_above < kHintCount) range.high = std::min(n, (not_above + 1) * distance);
    range.low = std::min(below * distance, range.high);
  }
  return range;
}

// First position in [low, high) whose head is not below `head`.
u32 first_not_below(Heads heads, u32 low, u32 high, u32 head) {
  u32 n = high - low;
  while (n > 1) {
    u32 half = n / 2;
    low += heads.at(low + half - 1) < head ? half : 0;
    n -= half;
  }
  return low + (n == 1 && heads.at(low) < head ? 1 : 0);
}

}  // namespace

// Order of the key at pos relative to (head, rest): negative when it is smaller.
int Node::compare_rest(u32 pos, u32 head, Bytes rest) const {
  const Slot &slot = slots[pos];
  u32 slot_head_value = slot_head(slot);
  if (slot_head_value != head) return slot_head_value < head ? -1 : 1;
  u32 slot_bytes = load_once(slot.key_bytes);
  u32 stored = slot_bytes > kHeadBytes ? slot_bytes - kHeadBytes : 0;
  u32 offset = load_once(slot.offset);
  if (offset + stored > kPageSize) return 1;  // torn read, rejected by the caller's validation
  u32 given = rest.size() > kHeadBytes ? static_cast<u32>(rest.size()) - kHeadBytes : 0;
  u32 common = std::min(stored, given);
  if (common != 0) {
    int order = std::memcmp(page_bytes(this) + offset, rest.data() + kHeadBytes, common);
    if (order != 0) return order;
  }
  u32 given_bytes = static_cast<u32>(rest.size());
  return slot_bytes < given_bytes ? -1 : slot_bytes > given_bytes;
}

u16 Node::lower_bound(Bytes key, bool *found) const {
  u32 n = std::min<u32>(load_once(count), kMaxSlots);
  Bytes rest = key.subspan(std::min<size_t>(load_once(prefix_bytes), key.size()));
  u32 head = make_head(rest);
  Heads heads{slots};

  auto [low, high] = hinted_range(hints, n, head);
  low = first_not_below(heads, low, high, head);

  // Equal heads: the rest decides.
  *found = false;
  if (low < n && heads.at(low) == head) {
    // Ascending insertions ask for the place behind the last key again and again.
    if (heads.at(n - 1) == head && compare_rest(n - 1, head, rest) < 0) return static_cast<u16>(n);
    u32 end = n;
    if (low + 1 < n && heads.at(low + 1) != head) end = low + 1;
    while (low < end) {
      u32 middle = low + (end - low) / 2;
      int order = compare_rest(middle, head, rest);
      if (order == 0) {
        *found = true;
        return static_cast<u16>(middle);
      }
      if (order < 0) low = middle + 1;
      else end = middle;
    }
  }
  return static_cast<u16>(low);
}

std::span<const Slot> Node::search_range(Bytes key) const {
  const u32 n = std::min<u32>(load_once(count), kMaxSlots);
  const Bytes rest = key.subspan(std::min<size_t>(load_once(prefix_bytes), key.size()));
  const Range range = hinted_range(hints, n, make_head(rest));
  return {slots + range.low, slots + range.high};
}

u16 Node::position_of(Bytes bound) const {
  if (compare_keys(bound, lower_fence()) <= 0) return 0;
  bool found;
  if (!has_upper || compare_keys(bound, upper_fence()) < 0) return lower_bound(bound, &found);
  return static_cast<u16>(std::min<u32>(load_once(count), kMaxSlots));
}

u16 Node::child_index(Bytes key) const {
  bool found;
  u16 pos = lower_bound(key, &found);
  return static_cast<u16>(pos + found);
}

void Node::rebuild_hints() {
  u32 distance = hint_distance(count);
  for (u32 i = 0; i < kHintCount; i++) hints[i] = distance == 0 ? 0 : slot_head(slots[(i + 1) * distance]);
}

// After an insertion or removal at pos: hints of slots before it have not moved.
void Node::update_hints(u32 pos, u32 old_count) {
  u32 distance = hint_distance(count);
  if (distance == 0 && hint_distance(old_count) == 0) return;
  if (distance != hint_distance(old_count)) return rebuild_hints();
  for (u32 i = pos / distance == 0 ? 0 : pos / distance - 1; i < kHintCount; i++)
    hints[i] = slot_head(slots[(i + 1) * distance]);
}

}  // namespace ls
