// row_log.hpp - the log's words for row changes (kOpRow): bytes, writing, redo.
//
// Operands, numbers as in wal/log_bytes.hpp:
//   kRowInsert     row id, seq | payload
//   kRowInsertMany row id, seq | for each row of consecutive ids: payload bytes, payload
//   kRowUpdate     row id, seq, headers, offset, old_bytes | old | new: the middle that differs
//   kRowDelete     row id, seq, headers, moved_to
//   kRowRemove     row ids, each less the one before: they vanish from the leaf (dead ghosts,
//                  undone insertions)
//   kRowRestore    row id, tn, seq, flags 1, offset, cut_bytes | new: header and patch of an undo
//   kRowInsertCopied  row id, tn | payload
//   kRowIdHigh     MetaPage::row_id_high
// headers: which of the following differ from 0 (HeaderBits), 1 | flags, 1 | flags of the version
//          before, 1 | its seq, if it was this transaction's.  As a rule none does.
// The first four are the transaction's (kRow: redo and undo), the others are redo only (kSystem).
//
// Redo works on one page and its bytes alone.  Headers are logged without HAS_PREV and LOCKED:
// after a restart there is no version store and no lock.
#pragma once
#include "txn/row_leaf.hpp"

namespace ls {

enum RowOp : u8 {
  kRowInsert = kOpRow | 1,
  kRowUpdate = kOpRow | 2,
  kRowDelete = kOpRow | 3,
  kRowRemove = kOpRow | 4,
  kRowRestore = kOpRow | 5,
  kRowInsertCopied = kOpRow | 6,
  kRowIdHigh = kOpRow | 7,
  kRowInsertMany = kOpRow | 8,
};

inline constexpr u32 kMostRowIdBytes = 6;
inline constexpr u8 kVolatileFlags =
    LS_ROW_HAS_PREV | LS_ROW_LOCKED | LS_ROW_SPECULATIVE | LS_ROW_COPIED;

// Log space for one row record with so many payload bytes.
inline constexpr u32 row_record_room(u32 payload_bytes) {
  return kMaxRecordHeadBytes + kMaxVarintBytes + kMaxOpHeadBytes + 40 + payload_bytes;
}

// Where old and new differ: new = old[0, offset) | fresh | old[offset + cut, end).
struct Patch {
  u16 offset = 0;
  u16 cut = 0;
  Bytes fresh;
};
Patch make_patch(Bytes old_payload, Bytes new_payload);
// Apply to a payload; false when it does not fit it.  out: kPageSize bytes; returns the length.
bool apply_patch(Bytes payload, const Patch &patch, u8 *out, u32 *bytes);

// A record about one row of one leaf.  The leaf is latched exclusively, room is reserved.  Returns
// its GSN, 0 for files that are not logged.
struct RowRecord {
  Worker &w;
  const FileSlot &file;
  PageNo page;
  u64 row_id;
};
Gsn log_insert(const RowRecord &r, u32 seq, Bytes payload);
// r.row_id is the first one's.  Rows that fit a leaf.
Gsn log_insert_many(const RowRecord &r, u32 seq, std::span<const ls_bytes> rows);
Gsn log_update(const RowRecord &r, const RowHeader &previous, const RowHeader &now,
               Bytes old_payload, Bytes new_payload);
Gsn log_delete(const RowRecord &r, const RowHeader &previous, const RowHeader &now, u64 moved_to);
Gsn log_remove(const RowRecord &r);
Gsn log_remove_many(Worker &w, const FileSlot &file, PageNo page, std::span<const u64> row_ids);
Gsn log_restore(const RowRecord &r, const RowHeader &restored, const Patch &patch);
Gsn log_insert_copied(const RowRecord &r, Tn writer, Bytes payload);
Gsn log_row_id_high(Worker &w, const FileSlot &file, u64 row_id_high);

// ---- reading back
struct ChangeOperands {   // kRowInsert, kRowInsertMany (both without prev), kRowUpdate, kRowDelete
  u64 row_id = 0;
  u32 seq = 0, prev_seq = 0;
  u8 prev_flags = 0, flags = 0;
  u64 moved_to = 0;
  u16 offset = 0;
  // kRowInsert: new_bytes is the payload, kRowInsertMany: what parse_rows() takes
  Bytes old_bytes, new_bytes;
};
bool parse_change(u8 code, Bytes operands, ChangeOperands *out);
// The rows of a kRowInsertMany; false when that is damaged.
struct LeafRows {
  u32 count = 0;
  ls_bytes rows[kMaxLeafRows];
};
bool parse_rows(Bytes bytes, LeafRows *out);

}  // namespace ls
