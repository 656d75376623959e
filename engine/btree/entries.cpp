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

Status latch_near(BTree &tree, Bytes key, u32 room, Frame **near, ExclusiveGuard &leaf) {
  LS_ASSERT(!tree.file().logged);
  LS_TRY(tree.leaf_exclusive(key, room, leaf, near ? *near : nullptr));
  if (near) *near = leaf.frame();
  return kOk;
}

}  // namespace

Status put_entry(BTree &tree, Bytes key, Bytes value, Frame **near) {
  ExclusiveGuard leaf;
  const size_t room = sizeof(Slot) + key.size() + value.size();
  LS_TRY(latch_near(tree, key, static_cast<u32>(room), near, leaf));
  Node *node = reinterpret_cast<Node *>(leaf.page());
  bool found;
  const u16 pos = node->lower_bound(key, &found);
  if (found && node->value(pos).size() == value.size()) {
    if (!value.empty()) std::memcpy(node->value_data(pos), value.data(), value.size());
  } else {
    if (found) node->remove(pos);
    node->insert(key, value);
  }
  tree.ctx().pool->mark_dirty(leaf.frame(), 0);
  return kOk;
}

Status remove_entry(BTree &tree, Bytes key, Frame **near) {
  ExclusiveGuard leaf;
  LS_TRY(latch_near(tree, key, 0, near, leaf));
  Node *node = reinterpret_cast<Node *>(leaf.page());
  bool found;
  const u16 pos = node->lower_bound(key, &found);
  if (!found) return kOk;
  node->remove(pos);
  const bool emptied = node->count == 0;
  tree.ctx().pool->mark_dirty(leaf.frame(), 0);
  leaf.reset();
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
