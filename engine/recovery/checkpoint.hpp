// checkpoint.hpp - moves the point where recovery would start, and truncates the log behind it.
//
// Called by the store's checkpointer thread and by shutdown; never two at a time.
//
// Recovery's end writes no page: what it has redone stays in memory, and the log that says so is
// needed until the first checkpoint, which the checkpointer begins at once.  Until then a crash
// makes the next start read both runs (README, "A crash in recovery").
//
// Order of a fuzzy checkpoint, and what each step relies on:
//   CKPT-1  G := hardened.  All records at or below it are in the log, and their authors had
//           announced themselves before they drew them: first_gsn (log_begin), the file number
//           (open_file).  So what is read after G covers them.
//   CKPT-2  A := oldest first_gsn of an active transaction; of one that is old its undo, as far as
//           G, goes to a file instead, and its end, if it lies at or before G, is seen
//           (long_transactions.hpp).  Then highest_tn has all that are not active any more.
//   CKPT-3  FileRecords of all open files, kTwoPhase of all prepared transactions; then wait until
//           everything drawn so far is hardened: a transaction that CKPT-2 did not see any more has
//           its end in the log for good, or was handed over and is among the prepared ones, so that
//           its kFirstRow is not needed.  And highest_tn has none of which a crash could leave
//           nothing in the log: with a host's log that one's id would be given again.
//   CKPT-4  write the pages that were dirty at G; O := oldest change still not on disk
//           (BufferPool::oldest_dirty).
//   CKPT-5  redo from min(G + 1, A, O), or before (LAST-2 in buffer/last_images.hpp, RESTORE-4);
//           control file; only then truncate.
// A crash before CKPT-5's control file leaves the previous checkpoint valid; after it, at most too
// much log.
#pragma once
#include "buffer/pool.hpp"
#include "recovery/control_file.hpp"
#include "recovery/long_transactions.hpp"
#include "recovery/undo_failures.hpp"
#include "txn/worker.hpp"

namespace ls {

inline constexpr Gsn kNoRedoFloor = ~Gsn{0} - 1;

struct CheckpointEnv {
  const char *data_dir;
  TxnShared *txns;
  u64 run;
  u64 segment_bytes;
  Lsn redo_lsn;   // of the control file that is valid now: a lower bound for every later one
  u64 redo_run;   // of the same
  Gsn undo_gsn;   // and of the same: its list of long transactions
  u64 long_transaction_bytes;     // of log since a transaction began, from which it counts as one
  UndoFailures *undo_failures;
  Gsn redo_floor;   // redo begins with the first record behind it, or before (RESTORE-4)
  const std::atomic<Lsn> *noted;  // the log is kept from there, too; or kNothingNoted
  FlushPace pace{};   // of CKPT-4, fuzzy
};

// The first three: of the control file that is valid, also after a checkpoint that has failed.
struct CheckpointResult {
  Lsn redo_lsn = 0;
  u64 redo_run = 0;
  Gsn undo_gsn = 0;
  Lsn end_lsn = 0;   // of the log at CKPT-1
  Gsn gsn = 0;       // drawn until CKPT-5
  ControlFile control{};   // of checkpoint_fuzzy, when it has been successful
};

// ctx.log: an engine slot's appender; ctx.interrupt ends the waits with LS_INTERRUPTED.
Status checkpoint_fuzzy(Ctx &ctx, const CheckpointEnv &env, LongTransactions &long_txns,
                        CheckpointResult *result);

// At recovery's end, all transactions of earlier runs having ended in the log: the redo position
// stays, and redo_gsn with it (of the same control file).  No worker is at work.
Status checkpoint_recovered(Ctx &ctx, const CheckpointEnv &env, Gsn redo_gsn);

// At shutdown: no other worker, no other thread but the committer.  Everything is written, unlogged
// trees too, and the control file says that there is nothing to replay; with prepared transactions
// there is a log to be read, which names them and no page.
Status checkpoint_clean(Ctx &ctx, const CheckpointEnv &env, CheckpointResult *result);

}  // namespace ls
