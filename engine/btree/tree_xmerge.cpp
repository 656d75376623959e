// tree_xmerge.cpp - XMerge ("Contention and Space Management in B-Trees", CIDR 2021): of two or
// three leaves beside each other, none of them small enough to be merged with a neighbour, one is
// given back when the others have room for its entries.  The paper takes up to five:
// docs/decisions/0011-xmerge.md has the measurements.
//
// A leaf that the caller's filter keeps is left as it is: its entries may have to become longer
// again (txn/cleaner.cpp).
//
// Space is worth work only where memory is short: page providers find such leaves when they cool
// them (sparse_leaves.hpp), the cleaner, which can log, merges them before they are written.  Only
// leaves in memory under one parent take part, and only some that have to be written anyway start
// it.
//
// One system transaction over: meta page (a page number comes back), parent (other separators, one
// less), the leaves that stay (they go to the log whole) and the one that goes.
#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "base/failpoint.hpp"
#include "btree/node_bytes.hpp"
#include "btree/retry.hpp"
#include "btree/stored_page.hpp"
#include "btree/tree.hpp"
#include "btree/tree_redo.hpp"
#include "buffer/file_use.hpp"
#include "buffer/page_allocator.hpp"

namespace ls {

namespace {

// The leaves that stay get no fuller than the first, so that the next insertions do not split them
// again; a leaf above the second has nothing to give.
constexpr u32 kFullBytes = kNodeSpace * 92 / 100;
constexpr u32 kSparseBytes = kNodeSpace * 80 / 100;
constexpr u32 kMostLeaves = 3;
constexpr int kTries = 4;
constexpr u32 kNever = ~u32{0};   // bytes of a leaf that is not in memory, or is the last

u32 image_bytes(const Node &node) {
  return static_cast<u32>(kMaxOpHeadBytes + sizeof(u16) - sizeof(PageHeader)) + node.slots_end() +
         kPageSize - node.heap_start;
}

// The last leaf stays alone: it is filled next, and a bulk load (fill_last_leaf) counts on it.
u32 bytes_to_merge(const Node &leaf) { return leaf.has_upper ? leaf.used_bytes() : kNever; }

}  // namespace

struct BTree::LeafWindow {
  Frame *parent = nullptr;
  Frame *leaves[kMostLeaves] = {};
  u32 count = 0;    // 0: nothing to merge
  u32 before = 0;   // of them, left of the leaf that was asked for
};

bool BTree::is_sparse(const FileSlot &file, const u8 *page) {
  const Node &node = *reinterpret_cast<const Node *>(page);
  if (!kWithXMerge || node.header.kind != PageKind::kLeaf) return false;
  // queues: what is left of a leaf goes soon
  if (__atomic_load_n(&file.kind, __ATOMIC_RELAXED) == LS_REL_VERSIONS) return false;
  return node.has_upper && node.used_bytes() < kSparseBytes;
}

// As few leaves as possible, and of these the emptiest.
Step BTree::choose_window(Bytes key, LeafWindow *window) {
  Path path;
  const Step step = descend(key, Aim::kAt, 0, path);
  if (step != Step::kOk) return step;
  const bool is_root = path.parent.frame() == file_.meta.load(std::memory_order_acquire);
  Frame *const frame = path.node.frame();
  const u32 used = bytes_to_merge(*reinterpret_cast<const Node *>(path.node.page()));
  if (!path.node.valid()) return Step::kRestart;
  path.node.reset();   // before its neighbours are looked at
  if (is_root || used == kNever) return Step::kOk;

  Node *parent = reinterpret_cast<Node *>(const_cast<u8 *>(path.parent.page()));
  const u32 index = parent->child_index(key), count = load_once(parent->count);
  const u32 low = index - std::min(index, kMostLeaves - 1),
            high = std::min(count, index + kMostLeaves - 1);
  if (index > high) return Step::kRestart;
  Swip swips[2 * kMostLeaves - 1];
  for (u32 i = low; i <= high; i++) swips[i - low] = *parent->child(static_cast<u16>(i));
  if (!path.parent.valid()) return Step::kRestart;
  u32 bytes[2 * kMostLeaves - 1];
  for (u32 i = low; i <= high; i++) {
    u32 &of_leaf = bytes[i - low] = i == index ? used : kNever;
    if (i == index || !swips[i - low].is_swizzled()) continue;
    OptimisticGuard guard(pool(), swips[i - low].frame());
    of_leaf = bytes_to_merge(*reinterpret_cast<const Node *>(guard.page()));
    if (!guard.valid() || !path.parent.valid()) return Step::kRestart;
  }
  if (swips[index - low].raw != Swip::hot(frame).raw &&
      swips[index - low].raw != Swip::cool(frame).raw)
    return Step::kRestart;

  for (u32 n = 2; n <= kMostLeaves && window->count == 0; n++) {
    u64 least = u64{n - 1} * kFullBytes + 1;
    for (u32 first = std::max(low, index + 1 - std::min(index + 1, n));
         first <= index && first + n - 1 <= high; first++) {
      u64 sum = 0;
      for (u32 i = first; i < first + n; i++) sum += bytes[i - low];
      if (sum >= least) continue;
      least = sum;
      window->count = n;
      window->before = index - first;
      for (u32 i = 0; i < n; i++) {
        LS_ASSERT(swips[first + i - low].is_swizzled());
        window->leaves[i] = swips[first + i - low].frame();
      }
    }
  }
  window->parent = path.parent.frame();
  return Step::kOk;
}

// kRestart: things have changed since the leaves were chosen.  kOk: merged, or they do not fit.
Step BTree::merge_window(Bytes key, const LeafWindow &window, const LeafFilter &may_merge,
                         bool *merged) {
  ExclusiveGuard meta, parent_guard, guards[kMostLeaves];
  auto give_up = [&](Step step) {
    for (u32 i = kMostLeaves; i-- > 0;) guards[i].reset_unchanged();
    parent_guard.reset_unchanged();
    meta.reset_unchanged();
    return step;
  };
  LS_ASSERT(window.count >= 2 && window.count <= kMostLeaves && window.before < window.count);
  const u32 stay = window.count - 1;
  if (!latch_meta(meta)) return Step::kRestart;
  parent_guard = lock_in_tree(window.parent);
  if (!parent_guard || !node_is(window.parent, key, Aim::kAt, 1)) return give_up(Step::kRestart);
  Node *parent = node_of(window.parent);
  const u32 index = parent->child_index(key);
  if (index < window.before || index - window.before + stay > parent->count)
    return give_up(Step::kRestart);
  const u16 first = static_cast<u16>(index - window.before);
  Swip swips[kMostLeaves];
  for (u32 i = 0; i < window.count; i++) {
    swips[i] = *parent->child(static_cast<u16>(first + i));
    if (!swips[i].is_swizzled() || swips[i].frame() != window.leaves[i])
      return give_up(Step::kRestart);
  }
  const Node *leaves[kMostLeaves];
  for (u32 i = 0; i < window.count; i++) {
    guards[i] = ExclusiveGuard::lock(pool(), window.leaves[i]);
    leaves[i] = node_of(window.leaves[i]);
    LS_ASSERT(leaves[i]->level == 0);
    if (!may_merge(file_, *leaves[i])) return give_up(Step::kOk);
  }
  if (!leaves[stay]->has_upper) return give_up(Step::kRestart);

  alignas(64) u8 pages[kMostLeaves - 1][kPageSize];
  Node *nodes[kMostLeaves - 1];
  for (u32 i = 0; i < stay; i++) nodes[i] = reinterpret_cast<Node *>(pages[i]);
  if (!Node::spread({leaves, window.count}, {nodes, stay})) return give_up(Step::kOk);
  u32 record = kAllocatorRecordBytes + stay * (kMaxOpHeadBytes + u32{sizeof first});
  for (u32 i = 0; i < stay; i++) record += image_bytes(*nodes[i]);

  alignas(64) u8 parent_page[kPageSize];
  copy_page(parent_page, parent);
  Node *new_parent = reinterpret_cast<Node *>(parent_page);
  for (u32 i = 0; i < stay; i++) remove_child(new_parent, first);
  for (u32 i = 1; i < stay; i++) {
    const Bytes separator = nodes[i]->lower_fence();
    if (!new_parent->fits(separator, sizeof(Swip))) return give_up(Step::kOk);
    insert_child(new_parent, separator, swips[i]);
    record += kMaxOpHeadBytes + u32{sizeof(PageNo)} + static_cast<u32>(separator.size());
  }
  if (record > kMaxRecordBytes - kMaxRecordHeadBytes) return give_up(Step::kOk);

  if (logged()) ctx_.log->start(RecordKind::kSystem);
  for (u32 i = 0; i < stay; i++) log_image(nodes[i]);
  for (u32 i = 0; i < stay; i++) log_page_op(kTreeRemoveChild, window.parent, operand(first));
  for (u32 i = 1; i < stay; i++)
    log_page_op(kTreeInsertChild, window.parent, operand(nodes[i]->header.page_no),
                nodes[i]->lower_fence());
  copy_page(parent, new_parent);
  for (u32 i = 0; i < stay; i++) copy_page(guards[i].page(), nodes[i]);
  LS_ASSERT(child_fault(parent_guard.page(), parent->child(first), guards[0].page()) == nullptr);
  give_back({guards[stay], meta, window.parent}, std::span<Frame *const>(window.leaves, stay));
  *merged = true;
  pool().count_merge(ctx_.slot);
  return Step::kOk;
}

Status BTree::x_merge(Bytes key, const LeafFilter &may_merge, bool *merged) {
  *merged = false;
  Retry retry(ctx_);
  for (int i = 0; i < kTries; i++, retry.again()) {
    LeafWindow window;
    Step step = choose_window(key, &window);
    if (step == Step::kOk) {
      if (window.count == 0) return kOk;
      LS_TRY(reserve_log());
      LS_FAILPOINT(btree_before_xmerge);
      step = merge_window(key, window, may_merge, merged);
    }
    if (step == Step::kError) return error();
    if (step == Step::kOk) break;
  }
  // The parent may have become small.
  bool go_up = *merged, parents_merged;
  for (u8 level = 1; go_up; level++) LS_TRY(merge_level(key, level, &go_up, &parents_merged));
  return kOk;
}

// Frames may have got other pages, files may go meanwhile: whatever leaf the key leads to is looked
// at.
Status BTree::merge_sparse_leaves(Ctx &ctx, const LeafFilter &may_merge, u64 *merged) {
  BufferPool &pool = *ctx.pool;
  for (std::atomic<u32> &place : pool.shared()->sparse_leaves.frames) {
    if (place.load(std::memory_order_relaxed) == 0) continue;
    Frame *frame = pool.frame(place.exchange(0, std::memory_order_acquire) - 1);
    FileSlot &file = pool.file(frame->file_slot.load(std::memory_order_relaxed));
    u8 key[kMaxKeyBytes];
    u32 bytes = 0;
    FileUse use;
    if (!use.begin_open(ctx, {&file, frame->file_no.load(std::memory_order_relaxed)})) continue;
    {
      SharedGuard guard = SharedGuard::lock(pool, frame);
      if (!frame->in_tree() || frame->file_no.load(std::memory_order_relaxed) !=
                                   file.file_no.load(std::memory_order_acquire))
        continue;
      const Node &leaf = *reinterpret_cast<const Node *>(guard.page());
      if (!is_sparse(file, guard.page()) || !may_merge(file, leaf)) continue;
      const Bytes fence = leaf.lower_fence();
      bytes = static_cast<u32>(fence.size());
      std::copy(fence.begin(), fence.end(), key);
    }
    bool done;
    const Status status = BTree(ctx, file).x_merge({key, bytes}, may_merge, &done);
    if (!ok(status)) {
      if (code(status) != LS_NOT_FOUND) return status;
      continue;
    }
    *merged += done;
  }
  return kOk;
}

}  // namespace ls
