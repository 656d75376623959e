// node.hpp - a B+-tree page as pure bytes: slots, heads, hints, fences, prefix (LeanStore paper,
// section 4).  Knows no latch, no pool, no log.  Any method may be called on bytes that change
// underneath (optimistic readers): offsets and lengths are clamped to the page and loops are
// bounded, so the worst is a wrong answer that valid() then rejects.
//
// Layout:  NodeHeader | slots, growing up | free | heap of (key rest, value), growing down | fences
// are in the heap.
// Slot: offset, key length, value length, head.  Keys are stored without the prefix common to both
// fences; the first four bytes of what remains are the head (big-endian integer, zero padded) and
// are not stored again in the heap.  Two kinds of leaves need less (NodeLayout):
// - dense: keys of one length, at most eight bytes, that are numbers near each other, like the row
//   ids of a table.  A slot has offset and length of the value and the distance from a number in
//   the header, four bytes for all; of the keys nothing is stored.
// - uniform: keys of one length, and no values.  A slot is the head; the heap is an array of key
//   rests in the order of the keys, from the end down.  An entry of an index of integers takes 7
//   bytes then instead of 14.
// The first entry of a leaf makes it dense if its key is short enough, else uniform if it has no
// value.  One that is different makes a dense leaf uniform, if that suits all, or gives all of them
// slots with everything.
// Fences: lower exclusive?  LOWER IS INCLUSIVE HERE AND UPPER EXCLUSIVE: a node holds keys with
// lower <= key < upper; an absent upper fence is +infinity, an empty lower fence -infinity.  (The
// paper has (lower, upper]; with inclusive lower the right-edge split separator is simply the new
// key and suffix truncation takes the shortest string s with last_left < s <= first_right.)
//
// NODE-1  Prefix = common prefix of both fences (none without an upper fence); every key and both
//         fences start with it.
// NODE-2  Heap entries lie in [heap_start, heap_end()), do not overlap, and heap_used is the sum of
//         their sizes.
// NODE-3  Inner entries have 8-aligned offsets and sizes (key rest padded), so that a swip is an
//         aligned word.
// NODE-4  The first entry of a leaf fits a page beside the leaf's lower fence and a separator
//         behind it, the last one beside the upper fence and a separator before it: so a leaf can
//         always be split next to any of its entries (has_room keeps that).
// NODE-5  The outcome of every change depends on the page's bytes and the arguments alone: redo
//         repeats it.
#pragma once
#include <span>

#include "btree/node_features.hpp"
#include "buffer/page.hpp"
#include "buffer/swip.hpp"

namespace ls {

using Bytes = std::span<const u8>;
class DenseEntries;

// Both fences and one more separator of this size fit an inner page: so a full inner page can
// always be split, and the half that gets the new separator has room for it.
inline constexpr u32 kMaxKeyBytes = 1312;
inline constexpr u32 kHintCount = 16;
inline constexpr u32 kHeadBytes = kWithHeads ? 4 : 0;

struct Slot {
  u16 offset;      // of the entry in the page
  u16 key_bytes;   // without prefix, head included
  u16 value_bytes;
  u16 head_high;   // head split in two to keep the slot at 10 bytes
  u16 head_low;
};
static_assert(sizeof(Slot) == 10);
enum class NodeLayout : u8 { kSlots = 0, kUniform = 1, kDense = 2 };
inline constexpr u32 kUniformSlotBytes = 4, kDenseSlotBytes = 4;
inline constexpr u32 kMaxDenseKeyBytes = 8;       // behind the prefix
inline constexpr u32 kMaxDenseDistance = 255;     // of a key from dense_base
// Behind the prefix: longer ones gain little, and a large array moves with each insertion in the
// middle.
inline constexpr u32 kMaxUniformKeyBytes = 128;

struct Node {
  PageHeader header;
  u8 is_leaf;
  u8 level;            // leaf = 0
  u16 count;
  u16 heap_start;      // lowest heap byte
  u16 heap_used;       // live heap bytes (the rest between heap_start and the end is reclaimable)
  u16 prefix_bytes;
  u16 lower_offset, lower_bytes;
  u16 upper_offset, upper_bytes;
  u8 has_upper;
  NodeLayout layout;   // leaves only: not kSlots
  u8 key_bytes;        // of each key of a uniform or dense leaf: without prefix, head included
  u8 reserved;
  // uniform leaf: place of the last insertion, times kRunUnit, and how many before it, itself
  // included, came each behind the one before
  u16 uniform_run;
  union {
    u64 upper_child;   // Swip: inner nodes, child for keys >= last separator
    // dense leaf: not above the lowest of its keys (without prefix, as big-endian numbers)
    u64 dense_base;
  };
  u32 hints[kHintCount];
  Slot slots[];

  static constexpr u32 kRunUnit = 16;   // of uniform_run; runs are counted up to one less

  // What insert() takes at most for such an entry: what to ask of BTree::leaf_exclusive when the
  // leaf is not known yet.
  static constexpr u32 most_entry_bytes(u32 key_bytes, u32 value_bytes) {
    return static_cast<u32>(sizeof(Slot)) + key_bytes + value_bytes;
  }
  // A value of this size always finds a place behind a key of `key_bytes`, whatever the fences are.
  static constexpr u32 max_value_bytes(u32 key_bytes);

  // An empty node with these fences (header.kind and format set; gsn, page_no untouched; the
  // arguments may lie in this page).
  void init(bool leaf, u8 level, Bytes lower, Bytes upper, bool has_upper);

  // ---- reading
  Bytes lower_fence() const;
  Bytes upper_fence() const;
  Bytes prefix() const;
  // First position with a key >= `key` (count when none); *found: equal.  key is whole (prefix
  // included) and must lie within the fences.
  u16 lower_bound(Bytes key, bool *found) const;
  // Is there an entry at `pos`, and is `key`, which may lie outside of the fences, its key?
  bool key_is(u32 pos, Bytes key) const;
  // Inner: position of the child to descend for key: in 0..count, count = upper_child.  child i
  // holds keys < separator i.
  u16 child_index(Bytes key) const;
  // The slots that lower_bound() may have to look at, by the hints alone.
  Bytes search_range(Bytes key) const;
  Swip *child(u16 index);
  u16 copy_key(u16 pos, u8 *out /* kMaxKeyBytes */) const;  // whole key; returns length
  // The same to where the node's prefix is already.
  u16 copy_key_behind_prefix(u16 pos, u8 *out) const;
  Bytes value(u16 pos) const;
  u8 *value_data(u16 pos);
  u32 free_bytes() const;                // available after compaction
  // what insert would take: slot, and what the others need for another layout
  u32 entry_bytes(Bytes key, u32 value_bytes) const;
  u32 stored_bytes(u32 pos) const;                    // what an entry takes, slot included
  bool fits(Bytes key, u32 value_bytes) const;
  // Is there room for `need` more bytes of an entry with this key, now and after the splits to come
  // (NODE-4)? Entries without a value are what uniform leaves have: a need that is for one is known
  // by its size (most_entry_bytes).  In a dense leaf a little more is asked for than an entry
  // takes.
  bool has_room(Bytes key, u32 need) const;
  u32 used_bytes() const;                // payload: for merge decisions
  bool covers(Bytes key) const;          // lower <= key < upper
  // First position with a key >= `bound`, which may lie outside of the fences.
  u16 position_of(Bytes bound) const;
  // The same where the keys before `pos` are below it, and `inside`, which lies within the fences,
  // is not above it; quick when the place is near.
  u16 position_behind(u16 pos, Bytes inside, Bytes bound) const;
  // Leaf: the header, the fences and entries [begin, end) to the same places of the page `out`;
  // what else is there is left as it is, so only reading methods that name one of these entries, or
  // a fence, may be called on it.
  void copy_slice(u16 begin, u16 end, u8 *out) const;

  // ---- changing (exclusive)
  // Key absent and fits.  Compacts when needed.  Returns the position.
  u16 insert(Bytes key, Bytes value_a, Bytes value_b = {});
  // At pos, where lower_bound() has not found it.
  void insert_at(u32 pos, Bytes key, Bytes value_a, Bytes value_b = {});
  // Key greater than all present, and fits below what is in the heap; the hints are left to
  // rebuild_hints().
  void append(Bytes key, Bytes value_a, Bytes value_b = {});
  // The same; compacts when needed.
  void append_compacting(Bytes key, Bytes value_a, Bytes value_b);
  void remove(u16 pos);
  void remove_front(u16 n);  // the first n entries
  // Change the length of a value; old bytes up to min(old, new) are kept.  False when it does not
  // fit.
  bool resize_value(u16 pos, u32 bytes);
  void compact();
  void rebuild_hints();

  // ---- structure; deterministic in the bytes, so that redo repeats them
  // Where to split a full node: position and separator (suffix-truncated; at most kMaxKeyBytes).
  // When new_key, for which room is needed, is greater than all keys, everything stays left:
  // ascending insertions leave full pages behind.  Where it goes on with a run of them between
  // other entries, the leaf is cut behind it.  A leaf without entries is cut next to new_key, to
  // get rid of long fences.  *separator_bytes = 0: cannot be split (new_key has the leaf to itself
  // already).  Leaf: separator in (key[pos-1], key[pos]]; inner: key[pos].
  void choose_split(Bytes new_key, u16 *pos, u8 *separator, u16 *separator_bytes) const;
  // Leaf: may the entry at `pos` lie at its end beside such a fence (NODE-4)?
  bool fits_beside_fence(u32 pos, u32 fence_bytes) const;
  // Leaf: what divides it before the entry at `pos` (neither first nor none); its length, 0: a half
  // would not fit its page (NODE-4).
  u16 separator_at(u16 pos, u8 *separator) const;
  // Do pos and separator divide the node, as choose_split() could have said?
  bool is_divided_by(u16 pos, Bytes separator) const;
  // Keep [0, pos) with upper fence = separator.  Inner: the child left of separator pos becomes
  // upper_child.
  void truncate_right(u16 pos, Bytes separator);
  // Fill `right` (initialised by this) with what truncate_right drops.
  void copy_right(u16 pos, Bytes separator, Node *right) const;
  // Can `right` (its right sibling) be merged into one node; the merged node is built in `out` (a
  // page buffer, header of this).
  bool merge(const Node *right, Bytes separator, Node *out) const;

  // Leaves beside each other: their entries evenly over fewer pages (`to`: page buffers,
  // initialised by this, with the headers of the first ones).  False: they do not fit.
  static bool spread(std::span<const Node *const> from, std::span<Node *const> to);

  // Every invariant of the page alone; null when good, else what is wrong.  Trusts no byte.
  const char *verify() const;

  // Key rests and values lie below this offset, the fences above.
  u32 heap_end() const;
  u32 slots_end() const;
  // What slots with everything would take more for the entries there are.
  u32 enlarging_bytes() const { return growth_to(NodeLayout::kSlots); }

 private:
  // of an entry with rest_bytes of key beyond prefix and head
  u32 heap_bytes(u32 rest_bytes, u32 value_bytes) const;
  // that it has when such an entry has come in
  NodeLayout layout_with(Bytes rest, u32 value_bytes) const;
  // may it be a key of this dense leaf, which has others?
  bool is_near(u64 number) const;
  // what the entries there are take more in it
  u32 growth_to(NodeLayout to) const;
  void prepare_for(Bytes rest, u32 value_bytes);               // before such an entry comes in
  void change_layout(NodeLayout to);
  void put_dense_slot(u32 pos, u32 distance, u32 value_bytes, u32 offset);
  void lower_base(u64 number);
  u32 slot_bytes() const;
  void set_slot(u32 pos, u32 offset, Bytes rest, u32 value_bytes);
  void set_place(u32 pos, u32 offset, u32 value_bytes);        // of an entry that has a slot
  u8 *uniform_place(u32 pos, u32 head);
  void remove_uniform(u32 pos, u32 n);                         // n entries from pos on
  void append_rest(Bytes rest, Bytes value_a, Bytes value_b);  // in the layout there is
  // what the heap has of a key, in this layout
  u32 stored_of(Bytes rest) const;
  void put_entry(u8 *at, Bytes rest, Bytes value_a, Bytes value_b) const;
  // heap room; compacts when needed; returns the offset
  u32 allocate(u32 bytes);
  void note_insertions(u32 pos, u32 n);
  // entries of another node (node_copy.cpp)
  struct PrefixChange;
  void append_range(const Node &from, u32 begin, u32 end);
  bool append_if_fits(const Node &from, u32 begin, u32 end);
  bool is_laid_out_like(const Node &from, u32 end, const PrefixChange &change) const;
  bool append_alike(const Node &from, u32 begin, u32 end, const PrefixChange &change);
  u64 number_here(const PrefixChange &change, const Node &from, u32 pos) const;
  template <typename View>
  u32 room_here(const PrefixChange &change, const View &entries, u32 pos) const;
  template <typename View>
  void take_entry(const Node &from, const View &entries, u32 pos, const PrefixChange &change);
  struct Sought;   // a key as a search compares it
  template <typename View>
  int compare_rest(const View &entries, u32 pos, const Sought &sought) const;
  template <typename View>
  u16 find(const View &entries, const Sought &sought, bool *found) const;
  u16 find(const DenseEntries &entries, const Sought &sought, bool *found) const;
  u16 copy_key_behind(u32 shared, u16 pos, u8 *out) const;
  void update_hints(u32 pos, u32 old_count);
  u16 cut_beside(Bytes new_key, u8 *separator) const;
  bool ends_fit() const;
  bool continues_run(u32 pos) const;
  const char *verify_layout() const;
  template <typename View>
  const char *verify_entries(const View &entries) const;
  template <typename View>
  bool is_behind(const View &entries, u32 pos, u32 head_before, u32 head) const;
  template <typename View>
  bool hints_are_heads(const View &entries) const;
  const char *verify_ends() const;
};
static_assert(sizeof(Node) == 24 + 24 + 8 + 64 && offsetof(Node, uniform_run) == 24 + 22);
static_assert(offsetof(Node, upper_child) % 8 == 0);

inline constexpr u32 kNodeSpace = kPageSize - sizeof(Node);
inline constexpr u32 kMaxSlots = kNodeSpace / sizeof(Slot);
inline constexpr u32 kMaxEntries = kNodeSpace / kUniformSlotBytes;   // of a node of any layout

// May a leaf be uniform with entries of these sizes?
constexpr bool fits_uniform(u32 key_bytes_behind_prefix, u32 value_bytes) {
  return kWithUniformLeaves && value_bytes == 0 && key_bytes_behind_prefix <= kMaxUniformKeyBytes;
}

// A separator next to a key is at most one byte longer than the key.
constexpr u32 Node::max_value_bytes(u32 key_bytes) {
  return kNodeSpace - static_cast<u32>(sizeof(Slot)) - key_bytes - 2 * (key_bytes + 1);
}

// Plain comparison of whole keys: memcmp order, a prefix sorts first.
int compare_keys(Bytes a, Bytes b);
u32 common_prefix(Bytes a, Bytes b);
// The shortest s with left < s <= right: a prefix of right.  Its length; at most kMaxKeyBytes go to
// `out`.
u16 shortest_between(Bytes left, Bytes right, u8 *out);

}  // namespace ls
