// vanished_values.hpp - the pages of values of which the rows leave their leaf.
#pragma once
#include "txn/row_leaf.hpp"
#include "txn/value_row.hpp"

namespace ls {

// Rows of one leaf.  What it frees is decided under the leaf's latch (VPAGES-2), and freed without.
class VanishedValues {
 public:
  // `leaf`: before any of them is removed.
  VanishedValues(Worker &w, FileSlot &file, const Node &leaf);
  // Under the latch.
  void add(u64 row_id);
  // When the leaf is left.
  void free_pages();

 private:
  // Does the row of the copy name pages?
  bool find(u64 row_id, RowHeader *header, ValuePlace *place) const;

  Worker &w_;
  FileSlot &file_;
  alignas(8) u8 copy_[kPageSize];
  u64 rows_[kMaxLeafRows];   // that free runs
  u32 count_ = 0;
  // As it was under the latch.
  PageNo old_end_ = 0;
  bool counted_[kMaxLeafRows];
};

}  // namespace ls
