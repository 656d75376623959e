// tree_bring_in.cpp - leaves that are not in memory, read together into the pool.
//
// They are read past the pool, and enter it while their parent has the version at which it referred
// to them as evicted (BufferPool::bring_in).  What cannot be had so is left to be read alone, which
// says what is wrong.
#include <algorithm>

#include "base/check.hpp"
#include "btree/leaf_reads.hpp"
#include "btree/node_bytes.hpp"
#include "btree/tree.hpp"
#include "buffer/change_buffer.hpp"
#include "buffer/followed_pages.hpp"

namespace ls {

// A leaf that may be read.
struct BTree::Evicted {
  PageStamp parent;   // no frame: it is not to be had now, or is in memory
  Swip *location = nullptr;
  PageNo page_no = 0;
  bool done = false;
};

// Those under one parent from that of `from` to that of `to`; how many.
u32 BTree::find_evicted(Bytes from, Bytes to, std::span<Evicted> out) {
  Path path;
  const Step step = descend(from, Aim::kAt, 1, path);
  if (step != Step::kOk || reinterpret_cast<const Node *>(path.node.page())->is_leaf) return 0;
  Node *parent = reinterpret_cast<Node *>(const_cast<u8 *>(path.node.page()));
  const u32 count = std::min<u32>(load_once(parent->count), kMaxSlots);
  const u32 last = std::min<u32>(parent->child_index(to), count);
  u32 found = 0;
  for (u32 i = parent->child_index(from); i <= last && found < out.size(); i++) {
    Swip *location = parent->child(static_cast<u16>(i));
    const Swip swip{__atomic_load_n(&location->raw, __ATOMIC_RELAXED)};
    if (swip.is_evicted()) out[found++] = {.location = location, .page_no = swip.page_no()};
  }
  if (found == 0 || !path.node.valid()) return 0;
  path.parent.reset();
  PageStamp seen;
  seen.frame = path.node.release(&seen.version);
  for (u32 i = 0; i < found; i++) out[i].parent = seen;
  return found;
}

void BTree::read_together(LeafReads &reads, std::span<Evicted> leaves) {
  LS_ASSERT(leaves.size() <= LeafReads::kMost);
  for (u32 i = 0; i < leaves.size(); i++) {
    // While the parent is as it was the file has the page, or another worker is reading it.
    if (leaves[i].parent.frame && !pool().is_beside_file(file_, leaves[i].page_no)) {
      reads.ring().add(leaves[i].page_no, reads.buffer(i), i);
    }
  }
  reads.ring().submit(file_.ref());
  for (PageReads::Ended ended; reads.ring().next(true, &ended);) {
    LS_ASSERT(ended.tag < leaves.size());
    Evicted &leaf = leaves[ended.tag];
    LS_ASSERT(leaf.parent.frame && !leaf.done);
    const u8 *page = reads.buffer(ended.tag);
    if (!ended.whole || read_fault(page, leaf.page_no, pool().log().last_gsn())) continue;
    const PageStamp parent = leaf.parent;
    const EvictedChild child{parent.frame, &leaf.parent.version, leaf.location, leaf.page_no};
    leaf.done = pool().bring_in(ctx_, file_, child, page) == Step::kOk;
    if (!leaf.done) continue;
    ctx_.pages.read++;
    // For its other children nothing has changed.
    for (Evicted &other : leaves) {
      const bool same =
          other.parent.frame == parent.frame && other.parent.version == parent.version;
      if (same) other.parent.version = leaf.parent.version;
    }
  }
}

void BTree::bring_in(LeafReads &reads, std::span<const KeyRange> ranges) {
  if (is_followed(*pool().shared(), file_)) return;   // no swip says what is in memory
  Evicted leaves[LeafReads::kMost];
  u32 n = 0;
  for (const KeyRange &range : ranges) {
    // The leaf of the range before, once more.
    Evicted *const next = leaves + n;
    u32 found = find_evicted(range.from, range.to, {next, LeafReads::kMost - n});
    if (n > 0 && found > 0 && next->location == next[-1].location) {
      std::copy(next + 1, next + found, next);
      found--;
    }
    n += found;
    if (n == LeafReads::kMost) break;
  }
  if (n > 1 && reads.possible()) read_together(reads, {leaves, n});
}

Status BTree::bring_in(Ctx &ctx, FileSlot &file, std::span<const ChangeBufferPage> pages) {
  BTree tree(ctx, file);
  LeafReads reads;
  while (!pages.empty()) {
    const size_t n = std::min<size_t>(pages.size(), LeafReads::kMost);
    Evicted leaves[LeafReads::kMost];
    Bytes keys[LeafReads::kMost];   // of a buffered change
    u8 room[LeafReads::kMost][sizeof(u64)];
    for (size_t i = 0; i < n; i++) {
      LS_CHECK(tree_ops().key_of({pages[i].code, pages[i].operands, 0}, room[i], &keys[i]),
               "a buffered change is damaged");
      tree.find_evicted(keys[i], keys[i], {&leaves[i], 1});
    }
    if (reads.possible()) tree.read_together(reads, {leaves, n});
    for (size_t i = 0; i < n; i++) {
      const Status status =
          leaves[i].done ? kOk : tree.read_leaf(keys[i], Aim::kAt, [](const Node &) {});
      if (code(status) != LS_CORRUPT) LS_TRY(status);
    }
    pages = pages.subspan(n);
  }
  return kOk;
}

}  // namespace ls
