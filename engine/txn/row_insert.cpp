// row_insert.cpp - new rows.  Only their writer can see them, so there is no version before and no
// conflict: the undo is to remove them, and a range of consecutive row ids is one undo entry, kept
// in the Worker while it grows.  A commit never writes it; rollback at run time happens in the same
// process, and after a crash the log undoes.
#include <algorithm>

#include "base/check.hpp"
#include "txn/row.hpp"
#include "txn/row_log.hpp"

namespace ls {

namespace {

// A leaf of rows more fits the count.
constexpr u32 kMostInRange = ~u32{0} - kPageSize;

Status write_range(Worker &w) {
  const InsertRange &range = w.inserts;
  LS_ASSERT(range.seq != 0 && range.seq < w.next_seq);  // TXN-2
  VersionEntry entry{};
  entry.op = VersionOp::kInsert;
  entry.file_slot = range.file_slot;
  entry.file_no = range.file_no;
  entry.count = range.count;
  entry.row_id = range.first;
  entry.set_part(range.part);
  LS_TRY(version_store(w, w.tn).put({w.tn, range.seq}, entry, {}));
  w.txns->versions_written.fetch_add(1, std::memory_order_relaxed);
  return kOk;
}

// The sequence number for the insertion of row_id: the open range's when it continues it.
Status enter_range(Worker &w, const FileSlot &file, u64 row_id) {
  InsertRange &range = w.inserts;
  const FileNo file_no = file.file_no.load(std::memory_order_relaxed);
  const bool continues = !range.closed && range.seq != 0 && range.file_no == file_no &&
                         range.first + range.count == row_id && range.count < kMostInRange;
  LS_ASSERT(!continues || range.part == w.part);
  if (continues) return kOk;
  LS_TRY(close_range(w));
  u32 seq;
  LS_TRY(draw_seq(w, &seq));
  range = InsertRange{file.index, file_no, row_id, 0, seq, false, w.part};
  // A backend that meets the rows asks for their part before the range ends (change_part).
  return w.part != 0 ? write_range(w) : kOk;
}

Status insert_into_leaf(Worker &w, FileSlot &file, u64 row_id, const RowHeader &header, Bytes data,
                        bool copied) {
  u32 need = row_room(static_cast<u32>(data.size()));
  LS_TRY(w.log.reserve(row_record_room(static_cast<u32>(data.size())) +
                           (header.has(LS_ROW_GHOST) ? row_record_room(0) : 0),
                       w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w, file, row_id, need));
  if (leaf.found()) {
    return fail(LS_EXISTS, "row %llu of \"%s\" exists already",
                static_cast<unsigned long long>(row_id), file.path);
  }
  const PageNo page = leaf.page_no();
  if (!leaf.insert(RowKey(row_id), header, data))
    return fail_row(file, row_id, "no room in the leaf that was made for it");
  LS_ASSERT(copied || header.tn() == w.tn);
  const RowRecord record{w, file, page, row_id};
  leaf.changed(copied ? log_insert_copied(record, header.tn(), data)
                      : log_insert(record, header.seq, data));
  // The record of an insertion knows no ghosts.
  if (header.has(LS_ROW_GHOST)) leaf.changed(log_restore(record, header, Patch{}));
  return kOk;
}

Status check_insert(const Worker &w, u64 row_id, Bytes data) {
  if (w.tn == 0) return fail(LS_INVALID, "a row is inserted outside a transaction");
  if (row_id > LS_MAX_ROW_ID)
    return fail(LS_NO_ROW_IDS, "row id %llu is over the limit",
                static_cast<unsigned long long>(row_id));
  if (data.size() > LS_MAX_ROW_BYTES)
    return fail(LS_TOO_LARGE, "a row of %zu bytes is over the limit", data.size());
  return kOk;
}

// Log room for all rows that a leaf takes.
constexpr u32 kLeafLogBytes = row_record_room(kPageSize);
static_assert(kLeafLogBytes <= kMaxRecordBytes);

// At least the first row; more as long as they belong into the same leaf and fit.
Status insert_into_one_leaf(Worker &w, FileSlot &file, u64 row_id, u32 cid,
                            std::span<const ls_bytes> rows, u32 *inserted) {
  LS_TRY(enter_range(w, file, row_id));
  LS_TRY(w.log.reserve(kLeafLogBytes, w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w, file, row_id, row_room(rows[0].len)));
  if (leaf.found()) {
    return fail(LS_EXISTS, "row %llu of \"%s\" exists already",
                static_cast<unsigned long long>(row_id), file.path);
  }
  LS_ASSERT(w.inserts.first + w.inserts.count == row_id);
  const RowHeader header = RowHeader::make(w.tn, 0, 0, cid, w.inserts.seq);
  const u32 n = leaf.insert_many(row_id, header, rows);
  if (n == 0) return fail_row(file, row_id, "no room in the leaf that was made for it");
  leaf.changed(log_insert_many({w, file, leaf.page_no(), row_id}, header.seq, rows.first(n)));
  LS_ASSERT(n <= ~u32{0} - w.inserts.count);
  w.inserts.count += n;
  *inserted += n;
  return kOk;
}

}  // namespace

// The open range ends: its undo entry is written (rollback of a transaction with several ranges
// needs them all).
Status close_range(Worker &w) {
  if (w.inserts.count > 0) LS_TRY(write_range(w));
  w.inserts = InsertRange{};
  return kOk;
}

Status row_insert(Worker &w, FileSlot &file, u64 row_id, u32 cid, u32 flags, Bytes data) {
  LS_TRY(check_insert(w, row_id, data));
  if (file.logged) {
    log_begin(w);
  } else {
    w.wrote_unlogged = true;
  }
  LS_TRY(enter_range(w, file, row_id));
  LS_ASSERT(w.inserts.first + w.inserts.count == row_id);
  const u8 row_flags = static_cast<u8>(flags & LS_ROW_SPECULATIVE);
  const RowHeader header = RowHeader::make(w.tn, row_flags, 0, cid, w.inserts.seq);
  LS_TRY(insert_into_leaf(w, file, row_id, header, data, false));
  w.inserts.count++;
  return kOk;
}

Status row_insert_many(Worker &w, FileSlot &file, u64 first_row_id, u32 cid,
                       std::span<const ls_bytes> rows, u32 *inserted) {
  *inserted = 0;
  if (w.tn == 0) return fail(LS_INVALID, "rows are inserted outside a transaction");
  if (file.logged) {
    log_begin(w);
  } else {
    w.wrote_unlogged = true;
  }
  auto check = [&](size_t i) {
    return check_insert(w, first_row_id + i, Bytes(rows[i].data, rows[i].len));
  };
  size_t good = 0;
  while (good < rows.size() && ok(check(good))) good++;
  while (*inserted < good) {
    LS_TRY(insert_into_one_leaf(w, file, first_row_id + *inserted, cid,
                                rows.first(good).subspan(*inserted), inserted));
  }
  return good < rows.size() ? check(good) : kOk;
}

Status row_insert_copied(Worker &w, FileSlot &file, u64 row_id, const ls_row &row) {
  constexpr u32 kKept = LS_ROW_GHOST | LS_ROW_MOVED | LS_ROW_KEYS_CHANGED | LS_ROW_HAS_PREV;
  const Bytes data(row.data, row.len);
  LS_TRY(check_insert(w, row_id, data));
  // The transaction that rewrites must harden what it wrote, though it will never undo it: its file
  // goes instead.
  if (file.logged) log_begin(w);
  u8 flags = static_cast<u8>(row.flags & kKept);
  if (flags & (LS_ROW_HAS_PREV | LS_ROW_GHOST)) flags |= LS_ROW_COPIED;
  u8 value[LS_MAX_ROW_BYTES + kMovedBytes];
  u32 bytes = row.len;
  if (!data.empty()) std::memcpy(value, data.data(), bytes);
  if (flags & LS_ROW_MOVED) {
    std::memcpy(value + bytes, &row.moved_to, kMovedBytes);
    bytes += kMovedBytes;
  }
  // The sequence number leads to the versions before; without any it is not kept, as in the log.
  const RowHeader header =
      RowHeader::make(row.writer_tn, flags, 0, row.cid, flags != 0 ? row.seq : 0);
  return insert_into_leaf(w, file, row_id, header, Bytes(value, bytes), true);
}

Status row_finish_speculative(Worker &w, FileSlot &file, u64 row_id, u32 cid, bool keep) {
  LS_TRY(w.log.reserve(row_record_room(0), w.ctx.interrupt));
  RowLeaf leaf;
  LS_TRY(leaf.open(w, file, row_id, 0));
  if (!leaf.found() || leaf.header().tn() != w.tn || w.tn == 0 ||
      !leaf.header().has(LS_ROW_SPECULATIVE)) {
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
  // Not logged: an unconfirmed insertion that survives a crash does not exist, its transaction has
  // not committed.
  const RowHeader old = leaf.header();
  const u8 flags = static_cast<u8>(old.flags() & ~LS_ROW_SPECULATIVE);
  leaf.set_header(RowHeader::make(old.tn(), flags, old.generation(), cid, old.seq));
  leaf.changed_hint();
  return kOk;
}

}  // namespace ls
