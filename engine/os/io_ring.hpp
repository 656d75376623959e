// io_ring.hpp - an io_uring, used by one thread at a time; without one (old kernel, seccomp,
// limits) the callers use pwrite.
#pragma once
#include <liburing.h>

#include <vector>

#include "os/fd_cache.hpp"

namespace ls {

class IoRing {
 public:
  explicit IoRing(u32 entries);
  ~IoRing();
  IoRing(const IoRing &) = delete;
  IoRing &operator=(const IoRing &) = delete;
  bool usable() const { return usable_; }
  u32 entries() const { return entries_; }
  // Write a batch of at most entries() pages; each gets its status.
  void write_batch(std::span<PageWrite> writes) noexcept;

 private:
  u32 submit(u32 queued);

  io_uring ring_;
  u32 entries_;
  bool usable_;
  // Of the batch; there before it begins.
  std::vector<SegmentRef> segments_;
  std::vector<u8> complete_;
};

}  // namespace ls
