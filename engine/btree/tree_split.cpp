// tree_split.cpp - making room.  Splitting a node is one system transaction over: meta page (a page
// number is taken), parent (a separator more), the node (keeps the left half) and a new page (gets
// the right half); when the node is the root, a new root instead of the parent.
//
// Everything that may wait or fail comes before the latches: room in the file, room in the log,
// frames.  Under the latches nothing fails: a split is found impossible or unnecessary, or is done.
#include <cstring>

#include "base/check.hpp"
#include "base/failpoint.hpp"
#include "btree/contention.hpp"
#include "btree/node_bytes.hpp"
#include "btree/retry.hpp"
#include "btree/tree.hpp"
#include "btree/tree_redo.hpp"
#include "buffer/page_allocator.hpp"

namespace ls {

struct BTree::NewFrames {
  explicit NewFrames(BTree &tree) : tree(tree) {}
  ~NewFrames() {
    if (right) tree.pool().free_frame(right);
    if (root) tree.pool().free_frame(root);
  }
  Status get(bool leaf, bool with_root) {
    LS_TRY(get_one(leaf ? PageKind::kLeaf : PageKind::kInner, &right));
    return with_root ? get_one(PageKind::kInner, &root) : kOk;
  }
  Status get_one(PageKind kind, Frame **frame) {
    Frame *got = nullptr;
    LS_TRY(tree.pool().new_frame(tree.ctx_, tree.file_, kInvalidPageNo, kind, &got));
    *frame = got;
    return kOk;
  }

  BTree &tree;
  Frame *right = nullptr;
  Frame *root = nullptr;
};

// Divide the node of `key` at `level` in two.  Under the latches  decide(node, &separator)  says
// where, or with an empty separator that nothing is to be done;  divide(left, right)  changes both
// pages (right: a new one) and logs that; true: with the left one whole.
template <typename Decide, typename Divide>
Status BTree::split_node(Bytes key, u8 level, const Decide &decide, const Divide &divide) {
  u32 parent_need = 0;
  for (Retry retry(ctx_);; retry.again()) {
    if (parent_need != 0) LS_TRY(split(key, key, static_cast<u8>(level + 1), parent_need));
    parent_need = 0;
    Path seen;
    Step step = descend(key, Aim::kAt, level, seen);
    if (step == Step::kError) return error();
    if (step == Step::kRestart) continue;
    bool lower = reinterpret_cast<const Node *>(seen.node.page())->level < level;
    if (!seen.node.valid()) continue;
    // merges have left the tree without such a level: the caller looks again
    if (lower) return kOk;
    Frame *parent_frame = seen.parent.frame(), *node_frame = seen.node.frame();
    seen.node.reset();
    seen.parent.reset();
    bool is_root = parent_frame == file_.meta.load(std::memory_order_acquire);

    PageReservation space;
    LS_TRY(space.prepare(ctx_, file_, is_root ? 2 : 1));
    LS_TRY(reserve_log());
    NewFrames frames(*this);
    LS_TRY(frames.get(level == 0, is_root));
    LS_FAILPOINT(btree_before_split);
    LatchedPath path;
    if (!latch_path(key, level, parent_frame, node_frame, path)) continue;
    Bytes separator;
    Status status = decide(*node_of(node_frame), &separator);
    if (!ok(status) || separator.empty()) {
      path.release_unchanged();
      return status;
    }
    if (path.parent && !node_of(parent_frame)->fits(separator, sizeof(Swip))) {
      parent_need = node_of(parent_frame)->entry_bytes(separator, sizeof(Swip));
      path.release_unchanged();
      continue;
    }
    apply_split(path, frames, separator, divide);
    pool().count_split(ctx_.slot);
    return kOk;
  }
}

struct BTree::Cut {
  u16 pos = 0, bytes = 0;
  u8 buffer[kMaxKeyBytes];
  Bytes separator() const { return {buffer, bytes}; }
};

bool BTree::divide(const Cut &cut, Frame *left_frame, Node *right) {
  Node *left = node_of(left_frame);
  left->copy_right(cut.pos, cut.separator(), right);
  left->truncate_right(cut.pos, cut.separator());
  log_image(right);
  log_page_op(kTreeTruncate, left_frame, operand(cut.pos), cut.separator());
  return false;
}

// Until the node of `key` at `level` has room for `need` bytes of new_key, or was split once.
Status BTree::split(Bytes key, Bytes new_key, u8 level, u32 need) {
  Cut cut;
  auto decide = [&](const Node &node, Bytes *separator) {
    if (node.has_room(new_key, need)) return kOk;
    node.choose_split(new_key, &cut.pos, cut.buffer, &cut.bytes);
    if (cut.bytes == 0)
      return fail(LS_TOO_LARGE, "entry with a key of %zu bytes is too large for a page",
                  new_key.size());
    *separator = cut.separator();
    return kOk;
  };
  return split_node(key, level, decide,
                    [&](Frame *left, Node *right) { return divide(cut, left, right); });
}

// An entry that is not there yet has no place of its own: a worker that adds to the end of a leaf
// gets nothing from a cut.
u16 BTree::noted_contention(Frame *frame, Bytes key) {
  LS_ASSERT(node_is(frame, key, Aim::kAt, 0));   // TREE-2
  bool found;
  const u16 pos = node_of(frame)->lower_bound(key, &found);
  return found ? note_wait(*frame, frame->latch.held_version(), pos) : 0;
}

// The leaf of `key`, before the entry at `place` if there still is one.
Status BTree::split_at(Bytes key, u16 place) {
  Cut cut;
  auto decide = [&](const Node &node, Bytes *separator) {
    cut.pos = place;
    cut.bytes = place < node.count ? node.separator_at(place, cut.buffer) : u16{0};
    *separator = cut.separator();
    return kOk;
  };
  return split_node(key, 0, decide,
                    [&](Frame *left, Node *right) { return divide(cut, left, right); });
}

Status BTree::fill_last_leaf(const Node &leaf) {
  LS_ASSERT(leaf.verify() == nullptr && leaf.is_leaf);
  auto fill = [&](Node *node) {
    std::memcpy(page_bytes(node) + sizeof(PageHeader), page_bytes(&leaf) + sizeof(PageHeader),
                kPageSize - sizeof(PageHeader));
    log_image(node);
  };
  auto expected = [&](const Node &node) {
    bool good = node.count == 0 && !node.has_upper &&
                compare_keys(node.lower_fence(), leaf.lower_fence()) == 0;
    return good ? kOk
                : fail(LS_INVALID, "\"%s\" is changed by others while it is built", file_.path);
  };
  if (leaf.has_upper) {
    auto decide = [&](const Node &node, Bytes *separator) {
      *separator = leaf.upper_fence();
      return expected(node);
    };
    auto divide = [&](Frame *left_frame, Node *right) {
      right->init(true, 0, leaf.upper_fence(), {}, false);
      log_image(right);
      fill(node_of(left_frame));
      return true;
    };
    return split_node(leaf.upper_fence(), 0, decide, divide);
  }
  LS_TRY(reserve_log());
  ExclusiveGuard guard;
  LS_TRY(leaf_exclusive(leaf.lower_fence(), 0, guard));
  Node *node = node_of(guard.frame());
  if (Status status = expected(*node); !ok(status)) {
    guard.reset_unchanged();
    return status;
  }
  if (logged()) ctx_.log->start(RecordKind::kSystem);
  fill(node);
  pool().mark_dirty(guard.frame(), logged() ? ctx_.log->finish() : 0);
  return kOk;
}

// All latched, all reserved.
template <typename Divide>
void BTree::apply_split(LatchedPath &path, NewFrames &frames, Bytes separator,
                        const Divide &divide) {
  Frame *left_frame = path.node.frame(), *right_frame = frames.right;
  Node *left = node_of(left_frame), *right = node_of(right_frame);
  MetaPage *meta = meta_of(path.meta);
  LS_ASSERT(path.meta.frame() == file_.meta.load(std::memory_order_relaxed));   // TREE-1
  LS_ASSERT(left->covers(separator) && compare_keys(left->lower_fence(), separator) < 0);
  ExclusiveGuard right_guard = ExclusiveGuard::adopt(pool(), right_frame), root_guard;
  frames.right = nullptr;

  if (logged()) ctx_.log->start(RecordKind::kSystem);
  pool().name_frame(right_frame, allocate_page(ctx_, file_, path.meta));
  const bool whole = divide(left_frame, right);
  LS_ASSERT(compare_keys(left->upper_fence(), separator) == 0);    // STORED-2
  LS_ASSERT(compare_keys(right->lower_fence(), separator) == 0);   // STORED-2
  LS_ASSERT(left->level == right->level);

  if (path.parent) {
    insert_child(node_of(path.parent.frame()), separator, Swip::hot(right_frame));
    PageNo right_no = right->header.page_no;
    log_page_op(kTreeInsertChild, path.parent.frame(), operand(right_no), separator);
  } else {
    LS_ASSERT(meta->height == left->level + 1u && meta->height < kMaxTreeHeight);
    Frame *root_frame = frames.root;
    root_guard = ExclusiveGuard::adopt(pool(), root_frame);
    frames.root = nullptr;
    pool().name_frame(root_frame, allocate_page(ctx_, file_, path.meta));
    Node *root = node_of(root_frame);
    root->init(false, static_cast<u8>(left->level + 1), {}, {}, false);
    root->insert(separator, operand(meta->root));
    root->upper_child = Swip::hot(right_frame).raw;
    log_image(root);
    meta->root = Swip::hot(root_frame).raw;
    meta->height++;
    log_page_op(kTreeRoot, path.meta.frame(),
                operand(RootOperands{root->header.page_no, meta->height}));
  }

  Gsn gsn = logged() ? ctx_.log->finish() : 0;
  pool().mark_dirty(right_frame, gsn);
  if (root_guard) pool().mark_dirty(root_guard.frame(), gsn);
  if (whole) pool().mark_dirty(left_frame, gsn);
  else pool().mark_changed(ctx_.log, left_frame, gsn);
  if (path.parent) pool().mark_changed(ctx_.log, path.parent.frame(), gsn);
  pool().mark_changed(ctx_.log, path.meta.frame(), gsn);
}

}  // namespace ls
