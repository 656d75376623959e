// huge_pages.cpp - asks for large pages as the pool fills.
#include "buffer/huge_pages.hpp"

#include "base/check.hpp"
#include "os/huge_page.hpp"

namespace ls {

namespace {

// About a millisecond for each, while users of its pages wait.
constexpr u32 kAtATime = 4;
// A page that is being read from disk, or no memory in one piece: it is tried again in later calls,
// then left.
constexpr u32 kAttempts = 20;

}  // namespace

HugePages::HugePages(const BufferPool &pool) : pool_(*pool.shared()) {
  const size_t from = reinterpret_cast<size_t>(&pool_);
  next_ = reinterpret_cast<u8 *>((from + kHugePage - 1) / kHugePage * kHugePage);
}

bool HugePages::advance() {
  const u32 used = pool_.frame_count - pool_.free_count.load(std::memory_order_relaxed);
  LS_ASSERT(used <= pool_.frame_count);
  const u8 *end = pool_.pages + u64{used} * kPageSize;
  for (u32 i = 0; i < kAtATime; i++) {
    if (next_ == nullptr || next_ + kHugePage > end) return false;
    switch (make_huge_page(next_)) {
      case HugePageAnswer::kNever: next_ = nullptr; return false;
      case HugePageAnswer::kLater: if (++attempts_ < kAttempts) return true; [[fallthrough]];
      case HugePageAnswer::kDone: break;
    }
    next_ += kHugePage;
    attempts_ = 0;
  }
  return true;
}

}  // namespace ls
