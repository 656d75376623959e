// Table rows and scans.
#include "capi/api_call.hpp"
#include "txn/row.hpp"
#include "txn/value_check.hpp"
#include "txn/value_row.hpp"
#include "vlog/value_pages.hpp"
#include "txn/row_scan.hpp"

using namespace ls;

namespace {

template <typename Body>
ls_status rows_of(const ls_row **rows, uint32_t *count, ls_error *err, Body &&body) noexcept {
  return api::call(err, [&] {
    std::span<const ls_row> found;
    LS_TRY(body(&found));
    *rows = found.data();
    *count = static_cast<uint32_t>(found.size());
    return kOk;
  });
}

}  // namespace

extern "C" {

// What cannot be given back is used up.
void ls_row_ids_return(ls_worker *worker, ls_rel *rel, uint64_t first, uint64_t end) noexcept {
  (void)api::call_in(worker, rel, nullptr, [&](Worker &, FileSlot &file) {
    row_ids_return(file, first, end);
    return kOk;
  });
}

ls_status ls_row_ids(ls_worker *worker, ls_rel *rel, uint32_t count, uint64_t *first,
                     ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return row_ids(w, file, count, first);
  });
}

ls_status ls_row_ids_skip(ls_worker *worker, ls_rel *rel, uint64_t to, ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return row_ids_skip(w, file, to);
  });
}

ls_status ls_value_ids(ls_worker *worker, ls_rel *rel, uint32_t count, ls_value_range *values,
                       ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return value_ids(w, file, count, values);
  });
}

void ls_set_value_head(void (*head)(uint64_t value_id, bool in_row, uint32_t bytes,
                                    uint8_t *out)) noexcept {
  set_value_head(head);
}

ls_status ls_value_insert(ls_worker *worker, ls_rel *rel, const ls_new_value *value, uint32_t cid,
                          ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return value_insert(w, file, *value, cid);
  });
}

ls_status ls_value_read(ls_worker *worker, ls_rel *rel, const ls_value_slice *slice, uint8_t *out,
                        ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return value_read(w, file, *slice, out);
  });
}

ls_status ls_value_delete(ls_worker *worker, ls_rel *rel, const ls_value_slice *value,
                          uint32_t cid, ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return value_delete(w, file, value->value_id, value->value_bytes, cid);
  });
}

ls_status ls_value_insert_copied(ls_worker *worker, ls_rel *rel, ls_rel *from, const ls_row *row,
                                 ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    api::RelUse source;
    LS_TRY(source.begin(worker, from));
    return value_insert_copied(w, file, source.file(), *row);
  });
}

ls_status ls_value_get_stats(ls_worker *worker, ls_rel *rel, ls_value_stats *stats,
                             ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &, FileSlot &file) {
    return value_pages_stats(file, stats);
  });
}

ls_status ls_value_check(ls_worker *worker, ls_rel *rel, const ls_row *row, uint32_t *value_bytes,
                         ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return value_check(w, file, *row, value_bytes);
  });
}

ls_status ls_value_check_pages(ls_worker *worker, ls_rel *rel, bool *compared,
                               ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return value_check_claims(w, file, compared);
  });
}

ls_status ls_row_fetch(ls_worker *worker, ls_rel *rel, uint64_t row_id, const ls_snapshot *snapshot,
                       uint8_t *buffer, ls_row *row, bool *all_dead, ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return row_fetch(w, file, row_id, *snapshot, buffer, row, all_dead);
  });
}

ls_status ls_row_insert(ls_worker *worker, ls_rel *rel, uint64_t row_id, uint32_t cid,
                        uint32_t flags, const uint8_t *data, uint32_t len, ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return row_insert(w, file, row_id, cid, flags, Bytes(data, len));
  });
}

ls_status ls_row_insert_many(ls_worker *worker, ls_rel *rel, uint64_t first_row_id, uint32_t count,
                             uint32_t cid, const ls_bytes *rows, uint32_t *inserted,
                             ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return row_insert_many(w, file, first_row_id, cid, std::span(rows, count), inserted);
  });
}

ls_status ls_row_insert_copied(ls_worker *worker, ls_rel *rel, uint64_t row_id, const ls_row *row,
                               ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return row_insert_copied(w, file, row_id, *row);
  });
}

ls_status ls_row_finish_speculative(ls_worker *worker, ls_rel *rel, uint64_t row_id, uint32_t cid,
                                    bool keep, ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return row_finish_speculative(w, file, row_id, cid, keep);
  });
}

ls_status ls_row_update(ls_worker *worker, ls_rel *rel, const ls_change *change,
                        const uint8_t *data, uint32_t len, ls_conflict *conflict,
                        ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return row_update(w, file, *change, Bytes(data, len), conflict);
  });
}

ls_status ls_row_delete(ls_worker *worker, ls_rel *rel, const ls_change *change, uint64_t moved_to,
                        ls_conflict *conflict, ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return row_delete(w, file, *change, moved_to, conflict);
  });
}

ls_status ls_row_lock(ls_worker *worker, ls_rel *rel, const ls_change *change, bool any_version,
                      uint8_t *buffer, ls_row *row, bool *newer, ls_conflict *conflict,
                      ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return row_lock(w, file, *change, any_version, buffer, row, newer, conflict);
  });
}

ls_status ls_row_locker(ls_worker *worker, ls_rel *rel, uint64_t row_id, uint64_t *tn,
                        uint32_t *seq, ls_error *err) noexcept {
  return api::call_in(worker, rel, err, [&](Worker &w, FileSlot &file) {
    return row_locker(w, file, row_id, tn, seq);
  });
}

ls_status ls_scan_open(ls_worker *worker, ls_rel *rel, const ls_snapshot *snapshot, uint64_t lo,
                       uint64_t hi, bool backward, ls_scan **out, ls_error *err) noexcept {
  *out = nullptr;
  return api::call(err, [&]() -> Status {
    api::RelUse use;
    LS_TRY(use.begin(worker, rel));
    RowScan *scan = nullptr;
    LS_TRY(scan_open(api::worker(worker), use.file(), *snapshot, lo, hi, backward, &scan));
    scan->use.begin_also(api::worker(worker).ctx, use.use());
    *out = reinterpret_cast<ls_scan *>(scan);
    return kOk;
  });
}

ls_status ls_scan_next(ls_scan *scan, const ls_row **rows, uint32_t *count,
                       ls_error *err) noexcept {
  return rows_of(rows, count, err,
                 [&](std::span<const ls_row> *found) { return api::scan(scan).next(found); });
}

const void *ls_scan_next_page(ls_scan *scan) noexcept { return api::scan(scan).next_page(); }

ls_status ls_scan_fetch(ls_scan *scan, uint64_t row_id, int run, const ls_row **rows,
                        uint32_t *count, ls_error *err) noexcept {
  return rows_of(rows, count, err, [&](std::span<const ls_row> *found) {
    return api::scan(scan).fetch(row_id, run, found);
  });
}

void ls_scan_set_backward(ls_scan *scan, bool backward, uint64_t from) noexcept {
  api::scan(scan).set_backward(backward, from);
}

void ls_scan_rescan(ls_scan *scan, uint64_t lo, uint64_t hi, bool backward) noexcept {
  scan_rescan(api::scan(scan), lo, hi, backward);
}

void ls_scan_close(ls_scan *scan) noexcept { scan_close(&api::scan(scan)); }

}  // extern "C"
