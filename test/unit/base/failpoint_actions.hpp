// failpoint_actions.hpp - what tests do at failpoints (base/failpoint.hpp).
#pragma once
#include <utility>

#include "base/failpoint.hpp"

#if LS_FAILPOINTS

namespace ls::test {

// The first thread that comes by acts, once: what it does may come by again, as another actor.
class OnceAt {
 public:
  OnceAt(Failpoint point, FailpointAction act)
      : act_(std::move(act)), armed_(point, [this] {
          if (!reached_.exchange(true)) act_();
        }) {}
  bool reached() const { return reached_.load(); }

 private:
  const FailpointAction act_;
  std::atomic<bool> reached_{false};
  ArmedFailpoint armed_;   // disarmed before what it refers to goes
};

}  // namespace ls::test

#endif
