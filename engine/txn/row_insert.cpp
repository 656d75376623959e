// row_insert.cpp - new rows.  Nobody but their writer can see them, so there is no version before and no conflict: the
// undo is to remove them, and a range of consecutive row ids is one undo entry, kept in the Worker while it grows.
// A commit never writes it; rollback at run time happens in the same process, and after a crash the log undoes.
#include <algorithm>

#include "txn/row.hpp"
#include "txn/row_log.hpp"

namespace ls {

namespace {

// The open range ends: its undo entry is written (rollback of a transaction with several ranges needs them all).
Status close_range(Worker &w) {
  const InsertRange &range = w.inserts;
  if (range.count > 0) {
    VersionEntry entry{};
    entry.op = VersionOp::kInsert;
    entry.file_slot = range.file_slot;
    entry.file_no = range.file_no;
    entry.count = range.count;
    entry.row_id = range.first;
    LS_TRY(version_store(w, w.tn).put({w.tn, range.seq}, entry, {}));
    w.txns->versions_written.fetch_add(1, std::memory_order_relaxed);
  }
  w.inserts = InsertRange{};
  return kOk;
}

// The sequence number for the insertion of row_id: the open range's when it continues it.
Status enter_range(Worker &w, const FileSlot &file, u64 row_id) {
  InsertRange &range = w.inserts;
  const FileNo file_no = file.file_no.load(std::memory_order_relaxed);
  const bool continues = !range.closed && range.seq != 0 && range.file_no == file_no && range.file_slot == file.index &&
                         range.first + range.count == row_id && range.count < ~u32{0};
  if (continues) return kOk;
  LS_TRY(close_range(w));
  u32 seq;
  LS_TRY(draw_seq(w, &seq));
  range = InsertRange{file.index, file_no, row_id, 0, seq, false};
  return kOk;
}

Status insert_into_leaf(Worker &w, FileSlot &file, u64 row_id, const RowHeader &header, Bytes data, bool raw) {
  u32 need = row_room(static_cast<u32>(data.size()));
  LS_TRY(w.log.reserve(row_record_room(static_cast<u32>(data.size())), w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w, file, row_id, need));
  if (leaf.found()) {
    return fail(LS_EXISTS, "row %llu of \"%s\" exists already", static_cast<unsigned long long>(row_id), file.path);
  }
  const PageNo page = leaf.page_no();
  if (!leaf.insert(RowKey(row_id), header, data)) return fail_row(file, row_id, "no room in the leaf that was made for it");
  const RowRecord record{w, file, page, row_id};
  leaf.changed(raw ? log_insert_raw(record, header.tn(), data) : log_insert(record, header.seq, data));
  return kOk;
}

Status check_insert(const Worker &w, u64 row_id, Bytes data) {
  if (w.tn == 0) return fail(LS_INVALID, "a row is inserted outside a transaction");
  if (row_id > LS_MAX_ROW_ID) return fail(LS_LIMIT, "row id %llu is over the limit", static_cast<unsigned long long>(row_id));
  if (data.size() > LS_MAX_ROW_BYTES) return fail(LS_TOO_LARGE, "a row of %zu bytes is over the limit", data.size());
  return kOk;
}

// Log room asked for at a time: a leaf of rows and their record heads, well within the smallest log buffer.
constexpr u32 kLeafLogBytes = 2 * kPageSize;

// At least the first row; more as long as they fit the leaf and the log room reserved.
Status insert_into_one_leaf(Worker &w, FileSlot &file, u64 row_id, u32 cid, std::span<const ls_bytes> rows,
                            u32 *inserted) {
  LS_TRY(check_insert(w, row_id, Bytes(rows[0].data, rows[0].len)));
  LS_TRY(enter_range(w, file, row_id));
  u32 log_room = std::max(kLeafLogBytes, row_record_room(rows[0].len));
  LS_TRY(w.log.reserve(log_room, w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w, file, row_id, row_room(rows[0].len)));
  if (leaf.found()) {
    return fail(LS_EXISTS, "row %llu of \"%s\" exists already", static_cast<unsigned long long>(row_id), file.path);
  }
  const RowHeader header = RowHeader::make(w.tn, 0, 0, cid, w.inserts.seq);
  const PageNo page = leaf.page_no();
  const ls_bytes *first = rows.data();
  for (const ls_bytes &row : rows) {
    const Bytes data(row.data, row.len);
    if (&row != first && (data.size() > LS_MAX_ROW_BYTES || row_id > LS_MAX_ROW_ID || row_record_room(row.len) > log_room ||
                          !leaf.move_to_absent(row_id, static_cast<u32>(sizeof header) + row.len))) {
      break;
    }
    if (!leaf.insert(RowKey(row_id), header, data)) return fail_row(file, row_id, "no room in the leaf that was made for it");
    leaf.changed(log_insert({w, file, page, row_id}, header.seq, data));
    log_room -= row_record_room(row.len);
    w.inserts.count++;
    (*inserted)++;
    row_id++;
  }
  return kOk;
}

}  // namespace

Status row_insert(Worker &w, FileSlot &file, u64 row_id, u32 cid, u32 flags, Bytes data) {
  LS_TRY(check_insert(w, row_id, data));
  if (file.logged) {
    LS_TRY(log_begin(w));
  } else {
    w.wrote_unlogged = true;
  }
  LS_TRY(enter_range(w, file, row_id));
  const u8 row_flags = static_cast<u8>(flags & LS_ROW_SPECULATIVE);
  const RowHeader header = RowHeader::make(w.tn, row_flags, 0, cid, w.inserts.seq);
  LS_TRY(insert_into_leaf(w, file, row_id, header, data, false));
  w.inserts.count++;
  return kOk;
}

Status row_insert_many(Worker &w, FileSlot &file, u64 first_row_id, u32 cid, std::span<const ls_bytes> rows,
                       u32 *inserted) {
  *inserted = 0;
  if (w.tn == 0) return fail(LS_INVALID, "rows are inserted outside a transaction");
  if (file.logged) {
    LS_TRY(log_begin(w));
  } else {
    w.wrote_unlogged = true;
  }
  while (*inserted < rows.size()) {
    LS_TRY(insert_into_one_leaf(w, file, first_row_id + *inserted, cid, rows.subspan(*inserted), inserted));
  }
  return kOk;
}

Status row_insert_raw(Worker &w, FileSlot &file, u64 row_id, Tn writer, Bytes data) {
  LS_TRY(check_insert(w, row_id, data));
  // The transaction that rewrites must harden what it wrote, though it will never undo it: its file goes instead.
  if (file.logged) LS_TRY(log_begin(w));
  return insert_into_leaf(w, file, row_id, RowHeader::make(writer, 0, 0, 0, 0), data, true);
}

Status row_finish_speculative(Worker &w, FileSlot &file, u64 row_id, u32 cid, bool keep) {
  LS_TRY(w.log.reserve(row_record_room(0), w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w, file, row_id, 0));
  if (!leaf.found() || leaf.header().tn() != w.tn || w.tn == 0 || !leaf.header().has(LS_ROW_SPECULATIVE)) {
    return fail(LS_INVALID, "row %llu is no speculative insertion of this transaction",
                static_cast<unsigned long long>(row_id));
  }
  if (!keep) {
    const PageNo page = leaf.page_no();
    leaf.remove();
    leaf.changed(log_remove({w, file, page, row_id}));
    file.rows_gone.fetch_add(1, std::memory_order_relaxed);
    return kOk;
  }
  // Not logged: an unconfirmed insertion that survives a crash does not exist, its transaction has not committed.
  const RowHeader old = leaf.header();
  const u8 flags = static_cast<u8>(old.flags() & ~LS_ROW_SPECULATIVE);
  leaf.set_header(RowHeader::make(old.tn(), flags, old.generation(), cid, old.seq));
  leaf.changed_hint();
  return kOk;
}

}  // namespace ls
