// row_conflict.hpp - may this transaction change or lock the row as it is?  The rules of ls_change.
//
//   writer of the newest version    answer
//   own, in this or a later command LS_SELF_MODIFIED
//   own, earlier                    go on; ghost: LS_INVISIBLE (any_version: as a finished one)
//   active                          LS_BEING_MODIFIED
//   finished, ghost                 LS_DELETED, with a successor LS_UPDATED
//   finished, not in the snapshot   LS_UPDATED, unless the worker's transaction holds NO KEY UPDATE
//                                   or more, or any version will do
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
  const std::atomic<u64> *counter = nullptr;  // of the row's generations, and
  u64 generation_changes = 0;                 // what it was before the header was read
  LockView locks;              // when header has LOCKED
  // Before the row is copied.
  void mark(const Worker &w, const FileSlot &file, u64 row_id);
};
// Under the leaf's latch: nothing that the decision rests on has changed.  The generation in the
// header has 8 bits; when so many locks were granted since, on rows that share a counter with this
// one, that it may have come round, the answer is no.
bool still_holds(const ChangeBasis &basis, const RowHeader &now);

// *again: the row changed underneath or a lock is being granted: copy it again (paused already
// where that helps).  basis->header and moved_to are given; basis->locks is filled in.
Status decide_change(Worker &w, FileSlot &file, const ChangeRequest &request, ChangeBasis *basis,
                     ls_conflict *conflict, bool *again);
// The second half alone: do row locks of others forbid it?
Status check_row_locks(Worker &w, FileSlot &file, const ls_change &change, ChangeBasis *basis,
                       ls_conflict *conflict, bool *again);

inline FileNo file_no_of(const FileSlot &file) {
  return file.file_no.load(std::memory_order_relaxed);
}

// Under the leaf's latch, where the row is found: the lock table may have entries from now on.  A
// worker that looked before looks again.
void mark_locked(Worker &w, const FileSlot &file, u64 row_id, RowLeaf &leaf);
// Tells that the generation of a row's locks is about to change.
void count_generation(Worker &w, const FileSlot &file, u64 row_id);

// A short sleep between looks at something that another transaction is about to finish;
// LS_INTERRUPTED.
Status pause_for_others(Worker &w, u32 *round);
// The row has changed under a decision, which has to be made again: at once the first times, then
// after pauses.
Status restart_decision(Worker &w, u32 *round);

}  // namespace ls
