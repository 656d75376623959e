// huge_pages.hpp - large pages for the pool, as far as it is in use.
//
// A random look-up in memory meets one or two pages of the pool for the first time in a while, and
// with small pages waits longer for the translation of their addresses than for their bytes.
// Memory that was never used is left alone: it costs nothing so far.
//
// Frames are taken off the free list in the order of their indexes until some come back, and those
// come first then: what was ever in use is the beginning of the array of pages (and all before it,
// which was written when the pool was made).
//
// The cleaner owns it; no latches.
#pragma once
#include "buffer/pool.hpp"

namespace ls {

class HugePages {
 public:
  explicit HugePages(const BufferPool &pool);
  // Go on with what has come into use, a little at a time.  True: there is more.
  bool advance();

 private:
  const PoolShared &pool_;
  u8 *next_;          // to be asked for; null: of no use
  u32 attempts_ = 0;  // at next_, in vain
};

}  // namespace ls
