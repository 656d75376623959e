// control_file.cpp - reading with every check, writing by atomic replacement.
#include "recovery/control_file.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/crc32c.hpp"
#include "os/file.hpp"
#include "wal/log_bounds.hpp"

namespace ls {

namespace {

constexpr size_t kPathBytes = 640;

void control_path(const char *data_dir, char *path) {
  std::snprintf(path, kPathBytes, "%s/control", data_dir);
}

u32 control_crc(ControlFile control) {
  control.crc = 0;
  return crc32c(0, &control, sizeof control);
}

// Can such numbers have been counted?  The next ones are made of them.
bool is_possible(const ControlFile &c) {
  return c.clean <= 1 && c.host_log <= 1 && c.run <= kMaxRun && c.redo_run <= c.run &&
         c.redo_lsn <= kMaxPosition && c.log_end <= kMaxPosition && c.gsn <= kMaxPosition &&
         c.undo_gsn <= c.gsn && c.redo_gsn <= c.gsn + 1 && c.next_file_no <= kMaxFileNo &&
         c.tn_floor <= kMaxTn && c.tn_offset <= kMaxTn;
}

}  // namespace

Status control_check_segments(const ControlFile &control, u64 segment_bytes, ls_status otherwise) {
  if (control.segment_bytes == segment_bytes) return kOk;
  return fail(otherwise, "the log has segments of %llu bytes, configured are %llu; set it back",
              static_cast<unsigned long long>(control.segment_bytes),
              static_cast<unsigned long long>(segment_bytes));
}

Status control_read(const char *data_dir, ControlFile *control, bool *exists) {
  char path[kPathBytes];
  control_path(data_dir, path);
  *exists = false;
  File file;
  if (Status s = file.open(path, 0); !ok(s)) {
    if (code(s) == LS_NOT_FOUND || last_error().sys_errno == ENOENT) return kOk;
    return s;
  }
  *exists = true;
  size_t got = 0;
  LS_TRY(file.read_at(0, control, sizeof *control, &got));
  u64 size = 0;
  LS_TRY(file.size(&size));
  if (got >= sizeof control->magic && control->magic != kControlMagic)
    return fail_page(path, UINT32_MAX,
                     "not a leanstore control file; restore it from a backup of the whole cluster");
  // The version comes before everything that a version may change, size included.
  const bool known = control->version == kControlVersion || control->version == kOldControlVersion;
  if (got >= offsetof(ControlFile, crc) && !known)
    return fail_page(path, UINT32_MAX,
                     control->version > kControlVersion
                         ? "control file has version %u, this engine reads %u and %u: a later "
                           "version of the engine has used the store, use that one"
                         : "control file has version %u, this engine reads %u and %u: start and "
                           "stop the store with a version of the engine that is between the two",
                     control->version, kOldControlVersion, kControlVersion);
  if (got != sizeof *control || size != sizeof *control || control->crc != control_crc(*control))
    return fail_page(
        path, UINT32_MAX,
        "control file is damaged (checksum or size); "
        "restore it from a backup of the whole cluster");
  if (control->page_size != kPageSize)
    return fail_page(path, UINT32_MAX,
                     "the store has pages of %u bytes, this engine is built for %u",
                     control->page_size, kPageSize);
  if (!version_fits(*control))
    return fail_page(path, UINT32_MAX,
                     "control file has version %u of a store that was not shut down cleanly; start "
                     "and stop it, with nothing prepared, with the engine that wrote it",
                     control->version);
  if (!is_possible(*control))
    return fail_page(path, UINT32_MAX,
                     "control file is damaged (impossible numbers); restore it from a backup of "
                     "the whole cluster");
  return kOk;
}

Status control_write(const char *data_dir, ControlFile control) {
  char path[kPathBytes];
  control_path(data_dir, path);
  control.magic = kControlMagic;
  control.version = kControlVersion;
  control.page_size = kPageSize;
  control.crc = control_crc(control);
  return file_write_atomically(path, {reinterpret_cast<const u8 *>(&control), sizeof control});
}

}  // namespace ls
