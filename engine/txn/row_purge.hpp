// row_purge.hpp - take dead ghosts out of a leaf.
//
// Of a ghost with a deleter below the horizon no snapshot sees a version any more.  Its kDelete
// entry leads the cleaner to it; entries do not survive a restart, so scans purge leaves in which
// they meet ghosts of an earlier run.
//
// Ghosts above it go, too, if no existing snapshot sees their rows (row_gone.hpp), but for those
// that lead to another row: a snapshot that sees the row before them in a chain of moves has to get
// to its end (FOR KEY SHARE).
#pragma once
#include "base/check.hpp"
#include "buffer/file_use.hpp"
#include "txn/row_log.hpp"

namespace ls {

struct PurgeResult {
  u32 removed = 0;
  // Rows from first_row up to (excluding) end_row were looked at: no ghost below the horizon is
  // left among them.
  u64 first_row = 0, end_row = 0;
  // purge_unseen: of the ghosts that the leaf had.
  bool ghosts_left = false;
};

// The first row behind a leaf.
u64 rows_end(const Node &leaf);

// The leaf around row_id; holds no latch before and after.
Status purge_leaf(Worker &w, FileSlot &file, u64 row_id, Tn horizon, PurgeResult *result);

// Those in the leaf around row_id that no snapshot needs, with their older versions; what is below
// the horizon is purge_leaf's.
Status purge_unseen(Worker &w, FileSlot &file, u64 row_id, PurgeResult *result);

// What the cleaner purged last: a transaction's ghosts mostly lie side by side, and their kDelete
// entries lead to one leaf.
struct LastPurged {
  FileNo file_no = 0;
  u64 first_row = 0, end_row = 0;
  u64 removed = 0;   // in all
  bool has(FileNo file, u64 row_id) const {
    return file_no == file && row_id >= first_row && row_id < end_row;
  }
};

// purge(file, row_id, result), one of the two above, on the leaves of the ghosts that the entry
// leads to, but for the one that was the last.  A file that was dropped has no ghosts; one that was
// closed is opened again.
template <typename Purge>
Status purge_ghosts_of(Worker &w, const VersionEntry &entry, LastPurged *last,
                       const Purge &purge) {
  LS_ASSERT(entry.op == VersionOp::kDelete);
  for (u64 row_id = entry.row_id; row_id < entry.rows_end(); row_id = last->end_row) {
    if (last->has(entry.file_no, row_id)) continue;
    FileUse use;
    FileHandle handle{&w.pool->file(entry.file_slot), entry.file_no};
    PurgeResult result;
    Status s = use.begin(w.ctx, &handle);
    if (ok(s)) s = purge(use.file(), row_id, &result);
    if (!ok(s)) return code(s) == LS_NOT_FOUND ? kOk : s;
    *last = {entry.file_no, result.first_row, result.end_row, last->removed + result.removed};
    LS_ASSERT(last->end_row > row_id);
  }
  return kOk;
}

}  // namespace ls
