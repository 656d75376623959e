// open_versions.cpp - changes of open transactions, from the last to the first.
#include "recovery/open_versions.hpp"

#include "base/interrupt.hpp"
#include "buffer/file_use.hpp"
#include "recovery/loser_files.hpp"
#include "recovery/two_phase.hpp"
#include "txn/followed_rows.hpp"

namespace ls {

namespace {

class Keeper {
 public:
  Keeper(Worker &w, UndoSpool &undo, const LogAnalysis &analysis)
      : w_(w), undo_(undo), analysis_(analysis), files_(w, analysis) {}

  Status run() {
    for (const auto &[tn, txn] : analysis_.txns)
      LS_TRY(txn.fate == TxnFate::kTwoPhase ? keep_prepared(txn) : keep(txn.tn));
    return kOk;
  }

 private:
  Status keep(Tn tn) {
    return undo_.backward(tn, [&](const RowUndo &change) -> Status {
      if (interrupt_pending(w_.ctx.interrupt)) return fail(LS_INTERRUPTED, "it is to end");
      const FileHandle *found;
      LS_TRY(files_.find(change.file, &found));
      if (!found || change.code == kRowInsert) return kOk;
      FileHandle file = *found;
      FileUse use;
      LS_TRY(use.begin(w_.ctx, &file));
      return keep_open_version(w_, use.file(), tn, change);
    });
  }

  Status keep_prepared(const LoggedTxn &txn) {
    PreparedFile file;
    LS_TRY(read_prepared(w_.txns->prepared_dir, analysis_, txn, &file));
    return TwoPhaseRecovery(w_, file).keep_versions(txn.tn);
  }

  Worker &w_;
  UndoSpool &undo_;
  const LogAnalysis &analysis_;
  LoserFiles files_;
};

}  // namespace

Status keep_open_versions(Worker &w, UndoSpool &undo, const LogAnalysis &analysis) {
  return Keeper(w, undo, analysis).run();
}

}  // namespace ls
