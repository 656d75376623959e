// frame.hpp - what the pool knows of a page in memory; the page's bytes are in a separate, 4 KiB
// aligned array.
//
// State of a frame
//   from      to        by                             under
//   kFree     kLoading  reader or page allocator       popped from the free list (private)
//   kLoading  kLoaded   reader, page verified          I/O stage partition mutex
//   kLoading  kHot      reader, parent unchanged       parent exclusive, I/O stage partition mutex
//   kLoading  kCool     scan, read past the pool       parent exclusive, I/O stage partition mutex
//   kLoaded   kHot      any reader that meets the swip parent exclusive
//   kLoading  kHot      page allocator (new page)      frame exclusive, unreachable until linked
//   kHot/Cool kLoaded   free_frame: page freed while   frame exclusive, I/O stage partition mutex
//                       its last changes are unwritten
//   kHot      kCool     page provider                  parent exclusive (try)
//   kCool     kHot      worker that meets it           parent exclusive (upgrade)
//   kCool     kFree     page provider, clean page      parent and frame exclusive (try)
//   kLoaded   kFree     page provider, no reader came  I/O stage partition mutex, frame exclusive
//   kLoading  kFollowed redo or reader, page verified  I/O stage partition mutex, file followed
//   kFollowed kFree     page provider, clean page      frame exclusive (try), partition mutex
//   kFollowed kHot      any reader that meets the swip parent exclusive, file no more followed
//   any       kFree     page provider, file forgotten  frame exclusive
// FRAME-1  a hot or cool frame has exactly one swip, in its parent (the meta frame: in its
//          FileSlot).
// FRAME-2  a frame with swizzled children is neither cooled nor evicted.
// FRAME-3  dirty_since != 0 exactly while the page differs from the file; set with the frame
//          exclusive.
// FRAME-4  frames in the I/O stage (chained by next_free) are those being read, those read or
//          redone that no reader has swizzled yet, and the last image of freed pages that must
//          still be written: redo from a log position between two changes of a page needs the
//          first of them on disk, whether or not the page was freed later (but last_images.hpp);
//          and all pages of followed files (followed_pages.hpp), but meta pages.
// FRAME-5  `writing` is set with the frame shared and its I/O partition's mutex held, and at most
//          one frame of a page has it.
#pragma once
#include <atomic>

#include "base/types.hpp"
#include "sync/hybrid_latch.hpp"

namespace ls {

enum class FrameState : u8 { kFree = 0, kLoading, kLoaded, kHot, kCool, kFollowed };

struct alignas(kCacheLine) Frame {
  HybridLatch latch;
  std::atomic<FrameState> state{FrameState::kFree};
  std::atomic<u8> writing{0};        // a batch holds a copy of it that is on its way to the file
  // kLoaded: freed page, its number is in use again; goes when `writing` ends
  std::atomic<u8> superseded{0};
  // Of page providers, in vain: orphaned loads, frames of forgotten files, and since it was cooled,
  // that one included; hot: not 0 means it was wanted since.
  std::atomic<u8> visits{0};
  std::atomic<u32> file_slot{0};     // index into the file table
  // the slot's number at that time: differs when the slot was reused
  std::atomic<FileNo> file_no{0};
  std::atomic<PageNo> page_no{0};
  std::atomic<u32> next_free{0};     // free list, or chain of the I/O stage: index + 1
  // GSN of the first change since the page was last clean (unlogged: 1); 0: clean.
  std::atomic<Gsn> dirty_since{0};
  // the same counted from the copy being written; becomes dirty_since after it
  std::atomic<Gsn> dirty_next{0};
  // of workers that change the page (btree/contention.hpp); a hint, of the page's last life perhaps
  std::atomic<u64> contention{0};

  // futex: changes when a load has ended
  std::atomic<u32> &io_event() { return latch.guarded_word; }
  // Under its latch, or validated.
  bool in_tree() const {
    const FrameState now = state.load(std::memory_order_acquire);
    return now == FrameState::kHot || now == FrameState::kCool || now == FrameState::kFollowed;
  }
};
static_assert(sizeof(Frame) == 64);

}  // namespace ls
