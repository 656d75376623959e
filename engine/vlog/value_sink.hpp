// value_sink.hpp - where the pages of values go: to the file of values, and with a host's log into
// that, too (docs/decisions/0042).
//
// Without a host's log the file is synced before the commit is in the log (wal/file_syncs.hpp).
// With one nothing is synced for a commit.  The host's log has the bytes, and its replay writes
// them once more (recovery/values_replay.hpp):
//   VWAL-1  What names pages - a row, or a candidate (value_claims.hpp) - gets into the log, or is
//           shown to others, when the host's log has their bytes.  So with a commit its bytes are
//           durable.
//   VWAL-2  Bytes are in the file before they are in the host's log.  So a sync of the file that
//           begins when the host has chosen a place for its recovery to begin covers all bytes that
//           lie before; the place counts when that sync has ended (ls_host_log::insert_values).
//   VWAL-3  All bytes that are written to a logged file are in the host's log, in the order in
//           which their pages were handed out (VPAGES-1).  So replay writes old bytes over newer
//           ones only where the newer ones follow: after it each page has the bytes of its last
//           owner that the log knows.
//   VWAL-4  A file is not unlinked while bytes are inserted for it: forgetting it waits for that.
#pragma once
#include "buffer/further_file.hpp"
#include "buffer/pool.hpp"
#include "vlog/page_runs.hpp"

namespace ls {

class ValueSink {
 public:
  // write_out: a commit is going to wait for the sync of the file, if there is one.
  ValueSink(Ctx &ctx, FileSlot &file, bool write_out);
  // The run's pages; behind `bytes` they are zeros.  LS_NOT_FOUND: the file was dropped.
  // LS_INTERRUPTED.
  Status write(const PageRun &run, const u8 *pages, size_t bytes);

 private:
  Status write_logged(const PageRun &run, const u8 *pages, size_t bytes);

  Ctx &ctx_;
  FileSlot &file_;
  const FurtherFile further_;
  const bool in_host_log_, write_out_;
};

}  // namespace ls
