// index_log.hpp - the log's words for index entries (kOpIndex): bytes, writing, redo.
//
// Operands, little endian, packed:
//   kIndexInsert   bytes of the entry's key (a number as in wal/log_bytes.hpp) | key | payload
//   kIndexRemove   u16 entries in the leaf before | u16 positions, ascending, as they were before
//   kIndexStale    nothing: MetaPage::stale_entries is set
// All records are kSystem: redone, never undone.  An entry outlives a transaction that is rolled
// back, and is dead then.
//
// ILOG-1  An entry is inserted after its row and before its transaction commits, all by one worker:
//         row, entry and commit stand in this order in the one total order of the log, of which
//         recovery keeps a prefix.  So no committed row lacks its entry.
//
// ILOG-2  An index is marked for stale entries before a row gets a key that leaves one behind, so
//         a scan that meets such an entry, also after a crash, finds the mark.
//
// Redo works on one page and its bytes alone.
#pragma once
#include "txn/worker.hpp"

namespace ls {

enum IndexOp : u8 {
  kIndexInsert = kOpIndex | 1,
  kIndexRemove = kOpIndex | 2,
  kIndexStale = kOpIndex | 3,
};

// Log space for a record with so many operand bytes.
inline constexpr u32 index_record_room(u32 bytes) {
  return kMaxRecordHeadBytes + kMaxOpHeadBytes + static_cast<u32>(sizeof(u16)) + bytes;
}
inline constexpr u32 kRemoveRecordRoom = index_record_room(kMaxEntries * sizeof(u16));

// A record about one leaf, which is latched exclusively; room is reserved.  Returns its GSN, 0 for
// files that are not logged.
Gsn log_entry_insert(Worker &w, const FileSlot &file, PageNo page, Bytes entry, Bytes payload);
// Before they are removed.
Gsn log_entries_remove(Worker &w, const FileSlot &file, const Node &leaf,
                       std::span<const u16> positions);

Gsn log_stale_entries(Worker &w, const FileSlot &file);

// The change itself, shared with redo.
void remove_entries(Node *leaf, std::span<const u16> positions);

Status index_redo(u8 code, Bytes operands, u8 *page);

}  // namespace ls
