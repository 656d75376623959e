// row_purge.hpp - take dead ghosts out of a leaf.
//
// A ghost whose deleter is below the horizon is seen by nobody, nor is anything before it.  Its kDelete entry leads the
// cleaner to it; entries do not survive a restart, so scans purge leaves in which they meet ghosts of an earlier run.
#pragma once
#include "txn/row_log.hpp"

namespace ls {

struct PurgeResult {
  u32 removed = 0;
  // Rows from first_row up to (excluding) end_row were looked at: no ghost below the horizon is left among them.
  u64 first_row = 0, end_row = 0;
};

// The leaf around row_id; holds no latch before and after.
Status purge_leaf(Worker &w, FileSlot &file, u64 row_id, Tn horizon, PurgeResult *result);

}  // namespace ls
