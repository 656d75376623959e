// leaf_reads.hpp - the ring and the buffers with which BTree::bring_in reads leaves together.
//
// For one thread, which keeps them from one call to the next: the kernel takes its time to set up a
// ring.  They are made when they are first wanted.
#pragma once
#include <optional>

#include "base/aligned_memory.hpp"
#include "os/page_reads.hpp"

namespace ls {

class LeafReads {
 public:
  static constexpr u32 kMost = 64;   // leaves at a time

  // False: without io_uring, memory or a ring that is left, leaves are read one by one.
  bool possible() {
    if (!ring_) {
      buffers_ = allocate_pages(kMost);
      ring_.emplace(kMost);
    }
    return buffers_ && ring_->possible();
  }
  PageReads &ring() { return *ring_; }
  u8 *buffer(u32 i) { return buffers_.get() + size_t{i} * kPageSize; }

 private:
  AlignedPages buffers_;
  std::optional<PageReads> ring_;   // behind what it reads into
};

}  // namespace ls
