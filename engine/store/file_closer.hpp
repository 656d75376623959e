// file_closer.hpp - closes idle relation files, so that others can be opened.
//
// Steps, of some files together:
//   1  begin_closing: those that were unused for longest are kClosing; workers wait that want one.
//   2  Row ids are sealed, buffered changes are made, all pages are written.
//   3  The file's name is noted (btree/closed_files.hpp), and logged: redo may begin before this,
//      at a checkpoint that does not name the file.
//   4  end_closing: kClosed.  Page providers drop its frames, and the slot is free.
// A file that cannot be made clean (a damaged page has buffered changes) stays open.
//
// After a crash in between all of a file is on disk or in the log.  Recovery finds files by what
// the log names; numbers of before are not used.
#pragma once
#include "txn/worker.hpp"

namespace ls {

// `most` at most; *closed: how many.  By one thread.
Status close_idle_files(Worker &w, u32 most, u32 *closed);

}  // namespace ls
