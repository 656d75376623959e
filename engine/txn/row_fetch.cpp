// row_fetch.cpp - one row by its id.
#include "base/check.hpp"
#include "txn/row.hpp"
#include "txn/row_gone.hpp"
#include "txn/row_read.hpp"

namespace ls {

// No version was found: will none ever be?  A deleter may have been undone between the copy and the
// question whether it has ended, so the row is looked at again after it.
static Status ask_all_dead(Worker &w, FileSlot &file, u64 row_id, bool absent,
                           const RowHeader &newest, bool *all_dead) {
  *all_dead = absent && file.state.load(std::memory_order_acquire) == FileState::kActive;
  if (absent || !newest.has(LS_ROW_GHOST)) return kOk;
  if (newest.tn() >= settled_below(*w.txns)) {
    bool final;
    LS_TRY(deletion_final(w, newest, &final));
    if (!final) return kOk;
  }
  return row_still(w, file, row_id, newest, all_dead);
}

Status row_fetch(Worker &w, FileSlot &file, u64 row_id, const ls_snapshot &snapshot, u8 *buffer,
                 ls_row *row, bool *all_dead) {
  static_assert(LS_ROW_BUFFER_BYTES >= kPageSize, "a look-up copies into the caller's buffer");
  const Viewer viewer = viewer_of(w, snapshot);
  alignas(8) u8 older[kPageSize];
  RowVersion version;
  RowHeader newest{};
  bool absent = false;
  const Status s =
      read_version(w, file, viewer, row_id, {buffer, older}, &version, &newest, &absent);
  if (all_dead != nullptr) {
    *all_dead = false;
    if (code(s) == LS_NOT_FOUND) LS_TRY(ask_all_dead(w, file, row_id, absent, newest, all_dead));
  }
  LS_TRY(s);
  if (version.payload.data() >= older && version.payload.data() < older + kPageSize) {
    std::memcpy(buffer, version.payload.data(), version.payload.size());
    version.payload = Bytes(buffer, version.payload.size());
  }
  LS_ASSERT(version.payload.data() >= buffer);
  LS_ASSERT(version.payload.data() + version.payload.size() <= buffer + kPageSize);
  fill_row(viewer, row_id, version, row);
  return kOk;
}

}  // namespace ls
