// failure.hpp - why a part that lies in shared memory cannot go on: the first thread that notes a
// failure says so, any process may read it.
//
// state: 0 -> 1 (the first thread writes `error`) -> 2 (readable).  Never reset: the host restarts
// everything.
#pragma once
#include <atomic>

#include "base/status.hpp"

namespace ls {

class Failure {
 public:
  // The calling thread's last_error() is the reason.
  void note(Status status);
  // error may be null.
  bool noted(ls_error *error) const;

 private:
  std::atomic<u32> state_{0};
  ls_error error_{};
};

}  // namespace ls
