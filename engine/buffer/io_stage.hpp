// io_stage.hpp - pages between file and tree: a hash table of frames keyed by (file number, page
// number), cut into partitions by page (LeanStore paper, section 6.3).  It keeps a page from being
// read into two frames.
//
// A frame is in it (chained by Frame::next_free)
//   kLoading                while a reader reads it; others sleep on its io_event
//   kLoaded                 read, but no swip refers to it yet: a reader that meets the evicted
//                           swip takes it out and swizzles
//   kLoaded, dirty          a freed page: its last image has still to be written (frame.hpp,
//                           FRAME-4); or one that recovery has redone, which is in a tree like any
//                           page that was read
//   kLoaded, superseded     a freed page: its number is in use again, and its write is under way
//   kFollowed               a page of a followed file, which redo and readers find here
//                           (followed_pages.hpp)
// STAGE-1  a page that is being read or has been read has an evicted swip: the reader enters the
//          frame while the parent's version, taken before, still holds; and the swip changes only
//          after the frame was taken out, under the parent's exclusive latch.
// STAGE-2  at most one frame of a page is in the table that is not superseded.
// STAGE-3  the table gives frames back only under the partition's mutex, and never one that is
//          being written.
//
// The partition mutex is the last in the latch order; nothing is waited for and no file is touched
// with it held.
#pragma once
#include "buffer/pool_shared.hpp"

namespace ls {

class IoStageLock {
 public:
  IoStageLock(PoolShared &pool, FileNo file_no, PageNo page_no);
  ~IoStageLock() { partition_->mutex.unlock(); }
  IoStageLock(const IoStageLock &) = delete;
  IoStageLock &operator=(const IoStageLock &) = delete;

  bool is_page(const Frame *frame) const;   // has it the page's number now?
  Frame *find() const;                      // the page's frame that is not superseded, or null
  bool holds(const Frame *frame) const;     // is it in the table?
  // does any frame of this page in the table have `writing`?
  bool being_written() const;
  void insert(Frame *frame);
  void remove(Frame *frame);

 private:
  PoolShared &pool_;
  FileNo file_no_;
  PageNo page_no_;
  std::atomic<u32> *head_;
  IoPartition *partition_;
};

// A load has ended (loaded, swizzled or failed): wake the readers that wait for it.  Called without
// the mutex.
void io_stage_wake(Frame *frame);

}  // namespace ls
