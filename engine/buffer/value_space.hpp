// value_space.hpp - what is known of the pages in a relation's file of values; in its FileSlot.
//
// Pages are 4 KiB.  All but the words that are atomic: under the mutex.
#pragma once
#include <atomic>

#include "base/types.hpp"
#include "buffer/share_rate.hpp"
#include "os/futex.hpp"

namespace ls {

struct ValueSpace {
  FutexMutex<LockRank::kLongAction> mutex;
  bool begun = false;              // since the slot was opened
  std::atomic<u64> number{0};      // from then on: of the file in the tree of vlog/value_tree.hpp
  u64 claim_entries = 0;           // in the tree
  PageNo end = 0;                  // pages below are values' or free
  PageNo allocated = 0;            // what the file has on disk
  // Pages below were there when it began: whether they are free follows from the rows, which are
  // counted one after the other.  ~0: it has not begun.
  std::atomic<PageNo> old_end{~PageNo{0}};
  std::atomic<u64> counted_below{0};   // rows below are counted; kAllCounted: all
  std::atomic<bool> counting_failed{false};   // old pages stay as they are
  std::atomic<u64> free_pages{0};
  // that were freed and could not be noted: free again when the file is opened the next time
  std::atomic<u64> lost_pages{0};
  // Rows that name pages which another row names, too, less the one; and their pages.  While rows
  // are counted it may be less than none.
  std::atomic<i64> shared_values{0}, shared_pages{0};
  // Changes of claims (vlog/value_claims.hpp) that have begun and that have ended, with their rows.
  std::atomic<u64> changes_begun{0}, changes_ended{0};
  ShareRate share_rate;
  // since the slot was opened: by workers, and by the keeper
  std::atomic<u64> written_pages{0}, moved_pages{0};

  static constexpr u64 kAllCounted = ~u64{0};

  bool is_counted() const {
    return counted_below.load(std::memory_order_acquire) == kAllCounted;
  }
  // By the opener of the slot.
  void reset() {
    begun = false;
    counting_failed.store(false, std::memory_order_relaxed);
    end = allocated = 0;
    claim_entries = 0;
    share_rate.reset();
    old_end.store(~PageNo{0}, std::memory_order_relaxed);
    for (std::atomic<i64> *word : {&shared_values, &shared_pages})
      word->store(0, std::memory_order_relaxed);
    for (std::atomic<u64> *word :
         {&number, &counted_below, &free_pages, &lost_pages, &written_pages, &moved_pages}) {
      word->store(0, std::memory_order_relaxed);
    }
  }
};

}  // namespace ls
