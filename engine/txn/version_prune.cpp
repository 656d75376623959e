// version_prune.cpp - the walk along a chain, and unlinking what no snapshot needs.
#include "txn/version_prune.hpp"

#include <cstring>

#include "base/check.hpp"
#include "base/random.hpp"

namespace ls {

namespace {

// One of so many changes of a row looks at its chain: that costs a few look-ups, and a chain that
// is a few links longer costs readers next to nothing.  By chance, so that no rhythm of changes
// leaves a row out.
constexpr u32 kChangesPerPrune = 4;
// Versions still needed are walked over; more than this many distinct long-lived snapshots on one
// row are left to the cleaner.
constexpr u32 kMaxKept = 64;
// Removed in one go, so that the entry before them is written once.
constexpr u32 kMaxDropped = 64;

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

// A version in the chain may be dropped if it is an ordinary one (not the state before a deletion:
// its bytes are the ghost's).
bool droppable(const Worker &w, const VersionEntry &entry, Tn superseded_by) {
  return entry.op == VersionOp::kUpdate &&
         !version_needed(w.txns->snapshots, entry.previous.tn(), superseded_by);
}

// What must not vanish with a version: that it changed a key (FOR KEY SHARE looks through changes
// of other columns only), and that the entries behind it are those of the row it was copied from.
void keep_flags(RowHeader *newer, const RowHeader &dropped) {
  const u8 flags =
      static_cast<u8>(newer->flags() | (dropped.flags() & (LS_ROW_KEYS_CHANGED | LS_ROW_COPIED)));
  *newer = RowHeader::make(newer->tn(), flags, newer->generation(), newer->cid, newer->seq);
}

// Versions behind `link` that may go.
struct Dropped {
  VersionLocator at[kMaxDropped];
  u32 n = 0;
  bool ended = false;   // nothing is left behind them
};

// Collect them and link past them; *next: the first that stays, if any.
Status unlink(Worker &w, Link *link, Link *next, Dropped *dropped) {
  VersionLocator behind = link->entry.older();
  bool found = true;
  while (behind && dropped->n < kMaxDropped) {
    LS_TRY(read_link(w, behind, next, &found));
    if (!found) break;
    if (!droppable(w, next->entry, link->entry.previous.tn())) break;
    keep_flags(&link->entry.previous, next->entry.previous);
    dropped->at[dropped->n++] = behind;
    behind = next->entry.older();
  }
  if (!found) behind = {};
  dropped->ended = !behind;
  if (dropped->n == 0 && found) return kOk;
  link->entry.older_tn = behind.tn;
  link->entry.older_seq = behind.seq;
  return version_store(w, link->at.tn).put(link->at, link->entry, link->payload());
}

}  // namespace

Status prune_versions(Worker &w, VersionLocator at) {
  LS_ASSERT(at && w.tn != 0);
  // An entry of the transaction's own may yet be undone: the row then continues at (behind), which
  // has to be there.
  if (at.tn == w.tn || next_random(w.ctx.random) % kChangesPerPrune != 0) return kOk;
  Link link, next;
  bool found;
  LS_TRY(read_link(w, at, &link, &found));
  if (!found) return kOk;
  for (u32 kept = 0; kept < kMaxKept && link.entry.older(); kept++) {
    Dropped dropped;
    LS_TRY(unlink(w, &link, &next, &dropped));
    for (u32 i = 0; i < dropped.n; i++)
      LS_TRY(version_store(w, dropped.at[i].tn).remove(dropped.at[i]));
    w.txns->versions_removed.fetch_add(dropped.n, std::memory_order_relaxed);
    if (dropped.ended || dropped.n == kMaxDropped) break;
    link = next;
  }
  return kOk;
}

}  // namespace ls
