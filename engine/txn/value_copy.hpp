// value_copy.hpp - a value that has its bytes elsewhere already: pages copied, and the row that
// names the new ones.
#pragma once
#include "txn/value_row.hpp"
#include "txn/worker.hpp"
#include "vlog/value_file.hpp"

namespace ls {

// What the row of a value names.
inline ValueSource source_of(const FurtherFile &further, u64 row_id, const ValuePlace &place) {
  return {{further, place.writer_in(row_id / LS_ROWS_PER_VALUE)}, place};
}

struct CopiedValue {
  explicit CopiedValue(u64 row_id) : value_id(row_id / LS_ROWS_PER_VALUE) {}
  u64 value_id;
  bool shared = false;   // its pages have these bytes already
  bool stale = false;    // what is there does not fit
  PageRuns runs;         // of the new file; with a claim on them
  u32 row_bytes = 0;
  u8 row[LS_VALUE_HEAD_BYTES + kMostPlaceBytes];
};
// copy->runs are as many pages as the value has.  Not synced.
Status copy_value(Worker &w, const ValueSource &from, FileSlot &to, CopiedValue *copy);
// In place of that, if copy->shared then: pages of the new file, before page `below`, that have
// these bytes already.
Status share_copied(Worker &w, const ValueSource &from, FileSlot &to, PageNo below,
                    CopiedValue *copy);

}  // namespace ls
