// index_cleaner.hpp - sweeping in the background: indexes of tables that have lost many rows since
// the index was last swept.
//
// An index remembers from its last insertion where its row ids point to (FileSlot::table_slot,
// table_no).  That file may be gone or replaced by now: its number tells.
// FileSlot::rows_gone_swept is how many rows the table had lost at the last sweep; kNotSwept with
// it: there was none since the index was first used in this run, so more may have gone before.
#pragma once
#include "index/index.hpp"

namespace ls {

inline constexpr u64 kNotSwept = u64{1} << 63;

// Where the cleaner goes on; private to its thread.
struct IndexCleaner {
  u32 cursor = 0;               // slot of the file table to look at next
  bool sweeping = false;
  u32 index_slot = 0;
  FileNo index_no = 0;
  FileNo table_no = 0;
  u64 gone = 0;                 // FileSlot::rows_gone of this table when the sweep began
  ls_index_position position{};
};

// Remember the table of an index.
void note_table(const IndexAt &at);
// A sweep that began when the table had lost `gone` rows has come to the end.
void note_swept(const IndexAt &at, u64 gone);
// Rows that the table has lost since; ~0: that is not known.
u64 rows_gone_since_sweep(const IndexAt &at);
// One round: a few file slots, a few leaves.  *removed: entries.
Status sweep_some_index(Worker &w, IndexCleaner &cleaner, u64 *removed);

}  // namespace ls
