// row_lock_table.hpp - the holders of row locks: a B-tree like the version store, unlogged and not
// recovered.
//
// Key = file number, row id, tn (big endian), value = LockValue.  A row's header says with
// LS_ROW_LOCKED that there may be entries; without the flag no worker looks.  Entries of finished
// transactions mean nothing: a worker that meets one removes it, and the cleaner sweeps.
//
// RLOCK-1  An entry is tentative from before the header is marked until after it: a worker that
//          meets a conflicting tentative entry cannot know yet, and looks again.
// RLOCK-2  A lock is granted by marking the header (LOCKED, generation + 1) under the leaf's latch,
//          provided the header is the one that was read before the table was looked at.  Two that
//          looked at the same time both write entries, but the second finds another generation and
//          looks again.
// RLOCK-3  Only transaction tn writes entries (.., tn), but for RLOCK-4; any worker may remove them
//          once tn is not active.
// RLOCK-4  A row that moves to another id with its key unchanged takes FOR KEY SHARE locks of
//          others along: before it changes the old row the mover copies their entries to the new
//          one, which no other transaction can reach yet (RLOCK-2: none is missed).  It waits for
//          tentative ones first: their owners may have marked the header it has read.  A
//          transaction that locks the old row afterwards locks where it leads, too.  A copy has the
//          seq of its original and goes with it when a savepoint is rolled back; one made at that
//          very moment may stay until the transaction ends.
// RLOCK-5  First locks of rows of one block (LockBlock) that one part of a transaction takes
//          between two savepoints have the same seq, that of one undo entry, which names the block.
//          Its undo removes those locks of the block that have this seq.
#pragma once
#include "txn/row_leaf.hpp"

namespace ls {

enum class LockState : u8 { kTentative = 1, kGranted = 2 };

struct LockValue {
  u8 mode;         // ls_lock_mode
  LockState state;
  u16 zero;
  u32 seq;         // of the transaction's kLock entry (RLOCK-5)
};
static_assert(sizeof(LockValue) == 8);

// PostgreSQL's matrix of row locks.
bool lock_modes_conflict(ls_lock_mode a, ls_lock_mode b);

// What the table says about one row.
struct LockView {
  bool any_live = false;    // entries of active transactions, the worker's own included
  bool unsettled = false;   // a tentative entry of another one conflicts: look again
  Tn conflict_tn = 0;       // a holder of a conflicting granted lock
  u32 conflict_seq = 0;     // under which sequence number it took it
  bool own = false;
  LockValue own_value{};
  bool holds(ls_lock_mode mode) const {
    return own && own_value.state == LockState::kGranted && own_value.mode >= mode;
  }
};

class RowLockTable {
 public:
  explicit RowLockTable(Worker &w);

  // Entries of the row against `wanted`; removes stale ones.
  Status look(FileNo file_no, u64 row_id, ls_lock_mode wanted, LockView *view);
  Status put(FileNo file_no, u64 row_id, Tn tn, const LockValue &value);
  Status get(FileNo file_no, u64 row_id, Tn tn, LockValue *value, bool *found);
  Status remove(FileNo file_no, u64 row_id, Tn tn);
  // RLOCK-4; *copied: how many; *unsettled: there are tentative ones, look again.
  Status copy_to_successor(FileNo file_no, u64 row_id, u64 successor, u32 *copied, bool *unsettled);
  // RLOCK-5: on which rows of the block, at most kLockBlockRows, the transaction has locks with
  // this seq.
  Status own_in_block(FileNo file_no, u64 first, u32 seq, u64 *rows, u32 *n);
  // All rows on which a transaction has an entry: a walk over the whole table.
  Status locks_of(Tn tn, void *arg,
                  Status (*each)(void *arg, FileNo file_no, u64 row_id, const LockValue &value));
  // Remove stale entries in up to max_leaves leaves from where the last sweep stopped.
  Status sweep(LockSweep *sweep, u32 max_leaves, u64 *removed);

 private:
  struct RowEntries;
  Status read_row(FileNo file_no, u64 row_id, RowEntries *entries);
  template <typename Visit>
  Status for_each(FileNo file_no, u64 row_id, const Visit &visit);
  template <typename Visit>
  Status for_each_of_rows(FileNo file_no, u64 first, u64 last, const Visit &visit);
  Status sweep_leaf(LockSweep *sweep, u64 *removed);
  bool is_stale(const Node *node, u16 pos) const;

  Worker &w_;
  BTree tree_;
};

}  // namespace ls
