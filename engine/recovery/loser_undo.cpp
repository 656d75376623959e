#include "recovery/loser_undo.hpp"

#include <unordered_set>

namespace ls {

namespace {

class LoserUndo {
 public:
  LoserUndo(Worker &w, const LogAnalysis &analysis, const RecoveryFiles &files)
      : w_(w), analysis_(analysis), files_(files) {}

  Status record(const LogEntry &entry, Tn tn) {
    LogOpReader reader(entry);
    LogOp op;
    for (;;) {
      bool end;
      LS_TRY(reader.next(&op, &end));
      if (end) return kOk;
      FileSlot *slot = nullptr;
      LS_TRY(find(op.file, &slot));
      if (slot) LS_TRY(row_undo(w_, *slot, op.code, op.operands, tn));
    }
  }

 private:
  // *slot null: the host has dropped the file.
  Status find(FileNo file_no, FileSlot **slot) {
    *slot = nullptr;
    auto file = files_.find(file_no);
    if (file == files_.end() || file->second.state != RecoveryFile::State::kOpen) return kOk;
    // Redo has left the file open, unless its creation was lost.
    FileSlot *found = w_.pool->find_file(analysis_.files.at(file_no).key());
    if (found && found->file_no.load(std::memory_order_relaxed) == file_no) *slot = found;
    return kOk;
  }

  Worker &w_;
  const LogAnalysis &analysis_;
  const RecoveryFiles &files_;
};

}  // namespace

Status undo_losers(Worker &w, const LoserRecords &records, const LogAnalysis &analysis, const RecoveryFiles &files,
                   const std::vector<Tn> &losers, UndoStats *stats) {
  std::unordered_set<Tn> set(losers.begin(), losers.end());
  LoserUndo undo(w, analysis, files);
  for (auto record = records.all().rbegin(); record != records.all().rend(); ++record) {
    if (!set.contains(record->tn)) continue;
    LS_TRY(undo.record(record->entry, record->tn));
    stats->records++;
  }
  for (Tn tn : losers) LS_TRY(log_fate(w, RecordKind::kAborted, tn));
  stats->losers += losers.size();
  return kOk;
}

Status log_fate(Worker &w, RecordKind kind, Tn tn) {
  LS_TRY(w.log.reserve(kMaxRecordHeadBytes + kMaxVarintBytes, nullptr));
  w.log.start(kind);
  w.log.number(tn);
  w.log.finish();
  return kOk;
}

}  // namespace ls
