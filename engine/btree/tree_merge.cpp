// tree_merge.cpp - giving pages back.  Merging two neighbours is one system transaction over: meta
// page (a page number comes back), parent (loses a separator), the left page (holds both now) and
// the right page (free, or a trunk of the free list).  An inner root that has kept a single child
// gives its place to it.
//
// All of it is best effort: neighbours that are not in memory are left alone, what does not fit is
// left alone.  First look without latches whether it would pay, then latch and look again.
#include <array>
#include <cstring>

#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "base/failpoint.hpp"
#include "btree/retry.hpp"
#include "btree/stored_page.hpp"
#include "btree/tree.hpp"
#include "btree/tree_redo.hpp"
#include "buffer/page_allocator.hpp"

namespace ls {

namespace {

// A node below the first is small; neighbours are merged when the result stays below the second, so
// that the next insertions do not split it again.
constexpr u32 kSmallBytes = kNodeSpace * 40 / 100;
constexpr u32 kMergedBytes = kNodeSpace * 85 / 100;
constexpr int kMergeTries = 4;

// An inner node with one child goes wherever it fits: the last of its level, which has no upper
// fence, leaves its neighbour's keys without their prefix, and would stay at the end of the file.
u32 most_merged(u8 level, u32 used, u32 other) {
  return level > 0 && (used == 0 || other == 0) ? kNodeSpace : kMergedBytes;
}

}  // namespace

Status BTree::try_merge(Bytes key) {
  bool go_up = true;
  for (u8 level = 0; go_up; level++) {
    bool merged, not_again;
    LS_TRY(merge_level(key, level, &go_up, &merged));
    // Then the nodes beside the border, which had different parents, are neighbours: of an emptied
    // tree one leaf stays.  Not in x_merge, which leaves the last leaf to a bulk load.
    for (u8 below = level; merged && below-- > 0;)
      LS_TRY(merge_level(key, below, &not_again, &merged));
  }
  return kOk;
}

Status BTree::merge_level(Bytes key, u8 level, bool *go_up, bool *merged) {
  Retry retry(ctx_);
  *go_up = *merged = false;
  for (int i = 0; i < kMergeTries; i++, retry.again()) {
    MergePlan plan;
    Step step = plan_merge(key, level, &plan);
    if (step == Step::kOk) {
      *go_up = plan.alone;
      if (!plan.right && !plan.collapse) return kOk;
      LS_TRY(reserve_log());
      LS_FAILPOINT(btree_before_merge);
      step =
          plan.collapse ? collapse_root(plan.left) : apply_merge(key, level, plan, go_up, merged);
      // A root's only child may be another inner node with a single child.
      if (step == Step::kOk && !plan.collapse) return kOk;
    }
    if (step == Step::kError) return error();
  }
  return kOk;
}

Step BTree::plan_merge(Bytes key, u8 level, MergePlan *plan) {
  Path path;
  Step step = descend(key, Aim::kAt, level, path);
  if (step != Step::kOk) return step;
  const Node *node = reinterpret_cast<const Node *>(path.node.page());
  bool is_root = path.parent.frame() == file_.meta.load(std::memory_order_acquire);
  bool collapse = is_root && !node->is_leaf && node->count == 0;
  u32 used = node->used_bytes();
  bool same_level = node->level == level;
  Frame *frame = path.node.frame();
  if (!path.node.valid()) return Step::kRestart;
  path.node.reset();  // before its left neighbour is looked at
  if (is_root) {
    plan->collapse = collapse;
    plan->left = frame;
    return Step::kOk;
  }
  if (!same_level || used >= kSmallBytes) return Step::kOk;

  Node *parent = reinterpret_cast<Node *>(const_cast<u8 *>(path.parent.page()));
  u16 index = parent->child_index(key), count = parent->count;
  Swip left = index > 0 ? *parent->child(static_cast<u16>(index - 1)) : Swip{};
  Swip right = index < count ? *parent->child(static_cast<u16>(index + 1)) : Swip{};
  if (!path.parent.valid()) return Step::kRestart;
  plan->alone = count == 0;
  plan->parent = path.parent.frame();
  for (Swip neighbour : {left, right}) {
    if (!neighbour.is_swizzled()) continue;
    OptimisticGuard guard(pool(), neighbour.frame());
    u32 other = reinterpret_cast<const Node *>(guard.page())->used_bytes();
    if (!guard.valid() || !path.parent.valid()) return Step::kRestart;
    if (used + other > most_merged(level, used, other)) continue;
    bool is_left = neighbour.raw == left.raw;
    plan->left = is_left ? neighbour.frame() : frame;
    plan->right = is_left ? frame : neighbour.frame();
    break;
  }
  return Step::kOk;
}

// kRestart: things have changed since the plan.  kOk: merged, or it does not fit.
Step BTree::apply_merge(Bytes key, u8 level, const MergePlan &plan, bool *parent_small,
                        bool *done) {
  ExclusiveGuard meta, parent_guard, left_guard, right_guard;
  auto give_up = [&](Step step) {
    right_guard.reset_unchanged();
    left_guard.reset_unchanged();
    parent_guard.reset_unchanged();
    meta.reset_unchanged();
    return step;
  };
  if (!latch_meta(meta)) return Step::kRestart;
  parent_guard = lock_in_tree(plan.parent);
  if (!parent_guard || !node_is(plan.parent, key, Aim::kAt, static_cast<u8>(level + 1)))
    return give_up(Step::kRestart);
  Node *parent = node_of(plan.parent);
  u16 pos = parent->child_index(key);
  auto refers = [&](u32 index, Frame *frame) {
    if (index > parent->count) return false;
    Swip swip = *parent->child(static_cast<u16>(index));
    return swip.is_swizzled() && swip.frame() == frame;
  };
  if (pos > 0 && refers(pos, plan.right)) pos--;
  if (!refers(pos, plan.left) || !refers(pos + 1u, plan.right)) return give_up(Step::kRestart);
  left_guard = ExclusiveGuard::lock(pool(), plan.left);
  right_guard = ExclusiveGuard::lock(pool(), plan.right);
  Node *left = node_of(plan.left), *right = node_of(plan.right);
  LS_ASSERT(left->level == level && right->level == level);

  alignas(64) u8 merged_page[kPageSize];
  Node *merged = reinterpret_cast<Node *>(merged_page);
  u8 separator[kMaxKeyBytes];
  u16 separator_bytes = parent->copy_key(pos, separator);
  const u32 most = most_merged(level, left->used_bytes(), right->used_bytes());
  if (!left->merge(right, {separator, separator_bytes}, merged) || merged->used_bytes() > most)
    return give_up(Step::kOk);

  if (logged()) ctx_.log->start(RecordKind::kSystem);
  *done = true;
  log_image(merged);
  log_page_op(kTreeRemoveChild, plan.parent, operand(pos));
  copy_page(left, merged);
  remove_child(parent, pos);
  LS_ASSERT(child_fault(parent_guard.page(), parent->child(pos), left_guard.page()) ==
            nullptr);   // STORED-2
  give_back({right_guard, meta, plan.parent}, std::array{plan.left});
  *parent_small = parent->used_bytes() < kSmallBytes;
  pool().count_merge(ctx_.slot);
  return Step::kOk;
}

Step BTree::collapse_root(Frame *root_frame) {
  ExclusiveGuard meta_guard;
  if (!latch_meta(meta_guard)) return Step::kRestart;
  MetaPage *meta = meta_of(meta_guard);
  Swip root_swip{meta->root};
  if (!root_swip.is_swizzled() || root_swip.frame() != root_frame) {
    meta_guard.reset_unchanged();
    return Step::kRestart;
  }
  ExclusiveGuard root_guard = ExclusiveGuard::lock(pool(), root_frame);
  Node *root = node_of(root_frame);
  if (root->is_leaf || root->count != 0) {
    root_guard.reset_unchanged();
    meta_guard.reset_unchanged();
    return Step::kRestart;
  }
  LS_ASSERT(root->level + 1u == meta->height);   // STORED-2
  if (logged()) ctx_.log->start(RecordKind::kSystem);
  Swip child{root->upper_child};
  meta->root = child.raw;  // the one swip of the child has moved
  meta->height--;
  log_page_op(kTreeRoot, meta_guard.frame(),
              operand(RootOperands{stored_swip(child).page_no(), meta->height}));
  give_back({root_guard, meta_guard, nullptr}, {});
  return Step::kOk;
}

// The end of a structure change that needs a page no more; `whole`: others that the record has all
// of.
void BTree::give_back(const GivenBack &at, std::span<Frame *const> whole) {
  ExclusiveGuard &page = at.page, &meta = at.meta;
  LS_ASSERT(meta.frame() == file_.meta.load(std::memory_order_relaxed));   // TREE-1
  LS_ASSERT(page && page.frame() != meta.frame());
  const bool became_trunk = free_page(ctx_, file_, meta, page);
  const Gsn gsn = logged() ? ctx_.log->finish() : 0;
  for (Frame *frame : whole) pool().mark_dirty(frame, gsn);
  if (at.parent) pool().mark_changed(ctx_.log, at.parent, gsn);
  pool().mark_changed(ctx_.log, meta.frame(), gsn);
  if (became_trunk) {
    pool().mark_dirty(page.frame(), gsn);
    page.reset();
  } else {
    // Not before the log says that it is free is it written as such a page.
    reinterpret_cast<PageHeader *>(page.page())->gsn = gsn;
    pool().free_frame(page.detach());
  }
}

}  // namespace ls
