// tn_eras.hpp - from a transaction number back to the host's transaction id, over all starts.
//
// TN = full transaction id + an offset, which is the same from start to start unless ids would come
// out below TNs that were used: a host that loses the end of its log gives some again, while this
// log has kept what they wrote.  An era is a range of TNs with one offset.  So rows tell for ever
// which one wrote them, and no two transactions look the same.
//
// ERA-1  Eras ascend, and every TN that was ever used lies in the last one that begins at or below
//        it.
// ERA-2  The file is on disk before the first TN of its last era is used.  What a start has added
//        that failed before it announced its TNs (TWOPH-4 in recovery/two_phase.hpp) is taken back
//        by the next one, which begins at or below it.
// ERA-3  No more than kMaxTnEras: of those before nothing is known.  (That many crashes with ids
//        lost in each.)
// ERA-4  With a host's log a start says in the log where its numbers begin, before anything that
//        has one: a copy of the store may be older than the starts in its log.
// ERA-5  When a standby is promoted one actor adds an era while readers ask.  They ask again when
//        `changes_`, odd meanwhile, has moved.
#pragma once
#include <atomic>

#include "base/status.hpp"
#include "base/types.hpp"

namespace ls {

inline constexpr u32 kMaxTnEras = 1000;

struct TnEra {
  Tn first;
  u64 offset;
};

class TnEras {
 public:
  // TNs from `first` on, none of which was ever used, have this offset.  False: that was so before.
  bool add(Tn first, u64 offset);
  // 0: not known any more.
  u64 full_xid(Tn tn) const;

  // <data_dir>/tn_eras.  Absent: *exists false.
  Status read(const char *data_dir, bool *exists);
  Status write(const char *data_dir) const;

  u32 count() const { return count_.load(std::memory_order_relaxed); }

 private:
  struct SharedEra {
    std::atomic<Tn> first;
    std::atomic<u64> offset;
  };
  TnEra era(u32 i) const {
    return {eras_[i].first.load(std::memory_order_relaxed),
            eras_[i].offset.load(std::memory_order_relaxed)};
  }
  void set_era(u32 i, const TnEra &to) {
    eras_[i].first.store(to.first, std::memory_order_relaxed);
    eras_[i].offset.store(to.offset, std::memory_order_relaxed);
  }
  void set_count(u32 count) { count_.store(count, std::memory_order_relaxed); }
  bool add_one(Tn first, u64 offset);

  std::atomic<u32> changes_{0};
  std::atomic<u32> count_{0};
  SharedEra eras_[kMaxTnEras]{};
};

}  // namespace ls
