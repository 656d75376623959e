// row_gone.hpp - rows that no snapshot will ever see again: their ghosts and index entries may go.
//
// GONE-1  No row under the id: row ids are not used again.
// GONE-2  A ghost, its deleter below settled_below() as asked before the header was read: every
//         snapshot sees the deletion.
// GONE-3  A ghost of a deleter D that has ended, while an old snapshot is open: every snapshot sees
//         D, or is known exactly (a pin) and does not see I, the writer of the oldest version that
//         the ghost leads to.  A writer begins after the one before it has ended, so a snapshot
//         that does not see I sees no version of the row.  This is version_needed(I, D)
//         (version/horizon.hpp): one version from I to D.  It is asked about a copied header.  If
//         the row is found with that header afterwards D has not been undone (TXN-1).
// GONE-4  A ghost in a file of values goes by GONE-2 alone.  A transaction finds it by a pointer
//         that it read under a snapshot which is closed since; the snapshot that is open, and keeps
//         the horizon, may see neither the insertion nor the deletion.
// GONE-5  Rows that leave a leaf are counted (FileSlot::rows_gone) before its latch is free.  A
//         worker that has found a row gone finds it counted.
#pragma once
#include "txn/worker.hpp"

namespace ls {

struct RowGone {
  bool gone = false;
  Tn deleter = 0;  // of the ghost that has been found gone; 0: there is no row
};

// Will no snapshot ever see a row under this id?  settled: settled_below(), asked before.
Status row_gone(Worker &w, FileSlot &file, u64 row_id, Tn settled, RowGone *out);

// GONE-3 for the ghost that this header was copied from; the caller looks at it again.
Status deletion_final(Worker &w, const RowHeader &ghost, bool *final);

}  // namespace ls
