// long_transactions.hpp - what a checkpoint does for transactions that are older than a set amount
// of log: their undo goes to undo files, so that neither the log nor recovery needs what lies
// before the checkpoint.
//
// The undo is taken from the log, which is read once more from the redo position to the
// checkpoint's G (CKPT-1 in checkpoint.hpp), by the code of recovery's analysis.  So it is exact
// for a prefix of the total order, whatever the transactions do meanwhile: what is rolled back to a
// savepoint is there with what undid it in the pages, as in a log that begins with the transaction,
// and recovery leaves it alone in the same way (UNDO-2 in loser_undo.hpp).  A transaction that has
// ended at or before G is seen to have ended.
//
// Appended only, each change once: a file has what its transaction logged up to the list's GSN.
// While none of the transactions logs anything the log is not read.
//
// What cannot be written is no reason to stop: the list that is valid stays, and the log is kept
// from its GSN on, or from the beginning of a transaction that is not in it.  The next checkpoint
// tries again, from the end that the list names.
#pragma once
#include "recovery/undo_list.hpp"
#include "txn/worker.hpp"

namespace ls {

struct CheckpointEnv;

// One checkpoint's, and remembered by the next; by the one thread that makes them.
class LongTransactions {
 public:
  // Before G is read.
  void begin(const Log &log);
  // Between CKPT-1 and CKPT-3; `end`: of the log when G was.  *bound: the log is needed from that
  // GSN for the transactions that are active.  LS_INTERRUPTED; any other failure is counted, and
  // the log kept.
  Status collect(Ctx &ctx, const CheckpointEnv &env, Gsn hardened, Lsn end, Gsn *bound);
  // Of the list that the control file is to name; 0: none.
  Gsn list_gsn() const { return next_.empty() ? 0 : next_.gsn; }
  // The control file names it.
  void confirm(const CheckpointEnv &env);

 private:
  Gsn find(const CheckpointEnv &env, const Log &log, Lsn end);
  bool nothing_logged() const;
  Status make_list(Ctx &ctx, const CheckpointEnv &env, Gsn hardened, Lsn end);

  UndoList list_;   // that the control file names
  UndoList next_;
  std::vector<ActiveTxn> old_;
  // By slot: how much it had logged before the present G was read, and before those of the lists.
  std::vector<u64> published_, at_list_, next_published_;
};

}  // namespace ls
