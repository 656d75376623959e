// handover.cpp - the numbers of a store from one directory to another.
#include "recovery/handover.hpp"

#include <cstring>
#include <vector>

#include "os/file.hpp"
#include "recovery/restore_state.hpp"

namespace ls {

namespace {

Status read_state(const char *path, RestoreState *state) {
  File file;
  LS_TRY(file.open(path, 0));
  u64 size = 0;
  LS_TRY(file.size(&size));
  if (size > kMaxStateLogBytes) return fail_page(path, UINT32_MAX, "not a state of a store");
  std::vector<u8> bytes(size);
  size_t got = 0;
  LS_TRY(file.read_at(0, bytes.data(), bytes.size(), &got));
  bytes.resize(got);
  LS_TRY(restore_state_unpack(bytes, state));
  const ControlFile &control = state->control;
  if (!version_fits(control) || control.page_size != kPageSize)
    return fail(LS_CORRUPT, "the store has format version %u and pages of %u bytes, this engine %u "
                "and %u", control.version, control.page_size, kControlVersion, kPageSize);
  if (control.clean && control.undo_gsn == 0 && state->log.empty()) return kOk;
  return fail(LS_INVALID, "the store that is handed over was not shut down");   // HAND-1
}

}  // namespace

Status handover_leave(const char *data_dir, const char *path) {
  ControlFile control{};
  bool exists;
  LS_TRY(control_read(data_dir, &control, &exists));
  if (!exists || !control.clean)
    return fail(LS_INVALID, "the store was not shut down cleanly, or has prepared transactions");
  std::vector<u8> bytes;
  LS_TRY(restore_state_pack(data_dir, control, control.redo_lsn, &bytes));
  return file_write_atomically(path, bytes);
}

Status handover_take(const char *data_dir, const char *path, u64 segment_bytes, bool *taken) {
  *taken = false;
  RestoreState state;
  LS_TRY(read_state(path, &state));
  ControlFile own{};
  bool exists;
  LS_TRY(control_read(data_dir, &own, &exists));
  if (exists && std::memcmp(&own.store, &state.control.store, sizeof own.store) == 0) return kOk;
  if (exists && !own.clean)   // HAND-2
    return fail(LS_INVALID, "the store that is to go was not shut down cleanly");
  LS_TRY(restore_forget(data_dir));
  state.control.segment_bytes = segment_bytes;   // there is none yet
  LS_TRY(restore_state_write(data_dir, state));
  *taken = true;
  return kOk;
}

}  // namespace ls
