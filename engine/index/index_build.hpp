// index_build.hpp - filling a new index from entries in ascending order.
#pragma once
#include "index/index.hpp"

namespace ls {

class IndexBuild {
 public:
  // LS_INVALID when the index is not empty.
  static Status open(Worker &w, FileSlot &index, u32 fill_percent, IndexBuild **build);
  static void close(IndexBuild *build);

  // entry: key | row id, greater than the one before.
  Status add(Bytes entry, Bytes payload);
  // All of it is durable.
  Status finish();

 private:
  IndexBuild(Worker &w, FileSlot &index) : w_(w), index_(index), tree_(w.ctx, index) {}

  Worker &w_;
  FileSlot &index_;
  BTree tree_;
  u32 last_bytes_ = 0;
  u8 last_[kMaxEntryKeyBytes];
};

}  // namespace ls
