// index_log.hpp - the log's words for index entries (kOpIndex): bytes, writing, redo.
//
// Operands, little endian, packed:
//   kIndexInsert   bytes of the entry's key (a number as in wal/log_bytes.hpp) | key | payload
//   kIndexRemove   u16 entries in the leaf before | u16 positions, ascending, as they were before;
//                  earlier builds wrote it
//   kIndexStale    nothing: MetaPage::stale_entries is set
//   kIndexRemoveDated  newest (a number) | as kIndexRemove
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
// IREM-1  A row leaves its leaf before its entries leave theirs, also in the log: it is taken out
//         and logged as removed under one latch, and a worker that misses it has read the leaf
//         later.  So the row's record has the smaller GSN.
//
// IREM-2  A removal is dated for standbys: a snapshot that sees `newest` and all transactions below
//         as ended (its xmin is above) needs none of the entries removed.  One comparison has to do
//         for entries of several transactions, which need not end in the order of their numbers.
//         newest is
//         - for entries of a ghost its deleter: a snapshot that sees the deletion finds no row;
//         - for entries of a row that is not there 0, none needs them: what needs the row is in
//           conflict with the row's own record (IREM-1);
//         - for a stale entry the writer of the row's newest version, which has another key: a
//           snapshot that sees it finds this version or a later one, and a later one that has the
//           key again comes with the entry (STALE-1);
//         - for several entries the greatest.
//
// Redo works on one page and its bytes alone.
#pragma once
#include "txn/worker.hpp"

namespace ls {

enum IndexOp : u8 {
  kIndexInsert = kOpIndex | 1,
  kIndexRemove = kOpIndex | 2,
  kIndexStale = kOpIndex | 3,
  kIndexRemoveDated = kOpIndex | 4,
};

// Log space for a record with so many operand bytes.
inline constexpr u32 index_record_room(u32 bytes) {
  return kMaxRecordHeadBytes + kMaxOpHeadBytes + static_cast<u32>(sizeof(u16)) + bytes;
}
inline constexpr u32 kRemoveRecordRoom =
    index_record_room(kMaxVarintBytes + kMaxEntries * sizeof(u16));

struct EntryRemoval {
  std::span<const u16> positions;  // ascending
  Tn newest;                       // IREM-2
};

// A record about one leaf, which is latched exclusively; room is reserved.  Returns its GSN, 0 for
// files that are not logged.
Gsn log_entry_insert(Worker &w, const FileSlot &file, PageNo page, Bytes entry, Bytes payload);
// Before they are removed.
Gsn log_entries_remove(Worker &w, const FileSlot &file, const Node &leaf,
                       const EntryRemoval &removal);

Gsn log_stale_entries(Worker &w, const FileSlot &file);

// The change itself, shared with redo.
void remove_entries(Node *leaf, std::span<const u16> positions);

Status index_redo(u8 code, Bytes operands, u8 *page);

// IREM-2 of an operation; kMaxTn: it is not dated, any snapshot may need the entries.  False: it
// removes none, or is damaged.
bool index_removal_newest(u8 code, Bytes operands, Tn *newest);

}  // namespace ls
