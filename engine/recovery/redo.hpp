// redo.hpp - second pass of recovery: repeat history.  Every page operation of the log, losers' too, in GSN order, on the pages
// that are older than the record.
//
// R1  A page with header.gsn >= the record's GSN has the change already.  All operations of one record on one page are one
//     step: the comparison is made once per record and page.
// R2  A file whose first segment is gone was dropped by the host: its records are skipped whole.  So it is with a file that
//     the host has truncated to nothing (a drop's first half): its records do not start from empty pages.
// R3  Repeatable: what was written before a crash of recovery itself is skipped by R1 the next time.
#pragma once
#include <atomic>

#include "buffer/pool.hpp"
#include "recovery/log_analysis.hpp"

namespace ls {

struct RedoStats {
  u64 records = 0;        // with page operations
  u64 ops_applied = 0;
  u64 ops_skipped = 0;    // page was new enough
  u64 files_missing = 0;
};

// One file of the log during recovery.
struct RecoveryFile {
  enum class State : u8 { kUnopened, kOpen, kGone };
  State state = State::kUnopened;
  FileSlot *slot = nullptr;   // kOpen, until BufferPool::recovery_end
  bool started_empty = false;
};
using RecoveryFiles = std::unordered_map<FileNo, RecoveryFile>;

// Redo everything in `image`.  Changed pages stay in the pool; the caller ends with BufferPool::recovery_end.  *done_bytes: how much
// of the log is behind it, for who looks on.  ctx.interrupt ends it.
Status redo_log(Ctx &ctx, const LogImage &image, const LogAnalysis &analysis, RecoveryFiles *files, RedoStats *stats,
                std::atomic<u64> *done_bytes);

}  // namespace ls
