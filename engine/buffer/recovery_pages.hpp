// recovery_pages.hpp - pages by number, for redo: a private table from (file, page) to frame
// instead of a tree, as swips mean nothing yet.
//
// Before the store is open: only recovery uses the pool, no page provider runs.  One thread names
// pages, makes room and ends it; in between any number of threads read the pages that were named
// and change them, each page by one of them.
//
// What was changed stays in memory: finish() leaves it in the I/O stage as read and dirty, where
// a reader that meets the evicted swip finds it.  Only when the frames run out pages are written
// (make_room), guarded against tearing like any other write: recovery may crash as well.
#pragma once
#include <span>
#include <unordered_map>
#include <vector>

#include "buffer/pool.hpp"
#include "os/page_reads.hpp"

namespace ls {

class RecoveryPages {
 public:
  struct Page {
    FileSlot *file;
    PageNo page_no;
    Frame *frame;
    bool read;      // the frame has its contents; else only RecoveryReads may touch it
    bool damaged;   // but they are none, and nothing may be done to them
    static u64 place_of(const FileSlot &file, PageNo page_no) {
      return u64{file.index} << 32 | page_no;
    }
    u64 place() const { return place_of(*file, page_no); }   // in the order of the files
  };

  explicit RecoveryPages(BufferPool &pool) : pool_(pool) {}
  // Is there a frame left?  Not the last ones: workers will want some before pages can be written.
  bool room() const;
  // Find the page, or give it a frame.  False: there is no frame left for it.
  bool name(FileSlot &file, PageNo page_no, u32 *index);
  // Was it named since the last make_room()?
  bool is_named(const FileSlot &file, PageNo page_no) const {
    return index_.contains(Page::place_of(file, page_no));
  }
  Page &page(u32 index) { return pages_[index]; }
  // It need not be read: zeros, as if its file did not have it.
  void begin_empty(u32 index);
  u32 count() const { return static_cast<u32>(pages_.size()); }
  BufferPool &pool() const { return pool_; }

  // Write every dirty page, and forget all: indexes are given anew.
  Status make_room(Ctx &ctx);
  // Trees can be descended afterwards.  A file is forgotten when its meta page was left empty: its
  // creation did not become durable.
  void finish();

 private:
  bool is_meta(const Page &page) const {
    return page.file->meta.load(std::memory_order_relaxed) == page.frame;
  }
  void settle_files();

  BufferPool &pool_;
  std::vector<Page> pages_;
  std::unordered_map<u64, u32> index_;   // by place
};

// A thread's reads of pages that were named; some are on their way while it changes others.
class RecoveryReads {
 public:
  static constexpr u32 kBatch = 64;

  RecoveryReads(RecoveryPages &pages, Ctx &ctx);
  // The pages are wanted, in the order of their files if possible; there must be room().
  bool room() const { return free_tags_.size() >= kBatch; }
  void ask(std::span<const u32> pages);
  // One that was asked for and is there, whole, or as zeros where the file has no such page, or
  // damaged.  *none: no more were asked for.
  Status next(u32 *page, bool *none);

 private:
  static constexpr u32 kMost = 4 * kBatch;

  RecoveryPages &pages_;
  Ctx &ctx_;
  PageReads ring_;
  std::vector<u32> asked_;         // by tag
  std::vector<u32> free_tags_;     // of no read that is on its way
  std::vector<u32> here_, alone_;  // read already; to be read one by one
};

}  // namespace ls
