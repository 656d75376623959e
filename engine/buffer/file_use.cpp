// file_use.cpp - the slots that workers use, and whether one is in use.
#include "buffer/file_use.hpp"

#include "base/interrupt.hpp"

namespace ls {

namespace {

constexpr i64 kClosingSliceUs = 20'000;

bool in_line(const FileUses &line, u32 index) {
  for (const std::atomic<u32> &place : line.slots) {
    if (place.load(std::memory_order_seq_cst) == index + 1) return true;
  }
  return false;
}

}  // namespace

bool file_in_use(const PoolShared &pool, const FileSlot &file) {
  if (file.further_uses.load(std::memory_order_seq_cst) != 0) return true;
  for (u32 i = 0; i < pool.use_lines; i++) {
    if (in_line(pool.uses[i], file.index)) return true;
  }
  return false;
}

void FileUse::begin_also(Ctx &ctx, const FileUse &other) {
  LS_CHECK(!place_ && other.place_, "a use to be doubled has not begun");
  announce(ctx, *other.file_);
}

// Being closed, open in another slot, closed, or dropped.
Status FileUse::begin_elsewhere(Ctx &ctx, FileHandle *file) {
  LS_ASSERT(latches_held() == 0);
  PoolShared &pool = *ctx.pool->shared();
  for (;;) {
    const u32 event = pool.open_event.load(std::memory_order_acquire);
    if (file->slot && try_begin(ctx, *file)) return kOk;
    const FileSlot *slot = file->slot;
    const bool here = slot && slot->file_no.load(std::memory_order_acquire) == file->number;
    const FileState state = here ? slot->state.load(std::memory_order_acquire) : FileState::kUnused;
    const bool closing = state == FileState::kClosing || state == FileState::kClosed;
    if (closing || state == FileState::kOpening) {
      if (interrupt_pending(ctx.interrupt)) {
        return fail(LS_INTERRUPTED, "interrupted while a relation file was being closed");
      }
      WaitReport report(&ctx.waits, LS_WAIT_OPEN_RELATION);
      wake_providers(pool);
      futex_wait_interruptible(&pool.open_event, event, kClosingSliceUs);
      continue;
    }
    if (state == FileState::kActive) continue;   // since
    LS_TRY(ctx.pool->reopen_file(ctx, file));
  }
}

}  // namespace ls
