// file_syncs.hpp - files beside the log that have to be durable before a commit is.
//
// A worker that has written a value to a relation's further file asks for the sync before it
// appends the record of its commit.  The next round is collected behind that, so whichever round
// has the record finds the file here, or the sync has ended: nothing of a round is written before
// its files are synced.  A file stays in the list until a sync that began after it was asked for
// the last time has succeeded.
#pragma once
#include "base/status.hpp"
#include "os/file.hpp"
#include "os/futex.hpp"

namespace ls {

// In shared memory.
class FileSyncs {
 public:
  static constexpr u32 kMost = 32;

  // False: there is no room, the caller has to sync by itself.
  bool ask(const FileRef &file);
  // Under the round mutex.  A file that is gone needs no sync.  After a failure, also LS_NO_MEMORY,
  // all of them are asked for still.
  Status run(u32 *synced);

 private:
  struct Entry {
    FileNo file_no;
    u64 asks;   // how often
    char path[136];
  };
  FutexMutex<LockRank::kInnermost> mutex_;
  std::atomic<u32> count_{0};
  Entry entries_[kMost]{};
};

}  // namespace ls
