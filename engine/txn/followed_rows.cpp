// followed_rows.cpp - the row as it is before a change of the log, taken to the version store.
#include "txn/followed_rows.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace ls {

namespace {

bool find_row(const Node &leaf, u64 row_id, RowParts *parts) {
  bool found = false;
  if (!leaf.covers(RowKey(row_id))) return false;
  const u16 pos = leaf.lower_bound(RowKey(row_id), &found);
  return found && split_row(leaf.value(pos), parts);
}

Status damaged(u8 code) {
  return fail(LS_CORRUPT, "log record of a row (operation %x) does not fit its page", code);
}

u64 row_id_of(Bytes operands) { return LogUnpacker(operands).number(); }

// The version that an update or a deletion replaces.
Status keep_replaced(Worker &w, const FileSlot &file, const FollowedRow &op, const RowParts &row) {
  ChangeOperands change;
  if (!parse_change(op.code, op.operands, &change) || op.tn == 0) return damaged(op.code);
  const VersionLocator older = older_needed(row.header, settled_below(*w.txns));
  VersionEntry entry{};
  entry.op = op.code == kRowUpdate ? VersionOp::kUpdate : VersionOp::kDelete;
  entry.file_slot = file.index;
  entry.file_no = file.file_no.load(std::memory_order_relaxed);
  entry.row_id = change.row_id;
  entry.previous = row.header;
  entry.older_tn = older.tn;
  entry.older_seq = older.seq;
  const Bytes before = op.code == kRowUpdate ? row.payload : Bytes{};
  entry.payload_bytes = static_cast<u32>(before.size());
  LS_TRY(version_store(w, op.tn).put({op.tn, change.seq}, entry, before));   // FROW-1
  w.txns->versions_written.fetch_add(1, std::memory_order_relaxed);
  return kOk;
}

// Undo puts the version before back: what that leads to is known by the entry of the one undone.
Status restored_has_previous(Worker &w, const FollowedRow &op, const RowHeader &now, bool *has) {
  LogUnpacker in(op.operands);
  in.number();   // row id
  const VersionLocator restored{in.number(kMaxTn), static_cast<u32>(in.number(~u32{0}))};
  if (!in.good()) return damaged(op.code);
  *has = now.has(LS_ROW_HAS_PREV);
  if (restored.tn == now.tn() && restored.seq == now.seq) return kOk;   // only its flags change
  alignas(8) u8 bytes[kPageSize];
  const VersionEntry *entry = nullptr;
  const Status status = version_store(w, now.tn()).get({now.tn(), now.seq}, bytes, &entry);
  *has = ok(status) && entry->previous.has(LS_ROW_HAS_PREV);
  return code(status) == LS_NOT_FOUND ? kOk : status;
}

}  // namespace

Status newest_removed(const FollowedRow &op, const Node &leaf, Tn *newest) {
  *newest = 0;
  LogUnpacker in(op.operands);
  if (op.code == kRowInsertCopied) {
    in.number();   // row id
    *newest = in.number(kMaxTn);   // the versions before are not copied
    return in.good() ? kOk : damaged(op.code);
  }
  if (op.code != kRowRemove) return kOk;
  for (u64 row_id = 0; in.left() > 0;) {
    row_id += unzigzag(in.number());
    RowParts row;
    if (!in.good() || !find_row(leaf, row_id, &row)) return damaged(op.code);
    // Any other is of an insertion that is undone, which no snapshot sees.
    if (row.header.has(LS_ROW_GHOST)) *newest = std::max(*newest, row.header.tn());
  }
  return kOk;
}

Status keep_version(Worker &w, const FileSlot &file, const FollowedRow &op, const Node &leaf,
                    bool *has_previous) {
  *has_previous = false;
  if (op.code != kRowUpdate && op.code != kRowDelete && op.code != kRowRestore) return kOk;
  RowParts row;
  if (!find_row(leaf, row_id_of(op.operands), &row)) return damaged(op.code);
  if (op.code == kRowRestore) return restored_has_previous(w, op, row.header, has_previous);
  *has_previous = true;
  return keep_replaced(w, file, op, row);
}

void set_previous(const FollowedRow &op, Node *leaf) {
  const RowKey key(row_id_of(op.operands));
  bool found = false;
  const u16 pos = leaf->lower_bound(key, &found);
  LS_CHECK(found, "a row is gone right behind its change");
  u8 *value = leaf->value_data(pos);
  const RowHeader header = RowHeader::load(value);
  const u8 flags = static_cast<u8>(header.flags() | LS_ROW_HAS_PREV);
  RowHeader::make(header.tn(), flags, header.generation(), header.cid, header.seq).store(value);
}

}  // namespace ls
