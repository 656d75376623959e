// version_leaves.hpp - where the entries of the version store probably are.
//
// An array beside the buffer pool with the frame that an entry was put into last, one element for
// the neighbours of a tree that mostly share a leaf.  A worker that looks for an entry asks that
// frame first, and mostly needs no descent (a third of the instructions of a reader that looks up
// an old version of every other row).  A guess: the frame may hold another page by now, and far
// apart entries share elements.
#pragma once
#include <atomic>
#include <bit>

#include "base/types.hpp"

namespace ls {

class VersionLeaves {
 public:
  // Elements for a pool of so many frames: with small transactions enough for all entries that fit
  // it.
  static constexpr u32 count_for(u64 frames) { return static_cast<u32>(std::bit_ceil(2 * frames)); }
  static constexpr size_t bytes_for(u64 frames) {
    return count_for(frames) * sizeof(std::atomic<u32>);
  }
  // memory: zeros.  trees: a power of two.
  void init(void *memory, u64 frames, u32 trees) {
    elements_ = static_cast<std::atomic<u32> *>(memory);
    mask_ = count_for(frames) - 1;
    trees_ = trees;
  }

  void note(u64 tn, u32 seq, u32 frame_index) {
    std::atomic<u32> &element = elements_[index(tn, seq)];
    // Neighbours lie in one cache line, and mostly it is there already.
    if (element.load(std::memory_order_relaxed) != frame_index + 1)
      element.store(frame_index + 1, std::memory_order_relaxed);
  }
  // False: no worker has put an entry there.
  bool guess(u64 tn, u32 seq, u32 *frame_index) const {
    const u32 element = elements_[index(tn, seq)].load(std::memory_order_relaxed);
    *frame_index = element - 1;
    return element != 0;
  }
  void prefetch(u64 tn, u32 seq) const { __builtin_prefetch(&elements_[index(tn, seq)]); }

 private:
  static constexpr u32 kTransactions = 2;   // a leaf has the entries of a few
  static constexpr u32 kEntries = 8;        // of one transaction: of a leaf's 20 or more

  u32 index(u64 tn, u32 seq) const {
    const u64 group = tn / trees_ / kTransactions + seq / kEntries;
    return static_cast<u32>(group * trees_ + (tn & (trees_ - 1))) & mask_;
  }

  std::atomic<u32> *elements_ = nullptr;
  u32 mask_ = 0;
  u32 trees_ = 1;
};

}  // namespace ls
