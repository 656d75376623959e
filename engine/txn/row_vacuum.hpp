// row_vacuum.hpp - the host's VACUUM of a table: dead ghosts go, and what there is gets counted,
// where something has changed since the last time (row_blocks.hpp).  No latch held by the caller.
#pragma once
#include "txn/worker.hpp"

namespace ls {

// From state->next_row on: the next blocks that have to be looked at, of one cell, and those before
// of which everything is known.
Status row_vacuum(Worker &w, FileSlot &file, ls_vacuum *state);
// For a scan of an index alone: do all snapshots see the rows around this one?  True: kFull is set.
bool row_look_around(Worker &w, FileSlot &file, u64 row_id);
// All indexes have been cleaned of entries that lead nowhere, or do not have their row's key, since
// the rows were looked at: kVouched for each block that is clean.
void row_vouch(Worker &w, FileSlot &file);

}  // namespace ls
