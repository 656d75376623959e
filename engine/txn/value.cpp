// value.cpp - out-of-line values: their rows, found by number whatever a snapshot sees, and their
// pages (vlog/).
//
// The row of a value is inserted and deleted in the transaction of the row that has the pointer to
// it.  So whether it counts is never asked: a transaction with the pointer may read it, until the
// horizon has passed the deletion (GONE-4), and one that has locked the row may delete it.
#include "base/check.hpp"
#include "buffer/followed_pages.hpp"
#include "txn/row.hpp"
#include "txn/row_read.hpp"
#include "txn/value_row.hpp"
#include "txn/value_share.hpp"
#include "vlog/value_pages.hpp"

namespace ls {

namespace {

Status check_kind(const FileSlot &file) {
  return file.kind == LS_REL_VALUES ? kOk : fail(LS_INVALID, "not a file of values");
}

// The row with the bytes, or with the place, behind the host's head.
Status insert_row(Worker &w, FileSlot &file, const ls_new_value &value, u32 cid, Bytes behind) {
  u8 row[LS_MAX_ROW_BYTES];
  put_value_head(value.value_id, is_in_row(value.bytes), static_cast<u32>(behind.size()), row);
  if (!behind.empty()) std::memcpy(row + LS_VALUE_HEAD_BYTES, behind.data(), behind.size());
  const u64 row_id = value_row_id(value.value_id, value.bytes);
  return row_insert(w, file, row_id, cid, 0, Bytes(row, LS_VALUE_HEAD_BYTES + behind.size()));
}

Status insert_place(Worker &w, FileSlot &file, const ls_new_value &value, u32 cid,
                    const ValuePlace &place) {
  u8 packed[kMostPlaceBytes];
  // Also of shared pages, the writer of which may not have committed.
  if (file.logged) LS_TRY(w.value_files.add(w.log, FurtherFile(file).ref()));
  return insert_row(w, file, value, cid, Bytes(packed, store_place(place, packed)));
}

// hash: of what the pages are to have; 0: no other value is to have them.
Status insert_written(Worker &w, FileSlot &file, const ls_new_value &value, u32 cid, u64 hash) {
  const IoMemory io(w);
  LS_TRY(io.status());
  const FurtherFile further(file);
  ValueSink sink(w.ctx, file, true);
  ValuePlace place;
  place.bytes = value.bytes;
  place.hash = hash;
  LS_TRY(take_value_pages(w.ctx, file, ValueLayout(value.bytes).pages(), &place.runs));
  const Status status = with_memory([&] {
    ValueNotes notes(value.bytes);
    LS_TRY(value_write({further, value.value_id}, value.data,
                       {io.bytes(), w.ctx.interrupt, &sink}, notes, &place));
    if (hash != 0) note_candidate(w, file, value.value_id, place);
    return insert_place(w, file, value, cid, place);
  });
  if (!ok(status)) {
    free_value_pages(w.ctx, file, {place.runs, hash});
  } else {
    file.values.written_pages.fetch_add(place.runs.pages(), std::memory_order_relaxed);
  }
  return status;
}

Status insert_in_pages(Worker &w, FileSlot &file, const ls_new_value &value, u32 cid) {
  const ClaimsChange change(file);
  if (!value.share) return insert_written(w, file, value, cid, 0);
  const ValueLayout layout(value.bytes);
  BytesInMemory paged(value.data, layout.paged_bytes);
  ShareRate &rate = file.values.share_rate;
  const ShareRate::Look look = rate.choose(layout.data_pages, paged.hash());
  if (look == ShareRate::Look::kNone) return insert_written(w, file, value, cid, 0);
  SharedPages shared;
  LS_TRY(share_pages(w, file, paged, kInvalidPageNo, &shared));
  rate.note(look, shared.found);
  if (!shared.found) return insert_written(w, file, value, cid, paged.hash());
  ValuePlace place = shared.place;
  place.bytes = value.bytes;
  place.tail = Bytes(value.data + layout.paged_bytes, layout.tail_bytes);
  const Status status = insert_place(w, file, value, cid, place);
  if (!ok(status)) free_value_pages(w.ctx, file, {place.runs, place.hash});
  return status;
}

Status fail_value(const FileSlot &file, u64 value_id, const char *what) {
  return fail_page(file.path, kInvalidPageNo, "value %llu %s",
                   static_cast<unsigned long long>(value_id), what);
}

// Its bytes as the row says; again if the row says something else by now.
Status read_in_pages(Worker &w, FileSlot &file, const ls_value_slice &slice, u8 *out) {
  const IoMemory io(w);
  LS_TRY(io.status());
  const FurtherFile further(file);
  alignas(8) u8 copy[LS_ROW_BUFFER_BYTES], before[LS_ROW_BUFFER_BYTES];
  u32 before_bytes = 0;
  for (;;) {
    RowParts row;
    u32 bytes;
    const u64 row_id = value_row_id(slice.value_id, slice.value_bytes);
    LS_TRY(copy_row(w, file, row_id, copy, &row, &bytes));
    ValuePlace place;
    if (!load_value_row(row.payload, &place))
      return fail_value(file, slice.value_id, "has a damaged row");
    if (place.bytes != slice.value_bytes)
      return fail_value(file, slice.value_id, "has another size than its pointer says");
    ValueRead read;
    LS_TRY(value_read({{further, place.writer_in(slice.value_id)}, place},
                      {slice.offset, slice.bytes}, io.bytes(), out, &read));
    if (!read.stale) return kOk;
    const bool same = row.payload.size() == before_bytes &&
                      std::memcmp(row.payload.data(), before, before_bytes) == 0;
    // A store that is followed uses pages again before the removal of their row has come.
    if (same && row.header.has(LS_ROW_GHOST) && is_followed(*w.pool->shared(), file))
      return fail(LS_CONFLICT, "value %llu was deleted, and its pages have new bytes",
                  static_cast<unsigned long long>(slice.value_id));
    if (same)
      return fail_page(further.ref().path, read.page, "value %llu is damaged",
                       static_cast<unsigned long long>(slice.value_id));
    before_bytes = static_cast<u32>(row.payload.size());
    std::memcpy(before, row.payload.data(), before_bytes);
  }
}

}  // namespace

Status value_insert(Worker &w, FileSlot &file, const ls_new_value &value, u32 cid) {
  LS_TRY(check_kind(file));
  if (value.bytes > LS_MAX_VALUE_BYTES)
    return fail(LS_TOO_LARGE, "a value of %u bytes", value.bytes);
  if (is_in_row(value.bytes))
    return insert_row(w, file, value, cid, Bytes(value.data, value.bytes));
  return insert_in_pages(w, file, value, cid);
}

Status value_read(Worker &w, FileSlot &file, const ls_value_slice &slice, u8 *out) {
  LS_TRY(check_kind(file));
  if (slice.offset > slice.value_bytes || slice.bytes > slice.value_bytes - slice.offset)
    return fail(LS_INVALID, "a slice beyond the end of a value");
  if (!is_in_row(slice.value_bytes)) return read_in_pages(w, file, slice, out);
  alignas(8) u8 copy[LS_ROW_BUFFER_BYTES];
  RowParts row;
  u32 bytes;
  LS_TRY(copy_row(w, file, value_row_id(slice.value_id, slice.value_bytes), copy, &row, &bytes));
  if (row.payload.size() != LS_VALUE_HEAD_BYTES + slice.value_bytes)
    return fail_value(file, slice.value_id, "has another size than its pointer says");
  if (slice.bytes > 0)
    std::memcpy(out, row.payload.data() + LS_VALUE_HEAD_BYTES + slice.offset, slice.bytes);
  return kOk;
}

Status value_delete(Worker &w, FileSlot &file, u64 value_id, u32 bytes, u32 cid) {
  LS_TRY(check_kind(file));
  // Every transaction that has ended is in it.
  ls_snapshot all{};
  all.kind = LS_SNAPSHOT_MVCC;
  all.xmax = all.own_tn = kMaxTn + 1;
  all.curcid = ~u32{0};
  ls_change change{};
  change.row_id = value_row_id(value_id, bytes);
  change.snapshot = &all;
  change.cid = cid;
  change.mode = LS_LOCK_UPDATE;
  ls_conflict conflict;
  return row_delete(w, file, change, 0, &conflict);
}

Status value_check(Worker &w, FileSlot &file, const ls_row &row, u32 *value_bytes) {
  LS_TRY(check_kind(file));
  const u64 value_id = row.row_id / LS_ROWS_PER_VALUE;
  const Bytes payload(row.data, row.len);
  if (payload.size() < LS_VALUE_HEAD_BYTES) return fail_value(file, value_id, "has a damaged row");
  *value_bytes = row.len - LS_VALUE_HEAD_BYTES;
  if (row.row_id == value_row_id(value_id, 0)) return kOk;
  ValuePlace place;
  if (!load_value_row(payload, &place) || is_in_row(place.bytes) ||
      row.row_id != value_row_id(value_id, place.bytes))
    return fail_value(file, value_id, "has a damaged row");
  *value_bytes = place.bytes;
  std::vector<u8> out(std::min(place.bytes, kIoPages * kPageSize));
  for (u32 at = 0; at < place.bytes;) {
    const u32 bytes = std::min<u32>(static_cast<u32>(out.size()), place.bytes - at);
    LS_TRY(read_in_pages(w, file, {value_id, place.bytes, at, bytes}, out.data()));
    at += bytes;
  }
  return kOk;
}

}  // namespace ls
