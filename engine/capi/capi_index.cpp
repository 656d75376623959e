// Index entries.
#include "capi/api_call.hpp"
#include "index/index.hpp"
#include "index/index_build.hpp"
#include "index/index_cleaner.hpp"
#include "index/index_scan.hpp"

using namespace ls;

namespace {

IndexScan &scan_of(ls_index_scan *scan) { return *reinterpret_cast<IndexScan *>(scan); }

// Run `body(worker, at)`.
template <typename Body>
ls_status call_at(ls_worker *w, ls_rel *index, ls_rel *table, ls_error *err, Body &&body) noexcept {
  return api::call(err, [&]() -> Status {
    api::RelUse of_index, of_table;
    LS_TRY(of_index.begin(w, index));
    LS_TRY(of_table.begin(w, table));
    return body(api::worker(w), IndexAt{of_index.file(), of_table.file()});
  });
}

IndexBuild &build_of(ls_index_build *build) { return *reinterpret_cast<IndexBuild *>(build); }

}  // namespace

extern "C" {

uint32_t ls_index_max_payload(uint32_t key_bytes) noexcept {
  return key_bytes > LS_MAX_KEY_BYTES ? 0 : max_payload_bytes(key_bytes);
}

ls_status ls_index_insert(ls_worker *worker, ls_rel *index, ls_rel *table, ls_bytes key,
                          uint64_t row_id, ls_bytes payload, ls_error *err) noexcept {
  return call_at(worker, index, table, err, [&](Worker &w, const IndexAt &at) {
    return index_insert(w, at,
                        {bytes_of(key), row_id, bytes_of(payload)});
  });
}

ls_status ls_index_insert_unique(ls_worker *worker, ls_rel *index, ls_rel *table, ls_bytes key,
                                 uint64_t row_id, ls_bytes payload, const uint64_t *ignore,
                                 uint32_t n_ignore, uint64_t *other, ls_error *err) noexcept {
  return call_at(worker, index, table, err, [&](Worker &w, const IndexAt &at) {
    return index_insert_unique(w, at, {bytes_of(key), row_id, bytes_of(payload)},
                               std::span(ignore, n_ignore), other);
  });
}

ls_status ls_index_remove(ls_worker *worker, ls_rel *index, ls_rel *table,
                          const ls_index_entry *entry, ls_error *err) noexcept {
  return call_at(worker, index, table, err, [&](Worker &w, const IndexAt &at) {
    return index_remove(w, at, bytes_of(entry->key), entry->row_id);
  });
}

ls_status ls_index_sweep(ls_worker *worker, ls_rel *index, ls_rel *table, uint32_t max_leaves,
                         ls_index_position *position, uint64_t *entries, uint64_t *removed,
                         ls_error *err) noexcept {
  return call_at(worker, index, table, err, [&](Worker &w, const IndexAt &at) {
    return index_sweep(w, at, max_leaves, position, entries, removed);
  });
}

ls_status ls_index_rows_gone(ls_worker *worker, ls_rel *index, ls_rel *table, uint64_t *gone,
                             ls_error *err) noexcept {
  return call_at(worker, index, table, err, [&](Worker &, const IndexAt &at) {
    *gone = rows_gone_since_sweep(at);
    return kOk;
  });
}

ls_status ls_index_note_stale(ls_worker *worker, ls_rel *index, ls_error *err) noexcept {
  return api::call_in(worker, index, err, index_note_stale);
}

bool ls_index_may_be_stale(const ls_rel *index) noexcept {
  // Where the file was closed the host looks closer for nothing.
  const auto &file = *static_cast<const FileSlot *>(index->slot);
  return file.stale_entries.load(std::memory_order_acquire) || !ls_rel_is_open(index);
}

ls_status ls_index_look(ls_worker *worker, ls_rel *index, ls_bytes key, uint64_t row_id,
                        ls_index_seen *out, ls_error *err) noexcept {
  return api::call_in(worker, index, err, [&](Worker &w, FileSlot &file) -> Status {
    BTree::PageStamp seen;
    LS_TRY(index_look(w, file, bytes_of(key), row_id, &seen));
    *out = {seen.frame, seen.version};
    return kOk;
  });
}

ls_status ls_index_remove_seen(ls_worker *worker, ls_rel *index, ls_bytes key, uint64_t row_id,
                               const ls_index_seen *seen, uint64_t newest, bool *removed,
                               ls_error *err) noexcept {
  return api::call_in(worker, index, err, [&](Worker &w, FileSlot &file) {
    const BTree::PageStamp stamp{static_cast<Frame *>(seen->leaf), seen->version};
    return index_remove_seen(w, file, {bytes_of(key), row_id, stamp, newest}, removed);
  });
}

ls_status ls_index_scan_open(ls_worker *worker, ls_rel *index, ls_index_scan **out,
                             ls_error *err) noexcept {
  *out = nullptr;
  return api::call(err, [&]() -> Status {
    api::RelUse use;
    LS_TRY(use.begin(worker, index));
    IndexScan *scan = nullptr;
    LS_TRY(IndexScan::open(api::worker(worker), use.file(), &scan));
    scan->use.begin_also(api::worker(worker).ctx, use.use());
    *out = reinterpret_cast<ls_index_scan *>(scan);
    return kOk;
  });
}

ls_status ls_index_scan_range(ls_index_scan *scan, ls_bytes from, ls_bytes to, bool backward,
                              ls_error *err) noexcept {
  return api::call(err, [&] {
    scan_of(scan).range(bytes_of(from), bytes_of(to), to.data == nullptr, backward);
    return kOk;
  });
}

ls_status ls_index_scan_next(ls_index_scan *scan, ls_index_entry *entry, ls_error *err) noexcept {
  return api::call(err, [&] { return scan_of(scan).next(entry); });
}

ls_status ls_index_scan_ahead(ls_index_scan *scan, uint64_t *rows, uint32_t max, uint32_t *count,
                              ls_error *err) noexcept {
  return api::call(err, [&] { return scan_of(scan).ahead({rows, max}, count); });
}

ls_status ls_index_scan_skip(ls_index_scan *scan, uint32_t n, ls_index_entry *entry,
                             ls_error *err) noexcept {
  return api::call(err, [&] { return scan_of(scan).skip(n, entry); });
}

ls_status ls_index_scan_take(ls_index_scan *scan, ls_index_batch *batch, ls_error *err) noexcept {
  return api::call(err, [&] { return scan_of(scan).take(batch); });
}

void ls_index_scan_give_back(ls_index_scan *scan, uint32_t n) noexcept {
  scan_of(scan).give_back(n);
}

void ls_index_scan_set_backward(ls_index_scan *scan, bool backward) noexcept {
  scan_of(scan).set_backward(backward);
}

ls_status ls_index_scan_seek(ls_index_scan *scan, ls_bytes position, ls_error *err) noexcept {
  return api::call(err, [&] {
    scan_of(scan).seek(bytes_of(position));
    return kOk;
  });
}

void ls_index_scan_mark(ls_index_scan *scan) noexcept { scan_of(scan).mark(); }

bool ls_index_scan_confirm(ls_index_scan *scan, ls_index_entry *entry) noexcept {
  return scan_of(scan).confirm(entry);
}

ls_status ls_index_scan_middle(ls_index_scan *scan, ls_bytes from, ls_bytes to,
                               ls_index_entry *entry, ls_error *err) noexcept {
  return api::call(err, [&] {
    return scan_of(scan).middle(bytes_of(from), bytes_of(to), to.data == nullptr, entry);
  });
}

uint64_t ls_index_scan_vouches(const ls_index_scan *scan) noexcept {
  return reinterpret_cast<const IndexScan *>(scan)->vouches();
}

uint64_t ls_index_scan_searches(const ls_index_scan *scan) noexcept {
  return reinterpret_cast<const IndexScan *>(scan)->searches();
}

void ls_index_scan_close(ls_index_scan *scan) noexcept {
  IndexScan::close(scan ? &scan_of(scan) : nullptr);
}

ls_status ls_index_build_open(ls_worker *worker, ls_rel *index, uint32_t fill_percent,
                              ls_index_build **out, ls_error *err) noexcept {
  *out = nullptr;
  return api::call(err, [&]() -> Status {
    api::RelUse use;
    LS_TRY(use.begin(worker, index));
    IndexBuild *build = nullptr;
    LS_TRY(IndexBuild::open(api::worker(worker), use.file(), fill_percent, &build));
    build->use.begin_also(api::worker(worker).ctx, use.use());
    *out = reinterpret_cast<ls_index_build *>(build);
    return kOk;
  });
}

ls_status ls_index_build_add(ls_index_build *build, ls_bytes entry, ls_bytes payload,
                             ls_error *err) noexcept {
  return api::call(err, [&] { return build_of(build).add(bytes_of(entry), bytes_of(payload)); });
}

ls_status ls_index_build_finish(ls_index_build *build, ls_error *err) noexcept {
  const ls_status status = api::call(err, [&] { return build_of(build).finish(); });
  if (status != LS_INTERRUPTED) IndexBuild::close(&build_of(build));
  return status;
}

void ls_index_build_abandon(ls_index_build *build) noexcept {
  IndexBuild::close(build ? &build_of(build) : nullptr);
}

}  // extern "C"
