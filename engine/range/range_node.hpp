// range_node.hpp - what cells are: nodes, towers, span lists, key tails; references with
// incarnation.
#pragma once
#include "range/range_key.hpp"
#include "range/range_memory.hpp"

namespace ls {

// in a link: the holder of the link has been removed from this level
inline constexpr u64 kRemoved = 1;
inline constexpr u64 kAlive = u64{1} << 32;      // in RangeCell::life
inline constexpr u32 kTowerLevels = 6;           // 8 * 4^6 nodes

// Place of a request in the queue.  kAnnouncing: it has none and is given none (RangeList, LIST-3).
inline constexpr u64 kUndecided = 0, kGranted = 1, kFirstTicket = 2, kAnnouncing = ~u64{0};

enum RangeMode : u8 { kRangeShared = 1, kRangeExclusive = 2 };

struct RangeOwner {
  u32 slot = 0, number = 0;
  bool operator==(const RangeOwner &) const = default;
};

template <typename P>
struct RangeTower;
template <typename P>
struct RangeTail;

// A range: held, or asked for.  All but next (RangeNode* | kRemoved), rank, life and link is
// constant while the node can be reached.  What changes is in the first cache line, the place in
// the second: a search that only comes by does not wait for the first.
template <typename P>
struct RangeNode : RangeCell<P> {
  typename P::template Atomic<u64> rank;   // kAnnouncing, kUndecided, kGranted, or a ticket
  u64 to[kRangeWords];
  RangeOwner owner;

  RangeTree tree;
  u64 from[kRangeWords];
  RangeTower<P> *tower;                    // null: no index node
  u16 from_len, to_len;
  RangeMode mode;
  bool to_end;
  // private to the owner: about to be removed, a wider range takes its place
  bool absorbed;
  union {
    // has_tail: bytes of `from`, then of `to`, behind the words
    RangeTail<P> *tail;
    // others; private to the owner: reference to the node after which it was linked
    u64 before;
  };

  bool has_tail() const { return from_len > kRangeWordBytes || to_len > kRangeWordBytes; }
};

// An index node: a node at which searches may begin, a range or one no more.  Its span list has
// references to the ranges that begin before it and reach beyond its place; free or dead entries
// are used again.
// next: RangeSpan* | kRemoved, more entries.
template <typename P>
struct RangeTower : RangeCell<P> {
  static constexpr u32 kEntries = 2;
  RangeNode<P> *node;
  // the node's, and its first word: searches pass without looking at the node
  RangeTree tree;
  u64 from0;
  typename P::template Atomic<u64> links[kTowerLevels];  // RangeTower* | kRemoved
  typename P::template Atomic<u64> entries[kEntries];
  u32 height;
};

template <typename P>
struct RangeSpan : RangeCell<P> {
  static constexpr u32 kEntries = 13;
  typename P::template Atomic<u64> entries[kEntries];
};

template <typename P>
struct RangeTail : RangeCell<P> {
  static constexpr u32 kBytes = kRangeCellBytes - sizeof(RangeCell<P>);
  u8 bytes[kBytes];

  RangeTail *following() const {
    return reinterpret_cast<RangeTail *>(this->next.load(std::memory_order_relaxed));
  }
};

static_assert(sizeof(RangeNode<HardwareAtomics>) == kRangeCellBytes);
static_assert(sizeof(RangeTower<HardwareAtomics>) == kRangeCellBytes);
static_assert(sizeof(RangeSpan<HardwareAtomics>) == kRangeCellBytes);
static_assert(sizeof(RangeTail<HardwareAtomics>) == kRangeCellBytes);

// Cells that a node with these bounds needs for the tails of its keys.
template <typename P>
u32 range_tail_cells(const RangeBounds &b) {
  u32 bytes = b.from.tail_len() + (b.to_end ? 0 : b.to.tail_len());
  return (bytes + RangeTail<P>::kBytes - 1) / RangeTail<P>::kBytes;
}

// memcmp of a key's tail with what lies at `offset` of a node's tails, over `len` bytes.
template <typename P>
int compare_tails(const RangeTail<P> *cell, u32 offset, const u8 *tail, u32 len) {
  for (; offset >= RangeTail<P>::kBytes; offset -= RangeTail<P>::kBytes) cell = cell->following();
  while (len) {
    u32 n = RangeTail<P>::kBytes - offset < len ? RangeTail<P>::kBytes - offset : len;
    if (int c = std::memcmp(cell->bytes + offset, tail, n)) return c;
    tail += n;
    len -= n;
    offset = 0;
    cell = cell->following();
  }
  return 0;
}

template <typename P>
[[gnu::noinline]] int compare_stored(const u64 *words, u32 stored_len, const RangeTail<P> *tail,
                                     u32 tail_offset, const RangeKey &key) {
  for (u32 i = 0; i < kRangeWords; i++)
    if (words[i] != key.word[i]) return words[i] < key.word[i] ? -1 : 1;
  if (stored_len > kRangeWordBytes && key.len > kRangeWordBytes) {
    u32 common = (stored_len < key.len ? stored_len : key.len) - kRangeWordBytes;
    if (int c = compare_tails(tail, tail_offset, key.tail, common)) return c;
  }
  return compare_lengths(stored_len, key.len);
}

// The node's bounds against a key of the same tree.
template <typename P>
int compare_from(const RangeNode<P> &n, const RangeKey &key) {
  if (n.from[0] != key.word[0]) return n.from[0] < key.word[0] ? -1 : 1;
  return compare_stored(n.from, n.from_len, n.tail, 0, key);
}
template <typename P>
int compare_to(const RangeNode<P> &n, const RangeKey &key) {
  if (n.to_end) return 1;
  if (n.to[0] != key.word[0]) return n.to[0] < key.word[0] ? -1 : 1;
  return compare_stored(n.to, n.to_len, n.tail,
                        n.from_len > kRangeWordBytes ? n.from_len - kRangeWordBytes : 0, key);
}
// The node's place in the order against another.
template <typename P>
int compare_place(const RangeNode<P> &n, const RangeTree &tree, const RangeKey &key) {
  if (int c = compare(n.tree, tree)) return c;
  return compare_from(n, key);
}

template <typename P>
int compare_place(const RangeTower<P> &t, const RangeTree &tree, const RangeKey &key) {
  if (int c = compare(t.tree, tree)) return c;
  if (t.from0 != key.word[0]) return t.from0 < key.word[0] ? -1 : 1;
  return compare_from(*t.node, key);
}

// Bounds of a node, read out of it; valid while this object and the node are.
template <typename P>
class NodeBounds {
 public:
  NodeBounds() = default;
  explicit NodeBounds(const RangeNode<P> &n) { read(n); }
  NodeBounds(const NodeBounds &) = delete;
  NodeBounds &operator=(const NodeBounds &) = delete;
  void read(const RangeNode<P> &n) {
    bounds_.tree = n.tree;
    bounds_.to_end = n.to_end;
    std::memcpy(bounds_.from.word, n.from, sizeof n.from);
    std::memcpy(bounds_.to.word, n.to, sizeof n.to);
    bounds_.from.len = n.from_len;
    bounds_.to.len = n.to_len;
    u32 bytes = bounds_.from.tail_len() + bounds_.to.tail_len(), done = 0;
    for (const RangeTail<P> *cell = n.tail; done < bytes; cell = cell->following()) {
      u32 part = bytes - done < RangeTail<P>::kBytes ? bytes - done : RangeTail<P>::kBytes;
      std::memcpy(tails_ + done, cell->bytes, part);
      done += part;
    }
    bounds_.from.tail = tails_;
    bounds_.to.tail = tails_ + bounds_.from.tail_len();
  }
  const RangeBounds &operator*() const { return bounds_; }

 private:
  RangeBounds bounds_;
  u8 tails_[2 * kMaxRangeKeyBytes];
};

}  // namespace ls
