// tree_blind.cpp - changes of leaves that are not in memory, without reading them (BlindChange, buffer/waiting_changes.hpp).
//
// A leaf that is evicted does not change but by what waits for it, and its room is known from when it left (Swip::room): each insertion
// that waits takes its most from that.  The parent is latched exclusively, so nobody reads the leaf into the tree meanwhile.
#include <algorithm>

#include "btree/node_bytes.hpp"
#include "btree/node_entries.hpp"
#include "btree/tree.hpp"
#include "btree/tree_redo.hpp"
#include "buffer/waiting_changes.hpp"
#include "wal/log_bytes.hpp"

namespace ls {

namespace {

// Entries of this size can always be at the end of a leaf (N4), beside the longest fence and behind a separator next to them.
constexpr u32 kMostBlindBytes = 512;
static_assert(kMaxKeyBytes + (kMostBlindBytes + 1) + sizeof(Slot) + kMostBlindBytes <= kNodeSpace);

// What an insertion takes of the room at most; 0: not known.
u32 most_taken(LeafRoom room, Bytes key, Bytes value) {
  const u32 bytes = static_cast<u32>(key.size() + value.size());
  if (bytes > kMostBlindBytes) return 0;
  if (room.key_bytes == 0) return static_cast<u32>(sizeof(Slot)) + bytes;
  if (!value.empty() || key.size() != room.key_bytes) return 0;
  return kUniformSlotBytes + bytes;
}

// The swip after this change has been put off; null: it cannot be.
Swip swip_behind(Swip swip, Bytes key, const BlindChange &change) {
  if (change.kind == BlindChange::Kind::kOverwrite) return swip;
  LeafRoom room = swip.room();
  const u32 taken = most_taken(room, key, change.value);
  if (taken == 0 || taken > room.bytes) return {};
  room.bytes -= taken;
  return Swip::evicted(swip.page_no(), room);
}

Swip *child_of(const OptimisticGuard &parent, Bytes key) {
  Node *node = reinterpret_cast<Node *>(const_cast<u8 *>(parent.page()));
  return node->child(std::min(node->child_index(key), load_once(node->count)));
}

}  // namespace

LeafRoom BTree::leaf_room(const u8 *page) {
  const Node &node = *reinterpret_cast<const Node *>(page);
  if (node.header.kind != PageKind::kLeaf) return {};
  const u32 uniform_key = node.uniform ? node.prefix_bytes + node.uniform_key : 0;
  return {node.free_bytes(), uniform_key};
}

Status BTree::bring_in(Ctx &ctx, FileSlot &file, u8 code, Bytes operands) {
  Bytes key, value;
  if (!unpack_change(operands, &key, &value)) return fail(LS_CORRUPT, "operation %#x that waits is damaged", code);
  return BTree(ctx, file).read_leaf(key, Aim::kAt, [](const Node &) {});
}

// With the parent latched: log the change and let it wait.  False: there is no room for it.
bool BTree::put_off(Bytes key, PageNo page, BlindChange *change) {
  LogPacker packed;
  packed.number(key.size());
  const Bytes head = packed;
  const u8 code = change->kind == BlindChange::Kind::kInsert ? kTreeInsert : kTreeOverwrite;
  WaitingLock waiting(*pool().shared(), file_, page);
  WaitingChange *cell = waiting.make(code, static_cast<u32>(head.size() + key.size() + change->value.size()));
  if (!cell) return false;
  u8 *out = std::copy(head.begin(), head.end(), cell->operands);
  out = std::copy(key.begin(), key.end(), out);
  std::copy(change->value.begin(), change->value.end(), out);
  ctx_.log->start(RecordKind::kSystem);
  ctx_.log->op(file_no_, page, code, head, key, change->value);
  waiting.add(cell, ctx_.log->finish());
  // Who has read the page past the pool, or is about to use it, looks at this or at the parent.
  file_.page_writes.fetch_add(1, std::memory_order_seq_cst);
  return true;
}

// To the leaf of `key`, or to change->done.
Step BTree::descend_blind(Bytes key, BlindChange *change, Path &path) {
  Step step = descend(key, Aim::kAt, 1, path);
  if (step != Step::kOk || reinterpret_cast<const Node *>(path.node.page())->is_leaf) return step;
  Swip *location = child_of(path.node, key);
  const Swip swip{__atomic_load_n(&location->raw, __ATOMIC_RELAXED)};
  if (!logged() || !swip.is_evicted() || swip_behind(swip, key, *change).is_null()) {
    return descend_from(std::move(path.node), key, Aim::kAt, 0, path);
  }
  path.parent.reset();
  ExclusiveGuard parent(pool(), std::move(path.node));
  if (!parent) return Step::kRestart;
  if (put_off(key, swip.page_no(), change)) {
    location->raw = swip_behind(swip, key, *change).raw;
    change->done = true;
    return Step::kOk;
  }
  parent.reset_unchanged();
  return descend(key, Aim::kAt, 0, path);
}

}  // namespace ls
