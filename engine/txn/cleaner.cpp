// cleaner.cpp - removes what no snapshot needs any more: undo entries below the horizon with the
// ghosts they lead to, those above it that no existing snapshot needs (version_sweep.hpp), row
// locks of finished transactions; and merges sparse leaves (btree/tree_xmerge.cpp).  One engine
// thread; bounded work per call, so that it stops when asked.
//
// A crash loses nothing: entries are not recovered anyway, a ghost that stayed is met by a scan
// (row_purge.hpp).
#include "base/check.hpp"
#include "base/interrupt.hpp"
#include "os/futex.hpp"
#include "txn/row_lock_table.hpp"
#include "txn/row_purge.hpp"
#include "txn/version_sweep.hpp"

namespace ls {

namespace {

constexpr u32 kLeavesPerTree = 64;   // of one version tree in one round
constexpr u32 kLockLeaves = 64;

struct Round {
  Worker &w;
  Tn horizon;
  Status failure = kOk;
  LastPurged purged;
};

bool visit(void *arg, Bytes key, Bytes value) {
  (void)key;
  Round &round = *static_cast<Round *>(arg);
  VersionEntry entry;
  Bytes payload;
  if (!parse_version(value, &entry, &payload)) {
    round.failure = fail(LS_CORRUPT, "entry of the version store is damaged");
    return false;
  }
  if (entry.op != VersionOp::kDelete) return true;
  const auto purge = [&](FileSlot &file, u64 row_id, PurgeResult *result) {
    return purge_leaf(round.w, file, row_id, round.horizon, result);
  };
  round.failure = purge_ghosts_of(round.w, entry, &round.purged, purge);
  return ok(round.failure);
}

// Rollback puts the longer row back that a running transaction has replaced.  Where the leaf's room
// went to others meanwhile, it would have to be split again, as often as there are leaves: such a
// merge is logged twice for nothing.
bool may_get_longer(const TxnShared &txns, const FileSlot &file, const Node &leaf) {
  if (__atomic_load_n(&file.kind, __ATOMIC_RELAXED) != LS_REL_TABLE) return false;
  Tn ended = 0;   // the one asked for last: a leaf's rows often have one writer
  for (u16 pos = 0; pos < leaf.count; pos++) {
    const Bytes value = leaf.value(pos);
    if (value.size() < sizeof(RowHeader)) continue;
    const RowHeader header = RowHeader::load(value.data());
    const bool updated = header.has(LS_ROW_HAS_PREV) && !header.has(LS_ROW_GHOST);
    if (!updated || header.tn() == ended) continue;
    if (tn_is_active(txns, header.tn())) return true;
    ended = header.tn();
  }
  return false;
}

Status clean(Worker &w, u64 *removed, const CleanMore &more) {
  Round round{w, settled_below(*w.txns)};
  u64 entries = 0;
  for (u32 i = 0; i < w.txns->version_trees; i++) {
    // The bound is the same in every tree: a partition only holds some of the transactions.
    BTree tree(w.ctx, w.pool->file(w.txns->version_file[i]));
    LS_TRY(
        tree.remove_before(VersionKey(round.horizon, 0), kLeavesPerTree, &round, visit, &entries));
    LS_TRY(round.failure);
  }
  w.txns->versions_removed.fetch_add(entries, std::memory_order_relaxed);
  u64 swept = 0;
  LS_TRY(sweep_versions(w, round.horizon, &swept));
  u64 locks = 0;
  LS_TRY(RowLockTable(w).sweep(&w.lock_sweep, kLockLeaves, &locks));
  u64 others = 0;
  u64 merged = 0;
  const BTree::LeafFilter may_merge = [&](const FileSlot &file, const Node &leaf) {
    return !may_get_longer(*w.txns, file, leaf);
  };
  LS_TRY(BTree::merge_sparse_leaves(w.ctx, may_merge, &merged));
  if (more.clean) LS_TRY(more.clean(more.arg, w, &others));
  *removed = entries + swept + locks + merged + others;
  return kOk;
}

}  // namespace

Status clean_versions(Worker &w, u64 *removed) {
  *removed = 0;
  const auto each = [](void *, Bytes, Bytes) { return true; };
  for (u32 i = 0; i < w.txns->version_trees; i++) {
    BTree tree(w.ctx, w.pool->file(w.txns->version_file[i]));
    const VersionKey bound(settled_below(*w.txns), 0);
    LS_TRY(tree.remove_before(bound, kLeavesPerTree, nullptr, each, removed));
  }
  w.txns->versions_removed.fetch_add(*removed, std::memory_order_relaxed);
  return kOk;
}

// cleaner_busy, cleaner_pauses: sequentially consistent on both sides.  Either the cleaner sees the
// pause, or the worker that pauses it sees that it is busy.
Status clean_round(Worker &w, u64 *removed, const CleanMore &more) {
  *removed = 0;
  TxnShared &txns = *w.txns;
  LS_ASSERT(txns.cleaner_busy.load(std::memory_order_relaxed) == 0);  // one cleaner
  txns.cleaner_busy.store(1, std::memory_order_seq_cst);
  const bool paused = txns.cleaner_pauses.load(std::memory_order_seq_cst) > 0;
  const Status status = paused ? kOk : clean(w, removed, more);
  // pairs with wait(): what the round did is seen
  txns.cleaner_busy.store(0, std::memory_order_release);
  if (txns.cleaner_pauses.load(std::memory_order_relaxed) > 0) futex_wake_all(&txns.cleaner_busy);
  return status;
}

CleanerPause::CleanerPause(TxnShared &txns) : txns_(txns) {
  txns_.cleaner_pauses.fetch_add(1, std::memory_order_seq_cst);
}
CleanerPause::~CleanerPause() { txns_.cleaner_pauses.fetch_sub(1, std::memory_order_release); }

Status CleanerPause::wait(const volatile int *interrupt) {
  while (txns_.cleaner_busy.load(std::memory_order_seq_cst) != 0) {
    if (interrupt_pending(interrupt))
      return fail(LS_INTERRUPTED, "interrupted while the end of a cleaning round was awaited");
    futex_wait_interruptible(&txns_.cleaner_busy, 1, kInterruptPollUs);
  }
  return kOk;
}

}  // namespace ls
