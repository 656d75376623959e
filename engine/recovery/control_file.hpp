// control_file.hpp - leanstore/control: what recovery starts from.  Replaced atomically (temp,
// sync, rename, sync directory).
#pragma once
#include "base/status.hpp"
#include "base/types.hpp"

namespace ls {

inline constexpr u64 kControlMagic = 0x4c45414e53544f52;  // "LEANSTOR"
inline constexpr u32 kControlVersion = 12;
// Version 11 is the same but for the log, of which nothing is read behind a clean shutdown.
inline constexpr u32 kOldControlVersion = 11;

struct ControlFile {
  u64 magic;
  u32 version;
  u32 crc;            // crc32c with this field zero
  u32 page_size;
  u32 clean;          // 1: shut down cleanly, nothing to replay
  u64 run;            // grows with every start
  Lsn redo_lsn;       // recovery reads the log from here
  // of what is logged there; rounds of earlier runs at this place or behind it are left over
  u64 redo_run;
  u64 segment_bytes;
  Gsn gsn;            // every GSN used before the checkpoint is <= it
  Tn tn_floor;        // every TN used before the checkpoint is below it
  FileNo next_file_no;
  Gsn redo_gsn;       // no change before is missing on disk; 0: not known
  u64 tn_offset;      // TN = full transaction id + this; never shrinks
  // While a crash is not yet recovered from: the smallest next_full_xid of all starts that tried
  // (0: none).  A prepared transaction at or above it was unknown to the host when it crashed;
  // later the host may have handed its id out again.
  u64 xid_limit;
  // the log was on disk up to here when this was written: one that ends before is damaged (0: not
  // known)
  Lsn log_end;
  StoreId store;      // the same in each relation file's meta page
  // of the list of transactions that have their undo in undo files (undo_list.hpp); 0: there are
  // none
  Gsn undo_gsn;
  // 1: the log is the host's, and `wal` is the relay log (wal/relay_files.hpp).  It changes when a
  // store that was shut down cleanly is started.
  u32 host_log;
  u32 zero;
};
static_assert(sizeof(ControlFile) == 144 && offsetof(ControlFile, next_file_no) == 72);

// Can a start with that log go on from here?  Not where recovery needs the other one.
inline bool log_fits(const ControlFile &control, bool host_log) {
  return control.clean || control.host_log == host_log;
}

// Does the log have segments of the size that is configured?  Else `otherwise`.
Status control_check_segments(const ControlFile &control, u64 segment_bytes, ls_status otherwise);

// Can a store go on from a control file of that version?
inline bool version_fits(const ControlFile &control) {
  return control.version == kControlVersion ||
         (control.version == kOldControlVersion && control.clean == 1);
}

// Absent: *exists false.  LS_CORRUPT when the bytes are not a control file that this version of the
// engine can go on from.
Status control_read(const char *data_dir, ControlFile *control, bool *exists);
// Fills magic, version, page size and checksum in.  Durable at return.
Status control_write(const char *data_dir, ControlFile control);

}  // namespace ls
