// followed_pages.cpp - pages of followed files looked up, latched and given back.
#include "buffer/followed_pages.hpp"

#include "base/check.hpp"
#include "buffer/io_stage.hpp"

namespace ls {

namespace {

constexpr i64 kPollUs = 1'000;

void wait_a_moment() {
  std::atomic<u32> never{0};
  futex_wait(&never, 0, kPollUs);
}

}  // namespace

FollowedLook look_followed(BufferPool &pool, const FileSlot &file, PageNo page_no) {
  FollowedLook look;
  IoStageLock stage(*pool.shared(), file.file_no.load(std::memory_order_acquire), page_no);
  look.frame = stage.find();
  if (!look.frame) return look;
  look.state = look.frame->state.load(std::memory_order_acquire);
  look.event = look.frame->io_event().load(std::memory_order_relaxed);
  if (look.state != FrameState::kLoading)
    look.guard = OptimisticGuard::try_now(pool, look.frame);   // FOLLOWED-1
  return look;
}

bool is_frame_of(const Frame &frame, const FileSlot &file, PageNo page_no) {
  return frame.in_tree() && frame.page_no.load(std::memory_order_relaxed) == page_no &&
         frame.file_no.load(std::memory_order_relaxed) ==
             file.file_no.load(std::memory_order_relaxed);
}

ExclusiveGuard try_lock_followed(BufferPool &pool, const FileSlot &file, PageNo page_no,
                                 Frame *frame) {
  ExclusiveGuard guard = ExclusiveGuard::try_lock(pool, frame);
  if (!guard) return {};
  if (is_frame_of(*frame, file, page_no)) return guard;
  guard.reset_unchanged();
  return {};
}

bool drop_followed(BufferPool &pool, Frame *frame, bool leaving) {
  if (!frame->latch.try_lock_exclusive()) return false;
  bool dropped = false;
  {
    IoStageLock stage(*pool.shared(), frame->file_no.load(std::memory_order_relaxed),
                      frame->page_no.load(std::memory_order_relaxed));
    const bool clean = frame->dirty_since.load(std::memory_order_relaxed) == 0;
    dropped = frame->state.load(std::memory_order_relaxed) == FrameState::kFollowed &&
              stage.is_page(frame) && stage.holds(frame) && (clean || leaving) &&
              frame->writing.load(std::memory_order_relaxed) == 0;
    if (dropped) {
      stage.remove(frame);
      frame->state.store(FrameState::kLoading, std::memory_order_relaxed);   // this actor's
    }
  }
  if (!dropped) {
    frame->latch.unlock_exclusive_unchanged();
    return false;
  }
  frame->latch.unlock_exclusive();
  release_frame(*pool.shared(), frame);
  return true;
}

void drop_followed_from(BufferPool &pool, const FileSlot &file, PageNo first) {
  const FileNo file_no = file.file_no.load(std::memory_order_relaxed);
  for (u32 i = 0; i < pool.frame_count(); i++) {
    Frame *frame = pool.frame(i);
    // A page that a provider writes, or a reader looks at, goes in the next turn.
    while (frame->state.load(std::memory_order_acquire) == FrameState::kFollowed &&
           frame->file_no.load(std::memory_order_relaxed) == file_no &&
           frame->page_no.load(std::memory_order_relaxed) >= first &&
           !drop_followed(pool, frame, true))
      wait_a_moment();
  }
}

void end_following(BufferPool &pool) {
  // A reader that has not seen it has claimed its frame by now: load_followed() looks the other way
  // round.
  pool.shared()->following.store(false, std::memory_order_seq_cst);
  for (u32 i = 0; i < pool.frame_count(); i++) {
    const Frame *frame = pool.frame(i);
    while (frame->state.load(std::memory_order_acquire) == FrameState::kLoading &&
           pool.file(frame->file_slot.load(std::memory_order_relaxed)).logged)
      wait_a_moment();
  }
  // A new version: what readers have of pages counts as long as these are where they were found.
  for (u32 i = 0; i < pool.frame_count(); i++) {
    Frame *frame = pool.frame(i);
    if (frame->state.load(std::memory_order_acquire) != FrameState::kFollowed) continue;
    frame->latch.lock_exclusive();
    {
      IoStageLock stage(*pool.shared(), frame->file_no.load(std::memory_order_relaxed),
                        frame->page_no.load(std::memory_order_relaxed));
      if (frame->state.load(std::memory_order_relaxed) == FrameState::kFollowed)
        frame->state.store(FrameState::kLoaded, std::memory_order_release);
    }
    frame->latch.unlock_exclusive();
  }
}

}  // namespace ls
