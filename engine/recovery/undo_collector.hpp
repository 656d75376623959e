// undo_collector.hpp - the undo of some transactions out of the log, up to a GSN, into their undo
// files: for a checkpoint (long_transactions.hpp), and for a standby that takes one over.
#pragma once
#include <string>

#include "recovery/undo_list.hpp"
#include "recovery/undo_spool.hpp"

namespace ls {

class UndoCollector {
 public:
  // directory: of undo files.  before: what is known where the log begins.  next: gets those that
  // are wanted and have something to undo.
  UndoCollector(std::string directory, const UndoList &before, UndoList *next);
  // Its file has what is in txn.undo, up to txn.in_files_to.
  void want(Tn tn, const LongTransaction &txn);
  // Durable once the directory is (undo_list_write).
  Status run(LogReader &log, Gsn to, const volatile int *interrupt);

 private:
  Status finish();

  UndoList &next_;
  LogAnalysis analysis_;
  LogAnalyser analyser_;
  UndoSpool spool_;
  std::unordered_map<Tn, LongTransaction> wanted_;
};

}  // namespace ls
