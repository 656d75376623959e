// value_copy.cpp - values of another file into this one.
#include "txn/value_copy.hpp"

#include <cstring>

#include "txn/io_memory.hpp"
#include "txn/row.hpp"
#include "txn/row_read.hpp"
#include "vlog/value_pages.hpp"

namespace ls {

namespace {

// Pages for it, and `insert` with its row; the pages are freed if that fails, or *stale.
template <typename Insert>
Status insert_copy(Worker &w, const ValueSource &from, FileSlot &to, bool *stale, Insert &&insert) {
  CopiedValue copy;
  LS_TRY(take_value_pages(w.ctx, to, from.place.runs.pages(), &copy.runs));
  Status status = with_memory([&] {
    LS_TRY(copy_value(w, from, to, &copy, stale));
    if (*stale) return kOk;
    if (to.logged) LS_TRY(w.value_files.add(w.log, FurtherFile(to).ref()));
    return insert(Bytes(copy.row, copy.row_bytes));
  });
  if (!ok(status) || *stale) free_value_pages(w.ctx, to, copy.runs);
  return status;
}

Status fail_damaged(const ValueSource &from) {
  return fail_page(from.name.file.ref().path, from.place.runs[0].first, "value %llu is damaged",
                   static_cast<unsigned long long>(from.name.value_id));
}

}  // namespace

Status copy_value(Worker &w, const ValueSource &from, FileSlot &to, CopiedValue *copy,
                  bool *stale) {
  const IoMemory io(w), data(w);
  LS_TRY(io.status());
  LS_TRY(data.status());
  const FurtherFile further(to);
  ValueNotes notes(from.place.bytes);
  ValuePlace place;
  place.bytes = from.place.bytes;
  place.runs = copy->runs;
  LS_TRY(value_copy(from, {{io.bytes(), w.ctx.interrupt}, data.bytes()}, notes,
                    {{further, from.name.value_id}, &place}, stale));
  if (*stale) return kOk;
  const u32 bytes = store_place(place, copy->row + LS_VALUE_HEAD_BYTES);
  put_value_head(from.name.value_id, false, bytes, copy->row);
  copy->row_bytes = LS_VALUE_HEAD_BYTES + bytes;
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
    const ValueSource source{{further, row.row_id / LS_ROWS_PER_VALUE}, place};
    bool stale;
    LS_TRY(insert_copy(w, source, to, &stale, [&](Bytes fresh) {
      ls_row now = row;
      now.data = fresh.data();
      now.len = static_cast<u32>(fresh.size());
      return row_insert_copied(w, to, row.row_id, now);
    }));
    if (!stale) return kOk;
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
  const ValueSource source{{further, row.row_id / LS_ROWS_PER_VALUE}, place};
  bool stale;
  LS_TRY(insert_copy(w, source, to, &stale, [&](Bytes fresh) {
    return row_insert(w, to, row.row_id, row.cid, 0, fresh);
  }));
  return stale ? fail_damaged(source) : kOk;
}

}  // namespace ls
