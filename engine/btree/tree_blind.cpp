// tree_blind.cpp - changes of leaves that are not in memory, without reading them (BlindChange, buffer/waiting_changes.hpp).
//
// A leaf that is evicted does not change but by what waits for it, and its room is known from when it left (Swip::room): each insertion
// that waits takes its most from that.  The parent is latched exclusively, so nobody reads the leaf into the tree meanwhile.
#include <algorithm>

#include "base/aligned_memory.hpp"
#include "base/check.hpp"
#include "btree/node_bytes.hpp"
#include "btree/node_entries.hpp"
#include "btree/tree.hpp"
#include "btree/tree_redo.hpp"
#include "buffer/waiting_changes.hpp"
#include "os/page_reads.hpp"
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
  const u32 free = node.free_bytes();
  if (node.layout == NodeLayout::kUniform) return {free, u32{node.prefix_bytes} + node.key_bytes};
  // As if it were dense no more.
  const u32 enlarging = node.enlarging_bytes();
  return {free > enlarging ? free - enlarging : 0, 0};
}

// A leaf that is read because changes wait for it.
struct BTree::Waited {
  Bytes key;            // of a change
  Seen parent;          // no frame: it has to be read alone, if it is not in memory already
  Swip *location = nullptr;
  PageNo page_no = 0;
  bool done = false;
};

// Where the leaf hangs, if it is evicted and that is to be had now.
void BTree::find_evicted(const WaitingPage &page, Waited *waited) {
  Bytes value;
  LS_CHECK(unpack_change(page.operands, &waited->key, &value), "a change that waits is damaged");
  Path path;
  const Step step = descend(waited->key, Aim::kAt, 1, path);
  if (step != Step::kOk || reinterpret_cast<const Node *>(path.node.page())->is_leaf) return;
  waited->location = child_of(path.node, waited->key);
  const Swip swip{__atomic_load_n(&waited->location->raw, __ATOMIC_RELAXED)};
  if (!path.node.valid() || !swip.is_evicted()) return;
  path.parent.reset();
  waited->page_no = swip.page_no();
  waited->parent.frame = path.node.release(&waited->parent.version);
}

// Those that were found, in one go; what cannot be had so is left to be read alone, which says what is wrong.
void BTree::read_together(PageReads &ring, u8 *buffers, std::span<Waited> leaves) {
  for (u32 i = 0; i < leaves.size(); i++) {
    // While the parent is as it was the file has the page, or somebody is reading it.
    if (leaves[i].parent.frame && !pool().is_beside_file(file_, leaves[i].page_no)) {
      ring.add(leaves[i].page_no, buffers + size_t{i} * kPageSize, i);
    }
  }
  ring.submit(file_.ref());
  for (PageReads::Ended ended; ring.next(true, &ended);) {
    Waited &leaf = leaves[ended.tag];
    const u8 *page = buffers + size_t{ended.tag} * kPageSize;
    if (!ended.whole || read_fault(page, leaf.page_no, pool().log().last_gsn())) continue;
    const Seen parent = leaf.parent;
    leaf.done = pool().bring_in(ctx_, file_, parent.frame, &leaf.parent.version, leaf.location, leaf.page_no, page) == Step::kOk;
    if (!leaf.done) continue;
    ctx_.pages.read++;
    // For its other children nothing has changed.
    for (Waited &other : leaves) {
      if (other.parent.frame == parent.frame && other.parent.version == parent.version) other.parent.version = leaf.parent.version;
    }
  }
}

Status BTree::bring_in(Ctx &ctx, FileSlot &file, std::span<const WaitingPage> pages) {
  constexpr u32 kBatch = 64;
  const AlignedPages buffers = allocate_pages(kBatch);
  BTree tree(ctx, file);
  PageReads ring(kBatch);   // behind what it reads into
  while (!pages.empty()) {
    const size_t n = std::min<size_t>(pages.size(), kBatch);
    Waited leaves[kBatch];
    for (size_t i = 0; i < n; i++) tree.find_evicted(pages[i], &leaves[i]);
    if (buffers && ring.possible()) tree.read_together(ring, buffers.get(), {leaves, n});
    for (size_t i = 0; i < n; i++) {
      const Status status = leaves[i].done ? kOk : tree.read_leaf(leaves[i].key, Aim::kAt, [](const Node &) {});
      if (code(status) != LS_CORRUPT) LS_TRY(status);
    }
    pages = pages.subspan(n);
  }
  return kOk;
}

// With the parent latched: log the change and let it wait (V1).  False: there is no room for it.
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
