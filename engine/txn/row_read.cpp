// row_read.cpp - the search along a row's chain, again where the row has changed meanwhile.
#include "txn/row_read.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "txn/row_conflict.hpp"

namespace ls {

namespace {

// A round means that the row was changed in between: a reader that loses so often pauses before it
// reads again.
constexpr u32 kRereadsAtOnce = 100;
// A version that is not found although the row stands still: it was looked for so often, with
// pauses, for a writer may be about to change the row.
constexpr u32 kLooksInVain = 2000;

// Rounds in a chain without a visible version: longer than any chain can be (a version per sequence
// number is possible, but every step is an existing entry, so this only bounds loops made of
// damaged entries).
constexpr u64 kMaxChain = u64{1} << 32;

bool same_version(const RowHeader &a, const RowHeader &b) {
  return a.tn() == b.tn() && a.seq == b.seq;
}

}  // namespace

Status version_before(Worker &w, const FileSlot &file, u64 row_id, VersionLocator at,
                      Bytes ghost_payload, u8 *older, RowVersion *version, VersionLocator *next,
                      bool *gone) {
  LS_ASSERT(at);
  VersionStore store = version_store(w, at.tn);
  const VersionEntry *entry = nullptr;
  const Status s = store.get(at, older, &entry);
  *gone = code(s) == LS_NOT_FOUND;
  if (*gone) return kOk;
  LS_TRY(s);
  const bool update = entry->op == VersionOp::kUpdate;
  version->copied |= version->header.has(LS_ROW_COPIED);
  const bool mine =
      version->copied ||
      (entry->row_id == row_id && entry->file_no == file.file_no.load(std::memory_order_relaxed));
  if (!mine || (!update && entry->op != VersionOp::kDelete)) {
    return fail_row(file, row_id, "its older version belongs to something else");
  }
  version->header = entry->previous;
  version->moved_to = 0;
  version->payload =
      update ? Bytes(older + sizeof(VersionEntry), entry->payload_bytes) : ghost_payload;
  *next = entry->older();
  return kOk;
}

Status find_version(Worker &w, const Viewer &viewer, FileSlot &file, u64 row_id, Bytes value,
                    u8 *older, Found *found, RowVersion *version) {
  LS_ASSERT(reinterpret_cast<uintptr_t>(older) % alignof(VersionEntry) == 0);
  RowParts parts;
  if (!split_row(value, &parts)) return fail_row(file, row_id, "shorter than its header");
  use_row_of(w, parts.header.tn());
  *version = RowVersion{parts.header, parts.payload, parts.moved_to};
  VersionLocator next{parts.header.tn(), parts.header.seq};
  Tn running = 0;
  for (u64 i = 0; i < kMaxChain; i++) {
    const Judgement j = judge(version->header, viewer, running);
    // The newest version, neither the snapshot's nor the transaction's own: it is committed if its
    // writer has ended and it is still there (VIS-2).
    const bool newer = i == 0 && viewer.snapshot->newest_only && j.verdict == Verdict::kOlder &&
                       version->header.tn() != viewer.snapshot->own_tn &&
                       !viewer.active.contains(viewer.active.arg, version->header.tn());
    if (j.recheck || newer) {
      RowParts now;
      u32 bytes;
      // The copy's payload is returned, so the row is read into the other buffer.
      const Status s = copy_row(w, file, row_id, older, &now, &bytes);
      if (!ok(s) && code(s) != LS_NOT_FOUND) return s;
      const bool same = ok(s) && same_version(now.header, version->header);
      if (!same) {
        *found = Found::kStale;
        return kOk;
      }
      if (newer) return make_status(LS_UPDATED);
    }
    if (j.verdict != Verdict::kOlder) {
      show(w, *viewer.snapshot, version->header.tn());
      *found = j.verdict == Verdict::kVisible ? Found::kRow : Found::kNone;
      return kOk;
    }
    // The end: inserted by this writer, or what was before has been cut off because no snapshot
    // sees it.
    if (!version->header.has(LS_ROW_HAS_PREV) || !next) {
      *found = Found::kNone;
      return kOk;
    }
    bool gone;
    LS_TRY(version_before(w, file, row_id, next, parts.payload, older, version, &next, &gone));
    if (gone) {
      // Cleaned, or of an earlier start, and then only a reader that asks for versions by their
      // writers needs it, also where the row that this one was copied from has gone with its
      // versions.  Or the row is another one by now.
      const Tn none = std::max(settled_below(*w.txns),
                               w.txns->versions_from.load(std::memory_order_relaxed));
      bool same = next.tn < none || version->copied || version->header.has(LS_ROW_COPIED);
      if (same) LS_TRY(row_still(w, file, row_id, parts.header, &same));
      *found = same ? Found::kNone : Found::kStale;
      return kOk;
    }
    running = parts.header.tn();
  }
  return fail_row(file, row_id, "endless chain of versions");
}

Status copy_row(Worker &w, FileSlot &file, u64 row_id, u8 *copy, RowParts *parts, u32 *bytes) {
  BTree tree(w.ctx, file);
  LS_TRY(tree.lookup_near(RowKey(row_id), w.last_leaves.of(file, row_id), copy, kPageSize, bytes));
  if (!split_row(Bytes(copy, *bytes), parts))
    return fail_row(file, row_id, "shorter than its header");
  use_row_of(w, parts->header.tn());
  return kOk;
}

Status row_still(Worker &w, FileSlot &file, u64 row_id, const RowHeader &header, bool *same) {
  alignas(8) u8 copy[kPageSize];
  RowParts parts;
  u32 bytes;
  const Status s = copy_row(w, file, row_id, copy, &parts, &bytes);
  *same = ok(s) && same_version(parts.header, header);
  return code(s) == LS_NOT_FOUND ? kOk : s;
}

Status read_version(Worker &w, FileSlot &file, const Viewer &viewer, u64 row_id,
                    const ReadBuffers &buffers, RowVersion *version, RowHeader *newest,
                    bool *absent) {
  LS_ASSERT(buffers.copy + kPageSize <= buffers.older || buffers.older + kPageSize <= buffers.copy);
  const Tn settled = visible_below(*viewer.snapshot, viewer.base);
  *absent = false;
  RowHeader before{};
  u32 in_vain = 0, pauses = 0;
  for (u32 rereads = 0; in_vain < kLooksInVain; rereads++) {
    if (rereads >= kRereadsAtOnce) LS_TRY(pause_for_others(w, &pauses));
    RowParts parts;
    u32 bytes;
    const Status s = copy_row(w, file, row_id, buffers.copy, &parts, &bytes);
    *absent = code(s) == LS_NOT_FOUND;
    LS_TRY(s);
    *newest = parts.header;
    if (parts.header.tn() < settled) {
      // The common case: the snapshot sees all that was written below.
      show(w, *viewer.snapshot, parts.header.tn());
      *version = RowVersion{parts.header, parts.payload, parts.moved_to};
      return parts.header.has(LS_ROW_GHOST) ? make_status(LS_NOT_FOUND) : kOk;
    }
    Found found;
    LS_TRY(find_version(w, viewer, file, row_id, Bytes(buffers.copy, bytes), buffers.older, &found,
                        version));
    if (found == Found::kRow) return kOk;
    if (found == Found::kNone) return make_status(LS_NOT_FOUND);
    w.pool->count_restart(w.slot);
    in_vain = same_version(*newest, before) ? in_vain + 1 : 0;
    before = *newest;
  }
  return fail_row(file, row_id, "an older version is missing");
}

void fill_row(const Viewer &viewer, u64 row_id, const RowVersion &version, ls_row *row) {
  row->row_id = row_id;
  row->writer_tn = version.header.tn();
  row->cid = version.header.cid;
  row->seq = version.header.seq;
  row->flags = version.header.flags();
  row->moved_to = version.moved_to;
  row->data = version.payload.data();
  row->len = static_cast<u32>(version.payload.size());
  // A confirmation is not logged: after a crash the flag may have survived its meaning.
  const Tn writer = row->writer_tn;
  if ((row->flags & LS_ROW_SPECULATIVE) &&
      (writer < viewer.base || !viewer.active.contains(viewer.active.arg, writer))) {
    row->flags &= ~u32{LS_ROW_SPECULATIVE};
  }
}

}  // namespace ls
