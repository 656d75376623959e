// open_versions.hpp - a store begins to follow another one's log (store/standby_follow.hpp):
// transactions are open that have changed rows before.  What they have replaced is taken from the
// log to the version store, for the snapshots in which they run.
//
// OPENV-1  The entry of a change is what its writer has put there, so far as snapshots need it: the
//          rows before, under the change's number.  Before a change of another transaction all is
//          committed that the row had, as snapshots have it that are taken from now on.
// OPENV-2  A change that was undone since is left alone: no row, and no later change's entry,
//          carries its number.
#pragma once
#include "recovery/log_analysis.hpp"
#include "recovery/undo_spool.hpp"
#include "txn/worker.hpp"

namespace ls {

// Behind redo, before there are readers.  `undo`: the changes of those that are not prepared.
Status keep_open_versions(Worker &w, UndoSpool &undo, const LogAnalysis &analysis);

}  // namespace ls
