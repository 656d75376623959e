// failpoint.cpp - arming, running, disarming.
//
// A thread counts itself first, then it looks for the action.  The end of an ArmedFailpoint takes
// the action away first, then it looks at the count.  Both are sequentially consistent: either the
// thread finds no action, or it is waited for.
#include "base/failpoint.hpp"

#if LS_FAILPOINTS

#include <sched.h>

#include <utility>

#include "base/check.hpp"

namespace ls {

constinit FailpointState failpoint_states[static_cast<u32>(Failpoint::kCount)];

void run_failpoint(FailpointState &state) noexcept {
  state.inside.fetch_add(1, std::memory_order_seq_cst);
  if (const FailpointAction *action = state.action.load(std::memory_order_seq_cst)) (*action)();
  // Release: what the action did comes before the disarming; pairs with ~ArmedFailpoint.
  state.inside.fetch_sub(1, std::memory_order_release);
}

ArmedFailpoint::ArmedFailpoint(Failpoint point, FailpointAction action)
    : state_(failpoint_states[static_cast<u32>(point)]), action_(std::move(action)) {
  const FailpointAction *none = nullptr;
  LS_CHECK(state_.action.compare_exchange_strong(none, &action_, std::memory_order_seq_cst),
           "a failpoint is armed twice");
}

ArmedFailpoint::~ArmedFailpoint() {
  state_.action.store(nullptr, std::memory_order_seq_cst);
  while (state_.inside.load(std::memory_order_seq_cst) != 0) sched_yield();
}

}  // namespace ls

#endif
