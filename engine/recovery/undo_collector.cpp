// undo_collector.cpp - one pass over the log, with analysis to tell the owners of changes.
#include "recovery/undo_collector.hpp"

#include "base/interrupt.hpp"

namespace ls {

UndoCollector::UndoCollector(std::string directory, const UndoList &before, UndoList *next)
    : next_(*next), analyser_(&analysis_), spool_(std::move(directory)) {
  analyse_list(before, &analysis_);
}

void UndoCollector::want(Tn tn, const LongTransaction &txn) {
  wanted_[tn] = txn;
  if (txn.undo.bytes > 0) spool_.adopt(tn, txn.undo);
}

Status UndoCollector::run(LogReader &log, Gsn to, const volatile int *interrupt) {
  for (;; log.pop(), log.forget()) {
    if (interrupt_pending(interrupt)) return fail(LS_INTERRUPTED, "a checkpoint was interrupted");
    const LogEntry *entry;
    LS_TRY(log.peek(&entry));
    if (!entry || entry->gsn > to) break;
    LS_TRY(analyser_.record(*entry));
    const auto at = wanted_.find(analyser_.owner());
    if (at != wanted_.end() && entry->gsn > at->second.txn.in_files_to) {
      LS_TRY(spool_.add_record(at->first, LogOpReader(*entry), &at->second.files));
    }
  }
  return finish();
}

// Of those that have ended at or before G nothing is kept, nor of those that have logged nothing
// yet.
Status UndoCollector::finish() {
  for (auto &[tn, txn] : wanted_) {
    const auto logged = analysis_.txns.find(tn);
    if (logged == analysis_.txns.end()) continue;
    LS_TRY(spool_.write(tn, &txn.undo));
    txn.txn = logged->second;
    for (const FileNo file_no : txn.files) {
      const auto file = analysis_.files.find(file_no);
      if (file != analysis_.files.end()) next_.files[file_no] = file->second;
    }
    next_.txns[tn] = txn;
  }
  return kOk;
}

}  // namespace ls
