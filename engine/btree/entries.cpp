// entries.cpp - single entries of unlogged trees.
#include "btree/entries.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace ls {

namespace {

void take(const Node &leaf, u16 pos, FoundEntry *found) {
  found->key_bytes = leaf.copy_key(pos, found->key);
  const Bytes value = leaf.value(pos);
  found->value_bytes = static_cast<u32>(value.size());
  if (!value.empty())
    std::memcpy(found->value, value.data(), std::min(value.size(), sizeof found->value));
}

Status judge(const FoundEntry &found, Bytes from, u32 prefix) {
  const bool same =
      found.key_bytes >= prefix && std::memcmp(found.key, from.data(), prefix) == 0;
  return same ? kOk : make_status(LS_NOT_FOUND);
}

// The entry's place in the tree, exclusively latched.
struct Place {
  ExclusiveGuard leaf;
  u16 pos = 0;
  bool found = false;
  Node *node() { return reinterpret_cast<Node *>(leaf.page()); }
  // The entry is there, with a value of that size?
  bool holds(size_t bytes) { return found && node()->value(pos).size() == bytes; }
};

Status find_place(BTree &tree, Bytes key, u32 room, BTree::LeafFinger *near, Place *place) {
  LS_ASSERT(!tree.file().logged);
  BTree::LeafFinger nowhere;
  if (!near) near = &nowhere;
  LS_TRY(tree.leaf_near(key, room, near, place->leaf, &place->found));
  place->pos = near->pos;
  return kOk;
}

}  // namespace

Status put_entry(BTree &tree, Bytes key, Bytes value, BTree::LeafFinger *near) {
  const u32 need = static_cast<u32>(sizeof(Slot) + key.size() + value.size());
  Place place;
  LS_TRY(find_place(tree, key, 0, near, &place));
  // What goes over an entry needs no room: a full leaf is divided for another one only.
  if (!place.holds(value.size()) && !place.node()->has_room(key, need)) {
    place.leaf.reset();
    LS_TRY(find_place(tree, key, need, near, &place));
  }
  Node *node = place.node();
  if (place.holds(value.size())) {
    if (!value.empty()) std::memcpy(node->value_data(place.pos), value.data(), value.size());
  } else {
    if (place.found) node->remove(place.pos);
    node->insert_at(place.pos, key, value);
  }
  tree.ctx().pool->mark_dirty(place.leaf.frame(), 0);
  return kOk;
}

Status remove_entry(BTree &tree, Bytes key, BTree::LeafFinger *near) {
  Place place;
  LS_TRY(find_place(tree, key, 0, near, &place));
  if (!place.found) return kOk;
  place.node()->remove(place.pos);
  const bool emptied = place.node()->count == 0;
  tree.ctx().pool->mark_dirty(place.leaf.frame(), 0);
  place.leaf.reset();
  return emptied ? tree.try_merge(key) : kOk;
}

Status first_entry(BTree &tree, Bytes from, u32 prefix, FoundEntry *found) {
  alignas(8) u8 copy[kPageSize];
  const Node &leaf = *reinterpret_cast<const Node *>(copy);
  u8 key[kMaxKeyBytes];
  u32 bytes = static_cast<u32>(from.size());
  std::memcpy(key, from.data(), bytes);
  for (;;) {
    LS_TRY(tree.leaf_copy(Bytes(key, bytes), copy));
    bool exact;
    const u16 pos = leaf.lower_bound(Bytes(key, bytes), &exact);
    if (pos < leaf.count) {
      take(leaf, pos, found);
      return judge(*found, from, prefix);
    }
    if (!leaf.has_upper) return make_status(LS_NOT_FOUND);
    const Bytes fence = leaf.upper_fence();
    bytes = static_cast<u32>(fence.size());
    std::memcpy(key, fence.data(), bytes);
  }
}

Status last_entry_before(BTree &tree, Bytes from, u32 prefix, FoundEntry *found) {
  alignas(8) u8 copy[kPageSize];
  const Node &leaf = *reinterpret_cast<const Node *>(copy);
  u8 key[kMaxKeyBytes];
  u32 bytes = static_cast<u32>(from.size());
  std::memcpy(key, from.data(), bytes);
  while (bytes > 0) {
    const Status status = tree.leaf_copy_before(Bytes(key, bytes), false, copy);
    if (code(status) == LS_END) break;
    LS_TRY(status);
    bool exact;
    const u16 pos = leaf.lower_bound(Bytes(key, bytes), &exact);
    if (pos > 0) {
      take(leaf, static_cast<u16>(pos - 1), found);
      return judge(*found, from, prefix);
    }
    const Bytes fence = leaf.lower_fence();
    bytes = static_cast<u32>(fence.size());
    if (bytes > 0) std::memcpy(key, fence.data(), bytes);
  }
  return make_status(LS_NOT_FOUND);
}

}  // namespace ls
