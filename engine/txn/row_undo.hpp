// row_undo.hpp - put back in place what one change replaced; for rollback at run time and for
// recovery's losers.  Each does nothing when the row does not carry (tn, seq) any more, and logs
// what it does as redo only: after a crash in the middle, the undo of the same change finds another
// header and leaves the row alone.
#pragma once
#include "txn/row_log.hpp"

namespace ls {

class LeafReads;

// How to get the payload before from the one in the leaf.
struct PayloadBefore {
  bool whole = false;   // bytes is the payload; else patch
  Bytes bytes;
  Patch patch{};
};

struct UndoTarget {
  FileSlot &file;
  u64 row_id;
  Tn tn;
  u32 seq;
};

// An update or delete: header and payload before (a ghost's moved_to goes by itself).
Status put_back(Worker &w, const UndoTarget &target, const RowHeader &previous,
                const PayloadBefore &before);
// An insertion: rows [target.row_id, target.row_id + count) that carry (tn, seq) vanish.
// reads: with these, leaves that are not in memory are read many together; null: one by one.
Status remove_inserted(Worker &w, const UndoTarget &target, u64 count, LeafReads *reads);

// The same of a row that a reader may come to by a pointer: it becomes a ghost.  *page_no: where,
// also if it was one already; kInvalidPageNo: the row does not carry (tn, seq).
Status ghost_one(Worker &w, const UndoTarget &target, u64 row_id, PageNo *page_no);

// What undoes a change, taken from its log record: of an insertion the range of row ids, of an
// update what the new bytes have replaced.
struct RowUndo {
  u8 code = 0;      // kRowInsert (for kRowInsertMany, too), kRowUpdate, kRowDelete
  FileNo file = 0;
  u64 row_id = 0;
  u32 seq = 0;
  u64 count = 1;    // kRowInsert
  u8 flags = 0;     // of the version before, and its seq if it was the transaction's own
  u32 previous_seq = 0;
  Patch patch{};    // kRowUpdate: gives the payload before, applied to that after

  // Insertions of consecutive rows become one.  False: `later` does not follow.
  bool extend(const RowUndo &later);
};
// LS_CORRUPT: not an operation of a kRow record.
Status row_undo_of(const LogOp &op, RowUndo *out);
// As an item of an undo file; the patch's bytes are those in `item` then.
inline constexpr u8 kUndoRow = 16;
LogPacker pack_row_undo(const RowUndo &undo);   // without the patch's bytes, which follow
bool parse_row_undo(Bytes item, RowUndo *out);
// Undo a loser's change through the tree, idempotent: does nothing when the row does not carry (tn,
// seq) any more.
Status row_undo(Worker &w, FileSlot &file, const RowUndo &undo, Tn tn, LeafReads &reads);

}  // namespace ls
