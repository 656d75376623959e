// loser_undo.hpp - last pass of recovery: take back what transactions without a commit have done.
//
// U1  One loser after the other, its row changes in descending order, through the trees, each change logged as a redo-only record of the
//     recovery slot; then one kAborted per loser.  The order among losers does not matter: of those that have changed one row all
//     but the last had put back what they found (a row that carries another one's (tn, seq) is left alone).
// U2  Repeatable: a row that does not carry the loser's (tn, seq) any more was undone before, by the transaction itself, by a
//     rollback to a savepoint or by a recovery that crashed, and is left alone.
#pragma once
#include "recovery/redo.hpp"
#include "txn/worker.hpp"

namespace ls {

struct UndoStats {
  u64 losers = 0;
  u64 records = 0;
};

// The committer must run.  `undo`: the changes of the losers, and maybe others'.  `w`: the worker of the recovery slot, no transaction open.
Status undo_losers(Worker &w, UndoSpool &undo, const LogAnalysis &analysis, const std::vector<Tn> &losers, UndoStats *stats);

// Append a record of `kind` (kCommit, kAborted) for a transaction of an earlier run.
Status log_fate(Worker &w, RecordKind kind, Tn tn);

}  // namespace ls
