// lock_order.hpp - ranks of mutexes and latches (docs/concurrency.md): a lower one is taken first.
//
// Where LS_DEBUG_CHECKS is 1 a thread knows the ranks that it holds, and to wait against the order
// ends the process; only to try is always right.  Not under ThreadSanitizer, where optimistic
// readers hold the latch.
#pragma once
#include "base/types.hpp"

namespace ls {

// As docs/concurrency.md numbers them.
enum class LockRank : u8 {
  kLongAction = 3,
  kFileTable = 4,
  kFile = 5,
  kPage = 7,        // of a tree, in the order of the tree
  kPartition = 8,   // of the change buffer or the compressed page cache
  kIoStage = 10,
  kInnermost = 11,
  kAlone = 12,      // with no other held
};

#if defined(LS_DEBUG_CHECKS) && LS_DEBUG_CHECKS && !defined(__SANITIZE_THREAD__)
// The calling thread is going to wait for one.
void lock_wanted(LockRank rank);
// A page latch, or that of a frame which is not in a tree (rank 9).
void page_latch_wanted();
void lock_taken(LockRank rank);
void lock_left(LockRank rank);
#else
inline void lock_wanted(LockRank) {}
inline void page_latch_wanted() {}
inline void lock_taken(LockRank) {}
inline void lock_left(LockRank) {}
#endif

}  // namespace ls
