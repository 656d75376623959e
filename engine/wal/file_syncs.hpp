// file_syncs.hpp - files beside the log that have to be durable before a commit is.
//
// A worker that has written a value to a relation's further file asks for the sync before it
// appends the record of its commit.  The next round is collected behind that, so whichever round
// has the record finds the file here, or the sync has ended: the list is emptied under the round
// mutex, and nothing of a round is written before its files are synced.
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
  // Under the round mutex.  A file that is gone needs no sync.  After a failure nothing may be
  // taken for durable, but for LS_NO_MEMORY: then all are asked for once more.
  Status run(u32 *synced);

 private:
  struct Entry {
    FileNo file_no;
    char path[136];
  };
  FutexMutex<LockRank::kInnermost> mutex_;
  std::atomic<u32> count_{0};
  Entry entries_[kMost]{};
};

}  // namespace ls
