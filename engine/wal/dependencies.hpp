// dependencies.hpp - the workers' logs that a transaction's commit would have to wait for if each
// were flushed alone (LeanStore paper, section 7.2: remote flush avoidance; its table 3).
//
// Here all logs go to disk in one round, so nothing depends on this: it is counted, when asked for,
// to know what the choice costs or spares (docs/decisions/0002).  By page: the transaction has used
// a page that another worker has changed last, which is not durable yet when it commits.  By
// transaction: it has used a row that was written by a transaction of another worker that has
// committed and is not durable then.
//
// Private to a worker.
#pragma once
#include <algorithm>
#include <vector>

#include "wal/log.hpp"

namespace ls {

class Dependencies {
 public:
  explicit Dependencies(Log log) : log_(log) { own_.reserve(kMostOwn); }

  // A page was read or latched; gsn: of its last change.
  void use_page(Gsn gsn) {
    if (gsn > page_ && gsn > log_.hardened() && !std::binary_search(own_.begin(), own_.end(), gsn))
      page_ = gsn;
  }
  // A row was read: another worker's transaction has committed its newest version with this GSN.
  void use_row(Gsn commit) { row_ = std::max(row_, commit); }
  // The worker has drawn it.
  void draw(Gsn gsn) {
    // durable by now, most likely
    if (own_.size() == kMostOwn) own_.erase(own_.begin(), own_.begin() + kMostOwn / 2);
    own_.push_back(gsn);
  }
  // The worker's transaction commits.
  void count_commit() {
    const Gsn hardened = log_.hardened();
    // a row lies in a page
    log_.count_dependencies(std::max(page_, row_) > hardened, row_ > hardened);
  }
  void forget() { page_ = row_ = 0; }

 private:
  static constexpr size_t kMostOwn = 8192;

  Log log_;
  Gsn page_ = 0, row_ = 0;   // the latest of each
  std::vector<Gsn> own_;     // drawn by this worker, ascending
};

}  // namespace ls
