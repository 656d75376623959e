// batch_lookup.cpp - the steps of many look-ups in turn, with a prefetch between.
#include "btree/batch_lookup.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/prefetch.hpp"
#include "btree/node_entries.hpp"

namespace ls {

namespace {

// With a leaf's header and hints, its first slots: which of them are wanted is not worth another
// pass.
constexpr u32 kLeafBytes = 8 * kCacheLine;
// Of a leaf guessed, where most are found.
constexpr u32 kGuessBytes = 6 * kCacheLine;

}  // namespace

void BatchLookup::add(FileSlot &file, Bytes key, LeafHint *hint, Frame *guess) {
  LS_ASSERT(count_ < kMax);
  *hint = {};
  Probe &probe = probes_[count_++];
  probe.file = &file;
  probe.key = key;
  probe.hint = hint;
  probe.stage = guess ? Stage::kGuess : Stage::kMeta;
  probe.node = guess;
  if (guess) __builtin_prefetch(guess);
}

void BatchLookup::try_guesses() {
  for (u32 i = 0; i < count_; i++) {
    if (probes_[i].stage != Stage::kGuess) continue;
    const u8 *page = pool_.page(probes_[i].node);
    prefetch(page, kGuessBytes);
    __builtin_prefetch(page + kPageSize - kCacheLine);   // the fences, and with them the prefix
  }
  u32 left = 0;
  for (u32 i = 0; i < count_; i++) {
    Probe &probe = probes_[i];
    if (probe.stage == Stage::kGuess) {
      probe.stage = Stage::kMeta;
      const Frame *frame = probe.node;
      // Not a page that is being read: a batch waits for no page.
      if (frame->in_tree() && is_in(OptimisticGuard(pool_, probe.node), probe)) continue;
    }
    if (left != i) probes_[left] = probe;
    left++;
  }
  count_ = left;
}

// The key at a valid moment in a leaf of the tree: that is its entry.
bool BatchLookup::is_in(const OptimisticGuard &leaf, const Probe &probe) {
  const Frame *frame = leaf.frame();
  const Node *node = reinterpret_cast<const Node *>(leaf.page());
  const FileNo file_no = probe.file->file_no.load(std::memory_order_relaxed);
  if (!frame->in_tree() || frame->file_no.load(std::memory_order_relaxed) != file_no ||
      node->header.kind != PageKind::kLeaf)
    return false;
  bool found;
  const u16 pos = node->lower_bound(probe.key, &found);
  const Bytes prefix = node->prefix();
  if (!found || prefix.size() > probe.key.size() ||
      !std::equal(prefix.begin(), prefix.end(), probe.key.begin()))
    return false;
  const Bytes value = value_bytes(*node, pos);
  if (!leaf.valid()) return false;
  prefetch(value.data(), static_cast<u32>(value.size() + kCacheLine));
  *probe.hint = {leaf.frame(), leaf.version(), pos};
  return true;
}

void BatchLookup::run() {
  try_guesses();
  while (count_ > 0) {
    u32 left = 0;
    for (u32 i = 0; i < count_; i++) {
      step(probes_[i]);
      if (probes_[i].stage != Stage::kDone) probes_[left++] = probes_[i];
    }
    count_ = left;
    // In loops that do nothing else: a prefetch waits for its address translation, and only
    // neighbours wait together.
    for (u32 i = 0; i < count_; i++) {
      if (probes_[i].stage == Stage::kNode) __builtin_prefetch(probes_[i].node);
    }
    for (u32 i = 0; i < count_; i++) __builtin_prefetch(probes_[i].ask);
    for (u32 i = 0; i < count_; i++) prefetch(probes_[i].ask + kCacheLine, probes_[i].ask_bytes);
  }
}

// Ends with kDone, or with what to ask for before the next step.
void BatchLookup::step(Probe &probe) {
  OptimisticGuard guard;
  if (probe.stage == Stage::kMeta) {
    probe.stage = Stage::kDone;
    if (pool_.resolve_meta(*probe.file, guard) != Step::kOk) return;
    enter_child(
        probe, guard,
        __atomic_load_n(&reinterpret_cast<const MetaPage *>(guard.page())->root, __ATOMIC_RELAXED),
        false);
    return;
  }
  LS_ASSERT(probe.stage >= Stage::kNode && probe.stage < Stage::kDone);
  guard = OptimisticGuard(pool_, probe.node);
  // Read before this is the node's version: so that is the right node's.
  if (probe.parent->latch.validate(probe.parent_version)) {
    search(probe, guard);
  } else {
    probe.stage = Stage::kDone;
  }
}

void BatchLookup::search(Probe &probe, const OptimisticGuard &guard) {
  Node *node = reinterpret_cast<Node *>(const_cast<u8 *>(guard.page()));
  bool found;
  if (node->is_leaf) {
    const u16 pos = node->lower_bound(probe.key, &found);
    const Bytes value = node->value(pos);
    prefetch(value.data(), static_cast<u32>(value.size() + kCacheLine));
    if (found) *probe.hint = {probe.node, guard.version(), pos};
    probe.stage = Stage::kDone;
    return;
  }
  // Those above the last inner level are few: they are in the cache.
  const bool above_leaves = node->level == 1;
  if (above_leaves && probe.stage == Stage::kNode) {
    const Bytes slots = node->search_range(probe.key);
    probe.ask = slots.data();
    probe.ask_bytes = static_cast<u32>(slots.size());
    probe.stage = Stage::kSlots;
    return;
  }
  if (probe.stage != Stage::kChild || probe.version != guard.version()) {
    probe.pos = node->child_index(probe.key);
    probe.version = guard.version();
  }
  const u64 *swip = &node->child(probe.pos)->raw;
  if (above_leaves && probe.stage == Stage::kSlots) {
    probe.ask = reinterpret_cast<const u8 *>(swip);
    probe.ask_bytes = sizeof *swip;
    probe.stage = Stage::kChild;
    return;
  }
  enter_child(probe, guard, __atomic_load_n(swip, __ATOMIC_RELAXED), above_leaves);
}

void BatchLookup::enter_child(Probe &probe, const OptimisticGuard &guard, u64 raw, bool leaf) {
  const Swip swip{raw};
  probe.stage = Stage::kDone;
  if (!guard.valid() || !swip.is_swizzled()) return;
  probe.parent = guard.frame();
  probe.parent_version = guard.version();
  probe.node = swip.frame();
  LS_ASSERT(pool_.index_of(probe.node) < pool_.frame_count());
  probe.ask = pool_.page(probe.node);
  probe.ask_bytes = leaf ? kLeafBytes : sizeof(Node);
  probe.stage = Stage::kNode;
}

}  // namespace ls
