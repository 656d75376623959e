// followed_pages.hpp - pages that redo changes while they are read (docs/decisions/0053).
//
// A store that follows another one's log has one actor that changes pages of logged files, redo,
// and any number of readers.  Redo knows pages by number.  So pages of these files stay in the I/O
// stage, where redo and readers find them: no swip of such a file is ever swizzled, and a page in
// memory has the bytes that it has on disk.  Trees of the store's own, versions among them, are as
// ever.
//
// FOLLOWED-1  A page's frame leaves the stage only exclusively latched, and gets a new version
//             then. So a reader that took its version while it was in the stage notices.
// FOLLOWED-2  Redo holds all pages of a record exclusively before it changes the first of them.  So
//             readers see trees as they were between two records of the log, which is what they
//             would see beside the writers that made these.
// When following ends pages stay where they are: the next reader of the swip swizzles them, as it
// does with pages that recovery has redone.
#pragma once
#include "buffer/page_guard.hpp"

namespace ls {

inline bool is_followed(const PoolShared &pool, const FileSlot &file) {
  return pool.following.load(std::memory_order_relaxed) &&
         file.logged.load(std::memory_order_relaxed);
}

// Where a page is now.
struct FollowedLook {
  Frame *frame = nullptr;   // null: not in memory
  FrameState state{};       // kLoading: `event` changes when it is there
  u32 event = 0;
  OptimisticGuard guard;    // empty: it is being read, or exclusively latched
};
FollowedLook look_followed(BufferPool &pool, const FileSlot &file, PageNo page_no);

// A page that providers have passed gets its second chance.
inline void note_wanted(Frame *frame) {
  if (frame->visits.load(std::memory_order_relaxed) != 0)
    frame->visits.store(0, std::memory_order_relaxed);
}

// ---- resolve.cpp
// Read a page into the stage, unless another actor does.  No latch held.
// A page that the file does not have: an error, or zeros.  kAnew: zeros, whatever the file has.
enum class Absent : u8 { kFails, kZeros, kAnew };
Status load_followed(Ctx &ctx, FileSlot &file, PageNo page_no, Absent absent);
// For redo: the page's frame, which has it when this returns; zeros if the file has none.  anew:
// zeros if it is not in memory.  Not of a meta page.  No latch held.
Status find_followed(Ctx &ctx, FileSlot &file, PageNo page_no, bool anew, Frame **frame);

// Has it that page now?  Latched, or what this says is validated.
bool is_frame_of(const Frame &frame, const FileSlot &file, PageNo page_no);
// Exclusively latched, if it is the page's frame and can be had at once.
ExclusiveGuard try_lock_followed(BufferPool &pool, const FileSlot &file, PageNo page_no,
                                 Frame *frame);
// Pages from `first` on are worth nothing any more.  By redo, no latch held.
void drop_followed_from(BufferPool &pool, const FileSlot &file, PageNo first);
// From now on pages of logged files are swizzled; returns when no reader is reading one in.  Redo
// has ended.
void end_following(BufferPool &pool);
// Give a clean page's frame back; of a file that is leaving, any page's.  False: not now.
bool drop_followed(BufferPool &pool, Frame *frame, bool leaving);

}  // namespace ls
