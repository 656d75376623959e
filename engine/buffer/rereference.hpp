// rereference.hpp - re-reference rates: how long cool pages are given until they are wanted again.
//
// Second chance (LeanStore paper, section 6.2) knows of a page no more than whether it was wanted
// between two looks of a provider, and forgets that at once.  A leaf of an index is often wanted
// many times as often as a page of the rows behind it, and still is not in most such intervals.
// But pages of one file are alike: how often the cool ones of a file are wanted again is known well
// after some looks, and a provider learns it in passing, at no cost for workers.  So a cool page
// goes when it has been met so many times in vain as the square of what its file's re-reference
// rate is to the pool's, times four; a page of a file that is like the others, or not known yet, at
// the fourth, one that was only scanned at the first.  docs/decisions/0010-rereference-rates.md has
// the measurements.
#pragma once
#include <algorithm>
#include <atomic>

#include "base/types.hpp"

namespace ls {

// Looks at pages that had been cooled before: how many, and how many of these pages were hot again.
// Old ones count less and less.  Providers count without read-modify-write: a lost one does not
// matter.
struct RereferenceRate {
  std::atomic<u32> looks{0};
  std::atomic<u32> wanted{0};

  void note(bool was_wanted, u32 remembered) {
    u32 all = looks.load(std::memory_order_relaxed) + 1;
    u32 again = wanted.load(std::memory_order_relaxed) + was_wanted;
    if (all >= remembered) {
      all /= 2;
      again /= 2;
    }
    looks.store(all, std::memory_order_relaxed);
    wanted.store(again, std::memory_order_relaxed);
  }
  void reset() {
    looks.store(0, std::memory_order_relaxed);
    wanted.store(0, std::memory_order_relaxed);
  }
};

inline constexpr u32 kFileLooks = 4096;       // remembered
inline constexpr u32 kPoolLooks = 64 * 1024;
inline constexpr u32 kLooksKnown = 64;        // less says nothing
inline constexpr u32 kUsualLooks = 4;
// What a cold page of a file that is hot elsewhere may cost.
inline constexpr u32 kMostLooks = 12;

// At which look a cool page of the file goes.
inline u32 last_look(const RereferenceRate &file, const RereferenceRate &pool) {
  const u64 file_looks = file.looks.load(std::memory_order_relaxed),
            file_wanted = file.wanted.load(std::memory_order_relaxed);
  const u64 pool_looks = pool.looks.load(std::memory_order_relaxed),
            pool_wanted = pool.wanted.load(std::memory_order_relaxed);
  if (file_looks < kLooksKnown || pool_wanted == 0) return kUsualLooks;
  const u64 file_share = file_wanted * pool_looks, pool_share = pool_wanted * file_looks;
  const double ratio = static_cast<double>(file_share) / static_cast<double>(pool_share);
  const double looks = kUsualLooks * ratio * ratio + 0.5;
  return static_cast<u32>(std::clamp<double>(looks, 1, kMostLooks));
}

}  // namespace ls
