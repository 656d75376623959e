// value_copy.hpp - a value that has its bytes elsewhere already: pages copied, and the row that
// names the new ones.
#pragma once
#include "txn/value_row.hpp"
#include "txn/worker.hpp"
#include "vlog/value_file.hpp"

namespace ls {

struct CopiedValue {
  PageRuns runs;   // of the new file
  u32 row_bytes;
  u8 row[LS_VALUE_HEAD_BYTES + kMostPlaceBytes];
};
// copy->runs: as many pages as the value has.  Not synced.  *stale: what is there does not fit.
Status copy_value(Worker &w, const ValueSource &from, FileSlot &to, CopiedValue *copy, bool *stale);

}  // namespace ls
