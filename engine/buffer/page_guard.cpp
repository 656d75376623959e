// page_guard.cpp - latches taken, passed on and given up.
#include "buffer/page_guard.hpp"

#include <sched.h>

#include "base/check.hpp"

namespace ls {

// ---- OptimisticGuard

bool OptimisticGuard::begin_change() {
  LS_ASSERT(frame_);
  if constexpr (!kOptimisticIsShared) return frame_->latch.try_upgrade(version_);
  frame_->latch.unlock_shared();
  if (frame_->latch.try_upgrade(version_)) return true;
  frame_->latch.lock_shared();
  return false;
}

void OptimisticGuard::end_change() {
  // Locking has added one; giving it up unchanged takes that back.
  LS_ASSERT(frame_->latch.held_version() == version_ + 1);
  frame_->latch.unlock_exclusive_unchanged();
  if constexpr (kOptimisticIsShared) frame_->latch.lock_shared();
}

bool OptimisticGuard::still_same() const { return frame_->latch.validate(version_); }

// ---- ExclusiveGuard

namespace {

// With optimistic guards that hold the shared latch an upgrade fails while any other reader is
// there.  Trying again for a while keeps restarts rare; waiting is out of the question (against the
// latch order).
constexpr int kUpgradeTries = 20;

bool upgrade(HybridLatch &latch, u64 version) {
  if (latch.try_upgrade(version)) return true;
  if constexpr (kOptimisticIsShared) {
    for (int i = 0; i < kUpgradeTries && latch.validate(version); i++) {
      sched_yield();
      if (latch.try_upgrade(version)) return true;
    }
  }
  return false;
}

}  // namespace

bool lock_exclusive_at(HybridLatch &latch, u64 version) {
  if (latch.try_upgrade(version)) return true;
  if (!latch.validate(version)) return false;
  latch.lock_exclusive();
  // Locking adds one to the version; unlocking unchanged takes it back.
  if (latch.validate(version + 1)) return true;
  latch.unlock_exclusive_unchanged();
  return false;
}

ExclusiveGuard::ExclusiveGuard(BufferPool &pool, OptimisticGuard &&guard) {
  LS_ASSERT(guard.frame());
  u64 version;
  Frame *frame = guard.release(&version);
  if (!upgrade(frame->latch, version)) return;
  frame_ = frame;
  page_ = pool.page(frame);
}

ExclusiveGuard ExclusiveGuard::adopt(BufferPool &pool, Frame *frame) {
  LS_ASSERT(frame->latch.is_exclusive());
  ExclusiveGuard guard;
  guard.frame_ = frame;
  guard.page_ = pool.page(frame);
  return guard;
}

ExclusiveGuard ExclusiveGuard::lock(BufferPool &pool, Frame *frame) {
  frame->latch.lock_exclusive();
  return adopt(pool, frame);
}

ExclusiveGuard ExclusiveGuard::try_lock(BufferPool &pool, Frame *frame) {
  if (!frame->latch.try_lock_exclusive()) return ExclusiveGuard();
  return adopt(pool, frame);
}

ExclusiveGuard::ExclusiveGuard(ExclusiveGuard &&other) noexcept
    : frame_(std::exchange(other.frame_, nullptr)), page_(std::exchange(other.page_, nullptr)) {}

ExclusiveGuard &ExclusiveGuard::operator=(ExclusiveGuard &&other) noexcept {
  if (this != &other) {
    reset();
    frame_ = std::exchange(other.frame_, nullptr);
    page_ = std::exchange(other.page_, nullptr);
  }
  return *this;
}

void ExclusiveGuard::reset() {
  if (frame_) frame_->latch.unlock_exclusive();
  frame_ = nullptr;
  page_ = nullptr;
}

void ExclusiveGuard::reset_unchanged() {
  if (frame_) frame_->latch.unlock_exclusive_unchanged();
  frame_ = nullptr;
  page_ = nullptr;
}

Frame *ExclusiveGuard::detach() {
  LS_ASSERT(frame_ && frame_->latch.is_exclusive());
  page_ = nullptr;
  return std::exchange(frame_, nullptr);
}

// ---- SharedGuard

SharedGuard::SharedGuard(BufferPool &pool, OptimisticGuard &&guard) {
  LS_ASSERT(guard.frame());
  if constexpr (kOptimisticIsShared) {
    frame_ = std::exchange(guard.frame_, nullptr);
  } else {
    u64 version;
    Frame *frame = guard.release(&version);
    if (!frame->latch.validate(version)) return;
    frame->latch.lock_shared();
    if (!frame->latch.validate(version)) {
      frame->latch.unlock_shared();
      return;
    }
    frame_ = frame;
  }
  page_ = pool.page(frame_);
}

SharedGuard SharedGuard::lock(BufferPool &pool, Frame *frame) {
  frame->latch.lock_shared();
  SharedGuard guard;
  guard.frame_ = frame;
  guard.page_ = pool.page(frame);
  return guard;
}

SharedGuard::SharedGuard(SharedGuard &&other) noexcept
    : frame_(std::exchange(other.frame_, nullptr)), page_(std::exchange(other.page_, nullptr)) {}

SharedGuard &SharedGuard::operator=(SharedGuard &&other) noexcept {
  if (this != &other) {
    reset();
    frame_ = std::exchange(other.frame_, nullptr);
    page_ = std::exchange(other.page_, nullptr);
  }
  return *this;
}

void SharedGuard::reset() {
  if (frame_) frame_->latch.unlock_shared();
  frame_ = nullptr;
  page_ = nullptr;
}

}  // namespace ls
