// tree_split.cpp - making room.  Splitting a node is one system transaction over: meta page (a page number is taken), parent (a
// separator more), the node (keeps the left half) and a new page (gets the right half); when the node is the root, a new root instead
// of the parent.
//
// Everything that may wait or fail comes before the latches: room in the file, room in the log, frames.  Under the latches nothing
// fails: a split is found impossible or unnecessary, or is done.
#include <cstring>

#include "base/check.hpp"
#include "btree/retry.hpp"
#include "btree/tree.hpp"
#include "btree/tree_redo.hpp"
#include "buffer/space.hpp"

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

// Until the node of `key` at `level` has room for `need` bytes of new_key, or was split once.
Status BTree::split(Bytes key, Bytes new_key, u8 level, u32 need) {
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
    if (lower) return kOk;  // merges have left the tree without such a level: the caller looks again
    Frame *parent_frame = seen.parent.frame(), *node_frame = seen.node.frame();
    seen.node.reset();
    seen.parent.reset();
    bool is_root = parent_frame == file_.meta.load(std::memory_order_acquire);

    LS_TRY(space_prepare(ctx_, file_, 2));
    LS_TRY(reserve_log());
    NewFrames frames(*this);
    LS_TRY(frames.get(level == 0, is_root));
    LatchedPath path;
    if (!latch_path(key, level, parent_frame, node_frame, path)) continue;
    Node *node = node_of(node_frame);
    if (node->has_room(new_key, need)) {
      path.release_unchanged();
      return kOk;
    }
    u16 pos, separator_bytes;
    u8 separator_buffer[kMaxKeyBytes];
    node->choose_split(new_key, &pos, separator_buffer, &separator_bytes);
    Bytes separator{separator_buffer, separator_bytes};
    if (separator.empty()) {
      path.release_unchanged();
      return fail(LS_TOO_LARGE, "entry with a key of %zu bytes is too large for a page", new_key.size());
    }
    if (path.parent && !node_of(parent_frame)->fits(separator, sizeof(Swip))) {
      parent_need = node_of(parent_frame)->entry_bytes(separator, sizeof(Swip));
      path.release_unchanged();
      continue;
    }
    apply_split(path, frames, pos, separator);
    pool().count_split(ctx_.slot);
    return kOk;
  }
}

// All latched, all reserved.
void BTree::apply_split(LatchedPath &path, NewFrames &frames, u16 pos, Bytes separator) {
  Frame *left_frame = path.node.frame(), *right_frame = frames.right;
  Node *left = node_of(left_frame), *right = node_of(right_frame);
  MetaPage *meta = meta_of(path.meta);
  ExclusiveGuard right_guard = ExclusiveGuard::adopt(pool(), right_frame), root_guard;
  frames.right = nullptr;

  if (logged()) ctx_.log->start(RecordKind::kSystem);
  pool().name_frame(right_frame, space_take(ctx_, file_, path.meta));
  left->copy_right(pos, separator, right);
  left->truncate_right(pos, separator);
  log_image(right);
  log_parent_op(kTreeTruncate, left_frame, operand(pos), separator);

  if (path.parent) {
    insert_child(node_of(path.parent.frame()), separator, Swip::hot(right_frame));
    PageNo right_no = right->header.page_no;
    log_parent_op(kTreeInsertChild, path.parent.frame(), operand(right_no), separator);
  } else {
    Frame *root_frame = frames.root;
    root_guard = ExclusiveGuard::adopt(pool(), root_frame);
    frames.root = nullptr;
    pool().name_frame(root_frame, space_take(ctx_, file_, path.meta));
    Node *root = node_of(root_frame);
    root->init(false, static_cast<u8>(left->level + 1), {}, {}, false);
    root->insert(separator, operand(meta->root));
    root->upper_child = Swip::hot(right_frame).raw;
    log_image(root);
    meta->root = Swip::hot(root_frame).raw;
    meta->height++;
    log_parent_op(kTreeRoot, path.meta.frame(), operand(RootOperands{root->header.page_no, meta->height}));
  }

  Gsn gsn = logged() ? ctx_.log->finish() : 0;
  pool().mark_dirty(right_frame, gsn);
  if (root_guard) pool().mark_dirty(root_guard.frame(), gsn);
  pool().mark_dirty(left_frame, gsn);
  if (path.parent) pool().mark_dirty(path.parent.frame(), gsn);
  pool().mark_dirty(path.meta.frame(), gsn);
}

}  // namespace ls
