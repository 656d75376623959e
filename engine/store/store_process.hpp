// store_process.hpp - what one process needs to work on a store: views of the shared parts, file
// layer set up, tree operations registered.  Made on first use, anew after fork().  Recovery's
// state and the threads live here in the one process that has them.
#pragma once
#include <memory>

#include "buffer/file_names.hpp"
#include "buffer/pool.hpp"
#include "store/restore_states.hpp"
#include "store/store.hpp"
#include "wal/log.hpp"

namespace ls {

struct CheckpointEnv;  // recovery/checkpoint.hpp
struct FollowProcess;  // standby_follow.hpp
struct RecoveryState;  // store_start.hpp
class StoreThreads;    // store_threads.hpp

struct StoreProcess {
  explicit StoreProcess(ls_store &store);
  ~StoreProcess();
  ls_store &store;
  Log log;
  BufferPool pool;
  PoolFileNames file_names;
  RestoreStates restore_states;
  std::unique_ptr<RecoveryState> recovery;
  std::unique_ptr<FollowProcess> follow;   // of the host's replay
  std::unique_ptr<StoreThreads> threads;
};

// Beside the version trees: of row locks, and of names of closed files.
inline constexpr u32 kFurtherTrees = 3;
// In a store that follows another one: of each kind one without rows (version_trees.hpp).
inline constexpr u32 kEmptyTrees = 3;

// Never fails but for lack of memory (bad_alloc, caught at the C API).  The reference stays valid
// until the store is formatted anew at the same place by this process.
StoreProcess &store_process(ls_store &store);
// The arena is about to be formatted: views of what was there before are gone.
void store_process_forget(const void *arena);

// Of the checkpoint that is valid now; by the thread that makes the next one.
CheckpointEnv checkpoint_env(const ls_store &store);

LogConfig log_config(const ls_config &config);
PoolConfig pool_config(const ls_config &config);

}  // namespace ls
