// rollback.hpp - undo of a running transaction, from its entries in the version store.
#pragma once
#include "txn/worker.hpp"

namespace ls {

// Undo the open transaction's changes with seq >= savepoint, newest first, and drop their undo entries.  Cannot be
// refused and is not interrupted: waits for frames and for space on a full disk, and ends the process tree when a page
// cannot be read (recovery then undoes from the log).
void roll_back(Worker &w, u32 savepoint);

}  // namespace ls
