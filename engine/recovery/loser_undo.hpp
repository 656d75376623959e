// loser_undo.hpp - last pass of recovery: take back what transactions without a commit have done.
//
// UNDO-1  Row changes are undone through the trees, by several threads, each change logged as a
//         redo-only record of its thread's slot; of a row in descending order (undo_portion.hpp).
//         The order among losers does not matter: of those that have changed one row all but the
//         last had put back what they found (a row that carries another one's (tn, seq) is left
//         alone).
// UNDO-2  Repeatable: a row that does not carry the loser's (tn, seq) any more was undone before,
//         by the transaction itself, by a rollback to a savepoint or by a recovery that crashed,
//         and is left alone.
// UNDO-3  A loser's kAborted is drawn when all of its changes have been undone, so it comes behind
//         all these records in the total order: a log that has it has them.
// Memory is bounded: by a portion, and by a piece of an undo file (undo_spool.hpp).
#pragma once
#include "recovery/redo.hpp"
#include "txn/worker.hpp"

namespace ls {

struct UndoStats {
  u64 losers = 0;
  u64 records = 0;
};

// The committer must run.  `undo`: the changes of the losers, and maybe others'.  `w`: the worker
// of the recovery slot, no transaction open.
// slots: at least one; of workers that are not in use now, nor will be until this ends: each thread
// logs in one of them.
Status undo_losers(Worker &w, std::span<const u32> slots, UndoSpool &undo,
                   const LogAnalysis &analysis, const std::vector<Tn> &losers, UndoStats *stats);

// Append a record of `kind` (kCommit, kAborted) for a transaction of an earlier run.
Status log_fate(Worker &w, RecordKind kind, Tn tn);

}  // namespace ls
