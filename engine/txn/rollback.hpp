// rollback.hpp - undo of a running transaction, from its entries in the version store.
#pragma once
#include "txn/row_undo.hpp"

namespace ls {

// Undo the open transaction's changes with seq >= savepoint, newest first, and drop their undo
// entries.  Cannot be refused and is not interrupted: waits for frames and for space on a full
// disk, and ends the process tree when a page cannot be read (recovery then undoes from the log).
void roll_back(Worker &w, u32 savepoint);

// One change, of whatever transaction; an entry of a row lock has none.
Status undo_change(Worker &w, const UndoTarget &target, const VersionEntry &entry, Bytes payload);

// Where a row has moved with its key unchanged; 0: it has not.
Status successor_of(Worker &w, FileSlot &file, u64 row_id, u64 *successor);

}  // namespace ls
