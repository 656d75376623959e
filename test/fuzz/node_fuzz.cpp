// node_fuzz.cpp - a page that comes from a file, of any kind.  Whatever its bytes are, reading them
// as a node stays in the page (an optimistic reader does that while they change).  A page that is
// not refused is changed, divided and merged, and stays sound.
//
//   input   page | for each step: what is done, 1 | a key's length, 1 | key
#include "btree/node_shuffle.hpp"
#include "btree/stored_page.hpp"
#include "btree/tree_redo.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/pages.hpp"
#include "txn/row_leaf.hpp"

namespace ls::fuzz {

namespace {

constexpr PageNo kPageCount = 100;
constexpr u32 kMostSteps = 24;

// Not of the page: it may lie in what changes.
Buffer key_for(const Node &node, Input &steps) {
  const Bytes rest = steps.take(steps.byte() % 48);
  const Bytes prefix = node.prefix();
  Buffer key(prefix.begin(), prefix.end());
  key.insert(key.end(), rest.begin(), rest.end());
  if (key.size() > kMaxKeyBytes) key.resize(kMaxKeyBytes);
  return key;
}

// Of bytes that nothing is known of.
void read_unsound(const Node &node, Bytes key) {
  bool found;
  const u16 pos = node.lower_bound(key, &found);
  u8 out[kMaxKeyBytes];
  (void)node.copy_key(pos, out);
  (void)node.copy_key(0, out);
  if (node.is_leaf) (void)touch(node.value(pos));
  (void)touch(node.lower_fence());
  (void)touch(node.upper_fence());
  (void)touch(node.prefix());
  (void)node.covers(key);
  (void)node.position_of(key);
  (void)node.key_is(pos, key);
  (void)touch(node.search_range(key));
  (void)node.free_bytes();
  (void)node.used_bytes();
  if (!node.is_leaf) (void)const_cast<Node &>(node).child(node.child_index(key));
}

void read_sound(const Node &node, Bytes key) {
  u8 out[kMaxKeyBytes];
  for (u16 i = 0; i < node.count; i++) {
    const Bytes stored{out, node.copy_key(i, out)};
    FUZZ_CHECK(node.covers(stored));
    FUZZ_CHECK(node.key_is(i, stored));
    bool found;
    FUZZ_CHECK(node.lower_bound(stored, &found) == i && found);
    if (!node.is_leaf) continue;
    const Bytes value = node.value(i);
    FUZZ_CHECK(lies_in(&node, value));
    (void)touch(value);
    RowParts row;
    if (row_fault(value, &row) == nullptr) FUZZ_CHECK(lies_in(&node, row.payload));
  }
  FUZZ_CHECK(node.position_of(key) <= node.count);
  const PagePtr slice = make_page();
  if (node.is_leaf && node.count > 0) node.copy_slice(node.count / 2, node.count, slice->bytes);
}

void change_leaf(Node &node, u8 what, Bytes key) {
  bool found = false;
  const u16 pos = node.covers(key) ? node.lower_bound(key, &found) : node.count;
  const u8 value[200]{};
  const Bytes bytes(value, what / 8 * 6);
  switch (what % 8) {
    case 0:
      if (pos < node.count) node.remove(pos);
      return;
    case 1:
      if (pos < node.count) (void)node.resize_value(pos, what);
      return;
    case 2: node.remove_front(std::min<u16>(node.count, what / 8)); return;
    case 3: node.compact(); return;
    default:
      if (node.covers(key) && !found && node.fits(key, static_cast<u32>(bytes.size())))
        FUZZ_CHECK(node.insert(key, bytes) == pos);
  }
}

void change_inner(Node &node, u8 what, Bytes key) {
  if (node.count > 0 && what % 3 == 0) return remove_child(&node, what % node.count);
  bool found = false;
  if (!node.covers(key) || compare_keys(node.lower_fence(), key) == 0) return;
  node.lower_bound(key, &found);
  if (!found && node.fits(key, sizeof(Swip))) insert_child(&node, key, Swip::evicted(9));
}

void divide(const Node &node, Bytes key) {
  u8 separator[kMaxKeyBytes];
  u16 pos, bytes;
  if (!node.covers(key)) return;
  node.choose_split(key, &pos, separator, &bytes);
  if (bytes == 0) return;
  FUZZ_CHECK(node.is_divided_by(pos, {separator, bytes}));
  const PagePtr left = copy_page_of(&node), right = make_page(), merged = make_page();
  left->node()->copy_right(pos, {separator, bytes}, right->node());
  left->node()->truncate_right(pos, {separator, bytes});
  FUZZ_CHECK(left->node()->verify() == nullptr);
  FUZZ_CHECK(right->node()->verify() == nullptr);
  if (left->node()->merge(right->node(), {separator, bytes}, merged->node()))
    FUZZ_CHECK(merged->node()->verify() == nullptr);
  if (!node.is_leaf) return;
  const Node *from[] = {left->node(), right->node()};
  Node *to[] = {merged->node()};
  if (Node::spread(from, to)) FUZZ_CHECK(merged->node()->verify() == nullptr);
}

void pack(const Node &node) {
  Buffer shuffled(kMostShuffledBytes);
  shuffled.resize(shuffle_leaf(reinterpret_cast<const u8 *>(&node), shuffled.data()));
  const PagePtr back = make_page();
  FUZZ_CHECK(!shuffled.empty() && unshuffle_leaf(shuffled, back->bytes));
}

void use(Node &node, Input &steps) {
  for (u32 n = 0; n < kMostSteps && !steps.empty(); n++) {
    const u8 what = steps.byte();
    const Buffer key = key_for(node, steps);
    read_sound(node, key);
    node.is_leaf ? change_leaf(node, what, key) : change_inner(node, what, key);
    FUZZ_CHECK(node.verify() == nullptr);
    if (node.is_leaf) pack(node);
    divide(node, key);
  }
}

bool is_node(const Node &node) {
  return node.header.kind == PageKind::kLeaf || node.header.kind == PageKind::kInner;
}

// Sums and copies, which each change at random makes wrong: what lies behind their checks is
// reached.
void mend(Node &node) {
  node.header.zero = 0;
  node.reserved = 0;
  const bool small_slots =
      node.layout == NodeLayout::kUniform || node.layout == NodeLayout::kDense;
  if (node.count > (small_slots ? kMaxEntries : kMaxSlots)) return;
  const u32 slot_bytes = node.count == 0 ? 0 : (node.slots_end() - sizeof(Node)) / node.count;
  u32 used = 0;
  for (u32 i = 0; i < node.count; i++) used += node.stored_bytes(i) - slot_bytes;
  node.heap_used = static_cast<u16>(used);
  node.rebuild_hints();
}

}  // namespace

void write_seeds(const SeedWriter &write) {
  for (const auto &[name, page] : sample_pages()) {
    Output seed;
    seed.bytes({page->bytes, kPageSize});
    for (u8 what : {9, 0, 44, 1, 3, 200, 2})
      seed.number(what).number<u8>(9).bytes(bytes_of(std::string("\0\0\0\0\0\0\x14\x05k", 9)));
    write(name.c_str(), seed);
  }
}

void test_one(Input &input) {
  if (input.bytes() < kPageSize) return;
  const PagePtr page = make_page();
  std::memcpy(page->bytes, input.take(kPageSize).data(), kPageSize);
  Node &node = *page->node();
  Input first = input;
  (void)first.byte();
  const Bytes key = first.take(first.byte());
  read_unsound(node, key);
  Buffer shuffled(kMostShuffledBytes);
  (void)shuffle_leaf(page->bytes, shuffled.data());
  (void)unshuffle_leaf({page->bytes, kPageSize}, make_page()->bytes);
  if (is_node(node)) mend(node);
  if (stored_page_fault(page->bytes, kPageCount) == nullptr && is_node(node)) use(node, input);
}

}  // namespace ls::fuzz
