// log_files.hpp - one process' descriptors of the log's segments: writing rounds and syncing them.  Used under
// the mutex of LogShared::round; that a segment exists is LogSegments' business.
#pragma once
#include <map>
#include <span>
#include <string>

#include "base/status.hpp"
#include "os/file.hpp"

namespace ls {

class LogFiles {
 public:
  LogFiles(const char *dir, u64 segment_bytes, bool fsync) : dir_(dir), segment_bytes_(segment_bytes), fsync_(fsync) {}
  Status write(Lsn lsn, std::span<const u8> bytes);
  // What any process has written there: the kernel syncs a file's pages whoever made them dirty.
  Status sync(Lsn from, Lsn to, u32 *files_synced);

 private:
  Status get(u64 number, File **out);

  const std::string dir_;
  const u64 segment_bytes_;
  const bool fsync_;
  std::map<u64, File> files_;
};

}  // namespace ls
