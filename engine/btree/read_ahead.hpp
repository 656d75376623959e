// read_ahead.hpp - leaves that a scan will come to, read before it does.
//
// From their parent a scan that goes from leaf to leaf knows the page numbers of those behind.
// Once it has met some that are not in memory it reads those to come together, more from time to
// time up to kMost, while it looks at the rows of the one before.
//
// They are read into memory of the scan's own, past the pool: no other worker waits for these
// reads, and a scan of more than the pool holds drives nothing out of it (BufferPool::take_in says
// when a page enters).  So a copy has to be known to be the page still:
//   AHEAD-1  before the read begins the parent, at a version, refers to the page as evicted, and
//            after that the page is neither compressed nor in the I/O stage (recovery leaves
//            changed ones there), and the parent has that version still: then the file has its
//            newest content, and no write of it is under way (PageProvider::evict).  If it is
//            compressed that is copied.
//   AHEAD-2  a copy is good if that parent still has that version: the page has not been in the
//            pool since.
//   AHEAD-3  or if the page is evicted again and no page of the file has been written, or
//            compressed without being written, since before AHEAD-1 (FileSlot::page_writes, counted
//            before): it may have been in the pool, but has not changed.
// What is found to be outdated or damaged is read again the ordinary way, which has the words for
// it.
#pragma once
#include <memory>
#include <span>

#include "buffer/pool.hpp"

namespace ls {

class ReadAhead {
 public:
  static constexpr u32 kMost = 64;

  // A parent, the version at which it referred to pages as evicted, and FileSlot::page_writes as it
  // was before.
  struct Parent {
    Frame *frame;
    u64 version;
    u64 writes;
    bool is(const Parent &other) const { return frame == other.frame && version == other.version; }
  };

  ReadAhead(Ctx &ctx, FileSlot &file);
  ~ReadAhead();

  // Another leaf is not in memory: is it worth while?
  bool wanted();
  // What to call ask() with, the leaf wanted now included; 0: enough is on its way.
  u32 to_ask(PageNo now);
  // Pages in the order of the scan; the first is the one wanted now.
  void ask(std::span<const PageNo> pages, const Parent &parent);
  // Copy the page, as it was when the parent referred to it, to `out`; waits until it is read.
  // False: not known.
  bool take(PageNo page, const Parent &parent, u8 *out);

 private:
  struct Reads;   // memory for the pages and the ring: made when they are wanted

  Ctx &ctx_;
  FileSlot &file_;
  u32 missed_ = 0;
  u32 depth_;
  u32 asked_ = 0;   // leaves to go before the next ask()
  std::unique_ptr<Reads> reads_;
};

}  // namespace ls
