// row_undo.hpp - put back in place what one change replaced; for rollback at run time and for recovery's losers.
// Each does nothing when the row does not carry (tn, seq) any more, and logs what it does as redo only: after a crash
// in the middle, the undo of the same change finds another header and leaves the row alone.
#pragma once
#include "txn/row_log.hpp"

namespace ls {

// How to get the payload before from the one in the leaf.
struct PayloadBefore {
  bool whole = false;   // bytes is the payload; else patch
  Bytes bytes;
  Patch patch{};
};

struct UndoTarget {
  FileSlot &file;
  u64 row_id;
  Tn tn;
  u32 seq;
};

// An update or delete: header and payload before (a ghost's moved_to goes by itself).
Status put_back(Worker &w, const UndoTarget &target, const RowHeader &previous, const PayloadBefore &before);
// An insertion: rows [target.row_id, target.row_id + count) that carry (tn, seq) vanish.
Status remove_inserted(Worker &w, const UndoTarget &target, u32 count);

}  // namespace ls
