// tree.cpp - descending, handing out leaves and copies of them.
//
// A descent is optimistic: each child is found by BufferPool::resolve, which validates the parent.
// What it ends with is a guess until the node is validated or latched and checked (TREE-2).
#include "btree/tree.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "btree/node_bytes.hpp"
#include "btree/retry.hpp"
#include "btree/stored_page.hpp"
#include "btree/tree_redo.hpp"
#include "buffer/page_allocator.hpp"

namespace ls {

namespace {

// A scan's descents to a leaf that it may read ahead, inner nodes being read; then the leaf is read
// alone.
constexpr u32 kDescentsAhead = 8;

// A reference in a node; its bytes may be moving.
Swip child_at(const Node *node, i32 index) {
  return Swip{__atomic_load_n(&const_cast<Node *>(node)->child(static_cast<u16>(index))->raw,
                              __ATOMIC_RELAXED)};
}

}  // namespace

// ---------------------------------------------------------------- descent

Step BTree::descend(Bytes key, Aim aim, u8 level, Path &path) {
  path.node.reset();
  Step step = pool().resolve_meta(file_, path.parent);
  if (step != Step::kOk) return step;
  MetaPage *meta = reinterpret_cast<MetaPage *>(const_cast<u8 *>(path.parent.page()));
  step = pool().resolve(ctx_, path.parent, reinterpret_cast<Swip *>(&meta->root), file_, path.node);
  if (step != Step::kOk) return step;
  return descend_from(std::move(path.node), key, aim, level, path);
}

// From `start` down to the node at `level`, or to `start` itself where that is not above the level.
Step BTree::descend_from(OptimisticGuard &&start, Bytes key, Aim aim, u8 level, Path &path) {
  if (&start != &path.node) path.node = std::move(start);
  for (u32 depth = 0; depth < kMaxTreeHeight; depth++) {
    Node *node = reinterpret_cast<Node *>(const_cast<u8 *>(path.node.page()));
    if (node->is_leaf || node->level <= level)
      return path.node.valid() ? Step::kOk : Step::kRestart;
    u16 index = UINT16_MAX;
    bool found;
    if (aim == Aim::kAt) index = node->child_index(key);
    else if (aim == Aim::kBefore) index = node->lower_bound(key, &found);
    path.parent = std::move(path.node);
    path.index = std::min(index, load_once(node->count));
    Step step = pool().resolve(ctx_, path.parent, node->child(index), file_, path.node);
    if (step != Step::kOk) return step;
  }
  return Step::kRestart;
}

bool BTree::node_is(const Frame *frame, Bytes key, Aim aim, u8 level) {
  if (!frame->in_tree() || frame->file_no.load(std::memory_order_relaxed) != file_no_) return false;
  return is_aim(*node_of(frame), key, aim, level);
}

bool BTree::is_aim(const Node &node, Bytes key, Aim aim, u8 level) {
  if (node.header.kind != (level == 0 ? PageKind::kLeaf : PageKind::kInner) || node.level != level)
    return false;
  if (aim == Aim::kAt) return node.covers(key);
  if (aim == Aim::kLast) return !node.has_upper;
  return compare_keys(node.lower_fence(), key) < 0 &&
         (!node.has_upper || compare_keys(key, node.upper_fence()) <= 0);
}

void BTree::LatchedPath::release_unchanged() {
  node.reset_unchanged();
  parent.reset_unchanged();
  meta.reset_unchanged();
}

bool BTree::latch_meta(ExclusiveGuard &meta) {
  Frame *frame = file_.meta.load(std::memory_order_acquire);
  meta = ExclusiveGuard::lock(pool(), frame);
  if (frame->in_tree() && frame->file_no.load(std::memory_order_relaxed) == file_no_) {
    LS_ASSERT(meta_of(meta)->header.kind == PageKind::kMeta);
    LS_ASSERT(frame->page_no.load(std::memory_order_relaxed) == kMetaPageNo);
    return true;
  }
  meta.reset_unchanged();
  return false;
}

// A frame that was seen in the tree and that nothing holds there: empty when it is there no more.
// Never a plain wait: the frame may have become the new page of a split, this worker's own, too.
// The splitting worker keeps it latched while it waits for the meta page, which this one holds.
ExclusiveGuard BTree::lock_in_tree(Frame *frame) {
  constexpr u32 kSpins = 64;  // about as long as a page latch is held
  for (u32 i = 0; frame->in_tree() && frame->file_no.load(std::memory_order_relaxed) == file_no_;
       i++) {
    ExclusiveGuard guard = ExclusiveGuard::try_lock(pool(), frame);
    if (guard) return guard;
    if (i < kSpins) {
      cpu_relax();
    } else {
      sched_yield();
    }
  }
  return {};
}

// Latches meta, parent and node in this order, waiting for each, then sees whether they still are
// what the descent saw.
bool BTree::latch_path(Bytes key, u8 level, Frame *parent, Frame *node, LatchedPath &path) {
  bool good = latch_meta(path.meta);
  Swip *swip = nullptr;
  if (good && parent == path.meta.frame()) {
    swip = reinterpret_cast<Swip *>(&meta_of(path.meta)->root);
  } else if (good) {
    path.parent = lock_in_tree(parent);
    good = path.parent && node_is(parent, key, Aim::kAt, static_cast<u8>(level + 1));
    if (good) swip = node_of(parent)->child(node_of(parent)->child_index(key));
  }
  good = good && swip->is_swizzled() && swip->frame() == node;
  if (good) {
    path.node = ExclusiveGuard::lock(pool(), node);
    good = node_is(node, key, Aim::kAt, level);
    const u8 *above = path.parent ? path.parent.page() : path.meta.page();
    LS_ASSERT(!good || child_fault(above, swip, path.node.page()) == nullptr);   // STORED-2
  }
  if (!good) path.release_unchanged();
  return good;
}

// ---------------------------------------------------------------- leaves

bool BTree::try_leaf(Bytes key, u32 need, ExclusiveGuard &leaf, Frame *guess) {
  if (!has_pages(file_)) return false;
  if (!guess->in_tree() || guess->file_no.load(std::memory_order_relaxed) != file_no_) return false;
  ExclusiveGuard guard = ExclusiveGuard::try_lock(pool(), guess);
  if (!guard) return false;
  if (node_is(guess, key, Aim::kAt, 0) && node_of(guess)->has_room(key, need)) {
    leaf = std::move(guard);
    return true;
  }
  guard.reset_unchanged();
  return false;
}

Status BTree::leaf_exclusive(Bytes key, u32 need, ExclusiveGuard &leaf, Frame *guess,
                             BlindWrite *blind) {
  LS_TRY(latch_leaf(key, need, leaf, guess, blind));
  if (!leaf) return kOk;
  LS_ASSERT(node_is(leaf.frame(), key, Aim::kAt, 0));   // TREE-2
  use_page(node_of(leaf.frame())->header.gsn);
  return kOk;
}

Status BTree::latch_leaf(Bytes key, u32 need, ExclusiveGuard &leaf, Frame *guess,
                         BlindWrite *blind) {
  if (key.size() > kMaxKeyBytes)
    return fail(LS_TOO_LARGE, "key of %zu bytes exceeds %u", key.size(), kMaxKeyBytes);
  if (guess && try_leaf(key, need, leaf, guess)) return kOk;
  for (Retry retry(ctx_);; retry.again()) {
    Path path;
    Step step = blind ? descend_blind(key, blind, path) : descend(key, Aim::kAt, 0, path);
    if (step == Step::kError) return error();
    if (step == Step::kRestart) continue;
    if (blind && blind->done) return kOk;
    Frame *frame = path.node.frame();
    path.parent.reset();
    bool contended = path.node.waited();
    ExclusiveGuard guard(pool(), std::move(path.node));
    if (!guard) {
      // Wait in line for the frame, then see what has become of it.
      contended = true;
      guard = ExclusiveGuard::lock(pool(), frame);
      if (!node_is(frame, key, Aim::kAt, 0)) {
        guard.reset_unchanged();
        continue;
      }
    }
    if (const u16 place = kWithContentionSplit && contended ? noted_contention(frame, key) : u16{0};
        place > 0) {
      guard.reset_unchanged();
      // Without space, or a number, for another page they go on sharing this one.
      const Status status = split_at(key, place);
      if (!ok(status) && code(status) != LS_NO_SPACE && code(status) != LS_NO_PAGES) return status;
      continue;
    }
    if (node_of(frame)->has_room(key, need)) {
      leaf = std::move(guard);
      return kOk;
    }
    guard.reset_unchanged();
    LS_TRY(split(key, key, 0, need));
  }
}

ExclusiveGuard BTree::exclusive_at(const PageStamp &seen) {
  if (!lock_exclusive_at(seen.frame->latch, seen.version)) return {};
  return ExclusiveGuard::adopt(pool(), seen.frame);
}

// Where *last is that leaf, unchanged since it was noted.  False: it has to be looked for.
bool BTree::leaf_at(Bytes key, u32 need, LeafFinger *last, ExclusiveGuard &leaf, bool *found) {
  if (!last->leaf.frame || last->leaf.version == kNoVersion || !has_pages(file_)) return false;
  ExclusiveGuard guard = exclusive_at(last->leaf);
  if (!guard) return false;
  const Node &node = *node_of(guard.frame());
  *found = node.key_is(last->pos, key);
  if (!(*found || node.covers(key)) || !node.has_room(key, need)) {
    guard.reset_unchanged();
    return false;
  }
  LS_ASSERT(node_is(guard.frame(), key, Aim::kAt, 0));   // TREE-2
  if (!*found) last->pos = node.lower_bound(key, found);
  leaf = std::move(guard);
  use_page(node.header.gsn);
  return true;
}

Status BTree::leaf_near(Bytes key, u32 need, LeafFinger *near, ExclusiveGuard &leaf, bool *found) {
  if (!leaf_at(key, need, near, leaf, found)) {
    LS_TRY(leaf_exclusive(key, need, leaf, near->leaf.frame));
    near->pos = node_of(leaf.frame())->lower_bound(key, found);
  }
  near->leaf = {leaf.frame(), leaf.version_after()};
  return kOk;
}

// The leaf beside the one at *hook under the same parent.  kRestart: there is none, or it is not
// known any more.
Step BTree::copy_beside(Aim aim, ParentHint *hook, u8 *out) {
  OptimisticGuard parent(pool(), hook->parent.frame);
  Node *node = reinterpret_cast<Node *>(const_cast<u8 *>(parent.page()));
  // The meta page is what a root hangs at.
  if (parent.version() != hook->parent.version || node->header.kind != PageKind::kInner)
    return Step::kRestart;
  const i32 step = aim == Aim::kAt ? 1 : -1;
  const i32 index = hook->index + step;
  const i32 last = node->count;
  if (index < 0 || index > last) return Step::kRestart;
  if (hook->ahead && child_at(node, index).is_evicted() && hook->ahead->wanted())
    return read_beside(parent, index, step, hook, out);
  // That one's neighbour will be wanted when its rows have been looked at.
  const Swip next = index + step < 0 || index + step > last ? Swip{} : child_at(node, index + step);
  OptimisticGuard leaf;
  if (const Step followed =
          pool().resolve(ctx_, parent, node->child(static_cast<u16>(index)), file_, leaf);
      followed != Step::kOk) {
    return followed;
  }
  if (next.is_swizzled()) {
    __builtin_prefetch(next.frame());
    hook->next_page = pool().page(next.frame());
  }
  copy_page(out, leaf.page());
  if (!leaf.valid()) return Step::kRestart;
  use_page(reinterpret_cast<const Node *>(out)->header.gsn);
  hook->index = static_cast<u16>(index);
  return Step::kOk;
}

// The same of a leaf that is not in memory: with those behind it, past the pool.
Step BTree::read_beside(OptimisticGuard &parent, i32 index, i32 step, ParentHint *hook, u8 *out) {
  if (!has_pages(file_)) return Step::kRestart;
  ReadAhead &ahead = *hook->ahead;
  // before the references are known to be evicted
  const u64 writes = file_.page_writes.load(std::memory_order_acquire);
  Node *node = reinterpret_cast<Node *>(const_cast<u8 *>(parent.page()));
  const Swip wanted = child_at(node, index);
  if (!wanted.is_evicted()) return Step::kRestart;
  PageNo pages[ReadAhead::kMost] = {wanted.page_no()};
  u32 n = 1;
  if (const u32 depth = ahead.to_ask(pages[0])) {
    const i32 last = std::min(node->position_of(hook->end), load_once(node->count));
    for (i32 i = index + step; step > 0 ? i <= last : i >= last; i += step) {
      if (n == depth) break;
      if (const Swip swip = child_at(node, i); swip.is_evicted()) pages[n++] = swip.page_no();
    }
  } else {
    n = 0;
  }
  Swip *location = node->child(static_cast<u16>(index));
  if (!parent.valid()) return Step::kRestart;
  ReadAhead::Parent at{.writes = writes};
  at.frame = parent.release(&at.version);
  if (n > 0) ahead.ask({pages, n}, at);
  if (!ahead.take(pages[0], at, out)) return Step::kRestart;
  hook->index = static_cast<u16>(index);
  pool().take_in(ctx_, file_, {at.frame, &hook->parent.version, location, pages[0]}, out);
  return Step::kOk;
}

// The first node on the way down to `from` that has several children in the range divides it.
Status BTree::separator_between(Bytes from, Bytes to, bool unbounded, u8 *out, u16 *bytes) {
  for (Retry retry(ctx_);; retry.again()) {
    Path path;
    Step step = descend(from, Aim::kAt, kMaxTreeHeight, path);
    for (u32 depth = 0; step == Step::kOk && depth < kMaxTreeHeight; depth++) {
      Node *node = reinterpret_cast<Node *>(const_cast<u8 *>(path.node.page()));
      const bool leaf = node->is_leaf;
      const u16 first = leaf ? 0 : node->child_index(from);
      const u16 last = leaf        ? 0
                       : unbounded ? std::min<u16>(node->count, kMaxSlots)
                                   : node->position_of(to);
      *bytes = first < last ? node->copy_key(static_cast<u16>((first + last) / 2), out) : 0;
      if (leaf || *bytes != 0) {
        if (!path.node.valid()) break;
        LS_ASSERT(*bytes == 0 || compare_keys(from, {out, *bytes}) < 0);
        LS_ASSERT(*bytes == 0 || unbounded || compare_keys({out, *bytes}, to) < 0);
        return kOk;
      }
      path.parent = std::move(path.node);
      step = pool().resolve(ctx_, path.parent, node->child(first), file_, path.node);
    }
    if (step == Step::kError) return error();
  }
}

Status BTree::node_copy(Bytes key, Aim aim, u8 level, u8 *out, ParentHint *hook) {
  if (hook) hook->next_page = nullptr;
  if (hook && hook->parent.frame) {
    const Step step = copy_beside(aim, hook, out);
    if (step == Step::kOk && is_aim(*reinterpret_cast<const Node *>(out), key, aim, level))
      return kOk;
    hook->parent = {};
    if (step == Step::kError) return error();
  }
  // The first leaf under a parent, when it is not in memory, is read like those beside it.
  for (u32 tries = 0; hook && hook->ahead && tries < kDescentsAhead; tries++) {
    Path path;
    const Step descended = descend(key, aim, 1, path);
    if (descended == Step::kRestart) continue;   // an inner node may have been read
    const Node *parent = reinterpret_cast<const Node *>(path.node.page());
    if (descended == Step::kError || parent->is_leaf) break;
    bool found;
    const u16 index = aim == Aim::kAt       ? parent->child_index(key)
                      : aim == Aim::kBefore ? parent->lower_bound(key, &found)
                                            : UINT16_MAX;
    if (index > load_once(parent->count) || !child_at(parent, index).is_evicted() ||
        !hook->ahead->wanted())
      break;
    path.parent.reset();
    hook->parent = {path.node.frame(), path.node.version()};
    const Step step = read_beside(path.node, index, aim == Aim::kAt ? 1 : -1, hook, out);
    if (step == Step::kOk && is_aim(*reinterpret_cast<const Node *>(out), key, aim, level))
      return kOk;
    hook->parent = {};
    break;
  }
  return read_node(
      key, aim, level, [out](const Node &node) { copy_page(out, &node); }, nullptr,
      hook);
}

Status BTree::leaf_copy(Bytes key, u8 *out, ParentHint *hook) {
  return node_copy(key, Aim::kAt, 0, out, hook);
}

Status BTree::leaf_copy_before(Bytes key, bool unbounded, u8 *out, ParentHint *hook) {
  if (unbounded) return node_copy({}, Aim::kLast, 0, out, hook);
  if (key.empty()) return make_status(LS_END);
  return node_copy(key, Aim::kBefore, 0, out, hook);
}

namespace {

// No more than `capacity` bytes; returns the value's length.
u32 copy_value(const Node *node, u16 pos, u8 *out, u32 capacity) {
  const Bytes value = node->value(pos);
  if (const size_t copied = std::min<size_t>(value.size(), capacity))
    std::memcpy(out, value.data(), copied);
  return static_cast<u32>(value.size());
}

}  // namespace

bool BTree::value_at(const LeafHint &hint, u8 *out, u32 capacity, u32 *bytes) {
  if (!hint.leaf) return false;
  OptimisticGuard leaf(pool(), hint.leaf);
  if (leaf.version() != hint.version) return false;
  *bytes = copy_value(reinterpret_cast<const Node *>(leaf.page()), hint.pos, out, capacity);
  return leaf.valid();
}

Status BTree::lookup(Bytes key, u8 *out, u32 capacity, u32 *bytes) {
  LeafFinger nowhere;
  return lookup_near(key, &nowhere, out, capacity, bytes);
}

Status BTree::lookup_near(Bytes key, LeafFinger *last, u8 *out, u32 capacity, u32 *bytes) {
  bool found = false;
  auto find = [&](const Node &node) {
    last->pos = node.lower_bound(key, &found);
    if (found) *bytes = copy_value(&node, last->pos, out, capacity);
  };
  if (last->leaf.frame && last->leaf.frame->in_tree() && has_pages(file_)) {
    OptimisticGuard leaf(pool(), last->leaf.frame);
    const Node &node = *reinterpret_cast<const Node *>(leaf.page());
    if (leaf.version() == last->leaf.version || node_is(last->leaf.frame, key, Aim::kAt, 0)) {
      last->leaf.version = leaf.version();
      const u32 pos = last->pos;
      // The next row, the same one again, or the one before.
      const u32 at = node.key_is(pos + 1, key) ? pos + 1 : node.key_is(pos, key) ? pos : pos - 1;
      if (at != pos - 1 || (pos > 0 && node.key_is(at, key))) {
        last->pos = static_cast<u16>(at);
        *bytes = copy_value(&node, last->pos, out, capacity);
        if (valid_use(leaf)) return kOk;
      } else if (node.covers(key)) {
        find(node);
        if (valid_use(leaf)) return found ? kOk : make_status(LS_NOT_FOUND);
      }
    }
  }
  LS_TRY(read_leaf(key, Aim::kAt, find, &last->leaf));
  return found ? kOk : make_status(LS_NOT_FOUND);
}

// ---------------------------------------------------------------- logging

Status BTree::reserve_log() {
  LS_ASSERT(kOptimisticIsShared || latches_held() == 0);   // it may wait
  if (!logged()) return kOk;
  LS_CHECK(ctx_.log != nullptr, "a logged tree is changed without a log");
  return ctx_.log->reserve(kMaxRecordBytes, ctx_.interrupt);
}

// The whole node as it is, without the gap between slots and heap; children as page numbers.
void BTree::log_image(const Node *node) {
  if (!logged()) return;
  alignas(64) u8 copy[kPageSize];
  if (!node->is_leaf) {
    copy_page(copy, node);
    Node *stored = reinterpret_cast<Node *>(copy);
    for (u32 i = 0; i <= stored->count; i++) {
      Swip *swip = stored->child(static_cast<u16>(i));
      *swip = stored_swip(*swip);
    }
    node = stored;
  }
  LS_ASSERT(node->header.page_no != kInvalidPageNo);
  LS_ASSERT(node->verify() == nullptr);   // STORED-1
  const u8 *page = page_bytes(node);
  u16 low = static_cast<u16>(node->slots_end() - sizeof(PageHeader));
  ctx_.log->op(file_no_, node->header.page_no, kTreeImage, operand(low),
               {page + sizeof(PageHeader), low},
               {page + node->heap_start, kPageSize - node->heap_start});
}

void BTree::log_page_op(u8 code, Frame *page, Bytes a, Bytes b) {
  LS_ASSERT(page->latch.is_exclusive());
  if (logged()) ctx_.log->op(file_no_, page->page_no.load(std::memory_order_relaxed), code, a, b);
}

// ---------------------------------------------------------------- a new file

Status BTree::format(Ctx &ctx, FileSlot &file) {
  BufferPool &pool = *ctx.pool;
  constexpr PageNo kRootPageNo = kMetaPageNo + 1;
  BTree tree(ctx, file);
  PageReservation space;
  LS_TRY(space.prepare(ctx, file, 2));
  LS_TRY(tree.reserve_log());
  Frame *meta_frame, *root_frame;
  LS_TRY(pool.new_frame(ctx, file, kMetaPageNo, PageKind::kMeta, &meta_frame));
  ExclusiveGuard meta = ExclusiveGuard::adopt(pool, meta_frame);
  if (Status status = pool.new_frame(ctx, file, kRootPageNo, PageKind::kLeaf, &root_frame);
      !ok(status)) {
    pool.free_frame(meta.detach());
    return status;
  }
  ExclusiveGuard root = ExclusiveGuard::adopt(pool, root_frame);

  FormatOperands operands{file.kind, kRootPageNo, pool.shared()->store};
  format_meta(tree.meta_of(meta), operands);
  tree.meta_of(meta)->root = Swip::hot(root_frame).raw;
  tree.node_of(root_frame)->init(true, 0, {}, {}, false);
  ctx.pages.extended += 2;
  Gsn gsn = 0;
  if (file.logged) {
    ctx.log->start(RecordKind::kSystem);
    ctx.log->op(tree.file_no_, kMetaPageNo, kTreeFormat, operand(operands));
    tree.log_image(tree.node_of(root_frame));
    gsn = ctx.log->finish();
  }
  pool.mark_dirty(root_frame, gsn);
  pool.mark_dirty(meta_frame, gsn);
  file.meta.store(meta_frame, std::memory_order_release);
  return kOk;
}

}  // namespace ls
