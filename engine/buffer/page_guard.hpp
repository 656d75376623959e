// page_guard.hpp - RAII over page latches (LeanStore paper, section 5.1).
//
//   OptimisticGuard  a version read; nothing held.  Data read through it counts only after valid().
//   SharedGuard      pessimistic shared.
//   ExclusiveGuard   exclusive; release() publishes a new version.
// Moves transfer; destructors release.  Guards are trivially abandonable by return: that is the
// "manual unwinding" of a restart (functions return Step::kRestart, guards release on the way; no
// longjmp, no exceptions).  Under ThreadSanitizer optimistic reads are taken under the shared latch
// (page copies would otherwise be reported).
#pragma once
#include <utility>

#include "base/check.hpp"
#include "buffer/pool.hpp"

namespace ls {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kOptimisticIsShared = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kOptimisticIsShared = true;
#else
inline constexpr bool kOptimisticIsShared = false;
#endif
#else
inline constexpr bool kOptimisticIsShared = false;
#endif

// Exclusive, if the version is still (or, after waiting for readers, still) the one read
// optimistically.
bool lock_exclusive_at(HybridLatch &latch, u64 version);

class OptimisticGuard {
 public:
  OptimisticGuard() = default;
  // Waits while exclusively latched.
  OptimisticGuard(BufferPool &pool, Frame *frame) : frame_(frame), page_(pool.page(frame)) {
    if constexpr (kOptimisticIsShared) {
      waited_ = !frame->latch.try_lock_shared();
      if (waited_) frame->latch.lock_shared();
      bool even = frame->latch.try_version(version_);
      LS_ASSERT(even);
      (void)even;
    } else {
      waited_ = !frame->latch.try_version(version_);
      if (waited_) version_ = frame->latch.version_wait();
    }
  }
  // Empty while exclusively latched.
  static OptimisticGuard try_now(BufferPool &pool, Frame *frame) {
    OptimisticGuard guard;
    if (kOptimisticIsShared && !frame->latch.try_lock_shared()) return guard;
    if (!frame->latch.try_version(guard.version_)) return guard;   // never, where it is shared
    guard.frame_ = frame;
    guard.page_ = pool.page(frame);
    return guard;
  }
  OptimisticGuard(OptimisticGuard &&other) noexcept
      : frame_(std::exchange(other.frame_, nullptr)),
        page_(other.page_),
        version_(other.version_),
        waited_(other.waited_) {}
  OptimisticGuard &operator=(OptimisticGuard &&other) noexcept {
    if (this != &other) {
      reset();
      frame_ = std::exchange(other.frame_, nullptr);
      page_ = other.page_;
      version_ = other.version_;
      waited_ = other.waited_;
    }
    return *this;
  }
  ~OptimisticGuard() { reset(); }

  // Everything read so far was consistent.
  [[nodiscard]] bool valid() const {
    return frame_ && (kOptimisticIsShared || frame_->latch.validate(version_));
  }
  Frame *frame() const { return frame_; }
  const u8 *page() const { return page_; }
  u64 version() const { return version_; }
  // Another actor had it exclusively when it was asked for.
  bool waited() const { return waited_; }
  explicit operator bool() const { return frame_ != nullptr; }
  void reset() {
    if (frame_ && kOptimisticIsShared) frame_->latch.unlock_shared();
    frame_ = nullptr;
  }
  // Let go of the page but remember the version, for lock_exclusive_at later.
  Frame *release(u64 *version) {
    Frame *frame = frame_;
    *version = version_;
    reset();
    return frame;
  }

  // For changes that no reader needs to notice (a swip's cool bit): exclusive between the two
  // calls, afterwards the guard is what it was, with the same version.  begin_change never waits;
  // false: not possible now.  still_same: no other actor changed the page in between (under
  // ThreadSanitizer the shared latch was given up for a moment).
  bool begin_change();
  void end_change();
  bool still_same() const;

 private:
  friend class SharedGuard;
  friend class ExclusiveGuard;
  Frame *frame_ = nullptr;
  const u8 *page_ = nullptr;
  u64 version_ = 0;
  bool waited_ = false;
};

class ExclusiveGuard {
 public:
  ExclusiveGuard() = default;
  // Upgrade; empty (operator bool false) when the version has changed.  Consumes the optimistic
  // guard either way.
  explicit ExclusiveGuard(BufferPool &pool, OptimisticGuard &&guard);
  // Adopt a frame that is exclusively latched already (new pages).
  static ExclusiveGuard adopt(BufferPool &pool, Frame *frame);
  static ExclusiveGuard lock(BufferPool &pool, Frame *frame);      // waits
  static ExclusiveGuard try_lock(BufferPool &pool, Frame *frame);  // empty when not free
  ExclusiveGuard(ExclusiveGuard &&other) noexcept;
  ExclusiveGuard &operator=(ExclusiveGuard &&other) noexcept;
  ~ExclusiveGuard() { reset(); }

  explicit operator bool() const { return frame_ != nullptr; }
  Frame *frame() const { return frame_; }
  u8 *page() const { return page_; }
  void reset();             // release
  void reset_unchanged();   // release without a new version
  // The one that reset() will leave behind.
  u64 version_after() const { return frame_->latch.held_version() + 1; }
  Frame *detach();          // keep latched, give up ownership

 private:
  Frame *frame_ = nullptr;
  u8 *page_ = nullptr;
};

class SharedGuard {
 public:
  SharedGuard() = default;
  // Upgrade; empty when the version has changed.
  explicit SharedGuard(BufferPool &pool, OptimisticGuard &&guard);
  static SharedGuard lock(BufferPool &pool, Frame *frame);
  SharedGuard(SharedGuard &&other) noexcept;
  SharedGuard &operator=(SharedGuard &&other) noexcept;
  ~SharedGuard() { reset(); }
  explicit operator bool() const { return frame_ != nullptr; }
  Frame *frame() const { return frame_; }
  const u8 *page() const { return page_; }
  void reset();

 private:
  Frame *frame_ = nullptr;
  const u8 *page_ = nullptr;
};

}  // namespace ls
