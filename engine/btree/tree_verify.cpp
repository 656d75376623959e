// tree_verify.cpp - the checker of a whole tree.
//
// It holds no latch between pages, so others may change the tree while it walks.  What a single
// page shows is judged on a consistent copy.  What two pages show together (a child's fences and
// its parent's separators) is looked at again, parent first, before it counts as damage.  What only
// the whole file shows (each page has one owner, none is lost) counts when the meta page was the
// same before and after the walk, twice.
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/copy_page.hpp"
#include "btree/retry.hpp"
#include "btree/tree.hpp"
#include "btree/tree_redo.hpp"

namespace ls {

namespace {

// Far more often than splits and merges can come between two copies by chance.
constexpr u32 kPairTries = 1000;
constexpr u32 kWalks = 4;

struct alignas(kPageSize) PageCopy {
  u8 bytes[kPageSize];
  Node *node() { return reinterpret_cast<Node *>(bytes); }
};

Bytes as_bytes(const std::string &s) { return {reinterpret_cast<const u8 *>(s.data()), s.size()}; }
std::string as_string(Bytes b) { return {reinterpret_cast<const char *>(b.data()), b.size()}; }

// [lower, upper), without upper: to the end.
struct Range {
  std::string lower, upper;
  bool has_upper = false;
};

}  // namespace

class TreeWalk {
 public:
  using LeafCall = Status (*)(void *arg, const Node *node, u16 from);
  TreeWalk(BTree &tree, BTree::CheckResult *result, void *arg, LeafCall leaf)
      : tree_(tree), result_(result), arg_(arg), leaf_(leaf) {}

  Status run();

 private:
  struct Accounting {
    PageNo page_count = 0;
    u32 free_total = 0, height = 0;
    Gsn gsn = 0;
    std::vector<PageNo> free_pages;   // trunks included
    bool operator==(const Accounting &) const = default;
  };

  Status walk(const Accounting &before);
  Status nodes(const Range &range, PageNo expected, u8 level, bool *changed);
  Status children(Node *node, bool *changed);
  Status leaf(const Node *node);
  Status copy_node(Bytes key, u8 level, PageCopy *out);
  Status check_alone(const Node *node, Bytes key, u8 level);
  Status check_swips(Node *copy);
  Status read_accounting(Accounting *out);
  Status read_trunks(OptimisticGuard &&meta, Accounting *out, Step *step);
  void visit(PageNo page_no);
  std::string account(const Accounting &accounting);

  BTree &tree_;
  BTree::CheckResult *result_;
  void *arg_;
  LeafCall leaf_;
  std::vector<bool> seen_;
  std::string problem_;      // of this walk, about page numbers
  // and what is before this key has been counted, however others have cut it into nodes since,
  std::string counted_to_;
  bool all_counted_ = false; // or everything
};

Status BTree::verify(CheckResult *result, void *arg,
                     Status (*leaf)(void *arg, const Node *node, u16 from)) {
  return TreeWalk(*this, result, arg, leaf).run();
}

Status TreeWalk::run() {
  u32 undisturbed_problems = 0;
  for (u32 i = 0; i < kWalks; i++) {
    Accounting before, after;
    LS_TRY(read_accounting(&before));
    LS_TRY(walk(before));
    LS_TRY(read_accounting(&after));
    std::string problem = account(after);
    if (problem.empty()) return kOk;
    if (before == after && ++undisturbed_problems == 2)
      return fail_page(tree_.file_.path, kMetaPageNo, "%s", problem.c_str());
  }
  return kOk;  // so many structure changes that page numbers cannot be judged; every page is good
}

// ---------------------------------------------------------------- nodes

Status TreeWalk::walk(const Accounting &before) {
  if (before.height == 0 || before.height > UINT8_MAX)
    return fail_page(tree_.file_.path, kMetaPageNo, "impossible height");
  Retry retry(tree_.ctx_);
  for (u32 i = 0; i < kPairTries; i++, retry.again()) {
    // Anew: when the root has lost its level on the way all below it has been counted.
    *result_ = BTree::CheckResult{};
    seen_.assign(before.page_count, false);
    problem_.clear();
    counted_to_.clear();
    all_counted_ = false;
    visit(kMetaPageNo);
    auto root = std::make_unique<PageCopy>();
    LS_TRY(copy_node({}, UINT8_MAX, root.get()));
    if (root->node()->level + 1u != before.height) problem_ = "height and level of the root differ";
    bool changed = false;
    LS_TRY(nodes(Range{}, root->node()->header.page_no, root->node()->level, &changed));
    if (!changed) return kOk;
  }
  return fail_page(tree_.file_.path, kMetaPageNo, "the root does not cover all keys");
}

// Everything below `range` that has not been counted, which the parent says is one node at `level`:
// page `expected`.  *changed: it is not (nothing was counted, but below a root).
Status TreeWalk::nodes(const Range &range, PageNo expected, u8 level, bool *changed) {
  auto page = std::make_unique<PageCopy>();
  Node *node = page->node();
  std::string position = std::max(range.lower, counted_to_);
  PageNo counted = kInvalidPageNo;   // copied again, a node is not counted again
  bool first = true;
  u32 tries = 0;
  for (Retry retry(tree_.ctx_);;) {
    LS_TRY(copy_node(as_bytes(position), level, page.get()));
    if (node->level != level) {
      *changed = true;
      return kOk;
    }
    LS_TRY(check_alone(node, as_bytes(position), level));
    if (first &&
        (as_string(node->lower_fence()) != range.lower || node->has_upper != range.has_upper ||
         as_string(node->upper_fence()) != range.upper || node->header.page_no != expected)) {
      *changed = true;
      return kOk;
    }
    if (node->header.page_no != counted) {
      counted = node->header.page_no;
      visit(counted);
      ++(node->is_leaf ? result_->leaf_pages : result_->inner_pages);
    }
    first = false;
    if (node->is_leaf) {
      LS_TRY(leaf(node));
    } else {
      bool child_changed = false;
      LS_TRY(children(node, &child_changed));
      if (child_changed) {
        if (++tries > kPairTries)
          return fail_page(tree_.file_.path, node->header.page_no,
                           "a child is not what the separators around it say");
        position = std::max(position, counted_to_);
        retry.again();
        continue;
      }
    }
    // Others may have split the node since its parent was looked at.
    if (!node->has_upper ||
        (range.has_upper && compare_keys(node->upper_fence(), as_bytes(range.upper)) >= 0))
      return kOk;
    position = as_string(node->upper_fence());
  }
}

// Merged with what was before it since that was looked at, it begins with entries that have been
// counted.
Status TreeWalk::leaf(const Node *node) {
  bool found;
  const u16 from =
      node->lower_bound(as_bytes(std::max(counted_to_, as_string(node->lower_fence()))), &found);
  result_->entries += node->count - from;
  if (leaf_) LS_TRY(leaf_(arg_, node, from));
  if (node->has_upper) counted_to_ = as_string(node->upper_fence());
  all_counted_ = !node->has_upper;
  return kOk;
}

// The children of an inner node that have not been counted.
Status TreeWalk::children(Node *node, bool *changed) {
  LS_ASSERT(!node->is_leaf && node->level > 0);
  u8 key[kMaxKeyBytes];
  std::string lower = as_string(node->lower_fence());
  for (u16 i = 0; i <= node->count; i++) {
    Range range{lower, as_string(node->upper_fence()), node->has_upper != 0};
    if (i < node->count) range = {lower, as_string({key, node->copy_key(i, key)}), true};
    lower = range.upper;
    if (all_counted_) return kOk;
    if (range.has_upper && range.upper <= counted_to_) continue;
    LS_ASSERT(node->child(i)->is_evicted());
    LS_TRY(nodes(range, node->child(i)->page_no(), static_cast<u8>(node->level - 1), changed));
    if (*changed) return kOk;
  }
  return kOk;
}

// A consistent copy; references to children checked and turned into page numbers.
Status TreeWalk::copy_node(Bytes key, u8 level, PageCopy *out) {
  if (level == 0) return tree_.node_copy(key, BTree::Aim::kAt, 0, out->bytes);
  for (Retry retry(tree_.ctx_);; retry.again()) {
    BTree::Path path;
    Step step = tree_.descend(key, BTree::Aim::kAt, level, path);
    if (step == Step::kError) return tree_.error();
    if (step == Step::kRestart) continue;
    path.parent.reset();
    SharedGuard guard(tree_.pool(), std::move(path.node));
    if (!guard) continue;
    copy_page(out->bytes, guard.page());
    if (out->node()->is_leaf) return kOk;
    if (const char *wrong = out->node()->verify())
      return fail_page(tree_.file_.path, out->node()->header.page_no, "%s", wrong);
    return check_swips(out->node());
  }
}

Status TreeWalk::check_alone(const Node *node, Bytes key, u8 level) {
  const char *wrong = node->verify();
  if (!wrong && node->level != level) wrong = "level is not one below the parent's";
  if (!wrong && !node->covers(key)) wrong = "key led to a page whose fences exclude it";
  const Gsn log_end = tree_.pool().log().last_gsn();
  if (!wrong && node->header.gsn > log_end) wrong = "page is ahead of the log";
  return wrong ? fail_page(tree_.file_.path, node->header.page_no, "%s", wrong) : kOk;
}

// The page that was copied is latched: its swips and the state of its children belong together.
Status TreeWalk::check_swips(Node *copy) {
  BufferPool &pool = tree_.pool();
  const Frame *frames = pool.frame(0);
  for (u16 i = 0; i <= copy->count; i++) {
    Swip *swip = copy->child(i);
    if (swip->is_swizzled()) {
      const Frame *frame = swip->frame();
      u64 offset = reinterpret_cast<u64>(frame) - reinterpret_cast<u64>(frames);
      const char *wrong = nullptr;
      if (offset % sizeof(Frame) != 0 || offset / sizeof(Frame) >= pool.frame_count()) {
        wrong = "reference to a child is no frame";
      } else if (frame->file_no.load(std::memory_order_relaxed) != tree_.file_no_) {
        wrong = "reference to a frame of another file";
      } else if (frame->state.load(std::memory_order_acquire) !=
                 (swip->is_cool() ? FrameState::kCool : FrameState::kHot)) {
        wrong = "state of a child's frame and its reference differ";
      }
      // A file that is being dropped loses its frames without regard to references.
      if (wrong && tree_.file_.state.load(std::memory_order_acquire) == FileState::kForgotten)
        return fail(LS_NOT_FOUND, "the file was dropped");
      if (wrong) return fail_page(tree_.file_.path, copy->header.page_no, "%s", wrong);
    }
    *swip = stored_swip(*swip);
  }
  return kOk;
}

// ---------------------------------------------------------------- page numbers

void TreeWalk::visit(PageNo page_no) {
  if (page_no >= seen_.size()) {
    if (problem_.empty())
      problem_ = "page " + std::to_string(page_no) + " in use was never handed out";
    return;
  }
  if (seen_[page_no] && problem_.empty())
    problem_ = "page " + std::to_string(page_no) + " is in the tree twice";
  seen_[page_no] = true;
}

// What is wrong with the ownership of pages; empty: nothing.
std::string TreeWalk::account(const Accounting &a) {
  result_->free_pages = a.free_total;
  result_->pages = 1 + result_->leaf_pages + result_->inner_pages;
  if (!problem_.empty()) return problem_;
  std::vector<bool> used = seen_;
  for (PageNo page_no : a.free_pages) {
    if (page_no >= used.size())
      return "free page " + std::to_string(page_no) + " was never handed out";
    if (used[page_no]) return "free page " + std::to_string(page_no) + " is in use or free twice";
    used[page_no] = true;
  }
  if (a.free_pages.size() != a.free_total)
    return "free list has " + std::to_string(a.free_pages.size()) + " pages, " +
           std::to_string(a.free_total) + " are counted";
  // Trees that are not logged may lose pages: they are emptied at the next start after a crash.
  if (tree_.logged() && result_->pages + a.free_total != a.page_count)
    return std::to_string(a.page_count - result_->pages - a.free_total) +
           " pages are neither in use nor free";
  return {};
}

Status TreeWalk::read_accounting(Accounting *out) {
  for (Retry retry(tree_.ctx_);; retry.again()) {
    OptimisticGuard guard;
    Step step = tree_.pool().resolve_meta(tree_.file_, guard);
    if (step == Step::kError) return tree_.error();
    if (step == Step::kRestart) continue;
    auto copy = std::make_unique<PageCopy>();
    copy_page(copy->bytes, guard.page());
    if (!guard.valid()) continue;
    const MetaPage *meta = reinterpret_cast<const MetaPage *>(copy->bytes);
    const char *path = tree_.file_.path;
    if (meta->magic != kMetaMagic || meta->header.kind != PageKind::kMeta)
      return fail_page(path, kMetaPageNo, "not a meta page");
    if (meta->free_count > std::size(meta->free_pages))
      return fail_page(path, kMetaPageNo, "free list is too long");
    *out = Accounting{meta->page_count, meta->free_total, meta->height, meta->header.gsn, {}};
    out->free_pages.assign(meta->free_pages, meta->free_pages + meta->free_count);
    LS_TRY(read_trunks(std::move(guard), out, &step));
    if (step == Step::kOk) return kOk;
  }
}

Status TreeWalk::read_trunks(OptimisticGuard &&meta, Accounting *out, Step *step) {
  OptimisticGuard page = std::move(meta);
  *step = Step::kOk;
  auto *location = &reinterpret_cast<MetaPage *>(const_cast<u8 *>(page.page()))->trunk;
  auto copy = std::make_unique<PageCopy>();
  const TrunkPage *trunk = reinterpret_cast<const TrunkPage *>(copy->bytes);
  while (__atomic_load_n(location, __ATOMIC_RELAXED) != 0) {
    OptimisticGuard next;
    *step = tree_.pool().resolve(tree_.ctx_, page, reinterpret_cast<Swip *>(location), tree_.file_,
                                 next);
    if (*step == Step::kError) return tree_.error();
    if (*step == Step::kRestart) return kOk;
    page = std::move(next);
    copy_page(copy->bytes, page.page());
    if (!page.valid()) {
      *step = Step::kRestart;
      return kOk;
    }
    PageNo page_no = trunk->header.page_no;
    if (trunk->header.kind != PageKind::kTrunk || trunk->count > std::size(trunk->pages))
      return fail_page(tree_.file_.path, page_no, "not a list of free pages");
    out->free_pages.push_back(page_no);
    out->free_pages.insert(out->free_pages.end(), trunk->pages, trunk->pages + trunk->count);
    if (out->free_pages.size() > out->page_count)
      return fail_page(tree_.file_.path, page_no, "list of free pages has a loop");
    location = &reinterpret_cast<TrunkPage *>(const_cast<u8 *>(page.page()))->next;
  }
  if (!page.valid()) *step = Step::kRestart;
  return kOk;
}

}  // namespace ls
