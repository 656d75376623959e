// node_search.cpp - finding a key in a node: heads first, hints to narrow the range, rests only
// between equal heads.
//
// Everything here may run on bytes that change underneath: each field that bounds a loop or an
// address is loaded once and clamped.  Integer keys differ in their heads as a rule: then the
// search is a loop of conditional moves.  In a dense leaf, where no number is missing, the place is
// computed.
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "btree/node.hpp"
#include "btree/node_entries.hpp"

namespace ls {

namespace {

template <typename Word>
int compare_words(const u8 *a, const u8 *b) {
  Word x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  if (x == y) return 0;
  if constexpr (sizeof(Word) == 8) return __builtin_bswap64(x) < __builtin_bswap64(y) ? -1 : 1;
  return __builtin_bswap32(x) < __builtin_bswap32(y) ? -1 : 1;
}

// As memcmp: fences and keys are short, and a call costs more than the comparison.  The last word
// overlaps the one before.
int compare_bytes(const u8 *a, const u8 *b, size_t n) {
  if (n >= 8) {
    for (size_t at = 0; at + 8 < n; at += 8) {
      if (const int order = compare_words<u64>(a + at, b + at)) return order;
    }
    return compare_words<u64>(a + n - 8, b + n - 8);
  }
  if (n >= 4) {
    const int order = compare_words<u32>(a, b);
    return order != 0 ? order : compare_words<u32>(a + n - 4, b + n - 4);
  }
  for (size_t i = 0; i < n; i++) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

}  // namespace

int compare_keys(Bytes a, Bytes b) {
  if (const int order = compare_bytes(a.data(), b.data(), std::min(a.size(), b.size())))
    return order;
  return a.size() < b.size() ? -1 : a.size() > b.size();
}

namespace {

struct Range {
  u32 low, high;
};

// How many of the hints, which ascend, are below `head`: four at a time, without a branch.
u32 hints_below(const u32 *hints, u32 head) {
  using Four = u32 __attribute__((vector_size(16)));
  Four all{};
  for (u32 i = 0; i < kHintCount; i += 4) {
    Four some;
    std::memcpy(&some, hints + i, sizeof some);
    all -= reinterpret_cast<Four>(some < head);   // true is all ones
  }
  return all[0] + all[1] + all[2] + all[3];
}
static_assert(kHintCount % 4 == 0);

// Where the first slot with a head not below `head` is among n.
Range hinted_range(const u32 *hints, u32 n, u32 head) {
  Range range{0, n};
  if (u32 distance = hint_distance(n)) {
    const u32 below = hints_below(hints, head);
    u32 not_above = below;
    while (not_above < kHintCount && hints[not_above] == head) not_above++;
    // hints[i] is the head of slot (i + 1) * distance
    if (not_above < kHintCount) range.high = std::min(n, (not_above + 1) * distance);
    range.low = std::min(below * distance, range.high);
  }
  return range;
}

// First position in [low, high) with a head not below `head`.  The last few are counted: their
// cache lines are then asked for together, and none of the loads waits for the comparison before.
template <typename View>
u32 first_not_below(const View &entries, u32 low, u32 high, u32 head) {
  constexpr u32 kCounted = 16;
  u32 n = high - low;
  while (n > kCounted) {
    u32 half = n / 2;
    low += entries.head(low + half - 1) < head ? half : 0;
    n -= half;
  }
  u32 below = 0;
  for (u32 i = 0; i < n; i++) below += entries.head(low + i) < head;
  return low + below;
}

}  // namespace

struct Node::Sought {
  explicit Sought(Bytes behind_prefix)
      : head(make_head(behind_prefix)),
        bytes(static_cast<u32>(behind_prefix.size())),
        rest(behind_prefix.subspan(bytes - rest_after_head(bytes))) {
    u8 first[sizeof word]{};
    std::copy_n(rest.begin(), std::min(rest.size(), sizeof first), first);
    std::memcpy(&word, first, sizeof word);
    word = __builtin_bswap64(word);
  }
  u32 head;
  u32 bytes;    // head included
  Bytes rest;   // behind the head
  u64 word;     // its first eight bytes, as the head's four

  // As a number of that many bytes: with zeros for what is missing, without what it has more.
  u64 number(u32 key_bytes) const { return dense_number(u64{head} << 32 | word >> 32, key_bytes); }
};

namespace {

// Where the first key at least `wanted` away from the base is: as many entries are before it, less
// the numbers that are missing.
Range dense_range(const DenseEntries &entries, u32 n, u32 wanted) {
  const u32 high = std::min(n, wanted);
  if (n == 0) return {0, 0};
  const u32 numbers = entries.distance(n - 1) + 1, missing = numbers > n ? numbers - n : 0;
  return {std::min(high, wanted > missing ? wanted - missing : 0), high};
}

}  // namespace

// Order of the key at pos relative to the one sought: negative when it is smaller.  What is behind
// the head is compared a word at first: that is all of an integer.
template <typename View>
int Node::compare_rest(const View &entries, u32 pos, const Sought &sought) const {
  if constexpr (kIsView<DenseEntries, View>) {
    const u64 number = entries.number(pos), other = sought.number(entries.key_bytes(pos));
    if (number != other) return number < other ? -1 : 1;
    return entries.key_bytes(pos) < sought.bytes ? -1 : entries.key_bytes(pos) > sought.bytes;
  }
  const u32 head = entries.head(pos);
  if (head != sought.head) return head < sought.head ? -1 : 1;
  const u32 slot_bytes = entries.key_bytes(pos), stored = rest_after_head(slot_bytes);
  const u32 offset = entries.offset(pos);
  if (offset + stored > kPageSize) return 1;  // torn read, rejected by the caller's validation
  const u8 *bytes = page_bytes(this) + offset;
  u64 word = 0;
  if (offset <= kPageSize - sizeof word) {
    std::memcpy(&word, bytes, sizeof word);
    word = __builtin_bswap64(word);
    if (stored < sizeof word) word &= ~(~u64{0} >> (8 * stored));
  } else {
    for (u32 i = 0; i < stored; i++) word |= u64{bytes[i]} << (56 - 8 * i);
  }
  if (word != sought.word) return word < sought.word ? -1 : 1;
  const size_t common = std::min<size_t>(stored, sought.rest.size());
  if (common > sizeof word) {
    const int order =
        std::memcmp(bytes + sizeof word, sought.rest.data() + sizeof word, common - sizeof word);
    if (order != 0) return order;
  }
  return slot_bytes < sought.bytes ? -1 : slot_bytes > sought.bytes;
}

u16 Node::find(const DenseEntries &entries, const Sought &sought, bool *found) const {
  const u32 n = entry_count(*this, entries), key_bytes = entries.key_bytes(0);
  const u64 number = sought.number(key_bytes);
  *found = false;
  if (number < entries.base()) return 0;
  // A longer key is behind its own beginning; a shorter one, filled up with zeros, is below what it
  // is the beginning of.
  u64 wanted = number - entries.base();
  if (sought.bytes > key_bytes) wanted++;
  if (wanted > kMaxDenseDistance) return static_cast<u16>(n);
  auto [low, high] = dense_range(entries, n, static_cast<u32>(wanted));
  while (low < high) {
    const u32 middle = (low + high) / 2;
    if (entries.distance(middle) < wanted) low = middle + 1;
    else high = middle;
  }
  *found = sought.bytes == key_bytes && low < n && entries.distance(low) == wanted;
  return static_cast<u16>(low);
}

template <typename View>
u16 Node::find(const View &entries, const Sought &sought, bool *found) const {
  const u32 n = entry_count(*this, entries), head = sought.head;
  auto [low, high] = hinted_range(hints, n, head);
  low = first_not_below(entries, low, high, head);

  // Equal heads: the rest decides.
  *found = false;
  if (low >= n || entries.head(low) != head) return static_cast<u16>(low);
  u32 end = low + 1;
  if (end < n && entries.head(end) == head) {
    end = std::max(high, end);
    // Ascending insertions ask for the place behind the last key again and again.
    if (end == n && compare_rest(entries, n - 1, sought) < 0) return static_cast<u16>(n);
  }
  const auto ask_for_rest = [&](u32 pos) {
    __builtin_prefetch(page_bytes(this) + std::min<u32>(entries.offset(pos), kPageSize - 1));
  };
  for (u32 left = end - low; left > 1;) {
    const u32 half = left / 2;
    // Each comparison misses a line: both that may come next are asked for meanwhile.  Six million
    // URLs: 0.44 million look-ups a second without, 0.54 to 0.60 with it; to ask for all with this
    // head, or for the next four, is not better.
    if (const u32 next = (left - half) / 2; next != 0) {
      ask_for_rest(low + next - 1);
      ask_for_rest(low + half + next - 1);
    }
    low += compare_rest(entries, low + half - 1, sought) < 0 ? half : 0;
    left -= half;
  }
  const int order = compare_rest(entries, low, sought);
  *found = order == 0;
  return static_cast<u16>(low + (order < 0));
}

u16 Node::lower_bound(Bytes key, bool *found) const {
  const Sought sought(key.subspan(std::min<size_t>(load_once(prefix_bytes), key.size())));
  return with_entries(*this, [&](const auto &entries) { return find(entries, sought, found); });
}

bool Node::key_is(u32 pos, Bytes key) const {
  const u32 shared = load_once(prefix_bytes);
  if (shared > key.size()) return false;
  const Bytes rest = key.subspan(shared);
  const bool same_rest = with_entries(*this, [&](const auto &entries) {
    if (pos >= entry_count(*this, entries)) return false;
    if (entries.head(pos) != make_head(rest) || entries.key_bytes(pos) != rest.size()) return false;
    return rest.size() <= kHeadBytes || compare_rest(entries, pos, Sought(rest)) == 0;
  });
  if (!same_rest) return false;
  // From the end, where it differs first if it does.  Prefixes of row ids are too short to be worth
  // a call.
  const Bytes common = prefix();
  for (u32 i = shared; i-- > 0;) {
    if (i >= common.size() || common[i] != key[i]) return false;
  }
  return true;
}

Bytes Node::search_range(Bytes key) const {
  const Bytes rest = key.subspan(std::min<size_t>(load_once(prefix_bytes), key.size()));
  return with_entries(*this, [&](const auto &entries) -> Bytes {
    const u32 n = entry_count(*this, entries);
    Range range{0, n};
    if constexpr (!kIsView<DenseEntries, decltype(entries)>)
      range = hinted_range(hints, n, make_head(rest));
    return {entries.slot(range.low), entries.slot(range.high)};
  });
}

u16 Node::position_of(Bytes bound) const {
  if (compare_keys(bound, lower_fence()) <= 0) return 0;
  bool found;
  if (!has_upper || compare_keys(bound, upper_fence()) < 0) return lower_bound(bound, &found);
  return with_entries(
      *this, [&](const auto &entries) { return static_cast<u16>(entry_count(*this, entries)); });
}

u16 Node::position_behind(u16 pos, Bytes inside, Bytes bound) const {
  constexpr u32 kSteps = 2;   // one entry, and what is behind it
  const size_t shared = std::min<size_t>(load_once(prefix_bytes), inside.size());
  return with_entries(*this, [&](const auto &entries) {
    const u32 n = entry_count(*this, entries);
    // Not below `inside`, and without the prefix: above all keys.
    if (bound.size() < shared ||
        (shared != 0 && std::memcmp(bound.data(), inside.data(), shared) != 0))
      return static_cast<u16>(n);
    const Sought sought(bound.subspan(shared));
    for (u32 i = pos; i < pos + kSteps; i++) {
      if (i >= n || compare_rest(entries, i, sought) >= 0) return static_cast<u16>(std::min(i, n));
    }
    bool found;
    return find(entries, sought, &found);
  });
}

u16 Node::child_index(Bytes key) const {
  bool found;
  u16 pos = lower_bound(key, &found);
  return static_cast<u16>(pos + found);
}

void Node::rebuild_hints() {
  const u32 distance = layout == NodeLayout::kDense ? 0 : hint_distance(count);
  with_entries(*this, [&](const auto &entries) {
    for (u32 i = 0; i < kHintCount; i++)
      hints[i] = distance == 0 ? 0 : entries.head((i + 1) * distance);
  });
}

// After an insertion or removal at pos: hints of slots before it have not moved.
void Node::update_hints(u32 pos, u32 old_count) {
  if (layout == NodeLayout::kDense) return;
  const u32 distance = hint_distance(count);
  if (distance == 0 && hint_distance(old_count) == 0) return;
  if (distance != hint_distance(old_count)) return rebuild_hints();
  LS_ASSERT(pos <= count);
  const u32 first = std::min(kHintCount, pos / distance == 0 ? 0 : pos / distance - 1);
  with_entries(*this, [&](const auto &entries) {
    LS_ASSERT(first == 0 || hints[first - 1] == entries.head(first * distance));
    for (u32 i = first; i < kHintCount; i++) hints[i] = entries.head((i + 1) * distance);
  });
}

}  // namespace ls
