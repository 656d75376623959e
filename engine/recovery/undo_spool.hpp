// undo_spool.hpp - the undo of running transactions, gathered from the log with bounded memory:
// what is more goes to their undo files.
//
// For a checkpoint, which leaves it there (long_transactions.hpp), and for recovery, which reads it
// back the other way round.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "recovery/log_analysis.hpp"
#include "txn/row_undo.hpp"
#include "txn/undo_file.hpp"

namespace ls {

inline constexpr size_t kUndoSpoolBytes = 16 << 20;
static_assert(kUndoSpoolBytes + 2 * kPageSize < kMaxUndoPieceBytes);

class UndoSpool {
 public:
  explicit UndoSpool(std::string directory, size_t most_bytes = kUndoSpoolBytes)
      : directory_(std::move(directory)), most_bytes_(most_bytes) {}

  // The transaction's undo begins with what its file has up to there.
  void adopt(Tn tn, UndoEnd end) { of(tn).file.emplace(path_of(tn), tn, end); }
  // A change, in the order of the log.  An error: the undo file cannot be written.
  Status add(Tn tn, const RowUndo &undo);
  // All changes of a kRow record; files, unless null, is told the relations.
  Status add_record(Tn tn, LogOpReader reader, std::set<FileNo> *files = nullptr);
  // All of it is in the file, durable once the directory is; *end: without a file 0.
  Status write(Tn tn, UndoEnd *end);
  // From the last change to the first.
  Status backward(Tn tn, const std::function<Status(const RowUndo &)> &each);

 private:
  struct Transaction {
    UndoItems items;
    RowUndo inserted;    // a range that may go on; count 0: none
    std::optional<UndoFile> file;
    size_t bytes() const { return items.bytes().size(); }
  };
  std::string path_of(Tn tn) const { return directory_ + "/" + undo_file_name(tn); }
  Transaction &of(Tn tn);
  void put(Transaction &txn, const RowUndo &undo);
  void end_range(Transaction &txn);
  Status spill(Tn tn, Transaction &txn);
  Status make_room();

  const std::string directory_;
  const size_t most_bytes_;
  size_t bytes_ = 0;   // of all items
  std::unordered_map<Tn, Transaction> txns_;
};

}  // namespace ls
