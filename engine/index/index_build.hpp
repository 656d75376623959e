// index_build.hpp - filling a new index from entries in ascending order.
//
// Entries wait until it is known where their leaf ends: its prefix depends on both fences.  Then
// the leaf is made in private memory and becomes the tree's last leaf in one step
// (BTree::fill_last_leaf).  The tree is whole at every moment; a build given up leaves a part of
// the index behind, which the host forgets with the file.
//
// BUILD-1  lower_ is a separator just before the first waiting entry, so it is no longer than that
//          one.
// BUILD-2  All waiting entries but the last fit a page between lower_ and a separator before the
//          last.
#pragma once
#include <vector>

#include "buffer/file_use.hpp"
#include "index/index.hpp"

namespace ls {

class IndexBuild {
 public:
  FileUse use;   // of its file, while it is open

  // LS_INVALID when the index is not empty.
  static Status open(Worker &w, FileSlot &index, u32 fill_percent, IndexBuild **build);
  static void close(IndexBuild *build);

  // entry: key | row id, greater than the one before.
  Status add(Bytes entry, Bytes payload);
  // The rest; when it returns, everything is durable.
  Status finish();

 private:
  struct Waiting {
    u32 offset;      // in bytes_: key, then payload
    u16 key_bytes;
    u16 payload_bytes;
  };

  IndexBuild(Worker &w, FileSlot &index, u32 fill_percent)
      : tree_(w.ctx, index), limit_(kNodeSpace * fill_percent / 100) {}
  Bytes key_of(const Waiting &e) const { return Bytes(bytes_.data() + e.offset, e.key_bytes); }
  Bytes payload_of(const Waiting &e) const {
    return Bytes(bytes_.data() + e.offset + e.key_bytes, e.payload_bytes);
  }
  Bytes lower() const { return Bytes(lower_, lower_bytes_); }
  bool lower_is_before_first() const;
  u32 heap_bytes(size_t count, u32 prefix, bool uniform) const;
  bool fits(size_t count, Bytes separator) const;
  bool takes(Bytes entry, u32 payload_bytes);
  Status close_leaf_before(Bytes next);
  Status write_leaf(size_t count, Bytes separator, bool last);

  BTree tree_;
  const u32 limit_;              // bytes of a page that are to be used
  std::vector<u8> bytes_;
  std::vector<Waiting> waiting_;
  u32 prefix_ = 0;               // common to lower_ and all waiting keys ...
  bool uniform_ = true;          // they are all of one size ...
  u32 heap_ = 0;                 // ... and take so much in a leaf with that prefix
  u32 lower_bytes_ = 0;
  u8 lower_[kMaxKeyBytes];
  alignas(64) u8 page_[kPageSize];
};

}  // namespace ls
