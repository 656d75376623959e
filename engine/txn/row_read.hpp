// row_read.hpp - from a copy of a row to the version that a snapshot sees.
//
// The copy names the newest version's writer; older ones are found along (writer, seq) in the
// version store.  Nothing is latched between the copy and the look-ups.  A locator that leads
// nowhere says that the row has changed since (rolled back), so the row is read again: entries are
// removed only after the row no longer points to them, or when every snapshot sees what points to
// them (cleaner).
#pragma once
#include "txn/row_leaf.hpp"

namespace ls {

struct RowVersion {
  RowHeader header{};
  Bytes payload;
  u64 moved_to = 0;
  // met LS_ROW_COPIED on the way here: the entries behind it name another file and row id
  bool copied = false;
};

enum class Found : u8 {
  kRow,
  kNone,   // the snapshot sees no row
  kStale,  // the copy is out of date or its verdict not certain: copy the row again
};

// value: a private copy of the row; older: kPageSize bytes, 8-aligned, for a version that is not in
// it.
Status find_version(Worker &w, const Viewer &viewer, FileSlot &file, u64 row_id, Bytes value,
                    u8 *older, Found *found, RowVersion *version);

// One step back along the chain: the version before the one with the locator `at`.  ghost_payload:
// the ghost's own, for when the entry is a kDelete (the payload stays in the leaf).  *gone: the
// entry is not there any more.
Status version_before(Worker &w, const FileSlot &file, u64 row_id, VersionLocator at,
                      Bytes ghost_payload, u8 *older, RowVersion *version, VersionLocator *next,
                      bool *gone);

// Both answer LS_UPDATED when the snapshot wants newest versions only and the row has a newer one.
//
// Copy the row and find the version, again as often as it changes underneath.  LS_NOT_FOUND: the
// snapshot sees none; *absent: because there is no row at all; *newest: the header in the leaf.
// copy, older: kPageSize bytes, 8-aligned.
struct ReadBuffers {
  u8 *copy;
  u8 *older;
};
Status read_version(Worker &w, FileSlot &file, const Viewer &viewer, u64 row_id,
                    const ReadBuffers &buffers, RowVersion *version, RowHeader *newest,
                    bool *absent);

// Copy a row as it is now.  LS_NOT_FOUND.
Status copy_row(Worker &w, FileSlot &file, u64 row_id, u8 *copy, RowParts *parts, u32 *bytes);
// Does the row still carry the version of `header`?  (TXN-1 in worker.hpp.)
Status row_still(Worker &w, FileSlot &file, u64 row_id, const RowHeader &header, bool *same);

void fill_row(const Viewer &viewer, u64 row_id, const RowVersion &version, ls_row *row);

}  // namespace ls
