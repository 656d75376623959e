// last_images.hpp - recovery's undo writes no last images of the pages that it gives back.
//
// A last image is written because a checkpoint may choose a redo position between two changes of a
// page that is free (frame.hpp, FRAME-4).  While recovery undoes, the redo position stands still,
// and all changes of such a page are redone from it, on what the file has.  So undo drops the
// images.
// LAST-1  The first checkpoint after undo flushes what is older than its end, which lies behind all
//         that undo has logged.
// LAST-2  What that flush leaves (changes for a damaged page) may be older.  No redo position lies
//         between the first change that was dropped and the end of undo: it is that of the change
//         then.
// LAST-3  From a redo position on the log is read by rounds, which begin with older records.  They
//         may be of a page without image, so redo leaves them alone (REDO-4 in recovery/redo.hpp).
#pragma once
#include "buffer/pool.hpp"

namespace ls {

// From here to its end no last image is kept.  Only while no checkpoint can be made, and one at a
// time.
class DropLastImages {
 public:
  explicit DropLastImages(BufferPool &pool);
  ~DropLastImages();
  DropLastImages(const DropLastImages &) = delete;
  DropLastImages &operator=(const DropLastImages &) = delete;

 private:
  BufferPool &pool_;
};

// Of a page that is being freed, dirty since then.  Notes the change if so.
bool needs_no_last_image(PoolShared &pool, Gsn dirty_since);
// LAST-2: `redo_gsn`, or before it.
Gsn before_dropped_images(const PoolShared &pool, Gsn redo_gsn);

}  // namespace ls
