#include "recovery/loser_undo.hpp"

#include <unordered_map>

#include "btree/tree.hpp"

namespace ls {

namespace {

// The relations of the changes.  Found by their keys: a row that carries the loser's (tn, seq) is the one it has changed, however often
// its file was closed and opened since.
class LoserFiles {
 public:
  LoserFiles(Worker &w, const LogAnalysis &analysis) : w_(w), analysis_(analysis) {}

  // *slot null: the host has dropped the file.
  Status find(FileNo file_no, FileSlot **slot) {
    const auto [at, is_new] = slots_.try_emplace(file_no, nullptr);
    const auto file = analysis_.files.find(file_no);
    if (is_new && file != analysis_.files.end()) LS_TRY(open(file->second, &at->second));
    *slot = at->second;
    return kOk;
  }

 private:
  // Redo has left it open if the log has something about it.
  Status open(const LoggedFile &file, FileSlot **slot) {
    const ls_rel_kind kind = static_cast<ls_rel_kind>(file.record.kind);
    *slot = w_.pool->find_file(file.key());
    if (*slot && (*slot)->kind != kind) *slot = nullptr;
    if (*slot) return kOk;
    u32 pages = 0;
    Status status = file_pages({file.record.file, file.path.c_str()}, &pages);
    if (ok(status) && pages > 0)
      status = w_.pool->open_file(w_.ctx, file.key(), file.path.c_str(), kind, true, 0, BTree::format, slot);
    // Another store's file has nothing of this log's transactions.
    const bool gone = code(status) == LS_NOT_FOUND || code(status) == LS_FOREIGN;
    return gone ? kOk : status;
  }

  Worker &w_;
  const LogAnalysis &analysis_;
  std::unordered_map<FileNo, FileSlot *> slots_;
};

}  // namespace

Status undo_losers(Worker &w, UndoSpool &undo, const LogAnalysis &analysis, const std::vector<Tn> &losers, UndoStats *stats) {
  LoserFiles files(w, analysis);
  for (Tn tn : losers) {
    LS_TRY(undo.backward(tn, [&](const RowUndo &change) -> Status {
      stats->records++;
      FileSlot *slot;
      LS_TRY(files.find(change.file, &slot));
      return slot ? row_undo(w, *slot, change, tn) : kOk;
    }));
    LS_TRY(log_fate(w, RecordKind::kAborted, tn));
  }
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
