// file_closer.hpp - closes relation files: idle ones, so that others can be opened; and those that
// the host unlinks when a prepared transaction ends.
//
// Steps, of some files together:
//   1  begin_closing: those that are not in use are kClosing, idle ones that were unused for
//      longest; workers wait that want one.
//   2  Row ids are sealed, buffered changes are made, all pages are written.
//   3  The file's name is noted (btree/closed_files.hpp), and logged: redo may begin before this,
//      at a checkpoint that does not name the file.
//   4  end_closing: kClosed.  Page providers drop its frames, and the slot is free.
// A file that cannot be made clean (a damaged page has buffered changes) stays open.
//
// FLW-7  In a store that follows another one nothing is logged, and row ids are as the log has
//        them.  What redo has changed since the log was covered (FLW-5 in standby_follow.hpp) is
//        not waited for: the file stays open until later.  A round that changes more files than
//        there are places is covered in the middle of it (LS_LIMIT of ls_follow_apply).  Redo
//        finds a file that was closed as readers do, by its number.
//
// After a crash in between all of a file is on disk or in the log.  Recovery finds files by what
// the log names; numbers of before are not used.
#pragma once
#include <span>

#include "txn/worker.hpp"

namespace ls {

// `most` at most; *closed: how many.  By one thread.
Status close_idle_files(Worker &w, u32 most, u32 *closed);
// SEAL-1 in buffer/sealed_files.hpp, for transaction tn.  LS_IN_USE: one of them is busy for too
// long, or cannot be made clean; then seals may be left, as after any failure.
Status seal_and_close_files(Worker &w, Tn tn, std::span<const ls_ending_file> files);

}  // namespace ls
