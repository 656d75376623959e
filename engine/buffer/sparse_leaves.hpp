// sparse_leaves.hpp - what page providers tell the cleaner: frames with pages that are to be
// written soon and have room to spare.
#pragma once
#include <atomic>

#include "base/types.hpp"

namespace ls {

// Any number put, one takes; what is not taken in time is overwritten.
struct SparseLeaves {
  static constexpr u32 kCount = 256;
  std::atomic<u32> cursor{0};
  std::atomic<u32> frames[kCount]{};   // index + 1; 0: none

  void put(u32 frame) {
    frames[cursor.fetch_add(1, std::memory_order_relaxed) % kCount].store(
        frame + 1, std::memory_order_release);
  }
};

}  // namespace ls
