// store.hpp - the assembled store: one arena, its parts, its threads.
//
// Arena layout: ls_store | log | pool | transaction table | range locks | prepared transactions,
// each part 4 KiB aligned.  Formatted once by the process that reserves the memory; every other
// process works on it through private views (store_process.hpp).  Engine slots of the log and of
// the transaction table follow the host's: config.worker_slots + kSlot*.
//
// State:  kCreated -> kRecovering (recovery_redo) -> kReady (recovery_finish) -> kStopping ->
// kStopped (shutdown) `failure`: a thread has failed; page writes have a failure of their own
// (PoolShared).  On a standby kRecovering -> kFollowing -> kRecovering (standby_follow.hpp).
#pragma once
#include "base/failure.hpp"
#include "recovery/control_file.hpp"
#include "recovery/undo_failures.hpp"
#include "txn/value_keeping.hpp"
#include "txn/worker.hpp"

namespace ls {

enum EngineSlot : u32 {
  kSlotRecovery = 0, kSlotCheckpoint, kSlotCleaner, kSlotProvider, kSlotCloser, kSlotValues,
  kEngineSlots
};
enum class StoreState : u32 { kCreated = 0, kRecovering, kReady, kStopping, kStopped, kFollowing };

// What recovery did; for tests and for the host's log.
struct RecoveryReport {
  u32 clean;            // control file said: nothing to replay
  u32 fresh;            // new store
  u64 log_records;
  u64 ops_applied, ops_skipped, ops_put_off;
  u64 losers, undo_records;
  u64 doubts;
  u64 prepared;         // two-phase, not ended
  u64 files_missing;
  u64 analysis_us, redo_us, undo_us;
};

}  // namespace ls

struct ls_store {
  ls_config config;
  std::atomic<ls::u32> state{0};       // ls::StoreState; futex
  ls::Failure failure;
  ls::ValueKeeping value_keeping;
  ls::u64 run = 0;                     // run number of this start
  size_t bytes = 0;                    // of the arena
  void *log_arena = nullptr;
  void *pool_arena = nullptr;
  ls::TxnShared *txns = nullptr;
  ls::RangeShared *ranges = nullptr;
  // Checkpoint requests: the requester takes the next number, the checkpointer announces what it
  // has done.
  std::atomic<ls::u32> checkpoint_requested{0}, checkpoint_done{0};   // futexes
  // last request that ended without success
  std::atomic<ls::u32> checkpoint_refused{0};
  std::atomic<ls::u32> checkpoint_lacked{0};                          // for want of what: ls_status
  std::atomic<ls::u64> checkpoints{0};
  std::atomic<ls::Lsn> redo_lsn{0};
  // SYNC-2 in recovery/host_sync_point.hpp; kNothingNoted
  std::atomic<ls::Lsn> noted{~ls::Lsn{0}};
  ls::u64 redo_run = 0;                // of redo_lsn; by the thread that makes checkpoints
  ls::Gsn undo_gsn = 0;                // CheckpointEnv::undo_gsn; by the same thread
  mutable ls::UndoFailures undo_failures;   // the log is kept instead
  std::atomic<ls::u32> stop{0};        // threads leave; futex
  ls::RecoveryReport report{};
  std::atomic<ls::u64> redone_bytes{0};   // of log_bytes, so far
  std::atomic<ls::u64> log_bytes{0};      // to be replayed
  // By the host, or as a thread has failed; carries no data, see base/interrupt.hpp.
  volatile int recovery_cancelled = 0;
  // On a standby (store/standby_follow.hpp): of the host's replay, and of redo.
  ls::FutexMutex<ls::LockRank::kLongAction> follow_mutex;
  std::atomic<ls::Lsn> replayed_to{0};     // the relay log has all before; 0: not known
  std::atomic<ls::Lsn> followed_to{0};     // the trees have all before
  std::atomic<ls::Gsn> followed_gsn{0};
};

namespace ls {

// ---- store.cpp
size_t store_size(const ls_config &config);
Status store_create(void *arena, size_t size, const ls_config &config, ls_store **store);
inline StoreState store_state(const ls_store &store) {
  return static_cast<StoreState>(store.state.load(std::memory_order_acquire));
}
bool store_wait_ready(ls_store &store, u32 timeout_ms);
// Remember the calling thread's last_error() as the reason why the store cannot go on.
void store_fail(ls_store &store, Status status);
bool store_failed(const ls_store &store, ls_error *error);
void store_stats(ls_store &store, ls_stats *stats);
Status store_attach(ls_store &store, u32 slot, Worker **worker);
void store_detach(Worker *worker);
u32 store_attached(const ls_store &store);
bool store_slot_attached(const ls_store &store, u32 slot);
// See ls_database_close.
Status store_close_database(Worker &w, u32 database);

// ---- store_start.cpp
Status store_recovery_redo(ls_store &store, u64 next_full_xid, ls_in_doubt **doubts,
                           size_t *n_doubts);
Status store_recovery_finish(ls_store &store, const ls_in_doubt *doubts, size_t n_doubts);

// ---- store_stop.cpp
Status store_checkpoint(ls_store &store, const volatile int *interrupt);
Status store_shutdown(ls_store &store);
Status store_abandon(ls_store &store);

// ---- store_sync_point.cpp: see ls_commits_position and what follows it
Status store_begin_sync_points(ls_store &store);
Status store_advance_sync_point(ls_store &store, Lsn position);

}  // namespace ls
