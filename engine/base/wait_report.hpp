// wait_report.hpp - tells the host what one of its workers sleeps for: a word of the host's holds a
// code of the host's meanwhile.
#pragma once
#include "base/types.hpp"
#include "leanstore/engine.h"

namespace ls {

struct HostWaits {
  volatile u32 *word = nullptr;   // null: the host does not want to know
  u32 codes[LS_WAITS] = {};
};

// For as long as it lives.  Waits may lie within waits: the word gets back what it held.
class WaitReport {
 public:
  WaitReport(const HostWaits *host, ls_wait what) : word_(host ? host->word : nullptr) {
    if (!word_) return;
    before_ = *word_;
    store(host->codes[what]);
  }
  ~WaitReport() {
    if (word_) store(before_);
  }
  WaitReport(const WaitReport &) = delete;
  WaitReport &operator=(const WaitReport &) = delete;

 private:
  // Others look at it at any time.
  void store(u32 code) { __atomic_store_n(word_, code, __ATOMIC_RELAXED); }

  volatile u32 *word_;
  u32 before_ = 0;
};

}  // namespace ls
