// store_threads.hpp - the engine's threads, in the one process that recovered the store.
//
//   committer    Log::run_committer; from before undo until after the last checkpoint of a shutdown
//   provider i   PageProvider::run; the same
//   checkpointer time, log volume or request; while the store is ready.  First it reads the pages
//                for which recovery has put changes off
//   closer       close_idle_files, when places for open files are few; from before undo until the
//                store stops; and on a standby while it follows
//   cleaner      clean_round, more often while there is something to clean; while the store is
//                ready; on a standby clean_versions
//   values       keep_values: files of values are counted and made shorter; while the store is
//                ready
// A thread that fails records why in the store and stops the log: from then on no commit is
// acknowledged.  (Not the cleaner, nor that of values: what they cannot do waits.)
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "os/thread.hpp"
#include "store/store.hpp"

namespace ls {

struct StoreProcess;

class StoreThreads {
 public:
  explicit StoreThreads(StoreProcess &process) : process_(process) {}
  ~StoreThreads();
  // Committer and page providers.
  Status start_writers();
  Status start_committer();
  // On a standby: page providers, closer, and a cleaner of versions alone.
  Status start_followers();
  // Closer and cleaner, until recovery goes on.  Workers that find no place for a file
  // meanwhile wait.
  void stop_followers();
  Status start_closer();
  // Checkpointer and cleaner.
  Status start_keepers();
  void stop_keepers();
  void stop_writers();
  // Raised when a thread has failed: for the waits of the others, which would not end.
  const volatile int *interrupt() const { return &interrupt_; }

 private:
  Status start(const char *name, std::vector<std::unique_ptr<Thread>> *group,
               std::function<Status()> body);
  Status run_checkpointer();
  Status redo_put_off(Ctx &ctx);
  Status start_providers();
  Status run_cleaner();
  Status run_version_cleaner();
  Status run_value_keeper();
  Status run_closer();
  bool checkpoint_due(u64 last_ns, Lsn last_end, Gsn last_gsn, u32 *serving) const;
  struct CheckpointStart {
    u64 ns;
    Lsn end;       // of the log
    u32 serving;   // requests so far
  };
  void pace_checkpoint(const CheckpointStart &start, size_t done, size_t total);

  StoreProcess &process_;
  std::vector<std::unique_ptr<Thread>> writers_, keepers_;
  volatile int interrupt_ = 0;
  std::atomic<u32> stop_keepers_{0}, stop_providers_{0};
};

}  // namespace ls
