// io_ring.hpp - an io_uring, used by one thread at a time; without one (old kernel, seccomp, limits) the callers use pwrite.
#pragma once
#include <liburing.h>

#include "os/file.hpp"

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
  void write_batch(std::span<PageWrite> writes);

 private:
  u32 submit(u32 queued);

  io_uring ring_;
  u32 entries_;
  bool usable_;
};

}  // namespace ls
