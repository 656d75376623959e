// The stack of free frames, and how workers and page providers wake each other.
//
// A worker that finds the stack empty sleeps on free_event; push wakes one.  Providers sleep on
// provider_event; a pop below the low-water mark wakes them.  Both sleeps are bounded (kSlice), so
// a lost wake-up costs time, not progress.
#include "base/check.hpp"
#include "buffer/pool.hpp"
#include "os/clock.hpp"
#include "os/futex.hpp"

namespace ls {

namespace {

// How long a worker waits for the page providers before it calls the pool too small.
constexpr u64 kFrameWaitMs = 10'000;
constexpr i64 kSliceUs = 50'000;

constexpr u64 kIndexMask = 0xffffffffu;

}  // namespace

Frame *free_list_pop(PoolShared &pool) {
  // Acquire pairs with push: the frame's last life is over.
  u64 head = pool.free_head.load(std::memory_order_acquire);
  for (;;) {
    u32 link = static_cast<u32>(head & kIndexMask);
    if (link == 0) return nullptr;
    LS_ASSERT(link <= pool.frame_count);   // the empty meta page is never here
    Frame *frame = pool.frames + (link - 1);
    u64 next = frame->next_free.load(std::memory_order_relaxed);
    u64 wanted = ((head >> 32) + 1) << 32 | next;
    if (pool.free_head.compare_exchange_weak(head, wanted, std::memory_order_acquire,
                                             std::memory_order_acquire)) {
      u32 left = pool.free_count.fetch_sub(1, std::memory_order_relaxed) - 1;
      LS_ASSERT(left < pool.frame_count);
      LS_ASSERT(frame->state.load(std::memory_order_relaxed) == FrameState::kFree);
      frame->next_free.store(0, std::memory_order_relaxed);
      if (left < pool.low_water) wake_providers(pool);
      return frame;
    }
  }
}

void free_list_push(PoolShared &pool, Frame *frame) {
  u32 link = static_cast<u32>(frame - pool.frames) + 1;
  LS_ASSERT(link >= 1 && link <= pool.frame_count);
  LS_ASSERT(frame->state.load(std::memory_order_relaxed) == FrameState::kFree);
  // Counted before it can be popped, so that the count never falls below zero.
  pool.free_count.fetch_add(1, std::memory_order_relaxed);
  u64 head = pool.free_head.load(std::memory_order_relaxed);
  u64 wanted;
  do {
    frame->next_free.store(static_cast<u32>(head & kIndexMask), std::memory_order_relaxed);
    wanted = ((head >> 32) + 1) << 32 | link;
  } while (!pool.free_head.compare_exchange_weak(head, wanted, std::memory_order_seq_cst,
                                                 std::memory_order_relaxed));
  // Sequentially consistent with the waiter's counting and second look: one of the two sees the
  // other.
  if (pool.free_waiters.load(std::memory_order_seq_cst) > 0) {
    pool.free_event.fetch_add(1, std::memory_order_release);
    futex_wake(&pool.free_event, 1);
  }
}

Frame *borrow_frame(PoolShared &pool, std::atomic<u32> &borrowed, u32 most) {
  if (borrowed.fetch_add(1, std::memory_order_relaxed) < most) {
    if (Frame *frame = free_list_pop(pool)) {
      // A new version: a reader that knew the page that was here does not take this for it.
      frame->latch.lock_exclusive();
      return frame;
    }
  }
  borrowed.fetch_sub(1, std::memory_order_relaxed);
  return nullptr;
}

void return_frame(PoolShared &pool, std::atomic<u32> &borrowed, Frame *frame) {
  LS_ASSERT(borrowed.load(std::memory_order_relaxed) > 0);
  borrowed.fetch_sub(1, std::memory_order_relaxed);
  free_list_push(pool, frame);
}

void wake_providers(PoolShared &pool) {
  if (pool.provider_sleepers.load(std::memory_order_seq_cst) == 0) return;
  pool.provider_event.fetch_add(1, std::memory_order_release);
  futex_wake_all(&pool.provider_event);
}

Status free_list_take(Ctx &ctx, PoolShared &pool, Frame **frame) {
  if ((*frame = free_list_pop(pool))) return kOk;
  WaitReport report(&ctx.waits, LS_WAIT_PAGE_FRAME);
  u64 deadline = now_ms() + kFrameWaitMs;
  pool.free_waiters.fetch_add(1, std::memory_order_seq_cst);
  Status status = kOk;
  for (;;) {
    u32 event = pool.free_event.load(std::memory_order_acquire);
    if ((*frame = free_list_pop(pool))) break;
    wake_providers(pool);
    futex_wait_interruptible(&pool.free_event, event, kSliceUs);
    if (ctx.interrupt && *ctx.interrupt) {
      status = fail(LS_INTERRUPTED, "interrupted while waiting for a free page frame");
      break;
    }
    if (now_ms() > deadline) {
      if ((*frame = free_list_pop(pool))) break;
      status =
          fail(LS_NO_FRAMES,
               "no page frame became free in %llu seconds; the buffer pool (%u pages) is too small",
               static_cast<unsigned long long>(kFrameWaitMs / 1000), pool.frame_count);
      break;
    }
  }
  pool.free_waiters.fetch_sub(1, std::memory_order_relaxed);
  return status;
}

}  // namespace ls
