// tree_remove.cpp - removing from a tree that is not logged, leaf by leaf: the version store used
// as a queue, and what of it is not needed any more in the middle.
//
// Of a queue each leaf is copied, handed to the caller entry by entry, emptied of exactly the
// entries that were copied, and merged with its neighbour: emptied leaves melt into one at the left
// edge of their parent, emptied parents likewise (tree_merge.cpp).
#include <cstring>
#include <numeric>

#include "base/check.hpp"
#include "btree/node_bytes.hpp"
#include "btree/tree.hpp"

namespace ls {

// Take these entries of the copy out of the leaf, or out of those that it has become since.
Status BTree::remove_chosen(const Node *copy, std::span<const u16> positions, u64 *removed) {
  u8 key_buffer[kMaxKeyBytes];
  for (size_t done = 0; done < positions.size();) {
    Bytes key{key_buffer, copy->copy_key(positions[done], key_buffer)};
    ExclusiveGuard leaf;
    LS_TRY(leaf_exclusive(key, 0, leaf));
    Node *node = node_of(leaf.frame());
    LS_ASSERT(positions[done] < copy->count);
    for (; done < positions.size(); done++) {
      key = {key_buffer, copy->copy_key(positions[done], key_buffer)};
      if (!node->covers(key)) break;
      bool found;
      u16 pos = node->lower_bound(key, &found);
      if (!found) continue;
      node->remove(pos);
      ++*removed;
    }
    pool().mark_dirty(leaf.frame(), 0);
  }
  return kOk;
}

// The first `count`.
Status BTree::remove_copied(const Node *copy, u16 count, u64 *removed) {
  LS_ASSERT(count <= copy->count);
  if (count == 0) return kOk;
  u8 key_buffer[kMaxKeyBytes];
  ExclusiveGuard leaf;
  LS_TRY(leaf_exclusive({key_buffer, copy->copy_key(0, key_buffer)}, 0, leaf));
  Node *node = node_of(leaf.frame());
  if (std::memcmp(page_bytes(node) + sizeof(PageHeader), page_bytes(copy) + sizeof(PageHeader),
                  kPageSize - sizeof(PageHeader)) == 0) {
    node->remove_front(count);
    *removed += count;
    pool().mark_dirty(leaf.frame(), 0);
    return kOk;
  }
  leaf.reset_unchanged();
  u16 positions[kMaxEntries];
  std::iota(positions, positions + count, u16{0});
  return remove_chosen(copy, {positions, count}, removed);
}

Status BTree::sweep_leaf(LeafCursor *cursor, void *arg,
                         bool (*goes)(void *arg, Bytes key, Bytes value), u64 *kept, u64 *removed) {
  LS_CHECK(!logged(), "queue removal from a logged tree");
  alignas(64) u8 page[kPageSize];
  const Node *copy = reinterpret_cast<const Node *>(page);
  LS_TRY(leaf_copy({cursor->key, cursor->bytes}, page));
  LS_ASSERT(copy->covers({cursor->key, cursor->bytes}));
  u16 chosen[kMaxEntries];
  u16 n = 0;
  for (u16 pos = 0; pos < copy->count; pos++) {
    u8 key[kMaxKeyBytes];
    if (goes(arg, {key, copy->copy_key(pos, key)}, copy->value(pos))) chosen[n++] = pos;
  }
  LS_TRY(remove_chosen(copy, {chosen, n}, removed));
  *kept += copy->count - n;
  cursor->end = !copy->has_upper;
  cursor->bytes = copy->upper_bytes;
  std::memcpy(cursor->key, copy->upper_fence().data(), copy->upper_bytes);
  if (cursor->end || copy->used_bytes() >= kPageSize / 4) return kOk;
  return try_merge(copy->lower_fence());
}

Status BTree::remove_before(Bytes bound, u32 max_leaves, void *arg,
                            bool (*each)(void *arg, Bytes key, Bytes value), u64 *removed) {
  LS_CHECK(!logged(), "queue removal from a logged tree");
  alignas(64) u8 page[kPageSize];
  const Node *copy = reinterpret_cast<const Node *>(page);
  u8 key_buffer[kMaxKeyBytes], from_buffer[kMaxKeyBytes];
  Bytes from;
  for (u32 i = 0; i < max_leaves; i++) {
    LS_TRY(leaf_copy(from, page));
    LS_ASSERT(copy->covers(from));
    bool whole = copy->has_upper && compare_keys(copy->upper_fence(), bound) <= 0;
    bool found;
    u16 count = whole                 ? copy->count
                : copy->covers(bound) ? copy->lower_bound(bound, &found)
                                      : u16{0};
    for (u16 pos = 0; pos < count; pos++) {
      Bytes key{key_buffer, copy->copy_key(pos, key_buffer)};
      if (!each(arg, key, copy->value(pos))) return kOk;
    }
    LS_TRY(remove_copied(copy, count, removed));
    std::memcpy(from_buffer, copy->lower_fence().data(), copy->lower_bytes);
    Bytes lower{from_buffer, copy->lower_bytes};
    // Also one that its owner has emptied (rollback): else such leaves would pile up at the left
    // edge.
    if (whole) LS_TRY(try_merge(lower));
    if (!whole) return kOk;
    std::memcpy(from_buffer, copy->upper_fence().data(), copy->upper_bytes);
    from = {from_buffer, copy->upper_bytes};
  }
  return kOk;
}

}  // namespace ls
