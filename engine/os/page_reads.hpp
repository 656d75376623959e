// page_reads.hpp - reads of a relation's pages that go on while their caller does something else
// (io_uring).  Pages that lie beside each other in the file, or nearly, are read as one; what is
// between them goes nowhere.
//
// For one thread.  They go to memory that is the caller's alone: no other thread waits for one, so
// the caller may sleep, fail or end at any time.  Where the kernel has no io_uring nothing can be
// begun: read without it.
#pragma once
#include <liburing.h>
#include <sys/uio.h>

#include <span>
#include <vector>

#include "os/fd_cache.hpp"

namespace ls {

class PageReads {
 public:
  static constexpr u32 kMostRings = 8;   // of a process; an object beyond them reads without
  explicit PageReads(u32 entries);
  ~PageReads();  // waits for what is under way
  PageReads(const PageReads &) = delete;
  PageReads &operator=(const PageReads &) = delete;

  bool possible() const;
  // A read to be made; `buffer` (a page, aligned as one) is the kernel's until next() has named
  // `tag` (below entries).
  void add(PageNo page, u8 *buffer, u32 tag) { added_.push_back({page, buffer, tag}); }
  // All that were added are on their way.  Each ends, if only as a failure.
  void submit(const FileRef &file);
  struct Ended {
    u32 tag;
    bool whole;
  };
  // A read that has ended.  False: there is none now, and if `wait`, none is left.
  bool next(bool wait, Ended *ended);

 private:
  struct Page {
    PageNo page;
    u8 *buffer;
    u32 tag;
  };
  static constexpr u32 kNobody = ~u32{0};
  // Neighbours; in the place of their first one's tag.
  struct Run {
    SegmentRef segment;   // open as long as the read is under way
    std::vector<iovec> parts;
    std::vector<u32> tags;   // of the parts; kNobody: a page between two
  };
  bool gather(Run &run, std::span<const Page> pages);
  bool queue(const FileRef &file, std::span<const Page> pages);
  bool take(bool wait);
  void end(Run &run, size_t bytes);
  void give_up(u32 submitted);
  void close();

  alignas(kPageSize) u8 nowhere_[kPageSize];   // the kernel's, for pages that no read asked for
  io_uring ring_;
  bool usable_ = false;
  u32 under_way_ = 0;           // runs that the kernel has
  std::vector<Run> runs_;
  std::vector<u32> queued_;     // runs that it is going to get
  std::vector<Page> added_;
  std::vector<Ended> ended_;
};

}  // namespace ls
