// rows_there.hpp - which rows of a table there are, found out a leaf at a time, in memory of the
// caller's: so that sweeps of several indexes look up no row for each of its entries.
//
// THERE-1  rows_gone of the table is read before the first row is noted, and a sweep that goes by
//          the notes says no more than that of what it has removed.  A noted row that goes is
//          counted afterwards, and the next sweep finds its entries (GONE-5).
#pragma once
#include "txn/worker.hpp"

namespace ls {

// rows_gone of THERE-1.
u64 begin_rows_there(const FileSlot &table, ls_rows_there *there);
// Was the row there, and no ghost?
inline bool is_noted(const ls_rows_there *there, u64 row_id) {
  return there && row_id < there->end && (there->bits[row_id / 64] >> row_id % 64 & 1) != 0;
}
// A row is there: note it and all others of its leaf.
Status note_rows_there(Worker &w, FileSlot &table, u64 row_id, ls_rows_there *there);

}  // namespace ls
