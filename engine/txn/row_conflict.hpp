// row_conflict.hpp - may this transaction change or lock the row as it is?  The rules of ls_change.
//
//   writer of the newest version    answer
//   own, in this or a later command LS_SELF_MODIFIED
//   own, earlier                    go on; deleted by us: LS_INVISIBLE (any_version: as deleted by somebody)
//   active                          LS_BEING_MODIFIED
//   finished, ghost                 LS_DELETED, with a successor LS_UPDATED
//   finished, not in the snapshot   LS_UPDATED, unless we hold NO KEY UPDATE or more, or any version will do
//   finished, not in crosscheck     LS_UPDATED
// then row locks of others: LS_LOCKED.
#pragma once
#include "txn/row_lock_table.hpp"

namespace ls {

struct ChangeRequest {
  const ls_change &change;
  bool any_version = false;
};

// What was decided on, to be found unchanged under the latch.
struct ChangeBasis {
  RowHeader header{};
  u64 moved_to = 0;
  u64 generation_changes = 0;  // read before the header
  LockView locks;              // when header has LOCKED
};
// Read before the row is copied.
u64 generation_mark(const Worker &w);
// Under the leaf's latch: nothing that the decision rests on has changed.  The generation in the header has 8 bits;
// when so many locks were granted (anywhere) since that it may have come round, the answer is no.
bool still_holds(const Worker &w, const ChangeBasis &basis, const RowHeader &now);

// *again: the row changed underneath or a lock is being granted: copy it again (paused already where that helps).
// basis->header and moved_to are given; basis->locks is filled in.
Status decide_change(Worker &w, FileSlot &file, const ChangeRequest &request, ChangeBasis *basis, ls_conflict *conflict,
                     bool *again);
// The second half alone: do row locks of others forbid it?
Status check_row_locks(Worker &w, FileSlot &file, const ls_change &change, ChangeBasis *basis, ls_conflict *conflict,
                       bool *again);

inline FileNo file_no_of(const FileSlot &file) { return file.file_no.load(std::memory_order_relaxed); }

// Under the leaf's latch, where the row is found: the lock table may have entries from now on, whoever looked before looks again.
void mark_locked(Worker &w, RowLeaf &leaf);

// A short sleep between looks at something that somebody is about to finish; LS_INTERRUPTED.
Status pause_for_others(Worker &w, u32 *round);

}  // namespace ls
