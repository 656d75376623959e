// store_start.hpp - what ls_recovery_redo finds out and ls_recovery_finish needs.
#pragma once
#include <memory>

#include "recovery/loser_undo.hpp"
#include "recovery/redo.hpp"
#include "recovery/undo_list.hpp"
#include "store/store.hpp"

namespace ls {

struct RecoveryState {
  ControlFile control{};         // as found; of a fresh store: where it begins
  bool fresh = false;
  u64 clean_run = 0;             // it ended cleanly, and nothing has changed since; 0: none
  LogExtent log;
  LogAnalysis analysis;
  UndoList long_transactions;     // control.undo_gsn
  std::unique_ptr<UndoSpool> undo;
  RecoveryFiles files;
  u64 next_full_xid = 0;          // the host's
  std::vector<LoggedTxn> doubts;  // the host was asked about them
  std::vector<Tn> losers;         // without them
  // Transactions prepared for two-phase commit that are undone: the host does not know them, or has
  // rolled them back.
  std::vector<LoggedTxn> undone;

  bool replay_needed() const { return !fresh && !control.clean; }
};

}  // namespace ls
