// tree_blind.cpp - changes of leaves that are not in memory, without reading them (BlindWrite,
// buffer/change_buffer.hpp).
//
// A leaf that is evicted does not change but by what waits for it, and its free space is known from
// when it left (Swip::free_space): each insertion that waits takes its most from that.  The parent
// is latched exclusively, so no other worker reads the leaf into the tree meanwhile.
#include <algorithm>

#include "base/check.hpp"
#include "btree/node_bytes.hpp"
#include "btree/node_entries.hpp"
#include "btree/tree.hpp"
#include "btree/tree_redo.hpp"
#include "buffer/change_buffer.hpp"
#include "wal/log_bytes.hpp"

namespace ls {

namespace {

// Entries of this size can always be at the end of a leaf (NODE-4), beside the longest fence and
// behind a separator next to them.
constexpr u32 kMostBlindBytes = 512;
static_assert(kMaxKeyBytes + (kMostBlindBytes + 1) + sizeof(Slot) + kMostBlindBytes <= kNodeSpace);

// What an insertion takes of the free space at most; 0: not known.
u32 most_taken(LeafFreeSpace space, Bytes key, Bytes value) {
  const u32 bytes = static_cast<u32>(key.size() + value.size());
  if (bytes > kMostBlindBytes) return 0;
  if (space.key_bytes == 0) return static_cast<u32>(sizeof(Slot)) + bytes;
  if (!value.empty() || key.size() != space.key_bytes) return 0;
  return kUniformSlotBytes + bytes;
}

// The swip after this change has been buffered; null: it cannot be.
Swip swip_behind(Swip swip, Bytes key, const BlindWrite &change) {
  if (change.kind == BlindWrite::Kind::kOverwrite) return swip;
  LeafFreeSpace space = swip.free_space();
  const u32 taken = most_taken(space, key, change.value);
  if (taken == 0 || taken > space.bytes) return {};
  space.bytes -= taken;
  return Swip::evicted(swip.page_no(), space);
}

Swip *child_of(const OptimisticGuard &parent, Bytes key) {
  Node *node = reinterpret_cast<Node *>(const_cast<u8 *>(parent.page()));
  return node->child(std::min(node->child_index(key), load_once(node->count)));
}

}  // namespace

LeafFreeSpace BTree::leaf_free_space(const u8 *page) {
  const Node &node = *reinterpret_cast<const Node *>(page);
  if (node.header.kind != PageKind::kLeaf) return {};
  const u32 free = node.free_bytes();
  if (node.layout == NodeLayout::kUniform) return {free, u32{node.prefix_bytes} + node.key_bytes};
  // As if it were dense no more.
  const u32 enlarging = node.enlarging_bytes();
  return {free > enlarging ? free - enlarging : 0, 0};
}

// With the parent latched: log the change and buffer it (CHBUF-1).  False: there is no room for it.
bool BTree::buffer_change(Bytes key, PageNo page, BlindWrite *change) {
  LogPacker packed;
  packed.number(key.size());
  const Bytes head = packed;
  const u8 code = change->kind == BlindWrite::Kind::kInsert ? kTreeInsert : kTreeOverwrite;
  ChangeBufferLock waiting(*pool().shared(), file_, page);
  BufferedChange *cell =
      waiting.make(code, static_cast<u32>(head.size() + key.size() + change->value.size()));
  if (!cell) return false;
  u8 *out = std::copy(head.begin(), head.end(), cell->operands);
  out = std::copy(key.begin(), key.end(), out);
  out = std::copy(change->value.begin(), change->value.end(), out);
  LS_ASSERT(out == cell->operands + cell->bytes);
  ctx_.log->start(RecordKind::kSystem);
  ctx_.log->op(file_no_, page, code, head, key, change->value);
  waiting.add(cell, ctx_.log->finish());
  pool().shared()->change_buffer_inserts.fetch_add(1, std::memory_order_relaxed);
  // A scan that has read the page past the pool, or is about to use it, looks at this or at the
  // parent.
  file_.page_writes.fetch_add(1, std::memory_order_seq_cst);
  return true;
}

// To the leaf of `key`, or to change->done.
Step BTree::descend_blind(Bytes key, BlindWrite *change, Path &path) {
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
  LS_ASSERT(node_is(parent.frame(), key, Aim::kAt, 1));   // TREE-2
  LS_ASSERT(location->raw == swip.raw);
  if (buffer_change(key, swip.page_no(), change)) {
    location->raw = swip_behind(swip, key, *change).raw;
    change->done = true;
    return Step::kOk;
  }
  parent.reset_unchanged();
  return descend(key, Aim::kAt, 0, path);
}

}  // namespace ls
