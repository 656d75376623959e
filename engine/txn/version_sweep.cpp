// version_sweep.cpp - when a pass is worth it, and one pass over the version store.
#include "txn/version_sweep.hpp"

#include "base/check.hpp"
#include "txn/row_purge.hpp"

namespace ls {

namespace {

constexpr u32 kLeavesPerRound = 64;
// What stays is met by every pass.  So the next one begins when as many entries have been written
// as the last one has left; and slowly when none are, as snapshots go.
constexpr u64 kCreditPerRound = 64;

struct Pass {
  Worker &w;
  Tn horizon;
  Status failure = kOk;
  LastPurged purged;
  // The transaction asked about last.
  Tn tn = 0;
  bool active = false;
};

bool is_active(Pass &pass, Tn tn) {
  if (tn != pass.tn) pass.active = tn_is_active(*pass.w.txns, tn);
  pass.tn = tn;
  return pass.active;
}

// Does the entry go?  That of a ghost goes with its ghost, that of a run behind the last of them.
bool visit(void *arg, Bytes key, Bytes value) {
  Pass &pass = *static_cast<Pass *>(arg);
  VersionLocator at;
  VersionEntry entry;
  Bytes payload;
  if (!ok(pass.failure)) return false;
  if (!decode_version_key(key, &at) || !parse_version(value, &entry, &payload)) {
    pass.failure = fail(LS_CORRUPT, "entry of the version store is damaged");
    return false;
  }
  if (at.tn < pass.horizon) return false;
  switch (entry.op) {
    case VersionOp::kInsert:
    case VersionOp::kLock:
      return !is_active(pass, at.tn);
    case VersionOp::kUpdate:
      return false;
    case VersionOp::kDelete:
      break;
  }
  // A snapshot sees the version that was deleted, or may.
  if (version_needed(pass.w.txns->snapshots, entry.previous.tn(), at.tn)) return false;
  bool ghosts_left = false;
  const auto purge = [&](FileSlot &file, u64 row_id, PurgeResult *result) {
    LS_TRY(purge_unseen(pass.w, file, row_id, result));
    ghosts_left |= result->ghosts_left;
    return kOk;
  };
  // Its transaction has ended (HOR-3): a leaf that was purged before may have ghosts of it.
  if (entry.run != 0) pass.purged.file_no = 0;
  pass.failure = purge_ghosts_of(pass.w, entry, &pass.purged, purge);
  return ok(pass.failure) && entry.run != 0 && !ghosts_left;
}

// At the beginning of a pass: is it worth one?
bool is_due(Worker &w, VersionSweep &sweep) {
  const u64 written = w.txns->versions_written.load(std::memory_order_relaxed);
  LS_ASSERT(written >= sweep.versions_seen);
  sweep.credit += kCreditPerRound + (written - sweep.versions_seen);
  sweep.versions_seen = written;
  if (sweep.credit < sweep.kept) return false;
  sweep.credit = sweep.kept = 0;
  return true;
}

}  // namespace

Status sweep_versions(Worker &w, Tn horizon, u64 *removed) {
  VersionSweep &sweep = w.version_sweep;
  *removed = 0;
  if (!sweep.running && !is_due(w, sweep)) return kOk;
  LS_ASSERT(horizon <= txn_horizon(*w.txns));
  sweep.running = true;
  Pass pass{w, horizon};
  u64 entries = 0;
  Status status = kOk;
  for (u32 i = 0; i < kLeavesPerRound && sweep.running && ok(status); i++) {
    BTree tree(w.ctx, w.pool->file(w.txns->version_file[sweep.tree]));
    status = tree.sweep_leaf(&sweep.cursor, &pass, visit, &sweep.kept, &entries);
    if (ok(status)) status = pass.failure;
    if (!sweep.cursor.end) continue;
    sweep.cursor = {};
    sweep.tree = (sweep.tree + 1) % w.txns->version_trees;
    sweep.running = sweep.tree != 0;
  }
  w.txns->versions_removed.fetch_add(entries, std::memory_order_relaxed);
  *removed = entries + pass.purged.removed;
  return status;
}

}  // namespace ls
