// io_stage.cpp - frames put in, found and taken out by page.
#include "buffer/io_stage.hpp"

#include "base/check.hpp"

namespace ls {

IoStageLock::IoStageLock(PoolShared &pool, FileNo file_no, PageNo page_no)
    : pool_(pool), file_no_(file_no), page_no_(page_no) {
  u32 bucket = static_cast<u32>(hash_page(file_no, page_no)) & pool.io_mask;
  head_ = &pool.io_heads[bucket];
  partition_ = &pool.partitions[bucket & pool.partition_mask];
  partition_->mutex.lock();
}

bool IoStageLock::is_page(const Frame *frame) const {
  return frame->page_no.load(std::memory_order_relaxed) == page_no_ &&
         frame->file_no.load(std::memory_order_relaxed) == file_no_;
}

Frame *IoStageLock::find() const {
  for (u32 link = head_->load(std::memory_order_relaxed); link;) {
    Frame *frame = pool_.frames + (link - 1);
    if (is_page(frame) && !frame->superseded.load(std::memory_order_relaxed)) return frame;
    link = frame->next_free.load(std::memory_order_relaxed);
  }
  return nullptr;
}

bool IoStageLock::holds(const Frame *wanted) const {
  for (u32 link = head_->load(std::memory_order_relaxed); link;) {
    const Frame *frame = pool_.frames + (link - 1);
    if (frame == wanted) return true;
    link = frame->next_free.load(std::memory_order_relaxed);
  }
  return false;
}

bool IoStageLock::being_written() const {
  for (u32 link = head_->load(std::memory_order_relaxed); link;) {
    const Frame *frame = pool_.frames + (link - 1);
    if (is_page(frame) && frame->writing.load(std::memory_order_relaxed)) return true;
    link = frame->next_free.load(std::memory_order_relaxed);
  }
  return false;
}

void IoStageLock::insert(Frame *frame) {
  LS_ASSERT(is_page(frame) && !holds(frame));
  LS_ASSERT(frame->superseded.load(std::memory_order_relaxed) || !find());   // STAGE-2
  frame->next_free.store(head_->load(std::memory_order_relaxed), std::memory_order_relaxed);
  head_->store(static_cast<u32>(frame - pool_.frames) + 1, std::memory_order_relaxed);
}

void IoStageLock::remove(Frame *wanted) {
  std::atomic<u32> *place = head_;
  for (;;) {
    u32 link = place->load(std::memory_order_relaxed);
    LS_CHECK(link != 0, "frame is not in the I/O stage");
    Frame *frame = pool_.frames + (link - 1);
    if (frame == wanted) {
      place->store(frame->next_free.load(std::memory_order_relaxed), std::memory_order_relaxed);
      frame->next_free.store(0, std::memory_order_relaxed);
      return;
    }
    place = &frame->next_free;
  }
}

void io_stage_wake(Frame *frame) {
  frame->io_event().fetch_add(1, std::memory_order_release);
  futex_wake_all(&frame->io_event());
}

}  // namespace ls
