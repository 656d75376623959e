// value.cpp - pieces of out-of-line values: found by their number, whatever a snapshot sees.
//
// A piece is a row that is inserted and deleted in the transaction of the row that has the pointer
// to it.  So whether it counts is never asked: a transaction with the pointer may read it, until
// the horizon has passed the deletion (GONE-4), and one that has locked the row may delete it.
#include "txn/row.hpp"
#include "txn/row_read.hpp"

namespace ls {

Status value_fetch(Worker &w, FileSlot &file, u64 row_id, ls_piece *piece) {
  if (file.kind != LS_REL_VALUES) return fail(LS_INVALID, "not a file of values");
  RowParts parts;
  u32 bytes;
  LS_TRY(copy_row(w, file, row_id, piece->buffer, &parts, &bytes));
  piece->data = {parts.payload.data(), static_cast<u32>(parts.payload.size())};
  return kOk;
}

Status value_delete(Worker &w, FileSlot &file, u64 row_id, u32 cid) {
  if (file.kind != LS_REL_VALUES) return fail(LS_INVALID, "not a file of values");
  // Every transaction that has ended is in it.
  ls_snapshot all{};
  all.kind = LS_SNAPSHOT_MVCC;
  all.xmax = all.own_tn = kMaxTn + 1;
  all.curcid = ~u32{0};
  ls_change change{};
  change.row_id = row_id;
  change.snapshot = &all;
  change.cid = cid;
  change.mode = LS_LOCK_UPDATE;
  ls_conflict conflict;
  return row_delete(w, file, change, 0, &conflict);
}

}  // namespace ls
