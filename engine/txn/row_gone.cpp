// row_gone.cpp - whether a deletion is final, from the ghost's chain.
#include "txn/row_gone.hpp"

#include "base/check.hpp"
#include "txn/row_read.hpp"

namespace ls {

namespace {

// Chains are pruned as they grow; a longer one is left to the horizon.
constexpr u32 kMaxLinks = 64;

// The writer of the oldest version that the ghost leads to.  *known false: the chain has changed
// meanwhile, or is shared with a row that this one was copied from.
Status first_writer(Worker &w, const RowHeader &ghost, Tn *first, bool *known) {
  alignas(8) u8 bytes[kPageSize];
  VersionLocator at{ghost.tn(), ghost.seq};
  *known = !ghost.has(LS_ROW_COPIED);
  for (u32 i = 0; at && *known; i++) {
    const VersionEntry *entry = nullptr;
    const Status s =
        i < kMaxLinks ? version_store(w, at.tn).get(at, bytes, &entry) : make_status(LS_NOT_FOUND);
    *known = code(s) != LS_NOT_FOUND && (!ok(s) || !entry->previous.has(LS_ROW_COPIED));
    if (!*known) return kOk;
    LS_TRY(s);
    *first = entry->previous.tn();
    at = entry->older();
  }
  return kOk;
}

}  // namespace

Status deletion_final(Worker &w, const RowHeader &ghost, bool *final) {
  LS_ASSERT(ghost.has(LS_ROW_GHOST));  // GONE-3
  const HorizonShared &snapshots = w.txns->snapshots;
  *final = false;
  if (!w.txns->commits.is_hardened(ghost.tn(), w.log.log().hardened())) return kOk;
  *final = !version_needed(snapshots, kEarliestTn, ghost.tn());
  // Not even if no pin saw the row.
  if (*final || version_needed(snapshots, kLatestTn, ghost.tn())) return kOk;
  Tn first = 0;
  bool known;
  LS_TRY(first_writer(w, ghost, &first, &known));
  *final = known && !version_needed(snapshots, first, ghost.tn());
  return kOk;
}

Status row_gone(Worker &w, FileSlot &file, u64 row_id, Tn settled, RowGone *out) {
  LS_ASSERT(settled <= txn_horizon(*w.txns));  // GONE-2
  LS_ASSERT(file.kind != LS_REL_VALUES);  // GONE-4: no index leads there
  u8 value[sizeof(RowHeader)];
  for (;;) {
    u32 bytes = 0;
    // The sweep of an index often asks for neighbours.
    const Status s = BTree(w.ctx, file).lookup_near(RowKey(row_id), w.last_leaves.of(file, row_id),
                                                    value, sizeof value, &bytes);
    if (code(s) == LS_NOT_FOUND) {
      *out = {.gone = has_pages(file)};   // not dropped
      return kOk;
    }
    LS_TRY(s);
    if (bytes < sizeof value) return fail_row(file, row_id, "shorter than its header");
    const RowHeader header = RowHeader::load(value);
    *out = {};
    if (!header.has(LS_ROW_GHOST)) return kOk;
    out->deleter = header.tn();   // never 0: a ghost is not changed, so no start has put it back
    out->gone = header.tn() < settled;
    if (out->gone) return kOk;
    LS_TRY(deletion_final(w, header, &out->gone));
    if (!out->gone) return kOk;
    // Else it is back, or has left its leaf just now.
    LS_TRY(row_still(w, file, row_id, header, &out->gone));
    if (out->gone) return kOk;
  }
}

}  // namespace ls
