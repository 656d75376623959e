// page_writer.hpp - writes dirty pages in batches, for page providers, checkpoints, host flushes
// and recovery.
//
// Life of a page in a batch: add() copies it under its shared latch and marks the frame `writing`;
// write() waits until the copies are hardened, makes logged ones safe against tearing
// (doublewrite.hpp), writes all by io_uring, syncs the logged files, and then calls the frames
// clean, or dirty since the first change after the copy.
//   WRITE-1  no latch is held while anything is waited for.
//   WRITE-2  a copy reaches the file only when the log is durable up to its GSN (WAL rule).
//   WRITE-3  of one page at most one copy is on its way at any time (Frame::writing; a freed page's
//            number may be in use again by another frame, io_stage.hpp; COMP-3 in
//            compressed_cache.hpp): an old image never overwrites a newer one.
//   WRITE-4  dirty_since leaves its old value only after the copy is durable.  While a copy is
//            under way changes are noted in dirty_next.
// When a batch fails all its pages stay dirty.  A disk without space (LS_NO_SPACE) has left them as
// they were, and they are tried again later.  After any other failure it is not known what the file
// has, so the store has failed (PoolShared::failure) and nothing is written any more: a sync that
// failed may have dropped what was to be synced, and a page that is half written has its image in
// the doublewrite buffer still (DBLW-4).
// A crash leaves any subset of the batch written: each is a consistent page not ahead of the
// durable log.
#pragma once
#include <memory>
#include <vector>

#include "base/aligned_memory.hpp"
#include "buffer/compressed_cache.hpp"
#include "buffer/doublewrite.hpp"
#include "buffer/pool.hpp"

namespace ls {

class PageWriter {
 public:
  explicit PageWriter(BufferPool &pool);
  ~PageWriter();
  PageWriter(const PageWriter &) = delete;
  PageWriter &operator=(const PageWriter &) = delete;

  enum class Patience : u8 {
    kTry,   // page provider: only try the latch, skip pages that are not hardened
    kWait,  // flush: wait for the latch; write() waits for the log
  };
  enum class Added : u8 {
    kYes,
    kBusy /* another writer is at it, or not hardened */,
    kNothing /* clean, or gone */
  };
  // Take a page that is dirty since up_to or earlier.  There must be room.  No latch held.
  Added add(Frame *frame, Gsn up_to, Patience patience);
  // The same of a compressed page, which stays compressed.  kBusy if it is not hardened: a reader
  // that wants it shall not have to wait for the log (COMP-3).
  Added add(const CompressedPage &page, Gsn up_to);
  bool full() const { return logged_.size() + unlogged_.size() == kTearPages; }
  bool empty() const { return logged_.empty() && unlogged_.empty(); }
  // The newest change of pages met since the last write() that must wait for the log; 0: there were
  // none.
  Gsn unhardened() const { return unhardened_; }
  // Wait for the log up to there.  LS_INTERRUPTED, LS_IO_ERROR.
  Status harden(Gsn gsn, const volatile int *interrupt);
  // Write what was added.  Pages of forgotten files are left out.  LS_INTERRUPTED, LS_NO_SPACE,
  // LS_IO_ERROR.
  Status write(const volatile int *interrupt);

 private:
  struct Entry {
    Frame *frame;     // null: of a compressed page
    FileSlot *file;
    FileNo file_no;
    PageNo page_no;
    Gsn gsn;
    bool pinned;
  };
  u8 *slot_buffer(bool logged) const;
  void pin_files();
  Status make_room();
  Status put_in_place(const volatile int *interrupt);
  Status write_and_sync(u32 logged) noexcept;
  Status sync_files();
  bool left_whole(u32 logged);
  void finish(const Entry &entry, bool success);
  void finish_frame(const Entry &entry, bool success);

  BufferPool &pool_;
  DoublewriteBuffer guard_;
  std::unique_ptr<IoRing, IoRingDeleter> ring_;
  // header pages of the doublewrite buffer, then kTearPages buffers
  AlignedPages block_;
  std::vector<Entry> logged_;     // buffers from the front
  std::vector<Entry> unlogged_;   // buffers from the back
  // Of the batch that is being written; room for all of it is there before it begins.
  std::vector<PageWrite> writes_;
  std::vector<const Entry *> files_;   // logged ones, each once
  Gsn unhardened_ = 0;
};

}  // namespace ls
