// find_parent.cpp - how the buffer pool sees a tree: the swips of a page, and from a page in memory
// to the swip that refers to it.
//
// Frames have no parent pointers (LeanStore paper, section 6.2): the parent is found by descending
// with a key of the child.  The caller may hold latches anywhere, so nothing here waits and nothing
// reads from disk: whatever is in the way means kRestart, and the page provider tries another page.
#include "btree/closed_files.hpp"
#include "btree/node_bytes.hpp"
#include "btree/node_shuffle.hpp"
#include "btree/stored_page.hpp"
#include "btree/tree.hpp"
#include "btree/tree_redo.hpp"

namespace ls {

namespace {

constexpr u32 kMaxTrunks = 1 << 20;

// An optimistic read that is given up when the page is latched exclusively.
class TryRead {
 public:
  explicit TryRead(Frame *frame) : frame_(frame) {
    held_ = kOptimisticIsShared
                ? frame->latch.try_lock_shared() && frame->latch.try_version(version_)
                : frame->latch.try_version(version_);
  }
  ~TryRead() {
    if (kOptimisticIsShared && held_) frame_->latch.unlock_shared();
  }
  TryRead(const TryRead &) = delete;
  TryRead &operator=(const TryRead &) = delete;
  bool begun() const { return held_; }   // the page may be looked at
  bool valid() const { return frame_->latch.validate(version_); }

 private:
  Frame *frame_;
  u64 version_ = 0;
  bool held_;
};

bool is_of(const Frame *frame, FileNo file_no) {
  FrameState state = frame->state.load(std::memory_order_acquire);
  return (state == FrameState::kHot || state == FrameState::kCool) &&
         frame->file_no.load(std::memory_order_relaxed) == file_no;
}

// Latch the page exclusively and look at it again.
template <typename Find>
Step latch_and_check(BufferPool &pool, Frame *parent, FileNo file_no, Frame *child, Find find,
                     Frame **out, Swip **swip) {
  if (!parent->latch.try_lock_exclusive()) return Step::kRestart;
  Swip *found = is_of(parent, file_no) ? find(pool.page(parent)) : nullptr;
  if (found == nullptr || !found->is_swizzled() || found->frame() != child) {
    parent->latch.unlock_exclusive_unchanged();
    return Step::kRestart;
  }
  *out = parent;
  *swip = found;
  return Step::kOk;
}

MetaPage *as_meta(u8 *page) {
  MetaPage *meta = reinterpret_cast<MetaPage *>(page);
  return meta->header.kind == PageKind::kMeta ? meta : nullptr;
}

Swip load_swip(const u64 *location) { return Swip{__atomic_load_n(location, __ATOMIC_RELAXED)}; }

Step latch_node_parent(BufferPool &pool, FileSlot &file, FileNo file_no, Frame *child,
                       const Node *child_node, Frame **out, Swip **swip) {
  Bytes key = child_node->lower_fence();
  u8 level = child_node->level;
  Frame *parent = file.meta.load(std::memory_order_acquire);
  Swip next;
  {
    TryRead read(parent);
    if (!read.begun() || !is_of(parent, file_no)) return Step::kRestart;
    const MetaPage *meta = as_meta(pool.page(parent));
    if (!meta) return Step::kRestart;
    next = load_swip(&meta->root);
    if (!read.valid()) return Step::kRestart;
  }
  if (!next.is_swizzled()) return Step::kRestart;
  if (next.frame() == child) {
    auto root_of = [](u8 *page) {
      return as_meta(page) ? reinterpret_cast<Swip *>(&as_meta(page)->root) : nullptr;
    };
    return latch_and_check(pool, parent, file_no, child, root_of, out, swip);
  }
  for (u32 depth = 0; depth < kMaxTreeHeight; depth++) {
    Frame *frame = next.frame();
    TryRead read(frame);
    if (!read.begun() || !is_of(frame, file_no)) return Step::kRestart;
    Node *node = reinterpret_cast<Node *>(pool.page(frame));
    bool inner = node->header.kind == PageKind::kInner;
    u8 node_level = node->level;
    if (inner) next = load_swip(&node->child(node->child_index(key))->raw);
    if (!read.valid() || !inner || node_level <= level) return Step::kRestart;
    if (node_level == level + 1) {
      parent = frame;
      break;
    }
    if (!next.is_swizzled()) return Step::kRestart;
  }
  auto child_of = [&](u8 *page) -> Swip * {
    Node *node = reinterpret_cast<Node *>(page);
    if (node->header.kind != PageKind::kInner || node->level != level + 1 || !node->covers(key))
      return nullptr;
    return node->child(node->child_index(key));
  };
  return latch_and_check(pool, parent, file_no, child, child_of, out, swip);
}

// Trunks are a list that begins in the meta page.
Step latch_trunk_parent(BufferPool &pool, FileSlot &file, FileNo file_no, Frame *child, Frame **out,
                        Swip **swip) {
  auto next_of = [](u8 *page) -> Swip * {
    if (MetaPage *meta = as_meta(page)) return reinterpret_cast<Swip *>(&meta->trunk);
    TrunkPage *trunk = reinterpret_cast<TrunkPage *>(page);
    return trunk->header.kind == PageKind::kTrunk ? reinterpret_cast<Swip *>(&trunk->next)
                                                  : nullptr;
  };
  Frame *frame = file.meta.load(std::memory_order_acquire);
  for (u32 i = 0; i < kMaxTrunks; i++) {
    TryRead read(frame);
    if (!read.begun() || !is_of(frame, file_no)) return Step::kRestart;
    Swip *location = next_of(pool.page(frame));
    Swip next = location ? load_swip(&location->raw) : Swip{};
    if (!read.valid() || !next.is_swizzled()) return Step::kRestart;
    if (next.frame() == child) break;
    frame = next.frame();
  }
  return latch_and_check(pool, frame, file_no, child, next_of, out, swip);
}

Step latch_parent(BufferPool &pool, FileSlot &file, Frame *child, const u8 *child_page,
                  Frame **parent, Swip **swip) {
  FileNo file_no = file.file_no.load(std::memory_order_acquire);
  const Node *node = reinterpret_cast<const Node *>(child_page);
  switch (node->header.kind) {
    case PageKind::kLeaf:
    case PageKind::kInner: return latch_node_parent(pool, file, file_no, child, node, parent, swip);
    case PageKind::kTrunk: return latch_trunk_parent(pool, file, file_no, child, parent, swip);
    default: return Step::kRestart;  // the meta page has no parent
  }
}

void each_swip(u8 *page, void *arg, bool (*each)(void *arg, Swip *swip)) {
  auto visit = [&](u64 *location) {
    return *location == 0 || each(arg, reinterpret_cast<Swip *>(location));
  };
  switch (reinterpret_cast<PageHeader *>(page)->kind) {
    case PageKind::kMeta: {
      MetaPage *meta = reinterpret_cast<MetaPage *>(page);
      if (visit(&meta->root)) visit(&meta->trunk);
      return;
    }
    case PageKind::kTrunk: visit(&reinterpret_cast<TrunkPage *>(page)->next); return;
    case PageKind::kInner: {
      Node *node = reinterpret_cast<Node *>(page);
      for (u32 i = 0; i <= node->count && i <= kMaxSlots; i++)
        if (!visit(&node->child(static_cast<u16>(i))->raw)) return;
      return;
    }
    case PageKind::kLeaf:
    case PageKind::kFree: return;
  }
}

PageGap node_gap(const u8 *page) {
  const Node &node = *reinterpret_cast<const Node *>(page);
  return {static_cast<u16>(node.slots_end()), node.heap_start};
}

Status redo_operation(const PageOperation &op, u8 *page, PageNo page_no) {
  return BTree::redo(op.code, op.operands, page, page_no);
}

bool key_of_operation(const PageOperation &op, u8 *, Bytes *key) {
  Bytes value;
  return is_blind(op.code) && unpack_change(op.operands, key, &value);
}

}  // namespace

TreeOps BTree::ops() {
  return TreeOps{.each_swip = each_swip,
                 .latch_parent = latch_parent,
                 .is_sparse = is_sparse,
                 .leaf_free_space = leaf_free_space,
                 .shuffle = shuffle_leaf,
                 .unshuffle = unshuffle_leaf,
                 .fault = stored_page_fault,
                 .child_fault = child_fault,
                 .redo = redo_operation,
                 .key_of = key_of_operation,
                 .closed_files = &closed_file_ops(),
                 .gap = node_gap,
                 .bring_in = bring_in};
}

}  // namespace ls
