// undo_portion.hpp - a part of what is to be undone, by row: what memory holds of it.
//
// Only the order of one row's changes matters, and of those the insertion is the first.  So a block
// of rows can be undone apart from all others: first its updates and deletions, row by row and each
// row's backwards, then its insertions.
#pragma once
#include <span>
#include <vector>

#include "txn/row_undo.hpp"

namespace ls {

struct UndoOp {
  const FileHandle *file;
  Tn tn;
  RowUndo change;   // its bytes are the portion's; of insertions a range within a block
  u64 block() const { return change.row_id / kBlockRows; }
  bool inserts() const { return change.code == kRowInsert; }

  static constexpr u64 kBlockRows = 4096;
};

class UndoPortion {
 public:
  UndoPortion();

  // Of a transaction the later changes come first.  False: it is full, before `change` or in the
  // middle of it; what is left of that is `change`.
  bool add(const FileHandle &file, Tn tn, RowUndo *change);
  void clear();

  // Divides it into tasks, each of whole blocks of one file, which are independent of each other.
  void divide();
  size_t tasks() const { return tasks_.size(); }
  // What comes behind a change in its task.
  class Rest {
   public:
    Rest(const UndoPortion &portion, std::span<const u32> order)
        : portion_(portion), order_(order) {}
    size_t size() const { return order_.size(); }
    const UndoOp &operator[](size_t i) const { return portion_.ops_[order_[i]]; }

   private:
    const UndoPortion &portion_;
    std::span<const u32> order_;
  };
  // each(const UndoOp &, const Rest &) of a task in the order in which they are to be undone.
  template <typename Each>
  Status undo(size_t task, Each &&each) const {
    const size_t end = task + 1 < tasks_.size() ? tasks_[task + 1] : order_.size();
    const std::span<const u32> order(order_.data(), end);
    for (size_t i = tasks_[task]; i < end; i++)
      LS_TRY(each(ops_[order_[i]], Rest(*this, order.subspan(i + 1))));
    return kOk;
  }

 private:
  std::vector<UndoOp> ops_;
  std::vector<u8> bytes_;      // of the changes; never moved
  std::vector<u32> order_;     // of ops_, as they are to be undone
  std::vector<u32> tasks_;     // where each begins in order_
};

}  // namespace ls
