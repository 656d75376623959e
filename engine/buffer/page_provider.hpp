// page_provider.hpp - keeps frames free: second chance with random sampling, batched asynchronous
// writes (LeanStore paper, section 6.2 and 6.3), torn-page protection by the doublewrite buffer
// (doublewrite.hpp).
//
// One round: (1) look at 64 random frames, a few times over in a large pool: hot ones without
// swizzled children become cool, cool clean ones are evicted, cool dirty ones go to phase 2 (when
// they have been met often enough: rereference.hpp); frames of forgotten files and orphaned loads
// are freed.
// (2) page_writer.hpp: copy each dirty page under its shared latch, skip those with a GSN that is
// not hardened (and kick the log); doublewrite buffer, io_uring batch, sync; clean if unchanged
// since the copy.
// (3) evict those.
// Latches are only tried.
#pragma once
#include "buffer/pool.hpp"

namespace ls {

class PageProvider {
 public:
  PageProvider(BufferPool &pool, u32 id);
  ~PageProvider();
  // One round; *freed: frames given to the free list.  A failed write is an error for the store
  // (LS_IO_ERROR), a full disk and memory that is short are not (LS_NO_SPACE, bad_alloc: the pages
  // stay dirty, run() tries again).
  Status round(u32 *freed);
  // Thread body: rounds while the free list is below its mark, sleeps else; until stop.
  Status run(const std::atomic<u32> &stop);

 private:
  struct State;
  BufferPool &pool_;
  State *state_;
};

// Before any file is opened at start (after file_setup): repair pages torn by the crash from the
// images in the doublewrite buffer file `path` (PoolConfig::doublewrite_path).  Repeatable; no file
// is no error.
Status doublewrite_recover(const char *path);

}  // namespace ls
