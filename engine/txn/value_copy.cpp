// value_copy.cpp - values of another file into this one.
#include "txn/value_copy.hpp"

#include <cstring>

#include "txn/row.hpp"
#include "txn/row_read.hpp"
#include "txn/value_share.hpp"
#include "vlog/value_pages.hpp"

namespace ls {

namespace {

// Its row as that of a value which has its bytes at this place.
void pack_copy(const ValuePlace &place, CopiedValue *copy) {
  const u32 bytes = store_place(place, copy->row + LS_VALUE_HEAD_BYTES);
  put_value_head(copy->value_id, false, bytes, copy->row);
  copy->row_bytes = LS_VALUE_HEAD_BYTES + bytes;
}

// A place for it, and `insert` with its row; the claim is let go of if that fails, or it is stale.
template <typename Insert>
Status insert_copy(Worker &w, const ValueSource &from, FileSlot &to, CopiedValue *copy,
                   Insert &&insert) {
  const ClaimsChange change(to);
  LS_TRY(share_copied(w, from, to, kInvalidPageNo, copy));
  if (!copy->shared) LS_TRY(take_value_pages(w.ctx, to, from.place.runs.pages(), &copy->runs));
  const Status status = with_memory([&] {
    if (!copy->shared) LS_TRY(copy_value(w, from, to, copy));
    if (copy->stale) return kOk;
    if (to.logged) LS_TRY(w.value_files.add(w.log, FurtherFile(to).ref()));
    return insert(Bytes(copy->row, copy->row_bytes));
  });
  if (!ok(status) || copy->stale) free_value_pages(w.ctx, to, {copy->runs, from.place.hash});
  return status;
}

Status fail_damaged(const ValueSource &from) {
  return fail_page(from.name.file.ref().path, from.place.runs[0].first, "value %llu is damaged",
                   static_cast<unsigned long long>(from.name.value_id));
}

}  // namespace

Status copy_value(Worker &w, const ValueSource &from, FileSlot &to, CopiedValue *copy) {
  const IoMemory io(w), data(w);
  LS_TRY(io.status());
  LS_TRY(data.status());
  const FurtherFile further(to);
  ValueSink sink(w.ctx, to, false);
  ValueNotes notes(from.place.bytes);
  ValuePlace place = from.place;
  place.runs = copy->runs;
  LS_TRY(value_copy(from, {{io.bytes(), w.ctx.interrupt, &sink}, data.bytes()}, notes,
                    {{further, from.name.value_id}, &place}, &copy->stale));
  if (copy->stale) return kOk;
  if (place.hash != 0) note_candidate(w, to, copy->value_id, place);
  pack_copy(place, copy);
  return kOk;
}

Status share_copied(Worker &w, const ValueSource &from, FileSlot &to, PageNo below,
                    CopiedValue *copy) {
  if (from.place.hash == 0) return kOk;
  BytesInPages paged(w, from);
  SharedPages pages;
  LS_TRY(share_pages(w, to, paged, below, &pages));
  if (!pages.found) return kOk;
  ValuePlace place = pages.place;
  place.bytes = from.place.bytes;
  place.tail = from.place.tail;
  copy->runs = place.runs;
  pack_copy(place, copy);
  copy->shared = true;
  return kOk;
}

Status value_insert_copied(Worker &w, FileSlot &to, FileSlot &from, const ls_row &row) {
  if (!names_pages(row.row_id)) return row_insert_copied(w, to, row.row_id, row);
  const FurtherFile further(from);
  alignas(8) u8 copy[LS_ROW_BUFFER_BYTES];
  std::vector<u8> payload(row.data, row.data + row.len);
  for (;;) {
    ValuePlace place;
    if (!load_value_row(payload, &place)) return fail_row(from, row.row_id, "not a value");
    const ValueSource source = source_of(further, row.row_id, place);
    CopiedValue copied(row.row_id);
    LS_TRY(insert_copy(w, source, to, &copied, [&](Bytes fresh) {
      ls_row now = row;
      now.data = fresh.data();
      now.len = static_cast<u32>(fresh.size());
      return row_insert_copied(w, to, row.row_id, now);
    }));
    if (!copied.stale) return kOk;
    // Moved meanwhile; or a ghost that no snapshot sees, as it was left by an earlier start.
    RowParts parts;
    u32 bytes;
    LS_TRY(copy_row(w, from, row.row_id, copy, &parts, &bytes));
    const bool same = std::equal(payload.begin(), payload.end(), parts.payload.begin(),
                                 parts.payload.end());
    if (same && parts.header.has(LS_ROW_GHOST)) return make_status(LS_NOT_FOUND);
    if (same) return fail_damaged(source);
    payload.assign(parts.payload.begin(), parts.payload.end());
  }
}

Status value_adopt(Worker &w, FileSlot &to, const FileRef &from, const ls_row &row) {
  if (!names_pages(row.row_id))
    return row_insert(w, to, row.row_id, row.cid, 0, Bytes(row.data, row.len));
  const FurtherFile further(from);
  ValuePlace place;
  if (!load_value_row(Bytes(row.data, row.len), &place))
    return fail_page(from.path, kInvalidPageNo, "the row of a value is damaged");
  const ValueSource source = source_of(further, row.row_id, place);
  CopiedValue copied(row.row_id);
  LS_TRY(insert_copy(w, source, to, &copied, [&](Bytes fresh) {
    return row_insert(w, to, row.row_id, row.cid, 0, fresh);
  }));
  return copied.stale ? fail_damaged(source) : kOk;
}

}  // namespace ls
