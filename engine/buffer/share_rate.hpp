// share_rate.hpp - is it worth to look for values with the same bytes? (vlog/value_claims.hpp)
//
// A look costs a value of 4 KiB a tenth of the time that it takes to store it.  So a file where few
// looks find anything makes them for few values only: for some contents, so that those which come
// again late are found again, and for all values of some turns, so that a few frequent contents
// are.  Where either finds enough, looks are made for all.  Words are changed without a lock: what
// is lost between two workers is a few looks.
#pragma once
#include <atomic>

#include "base/types.hpp"

namespace ls {

class ShareRate {
 public:
  enum class Look : u8 { kNone, kAlways, kAll, kOfContent, kOfTurn };
  // Of one with so many pages and this hash.
  Look choose(u32 pages, u64 hash) {
    if (pages >= kLargePages) return Look::kAlways;
    if (!sparse_.load(std::memory_order_relaxed)) return Look::kAll;
    if (hash % kShare == 0) return Look::kOfContent;
    const u32 turn = values_.fetch_add(1, std::memory_order_relaxed) / kTurn;
    return turn % kShare == 0 ? Look::kOfTurn : Look::kNone;
  }
  // What it came to.
  void note(Look look, bool found) {
    if (look == Look::kNone || look == Look::kAlways) return;
    Sample &sample = samples_[look == Look::kOfTurn];
    if (found) sample.found.fetch_add(1, std::memory_order_relaxed);
    const u32 window = look == Look::kAll ? kWindow : kTurn;
    if (sample.looked.fetch_add(1, std::memory_order_relaxed) + 1 < window) return;
    const bool enough = sample.found.load(std::memory_order_relaxed) * kWorth >= window;
    sample.reset();
    if (enough == sparse_.load(std::memory_order_relaxed)) reset(!enough);
  }
  void reset(bool sparse = false) {
    sparse_.store(sparse, std::memory_order_relaxed);
    for (Sample &sample : samples_) sample.reset();
  }
  bool is_sparse() const { return sparse_.load(std::memory_order_relaxed); }

 private:
  static constexpr u32 kLargePages = 16;   // a look costs next to nothing beside them
  static constexpr u32 kWorth = 16;        // one found of so many looks is enough
  static constexpr u32 kShare = 32;        // of contents, and of turns, one of so many
  static constexpr u32 kTurn = 64, kWindow = 256;   // values

  struct Sample {
    std::atomic<u32> looked{0}, found{0};
    void reset() {
      looked.store(0, std::memory_order_relaxed);
      found.store(0, std::memory_order_relaxed);
    }
  };
  std::atomic<bool> sparse_{false};
  std::atomic<u32> values_{0};   // that were not of those contents
  Sample samples_[2];
};

}  // namespace ls
