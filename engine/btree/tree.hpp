// tree.hpp - the B+-tree: descent, access to leaves, split, merge (LeanStore paper, sections 4 and
// 5).
//
// The tree is structure only: it finds or makes the leaf where a key belongs and hands it out
// latched; the caller (rows, index entries, version store) changes the leaf and logs what it did.
// Structure changes are system transactions: one log record with an operation per page, so that
// they are atomic.
//
// TREE-1  Every structure change holds the meta page exclusively from before its first change until
//         all of its pages are changed, logged and marked dirty.  So the version of the meta page
//         stands still exactly while the structure does (tree_verify.cpp).
// TREE-2  A frame that is hot or cool and exclusively or shared latched, and has the file, the
//         level and fences around the key, is the node of that key: how latches are taken without
//         holding the path to them (node_is()).
// Latches: meta, parent, left child, right child, in this order and only waited for in this order
// (lock_in_tree() where the frame may have been reused).  New frames are got before, and
// unreachable until the change is complete.
//
// Crash safety: a page reaches the disk only when its record is hardened; a structure change is one
// record: all or nothing.
#pragma once
#include <functional>
#include <span>

#include "btree/node.hpp"
#include "btree/read_ahead.hpp"
#include "btree/retry.hpp"
#include "buffer/page_guard.hpp"
#include "wal/dependencies.hpp"

namespace ls {

class LeafReads;

// Where an entry was (batch_lookup.hpp): at `pos` of the leaf as long as that has this version.
struct LeafHint {
  Frame *leaf = nullptr;   // null: not known
  u64 version = 0;
  u16 pos = 0;
};

// A change that can be made without a look at the leaf: if that is not in memory the change can
// wait until it is (buffer/change_buffer.hpp).
struct BlindWrite {
  enum class Kind : u8 {
    kInsert,      // unless the key is there
    kOverwrite,   // the key is there, and its value has this length
  };
  Kind kind;
  Bytes value;
  bool done = false;   // it is logged, and waits
};

class BTree {
 public:
  // Which node of a level: the one that holds the key, or the one that holds what comes just before
  // it (kLast: the last).
  enum class Aim : u8 { kAt, kBefore, kLast };
  // A page as it was at one moment; its frame's latch tells whether it still is (lock_exclusive_at,
  // HybridLatch::validate).
  struct PageStamp {
    Frame *frame = nullptr;
    u64 version = 0;
  };
  // Of a frame that is a mere guess: those of pages that may be read are even.
  static constexpr u64 kNoVersion = 1;

  // The leaf and the place in it that a look-up came to; a guess for the next one.
  struct LeafFinger {
    PageStamp leaf;
    u16 pos = 0;
  };

  // Where a leaf that was read hangs: what is beside it there is beside it in the tree, as long as
  // the parent has this version.
  struct ParentHint {
    PageStamp parent;   // no frame: not known
    u16 index = 0;
    ReadAhead *ahead = nullptr;   // null: leaves are read one by one
    // keys that it goes up to, or down to: leaves behind are not read ahead
    Bytes end;
    // What may be the page of the leaf behind that one, to be prefetched while its rows are looked
    // at; null: it is not in memory, or not known.
    const u8 *next_page = nullptr;
  };

  BTree(Ctx &ctx, FileSlot &file)
      : ctx_(ctx), file_(file), file_no_(file.file_no.load(std::memory_order_relaxed)) {}

  // Make meta page and empty root leaf of a new file (BufferPool::FormatTree).
  static Status format(Ctx &ctx, FileSlot &file);

  // The leaf of `key`, exclusively latched, with room for `need` bytes (Node::has_room,
  // Node::most_entry_bytes; 0: none needed): splits until so.  Reserve log space for your own
  // record before; the tree's own records leave it alone (LogAppender::reserve).  No latch held.
  // LS_TOO_LARGE when no split can make so much room (Node::max_value_bytes).
  // guess: a frame that may hold that leaf, wherever it comes from (TREE-2); null: none.
  // blind: what the caller is going to do to the leaf.  If it is not in memory that may be done for
  // it, with a record of its reservation: then `leaf` stays empty.
  Status leaf_exclusive(Bytes key, u32 need, ExclusiveGuard &leaf, Frame *guess = nullptr,
                        BlindWrite *blind = nullptr);
  // The same for a worker that often comes back: *near is of this tree, a guess (or nowhere), and
  // becomes the leaf as the caller leaves it, with the entry's place, or where it would be.
  // *found: it is there.  Release with reset(): the version that leaves is noted.
  Status leaf_near(Bytes key, u32 need, LeafFinger *near, ExclusiveGuard &leaf, bool *found);
  // The page of `seen`, exclusively latched, if it is what it was then; else an empty guard.
  ExclusiveGuard exclusive_at(const PageStamp &seen);

  // read(node) on the leaf aimed at: perhaps again and again, on bytes that may be moving
  // (node.hpp); only what the last call has seen is true.  `seen` may be null.  Aim::kBefore with
  // an empty key: LS_END, nothing is less.
  template <typename Read>
  Status read_leaf(Bytes key, Aim aim, Read &&read, PageStamp *seen = nullptr) {
    if (aim == Aim::kBefore && key.empty()) return make_status(LS_END);
    return read_node(key, aim, 0, read, seen);
  }
  // The same of the leaf of `key`, for one that is often that of the call before: *near is where
  // that was (a guess, null: none), and becomes where this one is.
  template <typename Read>
  Status read_leaf_near(Bytes key, PageStamp *near, Read &&read);
  // A separator s of an inner node with  from < s < to,  about in the middle of what lies between;
  // at most kMaxKeyBytes at `out`.  *bytes = 0: one leaf has it all.  unbounded: `to` is the end.
  Status separator_between(Bytes from, Bytes to, bool unbounded, u8 *out, u16 *bytes);
  // Bulk load of a tree that no other worker uses: the last leaf, which is empty, gets the contents
  // of `leaf` (same lower fence).  When that has an upper fence a new last leaf follows it.  The
  // page goes to the log whole.
  Status fill_last_leaf(const Node &leaf);

  // Copy of the leaf that holds `key`; consistent.  4 KiB at `out` (8-aligned).
  // hook, here and below, for a scan from leaf to leaf: empty, or of the leaf with `key` as its
  // fence on this side; becomes that of the leaf copied, and the next one is asked of memory.
  Status leaf_copy(Bytes key, u8 *out, ParentHint *hook = nullptr);
  // Copy of the leaf with the greatest keys < `key` (unbounded: the rightmost leaf).  It may be
  // empty: go on with its lower fence.  LS_END when `key` is empty: nothing is less.
  Status leaf_copy_before(Bytes key, bool unbounded, u8 *out, ParentHint *hook = nullptr);
  // Copy one value; LS_NOT_FOUND.  *bytes: its length; no more than `capacity` are copied.
  Status lookup(Bytes key, u8 *out, u32 capacity, u32 *bytes);
  // The same for a worker with look-ups that often stay in one leaf, and go there from an entry to
  // its neighbour: *last is where its last one in this tree ended (or nowhere), and becomes that of
  // this one.
  Status lookup_near(Bytes key, LeafFinger *last, u8 *out, u32 capacity, u32 *bytes);
  // The same of the entry that a hint leads to; false when the hint is empty or outdated.
  bool value_at(const LeafHint &hint, u8 *out, u32 capacity, u32 *bytes);

  // The leaf around `key` has become small: merge it with a neighbour where that fits.  Best
  // effort.
  Status try_merge(Bytes key);
  // May the leaf's room be shared with other leaves?  Asked under its latch.
  using LeafFilter = std::function<bool(const FileSlot &file, const Node &leaf)>;
  // XMerge, for the leaf of `key`: of two or three leaves around it one is given back where the
  // others have room.  Best effort.
  Status x_merge(Bytes key, const LeafFilter &may_merge, bool *merged);
  // The same for leaves that page providers have found since (sparse_leaves.hpp), of all files; by
  // one thread.  *merged counts.
  static Status merge_sparse_leaves(Ctx &ctx, const LeafFilter &may_merge, u64 *merged);
  // Unlogged queue use (version store): remove all keys < bound, leaf by leaf, freeing pages.
  // *removed counts entries; each(arg, key, value) is called on a private copy before; when it
  // returns false this stops and keeps that leaf's entries.  Stops after max_leaves.
  Status remove_before(Bytes bound, u32 max_leaves, void *arg,
                       bool (*each)(void *arg, Bytes key, Bytes value), u64 *removed);

  // The same, anywhere: one leaf, that of the cursor, which moves on to the next one (end: that was
  // the last).  goes(arg, key, value) says on a private copy which entries are removed.  *kept
  // counts the others.
  struct LeafCursor {
    u8 key[kMaxKeyBytes];
    u32 bytes = 0;
    bool end = false;
  };
  Status sweep_leaf(LeafCursor *cursor, void *arg, bool (*goes)(void *arg, Bytes key, Bytes value),
                    u64 *kept, u64 *removed);

  struct CheckResult { u64 pages, leaf_pages, inner_pages, free_pages, entries; };
  // Walk the whole tree; leaf(arg, node copy, from) for each leaf (null: none): its entries before
  // `from` have been handed out with another one.  Checks order, fences, levels, swips, page
  // ownership, free list.  Holds no latch between pages, so others go on and `leaf` may do
  // anything.  A walk that others disturbed may be made again: `result` counts as it goes, so at
  // the first call of each walk result->leaf_pages is 1.
  Status verify(CheckResult *result, void *arg,
                Status (*leaf)(void *arg, const Node *node, u16 from));

  static TreeOps ops();
  // What is known of a page that leaves memory: a leaf's free space.
  static LeafFreeSpace leaf_free_space(const u8 *page);
  struct KeyRange { Bytes from, to; };   // both included; of one file
  // Read leaves together that are not in memory: of each range those under one parent,
  // LeafReads::kMost in all.  Those that cannot be had so are read when they are used.
  void bring_in(LeafReads &reads, std::span<const KeyRange> ranges);
  // Read leaves with buffered changes, which are made then.  For those that are damaged they go on
  // waiting.
  static Status bring_in(Ctx &ctx, FileSlot &file, std::span<const ChangeBufferPage> pages);
  // Redo of kOpTree and kOpSpace operations on one page.
  static Status redo(u8 code, Bytes operands, u8 *page, PageNo page_no);

  FileSlot &file() { return file_; }
  Ctx &ctx() { return ctx_; }

 private:
  friend class TreeWalk;

  struct Path {
    OptimisticGuard parent;   // the meta page when node is the root
    OptimisticGuard node;
    u16 index = 0;            // of the node in the parent
  };
  // A node with its parent and the meta page, all exclusively latched.
  struct LatchedPath {
    ExclusiveGuard meta;
    ExclusiveGuard parent;    // empty: node is the root
    ExclusiveGuard node;
    void release_unchanged();
  };
  // New frames until they are part of the tree.
  struct NewFrames;
  // Two neighbours that look as if they fit one page, seen without latches; or an inner root with a
  // single child.
  struct MergePlan {
    Frame *parent = nullptr;
    Frame *left = nullptr;
    Frame *right = nullptr;   // null: nothing to merge
    bool collapse = false;
    bool alone = false;       // small, and its parent has no other child
  };

  BufferPool &pool() { return *ctx_.pool; }
  Status error() const { return make_status(last_error().status); }
  bool logged() const { return file_.logged; }
  Node *node_of(const Frame *frame) { return reinterpret_cast<Node *>(pool().page(frame)); }
  MetaPage *meta_of(const ExclusiveGuard &meta) {
    return reinterpret_cast<MetaPage *>(meta.page());
  }

  // ---- tree.cpp
  Step descend(Bytes key, Aim aim, u8 level, Path &path);
  Step descend_from(OptimisticGuard &&start, Bytes key, Aim aim, u8 level, Path &path);
  Status latch_leaf(Bytes key, u32 need, ExclusiveGuard &leaf, Frame *guess, BlindWrite *blind);
  bool try_leaf(Bytes key, u32 need, ExclusiveGuard &leaf, Frame *guess);
  bool leaf_at(Bytes key, u32 need, LeafFinger *last, ExclusiveGuard &leaf, bool *found);
  // TREE-2; the frame is latched, or what this says is validated.
  bool node_is(const Frame *frame, Bytes key, Aim aim, u8 level);
  static bool is_aim(const Node &node, Bytes key, Aim aim, u8 level);
  Status node_copy(Bytes key, Aim aim, u8 level, u8 *out, ParentHint *hook = nullptr);
  Step copy_beside(Aim aim, ParentHint *hook, u8 *out);
  Step read_beside(OptimisticGuard &parent, i32 index, i32 step, ParentHint *hook, u8 *out);
  template <typename Read>
  Status read_node(Bytes key, Aim aim, u8 level, Read &&read, PageStamp *seen,
                   ParentHint *hook = nullptr);
  ExclusiveGuard lock_in_tree(Frame *frame);
  bool latch_path(Bytes key, u8 level, Frame *parent, Frame *node, LatchedPath &path);
  static Gsn gsn_of(const Node &node) {
    return __atomic_load_n(&node.header.gsn, __ATOMIC_RELAXED);
  }
  void use_page(Gsn gsn) {
    if (ctx_.dependencies) [[unlikely]] ctx_.dependencies->use_page(gsn);
  }
  // The page as it has been read is one, and counts as used.
  bool valid_use(const OptimisticGuard &page) {
    const Gsn gsn = gsn_of(*reinterpret_cast<const Node *>(page.page()));
    if (!page.valid()) return false;
    use_page(gsn);
    return true;
  }
  Status reserve_log();
  void log_image(const Node *node);
  void log_page_op(u8 code, Frame *page, Bytes a, Bytes b = {});

  // ---- tree_blind.cpp
  Step descend_blind(Bytes key, BlindWrite *change, Path &path);
  bool buffer_change(Bytes key, PageNo page, BlindWrite *change);

  // ---- tree_bring_in.cpp
  struct Evicted;
  u32 find_evicted(Bytes from, Bytes to, std::span<Evicted> out);
  void read_together(LeafReads &reads, std::span<Evicted> leaves);

  // ---- tree_split.cpp
  Status split(Bytes key, Bytes new_key, u8 level, u32 need);
  u16 noted_contention(Frame *frame, Bytes key);
  Status split_at(Bytes key, u16 place);
  struct Cut;   // where a node is divided
  bool divide(const Cut &cut, Frame *left, Node *right);
  template <typename Decide, typename Divide>
  Status split_node(Bytes key, u8 level, const Decide &decide, const Divide &divide);
  template <typename Divide>
  void apply_split(LatchedPath &path, NewFrames &frames, Bytes separator, const Divide &divide);

  // ---- tree_merge.cpp
  Status merge_level(Bytes key, u8 level, bool *go_up, bool *merged);
  Step plan_merge(Bytes key, u8 level, MergePlan *plan);
  Step apply_merge(Bytes key, u8 level, const MergePlan &plan, bool *parent_small, bool *done);
  Step collapse_root(Frame *root);
  bool latch_meta(ExclusiveGuard &meta);
  struct GivenBack {
    ExclusiveGuard &page, &meta;
    Frame *parent;   // null: the meta page
  };
  void give_back(const GivenBack &at, std::span<Frame *const> whole);

  // ---- tree_xmerge.cpp
  struct LeafWindow;   // leaves beside each other that have room for one less
  static bool is_sparse(const FileSlot &file, const u8 *page);
  Step choose_window(Bytes key, LeafWindow *window);
  Step merge_window(Bytes key, const LeafWindow &window, const LeafFilter &may_merge,
                    bool *merged);

  // ---- tree_remove.cpp
  Status remove_copied(const Node *copy, u16 count, u64 *removed);
  Status remove_chosen(const Node *copy, std::span<const u16> positions, u64 *removed);

  Ctx &ctx_;
  FileSlot &file_;
  const FileNo file_no_;
};

template <typename Read>
Status BTree::read_leaf_near(Bytes key, PageStamp *near, Read &&read) {
  if (near->frame && near->frame->in_tree() && has_pages(file_)) {
    OptimisticGuard leaf(pool(), near->frame);
    if (node_is(near->frame, key, Aim::kAt, 0)) {
      read(*reinterpret_cast<const Node *>(leaf.page()));
      near->version = leaf.version();
      if (valid_use(leaf)) return kOk;
    }
  }
  return read_leaf(key, Aim::kAt, read, near);
}

template <typename Read>
Status BTree::read_node(Bytes key, Aim aim, u8 level, Read &&read, PageStamp *seen,
                        ParentHint *hook) {
  for (Retry retry(ctx_);; retry.again()) {
    Path path;
    Step step = descend(key, aim, level, path);
    if (step == Step::kError) return error();
    if (step == Step::kRestart) continue;
    if (hook) {
      hook->index = path.index;
      hook->parent.frame = path.parent.release(&hook->parent.version);
    }
    path.parent.reset();
    if (retry.persistent()) {
      Frame *frame = path.node.frame();
      path.node.reset();
      SharedGuard guard = SharedGuard::lock(pool(), frame);
      if (!node_is(frame, key, aim, level)) continue;
      read(*reinterpret_cast<const Node *>(guard.page()));
      use_page(gsn_of(*reinterpret_cast<const Node *>(guard.page())));
      if (seen) *seen = {frame, frame->latch.version_wait()};
      return kOk;
    }
    read(*reinterpret_cast<const Node *>(path.node.page()));
    if (!valid_use(path.node)) continue;
    if (seen) *seen = {path.node.frame(), path.node.version()};
    return kOk;
  }
}

}  // namespace ls
