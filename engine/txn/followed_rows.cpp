// followed_rows.cpp - the row as it is before a change of the log, taken to the version store.
#include "txn/followed_rows.hpp"

#include <algorithm>
#include <cstring>

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

// Undo puts the version before back: what that leads to, and its writer (FROW-3), are known by
// the entry of the change that is undone.
Status lead_of_restored(Worker &w, const FollowedRow &op, const RowHeader &now, RowLead *lead) {
  LogUnpacker in(op.operands);
  in.number();   // row id
  const VersionLocator restored{in.number(kMaxTn), static_cast<u32>(in.number(~u32{0}))};
  if (!in.good()) return damaged(op.code);
  bool *has = &lead->has_previous;
  *has = now.has(LS_ROW_HAS_PREV);
  if (restored.tn == now.tn() && restored.seq == now.seq) return kOk;   // only its flags change
  alignas(8) u8 bytes[kPageSize];
  const VersionEntry *entry = nullptr;
  const Status status = version_store(w, now.tn()).get({now.tn(), now.seq}, bytes, &entry);
  *has = ok(status) && entry->previous.has(LS_ROW_HAS_PREV);
  if (ok(status) && restored.tn == 0) lead->writer = entry->previous;
  return code(status) == LS_NOT_FOUND ? kOk : status;
}

RowHeader with_previous(const RowHeader &header) {
  const u8 flags = static_cast<u8>(header.flags() | LS_ROW_HAS_PREV);
  return RowHeader::make(header.tn(), flags, header.generation(), header.cid, header.seq);
}

// A row as an open transaction has left it, and as it was behind one of its changes.
struct OpenRow {
  bool found = false;      // the change is in the row, or in an entry of a later one
  VersionLocator later{};  // the change behind it; none: the row carries it
  u32 bytes = 0;
  alignas(8) u8 row[kPageSize];
  alignas(8) u8 entry[kPageSize];
  Bytes payload{};         // in one of the two
};

Status find_open_row(Worker &w, FileSlot &file, Tn tn, const RowUndo &undo, OpenRow *out) {
  RowParts now;
  {
    RowLeaf leaf;
    LS_TRY(leaf.open(w, file, undo.row_id, 0));
    if (!leaf.found()) return kOk;
    out->bytes = static_cast<u32>(leaf.value().size());
    std::memcpy(out->row, leaf.value().data(), out->bytes);
  }
  if (!split_row(Bytes(out->row, out->bytes), &now))
    return fail_row(file, undo.row_id, "shorter than its header");
  out->payload = now.payload;
  for (RowHeader at = now.header; at.tn() == tn;) {
    out->found = at.seq == undo.seq;
    if (out->found || !at.has(LS_ROW_HAS_PREV)) return kOk;
    const VersionEntry *entry = nullptr;
    const Status status = version_store(w, tn).get({tn, at.seq}, out->entry, &entry);
    if (code(status) == LS_NOT_FOUND) return kOk;
    LS_TRY(status);
    out->later = {tn, at.seq};
    if (entry->op == VersionOp::kUpdate)
      out->payload = Bytes(out->entry + sizeof(VersionEntry), entry->payload_bytes);
    at = entry->previous;
  }
  return kOk;
}

// The entry of the change behind leads to this one's.
Status lead_from_later(Worker &w, VersionLocator later, VersionLocator at) {
  alignas(8) u8 bytes[kPageSize];
  const VersionEntry *found = nullptr;
  LS_TRY(version_store(w, later.tn).get(later, bytes, &found));
  VersionEntry entry = *found;
  entry.previous = with_previous(entry.previous);
  entry.older_tn = at.tn;
  entry.older_seq = at.seq;
  return version_store(w, later.tn)
      .put(later, entry, Bytes(bytes + sizeof(VersionEntry), entry.payload_bytes));
}

// Of another row: the number is that of an insertion, or of nothing that was kept.
bool is_version_of(const VersionEntry &entry, u64 row_id) {
  return entry.row_id == row_id &&
         (entry.op == VersionOp::kUpdate || entry.op == VersionOp::kDelete);
}

}  // namespace

Status find_forgotten(Worker &w, const FollowedTxns &txns, Tn forgotten, const Node &image,
                      std::vector<RowLead> *leads) {
  const Tn seen_by_all = txn_horizon(*w.txns);
  for (u16 pos = 0; pos < image.count; pos++) {
    RowParts row;
    u8 key[kMaxKeyBytes];
    if (!split_row(image.value(pos), &row) || image.copy_key(pos, key) != kRowKeyBytes) continue;
    const Tn tn = row.header.tn();
    const u64 row_id = decode_row_key(key);
    if (tn == 0) leads->push_back({.row_id = row_id});
    if (row.header.has(LS_ROW_HAS_PREV) || tn < seen_by_all || tn >= forgotten) continue;
    alignas(8) u8 bytes[kPageSize];
    const VersionEntry *entry = nullptr;
    const Tn number = txns.written_as(tn);
    const Status status = version_store(w, number).get({number, row.header.seq}, bytes, &entry);
    if (code(status) == LS_NOT_FOUND) continue;
    LS_TRY(status);
    if (is_version_of(*entry, row_id)) leads->push_back({.row_id = row_id, .has_previous = true});
  }
  return kOk;
}

void find_writers(const Node &before, std::vector<RowLead> *leads) {
  for (RowLead &lead : *leads) {
    RowParts row;
    if (lead.has_previous || lead.writer || !find_row(before, lead.row_id, &row)) continue;
    if (row.header.tn() == 0) continue;
    lead.writer = row.header;
    lead.has_previous = row.header.has(LS_ROW_HAS_PREV);
  }
}

void give_lead(const RowLead &lead, Node *leaf) {
  bool found = false;
  if (!leaf->covers(RowKey(lead.row_id))) return;
  const u16 pos = leaf->lower_bound(RowKey(lead.row_id), &found);
  if (!found) return;
  u8 *value = leaf->value_data(pos);
  RowHeader header = RowHeader::load(value);
  if (lead.writer) {
    const RowHeader &by = *lead.writer;
    header = RowHeader::make(by.tn(), header.flags(), header.generation(), by.cid, by.seq);
  }
  (lead.has_previous ? with_previous(header) : header).store(value);
}

Status keep_open_version(Worker &w, FileSlot &file, Tn tn, const RowUndo &undo) {
  LS_ASSERT(undo.code == kRowUpdate || undo.code == kRowDelete);   // OPENV-1
  OpenRow row;
  LS_TRY(find_open_row(w, file, tn, undo, &row));
  if (!row.found) return kOk;   // OPENV-2
  VersionEntry entry{};
  entry.op = undo.code == kRowUpdate ? VersionOp::kUpdate : VersionOp::kDelete;
  entry.file_slot = file.index;
  entry.file_no = file.file_no.load(std::memory_order_relaxed);
  entry.row_id = undo.row_id;
  entry.previous =
      RowHeader::make(undo.previous_seq != 0 ? tn : 0, undo.flags, 0, 0, undo.previous_seq);
  u8 before[kPageSize];
  u32 bytes = 0;
  if (undo.code == kRowUpdate && !apply_patch(row.payload, undo.patch, before, &bytes))
    return fail_row(file, undo.row_id, "the log does not fit it");
  entry.payload_bytes = bytes;
  const VersionLocator at{tn, undo.seq};
  LS_TRY(version_store(w, tn).put(at, entry, Bytes(before, bytes)));
  w.txns->versions_written.fetch_add(1, std::memory_order_relaxed);
  return row.later ? lead_from_later(w, row.later, at)
                   : lead_to_previous(w, file, undo.row_id, at);
}

Status lead_to_previous(Worker &w, FileSlot &file, u64 row_id, VersionLocator at) {
  RowLeaf leaf;
  LS_TRY(leaf.open(w, file, row_id, 0));
  if (!leaf.found() || leaf.header().tn() != at.tn || leaf.header().seq != at.seq) return kOk;
  leaf.set_header(with_previous(leaf.header()));
  leaf.changed_as_redone();
  return kOk;
}

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
                    RowLead *lead) {
  *lead = {};
  if (op.code != kRowUpdate && op.code != kRowDelete && op.code != kRowRestore) return kOk;
  RowParts row;
  lead->row_id = row_id_of(op.operands);
  if (!find_row(leaf, lead->row_id, &row)) return damaged(op.code);
  if (op.code == kRowRestore) return lead_of_restored(w, op, row.header, lead);
  lead->has_previous = true;
  return keep_replaced(w, file, op, row);
}

}  // namespace ls
