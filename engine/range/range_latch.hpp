// range_latch.hpp - a latch that its slot's worker takes with what it does anyway.
//
// The slot's worker, nearly always the one that comes, holds the latch by being inside
// (RangeMemory) and saying so in the same word, if it then sees no other worker.  Another worker
// says first that it is there, takes a mutex, and waits until the slot's worker is not inside in
// this way.  Of these two the one that writes its word second in the order of sequential
// consistency sees the other's.  The slot's worker gives way, and comes again as others come.
#pragma once
#include "range/range_memory.hpp"

namespace ls {

template <typename P, typename Mutex>
class BiasedLatch {
 public:
  // By the slot's worker, outside.  True: holds, and is inside; memory.leave() ends both.
  bool try_enter(RangeMemory<P> &memory) {
    memory.enter(true);
    if (others_.load() == 0) return true;
    memory.leave();
    return false;
  }
  // By any worker, outside.  memory: of the caller.
  void lock(RangeMemory<P> &memory, u32 slot) {
    others_.fetch_add(1);
    mutex_.lock();
    while (memory.is_holding(slot)) P::yield();   // no worker waits inside
  }
  void unlock() {
    mutex_.unlock();
    others_.fetch_sub(1);
  }

 private:
  typename P::template Atomic<u32> others_{0};
  Mutex mutex_;
};

}  // namespace ls
