// redo.hpp - second pass of recovery: repeat history.  Every page operation of the log, losers'
// too, on the pages that are older than the record; on each page in GSN order, the pages by several
// threads (redo_portion.hpp says why that may be).
//
// REDO-1  A page with header.gsn >= the record's GSN has the change already.  All operations of one
//         record on one page are one step: the comparison is made once per record and page.
// REDO-2  A file without its first segment was dropped by the host: its records are skipped whole.
//         So it is with a file that the host has truncated to nothing (a drop's first half): its
//         records do not start with making the pages.  (An image of a page that was in use does not
//         make it: the others of the file would be missing.)
// REDO-3  Repeatable: what was written before a crash of recovery itself is skipped by REDO-1 the
//         next time.
// REDO-4  A change before the checkpoint's redo_gsn is on its page, or the page was given back
//         since and may have no image on disk (LAST-3 in buffer/last_images.hpp): it is not redone.
// REDO-5  An operation that has all of a page (is_whole_page) needs nothing of it and of what comes
//         before.  So a page that is damaged in its file, or ahead of the log, is made of the last
//         one, and is not read for it; without any it is LS_CORRUPT, at the end of the log, unless
//         its changes can wait.
// REDO-6  Of a page that would have to be read for a few changes, all of its entries alone, these
//         go into the change buffer: they are made when the page is first asked for, or by the
//         first checkpoint (docs/decisions/0056).  So no reader finds a page that lacks some.
#pragma once
#include <atomic>

#include "buffer/pool.hpp"
#include "recovery/log_analysis.hpp"
#include "recovery/undo_spool.hpp"

namespace ls {

struct RedoStats {
  u64 ops_applied = 0;
  u64 ops_skipped = 0;    // page was new enough
  u64 ops_put_off = 0;    // REDO-6
  u64 files_missing = 0;
};

// One file of the log during recovery.
struct RecoveryFile {
  // kClosed: it was open, and is to be opened again.
  enum class State : u8 { kUnopened, kOpen, kClosed, kGone };
  State state = State::kUnopened;
  FileSlot *slot = nullptr;   // kOpen, until redo has ended
  bool started_empty = false;
  PageNo pages = 0;   // in the file, when it was opened first
  const LoggedCuts *cuts = nullptr;    // null: none
  bool is_settled() const { return state == State::kOpen || state == State::kGone; }
  // REDO-2: found out by a thread; kGone once all have come back
  std::atomic<bool> truncated{false};
};
using RecoveryFiles = std::unordered_map<FileNo, RecoveryFile>;

struct RedoBounds {
  Gsn from;        // no change before is missing on disk; 0: not known
  bool puts_off;   // REDO-6: trees are descended from their roots afterwards, and by these alone
};

// Redo everything in `log`, which is at its beginning; undo: gets the changes that may have to be
// undone.  Changed pages stay in the pool (recovery_pages.hpp), so the log is needed until they are
// written.  *done_bytes: how much of the log is behind it, for the host's reports.  ctx.interrupt
// ends it.
Status redo_log(Ctx &ctx, LogReader &log, const LogAnalysis &analysis, RecoveryFiles *files,
                const RedoBounds &bounds, UndoSpool *undo, RedoStats *stats,
                std::atomic<u64> *done_bytes);

}  // namespace ls
