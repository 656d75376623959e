// version_sweep.hpp - what of the version store above the horizon is not needed, though a snapshot
// is open that is older: while one reader is open a table with rows that come and go keeps those
// that the reader sees, and not all that have come and gone since.
//
// Entries say where ghosts are (row_purge.hpp); those that only a rollback needs are left over by
// transactions that have ended.
#pragma once
#include "txn/worker.hpp"

namespace ls {

// Some leaves, from where the last call stopped.  Only by the cleaner.  *removed: entries and
// ghosts.
Status sweep_versions(Worker &w, Tn horizon, u64 *removed);

}  // namespace ls
