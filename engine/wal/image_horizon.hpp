// image_horizon.hpp - from which GSN on the log has whole pages (docs/decisions/0043).
//
// A copy of the files that is made while they change has torn pages, and pages of several ages.
// Redo can use it when the log has the image of each page that was written meanwhile.  So the first
// change of a page behind the horizon, a GSN that each checkpoint moves to now, is followed by an
// image of the page.
//
// IMG-1  A worker that has changed a page, or is about to make it dirty without a record, draws a
//        GSN (or reads the counter by read-modify-write) first and compares the page's GSN of
//        before with the horizon then, all under the page's exclusive latch.  If that is less, the
//        page's image is the next record, and its GSN becomes the page's.
// IMG-2  A change with a GSN at or behind the horizon has been compared with this horizon, or with
//        ~0.  advance() sets ~0, then reads the counter by read-modify-write, and only then sets
//        the horizon to what comes next: each such GSN is drawn behind that, so its worker sees
//        what was set before.  By induction a page with a GSN at or behind the horizon has an image
//        at or behind it.  Once; twice only if it is changed again while advance() is between its
//        two stores.
// IMG-3  The checkpoint advances before CKPT-1, so the log is hardened up to the horizon, and
//        CKPT-4 writes what was dirty before it.  A page that is written to its file behind the
//        checkpoint's end was therefore changed behind the horizon, and has its image there,
//        hardened before it was written (WRITE-2): behind where redo starts, because that is at or
//        before the horizon (CKPT-5), and before the end of a log that covers the copy.
// IMG-4  A page that is given back needs no contents: the record says that it is free, which is its
//        image.
#pragma once
#include <atomic>

#include "base/types.hpp"

namespace ls {

inline constexpr Gsn kImagesOfAll = ~Gsn{0};   // while the horizon moves

class ImageHorizon {
 public:
  // 0: no images.  Acquire pairs with advance().
  Gsn get() const { return at_.load(std::memory_order_acquire); }

  // counter: of the last GSN drawn.  One actor at a time.  Returns the new horizon.
  Gsn advance(std::atomic<Gsn> &counter) {
    at_.store(kImagesOfAll, std::memory_order_release);
    // The release half keeps the store before it; a worker that draws later sees that store.
    const Gsn horizon = counter.fetch_add(0, std::memory_order_acq_rel) + 1;
    at_.store(horizon, std::memory_order_release);
    return horizon;
  }

 private:
  std::atomic<Gsn> at_{0};
};

}  // namespace ls
