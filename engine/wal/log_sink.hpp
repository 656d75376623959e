// log_sink.hpp - where the rounds of the log go: into the engine's files, synced; or into the log
// of the host (ls_host_log in engine.h), and into the files without a sync: the relay log, which
// recovery reads.
//
// One process' (or worker's) side of it, part of its LogWriter.  Written under the round mutex,
// synced without.
#pragma once
#include <memory>
#include <span>

#include "base/status.hpp"
#include "leanstore/engine.h"
#include "wal/log_files.hpp"

namespace ls {

class LogSink {
 public:
  virtual ~LogSink() = default;
  // What stands at the beginning of the memory that write() is given for a round at lsn, for a
  // write of whole blocks: puts it there.
  virtual u32 begin(Lsn lsn, LogBlocks *staging) = 0;
  // Descriptors to write [end, to) and to sync what is behind `durable`: then neither needs
  // another, or memory.
  virtual Status open(Lsn durable, Lsn end, Lsn to) = 0;
  // The round is what stands in `staging` behind `before` bytes, which begin() has put there.
  virtual Status write(Lsn lsn, u32 before, LogBlocks *staging) = 0;
  // Before the first round of the process that opens the log.
  virtual Status resume() = 0;
  // All rounds up to `to`, whichever process has written them.  *syncs: how many calls it took.
  virtual Status sync(Lsn from, LogMark to, u32 *syncs) = 0;
};

// Of the kind that the log's configuration names.
std::unique_ptr<LogSink> make_log_sink(LogShared *shared);

// The host's log, as this thread may use it; null: it may not.
const ls_host_log *host_log();
void use_host_log(const ls_host_log *log);

}  // namespace ls
