#include "btree/look_ahead.hpp"

#include "base/check.hpp"
#include "base/prefetch.hpp"

namespace ls {

namespace {

// With a leaf's header and hints, its first slots: which of them are wanted is not worth another pass.
constexpr u32 kLeafBytes = 8 * kCacheLine;

}  // namespace

void LookAhead::add(FileSlot &file, Bytes key, LeafHint *hint) {
  LS_ASSERT(count_ < kMax);
  *hint = {};
  probes_[count_++] = {.file = &file, .key = key, .hint = hint, .stage = Stage::kMeta};
}

void LookAhead::run() {
  while (count_ > 0) {
    u32 left = 0;
    for (u32 i = 0; i < count_; i++) {
      step(probes_[i]);
      if (probes_[i].stage != Stage::kDone) probes_[left++] = probes_[i];
    }
    count_ = left;
    // In loops that do nothing else: a prefetch waits for its address translation, and only neighbours wait together.
    for (u32 i = 0; i < count_; i++) {
      if (probes_[i].stage == Stage::kNode) __builtin_prefetch(probes_[i].node);
    }
    for (u32 i = 0; i < count_; i++) __builtin_prefetch(probes_[i].ask);
    for (u32 i = 0; i < count_; i++) prefetch(probes_[i].ask + kCacheLine, probes_[i].ask_bytes);
  }
}

// Ends with kDone, or with what to ask for before the next step.
void LookAhead::step(Probe &probe) {
  OptimisticGuard guard;
  if (probe.stage == Stage::kMeta) {
    probe.stage = Stage::kDone;
    if (pool_.follow_meta(*probe.file, guard) != Step::kOk) return;
    enter_child(probe, guard, __atomic_load_n(&reinterpret_cast<const MetaPage *>(guard.page())->root, __ATOMIC_RELAXED), false);
    return;
  }
  guard = OptimisticGuard(pool_, probe.node);
  // Read before this is the node's version: so that is the right node's.
  if (probe.parent->latch.validate(probe.parent_version)) {
    search(probe, guard);
  } else {
    probe.stage = Stage::kDone;
  }
}

void LookAhead::search(Probe &probe, const OptimisticGuard &guard) {
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
    const std::span<const Slot> slots = node->search_range(probe.key);
    probe.ask = reinterpret_cast<const u8 *>(slots.data());
    probe.ask_bytes = static_cast<u32>(slots.size_bytes());
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

void LookAhead::enter_child(Probe &probe, const OptimisticGuard &guard, u64 raw, bool leaf) {
  const Swip swip{raw};
  probe.stage = Stage::kDone;
  if (!guard.valid() || !swip.is_swizzled()) return;
  probe.parent = guard.frame();
  probe.parent_version = guard.version();
  probe.node = swip.frame();
  probe.ask = pool_.page(probe.node);
  probe.ask_bytes = leaf ? kLeafBytes : sizeof(Node);
  probe.stage = Stage::kNode;
}

}  // namespace ls
