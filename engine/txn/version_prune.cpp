#include "txn/version_prune.hpp"

#include <cstring>

namespace ls {

namespace {

// Versions still needed are walked over at each change of the row; more than this many distinct long-lived snapshots on one
// row are left to the cleaner.
constexpr u32 kMaxSteps = 64;

struct Link {
  VersionLocator at;
  VersionEntry entry;
  alignas(8) u8 bytes[kPageSize];

  Bytes payload() const { return Bytes(bytes + sizeof(VersionEntry), entry.payload_bytes); }
};

// *found = false: cleaned already.
Status read_link(Worker &w, VersionLocator at, Link *link, bool *found) {
  const VersionEntry *entry = nullptr;
  const Status s = version_store(w, at.tn).get(at, link->bytes, &entry);
  *found = code(s) != LS_NOT_FOUND;
  if (!*found) return kOk;
  LS_TRY(s);
  link->at = at;
  std::memcpy(&link->entry, entry, sizeof link->entry);
  return kOk;
}

// A version in the chain may be dropped if it is an ordinary one (not the state before a deletion, whose bytes are the ghost's).
bool droppable(const Worker &w, const VersionEntry &entry, Tn superseded_by) {
  return entry.op == VersionOp::kUpdate && !version_needed(w.txns->snapshots, entry.previous.tn(), superseded_by);
}

// FOR KEY SHARE looks through changes of other columns only: a key change must not vanish with its version.
void keep_key_change(RowHeader *newer, const RowHeader &dropped) {
  const u8 flags = static_cast<u8>(newer->flags() | (dropped.flags() & LS_ROW_KEYS_CHANGED));
  *newer = RowHeader::make(newer->tn(), flags, newer->generation(), newer->cid, newer->seq);
}

}  // namespace

Status prune_versions(Worker &w, VersionLocator at) {
  // An entry of our own may yet be undone: the row then continues at (behind), which has to be there.
  if (at.tn == w.tn) return kOk;
  Link link, next;
  bool found;
  LS_TRY(read_link(w, at, &link, &found));
  if (!found) return kOk;
  for (u32 step = 0; step < kMaxSteps && link.entry.older(); step++) {
    const VersionLocator behind = link.entry.older();
    LS_TRY(read_link(w, behind, &next, &found));
    if (found && !droppable(w, next.entry, link.entry.previous.tn())) {
      link = next;
      continue;
    }
    if (found) keep_key_change(&link.entry.previous, next.entry.previous);
    link.entry.older_tn = found ? next.entry.older_tn : 0;
    link.entry.older_seq = found ? next.entry.older_seq : 0;
    LS_TRY(version_store(w, link.at.tn).put(link.at, link.entry, link.payload()));
    if (!found) break;
    LS_TRY(version_store(w, behind.tn).remove(behind));
    w.txns->versions_removed.fetch_add(1, std::memory_order_relaxed);
  }
  return kOk;
}

}  // namespace ls
