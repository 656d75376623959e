// restore_state.hpp - where recovery of a copy of the store begins, for instance of a base backup
// (docs/decisions/0044).
//
// Such a copy is made file by file while the store works.  Its pages are of all ages, and its
// control file and log may be of any moment.  What counts instead is in the host's log: behind each
// place where recovery of a copy may begin the host has the engine make a checkpoint, and a state
// of it, which it inserts before the first file is copied.
//
// RESTORE-1  The checkpoint has begun behind the place where the host's replay of the copy begins,
//            and ended before the copy began.  So a page that was written meanwhile has its image
//            in the log (IMG-3 in wal/image_horizon.hpp), and each other page is as the checkpoint
//            has left it, or newer.
// RESTORE-2  The log from the control file's redo_lsn on is in the state, up to `log_end`; what
//            lies behind that was inserted behind the place, so the host replays it.
// RESTORE-3  Of the store's directory only undo files and files of prepared transactions count as
//            they were copied.  An undo file that the list names was durable before, is appended to
//            only, and goes when the log has the transaction's end: then it is not needed.
// RESTORE-4  Redo begins at or before the first record that was not yet durable in the host's log
//            at a moment before the place (RestoreStates::floor()).  So all records that were
//            inserted behind the place are redone: what they have changed need not be among the
//            pages that an incremental backup knows of (wal/changed_places.hpp).
#pragma once
#include <vector>

#include "recovery/control_file.hpp"
#include "wal/log_record.hpp"

namespace ls {

// More is not put into a state: the checkpoint is made again.
inline constexpr u64 kMaxStateLogBytes = 4 << 20;

struct RestoreState {
  ControlFile control{};
  std::vector<u8> list;   // undo/list.<control.undo_gsn>; empty: there is none
  std::vector<u8> eras;   // tn_eras
  Lsn log_end = 0;        // where a round ends
  std::vector<u8> log;    // from control.redo_lsn to log_end; empty: that lies behind log_end
};

// Of the checkpoint that has just left this control file, as bytes.  log_end: of the log at CKPT-1.
Status restore_state_pack(const char *data_dir, const ControlFile &control, Lsn log_end,
                          std::vector<u8> *state);
// LS_CORRUPT: these bytes are none, or of another version.
Status restore_state_unpack(LogBytes state, RestoreState *out);

// Before the host replays its log onto a copy: files of the store's directory that do not count go.
Status restore_forget(const char *data_dir);
// All but the log becomes what it was; durable, the control file last.
Status restore_state_write(const char *data_dir, const RestoreState &state);

}  // namespace ls
